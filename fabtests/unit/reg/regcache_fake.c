/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Counting device and scripted monitor: see regcache_fake.h.
 */
#include "unit/reg/regcache_fake.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

struct reg_device reg_device;
struct fake_monitor fake_monitor;

struct count_mem {
	struct tagrv_mem base;
	uint64_t identity[];		/* of all pages */
};

static uintptr_t page_of(const struct tagrv_mem *mem, size_t i)
{
	return ((uintptr_t) mem->addr & ~(FAKE_PAGE - 1)) + i * FAKE_PAGE;
}

static size_t pages_of(const void *addr, size_t len)
{
	uintptr_t in_page = (uintptr_t) addr % FAKE_PAGE;

	return (in_page + len + FAKE_PAGE - 1) / FAKE_PAGE;
}

static struct tagrv_mem *new_mem(struct tagrv_device *dev, void *addr,
				 size_t len)
{
	size_t pages = reg_device.identity ? pages_of(addr, len) : 0;
	struct count_mem *mem =
		calloc(1, sizeof(*mem) + pages * sizeof(uint64_t));

	mem->base = (struct tagrv_mem) { .dev = dev, .addr = addr, .len = len };
	for (size_t i = 0; i < pages; i++)
		mem->identity[i] = reg_device.identity(page_of(&mem->base, i));
	return &mem->base;
}

bool reg_device_is_true(const struct tagrv_mem *base)
{
	const struct count_mem *mem =
		tagrv_container_of(base, struct count_mem, base);

	for (size_t i = 0; i < pages_of(base->addr, base->len); i++)
		if (reg_device.identity(page_of(base, i)) != mem->identity[i])
			return false;
	return true;
}

static int count_reg(struct tagrv_device *dev, void *addr, size_t len,
		     unsigned access, struct tagrv_mem **mem)
{
	if (reg_device.fail)
		return reg_device.fail;
	if (reg_device.room && reg_device.bytes + len > reg_device.room)
		return -FI_ENOMEM;
	if (reg_device.meanwhile)
		reg_device.meanwhile();
	*mem = new_mem(dev, addr, len);
	(*mem)->access = access;
	reg_device.alive++;
	reg_device.made++;
	reg_device.bytes += pages_of(addr, len) * FAKE_PAGE;
	reg_device.readable += !!(access & TAGRV_MEM_READ);
	return 0;
}

static void count_dereg(struct tagrv_mem *mem)
{
	reg_device.alive--;
	reg_device.bytes -= pages_of(mem->addr, mem->len) * FAKE_PAGE;
	reg_device.readable -= !!(mem->access & TAGRV_MEM_READ);
	free(mem);
}

static const struct tagrv_xport_ops count_ops = {
	.name = "count",
	.mem_reg = count_reg,
	.mem_dereg = count_dereg,
};

struct tagrv_device *reg_device_start(void)
{
	reg_device = (struct reg_device) { .dev.ops = &count_ops };
	return &reg_device.dev;
}

static void set_watched(uintptr_t from, uintptr_t to, bool on)
{
	cr_assert(from >= FAKE_BASE && from < to && from % FAKE_PAGE == 0 &&
		  to % FAKE_PAGE == 0);
	for (; from < to; from += FAKE_PAGE) {
		cr_assert_lt((from - FAKE_BASE) / FAKE_PAGE, FAKE_PAGES);
		fake_monitor.watched[(from - FAKE_BASE) / FAKE_PAGE] = on;
	}
}

size_t fake_monitor_watched(void)
{
	size_t cnt = 0;

	for (size_t i = 0; i < FAKE_PAGES; i++)
		cnt += fake_monitor.watched[i];
	return cnt;
}

static int fake_watch(struct tagrv_monitor *monitor, uintptr_t from,
		      uintptr_t to)
{
	(void) monitor;
	if (fake_monitor.refuse)
		return fake_monitor.refuse;
	set_watched(from, to, true);
	return 0;
}

static void fake_unwatch(struct tagrv_monitor *monitor, uintptr_t from,
			 uintptr_t to)
{
	(void) monitor;
	set_watched(from, to, false);
}

static bool fake_changing(struct tagrv_monitor *monitor)
{
	(void) monitor;
	return fake_monitor.changing;
}

static const struct tagrv_monitor_ops fake_monitor_ops = {
	.name = "fake",
	.watch = fake_watch,
	.unwatch = fake_unwatch,
	.changing = fake_changing,
};

struct tagrv_monitor *fake_monitor_start(void)
{
	fake_monitor = (struct fake_monitor) { .changing = false };
	cr_assert_eq(tagrv_monitor_init(&fake_monitor.base, &fake_monitor_ops),
		     0);
	return &fake_monitor.base;
}

void fake_monitor_change(uintptr_t from, uintptr_t to)
{
	tagrv_monitor_lock(&fake_monitor.base);
	atomic_fetch_add(&fake_monitor.base.generation, 1);
	tagrv_monitor_invalidate(&fake_monitor.base, from, to);
	tagrv_monitor_unlock(&fake_monitor.base);
}
