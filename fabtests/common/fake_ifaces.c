/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Network interfaces of tests: see fake_ifaces.h.
 */
#include "common/fake_ifaces.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/addr.h"
#include "core/netif.h"

#define MAX	16

static struct ifaddrs entries[MAX];
static struct tagrv_addr addrs[MAX];
static size_t cnt;

static char dir[] = "/tmp/tagrv-ifaces-XXXXXX";
static struct tagrv_netif_dirs dirs = { .proc_net = dir, .class_net = dir };

int getifaddrs(struct ifaddrs **list)
{
	*list = cnt ? entries : NULL;
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	(void) list;
}

static void require(int ok)
{
	if (ok)
		return;
	perror("fake_ifaces");
	abort();
}

static void clean(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	require(!system(command));
}

void fake_ifaces_start(void)
{
	strcpy(dir + sizeof(dir) - 7, "XXXXXX");
	require(mkdtemp(dir) != NULL);
	atexit(clean);
	cnt = 0;
	tagrv_netif_dirs_set(&dirs);
}

void fake_ifaces_keep(size_t kept)
{
	cnt = kept;
	if (cnt)
		entries[cnt - 1].ifa_next = NULL;
}

void fake_ifaces_add(const char *name, const char *ip, unsigned flags)
{
	struct tagrv_addr *addr = &addrs[cnt];
	struct ifaddrs *ifa = &entries[cnt];

	require(cnt < MAX);
	memset(addr, 0, sizeof(*addr));
	addr->sa.sa_family = strchr(ip, ':') ? AF_INET6 : AF_INET;
	require(inet_pton(addr->sa.sa_family, ip, addr->sa.sa_family == AF_INET ?
			  (void *) &addr->in.sin_addr :
			  (void *) &addr->in6.sin6_addr) == 1);
	*ifa = (struct ifaddrs) {
		.ifa_name = (char *) name, .ifa_addr = &addr->sa, .ifa_flags = flags,
	};
	if (cnt++)
		ifa[-1].ifa_next = ifa;
}

void fake_ifaces_be_bridge(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	require(!mkdir(path, 0700) || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/%s/bridge", dir, name);
	require(!mkdir(path, 0700));
}

static void write_file(const char *name, const char *head, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	require(f != NULL);
	require(fprintf(f, "%s%s", head, text) >= 0);
	require(!fclose(f));
}

void fake_ifaces_routes(const char *v4, const char *v6)
{
	write_file("route", "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\t"
		   "Mask\t\tMTU\tWindow\tIRTT\n", v4);
	write_file("ipv6_route", "", v6);
}
