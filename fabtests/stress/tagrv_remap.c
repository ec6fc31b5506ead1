/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two processes send each other messages from and to memory that is freed, unmapped,
 * moved and emptied between them, by the same and by another thread, and fork meanwhile.
 *
 *	tagrv_remap [--transfers N] [--seed N]
 *
 * Every byte must be right. Where memory is registered with a device (verbs), a
 * registration that is used once too often shows: the device reads and writes the pages
 * that were at the address before. Without a device, tagrv_remap_devices shows that.
 */
#include "framework/fixture.h"
#include "remap.h"

#include <sched.h>


static void remap(struct test *t)
{
	static struct flow f;
	struct area *const sets[] = { f.areas };
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ .one_cq = true });
	f.ep = fx.ep;
	f.cq = fx.cq[FX_TX];
	f.peer = fx.peer;
	f.count = (remap_transfers + 1) / 2;
	f.out_seed = t->seed * 2 + (uint64_t)t->rank;
	f.in_seed = t->seed * 2 + (uint64_t)!t->rank;
	f.random = t->seed + 77 * (uint64_t)t->rank;
	flow_open(&f);
	changer_begin(sets, 1);
	while (!flow_is_done(&f)) {
		if (!flow_turn(&f))
			sched_yield();
		FX_CHECK_MOVES(&fx, "%llu sent, %llu received of %llu each", (unsigned long long)f.done,
			       (unsigned long long)f.got, (unsigned long long)f.count);
	}
	fx_barrier(&fx);
	changer_end();
	flow_reap();
	flow_close(&f);
	if (t->rank == 0)
		remap_report();
	fx_close(&fx);
}

int main(int argc, char **argv)
{
	static const struct test_case one = { "remap", "", remap, .ranks = 2 };

	return remap_main(&one, argc, argv);
}
