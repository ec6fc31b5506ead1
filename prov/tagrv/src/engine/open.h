/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opening and closing an engine: what open.c and close.c share.
 */
#ifndef TAGRV_ENGINE_OPEN_H
#define TAGRV_ENGINE_OPEN_H

#include "object/engine.h"

/* Closes the receive context, if it is the engine's own. */
void tagrv_engine_close_rx(struct tagrv_engine *engine);

#endif
