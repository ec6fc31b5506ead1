/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Measures how fast this host copies between processes.
 *
 *   writer thread                          calling thread
 *   from --copy--> window[i] ..........>   window[i] --copy--> to     ring
 *   writes 'from' .....................>   process_vm_readv --> to    cma
 *
 * The writer runs on another processor, as a peer would: the data must come from that
 * processor's cache in both cases, and two copies in one thread would look three
 * times as fast as they are between two threads. Each rate is the best of RUNS, so
 * that an interruption does no harm unless all runs are interrupted. With only one
 * processor the two threads take turns, as processes would.
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
#include "core/log.h"
#include "core/thread.h"
#include "xport/shm/shm_priv.h"

#define BYTES	(256u << 10)
#define PIECE	(8u << 10)
#define SLOTS	4u		/* pieces in the window */
#define PIECES	(BYTES / PIECE)
#define SMALL	64u		/* bytes whose copy takes no time */
#define RUNS	16u		/* about 1 ms in all */

struct probe {
	char	*from, *to, *window;
	/* pieces written and read through the window, then runs with cma */
	_Atomic uint32_t filled, taken;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct shm_rates rates = { .ring = 4e9 };

/* Yields from time to time: the other thread may need this processor. */
static void wait_until(_Atomic uint32_t *counter, uint32_t value)
{
	for (unsigned spins = 1; atomic_load(counter) < value; spins++)
		if (spins % 1024 == 0)
			sched_yield();
}

static void *write_all(void *arg)
{
	struct probe *p = arg;

	for (uint32_t i = 0; i < RUNS * PIECES; i++) {
		if (i >= SLOTS)
			wait_until(&p->taken, i - SLOTS + 1);
		memcpy(p->window + i % SLOTS * PIECE,
		       p->from + i % PIECES * PIECE, PIECE);
		atomic_store(&p->filled, i + 1);
	}
	for (uint32_t i = 0; i < RUNS; i++) {
		wait_until(&p->taken, RUNS * PIECES + i);
		memset(p->from, (int) i, BYTES);
		atomic_store(&p->filled, RUNS * PIECES + i + 1);
	}
	return NULL;
}

static double rate_since(double start, double best)
{
	double rate = BYTES / (tagrv_clock_seconds() - start + 1e-9);

	return TAGRV_MAX(rate, best);
}

static double read_ring(struct probe *p)
{
	double best = 0;

	for (uint32_t run = 0; run < RUNS; run++) {
		double start = tagrv_clock_seconds();

		for (uint32_t i = run * PIECES; i < (run + 1) * PIECES; i++) {
			wait_until(&p->filled, i + 1);
			memcpy(p->to + i % PIECES * PIECE,
			       p->window + i % SLOTS * PIECE, PIECE);
			atomic_store(&p->taken, i + 1);
		}
		best = rate_since(start, best);
	}
	return best;
}

/* False: process_vm_readv is not allowed. */
static bool copy_cma(const struct probe *p)
{
	struct iovec local = { p->to, BYTES }, remote = { p->from, BYTES };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == BYTES;
}

static double read_cma(struct probe *p)
{
	double best = 0;

	for (uint32_t run = 0; run < RUNS; run++) {
		uint32_t done = RUNS * PIECES + run;
		double start;
		bool good;

		wait_until(&p->filled, done + 1);
		start = tagrv_clock_seconds();
		good = copy_cma(p);
		best = good ? rate_since(start, best) : 0;
		atomic_store(&p->taken, done + 1);
	}
	return best;
}

/* Fixed cost of a call: entering the kernel, finding the process, permission. */
static double time_call(const struct probe *p)
{
	struct iovec local = { p->to, SMALL }, remote = { p->from, SMALL };
	double best = 1;

	for (uint32_t run = 0; run < RUNS; run++) {
		double start = tagrv_clock_seconds(), took;

		if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) !=
		    SMALL)
			return 0;
		took = tagrv_clock_seconds() - start;
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
	struct probe p = { .filled = 0 };
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
		got->ring = read_ring(&p);
		got->cma = read_cma(&p);
		got->call = time_call(&p);
		pthread_join(writer, NULL);
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
	tagrv_info("shm: rings copy %.1f GB/s, process_vm_readv %.1f GB/s "
		   "with %.2f us per call (%s)\n", rates.ring * 1e-9,
		   rates.cma * 1e-9, rates.call * 1e6,
		   known ? "as measured before on this host" : "measured now");
}

const struct shm_rates *tagrv_shm_rates(void)
{
	pthread_once(&once, load_or_measure);
	return &rates;
}
