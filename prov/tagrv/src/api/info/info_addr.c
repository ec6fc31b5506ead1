/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: node, service and hints become source and destination addresses.
 *
 * The source is the first of these that is there: the address named by the call,
 * the one in the hints, FI_TAGRV_IFACE, loopback (for a domain or a destination
 * of this host), the device's own address, that of its network interface, the
 * address that core/netif.c prefers, loopback.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/info/info_priv.h"
#include "core/lack.h"
#include "core/log.h"
#include "core/netif.h"

static int family_of_format(uint32_t format, int *family)
{
	switch (format) {
	case FI_FORMAT_UNSPEC:
	case FI_SOCKADDR:
		*family = AF_UNSPEC;
		return 0;
	case FI_SOCKADDR_IN:
		*family = AF_INET;
		return 0;
	case FI_SOCKADDR_IN6:
		*family = AF_INET6;
		return 0;
	default:
		tagrv_info("fi_getinfo: address format %u is not supported\n",
			   format);
		return -FI_ENODATA;
	}
}

/* The default family: IPv4, unless interfaces have IPv6 addresses only. */
static int default_family(const struct tagrv_params *params, int *family)
{
	const char *iface = params->iface[0] ? params->iface : NULL;
	struct tagrv_addr addr;
	struct in6_addr raw;
	int ret;

	*family = AF_INET;
	if (iface && inet_pton(AF_INET, iface, &raw) == 1)
		return 0;
	if (iface && inet_pton(AF_INET6, iface, &raw) == 1) {
		*family = AF_INET6;
		return 0;
	}
	ret = tagrv_netif_addr(iface, AF_UNSPEC, &addr);
	if (!ret)
		*family = addr.sa.sa_family;
	return ret == -FI_ENODATA ? 0 : ret;
}

/* The first address of the preferred family, else the first one. */
static const struct addrinfo *choose(const struct addrinfo *list, int preferred)
{
	for (const struct addrinfo *ai = list; ai; ai = ai->ai_next)
		if (ai->ai_family == preferred)
			return ai;
	return list;
}

/*
 * Has the application chosen this provider by name? libfabric asks all providers
 * about a node, which may be a name that only another provider understands:
 * otherwise an unknown node is not worth a warning.
 */
static bool is_chosen(const struct tagrv_ask *ask)
{
	const char *chosen = getenv("FI_PROVIDER");

	if (ask->flags & TAGRV_FLAG_INTERNAL)
		return false;
	if (ask->hints && ask->hints->fabric_attr &&
	    ask->hints->fabric_attr->prov_name)
		chosen = ask->hints->fabric_attr->prov_name;
	return chosen && strstr(chosen, tagrv_prov.name);
}

static TAGRV_COLD void log_unresolved(const struct tagrv_ask *ask,
				      const char *node, const char *service,
				      const char *why)
{
	if (!node)
		node = "-";
	if (!service)
		service = "-";
	if (is_chosen(ask))
		tagrv_warn("fi_getinfo: node %s, service %s: %s; use an IP "
			   "address or a name that getent ahosts finds\n",
			   node, service, why);
	else
		tagrv_info("fi_getinfo: node %s, service %s: %s\n", node,
			   service, why);
}

static int resolve_name(const struct tagrv_ask *ask, const char *node,
			const char *service, struct tagrv_addr *addr)
{
	const struct addrinfo hints = {
		.ai_family = ask->family,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = ask->flags & FI_NUMERICHOST ? AI_NUMERICHOST : 0,
	};
	const struct addrinfo *one;
	struct addrinfo *list;
	int ret, family;

	ret = default_family(&ask->params, &family);
	if (ret)
		return ret;
	ret = getaddrinfo(node, service, &hints, &list);
	if (ret) {
		int code = ret == EAI_MEMORY ? -FI_ENOMEM :
			   ret == EAI_SYSTEM ? tagrv_lack_or(errno, -FI_ENODATA) :
					       -FI_ENODATA;

		log_unresolved(ask, node, service, gai_strerror(ret));
		return code;
	}
	one = choose(list, family);
	ret = tagrv_addr_from(addr, one->ai_addr, one->ai_addrlen);
	freeaddrinfo(list);
	return ret ? -FI_ENODATA : 0;
}

