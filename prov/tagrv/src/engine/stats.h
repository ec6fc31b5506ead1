/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Statistics of an engine as lines of the log. Callers get them as numbers by
 * tagrv_engine_proto_stats(), which endpoint.h declares.
 */
#ifndef TAGRV_ENGINE_STATS_H
#define TAGRV_ENGINE_STATS_H

#include "object/engine.h"

/* One line: lengths and costs of the posted and the unexpected queue. */
void tagrv_engine_log_match(const struct tagrv_engine *engine);
/* All lines, at the end of an engine. */
void tagrv_engine_log_stats(const struct tagrv_engine *engine);

#endif
