/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The engine against the naive matcher of common/match_model.h: both are given
 * the same random operations, and every answer must be the same.
 *
 * A mix is a way of using the engine: how many peers, tags and masks, how deep
 * the queues, which calls how often. Receives and messages carry numbers; the
 * engine holds them as cookie and user.
 *
 * The seed is printed. TAGRV_TEST_SEED=<seed> plays the same operations again;
 * --filter model/<mix> plays one mix alone.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/match_model.h"

#define STEPS		65000	/* of each mix: a million in all */
#define MASKS_MAX	45
#define HELD_MAX	64	/* messages taken and not yet released */

enum op {
	POST, ARRIVE, CANCEL, FIND, PEEK, CLAIM, TAKE, DISCARD, DRAIN, OP_CNT,
};

static const char *const op_names[OP_CNT] = {
	"post", "arrive", "cancel", "find", "peek", "claim", "take", "discard",
	"drain",
};

struct mix {
	const char *name;
	unsigned peers, peer_step;	/* peers 0, step, 2 * step, ... */
	unsigned tag_bits;		/* tags differ in that many bits */
	unsigned masks;
	unsigned any, msg, keep;	/* percent of wants */
	size_t	recv_limit, msg_limit;
	size_t	recv_peak, msg_peak;	/* depths that must be reached */
	unsigned weight[OP_CNT];
};

/* A mix being played. Numbers start with 1; index them into 'ids'. */
struct run {
	const struct mix *mix;
	uint64_t seed, random;
	unsigned step;
	enum op	op;
	uint64_t tag_base, tag_vary;
	uint64_t masks[MASKS_MAX];
	struct tagrv_match *match;
	struct match_model model;
	tagrv_match_id ids[STEPS + 1];
	uint64_t recv_cnt, msg_cnt, hits, last_seq;
	struct tagrv_match_msg *held[HELD_MAX];
	struct match_model_msg held_as[HELD_MAX];
	unsigned held_cnt;
};

