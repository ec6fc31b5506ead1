/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads that wait for slow commands in the place of the wireup thread.
 *
 *   owner (the wireup thread)              worker
 *     run(fn) ---- the floor -------------> fn begins
 *     goes on <--- the floor -------------- leave
 *         :                                    : a command of a device
 *         :  <---- kick ---------------------- enter: ready, waits for the floor
 *     resume() --- the floor -------------> fn goes on, ...
 *     goes on <--- the floor -------------- leave again, or fn ends
 *
 * Only the thread that has the floor touches what belongs to the owner: code that runs in a
 * worker is like code of the owner, which sleeps meanwhile, except between leave and enter.
 * So that code needs no locks, and when it goes on is for the owner to choose.
 *
 * Threads are started when they are needed, at most 'max' of them, and end in fini().
 */
#ifndef TAGRV_WIREUP_WIREUP_CREW_H
#define TAGRV_WIREUP_WIREUP_CREW_H

#include <pthread.h>
#include <stdbool.h>

#include "core/compiler.h"
#include "core/list.h"

struct tagrv_wireup_worker;

struct tagrv_wireup_crew {
	void	(*kick)(void *arg);	/* a worker is ready; called by the worker */
	void	*arg;

	pthread_mutex_t mutex;		/* protects what follows, and the workers */
	pthread_cond_t back;		/* the owner has the floor again */
	struct tagrv_list idle, ready;
	unsigned cnt, max;		/* threads that there are, and at most */
	unsigned busy;			/* those with something to run */
	bool	stop;
};

void tagrv_wireup_crew_init(struct tagrv_wireup_crew *crew, unsigned max,
			    void (*kick)(void *arg), void *arg);
/* Ends and joins the threads, all of which are idle. */
void tagrv_wireup_crew_fini(struct tagrv_wireup_crew *crew);

/* So many threads at most from now on; those that there are stay. Any thread. */
void tagrv_wireup_crew_limit(struct tagrv_wireup_crew *crew, unsigned max);
/* Owner: whether there are workers, or may be; if not, there never will be. */
bool tagrv_wireup_crew_exists(struct tagrv_wireup_crew *crew);
/* Owner: whether a call of run() is likely to find a worker. */
bool tagrv_wireup_crew_has_room(struct tagrv_wireup_crew *crew);
/* Owner: how many are at work. */
unsigned tagrv_wireup_crew_busy(struct tagrv_wireup_crew *crew);
/*
 * Owner: runs fn(worker, arg) in a worker; returns when that has left or ended. False: there
 * is no worker for it, and none can be started.
 */
bool tagrv_wireup_crew_run(struct tagrv_wireup_crew *crew,
			   void (*fn)(struct tagrv_wireup_worker *worker, void *arg),
			   void *arg) TAGRV_WARN_UNUSED;
/* Owner: those that were ready go on, one after the other, until each has left or ended. */
void tagrv_wireup_crew_resume(struct tagrv_wireup_crew *crew);

/* Worker: gives the floor to the owner, and waits for it, before and after a command. */
void tagrv_wireup_crew_leave(struct tagrv_wireup_worker *worker);
void tagrv_wireup_crew_enter(struct tagrv_wireup_worker *worker);

#endif
