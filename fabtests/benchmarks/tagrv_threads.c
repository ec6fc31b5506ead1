/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads that share an endpoint: how long their calls take, and how many messages they
 * move together.
 *
 *   thread i: receive with tag i posted, message with tag i to the own endpoint, reads of
 *             the queue that all share until its receive has completed; and again
 *
 * Every call of every thread is timed. With one thread that is the time for which the
 * provider holds its lock; with more it has the wait for the lock in it. In a convoy
 * (every thread goes to sleep on the lock, every release wakes one) the usual call of
 * several threads would take some microseconds, and the rate would fall to a fraction.
 */
#include "clock.h"
#include "oob.h"

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 8, BINS = 48, ENTRIES = 8 };

static struct {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t self;
} net;

struct worker {
	pthread_t thread;
	struct fi_context2 context;	/* of the receive that is posted */
	_Atomic uint64_t done;		/* receives; added to by any thread */
	uint64_t messages;
	uint64_t tag, in, out;
	uint64_t calls[BINS];		/* that took at least 2^i, less than 2^(i+1) ticks */
	uint64_t cnt, longest;		/* of calls; ticks */
};

static struct worker workers[THREADS_MAX];
static pthread_barrier_t barrier;

static void check(ssize_t ret, const char *what)
{
	if (ret < 0)
		bench_die("%s: %s", what, fi_strerror((int) -ret));
}

static void open_info(void)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		bench_die("no memory");
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->mr_mode = FI_MR_LOCAL;
	hints->fabric_attr->prov_name = strdup("tagrv");
	check(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &net.info),
	      "fi_getinfo");
	fi_freeinfo(hints);
}

