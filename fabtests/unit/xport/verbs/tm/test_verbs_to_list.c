/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Links to a peer with a list of posted receives: what is in front of their packets, how long
 * these may be, and how permits go; and the numbers that a list gives to links. Where the peer
 * only says that it has a list, it shows what came.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "unit/xport/verbs/tm/list_peer.h"
#include "unit/xport/verbs/verbs_fixture.h"
#include "xport/verbs/verbs_in.h"

#define NUMBER	0x1234u		/* of end a in its tagged messages */
#define WORDS	16u

static const struct tagrv_xport_ops *const ops = &tagrv_verbs_ops;

/* The last packet that end a has posted, and how many had immediate data. */
static struct {
	struct tagrv_verbs_calls calls;
	int	(*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	unsigned cnt, with_imm;
	size_t	len;
	unsigned char bytes[64];
} spy;

static int spy_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM) {
		spy.cnt++;
		spy.with_imm += wr->opcode == IBV_WR_SEND_WITH_IMM;
		spy.len = 0;
		for (int i = 0; i < wr->num_sge; i++) {
			if (!i)
				memcpy(spy.bytes, (void *) (uintptr_t) wr->sg_list[i].addr,
				       TAGRV_MIN(wr->sg_list[i].length, sizeof(spy.bytes)));
			spy.len += wr->sg_list[i].length;
		}
	}
	return spy.post_send(qp, wr, bad);
}

static void watch(struct end *end)
{
	struct verbs_xport *xp = verbs_xport_of(end->xport);

	memset(&spy, 0, sizeof(spy));
	spy.calls = *xp->calls;
	spy.post_send = spy.calls.post_send;
	spy.calls.post_send = spy_post;
	xp->calls = &spy.calls;
}

static void prepare(void)
{
	verbs_prepare();
	verbs_need_srq();
	params.hw_tags = true;
}

TestSuite(verbs_to_list, .init = prepare, .timeout = 30);

/* The blob says that its sender has a list. */
static void add_list(char *blob, size_t *len)
{
	struct verbs_blob peer;

	cr_assert_eq(tagrv_verbs_blob_unpack(&peer, blob, *len), 0);
	cr_assert(peer.two && !peer.list);
	peer.list = true;
	peer.number = NUMBER;
	*len = tagrv_verbs_blob_pack(&peer, blob);
}

/* No end has a list, but a believes that b has one; and b that a has one, if 'both'. So the
 * words in front of packets arrive with them. */
static struct verbs_link *connect_to_list(bool both)
{
	char blob_a[TAGRV_BLOB_MAX], blob_b[TAGRV_BLOB_MAX];
	size_t len_a, len_b;

	cr_assert_eq(ops->link_create(pair.a->xport, blob_a, &len_a, &pair.a->link), 0);
	cr_assert_eq(ops->link_create(pair.b->xport, blob_b, &len_b, &pair.b->link), 0);
	add_list(blob_b, &len_b);
	if (both)
		add_list(blob_a, &len_a);
	cr_assert_eq(ops->link_bind(pair.a->link, blob_b, len_b), 0);
	cr_assert_eq(ops->link_bind(pair.b->link, blob_a, len_a), 0);
	cr_assert_eq(ops->link_attach(pair.a->link, pair.a), 0);
	cr_assert_eq(ops->link_attach(pair.b->link, pair.b), 0);
	cr_assert_eq(pair.a->link->number, NUMBER);
	cr_assert_eq(pair.a->link->given, 0);
	watch(pair.a);
	return verbs_link_of(pair.a->link);
}

static bool is_zeros(const unsigned char *bytes)
{
	static const unsigned char zeros[WORDS];

	return !memcmp(bytes, zeros, WORDS);
}

/* Sends a packet from a, and looks at what came. */
static void send_one(size_t len, unsigned flags)
{
	size_t nr = pair.b->packet_cnt, words = flags & TAGRV_SEND_TAGGED ? 0 : WORDS;
	const struct packet_record *got;
	int ret;

	while ((ret = end_send(pair.a, (unsigned) nr, len, flags, NULL)) == -FI_EAGAIN)
		pair_progress(&pair);
	cr_assert_eq(ret, 0);
	cr_assert_eq(spy.len, words + len);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == nr + 1);
	got = &pair.b->packets[nr];
	cr_assert_eq(got->len, words + len);
	cr_assert(!words || is_zeros(got->data));
	cr_assert(is_pattern(got->data + words, (unsigned) nr, len));
}

