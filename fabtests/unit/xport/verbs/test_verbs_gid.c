/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which GID, partition and traffic class a port uses.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/xport/verbs/verbs_fixture.h"

#define V1	IBV_GID_TYPE_ROCE_V1
#define V2	IBV_GID_TYPE_ROCE_V2

static struct tagrv_device *dev;

/* The interfaces of the host: a test changes them. */
static struct card {
	const char *ip;
	struct verbs_subnet subnet;
} cards[8];

/* The table of the device, made from text by fill(). */
static struct ibv_gid_entry table[16];

static union ibv_gid gid_of(const char *ip)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

	cr_assert_eq(strchr(ip, ':') ? inet_pton(AF_INET6, ip, gid.raw) :
				       inet_pton(AF_INET, ip, gid.raw + 12), 1);
	return gid;
}

static void subnet_get(const union ibv_gid *gid, struct verbs_subnet *subnet)
{
	*subnet = (struct verbs_subnet) { .prefix = 0 };
	for (unsigned i = 0; i < TAGRV_ARRAY_SIZE(cards) && cards[i].ip; i++) {
		union ibv_gid own = gid_of(cards[i].ip);

		if (!memcmp(&own, gid, sizeof(own)))
			*subnet = cards[i].subnet;
	}
}

static void add_gid(const char *ip, uint32_t type)
{
	size_t i = config.gid_cnt++;

	table[i] = (struct ibv_gid_entry) {
		.gid = gid_of(ip), .gid_index = (uint32_t) i, .port_num = 1,
		.gid_type = type,
	};
	config.gids = table;
}

/* A host with a plain interface and a VLAN, whose GIDs have the lower indexes. */
static void prepare(void)
{
	static const struct card here[] = {
		{ "10.7.0.1", { .prefix = 16, .vlan = 7, .iface = "eth0.7" } },
		{ "10.0.0.1", { .prefix = 16, .iface = "eth0" } },
		{ "2001:db8::1", { .prefix = 64, .iface = "eth0" } },
		{ "10.7.0.2", { .prefix = 16, .vlan = 7, .iface = "eth0.7" } },
	};

	verbs_prepare();
	memset(cards, 0, sizeof(cards));
	memcpy(cards, here, sizeof(here));
	config.subnet_get = subnet_get;
	config.devices = 1;
	add_gid("fe80::1", V2);		/* 0 */
	add_gid("10.7.0.1", V1);	/* 1 */
	add_gid("10.7.0.1", V2);	/* 2 */
	add_gid("10.0.0.1", V1);	/* 3 */
	add_gid("10.0.0.1", V2);	/* 4 */
	add_gid("2001:db8::1", V2);	/* 5 */
}

static void open_dev(void)
{
	fake_verbs_start(&config);
	cr_assert_eq(tagrv_verbs_ops.dev_open("fake0", &params, &dev), 0);
}

static void close_dev(void)
{
	tagrv_verbs_ops.dev_close(dev);
	cr_assert_eq(fake_verbs_count().objects, 0);
	fake_verbs_stop();
}

static int chosen(void)
{
	int index;

	open_dev();
	index = verbs_dev_of(dev)->port.gid_index;
	close_dev();
	return index;
}

TestSuite(verbs_gid, .init = prepare, .timeout = 10);

Test(verbs_gid, an_interface_without_vlan_comes_first)
{
	cr_expect_eq(chosen(), 4);
	config.gid_cnt = 4;
	cr_expect_eq(chosen(), 2, "RoCE v2 all the same");
}

/* FI_TAGRV_IFACE, and what the device tells of its address then. */
Test(verbs_gid, the_address_that_the_user_names_decides)
{
	static const struct {
		const char *iface, *addr;
		int index;
	} wanted[] = {
		{ "10.7.0.1", "10.7.0.1:0", 2 }, { "2001:db8::1", "[2001:db8::1]:0", 5 },
		{ "10.0.0.1", "10.0.0.1:0", 4 }, { "192.0.2.1", "10.0.0.1:0", 4 },
		{ "no-such-if", "10.0.0.1:0", 4 },
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(wanted); i++) {
		struct tagrv_device_desc *descs;
		char why[64], text[TAGRV_ADDR_STRLEN];
		size_t cnt;

		snprintf(params.iface, sizeof(params.iface), "%s", wanted[i].iface);
		cr_expect_eq(chosen(), wanted[i].index, "%s", wanted[i].iface);
		fake_verbs_start(&config);
		cr_assert_eq(tagrv_verbs_ops.discover(&params, &descs, &cnt, why,
						      sizeof(why)), 0);
		cr_expect_str_eq(tagrv_addr_str(&descs[0].addr, text, sizeof(text)),
				 wanted[i].addr);
		free(descs);
		fake_verbs_stop();
	}
}

