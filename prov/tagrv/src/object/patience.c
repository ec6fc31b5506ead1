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

bool tagrv_patience_may_yield(struct tagrv_patience *patience, uint64_t now)
{
	patience->looks = 0;
	return now >= atomic_load_explicit(&patience->rest,
					   memory_order_relaxed);
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
}

void tagrv_patience_yield(struct tagrv_patience *patience)
{
	uint64_t own = tagrv_clock_process_ns(), begin = tagrv_clock_ns(), now;

	sched_yield();
	now = tagrv_clock_ns();
	tagrv_patience_learn(patience, now, now - begin,
			     tagrv_clock_process_ns() - own);
}
