/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Before times are measured, every structure must give the same answers as the model
 * to random calls, in which many receives compete for a message.
 */
#include "depth.h"

#include "common/match_model.h"

enum { STEPS = 6000, QUEUED_MAX = 300, TAGS = 6, PEERS = 3 };

/* More calls queue for a while, then more remove, so that queues become full and empty. */
static bool queues(uint64_t random, unsigned step)
{
	return random % 8 < (step / 1000 % 2 ? 3 : 5);
}

static struct tagrv_match_want random_want(uint64_t random, unsigned classes)
{
	struct tagrv_match_want want = depth_class((unsigned) (random >> 16) %
						   classes);

	want.tag = (random >> 24) % TAGS | (random & want.ignore);
	if (want.peer != TAGRV_MATCH_ANY)
		want.peer = (uint32_t) (random >> 8) % PEERS;
	return want;
}

static struct match_model_msg random_msg(uint64_t random, uint32_t number)
{
	return (struct match_model_msg) {
		.number = number,
		.tag = (random >> 24) % TAGS | (random >> 40 & 1) << 33,
		.peer = (uint32_t) (random >> 8) % PEERS,
		.space = TAGRV_SPACE_TAGGED,
	};
}

static bool differs(const char *name, const char *call, unsigned step,
		    uint64_t got, uint64_t wanted)
{
	if (got == wanted)
		return false;
	fprintf(stderr, "match_depth: %s, %s at step %u: %llu, but the model "
		"says %llu\n", name, call, step, (unsigned long long) got,
		(unsigned long long) wanted);
	return true;
}

static bool same_posted(const struct depth_subject *subject, void *self,
			struct match_model *model, unsigned classes,
			uint64_t seed)
{
	for (uint32_t step = 1; step <= STEPS; step++) {
		uint64_t random = depth_random(&seed), wanted = 0;
		struct match_model_msg msg = random_msg(random, step);

		if (queues(random, step) && model->recv_cnt < QUEUED_MAX) {
			struct tagrv_match_want want =
				random_want(depth_random(&seed), classes);

			if (match_model_post(model, &want, step, &msg))
				return false;
			subject->post(self, &want, step);
			continue;
		}
		if (!match_model_arrive(model, &msg, &wanted))
			match_model_take(model, step);
		if (differs(subject->name, "match", step,
			    subject->match(self, msg.peer, msg.tag), wanted))
			return false;
	}
	return true;
}

static bool same_unexpected(const struct depth_subject *subject, void *self,
			    struct match_model *model, unsigned classes,
			    uint64_t seed)
{
	for (uint32_t step = 1; step <= STEPS; step++) {
		uint64_t random = depth_random(&seed), none;
		struct match_model_msg msg = random_msg(random, step);
		struct tagrv_match_want want;

		if (queues(random, step) && model->msg_cnt < QUEUED_MAX) {
			if (match_model_arrive(model, &msg, &none))
				return false;
			subject->arrive(self, msg.peer, msg.tag, step);
			continue;
		}
		want = random_want(depth_random(&seed), classes);
		if (match_model_peek(model, &want, &msg))
			match_model_take(model, msg.number);
		else
			msg.number = 0;
		if (differs(subject->name, "claim", step,
			    subject->claim(self, &want), msg.number))
			return false;
	}
	return true;
}

static bool same(const struct depth_subject *subject, enum depth_side side,
		 unsigned classes, uint64_t seed)
{
	void *self = subject->open(QUEUED_MAX);
	struct match_model model;
	bool ok;

	if (!self || !match_model_init(&model, QUEUED_MAX, QUEUED_MAX))
		depth_die("out of memory");
	ok = side == DEPTH_POSTED ?
	     same_posted(subject, self, &model, classes, seed) :
	     same_unexpected(subject, self, &model, classes, seed);
	match_model_fini(&model);
	subject->close(self);
	return ok;
}

bool depth_check(uint64_t seed)
{
	static const unsigned classes[] = { 1, 2, 4, 8, 64 };

	for (size_t i = 0; depth_subjects[i]; i++)
		for (size_t k = 0; k < TAGRV_ARRAY_SIZE(classes); k++)
			for (int side = 0; side < DEPTH_SIDES; side++)
				if (!same(depth_subjects[i], side, classes[k],
					  seed))
					return false;
	return true;
}
