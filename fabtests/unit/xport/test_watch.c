/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Watched words: what is idle, what is due, and words that come and go.
 */
#include <criterion/criterion.h>

#include "xport/watch.h"

enum { MANY = TAGRV_WATCH_WORDS + 3 };

static struct tagrv_watch watch;
static _Atomic uint64_t words[MANY];
static int at[MANY];

static int drain(void *owner)
{
	(void) owner;
	return 1;
}

/* Leaves what has come, and wants no more from others. */
static int *drained;

static int drain_enough(void *owner)
{
	drained[(_Atomic uint64_t *) owner - words]++;
	watch.enough = true;
	return 1;
}

static void start(int cnt)
{
	tagrv_watch_init(&watch);
	tagrv_watch_begin_pass(&watch);
	for (int i = 0; i < cnt; i++) {
		atomic_store(&words[i], 0);
		tagrv_watch_add(&watch, drain, &words[i], &at[i]);
		tagrv_watch_move(&watch, at[i], &words[i], 0);
	}
}

Test(watch, every_word_is_looked_at)
{
	for (int cnt = 0; cnt <= 5; cnt++) {
		start(cnt);
		cr_assert(tagrv_watch_is_idle(&watch));
		for (int i = 0; i < cnt; i++) {
			atomic_store(&words[i], 7);
			cr_assert(!tagrv_watch_is_idle(&watch), "%d of %d", i,
				  cnt);
			tagrv_watch_move(&watch, at[i], &words[i], 7);
			cr_assert(tagrv_watch_is_idle(&watch));
		}
	}
}

Test(watch, a_pass_is_due_after_so_many_looks)
{
	int looks = 0;

	start(1);
	while (tagrv_watch_is_idle(&watch))
		looks++;
	cr_assert_eq(looks, TAGRV_WATCH_LOOKS);
	tagrv_watch_begin_pass(&watch);
	cr_assert(tagrv_watch_is_idle(&watch));
}

Test(watch, attention_lasts_until_the_next_pass)
{
	start(1);
	tagrv_watch_attend(&watch);
	cr_assert(!tagrv_watch_is_idle(&watch));
	cr_assert(!tagrv_watch_is_idle(&watch));
	tagrv_watch_begin_pass(&watch);
	cr_assert(tagrv_watch_is_idle(&watch));
	/* Nobody watches. */
	tagrv_watch_attend(NULL);
}

Test(watch, a_call_of_another_thread_lasts_until_the_next_pass)
{
	start(1);
	tagrv_watch_call(&watch);
	cr_assert(!tagrv_watch_is_idle(&watch));
	cr_assert(tagrv_watch_is_due(&watch));
	tagrv_watch_begin_pass(&watch);
	cr_assert(!tagrv_watch_is_due(&watch));
	cr_assert(tagrv_watch_is_idle(&watch));
}

Test(watch, what_no_word_tells_of_makes_every_look_a_pass)
{
	start(1);
	tagrv_watch_add_unlisted(&watch);
	tagrv_watch_add_unlisted(&watch);
	cr_assert(!tagrv_watch_is_idle(&watch));
	tagrv_watch_remove_unlisted(&watch);
	tagrv_watch_begin_pass(&watch);
	cr_assert(!tagrv_watch_is_idle(&watch));
	tagrv_watch_remove_unlisted(&watch);
	tagrv_watch_begin_pass(&watch);
	cr_assert(tagrv_watch_is_idle(&watch));
}

/* No word is always the last one. */
Test(watch, a_reader_without_room_takes_from_all_in_turn)
{
	static int counts[4];

	start(4);
	drained = counts;
	for (int i = 0; i < 4; i++) {
		watch.what[i].drain = drain_enough;
		atomic_store(&words[i], i != 2);
	}
	for (int i = 0; i < 30; i++)
		cr_assert_eq(tagrv_watch_drain(&watch), 1);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(counts[i], i == 2 ? 0 : 10);
}

/* Indexes follow their words. */
Test(watch, words_come_and_go)
{
	start(5);
	tagrv_watch_remove(&watch, &at[1]);
	tagrv_watch_remove(&watch, &at[4]);
	tagrv_watch_remove(&watch, &at[4]);
	cr_assert_eq(watch.cnt, 3);
	for (int i = 0; i < 5; i++) {
		bool listed = i != 1 && i != 4;

		cr_assert_eq(at[i] >= 0, listed);
		atomic_store(&words[i], 1);
		cr_assert_eq(tagrv_watch_is_idle(&watch), !listed, "%d", i);
		atomic_store(&words[i], 0);
	}
	tagrv_watch_add(&watch, NULL, NULL, &at[1]);
	tagrv_watch_move(&watch, at[1], &words[1], 0);
	atomic_store(&words[1], 1);
	cr_assert(!tagrv_watch_is_idle(&watch));
}

Test(watch, words_without_a_place_are_unlisted)
{
	start(MANY);
	cr_assert_eq(watch.unlisted, MANY - TAGRV_WATCH_WORDS);
	cr_assert_eq(at[MANY - 1], TAGRV_WATCH_NO_PLACE);
	for (int i = 0; i < MANY; i++)
		tagrv_watch_remove(&watch, &at[i]);
	cr_assert_eq(watch.unlisted, 0);
	cr_assert_eq(watch.cnt, 0);
	tagrv_watch_begin_pass(&watch);
	cr_assert(tagrv_watch_is_idle(&watch));
	/* Nobody watches. */
	tagrv_watch_add(NULL, drain, NULL, &at[0]);
	cr_assert_eq(at[0], TAGRV_WATCH_OFF);
	tagrv_watch_remove(NULL, &at[0]);
}
