/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which classes of lookups get an index. Drawn in unexpected.h.
 *
 * Classes rent (walk) until they have walked TAGRV_INDEX_COST steps for each
 * message queued, all together, then they buy: the key of the class that serves
 * most of what was walked. Where its keys turn out to be shared by too many,
 * lookups of finer classes walk along them and buy their own.
 *
 * Few indexes are kept. One that is complete makes an older and finer one go
 * when it has nearly as many keys. One that no lookup used for long goes. While
 * all places are taken, the index that has saved least is exchanged when twice
 * that was walked; if not, all accounts are halved. So an index that went out of
 * use goes soon, and classes used alike never push each other out.
 */
#include "match/unexpected.h"

static struct tagrv_unexpected_walker *
walker_of(struct tagrv_unexpected_queue *queue, uint64_t care, bool any)
{
	struct tagrv_unexpected_walker *least = &queue->walkers[0];

	for (unsigned i = 0; i < TAGRV_WALKERS; i++) {
		struct tagrv_unexpected_walker *walker = &queue->walkers[i];

		if (walker->care == care && walker->any == any)
			return walker;
		if (walker->walked < least->walked)
			least = walker;
	}
	queue->walked -= least->walked;
	*least = (struct tagrv_unexpected_walker) { .care = care, .any = any };
	return least;
}

static void age(struct tagrv_unexpected_queue *queue)
{
	queue->walked = 0;
	for (unsigned i = 0; i < TAGRV_INDEXES; i++)
		queue->indexes[i].credit /= 2;
	for (unsigned i = 0; i < TAGRV_WALKERS; i++) {
		queue->walkers[i].walked /= 2;
		queue->walked += queue->walkers[i].walked;
	}
}

/* A free place, or the one that saves least if that is little enough. */
static unsigned place_for(struct tagrv_unexpected_queue *queue,
			  uint64_t walked)
{
	unsigned least = TAGRV_INDEX_PEER + 1;

	for (unsigned i = TAGRV_INDEX_PEER + 1; i < TAGRV_INDEXES; i++) {
		if (!(queue->live & 1u << i))
			return i;
		if (queue->indexes[i].credit < queue->indexes[least].credit)
			least = i;
	}
	if (queue->indexes[least].credit > walked / 2)
		return TAGRV_INDEXES;
	queue->evictions++;
	tagrv_unexpected_index_drop(queue, least);
	return least;
}

/* Whether an index for walker 'a' would serve walker 'b'. */
static bool would_serve(const struct tagrv_unexpected_walker *a,
			const struct tagrv_unexpected_walker *b)
{
	return !(a->care & ~b->care) && (a->any || !b->any);
}

/* The walker whose index would have saved most, and how many steps. */
static struct tagrv_unexpected_walker *
most_wanted(struct tagrv_unexpected_queue *queue, uint64_t *steps)
{
	struct tagrv_unexpected_walker *best = NULL;

	*steps = 0;
	for (unsigned i = 0; i < TAGRV_WALKERS; i++) {
		struct tagrv_unexpected_walker *walker = &queue->walkers[i];
		uint64_t sum = 0;

		if (!walker->walked)
			continue;
		for (unsigned j = 0; j < TAGRV_WALKERS; j++)
			if (would_serve(walker, &queue->walkers[j]))
				sum += queue->walkers[j].walked;
		if (sum > *steps) {
			*steps = sum;
			best = walker;
		}
	}
	return best;
}

static TAGRV_COLD void buy(struct tagrv_unexpected_queue *queue)
{
	uint64_t steps;
	struct tagrv_unexpected_walker *best = most_wanted(queue, &steps), gets;
	unsigned i;

	i = best ? place_for(queue, steps) : TAGRV_INDEXES;
	if (i == TAGRV_INDEXES) {
		age(queue);
		return;
	}
	gets = *best;
	if (tagrv_unexpected_index_start(queue, i, gets.care, gets.any))
		queue->indexes[i].credit = steps;
	for (unsigned j = 0; j < TAGRV_WALKERS; j++)
		if (would_serve(&gets, &queue->walkers[j]))
			queue->walkers[j].walked = 0;
	queue->walked -= steps;
}

void tagrv_unexpected_walked(struct tagrv_unexpected_queue *queue,
			     uint64_t care, bool any, uint64_t steps)
{
	walker_of(queue, care, any)->walked += steps;
	queue->walked += steps;
	if (queue->walked >= TAGRV_INDEX_COST * (uint64_t) queue->level.cnt)
		buy(queue);
}
