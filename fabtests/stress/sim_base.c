/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * State of the simulation, random numbers, and how a seed fails.
 */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct sim sim;

static uint64_t state;		/* of the random numbers; never 0 */

__attribute__((format(printf, 2, 0)))
static void tell(const char *what, const char *format, va_list args)
{
	printf("%s", what);
	vprintf(format, args);
	putchar('\n');
}

void sim_trace(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tell("", format, args);
	va_end(args);
}

/* _exit: what the engines hold at this moment is not a leak to report. */
void sim_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tell("wrong: ", format, args);
	va_end(args);
	fflush(stdout);
	_exit(EXIT_FAILURE);
}

void *sim_alloc(size_t len)
{
	void *mem = calloc(1, len ? len : 1);

	SIM_CHECK(mem, "no memory");
	return mem;
}

static uint64_t next_number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

void sim_seed(uint64_t seed)
{
	state = UINT64_C(0x9e3779b97f4a7c15) * (seed + 1);
	for (int i = 0; i < 10; i++)
		next_number();
}

size_t sim_below(size_t n)
{
	return n ? (next_number() >> 11) % n : 0;
}

bool sim_chance(unsigned percent)
{
	return sim_below(100) < percent;
}
