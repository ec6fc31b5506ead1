/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues: blocking reads, signals, descriptors, thresholds.
 */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "common/slowness.h"
#include "unit/api/api_calls.h"

TestSuite(cq_wait, .init = api_set_up, .fini = api_tear_down, .timeout = 30);

static struct fid_cq *later_cq;
static bool later_signal;

static void *later(void *arg)
{
	(void) arg;
	usleep(50000);
	if (later_signal)
		cr_expect_eq(fi_cq_signal(later_cq), 0);
	else
		api_push(later_cq, 1, 0);
	return NULL;
}

static ssize_t sread_while(bool signal, int timeout, uint64_t *took)
{
	struct fi_cq_tagged_entry entry;
	uint64_t start = tagrv_clock_ms();
	pthread_t thread;
	ssize_t ret;

	later_cq = api.cq;
	later_signal = signal;
	cr_assert_eq(pthread_create(&thread, NULL, later, NULL), 0);
	ret = fi_cq_sread(api.cq, &entry, 1, NULL, timeout);
	*took = tagrv_clock_ms() - start;
	pthread_join(thread, NULL);
	return ret;
}

Test(cq_wait, blocking_reads_end_by_completion_signal_or_timeout)
{
	struct fi_cq_tagged_entry entry;
	uint64_t took;

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
	took = tagrv_clock_ms();
	cr_expect_eq(fi_cq_sread(api.cq, &entry, 1, NULL, 100), -FI_EAGAIN);
	cr_expect_geq(tagrv_clock_ms() - took, 95);
	cr_expect_eq(sread_while(false, -1, &took), 1);
	cr_expect_lt(took, slow_ms(5000));
	cr_expect_eq(sread_while(true, -1, &took), -FI_EAGAIN);
	cr_expect_lt(took, slow_ms(5000));
}

Test(cq_wait, a_signal_is_remembered_once)
{
	struct fi_cq_tagged_entry entry;
	uint64_t start = tagrv_clock_ms();

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
	cr_expect_eq(fi_cq_signal(api.cq), 0);
	cr_expect_eq(fi_cq_sread(api.cq, &entry, 1, NULL, 10000), -FI_EAGAIN);
	cr_expect_lt(tagrv_clock_ms() - start, slow_ms(1000));
	start = tagrv_clock_ms();
	cr_expect_eq(fi_cq_sread(api.cq, &entry, 1, NULL, 50), -FI_EAGAIN);
	cr_expect_geq(tagrv_clock_ms() - start, 45);
}

Test(cq_wait, the_descriptor_follows_the_queue)
{
	struct fi_cq_tagged_entry entry;
	struct fid *fids[1];
	int fd = -1;

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_FD);
	fids[0] = &api.cq->fid;
	cr_assert_eq(fi_control(&api.cq->fid, FI_GETWAIT, &fd), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(fi_trywait(api.fabric, fids, 1), 0);
		cr_expect_not(api_readable(fd));
		api_push(api.cq, 1, 0);
		cr_expect(api_readable(fd));
		cr_expect_eq(fi_trywait(api.fabric, fids, 1), -FI_EAGAIN);
		cr_expect_eq(fi_cq_read(api.cq, &entry, 1), 1);
	}
	cr_assert_eq(fi_trywait(api.fabric, fids, 1), 0);
	cr_expect_eq(fi_cq_signal(api.cq), 0);
	cr_expect(api_readable(fd));
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), -FI_EAGAIN);
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), 0);
	cr_expect_not(api_readable(fd));
}

#define WAITERS	4

static void *wait_for_one(void *arg)
{
	struct fi_cq_tagged_entry entry;
	ssize_t *ret = arg;

	*ret = fi_cq_sread(api.cq, &entry, 1, NULL, 10000);
	return NULL;
}

Test(cq_wait, several_threads_wait_on_one_queue)
{
	uint64_t start = tagrv_clock_ms();
	pthread_t threads[WAITERS];
	ssize_t ret[WAITERS];

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
	for (int i = 0; i < WAITERS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, wait_for_one,
					    &ret[i]), 0);
	usleep(50000);
	for (int i = 0; i < WAITERS; i++)
		api_push(api.cq, 1, 0);
	for (int i = 0; i < WAITERS; i++) {
		pthread_join(threads[i], NULL);
		cr_expect_eq(ret[i], 1);
	}
	cr_expect_lt(tagrv_clock_ms() - start, slow_ms(5000));
}

