/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Discovery: devices it finds, devices it leaves out, and reasons when there are none.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cpus.h"
#include "unit/xport/verbs/verbs_fixture.h"

static struct tagrv_device_desc *descs;
static size_t cnt;
static char why[256];

static void prepare(void)
{
	verbs_prepare();
	why[0] = '\0';
}

static int discover(void)
{
	int ret;

	free(descs);
	descs = NULL;
	cnt = 0;
	fake_verbs_start(&config);
	ret = tagrv_verbs_ops.discover(&params, &descs, &cnt, why, sizeof(why));
	cr_assert_eq(fake_verbs_count().objects, 0, "contexts are closed");
	return ret;
}

static void filter(const char *names)
{
	snprintf(params.devices, sizeof(params.devices), "%s", names);
}

TestSuite(verbs_info, .init = prepare, .timeout = 10);

Test(verbs_info, devices_are_described)
{
	struct tagrv_device_desc *d;
	char text[TAGRV_ADDR_STRLEN];

	config.vendor_id = 0x1234;
	config.max_msg = 1u << 30;
	cr_assert_eq(discover(), 0);
	cr_assert_eq(cnt, 2);
	d = &descs[1];
	cr_assert_str_eq(d->name, "fake1");
	cr_assert(d->usable && d->up);
	cr_assert_str_eq(d->why_not, "");
	cr_assert_str_eq(tagrv_addr_str(&d->addr, text, sizeof(text)),
			 "10.9.1.1:0");
	cr_assert_eq(d->max_msg, 1u << 30);
	cr_assert_str_eq(d->vendor_id, "0x1234");
	cr_assert_str_eq(d->device_id, "0x7");
	cr_assert_str_eq(d->firmware, "1.2.3");
	cr_assert_str_eq(d->link_type, "Ethernet");
	cr_assert_eq(d->speed, 100000000000ull, "4 lanes of 25 Gbit/s");
	cr_assert_eq(d->mtu, 1024);
	cr_assert_eq(d->pci_bus, -1);
	cr_assert_eq(d->numa_node, -1);
}

Test(verbs_info, further_ports_have_their_number)
{
	config.ports = 2;
	cr_assert_eq(discover(), 0);
	cr_assert_eq(cnt, 4);
	cr_assert_str_eq(descs[0].name, "fake0");
	cr_assert_str_eq(descs[1].name, "fake0:2");
	cr_assert_str_eq(descs[2].name, "fake1");
	cr_assert_str_eq(descs[3].name, "fake1:2");
}

Test(verbs_info, filter_selects_devices_and_ports)
{
	config.ports = 2;
	filter("fake1");
	cr_assert_eq(discover(), 0);
	cr_assert_eq(cnt, 2);
	cr_assert_str_eq(descs[0].name, "fake1");
	cr_assert_str_eq(descs[1].name, "fake1:2");
	filter("fake1:2, fake0:1");
	cr_assert_eq(discover(), 0);
	cr_assert_eq(cnt, 2);
	cr_assert_str_eq(descs[0].name, "fake0");
	cr_assert_str_eq(descs[1].name, "fake1:2");
	filter(",");
	cr_assert_eq(discover(), 0);
	cr_assert_eq(cnt, 4);
}

Test(verbs_info, unknown_names_match_nothing)
{
	filter("mlx5_7");
	cr_assert_eq(discover(), -FI_ENODATA);
	cr_assert_null(descs);
	cr_assert(strstr(why, "here, which are: fake0 fake1"), "%s", why);
	filter("fake");
	cr_assert_eq(discover(), -FI_ENODATA);
	filter("fake0:9");
	cr_assert_eq(discover(), -FI_ENODATA);
	filter("mlx5_7,fake1");
	cr_assert_eq(discover(), 0);
	cr_assert_eq(cnt, 1);
}

/* The first call of the library is slow, so it must not be made without devices. */
Test(verbs_info, machine_without_rdma_is_recognized_by_sysfs)
{
	char dir[] = "/tmp/tagrv-info-XXXXXX";

	config.class_dir = "/nonexistent/infiniband";
	cr_assert_eq(discover(), -FI_ENODATA);
	cr_assert(strstr(why, "/nonexistent/infiniband"), "%s", why);
	cr_assert_eq(fake_verbs_count().device_lists, 0);
	config.class_dir = mkdtemp(dir);
	cr_assert_eq(discover(), -FI_ENODATA);
	cr_assert_eq(fake_verbs_count().device_lists, 0);
	rmdir(dir);
}

