/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whether two ports can reach each other, as far as their blobs tell: a queue pair for a
 * peer that cannot be reached fails seconds after it was connected, or when it is. Only
 * what is certain is refused here, because what is not known may work.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_vlan.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/netif.h"
#include "xport/verbs/verbs_priv.h"

#define V4_AT		12u		/* byte of an IPv4 address in a GID */

static const struct in6_addr *addr_of(const union ibv_gid *gid)
{
	return (const struct in6_addr *) gid->raw;
}

/* ---- the subnet of an address of this host ---- */

/* Number of leading ones; len: bytes of the mask. */
static uint8_t count_bits(const uint8_t *mask, size_t len)
{
	uint8_t bits = 0;

	for (size_t i = 0; i < len; i++)
		bits = (uint8_t) (bits + __builtin_popcount(mask[i]));
	return bits;
}

/* Bits of the subnet if the entry has this address, else 0. */
static uint8_t prefix_of(const struct ifaddrs *entry, const union ibv_gid *gid)
{
	const struct sockaddr_in *in = (const void *) entry->ifa_addr;
	const struct sockaddr_in6 *in6 = (const void *) entry->ifa_addr;

	if (!entry->ifa_addr || !entry->ifa_netmask)
		return 0;
	if (in->sin_family == AF_INET && IN6_IS_ADDR_V4MAPPED(addr_of(gid)) &&
	    !memcmp(&in->sin_addr, gid->raw + V4_AT, sizeof(in->sin_addr))) {
		in = (const void *) entry->ifa_netmask;
		return count_bits((const void *) &in->sin_addr,
				  sizeof(in->sin_addr));
	}
	if (in6->sin6_family == AF_INET6 &&
	    !memcmp(&in6->sin6_addr, gid->raw, sizeof(in6->sin6_addr))) {
		in6 = (const void *) entry->ifa_netmask;
		return count_bits((const void *) &in6->sin6_addr,
				  sizeof(in6->sin6_addr));
	}
	return 0;
}

void tagrv_verbs_subnet_find(const struct ifaddrs *list, const union ibv_gid *gid,
			     struct verbs_subnet *subnet)
{
	*subnet = (struct verbs_subnet) { .prefix = 0 };
	for (; list; list = list->ifa_next) {
		subnet->prefix = prefix_of(list, gid);
		if (!subnet->prefix)
			continue;
		subnet->idle = !(list->ifa_flags & IFF_UP) || list->ifa_flags & IFF_SLAVE;
		snprintf(subnet->iface, sizeof(subnet->iface), "%s",
			 list->ifa_name);
		return;
	}
}

/* VLAN id of an interface, 0: it is in none. */
static uint16_t vlan_of(const char *iface)
{
	struct vlan_ioctl_args args = { .cmd = GET_VLAN_VID_CMD };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return 0;
	snprintf(args.device1, sizeof(args.device1), "%s", iface);
	ret = ioctl(fd, SIOCGIFVLAN, &args);
	close(fd);
	return ret ? 0 : (uint16_t) (args.u.VID & 0xfff);
}

void tagrv_verbs_subnets_get(const struct ibv_gid_entry *gids, size_t cnt,
			     struct verbs_subnet *subnets)
{
	struct ifaddrs *list = NULL;
	bool unknown = getifaddrs(&list);

	for (size_t i = 0; i < cnt; i++) {
		tagrv_verbs_subnet_find(list, &gids[i].gid, &subnets[i]);
		subnets[i].unknown = unknown;
		if (subnets[i].prefix)
			subnets[i].vlan = vlan_of(subnets[i].iface);
	}
	freeifaddrs(list);
}

/* ---- the network interface of an InfiniBand port ---- */

#define IPOIB_LEN	20u	/* hardware address: number of a queue pair, GID */
#define IPOIB_GID_AT	4u

static bool is_ipoib_of(const struct ifaddrs *entry, const union ibv_gid *gid)
{
	const struct sockaddr_ll *ll = (const void *) entry->ifa_addr;

	/* The C library leaves room for such addresses behind the 8 bytes. */
	return ll && ll->sll_family == AF_PACKET &&
	       ll->sll_hatype == ARPHRD_INFINIBAND && ll->sll_halen == IPOIB_LEN &&
	       !memcmp((const uint8_t *) ll + offsetof(struct sockaddr_ll, sll_addr) +
		       IPOIB_GID_AT, gid->raw, sizeof(gid->raw));
}

/* Whether peers can be told an address of the interface. */
static bool has_address(const struct ifaddrs *list, const char *name)
{
	for (; list; list = list->ifa_next) {
		struct tagrv_addr addr;

		if (list->ifa_addr && !strcmp(list->ifa_name, name) &&
		    list->ifa_flags & IFF_UP &&
		    !tagrv_addr_from(&addr, list->ifa_addr, 0) &&
		    !tagrv_netif_is_link_local(&addr))
			return true;
	}
	return false;
}

