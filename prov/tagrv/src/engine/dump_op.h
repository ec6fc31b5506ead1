/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One operation in a dump.
 */
#ifndef TAGRV_ENGINE_DUMP_OP_H
#define TAGRV_ENGINE_DUMP_OP_H

#include <stdio.h>

#include "object/engine.h"
#include "object/op.h"

/* A line: what the operation is, its age, and what it waits for. */
void tagrv_op_dump(const struct tagrv_op *op, FILE *out);

/* The domain of an operation, and its age in milliseconds, at least. */
const struct tagrv_dom *tagrv_op_dom(const struct tagrv_op *op);
uint64_t tagrv_op_age(const struct tagrv_op *op);

#endif
