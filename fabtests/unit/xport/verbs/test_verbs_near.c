/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which ports reach each other, by their blobs, and that a link is not bound to a peer
 * that it cannot reach.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

#include "common/fake_verbs.h"
#include "xport/backends.h"
#include "xport/verbs/verbs_priv.h"

/* A RoCE port if the address is one of IP, "10.0.0.1/24" or "fd00::1/64". */
struct side {
	uint8_t	net;
	const char *addr;
	uint8_t	prefix;
	uint16_t part;
};

static struct verbs_blob blob_of(const struct side *side)
{
	struct verbs_blob blob = {
		.qpn = 100, .psn = 1, .max_packet = 8384, .lid = 1,
		.mtu = IBV_MTU_4096, .rd_in = 16, .rd_out = 16, .permits = 64,
		.net = side->net, .prefix = side->prefix, .part = side->part,
	};
	char text[64];

	snprintf(text, sizeof(text), strchr(side->addr, ':') ? "%s" : "::ffff:%s",
		 side->addr);
	cr_assert_eq(inet_pton(AF_INET6, text, blob.gid.raw), 1, "%s", text);
	return blob;
}

#define IB	VERBS_NET_IB
#define V1	VERBS_NET_ROCE_V1
#define V2	VERBS_NET_ROCE_V2

static const struct {
	struct side a, b;
	unsigned near;
} cases[] = {
	/* kinds */
	{ { V2, "10.0.0.1", 24, 0 }, { V1, "10.0.0.2", 24, 0 }, 0 },
	{ { V2, "10.0.0.1", 24, 0 }, { IB, "fe80::1", 0, 0xffff }, 0 },
	/* RoCE: subnets */
	{ { V2, "10.0.0.1", 24, 0 }, { V2, "10.0.0.2", 24, 0 }, 3 },
	{ { V2, "10.0.0.1", 24, 0 }, { V2, "10.0.1.2", 24, 0 }, 1 },
	{ { V2, "10.0.0.1", 23, 0 }, { V2, "10.0.1.2", 23, 0 }, 3 },
	{ { V2, "10.0.0.1", 23, 0 }, { V2, "10.0.1.2", 24, 0 }, 1 },
	{ { V2, "10.0.0.1", 0, 0 }, { V2, "10.0.0.2", 24, 0 }, 1 },
	{ { V2, "10.0.0.1", 0, 0 }, { V2, "10.0.0.2", 0, 0 }, 1 },
	{ { V2, "10.0.0.1", 32, 0 }, { V2, "10.0.0.2", 32, 0 }, 1 },
	{ { V2, "10.0.0.1", 32, 0 }, { V2, "10.0.0.1", 32, 0 }, 3 },
	{ { V2, "10.0.0.1", 99, 0 }, { V2, "10.0.0.1", 99, 0 }, 1 },
	{ { V2, "fd00::1", 64, 0 }, { V2, "fd00::2", 64, 0 }, 3 },
	{ { V2, "fd00::1", 64, 0 }, { V2, "fd00:0:0:1::2", 64, 0 }, 1 },
	{ { V2, "fd00::1", 128, 0 }, { V2, "fd00::1", 128, 0 }, 3 },
	{ { V2, "fd00::1", 64, 0 }, { V2, "10.0.0.1", 24, 0 }, 0 },
	{ { V2, "fe80::1", 64, 0 }, { V2, "fe80::2", 64, 0 }, 1 },
	{ { V2, "fe80::1", 64, 0 }, { V2, "fd00::2", 64, 0 }, 1 },
	{ { V1, "fe80::1", 64, 0 }, { V1, "fe80::2", 64, 0 }, 1 },
	/* RoCE: VLANs */
	{ { V2, "10.0.0.1", 24, 7 }, { V2, "10.0.0.2", 24, 7 }, 3 },
	{ { V2, "10.0.0.1", 24, 7 }, { V2, "10.0.0.2", 24, 8 }, 0 },
	{ { V2, "10.0.0.1", 24, 7 }, { V2, "10.0.1.2", 24, 8 }, 1 },
	{ { V2, "10.0.0.1", 24, 7 }, { V2, "10.0.0.2", 24, 0 }, 2 },
	{ { V2, "fe80::1", 64, 7 }, { V2, "fe80::2", 64, 8 }, 0 },
	{ { V1, "10.0.0.1", 24, 7 }, { V1, "10.0.1.2", 24, 8 }, 0 },
	/* InfiniBand: partitions */
	{ { IB, "fe80::1", 0, 0xffff }, { IB, "fe80::2", 0, 0xffff }, 3 },
	{ { IB, "fe80::1", 0, 0xffff }, { IB, "fe80::2", 0, 0x7fff }, 3 },
	{ { IB, "fe80::1", 0, 0x7fff }, { IB, "fe80::2", 0, 0x7fff }, 0 },
	{ { IB, "fe80::1", 0, 0x8001 }, { IB, "fe80::2", 0, 0x8002 }, 0 },
	{ { IB, "fe80::1", 0, 0x8001 }, { IB, "fe80::2", 0, 0 }, 3 },
	/* InfiniBand: subnets */
	{ { IB, "fec0:0:0:1::1", 0, 0xffff }, { IB, "fec0:0:0:1::2", 0, 0xffff }, 3 },
	{ { IB, "fec0:0:0:1::1", 0, 0xffff }, { IB, "fec0:0:0:2::2", 0, 0xffff }, 1 },
	{ { IB, "fec0:0:0:1::1", 0, 0xffff }, { IB, "fe80::2", 0, 0xffff }, 0 },
	{ { IB, "::", 0, 0xffff }, { IB, "fe80::2", 0, 0xffff }, 3 },
};

