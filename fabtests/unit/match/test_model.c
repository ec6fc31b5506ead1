/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The engine against the naive matcher: a million random operations, each answer
 * compared (see common/match_play.h).
 *
 * The seed is printed. TAGRV_TEST_SEED=<seed> repeats the same operations;
 * --filter model/<mix> runs one mix.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/match_play.h"
#include "match/hash.h"

#define STEPS	65000	/* of each mix: over a million in all */

struct run {
	struct match_play play;
	uint64_t seed, random;
};

static uint64_t below(void *arg, uint64_t n)
{
	struct run *run = arg;

	return tagrv_hash_word(&run->random) % n;
}

/* Not cr_assert, which would report each passed check to the parent process. */
static void fail(void *arg, const char *what)
{
	const struct run *run = arg;

	cr_assert_fail("%s: %s differs in step %u (%s); TAGRV_TEST_SEED=%llu",
		       run->play.mix->name, what, run->play.step,
		       match_play_op_name(run->play.op),
		       (unsigned long long) run->seed);
}

static void expect(const struct run *run, uint64_t is, uint64_t least,
		   const char *what)
{
	cr_expect(is >= least, "%s: %s: only %llu; TAGRV_TEST_SEED=%llu",
		  run->play.mix->name, what, (unsigned long long) is,
		  (unsigned long long) run->seed);
}

static void play(const struct match_play_mix *mix)
{
	struct run *run = calloc(1, sizeof(*run));
	struct tagrv_match_stats stats;

	cr_assert_not_null(run);
	run->play.mix = mix;
	run->play.below = below;
	run->play.fail = fail;
	run->play.arg = run;
	run->play.step_max = STEPS;
	run->seed = run->random = match_play_seed();
	fprintf(stderr, "model/%s: TAGRV_TEST_SEED=%llu\n", mix->name,
		(unsigned long long) run->seed);
	cr_assert(match_play_init(&run->play, run->seed));
	while (run->play.step < STEPS)
		match_play_step(&run->play);
	stats = match_play_fini(&run->play);
	expect(run, stats.posted_peak, mix->recv_peak, "receives at a time");
	expect(run, stats.unexpected_peak, mix->msg_peak, "messages at a time");
	expect(run, run->play.hits, STEPS / 200, "matches");
	expect(run, stats.promotions, mix->promotions, "classes with a hash");
	expect(run, stats.demotions, mix->demotions, "classes without again");
	expect(run, stats.builds, mix->builds, "indexes built");
	expect(run, stats.evictions, mix->evictions, "indexes exchanged");
	free(run);
}

/*
 * peers, step; tag bits; masks; % any, msg, keep; limits;
 * post arrive cancel name peek claim take discard drain; options
 */
#define MIX(name, ...) \
	Test(model, name, .timeout = 120) \
	{ \
		static const struct match_play_mix mix = { \
			#name, __VA_ARGS__ \
		}; \
		play(&mix); \
	}

MIX(one_peer_one_tag,
    1, 1, 0, 1, 0, 0, 0, 64, 64,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 }, .recv_peak = 8, .msg_peak = 8)
MIX(exact_directed,
    4, 1, 3, 1, 0, 0, 0, 256, 256,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 }, .recv_peak = 16, .msg_peak = 16)
MIX(exact_wildcard,
    4, 1, 3, 1, 100, 0, 0, 256, 256,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 }, .recv_peak = 16, .msg_peak = 16)
MIX(exact_directed_and_wildcard,
    6, 1, 3, 1, 50, 0, 0, 256, 256,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 }, .recv_peak = 16, .msg_peak = 16)
MIX(two_masks_as_MPI,
    48, 1, 6, 2, 20, 0, 0, 512, 512,
    { 42, 42, 4, 1, 4, 3, 2, 1, 1 }, .recv_peak = 16, .msg_peak = 16)