Test(verbs_info, missing_device_files_are_named)
{
	config.uverbs_dir = "/nonexistent/dev";
	cr_assert_eq(discover(), -FI_ENODATA);
	cr_assert(strstr(why, "/nonexistent/dev"), "%s", why);
	cr_assert_eq(fake_verbs_count().device_lists, 0);
}

Test(verbs_info, missing_driver_library_is_named)
{
	config.devices = 0;
	cr_assert_eq(discover(), -FI_ENODATA);
	cr_assert(strstr(why, "ibverbs-providers"), "%s", why);
}

Test(verbs_info, devices_that_cannot_be_listed_say_so)
{
	config.list_errno = ENOSYS;
	cr_assert_eq(discover(), -FI_ENODATA);
	cr_assert(strstr(why, strerror(ENOSYS)), "%s", why);
}

Test(verbs_info, devices_that_cannot_be_queried_say_so)
{
	config.query_errno = EIO;
	cr_assert_eq(discover(), 0);
	cr_assert_eq(cnt, 2);
	cr_assert(!descs[1].usable);
	cr_assert_str_eq(descs[1].name, "fake1");
	cr_assert_str_eq(descs[1].why_not,
			 "cannot be queried: Input/output error");
}

Test(verbs_info, ports_that_cannot_be_queried_say_so)
{
	config.port_errno = EIO;
	cr_assert_eq(discover(), 0);
	cr_assert(!descs[0].usable);
	cr_assert_str_eq(descs[0].why_not,
			 "port 1 cannot be queried: Input/output error");
}

Test(verbs_info, forbidden_device_says_so)
{
	config.open_errno = EACCES;
	config.uverbs_dir = "/dev";
	cr_assert_eq(discover(), 0);
	cr_assert_eq(cnt, 2);
	cr_assert(!descs[0].usable);
	cr_assert_str_eq(descs[0].why_not,
			 "cannot open /dev/uverbs0: Permission denied");
}

Test(verbs_info, port_that_is_down_says_so)
{
	config.port_state = IBV_PORT_DOWN;
	cr_assert_eq(discover(), 0);
	cr_assert(!descs[0].usable && !descs[0].up);
	cr_assert(strstr(descs[0].why_not, "down"));
}

Test(verbs_info, other_kinds_of_device_say_so)
{
	config.node_type = IBV_NODE_RNIC;
	cr_assert_eq(discover(), 0);
	cr_assert(!descs[0].usable);
	cr_assert(strstr(descs[0].why_not, "iWARP"));
	config.node_type = IBV_NODE_USNIC;
	cr_assert_eq(discover(), 0);
	cr_assert(!descs[0].usable && descs[0].why_not[0]);
}

Test(verbs_info, infiniband_has_no_ip_address)
{
	config.infiniband = true;
	cr_assert_eq(discover(), 0);
	cr_assert(descs[0].usable);
	cr_assert_str_eq(descs[0].link_type, "InfiniBand");
	cr_assert_eq(tagrv_addr_len(&descs[0].addr), 0);
}

/* Of all interfaces loopback is the one that each host has. */
Test(verbs_info, infiniband_has_the_address_of_its_network_interface)
{
	char text[TAGRV_ADDR_STRLEN];

	config.infiniband = true;
	config.ipoib = "lo";
	cr_assert_eq(discover(), 0);
	cr_assert_str_eq(descs[0].iface, "lo");
	cr_assert_str_eq(tagrv_addr_str(&descs[0].addr, text, sizeof(text)),
			 "127.0.0.1:0");
	config.ipoib = "no-such-if";
	cr_assert_eq(discover(), 0);
	cr_assert_eq(tagrv_addr_len(&descs[0].addr), 0);
}

/* Peers on other links cannot reach it, and would take another host for it. */
Test(verbs_info, local_addresses_are_told_to_nobody)
{
	static const struct ibv_gid_entry gids[] = {
		{ { .raw = { [10] = 0xff, [11] = 0xff, 169, 254, 3, 1 } }, 0, 1,
		  IBV_GID_TYPE_ROCE_V2, 0 },
		{ { .raw = { 0xfe, 0x80, [15] = 1 } }, 0, 1, IBV_GID_TYPE_ROCE_V2, 0 },
	};

	for (unsigned i = 0; i < 2; i++) {
		config.gids = &gids[i];
		config.gid_cnt = 1;
		cr_assert_eq(discover(), 0);
		cr_expect(descs[0].usable);
		cr_expect_eq(tagrv_addr_len(&descs[0].addr), 0, "%u", i);
	}
}

