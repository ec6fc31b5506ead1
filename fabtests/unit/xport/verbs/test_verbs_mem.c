/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Registration through verbs: access flags, keys, errors.
 */
#include <criterion/criterion.h>
#include <endian.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/page.h"
#include "unit/xport/pair.h"
#include "xport/verbs/verbs_priv.h"

#define RELAXED	IBV_ACCESS_RELAXED_ORDERING

static struct tagrv_device *dev;

static void open_dev(void)
{
	struct fake_verbs_config config = fake_verbs_defaults();
	struct tagrv_params params = pair_params();

	params.relaxed_ordering = true;
	fake_verbs_start(&config);
	cr_assert_eq(tagrv_verbs_ops.dev_open("fake0", &params, &dev), 0);
}

static void close_dev(void)
{
	tagrv_verbs_ops.dev_close(dev);
	cr_assert_eq(fake_verbs_count().objects, 0);
	fake_verbs_stop();
}

TestSuite(verbs_mem, .init = open_dev, .fini = close_dev, .timeout = 10);

Test(verbs_mem, key_is_the_rkey_in_big_endian)
{
	struct tagrv_mem *mem;
	char buf[64], key[TAGRV_KEY_MAX];
	uint32_t rkey;

	cr_assert_eq(tagrv_verbs_ops.mem_reg(dev, buf, sizeof(buf), true, &mem),
		     0);
	cr_assert_eq(tagrv_verbs_ops.mem_key(mem, key), sizeof(rkey));
	memcpy(&rkey, key, sizeof(rkey));
	cr_assert_eq(be32toh(rkey), ((struct verbs_mem *) mem)->mr->rkey);
	tagrv_verbs_ops.mem_dereg(mem);
}

Test(verbs_mem, zero_bytes_cannot_be_registered)
{
	struct tagrv_mem *mem = NULL;
	char c;

	cr_assert_eq(tagrv_verbs_ops.mem_reg(dev, &c, 0, true, &mem),
		     -FI_EINVAL);
	cr_assert_null(mem);
}

Test(verbs_mem, errors_are_passed_on)
{
	struct tagrv_mem *mem = NULL;
	char buf[64];

	for (int round = 0; round < 2; round++) {
		fake_verbs_fail_reg(1, ENOMEM);
		cr_assert_eq(tagrv_verbs_ops.mem_reg(dev, buf, sizeof(buf),
						     false, &mem), -FI_ENOMEM);
	}
	fake_verbs_fail_reg(1, EFAULT);
	cr_assert_eq(tagrv_verbs_ops.mem_reg(dev, buf, sizeof(buf),
					     TAGRV_MEM_STORE, &mem), -FI_EFAULT);
	cr_assert_null(mem);
	cr_assert_eq(fake_verbs_count().registered, 0);
}

/* Read-only memory can be sent from, and read by a peer; nothing can be stored there. */
Test(verbs_mem, read_only_memory_is_registered_for_reading)
{
	struct tagrv_mem *mem;
	char buf[64];

	for (unsigned access = 0; access <= TAGRV_MEM_READ; access++) {
		fake_verbs_fail_reg(1, EFAULT);
		cr_assert_eq(tagrv_verbs_ops.mem_reg(dev, buf, sizeof(buf),
						     access, &mem), 0);
		cr_assert_eq(mem->access, access);
		cr_assert_eq(fake_verbs_count().registered, sizeof(buf));
		tagrv_verbs_ops.mem_dereg(mem);
	}
	fake_verbs_fail_reg(1, EFAULT);
	cr_assert_eq(tagrv_verbs_ops.mem_reg(dev, buf, sizeof(buf),
					     TAGRV_MEM_WRITE, &mem), -FI_EFAULT);
	cr_assert_eq(tagrv_verbs_ops.mem_reg(dev, buf, sizeof(buf), 0, &mem), 0);
	cr_assert_eq(mem->access, TAGRV_MEM_STORE, "it came for nothing");
	tagrv_verbs_ops.mem_dereg(mem);
}

/* ---- relaxed ordering ---- */

/* Registers, and returns the flags that the device was given. */
static int flags_of(unsigned access)
{
	struct tagrv_mem *mem;
	char buf[64];
	int flags;

	cr_assert_eq(tagrv_verbs_ops.mem_reg(dev, buf, sizeof(buf), access,
					     &mem), 0);
	flags = fake_verbs_access(((struct verbs_mem *) mem)->mr);
	tagrv_verbs_ops.mem_dereg(mem);
	return flags;
}

