/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Timers of the wireup thread: a binary heap ordered by time.
 *
 * Room in the heap is reserved with each timer's owner, so that setting a timer
 * cannot fail. One thread only.
 */
#ifndef TAGRV_WIREUP_WIREUP_TIMER_H
#define TAGRV_WIREUP_WIREUP_TIMER_H

#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

struct tagrv_wireup_timer {
	void	(*fn)(struct tagrv_wireup_timer *timer);
	uint64_t at;	/* ms; 0: not set */
	size_t	pos;	/* in the heap while set */
};

struct tagrv_wireup_timers {
	struct tagrv_wireup_timer **heap;
	size_t	cnt;
	size_t	cap;
	size_t	reserved;	/* timers that may be set at once */
};

/* Makes room for one more timer. -FI_ENOMEM. */
int tagrv_wireup_timer_reserve(struct tagrv_wireup_timers *timers)
	TAGRV_WARN_UNUSED;
/* Clears the timer and gives its room back. */
void tagrv_wireup_timer_release(struct tagrv_wireup_timers *timers,
				struct tagrv_wireup_timer *timer);
/* Calls timer->fn once at this time or soon after; 0 clears it. */
void tagrv_wireup_timer_set(struct tagrv_wireup_timers *timers,
			    struct tagrv_wireup_timer *timer, uint64_t at);
/* Runs what is due. */
void tagrv_wireup_timer_run(struct tagrv_wireup_timers *timers, uint64_t now);
/* ms until the next one is due, -1 when none is set: for epoll_wait. */
int tagrv_wireup_timer_wait(const struct tagrv_wireup_timers *timers,
			    uint64_t now);
void tagrv_wireup_timer_fini(struct tagrv_wireup_timers *timers);

#endif
