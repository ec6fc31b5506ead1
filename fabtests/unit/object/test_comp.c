/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * comp.h: order through ring and overflow, errors in their place, wakers,
 * counters; and random pushes and pops against an endless array.
 *
 * TAGRV_TEST_SEED=<seed> plays the same random operations again.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "object/comp.h"

static struct tagrv_compq q;

static void push(uint64_t number, int err)
{
	const struct tagrv_comp comp = {
		.context = (void *) (uintptr_t) number, .tag = number, .err = err,
	};

	tagrv_compq_push(&q, &comp);
}

static void push_many(uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i <= to; i++)
		push(i, 0);
}

static void expect_pop(uint64_t number, int err)
{
	const struct tagrv_comp *comp = tagrv_compq_peek(&q);

	cr_assert_not_null(comp, "record %llu is missing",
			   (unsigned long long) number);
	cr_assert_eq(comp->tag, number, "record %llu instead of %llu",
		     (unsigned long long) comp->tag,
		     (unsigned long long) number);
	cr_assert_eq(comp->context, (void *) (uintptr_t) number);
	cr_assert_eq(comp->err, err);
	tagrv_compq_pop(&q, 1);
}

static void pop_many(uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i <= to; i++)
		expect_pop(i, 0);
}

static bool readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

static void open_queue(size_t size, bool can_wait)
{
	cr_assert_eq(tagrv_compq_init(&q, size, can_wait), 0);
}

static void tear_down(void)
{
	tagrv_compq_fini(&q);
}

TestSuite(comp, .fini = tear_down, .timeout = 20);

Test(comp, size_is_rounded_up_to_a_power_of_two)
{
	static const size_t sizes[][2] = {
		{ 1, 1 }, { 2, 2 }, { 3, 4 }, { 100, 128 }, { 65536, 65536 },
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(sizes); i++) {
		open_queue(sizes[i][0], false);
		cr_expect_eq(q.mask + 1, sizes[i][1]);
		tagrv_compq_fini(&q);
	}
	cr_expect_eq(tagrv_compq_init(&q, 0, false), -FI_EINVAL);
	cr_expect_eq(tagrv_compq_init(&q, SIZE_MAX, false), -FI_EINVAL);
}

Test(comp, new_queue_is_empty)
{
	open_queue(4, false);
	cr_expect(tagrv_compq_empty(&q));
	cr_expect_null(tagrv_compq_peek(&q));
	cr_expect_eq(q.waker.fd, -1);
}

Test(comp, records_come_back_in_order)
{
	open_queue(4, false);
	for (uint64_t round = 0; round < 10; round++) {
		push_many(3 * round, 3 * round + 2);
		pop_many(3 * round, 3 * round + 2);
	}
	cr_expect(tagrv_compq_empty(&q));
	cr_expect_eq(q.over_peak, 0);
}

Test(comp, peek_takes_nothing)
{
	open_queue(2, false);
	push(7, 0);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(tagrv_compq_peek(&q)->tag, 7);
	expect_pop(7, 0);
	cr_expect_null(tagrv_compq_peek(&q));
}

Test(comp, what_does_not_fit_the_ring_waits_behind_it)
{
	open_queue(1, false);
	push_many(1, 1000);
	cr_expect_eq(q.over_cnt, 999);
	cr_expect_eq(q.over_peak, 999);
	cr_expect_not(tagrv_compq_empty(&q));
	pop_many(1, 1000);
	cr_expect(tagrv_compq_empty(&q));
	cr_expect_eq(q.over_peak, 999, "the peak is kept");
}

Test(comp, the_ring_is_not_used_while_older_records_overflow)
{
	open_queue(2, false);
	push_many(1, 3);
	expect_pop(1, 0);
	push(4, 0);		/* there is room in the ring, but 3 waits */
	cr_expect_eq(q.over_cnt, 2);
	pop_many(2, 4);
	cr_expect(tagrv_compq_empty(&q));
}

Test(comp, errors_keep_their_place)
{
	open_queue(2, false);
	push(1, 0);
	push(2, FI_ETRUNC);
	push(3, 0);
	push(4, FI_ECANCELED);
	expect_pop(1, 0);
	expect_pop(2, FI_ETRUNC);
	expect_pop(3, 0);
	expect_pop(4, FI_ECANCELED);
}

