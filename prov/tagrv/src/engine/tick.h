/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an engine does from time to time, when the wireup thread reports a TICK. A call
 * that sleeps is woken for it.
 *
 *   FI_TAGRV_MATCH_STATS   a line of the log
 *   FI_TAGRV_PROBE         a look at each connection whose transport cannot notice by
 *                          itself that a peer has died, or that a request is lost
 */
#ifndef TAGRV_ENGINE_TICK_H
#define TAGRV_ENGINE_TICK_H

struct tagrv_engine;

/* ms between TICKs that the engine needs; 0: none. Needs no lock. */
unsigned tagrv_engine_tick_ms(const struct tagrv_engine *engine);
/*
 * Connections that keep their sockets, at most; 0: all, since a transport does not show by
 * itself that a peer has died. Needs no lock.
 */
unsigned tagrv_engine_max_sockets(const struct tagrv_engine *engine);
/* lock: the domain lock is held. */
void tagrv_engine_tick(struct tagrv_engine *engine);

#endif
