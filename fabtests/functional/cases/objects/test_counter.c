/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Counters: set, add, wait; and how operations count.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

static const struct fx_attr counted = { .counters = true };

/* Waits for the values, which may become visible a little later. */
static void expect_value(struct fid_cntr *cntr, uint64_t value, uint64_t err)
{
	while (fi_cntr_read(cntr) != value || fi_cntr_readerr(cntr) != err) {
		CHECK_MOVES("counter %" PRIu64 " errors %" PRIu64 ", want %" PRIu64
			    " and %" PRIu64, fi_cntr_read(cntr), fi_cntr_readerr(cntr), value, err);
		sched_yield();
	}
}

static struct fid_cntr *open_counter(struct fx *fx, enum fi_wait_obj wait)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = wait };
	struct fid_cntr *cntr;

	CHECK_OK(fi_cntr_open(fx->domain, &attr, &cntr, NULL));
	return cntr;
}

static void arithmetic(struct test *t)
{
	struct fid_cntr *cntr;
	struct fx fx;

	fx_open_domain(t, &fx, &counted);
	cntr = open_counter(&fx, FI_WAIT_NONE);
	expect_value(cntr, 0, 0);
	CHECK_OK(fi_cntr_add(cntr, 5));
	CHECK_OK(fi_cntr_add(cntr, 1ULL << 40));
	expect_value(cntr, (1ULL << 40) + 5, 0);
	CHECK_OK(fi_cntr_adderr(cntr, 3));
	expect_value(cntr, (1ULL << 40) + 5, 3);
	CHECK_OK(fi_cntr_set(cntr, 7));
	CHECK_OK(fi_cntr_seterr(cntr, 0));
	expect_value(cntr, 7, 0);
	CHECK_OK(fi_close(&cntr->fid));
	fx_close_now(&fx);
}

static void many(struct test *t)
{
	struct fid_cntr *cntr[100];
	size_t n = sizeof(cntr) / sizeof(cntr[0]);
	struct fx fx;

	fx_open_domain(t, &fx, &counted);
	if (fx.info->domain_attr->cntr_cnt < n)
		n = fx.info->domain_attr->cntr_cnt;
	for (size_t i = 0; i < n; i++) {
		cntr[i] = open_counter(&fx, FI_WAIT_UNSPEC);
		CHECK_OK(fi_cntr_add(cntr[i], i));
	}
	for (size_t i = 0; i < n; i++) {
		expect_value(cntr[i], i, 0);
		CHECK_OK(fi_close(&cntr[i]->fid));
	}
	fx_close_now(&fx);
}

static void wait_timeout(struct test *t)
{
	struct fid_cntr *cntr;
	struct fx fx;
	int64_t start;

	fx_open_domain(t, &fx, &counted);
	cntr = open_counter(&fx, FI_WAIT_UNSPEC);
	CHECK_OK(fi_cntr_add(cntr, 3));
	CHECK_OK(fi_cntr_wait(cntr, 3, 10000));
	CHECK_OK(fi_cntr_wait(cntr, 0, -1));
	start = run_now();
	CHECK_ERR(fi_cntr_wait(cntr, 4, 300), -FI_ETIMEDOUT);
	CHECK(run_now() - start >= 250, "a wait of 300 ms took %d ms", (int)(run_now() - start));
	CHECK(run_now() - start < run_slow_ms(5000), "a wait of 300 ms took %d ms", (int)(run_now() - start));
	CHECK_OK(fi_close(&cntr->fid));
	fx_close_now(&fx);
}

static void *add_error_later(void *arg)
{
	usleep(200000);
	CHECK_OK(fi_cntr_adderr(arg, 1));
	return NULL;
}

static void wait_error(struct test *t)
{
	struct fid_cntr *cntr;
	pthread_t thread;
	struct fx fx;
	int ret;

	fx_open_domain(t, &fx, &(struct fx_attr){ .threading = FI_THREAD_SAFE });
	cntr = open_counter(&fx, FI_WAIT_UNSPEC);
	CHECK(!pthread_create(&thread, NULL, add_error_later, cntr), "no thread");
	ret = fi_cntr_wait(cntr, 1, 20000);
	CHECK(ret && ret != -FI_ETIMEDOUT, "a wait ended by an error gave %d", ret);
	pthread_join(thread, NULL);
	expect_value(cntr, 0, 1);
	CHECK_OK(fi_close(&cntr->fid));
	fx_close_now(&fx);
}

static void drain(struct fx *fx, enum fx_side side, size_t n)
{
	struct comp c;

	while (n--) {
		COMP_WAIT(fx, side, &c);
		CHECK(!c.err, "completion with error %d", c.err);
	}
}

/* One send by each call: plain, msg, data, inject, inject data; tagged and not. */
static void send_one_of_each(struct fx *fx)
{
	/* Static: sends that are not injected read it after the call. */
	static char zeros[8];

	for (int tagged = 0; tagged < 2; tagged++)
		for (enum msg_call call = CALL_BUF; call <= CALL_INJECTDATA; call++)
			SEND(fx, .call = call, .tagged = tagged, .buf = zeros, .len = sizeof(zeros),
			     .addr = fx->peer, .tag = 1);
}

