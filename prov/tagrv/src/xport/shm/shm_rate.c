/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How fast this host copies between processes, by measurement.
 *
 *   writer thread                          who asks
 *   from --copy--> window[i] ..........>   window[i] --copy--> to     ring
 *   from --write-> (dirty) ............>   process_vm_readv --> to    one copy
 *
 * The writer is a thread on another processor, as a peer would be: what was
 * written there has to come from that processor's cache either way, and two
 * copies in one thread would look three times as fast as they are between two.
 * Each rate is the best of some runs, so that being interrupted does no harm
 * unless all of them are. Where there is one processor only, the two take turns,
 * as processes would.
 *
 * Measured once per process, and once per host and hour where there is a folder
 * that belongs to the user and goes with him (XDG_RUNTIME_DIR).
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
#define SLOTS	4u		/* pieces of the window */
#define PIECES	(BYTES / PIECE)
#define SMALL	64u		/* bytes whose copy takes no time */
#define RUNS	16u		/* 1 ms in all */

struct probe {
	char	*from, *to, *window;
	_Atomic uint32_t filled, taken;	/* pieces; then runs of the one copy */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct shm_rates rates = { .ring = 4e9 };

/* The other one may need this processor. */
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

/* The kernel's copy; false: it does not let us. */
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

/* Entering the kernel, finding the process, asking whether we may. */
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
	/* A clock may be too coarse to see it. */
	return TAGRV_MAX(best, 1e-9);
}

/* Anywhere but here, even if the process was bound to this processor. */
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

static void find_out(void)
{
	bool known = tagrv_shm_rates_load(&rates);

	if (!known) {
		measure(&rates);
		tagrv_shm_rates_store(&rates);
	}
	tagrv_info("shm: through the rings %.1f GB/s, process_vm_readv %.1f "
		   "GB/s and %.2f us per call (%s)\n", rates.ring * 1e-9,
		   rates.cma * 1e-9, rates.call * 1e6,
		   known ? "as measured before on this host" : "measured now");
}

const struct shm_rates *tagrv_shm_rates(void)
{
	pthread_once(&once, find_out);
	return &rates;
}