Test(verbs_to_list, zeros_are_in_front_of_each_packet)
{
	const uint64_t hdr[TAGRV_SHORT_WORDS] = { 1 };
	size_t max;

	verbs_open();
	connect_to_list(false);
	max = pair.a->link->max_packet;
	cr_assert_eq(pair.a->link->xport->ops->send_short(pair.a->link, hdr, "x", 1), -FI_EAGAIN);
	for (int i = 0; i < 3; i++) {
		send_one(0, 0);
		send_one(40, 0);
		send_one(40, TAGRV_SEND_CTRL);
		send_one(pair.a->xport->attr.max_inline, 0);
		send_one(max, 0);
		send_one(max, TAGRV_SEND_CTRL);
	}
	pair_send(&pair, pair.b, 3, 100, NULL);
	PAIR_UNTIL(&pair, pair.a->packet_cnt == 1);
	cr_assert_eq(pair.a->packets[0].len, 100);
	cr_assert(is_pattern(pair.a->packets[0].data, 3, 100), "A has no list");
	pair_close(&pair);
}

/* What the caller has put in front stays as it is. */
Test(verbs_to_list, tagged_messages_bring_their_own)
{
	uint64_t words[2] = { TAGRV_TAGLIST_EAGER, 0x1122 };
	char payload[50];
	struct iovec iov[2] = { { words, sizeof(words) }, { payload, sizeof(payload) } };

	verbs_open();
	connect_to_list(false);
	fill_pattern(payload, 9, sizeof(payload));
	cr_assert_eq(ops->send(pair.a->link, iov, 2, TAGRV_SEND_TAGGED, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	cr_assert_eq(pair.b->packets[0].len, WORDS + sizeof(payload));
	cr_assert_eq(memcmp(pair.b->packets[0].data, words, sizeof(words)), 0);
	cr_assert(is_pattern(pair.b->packets[0].data + WORDS, 9, sizeof(payload)));
	pair_close(&pair);
}

Test(verbs_to_list, the_longest_packet_leaves_room_for_them)
{
	size_t max;

	verbs_open();
	connect_to_list(false);
	max = pair.a->link->max_packet;
	cr_assert_eq(max + WORDS, pair.a->xport->attr.max_packet);
	cr_assert_eq(end_send(pair.a, 1, max + 1, 0, NULL), -FI_EMSGSIZE);
	cr_assert_eq(end_send(pair.a, 1, max + 1, TAGRV_SEND_TAGGED, NULL), -FI_EMSGSIZE);
	send_one(max, TAGRV_SEND_TAGGED);
	send_one(max, 0);
	pair_close(&pair);
}

/* Whether end a owes permits that this packet might have brought. */
static void owe(struct verbs_link *link)
{
	cr_assert(!tagrv_list_linked(&link->owed_node));
	link->offer_at = UINT16_MAX;
	link->rx_window = (uint16_t) (link->rx_permits + 2);
	spy.with_imm = 0;
}

/* A permit that goes by itself has the words, too. */
static void expect_owed(struct verbs_link *link)
{
	uint32_t before = link->rx_permits;

	cr_assert_eq(spy.with_imm, 0);
	tagrv_list_push_tail(&link->pool->xp->owed, &link->owed_node);
	PAIR_UNTIL(&pair, spy.with_imm == 1);
	cr_assert_eq(spy.len, WORDS);
	cr_assert(is_zeros(spy.bytes));
	cr_assert_gt(link->rx_permits, before);
}

Test(verbs_to_list, tagged_packets_bring_no_permits)
{
	struct verbs_link *link;

	verbs_open();
	link = connect_to_list(false);
	send_one(100, TAGRV_SEND_TAGGED);
	owe(link);
	cr_assert_eq(end_send(pair.a, 1, 40, 0, NULL), 0);
	cr_assert_eq(spy.with_imm, 1);
	owe(link);
	cr_assert_eq(end_send(pair.a, 2, 40, TAGRV_SEND_TAGGED, NULL), 0);
	cr_assert_eq(spy.len, 40);
	cr_assert(is_pattern(spy.bytes, 2, 40));
	expect_owed(link);
	pair_close(&pair);
}

/* The same where nothing is inline: zeros come from a buffer that another packet has left. */
Test(verbs_to_list, permits_are_copied_where_nothing_is_inline)
{
	struct verbs_link *link;

	config.max_inline = 0;
	config.inline_step = 0;
	verbs_open();
	link = connect_to_list(false);
	cr_assert_eq(pair.a->xport->attr.max_inline, 0);
	send_one(100, TAGRV_SEND_TAGGED);
	ops->flush(pair.a->xport);
	PAIR_UNTIL(&pair, !ops->outstanding(pair.a->xport));
	owe(link);
	expect_owed(link);
	pair_close(&pair);
}

/* Adapters with few segments per request do not. */
static bool prepares(void)
{
	return pair.a->xport->attr.caps & TAGRV_XPORT_PREPARED;
}

Test(verbs_to_list, prepared_packets_are_tagged_ones)
{
	uint64_t words[4] = { 3, NUMBER, 5, 6 };
	unsigned char body[500];
	struct iovec iov = { body, sizeof(body) };
	struct verbs_link *link;
	struct tagrv_mem *mem;
	struct op op;

	verbs_open();
	link = connect_to_list(false);
	fill_pattern(body, 7, sizeof(body));
	cr_assert_eq(ops->mem_reg(pair.a->dev, body, sizeof(body), 0, &mem), 0);
	owe(link);
	op_init(&op);
	if (!prepares()) {
		cr_assert_eq(ops->send_prepared(pair.a->link, words, sizeof(words), &iov,
						&mem, 1, &op.done), -FI_EOPNOTSUPP);
		ops->mem_dereg(mem);
		pair_close(&pair);
		return;
	}
	cr_assert_eq(ops->send_prepared(pair.a->link, words, sizeof(words), &iov, &mem, 1,
					&op.done), 0);
	cr_assert_eq(spy.len, sizeof(words) + sizeof(body));
	cr_assert_eq(memcmp(spy.bytes, words, sizeof(words)), 0);
	expect_owed(link);
	PAIR_UNTIL(&pair, op.calls == 1 && pair.b->packet_cnt == 1);
	cr_assert(is_pattern(pair.b->packets[0].data + sizeof(words), 7, sizeof(body)));
	ops->mem_dereg(mem);
	pair_close(&pair);
}

/* Neither end sends anything else: all permits go by packets of their own. */
Test(verbs_to_list, tagged_packets_both_ways)
{
	unsigned sent[2] = { 0, 0 };

	verbs_open();
	connect_to_list(true);
	pair.a->forget = pair.b->forget = true;
	while (sent[0] < 2000 || sent[1] < 2000) {
		for (int i = 0; i < 2; i++)
			while (sent[i] < 2000 && !end_send(&pair.ends[i], 1, 50, TAGRV_SEND_TAGGED, NULL))
				sent[i]++;
		pair_progress(&pair);
	}
	PAIR_UNTIL(&pair, pair.a->packet_cnt == 2000 && pair.b->packet_cnt == 2000);
	cr_assert_lt(verbs_xport_of(pair.a->xport)->stats.permit_only_sent, 500);
	pair_close(&pair);
}

/* Permits go by other packets, and alone when only tagged ones are sent. */
Test(verbs_to_list, one_way_traffic_in_each_direction_does_not_stop)
{
	uint64_t words[2] = { TAGRV_TAGLIST_EAGER, 5 };
	struct iovec iov = { words, sizeof(words) };
	struct iovec back = { (char [20]) { 0 }, 20 };
	unsigned sent = 0, answers = 0;

	verbs_open();
	connect_to_list(false);
	for (int turns = 0; sent < 600; turns++) {
		int ret = ops->send(pair.a->link, &iov, 1, TAGRV_SEND_TAGGED, NULL);

		cr_assert_lt(turns, 100000);
		cr_assert(!ret || ret == -FI_EAGAIN);
		sent += !ret;
		if (answers < 600)
			answers += !ops->send(pair.b->link, &back, 1, 0, NULL);
		pair_progress(&pair);
	}
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 600 && pair.a->packet_cnt == answers);
	pair_close(&pair);
}

Test(verbs_to_list, a_link_that_has_failed_sends_nothing)
{
	struct tagrv_mem *mem;
	struct verbs_link *link;
	char body[8] = "";
	struct iovec iov = { body, sizeof(body) };
	struct op op;

	verbs_open();
	link = connect_to_list(false);
	cr_assert_eq(ops->mem_reg(pair.a->dev, body, sizeof(body), 0, &mem), 0);
	fake_verbs_event(0, IBV_EVENT_QP_FATAL, link->qp);
	ops->dev_event(pair.a->dev);
	op_init(&op);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), -FI_ENOTCONN);
		cr_assert_eq(end_send(pair.a, 1, 8, TAGRV_SEND_TAGGED, NULL), -FI_ENOTCONN);
		cr_assert_eq(ops->send_prepared(pair.a->link, body, 8, &iov, &mem, 1, &op.done),
			     prepares() ? -FI_ENOTCONN : -FI_EOPNOTSUPP);
		PAIR_UNTIL(&pair, pair.a->errors == 1);
	}
	cr_assert_eq(spy.cnt, 0);
	ops->mem_dereg(mem);
	pair_close(&pair);
}

