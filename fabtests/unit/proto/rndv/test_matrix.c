/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every way to move a rendezvous message with every kind of message, from an
 * endpoint to itself over the loop transport: protocol x contiguous or scattered
 * x expected or not x length x truncated x with or without credit x completion
 * level. Each must arrive
 * whole, end once on both sides, leave nothing behind, and be seen in the
 * counter of its protocol and in no other.
 */
#include <stdlib.h>
#include <string.h>

#include "common/engine_fixture.h"

#define MOST	((size_t) 1 << 20)
#define EAGER	((size_t) 8192)		/* with credit, at most */

static char ctx[2];
static char *src, *dst;
static fi_addr_t self;

static void setup(void)
{
	struct tagrv_addr name;

	engine_setup();
	/* Several pieces for the longer ones. */
	fx.dom->params.read_segment = 65536;
	tagrv_engine_name(fx.engine, &name);
	cr_assert_eq(tagrv_avtab_insert(&fx.av, &name, &self), 0);
	src = malloc(MOST);
	dst = malloc(MOST + 1);
	for (size_t i = 0; i < MOST; i++)
		src[i] = (char) (i * 7 + (i >> 9) + 1);
}

static void teardown(void)
{
	engine_teardown();
	free(src);
	free(dst);
}

TestSuite(rndv_matrix, .init = setup, .fini = teardown, .timeout = 60);

struct kind {
	enum tagrv_proto sender, receiver;	/* what each asks for */
	bool	scattered, unexpected;
	bool	credit;		/* as long as it is none for an eager one */
	size_t	len, room;
	uint64_t level;
};

static size_t cut(struct iovec iov[4], char *buf, size_t len, bool scattered)
{
	size_t third = len / 3;

	if (!scattered) {
		iov[0] = (struct iovec) { buf, len };
		return 1;
	}
	iov[0] = (struct iovec) { buf, third };
	iov[1] = (struct iovec) { buf + third, 0 };
	iov[2] = (struct iovec) { buf + third, 1 };
	iov[3] = (struct iovec) { buf + third + 1, len - third - 1 };
	return 4;
}

static void post(const struct kind *k)
{
	struct tagrv_recv_req req = recv_req(dst, k->room, 4, &ctx[0]);
	struct iovec iov[4];

	req.iov = iov;
	req.iov_cnt = cut(iov, dst, k->room, k->scattered && k->room);
	engine_set_rndv(k->receiver);
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
}

static enum tagrv_proto proposed;	/* by the last send */

static void note_proposal(const struct tagrv_peer *peer, size_t len)
{
	proposed = tagrv_select_find(peer->select, len)->proto;
	if (proposed == TAGRV_PROTO_EAGER)
		proposed = tagrv_select_no_credit(peer->select, len);
}

static bool has_head(const struct kind *k)
{
	return k->credit && k->len > EAGER && proposed == TAGRV_PROTO_RNDV_PIPE;
}

/* Without credit even a small message is announced. */
static void submit(const struct kind *k)
{
	struct tagrv_send_req req = send_req(src, k->len, 4, &ctx[1]);
	struct tagrv_addr name;
	struct tagrv_peer *peer;
	struct iovec iov[4];

	tagrv_engine_name(fx.engine, &name);
	engine_set_rndv(k->sender);
	peer = tagrv_peer_find(fx.engine, &name);
	if (peer) {
		peer->credit.left = k->credit && k->len > EAGER ? 1000 : 0;
		note_proposal(peer, k->len);
	}
	req.iov = iov;
	req.iov_cnt = cut(iov, src, k->len, k->scattered && k->len);
	req.dest = self;
	req.flags |= k->level;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	engine_set_rndv(k->receiver);
}

static void run(const struct kind *k)
{
	bool truncated = k->len > k->room;
	size_t want = truncated ? k->room : k->len;
	struct tagrv_comp comp;

	memset(dst, 0, MOST + 1);
	if (!k->unexpected)
		post(k);
	submit(k);
	while (tagrv_engine_progress(fx.engine))
		;
	if (k->unexpected) {
		expect_empty(&fx.tx);
		post(k);
	}
	for (int i = 0; i < 10000 && (tagrv_compq_empty(&fx.tx) ||
				      tagrv_compq_empty(&fx.rx)); i++)
		tagrv_engine_progress(fx.engine);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, truncated ? FI_ETRUNC : 0);
	cr_assert_eq(comp.len, want);
	cr_assert_eq(comp.context, &ctx[0]);
	cr_assert_eq(take(&fx.tx).err, 0);
	while (tagrv_engine_progress(fx.engine))
		;
	expect_empty(&fx.tx);
	expect_empty(&fx.rx);
	cr_assert(!memcmp(src, dst, want));
	cr_assert_eq(dst[want], 0);
	cr_assert_eq(fx.engine->pools.tx_ops.used + fx.engine->rx->ops.used +
		     fx.engine->pools.xfers.used + fx.engine->pools.umsgs.used, 0);
	cr_assert_eq(fx.engine->credit.frags + fx.engine->pools.pieces.used, 0);
}

