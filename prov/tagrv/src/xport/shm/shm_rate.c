/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Measures how fast this host copies between processes.
 *
 *   writer thread                          calling thread
 *   from --copy--> window[i] ..........>   window[i] --copy--> to     ring, copy
 *   writes 'from' .....................>   process_vm_readv --> to    cma
 *
 * The writer runs on another processor, as a peer would: the data must come from that
 * processor's cache in both cases, and two copies in one thread would look three
 * times as fast as they are between two threads.
 *
 * Processor time counts, not the time of the clock: where many processes start at the
 * same time, the two threads wait for a processor most of the time, and a rate that
 * contains such waits says nothing. Each thread measures its own copies, and the best of
 * RUNS counts. Two copies that overlap take as long as the slower one (ring), two that do
 * not take the sum (copy).
 *
 * Measured once per process, and only once per host and hour if the result can be
 * stored in a file (shm_cache.c).
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/iov.h"
#include "core/log.h"
#include "core/thread.h"
#include "xport/shm/shm_priv.h"

#define BYTES	(256u << 10)
#define PIECE	(16u << 10)
#define SLOTS	2u		/* pieces in the window */
#define PIECES	(BYTES / PIECE)
#define SMALL	64u		/* bytes whose copy takes no time */
#define RUNS	16u		/* about 1 ms in all */

struct probe {
	char	*from, *to, *window;
	/* pieces written and read through the window, then runs with cma */
	_Atomic uint32_t filled, taken;
	double	tick;		/* s that it takes to read the clock */
	double	write, read;	/* s for BYTES: copies into and out of the window */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct shm_rates rates = { .ring = 4e9, .copy = 2e9 };

/* Yields from time to time: the other thread may need this processor. */
static void wait_until(_Atomic uint32_t *counter, uint32_t value)
{
	for (unsigned spins = 1; atomic_load(counter) < value; spins++)
		if (spins % 1024 == 0)
			sched_yield();
}

static double time_clock(void)
{
	double best = 1;

	for (uint32_t run = 0; run < RUNS; run++) {
		double took = -tagrv_clock_thread();

		took += tagrv_clock_thread();
		best = TAGRV_MIN(best, took);
	}
	return best;
}

/* Copies a piece; returns the processor time, never 0. */
static double copy_piece(const struct probe *p, char *to, const char *from)
{
	double took = -tagrv_clock_thread();

	tagrv_copy(to, from, PIECE);
	took += tagrv_clock_thread() - p->tick;
	return TAGRV_MAX(took, 1e-9);
}

static double write_run(struct probe *p, uint32_t first)
{
	double sum = 0;

	for (uint32_t i = first; i < first + PIECES; i++) {
		if (i >= SLOTS)
			wait_until(&p->taken, i - SLOTS + 1);
		sum += copy_piece(p, p->window + i % SLOTS * PIECE,
				  p->from + i % PIECES * PIECE);
		atomic_store(&p->filled, i + 1);
	}
	return sum;
}

static void *write_all(void *arg)
{
	struct probe *p = arg;

	p->write = 1;
	for (uint32_t run = 0; run < RUNS; run++) {
		double took = write_run(p, run * PIECES);

		p->write = TAGRV_MIN(p->write, took);
	}
	for (uint32_t i = 0; i < RUNS; i++) {
		wait_until(&p->taken, RUNS * PIECES + i);
		memset(p->from, (int) i, BYTES);
		atomic_store(&p->filled, RUNS * PIECES + i + 1);
	}
	return NULL;
}

static double read_run(struct probe *p, uint32_t first)
{
	double sum = 0;

	for (uint32_t i = first; i < first + PIECES; i++) {
		wait_until(&p->filled, i + 1);
		sum += copy_piece(p, p->to + i % PIECES * PIECE,
				  p->window + i % SLOTS * PIECE);
		atomic_store(&p->taken, i + 1);
	}
	return sum;
}

static void read_ring(struct probe *p)
{
	p->read = 1;
	for (uint32_t run = 0; run < RUNS; run++) {
		double took = read_run(p, run * PIECES);

		p->read = TAGRV_MIN(p->read, took);
	}
}

/* False: process_vm_readv is not allowed. */
static bool copy_cma(const struct probe *p)
{
	struct iovec local = { p->to, BYTES }, remote = { p->from, BYTES };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == BYTES;
}

/* Bytes per second; 0: not allowed. */
static double read_cma(struct probe *p)
{
	double best = 1;
	bool good = true;

	for (uint32_t run = 0; run < RUNS; run++) {
		uint32_t done = RUNS * PIECES + run;
		double took;

		wait_until(&p->filled, done + 1);
		took = -tagrv_clock_thread();
		good = good && copy_cma(p);
		took += tagrv_clock_thread();
		best = TAGRV_MIN(best, took);
		atomic_store(&p->taken, done + 1);
	}
	return good ? BYTES / TAGRV_MAX(best, 1e-9) : 0;
}

/*
 * Fixed cost of a call: entering the kernel, finding the process, permission, and two
 * pages, as in a get: data and table entry.
 */
static double time_call(const struct probe *p)
{
	struct iovec local[2] = { { p->to, SMALL }, { p->to + SMALL, SMALL } };
	struct iovec remote[2] = { { p->from, SMALL },
				   { p->from + BYTES / 2, SMALL } };
	double best = 1;

	for (uint32_t run = 0; run < RUNS; run++) {
		double took = -tagrv_clock_thread();

		if (process_vm_readv(getpid(), local, 2, remote, 2, 0) !=
		    2 * SMALL)
			return 0;
		took += tagrv_clock_thread() - p->tick;
		best = TAGRV_MIN(best, took);
	}
	/* The clock may be too coarse: never 0. */
	return TAGRV_MAX(best, 1e-9);
}

/* To another processor, even if the process is bound to this one. */
static void move_away(pthread_t thread)
{
	int here = sched_getcpu();
	cpu_set_t others;

	if (here < 0 || here >= CPU_SETSIZE)
		return;
	memset(&others, 0xff, sizeof(others));
	CPU_CLR(here, &others);
	pthread_setaffinity_np(thread, sizeof(others), &others);
}

static void measure(struct shm_rates *got)
{
	struct probe p = { .tick = time_clock() };
	pthread_t writer;
	char *buf = malloc(2 * BYTES + SLOTS * PIECE);

	if (!buf)
		return;
	memset(buf, 1, 2 * BYTES + SLOTS * PIECE);
	p.from = buf;
	p.to = buf + BYTES;
	p.window = buf + 2 * BYTES;
	if (!tagrv_thread_start(&writer, "tagrv-measure", write_all, &p)) {
		move_away(writer);
		read_ring(&p);
		got->cma = read_cma(&p);
		got->call = time_call(&p);
		pthread_join(writer, NULL);
		got->ring = BYTES / TAGRV_MAX(p.write, p.read);
		got->copy = BYTES / (p.write + p.read);
	}
	free(buf);
}

static void load_or_measure(void)
{
	bool known = tagrv_shm_rates_load(&rates);

	if (!known) {
		measure(&rates);
		tagrv_shm_rates_store(&rates);
	}
	tagrv_info("shm: rings copy %.1f GB/s, one packet %.1f GB/s, "
		   "process_vm_readv %.1f GB/s with %.2f us per call (%s)\n",
		   rates.ring * 1e-9, rates.copy * 1e-9, rates.cma * 1e-9,
		   rates.call * 1e6,
		   known ? "as measured before on this host" : "measured now");
}

const struct shm_rates *tagrv_shm_rates(void)
{
	pthread_once(&once, load_or_measure);
	return &rates;
}