/* ---- numbers ---- */

static struct tagrv_taglist_sink list_sink;

/* End a has a list. */
static struct verbs_xport *open_with_list(void)
{
	config.tm = list_devices().tm;
	verbs_open();
	ops->xport_close(pair.a->xport);
	pair.a->sink.wants_list = true;
	cr_assert_eq(ops->xport_open(pair.a->dev, &params, &pair.a->sink, &pair.a->xport), 0);
	cr_assert_not_null(pair.a->xport->list);
	pair.a->xport->list->sink = &list_sink;
	return verbs_xport_of(pair.a->xport);
}

static struct tagrv_link *make(struct verbs_blob *own)
{
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *link;
	size_t len;

	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &link), 0);
	cr_assert_eq(tagrv_verbs_blob_unpack(own, blob, len), 0);
	return link;
}

/* A link to the peer of this number, as wireup makes it. */
static struct tagrv_link *make_to(uint16_t peer, struct verbs_blob *own)
{
	const struct tagrv_addr addr = { .in = { .sin_family = AF_INET, .sin_port = peer } };
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *link;
	size_t len;

	cr_assert_eq(pair.a->xport->list->link_create(pair.a->xport, &addr, blob, &len, &link), 0);
	cr_assert_eq(tagrv_verbs_blob_unpack(own, blob, len), 0);
	return link;
}

