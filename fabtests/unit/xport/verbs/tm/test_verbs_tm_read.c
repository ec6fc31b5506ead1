/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completions of a list that are read before progress: for a sleeper, and for permits.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/tm/tm_fixture.h"

TestSuite(verbs_tm_read, .init = tm_prepare, .timeout = 10);

/* So many events are in the channel, all of the list's completion queue. */
static unsigned events(void)
{
	struct ibv_cq *cq;
	unsigned cnt = 0;
	void *ctx;

	for (; !tm.peer.calls->get_cq_event(tm.channel, &cq, &ctx); cnt++) {
		cr_assert(tagrv_verbs_tm_event(tm.list, cq));
		cr_assert_not(tagrv_verbs_tm_event(tm.list, tm.peer.cq));
		cr_assert_eq(ctx, &tm);
	}
	return cnt;
}

Test(verbs_tm_read, a_packet_wakes_a_sleeper)
{
	tm.with_channel = true;
	tm_open();
	for (unsigned i = 0; i < 100; i++) {
		cr_assert_eq(tagrv_verbs_tm_arm(tm.list), 0);
		cr_assert_eq(events(), 0);
		list_peer_no_tag(&tm.peer, 'n', 10, 0);
		cr_assert_eq(events(), 1);
		cr_assert_eq(tagrv_verbs_tm_arm(tm.list), -FI_EAGAIN);
		tm_expect(TM_UNTAGGED, 0);
		cr_assert_null(list_peer_fin(&tm.peer));
	}
	tm_close();
}

Test(verbs_tm_read, the_end_of_a_command_wakes_a_sleeper)
{
	tm.with_channel = true;
	tm_open();
	cr_assert_eq(tagrv_verbs_tm_arm(tm.list), 0);
	cr_assert_eq(tm_add(0, 5, 0), 0);
	cr_assert_eq(events(), 1);
	tm_expect(TM_ADDED, 0);
	tm_close();
}

/* No event comes for these. */
Test(verbs_tm_read, what_came_before_keeps_from_sleep)
{
	tm.with_channel = true;
	tm_open();
	cr_assert_eq(tm_add(0, 5, 0), 0);
	list_peer_eager(&tm.peer, 5, 0, 'm', 10);
	list_peer_eager(&tm.peer, 6, 0, 'u', 10);
	cr_assert_eq(tagrv_verbs_tm_arm(tm.list), -FI_EAGAIN);
	cr_assert_eq(tagrv_verbs_tm_arm(tm.list), -FI_EAGAIN);
	cr_assert_eq(tm.cnt, 0, "only progress may call back");
	tm_expect(TM_ADDED, 0);
	tm_expect(TM_CONSUMED, 0);
	tm_expect(TM_DATA, 0);
	tm_expect(TM_TAGGED, 0);
	tm_expect_none();
	cr_assert_eq(tagrv_verbs_tm_arm(tm.list), 0);
	tagrv_verbs_tm_fail(tm.tm, -FI_EIO);
	cr_assert_eq(tagrv_verbs_tm_arm(tm.list), -FI_EAGAIN);
	tm_expect(TM_FATAL, 0);
	cr_assert_eq(tagrv_verbs_tm_arm(tm.list), 0);
	tm_close();
}

Test(verbs_tm_read, reap_takes_permits_and_delivers_nothing)
{
	tm_open();
	cr_assert_eq(tm_add(0, 5, 0), 0);
	list_peer_eager(&tm.peer, 5, 0, 'm', 10);
	list_peer_no_tag(&tm.peer, 'n', 10, 77);
	list_peer_eager(&tm.peer, 6, 0, 'u', 10);
	list_peer_no_tag(&tm.peer, 'o', 20, 0);
	tagrv_verbs_tm_reap(tm.list);
	cr_assert(tm.permits == 1 && tm.imm == 77 && tm.cnt == 0);
	cr_assert_eq(tm.unexpected, 0);
	tagrv_verbs_tm_reap(tm.list);
	cr_assert_eq(tm.permits, 1);
	tm_expect(TM_ADDED, 0);
	tm_expect(TM_CONSUMED, 0);
	tm_expect(TM_DATA, 0);
	cr_assert(!tm_expect(TM_UNTAGGED, 0).has_imm, "the permit is not taken twice");
	tm_expect(TM_TAGGED, 0);
	tm_expect(TM_UNTAGGED, 0);
	cr_assert_eq(tm.permits, 1);
	tm_close();
}

