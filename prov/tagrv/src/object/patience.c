/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * When reads that find nothing yield the processor: see patience.h.
 */
#include "object/patience.h"

#include <pthread.h>
#include <sched.h>

#include "core/clock.h"
#include "core/compiler.h"

void tagrv_patience_init(struct tagrv_patience *patience)
{
	*patience = (struct tagrv_patience) { 0 };
	atomic_init(&patience->most, TAGRV_PATIENCE_FIRST);
	patience->alone = TAGRV_PATIENCE_ALONE;
}

static void set_most(struct tagrv_patience *patience, uint32_t most)
{
	atomic_store_explicit(&patience->most, most, memory_order_relaxed);
}

bool tagrv_patience_may_yield(struct tagrv_patience *patience)
{
	uintptr_t self = (uintptr_t) pthread_self();

	patience->looks = 0;
	if (patience->thread && patience->thread != self)
		patience->alone = 0;
	patience->thread = self;
	if (TAGRV_LIKELY(patience->alone >= TAGRV_PATIENCE_ALONE))
		return true;
	patience->alone++;
	set_most(patience, TAGRV_PATIENCE_MOST);
	return false;
}

void tagrv_patience_learn(struct tagrv_patience *patience, uint64_t ns)
{
	uint32_t most = atomic_load_explicit(&patience->most,
					     memory_order_relaxed);

	set_most(patience, ns > TAGRV_PATIENCE_OTHERS_NS ?
			   TAGRV_PATIENCE_LEAST :
			   TAGRV_MIN(2 * most, TAGRV_PATIENCE_MOST));
}

void tagrv_patience_yield(struct tagrv_patience *patience)
{
	double begin = tagrv_clock_seconds();

	sched_yield();
	tagrv_patience_learn(patience,
			     (uint64_t) ((tagrv_clock_seconds() - begin) * 1e9));
}
