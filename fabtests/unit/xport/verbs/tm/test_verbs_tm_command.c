/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The commands of a list of posted receives: add, del, sync, and their bounds.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/tm/tm_fixture.h"

TestSuite(verbs_tm_command, .init = tm_prepare, .timeout = 10);

static int del(unsigned n)
{
	return tm.list->ops->del(tm.list, &tm.entries[n]);
}

Test(verbs_tm_command, a_deleted_entry_takes_no_message)
{
	tm_open();
	cr_assert_eq(tm_add(0, 5, 0), 0);
	tm_expect(TM_ADDED, 0);
	cr_assert_eq(del(0), 0);
	cr_assert_eq(del(0), -FI_EALREADY);
	tm_expect(TM_DELETED, 0);
	cr_assert_eq(tm.entries[0].due, 0);
	cr_assert_eq(del(0), -FI_EALREADY);
	list_peer_eager(&tm.peer, 5, 0, 'u', 10);
	tm_expect(TM_TAGGED, 0);
	tm_close();
}

/* cancel_crosses_match: the message takes the entry before the device sees the DEL. */
Test(verbs_tm_command, a_deletion_that_is_late_is_told)
{
	tm_open();
	cr_assert_eq(tm_add(0, 5, 0), 0);
	tm_expect(TM_ADDED, 0);
	tm_delay(5, 0, 0);
	cr_assert_eq(del(0), 0);
	list_peer_eager(&tm.peer, 5, 0, 'm', 10);
	tm_expect(TM_CONSUMED, 0);
	tm_expect(TM_DATA, 0);
	cr_assert_eq(tm.entries[0].due, TAGRV_TAGLIST_DELETED);
	tm_expect(TM_GONE, 0);
	cr_assert_eq(tm.entries[0].due, 0);
	tm_expect_none();
	tm_close();
}

Test(verbs_tm_command, an_entry_may_be_deleted_before_it_is_added)
{
	tm_open();
	tm_delay(3, 0, 0);
	cr_assert_eq(tm_add(0, 5, 0), 0);
	cr_assert_eq(del(0), 0);
	tm_expect(TM_ADDED, 0);
	tm_expect(TM_DELETED, 0);
	cr_assert_eq(tm.entries[0].due, 0);
	tm_close();
}

Test(verbs_tm_command, entries_are_used_after_the_count_is_told)
{
	tm_open();
	list_peer_eager(&tm.peer, 5, 0, 'u', 10);
	tm_expect(TM_TAGGED, 0);
	cr_assert_eq(tm_add(0, 5, 0), 0);
	cr_assert(tm_expect(TM_ADDED, 0).sync_req);
	list_peer_eager(&tm.peer, 5, 0, 'v', 10);	/* passes the entry */
	tm_expect(TM_TAGGED, 0);
	cr_assert_eq(tm.list->ops->sync(tm.list, 2), 0);
	tm_expect(TM_SYNCED, 0);
	list_peer_eager(&tm.peer, 5, 0, 'w', 10);
	tm_expect(TM_CONSUMED, 0);
	tm_expect(TM_DATA, 0);
	cr_assert_eq(tm.mem[0][0], 'w');
	tm_close();
}

