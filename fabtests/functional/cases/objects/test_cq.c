/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues as objects: sizes, reading, blocking, signalling, wait descriptors.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static const struct fx_attr plain;
static const struct fx_attr with_unspec = { .cq_wait = FI_WAIT_UNSPEC };

/* Skips when CQs with this wait object are not supported at all. */
static void need_wait(struct test *t, enum fi_wait_obj wait, const char *what)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait };
	struct fid_cq *cq;
	struct fx fx;
	int ret;

	fx_open_domain(t, &fx, &plain);
	ret = fi_cq_open(fx.domain, &attr, &cq, NULL);
	if (ret == -FI_ENOSYS)
		run_skip("no CQ with %s", what);
	CHECK(!ret, "CQ with %s: %d (%s)", what, ret, fi_strerror(-ret));
	CHECK_OK(fi_close(&cq->fid));
	fx_close_now(&fx);
}

static void sizes(struct test *t)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_UNSPEC };
	struct fid_cq *cq;
	struct fx fx;

	fx_open_domain(t, &fx, &plain);
	for (size_t size = 0; size <= 65536; size = size ? size * 2 : 1) {
		run_step("size %zu", size);
		attr.size = size;
		CHECK_OK(fi_cq_open(fx.domain, &attr, &cq, NULL));
		CHECK_OK(fi_close(&cq->fid));
	}
	fx_close_now(&fx);
}

static void many(struct test *t)
{
	struct fi_cq_attr attr = { .size = 1, .format = FI_CQ_FORMAT_CONTEXT };
	struct fid_cq *cq[128];
	size_t n = sizeof(cq) / sizeof(cq[0]);
	struct fx fx;

	fx_open_domain(t, &fx, &plain);
	if (fx.info->domain_attr->cq_cnt && n > fx.info->domain_attr->cq_cnt)
		n = fx.info->domain_attr->cq_cnt;
	for (size_t i = 0; i < n; i++)
		CHECK_OK(fi_cq_open(fx.domain, &attr, &cq[i], NULL));
	for (size_t i = 0; i < n; i++)
		CHECK_OK(fi_close(&cq[i]->fid));
	fx_close_now(&fx);
}

static void reads(struct test *t)
{
	struct fi_cq_tagged_entry entry[4];
	struct fi_cq_err_entry err = { 0 };
	char text[64] = "";
	struct fx fx;
	ssize_t n;

	fx_open(t, &fx, &plain);
	n = fi_cq_read(fx.cq[FX_RX], NULL, 0);
	CHECK(n == 0 || n == -FI_EAGAIN, "read of 0 entries: %zd", n);
	CHECK_ERR(fi_cq_read(fx.cq[FX_RX], entry, 4), -FI_EAGAIN);
	CHECK_ERR(fi_cq_readerr(fx.cq[FX_RX], &err, 0), -FI_EAGAIN);
	CHECK(fi_cq_strerror(fx.cq[FX_RX], FI_EINVAL, NULL, NULL, 0), "no error string");
	CHECK(fi_cq_strerror(fx.cq[FX_RX], FI_EINVAL, NULL, text, sizeof(text)), "no error string");
	fx_close(&fx);
}

/* Several entries per read; reads of 0 entries lose none. */
static void read_batches(struct test *t)
{
	struct fi_cq_tagged_entry entry[4];
	struct fi_context2 ctx[10];
	size_t seen = 0;
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 10; i++)
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx[i]);
	for (int i = 0; i < 10; i++)
		SEND(&fx, .tagged = true, .addr = fx.addr[0], .tag = 1, .ctx = &ctx[i]);
	COMP_ANY_ORDER(&fx, FX_TX, ctx, 10);
	fx_idle(&fx, 10);
	while (seen < 10) {
		ssize_t n = fi_cq_read(fx.cq[FX_RX], entry, 4);

		FX_CHECK_MOVES(&fx, "%zu of 10 completions", seen);
		CHECK(n == -FI_EAGAIN || (n >= 1 && n <= 4), "read of 4 entries: %zd", n);
		for (ssize_t i = 0; i < n; i++)
			CHECK(entry[i].op_context == &ctx[seen++], "out of order");
	}
	fx_close(&fx);
}

