/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Adding and removing watched words: see watch.h. The words have no gaps: the last
 * one takes the place of one that is removed.
 */
#include "xport/watch.h"

#include <assert.h>

static const _Atomic uint64_t zero;

void tagrv_watch_init(struct tagrv_watch *watch)
{
	*watch = (struct tagrv_watch) { 0 };
	for (uint32_t i = 0; i < TAGRV_WATCH_WORDS; i++)
		watch->word[i] = &zero;
}

void tagrv_watch_add_unlisted(struct tagrv_watch *watch)
{
	watch->unlisted++;
	watch->left = 0;
}

void tagrv_watch_remove_unlisted(struct tagrv_watch *watch)
{
	assert(watch->unlisted);
	watch->unlisted--;
}

void tagrv_watch_add(struct tagrv_watch *watch, int (*drain)(void *owner),
		     void *owner, int *at)
{
	*at = TAGRV_WATCH_OFF;
	if (!watch)
		return;
	if (watch->cnt == TAGRV_WATCH_WORDS) {
		*at = TAGRV_WATCH_NO_PLACE;
		tagrv_watch_add_unlisted(watch);
		return;
	}
	*at = (int) watch->cnt++;
	watch->what[*at] = (struct tagrv_watch_what) {
		.drain = drain, .owner = owner, .at = at,
	};
}

void tagrv_watch_remove(struct tagrv_watch *watch, int *at)
{
	int index = *at, last;

	*at = TAGRV_WATCH_OFF;
	if (index == TAGRV_WATCH_NO_PLACE)
		tagrv_watch_remove_unlisted(watch);
	if (index < 0)
		return;
	last = (int) --watch->cnt;
	if (index != last) {
		watch->word[index] = watch->word[last];
		watch->idle[index] = watch->idle[last];
		watch->what[index] = watch->what[last];
		*watch->what[index].at = index;
	}
	watch->word[last] = &zero;
	watch->idle[last] = 0;
}

int tagrv_watch_drain_in_turn(struct tagrv_watch *watch)
{
	uint32_t i = watch->first;
	int events = 0;

	watch->first = 0;
	for (uint32_t n = 0; n < watch->cnt; n++, i++) {
		if (i >= watch->cnt)
			i = 0;
		events += tagrv_watch_handle(watch, i);
		if (watch->enough) {
			watch->enough = false;
			watch->first = i + 1;
			break;
		}
	}
	return events;
}
