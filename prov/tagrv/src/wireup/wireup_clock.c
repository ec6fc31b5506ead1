/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The clocks of the wireup thread.
 *
 * A peer that waits for us cannot answer us, and what it has answered waits to be read: so
 * time in which this thread was busy, which may be a second for one command of a device,
 * says nothing about peers. The deadlines of their state machines are kept by a patient
 * clock, which nearly stands still while the thread works:
 *
 *     now      ----|----|----|----|----|----|--->     waits: both run
 *     patient  ----|----|-        -|---|----|--->     works: one sixteenth
 *                        '------'
 *
 * It does not stand still: the work may never end, if somebody makes us work, and then a
 * peer that is away for good has to be given up nevertheless.
 */
#include "core/clock.h"
#include "wireup/wireup_priv.h"

#define NS_PER_MS	1000000u
#define WORK_SHARE	16u
#define LATE		UINT64_C(50)	/* ms: who wakes up later was not let run */

static uint64_t read_clock(struct tagrv_wireup *wireup)
{
	uint64_t ns = tagrv_clock_ns(), passed = ns - wireup->clock_ns;

	wireup->clock_ns = ns;
	wireup->now = ns / NS_PER_MS;
	return passed;
}

static void let_pass(struct tagrv_wireup *wireup, uint64_t ns)
{
	wireup->patient_ns += ns;
	wireup->patient = wireup->patient_ns / NS_PER_MS;
}

void tagrv_wireup_clock_init(struct tagrv_wireup *wireup)
{
	let_pass(wireup, read_clock(wireup));
}

void tagrv_wireup_clock_waited(struct tagrv_wireup *wireup, int wait)
{
	uint64_t passed = read_clock(wireup);

	if (wait >= 0)
		passed = TAGRV_MIN(passed, ((uint64_t) wait + LATE) * NS_PER_MS);
	let_pass(wireup, passed);
}

void tagrv_wireup_clock_worked(struct tagrv_wireup *wireup)
{
	let_pass(wireup, read_clock(wireup) / WORK_SHARE);
}