static int64_t timed_sread(struct fid_cq *cq, int ms, ssize_t *ret)
{
	struct fi_cq_tagged_entry entry;
	int64_t start = run_now();

	*ret = fi_cq_sread(cq, &entry, 1, NULL, ms);
	return run_now() - start;
}

static void sread_timeout(struct test *t)
{
	struct fx fx;
	int64_t took;
	ssize_t ret;

	need_wait(t, FI_WAIT_UNSPEC, "FI_WAIT_UNSPEC");
	fx_open(t, &fx, &with_unspec);
	took = timed_sread(fx.cq[FX_RX], 300, &ret);
	CHECK(ret == -FI_EAGAIN, "sread without completion: %zd", ret);
	CHECK(took >= 250 && took < run_slow_ms(5000), "a wait of 300 ms took %d ms", (int)took);
	took = timed_sread(fx.cq[FX_RX], 0, &ret);
	CHECK(ret == -FI_EAGAIN, "sread with timeout 0: %zd", ret);
	CHECK(took < run_slow_ms(2000), "a wait of 0 ms took %d ms", (int)took);
	fx_close(&fx);
}

static void signal_before(struct test *t)
{
	struct fx fx;
	int64_t took;
	ssize_t ret;

	need_wait(t, FI_WAIT_UNSPEC, "FI_WAIT_UNSPEC");
	fx_open(t, &fx, &with_unspec);
	CHECK_OK(fi_cq_signal(fx.cq[FX_RX]));
	took = timed_sread(fx.cq[FX_RX], 10000, &ret);
	CHECK(ret == -FI_EAGAIN || ret == -FI_ECANCELED, "sread after signal: %zd", ret);
	CHECK(took < run_slow_ms(5000), "a signal given before the wait is lost: %d ms", (int)took);
	fx_close(&fx);
}

static void *signal_later(void *arg)
{
	usleep(200000);
	CHECK_OK(fi_cq_signal(arg));
	return NULL;
}

static void signal_during(struct test *t)
{
	struct fx_attr attr = { .cq_wait = FI_WAIT_UNSPEC, .threading = FI_THREAD_SAFE };
	pthread_t thread;
	struct fx fx;
	ssize_t ret;

	need_wait(t, FI_WAIT_UNSPEC, "FI_WAIT_UNSPEC");
	fx_open(t, &fx, &attr);
	CHECK(!pthread_create(&thread, NULL, signal_later, fx.cq[FX_RX]), "no thread");
	CHECK(timed_sread(fx.cq[FX_RX], 20000, &ret) < 10000, "the signal does not wake");
	CHECK(ret == -FI_EAGAIN || ret == -FI_ECANCELED, "sread after signal: %zd", ret);
	pthread_join(thread, NULL);
	fx_close(&fx);
}

/* The receiver has posted its receive and may sleep when the message comes. */
static void message_after(struct test *t, struct fx *fx, struct fi_context2 *ctx, unsigned us)
{
	if (run_receives(t))
		RECV(fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = ctx);
	fx_barrier(fx);
	if (run_sends(t)) {
		usleep(us);
		SEND(fx, .tagged = true, .addr = fx->peer, .tag = 1, .ctx = ctx);
		COMP_EXPECT(fx, FX_TX, .ctx = ctx, .flags = SENT_TAGGED);
	}
}

/* The receiver only blocks in fi_cq_sread, which must make progress. */
static void run_sread(struct test *t, enum fi_wait_obj wait)
{
	struct fi_cq_tagged_entry entry;
	struct fi_context2 ctx;
	struct fx fx;
	ssize_t n;

	fx_open(t, &fx, &(struct fx_attr){ .cq_wait = wait });
	for (int i = 0; i < 5; i++) {
		run_step("message %d", i);
		message_after(t, &fx, &ctx, 100000);
		if (run_receives(t)) {
			n = fi_cq_sread(fx.cq[FX_RX], &entry, 1, NULL, 20000);
			CHECK(n == 1 && entry.op_context == &ctx, "sread: %zd", n);
		}
	}
	fx_close(&fx);
}

