/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads that share an endpoint, or have endpoints or domains of their own.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 300, LARGE = 200000 };

/* An operation whose completion any thread may read. */
struct job {
	struct fi_context2 ctx;	/* first, so that a context leads to its job */
	_Atomic bool done;
};

struct worker {
	pthread_t thread;
	struct fx *fx;
	uint64_t id;
	struct job tx;
	struct job rx;
	uint8_t *out;
	uint8_t *in;
};

static void note_completion(struct fx *fx, enum fx_side side)
{
	struct comp c;
	struct job *job;

	if (!comp_poll(fx, side, &c))
		return;
	CHECK(!c.err, "completion with error %d (%s)", c.err, fi_strerror(c.err));
	job = c.ctx;
	CHECK(!atomic_exchange(&job->done, true), "an operation completed twice");
}

static void await_job(struct fx *fx, struct job *job)
{
	while (!atomic_load(&job->done)) {
		note_completion(fx, FX_TX);
		note_completion(fx, FX_RX);
		FX_CHECK_MOVES(fx, "an operation does not complete");
		sched_yield();
	}
}

static void *exchange_rounds(void *arg)
{
	struct worker *w = arg;
	struct fx *fx = w->fx;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		size_t len = i % 20 ? i : LARGE;
		uint64_t tag = w->id << 32 | i;

		atomic_store(&w->tx.done, false);
		atomic_store(&w->rx.done, false);
		pattern_fill(w->out, len, tag);
		RECV(fx, .tagged = true, .buf = w->in, .len = len, .addr = FI_ADDR_UNSPEC,
		     .tag = tag, .ctx = &w->rx);
		SEND(fx, .tagged = true, .buf = w->out, .len = len, .addr = fx->peer, .tag = tag,
		     .ctx = &w->tx);
		await_job(fx, &w->tx);
		await_job(fx, &w->rx);
		CHECK(pattern_check(w->in, len, tag) == len, "thread %d, round %d: wrong content",
		      (int)w->id, (int)i);
	}
	return NULL;
}

static void run_workers(struct worker *w, int n, void *(*body)(void *arg))
{
	static uint8_t memory[2 * THREADS][LARGE];

	for (int i = 0; i < n; i++) {
		w[i].id = (uint64_t)i;
		w[i].out = memory[2 * i];
		w[i].in = memory[2 * i + 1];
		CHECK(!pthread_create(&w[i].thread, NULL, body, &w[i]), "no thread");
	}
	for (int i = 0; i < n; i++)
		pthread_join(w[i].thread, NULL);
}

static void shared_endpoint(struct test *t)
{
	struct fx_attr attr = { .threading = FI_THREAD_SAFE };
	static struct worker w[THREADS];
	struct fx fx;

	fx_open(t, &fx, &attr);
	for (int i = 0; i < THREADS; i++)
		w[i].fx = &fx;
	run_workers(w, THREADS, exchange_rounds);
	fx_close(&fx);
}

static void own_domains(struct test *t)
{
	static struct worker w[2];
	static struct fx fx[2];

	for (int i = 0; i < 2; i++) {
		fx_open(t, &fx[i], &(struct fx_attr){ .threading = FI_THREAD_DOMAIN });
		w[i].fx = &fx[i];
	}
	run_workers(w, 2, exchange_rounds);
	for (int i = 0; i < 2; i++)
		fx_close(&fx[i]);
}

static void endpoints(struct test *t, bool srx)
{
	static struct worker w[THREADS];
	static struct fx fx[THREADS];
	struct fx_attr attr = { .threading = FI_THREAD_SAFE, .srx = srx };

	for (int i = 0; i < THREADS; i++) {
		fx_open_or_skip(t, &fx[i], &attr, "shared receive context");
		attr.share = &fx[0];
		w[i].fx = &fx[i];
	}
	run_workers(w, THREADS, exchange_rounds);
	for (int i = THREADS - 1; i >= 0; i--)
		fx_close(&fx[i]);
}

static void own_endpoints(struct test *t)
{
	endpoints(t, false);
}

static void shared_context(struct test *t)
{
	endpoints(t, true);
}

/* Thread 0 blocks in a read while the main thread sends. */
static void *block_for_all(void *arg)
{
	struct worker *w = arg;
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 100; i++) {
		ssize_t n;

		do {
			n = fi_cq_sread(w->fx->cq[FX_RX], &entry, 1, NULL, 1000);
			FX_CHECK_MOVES(w->fx, "a blocked reader sees nothing");
		} while (n == -FI_EAGAIN || n == -FI_EINTR);
		CHECK(n == 1 && entry.op_context == &w->rx, "sread: %zd", n);
	}
	return NULL;
}

static void blocked_reader(struct test *t)
{
	struct fx_attr attr = { .threading = FI_THREAD_SAFE, .cq_wait = FI_WAIT_UNSPEC };
	static struct worker w;
	struct fi_context2 ctx;
	struct fx fx;

	fx_open(t, &fx, &attr);
	w.fx = &fx;
	CHECK(!pthread_create(&w.thread, NULL, block_for_all, &w), "no thread");
	for (uint64_t i = 0; i < 100; i++) {
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = i, .ctx = &w.rx);
		SEND(&fx, .tagged = true, .addr = fx.addr[0], .tag = i, .ctx = &ctx);
		while (fi_cq_read(fx.cq[FX_TX], &(struct fi_cq_tagged_entry){ 0 }, 1) != 1)
			FX_CHECK_MOVES(&fx, "no completion of a send");
	}
	pthread_join(w.thread, NULL);
	fx_close(&fx);
}

static void *open_rounds(void *arg)
{
	struct worker *w = arg;
	struct test *t = w->fx->t;

	for (int i = 0; i < 10; i++) {
		uint8_t name[FX_NAME_MAX];
		size_t len = sizeof(name);
		struct fx fx;

		fx_open(t, &fx, &(struct fx_attr){ .disabled = true });
		CHECK_OK(fi_enable(fx.ep));
		CHECK_OK(fi_getname(&fx.ep->fid, name, &len));
		fx_close_now(&fx);
	}
	return NULL;
}

static void open_close(struct test *t)
{
	static struct worker w[THREADS];
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ 0 });
	for (int i = 0; i < THREADS; i++)
		w[i].fx = &fx;
	run_workers(w, THREADS, open_rounds);
	fx_close(&fx);
}

const struct test_case thread_cases[] = {
	{ "thread_shared_endpoint", "4 threads send and receive on one endpoint", shared_endpoint, .ranks = 2, .slow = 2 },
	{ "thread_own_endpoints", "4 threads, each with an endpoint of its own in one domain", own_endpoints, .ranks = 2, .slow = 2 },
	{ "thread_shared_context", "the same with one shared receive context", shared_context, .ranks = 2, .slow = 2 },
	{ "thread_own_domains", "2 threads, each with a domain of its own", own_domains, .ranks = 2, .slow = 2 },
	{ "thread_blocked_reader", "one thread blocks in a read, another sends", blocked_reader, .ranks = 1 },
	{ "thread_open_close", "4 threads open and close their own objects", open_close, .ranks = 1 },
	{ 0 },
};