Test(verbs_near, is_as_listed_from_both_sides, .timeout = 5)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(cases); i++) {
		struct verbs_blob a = blob_of(&cases[i].a), b = blob_of(&cases[i].b);
		uint8_t x[TAGRV_BLOB_MAX], y[TAGRV_BLOB_MAX];
		size_t x_len = tagrv_verbs_blob_pack(&a, x);
		size_t y_len = tagrv_verbs_blob_pack(&b, y);
		const char *why = NULL;

		cr_expect_eq(tagrv_verbs_ops.blobs_near(x, x_len, y, y_len),
			     cases[i].near, "case %zu", i);
		cr_expect_eq(tagrv_verbs_ops.blobs_near(y, y_len, x, x_len),
			     cases[i].near, "case %zu", i);
		cr_expect_eq(tagrv_verbs_near(&a, &b, &why), cases[i].near);
		cr_expect_eq(!why, !!cases[i].near, "case %zu", i);
	}
}

/* Blobs of any bytes: no crash, and the same from both sides. */
Test(verbs_near, is_symmetric, .timeout = 20)
{
	uint64_t state = 88172645463325252ull;

	for (int round = 0; round < 200000; round++) {
		uint8_t bytes[2][TAGRV_BLOB_MAX];
		struct verbs_blob blob[2];

		for (int k = 0; k < 2; k++) {
			blob[k] = blob_of(&cases[0].a);
			for (size_t i = 0; i < 19; i++) {
				state ^= state << 13;
				state ^= state >> 7;
				state ^= state << 17;
				if (i < 16 && state % 4 == 0)
					blob[k].gid.raw[i] = (uint8_t) (state >> 8);
				else if (i == 16)
					blob[k].net = (uint8_t) (state % 3);
				else if (i == 17)
					blob[k].prefix = (uint8_t) (state % 129);
				else if (i == 18)
					blob[k].part = (uint16_t) (state % 3);
			}
			tagrv_verbs_blob_pack(&blob[k], bytes[k]);
		}
		cr_assert_eq(tagrv_verbs_blobs_near(bytes[0], 44, bytes[1], 44),
			     tagrv_verbs_blobs_near(bytes[1], 44, bytes[0], 44));
	}
}

Test(verbs_near, malformed_blobs_reach_nothing, .timeout = 5)
{
	struct verbs_blob a = blob_of(&cases[2].a);
	uint8_t x[TAGRV_BLOB_MAX];
	size_t len = tagrv_verbs_blob_pack(&a, x);

	cr_assert_eq(tagrv_verbs_blobs_near(x, len, x, len), 3);
	cr_assert_eq(tagrv_verbs_blobs_near(x, len - 1, x, len), 0);
	cr_assert_eq(tagrv_verbs_blobs_near(x, len, x, 0), 0);
}