MIX(eight_masks,
    8, 1, 6, 8, 30, 0, 0, 512, 512,
    { 42, 42, 4, 1, 4, 3, 2, 1, 1 }, .recv_peak = 8, .msg_peak = 16)
MIX(45_masks,
    8, 1, 10, 45, 30, 0, 0, 512, 512,
    { 42, 42, 4, 1, 4, 3, 2, 1, 1 }, .recv_peak = 8, .msg_peak = 16)
MIX(45_masks_deep,
    12, 1, 24, 45, 10, 10, 0, 1500, 1500,
    { 45, 38, 3, 1, 2, 1, 1, 1, 0 }, .recv_peak = 1000, .msg_peak = 300,
    .promotions = 20)
MIX(deep_posted,
    8, 1, 12, 3, 5, 0, 0, 2000, 500,
    { 60, 36, 2, 1, 1, 0, 0, 0, 0 }, .recv_peak = 1500, .promotions = 2)
MIX(deep_unexpected,
    8, 1, 12, 3, 20, 0, 0, 500, 2000,
    { 22, 66, 2, 1, 4, 3, 1, 1, 0 }, .msg_peak = 1500, .builds = 2)
MIX(messages_without_tags,
    6, 1, 4, 4, 30, 100, 0, 256, 256,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 }, .recv_peak = 16, .msg_peak = 16)
MIX(both_spaces,
    6, 1, 4, 4, 30, 50, 0, 256, 256,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 }, .recv_peak = 16, .msg_peak = 16)
MIX(multi_recv,
    6, 1, 4, 4, 20, 30, 5, 256, 256,
    { 35, 45, 20, 2, 4, 3, 3, 2, 1 }, .recv_peak = 8, .msg_peak = 8)
MIX(multi_recv_in_classes,
    6, 1, 10, 6, 20, 20, 3, 800, 800,
    { 50, 30, 4, 1, 2, 1, 1, 1, 0 }, .wave = 1500, .recv_peak = 200,
    .promotions = 2)
MIX(peers_far_apart,
    6, 1 << 26, 4, 4, 20, 10, 0, 256, 256,
    { 40, 40, 5, 2, 4, 3, 3, 2, 2 }, .recv_peak = 16, .msg_peak = 16)
MIX(tiny_limits,
    3, 1, 3, 3, 30, 20, 2, 3, 3,
    { 40, 40, 8, 2, 4, 3, 3, 2, 1 }, .recv_peak = 3, .msg_peak = 3)
MIX(peers_that_leave,
    10, 1, 8, 3, 10, 20, 0, 400, 400,
    { 35, 45, 8, 1, 1, 1, 1, 1, 6 }, .recv_peak = 64, .msg_peak = 32)
MIX(deep_peers_that_leave,
    20, 1, 8, 4, 10, 20, 0, 100, 1500,
    { 5, 80, 1, 0, 8, 4, 1, 1, 1 }, .msg_peak = 193, .builds = 1)
MIX(classes_come_and_go,
    4, 1, 6, 4, 40, 10, 0, 400, 400,
    { 60, 30, 4, 1, 1, 1, 1, 1, 0 }, .wave = 700, .recv_peak = 100,
    .promotions = 15, .demotions = 15)
MIX(indexes_come_and_go,
    4, 1, 8, 3, 40, 10, 0, 1000, 1000,
    { 20, 62, 1, 1, 10, 4, 1, 1, 0 }, .wave = 2000, .msg_peak = 300,
    .builds = 20)
MIX(indexes_take_turns,
    4, 1, 16, 30, 50, 0, 0, 300, 1200,
    { 20, 52, 1, 1, 40, 12, 1, 1, 0 }, .drift = 5000, .msg_peak = 500,
    .builds = 30, .evictions = 15)
MIX(names_with_and_without_index,
    4, 1, 8, 3, 30, 10, 0, 300, 100,
    { 50, 35, 2, 6, 1, 1, 1, 1, 0 }, .pause = 12000, .recv_peak = 200)
