/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What comes by the list of an xport: packets that are too short for it, tagged messages with
 * numbers that are not their sender's, and links that come by it no longer.
 */
#include <criterion/criterion.h>
#include <endian.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/tm/list_peer.h"
#include "unit/xport/verbs/verbs_fixture.h"
#include "xport/verbs/verbs_in.h"
#include "xport/verbs/verbs_list_rx.h"

#define LEN	8000u	/* of the entry; more than one packet of the device */

static const struct tagrv_xport_ops *const ops = &tagrv_verbs_ops;

/* What end b's list told of its entry. */
static struct {
	unsigned consumed, data;
	int	consumed_status, data_status;
	struct tagrv_link *link;
	size_t	len;
	struct tagrv_taglist_entry entry;
	struct tagrv_mem *mem;
	char	bytes[LEN];
} got;

static void on_added(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		     bool sync_req)
{
	(void) sink;
	(void) entry;
	(void) sync_req;
}

static void on_consumed(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
			struct tagrv_link *link, uint64_t tag, uint32_t app, int status)
{
	(void) sink;
	(void) tag;
	(void) app;
	cr_assert_eq(entry, &got.entry);
	got.consumed++;
	got.consumed_status = status;
	got.link = link;
}

static void on_data(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		    size_t len, int status)
{
	(void) sink;
	cr_assert_eq(entry, &got.entry);
	got.data++;
	got.data_status = status;
	got.len = len;
}

static void prepare(void)
{
	verbs_prepare();
	config = fake_verbs_as("mlx5");
	params.hw_tags = true;
}

TestSuite(verbs_list_number, .init = prepare, .timeout = 30);

/* End b has a list with an entry that any message matches. */
static void open_pair(void)
{
	pair_open_with(&pair, PAIR_LIST_ONE, &params, &config);
	pair.b->list_sink.added = on_added;
	pair.b->list_sink.consumed = on_consumed;
	pair.b->list_sink.data = on_data;
	cr_assert_eq(ops->mem_reg(pair.b->dev, got.bytes, LEN, TAGRV_MEM_STORE, &got.mem), 0);
	pair_connect(&pair);
}

static void add(void)
{
	got.entry = (struct tagrv_taglist_entry) {
		.addr = got.bytes, .len = LEN, .mem = got.mem,
	};
	cr_assert_eq(pair.b->xport->list->ops->add(pair.b->xport->list, &got.entry, 0), 0);
	got.consumed = got.data = 0;
}

static void close_pair(void)
{
	ops->mem_dereg(got.mem);
	pair_close(&pair);
}

/* End a sends a tagged message with this number by its link. */
static void send_number(uint32_t number, size_t len)
{
	uint64_t words[2] = { TAGRV_TAGLIST_EAGER, htobe64((uint64_t) number << VERBS_LIST_NUMBER_AT) };
	static char payload[LEN];
	struct iovec iov[2] = { { words, sizeof(words) }, { payload, len } };

	fill_pattern(payload, 4, len);
	cr_assert_eq(ops->send(pair.a->link, iov, 2, TAGRV_SEND_TAGGED, NULL), 0);
}

static void expect_match(size_t len)
{
	PAIR_UNTIL(&pair, got.data == 1);
	cr_assert(got.consumed == 1 && got.link == pair.b->link && !got.consumed_status);
	cr_assert(!got.data_status && got.len == len && is_pattern(got.bytes, 4, len));
}

/* Neither the message nor its bytes are anybody's. */
static void expect_refusal(void)
{
	PAIR_UNTIL(&pair, got.data == 1);
	cr_assert(got.consumed == 1 && !got.link);
	cr_assert_eq(got.consumed_status, -FI_EREMOTEIO);
	cr_assert(got.data_status == -FI_EREMOTEIO && !got.len);
}

