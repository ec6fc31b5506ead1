/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Measures what tests spend their time with: system calls, and arithmetic on memory.
 *
 * The clock counts, not the processor's time: other programs that take half of
 * the processor make this machine half as fast.
 */
#include "common/slowness.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 4096, ROUNDS = 800, CALLS = 16000 };

/* Milliseconds that both parts take on a quiet machine of 3 GHz. */
#define QUIET_MS	15.0
#define SLOWNESS_MAX	4.0

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

static uint64_t scramble(void)
{
	static volatile uint64_t word[WORDS];
	uint64_t z = 1;

	for (int i = 0; i < ROUNDS * WORDS; i++) {
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL + (uint64_t)i;
		word[z % WORDS] += z;
	}
	return word[z % WORDS];
}

static void call(void)
{
	uint64_t byte = 0;
	int pair[2];

	if (pipe(pair))
		return;
	for (int i = 0; i < CALLS / 2; i++)
		if (write(pair[1], &byte, 1) != 1 || read(pair[0], &byte, 1) != 1)
			break;
	close(pair[0]);
	close(pair[1]);
}

static double measure(void)
{
	double start = now_ms();

	(void)scramble();
	call();
	return (now_ms() - start) / QUIET_MS;
}

static double clamp(double value)
{
	return value < 1 ? 1 : value > SLOWNESS_MAX ? SLOWNESS_MAX : value;
}

double slowness(void)
{
	const char *known = getenv("FABTESTS_SLOWNESS");
	char text[32];
	double value = known ? strtod(known, NULL) : 0;

	if (value > 0)
		return clamp(value);
	value = clamp(measure());
	snprintf(text, sizeof(text), "%.1f", value);
	setenv("FABTESTS_SLOWNESS", text, 0);
	return value;
}

unsigned slow_ms(unsigned ms)
{
	return (unsigned)(ms * slowness());
}
