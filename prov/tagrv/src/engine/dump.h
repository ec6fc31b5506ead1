/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Dumps: the state of endpoints as text that says what each operation waits for.
 *
 * A dump is written on request (rdma/fi_ext_tagrv.h), to the file that
 * FI_TAGRV_DUMP names when an operation is older than FI_TAGRV_DUMP_AFTER, and to
 * the log when fi_close gives up. docs/debugging.md explains how to read one.
 */
#ifndef TAGRV_ENGINE_DUMP_H
#define TAGRV_ENGINE_DUMP_H

#include <stdio.h>

#include "object/dom.h"

struct tagrv_engine;

/* Writes the endpoint's state to 'out', ages in seconds; lock held. */
void tagrv_engine_dump(const struct tagrv_engine *engine, FILE *out);
/* Writes it to the log, at level warn; lock held. */
void tagrv_engine_dump_log(const struct tagrv_engine *engine);
/*
 * Writes it to a file descriptor; lock not held. 0, -FI_ENOMEM, or what write(2)
 * said.
 */
int tagrv_engine_dump_fd(struct tagrv_engine *engine, int fd);

/*
 * Once a tick, lock held: dumps every endpoint of the domain to FI_TAGRV_DUMP if
 * an operation is older than FI_TAGRV_DUMP_AFTER and the last dump is older than
 * that, too.
 */
void tagrv_dom_check_age(struct tagrv_dom *dom);

/* Whether tagrv_dom_check_age() has anything to look for. */
static inline bool tagrv_dom_dumps(const struct tagrv_dom *dom)
{
	return dom->params.dump[0] && dom->params.dump_after;
}

#endif
