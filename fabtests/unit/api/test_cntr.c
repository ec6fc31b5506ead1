/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Counters: arithmetic and waiting.
 */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "common/slowness.h"
#include "unit/api/api_calls.h"

static struct fid_cntr *cntr;

static void open_cntr(enum fi_wait_obj wait_obj)
{
	struct fi_cntr_attr attr = {
		.events = FI_CNTR_EVENTS_COMP, .wait_obj = wait_obj,
	};

	cr_assert_eq(fi_cntr_open(api.domain, &attr, &cntr, NULL), 0);
}

static void tear_down(void)
{
	if (cntr)
		api_must_close(&cntr->fid);
	api_tear_down();
}

TestSuite(cntr, .init = api_set_up, .fini = tear_down, .timeout = 30);

static void expect(uint64_t value, uint64_t err)
{
	cr_expect_eq(fi_cntr_read(cntr), value);
	cr_expect_eq(fi_cntr_readerr(cntr), err);
}

Test(cntr, adds_and_sets)
{
	open_cntr(FI_WAIT_NONE);
	expect(0, 0);
	cr_expect_eq(fi_cntr_add(cntr, 5), 0);
	cr_expect_eq(fi_cntr_add(cntr, 1ULL << 40), 0);
	cr_expect_eq(fi_cntr_adderr(cntr, 3), 0);
	expect((1ULL << 40) + 5, 3);
	cr_expect_eq(fi_cntr_set(cntr, 7), 0);
	cr_expect_eq(fi_cntr_seterr(cntr, 9), 0);
	expect(7, 9);
}

static void check_waits(enum fi_wait_obj wait_obj)
{
	uint64_t start;

	open_cntr(wait_obj);
	fi_cntr_add(cntr, 3);
	cr_expect_eq(fi_cntr_wait(cntr, 3, -1), 0);
	cr_expect_eq(fi_cntr_wait(cntr, 0, 0), 0);
	cr_expect_eq(fi_cntr_wait(cntr, 4, 0), -FI_ETIMEDOUT);
	start = tagrv_clock_ms();
	cr_expect_eq(fi_cntr_wait(cntr, 4, 100), -FI_ETIMEDOUT);
	cr_expect_geq(tagrv_clock_ms() - start, 95);
}

Test(cntr, waits_end_by_threshold_or_timeout)
{
	check_waits(FI_WAIT_UNSPEC);
}

Test(cntr, waits_without_wait_object_spin)
{
	check_waits(FI_WAIT_NONE);
}

Test(cntr, waits_that_yield_end_by_threshold_or_timeout)
{
	struct fid *fids[1];

	check_waits(FI_WAIT_YIELD);
	fids[0] = &cntr->fid;
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), -FI_EINVAL);
}

static uint64_t later_err;

static void *later(void *arg)
{
	(void) arg;
	usleep(50000);
	if (later_err)
		fi_cntr_adderr(cntr, later_err);
	else
		fi_cntr_set(cntr, 100);
	return NULL;
}

static int wait_while(uint64_t err)
{
	pthread_t thread;
	int ret;

	later_err = err;
	cr_assert_eq(pthread_create(&thread, NULL, later, NULL), 0);
	ret = fi_cntr_wait(cntr, 100, 10000);
	pthread_join(thread, NULL);
	return ret;
}

Test(cntr, other_threads_end_a_wait)
{
	uint64_t start = tagrv_clock_ms();

	open_cntr(FI_WAIT_UNSPEC);
	fi_cntr_seterr(cntr, 1);
	cr_expect_eq(wait_while(1), -FI_EAVAIL);
	cr_expect_eq(wait_while(0), 0);
	cr_expect_lt(tagrv_clock_ms() - start, slow_ms(5000));
}

Test(cntr, the_descriptor_follows_the_counter)
{
	struct fid *fids[1];
	int fd;

	open_cntr(FI_WAIT_FD);
	fids[0] = &cntr->fid;
	cr_assert_eq(fi_control(&cntr->fid, FI_GETWAIT, &fd), 0);
	cr_assert_eq(fi_trywait(api.fabric, fids, 1), 0);
	cr_expect_not(api_readable(fd));
	fi_cntr_add(cntr, 1);
	cr_expect(api_readable(fd));
	cr_expect_eq(fi_cntr_read(cntr), 1);
	cr_assert_eq(fi_trywait(api.fabric, fids, 1), 0);
	cr_expect_not(api_readable(fd));
}

Test(cntr, pollfd_is_one_descriptor)
{
	struct pollfd pfd = { .fd = -1 };
	struct fi_wait_pollfd wait = { .nfds = 1, .fd = &pfd };
	struct fid *fids[1];

	open_cntr(FI_WAIT_POLLFD);
	fids[0] = &cntr->fid;
	cr_assert_eq(fi_control(&cntr->fid, FI_GETWAIT, &wait), 0);
	cr_assert_eq(fi_trywait(api.fabric, fids, 1), 0);
	cr_expect_eq(poll(&pfd, 1, 0), 0);
	fi_cntr_add(cntr, 1);
	cr_expect_eq(poll(&pfd, 1, 0), 1);
}

/* Arming clears the signal: a change that was not read yet must end fi_trywait. */
Test(cntr, trywait_refuses_to_sleep_once_per_change)
{
	struct fid *fids[1];

	open_cntr(FI_WAIT_FD);
	fids[0] = &cntr->fid;
	fi_cntr_add(cntr, 1);
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), -FI_EAGAIN);
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), 0);
	fi_cntr_adderr(cntr, 1);
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), -FI_EAGAIN);
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), 0);
	fi_cntr_add(cntr, 1);
	expect(2, 1);
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), 0);
	fi_cntr_set(cntr, 0);
	cr_expect_eq(fi_cntr_readerr(cntr), 1);
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), -FI_EAGAIN);
}

Test(cntr, attributes_are_checked)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_MUTEX_COND };
	struct fid_cntr *other;

	cr_expect_eq(fi_cntr_open(api.domain, &attr, &other, NULL), -FI_ENOSYS);
	attr.wait_obj = FI_WAIT_NONE;
	attr.flags = FI_PEER;
	cr_expect_eq(fi_cntr_open(api.domain, &attr, &other, NULL),
		     -FI_EBADFLAGS);
	attr.flags = 0;
	attr.events = (enum fi_cntr_events) 1;
	cr_expect_eq(fi_cntr_open(api.domain, &attr, &other, NULL), -FI_ENOSYS);
	cr_assert_eq(fi_cntr_open(api.domain, NULL, &other, &api), 0);
	cr_expect_eq(other->fid.context, &api);
	api_must_close(&other->fid);
}
