/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues: formats, errors for old and new applications, waiting.
 * Completions are pushed by the test itself.
 */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "unit/api/api_fixture.h"

static struct api api;

static void set_up(void)
{
	api_init();
	api_open_domain(&api, NULL);
}

static void tear_down(void)
{
	api_close(&api);
}

TestSuite(cq, .init = set_up, .fini = tear_down, .timeout = 30);

static void push(struct fid_cq *fid, uintptr_t number, int err)
{
	struct tagrv_cq *cq = tagrv_container_of(fid, struct tagrv_cq, cq);
	const struct tagrv_comp comp = {
		.context = (void *) number, .flags = FI_RECV | FI_TAGGED,
		.len = 10 * number, .buf = (void *) (number + 1),
		.data = number + 2, .tag = number + 3, .src = number + 4,
		.olen = number + 5, .err = err,
	};

	tagrv_lock_acquire(&cq->dom->lock);
	tagrv_compq_push(&cq->queue, &comp);
	tagrv_lock_release(&cq->dom->lock);
}

static void expect_tagged(const struct fi_cq_tagged_entry *entry, uintptr_t i)
{
	cr_expect_eq(entry->op_context, (void *) i);
	cr_expect_eq(entry->flags, FI_RECV | FI_TAGGED);
	cr_expect_eq(entry->len, 10 * i);
	cr_expect_eq(entry->buf, (void *) (i + 1));
	cr_expect_eq(entry->data, i + 2);
	cr_expect_eq(entry->tag, i + 3);
}

Test(cq, each_format_fills_its_part)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_UNSPEC] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};

	for (int format = 0; format < 5; format++) {
		struct fi_cq_tagged_entry full, got[4];
		char *raw = (char *) got;

		api.cq = api_open_cq(&api, (enum fi_cq_format) format,
				     FI_WAIT_NONE);
		memset(got, 0xee, sizeof(got));
		for (uintptr_t i = 1; i <= 3; i++)
			push(api.cq, i, 0);
		cr_assert_eq(fi_cq_read(api.cq, got, 4), 3);
		for (uintptr_t i = 1; i <= 3; i++) {
			full = (struct fi_cq_tagged_entry) {
				(void *) i, FI_RECV | FI_TAGGED, 10 * i,
				(void *) (i + 1), i + 2, i + 3,
			};
			cr_expect_arr_eq(raw, &full, sizes[format]);
			raw += sizes[format];
		}
		cr_expect_eq((unsigned char) *raw, 0xee, "format %d", format);
		api_must_close(&api.cq->fid);
	}
	api.cq = NULL;
}

Test(cq, reads_stop_at_an_error)
{
	struct fi_cq_tagged_entry entry[4];
	struct fi_cq_err_entry err = { 0 };

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	cr_expect_eq(fi_cq_read(api.cq, entry, 4), -FI_EAGAIN);
	cr_expect_eq(fi_cq_read(api.cq, NULL, 0), -FI_EAGAIN);
	push(api.cq, 1, 0);
	push(api.cq, 2, FI_ETRUNC);
	push(api.cq, 3, 0);
	cr_expect_eq(fi_cq_read(api.cq, NULL, 0), 0);
	cr_expect_eq(fi_cq_readerr(api.cq, &err, 0), -FI_EAGAIN);
	cr_expect_eq(fi_cq_read(api.cq, entry, 4), 1);
	expect_tagged(entry, 1);
	cr_expect_eq(fi_cq_read(api.cq, entry, 4), -FI_EAVAIL);
	cr_expect_eq(fi_cq_read(api.cq, NULL, 0), -FI_EAVAIL);
	cr_expect_eq(fi_cq_readerr(api.cq, &err, 0), 1);
	expect_tagged((struct fi_cq_tagged_entry *) &err, 2);
	cr_expect_eq(err.err, FI_ETRUNC);
	cr_expect_str_eq(fi_cq_strerror(api.cq, err.prov_errno, err.err_data,
					NULL, 0), fi_strerror(FI_ETRUNC));
	cr_expect_eq(err.olen, 7);
	cr_expect_eq(fi_cq_readerr(api.cq, &err, 0), -FI_EAGAIN);
	cr_expect_eq(fi_cq_read(api.cq, entry, 4), 1);
	expect_tagged(entry, 3);
}

