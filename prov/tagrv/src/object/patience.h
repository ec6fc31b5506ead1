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
 *                             most             yield, or rest:
 *                                                others ran: most = LEAST
 *                                                it returned at once: most doubles,
 *                                                up to MOST
 *                                                only threads of this process
 *                                                ran, VAIN times in a row: no
 *                                                yield for REST times as long
 *
 * Others that ran for long may be those that have to move the message: a yield helps them. Or
 * they have nothing to do with it, and a yield gives them a time slice, of some ms, whenever
 * a peer on another processor has not answered yet. Which of both it is, a longer look
 * shows: it lasts LONG_NS, is tried once in TRY_NS, and again as long as it is of use, i.e. if
 * reads went on for USE_NS before they had to yield.
 *
 * The last case above: those threads wait for a lock that the caller holds. Some spin until
 * their time slice is over (Open MPI), some go to sleep at once, and the caller has to
 * wake them afterwards (MPICH); nobody is helped. Such yields cost 1/REST of the time at
 * most.
 *
 * The domain is crowded after a yield that let others work: then it has no processor to
 * spare. (Others that only yield, too, need none.) A domain that always finds something
 * never yields, so after CROWD passes that yield is forgotten.
 *
 * owner: the domain. lock: the domain's, except tagrv_patience_learn().
 */
#ifndef TAGRV_OBJECT_PATIENCE_H
#define TAGRV_OBJECT_PATIENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/compiler.h"

/* Looks: some 5 to 15 ns each. */
#define TAGRV_PATIENCE_LEAST	64
#define TAGRV_PATIENCE_FIRST	1024
#define TAGRV_PATIENCE_MOST	2048

/* A yield that takes longer let another thread run; measured: 0.3 to 0.8 us if no
 * other is there. */
#define TAGRV_PATIENCE_OTHERS_NS	2000

/* A yield that takes longer, and nearly all of it in threads of this process, let these
 * run. A yield that only was slow itself takes less, but for an interrupt. */
#define TAGRV_PATIENCE_OWN_NS	4000

/* One such yield may have been interrupted, two in a row hardly were. */
#define TAGRV_PATIENCE_VAIN	2

/* A yield that takes longer let another thread work, not only yield in turn. */
#define TAGRV_PATIENCE_WORK_NS	10000

/* Passes for which such a yield is remembered: some ms. */
#define TAGRV_PATIENCE_CROWD	256

/* After a yield that only served threads of this process, none for so many times as
 * long. */
#define TAGRV_PATIENCE_REST	64

/* More than an answer of a peer that runs takes; TRY_NS is many times as long. */
#define TAGRV_PATIENCE_LONG_NS	100000
#define TAGRV_PATIENCE_TRY_NS	20000000
/* Many times LONG_NS: what comes within it was not found by one look. */
#define TAGRV_PATIENCE_USE_NS	1000000

struct tagrv_patience {
	uint32_t looks;			/* in a row that found nothing */
	uint64_t since;			/* ns by the clock: a long look has begun */
	_Atomic uint32_t most;		/* before a yield */
	_Atomic uint64_t rest;		/* ns by the clock: no yield before */
	_Atomic uint32_t crowd;		/* passes until it is no longer crowded */
	_Atomic uint32_t vain;		/* yields in a row in which only own threads ran */
	atomic_bool is_long;		/* looks are long ones */
	_Atomic uint64_t ended;		/* ns by the clock: the last yield */
	_Atomic uint64_t try;		/* ns by the clock: a long look may be tried */
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
 * The calling thread has run out of patience. Whether it may yield; now: ns by the
 * clock. Begins to count anew, but during a long look.
 */
bool tagrv_patience_may_yield(struct tagrv_patience *patience, uint64_t now);

/* Whether other threads needed this processor lately. */
static inline bool tagrv_patience_is_crowded(const struct tagrv_patience *patience)
{
	return atomic_load_explicit(&patience->crowd, memory_order_relaxed);
}

/* A pass has been made. */
static inline void tagrv_patience_pass(struct tagrv_patience *patience)
{
	uint32_t left = atomic_load_explicit(&patience->crowd,
					     memory_order_relaxed);

	if (TAGRV_UNLIKELY(left))
		atomic_store_explicit(&patience->crowd, left - 1,
				      memory_order_relaxed);
}

/*
 * What a yield told that has just ended and took so many nanoseconds; own: how long
 * threads of this process ran meanwhile. Lock not held: what two threads tell at the
 * same time may get lost.
 */
void tagrv_patience_learn(struct tagrv_patience *patience, uint64_t now,
			  uint64_t ns, uint64_t own);

/* Yields the processor, and learns from it. Lock not held. */
void tagrv_patience_yield(struct tagrv_patience *patience);

#endif
