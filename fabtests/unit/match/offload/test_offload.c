/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * match/offload/offload.c, offload_list.c: each race between receives, messages and an adapter's
 * list by its name, on the rig of offload_rig.h, which compares every match with the naive
 * matcher. Commands wait here until the test has them applied.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "unit/match/offload/offload_rig.h"

#define ALL	UINT64_MAX
#define NONE	0xffff	/* a tag that no receive has */

/* Two peers have entered; a first unexpected message has made the list live. */
static struct rig *start(uint32_t tags)
{
	static struct rig rig;

	rig_init(&rig, tags, 16, 70100, 70100);
	rig_enter(&rig, 1);
	rig_enter(&rig, 2);
	rig_send(&rig, 1, NONE, RIG_SHORT);
	rig_poll_all(&rig);
	tag_list_set_delays(rig.list, &(struct tag_list_delays) { .apply = TAG_LIST_HOLD });
	return &rig;
}

static void apply(struct rig *rig, unsigned cnt)
{
	while (cnt--)
		cr_assert(tag_list_apply(rig->list));
	cr_assert_eq(tag_list_waiting(rig->list), 0);
}

/* The adapter carries out the command that waits, and what it reports is handled. */
static void carry_out(struct rig *rig)
{
	apply(rig, 1);
	rig_poll_all(rig);
}

/* A receive that is in the list, active, and known to be there. */
static uint64_t listed(struct rig *rig, uint32_t peer, uint64_t tag, uint64_t ignore)
{
	uint64_t recv = rig_post(rig, peer, tag, ignore, true);
	uint32_t active = tag_list_active(rig->list);

	carry_out(rig);
	cr_assert(rig_is_listed(rig, recv));
	cr_assert_eq(tag_list_active(rig->list), active + 1);
	return recv;
}

static void finish(struct rig *rig)
{
	rig_settle(rig);
	rig_fini(rig);
}

Test(offload, list_is_empty_until_a_message_is_unexpected, .timeout = 20)
{
	static struct rig rig;
	uint64_t recv;

	rig_init(&rig, 4, 8, 100, 100);
	rig_enter(&rig, 1);
	recv = rig_post(&rig, 1, 7, 0, true);
	rig_post(&rig, 0, 8, 0, true);
	rig_flush(&rig);
	cr_expect_eq(rig_stats(&rig).added, 0);
	rig_send(&rig, 1, 7, RIG_SHORT);
	rig_poll(&rig);
	cr_expect_eq(rig_got(&rig, recv), 1);
	cr_expect_eq(rig_stats(&rig).added, 1);
	cr_expect_eq(tag_list_active(rig.list), 1);
	finish(&rig);
}

/* The message came before the entry, which must not take the next one. */
Test(offload, post_crosses_unexpected, .timeout = 20)
{
	struct rig *rig = start(4);
	uint64_t first = rig_send(rig, 1, 7, RIG_SHORT);
	uint64_t recv = rig_post(rig, 1, 7, 0, true);
	uint64_t other = rig_post(rig, 1, 8, 0, true);
	uint64_t second;

	cr_assert(rig_is_listed(rig, recv));
	apply(rig, 2);
	cr_expect_eq(tag_list_active(rig->list), 0);
	second = rig_send(rig, 1, 7, RIG_SHORT);
	rig_poll(rig);
	cr_expect_eq(rig_got(rig, recv), first);
	cr_expect_eq(tag_list_waiting(rig->list), 2, "a del, and a sync behind it");
	rig_send(rig, 1, 8, RIG_SHORT);
	apply(rig, 2);
	rig_poll_all(rig);
	cr_expect_eq(rig_got(rig, rig_post(rig, 1, 7, 0, true)), second);
	cr_expect_eq(rig_got(rig, other), second + 1);
	finish(rig);
}

