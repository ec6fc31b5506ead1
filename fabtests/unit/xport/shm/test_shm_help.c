/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Gets that both sides copy: end a reads memory of end b, which helps.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/xport/pair.h"
#include "unit/xport/shm/shm_memory.h"
#include "xport/shm/shm_priv.h"

enum { LEN = (1 << 20) + 777, MIN = 65536, GETS = 4 };

static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;
static struct pair pair;
static struct shm_memory memory;
static struct op get_ops[GETS];

static struct shm_link *asker(void)
{
	return shm_link_of(pair.a->link);
}

static struct shm_link *owner(void)
{
	return shm_link_of(pair.b->link);
}

static uint64_t helped(void)
{
	return shm_xport_of(pair.b->xport)->helped;
}

static void start(void)
{
	struct tagrv_params params = pair_params();

	need_single_copies();
	params.shm_help = MIN;
	pair_open_with(&pair, PAIR_SHM_CMA, &params, NULL);
	pair_connect(&pair);
	shm_memory_open(&memory, &pair, LEN, 7);
	for (int i = 0; i < GETS; i++)
		op_init(&get_ops[i]);
	/* Packets map the peers' memory, and make their rings hot. */
	for (unsigned i = 1; i < 4; i++) {
		pair_send(&pair, pair.a, i, 8, NULL);
		pair_send(&pair, pair.b, i, 8, NULL);
		PAIR_UNTIL(&pair, pair.a->packet_cnt == i &&
			   pair.b->packet_cnt == i);
	}
}

static void stop(void)
{
	shm_memory_close(&memory);
	pair_close(&pair);
}

TestSuite(shm_help, .init = start, .fini = stop, .timeout = 60);

static void get(int i, size_t from, size_t len)
{
	cr_assert_eq(ops->get(pair.a->link, memory.target + from, memory.target_mem,
			      (uintptr_t) memory.source + from, memory.key, memory.key_len, len,
			      &get_ops[i].done), 0);
}

/* One pass of a: it asks for help and copies a first part. */
static void begin(size_t len)
{
	get(0, 0, len);
	ops->progress(pair.a->xport);
}

static void check_whole(size_t len)
{
	cr_assert_eq(get_ops[0].calls, 1);
	cr_assert_eq(get_ops[0].status, 0, "%d", get_ops[0].status);
	cr_assert(!memcmp(memory.source, memory.target, len));
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
}

Test(shm_help, both_copy_a_part)
{
	begin(LEN);
	cr_assert_eq(get_ops[0].calls, 0);
	PAIR_UNTIL(&pair, get_ops[0].calls);
	check_whole(LEN);
	cr_assert(helped() >= 2, "%d", (int) helped());
	cr_assert(tagrv_list_empty(&shm_xport_of(pair.b->xport)->helping) ||
		  (pair_progress(&pair),
		   tagrv_list_empty(&shm_xport_of(pair.b->xport)->helping)));
}

Test(shm_help, lengths_around_chunks)
{
	static const size_t chunks[] = { 32768, 65536, 131072 };

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(chunks); i++)
		for (int more = -1; more <= 1; more++) {
			size_t len = chunks[i] * 4 + (size_t) more;

			memset(memory.target, 0, LEN);
			op_init(&get_ops[0]);
			get(0, 0, len);
			PAIR_UNTIL(&pair, get_ops[0].calls);
			check_whole(len);
			cr_assert(!memory.target[len]);
		}
	cr_assert(helped() >= TAGRV_ARRAY_SIZE(chunks) * 3);
}

Test(shm_help, nothing_waits_for_an_owner_that_is_busy)
{
	begin(LEN);
	for (int i = 0; i < 100; i++)
		ops->progress(pair.a->xport);
	check_whole(LEN);
	cr_assert_eq(helped(), 0);
	/* The request is out of date, and b learns that it is. */
	for (int i = 0; i < 100; i++)
		pair_progress(&pair);
	cr_assert_eq(helped(), 0);
}

Test(shm_help, owner_copies_all_that_is_left)
{
	uint64_t sum;

	begin(LEN);
	for (int i = 0; i < 100; i++)
		ops->progress(pair.b->xport);
	sum = helped();
	cr_assert_eq(sum, asker()->helps[0].chunks - asker()->helps[0].front);
	cr_assert_eq(get_ops[0].calls, 0);
	ops->progress(pair.a->xport);
	check_whole(LEN);
}

