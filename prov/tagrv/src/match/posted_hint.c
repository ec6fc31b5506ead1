/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Finds the hashed class of a receive.
 *
 *   care mask, with peer or without --> index of hints[] --> class, to be verified
 *
 * hints[] holds the class last found for an index. Every post asks for its class,
 * so no two classes should have the same index: if two do, they overwrite each
 * other's hint, and every post of either compares all classes. Therefore the
 * factor that maps classes to indexes is chosen anew for each new class.
 */
#include <limits.h>

#include "match/posted.h"

/* Factors tried when a class was added. */
#define HINT_TRIES	16

static inline bool is_class(const struct tagrv_posted_queue *queue, unsigned c,
			    uint8_t space, uint64_t care, bool any)
{
	const struct tagrv_posted_class *class = &queue->classes[c];

	return (queue->live[space] & 1ull << c) && class->care == care &&
	       class->any == any;
}

static inline unsigned hint_of(uint64_t care, bool any, uint64_t factor)
{
	uint64_t mix = any ? 0x9e3779b97f4a7c15 : 0;

	return (unsigned) ((care + mix) * factor >> TAGRV_HINT_SHIFT);
}

/* Number of classes whose index an earlier class has. */
static unsigned count_clashes(const struct tagrv_posted_queue *queue,
			      uint64_t factor)
{
	bool taken[TAGRV_ARRAY_SIZE(queue->hints)] = { false };
	unsigned clashes = 0;

	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++) {
		for (uint64_t todo = queue->live[space]; todo; todo &= todo - 1) {
			const struct tagrv_posted_class *class =
				&queue->classes[__builtin_ctzll(todo)];
			bool *hint = &taken[hint_of(class->care, class->any,
						    factor)];

			clashes += *hint;
			*hint = true;
		}
	}
	return clashes;
}

void tagrv_posted_hints_renew(struct tagrv_posted_queue *queue)
{
	uint64_t state = queue->seed.peer, best = queue->hint_factor;
	unsigned least = best ? count_clashes(queue, best) : UINT_MAX;

	for (unsigned i = 0; least && i < HINT_TRIES; i++) {
		uint64_t factor = tagrv_hash_word(&state) | 1;
		unsigned clashes = count_clashes(queue, factor);

		if (clashes >= least)
			continue;
		least = clashes;
		best = factor;
	}
	queue->hint_factor = best;
}

uint8_t tagrv_posted_class_of(struct tagrv_posted_queue *queue, uint8_t space,
			      uint64_t care, bool any)
{
	uint8_t *hint = &queue->hints[hint_of(care, any, queue->hint_factor)];

	if (TAGRV_LIKELY(is_class(queue, *hint, space, care, any)))
		return *hint;
	for (uint64_t todo = queue->live[space]; todo; todo &= todo - 1) {
		unsigned c = (unsigned) __builtin_ctzll(todo);

		if (is_class(queue, c, space, care, any))
			return *hint = (uint8_t) c;
	}
	return TAGRV_NO_CLASS;
}
