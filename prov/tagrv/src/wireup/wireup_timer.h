/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Timers of the wireup thread: a binary heap ordered by time.
 *
 * The owner of a timer reserves room in the heap when it is created, so that
 * setting the timer cannot fail. Only the wireup thread uses timers.
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
	size_t	reserved;	/* timers that may be set at a time */
};

/* Makes room for one more timer. 0 or -FI_ENOMEM. */
int tagrv_wireup_timer_reserve(struct tagrv_wireup_timers *timers)
	TAGRV_WARN_UNUSED;
/* Clears the timer and gives its room back. */
void tagrv_wireup_timer_release(struct tagrv_wireup_timers *timers,
				struct tagrv_wireup_timer *timer);
/* Has timer->fn called once when 'at' (ms) has come; 0 clears the timer. */
void tagrv_wireup_timer_set(struct tagrv_wireup_timers *timers,
			    struct tagrv_wireup_timer *timer, uint64_t at);
/* Calls and clears the timers that are due at 'now' (ms). */
void tagrv_wireup_timer_run(struct tagrv_wireup_timers *timers, uint64_t now);
/* Returns ms until the next timer is due, -1 if none is set, as for epoll_wait. */
int tagrv_wireup_timer_wait(const struct tagrv_wireup_timers *timers,
			    uint64_t now);
/* Frees the heap. No timer is set. */
void tagrv_wireup_timer_fini(struct tagrv_wireup_timers *timers);

#endif