static struct tagrv_xport *open_xport(struct tagrv_sink *sink, const char *ip)
{
	static struct tagrv_addr local;
	struct tagrv_xport *xport;

	local = (struct tagrv_addr) { .in.sin_family = AF_INET };
	cr_assert_eq(inet_pton(AF_INET, ip, &local.in.sin_addr), 1);
	*sink = (struct tagrv_sink) { .local = &local };
	cr_assert_eq(tagrv_verbs_ops.xport_open(dev, &params, sink, &xport), 0);
	return xport;
}

static void close_xport(struct tagrv_xport *xport)
{
	tagrv_verbs_ops.xport_close(xport);
	close_dev();
}

static int index_now(struct tagrv_xport *xport)
{
	return tagrv_verbs_port_now(verbs_xport_of(xport)).gid_index;
}

Test(verbs_gid, each_endpoint_has_that_of_its_address)
{
	struct tagrv_sink sinks[2];
	struct tagrv_xport *first, *second;

	open_dev();
	first = open_xport(&sinks[0], "10.7.0.1");
	second = open_xport(&sinks[1], "127.0.0.1");
	cr_expect_eq(index_now(first), 2);
	cr_expect_eq(index_now(second), 4, "not the device's");
	tagrv_verbs_ops.xport_close(second);
	close_xport(first);
}

Test(verbs_gid, idle_and_local_addresses_come_late)
{
	cards[1].subnet.idle = true;	/* 10.0.0.1 */
	cr_expect_eq(chosen(), 2);
	cards[0].subnet.idle = true;
	cr_expect_eq(chosen(), 5, "IPv6 that is up");
	table[5].gid = gid_of("169.254.1.1");
	config.gid_cnt = 6;
	cards[2].ip = "169.254.1.1";
	cards[1].subnet.idle = false;
	cr_expect_eq(chosen(), 4);
}

/* ---- other network namespaces ---- */

static char dir[] = "/tmp/tagrv-gid-XXXXXX";

static void run(const char *format, ...)
{
	char command[512];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	cr_assert_eq(system(command), 0, "%s", command);
}

static void start_sysfs(void)
{
	cr_assert_not_null(mkdtemp(dir));
	config.class_dir = dir;
	run("mkdir -p %s/fake0/ports/1/gid_attrs/ndevs %s/fake0/tc/1", dir, dir);
}

static void say_ndev(int index, const char *name)
{
	run("echo %s > %s/fake0/ports/1/gid_attrs/ndevs/%d", name, dir, index);
}

/* A GID with the lowest index and the best kind, whose interface is in a container. */
Test(verbs_gid, those_of_other_namespaces_are_not_used)
{
	struct ibv_gid_entry other;

	start_sysfs();
	memset(cards, 0, sizeof(cards));
	cards[0] = (struct card) { "10.0.0.1", { .prefix = 16, .iface = "lo" } };
	config.gid_cnt = 0;
	add_gid("10.8.0.1", V2);
	add_gid("10.0.0.1", V2);
	other = table[0];
	say_ndev(0, "lo");		/* the name exists here, too */
	say_ndev(1, "lo");
	cr_expect_eq(chosen(), 1);
	table[1].gid = gid_of("fe80::1");
	cr_expect_eq(chosen(), 1, "an address of the hardware, if the interface is here");
	say_ndev(1, "no-such-if");
	say_ndev(0, "no-such-if");
	config.dead_gids = 3;
	fake_verbs_start(&config);
	cr_expect_eq(tagrv_verbs_ops.dev_open("fake0", &params, &dev), -FI_ENODEV,
		     "all are elsewhere");
	cr_expect_eq(fake_verbs_count().objects, 0);
	params.gid_index = 0;
	cr_expect_eq(chosen(), 0, "the user says so");
	params.gid_index = -1;
	config.dead_gids = 2;
	cr_expect_eq(chosen(), 0, "the device can use it from here");
	cr_expect_arr_eq(&table[0], &other, sizeof(other));
	run("rm -r %s", dir);
}

Test(verbs_gid, the_device_must_take_it)
{
	config.dead_gids = 1 << 4;
	cr_expect_eq(chosen(), 2, "the next best");
	config.dead_gids = 0x3f;
	cr_expect_eq(chosen(), 4, "if none is proven, the best");
	config.infiniband = true;
	config.gids = NULL;
	cr_expect_eq(chosen(), 0, "InfiniBand needs no GID");
}

