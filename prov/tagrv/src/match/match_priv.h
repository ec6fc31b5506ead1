/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Counters and helpers that the queue of posted receives (posted.h) and the queue
 * of unexpected messages (unexpected.h) both use.
 */
#ifndef TAGRV_MATCH_MATCH_PRIV_H
#define TAGRV_MATCH_MATCH_PRIV_H

#include "match/match.h"

struct tagrv_match_level {
	size_t	cnt, peak;	/* entries queued now, and most ever */
	size_t	limit;		/* of cnt */
	uint64_t probes;	/* entries compared plus keys looked up */
};

/* The tag bits that are compared. */
static inline uint64_t tagrv_want_care(const struct tagrv_match_want *want)
{
	return want->space == TAGRV_SPACE_TAGGED ? ~want->ignore : 0;
}

/* Counts one more queued entry. */
static inline void tagrv_level_up(struct tagrv_match_level *level)
{
	level->cnt++;
	if (level->cnt > level->peak)
		level->peak = level->cnt;
}

#endif