/* Their buffers would be missing otherwise, while the caller repeats its send. */
Test(verbs_tm_read, permits_alone_are_received_at_once)
{
	tm_open();
	tm.permit_only = true;
	list_peer_no_tag(&tm.peer, 'o', 20, 0);
	for (unsigned i = 0; i < 3 * VERBS_LIST_BUFS_LEAST; i++) {
		list_peer_no_tag(&tm.peer, 'p', 0, 5);
		tagrv_verbs_tm_reap(tm.list);
		cr_assert_eq(tm.permits, i + 1);
		cr_assert(tm_expect(TM_UNTAGGED, 0).has_imm);
		cr_assert_null(list_peer_fin(&tm.peer));
	}
	cr_assert_eq(tm_expect(TM_UNTAGGED, 0).len, 36);
	cr_assert_eq(fake_verbs_count().rnr, 0);
	tm_close();
}

static int del(unsigned n)
{
	return tm.list->ops->del(tm.list, &tm.entries[n]);
}

/* Entry 0 has taken a message; the completion is read by arm or reap. */
static void take_ahead(bool by_reap)
{
	tm_open();
	cr_assert_eq(tm_add(0, 5, 0), 0);
	tm_expect(TM_ADDED, 0);
	list_peer_eager(&tm.peer, 5, 0, 'm', 10);
	if (by_reap)
		tagrv_verbs_tm_reap(tm.list);
	else
		cr_assert_eq(tagrv_verbs_tm_arm(tm.list), -FI_EAGAIN);
}

static void expect_match(unsigned n)
{
	tm_expect(TM_CONSUMED, n);
	tm_expect(TM_DATA, n);
}

/* The device has no entry any more of which the completion was read: its handle is free. */
Test(verbs_tm_read, an_entry_whose_message_was_read_is_not_deleted)
{
	for (int by_reap = 0; by_reap < 2; by_reap++) {
		take_ahead(by_reap);
		cr_assert_eq(del(0), -FI_EALREADY);
		cr_assert_eq(tm.tm->ops, 0, "nothing is posted");
		expect_match(0);
		tm_expect_none();
		tm_close();
		tm_prepare();
	}
}

/* Handles are given out again in turn: a late DEL would name an entry that was added since. */
Test(verbs_tm_read, a_late_deletion_spares_the_next_entry)
{
	tm.config.tm.max_num_tags = 1;
	tm_open();
	cr_assert_eq(tm_add(0, 5, 0), 0);
	tm_expect(TM_ADDED, 0);
	list_peer_eager(&tm.peer, 5, 0, 'm', 10);
	cr_assert_eq(tagrv_verbs_tm_arm(tm.list), -FI_EAGAIN);
	cr_assert_eq(del(0), -FI_EALREADY);
	expect_match(0);
	cr_assert_eq(tm_add(1, 6, 0), 0);
	tm_expect(TM_ADDED, 1);
	list_peer_eager(&tm.peer, 6, 0, 'n', 10);
	expect_match(1);
	tm_expect_none();
	tm_close();
}

static void (*tell_data)(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
			 size_t len, int status);

static void on_data(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		    size_t len, int status)
{
	tell_data(sink, entry, len, status);
	if (entry == &tm.entries[0])
		cr_assert_eq(del(1), -FI_EALREADY);
}

/* One batch has both matches. */
Test(verbs_tm_read, a_callback_does_not_delete_what_the_batch_has_as_matched)
{
	tm_open();
	tell_data = tm.sink.data;
	tm.sink.data = on_data;
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(tm_add(i, 5 + i, 0), 0);
		tm_expect(TM_ADDED, i);
	}
	for (unsigned i = 0; i < 2; i++)
		list_peer_eager(&tm.peer, 5 + i, 0, 'm', 10);
	expect_match(0);
	expect_match(1);
	tm_expect_none();
	tm_close();
}

/* The match of a long message, without its data: a DEL would be late as well. */
Test(verbs_tm_read, a_match_that_was_read_without_data_forestalls_a_deletion)
{
	tm.config.tm_mtu = 256;
	tm_open();
	cr_assert_eq(tm_add(0, 5, 0), 0);
	tm_expect(TM_ADDED, 0);
	tm_delay(0, 0, 20);
	list_peer_eager(&tm.peer, 5, 0, 'm', 300);
	cr_assert_eq(tagrv_verbs_tm_arm(tm.list), -FI_EAGAIN);
	cr_assert_eq(del(0), -FI_EALREADY);
	expect_match(0);
	tm_expect_none();
	tm_close();
}

Test(verbs_tm_read, what_reap_reads_is_handled_in_order)
{
	tm.attr.bufs = 512;
	tm_open();
	for (unsigned i = 0; i < 300; i++) {
		list_peer_no_tag(&tm.peer, 'n', i, i + 1);
		if (i % 50 == 7)
			tagrv_verbs_tm_reap(tm.list);
		if (i % 90 == 8)
			tm.list->ops->progress(tm.list);
		cr_assert_null(list_peer_fin(&tm.peer));
	}
	for (unsigned i = 0; i < 300; i++)
		cr_assert_eq(tm_expect(TM_UNTAGGED, 0).len, i + 16);
	tm_expect_none();
	tm_close();
}
