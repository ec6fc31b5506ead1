/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Network interfaces of this host: see netif.h.
 */
#include "core/netif.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <net/route.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/lack.h"

static const struct tagrv_netif_dirs host = {
	.proc_net = "/proc/net", .class_net = "/sys/class/net",
};
static const struct tagrv_netif_dirs *dirs = &host;

void tagrv_netif_dirs_set(const struct tagrv_netif_dirs *other)
{
	dirs = other;
}

bool tagrv_netif_is_link_local(const struct tagrv_addr *addr)
{
	if (addr->sa.sa_family == AF_INET)
		return ntohl(addr->in.sin_addr.s_addr) >> 16 == 0xa9fe;
	return addr->sa.sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&addr->in6.sin6_addr);
}

/* ---- default route ---- */

struct route {
	char	iface[IF_NAMESIZE];
	unsigned flags, metric;
};

/* Whether a line of /proc/net/route is that of a default route. */
static bool read_v4(const char *line, struct route *route)
{
	unsigned dest, mask;

	return sscanf(line, "%15s %x %*x %x %*d %*d %u %x", route->iface, &dest,
		      &route->flags, &route->metric, &mask) == 5 && !dest && !mask;
}

/* The same of /proc/net/ipv6_route. */
static bool read_v6(const char *line, struct route *route)
{
	char dest[33];
	unsigned bits;

	return sscanf(line, "%32s %x %*32s %*x %*32s %x %*x %*x %x %15s", dest, &bits,
		      &route->metric, &route->flags, route->iface) == 5 &&
	       !bits && strspn(dest, "0") == 32;
}

/* Writes the interface of the default route, "" if there is none. */
static void find_default(int family, char iface[IF_NAMESIZE])
{
	struct route route, best = { .metric = UINT_MAX };
	char path[128], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dirs->proc_net,
		 family == AF_INET ? "route" : "ipv6_route");
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (!(family == AF_INET ? read_v4 : read_v6)(line, &route) ||
		    (route.flags & (RTF_UP | RTF_REJECT)) != RTF_UP ||
		    (best.iface[0] && route.metric >= best.metric))
			continue;
		best = route;
	}
	if (f)
		fclose(f);
	memcpy(iface, best.iface, IF_NAMESIZE);
}

/* ---- choice ---- */

static bool is_bridge(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s/bridge", dirs->class_net, name);
	return !access(path, F_OK);
}

/* How well an interface that nobody named suits; 0: not at all. */
static int rank(const struct ifaddrs *ifa, bool is_local, const char *route)
{
	bool is_default = !strcmp(ifa->ifa_name, route);

	if (is_local || ifa->ifa_flags & IFF_LOOPBACK ||
	    (!is_default && is_bridge(ifa->ifa_name)))
		return 0;
	return !(ifa->ifa_flags & IFF_RUNNING) ? 2 : is_default ? 4 : 3;
}

static int rank_named(const struct ifaddrs *ifa, bool is_local, const char *name)
{
	if (strcmp(ifa->ifa_name, name))
		return 0;
	return is_local ? 1 : ifa->ifa_flags & IFF_RUNNING ? 3 : 2;
}

static int addr_of_family(const char *name, int family, struct tagrv_addr *addr)
{
	char route[IF_NAMESIZE] = "";
	struct ifaddrs *list;
	int best = 0;

	if (getifaddrs(&list))
		return tagrv_lack_or(errno, -FI_ENODATA);
	if (!name)
		find_default(family, route);
	for (struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
		struct tagrv_addr one;
		bool is_local;
		int r;

		if (!ifa->ifa_addr || ifa->ifa_addr->sa_family != family ||
		    !(ifa->ifa_flags & IFF_UP) ||
		    tagrv_addr_from(&one, ifa->ifa_addr, 0))
			continue;
		is_local = tagrv_netif_is_link_local(&one);
		r = name ? rank_named(ifa, is_local, name) : rank(ifa, is_local, route);
		if (r > best) {
			best = r;
			*addr = one;
		}
	}
	freeifaddrs(list);
	return best ? 0 : -FI_ENODATA;
}

int tagrv_netif_addr(const char *name, int family, struct tagrv_addr *addr)
{
	int ret = addr_of_family(name, family == AF_UNSPEC ? AF_INET : family, addr);

	if (ret == -FI_ENODATA && family == AF_UNSPEC)
		ret = addr_of_family(name, AF_INET6, addr);
	return ret;
}
