/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where the transports of an engine report.
 */
#ifndef TAGRV_ENGINE_DISPATCH_H
#define TAGRV_ENGINE_DISPATCH_H

#include "xport/xport.h"

/* Copied into each rail: tagrv_rail_of_sink() finds it from a callback. */
extern const struct tagrv_sink tagrv_engine_sink;

/* The sink's transport has a list of receives: tagged messages of its lanes come by it. */
void tagrv_dispatch_with_list(struct tagrv_sink *sink);

#endif
