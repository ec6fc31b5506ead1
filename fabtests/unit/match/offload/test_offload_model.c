/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * match/offload/offload.c against the naive matcher: a million random steps in which commands,
 * messages and completions cross in every way, then every order of a few events.
 *
 * The seed is printed. TAGRV_TEST_SEED=<seed> repeats the same steps.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/match_play.h"
#include "match/hash.h"
#include "unit/match/offload/offload_rig.h"

#define STEPS	180000	/* of each mix: over a million in all */
#define DELAY	24	/* ticks, at most */

struct mix {
	const char *name;
	uint32_t tags, ops;	/* limits of the adapter's list */
	unsigned peers;		/* 1 to peers send */
	unsigned tag_bits, any, wild, able;	/* percent of receives */
	unsigned depth;		/* receives posted, about */
	unsigned post, send, cancel, move;	/* weights; move: peers change their way, or
						   come back by the same one */
	unsigned delay;
	unsigned refuse;	/* commands sometimes find no room */
	unsigned keep;		/* unexpected messages are sometimes kept */
	unsigned late;		/* at least so many dels were too late */
};

static const struct mix mixes[] = {
	{ "even",   16, 24, 3, 2, 20, 20, 95, 12, 20, 20, 4, 0, DELAY, 1, 0, 5 },
	{ "short list", 3, 8, 3, 2, 10, 20, 95, 16, 20, 20, 4, 0, DELAY, 1, 1, 5 },
	{ "any",    16, 24, 3, 1, 60, 30, 100, 10, 20, 20, 6, 0, DELAY, 0, 0, 5 },
	{ "moves",  16, 24, 4, 2, 30, 20, 95, 12, 20, 20, 5, 3, DELAY, 1, 1, 5 },
	{ "one key", 8, 12, 2, 0, 30, 0, 100, 6, 20, 20, 6, 1, DELAY, 1, 1, 5 },
	{ "prompt", 16, 64, 4, 3, 20, 20, 90, 16, 20, 20, 3, 1, 2, 0, 0, 5 },
	{ "deep",    8, 64, 4, 8, 0, 10, 60, 250, 40, 20, 9, 1, 4, 1, 1, 0 },
};

struct walk {
	struct rig rig;
	const struct mix *mix;
	uint64_t random;
};

static uint64_t below(struct walk *walk, uint64_t n)
{
	return tagrv_hash_word(&walk->random) % n;
}

static uint32_t peer_of(struct walk *walk)
{
	return 1 + (uint32_t) below(walk, walk->mix->peers);
}

static uint64_t tag_of(struct walk *walk)
{
	return below(walk, 1ull << walk->mix->tag_bits) | 0x7700;
}

static void post(struct walk *walk)
{
	const struct mix *mix = walk->mix;
	uint32_t peer = below(walk, 100) < mix->any ? 0 : peer_of(walk);
	uint64_t ignore = below(walk, 100) < mix->wild ? below(walk, 1ull << mix->tag_bits) : 0;

	/* Bits that are ignored may be set. */
	rig_post(&walk->rig, peer, tag_of(walk), ignore, below(walk, 100) < mix->able);
}

/* Two of three messages are made to match some receive. */
static void send(struct walk *walk)
{
	const struct match_model *model = &walk->rig.model;
	uint32_t peer = peer_of(walk);
	uint64_t tag = tag_of(walk);
	enum rig_kind kind = below(walk, 3) ? RIG_SHORT : (enum rig_kind) below(walk, 4);

	if (model->recv_cnt && below(walk, 3)) {
		const struct tagrv_match_want *want =
			&model->recvs[below(walk, model->recv_cnt)].want;

		tag = want->tag ^ (tag & want->ignore);
		if (want->peer != TAGRV_MATCH_ANY)
			peer = want->peer;
	}
	if (!walk->rig.outside[peer] && !walk->rig.number[peer])
		return;
	if (walk->rig.read_cnt == RIG_READS)
		rig_read_done(&walk->rig);
	if (walk->rig.read_cnt < RIG_READS)
		rig_send(&walk->rig, peer, tag, kind);
}

static void cancel(struct walk *walk)
{
	struct rig *rig = &walk->rig;

	if (rig->model.recv_cnt)
		rig_cancel(rig, rig->model.recvs[below(walk, rig->model.recv_cnt)].number);
}

/* A peer that comes back must not have messages on another way, nor entries that leave. */
static void move(struct walk *walk)
{
	uint32_t peer = peer_of(walk);
	struct rig *rig = &walk->rig;

	if (below(walk, 8) == 0)
		rig_leave(rig, peer);
	else if (below(walk, 6) == 0)
		rig_part(rig, peer);
	else if (tagrv_offload_settled(rig->off) &&
		 (!rig->outside[peer] || (!rig->wait_cnt && !tag_list_ready(rig->list) &&
					  !rig->ahead_cnt && !rig->kept_cnt)))
		rig_enter(rig, peer);
}

