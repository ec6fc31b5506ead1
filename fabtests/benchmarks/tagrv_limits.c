/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The limits of this machine between two of its processes: no transport through
 * shared memory can be faster.
 *
 *   cache line   two processes take turns writing to one line of a shared page
 *   memcpy       copies of a size between two buffers that are used in turn
 *
 * usage: tagrv_limits line           half of a round trip, us
 *        tagrv_limits copy SIZE      10^6 bytes/s
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "measure.h"

enum { BLOCKS = 501, TURNS = 200 };

static double values[BLOCKS];

static int cache_line(void)
{
	struct measure_line *line = mmap(NULL, sizeof(*line), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double tick = clock_seconds_per_tick();
	pid_t child;

	if (line == MAP_FAILED || (child = fork()) < 0)
		return EXIT_FAILURE;
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		measure_take_turns(line, line, 1, (uint64_t)BLOCKS * TURNS);
		_exit(EXIT_SUCCESS);
	}
	for (uint64_t i = 0; i < BLOCKS; i++) {
		uint64_t start = clock_ticks();

		measure_take_turns(line, line, 2 * i * TURNS, TURNS);
		values[i] = (double)(clock_ticks() - start) * tick / TURNS / 2;
	}
	waitpid(child, NULL, 0);
	printf("%.4f\n", measure_median(values, BLOCKS) * 1e6);
	return EXIT_SUCCESS;
}

static int copy(size_t size)
{
	char *from = malloc(size), *to = malloc(size);
	double tick = clock_seconds_per_tick();
	size_t times = (1 << 20) / size + 1;

	if (!size || !from || !to)
		return EXIT_FAILURE;
	memset(from, 1, size);
	memset(to, 2, size);
	for (int i = 0; i < BLOCKS; i++) {
		uint64_t start = clock_ticks();

		for (size_t t = 0; t < times; t++) {
			memcpy(to, from, size);
			/* Keeps the compiler from removing a copy that is never read. */
			__asm__ volatile("" : : "r"(to) : "memory");
		}
		values[i] = (double)(clock_ticks() - start) * tick / (double)times;
	}
	printf("%.0f\n", (double)size / measure_median(values, BLOCKS) / 1e6);
	free(from);
	free(to);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "line"))
		return cache_line();
	if (argc == 3 && !strcmp(argv[1], "copy"))
		return copy(strtoul(argv[2], NULL, 10));
	fputs("usage: tagrv_limits line | copy SIZE\n", stderr);
	return 2;
}
