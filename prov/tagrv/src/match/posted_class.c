/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Creates and frees hashed classes, and puts each into a group (see posted.h).
 *
 * A new class joins the group with the most tag bits whose key its receives have,
 * so that under a key there are few receives of other classes. If there is no such
 * group it gets one of its own.
 */
#include "match/posted.h"

uint8_t tagrv_posted_group_new(struct tagrv_posted_queue *queue,
			       const struct tagrv_posted_class *class)
{
	uint8_t number = 0;

	/* A free one exists: there are as many groups as classes. */
	while (queue->groups[number].classes)
		number++;
	queue->groups[number] = (struct tagrv_posted_group) {
		.care = class->care,
		.any = class->any,
		.space = class->space,
		.classes = 1,
	};
	return number;
}

void tagrv_posted_group_leave(struct tagrv_posted_queue *queue, uint8_t number)
{
	if (!--queue->groups[number].classes)
		queue->shared &= ~(1ull << number);
}

uint8_t tagrv_posted_group_for(const struct tagrv_posted_queue *queue,
			       uint8_t space, uint64_t care, bool any)
{
	uint8_t best = TAGRV_NO_CLASS;

	for (uint8_t g = 0; g < TAGRV_CLASSES; g++) {
		const struct tagrv_posted_group *group = &queue->groups[g];

		if (!group->classes || group->space != space ||
		    group->care & ~care || (any && !group->any))
			continue;
		if (best == TAGRV_NO_CLASS ||
		    !(queue->groups[best].care & ~group->care))
			best = g;
	}
	return best;
}

static uint8_t join_group(struct tagrv_posted_queue *queue,
			  const struct tagrv_posted_class *class)
{
	uint8_t number = tagrv_posted_group_for(queue, class->space,
						class->care, class->any);

	if (number == TAGRV_NO_CLASS) {
		number = tagrv_posted_group_new(queue, class);
		tagrv_posted_place_join(queue, number);
		return number;
	}
	queue->groups[number].classes++;
	queue->groups[number].walked = 0;
	return number;
}

void tagrv_posted_class_free(struct tagrv_posted_queue *queue, uint8_t c)
{
	const struct tagrv_posted_class *class = &queue->classes[c];

	assert(!class->cnt);
	tagrv_posted_group_leave(queue, class->group);
	queue->live[class->space] &= ~(1ull << c);
	queue->demotions++;
	tagrv_posted_list_set_only(queue, class->space);
}

/* Returns an unused class, or one without receives, which it frees. */
static uint8_t find_unused_class(struct tagrv_posted_queue *queue)
{
	uint64_t live = 0;

	for (unsigned i = 0; i < TAGRV_SPACE_CNT; i++)
		live |= queue->live[i];
	if (~live)
		return (uint8_t) __builtin_ctzll(~live);
	for (uint8_t c = 0; c < TAGRV_CLASSES; c++) {
		if (queue->classes[c].cnt || queue->fresh & 1ull << c)
			continue;
		tagrv_posted_class_free(queue, c);
		return c;
	}
	return TAGRV_NO_CLASS;
}

uint8_t tagrv_posted_class_new(struct tagrv_posted_queue *queue, uint8_t space,
			       uint64_t care, bool any)
{
	uint8_t c = find_unused_class(queue);

	if (c == TAGRV_NO_CLASS)
		return c;
	queue->classes[c] = (struct tagrv_posted_class) {
		.care = care,
		.any = any,
		.space = space,
		.first = TAGRV_NO_RECV,
		.last = TAGRV_NO_RECV,
	};
	queue->classes[c].group = join_group(queue, &queue->classes[c]);
	queue->live[space] |= 1ull << c;
	queue->fresh |= 1ull << c;
	queue->promotions++;
	tagrv_posted_hints_renew(queue);
	tagrv_posted_list_set_only(queue, space);
	return c;
}