static void sread_message(struct test *t)
{
	need_wait(t, FI_WAIT_UNSPEC, "FI_WAIT_UNSPEC");
	run_sread(t, FI_WAIT_UNSPEC);
}

static void sread_yield(struct test *t)
{
	need_wait(t, FI_WAIT_YIELD, "FI_WAIT_YIELD");
	run_sread(t, FI_WAIT_YIELD);
}

/* As an event loop does: fi_trywait, poll(), read. */
static bool read_by_poll(struct fx *fx, int fd, struct comp *c)
{
	struct fid *fids[1] = { &fx->cq[FX_RX]->fid };
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int ret = fi_trywait(fx->fabric, fids, 1);

	CHECK(ret == 0 || ret == -FI_EAGAIN, "fi_trywait: %d", ret);
	if (ret == 0)
		CHECK(poll(&pfd, 1, 20000) > 0, "the descriptor stays silent");
	return comp_poll(fx, FX_RX, c);
}

static int descriptor_of(struct fx *fx, enum fi_wait_obj wait)
{
	struct pollfd pfd = { .fd = -1 };
	struct fi_wait_pollfd set = { .nfds = 1, .fd = &pfd };

	if (wait == FI_WAIT_FD)
		CHECK_OK(fi_control(&fx->cq[FX_RX]->fid, FI_GETWAIT, &pfd.fd));
	else
		CHECK_OK(fi_control(&fx->cq[FX_RX]->fid, FI_GETWAIT, &set));
	CHECK(pfd.fd >= 0, "wait descriptor %d", pfd.fd);
	return pfd.fd;
}

static void run_descriptor(struct test *t, enum fi_wait_obj wait)
{
	struct fi_context2 ctx;
	struct comp c;
	struct fx fx;
	int fd;

	fx_open(t, &fx, &(struct fx_attr){ .cq_wait = wait });
	fd = descriptor_of(&fx, wait);
	for (int i = 0; i < 5; i++) {
		run_step("message %d", i);
		message_after(t, &fx, &ctx, 50000);
		if (run_receives(t)) {
			while (!read_by_poll(&fx, fd, &c))
				FX_CHECK_MOVES(&fx, "no completion");
			COMP_SAME(&fx, &c, .ctx = &ctx, .flags = GOT_TAGGED, .tag = 1);
		}
	}
	fx_close(&fx);
}

static void wait_descriptor(struct test *t)
{
	need_wait(t, FI_WAIT_FD, "FI_WAIT_FD");
	run_descriptor(t, FI_WAIT_FD);
}

static void wait_pollfd(struct test *t)
{
	need_wait(t, FI_WAIT_POLLFD, "FI_WAIT_POLLFD");
	run_descriptor(t, FI_WAIT_POLLFD);
}

static void one_cq(struct test *t)
{
	struct fi_context2 tx, rx;
	struct comp c[2];
	struct fx fx;
	bool sent;		/* index of the send's entry */

	fx_open(t, &fx, &(struct fx_attr){ .one_cq = true });
	RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &rx);
	fx_barrier(&fx);
	SEND(&fx, .tagged = true, .addr = fx.peer, .tag = 1, .ctx = &tx);
	COMP_WAIT(&fx, FX_TX, &c[0]);
	COMP_WAIT(&fx, FX_TX, &c[1]);
	sent = c[0].ctx == &rx;
	COMP_SAME(&fx, &c[sent], .ctx = &tx, .flags = SENT_TAGGED);
	COMP_SAME(&fx, &c[!sent], .ctx = &rx, .flags = GOT_TAGGED, .tag = 1);
	fx_close(&fx);
}