Test(shm_help, several_gets_at_once)
{
	const size_t part = LEN / GETS;

	for (int i = 0; i < GETS; i++)
		get(i, (size_t) i * part, i == GETS - 1 ? LEN - 3 * part : part);
	PAIR_UNTIL(&pair, get_ops[0].calls && get_ops[1].calls &&
		   get_ops[2].calls && get_ops[3].calls);
	for (int i = 1; i < GETS; i++)
		cr_assert(get_ops[i].calls == 1 && !get_ops[i].status);
	check_whole(LEN);
	cr_assert(helped() >= 4);
}

Test(shm_help, is_not_asked_for_short_gets_or_in_a_crowd)
{
	get(0, 0, MIN - 1);
	PAIR_UNTIL(&pair, get_ops[0].calls);
	check_whole(MIN - 1);
	pair.a->sink.crowded = true;
	get(1, 0, LEN);
	PAIR_UNTIL(&pair, get_ops[1].calls);
	cr_assert(!asker()->help_seq);
	pair.a->sink.crowded = false;
	pair.b->sink.crowded = true;
	get(2, 0, LEN);
	PAIR_UNTIL(&pair, get_ops[2].calls);
	cr_assert_eq(asker()->help_seq, 1);
	cr_assert_eq(helped(), 0);
}

/* The owner may not write to the asker: the asker copies everything. */
Test(shm_help, owner_that_cannot_copy_says_so)
{
	int pid = owner()->peer_pid;

	owner()->peer_pid = INT32_MAX;
	begin(LEN);
	ops->progress(pair.b->xport);
	owner()->peer_pid = pid;
	cr_assert_eq(helped(), 0);
	PAIR_UNTIL(&pair, get_ops[0].calls);
	check_whole(LEN);
	cr_assert_eq(helped(), 0);
}

Test(shm_help, ends_when_the_memory_is_deregistered)
{
	begin(LEN);
	ops->progress(pair.b->xport);
	cr_assert_eq(helped(), 1);
	ops->mem_dereg(memory.source_mem);
	memory.source_mem = NULL;
	ops->progress(pair.b->xport);
	cr_assert_eq(helped(), 1);
	PAIR_UNTIL(&pair, get_ops[0].calls);
	cr_assert_eq(get_ops[0].status, -FI_EACCES);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
}

Test(shm_help, goes_on_through_the_rings)
{
	begin(LEN);
	ops->progress(pair.b->xport);
	asker()->cma = false;
	PAIR_UNTIL(&pair, get_ops[0].calls);
	check_whole(LEN);
}

Test(shm_help, close_ends_it_at_either_side)
{
	begin(LEN);
	ops->progress(pair.b->xport);
	end_close_link(pair.a);
	cr_assert_eq(get_ops[0].calls, 1);
	cr_assert_eq(get_ops[0].status, -FI_ECANCELED);
	memset(memory.target, 0, LEN);
	for (int i = 0; i < 100; i++)
		pair_progress(&pair);
	for (size_t i = 0; i < LEN; i++)
		cr_assert(!memory.target[i], "written after the end");
}

/* The asker does not wait for an owner that has closed. */
Test(shm_help, owner_copies_nothing_after_it_has_closed)
{
	begin(LEN);
	ops->progress(pair.b->xport);
	cr_assert_eq(helped(), 1);
	ops->link_close(pair.b->link);
	pair.b->link = NULL;
	for (int i = 0; i < 100; i++)
		ops->progress(pair.b->xport);
	cr_assert_eq(helped(), 1);
	/* The get ends before its memory is freed. */
	PAIR_UNTIL(&pair, get_ops[0].calls);
}

Test(shm_help, owner_closes)
{
	begin(LEN);
	ops->progress(pair.b->xport);
	end_close_link(pair.b);
	/* The memory is still there. */
	PAIR_UNTIL(&pair, get_ops[0].calls);
	cr_assert_eq(get_ops[0].calls, 1);
}

/* ---- an owner that stops, or that writes nonsense ---- */

static struct shm_help_line *line(void)
{
	return &asker()->rx.hdr->helps[0];
}