/* Peers get the rights that were asked for, and no others. */
Test(verbs_mem, rights_of_peers)
{
	for (unsigned access = 0; access < 8; access++) {
		int flags = IBV_ACCESS_LOCAL_WRITE | RELAXED;

		if (access & TAGRV_MEM_READ)
			flags |= IBV_ACCESS_REMOTE_READ;
		if (access & TAGRV_MEM_WRITE)
			flags |= IBV_ACCESS_REMOTE_WRITE;
		cr_assert_eq(flags_of(access), flags, "access %u", access);
	}
}

Test(verbs_mem, messages_have_relaxed_ordering)
{
	cr_assert_eq(flags_of(0), IBV_ACCESS_LOCAL_WRITE | RELAXED);
	cr_assert_eq(flags_of(TAGRV_MEM_READ | TAGRV_MEM_WRITE),
		     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_WRITE | RELAXED);
	fake_verbs_fail_reg(1, EFAULT);
	cr_assert_eq(flags_of(TAGRV_MEM_READ), IBV_ACCESS_REMOTE_READ | RELAXED);
}

Test(verbs_mem, windows_that_peers_access_keep_the_order)
{
	cr_assert_eq(flags_of(TAGRV_MEM_READ | TAGRV_MEM_WRITE | TAGRV_MEM_ORDERED),
		     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_WRITE);
}

Test(verbs_mem, relaxed_ordering_can_be_switched_off)
{
	struct tagrv_params params = pair_params();

	tagrv_verbs_ops.dev_close(dev);
	params.relaxed_ordering = false;
	cr_assert_eq(tagrv_verbs_ops.dev_open("fake0", &params, &dev), 0);
	cr_assert_eq(flags_of(TAGRV_MEM_READ),
		     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

Test(verbs_mem, devices_may_refuse_relaxed_ordering)
{
	fake_verbs_fail_reg(1, EINVAL);
	cr_assert_eq(flags_of(0), IBV_ACCESS_LOCAL_WRITE);
	cr_assert_eq(flags_of(0), IBV_ACCESS_LOCAL_WRITE, "not asked again");
}

/* A range that cannot be registered in any order says nothing about the device. */
Test(verbs_mem, other_refusals_leave_relaxed_ordering_on)
{
	struct tagrv_mem *mem;
	char buf[64];

	fake_verbs_fail_reg(1, ENOMEM);
	cr_assert_eq(tagrv_verbs_ops.mem_reg(dev, buf, sizeof(buf), 0, &mem),
		     -FI_ENOMEM);
	cr_assert_eq(flags_of(0), IBV_ACCESS_LOCAL_WRITE | RELAXED);
}

Test(verbs_mem, packets_keep_their_order)
{
	struct verbs_bufs bufs;

	cr_assert_eq(tagrv_verbs_bufs_init(&bufs, verbs_dev_of(dev), 512, 16, 8),
		     0);
	cr_assert_eq(tagrv_verbs_bufs_grow(&bufs), 0);
	cr_assert_eq(fake_verbs_access(((struct verbs_mem *) bufs.slabs[0])->mr),
		     IBV_ACCESS_LOCAL_WRITE);
	tagrv_verbs_bufs_fini(&bufs);
}

/* What shared a page with them would be pinned, and lost to a child of fork, too. */
Test(verbs_mem, packets_have_whole_pages_of_any_size)
{
	for (size_t page = 16384; page <= 65536; page *= 4) {
		struct verbs_bufs bufs;

		tagrv_page_size_pretend(page);
		cr_assert_eq(tagrv_verbs_bufs_init(&bufs, verbs_dev_of(dev), 520, 16, 8), 0);
		cr_assert_eq(tagrv_verbs_bufs_grow(&bufs), 0);
		cr_assert_eq(tagrv_verbs_bufs_grow(&bufs), 0);
		for (int i = 0; i < 2; i++) {
			cr_expect_eq((uintptr_t) bufs.slabs[i]->addr % page, 0);
			cr_expect_eq(bufs.slabs[i]->len, page);
		}
		tagrv_verbs_bufs_fini(&bufs);
	}
}
