/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Network interfaces of this host: which of their addresses peers are told.
 */
#ifndef TAGRV_CORE_NETIF_H
#define TAGRV_CORE_NETIF_H

#include "core/addr.h"

/*
 * The address of the named interface, or (name NULL) of the one that most probably leads
 * to other hosts: that of the default route, else the first with a carrier, else the
 * first that is up. Without a name, never loopback, an address that is valid on one link
 * only (169.254/16, fe80::), or that of a bridge, such as docker0 and virbr0, which
 * virtual machines of this host are behind; unless the default route takes the bridge.
 *
 * family: AF_INET, AF_INET6, or AF_UNSPEC: IPv4, else IPv6. 0; -FI_ENODATA: none;
 * -FI_ENOMEM, -FI_EMFILE: not known.
 */
int tagrv_netif_addr(const char *name, int family, struct tagrv_addr *addr)
	TAGRV_WARN_UNUSED;

/* Whether the address means nothing outside of its link: 169.254/16 or fe80::/10. */
bool tagrv_netif_is_link_local(const struct tagrv_addr *addr);

/* Where the kernel describes interfaces and routes. */
struct tagrv_netif_dirs {
	const char *proc_net, *class_net;	/* "/proc/net", "/sys/class/net" */
};

/* For tests only, before any other thread runs. The caller keeps the struct. */
void tagrv_netif_dirs_set(const struct tagrv_netif_dirs *dirs);

#endif
