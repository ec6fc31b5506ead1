/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fuzzes the matching engine against the naive matcher (common/match_play.h).
 *
 *   byte 0      number of the mix
 *   byte 1      receives and messages that are queued at the start
 *   byte 2, 3   seed of the hashes, of the masks and of the tags
 *   the rest    operations: each choice takes one, two or four bytes
 *
 * The run ends with the input. Any different answer aborts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/match_play.h"

#define STEP_MAX	4096

struct input {
	const uint8_t *pos;
	size_t	left;
	struct match_play play;
};

/* Few tags and peers, so that much matches; small limits, so that they are reached. */
static const struct match_play_mix mixes[] = {
	{ "one mask", 2, 1, 2, 1, 50, 0, 0, 64, 64,
	  .weight = { 40, 40, 5, 2, 4, 3, 3, 2, 1 } },
	{ "as MPI", 4, 1, 4, 2, 25, 10, 0, 256, 512,
	  .weight = { 40, 40, 5, 2, 4, 3, 3, 2, 1 } },
	{ "many masks", 4, 1, 6, 45, 50, 10, 5, 256, 512,
	  .weight = { 40, 40, 5, 2, 4, 3, 3, 2, 1 } },
	{ "drifting masks", 4, 1, 8, 45, 50, 0, 0, 512, 512, .drift = 64,
	  .weight = { 30, 30, 5, 2, 20, 10, 3, 2, 1 } },
	{ "multi-receive", 3, 1, 3, 4, 30, 50, 20, 64, 64,
	  .weight = { 30, 40, 10, 5, 4, 3, 3, 2, 1 } },
	{ "tiny limits", 2, 1, 1, 2, 50, 25, 5, 2, 2,
	  .weight = { 40, 40, 5, 2, 4, 3, 3, 2, 1 } },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t byte(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->pos++;
}

static uint64_t below(void *arg, uint64_t n)
{
	struct input *in = arg;
	uint64_t value = byte(in);

	if (n > 1 << 8)
		value = value << 8 | byte(in);
	if (n > 1 << 16)
		value = value << 16 | byte(in) << 8 | byte(in);
	return value % n;
}

static void fail(void *arg, const char *what)
{
	const struct input *in = arg;

	fprintf(stderr, "%s: %s differs in step %u (%s)\n", in->play.mix->name,
		what, in->play.step, match_play_op_name(in->play.op));
	abort();
}

/* Fills a queue deeper than inputs of a few hundred bytes could. */
static void fill(struct match_play *play, enum match_play_op op, unsigned cnt)
{
	static const uint8_t bytes[] = {
		7, 101, 59, 3, 211, 17, 89, 151, 29, 233, 43, 67, 131, 5, 199,
	};
	struct input *in = play->arg;
	struct input rest = *in;

	for (unsigned i = 0; i < cnt; i++) {
		in->pos = bytes + i % 7;
		in->left = 8;
		match_play_do(play, op);
	}
	in->pos = rest.pos;
	in->left = rest.left;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct input in;
	uint64_t before, seed;

	in = (struct input) { data, size, {
		.below = below,
		.fail = fail,
		.arg = &in,
		.step_max = STEP_MAX,
	} };
	in.play.mix = &mixes[byte(&in) % TAGRV_ARRAY_SIZE(mixes)];
	before = byte(&in);
	seed = byte(&in) << 8;
	seed |= byte(&in);
	if (!match_play_init(&in.play, seed))
		return 0;
	fill(&in.play, PLAY_POST, (unsigned) (before & 15) * 8);
	fill(&in.play, PLAY_ARRIVE, (unsigned) (before >> 4) * 24);
	while (in.left && in.play.step < STEP_MAX)
		match_play_step(&in.play);
	match_play_fini(&in.play);
	return 0;
}
