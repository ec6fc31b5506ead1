/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives that a list of an adapter may match: each way in which one ends, over the list of
 * the scripted transport.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fake_xport.h"
#include "core/page.h"
#include "object/lane.h"
#include "object/op.h"
#include "object/tags.h"
#include "xport/numbers.h"

#define ENTRIES	4u
#define OPS	8u

static struct rig {
	struct tagrv_dom dom;
	struct tagrv_engine engine;
	struct tagrv_rx rx;
	struct tagrv_peer peer;
	struct tagrv_xport *xport;
	struct tagrv_tags *tags;
	struct tagrv_lane *lane;
	struct tagrv_op ops[OPS];
	unsigned arrived[OPS], cancelled[OPS];
	int	status[OPS];
	char	bytes[OPS][16];
	struct tagrv_listed last;	/* as the last message that arrived was told */
	bool	closed;
} rig;

static void on_arrived(struct tagrv_tags *tags, const struct tagrv_listed *listed,
		       struct tagrv_op *op, const void *bytes, size_t len, int status)
{
	size_t n = (size_t) (op - rig.ops);

	cr_assert_eq(tags, rig.tags);
	cr_assert_null(op->rx.listed);
	cr_assert_eq(op->status, 0);
	rig.arrived[n]++;
	rig.status[n] = status;
	rig.last = *listed;
	if (!status)
		memcpy(rig.bytes[n], bytes, len);
}

static void on_cancelled(struct tagrv_tags *tags, struct tagrv_op *op)
{
	cr_assert_eq(tags, rig.tags);
	cr_assert_null(op->rx.listed);
	rig.cancelled[op - rig.ops]++;
}

static void on_listed(struct tagrv_sink *sink, void *ctx, const void *data, size_t len)
{
	(void) sink, (void) ctx, (void) data, (void) len;
}

static void on_closed(struct tagrv_sink *sink, void *ctx)
{
	struct tagrv_lane *lane = ctx;

	(void) sink;
	tagrv_list_remove(&lane->node);
	tagrv_tags_link_gone(rig.tags, lane);
	free(lane);
}

static void set_up(void)
{
	static const struct tagrv_tags_ops ops = {
		.arrived = on_arrived, .cancelled = on_cancelled,
	};
	struct tagrv_sink *sink = &rig.engine.rails.all[0].sink;
	struct tagrv_device *dev = fake_device();

	cr_assert_eq(tagrv_lock_init(&rig.dom.lock, true), 0);
	tagrv_lock_acquire(&rig.dom.lock);
	rig.engine.dom = &rig.dom;
	rig.engine.rails.all[0].engine = &rig.engine;
	tagrv_list_init(&rig.engine.conn.lanes);
	tagrv_list_init(&rig.engine.tx.busy);
	cr_assert_eq(tagrv_match_create(0, 0, &rig.rx.match), 0);
	rig.peer.engine = &rig.engine;
	tagrv_list_init(&rig.peer.busy_node);
	fake_list_max = ENTRIES;
	fake.given = 5;
	*sink = (struct tagrv_sink) {
		.wants_list = true, .listed = on_listed, .link_closed = on_closed,
	};
	cr_assert_eq(dev->ops->xport_open(dev, &rig.dom.params, sink, &rig.xport), 0);
	cr_assert_eq(tagrv_tags_open(&rig.engine, rig.xport, 256, &ops, &rig.tags), 0);
}

static void close_all(void)
{
	rig.xport->ops->xport_close(rig.xport);
	tagrv_tags_close(rig.tags);
	cr_expect_eq(fake.regs, 0);
	rig.closed = true;
}

static void tear_down(void)
{
	if (!rig.closed)
		close_all();
	if (rig.lane)
		fake.base.ops->link_discard(rig.lane->link);
	free(rig.lane);
	tagrv_match_destroy(rig.rx.match);
	tagrv_lock_release(&rig.dom.lock);
	tagrv_lock_fini(&rig.dom.lock);
}

TestSuite(tags, .init = set_up, .fini = tear_down, .timeout = 20);

static void pass(void)
{
	rig.xport->list->ops->progress(rig.xport->list);
	tagrv_tags_flush(rig.tags);
}

