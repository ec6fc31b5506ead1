/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote reads, through the rings and with one copy.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/xport/pair.h"
#include "unit/xport/shm/shm_memory.h"
#include "xport/shm/shm_priv.h"

enum { LEN = 4 << 20 };

static struct pair pair;
static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;
static struct shm_memory memory;

static void start(enum pair_kind kind)
{
	pair_open(&pair, kind);
	pair_connect(&pair);
	shm_memory_open(&memory, &pair, LEN, 5);
}

static void stop(void)
{
	shm_memory_close(&memory);
	pair_close(&pair);
}

static struct op op;

static int get_from(uint64_t raddr, size_t len)
{
	op_init(&op);
	return ops->get(pair.a->link, memory.target, memory.target_mem, raddr, memory.key, memory.key_len,
			len, &op.done);
}

static int outcome(uint64_t raddr, size_t len)
{
	cr_assert_eq(get_from(raddr, len), 0);
	PAIR_UNTIL(&pair, op.calls);
	cr_assert_eq(op.calls, 1);
	return op.status;
}

static void check_keys(enum pair_kind kind)
{
	uint64_t at;

	if (kind == PAIR_SHM_CMA)
		need_single_copies();
	start(kind);
	at = (uintptr_t) memory.source;
	cr_assert_eq(shm_link_of(pair.a->link)->cma, false, "not mapped yet");
	cr_assert_eq(outcome(at, LEN), 0);
	cr_assert(is_pattern(memory.target, 5, LEN));
	cr_assert_eq(shm_link_of(pair.a->link)->cma, kind == PAIR_SHM_CMA);
	cr_assert_eq(outcome(at + 1, LEN), -FI_EACCES);
	cr_assert_eq(outcome(at - 1, 10), -FI_EACCES);
	cr_assert_eq(outcome(at + LEN, 0), 0);
	cr_assert_eq(outcome(at + LEN + 1, 0), -FI_EACCES);
	cr_assert_eq(outcome(UINT64_MAX - 5, 100), -FI_EACCES);
	cr_assert_eq(outcome(0, 100), -FI_EACCES);
	cr_assert_eq(outcome(at, 0), 0);
	for (size_t i = 0; i < memory.key_len; i++) {
		memory.key[i] ^= 0x40;
		cr_assert(outcome(at, 100) == (i / 4 == 1 ? 0 : -FI_EACCES),
			  "byte %zu", i);
		memory.key[i] ^= 0x40;
	}
	cr_assert_eq(outcome(at, 100), 0);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	stop();
}

Test(shm_get, keys_are_checked_by_the_owner, .timeout = 30)
{
	check_keys(PAIR_SHM);
}

Test(shm_get, keys_are_checked_by_the_reader, .timeout = 30)
{
	check_keys(PAIR_SHM_CMA);
}

/* A refusal is shorter than the piece of data for which there was room. */
Test(shm_get, refusals_fit_everywhere, .timeout = 30)
{
	uint32_t slots;

	start(PAIR_SHM_TINY);
	cr_assert_eq(outcome((uintptr_t) memory.source, 100), 0);
	slots = shm_link_of(pair.b->link)->tx.mask + 1;
	for (uint32_t i = 0; i < 2 * slots; i++)
		cr_assert_eq(outcome(0, 100 + i * 16), -FI_EACCES, "%u", i);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	stop();
}

