/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How many links a device takes: see quota.h.
 */
#include "xport/quota.h"

#include <limits.h>

#include "core/clock.h"

#define LACK_MS		1000u
#define LEAST		2u	/* one to ask for, and one to be asked for */
#define AIM_LEAST	16u	/* of processes that share the device */
#define SPARE_MOST	16u

void tagrv_quota_init(struct tagrv_quota *quota, unsigned of_device, size_t most)
{
	quota->of_device = of_device;
	quota->most = (unsigned) TAGRV_MIN(most, (size_t) INT_MAX);
	if (quota->most)
		quota->most = TAGRV_MAX(quota->most, LEAST);
	quota->aim = quota->most;
}

/* A quarter of the device is for others: side links, and processes of other jobs. */
void tagrv_quota_share(struct tagrv_quota *quota, unsigned procs)
{
	if (quota->most || procs < 2 || !quota->of_device)
		return;
	quota->aim = TAGRV_MAX(quota->of_device / 4 * 3 / procs, AIM_LEAST);
}

static unsigned limit_of(struct tagrv_quota *quota)
{
	unsigned lack = atomic_load_explicit(&quota->lack, memory_order_relaxed);
	unsigned most = quota->most ? quota->most : UINT_MAX;

	return lack && tagrv_clock_ms() < atomic_load(&quota->lack_until) ?
	       TAGRV_MIN(lack, most) : most;
}

bool tagrv_quota_take(struct tagrv_quota *quota)
{
	unsigned used = atomic_load(&quota->used);

	do {
		if (quota->most && used >= quota->most)
			return false;
	} while (!atomic_compare_exchange_weak(&quota->used, &used, used + 1));
	return true;
}

void tagrv_quota_give(struct tagrv_quota *quota)
{
	atomic_fetch_sub(&quota->used, 1);
}

bool tagrv_quota_refused(struct tagrv_quota *quota)
{
	unsigned others = atomic_load(&quota->used) - 1;

	atomic_store(&quota->lack_until, tagrv_clock_ms() + LACK_MS);
	atomic_store(&quota->lack, others);
	return others > 0;
}

bool tagrv_quota_has_room(struct tagrv_quota *quota, unsigned keep)
{
	unsigned limit = limit_of(quota);

	return limit == UINT_MAX || atomic_load(&quota->used) + keep < limit;
}

unsigned tagrv_quota_excess(struct tagrv_quota *quota)
{
	unsigned limit = limit_of(quota), used = atomic_load(&quota->used), spare;

	if (quota->aim)
		limit = TAGRV_MIN(limit, quota->aim);
	if (limit == UINT_MAX)
		return 0;
	spare = TAGRV_MAX(1u, TAGRV_MIN(limit / 8, SPARE_MOST));
	return used + spare > limit ? used + spare - limit : 0;
}
