/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Measures what a registration costs, when a device is opened: adapters, their
 * libraries and IOMMUs differ by a factor of ten and more, and the sizes from which
 * on reading pays follow from this time.
 *
 * A short and a long range are registered and deregistered a few times. The best
 * time of each counts, because a process that was interrupted can only be slower.
 * The first time is no use: the library may still fill its tables. No
 * registration begins later than BUDGET_NS, so that everything together takes less than
 * 1 ms unless one takes 0.4 ms; then what is known by then counts. When all processes of
 * a host start at once they wait for each other, which says nothing of later: there is a
 * limit to what is believed.
 *
 * Devices in software are not measured: their registrations take as long as processors
 * have time for them, as everything else of them does, of which nothing is measured.
 */
#include <sys/mman.h>

#include "core/clock.h"
#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

#define SHORT_LEN	((size_t) 4096)
#define LONG_LEN	((size_t) 256 << 10)
#define ROUNDS		4
#define OVERHEAD_MAX	200e-6	/* s */
#define GROWTH_MAX	1e-9	/* s per byte */
/* Registrations begin before this, so that the last one may end behind it. */
#define BUDGET_NS	600000u

/* The time that libibverbs' devices are measured by. */
uint64_t tagrv_verbs_cost_clock(void)
{
	return tagrv_clock_ns();
}

/* ns of one registration and its end; 0: it failed. */
static uint64_t register_once(struct verbs_dev *dev, void *memory, size_t len)
{
	uint64_t start = dev->calls->clock_ns();
	struct ibv_mr *mr = dev->calls->reg_mr(dev->pd, memory, len,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);

	if (!mr || dev->calls->dereg_mr(mr))
		return 0;
	return TAGRV_MAX(dev->calls->clock_ns() - start, 1u);
}

/*
 * The best time in ns, without the first one unless there is no other; 0: failed, or
 * the time is used up.
 */
static uint64_t best_of(struct verbs_dev *dev, void *memory, size_t len, uint64_t end)
{
	uint64_t best = 0;

	for (int i = 0; i < ROUNDS && dev->calls->clock_ns() < end; i++) {
		uint64_t ns = register_once(dev, memory, len);

		if (!ns)
			return 0;
		if (i <= 1 || ns < best)
			best = ns;
	}
	return best;
}

static void measure(struct verbs_dev *dev, void *memory)
{
	uint64_t end = dev->calls->clock_ns() + BUDGET_NS;
	uint64_t few = best_of(dev, memory, SHORT_LEN, end);
	uint64_t many = few ? best_of(dev, memory, LONG_LEN, end) : 0;

	if (!few)
		return;
	dev->cost_source = "declared, registration measured";
	dev->reg_overhead = TAGRV_MIN((double) few * 1e-9, OVERHEAD_MAX);
	if (!many)
		return;
	dev->reg_growth = many > few ? (double) (many - few) * 1e-9 /
				       (double) (LONG_LEN - SHORT_LEN) : 0;
	dev->reg_growth = TAGRV_MIN(dev->reg_growth, GROWTH_MAX);
	/* Less the part that grows: the estimates add it. */
	dev->reg_overhead -= TAGRV_MIN(dev->reg_growth * (double) SHORT_LEN,
				       dev->reg_overhead / 2);
}

void tagrv_verbs_cost_measure(struct verbs_dev *dev)
{
	void *memory;

	dev->reg_overhead = dev->base.software ? 20e-6 : 2e-6;
	dev->reg_growth = 0.06e-9;
	dev->cost_source = "declared";
	if (dev->base.software || !dev->calls->clock_ns)
		return;
	/* Faults of pages are no part of the cost: messages lie in memory that is there. */
	memory = mmap(NULL, LONG_LEN, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		return;
	measure(dev, memory);
	munmap(memory, LONG_LEN);
	tagrv_info("verbs: %s: a registration takes %.1f us, and %.1f us per MiB\n",
		   dev->base.name, dev->reg_overhead * 1e6,
		   dev->reg_growth * 1e6 * (1 << 20));
}
