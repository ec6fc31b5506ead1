/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the source address of a socket says about the listener that a REQ names,
 * and how often listeners are asked for REQs sent in their names (conn_ask.c).
 *
 * A stranger can have us dial any address by naming it. So asking is limited for
 * the whole endpoint, and much more so for addresses that are not the stranger's.
 * Peers of hosts with several addresses in one network, or behind NAT, look the same;
 * their listeners confirm, and such questions do not count. A stranger gains nothing by
 * a listener of its own that confirms: each answer gives back what its question took.
 */
#include <ifaddrs.h>
#include <string.h>

#include "wireup/wireup_net.h"
#include "wireup/wireup_priv.h"

/* ms of asking that may be used in advance, and what one question uses up. */
#define ASK_BURST	1000
#define ASK_NEAR	8	/* of a listener of the stranger's own host */
#define ASK_FAR		64

#define OWN_AGE		1000	/* ms, as old as our addresses may be */

static bool is_same_ip(const struct tagrv_addr *a, const struct tagrv_addr *b)
{
	size_t a_len, b_len;
	const void *a_ip = tagrv_addr_ip(a, &a_len);
	const void *b_ip = tagrv_addr_ip(b, &b_len);

	return a_len == b_len && !memcmp(a_ip, b_ip, a_len);
}

static bool is_loopback(const struct tagrv_addr *addr)
{
	size_t len;
	const uint8_t *ip = tagrv_addr_ip(addr, &len);

	return len == sizeof(struct in_addr) ? ip[0] == IN_LOOPBACKNET :
	       IN6_IS_ADDR_LOOPBACK(&addr->in6.sin6_addr);
}

/*
 * Reads the addresses of this host if they are old. Each accepted socket asks for them,
 * and a flood of sockets must not cost a read each. If they cannot be read (no descriptor
 * is left), the old ones stay, and the next socket tries again.
 */
static void renew_own(struct tagrv_wireup *wireup)
{
	struct ifaddrs *list;

	if ((wireup->own && wireup->now < wireup->own_until) || getifaddrs(&list))
		return;
	tagrv_wireup_free_own(wireup);
	wireup->own = list;
	wireup->own_until = wireup->now + OWN_AGE;
}

void tagrv_wireup_free_own(struct tagrv_wireup *wireup)
{
	if (wireup->own)
		freeifaddrs(wireup->own);
	wireup->own = NULL;
}

/* Marks in found[] which of the two addresses this host has. */
static void find_own(struct tagrv_wireup *wireup,
		     const struct tagrv_addr *const addrs[2], bool found[2])
{
	struct tagrv_addr own;

	for (int i = 0; i < 2; i++)
		found[i] = is_loopback(addrs[i]);
	renew_own(wireup);
	for (struct ifaddrs *ifa = wireup->own; ifa; ifa = ifa->ifa_next) {
		if (!ifa->ifa_addr || tagrv_addr_from(&own, ifa->ifa_addr, 0))
			continue;
		for (int i = 0; i < 2; i++)
			found[i] = found[i] || is_same_ip(&own, addrs[i]);
	}
}

bool tagrv_wireup_is_near(struct tagrv_wireup *wireup,
			  const struct tagrv_addr *listener,
			  const struct tagrv_addr *source)
{
	const struct tagrv_addr *const addrs[2] = { listener, source };
	bool found[2];

	if (is_same_ip(listener, source))
		return true;
	find_own(wireup, addrs, found);
	return found[0] && found[1];
}

static uint64_t cost_of(bool near)
{
	return near ? ASK_NEAR : ASK_FAR;
}

bool tagrv_wireup_may_ask(struct tagrv_wireup_ep *wep, bool near)
{
	uint64_t now = wep->wireup->now;
	uint64_t until = TAGRV_MAX(wep->asked_until, now) + cost_of(near);

	if (until > now + ASK_BURST)
		return false;
	wep->asked_until = until;
	return true;
}

void tagrv_wireup_asked_well(struct tagrv_wireup_ep *wep, bool near)
{
	wep->asked_until -= cost_of(near);
}