Test(cq, sources_come_with_readfrom)
{
	struct fi_cq_tagged_entry entry[3];
	fi_addr_t src[3] = { 0 };

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	for (uintptr_t i = 1; i <= 3; i++)
		push(api.cq, i, 0);
	cr_assert_eq(fi_cq_readfrom(api.cq, entry, 2, src), 2);
	cr_assert_eq(fi_cq_readfrom(api.cq, entry, 2, src + 2), 1);
	for (uint64_t i = 0; i < 3; i++)
		cr_expect_eq(src[i], i + 5);
}

/* ---- errors for applications of other versions ---- */

/* What newer headers have behind err_data_size, whichever these are. */
union err_entry {
	struct fi_cq_err_entry old;
	struct {
		char old[offsetof(struct fi_cq_err_entry, err_data_size) +
			 sizeof(size_t)];
		fi_addr_t src_addr;
	} newer;
};

static const struct tagrv_addr somebody = {
	.in = { .sin_family = AF_INET, .sin_port = 0x1234, .sin_addr = { 0x0100007f } },
};

static void read_error(uint32_t version, union err_entry *entry)
{
	struct tagrv_domain *domain = tagrv_container_of(api.domain,
			struct tagrv_domain, domain);

	domain->api_version = version;
	push(api.cq, 1, FI_EIO);
	/* fi_cq_readerr of newer headers writes to the entry, too. */
	cr_assert_eq(api.cq->ops->readerr(api.cq, &entry->old, 0), 1);
	cr_expect_eq(entry->old.err, FI_EIO);
}

Test(cq, error_entries_fit_the_version_of_the_application)
{
	union err_entry entry;
	char err_data[8];

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	memset(&entry, 0xee, sizeof(entry));
	read_error(FI_VERSION(1, 4), &entry);
	cr_expect_null(entry.old.err_data);
	cr_expect_eq(entry.old.err_data_size, 0xeeeeeeeeeeeeeeee);
	cr_expect_eq(entry.newer.src_addr, 0xeeeeeeeeeeeeeeee);

	entry.old.err_data = err_data;
	entry.old.err_data_size = sizeof(err_data);
	read_error(FI_VERSION(1, 17), &entry);
	cr_expect_eq(entry.old.err_data, err_data, "the application's buffer");
	cr_expect_eq(entry.old.err_data_size, 0);
	cr_expect_eq(entry.newer.src_addr, 0xeeeeeeeeeeeeeeee);

	read_error(FI_VERSION(1, 20), &entry);
	cr_expect_null(entry.old.err_data);
	cr_expect_eq(entry.old.err_data_size, 0);
	cr_expect_eq(entry.newer.src_addr, 5);
}

/* A sender that is not in the address vector; the entry is filled with 0xee. */
static void read_stranger(uint32_t version, struct fi_cq_err_entry *entry)
{
	struct tagrv_domain *domain = tagrv_container_of(api.domain,
			struct tagrv_domain, domain);
	struct tagrv_comp comp = {
		.context = (void *) 1, .err = TAGRV_ERR_STRANGER,
	};
	struct tagrv_cq *cq = tagrv_container_of(api.cq, struct tagrv_cq, cq);

	tagrv_comp_set_stranger(&comp, &somebody);
	tagrv_compq_push(&cq->queue, &comp);
	domain->api_version = version;
	cr_assert_eq(fi_cq_readerr(api.cq, entry, 0), 1);
	cr_expect_eq(entry->err, FI_EADDRNOTAVAIL);
	cr_expect_eq(entry->prov_errno, FI_EADDRNOTAVAIL);
}

