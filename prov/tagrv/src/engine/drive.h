/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Driving a domain: progress of all its endpoints, sleeping, and the thread of
 * FI_PROGRESS_AUTO.
 *
 * Sleep rule: under the lock, progress until idle, then tagrv_dom_arm(); when that
 * returns 0, tagrv_dom_sleep() without the lock, then progress again.
 */
#ifndef TAGRV_ENGINE_DRIVE_H
#define TAGRV_ENGINE_DRIVE_H

#include "object/dom.h"
#include "proto/intake.h"

/* A pass: moves every endpoint once; lock held. Returns events handled. */
int tagrv_dom_progress(struct tagrv_dom *dom);
/* The same instead of a look, when dom->watch says that it is due. */
int tagrv_dom_pass_for_look(struct tagrv_dom *dom);

/*
 * Serves busy peers of all endpoints, which costs less than a pass. Those that have more to
 * do are left to the next pass. Lock held. Returns how many have.
 */
int tagrv_dom_serve(struct tagrv_dom *dom);

/*
 * What a look does that has found something: handles the words of dom->watch that have
 * changed, or makes a pass if one is due. Only after tagrv_watch_is_idle() has
 * returned false, because that counts the looks until the next pass; lock held.
 * Returns events handled.
 */
static inline int tagrv_dom_handle(struct tagrv_dom *dom)
{
	struct tagrv_watch *watch = &dom->watch;
	int events;

	tagrv_assert_locked(dom);
	if (TAGRV_UNLIKELY(tagrv_watch_is_due(watch)))
		return tagrv_dom_pass_for_look(dom);
	dom->in_pass = dom->in_look = true;
	events = tagrv_watch_drain(watch);
	dom->in_pass = dom->in_look = false;
	if (TAGRV_UNLIKELY(dom->to_serve))
		events += tagrv_dom_serve(dom);
	if (TAGRV_UNLIKELY(!watch->left))
		events += tagrv_dom_progress(dom);
	else if (TAGRV_LIKELY(events))
		dom->patience.looks = 0;
	return events;
}

/*
 * After a look that has found the word 'at' (tagrv_watch_look()), of a queue that is
 * empty: if short messages of one link have come, writes them into 'out', at most
 * 'count'. Returns their number; 0: nothing has happened, call tagrv_dom_handle().
 */
static inline size_t tagrv_dom_take(struct tagrv_dom *dom, int at,
				    struct tagrv_compq *q,
				    struct fi_cq_tagged_entry *out, size_t count)
{
	struct tagrv_watch *watch = &dom->watch;
	size_t cnt;

	tagrv_assert_locked(dom);
	if (TAGRV_UNLIKELY(at < 0 || watch->first ||
			   watch->what[at].drain != tagrv_intake_drain))
		return 0;
	cnt = tagrv_intake_read(watch, (uint32_t) at, q, out, count);
	if (TAGRV_UNLIKELY(!cnt))
		return 0;
	tagrv_watch_pass_turn(watch, (uint32_t) at);
	dom->patience.looks = 0;
	/* Credit is due to be returned, for example. */
	if (TAGRV_UNLIKELY(!watch->left))
		tagrv_dom_progress(dom);
	return cnt;
}

/*
 * Moves what has something to do, which costs less than a pass. For calls that an
 * application repeats; lock held. Returns events handled.
 */
static inline int tagrv_dom_look(struct tagrv_dom *dom)
{
	return tagrv_watch_is_idle(&dom->watch) ? 0 : tagrv_dom_handle(dom);
}

/*
 * Lock held. 0: dom->wait_fd will become readable on the next event; -FI_EAGAIN:
 * progress first.
 */
int tagrv_dom_arm(struct tagrv_dom *dom);

/*
 * Sleeps until something happened, extra_fd (-1: none) is readable or timeout
 * ms passed (-1: for ever); at most a second where FI_TAGRV_DUMP looks for old
 * operations. Lock not held. Returns like poll(2), -FI_E* on error; -FI_EINTR for
 * a signal.
 */
int tagrv_dom_sleep(struct tagrv_dom *dom, int extra_fd, int timeout);

/*
 * A send or one-sided operation is refused for now: its caller may do nothing but repeat it,
 * although only progress of this domain can help: another of its endpoints is the peer, or
 * waits for the same peer, or the peer has died, or it has to say which packets have come by
 * a rail that failed. So this looks once in so many refusals. Lock held.
 */
void tagrv_engine_note_refusal(struct tagrv_engine *engine);

/*
 * Progresses until holds(arg), which is called under the lock, or 'ms' have passed;
 * returns whether it held. Lock not held.
 */
bool tagrv_dom_progress_until(struct tagrv_dom *dom, bool (*holds)(void *arg),
			      void *arg, uint64_t ms);

/*
 * Starts the thread that makes progress, if the domain was opened with
 * auto_progress. -FI_ENOMEM and what pthread_create() says. Lock not held.
 */
int tagrv_dom_start(struct tagrv_dom *dom) TAGRV_WARN_UNUSED;
/* Ends it, if it was started. Every endpoint was closed before. Lock not held. */
void tagrv_dom_stop(struct tagrv_dom *dom);

#endif
