/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The ring between two ends: wrapping at every line, random sizes, and peers that
 * write wrong values.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/xport/pair.h"
#include "xport/shm/shm_priv.h"

static struct pair pair;

static struct shm_link *tx_link(void)
{
	return shm_link_of(pair.a->link);
}

static void start(enum pair_kind kind)
{
	pair_open(&pair, kind);
	pair_connect(&pair);
}

/* ---- sizes ---- */

/* Moves the place of the next body in the arena to this line. */
static void go_to(uint32_t line)
{
	while (tx_link()->tx.arena_pos != line * SHM_LINE) {
		pair_send(&pair, pair.a, 0, SHM_INLINE + 1, NULL);
		pair_progress(&pair);
	}
	pair_progress(&pair);
}

static void send_and_check(unsigned seed, size_t len)
{
	size_t had = pair.b->packet_cnt;

	pair_send(&pair, pair.a, seed, len, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == had + 1);
	cr_assert_eq(pair.b->packets[had].len, len);
	cr_assert(is_pattern(pair.b->packets[had].data, seed, len));
}

/* Bodies end before, at and after the arena's end. */
Test(shm_ring, wraps_at_every_line, .timeout = 60)
{
	uint32_t lines;

	start(PAIR_SHM_TINY);
	pair_send(&pair, pair.a, 0, 8, NULL);
	lines = tx_link()->tx.arena_size / SHM_LINE;
	for (uint32_t line = 0; line < lines; line++) {
		for (int more = -1; more <= 1; more++) {
			int n = (int) (lines - line) + more;
			size_t len = (size_t) n * SHM_LINE;

			if (n < 1 || len > tx_link()->tx.max_packet)
				continue;
			go_to(line);
			send_and_check(line, len);
			send_and_check(line + 1, 8);
		}
	}
	pair_close(&pair);
}

/* Each announcement is compared with the packet that follows. */
Test(shm_ring, waiting_packets_are_announced_ahead, .timeout = 60)
{
	unsigned before;

	start(PAIR_SHM);
	send_and_check(0, 8);
	pair.b->sink.deep = true;
	before = pair.b->next_packets;
	for (unsigned i = 0; i < 10; i++)
		pair_send(&pair, pair.a, i, 5 * i, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 11);
	cr_expect_eq(pair.b->next_packets, before + 9);
	pair_close(&pair);
}

Test(shm_ring, takes_every_length, .timeout = 60)
{
	start(PAIR_SHM_TINY);
	for (unsigned len = 0; len <= pair.a->xport->attr.max_packet; len++) {
		pair.b->packet_cnt = 0;
		send_and_check(len, len);
		free(pair.b->packets[0].data);
	}
	pair.b->packet_cnt = 0;
	pair_close(&pair);
}

/* The next packet that a receiver expects; length and content are derived from its number. */
struct stream {
	unsigned next;
	size_t	max;
};

static size_t length_of(const struct stream *stream, unsigned nr)
{
	unsigned mix = nr * 2654435761u;

	return mix & 0x30000 ? mix % 200 : mix % (stream->max + 1);
}

static void check_next(struct end *end, const void *data, size_t len)
{
	struct stream *stream = end->arg;

	cr_assert_eq(len, length_of(stream, stream->next));
	cr_assert(is_pattern(data, stream->next, len));
	stream->next++;
}

static bool send_next(struct end *end, struct stream *stream)
{
	int ret = end_send(end, stream->next, length_of(stream, stream->next),
			   0, NULL);

	cr_assert(!ret || ret == -FI_EAGAIN);
	stream->next += !ret;
	return !ret;
}

static void run_model(enum pair_kind kind)
{
	enum { CNT = 30000 };
	struct stream out[2] = { { 0 } }, in[2] = { { 0 } };
	unsigned random = 1;

	start(kind);
	for (int i = 0; i < 2; i++) {
		out[i].max = in[i].max = pair.a->xport->attr.max_packet;
		pair.ends[i].forget = true;
		pair.ends[i].arg = &in[!i];
		pair.ends[i].on_packet = check_next;
	}
	while (in[0].next < CNT || in[1].next < CNT) {
		random = random * 1103515245 + 12345;
		for (unsigned i = random >> 16 & 31; i; i--)
			if (!send_next(&pair.ends[i & 1], &out[i & 1]))
				break;
		for (unsigned i = random >> 24 & 1; i < 2; i++)
			pair.a->xport->ops->progress(pair.ends[i].xport);
	}
	PAIR_UNTIL(&pair, in[0].next == out[0].next &&
		   in[1].next == out[1].next);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	pair_close(&pair);
}

Test(shm_ring, random_sizes_both_ways, .timeout = 60)
{
	run_model(PAIR_SHM);
}

Test(shm_ring, random_sizes_in_the_smallest_ring, .timeout = 60)
{
	run_model(PAIR_SHM_TINY);
}