Test(cq_wait, without_wait_object_there_is_no_waiting)
{
	struct fi_cq_tagged_entry entry;
	enum fi_wait_obj obj;
	int fd;

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	cr_expect_eq(fi_cq_sread(api.cq, &entry, 1, NULL, 0), -FI_EINVAL);
	cr_expect_eq(fi_cq_signal(api.cq), -FI_EINVAL);
	cr_expect_eq(fi_control(&api.cq->fid, FI_GETWAIT, &fd), -FI_ENODATA);
	cr_expect_eq(fi_control(&api.cq->fid, FI_GETWAITOBJ, &obj), 0);
	cr_expect_eq(obj, FI_WAIT_NONE);
}

Test(cq_wait, a_yielding_queue_has_no_descriptor)
{
	struct fi_cq_tagged_entry entry;
	struct fid *fids[1];
	enum fi_wait_obj obj;
	uint64_t took;
	int fd;

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_YIELD);
	fids[0] = &api.cq->fid;
	took = tagrv_clock_ms();
	cr_expect_eq(fi_cq_sread(api.cq, &entry, 1, NULL, 50), -FI_EAGAIN);
	cr_expect_geq(tagrv_clock_ms() - took, 45);
	cr_expect_eq(sread_while(false, -1, &took), 1);
	cr_expect_eq(sread_while(true, -1, &took), -FI_EAGAIN);
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), -FI_EINVAL);
	cr_expect_eq(fi_control(&api.cq->fid, FI_GETWAIT, &fd), -FI_ENODATA);
	cr_expect_eq(fi_control(&api.cq->fid, FI_GETWAITOBJ, &obj), 0);
	cr_expect_eq(obj, FI_WAIT_YIELD);
}

Test(cq_wait, pollfd_is_one_descriptor)
{
	struct fi_wait_pollfd wait = { .nfds = 0 };
	struct pollfd pfd = { .fd = -1 };
	struct fid *fids[1];
	enum fi_wait_obj obj;

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_POLLFD);
	fids[0] = &api.cq->fid;
	cr_expect_eq(fi_control(&api.cq->fid, FI_GETWAITOBJ, &obj), 0);
	cr_expect_eq(obj, FI_WAIT_POLLFD);
	cr_expect_eq(fi_control(&api.cq->fid, FI_GETWAIT, &wait), -FI_ETOOSMALL);
	cr_assert_eq(wait.nfds, 1);
	wait.fd = &pfd;
	cr_assert_eq(fi_control(&api.cq->fid, FI_GETWAIT, &wait), 0);
	cr_expect_eq(wait.nfds, 1);
	cr_expect_eq(pfd.events, POLLIN);
	cr_assert_eq(fi_trywait(api.fabric, fids, 1), 0);
	cr_expect_eq(poll(&pfd, 1, 0), 0);
	api_push(api.cq, 1, 0);
	cr_expect_eq(poll(&pfd, 1, 0), 1);
}

static void *push_two_and_an_error(void *cq)
{
	api_push(cq, 2, 0);
	usleep(10000);
	api_push(cq, 3, 0);
	usleep(10000);
	api_push(cq, 4, FI_EIO);
	return NULL;
}

Test(cq_wait, a_read_waits_for_its_threshold)
{
	struct fi_cq_attr attr = {
		.size = 8, .format = FI_CQ_FORMAT_CONTEXT,
		.wait_obj = FI_WAIT_UNSPEC, .wait_cond = FI_CQ_COND_THRESHOLD,
	};
	struct fi_cq_entry entry[16];
	pthread_t thread;

	cr_assert_eq(fi_cq_open(api.domain, &attr, &api.cq, NULL), 0);
	api_push(api.cq, 1, 0);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 2, 10), 1,
		     "what is there when time is up");
	api_push(api.cq, 1, 0);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 1, (void *) 2, -1), 1,
		     "no more than there is room for");
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 2, 0), -FI_EAGAIN);
	api_push(api.cq, 1, 0);
	cr_assert_eq(pthread_create(&thread, NULL, push_two_and_an_error,
				    api.cq), 0);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 3, -1), 3);
	/* An error ends the wait, even behind too few entries. */
	pthread_join(thread, NULL);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 3, -1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(api.cq, &(struct fi_cq_err_entry) { 0 }, 0), 1);
	api_push(api.cq, 5, 0);
	api_push(api.cq, 6, FI_EIO);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 3, -1), 1);
	cr_assert_eq(fi_cq_readerr(api.cq, &(struct fi_cq_err_entry) { 0 }, 0), 1);
	/* A threshold above the queue's size waits for a full queue. */
	for (uintptr_t i = 0; i < 8; i++)
		api_push(api.cq, i, 0);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 12, -1), 8);
}
