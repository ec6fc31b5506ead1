/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Decides which classes of lookups get an index. unexpected.h draws the structure.
 *
 * Lookups of all classes walk until together they have walked TAGRV_INDEX_COST
 * steps for each message queued. Then an index is started for the class whose
 * index would have saved most of those steps. If too many messages share its keys,
 * lookups of finer classes walk along the keys' rings, and get indexes of their own
 * in the same way.
 *
 * Indexes are dropped when a younger, coarser one has nearly as many keys, and when
 * no lookup has used them for long (unexpected_index.c). If all places are taken,
 * the index that has saved least gives way to a class that has walked twice as many
 * steps; if there is no such class, age() halves all counts. So an index that is
 * no longer used is replaced soon, and classes used equally often never replace
 * each other.
 */
#include "match/unexpected.h"

/* The entry of a class; a new one replaces the entry with the fewest steps. */
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

/*
 * An unused index, else the one that saved least, which is dropped if it saved at
 * most half as many steps as were walked; else TAGRV_INDEXES.
 */
static unsigned find_place(struct tagrv_unexpected_queue *queue,
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

static TAGRV_COLD void start_index(struct tagrv_unexpected_queue *queue)
{
	uint64_t steps;
	struct tagrv_unexpected_walker *best = most_wanted(queue, &steps);
	struct tagrv_unexpected_walker chosen;
	unsigned i;

	i = best ? find_place(queue, steps) : TAGRV_INDEXES;
	if (i == TAGRV_INDEXES) {
		age(queue);
		return;
	}
	chosen = *best;
	if (tagrv_unexpected_index_start(queue, i, chosen.care, chosen.any))
		queue->indexes[i].credit = steps;
	for (unsigned j = 0; j < TAGRV_WALKERS; j++)
		if (would_serve(&chosen, &queue->walkers[j]))
			queue->walkers[j].walked = 0;
	queue->walked -= steps;
}

void tagrv_unexpected_walked(struct tagrv_unexpected_queue *queue,
			     uint64_t care, bool any, uint64_t steps)
{
	walker_of(queue, care, any)->walked += steps;
	queue->walked += steps;
	if (queue->walked >= TAGRV_INDEX_COST * (uint64_t) queue->level.cnt)
		start_index(queue);
}