Test(cq, the_address_of_a_stranger_goes_where_the_version_says)
{
	struct fi_cq_err_entry entry;
	char room[32], little[8];

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	memset(&entry, 0xee, sizeof(entry));
	read_stranger(FI_VERSION(1, 4), &entry);
	cr_expect_eq(memcmp(entry.err_data, &somebody, sizeof(somebody.in)), 0);
	cr_expect_eq(entry.err_data_size, 0xeeeeeeeeeeeeeeee);

	entry.err_data_size = 0;
	read_stranger(FI_VERSION(1, 17), &entry);
	cr_expect_eq(memcmp(entry.err_data, &somebody, sizeof(somebody.in)), 0);
	cr_expect_eq(entry.err_data_size, sizeof(somebody.in));

	entry.err_data = room;
	entry.err_data_size = sizeof(room);
	read_stranger(FI_VERSION(1, 17), &entry);
	cr_expect_eq(entry.err_data, room);
	cr_expect_eq(memcmp(room, &somebody, sizeof(somebody.in)), 0);
	cr_expect_eq(entry.err_data_size, sizeof(somebody.in));

	memset(little, 0xee, sizeof(little));
	entry.err_data = little;
	entry.err_data_size = 4;
	read_stranger(FI_VERSION(1, 17), &entry);
	cr_expect_eq(entry.err_data_size, 4);
	cr_expect_eq(memcmp(little, &somebody, 4), 0);
	cr_expect_eq((unsigned char) little[4], 0xee);
}

Test(cq, texts_of_errors)
{
	char text[8];

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	cr_expect_str_eq(fi_cq_strerror(api.cq, FI_ETRUNC, NULL, NULL, 0),
			 fi_strerror(FI_ETRUNC));
	fi_cq_strerror(api.cq, FI_ETRUNC, NULL, text, sizeof(text));
	cr_expect_eq(strncmp(text, fi_strerror(FI_ETRUNC), 7), 0);
	cr_expect_eq(text[7], '\0');
}

Test(cq, a_full_ring_loses_nothing)
{
	struct fi_cq_entry entry[100];

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE);
	for (uintptr_t i = 0; i < 1000; i++)
		push(api.cq, i, 0);
	for (uintptr_t i = 0; i < 1000; i += 100) {
		size_t n = 0;

		while (n < 100)
			n += (size_t) fi_cq_read(api.cq, entry + n, 100 - n);
		for (uintptr_t k = 0; k < 100; k++)
			cr_assert_eq(entry[k].op_context, (void *) (i + k));
	}
}

/* ---- waiting ---- */

static struct fid_cq *later_cq;
static bool later_signal;

static void *later(void *arg)
{
	(void) arg;
	usleep(50000);
	if (later_signal)
		cr_expect_eq(fi_cq_signal(later_cq), 0);
	else
		push(later_cq, 1, 0);
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

Test(cq, blocking_reads_end_by_completion_signal_or_timeout)
{
	struct fi_cq_tagged_entry entry;
	uint64_t took;

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
	took = tagrv_clock_ms();
	cr_expect_eq(fi_cq_sread(api.cq, &entry, 1, NULL, 100), -FI_EAGAIN);
	cr_expect_geq(tagrv_clock_ms() - took, 95);
	cr_expect_eq(sread_while(false, -1, &took), 1);
	cr_expect_lt(took, 5000);
	cr_expect_eq(sread_while(true, -1, &took), -FI_EAGAIN);
	cr_expect_lt(took, 5000);
}

Test(cq, a_signal_is_remembered_once)
{
	struct fi_cq_tagged_entry entry;
	uint64_t start = tagrv_clock_ms();

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
	cr_expect_eq(fi_cq_signal(api.cq), 0);
	cr_expect_eq(fi_cq_sread(api.cq, &entry, 1, NULL, 10000), -FI_EAGAIN);
	cr_expect_lt(tagrv_clock_ms() - start, 1000);
	start = tagrv_clock_ms();
	cr_expect_eq(fi_cq_sread(api.cq, &entry, 1, NULL, 50), -FI_EAGAIN);
	cr_expect_geq(tagrv_clock_ms() - start, 45);
}

Test(cq, the_descriptor_follows_the_queue)
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
		push(api.cq, 1, 0);
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

Test(cq, several_threads_wait_on_one_queue)
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
		push(api.cq, 1, 0);
	for (int i = 0; i < WAITERS; i++) {
		pthread_join(threads[i], NULL);
		cr_expect_eq(ret[i], 1);
	}
	cr_expect_lt(tagrv_clock_ms() - start, 5000);
}