/* ---- the subnet of an address ---- */

static union { struct sockaddr sa; struct sockaddr_in in; struct sockaddr_in6 in6; }
	addrs[8];

static struct ifaddrs entry(unsigned at, const char *name, const char *addr,
			    const char *mask, struct ifaddrs *next)
{
	int family = strchr(addr, ':') ? AF_INET6 : AF_INET;
	const char *texts[2] = { addr, mask };

	for (unsigned i = 0; i < 2; i++) {
		addrs[at + i].sa.sa_family = (sa_family_t) family;
		cr_assert_eq(inet_pton(family, texts[i], family == AF_INET ?
				       (void *) &addrs[at + i].in.sin_addr :
				       (void *) &addrs[at + i].in6.sin6_addr), 1);
	}
	return (struct ifaddrs) {
		.ifa_next = next, .ifa_name = (char *) name, .ifa_addr = &addrs[at].sa,
		.ifa_netmask = &addrs[at + 1].sa,
	};
}

Test(verbs_subnet, is_that_of_the_interface_with_the_address, .timeout = 5)
{
	struct ifaddrs third = entry(4, "eth2", "fd00::5", "ffff:ffff:ffff:fff0::",
				     NULL);
	struct ifaddrs second = entry(2, "eth1.7", "10.0.0.6", "255.255.240.0", &third);
	struct ifaddrs bare = { .ifa_next = &second };
	struct ifaddrs first = entry(0, "eth0", "10.0.0.5", "255.255.255.0", &bare);
	static const struct {
		const char *addr, *iface;
		uint8_t prefix;
	} wanted[] = {
		{ "10.0.0.5", "eth0", 24 }, { "10.0.0.6", "eth1.7", 20 },
		{ "fd00::5", "eth2", 60 }, { "10.0.0.7", "", 0 },
		{ "fd00::6", "", 0 },
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(wanted); i++) {
		struct side side = { V2, wanted[i].addr, 0, 0 };
		struct verbs_blob blob = blob_of(&side);
		struct verbs_subnet subnet;

		tagrv_verbs_subnet_find(&first, &blob.gid, &subnet);
		cr_expect_eq(subnet.prefix, wanted[i].prefix, "%s", wanted[i].addr);
		cr_expect_str_eq(subnet.iface, wanted[i].iface);
	}
}

/* Every host has this address, and no VLAN there. */
Test(verbs_subnet, of_the_host_itself, .timeout = 5)
{
	struct side side = { V2, "127.0.0.1", 0, 0 };
	struct verbs_blob blob = blob_of(&side);
	struct ibv_gid_entry entry = { .gid = blob.gid };
	struct verbs_subnet subnet;

	tagrv_verbs_subnets_get(&entry, 1, &subnet);
	cr_assert_eq(subnet.prefix, 8);
	cr_assert_str_eq(subnet.iface, "lo");
	cr_assert_eq(subnet.vlan, 0);
}

/* ---- the interface of an InfiniBand port ---- */

/* As the C library lays them out: the address may be longer than sll_addr. */
static union { struct sockaddr_ll ll; uint8_t bytes[36]; } cards[3];

static struct ifaddrs card(unsigned at, const char *name, const union ibv_gid *gid,
			   struct ifaddrs *next)
{
	cards[at].ll = (struct sockaddr_ll) {
		.sll_family = AF_PACKET, .sll_hatype = ARPHRD_INFINIBAND, .sll_halen = 20,
	};
	memcpy(cards[at].bytes + offsetof(struct sockaddr_ll, sll_addr) + 4, gid->raw, 16);
	return (struct ifaddrs) {
		.ifa_next = next, .ifa_name = (char *) name, .ifa_flags = IFF_UP,
		.ifa_addr = (struct sockaddr *) &cards[at],
	};
}

static const char *ipoib_of(const struct ifaddrs *list, const union ibv_gid *gid)
{
	static char name[IF_NAMESIZE];

	tagrv_verbs_ipoib_find(list, gid, name);
	return name;
}

