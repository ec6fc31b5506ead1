/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads that sleep on queues and counters while others work.
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "common/slowness.h"
#include "unit/api/api_calls.h"

#define PATIENCE_MS	slow_ms(5000)

enum { ASLEEP_US = 50000 };

TestSuite(wait, .init = api_init, .fini = api_tear_down, .timeout = 60);

/* fi_cq(3): an interrupted read returns what it would at its timeout. */
Test(wait, an_interrupted_read_finds_nothing)
{
	uint64_t start = tagrv_clock_ms();
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	api_open_domain(&api, NULL);
	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
	api_alarm(50);
	ret = fi_cq_sread(api.cq, &entry, 1, NULL, 2 * PATIENCE_MS);
	cr_expect_eq(ret, -FI_EAGAIN, "%s", fi_strerror((int) -ret));
	cr_expect_lt(tagrv_clock_ms() - start, PATIENCE_MS);
}

/* ---- threads with different thresholds ---- */

struct waiter {
	pthread_t thread;
	struct fid_cntr *cntr;
	uint64_t threshold;
	int	ret;
	atomic_bool over;
};

static void *wait_for(void *arg)
{
	struct waiter *waiter = arg;

	waiter->ret = fi_cntr_wait(waiter->cntr, waiter->threshold,
				   2 * PATIENCE_MS);
	waiter->over = true;
	return NULL;
}

static void start(struct waiter *waiter, struct fid_cntr *cntr,
		  uint64_t threshold)
{
	*waiter = (struct waiter) { .cntr = cntr, .threshold = threshold };
	cr_assert_eq(pthread_create(&waiter->thread, NULL, wait_for, waiter),
		     0);
	usleep(ASLEEP_US);
}

static void join(struct waiter *waiter)
{
	pthread_join(waiter->thread, NULL);
	cr_expect_eq(waiter->ret, 0);
}

/* Uses one processor, so that one thread is done before the other begins. */
static void use_one_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t) sched_getcpu(), &set);
	cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}

static void check_pair(struct fid_cntr *cntr, uint64_t first, uint64_t second)
{
	uint64_t end = tagrv_clock_ms() + PATIENCE_MS;
	struct waiter a, b, *low = first < second ? &a : &b;

	start(&a, cntr, first);
	start(&b, cntr, second);
	fi_cntr_add(cntr, 1);
	while (!low->over && tagrv_clock_ms() < end)
		usleep(1000);
	cr_expect(low->over, "thresholds %d and %d", (int) first,
		  (int) second);
	fi_cntr_set(cntr, 100);
	join(&a);
	join(&b);
	fi_cntr_set(cntr, 0);
}

/* A thread that goes on sleeping must not swallow the other's wake-up. */
Test(wait, each_thread_has_its_own_threshold)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	use_one_cpu();
	api_open_domain(&api, NULL);
	cr_assert_eq(fi_cntr_open(api.domain, &attr, &api.cntr, NULL), 0);
	for (int i = 0; i < 2; i++) {
		check_pair(api.cntr, 1, 100);
		check_pair(api.cntr, 100, 1);
	}
}

/* ---- messages to oneself ---- */

static void *read_one(void *arg)
{
	struct fi_cq_tagged_entry entry;
	ssize_t *ret = arg;

	*ret = fi_cq_sread(api.cq, &entry, 1, NULL, 2 * PATIENCE_MS);
	return NULL;
}

static void inject(uint64_t tag)
{
	cr_assert_eq(fi_tinject(api.ep, NULL, 0, api.self, tag), 0);
}

/* One thread sends and reads no queue; the other one sleeps on its queue. */
Test(wait, a_message_to_oneself_wakes_another_thread)
{
	struct fi_msg_tagged msg = { .tag = 2 };
	struct fi_cq_tagged_entry entry;
	pthread_t thread;
	uint64_t start;
	ssize_t ret;

	api_open_ep(&api, NULL, FI_SELECTIVE_COMPLETION);
	msg.addr = api.self;
	cr_assert_eq(fi_trecvmsg(api.ep, &msg, FI_COMPLETION), 0);
	inject(1);		/* connects */
	cr_expect_eq(fi_cq_read(api.cq, &entry, 1), -FI_EAGAIN);
	cr_assert_eq(pthread_create(&thread, NULL, read_one, &ret), 0);
	usleep(ASLEEP_US);
	start = tagrv_clock_ms();
	inject(2);
	pthread_join(thread, NULL);
	cr_expect_eq(ret, 1);
	cr_expect_lt(tagrv_clock_ms() - start, PATIENCE_MS);
}
