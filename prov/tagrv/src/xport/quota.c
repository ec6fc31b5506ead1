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

void tagrv_quota_double(struct tagrv_quota *quota)
{
	atomic_store(&quota->twofold, true);
}

static unsigned cost_of(struct tagrv_quota *quota)
{
	return atomic_load_explicit(&quota->twofold, memory_order_relaxed) ? 2 : 1;
}

unsigned tagrv_quota_most(struct tagrv_quota *quota)
{
	return quota->most ? TAGRV_MAX(quota->most, LEAST * cost_of(quota)) : 0;
}

static unsigned limit_of(struct tagrv_quota *quota)
{
	unsigned lack = atomic_load_explicit(&quota->lack, memory_order_relaxed);
	unsigned most = quota->most ? tagrv_quota_most(quota) : UINT_MAX;

	return lack && tagrv_clock_ms() < atomic_load(&quota->lack_until) ?
	       TAGRV_MIN(lack - 1, most) : most;
}

bool tagrv_quota_take_some(struct tagrv_quota *quota, unsigned cnt)
{
	unsigned used = atomic_load(&quota->used), most = tagrv_quota_most(quota);

	do {
		if (most && used + cnt > most)
			return false;
	} while (!atomic_compare_exchange_weak(&quota->used, &used, used + cnt));
	return true;
}

void tagrv_quota_give_some(struct tagrv_quota *quota, unsigned cnt)
{
	atomic_fetch_sub(&quota->used, cnt);
}

bool tagrv_quota_refused_some(struct tagrv_quota *quota, unsigned cnt)
{
	unsigned others = atomic_load(&quota->used) - cnt;

	atomic_store(&quota->lack_until, tagrv_clock_ms() + LACK_MS);
	atomic_store(&quota->lack, others + 1);
	return others > 0;
}

bool tagrv_quota_has_room(struct tagrv_quota *quota, unsigned keep)
{
	unsigned limit = limit_of(quota);

	return limit == UINT_MAX ||
	       atomic_load(&quota->used) + (keep + 1) * cost_of(quota) <= limit;
}

unsigned tagrv_quota_excess(struct tagrv_quota *quota)
{
	unsigned limit = limit_of(quota), used = atomic_load(&quota->used), spare;
	unsigned cost = cost_of(quota);

	if (quota->aim)
		limit = TAGRV_MIN(limit, TAGRV_MAX(quota->aim, LEAST * cost));
	if (limit == UINT_MAX)
		return 0;
	spare = TAGRV_MAX(cost, TAGRV_MIN(limit / 8, SPARE_MOST));
	return used + spare > limit ? (used + spare - limit + cost - 1) / cost : 0;
}
