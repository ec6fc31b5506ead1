/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One operation, or posted receive, in a dump.
 */
#ifndef TAGRV_ENGINE_DUMP_OP_H
#define TAGRV_ENGINE_DUMP_OP_H

#include <stdio.h>

#include "object/engine.h"
#include "object/op.h"
#include "object/recv.h"

/*
 * Writes one line: the operation, its age, and the event that it waits for. dom:
 * of the operation; its lock is held.
 */
void tagrv_op_dump(const struct tagrv_op *op, const struct tagrv_dom *dom,
		   FILE *out);
/*
 * The same for a posted receive without an op. handle: what the line calls it. engine:
 * whose table names the source.
 */
void tagrv_recv_dump(const struct tagrv_recv *recv, uint32_t handle,
		     const struct tagrv_engine *engine, FILE *out);

#endif
