/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Statistics of an engine as lines of the log. Callers get them as numbers by
 * tagrv_engine_proto_stats(), which endpoint.h declares.
 */
#ifndef TAGRV_ENGINE_STATS_H
#define TAGRV_ENGINE_STATS_H

#include "object/engine.h"
#include "wireup/wireup.h"

/* One line: lengths and costs of the posted and the unexpected queue. */
void tagrv_engine_log_match(const struct tagrv_engine *engine);
/* A line about sockets, if some were closed. Needs no lock. */
void tagrv_engine_log_sockets(const struct tagrv_engine *engine,
			      const struct tagrv_wireup_ep *wep);
/* All other lines, at the end of an engine. */
void tagrv_engine_log_stats(const struct tagrv_engine *engine);

#endif
