/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opening devices, and the choice of GID and partition key.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "unit/xport/verbs/verbs_fixture.h"

static struct tagrv_device *dev;

static void prepare(void)
{
	verbs_prepare();
	dev = NULL;
}

static int open_dev(const char *name)
{
	fake_verbs_start(&config);
	return tagrv_verbs_ops.dev_open(name, &params, &dev);
}

static void close_dev(void)
{
	tagrv_verbs_ops.dev_close(dev);
	cr_assert_eq(fake_verbs_count().objects, 0);
}

TestSuite(verbs_dev, .init = prepare, .timeout = 10);

Test(verbs_dev, opens_by_name)
{
	cr_assert_eq(open_dev("fake1"), 0);
	cr_assert_str_eq(dev->name, "fake1");
	cr_assert_eq(dev->ops, &tagrv_verbs_ops);
	cr_assert_eq(dev->max_msg, 1u << 30);
	close_dev();
}

Test(verbs_dev, opens_several_times)
{
	struct tagrv_device *second;

	cr_assert_eq(open_dev("fake0"), 0);
	cr_assert_eq(tagrv_verbs_ops.dev_open("fake0", &params, &second), 0);
	cr_assert_neq(dev, second);
	tagrv_verbs_ops.dev_close(second);
	close_dev();
}

Test(verbs_dev, unknown_names_are_no_device)
{
	static const char *const names[] = { "fake7", "", ":", "fake0:2",
					     "fake0:x", "fake" };

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(names); i++) {
		cr_assert_eq(open_dev(names[i]), -FI_ENODEV, "%s", names[i]);
		cr_assert_null(dev);
		cr_assert_eq(fake_verbs_count().objects, 0);
	}
}

Test(verbs_dev, errors_of_open_are_passed_on)
{
	config.open_errno = EACCES;
	cr_assert_eq(open_dev("fake0"), -FI_EACCES);
	config.open_errno = EPERM;
	cr_assert_eq(open_dev("fake0"), -FI_EACCES);
	config.open_errno = ENOMEM;
	cr_assert_eq(open_dev("fake0"), -FI_ENOMEM);
	config.open_errno = 0;
	config.open_fails = true;
	cr_assert_eq(open_dev("fake0"), -FI_EIO, "no reason given");
	cr_assert_eq(fake_verbs_count().objects, 0);
}

Test(verbs_dev, device_without_reads_is_refused)
{
	config.rd_atom = 0;
	cr_assert_eq(open_dev("fake0"), -FI_ENODEV);
	cr_assert_eq(fake_verbs_count().objects, 0);
}

Test(verbs_dev, port_by_number)
{
	config.ports = 2;
	cr_assert_eq(open_dev("fake1:2"), 0);
	cr_assert_eq(verbs_dev_of(dev)->port_num, 2);
	cr_assert_eq(verbs_dev_of(dev)->port.gid.raw[15], 2, "a gid of that port");
	close_dev();
}

Test(verbs_dev, full_partition_member_is_chosen)
{
	cr_assert_eq(open_dev("fake0"), 0);
	cr_assert_eq(verbs_dev_of(dev)->port.pkey_index, 1);
	close_dev();
}

#define V4(last)	{ .raw = { [10] = 0xff, [11] = 0xff, [12] = 10, \
				   [15] = (last) } }
#define LOCAL(last)	{ .raw = { 0xfe, 0x80, [15] = (last) } }
#define GLOBAL(last)	{ .raw = { 0x20, 0x01, [15] = (last) } }

static const struct ibv_gid_entry table[] = {
	{ LOCAL(1), 0, 1, IBV_GID_TYPE_ROCE_V1, 0 },
	{ LOCAL(1), 1, 1, IBV_GID_TYPE_ROCE_V2, 0 },
	{ V4(2), 2, 1, IBV_GID_TYPE_ROCE_V1, 0 },
	{ GLOBAL(3), 4, 1, IBV_GID_TYPE_ROCE_V2, 0 },
	{ V4(9), 3, 2, IBV_GID_TYPE_ROCE_V2, 0 },
	{ V4(5), 256, 1, IBV_GID_TYPE_ROCE_V2, 0 },
	{ V4(2), 6, 1, IBV_GID_TYPE_ROCE_V2, 0 },
	{ V4(4), 7, 1, IBV_GID_TYPE_ROCE_V2, 0 },
};

static int chosen(size_t cnt)
{
	int index;

	config.gids = table;
	config.gid_cnt = cnt;
	cr_assert_eq(open_dev("fake0"), 0);
	index = verbs_dev_of(dev)->port.gid_index;
	close_dev();
	return index;
}

Test(verbs_dev, best_gid_is_chosen)
{
	cr_assert_eq(chosen(8), 6, "v2 with ipv4, the first that fits");
	cr_assert_eq(chosen(5), 4, "v2 with global ipv6, not another port's");
	cr_assert_eq(chosen(3), 1, "v2 link-local before v1");
	cr_assert_eq(chosen(1), 0, "v1 at last");
}

Test(verbs_dev, gid_index_can_be_given)
{
	params.gid_index = 2;
	cr_assert_eq(chosen(8), 2);
	params.gid_index = 3;	/* a GID of the other port */
	fake_verbs_start(&config);
	cr_assert_eq(tagrv_verbs_ops.dev_open("fake0", &params, &dev),
		     -FI_ENODEV);
}
