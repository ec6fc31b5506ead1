/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A list of network interfaces that replaces that of the host, for the whole program:
 * getifaddrs() and freeifaddrs() of the C library, and what core/netif.c reads of them in
 * /proc/net and /sys/class/net.
 */
#ifndef FABTESTS_COMMON_FAKE_IFACES_H
#define FABTESTS_COMMON_FAKE_IFACES_H

#include <stddef.h>

/* An empty list, no routes, no bridges. The directory is removed when the process ends. */
void fake_ifaces_start(void);
/* Adds an address (at most 16) of an interface; flags: IFF_UP and so on. */
void fake_ifaces_add(const char *name, const char *ip, unsigned flags);
/* Keeps the first entries only. */
void fake_ifaces_keep(size_t cnt);
/* Makes an interface a bridge. */
void fake_ifaces_be_bridge(const char *name);
/* The lines below the head of /proc/net/route, and all of /proc/net/ipv6_route. */
void fake_ifaces_routes(const char *v4, const char *v6);

#endif
