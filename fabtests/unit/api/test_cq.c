/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues: formats, sources, attributes. The tests write the
 * completions themselves.
 */
#include <string.h>

#include "unit/api/api_calls.h"

TestSuite(cq, .init = api_set_up, .fini = api_tear_down, .timeout = 30);

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
			api_push(api.cq, i, 0);
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
	api_push(api.cq, 1, 0);
	api_push(api.cq, 2, FI_ETRUNC);
	api_push(api.cq, 3, 0);
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
		api_push(api.cq, i, 0);
	cr_assert_eq(fi_cq_readfrom(api.cq, entry, 2, src), 2);
	cr_assert_eq(fi_cq_readfrom(api.cq, entry, 2, src + 2), 1);
	for (uint64_t i = 0; i < 3; i++)
		cr_expect_eq(src[i], i + 5);
}

Test(cq, a_full_ring_loses_nothing)
{
	struct fi_cq_entry entry[100];

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE);
	for (uintptr_t i = 0; i < 1000; i++)
		api_push(api.cq, i, 0);
	for (uintptr_t i = 0; i < 1000; i += 100) {
		size_t n = 0;

		while (n < 100)
			n += (size_t) fi_cq_read(api.cq, entry + n, 100 - n);
		for (uintptr_t k = 0; k < 100; k++)
			cr_assert_eq(entry[k].op_context, (void *) (i + k));
	}
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