/* ---- events ---- */

static void change(void)
{
	int one = 1;

	fake_verbs_set_gids(table, config.gid_cnt);
	fake_verbs_event(0, IBV_EVENT_GID_CHANGE, &one);
	tagrv_verbs_ops.dev_event(dev);
}

Test(verbs_gid, stays_while_it_is_there)
{
	struct tagrv_sink sink;
	struct tagrv_xport *xport;

	config.gid_cnt = 3;	/* the VLAN alone */
	open_dev();
	xport = open_xport(&sink, "127.0.0.1");
	cr_expect_eq(index_now(xport), 2);
	config.gid_cnt = 6;	/* what would have been chosen at first */
	table[0].gid = gid_of("10.7.0.2");
	change();
	cr_expect_eq(index_now(xport), 2);
	cr_expect_eq(verbs_dev_of(dev)->port.gid_index, 2);
	table[6] = table[2];	/* the same at another place */
	table[6].gid_index = 6;
	table[2].gid = gid_of("10.9.0.1");
	config.gid_cnt = 7;
	change();
	cr_expect_eq(index_now(xport), 6);
	close_xport(xport);
}

Test(verbs_gid, stays_in_its_subnet_when_its_address_changes)
{
	struct tagrv_sink sink;
	struct tagrv_xport *xport;

	open_dev();
	xport = open_xport(&sink, "10.7.0.1");
	cr_expect_eq(index_now(xport), 2);
	table[1].gid = table[2].gid = gid_of("10.7.0.2");
	change();
	cr_expect_eq(index_now(xport), 2, "10.0.0.1 is better, but elsewhere");
	cr_expect_eq(verbs_dev_of(dev)->port.gid_index, 4);
	table[1] = table[2] = table[0];
	change();
	cr_expect_eq(index_now(xport), 4, "better than none");
	close_xport(xport);
}

/* ---- partition and traffic class ---- */

static int pkey_index(int wanted)
{
	int index;

	params.pkey = wanted;
	fake_verbs_start(&config);
	if (tagrv_verbs_ops.dev_open("fake0", &params, &dev))
		return -1;
	index = verbs_dev_of(dev)->port.pkey_index;
	close_dev();
	return index;
}

Test(verbs_gid, the_partition_can_be_named)
{
	struct tagrv_device_desc *descs;
	char why[64];
	size_t cnt;

	config.infiniband = true;
	config.gids = NULL;
	config.pkey[0] = 0x8012;
	cr_expect_eq(pkey_index(0), 1);
	cr_expect_eq(pkey_index(0x8012), 1);
	cr_expect_eq(pkey_index(0x12), 1, "as a full member");
	config.pkey[0] = 0x12;
	cr_expect_eq(pkey_index(0x8012), 0, "limited, if that is all");
	cr_expect_eq(pkey_index(0x8013), -1);
	cr_assert_eq(tagrv_verbs_ops.discover(&params, &descs, &cnt, why, sizeof(why)), 0);
	cr_expect_not(descs[0].usable);
	cr_expect_not_null(strstr(descs[0].why_not, "0x8013"));
	free(descs);
	config.infiniband = false;
	cr_expect_eq(pkey_index(0x8013), 0, "RoCE has no partitions");
}

static uint8_t class_of(int wanted)
{
	uint8_t class;

	params.traffic_class = wanted;
	open_dev();
	class = verbs_dev_of(dev)->traffic_class;
	close_dev();
	return class;
}

Test(verbs_gid, the_traffic_class_is_that_of_the_administrator)
{
	cr_expect_eq(class_of(-1), 0);
	cr_expect_eq(class_of(105), 105);
	start_sysfs();
	cr_expect_eq(class_of(-1), 0);
	run("echo Global tclass=106 > %s/fake0/tc/1/traffic_class", dir);
	cr_expect_eq(class_of(-1), 106);
	cr_expect_eq(class_of(0), 0, "the user comes first");
	run("echo 96 > %s/fake0/tc/1/traffic_class", dir);
	cr_expect_eq(class_of(-1), 96);
	run("echo Global tclass=300 > %s/fake0/tc/1/traffic_class", dir);
	cr_expect_eq(class_of(-1), 0);
	run(": > %s/fake0/tc/1/traffic_class", dir);
	cr_expect_eq(class_of(-1), 0, "not set");
	run("rm -r %s", dir);
}
