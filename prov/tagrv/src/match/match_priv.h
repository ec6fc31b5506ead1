/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What both queues behind match.h share; posted.h and unexpected.h draw them.
 */
#ifndef TAGRV_MATCH_MATCH_PRIV_H
#define TAGRV_MATCH_MATCH_PRIV_H

#include "match/match.h"

/* What both queues count, and the bound on 'cnt'. */
struct tagrv_match_level {
	size_t	cnt, peak, limit;
	uint64_t probes;
};

/* The tag bits that decide whether a receive matches. */
static inline uint64_t tagrv_want_care(const struct tagrv_match_want *want)
{
	return want->space == TAGRV_SPACE_TAGGED ? ~want->ignore : 0;
}

static inline void tagrv_level_up(struct tagrv_match_level *level)
{
	level->cnt++;
	if (level->cnt > level->peak)
		level->peak = level->cnt;
}

#endif
