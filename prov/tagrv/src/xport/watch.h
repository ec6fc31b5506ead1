/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Words in memory that keep their value until something comes for a domain. An idle read of a
 * completion queue looks at them instead of making a whole progress pass.
 *
 *   left            looks until the next pass. Whoever queues work for the next pass
 *                   sets it to 0 by tagrv_watch_attend(); a pass that leaves work
 *                   behind does so again. The count bounds the delay of what no
 *                   word tells and nobody has announced
 *   called          the same by any thread: tagrv_watch_call()
 *   unlisted        things that no word tells of (completion queues of devices,
 *                   words without a place): every look is a pass
 *   word[0 .. cnt)  has the value idle[i] while nothing has come
 *   what[0 .. cnt)  what to do about each word
 *   first           where the next look that finds something begins, so that no word
 *                   is always the last one
 *
 * Going to sleep never relies on any of it.
 *
 * owner: the domain. lock: the domain's; other threads and processes only write to
 * the words themselves.
 */
#ifndef TAGRV_XPORT_WATCH_H
#define TAGRV_XPORT_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

#define TAGRV_WATCH_WORDS	64
#define TAGRV_WATCH_LOOKS	64	/* looks without a pass, at most */

/* Words that are always looked at: without a loop. */
#define TAGRV_WATCH_FIRST	2

struct tagrv_watch_what {
	/* Handles what has come; returns the number of events. NULL: a pass is
	 * needed. May add and remove words, and leave something, which the next
	 * look must find. */
	int (*drain)(void *owner);
	void	*owner;
	int	*at;		/* the owner's copy of the word's index */
};

struct tagrv_watch {
	uint32_t left;
	/* Another thread has work for the next pass, which a look must not miss. */
	_Atomic uint32_t called;
	uint32_t cnt;
	/* From 'cnt' on: a word that stays 0. */
	const _Atomic uint64_t *word[TAGRV_WATCH_WORDS];
	uint64_t idle[TAGRV_WATCH_WORDS];
	uint32_t unlisted;
	uint32_t first;
	bool	enough;		/* set by a drain: leave other words for later */
	struct tagrv_watch_what what[TAGRV_WATCH_WORDS];
};

void tagrv_watch_init(struct tagrv_watch *watch);

/* Values of *at that are no index. */
#define TAGRV_WATCH_OFF		(-1)	/* not added, or removed */
#define TAGRV_WATCH_NO_PLACE	(-2)	/* counted in 'unlisted' */

/*
 * Makes place for a word, which tagrv_watch_move() names, and keeps its index in *at,
 * which lives until the word is removed. watch: NULL: nobody looks, and nothing
 * happens here or in the functions below.
 */
void tagrv_watch_add(struct tagrv_watch *watch, int (*drain)(void *owner),
		     void *owner, int *at);
/* Removes the word, if it was added. */
void tagrv_watch_remove(struct tagrv_watch *watch, int *at);

/* One thing more, or less, that no word tells of. */
void tagrv_watch_add_unlisted(struct tagrv_watch *watch);
void tagrv_watch_remove_unlisted(struct tagrv_watch *watch);

/* Which word it is from now on, and its value while nothing has come. */
static inline void tagrv_watch_move(struct tagrv_watch *watch, int at,
				    const _Atomic uint64_t *word, uint64_t idle)
{
	if (TAGRV_LIKELY(at >= 0)) {
		watch->word[at] = word;
		watch->idle[at] = idle;
	}
}

/* The next look makes a pass. */
static inline void tagrv_watch_attend(struct tagrv_watch *watch)
{
	if (watch)
		watch->left = 0;
}

/* The next look makes a pass. Any thread, after it has queued the work. */
static inline void tagrv_watch_call(struct tagrv_watch *watch)
{
	atomic_store_explicit(&watch->called, 1, memory_order_release);
}

static inline bool tagrv_watch_is_called(const struct tagrv_watch *watch)
{
	return atomic_load_explicit(&watch->called, memory_order_relaxed);
}

/* Whether the next look makes a pass, whatever the words say. */
static inline bool tagrv_watch_is_due(const struct tagrv_watch *watch)
{
	return !watch->left || TAGRV_UNLIKELY(tagrv_watch_is_called(watch));
}

/* A pass begins: work that is queued from here on needs another one. */
static inline void tagrv_watch_begin_pass(struct tagrv_watch *watch)
{
	/* The exchange also shows this thread what was queued before the call. */
	if (TAGRV_UNLIKELY(tagrv_watch_is_called(watch)))
		atomic_exchange(&watch->called, 0);
	watch->left = watch->unlisted ? 0 : TAGRV_WATCH_LOOKS;
}

static inline bool tagrv_watch_is_set(const struct tagrv_watch *watch,
				      uint32_t at)
{
	return atomic_load_explicit(watch->word[at], memory_order_relaxed) !=
	       watch->idle[at];
}

/* Handles one word, if it has changed; returns the number of events. */
static inline int tagrv_watch_handle(struct tagrv_watch *watch, uint32_t at)
{
	const struct tagrv_watch_what *what = &watch->what[at];

	if (!tagrv_watch_is_set(watch, at))
		return 0;
	if (TAGRV_LIKELY(what->drain != NULL))
		return what->drain(what->owner);
	tagrv_watch_attend(watch);
	return 0;
}

/* As tagrv_watch_drain(), from the word 'first' on. */
int tagrv_watch_drain_in_turn(struct tagrv_watch *watch) TAGRV_COLD;

/* What a look does that has found something; returns the number of events. */
static inline int tagrv_watch_drain(struct tagrv_watch *watch)
{
	int events = 0;

	if (TAGRV_UNLIKELY(watch->first))
		return tagrv_watch_drain_in_turn(watch);
	for (uint32_t i = 0; i < watch->cnt; i++) {
		events += tagrv_watch_handle(watch, i);
		if (TAGRV_UNLIKELY(watch->enough)) {
			watch->enough = false;
			watch->first = i + 1;
			break;
		}
	}
	return events;
}

/* What a look has found, if it is no index of a word. */
#define TAGRV_WATCH_IDLE	(-1)	/* nothing to do */
#define TAGRV_WATCH_DUE		(-2)	/* a pass is due */

/* A look: the first word that has changed, or see above. Counts down to the next pass. */
static inline int tagrv_watch_look(struct tagrv_watch *watch)
{
	if (TAGRV_UNLIKELY(tagrv_watch_is_due(watch)))
		return TAGRV_WATCH_DUE;
	watch->left--;
	for (uint32_t i = 0; i < TAGRV_WATCH_FIRST; i++)
		if (TAGRV_UNLIKELY(tagrv_watch_is_set(watch, i)))
			return (int) i;
	for (uint32_t i = TAGRV_WATCH_FIRST; i < watch->cnt; i++)
		if (TAGRV_UNLIKELY(tagrv_watch_is_set(watch, i)))
			return (int) i;
	return TAGRV_WATCH_IDLE;
}

static inline bool tagrv_watch_is_idle(struct tagrv_watch *watch)
{
	return tagrv_watch_look(watch) == TAGRV_WATCH_IDLE;
}

/*
 * What a look has found was handled, but nothing else was: words behind it that have
 * changed come first in the next drain.
 */
static inline void tagrv_watch_pass_turn(struct tagrv_watch *watch, uint32_t at)
{
	for (uint32_t i = at + 1; TAGRV_UNLIKELY(i < watch->cnt); i++) {
		if (!tagrv_watch_is_set(watch, i))
			continue;
		watch->first = i;
		return;
	}
}

#endif
