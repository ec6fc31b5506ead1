/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The engine against the naive matcher: see match_play.h.
 */
#include "common/match_play.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <time.h>

static const char *const op_names[PLAY_OPS] = {
	"post", "arrive", "cancel", "cancel by name", "peek", "claim", "take",
	"discard", "drain",
};

const char *match_play_op_name(enum match_play_op op)
{
	return op_names[op];
}

static void check(const struct match_play *play, bool same, const char *what)
{
	if (!same)
		play->fail(play->arg, what);
}

static uint64_t below(struct match_play *play, uint64_t n)
{
	return n > 1 ? play->below(play->arg, n) : 0;
}

static bool percent(struct match_play *play, unsigned p)
{
	return p && (p == 100 || below(play, 100) < p);
}

static void *as_pointer(uint64_t number)
{
	return (void *) (uintptr_t) number;
}

/* Numbers that the outcome must not depend on, such as ignored bits of a tag. */
static uint64_t noise(struct match_play *play)
{
	uint64_t z = play->noise += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* --- drawing arguments --- */

/* One of 2^tag_bits tags. */
static uint64_t draw_tag(struct match_play *play)
{
	uint64_t rest = below(play, 1ull << play->mix->tag_bits);
	uint64_t tag = play->tag_base;

	for (uint64_t bits = play->tag_vary; rest; bits &= bits - 1, rest >>= 1)
		if (rest & 1)
			tag ^= bits & -bits;
	return tag;
}

static uint32_t draw_peer(struct match_play *play)
{
	return (uint32_t) below(play, play->mix->peers) * play->mix->peer_step;
}

static uint8_t draw_space(struct match_play *play)
{
	return percent(play, play->mix->msg) ? TAGRV_SPACE_MSG :
					       TAGRV_SPACE_TAGGED;
}

/* With mix->drift, only a third of the masks is in use, and the third changes with time. */
static uint64_t draw_mask(struct match_play *play)
{
	const struct match_play_mix *mix = play->mix;
	unsigned first = 0, cnt = mix->masks;

	if (mix->drift) {
		cnt = (mix->masks + 2) / 3;
		first = play->step / mix->drift * cnt;
	}
	return play->masks[(first + below(play, cnt)) % mix->masks];
}

/* Ignored bits of the tag hold noise: the engine must not look at them. */
static struct tagrv_match_want draw_want(struct match_play *play)
{
	uint64_t ignore = draw_mask(play);

	return (struct tagrv_match_want) {
		.tag = draw_tag(play) ^ (noise(play) & ignore),
		.ignore = ignore,
		.peer = percent(play, play->mix->any) ? TAGRV_MATCH_ANY :
							draw_peer(play),
		.space = draw_space(play),
		.keep = percent(play, play->mix->keep),
	};
}

/* While queues shrink, the weights of posts and arrivals are exchanged. */
static unsigned weight(const struct match_play *play, unsigned op)
{
	const struct match_play_mix *mix = play->mix;

	if (op == PLAY_NAME && mix->pause && play->step / mix->pause % 2)
		return 0;
	if (!mix->wave || !(play->step / mix->wave % 2))
		return mix->weight[op];
	if (op == PLAY_POST)
		op = PLAY_ARRIVE;
	else if (op == PLAY_ARRIVE)
		op = PLAY_POST;
	return mix->weight[op];
}

static enum match_play_op draw_op(struct match_play *play)
{
	unsigned total = 0, op = 0;
	uint64_t at;

	for (unsigned i = 0; i < PLAY_OPS; i++)
		total += weight(play, i);
	at = below(play, total);
	while (at >= weight(play, op))
		at -= weight(play, op++);
	return (enum match_play_op) op;
}

/* Masks: nothing, everything, then bits inside and outside those that vary. */
static void draw_mix(struct match_play *play)
{
	while (__builtin_popcountll(play->tag_vary) <
	       (int) play->mix->tag_bits)
		play->tag_vary |= 1ull << noise(play) % 64;
	play->tag_base = noise(play);
	for (unsigned i = 0; i < play->mix->masks; i++) {
		uint64_t outside = noise(play) & noise(play) & ~play->tag_vary;

		play->masks[i] = (noise(play) & play->tag_vary) | outside;
	}
	play->masks[0] = 0;
	if (play->mix->masks > 1)
		play->masks[1] = UINT64_MAX;
}

/* --- messages that the engine handed out --- */

static void check_msg(struct match_play *play, const struct tagrv_match_msg *msg,
		      const struct match_model_msg *as)
{
	check(play, msg->user == as_pointer(as->number), "message");
	check(play, msg->peer == as->peer, "peer of the message");
	check(play, msg->tag == as->tag, "tag of the message");
	check(play, msg->space == as->space, "space of the message");
}

/* The fields of a message must not have changed before its release. */
static void release_one(struct match_play *play)
{
	unsigned i = (unsigned) below(play, play->held_cnt);

	check_msg(play, play->held[i], &play->held_as[i]);
	tagrv_match_release(play->match, play->held[i]);
	play->held_cnt--;
	play->held[i] = play->held[play->held_cnt];
	play->held_as[i] = play->held_as[play->held_cnt];
}

static void hold(struct match_play *play, struct tagrv_match_msg *msg,
		 const struct match_model_msg *as)
{
	check_msg(play, msg, as);
	if (play->held_cnt == MATCH_PLAY_HELD)
		release_one(play);
	play->held[play->held_cnt] = msg;
	play->held_as[play->held_cnt++] = *as;
}

/* Pairs of receives have the same name; an eighth of all receives have name 0. */
static uint64_t name_of_number(uint64_t number)
{
	return number % 8 ? number / 2 : 0;
}

static uint64_t number_of(const struct tagrv_match_recv *recv)
{
	return recv ? recv->room[0] : 0;
}

/* --- the operations --- */

static void do_post(struct match_play *play)
{
	struct tagrv_match_want want = draw_want(play);
	uint64_t number = ++play->recv_cnt;
	struct tagrv_match_recv *recv = NULL;
	struct tagrv_match_msg *msg = NULL;
	struct match_model_msg as = { 0 };
	tagrv_match_id id = 0;
	int ret;

	want.name = as_pointer(name_of_number(number));
	ret = tagrv_match_post(play->match, &want, &recv, &id, &msg);
	check(play, ret == match_model_post(&play->model, &want, number, &as),
	      "result");
	check(play, (ret == 0) == (id != 0), "id");
	check(play, (ret == 1) == (msg != NULL), "having a message");
	play->ids[number] = id;
	if (!ret)
		recv->room[0] = number;
	if (ret != 1)
		return;
	play->hits++;
	hold(play, msg, &as);
}

static void do_arrive(struct match_play *play)
{
	struct match_model_msg as = {
		.number = ++play->msg_cnt,
		.tag = draw_tag(play),
		.peer = draw_peer(play),
		.space = draw_space(play),
	};
	struct tagrv_match_msg *msg = NULL;
	struct tagrv_match_recv *recv = NULL;
	uint64_t number = 0;
	int ret;

	if (noise(play) & 1)
		tagrv_match_prefetch(play->match, as.peer, as.space, as.tag);
	ret = tagrv_match_arrive(play->match, as.peer, as.space, as.tag, &recv,
				 &msg);
	check(play, ret == match_model_arrive(&play->model, &as, &number),
	      "result");
	check(play, number_of(recv) == number, "receive");
	check(play, (ret == 0) == (msg != NULL), "having a message");
	play->hits += ret == 1;
	if (ret)
		return;
	msg->user = as_pointer(as.number);
	check(play, msg->seq > play->last_seq, "arrival order");
	play->last_seq = msg->seq;
}

/* Half of the receives to cancel are queued, half are gone. */
static void do_cancel(struct match_play *play)
{
	uint64_t number = below(play, play->recv_cnt + 1);
	struct tagrv_match_recv *recv = NULL;
	bool was_there;
	int ret;

	if (play->model.recv_cnt && percent(play, 50))
		number = play->model.recvs[below(play, play->model.recv_cnt)].number;
	ret = tagrv_match_cancel(play->match, play->ids[number], &recv);
	was_there = match_model_cancel(&play->model, number);
	check(play, ret == (was_there ? 0 : -FI_ENOENT), "result");
	check(play, number_of(recv) == (was_there ? number : 0), "receive");
}

/* Finds a receive by its name and cancels it, as fi_cancel does. */
static void do_name(struct match_play *play)
{
	uint64_t name = name_of_number(below(play, play->recv_cnt + 1));
	uint64_t number = match_model_find(&play->model, name_of_number, name);
	struct tagrv_match_recv *recv = NULL;
	tagrv_match_id id;

	id = tagrv_match_find_name(play->match, as_pointer(name));
	check(play, id == (number ? play->ids[number] : 0), "id");
	if (!id || percent(play, 20))
		return;
	check(play, !tagrv_match_cancel(play->match, id, &recv) &&
		    number_of(recv) == number, "receive");
	match_model_cancel(&play->model, number);
}

/* Peek leaves the message, claim and take hold it, discard releases it. */
static void do_look(struct match_play *play)
{
	struct tagrv_match_want want = draw_want(play);
	struct match_model_msg as = { 0 };
	struct tagrv_match_msg *msg;

	msg = play->op == PLAY_CLAIM ? tagrv_match_claim(play->match, &want) :
				 tagrv_match_peek(play->match, &want);
	check(play, match_model_peek(&play->model, &want, &as) == (msg != NULL),
	      "having a message");
	if (!msg)
		return;
	check_msg(play, msg, &as);
	if (play->op == PLAY_PEEK)
		return;
	match_model_take(&play->model, as.number);
	if (play->op != PLAY_CLAIM)
		tagrv_match_take(play->match, msg);
	if (play->op == PLAY_DISCARD)
		tagrv_match_release(play->match, msg);
	else
		hold(play, msg, &as);
}

struct drain {
	struct match_play *play;
	uint32_t peer;		/* TAGRV_MATCH_ANY: of all peers */
	size_t	next;		/* first message of the model not yet seen */
	bool	all;		/* false: a quarter of the messages stays */
};

static bool on_drained(struct tagrv_match_msg *msg, void *arg)
{
	struct drain *drain = arg;
	struct match_model *model = &drain->play->model;

	while (drain->next < model->msg_cnt &&
	       drain->peer != TAGRV_MATCH_ANY &&
	       model->msgs[drain->next].peer != drain->peer)
		drain->next++;
	check(drain->play, drain->next < model->msg_cnt, "end of the drain");
	check_msg(drain->play, msg, &model->msgs[drain->next]);
	if (!drain->all && model->msgs[drain->next].number % 4 == 0) {
		drain->next++;
		return false;
	}
	match_model_take(model, model->msgs[drain->next].number);
	return true;
}

/* No message of the peer may follow the last one that was drained. */
static void drain_unexpected(struct match_play *play, uint32_t peer, bool all)
{
	struct drain drain = { .play = play, .peer = peer, .all = all };

	tagrv_match_drain_unexpected(play->match, peer, on_drained, &drain);
	for (size_t i = drain.next; i < play->model.msg_cnt; i++)
		check(play, peer != TAGRV_MATCH_ANY &&
			   play->model.msgs[i].peer != peer, "end of the drain");
}

static void on_drained_recv(struct tagrv_match_recv *recv, void *arg)
{
	struct match_play *play = arg;
	uint64_t number = 0;

	if (play->model.recv_cnt)
		number = play->model.recvs[0].number;
	check(play, number && number_of(recv) == number, "drained receive");
	match_model_cancel(&play->model, number);
}

static void do_op(struct match_play *play)
{
	switch (play->op) {
	case PLAY_POST:
		do_post(play);
		break;
	case PLAY_ARRIVE:
		do_arrive(play);
		break;
	case PLAY_CANCEL:
		do_cancel(play);
		break;
	case PLAY_NAME:
		do_name(play);
		break;
	case PLAY_DRAIN:
		drain_unexpected(play, draw_peer(play), percent(play, 50));
		break;
	default:
		do_look(play);
	}
}

/* --- the mixes --- */

static void check_counts(struct match_play *play)
{
	const struct match_model *model = &play->model;
	struct tagrv_match_stats stats;

	tagrv_match_get_stats(play->match, &stats);
	check(play, stats.posted == model->recv_cnt, "number of receives");
	check(play, stats.unexpected == model->msg_cnt, "number of messages");
	check(play, stats.posted_oldest ==
		    (model->recv_cnt ? model->posts - model->recvs[0].seq : 0),
	      "age of the receives");
	check(play, stats.unexpected_oldest ==
		    (model->msg_cnt ? model->arrivals - model->msgs[0].seq : 0),
	      "age of the messages");
}

bool match_play_init(struct match_play *play, uint64_t seed)
{
	const struct match_play_mix *mix = play->mix;

	play->noise = seed;
	draw_mix(play);
	play->ids = calloc(play->step_max + 1, sizeof(*play->ids));
	if (play->ids &&
	    match_model_init(&play->model, mix->recv_limit, mix->msg_limit) &&
	    !tagrv_match_create_seeded(mix->recv_limit, mix->msg_limit, seed,
				       &play->match))
		return true;
	match_model_fini(&play->model);
	free(play->ids);
	return false;
}

void match_play_step(struct match_play *play)
{
	match_play_do(play, draw_op(play));
}

void match_play_do(struct match_play *play, enum match_play_op op)
{
	play->op = op;
	do_op(play);
	if (play->step % 64 == 0)
		tagrv_match_grow_ahead(play->match);
	check_counts(play);
	play->step++;
}

struct tagrv_match_stats match_play_fini(struct match_play *play)
{
	struct tagrv_match_stats stats;

	drain_unexpected(play, TAGRV_MATCH_ANY, true);
	tagrv_match_drain_posted(play->match, on_drained_recv, play);
	check_counts(play);
	check(play, !play->model.recv_cnt && !play->model.msg_cnt,
	      "being empty");
	while (play->held_cnt)
		release_one(play);
	tagrv_match_get_stats(play->match, &stats);
	tagrv_match_destroy(play->match);
	match_model_fini(&play->model);
	free(play->ids);
	return stats;
}

uint64_t match_play_seed(void)
{
	const char *text = getenv("TAGRV_TEST_SEED");
	struct timespec now;

	if (text && *text)
		return strtoull(text, NULL, 0);
	timespec_get(&now, TIME_UTC);
	return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}