/* The sync that the message allows must not make the entry active that got it. */
Test(offload, sync_waits_for_the_del, .timeout = 20)
{
	struct rig *rig = start(4);
	uint64_t recv, other;

	rig_send(rig, 1, 7, RIG_SHORT);
	recv = rig_post(rig, 1, 7, 0, true);
	other = rig_post(rig, 2, 9, 0, true);
	apply(rig, 2);
	rig->refuse = 2;	/* the del in take(), and in flush() */
	rig_poll(rig);
	cr_expect_eq(rig_got(rig, recv), 2);
	cr_expect_eq(tag_list_waiting(rig->list), 0);
	rig->refuse = 1;
	rig_post(rig, 2, 10, 0, true);	/* no add either */
	cr_expect_eq(rig->refuse, 1);
	rig->refuse = 0;
	rig_send(rig, 1, 7, RIG_SHORT);
	rig_poll_all(rig);
	cr_expect_eq(rig_stats(rig).syncs + rig_stats(rig).promoted, 1);
	cr_expect(rig_is_listed(rig, other));
	finish(rig);
}

/* The adapter gives the handle away: a del would be another entry's. */
Test(offload, match_was_read_before_the_del, .timeout = 20)
{
	struct rig *rig = start(4);
	uint64_t first = listed(rig, 1, 7, 0), any = listed(rig, 0, 8, 0);
	uint64_t msg = rig_send(rig, 1, 7, RIG_SHORT), second = rig_send(rig, 2, 8, RIG_LONG);

	rig_read_ahead(rig);
	rig_cancel(rig, first);
	rig_leave(rig, 1);	/* 'any' is to come back */
	cr_expect_eq(tag_list_waiting(rig->list), 0, "no del");
	cr_expect_not(tagrv_offload_settled(rig->off));
	rig_poll_all(rig);
	cr_expect(tagrv_offload_settled(rig->off));
	cr_expect_eq(rig_got(rig, first), msg);
	cr_expect_eq(rig_got(rig, any), second);
	cr_expect_eq(rig_stats(rig).late, 2);
	finish(rig);
}

Test(offload, cancel_crosses_match, .timeout = 20)
{
	struct rig *rig = start(4);
	uint64_t recv = listed(rig, 1, 7, 0), msg;

	rig_cancel(rig, recv);
	msg = rig_send(rig, 1, 7, RIG_SHORT);
	apply(rig, 1);
	rig_poll_all(rig);
	cr_expect_eq(rig_got(rig, recv), msg);
	cr_expect_eq(rig_stats(rig).late, 1);
	cr_expect_eq(tag_list_used(rig->list), 0);

	recv = listed(rig, 1, 7, 0);
	rig_cancel(rig, recv);
	apply(rig, 1);
	rig_send(rig, 1, 7, RIG_SHORT);
	rig_poll_all(rig);
	cr_expect_eq(rig_recv(rig, recv)->state, RIG_CANCELLED);
	finish(rig);
}

/*
 * The adapter has deleted the older receive, gave a message to the younger one, and then
 * reports an unexpected message before the end of the del: the older one must not get it.
 */
Test(offload, cancelled_receive_takes_no_later_message, .timeout = 20)
{
	struct rig *rig = start(4);
	uint64_t older = listed(rig, 1, 7, 0), younger = listed(rig, 1, 7, 0), msg;

	rig_cancel(rig, older);
	tag_list_set_delays(rig->list, &(struct tag_list_delays) {
		.apply = TAG_LIST_HOLD, .report = 5 });
	apply(rig, 1);
	msg = rig_send(rig, 1, 7, RIG_SHORT);
	rig_send(rig, 1, 7, RIG_SHORT);
	rig_poll_all(rig);
	cr_expect_eq(rig_got(rig, younger), msg);
	cr_expect_eq(rig_recv(rig, older)->state, RIG_LIMBO);
	rig_settle(rig);
	cr_expect_eq(rig_recv(rig, older)->state, RIG_CANCELLED);
	cr_expect_eq(rig_got(rig, rig_post(rig, 1, 7, 0, true)), msg + 1);
	finish(rig);
}