static int from_hint(const void *raw, size_t len, struct tagrv_addr *addr)
{
	if (!raw || !len)
		return 0;
	return tagrv_addr_from(addr, raw, len) ? -FI_ENODATA : 0;
}

static int resolve_source(struct tagrv_ask *ask, const char *node,
			  const char *service)
{
	struct tagrv_addr any;
	int ret;

	if (ask->flags & FI_SOURCE && node)
		return resolve_name(ask, node, service, &ask->src);
	if (ask->flags & FI_SOURCE && service) {
		ret = resolve_name(ask, NULL, service, &any);
		if (!ret)
			ask->src_port = tagrv_addr_port(&any);
		return ret;
	}
	return ask->hints ? from_hint(ask->hints->src_addr,
				      ask->hints->src_addrlen, &ask->src) : 0;
}

static int resolve_dest(struct tagrv_ask *ask, const char *node,
			const char *service)
{
	if (!(ask->flags & FI_SOURCE) && (node || service))
		return resolve_name(ask, node, service, &ask->dest);
	return ask->hints ? from_hint(ask->hints->dest_addr,
				      ask->hints->dest_addrlen, &ask->dest) : 0;
}

/*
 * 0: this is an address of this host, because a socket can be bound to it; -FI_ENODATA: it
 * is not; -FI_ENOMEM, -FI_EMFILE: that is not known.
 */
static int check_local(const struct tagrv_addr *addr)
{
	struct tagrv_addr any_port = *addr;
	int fd, ret = 0;

	tagrv_addr_set_port(&any_port, 0);
	fd = socket(addr->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return tagrv_lack_or(errno, -FI_ENODATA);
	if (bind(fd, &any_port.sa, (socklen_t) tagrv_addr_len(&any_port)))
		ret = tagrv_lack_or(errno, -FI_ENODATA);
	close(fd);
	return ret;
}

/* Source, destination and address format must have the same family. */
static int settle_family(struct tagrv_ask *ask)
{
	int src = ask->src.sa.sa_family, dest = ask->dest.sa.sa_family;
	char text[TAGRV_ADDR_STRLEN];
	int family = ask->family, ret = 0;

	if (!family && (src || dest))
		family = src ? src : dest;
	else if (!family)
		ret = default_family(&ask->params, &family);
	if (ret)
		return ret;
	if ((src && src != family) || (dest && dest != family)) {
		tagrv_info("fi_getinfo: source, destination and address format "
			   "do not agree on IPv4 or IPv6\n");
		return -FI_ENODATA;
	}
	if (src)
		ret = check_local(&ask->src);
	if (ret == -FI_ENODATA)
		tagrv_info("fi_getinfo: source %s is no address of this "
			   "host\n", tagrv_addr_str(&ask->src, text,
						    sizeof(text)));
	if (ret)
		return ret;
	ask->family = family;
	return 0;
}

static void loopback(int family, struct tagrv_addr *addr)
{
	memset(addr, 0, sizeof(*addr));
	addr->sa.sa_family = (sa_family_t) family;
	if (family == AF_INET)
		addr->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		addr->in6.sin6_addr = in6addr_loopback;
}

static bool is_loopback(const struct tagrv_addr *addr)
{
	if (addr->sa.sa_family == AF_INET)
		return ntohl(addr->in.sin_addr.s_addr) >> 24 == 127;
	return addr->sa.sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&addr->in6.sin6_addr);
}

/* The address that FI_TAGRV_IFACE stands for: its own or an interface's. */
static int find_iface(const struct tagrv_params *params, int family,
		       struct tagrv_addr *addr)
{
	static atomic_bool warned;
	int ret = -FI_ENODATA;

