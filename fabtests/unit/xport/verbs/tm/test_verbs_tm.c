/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opening and closing a list of posted receives in a device.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/tm/tm_fixture.h"

TestSuite(verbs_tm, .init = tm_prepare, .timeout = 10);

Test(verbs_tm, takes_the_limits_of_the_device)
{
	tm.config.tm.max_num_tags = 5;
	tm.config.tm.max_ops = 3;
	tm_open();
	cr_assert_eq(tm.list->max_entries, 5);
	cr_assert_eq(tm.tm->max_ops, 3);
	cr_assert_geq(tm.rxq.posted, VERBS_LIST_BUFS_LEAST);
	tm_close();
}

Test(verbs_tm, needs_a_device_with_lists)
{
	tm.config.tm.flags = 0;
	cr_assert_eq(tm_open_list(), -FI_EOPNOTSUPP);
	tm_close();
}

/* The list is shorter if the queue is; there are 4 commands. */
Test(verbs_tm, needs_a_completion_queue_that_never_overflows)
{
	tm.config.max_cqe = VERBS_LIST_BUFS_LEAST + 1 + 4;
	cr_assert_eq(tm_open_list(), -FI_ENOSPC);
	tm_close();
	tm_prepare();
	tm.config.max_cqe = VERBS_LIST_BUFS_LEAST + 2 * TM_ENTRIES + 3;
	cr_assert_eq(tm_open_list(), 0);
	cr_assert_eq(tm.list->max_entries, TM_ENTRIES - 1);
	for (unsigned i = 0; i < TM_ENTRIES - 1; i++) {
		cr_assert_eq(tm_add(i, i, 0), 0);
		tm_expect(TM_ADDED, i);
	}
	cr_assert_eq(tm_add(TM_ENTRIES, 100, 0), -FI_EAGAIN);
	tm_close();
	tm_prepare();
	tm.config.max_cqe = VERBS_LIST_BUFS_LEAST + 2 * TM_ENTRIES + 4;
	cr_assert_eq(tm_open_list(), 0);
	cr_assert_eq(tm.list->max_entries, TM_ENTRIES);
	tm_close();
}

/* The device tells apart 2^16 unexpected messages that are not handled. */
Test(verbs_tm, has_less_buffers_than_its_count_has_values)
{
	tm.attr.bufs = 1u << 20;
	tm.attr.buf_size = 32;
	tm.config.max_cqe = tm.config.max_srq_wr = 1 << 21;
	cr_assert_eq(tm_open_list(), 0);
	cr_assert_eq(tm.rxq.bufs.max, VERBS_TM_BUFS_MOST);
	cr_assert_leq(tm.rxq.posted, 1u << 15);
	tm_close();
}

Test(verbs_tm, frees_all_when_memory_cannot_be_locked)
{
	tm.config.memlock = sizeof(tm.mem) + 4096;
	cr_assert_eq(tm_open_list(), -FI_ENOMEM);
	tm_close();
}

Test(verbs_tm, close_ends_entries_without_callbacks)
{
	tm_open();
	cr_assert_eq(tm_add(0, 5, 0), 0);
	tm_expect(TM_ADDED, 0);
	cr_assert_eq(tm_add(1, 6, 0), 0);
	cr_assert_neq(tm.entries[0].due, 0);
	tm_close();
	cr_assert_eq(tm.cnt, 1);
}
