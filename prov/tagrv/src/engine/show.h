/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What endpoints do, on the board of the process (board/board.h), for tagrv_top.
 *
 * Collected when a viewer has asked, in the next pass that looks at the clock anyway
 * (tagrv_dom_tick()); and, while one asks now and then, before a thread goes to sleep,
 * because nobody answers while it sleeps.
 *
 * lock: the domain lock is held in every call.
 */
#ifndef TAGRV_ENGINE_SHOW_H
#define TAGRV_ENGINE_SHOW_H

#include "board/board.h"
#include "object/engine.h"

/* Once a tick, or when a viewer has asked: answers it. */
void tagrv_dom_show(struct tagrv_dom *dom) TAGRV_COLD;
/* Shows the last state; a viewer has asked lately, or perhaps right now. */
void tagrv_dom_show_now(struct tagrv_dom *dom) TAGRV_COLD;

#define TAGRV_SHOW_STEPS	8192	/* some 10 us if they are cached, 0.5 ms if none is */

/* Collects what one endpoint shows, in so many steps at most. */
void tagrv_engine_show(struct tagrv_engine *engine, unsigned steps,
		       struct tagrv_board_record *record);

static inline void tagrv_dom_show_before_sleep(struct tagrv_dom *dom)
{
	if (TAGRV_UNLIKELY(dom->show.until || dom->clock.checked != dom->clock.tick))
		tagrv_dom_show_now(dom);
}

#endif
