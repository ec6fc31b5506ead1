/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls the matching engine and the naive matcher of match_model.h with the same
 * arguments, and compares every answer.
 *
 * The calls are drawn from a source of numbers: a random generator in the unit
 * test, the input in the fuzzer. A mix describes a use of the engine: how many
 * peers, tags and masks, how deep the queues are, how often each call is made.
 * Receives and messages carry numbers; the engine holds them as cookie and user.
 */
#ifndef FABTESTS_COMMON_MATCH_PLAY_H
#define FABTESTS_COMMON_MATCH_PLAY_H

#include "common/match_model.h"

#define MATCH_PLAY_MASKS	45
#define MATCH_PLAY_HELD		64	/* messages taken, not yet released */

enum match_play_op {
	PLAY_POST, PLAY_ARRIVE, PLAY_CANCEL, PLAY_NAME, PLAY_PEEK, PLAY_CLAIM,
	PLAY_TAKE, PLAY_DISCARD, PLAY_DRAIN, PLAY_OPS,
};

struct match_play_mix {
	const char *name;
	unsigned peers, peer_step;	/* peers 0, step, 2 * step, ... */
	unsigned tag_bits;		/* tags differ in so many bits */
	unsigned masks;			/* number of masks, up to MATCH_PLAY_MASKS */
	unsigned any, msg, keep;	/* percent: any peer, space MSG, keep */
	size_t	recv_limit, msg_limit;
	unsigned weight[PLAY_OPS];
	/* Optional, in steps. */
	unsigned wave;		/* queues grow for so long, then shrink as long */
	unsigned drift;		/* other masks are used after so long */
	unsigned pause;		/* PLAY_NAME is used for so long, then not as long */
	/* Statistics must be at least this at the end. */
	size_t	recv_peak, msg_peak;
	uint64_t promotions, demotions, builds, evictions;
};

/* Receives are numbered from 1; ids[number] is the engine's id of a receive. */
struct match_play {
	const struct match_play_mix *mix;
	uint64_t (*below)(void *arg, uint64_t n);	/* 0 .. n - 1 */
	void	(*fail)(void *arg, const char *what);	/* does not return */
	void	*arg;
	unsigned step, step_max;
	enum match_play_op op;
	uint64_t noise, tag_base, tag_vary;
	uint64_t masks[MATCH_PLAY_MASKS];
	struct tagrv_match *match;
	struct match_model model;
	tagrv_match_id *ids;
	uint64_t recv_cnt, msg_cnt, hits, last_seq;
	struct tagrv_match_msg *held[MATCH_PLAY_HELD];
	struct match_model_msg held_as[MATCH_PLAY_HELD];
	unsigned held_cnt;
};

/*
 * The caller has set mix, below, fail, arg and step_max, and the rest to 0.
 * 'seed' is for the engine's hashes. Returns false when there is no memory;
 * then nothing is to be freed.
 */
bool match_play_init(struct match_play *play, uint64_t seed);

/* The seed that TAGRV_TEST_SEED names, else one from the clock. */
uint64_t match_play_seed(void);

/* Does one operation, a drawn one or a given one. At most step_max calls. */
void match_play_step(struct match_play *play);
void match_play_do(struct match_play *play, enum match_play_op op);

/* Empties both matchers, compares what comes out, frees them. Returns the engine's statistics. */
struct tagrv_match_stats match_play_fini(struct match_play *play);

const char *match_play_op_name(enum match_play_op op);

#endif