/* The peer's connection, which is up. */
static struct tagrv_link *enter(void)
{
	struct tagrv_link *link = fake_link_on(rig.xport);

	rig.lane = calloc(1, sizeof(*rig.lane));
	rig.lane->peer = &rig.peer;
	rig.lane->link = link;
	rig.lane->listed = true;
	tagrv_list_init(&rig.lane->wait_node);
	rig.peer.lane = rig.lane;
	rig.peer.life++;
	rig.peer.state = TAGRV_PEER_READY;
	tagrv_tags_enter(rig.tags, rig.lane);
	cr_assert_eq(link->xport->ops->link_attach(link, rig.lane), 0);
	return link;
}

static void post(unsigned n, uint64_t tag, struct tagrv_peer *peer)
{
	const struct tagrv_match_want want = {
		.peer = peer ? peer->match_id : TAGRV_MATCH_ANY, .space = TAGRV_SPACE_TAGGED,
		.tag = tag,
	};
	struct tagrv_match_recv *recv;
	struct tagrv_match_msg *msg;
	struct tagrv_op *op = &rig.ops[n];

	op->tag = tag;
	op->rx.rx = &rig.rx;
	cr_assert_eq(tagrv_match_post(rig.rx.match, &want, &recv, &op->rx.match_id, &msg), 0);
	tagrv_tags_post(rig.tags, op, peer, 0);
}

static bool is_posted(unsigned n)
{
	struct tagrv_match_recv *recv;

	return !tagrv_match_cancel(rig.rx.match, rig.ops[n].rx.match_id, &recv);
}

static int cancel(unsigned n)
{
	cr_assert(is_posted(n));
	return tagrv_tags_cancel(rig.tags, &rig.ops[n], -FI_ECANCELED);
}

/* The list is used from the first unexpected message on. */
static struct tagrv_link *begin(void)
{
	struct tagrv_link *link = enter();

	fake_listed(link, 99, 0, NULL, 0);
	pass();
	return link;
}

/* Receive 0 has matched and has no bytes, 1 is cancelled and not answered, 2 is in the list. */
static void begin_with_one_of_each(void)
{
	struct tagrv_link *link = begin();

	fake.list->hold_data = true;
	post(0, 7, NULL);
	post(1, 8, NULL);
	post(2, 9, NULL);
	fake_listed(link, 7, 0, "abc", 4);
	pass();
	fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
	cr_assert_eq(cancel(1), -FI_EINPROGRESS);
}

Test(tags, message_is_copied_from_its_entry_and_leaves_the_matcher)
{
	struct tagrv_link *link = begin();

	post(0, 7, NULL);
	fake_listed(link, 7, 3, "hello", 6);
	pass();
	cr_assert_eq(rig.arrived[0], 1);
	cr_expect_eq(rig.status[0], 0);
	cr_expect_str_eq(rig.bytes[0], "hello");
	cr_expect_eq(rig.last.app, 3);
	cr_expect_eq(rig.last.from, &rig.peer);
	cr_expect(rig.last.current);
	cr_expect_eq(rig.peer.rx_seq, 1);
	cr_expect_not(is_posted(0));
}

Test(tags, peer_is_awaited_until_the_bytes_are_there)
{
	struct tagrv_link *link = begin();

	fake.list->hold_data = true;
	post(0, 7, &rig.peer);
	fake_listed(link, 7, 0, "abc", 4);
	pass();
	cr_expect_eq(rig.arrived[0], 0);
	cr_expect_not(is_posted(0));
	cr_expect(tagrv_tags_awaits(rig.tags, &rig.peer));
	cr_assert(fake_list_data(fake.list));
	pass();
	cr_expect_eq(rig.arrived[0], 1);
	cr_expect_not(tagrv_tags_awaits(rig.tags, &rig.peer));
}

Test(tags, cancelled_receive_ends_when_the_list_gives_it_back)
{
	begin();
	post(0, 7, NULL);
	pass();
	cr_assert_eq(cancel(0), -FI_EINPROGRESS);
	cr_expect_eq(rig.cancelled[0], 0);
	pass();
	cr_expect_eq(rig.cancelled[0], 1);
	cr_expect_eq(rig.ops[0].status, -FI_ECANCELED);
}