/* The last count that the device was told. */
static struct {
	struct tagrv_verbs_calls calls;
	int	(*post)(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
	uint32_t count;
} spy;

static int spy_post(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	cr_assert(wr->flags & IBV_OPS_TM_SYNC);
	spy.count = wr->tm.unexpected_cnt;
	return spy.post(srq, wr, bad);
}

/* mlx5's library would ask for a sync by each ADD. */
Test(verbs_tm_command, the_count_has_16_bits)
{
	tm_open();
	spy.calls = *tm.tm->calls;
	spy.post = spy.calls.post_srq_ops;
	spy.calls.post_srq_ops = spy_post;
	tm.tm->calls = &spy.calls;
	cr_assert_eq(tm_add(0, 5, 0x30000), 0);
	cr_assert_eq(spy.count, 0);
	cr_assert_not(tm_expect(TM_ADDED, 0).sync_req);
	cr_assert_eq(tm.list->ops->sync(tm.list, 0x12345), 0);
	cr_assert_eq(spy.count, 0x2345);
	tm_expect(TM_SYNCED, 0);
	tm_close();
}

Test(verbs_tm_command, commands_in_flight_are_bounded)
{
	tm.config.tm.max_ops = VERBS_LIST_OPS + 1;
	tm_open();
	cr_assert_eq(tm.tm->max_ops, VERBS_LIST_OPS);
	tm.tm->max_ops = 4;	/* the device would take more */
	tm_delay(2, 0, 0);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(tm_add(i, i, 0), 0);
	cr_assert_eq(tm_add(4, 4, 0), -FI_EAGAIN);
	cr_assert_eq(tm.list->ops->sync(tm.list, 0), -FI_EAGAIN);
	cr_assert_eq(del(0), -FI_EAGAIN);
	cr_assert_eq(tm.entries[4].due, 0);
	for (unsigned i = 0; i < 4; i++)
		tm_expect(TM_ADDED, i);
	tm_expect(TM_ROOM, 0);
	tm_expect_none();
	cr_assert_eq(tm_add(4, 4, 0), 0);
	tm_expect(TM_ADDED, 4);
	tm_close();
}

Test(verbs_tm_command, entries_are_bounded)
{
	tm_open();
	for (unsigned i = 0; i < TM_ENTRIES; i++) {
		cr_assert_eq(tm_add(i, i, 0), 0);
		tm_expect(TM_ADDED, i);
	}
	cr_assert_eq(tm_add(TM_ENTRIES, 100, 0), -FI_EAGAIN);
	tm_expect_none();
	list_peer_eager(&tm.peer, 3, 0, 'm', 10);
	tm_expect(TM_CONSUMED, 3);
	tm_expect(TM_DATA, 3);
	tm_expect(TM_ROOM, 0);
	cr_assert_eq(tm_add(TM_ENTRIES, 100, 0), 0);
	tm_expect(TM_ADDED, TM_ENTRIES);
	tm_close();
}

Test(verbs_tm_command, wrong_entries_are_refused)
{
	struct tagrv_taglist_entry *entry = &tm.entries[0];

	tm_open();
	*entry = (struct tagrv_taglist_entry) {
		.tag = 5, .mask = UINT64_MAX, .addr = tm.mem[0], .len = sizeof(tm.mem) + 1,
		.mem = tm.reg,
	};
	cr_assert_eq(tm.list->ops->add(tm.list, entry, 0), -FI_EINVAL);
	entry->addr = tm.mem[0] - 1;
	entry->len = 1;
	cr_assert_eq(tm.list->ops->add(tm.list, entry, 0), -FI_EINVAL);
	entry->addr = tm.mem[0];
	entry->mask = 4;	/* no message can match */
	cr_assert_eq(tm.list->ops->add(tm.list, entry, 0), -FI_EINVAL);
	entry->mask = UINT64_MAX;
	entry->mem = NULL;
	cr_assert_eq(tm.list->ops->add(tm.list, entry, 0), -FI_EINVAL);
	entry->len = 0;
	cr_assert_eq(tm.list->ops->add(tm.list, entry, 0), 0);
	tm_expect(TM_ADDED, 0);
	list_peer_eager(&tm.peer, 5, 9, 'm', 0);
	cr_assert_eq(tm_expect(TM_CONSUMED, 0).app, 9);
	cr_assert_eq(tm_expect(TM_DATA, 0).len, 0);
	tm_close();
}

/* Of more memory than there is: the device must not see a length with bit 31. */
Test(verbs_tm_command, entries_are_as_long_as_a_message_can_be)
{
	struct tagrv_taglist_entry *entry = &tm.entries[0];
	struct verbs_mem large;

	tm_open();
	large = *tagrv_container_of(tm.reg, struct verbs_mem, base);
	large.base.len = SIZE_MAX / 2;
	*entry = (struct tagrv_taglist_entry) {
		.tag = 5, .mask = UINT64_MAX, .addr = tm.mem[0], .len = TM_LEN + 1,
		.mem = &large.base,
	};
	tm.dev->max_msg = TM_LEN;
	cr_assert_eq(tm.list->ops->add(tm.list, entry, 0), -FI_EINVAL);
	entry->len = TM_LEN;
	cr_assert_eq(tm.list->ops->add(tm.list, entry, 0), 0);
	tm_expect(TM_ADDED, 0);
	tm.entries[1] = *entry;
	tm.entries[1].len = 1ul << 31;
	tm.dev->max_msg = UINT64_MAX;
	cr_assert_eq(tm.list->ops->add(tm.list, &tm.entries[1], 0), -FI_EINVAL);
	tm.entries[1].due = 0;
	cr_assert_eq(tm.tm->fatal, 0);
	tm_close();
}

Test(verbs_tm_command, a_refusal_by_the_device_is_the_end)
{
	tm_open();
	cr_assert_eq(tm_add(0, 5, 0), 0);
	fake_verbs_fail_srq_ops(1, EIO);
	cr_assert_eq(tm_add(1, 6, 0), -FI_EIO);
	cr_assert_eq(tm_add(1, 6, 0), -FI_EIO);
	cr_assert_eq(tm_expect(TM_FATAL, 0).status, -FI_EIO);
	tm_expect_none();
	tm_close();
}

/* It may count its commands in another way than we do. */
Test(verbs_tm_command, want_of_room_in_the_device_is_no_end_while_commands_are_in_flight)
{
	tm_open();
	tm_delay(3, 0, 0);
	cr_assert_eq(tm_add(0, 5, 0), 0);
	fake_verbs_fail_srq_ops(1, ENOMEM);
	cr_assert_eq(tm_add(1, 6, 0), -FI_EAGAIN);
	tm_expect(TM_ADDED, 0);
	tm_expect(TM_ROOM, 0);
	fake_verbs_fail_srq_ops(1, ENOMEM);
	cr_assert_eq(tm_add(1, 6, 0), -FI_ENOMEM);
	tm_expect(TM_FATAL, 0);
	tm_close();
}