/* A port has an interface for each partition; often only one of them has an address. */
void tagrv_verbs_ipoib_find(const struct ifaddrs *list, const union ibv_gid *gid,
			    char iface[IF_NAMESIZE])
{
	iface[0] = '\0';
	for (const struct ifaddrs *one = list; one; one = one->ifa_next) {
		bool suits = is_ipoib_of(one, gid);

		if (!suits || (iface[0] && !has_address(list, one->ifa_name)))
			continue;
		snprintf(iface, IF_NAMESIZE, "%s", one->ifa_name);
		if (has_address(list, iface))
			return;
	}
}

void tagrv_verbs_ipoib_get(const union ibv_gid *gid, char iface[IF_NAMESIZE])
{
	struct ifaddrs *list;

	iface[0] = '\0';
	if (getifaddrs(&list))
		return;
	tagrv_verbs_ipoib_find(list, gid, iface);
	freeifaddrs(list);
}

/* ---- two blobs ---- */

bool tagrv_verbs_is_same_start(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned bytes = bits / 8, rest = bits % 8;

	return !memcmp(a, b, bytes) &&
	       (!rest || !((a[bytes] ^ b[bytes]) >> (8 - rest)));
}

/* Of a GID; its interface identifier does not matter. */
static bool has_local_prefix(const union ibv_gid *gid)
{
	static const uint8_t local[8] = { 0xfe, 0x80 };

	return !memcmp(gid->raw, local, sizeof(local));
}

/*
 * The default prefix is of any subnet that was given none, and routers do not forward
 * it. Without GIDs there are LIDs, which are of one subnet.
 */
static unsigned near_infiniband(const struct verbs_blob *a,
				const struct verbs_blob *b, const char **why)
{
	static const union ibv_gid none;

	if (a->part && b->part && (((a->part ^ b->part) & ~VERBS_PKEY_FULL) ||
				   !((a->part | b->part) & VERBS_PKEY_FULL))) {
		*why = "the ports are in different partitions, or both are "
		       "limited members";
		return 0;
	}
	if (a->gid.global.subnet_prefix == b->gid.global.subnet_prefix ||
	    !memcmp(&a->gid, &none, sizeof(none)) ||
	    !memcmp(&b->gid, &none, sizeof(none)))
		return 3;
	if (has_local_prefix(&a->gid) || has_local_prefix(&b->gid)) {
		*why = "the ports are in different InfiniBand subnets, and one "
		       "has the default prefix, which is not routed";
		return 0;
	}
	return 1;
}

/* Both addresses are of one family. */
static bool is_same_subnet(const struct verbs_blob *a, const struct verbs_blob *b,
			   bool is_v4)
{
	unsigned bits = TAGRV_MAX(a->prefix, b->prefix);

	if (!a->prefix || !b->prefix || (is_v4 && bits > 32))
		return false;
	return is_v4 ? tagrv_verbs_is_same_start(a->gid.raw + V4_AT, b->gid.raw + V4_AT, bits) :
		       tagrv_verbs_is_same_start(a->gid.raw, b->gid.raw, bits);
}

/* A port behind a switch that adds and removes the tag does not know its VLAN. */
static unsigned near_roce(const struct verbs_blob *a, const struct verbs_blob *b,
			  const char **why)
{
	bool a_v4 = IN6_IS_ADDR_V4MAPPED(addr_of(&a->gid));
	bool b_v4 = IN6_IS_ADDR_V4MAPPED(addr_of(&b->gid));
	bool local = IN6_IS_ADDR_LINKLOCAL(addr_of(&a->gid)) ||
		     IN6_IS_ADDR_LINKLOCAL(addr_of(&b->gid));
	bool same = a_v4 == b_v4 && is_same_subnet(a, b, a_v4);

	if (a_v4 != b_v4) {
		*why = "one port has an IPv4 address and the other one has not";
		return 0;
	}
	if ((same || local || a->net == VERBS_NET_ROCE_V1) && a->part &&
	    b->part && a->part != b->part) {
		*why = "the ports are in different VLANs of one subnet";
		return 0;
	}
	/* All networks have the same subnet of local addresses. */
	if (!same || local)
		return 1;
	return a->part == b->part ? 3 : 2;
}

unsigned tagrv_verbs_near(const struct verbs_blob *a, const struct verbs_blob *b,
			  const char **why)
{
	if (a->net != b->net) {
		*why = "the ports are of different kinds: InfiniBand, RoCE v1 or "
		       "RoCE v2";
		return 0;
	}
	return a->net == VERBS_NET_IB ? near_infiniband(a, b, why) :
					near_roce(a, b, why);
}

unsigned tagrv_verbs_blobs_near(const void *a, size_t a_len, const void *b,
				size_t b_len)
{
	struct verbs_blob x, y;
	const char *why;

	if (tagrv_verbs_blob_unpack(&x, a, a_len) ||
	    tagrv_verbs_blob_unpack(&y, b, b_len))
		return 0;
	return tagrv_verbs_near(&x, &y, &why);
}
