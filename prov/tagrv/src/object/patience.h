/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How long the reads of a domain find nothing before they yield the processor.
 *
 * Messages over a device in software are moved by processors of this host: by the
 * peer's process, or by a thread of the kernel. Where there are more of these than
 * processors, a loop of reads keeps them from running for its whole time slice. A
 * yield helps them, but whoever calls may hold a lock of its own during the read,
 * and then a yield costs all its other threads the time that others run.
 *
 *   looks without an event    0 .. most        read on
 *                             most             yield:
 *                                                others ran: most = LEAST
 *                                                it returned at once: most doubles,
 *                                                up to MOST
 *   several threads look in turn              no yield
 *
 * owner: the domain. lock: the domain's, except tagrv_patience_learn().
 */
#ifndef TAGRV_OBJECT_PATIENCE_H
#define TAGRV_OBJECT_PATIENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Looks: some 5 to 15 ns each. */
#define TAGRV_PATIENCE_LEAST	64
#define TAGRV_PATIENCE_FIRST	1024
#define TAGRV_PATIENCE_MOST	16384

/* A yield that takes longer let another thread run; measured: 0.3 to 0.8 us if no
 * other is there. */
#define TAGRV_PATIENCE_OTHERS_NS	2000

/* So often in a row has the same thread run out of patience: it is the only one.
 * Some 130 ms, far more than a time slice. */
#define TAGRV_PATIENCE_ALONE	1024

struct tagrv_patience {
	uint32_t looks;			/* in a row that found nothing */
	_Atomic uint32_t most;		/* before a yield */
	uintptr_t thread;		/* that ran out of patience last; 0: none */
	uint32_t alone;			/* times in a row that it did, at most
					   TAGRV_PATIENCE_ALONE */
};

void tagrv_patience_init(struct tagrv_patience *patience);

/* So many looks more found nothing. Whether they are enough for a yield. */
static inline bool tagrv_patience_is_out(struct tagrv_patience *patience,
					 uint32_t looks)
{
	patience->looks += looks;
	return patience->looks >= atomic_load_explicit(&patience->most,
						       memory_order_relaxed);
}

/*
 * The calling thread has run out of patience. Whether it may yield: it is the only
 * one. Begins to count anew.
 */
bool tagrv_patience_may_yield(struct tagrv_patience *patience);

/*
 * What a yield told, which took so many nanoseconds. Lock not held: what two threads
 * tell at the same time may get lost.
 */
void tagrv_patience_learn(struct tagrv_patience *patience, uint64_t ns);

/* Yields the processor, and learns from it. Lock not held. */
void tagrv_patience_yield(struct tagrv_patience *patience);

#endif