static uint64_t draw(struct run *run)
{
	uint64_t z = run->random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint64_t below(struct run *run, uint64_t n)
{
	return draw(run) % n;
}

static bool percent(struct run *run, unsigned p)
{
	return below(run, 100) < p;
}

/* Passing checks cost nothing; cr_assert would report each to the parent. */
static void check(struct run *run, bool same, const char *what)
{
	if (!same)
		cr_assert_fail("%s: %s differs in step %u (%s); "
			       "TAGRV_TEST_SEED=%llu",
			       run->mix->name, what, run->step,
			       op_names[run->op],
			       (unsigned long long) run->seed);
}

static void *as_pointer(uint64_t number)
{
	return (void *) (uintptr_t) number;
}

/* --- what is drawn --- */

static uint64_t draw_tag(struct run *run)
{
	return run->tag_base ^ (draw(run) & run->tag_vary);
}

static uint32_t draw_peer(struct run *run)
{
	return (uint32_t) below(run, run->mix->peers) * run->mix->peer_step;
}

static uint8_t draw_space(struct run *run)
{
	return percent(run, run->mix->msg) ? TAGRV_SPACE_MSG :
					     TAGRV_SPACE_TAGGED;
}

/* Ignored bits hold noise: they must not be looked at. */
static struct tagrv_match_want draw_want(struct run *run)
{
	uint64_t ignore = run->masks[below(run, run->mix->masks)];

	return (struct tagrv_match_want) {
		.tag = draw_tag(run) ^ (draw(run) & ignore),
		.ignore = ignore,
		.peer = percent(run, run->mix->any) ? TAGRV_MATCH_ANY :
						      draw_peer(run),
		.space = draw_space(run),
		.keep = percent(run, run->mix->keep),
	};
}

static enum op draw_op(struct run *run)
{
	unsigned total = 0, op = 0;
	uint64_t at;

	for (unsigned i = 0; i < OP_CNT; i++)
		total += run->mix->weight[i];
	at = below(run, total);
	while (at >= run->mix->weight[op])
		at -= run->mix->weight[op++];
	return (enum op) op;
}

/* Masks: nothing, everything, then bits inside and outside those that vary. */
static void draw_mix(struct run *run)
{
	while (__builtin_popcountll(run->tag_vary) < (int) run->mix->tag_bits)
		run->tag_vary |= 1ull << below(run, 64);
	run->tag_base = draw(run);
	for (unsigned i = 0; i < run->mix->masks; i++) {
		uint64_t outside = draw(run) & draw(run) & ~run->tag_vary;

		run->masks[i] = (draw(run) & run->tag_vary) | outside;
	}
	run->masks[0] = 0;
	if (run->mix->masks > 1)
		run->masks[1] = UINT64_MAX;
}

/* --- messages that were handed out --- */

static void check_msg(struct run *run, const struct tagrv_match_msg *msg,
		      const struct match_model_msg *as)
{
	check(run, msg->user == as_pointer(as->number), "message");
	check(run, msg->peer == as->peer, "peer of the message");
	check(run, msg->tag == as->tag, "tag of the message");
	check(run, msg->space == as->space, "space of the message");
}

/* What it says must not change until it is released. */
static void release_one(struct run *run)
{
	unsigned i = (unsigned) below(run, run->held_cnt);

	check_msg(run, run->held[i], &run->held_as[i]);
	tagrv_match_release(run->match, run->held[i]);
	run->held_cnt--;
	run->held[i] = run->held[run->held_cnt];
	run->held_as[i] = run->held_as[run->held_cnt];
}

static void hold(struct run *run, struct tagrv_match_msg *msg,
		 const struct match_model_msg *as)
{
	check_msg(run, msg, as);
	if (run->held_cnt == HELD_MAX)
		release_one(run);
	run->held[run->held_cnt] = msg;
	run->held_as[run->held_cnt++] = *as;
}

/* --- the operations --- */

static void do_post(struct run *run)
{
	struct tagrv_match_want want = draw_want(run);
	uint64_t number = ++run->recv_cnt;
	struct tagrv_match_msg *msg = NULL;
	struct match_model_msg as = { 0 };
	tagrv_match_id id = 0;
	int ret;

	ret = tagrv_match_post(run->match, &want, as_pointer(number), &id, &msg);
	check(run, ret == match_model_post(&run->model, &want, number, &as),
	      "result");
	check(run, (ret == 0) == (id != 0), "id");
	check(run, (ret == 1) == (msg != NULL), "having a message");
	run->ids[number] = id;
	if (ret != 1)
		return;
	run->hits++;
	hold(run, msg, &as);
}

static void do_arrive(struct run *run)
{
	struct match_model_msg as = {
		.number = ++run->msg_cnt,
		.tag = draw_tag(run),
		.peer = draw_peer(run),
		.space = draw_space(run),
	};
	struct tagrv_match_msg *msg = NULL;
	uint64_t number = 0;
	void *cookie = NULL;
	int ret;

	ret = tagrv_match_arrive(run->match, as.peer, as.space, as.tag, &cookie,
				 &msg);
	check(run, ret == match_model_arrive(&run->model, &as, &number),
	      "result");
	check(run, cookie == as_pointer(number), "receive");
	check(run, (ret == 0) == (msg != NULL), "having a message");
	run->hits += ret == 1;
	if (ret)
		return;
	msg->user = as_pointer(as.number);
	check(run, msg->seq > run->last_seq, "arrival order");
	run->last_seq = msg->seq;
}

/* Half of them queued, half long gone or never queued. */
static void do_cancel(struct run *run)
{
	uint64_t number = below(run, run->recv_cnt + 1);
	void *cookie = NULL;
	bool was_there;
	int ret;

	if (run->model.recv_cnt && percent(run, 50))
		number = run->model.recvs[below(run, run->model.recv_cnt)].number;
	ret = tagrv_match_cancel(run->match, run->ids[number], &cookie);
	was_there = match_model_cancel(&run->model, number);
	check(run, ret == (was_there ? 0 : -FI_ENOENT), "result");
	check(run, cookie == as_pointer(was_there ? number : 0), "receive");
}

struct rest {
	uint64_t mod, rest;
};

static bool has_rest(void *cookie, void *arg)
{
	const struct rest *rest = arg;

	return (uintptr_t) cookie % rest->mod == rest->rest;
}

static void do_find(struct run *run)
{
	struct rest rest = { .mod = 1 + below(run, 40) };
	uint64_t number;

	rest.rest = below(run, rest.mod);
	number = match_model_find(&run->model, rest.mod, rest.rest);
	check(run, tagrv_match_find(run->match, has_rest, &rest) ==
		   (number ? run->ids[number] : 0), "id");
}

/* peek, claim, take and discard differ in what becomes of the message. */
static void do_look(struct run *run)
{
	struct tagrv_match_want want = draw_want(run);
	struct match_model_msg as = { 0 };
	struct tagrv_match_msg *msg;

	msg = run->op == CLAIM ? tagrv_match_claim(run->match, &want) :
				 tagrv_match_peek(run->match, &want);
	check(run, match_model_peek(&run->model, &want, &as) == (msg != NULL),
	      "having a message");
	if (!msg)
		return;
	check_msg(run, msg, &as);
	if (run->op == PEEK)
		return;
	match_model_take(&run->model, as.number);
	if (run->op != CLAIM)
		tagrv_match_take(run->match, msg);
	if (run->op == DISCARD)
		tagrv_match_release(run->match, msg);
	else
		hold(run, msg, &as);
}

struct drain {
	struct run *run;
	uint32_t peer;		/* TAGRV_MATCH_ANY: all */
	size_t	next;		/* first message of the model not yet seen */
	bool	all;		/* else some stay */
};

static bool on_drained(struct tagrv_match_msg *msg, void *arg)
{
	struct drain *drain = arg;
	struct match_model *model = &drain->run->model;

	while (drain->next < model->msg_cnt &&
	       drain->peer != TAGRV_MATCH_ANY &&
	       model->msgs[drain->next].peer != drain->peer)
		drain->next++;
	check(drain->run, drain->next < model->msg_cnt, "end of the drain");
	check_msg(drain->run, msg, &model->msgs[drain->next]);
	if (!drain->all && model->msgs[drain->next].number % 4 == 0) {
		drain->next++;
		return false;
	}
	match_model_take(model, model->msgs[drain->next].number);
	return true;
}

/* 'next' stops behind the last message seen; none of the peer may follow. */
static void drain_unexpected(struct run *run, uint32_t peer, bool all)
{
	struct drain drain = { .run = run, .peer = peer, .all = all };

	tagrv_match_drain_unexpected(run->match, peer, on_drained, &drain);
	for (size_t i = drain.next; i < run->model.msg_cnt; i++)
		check(run, peer != TAGRV_MATCH_ANY &&
			   run->model.msgs[i].peer != peer, "end of the drain");
}

static void on_drained_recv(void *cookie, void *arg)
{
	struct run *run = arg;
	uint64_t number = match_model_find(&run->model, 1, 0);

	check(run, number && cookie == as_pointer(number), "drained receive");
	match_model_cancel(&run->model, number);
}

static void do_op(struct run *run)
{
	switch (run->op) {
	case POST:
		do_post(run);
		break;
	case ARRIVE:
		do_arrive(run);
		break;
	case CANCEL:
		do_cancel(run);
		break;
	case FIND:
		do_find(run);
		break;
	case DRAIN:
		drain_unexpected(run, draw_peer(run), percent(run, 50));
		break;
	default:
		do_look(run);
	}
}

/* --- the mixes --- */

static void check_counts(struct run *run)
{
	struct tagrv_match_stats stats;

	tagrv_match_get_stats(run->match, &stats);
	check(run, stats.posted == run->model.recv_cnt, "number of receives");
	check(run, stats.unexpected == run->model.msg_cnt,
	      "number of messages");
}

static void finish(struct run *run)
{
	struct tagrv_match_stats stats;

	drain_unexpected(run, TAGRV_MATCH_ANY, true);
	tagrv_match_drain_posted(run->match, on_drained_recv, run);
	check_counts(run);
	check(run, !run->model.recv_cnt && !run->model.msg_cnt, "being empty");
	while (run->held_cnt)
		release_one(run);
	tagrv_match_get_stats(run->match, &stats);
	check(run, stats.posted_peak >= run->mix->recv_peak,
	      "depth of the receives (too little)");
	check(run, stats.unexpected_peak >= run->mix->msg_peak,
	      "depth of the messages (too little)");
	check(run, run->hits >= STEPS / 200, "number of matches (too little)");
}

static uint64_t seed_of_run(void)
{
	const char *text = getenv("TAGRV_TEST_SEED");
	struct timespec now;

	if (text && *text)
		return strtoull(text, NULL, 0);
	timespec_get(&now, TIME_UTC);
	return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

static void play(const struct mix *mix)
{
	struct run *run = calloc(1, sizeof(*run));

	cr_assert_not_null(run);
	run->mix = mix;
	run->seed = run->random = seed_of_run();
	fprintf(stderr, "model/%s: TAGRV_TEST_SEED=%llu\n", mix->name,
		(unsigned long long) run->seed);
	draw_mix(run);
	cr_assert(match_model_init(&run->model, mix->recv_limit,
				   mix->msg_limit));
	cr_assert_eq(tagrv_match_create(mix->recv_limit, mix->msg_limit,
					&run->match), 0);
	for (run->step = 0; run->step < STEPS; run->step++) {
		run->op = draw_op(run);
		do_op(run);
		check_counts(run);
	}
	finish(run);
	tagrv_match_destroy(run->match);
	match_model_fini(&run->model);
	free(run);
}

/*
 * peers, step; tag bits; masks; % any, msg, keep; limits; depths;
 * post arrive cancel find peek claim take discard drain
 */
#define MIX(name, ...) \
	Test(model, name, .timeout = 120) \
	{ \
		static const struct mix mix = { #name, __VA_ARGS__ }; \
		play(&mix); \
	}

MIX(one_peer_one_tag,
    1, 1, 0, 1, 0, 0, 0, 64, 64, 8, 8,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 })
MIX(exact_directed,
    4, 1, 3, 1, 0, 0, 0, 256, 256, 16, 16,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 })
MIX(exact_wildcard,
    4, 1, 3, 1, 100, 0, 0, 256, 256, 16, 16,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 })