Test(verbs_list_number, messages_with_their_number_come)
{
	open_pair();
	for (unsigned i = 0; i < 10; i++) {
		size_t len = i % 2 ? 100 : 5000;

		add();
		send_number(pair.a->link->number, len);
		expect_match(len);
	}
	pair_send(&pair, pair.a, 1, 20, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	close_pair();
}

/* The device gives a packet that is no tagged message to software, however short it is. */
static void send_raw(size_t len)
{
	struct verbs_link *a = verbs_link_of(pair.a->link);
	char zeros[16] = "";
	struct iovec iov = { zeros, len };

	a->base.number = 0;
	a->open_max = a->max_packet;
	cr_assert_eq(ops->send(pair.a->link, &iov, 1, 0, NULL), 0);
}

Test(verbs_list_number, a_packet_without_its_words_ends_the_link)
{
	open_pair();
	send_raw(16);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	cr_assert_eq(pair.b->packets[0].len, 0, "an empty packet");
	send_raw(15);
	PAIR_UNTIL(&pair, pair.b->errors == 1);
	cr_assert_eq(pair.b->error_status, -FI_EREMOTEIO);
	cr_assert_eq(pair.b->packet_cnt, 1);
	close_pair();
}

Test(verbs_list_number, an_empty_packet_ends_the_link)
{
	open_pair();
	send_raw(0);
	PAIR_UNTIL(&pair, pair.b->errors == 1);
	cr_assert_eq(pair.b->error_status, -FI_EREMOTEIO);
	cr_assert_eq(pair.b->packet_cnt, 0);
	close_pair();
}

/* A second link between both ends, with end b as its context, too. */
static void connect_another(struct tagrv_link **a, struct tagrv_link **b)
{
	pair_link(&pair, a, b);
	cr_assert_eq(ops->link_attach(*a, &got), 0);
	cr_assert_eq(ops->link_attach(*b, &got), 0);
}

static void close_another(struct tagrv_link *a, struct tagrv_link *b)
{
	unsigned a_closed = pair.a->closed, b_closed = pair.b->closed;

	ops->link_close(a);
	ops->link_close(b);
	PAIR_UNTIL(&pair, pair.a->closed > a_closed && pair.b->closed > b_closed);
}

/* The device has told all of the message: it is known by which link it came. */
Test(verbs_list_number, a_number_of_another_link_ends_the_one_that_used_it)
{
	struct tagrv_link *a, *b;

	open_pair();
	connect_another(&a, &b);
	add();
	send_number(a->number, 100);
	expect_refusal();
	PAIR_UNTIL(&pair, pair.b->errors == 1);
	cr_assert_eq(pair.b->error_ctx, pair.b);
	cr_assert_eq(pair.b->error_status, -FI_EREMOTEIO);
	end_close_link(pair.a);
	end_close_link(pair.b);
	pair.a->link = a;
	pair.b->link = b;
	add();
	send_number(a->number, 100);
	expect_match(100);
	cr_assert_eq(pair.b->errors, 1, "the other link is not to blame");
	pair.a->link = pair.b->link = NULL;
	close_another(a, b);
	close_pair();
}

static uint32_t unknown_number(void)
{
	return (pair.b->link->given ^ 1u) ? pair.b->link->given ^ 1u : 2;
}

Test(verbs_list_number, a_number_of_nobody_ends_the_link)
{
	open_pair();
	add();
	send_number(unknown_number(), 100);
	expect_refusal();
	PAIR_UNTIL(&pair, pair.b->errors == 1);
	cr_assert_eq(pair.b->error_status, -FI_EREMOTEIO);
	close_pair();
}

Test(verbs_list_number, no_number_ends_the_link)
{
	open_pair();
	add();
	send_number(0, 100);
	expect_refusal();
	PAIR_UNTIL(&pair, pair.b->errors == 1);
	close_pair();
}

/* The device names no queue pair of a longer one: the receive ends, and nobody is blamed. */
Test(verbs_list_number, a_long_message_of_nobody_ends_its_receive_only)
{
	open_pair();
	add();
	send_number(unknown_number(), 5000);
	expect_refusal();
	add();
	send_number(pair.a->link->number, 5000);
	expect_match(5000);
	cr_assert_eq(pair.b->errors, 0);
	close_pair();
}

/* ---- messages that no entry took, before their link is attached ---- */

/* End b has them, and its link is not attached. */
static void keep_some(unsigned cnt)
{
	pair_open_with(&pair, PAIR_LIST_ONE, &params, &config);
	pair_link(&pair, &pair.a->link, &pair.b->link);
	cr_assert_eq(ops->link_attach(pair.a->link, pair.a), 0);
	for (unsigned i = 0; i < cnt; i++)
		send_number(pair.a->link->number, 100 + i);
	PAIR_UNTIL(&pair, pair.b->unexpected == cnt);
	cr_assert_eq(pair.b->handled, 0, "software has not matched them");
	cr_assert_eq(pair.b->listed_cnt, 0);
}

Test(verbs_list_number, early_messages_are_handled_when_they_are_delivered)
{
	keep_some(3);
	cr_assert_eq(ops->link_attach(pair.b->link, pair.b), 0);
	PAIR_UNTIL(&pair, pair.b->listed_cnt == 3);
	cr_assert_eq(pair.b->handled, 3);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(pair.b->packets[i].len, VERBS_LIST_WORDS + 100 + i);
	pair_close(&pair);
}

/* The device waits for their count, whatever became of them. */
Test(verbs_list_number, early_messages_of_a_link_that_is_discarded_are_handled)
{
	keep_some(3);
	ops->link_discard(pair.b->link);
	pair.b->link = NULL;
	PAIR_UNTIL(&pair, pair.b->handled == 3);
	cr_assert_eq(pair.b->listed_cnt, 0);
	pair_close(&pair);
}

/* ---- links that do not come by the list in the end ---- */

static void expect_empty(const struct verbs_pool *pool, uint32_t kept)
{
	cr_expect_eq(atomic_load(&pool->rx_permits), 0);
	cr_expect_eq(atomic_load(&pool->rx_kept), kept);
	cr_expect_eq(pool->links, 0);
}

Test(verbs_list_number, a_link_takes_its_permits_to_another_pool)
{
	struct verbs_xport *xp;
	struct verbs_link *link;
	uint32_t permits, window;

	open_pair();
	xp = verbs_xport_of(pair.b->xport);
	link = verbs_link_of(pair.b->link);
	cr_assert_eq(link->pool, &xp->list.pool);
	permits = link->rx_permits;
	window = link->rx_window;
	cr_assert_eq(atomic_load(&xp->list.pool.rx_permits), permits);
	expect_empty(&xp->pool, 0);
	if (!tagrv_list_linked(&link->owed_node))
		tagrv_list_push_tail(&xp->owed, &link->owed_node);
	tagrv_verbs_permit_move(link, &xp->pool);
	cr_expect_eq(link->pool, &xp->pool);
	cr_expect(link->rx_permits == permits && link->rx_window == window);
	cr_expect_eq(atomic_load(&xp->pool.rx_permits), permits);
	cr_expect_eq(xp->pool.links, 1);
	cr_expect(tagrv_list_linked(&link->owed_node), "permits are owed as before");
	expect_empty(&xp->list.pool, VERBS_LIST_BUFS_IDLE);
	tagrv_verbs_permit_move(link, &xp->list.pool);
	cr_expect_eq(atomic_load(&xp->list.pool.rx_permits), permits);
	expect_empty(&xp->pool, 0);
	close_pair();
}