Test(cq, without_wait_object_there_is_no_waiting)
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

Test(cq, who_yields_is_woken_by_nothing_and_needs_no_descriptor)
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

Test(cq, pollfd_is_one_descriptor)
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
	push(api.cq, 1, 0);
	cr_expect_eq(poll(&pfd, 1, 0), 1);
}

Test(cq, attributes_are_checked)
{
	struct fi_cq_attr attr = { .size = 1 };
	struct fid_cq *cq;

	for (int i = 0; i <= 65536; i = i ? 2 * i : 1) {
		attr.size = (size_t) i;
		cr_assert_eq(fi_cq_open(api.domain, &attr, &cq, NULL), 0);
		api_must_close(&cq->fid);
	}
	attr.wait_obj = FI_WAIT_MUTEX_COND;
	cr_expect_eq(fi_cq_open(api.domain, &attr, &cq, NULL), -FI_ENOSYS);
	attr.wait_obj = FI_WAIT_SET;
	cr_expect_eq(fi_cq_open(api.domain, &attr, &cq, NULL), -FI_ENOSYS);
	attr.wait_obj = FI_WAIT_NONE;
	attr.flags = FI_PEER;
	cr_expect_eq(fi_cq_open(api.domain, &attr, &cq, NULL), -FI_EBADFLAGS);
	attr.flags = FI_AFFINITY;
	cr_assert_eq(fi_cq_open(api.domain, &attr, &cq, NULL), 0);
	api_must_close(&cq->fid);
	cr_assert_eq(fi_cq_open(api.domain, NULL, &cq, NULL), 0);
	api_must_close(&cq->fid);
}

static void *push_two_and_an_error(void *cq)
{
	push(cq, 2, 0);
	usleep(10000);
	push(cq, 3, 0);
	usleep(10000);
	push(cq, 4, FI_EIO);
	return NULL;
}

Test(cq, a_threshold_is_waited_for)
{
	struct fi_cq_attr attr = {
		.size = 8, .format = FI_CQ_FORMAT_CONTEXT,
		.wait_obj = FI_WAIT_UNSPEC, .wait_cond = FI_CQ_COND_THRESHOLD,
	};
	struct fi_cq_entry entry[16];
	pthread_t thread;

	cr_assert_eq(fi_cq_open(api.domain, &attr, &api.cq, NULL), 0);
	push(api.cq, 1, 0);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 2, 10), 1,
		     "what is there when time is up");
	push(api.cq, 1, 0);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 1, (void *) 2, -1), 1,
		     "no more than there is room for");
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 2, 0), -FI_EAGAIN);
	push(api.cq, 1, 0);
	cr_assert_eq(pthread_create(&thread, NULL, push_two_and_an_error,
				    api.cq), 0);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 3, -1), 3);
	/* An error ends the wait, whatever is in front of it. */
	pthread_join(thread, NULL);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 3, -1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(api.cq, &(struct fi_cq_err_entry) { 0 }, 0), 1);
	push(api.cq, 5, 0);
	push(api.cq, 6, FI_EIO);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 3, -1), 1);
	cr_assert_eq(fi_cq_readerr(api.cq, &(struct fi_cq_err_entry) { 0 }, 0), 1);
	/* Nor is more waited for than the queue holds. */
	for (uintptr_t i = 0; i < 8; i++)
		push(api.cq, i, 0);
	cr_expect_eq(fi_cq_sread(api.cq, entry, 16, (void *) 12, -1), 8);
}