/* The adapter's del fails, and its completion comes before that of the message's data. */
Test(offload, late_delete, .timeout = 20)
{
	struct rig *rig = start(4);
	uint64_t recv = listed(rig, 1, 7, 0), msg;

	msg = rig_send(rig, 1, 7, RIG_RNDV);
	rig_cancel(rig, recv);
	apply(rig, 1);
	rig_poll_all(rig);
	cr_expect_eq(rig_stats(rig).late, 1);
	cr_expect_eq(rig_recv(rig, recv)->state, RIG_MATCHED);
	cr_expect_eq(tag_list_used(rig->list), 1);
	rig_read_done(rig);
	rig_poll_all(rig);
	cr_expect_eq(rig_got(rig, recv), msg);
	cr_expect_eq(tag_list_used(rig->list), 0);
	finish(rig);
}

/* The match is known before the del could be posted: none is posted. */
Test(offload, match_comes_before_a_waiting_del, .timeout = 20)
{
	struct rig *rig = start(1);
	uint64_t recv = listed(rig, 1, 7, 0), msg = rig_send(rig, 1, 7, RIG_SHORT);

	rig->refuse = 1;
	rig_cancel(rig, recv);
	rig_poll_all(rig);
	cr_expect_eq(rig_got(rig, recv), msg);
	cr_expect_eq(tag_list_waiting(rig->list), 0);
	listed(rig, 1, 7, 0);
	finish(rig);
}

Test(offload, wildcard_after_directed, .timeout = 20)
{
	struct rig *rig = start(8);
	uint64_t soft = rig_post(rig, 1, 7, 0, false), any = rig_post(rig, 0, 7, 0, true);
	uint64_t directed = rig_post(rig, 2, 7, 0, true), msg;

	cr_expect_not(rig_is_listed(rig, any));
	cr_expect_not(rig_is_listed(rig, directed), "an older one is from any source");
	rig_flush(rig);
	cr_expect_eq(rig_stats(rig).added, 0);
	msg = rig_send(rig, 1, 7, RIG_SHORT);
	rig_poll_all(rig);
	cr_expect_eq(rig_got(rig, soft), msg);
	cr_expect(rig_is_listed(rig, any));
	cr_expect(rig_is_listed(rig, directed));
	apply(rig, 2);
	msg = rig_send(rig, 2, 7, RIG_SHORT);
	rig_send(rig, 2, 7, RIG_SHORT);
	rig_poll_all(rig);
	cr_expect_eq(rig_got(rig, any), msg);
	cr_expect_eq(rig_got(rig, directed), msg + 1);
	finish(rig);
}

Test(offload, sources_do_not_wait_for_each_other, .timeout = 20)
{
	struct rig *rig = start(8);
	uint64_t later;

	rig_post(rig, 1, 7, 0, false);
	rig_post(rig, 1, 8, 0, true);
	listed(rig, 2, 7, 0);
	later = rig_post(rig, 3, 7, 0, true);
	cr_expect_not(rig_is_listed(rig, later));
	rig_enter(rig, 3);
	rig_flush(rig);
	cr_expect(rig_is_listed(rig, later));
	cr_expect_eq(tagrv_offload_soft(rig->off), 2);
	finish(rig);
}

/* All that a peer of this host could match comes back; its message waits until then. */
Test(offload, local_peer_joins, .timeout = 20)
{
	struct rig *rig = start(8);
	uint64_t before = listed(rig, 2, 9, 0), any = listed(rig, 0, 7, 0);
	uint64_t second = listed(rig, 0, 7, 0), younger = listed(rig, 1, 7, 0);
	uint64_t local, crossing;

	rig_leave(rig, 3);
	cr_expect_eq(rig_stats(rig).recalled, 3);
	cr_expect(rig_is_listed(rig, before));
	local = rig_send(rig, 3, 7, RIG_SHORT);
	rig_serve(rig);
	cr_expect_eq(rig_got(rig, any), 0);
	tag_list_apply(rig->list);
	tag_list_apply(rig->list);
	crossing = rig_send(rig, 1, 7, RIG_SHORT);
	apply(rig, 1);
	rig_poll(rig);
	rig_serve(rig);
	cr_expect_eq(rig_got(rig, second), 0);
	rig_poll_all(rig);
	rig_serve(rig);
	cr_expect_eq(rig_got(rig, any), crossing);
	cr_expect_eq(rig_got(rig, second), local);
	rig_flush(rig);
	cr_expect(rig_is_listed(rig, younger), "it is the oldest one again");
	cr_expect_not(rig_is_listed(rig, rig_post(rig, 0, 1, 0, true)));
	finish(rig);
}