/* Six messages with pauses between: four end a wait for four entries, two do not. */
static void threshold(struct test *t)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC,
				   .wait_cond = FI_CQ_COND_THRESHOLD };
	struct fi_cq_tagged_entry entry[8];
	struct fi_context2 ctx[6];
	struct fx fx;
	ssize_t n;

	fx_open_domain(t, &fx, &plain);
	fx_open_endpoint(&fx);
	CHECK_OK(fi_close(&fx.cq[FX_RX]->fid));
	CHECK_OK(fi_cq_open(fx.domain, &attr, &fx.cq[FX_RX], NULL));
	fx_bind_all(&fx);
	CHECK_OK(fi_enable(fx.ep));
	fx_exchange_names(&fx);
	for (int i = 0; i < 6 && run_receives(t); i++)
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .ctx = &ctx[i]);
	fx_barrier(&fx);
	for (int i = 0; i < 6 && run_sends(t); i++) {
		if (i == 4)
			fx_barrier(&fx);
		usleep(20000);
		SEND(&fx, .call = CALL_INJECT, .tagged = true, .addr = fx.peer);
	}
	if (run_receives(t)) {
		n = fi_cq_sread(fx.cq[FX_RX], entry, 8, (void *)4, 20000);
		CHECK(n == 4, "a read of at least 4: %zd", n);
		fx_barrier(&fx);
		n = fi_cq_sread(fx.cq[FX_RX], entry, 2, (void *)4, 20000);
		CHECK(n == 2, "a read of at most 2: %zd", n);
	}
	fx_close(&fx);
}

/* A CQ with FI_WAIT_NONE cannot be waited on; wait objects that do not exist are refused. */
static void without_wait(struct test *t)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE };
	struct fi_cq_tagged_entry entry;
	struct fid *fids[1];
	struct fid_cq *cq;
	struct fx fx;
	int fd;

	fx_open_domain(t, &fx, &plain);
	CHECK_OK(fi_cq_open(fx.domain, &attr, &cq, NULL));
	fids[0] = &cq->fid;
	CHECK(fi_cq_sread(cq, &entry, 1, NULL, 0) == -FI_EINVAL, "a blocking read");
	CHECK_ERR(fi_cq_signal(cq), -FI_EINVAL);
	CHECK_ERR(fi_trywait(fx.fabric, fids, 1), -FI_EINVAL);
	CHECK(fi_control(&cq->fid, FI_GETWAIT, &fd) < 0, "a descriptor of nothing");
	CHECK(fi_cq_read(cq, &entry, 1) == -FI_EAGAIN, "an empty read");
	CHECK_OK(fi_close(&cq->fid));
	attr.wait_obj = FI_WAIT_MUTEX_COND;
	CHECK_ERR(fi_cq_open(fx.domain, &attr, &cq, NULL), -FI_ENOSYS);
	fx_close_now(&fx);
}

const struct test_case cq_cases[] = {
	{ "cq_sizes", "CQs of 0 to 65536 entries open", sizes, .ranks = 1 },
	{ "cq_many", "128 CQs at once", many, .ranks = 1 },
	{ "cq_reads", "empty reads and error strings", reads, .ranks = 1 },
	{ "cq_read_batches", "several entries per read, none lost, in order", read_batches, .ranks = 1 },
	{ "cq_sread_timeout", "a blocking read returns after its timeout", sread_timeout, .ranks = 1 },
	{ "cq_signal_before", "a signal is remembered for the next wait", signal_before, .ranks = 1 },
	{ "cq_signal_during", "a signal ends a wait", signal_during, .ranks = 1 },
	{ "cq_sread_message", "a blocking read makes progress and returns a message", sread_message, .ranks = 2 },
	{ "cq_sread_yield", "the same where a wait only yields", sread_yield, .ranks = 2 },
	{ "cq_wait_descriptor", "poll() on the descriptor after fi_trywait sees messages", wait_descriptor, .ranks = 2 },
	{ "cq_wait_pollfd", "the same with what FI_WAIT_POLLFD gives", wait_pollfd, .ranks = 2 },
	{ "cq_threshold", "a blocking read waits for as many entries as asked", threshold, .ranks = 2 },
	{ "cq_without_wait", "FI_WAIT_NONE: no waiting; others give -FI_ENOSYS", without_wait, .ranks = 1 },
	{ "cq_one_cq", "one CQ serves both directions", one_cq, .self = true },
	{ 0 },
};