	memset(addr, 0, sizeof(*addr));
	addr->sa.sa_family = (sa_family_t) family;
	if (inet_pton(family, params->iface, family == AF_INET ?
		      (void *) &addr->in.sin_addr :
		      (void *) &addr->in6.sin6_addr) == 1)
		ret = check_local(addr);
	if (ret == -FI_ENODATA)
		ret = tagrv_netif_addr(params->iface, family, addr);
	if (ret != -FI_ENODATA)
		return ret;
	/* Once, because programs call fi_getinfo again and again. */
	if (!atomic_exchange(&warned, true))
		tagrv_warn("FI_TAGRV_IFACE=%s is neither an interface that is "
			   "up nor an IPv%d address of this host (see ip "
			   "addr)\n", params->iface, family == AF_INET ? 4 : 6);
	return -FI_ENODATA;
}

/* FI_TAGRV_IFACE is the source when neither call nor hints name one. */
static int apply_iface(struct tagrv_ask *ask)
{
	int ret;

	if (ask->src.sa.sa_family || !ask->params.iface[0])
		return 0;
	ret = find_iface(&ask->params, ask->family, &ask->src);
	if (!ret)
		tagrv_addr_set_port(&ask->src, ask->src_port);
	return ret;
}

int tagrv_info_resolve(struct tagrv_ask *ask, const char *node,
		       const char *service)
{
	int ret;

	ret = family_of_format(ask->hints ? ask->hints->addr_format :
					    FI_FORMAT_UNSPEC, &ask->family);
	if (!ret)
		ret = resolve_source(ask, node, service);
	if (!ret)
		ret = resolve_dest(ask, node, service);
	if (!ret)
		ret = settle_family(ask);
	return ret ? ret : apply_iface(ask);
}

/* The address of the device or of its network interface. */
static int own_addr(const struct tagrv_ask *ask,
		    const struct tagrv_device_desc *desc, struct tagrv_addr *src)
{
	struct tagrv_addr addr;
	int ret;

	if (!desc)
		return -FI_ENODATA;
	if (desc->addr.sa.sa_family == ask->family) {
		*src = desc->addr;
		return 0;
	}
	if (!desc->iface[0])
		return -FI_ENODATA;
	ret = tagrv_netif_addr(desc->iface, ask->family, &addr);
	if (!ret && tagrv_netif_is_link_local(&addr))
		ret = -FI_ENODATA;
	if (!ret)
		*src = addr;
	return ret;
}

static int choose_host(const struct tagrv_ask *ask,
		       const struct tagrv_device_desc *desc,
		       struct tagrv_addr *src)
{
	bool local = desc && tagrv_info_is_local(desc->name);
	int ret = -FI_ENODATA;

	if (!local && !is_loopback(&ask->dest)) {
		ret = own_addr(ask, desc, src);
		if (ret == -FI_ENODATA)
			ret = tagrv_netif_addr(NULL, ask->family, src);
	}
	if (ret == -FI_ENODATA) {
		loopback(ask->family, src);
		ret = 0;
	}
	return ret;
}

int tagrv_info_source(const struct tagrv_ask *ask,
		      const struct tagrv_device_desc *desc,
		      struct tagrv_addr *src)
{
	int ret;

	if (ask->src.sa.sa_family) {
		*src = ask->src;
		return 0;
	}
	ret = choose_host(ask, desc, src);
	if (!ret)
		tagrv_addr_set_port(src, ask->src_port);
	return ret;
}

int tagrv_info_default_source(const char *domain, uint32_t addr_format,
			      struct tagrv_addr *src)
{
	const struct tagrv_device_desc *desc = NULL;
	struct tagrv_device_desc *descs;
	struct tagrv_ask ask = { 0 };
	size_t cnt;
	int ret, lack;

	tagrv_param_read(&ask.params);
	ret = family_of_format(addr_format, &ask.family);
	if (ret)
		return ret;
	if (!ask.family)
		ret = default_family(&ask.params, &ask.family);
	if (!ret)
		ret = apply_iface(&ask);
	if (ret)
		return ret;
	ret = tagrv_info_devices(&ask.params, true, &descs, &cnt, &lack);
	if (ret == -FI_ENODATA) {
		descs = NULL;
		cnt = 0;
	} else if (ret) {
		return ret;
	}
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(descs[i].name, domain))
			desc = &descs[i];
	ret = tagrv_info_source(&ask, desc, src);
	free(descs);
	return ret;
}
