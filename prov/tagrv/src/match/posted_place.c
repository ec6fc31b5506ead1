/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Decides which groups keep their keys in the same lines of the key table.
 *
 *   group 1  compares bits  ffff....      line of a key: hash of the bits that
 *   group 2  compares bits  ..ffffff      both groups compare, ..ff....
 *   arrival -- one line --> cells of group 1 and group 2
 *
 * An arrival must probe every group, also those that hold no match, and in a large
 * table each line probed is a cache miss. So groups share lines: the line of a key
 * is a hash of the parts that all groups in 'shared' compare: the common tag bits,
 * and the peer if all keys have one. The upper bits of a cell's hash are of the
 * group's whole key, as for other groups.
 *
 * Sharing pays only while the common parts differ between keys. If they do not,
 * insertions find one full line after the other and set tab.crowded; then no group
 * shares lines any more: all get 'apart', and the line of a key is selected by the
 * whole key. A group also gets 'apart' if it has too few bits in common with the
 * others, or if it was split off another.
 *
 * A new group may make the common parts fewer, which moves all keys. That happens
 * only if at least as many receives were posted since the last move as must be
 * moved; otherwise the new group gets 'apart'. Setting groups apart moves their
 * keys once more. So a post pays for at most two moves on average. No move needs
 * memory.
 */
#include "match/posted.h"

/* Groups with fewer common tag bits do not share lines. */
#define PLACE_BITS_MIN	8

/* The hash of a receive's key in its group, as 'shared' and 'common' are now. */
static uint32_t hash_of(const struct tagrv_posted_queue *queue,
			uint8_t number, const struct tagrv_posted *recv)
{
	const struct tagrv_posted_group *group = &queue->groups[number];
	uint32_t peer = group->any ? TAGRV_MATCH_ANY : recv->peer;
	uint32_t hash = tagrv_hash(&queue->seed, recv->tag & group->care, peer,
				   number);

	if (!(queue->shared & 1ull << number))
		return hash;
	return tagrv_posted_at_place(hash, tagrv_posted_place(queue, recv->peer,
							      recv->tag));
}

/* Erases before it inserts, so the table need not grow. */
static void rehash(struct tagrv_posted_queue *queue, struct tagrv_posted *recv,
		   uint32_t hash)
{
	uint32_t index = tagrv_posted_index(recv);

	if (recv->head) {
		tagrv_keytab_erase(&queue->tab,
			tagrv_keytab_cell_of(&queue->tab, recv->hash, index));
		if (!tagrv_keytab_insert(&queue->tab, hash, index))
			assert(!"there was room");
	}
	recv->hash = hash;
}

static void rehash_group(struct tagrv_posted_queue *queue, uint8_t number)
{
	uint64_t todo = queue->live[queue->groups[number].space];

	for (; todo; todo &= todo - 1) {
		const struct tagrv_posted_class *class =
			&queue->classes[__builtin_ctzll(todo)];
		struct tagrv_posted *recv;

		if (class->group != number)
			continue;
		for (uint32_t i = class->first; i != TAGRV_NO_RECV;
		     i = recv->newer) {
			recv = tagrv_posted_at(queue, i);
			rehash(queue, recv, hash_of(queue, number, recv));
		}
	}
}

static void rehash_groups(struct tagrv_posted_queue *queue, uint64_t groups)
{
	for (; groups; groups &= groups - 1)
		rehash_group(queue, (uint8_t) __builtin_ctzll(groups));
}

/* Bits of the groups that can share lines with a new one; *cnt: receives. */
static uint64_t find_partners(const struct tagrv_posted_queue *queue,
			      uint8_t number, uint64_t *cnt)
{
	uint64_t found = 0;

	*cnt = 0;
	for (uint8_t g = 0; g < TAGRV_CLASSES; g++) {
		const struct tagrv_posted_group *group = &queue->groups[g];

		if (g == number || !group->classes || group->apart ||
		    group->space != queue->groups[number].space)
			continue;
		found |= 1ull << g;
		*cnt += group->cnt;
	}
	return found;
}

static struct tagrv_posted_common
common_of(const struct tagrv_posted_queue *queue, uint64_t groups)
{
	struct tagrv_posted_common common = { .care = ~0ull };

	for (; groups; groups &= groups - 1) {
		const struct tagrv_posted_group *group =
			&queue->groups[__builtin_ctzll(groups)];

		common.care &= group->care;
		common.any |= group->any;
	}
	return common;
}

void tagrv_posted_place_join(struct tagrv_posted_queue *queue, uint8_t number)
{
	struct tagrv_posted_group *group = &queue->groups[number];
	uint64_t cnt, others = find_partners(queue, number, &cnt);
	struct tagrv_posted_common common =
		common_of(queue, others | 1ull << number);

	if (!others)
		return;
	/* Bits regained because a group has gone are not used: no key moves. */
	if (queue->shared) {
		common.care &= queue->common.care;
		common.any |= queue->common.any;
	}
	group->apart = __builtin_popcountll(common.care) < PLACE_BITS_MIN;
	if (group->apart)
		return;
	if (others == queue->shared && common.care == queue->common.care &&
	    common.any == queue->common.any) {
		queue->shared |= 1ull << number;
		return;
	}
	group->apart = cnt > queue->last_seq - queue->placed;
	if (group->apart)
		return;
	queue->placed = queue->last_seq;
	queue->common = common;
	queue->shared = others | 1ull << number;
	rehash_groups(queue, queue->shared);
}

void tagrv_posted_place_part(struct tagrv_posted_queue *queue)
{
	uint64_t groups = queue->shared;

	queue->shared = 0;
	for (uint64_t todo = groups; todo; todo &= todo - 1)
		queue->groups[__builtin_ctzll(todo)].apart = true;
	rehash_groups(queue, groups);
	queue->tab.crowded = false;
}