/* A message by another way must not pass a receive that may have been matched. */
Test(offload, local_peer_waits_for_a_cancel, .timeout = 20)
{
	struct rig *rig = start(8);
	uint64_t any = listed(rig, 0, 7, 0), younger, local, msg;

	rig_cancel(rig, any);
	msg = rig_send(rig, 1, 7, RIG_SHORT);
	rig_leave(rig, 3);
	younger = rig_post(rig, 0, 7, 0, true);
	local = rig_send(rig, 3, 7, RIG_SHORT);
	rig_serve(rig);
	cr_expect_eq(rig_got(rig, younger), 0);
	apply(rig, 1);
	rig_poll_all(rig);
	rig_serve(rig);
	cr_expect_eq(rig_got(rig, any), msg);
	cr_expect_eq(rig_got(rig, younger), local);
	finish(rig);
}

Test(offload, peer_leaves_and_enters, .timeout = 20)
{
	struct rig *rig = start(8);
	uint64_t recv = listed(rig, 1, 7, 0), other = listed(rig, 2, 7, 0);

	rig_leave(rig, 1);
	apply(rig, 2);
	rig_poll_all(rig);
	cr_expect_not(rig_is_listed(rig, recv));
	cr_expect(rig_is_listed(rig, other));
	rig_enter(rig, 1);
	rig_flush(rig);
	cr_expect(rig_is_listed(rig, recv));
	apply(rig, 2);
	rig_send(rig, 1, 7, RIG_SHORT);
	rig_poll_all(rig);
	cr_expect_eq(rig_stats(rig).consumed, 1);
	finish(rig);
}

/* Its messages take the older receive, before software hears of the connection's end and after. */
Test(offload, peer_comes_back_by_another_link, .timeout = 20)
{
	struct rig *rig = start(8);
	uint64_t recv[4], msg[4];

	for (unsigned i = 0; i < 4; i++)
		recv[i] = listed(rig, i % 2 ? 0 : 1, 7, 0);
	for (unsigned i = 0; i < 4; i++) {
		if (i == 1)
			rig_part(rig, 1);
		if (i == 3)
			apply(rig, 4);
		msg[i] = rig_send(rig, 1, 7, RIG_SHORT);
	}
	rig_poll_all(rig);
	for (unsigned i = 0; i < 4; i++)
		cr_expect_eq(rig_got(rig, recv[i]), msg[i]);
	rig_enter(rig, 1);
	finish(rig);
}

Test(offload, list_full_then_drains, .timeout = 20)
{
	struct rig *rig = start(2);
	uint64_t recv[6];

	recv[0] = listed(rig, 1, 0, 0);
	recv[1] = listed(rig, 1, 1, 0);
	for (unsigned i = 2; i < 6; i++) {
		recv[i] = rig_post(rig, i & 1 ? 0 : 1, i, 0, true);
		cr_expect_not(rig_is_listed(rig, recv[i]));
	}
	for (unsigned i = 0; i < 4; i++) {
		uint64_t msg = rig_send(rig, 1, i, RIG_SHORT);

		rig_poll_all(rig);
		cr_expect_eq(rig_got(rig, recv[i]), msg);
		cr_expect(rig_is_listed(rig, recv[i + 2]));
		cr_expect_eq(tagrv_offload_listed(rig->off), 2);
		apply(rig, 1);
		rig_poll_all(rig);
	}
	cr_expect_eq(rig_stats(rig).consumed, 4);
	finish(rig);
}