/* A packet never needs more than half of the arena, which is half of the ring. */
Test(shm_ring, size_follows_the_parameter, .timeout = 20)
{
	static const struct {
		size_t asked, given, max_packet;
	} cases[] = {
		{ 16384, 16384, 3392 }, { 32768, 32768, 7488 },
		{ 65535, 32768, 7488 }, { 4194304, 4194304, 65536 + 192 },
	};
	struct tagrv_params params = pair_params();

	params.eager_max = 65536;
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(cases); i++) {
		params.shm_ring = cases[i].asked;
		pair_open_with(&pair, PAIR_SHM, &params, NULL);
		pair_connect(&pair);
		cr_assert_eq(shm_xport_of(pair.a->xport)->ring_size,
			     cases[i].given);
		cr_assert_eq(pair.a->xport->attr.max_packet,
			     cases[i].max_packet);
		for (unsigned n = 0; n < 20; n++)
			pair_send(&pair, pair.a, n, cases[i].max_packet, NULL);
		PAIR_UNTIL(&pair, pair.b->packet_cnt == 20);
		pair_close(&pair);
	}
}

/* ---- a peer that breaks the rules ---- */

enum { CASES = 16 };

static void write_word(uint64_t word)
{
	struct shm_tx *tx = &tx_link()->tx;

	atomic_store(shm_head_of(shm_tx_slot(tx)),
		     word | shm_lap(tx->gate.cnt, tx->shift));
	tagrv_shm_ring_bell(tx_link());
}

static void write_entry(enum shm_kind kind, const void *body, size_t body_len,
			uint32_t len)
{
	memcpy(shm_tx_body(&tx_link()->tx, len), body, body_len);
	write_word(shm_word(kind, len, 0));
}

/* Writes the consumer's head, which b accepts only if it is possible. */
static void write_head(uint64_t head)
{
	atomic_store(&shm_link_of(pair.b->link)->tx.hdr->cons.head, head);
	while (!end_send(pair.b, 0, 1000, 0, NULL))
		;
}

static void write_arena(uint64_t arena)
{
	atomic_store(&shm_link_of(pair.b->link)->tx.hdr->cons.arena, arena);
	write_head(0);
}

static void flood_requests(void)
{
	for (unsigned i = 0; i <= SHM_GETS; i++) {
		struct shm_get_req req = { .slot = i, .len = 1 << 20 };
		struct shm_tx *tx = &tx_link()->tx;

		memcpy(shm_tx_body(tx, sizeof(req)), &req, sizeof(req));
		shm_tx_publish_body(tx, SHM_GET_REQ, sizeof(req));
	}
	tagrv_shm_ring_bell(tx_link());
}

static void break_rule(int rule)
{
	struct shm_get_data data = { .slot = 3 };
	struct shm_get_req req = { .slot = 0 };
	uint32_t max = (uint32_t) pair.a->xport->attr.max_packet;

	switch (rule) {
	case 0: write_word(0x10000); break;
	case 1: write_word(UINT64_MAX); break;
	case 2: write_word(shm_word(0, 8, 0)); break;
	case 3: write_word(shm_word(77, 8, 0)); break;
	case 4: write_word(shm_word(SHM_PACKET, max + 1, 0)); break;
	case 5: write_word(shm_word(SHM_PACKET, UINT32_MAX, 0)); break;
	case 6: write_word(shm_word(SHM_TAGGED, max, 0)); break;
	case 7: write_word(shm_word(SHM_TAGGED_DATA, UINT32_MAX, 0)); break;
	case 8: write_entry(SHM_GET_REQ, &req, 8, 8); break;
	case 9: write_entry(SHM_GET_DATA, &data, sizeof(data), 80); break;
	case 10: write_entry(SHM_GET_DATA, &data, 8, 8); break;
	case 11: write_entry(SHM_GET_FAIL, &data, 8, 8); break;
	case 12: flood_requests(); break;
	case 13: write_head(1u << 20); break;
	case 14: write_arena(1u << 20); break;
	default: write_head(UINT64_MAX); break;
	}
}

static void check_rule(int rule)
{
	struct tagrv_link *a, *b;

	start(PAIR_SHM);
	pair_link(&pair, &a, &b);
	cr_assert_eq(tagrv_shm_ops.link_attach(a, &a), 0);
	cr_assert_eq(tagrv_shm_ops.link_attach(b, &b), 0);
	send_and_check(1, 100);
	pair_send(&pair, pair.b, 1, 100, NULL);
	PAIR_UNTIL(&pair, pair.a->packet_cnt == 1);
	break_rule(rule);
	PAIR_UNTIL(&pair, pair.b->errors);
	cr_assert_eq(pair.b->errors, 1);
	cr_assert_eq(pair.b->error_status, -FI_EREMOTEIO, "rule %d: %d", rule,
		     pair.b->error_status);
	cr_assert_eq(pair.b->error_ctx, pair.b);
	cr_assert_eq(end_send(pair.b, 1, 8, 0, NULL), -FI_ENOTCONN);
	cr_assert_eq(shm_xport_of(pair.b->xport)->errors, 1);
	/* The other link of the same endpoints is not affected. */
	end_close_link(pair.b);
	end_close_link(pair.a);
	pair.a->link = a;
	pair.b->link = b;
	send_and_check(2, 3000);
	cr_assert_eq(pair.a->errors, 0);
	cr_assert_eq(pair.b->errors, 1);
	pair_close(&pair);
}

Test(shm_ring, wrong_values_break_only_their_own_link, .timeout = 60)
{
	for (int rule = 0; rule < CASES; rule++)
		check_rule(rule);
}
