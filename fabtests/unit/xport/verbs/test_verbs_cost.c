/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a registration costs is measured when a device is opened, by the clock of the fake
 * devices, which only registrations move.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "select/select.h"
#include "unit/xport/verbs/verbs_fixture.h"

#define DECLARED	2e-6	/* of hardware */
#define GROWTH		0.06e-9

static char dir[] = "/tmp/tagrv-cost-XXXXXX";
static char file[sizeof(dir) + sizeof("/device")];

/* Devices of hardware are known by their directory in sysfs. */
static void setup(void)
{
	int fd;

	verbs_prepare();
	cr_assert_not_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/device", dir);
	fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	close(fd);
	config.sysfs = dir;
}

static void teardown(void)
{
	unlink(file);
	rmdir(dir);
}

TestSuite(verbs_cost, .init = setup, .fini = teardown, .timeout = 10);

static bool is_near(double got, double expected)
{
	return fabs(got - expected) <= 1e-3 * expected;
}

/* Opens a device of the config; returns what its endpoints' attributes will say. */
static struct verbs_dev measured(void)
{
	struct tagrv_device *dev;
	struct verbs_dev copy;

	fake_verbs_start(&config);
	cr_assert_eq(tagrv_verbs_ops.dev_open("fake0", &params, &dev), 0);
	copy = *verbs_dev_of(dev);
	tagrv_verbs_ops.dev_close(dev);
	cr_assert_eq(fake_verbs_count().objects, 0);
	cr_assert_eq(fake_verbs_count().registered, 0);
	return copy;
}

Test(verbs_cost, is_declared_without_a_clock)
{
	struct verbs_dev dev = measured();

	cr_assert(is_near(dev.reg_overhead, DECLARED));
	cr_assert(is_near(dev.reg_growth, GROWTH));
	cr_assert_str_eq(dev.cost_source, "declared");
	fake_verbs_stop();
}

/* What they take depends on what else the processors have to do. */
Test(verbs_cost, of_devices_in_software_is_declared)
{
	struct verbs_dev dev;

	config.sysfs = NULL;
	config.reg_ns = 3000;
	dev = measured();
	cr_assert(is_near(dev.reg_overhead, 20e-6));
	cr_assert_str_eq(dev.cost_source, "declared");
	fake_verbs_stop();
}

Test(verbs_cost, is_a_straight_line_through_a_short_and_a_long_one)
{
	struct verbs_dev dev;

	config.reg_ns = 16000;
	config.reg_ns_per_kib = 100;
	dev = measured();
	cr_assert(is_near(dev.reg_overhead, 16e-6), "%g", dev.reg_overhead);
	cr_assert(is_near(dev.reg_growth, 100e-9 / 1024), "%g", dev.reg_growth);
	cr_assert_str_neq(dev.cost_source, "declared");
	fake_verbs_stop();
}

/* The library fills its tables, or finds a page that is not there. */
Test(verbs_cost, first_registration_does_not_count)
{
	struct verbs_dev dev;

	config.reg_ns = 3000;
	config.reg_first_ns = 90000;
	dev = measured();
	cr_assert(is_near(dev.reg_overhead, 3e-6), "%g", dev.reg_overhead);
	cr_assert_eq(dev.reg_growth, 0);
	fake_verbs_stop();
}

/* Up to 0.4 ms a piece everything takes 1 ms at most; one of more is measured once. */
Test(verbs_cost, of_a_slow_device_is_measured_for_a_millisecond)
{
	struct verbs_dev dev;

	for (unsigned us = 50; us <= 3200; us *= 2) {
		uint64_t start = 1, took;

		config.reg_ns = us * 1000;
		dev = measured();
		took = tagrv_verbs_calls_get()->clock_ns() - start;
		cr_expect_leq(took, us <= 400 ? 1000000 : us * 1000, "%u us: %llu", us,
			      (unsigned long long) took);
		cr_expect(is_near(dev.reg_overhead, TAGRV_MIN(us, 200) * 1e-6), "%u us: %g",
			  us, dev.reg_overhead);
		cr_expect_leq(dev.reg_growth, GROWTH);
		fake_verbs_stop();
	}
}

Test(verbs_cost, is_declared_where_memory_cannot_be_registered)
{
	struct verbs_dev dev;

	config.reg_ns = 16000;
	config.memlock = 1024;
	dev = measured();
	cr_assert(is_near(dev.reg_overhead, DECLARED));
	cr_assert_str_eq(dev.cost_source, "declared");
	fake_verbs_stop();
}

/* Only the long range exceeds the limit of locked memory: its growth stays declared. */
Test(verbs_cost, growth_is_declared_where_a_long_range_cannot_be_registered)
{
	struct verbs_dev dev;

	config.reg_ns = 16000;
	config.memlock = 65536;
	dev = measured();
	cr_assert(is_near(dev.reg_overhead, 16e-6));
	cr_assert(is_near(dev.reg_growth, GROWTH));
	fake_verbs_stop();
}

/* The size from which on peers read. */
static size_t get_begins(unsigned reg_ns)
{
	struct tagrv_select_conf conf = { 0 };
	struct tagrv_select table;
	struct tagrv_xport_attr attr;

	config.reg_ns = reg_ns;
	verbs_open();
	attr = pair.a->xport->attr;
	pair_close(&pair);
	tagrv_select_build(&table, &conf, &attr, attr.max_packet);
	for (size_t i = 0; i < table.cnt; i++)
		if (table.range[i].proto == TAGRV_PROTO_RNDV_READ)
			return i ? table.range[i - 1].last + 1 : 0;
	return 0;
}

Test(verbs_cost, decides_from_which_size_on_peers_read)
{
	size_t fast = get_begins(2000), slow = get_begins(16000);

	cr_assert_gt(fast, 0);
	cr_assert_geq(slow, fast + 14000, "%zu and %zu", fast, slow);
}
