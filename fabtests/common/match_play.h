/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Plays operations to the matching engine and to the naive matcher of
 * match_model.h, and compares every answer.
 *
 * What is done is drawn from a source of numbers: a random generator in the
 * unit test, the input of the fuzzer. A mix is a way of using the engine: how
 * many peers, tags and masks, how deep the queues, which calls how often.
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
	unsigned tag_bits;		/* tags differ in that many bits */
	unsigned masks;			/* up to MATCH_PLAY_MASKS */
	unsigned any, msg, keep;	/* percent of wants */
	size_t	recv_limit, msg_limit;
	unsigned weight[PLAY_OPS];
	/* Optional. */
	unsigned wave;		/* steps of growing, then as many of shrinking */
	unsigned drift;		/* steps after which other masks are used */
	unsigned pause;		/* steps with PLAY_NAME, then as many without */
	/* What must have been reached at the end. */
	size_t	recv_peak, msg_peak;
	uint64_t promotions, demotions, builds, evictions;
};

/* Numbers start with 1; index them into 'ids'. */
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
 * mix, below, fail, arg and step_max are set; the rest is 0. 'seed' is that of
 * the engine's hashes. False: no memory, and nothing is held.
 */
bool match_play_init(struct match_play *play, uint64_t seed);

/* One operation, drawn or given. At most step_max times. */
void match_play_step(struct match_play *play);
void match_play_do(struct match_play *play, enum match_play_op op);

/* Empties both, compares on the way, and frees. Says what was reached. */
struct tagrv_match_stats match_play_fini(struct match_play *play);

const char *match_play_op_name(enum match_play_op op);

#endif
