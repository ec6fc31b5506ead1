/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Event queues: write, read, peek, wait.
 */
#include "cases/cases.h"
#include "framework/fixture.h"

#include <poll.h>
#include <string.h>

struct eq_test {
	struct fx fx;		/* only its fabric is used */
	struct fid_eq *eq;
};

static void open_eq(struct test *t, struct eq_test *e, size_t size, enum fi_wait_obj wait)
{
	static const struct fx_attr plain;
	struct fi_eq_attr attr = { .size = size, .flags = FI_WRITE, .wait_obj = wait };

	fx_open_domain(t, &e->fx, &plain);
	CHECK_OK(fi_eq_open(e->fx.fabric, &attr, &e->eq, NULL));
}

static void close_eq(struct eq_test *e)
{
	CHECK_OK(fi_close(&e->eq->fid));
	fx_close_now(&e->fx);
}

static void write_event(struct eq_test *e, uintptr_t id)
{
	struct fi_eq_entry entry = {
		.fid = &e->fx.fabric->fid,
		.context = (void *)id,
		.data = id * 3,
	};
	ssize_t n = fi_eq_write(e->eq, FI_NOTIFY, &entry, sizeof(entry), 0);

	CHECK(n == sizeof(entry), "fi_eq_write: %zd", n);
}

static void check_event(const struct eq_test *e, ssize_t n, uint32_t event,
			const struct fi_eq_entry *entry, uintptr_t id)
{
	CHECK(n == sizeof(*entry), "fi_eq_read: %zd", n);
	CHECK(event == FI_NOTIFY, "event %u", event);
	CHECK(entry->fid == &e->fx.fabric->fid, "wrong fid");
	CHECK(entry->context == (void *)id && entry->data == id * 3, "event %p, want %p",
	      entry->context, (void *)id);
}

static void read_event(struct eq_test *e, uintptr_t id, uint64_t flags)
{
	struct fi_eq_entry entry;
	uint32_t event = 0;
	ssize_t n = fi_eq_read(e->eq, &event, &entry, sizeof(entry), flags);

	check_event(e, n, event, &entry, id);
}

static void must_be_empty(struct eq_test *e)
{
	struct fi_eq_err_entry err = { 0 };
	struct fi_eq_entry entry;
	uint32_t event;

	CHECK_ERR(fi_eq_read(e->eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	CHECK_ERR(fi_eq_read(e->eq, &event, &entry, sizeof(entry), FI_PEEK), -FI_EAGAIN);
	CHECK_ERR(fi_eq_readerr(e->eq, &err, 0), -FI_EAGAIN);
}

static void sizes(struct test *t)
{
	static const struct fx_attr plain;
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_eq *eq;
	struct fx fx;

	fx_open_domain(t, &fx, &plain);
	for (attr.size = 1; attr.size <= 65536; attr.size *= 4) {
		CHECK_OK(fi_eq_open(fx.fabric, &attr, &eq, NULL));
		CHECK_OK(fi_close(&eq->fid));
	}
	fx_close_now(&fx);
}

static void write_read(struct test *t)
{
	struct eq_test e;

	open_eq(t, &e, 32, FI_WAIT_NONE);
	must_be_empty(&e);
	for (uintptr_t i = 1; i <= 32; i++)
		write_event(&e, i);
	for (uintptr_t i = 1; i <= 32; i++) {
		if (i & 1)
			read_event(&e, i, FI_PEEK);
		read_event(&e, i, 0);
	}
	must_be_empty(&e);
	CHECK(fi_eq_strerror(e.eq, FI_EINVAL, NULL, NULL, 0), "no error string");
	close_eq(&e);
}

static void sread(struct test *t)
{
	struct fi_eq_entry entry;
	struct eq_test e;
	int64_t start;
	uint32_t event;
	ssize_t n;

	open_eq(t, &e, 32, FI_WAIT_UNSPEC);
	start = run_now();
	CHECK_ERR(fi_eq_sread(e.eq, &event, &entry, sizeof(entry), 300, 0), -FI_EAGAIN);
	CHECK(run_now() - start >= 250 && run_now() - start < run_slow_ms(5000), "a wait of 300 ms took %d ms",
	      (int)(run_now() - start));
	write_event(&e, 5);
	start = run_now();
	n = fi_eq_sread(e.eq, &event, &entry, sizeof(entry), 10000, FI_PEEK);
	check_event(&e, n, event, &entry, 5);
	n = fi_eq_sread(e.eq, &event, &entry, sizeof(entry), 10000, 0);
	check_event(&e, n, event, &entry, 5);
	CHECK(run_now() - start < run_slow_ms(5000), "a pending event was not returned at once");
	close_eq(&e);
}

static bool readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) > 0;
}

static void descriptor(struct test *t)
{
	struct eq_test e;
	struct fid *fids[1];
	int fd = -1;

	open_eq(t, &e, 32, FI_WAIT_FD);
	fids[0] = &e.eq->fid;
	CHECK_OK(fi_control(&e.eq->fid, FI_GETWAIT, &fd));
	CHECK_OK(fi_trywait(e.fx.fabric, fids, 1));
	CHECK(!readable(fd), "the descriptor of an empty EQ is readable");
	write_event(&e, 1);
	CHECK(readable(fd), "the descriptor does not tell of an event");
	read_event(&e, 1, FI_PEEK);
	CHECK(readable(fd), "a peek cleared the descriptor");
	read_event(&e, 1, 0);
	CHECK_OK(fi_trywait(e.fx.fabric, fids, 1));
	CHECK(!readable(fd), "the descriptor of an empty EQ is readable");
	close_eq(&e);
}

const struct test_case eq_cases[] = {
	{ "eq_sizes", "EQs of 1 to 65536 entries open", sizes, .ranks = 1 },
	{ "eq_write_read", "events come back in order, peeked or not", write_read, .ranks = 1 },
	{ "eq_sread", "blocking reads time out and return pending events", sread, .ranks = 1 },
	{ "eq_descriptor", "the wait descriptor follows the EQ", descriptor, .ranks = 1 },
	{ 0 },
};
