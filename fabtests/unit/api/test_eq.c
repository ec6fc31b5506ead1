/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Event queues: order, limits, waiting.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/slowness.h"
#include "unit/api/api_calls.h"

static struct fid_eq *eq;

static void open_eq(size_t size, uint64_t flags, enum fi_wait_obj wait_obj)
{
	struct fi_eq_attr attr = {
		.size = size, .flags = flags, .wait_obj = wait_obj,
	};

	cr_assert_eq(fi_eq_open(api.fabric, &attr, &eq, NULL), 0);
}

static void tear_down(void)
{
	if (eq)
		api_must_close(&eq->fid);
	api_tear_down();
}

TestSuite(eq, .init = api_set_up, .fini = tear_down, .timeout = 30);

static ssize_t put(uintptr_t number)
{
	struct fi_eq_entry entry = {
		.fid = &api.fabric->fid, .context = (void *) number,
		.data = 3 * number,
	};

	return fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0);
}

static void expect(uintptr_t number, uint64_t flags)
{
	struct fi_eq_entry entry;
	uint32_t event = 77;

	cr_assert_eq(fi_eq_read(eq, &event, &entry, sizeof(entry), flags),
		     sizeof(entry));
	cr_expect_eq(event, FI_NOTIFY);
	cr_expect_eq(entry.fid, &api.fabric->fid);
	cr_expect_eq(entry.context, (void *) number);
	cr_expect_eq(entry.data, 3 * number);
}

static void expect_empty(void)
{
	struct fi_eq_err_entry err = { 0 };
	struct fi_eq_entry entry;
	uint32_t event;

	cr_expect_eq(fi_eq_read(eq, &event, &entry, sizeof(entry), 0),
		     -FI_EAGAIN);
	cr_expect_eq(fi_eq_readerr(eq, &err, 0), -FI_EAGAIN);
}

Test(eq, events_come_back_in_order_peeked_or_not)
{
	open_eq(32, FI_WRITE, FI_WAIT_NONE);
	expect_empty();
	for (uintptr_t i = 0; i < 32; i++)
		cr_assert_eq(put(i), sizeof(struct fi_eq_entry));
	cr_expect_eq(put(32), -FI_EAGAIN, "the queue is full");
	for (uintptr_t i = 0; i < 32; i++) {
		expect(i, FI_PEEK);
		expect(i, 0);
	}
	expect_empty();
	cr_assert_eq(put(5), sizeof(struct fi_eq_entry));
}

Test(eq, buffers_and_rights_are_checked)
{
	uint32_t event;
	char small[4];

	open_eq(4, FI_WRITE, FI_WAIT_NONE);
	put(1);
	cr_expect_eq(fi_eq_read(eq, &event, small, sizeof(small), 0),
		     -FI_ETOOSMALL);
	expect(1, 0);
	api_must_close(&eq->fid);
	open_eq(4, 0, FI_WAIT_NONE);
	cr_expect_eq(put(1), -FI_EINVAL, "not opened for writing");
	cr_expect_str_eq(fi_eq_strerror(eq, FI_EINVAL, NULL, NULL, 0),
			 fi_strerror(FI_EINVAL));
}

Test(eq, attributes_are_checked)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_MUTEX_COND };
	struct fid_eq *other;

	cr_expect_eq(fi_eq_open(api.fabric, &attr, &other, NULL), -FI_ENOSYS);
	attr.wait_obj = FI_WAIT_NONE;
	attr.flags = FI_PEER;
	cr_expect_eq(fi_eq_open(api.fabric, &attr, &other, NULL),
		     -FI_EBADFLAGS);
	cr_assert_eq(fi_eq_open(api.fabric, NULL, &other, &api), 0);
	cr_expect_eq(other->fid.context, &api);
	api_must_close(&other->fid);
}

Test(eq, the_descriptor_follows_the_queue)
{
	struct fid *fids[1];
	int fd = -1;

	open_eq(4, FI_WRITE, FI_WAIT_FD);
	fids[0] = &eq->fid;
	cr_assert_eq(fi_control(&eq->fid, FI_GETWAIT, &fd), 0);
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), 0);
	cr_expect_not(api_readable(fd));
	put(1);
	put(2);
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), -FI_EAGAIN);
	expect(1, FI_PEEK);
	cr_expect(api_readable(fd));
	expect(1, 0);
	cr_expect(api_readable(fd));
	expect(2, 0);
	cr_expect_not(api_readable(fd));
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), 0);
}

static void *put_later(void *arg)
{
	(void) arg;
	usleep(50000);
	put(9);
	return NULL;
}

Test(eq, blocking_reads_end_by_event_or_timeout)
{
	struct fi_eq_entry entry;
	uint64_t start = tagrv_clock_ms();
	pthread_t thread;
	uint32_t event;

	open_eq(4, FI_WRITE, FI_WAIT_UNSPEC);
	cr_expect_eq(fi_eq_sread(eq, &event, &entry, sizeof(entry), 100, 0),
		     -FI_EAGAIN);
	cr_expect_geq(tagrv_clock_ms() - start, 95);
	cr_assert_eq(pthread_create(&thread, NULL, put_later, NULL), 0);
	start = tagrv_clock_ms();
	cr_expect_eq(fi_eq_sread(eq, &event, &entry, sizeof(entry), -1,
				 FI_PEEK), sizeof(entry));
	cr_expect_lt(tagrv_clock_ms() - start, slow_ms(5000));
	pthread_join(thread, NULL);
	expect(9, 0);
}

Test(eq, an_interrupted_read_finds_nothing)
{
	struct fi_eq_entry entry;
	uint32_t event;
	ssize_t ret;

	open_eq(4, FI_WRITE, FI_WAIT_UNSPEC);
	api_alarm(50);
	ret = fi_eq_sread(eq, &event, &entry, sizeof(entry), 10000, 0);
	cr_expect_eq(ret, -FI_EAGAIN, "%s", fi_strerror((int) -ret));
}

Test(eq, closing_frees_unread_events)
{
	open_eq(100, FI_WRITE, FI_WAIT_NONE);
	for (uintptr_t i = 0; i < 50; i++)
		put(i);
}
