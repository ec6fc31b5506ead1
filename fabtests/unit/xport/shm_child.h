/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A child process at the other end of a shared-memory link, to be killed.
 *
 *   child_start -> ... -> child_kill -> child_wait_for_error -> child_stop
 *
 * Both processes have their end in 'end'. There is one child at a time.
 */
#ifndef FABTESTS_UNIT_XPORT_SHM_CHILD_H
#define FABTESTS_UNIT_XPORT_SHM_CHILD_H

#include <stdatomic.h>

#include "unit/xport/pair.h"

/* What the processes tell each other through memory; outlives the child. */
struct told {
	_Atomic unsigned sent;
	struct offer {
		uint64_t addr;
		char	key[TAGRV_KEY_MAX];
	} of_parent, of_child;
};

extern struct end end;
extern struct told *told;

/* life: what the child does. cma: FI_TAGRV_SHM_CMA of both. */
void child_start(void (*life)(void), const char *cma);
/* Returns when the other process has called it, too. */
void child_meet(void);
void child_kill(void);
/* What a wireup thread does: handovers and deaths. */
void child_events(void);
/* Until the end of the link is reported: within 1 s. */
void child_wait_for_error(void);
void child_stop(void);

/* Descriptors of this process, and memory it maps of a transport. */
unsigned count_fds(void);
unsigned count_maps(void);

#endif