static unsigned numbers_taken(const struct verbs_xport *xp)
{
	unsigned links, peers;

	tagrv_numbers_count(xp->list.numbers, &links, &peers);
	return links;
}

static void discard(struct tagrv_link *link)
{
	unsigned left = atomic_load(&pair.a->xport->quotas[0]->used) -
			verbs_link_of(link)->counted;

	ops->link_discard(link);
	PAIR_UNTIL(&pair, atomic_load(&pair.a->xport->quotas[0]->used) == left);
}

Test(verbs_to_list, each_link_has_a_number_of_its_own)
{
	struct verbs_xport *xp = open_with_list();
	struct tagrv_link *links[3];
	struct verbs_blob own[3];

	for (int i = 0; i < 3; i++) {
		links[i] = make(&own[i]);
		cr_assert(own[i].two && own[i].list && own[i].number);
		for (int k = 0; k < i; k++)
			cr_assert_neq(own[i].number, own[k].number);
	}
	cr_assert_eq(numbers_taken(xp), 3);
	discard(links[1]);
	cr_assert_eq(numbers_taken(xp), 2);
	discard(links[0]);
	discard(links[2]);
	cr_assert_eq(numbers_taken(xp), 0);
	pair_close(&pair);
}

/* Entries of the list compare what the numbers of all links to a peer have in common. */
Test(verbs_to_list, links_to_one_peer_have_the_peers_number)
{
	struct tagrv_link *links[3];
	struct verbs_blob own[3];

	(void) open_with_list();
	links[0] = make_to(1, &own[0]);
	links[1] = make_to(2, &own[1]);
	links[2] = make_to(1, &own[2]);
	cr_assert_neq(own[0].number, own[2].number);
	cr_assert_eq(own[0].number & ~TAGRV_NUMBERS_LIFE, own[2].number & ~TAGRV_NUMBERS_LIFE);
	cr_assert_neq(own[0].number & ~TAGRV_NUMBERS_LIFE, own[1].number & ~TAGRV_NUMBERS_LIFE);
	for (int i = 0; i < 3; i++)
		discard(links[i]);
	pair_close(&pair);
}

