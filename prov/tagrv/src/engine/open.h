/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opening and closing an engine: what open.c and close.c share.
 */
#ifndef TAGRV_ENGINE_OPEN_H
#define TAGRV_ENGINE_OPEN_H

#include "object/engine.h"

/*
 * dom lock not held; the engine is in no list any more. Closes the transports and, behind
 * them, the list of receives in a device and the receive context, if it is the engine's own.
 */
void tagrv_engine_close_rails(struct tagrv_engine *engine);

#endif