Test(verbs_info, port_without_gid_is_unusable)
{
	static const struct ibv_gid_entry none[1];

	config.gids = none;
	config.gid_cnt = 0;
	cr_assert_eq(discover(), 0);
	cr_assert(!descs[0].usable);
	cr_assert(strstr(descs[0].why_not, "gid"));
}

Test(verbs_info, device_without_reads_is_unusable)
{
	config.rd_atom = 0;
	cr_assert_eq(discover(), 0);
	cr_assert(!descs[0].usable);
	cr_assert_str_eq(descs[0].why_not, "device has no RDMA reads");
}

static int on_processor_3(unsigned long *mask, size_t bytes)
{
	(void) bytes;
	mask[0] = 1 << 3;
	return 0;
}

static void run(const char *what, const char *dir, const char *file)
{
	char command[256];

	snprintf(command, sizeof(command), "%s %s/%s", what, dir, file);
	cr_assert_eq(system(command), 0, "%s", command);
}

Test(verbs_info, devices_have_a_place)
{
	static const struct tagrv_cpus_source source = {
		.node_dir = "/nonexistent", .affinity = on_processor_3,
	};
	char dir[] = "/tmp/tagrv-info-XXXXXX";

	tagrv_cpus_source_set(&source);
	config.class_dir = mkdtemp(dir);
	config.prefix = 20;
	config.vlan[1] = 7;
	run("mkdir -p", dir, "fake0/device");
	run("mkdir -p", dir, "fake1/device");
	run("echo 1 >", dir, "fake0/device/numa_node");
	run("echo 4-7 >", dir, "fake0/device/local_cpulist");
	run("echo 0-3 >", dir, "fake1/device/local_cpulist");
	cr_assert_eq(discover(), 0);
	cr_expect_eq(descs[0].numa_node, 1);
	cr_expect_eq(descs[0].distance, TAGRV_CPUS_FAR);
	cr_expect_eq(descs[1].distance, TAGRV_CPUS_NEAR);
	cr_expect_str_eq(descs[0].network, "10.9.0.0/20");
	cr_expect_str_eq(descs[1].network, "10.9.0.0/20 vlan 7");
	config.infiniband = true;
	cr_assert_eq(discover(), 0);
	cr_expect_str_eq(descs[0].network, "fe80000000000000 of sm 0");
	run("rm -r", dir, "");
}

Test(verbs_info, names_are_split)
{
	char name[8];
	uint8_t port;

	cr_assert_eq(tagrv_verbs_name_split("rxe0", name, 8, &port), 0);
	cr_assert(!strcmp(name, "rxe0") && port == 1);
	cr_assert_eq(tagrv_verbs_name_split("rxe0:2", name, 8, &port), 0);
	cr_assert(!strcmp(name, "rxe0") && port == 2);
	cr_assert_eq(tagrv_verbs_name_split("", name, 8, &port), -FI_EINVAL);
	cr_assert_eq(tagrv_verbs_name_split(":1", name, 8, &port), -FI_EINVAL);
	cr_assert_eq(tagrv_verbs_name_split("a:", name, 8, &port), -FI_EINVAL);
	cr_assert_eq(tagrv_verbs_name_split("a:0", name, 8, &port), -FI_EINVAL);
	cr_assert_eq(tagrv_verbs_name_split("a:1x", name, 8, &port), -FI_EINVAL);
	cr_assert_eq(tagrv_verbs_name_split("a:256", name, 8, &port),
		     -FI_EINVAL);
	cr_assert_eq(tagrv_verbs_name_split("longname", name, 8, &port),
		     -FI_EINVAL);
}

Test(verbs_info, speeds_are_lanes_times_rate)
{
	struct ibv_port_attr port = { .active_speed = 1, .active_width = 1 };

	cr_assert_eq(tagrv_verbs_port_speed(&port), 2500000000ull);
	port.active_speed = 128;
	port.active_width = 2;
	cr_assert_eq(tagrv_verbs_port_speed(&port), 400000000000ull);
	port.active_width = 16;
	cr_assert_eq(tagrv_verbs_port_speed(&port), 200000000000ull);
}