/* It would be matched by software only, and all receives from any source with it. */
Test(verbs_to_list, a_peer_waits_for_the_end_of_its_former_links)
{
	const struct tagrv_addr addr = { .in = { .sin_family = AF_INET, .sin_port = 1 } };
	struct verbs_xport *xp = open_with_list();
	struct tagrv_link *links[TAGRV_NUMBERS_LIFE + 1], *more;
	char blob[TAGRV_BLOB_MAX];
	struct verbs_blob own;
	unsigned used;
	size_t len;

	for (unsigned i = 0; i <= TAGRV_NUMBERS_LIFE; i++)
		links[i] = make_to(1, &own);
	used = atomic_load(&pair.a->xport->quotas[0]->used);
	cr_assert_eq(xp->base.list->link_create(pair.a->xport, &addr, blob, &len, &more),
		     -FI_ENOSPC);
	cr_assert_eq(atomic_load(&pair.a->xport->quotas[0]->used), used);
	discard(links[0]);
	links[0] = make_to(1, &own);
	cr_assert(own.list && own.number);
	for (unsigned i = 0; i <= TAGRV_NUMBERS_LIFE; i++)
		discard(links[i]);
	pair_close(&pair);
}

/* Without a number there is one queue pair. */
Test(verbs_to_list, no_number_is_left)
{
	struct verbs_xport *xp = open_with_list();
	struct tagrv_link *links[3];
	struct verbs_blob own;
	uint16_t last = 0, number;

	links[0] = make(&own);
	while (!tagrv_numbers_take(xp->list.numbers, NULL, &number) && number)
		last = number;
	tagrv_numbers_give(xp->list.numbers, last);
	links[1] = make(&own);
	cr_assert(own.two && own.list);
	cr_assert_eq(own.number & ~TAGRV_NUMBERS_LIFE, last & ~TAGRV_NUMBERS_LIFE);
	links[2] = make(&own);
	cr_assert(!own.two && !own.list && !own.number);
	cr_assert_eq(verbs_link_of(links[2])->counted, 1);
	for (int i = 0; i < 3; i++)
		discard(links[i]);
	pair_close(&pair);
}

Test(verbs_to_list, a_lost_list_gives_no_numbers)
{
	struct verbs_xport *xp = open_with_list();
	struct tagrv_link *link;
	struct verbs_blob own;

	pair.a->xport->list = NULL;
	link = make(&own);
	cr_assert(own.two && !own.list && !own.number);
	cr_assert_eq(verbs_link_of(link)->in_number, 0);
	cr_assert_eq(numbers_taken(xp), 0);
	discard(link);
	pair_close(&pair);
}

/* End a has a list, and b has none. */
Test(verbs_to_list, both_ends_know_the_number_and_the_bound)
{
	open_with_list();
	pair_connect(&pair);
	cr_assert_neq(pair.a->link->given, 0);
	cr_assert_eq(pair.a->link->number, 0);
	cr_assert_eq(pair.b->link->number, pair.a->link->given);
	cr_assert_eq(pair.b->link->given, 0);
	cr_assert_eq(pair.a->link->max_packet, pair.a->xport->attr.max_packet - WORDS);
	cr_assert_eq(pair.b->link->max_packet, pair.a->link->max_packet);
	pair_close(&pair);
}

/* The peer is plain: what was taken for it is given back when that is known. */
Test(verbs_to_list, a_plain_peer_needs_no_number)
{
	struct tagrv_params plain = params;
	struct verbs_xport *xp = open_with_list();

	ops->xport_close(pair.b->xport);
	plain.hw_tags = false;
	cr_assert_eq(ops->xport_open(pair.b->dev, &plain, &pair.b->sink, &pair.b->xport), 0);
	pair_connect(&pair);
	cr_assert_eq(numbers_taken(xp), 0);
	for (uint32_t i = 0; i <= VERBS_NUMBER_MAX; i++)
		cr_assert_null(xp->list.links[i]);
	cr_assert_eq(verbs_link_of(pair.a->link)->pool, &xp->pool);
	cr_assert(xp->pool.links == 1 && !xp->list.pool.links);
	cr_assert(!pair.a->link->given && !pair.b->link->number);
	pair_send(&pair, pair.a, 1, 100, NULL);
	pair_send(&pair, pair.b, 2, 100, NULL);
	PAIR_UNTIL(&pair, pair.a->packet_cnt == 1 && pair.b->packet_cnt == 1);
	pair_close(&pair);
}