Test(verbs_subnet, an_infiniband_port_has_the_interface_with_its_gid, .timeout = 5)
{
	union ibv_gid first = { .raw = { 0xfe, 0x80, [15] = 1 } }, second = first, none = first;
	struct ifaddrs addr, local, list[3];

	second.raw[15] = 2;
	none.raw[15] = 3;
	addr = entry(0, "ib1.8001", "10.0.0.7", "255.255.255.0", NULL);
	addr.ifa_flags = IFF_UP;
	local = entry(2, "ib1", "169.254.0.7", "255.255.0.0", &addr);
	local.ifa_flags = IFF_UP;
	list[2] = card(2, "ib1.8001", &second, &local);
	list[1] = card(1, "ib1", &second, &list[2]);
	list[0] = card(0, "ib0", &first, &list[1]);
	cr_expect_str_eq(ipoib_of(list, &first), "ib0");
	cr_expect_str_eq(ipoib_of(list, &second), "ib1.8001", "the one with an address");
	cr_expect_str_eq(ipoib_of(list, &none), "");
	list[2].ifa_next = NULL;
	cr_expect_str_eq(ipoib_of(list, &second), "ib1", "else the first");
	cards[0].ll.sll_hatype = ARPHRD_ETHER;
	cr_expect_str_eq(ipoib_of(list, &first), "");
}

/* ---- over devices ---- */

static struct tagrv_params params;
static struct tagrv_sink sink;

struct end {
	struct tagrv_device *dev;
	struct tagrv_xport *xport;
	struct tagrv_link *link;
	uint8_t	blob[TAGRV_BLOB_MAX];
	size_t	len;
};

static void open_end(struct end *end, const char *name)
{
	const struct tagrv_xport_ops *ops = &tagrv_verbs_ops;

	cr_assert_eq(ops->dev_open(name, &params, &end->dev), 0);
	cr_assert_eq(ops->xport_open(end->dev, &params, &sink, &end->xport), 0);
	cr_assert_eq(ops->link_create(end->xport, end->blob, &end->len,
				      &end->link), 0);
}

static void close_end(struct end *end)
{
	end->dev->ops->link_discard(end->link);
	end->dev->ops->progress(end->xport);
	end->dev->ops->xport_close(end->xport);
	end->dev->ops->dev_close(end->dev);
}

/* Returns what binding gives on both sides; near is what blobs_near says. */
static int bind_both(const struct fake_verbs_config *config, unsigned near)
{
	struct end a, b;
	int ret;

	fake_verbs_start(config);
	tagrv_param_read(&params);
	open_end(&a, "fake0");
	open_end(&b, "fake1");
	cr_expect_eq(tagrv_verbs_blobs_near(a.blob, a.len, b.blob, b.len), near);
	ret = tagrv_verbs_ops.link_bind(a.link, b.blob, b.len);
	cr_expect_eq(tagrv_verbs_ops.link_bind(b.link, a.blob, a.len), ret);
	close_end(&a);
	close_end(&b);
	cr_expect_eq(fake_verbs_count().objects, 0);
	fake_verbs_stop();
	return ret;
}

/* The two fake devices have the addresses 10.9.0.1 and 10.9.1.1. */
Test(verbs_near, a_link_binds_only_to_what_it_reaches, .timeout = 20)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	cr_expect_eq(bind_both(&config, 1), 0, "nothing is known of subnets");
	config.prefix = 16;
	cr_expect_eq(bind_both(&config, 3), 0);
	config.vlan[0] = config.vlan[1] = 5;
	cr_expect_eq(bind_both(&config, 3), 0);
	config.vlan[1] = 6;
	cr_expect_eq(bind_both(&config, 0), -FI_EHOSTUNREACH);
	config.prefix = 24;
	cr_expect_eq(bind_both(&config, 1), 0, "a router may join the subnets");
}

Test(verbs_near, a_link_binds_only_within_a_partition, .timeout = 20)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	config.infiniband = true;
	cr_expect_eq(bind_both(&config, 3), 0);
	config.pkey[1] = 0x8005;
	cr_expect_eq(bind_both(&config, 0), -FI_EHOSTUNREACH);
	config.pkey[0] = 0x8005;
	cr_expect_eq(bind_both(&config, 3), 0);
}