/* Who asks last counts: the receiver. */
static enum tagrv_proto expected(const struct kind *k)
{
	enum tagrv_proto wish = k->receiver ? k->receiver : proposed;

	/* Nothing is left to be done in another way. */
	if (has_head(k) && TAGRV_MIN(k->len, k->room) <= EAGER)
		return proposed;
	/* Who does not propose get offers no keys: its memory cannot be read. */
	return wish == TAGRV_PROTO_RNDV_READ ? proposed : wish;
}

static void run_and_count(const struct kind *k)
{
	uint64_t tx[TAGRV_PROTO_RNDV_END], rx[TAGRV_PROTO_CNT];
	bool moves = k->len && k->room;

	memcpy(tx, fx.engine->stats.moved_tx, sizeof(tx));
	memcpy(rx, fx.engine->stats.moved_rx, sizeof(rx));
	run(k);
	for (int p = TAGRV_PROTO_RNDV_READ; p < TAGRV_PROTO_RNDV_END; p++) {
		bool mine = moves && p == (int) expected(k);

		cr_assert_eq(fx.engine->stats.moved_rx[p] - rx[p], mine,
			     "protocol %d, %d asked for by %d", p, k->receiver,
			     k->sender);
		if (k->room)
			cr_assert_eq(fx.engine->stats.moved_tx[p] - tx[p],
				     mine);
	}
}

Test(rndv_matrix, everything_with_everything)
{
	static const size_t lens[] = { 0, 1, 3000, 8192 + 160, 8192 + 161,
				       100000, MOST };
	static const uint64_t levels[] = { 0, FI_TRANSMIT_COMPLETE,
					   FI_DELIVERY_COMPLETE,
					   FI_MATCH_COMPLETE };
	unsigned cnt = 0;

	/* The connection to ourselves comes with the first message. */
	run(&(struct kind) { .len = 10000, .room = 10000 });
	for (unsigned i = 0; i < 25 * 8 * TAGRV_ARRAY_SIZE(lens) * 3; i++) {
		struct kind k = {
			.sender = i % 5,
			.receiver = i / 5 % 5,
			.scattered = i / 25 & 1,
			.unexpected = i / 50 & 1,
			.credit = i / 100 & 1,
			.len = lens[i / 200 % TAGRV_ARRAY_SIZE(lens)],
			.level = levels[i % TAGRV_ARRAY_SIZE(levels)],
		};

		switch (i / 200 / TAGRV_ARRAY_SIZE(lens)) {
		case 0:
			k.room = k.len;
			break;
		case 1:
			k.room = k.len / 2;
			break;
		default:
			k.room = k.len + 1 > MOST ? MOST : k.len + 1;
		}
		run_and_count(&k);
		cnt++;
	}
	cr_assert_eq(cnt, 4200);
	static_assert(TAGRV_PROTO_RNDV_END == 5, "all of them");
	for (int p = TAGRV_PROTO_RNDV_READ; p < TAGRV_PROTO_RNDV_END; p++)
		cr_assert_gt(fx.engine->stats.moved_rx[p], 0);
}

/* A receive that is taken back leaves the message to the next one. */
Test(rndv_matrix, cancelled_receive_costs_nothing)
{
	for (int p = TAGRV_PROTO_EAGER; p < TAGRV_PROTO_RNDV_END; p++) {
		struct kind k = { .sender = p, .receiver = p, .len = 100000,
				  .room = 100000 };

		post(&k);
		cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[0]), 0);
		cr_assert_eq(take(&fx.rx).err, FI_ECANCELED);
		submit(&k);
		while (tagrv_engine_progress(fx.engine))
			;
		post(&k);
		/* Matched by now, or to be matched: never both. */
		cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[0]),
			     -FI_ENOENT);
		for (int i = 0; i < 10000 && (tagrv_compq_empty(&fx.tx) ||
					      tagrv_compq_empty(&fx.rx)); i++)
			tagrv_engine_progress(fx.engine);
		cr_assert_eq(take(&fx.rx).err, 0);
		cr_assert_eq(take(&fx.tx).err, 0);
	}
}

/* Closed while all of it is under way: the fixture looks at what is left. */
Test(rndv_matrix, endpoint_closes_in_the_middle)
{
	for (int p = TAGRV_PROTO_EAGER; p < TAGRV_PROTO_RNDV_END; p++) {
		struct kind k = { .sender = p, .receiver = p, .len = MOST,
				  .room = MOST };

		post(&k);
		submit(&k);
		tagrv_engine_progress(fx.engine);
		tagrv_engine_progress(fx.engine);
	}
}