static void counts(struct test *t)
{
	char in[8];
	struct fx fx;

	fx_open(t, &fx, &counted);
	if (run_receives(t))
		for (int i = 0; i < 12; i++)
			RECV(&fx, .tagged = i & 1, .buf = in, .len = sizeof(in),
			     .addr = FI_ADDR_UNSPEC, .tag = 1);
	fx_barrier(&fx);
	if (run_sends(t)) {
		send_one_of_each(&fx);
		drain(&fx, FX_TX, 8);
		expect_value(fx.cntr[FX_TX], 12, 0);
	}
	if (run_receives(t)) {
		drain(&fx, FX_RX, 12);
		expect_value(fx.cntr[FX_RX], 12, 0);
	}
	if (!t->opt->self)
		expect_value(fx.cntr[run_sends(t) ? FX_RX : FX_TX], 0, 0);
	fx_close(&fx);
}

/* Operations without completion count too, and waiting on a counter makes progress. */
static void wait_for_messages(struct test *t)
{
	struct fx_attr attr = {
		.counters = true,
		.tx_bind = FI_SELECTIVE_COMPLETION,
		.rx_bind = FI_SELECTIVE_COMPLETION,
	};
	static char buf[1 << 20];
	struct fx fx;

	fx_open(t, &fx, &attr);
	for (uint64_t i = 1; i <= 5; i++) {
		run_step("round %" PRIu64, i);
		if (run_receives(t))
			RECV(&fx, .tagged = true, .buf = buf, .len = sizeof(buf),
			     .addr = FI_ADDR_UNSPEC, .tag = i);
		fx_barrier(&fx);
		if (run_sends(t)) {
			SEND(&fx, .tagged = true, .buf = buf, .len = i & 1 ? 64 : sizeof(buf),
			     .addr = fx.peer, .tag = i);
			CHECK_OK(fi_cntr_wait(fx.cntr[FX_TX], i, -1));
		}
		if (run_receives(t))
			CHECK_OK(fi_cntr_wait(fx.cntr[FX_RX], i, -1));
	}
	fx_close(&fx);
}

static void receive_error(struct test *t)
{
	struct fi_context2 ctx;
	char in[4], out[8] = { 0 };
	struct fx fx;

	fx_open(t, &fx, &counted);
	if (run_receives(t))
		RECV(&fx, .tagged = true, .buf = in, .len = sizeof(in), .addr = FI_ADDR_UNSPEC,
		     .tag = 1, .ctx = &ctx);
	fx_barrier(&fx);
	if (run_sends(t)) {
		SEND(&fx, .tagged = true, .buf = out, .len = sizeof(out), .addr = fx.peer, .tag = 1,
		     .ctx = &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
		expect_value(fx.cntr[FX_TX], 1, 0);
	}
	if (run_receives(t)) {
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = FI_RECV, .err = FI_ETRUNC, .len = 4,
			    .olen = 4);
		expect_value(fx.cntr[FX_RX], 0, 1);
		CHECK(fi_cntr_wait(fx.cntr[FX_RX], 1, 200) != 0, "an error counted as success");
	}
	fx_close(&fx);
}

/* One turn of an event loop: sleeps until the counter changes. */
static void sleep_for(struct fx *fx, int fd)
{
	struct fid *fids[1] = { &fx->cntr[FX_RX]->fid };
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int ret = fi_trywait(fx->fabric, fids, 1);

	CHECK(ret == 0 || ret == -FI_EAGAIN, "fi_trywait: %d", ret);
	if (ret == 0)
		CHECK(poll(&pfd, 1, 20000) > 0, "the descriptor stays silent");
}

static void wait_descriptor(struct test *t)
{
	struct fi_context2 ctx[10];
	struct fx fx;
	int fd = -1;

	fx_open(t, &fx, &counted);
	CHECK_OK(fi_control(&fx.cntr[FX_RX]->fid, FI_GETWAIT, &fd));
	for (int i = 0; i < 10; i++)
		if (run_receives(t))
			RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .ctx = &ctx[i]);
	fx_barrier(&fx);
	for (uint64_t i = 1; i <= 10; i++) {
		run_step("message %d", (int)i);
		if (run_sends(t)) {
			usleep(20000);
			SEND(&fx, .call = CALL_INJECT, .tagged = true, .addr = fx.peer);
		}
		while (run_receives(t) && fi_cntr_read(fx.cntr[FX_RX]) < i) {
			sleep_for(&fx, fd);
			FX_CHECK_MOVES(&fx, "the counter does not move");
		}
	}
	if (run_receives(t))
		drain(&fx, FX_RX, 10);
	fx_close(&fx);
}

const struct test_case counter_cases[] = {
	{ "counter_arithmetic", "set, add and their error twins", arithmetic, .ranks = 1 },
	{ "counter_many", "100 counters are independent", many, .ranks = 1 },
	{ "counter_wait_timeout", "waits return at the threshold or time out", wait_timeout, .ranks = 1 },
	{ "counter_wait_error", "an error ends a wait", wait_error, .ranks = 1 },
	{ "counter_counts", "each kind of send and receive counts once", counts, .self = true },
	{ "counter_wait_for_messages", "a wait makes progress; silent operations count", wait_for_messages, .ranks = 2 },
	{ "counter_wait_descriptor", "poll() on the descriptor after fi_trywait sees messages",
	  wait_descriptor, .ranks = 2 },
	{ "counter_receive_error", "a truncated receive counts as error", receive_error, .self = true },
	{ 0 },
};