Test(tags, message_that_is_faster_than_a_cancel_is_received)
{
	struct tagrv_link *link = begin();

	post(0, 7, NULL);
	pass();
	fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
	cr_assert_eq(cancel(0), -FI_EINPROGRESS);
	fake_listed(link, 7, 0, "abc", 4);
	fake_list_apply(fake.list);
	pass();
	pass();
	cr_expect_eq(rig.arrived[0], 1);
	cr_expect_eq(rig.cancelled[0], 0);
}

/* The adapter's library has given the entry's handle away: nothing is deleted. */
Test(tags, message_that_was_read_before_a_cancel_is_received)
{
	struct tagrv_link *link = begin();

	post(0, 7, NULL);
	post(1, 8, NULL);
	pass();
	fake_listed(link, 7, 0, "abc", 4);
	fake_listed(link, 8, 0, "def", 4);
	fake_list_read_ahead(fake.list);
	cr_assert_eq(cancel(0), -FI_EINPROGRESS);
	tagrv_tags_outside(rig.tags, true);	/* the other one is recalled */
	tagrv_tags_flush(rig.tags);
	cr_assert_not_null(rig.xport->list);
	tagrv_tags_settle(rig.tags);
	pass();
	cr_expect_eq(fake.list->dels, 0);
	cr_expect(rig.arrived[0] == 1 && rig.arrived[1] == 1);
	cr_expect_eq(rig.cancelled[0], 0);
	cr_expect_not_null(rig.xport->list);
}

Test(tags, receive_that_only_software_knows_ends_at_once)
{
	enter();
	post(0, 7, NULL);
	cr_expect_eq(cancel(0), 0);
	cr_expect_null(rig.ops[0].rx.listed);
}

Test(tags, taken_receive_is_free_while_its_entry_comes_back)
{
	struct tagrv_tags_counts counts;

	begin();
	post(0, 7, NULL);
	pass();
	tagrv_tags_outside(rig.tags, true);	/* recalled */
	cr_assert(is_posted(0));
	tagrv_tags_take(rig.tags, &rig.ops[0]);
	cr_expect_null(rig.ops[0].rx.listed);
	tagrv_tags_settle(rig.tags);
	tagrv_tags_get_counts(rig.tags, &counts);
	cr_expect_eq(counts.listed + counts.soft, 0);
	cr_expect_eq(counts.outside, 1);
}

/* The adapter never answers: the receive goes on in software. */
Test(tags, list_that_does_not_answer_is_lost)
{
	begin();
	post(0, 7, NULL);
	pass();
	fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
	tagrv_tags_outside(rig.tags, true);
	tagrv_tags_settle(rig.tags);
	cr_expect_null(rig.xport->list);
	cr_expect_null(rig.ops[0].rx.listed);
	cr_expect(is_posted(0));
}

/* The adapter may still write there what is left of the message. */
Test(tags, memory_of_a_message_that_stopped_is_not_used_again)
{
	struct tagrv_link *link = begin();
	const void *bytes;

	fake.list->hold_data = true;
	post(0, 7, NULL);
	fake_listed(link, 7, 0, "abc", 4);
	pass();
	fake_list_forget_link(fake.list, link);
	pass();
	cr_assert_eq(rig.arrived[0], 1);
	cr_expect_eq(rig.status[0], -FI_ECONNRESET);
	bytes = rig.last.bounce;
	cr_assert_not_null(bytes);
	fake.list->hold_data = false;
	for (unsigned n = 1; n < OPS; n++) {
		post(n, 8, NULL);
		pass();
		fake_listed(link, 8, 0, "def", 4);
		pass();
		cr_assert(rig.arrived[n] == 1 && !rig.status[n]);
		cr_expect_neq(rig.last.bounce, bytes);
	}
	cr_expect_eq(fake.list->adds, OPS);
}

