/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls that can never work: the error, and one line in the log that says why.
 */
#include <string.h>

#include "common/old_names.h"
#include "unit/api/api_fixture.h"

static struct api api, other;

static void set_up(void)
{
	api_log_start("warn");
	api_init();
	api_open_domain(&api, NULL);
	api_open_domain(&other, NULL);
}

static void tear_down(void)
{
	api_close(&other);
	api_close(&api);
}

TestSuite(refuse, .init = set_up, .fini = tear_down, .timeout = 30);

static int bind_to(struct fid *fid, uint64_t flags)
{
	return fi_ep_bind(api.ep, fid, flags);
}

static void open_parts(struct api *a)
{
	a->av = api_open_av(a);
	a->cq = api_open_cq(a, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
}

static void bind_foreign(void)
{
	struct fid_cntr *cntr;

	REFUSED(bind_to(&other.cq->fid, FI_RECV), -FI_EINVAL, "another domain");
	REFUSED(bind_to(&other.av->fid, 0), -FI_EINVAL, "another domain");
	cr_assert_eq(fi_cntr_open(other.domain, NULL, &cntr, NULL), 0);
	REFUSED(bind_to(&cntr->fid, FI_SEND), -FI_EINVAL, "another domain");
	api_must_close(&cntr->fid);
}

static void bind_twice(void)
{
	struct fid_cntr *cntr;
	struct fid_eq *eq;

	cr_assert_eq(fi_eq_open(api.fabric, NULL, &eq, NULL), 0);
	cr_assert_eq(fi_cntr_open(api.domain, NULL, &cntr, NULL), 0);
	for (int i = 0; i < 2; i++) {
		int err = i ? -FI_EINVAL : 0;
		int rets[] = {
			bind_to(&api.cq->fid, FI_TRANSMIT | FI_RECV),
			bind_to(&api.av->fid, 0), bind_to(&eq->fid, 0),
			bind_to(&cntr->fid, FI_SEND),
		};

		for (size_t n = 0; n < TAGRV_ARRAY_SIZE(rets); n++)
			cr_expect_eq(rets[n], err);
		cr_expect_eq(api_log_lines(NULL), i ? 4 : 0);
	}
	REFUSED(bind_to(&cntr->fid, FI_PEEK), -FI_EBADFLAGS, "counter");
	REFUSED(bind_to(&api.domain->fid, 0), -FI_EINVAL, "class");
	cr_assert_eq(fi_enable(api.ep), 0);
	REFUSED(fi_enable(api.ep), -FI_EOPBADSTATE, "enabled already");
	REFUSED(bind_to(&eq->fid, 0), -FI_EOPBADSTATE, "enabled already");
	api_must_close(&api.ep->fid);
	api.ep = NULL;
	api_must_close(&eq->fid);
	api_must_close(&cntr->fid);
}

Test(refuse, bindings)
{
	open_parts(&api);
	open_parts(&other);
	cr_assert_eq(fi_endpoint(api.domain, api.info, &api.ep, NULL), 0);
	bind_foreign();
	bind_twice();
}

Test(refuse, transfers_before_enable)
{
	char byte = 0;

	open_parts(&api);
	cr_assert_eq(fi_endpoint(api.domain, api.info, &api.ep, NULL), 0);
	REFUSED(fi_send(api.ep, &byte, 1, NULL, 0, NULL), -FI_EOPBADSTATE,
		"fi_enable");
	REFUSED(fi_trecv(api.ep, &byte, 1, NULL, 0, 0, 0, NULL),
		-FI_EOPBADSTATE, "fi_enable");
}

Test(refuse, attributes_of_completion_queues)
{
	struct fi_cq_attr attr = { .flags = FI_PEER };
	struct fi_cq_entry entry;
	struct fid *fids[1];
	struct fid_cq *cq;

	REFUSED(fi_cq_open(api.domain, &attr, &cq, NULL), -FI_EBADFLAGS,
		"flags");
	attr.flags = 0;
	attr.format = (enum fi_cq_format) 99;
	REFUSED(fi_cq_open(api.domain, &attr, &cq, NULL), -FI_ENOSYS,
		"format 99");
	attr.format = FI_CQ_FORMAT_CONTEXT;
	attr.wait_obj = FI_WAIT_MUTEX_COND;
	REFUSED(fi_cq_open(api.domain, &attr, &cq, NULL), -FI_ENOSYS,
		"wait object");
	attr.wait_obj = FI_WAIT_NONE;
	attr.size = ((size_t) 1 << 24) + 1;
	REFUSED(fi_cq_open(api.domain, &attr, &cq, NULL), -FI_EINVAL,
		"16777217 entries");
	api.cq = api_open_cq(&api, FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE);
	REFUSED(fi_cq_sread(api.cq, &entry, 1, NULL, 0), -FI_EINVAL,
		"FI_WAIT_NONE");
	fids[0] = &api.cq->fid;
	REFUSED(fi_trywait(api.fabric, fids, 1), -FI_EINVAL, "FI_WAIT_NONE");
}

Test(refuse, attributes_of_counters_and_event_queues)
{
	struct fi_cntr_attr cntr_attr = { .flags = 1 };
	struct fi_eq_attr eq_attr = { .flags = FI_PEER };
	struct fid_cntr *cntr;
	struct fid_eq *eq;
	uint32_t event = 0;

	REFUSED(fi_cntr_open(api.domain, &cntr_attr, &cntr, NULL),
		-FI_EBADFLAGS, "flags");
	cntr_attr.flags = 0;
	cntr_attr.events = (enum fi_cntr_events) 1;
	REFUSED(fi_cntr_open(api.domain, &cntr_attr, &cntr, NULL), -FI_ENOSYS,
		"FI_CNTR_EVENTS_COMP");
	REFUSED(fi_eq_open(api.fabric, &eq_attr, &eq, NULL), -FI_EBADFLAGS,
		"flags");
	eq_attr = (struct fi_eq_attr) { .wait_obj = FI_WAIT_NONE };
	cr_assert_eq(fi_eq_open(api.fabric, &eq_attr, &eq, NULL), 0);
	REFUSED(fi_eq_sread(eq, &event, NULL, 0, 0, 0), -FI_EINVAL,
		"FI_WAIT_NONE");
	REFUSED(fi_eq_write(eq, FI_NOTIFY, NULL, 0, 0), -FI_EINVAL, "FI_WRITE");
	REFUSED(fi_domain_bind(api.domain, &eq->fid, OLD_REG_MR), -FI_EBADFLAGS,
		"flags");
	api_must_close(&eq->fid);
}

Test(refuse, flags_of_address_vectors)
{
	fi_addr_t row = 0;

	api.av = api_open_av(&api);
	REFUSED(fi_av_remove(api.av, &row, 1, FI_PEEK), -FI_EBADFLAGS,
		"fi_av_remove");
	REFUSED(fi_av_insert(api.av, &row, 1, &row, FI_AV_USER_ID, NULL),
		-FI_EBADFLAGS, "fi_av_insert");
	REFUSED(fi_av_insert(api.av, &row, 1, &row, FI_SYNC_ERR, NULL),
		-FI_EINVAL, "FI_SYNC_ERR");
}

static ssize_t send_two(size_t first, size_t second)
{
	static char bytes[64];
	const struct iovec iov[2] = { { bytes, first }, { bytes, second } };

	return fi_tsendv(api.ep, iov, NULL, 2, 0, 1, NULL);
}

static ssize_t receive_two(size_t first, size_t second)
{
	static char bytes[64];
	const struct iovec iov[2] = { { bytes, first }, { bytes, second } };

	return fi_trecvv(api.ep, iov, NULL, 2, 0, 1, 0, NULL);
}

static int register_range(void *addr, size_t len)
{
	struct fid_mr *mr;

	return fi_mr_reg(api.domain, addr, len, FI_SEND, 0, 0, 0, &mr, NULL);
}

/* Sums that wrap, and NULL. */
Test(refuse, lengths)
{
	char byte;

	open_parts(&api);
	cr_assert_eq(fi_endpoint(api.domain, api.info, &api.ep, NULL), 0);
	cr_assert_eq(bind_to(&api.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	cr_assert_eq(bind_to(&api.av->fid, 0), 0);
	cr_assert_eq(fi_enable(api.ep), 0);
	REFUSED(send_two(SIZE_MAX - 7, 16), -FI_EMSGSIZE, "max_msg_size");
	REFUSED(receive_two(SIZE_MAX - 7, 16), -FI_EMSGSIZE, "together");
	REFUSED(fi_tsend(api.ep, NULL, 8, NULL, 0, 1, NULL), -FI_EINVAL, "NULL");
	REFUSED(fi_trecv(api.ep, NULL, 8, NULL, 0, 1, 0, NULL), -FI_EINVAL, "NULL");
	REFUSED(register_range(NULL, 8), -FI_EINVAL, "no memory");
	REFUSED(register_range(&byte, SIZE_MAX), -FI_EINVAL, "no memory");
}
