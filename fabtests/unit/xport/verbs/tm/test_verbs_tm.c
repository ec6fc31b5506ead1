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
	cr_assert(tm.list->max_entries == 5 && tm.list->max_headers == 64);
	cr_assert_eq(tm.tm->max_ops, 3);
	cr_assert_geq(tm.tm->rxq.posted, VERBS_TM_BUFS_LEAST);
	tm_close();
}

Test(verbs_tm, needs_a_device_with_lists)
{
	tm.config.tm.flags = 0;
	cr_assert_eq(tm_open_list(), -FI_EOPNOTSUPP);
	tm_close();
}

Test(verbs_tm, needs_a_completion_queue_that_never_overflows)
{
	tm.config.max_cqe = VERBS_TM_BUFS_LEAST + 2 * TM_ENTRIES + 3;	/* 4 commands */
	cr_assert_eq(tm_open_list(), -FI_ENOSPC);
	tm_close();
	tm_prepare();
	tm.config.max_cqe = VERBS_TM_BUFS_LEAST + 2 * TM_ENTRIES + 4;
	cr_assert_eq(tm_open_list(), 0);
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
