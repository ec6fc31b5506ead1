/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Timers of the wireup thread: see wireup_timer.h.
 */
#include "wireup/wireup_timer.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#define WAIT_MAX	60000	/* ms; the result fits an int */

static void heap_set(struct tagrv_wireup_timers *timers, size_t pos,
		     struct tagrv_wireup_timer *timer)
{
	timers->heap[pos] = timer;
	timer->pos = pos;
}

static void sift_up(struct tagrv_wireup_timers *timers, size_t pos,
		    struct tagrv_wireup_timer *timer)
{
	while (pos) {
		size_t parent = (pos - 1) / 2;

		if (timers->heap[parent]->at <= timer->at)
			break;
		heap_set(timers, pos, timers->heap[parent]);
		pos = parent;
	}
	heap_set(timers, pos, timer);
}

static void sift_down(struct tagrv_wireup_timers *timers, size_t pos,
		      struct tagrv_wireup_timer *timer)
{
	for (;;) {
		size_t child = 2 * pos + 1;

		if (child >= timers->cnt)
			break;
		if (child + 1 < timers->cnt &&
		    timers->heap[child + 1]->at < timers->heap[child]->at)
			child++;
		if (timer->at <= timers->heap[child]->at)
			break;
		heap_set(timers, pos, timers->heap[child]);
		pos = child;
	}
	heap_set(timers, pos, timer);
}

static void heap_remove(struct tagrv_wireup_timers *timers,
			struct tagrv_wireup_timer *timer)
{
	struct tagrv_wireup_timer *last = timers->heap[--timers->cnt];
	size_t pos = timer->pos;

	timer->at = 0;
	if (last == timer)
		return;
	if (pos && last->at < timers->heap[(pos - 1) / 2]->at)
		sift_up(timers, pos, last);
	else
		sift_down(timers, pos, last);
}

int tagrv_wireup_timer_reserve(struct tagrv_wireup_timers *timers)
{
	if (timers->reserved == timers->cap) {
		size_t cap = timers->cap ? timers->cap * 2 : 64;
		void *heap = realloc(timers->heap, cap * sizeof(*timers->heap));

		if (!heap)
			return -FI_ENOMEM;
		timers->heap = heap;
		timers->cap = cap;
	}
	timers->reserved++;
	return 0;
}

void tagrv_wireup_timer_release(struct tagrv_wireup_timers *timers,
				struct tagrv_wireup_timer *timer)
{
	tagrv_wireup_timer_set(timers, timer, 0);
	timers->reserved--;
}

void tagrv_wireup_timer_set(struct tagrv_wireup_timers *timers,
			    struct tagrv_wireup_timer *timer, uint64_t at)
{
	if (timer->at == at)
		return;
	if (timer->at)
		heap_remove(timers, timer);
	if (!at)
		return;
	assert(timers->cnt < timers->reserved);
	timer->at = at;
	sift_up(timers, timers->cnt++, timer);
}

void tagrv_wireup_timer_run(struct tagrv_wireup_timers *timers, uint64_t now)
{
	while (timers->cnt && timers->heap[0]->at <= now) {
		struct tagrv_wireup_timer *timer = timers->heap[0];

		heap_remove(timers, timer);
		timer->fn(timer);
	}
}

int tagrv_wireup_timer_wait(const struct tagrv_wireup_timers *timers,
			    uint64_t now)
{
	uint64_t at;

	if (!timers->cnt)
		return -1;
	at = timers->heap[0]->at;
	if (at <= now)
		return 0;
	return at - now < WAIT_MAX ? (int) (at - now) : WAIT_MAX;
}

void tagrv_wireup_timer_fini(struct tagrv_wireup_timers *timers)
{
	assert(!timers->cnt);
	free(timers->heap);
	timers->heap = NULL;
	timers->cap = 0;
}
