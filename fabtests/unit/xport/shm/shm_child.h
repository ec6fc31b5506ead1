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

/* Shared memory of both processes; it stays when the child is gone. */
struct told {
	_Atomic unsigned sent;
	struct offer {
		uint64_t addr;
		char	key[TAGRV_KEY_MAX];
	} of_parent, of_child;
};

extern struct end end;
extern struct told *told;

/* The child calls life(). cma: FI_TAGRV_SHM_CMA of both processes. */
void child_start(void (*life)(void), const char *cma);
/* Waits until the other process has called it, too. */
void child_meet(void);
void child_kill(void);
/* Handles device events as a wireup thread does: handovers and deaths. */
void child_events(void);
/* Makes progress until the end of the link is reported: within 1 s. */
void child_wait_for_error(void);
void child_stop(void);

/* Count descriptors of this process, and its mappings of a transport's memory. */
unsigned count_fds(void);
unsigned count_maps(void);

#endif