static void check_dereg(enum pair_kind kind)
{
	start(kind);
	cr_assert_eq(get_from((uintptr_t) memory.source, LEN), 0);
	for (int i = 0; i < 3; i++)
		pair_progress(&pair);
	cr_assert_eq(op.calls, 0);
	ops->mem_dereg(memory.source_mem);
	memory.source_mem = NULL;
	PAIR_UNTIL(&pair, op.calls);
	cr_assert_eq(op.status, -FI_EACCES);
	pair_send(&pair, pair.a, 1, 8, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	stop();
}

Test(shm_get, deregistration_stops_pieces, .timeout = 30)
{
	check_dereg(PAIR_SHM);
}

Test(shm_get, deregistration_stops_single_copies, .timeout = 30)
{
	check_dereg(PAIR_SHM_CMA);
}

/* The owner closes its endpoint amid a read: that is no error of the reader's key. */
static void check_owner_closes(enum pair_kind kind)
{
	start(kind);
	cr_assert_eq(get_from((uintptr_t) memory.source, LEN), 0);
	for (int i = 0; i < 3; i++)
		pair_progress(&pair);
	cr_assert_eq(op.calls, 0);
	ops->link_close(pair.b->link);
	pair.b->link = NULL;
	ops->mem_dereg(memory.source_mem);
	memory.source_mem = NULL;
	PAIR_UNTIL(&pair, op.calls);
	cr_assert_eq(op.status, -FI_ECONNRESET);
	PAIR_UNTIL(&pair, pair.b->closed);
	stop();
}

Test(shm_get, closing_owner_stops_pieces, .timeout = 30)
{
	check_owner_closes(PAIR_SHM);
}

Test(shm_get, closing_owner_stops_single_copies, .timeout = 30)
{
	check_owner_closes(PAIR_SHM_CMA);
}

/* The kernel forbids copies half way: the rest goes through the rings. */
Test(shm_get, rest_goes_through_the_rings, .timeout = 30)
{
	start(PAIR_SHM_CMA);
	cr_assert_eq(get_from((uintptr_t) memory.source, LEN), 0);
	for (int i = 0; i < 3; i++)
		pair_progress(&pair);
	cr_assert_eq(op.calls, 0);
	shm_link_of(pair.a->link)->cma = false;
	PAIR_UNTIL(&pair, op.calls);
	cr_assert_eq(op.status, 0);
	cr_assert(is_pattern(memory.target, 5, LEN));
	stop();
}

Test(shm_get, vanished_owner_fails_the_link, .timeout = 30)
{
	need_single_copies();
	start(PAIR_SHM_CMA);
	cr_assert_eq(outcome((uintptr_t) memory.source, 100), 0);
	shm_link_of(pair.a->link)->peer_pid = 0x3fffffff;	/* no such process */
	cr_assert_eq(get_from((uintptr_t) memory.source, 100), 0);
	PAIR_UNTIL(&pair, op.calls);
	cr_assert_eq(op.status, -FI_ECONNRESET);
	cr_assert_eq(pair.a->errors, 1);
	stop();
}

/* Packets of both sides pass a long get. */
Test(shm_get, packets_are_not_held_up, .timeout = 30)
{
	size_t before;

	start(PAIR_SHM);
	cr_assert_eq(get_from((uintptr_t) memory.source, LEN), 0);
	while (!op.calls) {
		before = pair.a->packet_cnt;
		if (!end_send(pair.b, 1, 40, 0, NULL))
			for (int i = 0; i < 50 && pair.a->packet_cnt == before;
			     i++)
				pair_progress(&pair);
		cr_assert_gt(pair.a->packet_cnt, before);
		end_send(pair.a, 1, 40, 0, NULL);
	}
	cr_assert_eq(op.status, 0);
	cr_assert(is_pattern(memory.target, 5, LEN));
	cr_assert_gt(pair.a->packet_cnt, 10);
	stop();
}

/* Closing one end during a get leaves the other end with a valid link. */
static void check_close(bool reader)
{
	start(PAIR_SHM);
	cr_assert_eq(get_from((uintptr_t) memory.source, LEN), 0);
	for (int i = 0; i < 5; i++)
		pair_progress(&pair);
	end_close_link(reader ? pair.a : pair.b);
	for (int i = 0; i < 100; i++)
		pair_progress(&pair);
	cr_assert_eq(op.calls, 1);
	cr_assert_eq(op.status, reader ? -FI_ECANCELED : -FI_ECONNRESET);
	cr_assert_eq(pair.b->errors, 0);
	cr_assert_eq(pair.a->errors, reader ? 0 : 1);
	stop();
}

Test(shm_get, reader_may_close, .timeout = 30)
{
	check_close(true);
}

Test(shm_get, owner_may_close, .timeout = 30)
{
	check_close(false);
}

Test(shm_get, table_of_memory_is_reused, .timeout = 30)
{
	struct shm_device *dev;
	char other[TAGRV_KEY_MAX];
	struct tagrv_mem *mem;

	start(PAIR_SHM);
	dev = shm_device_of(pair.b->dev);
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(ops->mem_reg(pair.b->dev, memory.source, 10, true, &mem),
			     0);
		cr_assert_eq(ops->mem_key(mem, other), memory.key_len);
		cr_assert_neq(memcmp(other, memory.key, memory.key_len), 0);
		ops->mem_dereg(mem);
	}
	cr_assert_leq(dev->table_used, 4);
	cr_assert_eq(ops->mem_reg(pair.b->dev, memory.source, 0, true, &mem),
		     -FI_EINVAL);
	cr_assert_eq(ops->mem_reg(pair.b->dev, memory.source, SIZE_MAX, true, &mem),
		     -FI_EINVAL);
	stop();
}
