/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * When reads that find nothing yield the processor: see patience.h.
 */
#include "object/patience.h"

#include <sched.h>

#include "core/clock.h"
#include "core/compiler.h"

void tagrv_patience_init(struct tagrv_patience *patience)
{
	*patience = (struct tagrv_patience) { 0 };
	atomic_init(&patience->most, TAGRV_PATIENCE_FIRST);
}

/* Whether a long look has not ended yet. A find since the last question began to count anew. */
static bool looks_on(struct tagrv_patience *patience, uint64_t now)
{
	if (!atomic_load_explicit(&patience->is_long, memory_order_relaxed))
		return false;
	if (patience->looks < 2 * TAGRV_PATIENCE_LEAST)
		patience->since = now;
	return now - patience->since < TAGRV_PATIENCE_LONG_NS;
}

bool tagrv_patience_may_yield(struct tagrv_patience *patience, uint64_t now)
{
	if (looks_on(patience, now))
		return false;
	patience->looks = 0;
	return now >= atomic_load_explicit(&patience->rest,
					   memory_order_relaxed);
}

/* Whether looks are long after a yield that ended now and took so many nanoseconds. */
static bool next_is_long(struct tagrv_patience *patience, uint64_t now, uint64_t ns)
{
	uint64_t ended = atomic_load_explicit(&patience->ended, memory_order_relaxed);

	if (ns <= TAGRV_PATIENCE_WORK_NS)
		return false;
	if (!atomic_load_explicit(&patience->is_long, memory_order_relaxed))
		return now >= atomic_load_explicit(&patience->try, memory_order_relaxed);
	if (now - ns - ended >= TAGRV_PATIENCE_USE_NS)
		return true;
	atomic_store_explicit(&patience->try, now + TAGRV_PATIENCE_TRY_NS,
			      memory_order_relaxed);
	return false;
}

void tagrv_patience_learn(struct tagrv_patience *patience, uint64_t now,
			  uint64_t ns, uint64_t own)
{
	uint32_t most = atomic_load_explicit(&patience->most,
					     memory_order_relaxed);
	uint32_t crowd = atomic_load_explicit(&patience->crowd,
					      memory_order_relaxed);
	bool others = ns > TAGRV_PATIENCE_OTHERS_NS;
	uint32_t vain = 0;

	if (ns > TAGRV_PATIENCE_OWN_NS && own > ns - ns / 4)
		vain = 1 + atomic_load_explicit(&patience->vain,
						memory_order_relaxed);
	if (vain >= TAGRV_PATIENCE_VAIN)
		atomic_store_explicit(&patience->rest,
				      now + ns * TAGRV_PATIENCE_REST,
				      memory_order_relaxed);
	atomic_store_explicit(&patience->vain, vain, memory_order_relaxed);
	atomic_store_explicit(&patience->crowd,
			      ns > TAGRV_PATIENCE_WORK_NS ?
			      TAGRV_PATIENCE_CROWD : crowd / 2,
			      memory_order_relaxed);
	atomic_store_explicit(&patience->most,
			      others ? TAGRV_PATIENCE_LEAST :
			      TAGRV_MIN(2 * most, TAGRV_PATIENCE_MOST),
			      memory_order_relaxed);
	atomic_store_explicit(&patience->is_long, next_is_long(patience, now, ns),
			      memory_order_relaxed);
	atomic_store_explicit(&patience->ended, now, memory_order_relaxed);
}

void tagrv_patience_yield(struct tagrv_patience *patience)
{
	uint64_t own = tagrv_clock_process_ns(), begin = tagrv_clock_ns(), now;

	sched_yield();
	now = tagrv_clock_ns();
	tagrv_patience_learn(patience, now, now - begin,
			     tagrv_clock_process_ns() - own);
}