static void open_endpoint(void)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av = { 0 };
	char name[256];
	size_t len = sizeof(name);

	open_info();
	check(fi_fabric(net.info->fabric_attr, &net.fabric, NULL), "fi_fabric");
	check(fi_domain(net.fabric, net.info, &net.domain, NULL), "fi_domain");
	check(fi_av_open(net.domain, &av, &net.av, NULL), "fi_av_open");
	check(fi_cq_open(net.domain, &cq, &net.cq, NULL), "fi_cq_open");
	check(fi_endpoint(net.domain, net.info, &net.ep, NULL), "fi_endpoint");
	check(fi_ep_bind(net.ep, &net.av->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(net.ep, &net.cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	check(fi_enable(net.ep), "fi_enable");
	check(fi_getname(&net.ep->fid, name, &len), "fi_getname");
	if (fi_av_insert(net.av, name, 1, &net.self, 0, NULL) != 1)
		bench_die("fi_av_insert failed");
}

static void close_endpoint(void)
{
	fi_close(&net.ep->fid);
	fi_close(&net.cq->fid);
	fi_close(&net.av->fid);
	fi_close(&net.domain->fid);
	fi_close(&net.fabric->fid);
	fi_freeinfo(net.info);
}

/* A call began at 'begin' and has just ended. */
static void count_call(struct worker *w, uint64_t begin)
{
	uint64_t ticks = clock_ticks() - begin;

	w->calls[63 - __builtin_clzll(ticks | 1)]++;
	w->cnt++;
	if (ticks > w->longest)
		w->longest = ticks;
}

static void read_queue(struct worker *w)
{
	struct fi_cq_tagged_entry entries[ENTRIES];
	uint64_t begin = clock_ticks();
	ssize_t n = fi_cq_read(net.cq, entries, ENTRIES);

	count_call(w, begin);
	if (n == -FI_EAGAIN)
		return;
	check(n, "fi_cq_read");
	for (ssize_t i = 0; i < n; i++)
		if (entries[i].flags & FI_RECV) {
			struct worker *of = &workers[entries[i].tag];

			atomic_fetch_add_explicit(&of->done, 1, memory_order_release);
		}
}

static void post_recv(struct worker *w)
{
	ssize_t ret;

	do {
		uint64_t begin = clock_ticks();

		ret = fi_trecv(net.ep, &w->in, sizeof(w->in), NULL, FI_ADDR_UNSPEC,
			       w->tag, 0, &w->context);
		count_call(w, begin);
		if (ret == -FI_EAGAIN)
			read_queue(w);
	} while (ret == -FI_EAGAIN);
	check(ret, "fi_trecv");
}

static void send_message(struct worker *w)
{
	ssize_t ret;

	do {
		uint64_t begin = clock_ticks();

		ret = fi_tinject(net.ep, &w->out, sizeof(w->out), net.self, w->tag);
		count_call(w, begin);
		if (ret == -FI_EAGAIN)
			read_queue(w);
	} while (ret == -FI_EAGAIN);
	check(ret, "fi_tinject");
}

static void *work(void *arg)
{
	struct worker *w = arg;

	pthread_barrier_wait(&barrier);
	for (uint64_t n = 1; n <= w->messages; n++) {
		post_recv(w);
		w->out = n;
		send_message(w);
		while (atomic_load_explicit(&w->done, memory_order_acquire) < n)
			read_queue(w);
		if (w->in != n)
			bench_die("thread %d: message %d has other bytes", (int) w->tag,
				  (int) n);
	}
	return NULL;
}

/* Ticks that the given part of all calls does not exceed: the end of a bin. */
static double ticks_of_part(const struct worker *sum, double part)
{
	double left = part * (double) sum->cnt;
	int bin = 0;

	while (bin < BINS - 1 && left > (double) sum->calls[bin])
		left -= (double) sum->calls[bin++];
	return (double) (2ULL << bin);
}

static void report(int threads, double ns, double seconds, uint64_t messages)
{
	struct worker sum = { .longest = 0 };

	for (int i = 0; i < threads; i++) {
		for (int bin = 0; bin < BINS; bin++)
			sum.calls[bin] += workers[i].calls[bin];
		sum.cnt += workers[i].cnt;
		if (workers[i].longest > sum.longest)
			sum.longest = workers[i].longest;
	}
	printf("%7d %12.2f %10.0f %10.0f %10.0f %12.0f\n", threads,
	       (double) messages * threads / seconds * 1e-6,
	       ns * ticks_of_part(&sum, 0.5), ns * ticks_of_part(&sum, 0.99),
	       ns * ticks_of_part(&sum, 0.999), ns * (double) sum.longest);
	fflush(stdout);
}

static void run(int threads, uint64_t messages, double ns)
{
	uint64_t begin;

	memset(workers, 0, sizeof(workers));
	pthread_barrier_init(&barrier, NULL, (unsigned) threads + 1);
	for (int i = 0; i < threads; i++) {
		workers[i].tag = (uint64_t) i;
		workers[i].messages = messages;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			bench_die("no thread can be created");
	}
	pthread_barrier_wait(&barrier);
	begin = clock_monotonic_ns();
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	report(threads, ns, (double) (clock_monotonic_ns() - begin) * 1e-9, messages);
	pthread_barrier_destroy(&barrier);
}

static void usage(void)
{
	printf("usage: tagrv_threads [MESSAGES]\n\n"
	       "Move MESSAGES (default 200000) of 8 bytes by 1, 2, 4 and 8 threads that "
	       "share an endpoint;\nprint the rate, and how long calls took.\n");
	exit(0);
}

int main(int argc, char **argv)
{
	uint64_t messages = 200000;
	double ns = clock_seconds_per_tick() * 1e9;

	if (argc > 1 && argv[1][0] == '-')
		usage();
	if (argc > 1)
		messages = (uint64_t) bench_number(argv[1], "MESSAGES", 1, 1e9);

	open_endpoint();
	printf("%7s %12s %10s %10s %10s %12s\n", "threads", "10^6 msg/s", "half, ns",
	       "99 %, ns", "99.9 %, ns", "longest, ns");
	for (int threads = 1; threads <= THREADS_MAX; threads *= 2)
		run(threads, messages / (uint64_t) threads + 1, ns);
	close_endpoint();
	return 0;
}