/* The owner has claimed a chunk, and does not go on. */
static void claim_one(void)
{
	begin(LEN);
	atomic_fetch_add(&line()->claim, 1);
	for (int i = 0; i < 100; i++)
		ops->progress(pair.a->xport);
	cr_assert_eq(get_ops[0].calls, 0);
}

Test(shm_help, a_claimed_chunk_is_waited_for)
{
	size_t at = (LEN - 1) / 131072 * 131072;

	claim_one();
	cr_assert(!memcmp(memory.source, memory.target, at));
	cr_assert(!memory.target[at]);
	memcpy(memory.target + at, memory.source + at, LEN - at);
	atomic_fetch_add(&line()->ack, 1);
	ops->progress(pair.a->xport);
	check_whole(LEN);
}

Test(shm_help, a_stopped_owner_delays_the_end)
{
	shm_xport_of(pair.a->xport)->help_wait_ms = 30;
	claim_one();
	end_close_link(pair.a);
	cr_assert_eq(get_ops[0].status, -FI_ECANCELED);
}

Test(shm_help, a_dead_owner_does_not)
{
	claim_one();
	atomic_store(&asker()->peer_dead, 1);
	PAIR_UNTIL(&pair, get_ops[0].calls);
	cr_assert_eq(get_ops[0].status, -FI_ECONNRESET);
	cr_assert_eq(pair.a->errors, 1);
}

static void spoil(int rule)
{
	struct shm_help_line *record = line();
	uint64_t one = 1;

	switch (rule) {
	case 0: atomic_store(&record->claim, 0); break;
	case 1: atomic_fetch_add(&record->claim, one << 32); break;
	case 2: atomic_fetch_add(&record->claim, one << 16); break;
	case 3: atomic_fetch_or(&record->claim, 0xffff); break;
	case 4: atomic_fetch_add(&record->ack, one << 32); break;
	case 5: atomic_fetch_or(&record->ack, 0xffff); break;
	default: atomic_fetch_add(&record->ack, 1); break;
	}
}

Test(shm_help_peer, wrong_words_fail_the_link, .timeout = 60)
{
	for (int rule = 0; rule < 7; rule++) {
		start();
		begin(LEN);
		spoil(rule);
		for (int i = 0; i < 100; i++)
			ops->progress(pair.a->xport);
		cr_assert_eq(pair.a->errors, 1, "rule %d", rule);
		cr_assert_eq(pair.a->error_status, -FI_EREMOTEIO);
		cr_assert_eq(get_ops[0].calls, 1);
		cr_assert_eq(get_ops[0].status, -FI_EREMOTEIO);
		stop();
	}
}

/* a asks in the way that the rule says. */
static void ask(int rule)
{
	struct shm_help_req req = {
		.record = 0, .seq = 1, .raddr = (uintptr_t) memory.source,
		.addr = (uintptr_t) memory.target, .len = LEN, .chunk = 65536,
	};
	struct shm_tx *tx = &asker()->tx;
	uint32_t len = sizeof(req);

	memcpy(&req.index, memory.key, sizeof(req.index));
	memcpy(&req.secret, memory.key + 8, sizeof(req.secret));
	switch (rule) {
	case 0: req.record = SHM_HELPS; break;
	case 1: req.chunk = 0; break;
	case 2: req.chunk = 4095; break;
	case 3: req.len = 0; break;
	case 4: req.len = UINT64_MAX; break;
	case 5: req.len = 65536ull * 65536; break;
	case 6: len--; break;
	/* These are valid, and lead nowhere. */
	case 7: req.seq = 2; break;
	case 8: req.secret++; break;
	case 9: req.index = UINT32_MAX; break;
	default: req.len = LEN + 1; break;
	}
	atomic_store(&line()->claim, 1ull << 32);
	memcpy(shm_tx_body(tx, len), &req, len);
	shm_tx_publish_body(tx, SHM_HELP, len);
}

Test(shm_help_peer, wrong_requests_are_refused, .timeout = 60)
{
	for (int rule = 0; rule < 11; rule++) {
		start();
		ask(rule);
		for (int i = 0; i < 100; i++)
			ops->progress(pair.b->xport);
		cr_assert_eq(pair.b->errors, rule < 7, "rule %d", rule);
		cr_assert_eq(helped(), 0, "rule %d", rule);
		cr_assert(!memory.target[0] && !memory.target[LEN - 1]);
		stop();
	}
}