MIX(exact_directed_and_wildcard,
    6, 1, 3, 1, 50, 0, 0, 256, 256, 16, 16,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 })
MIX(two_masks_as_MPI,
    48, 1, 6, 2, 20, 0, 0, 512, 512, 16, 16,
    { 42, 42, 4, 1, 4, 3, 2, 1, 1 })
MIX(eight_masks,
    8, 1, 6, 8, 30, 0, 0, 512, 512, 8, 16,
    { 42, 42, 4, 1, 4, 3, 2, 1, 1 })
MIX(45_masks,
    8, 1, 10, 45, 30, 0, 0, 512, 512, 8, 32,
    { 42, 42, 4, 1, 4, 3, 2, 1, 1 })
MIX(45_masks_deep,
    12, 1, 24, 45, 10, 10, 0, 1500, 1500, 1000, 300,
    { 45, 38, 3, 1, 2, 1, 1, 1, 0 })
MIX(deep_posted,
    8, 1, 12, 3, 5, 0, 0, 2000, 500, 1500, 0,
    { 60, 36, 2, 1, 1, 0, 0, 0, 0 })
MIX(deep_unexpected,
    8, 1, 12, 3, 20, 0, 0, 500, 2000, 0, 1500,
    { 22, 66, 2, 1, 4, 3, 1, 1, 0 })
MIX(messages_without_tags,
    6, 1, 4, 4, 30, 100, 0, 256, 256, 16, 16,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 })
MIX(both_spaces,
    6, 1, 4, 4, 30, 50, 0, 256, 256, 16, 16,
    { 40, 40, 5, 2, 4, 3, 3, 2, 1 })
MIX(multi_recv,
    6, 1, 4, 4, 20, 30, 5, 256, 256, 8, 8,
    { 35, 45, 20, 2, 4, 3, 3, 2, 1 })
MIX(peers_on_one_list,
    6, 1 << 26, 4, 4, 20, 10, 0, 256, 256, 16, 16,
    { 40, 40, 5, 2, 4, 3, 3, 2, 2 })
MIX(tiny_limits,
    3, 1, 3, 3, 30, 20, 2, 3, 3, 3, 3,
    { 40, 40, 8, 2, 4, 3, 3, 2, 1 })
MIX(peers_that_leave,
    10, 1, 8, 3, 10, 20, 0, 400, 400, 64, 32,
    { 35, 45, 8, 1, 1, 1, 1, 1, 6 })
