/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which groups have their keys in the same table lines.
 *
 *   group 1  compares bits  ffff....      line of a key: hash of the bits that
 *   group 2  compares bits  ..ffffff      both compare, ..ff....
 *   arrival -- one line --> cells of group 1 and group 2
 *
 * An arrival has to ask every group, also those that hold nothing for it, and
 * where many receives are queued each line is far away. So groups lie by what
 * they have in common: tag bits that all of them compare, and the peer if all
 * have one. The rest of a cell's hash is of the group's whole key, as elsewhere.
 *
 * That only pays while the common bits tell keys apart. Where they do not,
 * insertions run into one full line after the other, the table says so, and
 * the groups lie apart from then on, each by its own key, as a group does that
 * has too few bits in common with the others or that was split.
 *
 * Keys are moved when a group narrows what is common, which is done only when
 * as many receives were posted since the last time as have to be moved; and once
 * more when a group is set apart. So no post pays for more than two moves on
 * average, and no memory is needed.
 */
#include "match/posted.h"

/* Fewer bits cannot tell enough keys apart. */
#define PLACE_BITS_MIN	8

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

/* A cell is free before it is asked for: the table need not grow. */
static void move(struct tagrv_posted_queue *queue, struct tagrv_posted *recv,
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

/* To where they belong now. */
static void move_group(struct tagrv_posted_queue *queue, uint8_t number)
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
			move(queue, recv, hash_of(queue, number, recv));
		}
	}
}

static void move_groups(struct tagrv_posted_queue *queue, uint64_t groups)
{
	for (; groups; groups &= groups - 1)
		move_group(queue, (uint8_t) __builtin_ctzll(groups));
}

/* The groups that can lie with a new one, and how many receives they hold. */
static uint64_t companions(const struct tagrv_posted_queue *queue,
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
	uint64_t cnt, others = companions(queue, number, &cnt);
	struct tagrv_posted_common common =
		common_of(queue, others | 1ull << number);

	if (!others)
		return;
	/* What has gone since does not make it wider: nothing to move. */
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
	move_groups(queue, queue->shared);
}

void tagrv_posted_place_part(struct tagrv_posted_queue *queue)
{
	uint64_t groups = queue->shared;

	queue->shared = 0;
	for (uint64_t todo = groups; todo; todo &= todo - 1)
		queue->groups[__builtin_ctzll(todo)].apart = true;
	move_groups(queue, groups);
	queue->tab.crowded = false;
}
