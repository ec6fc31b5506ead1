/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Draws random messages and, for each block, receives that match all of them.
 */
#include "plan.h"

#include "framework/pattern.h"

#include <string.h>

enum { PROBABILITY_ONE = 1 << 20 };

/* One class of lengths: uniform from 0 to max. */
struct length_class {
	size_t max;
	double share;		/* part of all messages, with the default volume */
};

static const struct length_class classes[] = {
	{ PLAN_LEN_MAX, 0.005 },
	{ 1 << 20, 0.03 },
	{ 128 << 10, 0.15 },
	{ 16 << 10, 0.25 },
};

enum { SMALL_MAX = 512, DEFAULT_AVERAGE = 48700 };

static uint64_t start_of(const struct plan *plan, uint64_t what, uint64_t id)
{
	uint64_t state = plan->seed ^ what << 56 ^ id;

	return pattern_next(&state);
}

static size_t draw_length(const struct plan *plan, uint64_t *state)
{
	double factor = (double)plan->bytes / ((double)plan->count * DEFAULT_AVERAGE);
	double r = (double)(pattern_next(state) % PROBABILITY_ONE) / PROBABILITY_ONE;

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		double share = classes[i].share * factor;

		if (r < share)
			return pattern_next(state) % (classes[i].max + 1);
		r -= share;
	}
	return pattern_next(state) % (SMALL_MAX + 1);
}

/* Few values, so that many receives match the same messages. */
static uint64_t draw_tag(uint64_t *state)
{
	uint64_t r = pattern_next(state);

	return (r & 3) << 60 | (r >> 2 & 1) << 32 | (r >> 3 & 7);
}

static uint64_t draw_flags(const struct plan *plan, uint64_t *state)
{
	static const uint64_t levels[] = {
		0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
		FI_MATCH_COMPLETE,
	};
	uint64_t r = pattern_next(state);
	uint64_t flags = r & 1 ? FI_REMOTE_CQ_DATA : 0;

	return flags | levels[(r >> 1) % (plan->deny_match ? 4 : 5)];
}

void plan_message(const struct plan *plan, uint64_t id, struct plan_message *m)
{
	uint64_t state = start_of(plan, 1, id);

	m->id = id;
	m->tagged = pattern_next(&state) % 8 != 0;
	m->tag = m->tagged ? draw_tag(&state) : 0;
	m->len = draw_length(plan, &state);
	m->data = pattern_next(&state) << 32 >> 32;
	m->call = pattern_next(&state) % 6;
	m->flags = draw_flags(plan, &state);
	if (!msg_completes(m->call) && m->len > plan->inject_size)
		m->call = CALL_BUF;
	if (m->call == CALL_MSG && m->len <= plan->inject_size && pattern_next(&state) % 4 == 0)
		m->flags = (m->flags & FI_REMOTE_CQ_DATA) | FI_INJECT;
}

bool plan_has_data(const struct plan_message *m)
{
	return m->call == CALL_DATA || m->call == CALL_INJECTDATA ||
	       (m->call == CALL_MSG && m->flags & FI_REMOTE_CQ_DATA);
}

uint64_t plan_content(const struct plan *plan, uint64_t id)
{
	return start_of(plan, 2, id);
}

static bool matches(const struct plan_receive *r, const struct plan_message *m)
{
	if (r->tagged != m->tagged)
		return false;
	return !r->tagged || !((r->tag ^ m->tag) & ~r->ignore);
}

static void draw_receive(struct plan_receive *r, const struct plan_message *m, uint64_t *state)
{
	static const uint64_t masks[] = {
		0, 0, 1ULL << 32, 1ULL << 32 | 7, 7, 3ULL << 60, ~0ULL,
	};
	uint64_t draw = pattern_next(state);

	r->tagged = m->tagged;
	r->call = draw % 3;
	r->ignore = (draw >> 8) % 8 == 7 ? pattern_next(state) : masks[(draw >> 16) % 7];
	r->tag = m->tag ^ (r->ignore & pattern_next(state));
}

static void shuffle(struct plan_receive *r, uint64_t *state)
{
	for (size_t i = PLAN_BLOCK - 1; i > 0; i--) {
		size_t k = pattern_next(state) % (i + 1);
		struct plan_receive other = r[k];

		r[k] = r[i];
		r[i] = other;
	}
}

/* Gives each message the first free receive that matches; returns how many found none. */
static int assign(struct plan_receive *r, const struct plan_message *m, bool *taken, bool *placed)
{
	int without = PLAN_BLOCK;

	memset(taken, 0, PLAN_BLOCK * sizeof(*taken));
	memset(placed, 0, PLAN_BLOCK * sizeof(*placed));
	for (int i = 0; i < PLAN_BLOCK; i++) {
		int k = 0;

		while (k < PLAN_BLOCK && (taken[k] || !matches(&r[k], &m[i])))
			k++;
		if (k == PLAN_BLOCK)
			continue;
		taken[k] = placed[i] = true;
		r[k].message = m[i];
		without--;
	}
	return without;
}

/* Turns the receives left over into exact ones for the messages left over. */
static void repair(struct plan_receive *r, const struct plan_message *m, const bool *taken,
		   const bool *placed)
{
	int k = 0;

	for (int i = 0; i < PLAN_BLOCK; i++) {
		if (placed[i])
			continue;
		while (taken[k])
			k++;
		r[k].tagged = m[i].tagged;
		r[k].tag = m[i].tag;
		r[k].ignore = 0;
		k++;
	}
}

static void make_exact(struct plan_receive *r)
{
	for (int i = 0; i < PLAN_BLOCK; i++)
		r[i].ignore = 0;
}

void plan_receives(const struct plan *plan, uint64_t block, struct plan_receive *receive)
{
	uint64_t state = start_of(plan, 3, block);
	struct plan_message m[PLAN_BLOCK];
	bool taken[PLAN_BLOCK], placed[PLAN_BLOCK];

	for (uint64_t i = 0; i < PLAN_BLOCK; i++) {
		plan_message(plan, block * PLAN_BLOCK + i, &m[i]);
		draw_receive(&receive[i], &m[i], &state);
	}
	shuffle(receive, &state);
	for (int tries = 0; assign(receive, m, taken, placed); tries++) {
		if (tries < PLAN_BLOCK) {
			repair(receive, m, taken, placed);
			continue;
		}
		for (int i = 0; i < PLAN_BLOCK; i++)
			draw_receive(&receive[i], &m[i], &state);
		for (int i = 0; i < PLAN_BLOCK; i++)
			receive[i].tag = m[i].tag;
		make_exact(receive);
	}
}