/* A long queue of receives that cannot go is passed over several calls. */
Test(offload, walk_goes_on_where_it_was, .timeout = 20)
{
	struct rig *rig = start(4);
	uint64_t recv[300], last;

	for (unsigned i = 0; i < 300; i++)
		recv[i] = rig_post(rig, 1, i, 0, false);
	last = rig_post(rig, 3, 7, 0, true);
	rig_enter(rig, 3);
	rig_flush(rig);
	for (unsigned i = 64; i < 80; i++)	/* those where it stands */
		rig_cancel(rig, recv[i]);
	cr_expect_not(rig_is_listed(rig, last));
	for (unsigned i = 0; i < 4; i++)
		rig_flush(rig);
	cr_expect(rig_is_listed(rig, last));
	finish(rig);
}

Test(offload, resync_after_2_14, .timeout = 20)
{
	struct rig *rig = start(4);
	uint64_t recv;

	for (unsigned i = 2; i <= 70000; i++) {
		rig_send(rig, 1, NONE, RIG_SHORT);
		rig_poll(rig);
		cr_assert_eq(rig_stats(rig).syncs, i >> 14, "%u", i);
		if (tag_list_waiting(rig->list)) {
			tag_list_apply(rig->list);
			rig_poll(rig);
		}
	}
	recv = listed(rig, 1, 7, 0);
	rig_send(rig, 1, 7, RIG_SHORT);
	rig_poll_all(rig);
	cr_expect_eq(rig_got(rig, recv), rig->msg_cnt);
	cr_expect_eq(rig_stats(rig).consumed, 1);
	finish(rig);
}

/* One sync was posted so far, and an entry waits for the next one. */
static void expect_entry_waits(struct rig *rig)
{
	cr_expect_eq(rig_stats(rig).syncs, 1);
	cr_expect_eq(tag_list_inactive(rig->list), 1);
}

/* The second one tells of every message. */
static void expect_second_sync_ends_it(struct rig *rig)
{
	cr_expect_eq(rig_stats(rig).syncs, 2);
	carry_out(rig);
	cr_expect_eq(tag_list_inactive(rig->list), 0);
	finish(rig);
}

/* Syncs are as many as help: one at a time, none if no entry waits for it. */
Test(offload, syncs_are_few, .timeout = 20)
{
	struct rig *rig = start(4);

	listed(rig, 1, 7, 0);
	for (unsigned i = 0; i < 50; i++)
		rig_send(rig, 1, NONE, RIG_SHORT);
	rig_poll_all(rig);
	cr_expect_eq(rig_stats(rig).syncs, 0);
	rig_send(rig, 1, NONE, RIG_SHORT);
	rig_post(rig, 1, 8, 0, true);
	carry_out(rig);
	for (unsigned i = 0; i < 50; i++) {
		rig_send(rig, 1, NONE, RIG_SHORT);
		rig_poll_all(rig);
	}
	expect_entry_waits(rig);
	carry_out(rig);
	expect_second_sync_ends_it(rig);
}

/*
 * The adapter has counted a message that software keeps: the sync that told one less has made
 * nothing active, so another one is due when the message is handled.
 */
Test(offload, a_kept_message_is_counted_by_the_adapter_only, .timeout = 20)
{
	struct rig *rig = start(4);

	rig_send(rig, 1, NONE, RIG_SHORT);
	rig_post(rig, 2, 7, 0, true);
	carry_out(rig);			/* a sync tells of the message */
	rig_keep(rig, 1, true);
	rig_send(rig, 1, NONE, RIG_SHORT);
	carry_out(rig);
	expect_entry_waits(rig);
	rig_keep(rig, 1, false);
	rig_flush(rig);
	expect_second_sync_ends_it(rig);
}