static void device(struct walk *walk)
{
	struct rig *rig = &walk->rig;
	uint64_t most = walk->mix->delay + 1;

	switch (below(walk, 12)) {
	case 0:
		tag_list_set_delays(rig->list, &(struct tag_list_delays) {
			.apply = (uint32_t) below(walk, most),
			.report = (uint32_t) below(walk, most),
			.data = (uint32_t) below(walk, most) });
		break;
	case 1:
		tag_list_apply(rig->list);
		break;
	case 2:
		rig_read_done(rig);
		break;
	default:
		tag_list_tick(rig->list);
		break;
	}
	if (walk->mix->refuse && !below(walk, 8))
		rig->refuse = 1 + (unsigned) below(walk, 3);
}

/* Peers keep for a short while, lest their entries stay inactive. */
static void keep(struct walk *walk)
{
	if (walk->mix->keep)
		rig_keep(&walk->rig, peer_of(walk), !below(walk, 3));
}

static void step(struct walk *walk)
{
	const struct mix *mix = walk->mix;
	struct rig *rig = &walk->rig;
	bool deep = rig->model.recv_cnt + rig->limbo_cnt > mix->depth + 4;
	bool shallow = rig->model.msg_cnt + tag_list_ready(rig->list) + rig->ahead_cnt > 6;
	uint64_t pick = below(walk, mix->post + mix->send + mix->cancel + mix->move + 80);

	rig->step++;
	if (!below(walk, 16))
		keep(walk);
	if (!below(walk, 32))
		rig_read_ahead(rig);
	if (pick < mix->post)
		return deep ? send(walk) : post(walk);
	pick -= mix->post;
	if (pick < mix->send)
		return shallow ? post(walk) : send(walk);
	pick -= mix->send;
	if (pick < mix->cancel)
		return cancel(walk);
	pick -= mix->cancel;
	if (pick < mix->move)
		return move(walk);
	pick -= mix->move;
	if (pick < 40)
		device(walk);
	else if (pick < 64)
		rig_poll(rig);
	else if (pick < 68)
		rig_poll_all(rig);
	else if (pick < 72)
		rig_flush(rig);
	else
		rig_serve(rig);
}

static void run(const struct mix *mix)
{
	static struct walk walk;
	struct tagrv_offload_stats stats;
	uint64_t seed = match_play_seed();

	rig_init(&walk.rig, mix->tags, mix->ops, STEPS, STEPS);
	walk.rig.name = mix->name;
	walk.rig.seed = walk.random = seed;
	walk.mix = mix;
	for (uint32_t peer = 1; peer <= mix->peers; peer++)
		rig_enter(&walk.rig, peer);
	for (unsigned i = 0; i < STEPS; i++) {
		step(&walk);
		if (i % (4 * mix->depth) == 0)
			rig_check_rule(&walk.rig);
		if (i % 20000 == 19999)
			rig_settle(&walk.rig);
	}
	rig_settle(&walk.rig);
	stats = rig_stats(&walk.rig);
	cr_log_info("%s, seed %llu: added %llu (promoted %llu), consumed %llu, taken %llu, "
		    "recalled %llu, cancelled %llu, late %llu, syncs %llu", mix->name,
		    (unsigned long long) seed, (unsigned long long) stats.added,
		    (unsigned long long) stats.promoted, (unsigned long long) stats.consumed,
		    (unsigned long long) stats.taken, (unsigned long long) stats.recalled,
		    (unsigned long long) stats.cancelled, (unsigned long long) stats.late,
		    (unsigned long long) stats.syncs);
	cr_expect_gt(stats.consumed, 100);
	cr_expect_gt(stats.taken, 2 * mix->late);
	cr_expect_geq(stats.late, mix->late);
	cr_expect_gt(stats.syncs, 20);
	if (mix->move)
		cr_expect_gt(stats.recalled, 20);
	rig_fini(&walk.rig);
}

Test(offload_model, even, .timeout = 60) { run(&mixes[0]); }
Test(offload_model, short_list, .timeout = 60) { run(&mixes[1]); }
Test(offload_model, any, .timeout = 60) { run(&mixes[2]); }
Test(offload_model, moves, .timeout = 60) { run(&mixes[3]); }
Test(offload_model, one_key, .timeout = 60) { run(&mixes[4]); }
Test(offload_model, deep, .timeout = 60) { run(&mixes[6]); }
Test(offload_model, prompt, .timeout = 60) { run(&mixes[5]); }
