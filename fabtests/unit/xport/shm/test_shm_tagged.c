/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tagged messages in their shortest form: every length, with and without data, among
 * packets, and where there is no room.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "unit/xport/pair.h"
#include "xport/shm/shm_priv.h"

static struct pair pair;

static void start(enum pair_kind kind)
{
	pair_open(&pair, kind);
	pair_connect(&pair);
	/* Short forms work once the link is open. */
	pair_send(&pair, pair.a, 0, 8, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
}

static int send_tagged(unsigned nr, size_t len, bool has_data)
{
	uint64_t meta = TAGRV_META(len, nr & UINT16_MAX) |
			(has_data ? TAGRV_META_DATA : 0);
	unsigned char buf[16384];

	fill_pattern(buf, nr, len);
	return tagrv_shm_ops.send_tagged(pair.a->link, meta, nr * 3ull << 40,
					 ~(uint64_t) nr, buf);
}

static void check_tagged(unsigned nr, size_t len, bool has_data)
{
	const struct tagged_record *got = &pair.b->tagged;

	cr_assert_eq(TAGRV_META_LEN(got->meta), len);
	cr_assert_eq(TAGRV_META_CREDIT(got->meta), nr & UINT16_MAX);
	cr_assert_eq(got->meta & UINT16_MAX, has_data ? TAGRV_META_DATA : 0);
	cr_assert_eq(got->tag, nr * 3ull << 40);
	cr_assert_eq(got->data, has_data ? ~(uint64_t) nr : 0);
	cr_assert(is_pattern(got->payload, nr, len), "%u: %zu bytes", nr, len);
}

/* The receiver sends no such messages, and takes shorter packets than the sender. */
Test(shm_tagged, ends_with_different_parameters)
{
	enum { MAX = 4096, LONGEST = MAX - TAGRV_SHORT_HDR };
	unsigned nr = 0;

	pair_open(&pair, PAIR_SHM);
	pair.b->xport->attr.max_packet = MAX;
	pair.b->xport->attr.tagged_end = 0;
	pair_connect(&pair);
	pair_send(&pair, pair.a, 0, 8, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	for (size_t len = LONGEST - 300; len < LONGEST + 300; len++) {
		int ret = send_tagged(nr + 1, len, false);

		cr_assert_eq(ret, len <= LONGEST ? 0 : -FI_EAGAIN, "%zu", len);
		if (ret)
			continue;
		nr++;
		PAIR_UNTIL(&pair, pair.b->tagged_cnt == nr);
		check_tagged(nr, len, false);
	}
	cr_assert_eq(send_tagged(++nr, 8, false), 0);
	PAIR_UNTIL(&pair, pair.b->tagged_cnt == nr);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	pair_close(&pair);
}

Test(shm_tagged, takes_every_length, .timeout = 60)
{
	unsigned nr = 0;

	start(PAIR_SHM);
	for (size_t len = 0; len < pair.a->xport->attr.tagged_end; len++) {
		for (int has_data = 0; has_data < 2; has_data++) {
			cr_assert_eq(send_tagged(++nr, len, has_data), 0);
			PAIR_UNTIL(&pair, pair.b->tagged_cnt == nr);
			check_tagged(nr, len, has_data);
		}
	}
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	pair_close(&pair);
}

Test(shm_tagged, keeps_its_place_among_packets, .timeout = 60)
{
	start(PAIR_SHM);
	for (unsigned i = 1; i <= 1000; i++) {
		pair_send(&pair, pair.a, i, i % 300, NULL);
		cr_assert_eq(send_tagged(i, i % 200, i & 1), 0);
		pair_send(&pair, pair.a, i, 8, NULL);
		PAIR_UNTIL(&pair, pair.b->packet_cnt == 1 + 2 * i);
		check_tagged(i, i % 200, i & 1);
		cr_assert_eq(pair.b->tagged.packets_before, 2 * i);
	}
	pair_close(&pair);
}

/* on_next_tagged() and on_tagged() of pair.c compare the tags. */
Test(shm_tagged, waiting_messages_are_announced, .timeout = 60)
{
	start(PAIR_SHM);
	pair.b->sink.deep = true;
	for (unsigned i = 1; i <= 10; i++)
		cr_assert_eq(send_tagged(i, i, false), 0);
	PAIR_UNTIL(&pair, pair.b->tagged_cnt == 10);
	cr_assert_eq(pair.b->tags_ahead, 10);
	pair_close(&pair);
}

/* Sends until there is no room; returns how many messages. */
static unsigned send_all(size_t len)
{
	unsigned sent = 0;
	int ret;

	while (!(ret = send_tagged(sent + 1, len, false)))
		sent++;
	cr_assert_eq(ret, -FI_EAGAIN);
	return sent;
}

/* The sender makes no progress meanwhile. */
static void receive_all(unsigned sent)
{
	while (pair.b->tagged_cnt < sent)
		tagrv_shm_ops.progress(pair.b->xport);
}

/* A caller may sleep instead of repeating a send for which there was no room. */
static void sleep_until_room(size_t len)
{
	unsigned sent;
	int fd;

	start(PAIR_SHM);
	fd = tagrv_shm_ops.wait_fd(pair.a->xport);
	sent = send_all(len);
	end_settle(pair.a);
	cr_assert_not(is_readable(fd, 0));
	receive_all(sent);
	cr_assert(is_readable(fd, 10000));
	tagrv_shm_ops.progress(pair.a->xport);
	cr_assert_eq(send_tagged(1, len, false), 0);
	pair_close(&pair);
}

Test(shm_tagged, sleeper_is_woken_for_a_slot, .timeout = 60)
{
	sleep_until_room(8);
}

Test(shm_tagged, sleeper_is_woken_for_room_in_the_arena, .timeout = 60)
{
	sleep_until_room(3000);
}

/* Room that has come before nobody has to wait for. */
Test(shm_tagged, nobody_sleeps_when_there_is_room, .timeout = 60)
{
	start(PAIR_SHM);
	receive_all(send_all(8));
	cr_assert_eq(tagrv_shm_ops.arm(pair.a->xport), -FI_EAGAIN);
	pair_close(&pair);
}

/* Control packets still find room where the short form finds none. */
static void fill_ring(size_t len)
{
	unsigned sent;

	start(PAIR_SHM);
	sent = send_all(len);
	cr_assert_gt(sent, 5);
	cr_assert_eq(end_send(pair.a, 0, len, 0, NULL), -FI_EAGAIN);
	cr_assert_eq(end_send(pair.a, 0, 100, TAGRV_SEND_CTRL, NULL), 0);
	PAIR_UNTIL(&pair, pair.a->rooms && pair.b->tagged_cnt == sent);
	check_tagged(sent, len, false);
	cr_assert_eq(send_tagged(1, len, false), 0);
	pair_close(&pair);
}

Test(shm_tagged, full_slots, .timeout = 60)
{
	fill_ring(8);
}

Test(shm_tagged, full_arena, .timeout = 60)
{
	fill_ring(3000);
}

/* Where every send needs a fence, and before a link is open, all take the general way. */
Test(shm_tagged, leaves_hard_cases_to_send, .timeout = 60)
{
	start(PAIR_SHM_TINY);
	cr_assert_eq(send_tagged(1, 8, false), -FI_EAGAIN);
	pair_close(&pair);
	pair_open(&pair, PAIR_SHM);
	pair_connect(&pair);
	cr_assert_eq(send_tagged(1, 8, false), -FI_EAGAIN);
	end_close_link(pair.a);
	pair_close(&pair);
}
