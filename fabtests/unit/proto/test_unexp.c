/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Kept messages: what comes out is what came in, wherever it was kept, and what a
 * message costs in memory.
 */
#include <stdlib.h>
#include <string.h>

#include "common/engine_fixture.h"

TestSuite(unexp, .init = engine_setup, .fini = engine_teardown, .timeout = 20);

enum { LONGEST = 8192, MANY = 20000 };

static char ctx[8];
static char data[LONGEST], got[LONGEST + 1];

/* Bytes of all objects of a pool, in use or not. */
static size_t bytes_of(const struct tagrv_pool *pool)
{
	return pool->chunk_cnt * pool->chunk_objs * pool->obj_size;
}

static void fill(void)
{
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char) (i * 7 + i / 251);
}

/* A message that is kept and then received. */
static void keep_and_take(size_t len, bool has_data)
{
	uint32_t budget = fx.engine->credit.budget;
	struct tagrv_comp comp;

	arrive_eager(data, len, len, has_data ? TAGRV_PKT_DATA : 0, 0);
	cr_assert_lt(fx.engine->credit.budget, budget);
	memset(got, 'x', sizeof(got));
	cr_assert_eq(submit_recv(got, sizeof(got), len, ctx), 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.len, len);
	cr_assert_eq(comp.tag, len);
	cr_assert_eq(!!(comp.flags & FI_REMOTE_CQ_DATA), has_data);
	cr_assert_eq(comp.data, has_data ? 0x1122334455667788 : 0);
	cr_assert_arr_eq(got, data, len);
	cr_assert_eq(got[len], 'x', "%zu bytes", len);
	cr_assert_eq(fx.engine->credit.budget, budget);
	cr_assert_eq(fx.engine->pools.umsgs.used, 0);
}

Test(unexp, every_length_is_kept_as_it_came)
{
	fill();
	peer_up(true);
	for (size_t len = 0; len <= 200; len++) {
		keep_and_take(len, false);
		keep_and_take(len, true);
	}
	for (size_t len = 256; len <= LONGEST; len *= 2) {
		keep_and_take(len - 1, true);
		keep_and_take(len, false);
		keep_and_take(len - 8, true);
		tagrv_engine_progress(fx.engine);
	}
	for (size_t i = 0; i < TAGRV_BUF_CLASSES; i++)
		cr_assert_eq(fx.engine->pools.bufs[i].used, 0);
}

Test(unexp, no_buffer_is_more_than_half_empty)
{
	for (size_t len = 33; len <= LONGEST; len++) {
		uint8_t class;
		struct tagrv_buf *buf =
			tagrv_engine_buf_get(fx.engine, len, &class);

		cr_assert_not_null(buf);
		cr_assert_geq(fx.engine->pools.buf_size[class], len);
		cr_assert_lt(fx.engine->pools.buf_size[class], 2 * len);
		tagrv_engine_buf_put(fx.engine, buf->bytes, class);
	}
}

/* The budget counts what is really used. */
Test(unexp, a_short_message_costs_128_bytes)
{
	uint32_t budget = fx.engine->credit.budget;
	size_t chunk;

	peer_up(true);
	for (size_t i = 0; i < MANY; i++) {
		arrive_eager(data, 16, i, 0, 0);
		if (!(i % 256))
			tagrv_engine_progress(fx.engine);
		fake_forget();
	}
	chunk = fx.engine->pools.umsgs.chunk_objs * 56;
	/* One chunk is set aside. */
	cr_assert_leq(bytes_of(&fx.engine->pools.umsgs),
		      MANY * 56 + 2 * chunk);
	for (size_t i = 0; i < TAGRV_BUF_CLASSES; i++)
		cr_assert_eq(fx.engine->pools.bufs[i].used, 0);
	cr_assert_eq(budget - fx.engine->credit.budget,
		     (uint32_t) MANY * 128 / TAGRV_CREDIT_UNIT);
}