Test(comp, all_members_survive_ring_and_overflow)
{
	const struct tagrv_comp comp = {
		.context = &q, .flags = 2, .len = 3, .buf = &q.mask, .data = 4,
		.tag = 5, .src = 6, .olen = 7, .err = 8,
	};

	open_queue(1, false);
	tagrv_compq_push(&q, &comp);
	tagrv_compq_push(&q, &comp);
	for (int i = 0; i < 2; i++) {
		const struct tagrv_comp *got = tagrv_compq_peek(&q);

		cr_expect_eq(got->context, comp.context);
		cr_expect_eq(got->flags, comp.flags);
		cr_expect_eq(got->len, comp.len);
		cr_expect_eq(got->buf, comp.buf);
		cr_expect_eq(got->data, comp.data);
		cr_expect_eq(got->tag, comp.tag);
		cr_expect_eq(got->src, comp.src);
		cr_expect_eq(got->olen, comp.olen);
		cr_expect_eq(got->err, comp.err);
		tagrv_compq_pop(&q, 1);
	}
}

Test(comp, closing_frees_what_was_never_read)
{
	open_queue(1, false);
	push_many(1, 500);
}

Test(comp, a_push_wakes_who_armed_and_only_once)
{
	open_queue(4, true);
	push(1, 0);
	cr_expect_not(readable(q.waker.fd), "nobody had armed");
	q.waker.armed = true;
	push(2, 0);
	cr_expect(readable(q.waker.fd));
	cr_expect_not(q.waker.armed);
	tagrv_waker_clear(&q.waker);
	cr_expect_not(readable(q.waker.fd));
	push(3, 0);
	cr_expect_not(readable(q.waker.fd));
}

Test(comp, an_overflowing_push_wakes_as_well)
{
	open_queue(1, true);
	push(1, 0);
	q.waker.armed = true;
	push(2, 0);
	cr_expect(readable(q.waker.fd));
}

Test(comp, counters_count_and_wake)
{
	struct tagrv_counter cntr;

	open_queue(1, false);
	cr_assert_eq(tagrv_counter_init(&cntr, true), 0);
	tagrv_counter_add(&cntr, 3);
	tagrv_counter_add(&cntr, 1ULL << 40);
	tagrv_counter_add_err(&cntr, 2);
	cr_expect_eq(atomic_load(&cntr.value), (1ULL << 40) + 3);
	cr_expect_eq(atomic_load(&cntr.err), 2);
	cr_expect_not(readable(cntr.waker.fd));
	cntr.waker.armed = true;
	tagrv_counter_add_err(&cntr, 1);
	cr_expect(readable(cntr.waker.fd));
	tagrv_counter_fini(&cntr);
	cr_expect_eq(cntr.waker.fd, -1);
}

/* ---- random ---- */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t seed(void)
{
	const char *text = getenv("TAGRV_TEST_SEED");
	uint64_t value = text ? strtoull(text, NULL, 0) :
				(uint64_t) time(NULL) | 1;

	printf("TAGRV_TEST_SEED=%llu\n", (unsigned long long) value);
	return value ? value : 1;
}

/* Every seventh record is an error, so that its number tells. */
static int err_of(uint64_t number)
{
	return number % 7 ? 0 : FI_EIO;
}

static void play(size_t size, uint64_t *random)
{
	uint64_t pushed = 0, popped = 0, peak = 0;

	open_queue(size, false);
	for (int step = 0; step < 4000; step++) {
		uint64_t n = next_random(random) % (3 * size + 2);

		if (next_random(random) % 2) {
			for (; n; n--, pushed++)
				push(pushed, err_of(pushed));
		} else {
			for (; n && popped < pushed; n--, popped++)
				expect_pop(popped, err_of(popped));
		}
		peak = TAGRV_MAX(peak, q.over_cnt);
		cr_assert_eq(q.tail - q.head + q.over_cnt, pushed - popped);
		cr_assert_eq(tagrv_compq_empty(&q), pushed == popped);
	}
	cr_expect_eq(q.over_peak, peak);
	while (popped < pushed) {
		expect_pop(popped, err_of(popped));
		popped++;
	}
	cr_expect_null(tagrv_compq_peek(&q));
	tagrv_compq_fini(&q);
}

Test(comp, random_pushes_and_pops_behave_like_an_endless_array)
{
	static const size_t sizes[] = { 1, 2, 3, 16, 100, 300 };
	uint64_t random = seed();

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(sizes); i++)
		play(sizes[i], &random);
}