Test(tags, loss_ends_what_has_matched_or_was_cancelled)
{
	begin_with_one_of_each();
	tagrv_tags_lose(rig.tags, -FI_EIO);
	cr_expect_eq(rig.status[0], -FI_EIO);
	cr_expect_eq(rig.cancelled[1], 1);
	cr_expect_null(rig.ops[2].rx.listed);
	cr_expect(is_posted(2));
	post(3, 7, NULL);
	cr_expect_null(rig.ops[3].rx.listed);
}

Test(tags, error_of_a_command_loses_the_list_in_the_next_flush)
{
	begin();
	fake.list->error = -FI_EIO;
	post(0, 7, NULL);
	cr_assert_not_null(rig.xport->list);
	cr_expect(tagrv_tags_is_busy(rig.tags));
	tagrv_tags_flush(rig.tags);
	cr_expect_null(rig.xport->list);
	cr_expect(is_posted(0));
}

/* Its old number is in use until its link is gone. */
Test(tags, peer_that_comes_back_waits_for_its_older_lane)
{
	struct tagrv_link *old_link = begin();
	struct tagrv_lane *old = rig.lane;

	tagrv_tags_leave(rig.tags, old);
	old->peer = NULL;
	tagrv_list_init(&old->node);
	fake.given = 6;
	enter();
	cr_expect_eq(rig.peer.listed.number, 0);
	pass();
	cr_expect_eq(rig.peer.listed.number, 0);
	old_link->xport->ops->link_discard(old_link);
	on_closed(NULL, old);
	pass();
	cr_expect_eq(rig.peer.listed.number, 6 & ~TAGRV_OFFLOAD_LIFE);
}

/* Until its entry has come back, nobody else gets the number: a message would take the entry. */
Test(tags, number_is_held_until_entries_have_come_back)
{
	struct tagrv_numbers *numbers = tagrv_numbers_create();
	unsigned links, peers;

	rig.xport->list->numbers = numbers;
	cr_assert_eq(tagrv_numbers_take(numbers, NULL, &fake.given), 0);
	begin();
	post(0, 7, &rig.peer);
	pass();
	fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
	tagrv_tags_leave(rig.tags, rig.lane);
	tagrv_numbers_give(numbers, fake.given);
	pass();
	tagrv_numbers_count(numbers, &links, &peers);
	cr_expect_eq(links, 0);
	cr_expect_eq(peers, 1);
	cr_assert(fake_list_apply(fake.list));
	pass();
	tagrv_numbers_count(numbers, &links, &peers);
	cr_expect_eq(peers, 0);
	rig.xport->list->numbers = NULL;
	tagrv_numbers_destroy(numbers);
}

/* The memory of entries is registered in whole pages. */
Test(tags, memory_of_entries_has_pages_of_the_host)
{
	const struct tagrv_listed *listed;

	tagrv_page_size_pretend(65536);
	begin();
	post(0, 7, NULL);
	pass();
	listed = rig.ops[0].rx.listed;
	cr_assert_not_null(listed->bounce);
	cr_expect_eq((uintptr_t) listed->bounce % 65536, 0, "the first one");
	cr_expect_eq(listed->entry.mem->len % 65536, 0);
	tagrv_page_size_pretend(0);
}

Test(tags, without_memory_receives_stay_in_software)
{
	fake.reg_error = -FI_ENOMEM;
	begin();
	post(0, 7, NULL);
	pass();
	cr_expect_not(fake_list_would_match(fake.list, 7));
	cr_expect_eq(cancel(0), 0);
}

/* What shared a page with it would be pinned, and lost to a child of fork, too. */
Test(tags, memory_of_entries_has_whole_pages_of_any_size)
{
	const size_t page = 65536;
	const struct tagrv_mem *mem;

	tagrv_page_size_pretend(page);
	begin();
	post(0, 7, NULL);
	pass();
	mem = rig.ops[0].rx.listed->entry.mem;
	cr_assert_not_null(mem);
	cr_expect_eq((uintptr_t) mem->addr % page, 0);
	cr_expect_eq(mem->len % page, 0);
	tagrv_page_size_pretend(0);
}

Test(tags, close_needs_no_end_of_any_receive)
{
	begin_with_one_of_each();
	close_all();
	cr_expect_eq(rig.cancelled[1] + rig.arrived[0], 0);
}
