/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote reads and writes: what each call passes to the engine, and what is refused.
 */
#include "unit/api/api_calls.h"
#include "unit/api/rma_fixture.h"

#define RMA	(FI_MSG | FI_RMA)
#define ADDR	0x1000u
#define KEY	UINT64_C(0x8000000000000005)
#define DATA	UINT64_C(0x1122334455667788)

TestSuite(rma_calls, .init = api_init, .fini = api_tear_down, .timeout = 30);

static char buf[64];
static struct fi_context2 ctx;
static struct tagrv_mem mem[2];
/* Some calls have more segments than two. */
static void *descs[TAGRV_IOV_MAX] = { &mem[0], &mem[1] };
static const struct iovec iov[2] = { { buf, 10 }, { buf + 20, 5 } };
static const struct fi_rma_iov remote[2] = { { ADDR, 7, KEY }, { 99, 8, 1 } };

enum call {
	READ, READV, READMSG, WRITE, WRITEV, WRITEMSG, WRITEDATA, INJECT, INJECTDATA,
	CALLS
};

static ssize_t call_with(enum call call, uint64_t flags)
{
	const struct fi_msg_rma msg = {
		.msg_iov = iov, .desc = descs, .iov_count = 2, .addr = api.self,
		.rma_iov = remote, .rma_iov_count = 2, .context = &ctx, .data = DATA,
	};

	switch (call) {
	case READ:
		return fi_read(api.ep, buf, 10, &mem[0], api.self, ADDR, KEY, &ctx);
	case READV:
		return fi_readv(api.ep, iov, descs, 2, api.self, ADDR, KEY, &ctx);
	case READMSG:
		return fi_readmsg(api.ep, &msg, flags);
	case WRITE:
		return fi_write(api.ep, buf, 10, &mem[0], api.self, ADDR, KEY, &ctx);
	case WRITEV:
		return fi_writev(api.ep, iov, descs, 2, api.self, ADDR, KEY, &ctx);
	case WRITEMSG:
		return fi_writemsg(api.ep, &msg, flags);
	case WRITEDATA:
		return fi_writedata(api.ep, buf, 10, &mem[0], DATA, api.self, ADDR,
				    KEY, &ctx);
	case INJECT:
		return fi_inject_write(api.ep, buf, 10, api.self, ADDR, KEY);
	default:
		return fi_inject_writedata(api.ep, buf, 10, DATA, api.self, ADDR,
					   KEY);
	}
}

static bool reads(enum call call)
{
	return call <= READMSG;
}

static bool injects(enum call call)
{
	return call >= INJECT;
}

static bool is_msg(enum call call)
{
	return call == READMSG || call == WRITEMSG;
}

static bool is_vector(enum call call)
{
	return is_msg(call) || call == READV || call == WRITEV;
}

static void check_local(enum call call)
{
	const struct tagrv_rma_req *req = &rma_seen.req;

	cr_expect_eq(req->iov_cnt, is_vector(call) ? 2 : 1);
	cr_expect_eq(req->iov[0].iov_base, buf);
	cr_expect_eq(req->iov[0].iov_len, 10);
	if (is_vector(call)) {
		cr_expect_eq(req->iov[1].iov_base, buf + 20);
		cr_expect_eq(rma_seen.mem[1], &mem[1]);
	}
	if (injects(call))
		cr_expect_null(req->mem);
	else
		cr_expect_eq(rma_seen.mem[0], &mem[0]);
	cr_expect_eq(req->result_cnt, 0);
	cr_expect_eq(req->compare_cnt, 0);
}

static void check_remote(enum call call)
{
	const struct fi_rma_iov *to = rma_seen.remote;

	cr_expect_eq(rma_seen.req.remote_cnt, is_msg(call) ? 2 : 1);
	cr_expect_eq(to[0].addr, ADDR);
	cr_expect_eq(to[0].key, KEY);
	cr_expect_eq(to[0].len, is_msg(call) ? 7 : is_vector(call) ? 15 : 10);
	if (is_msg(call))
		cr_expect_eq(to[1].addr, 99);
}

Test(rma_calls, every_call_passes_its_arguments)
{
	const struct tagrv_rma_req *req = &rma_seen.req;

	rma_open(&api, RMA, 0, 0);
	for (int i = 0; i < CALLS; i++) {
		enum call call = (enum call) i;

		SEEN(call_with(call, 0));
		cr_expect_eq(req->kind, reads(call) ? TAGRV_RMA_READ :
						      TAGRV_RMA_WRITE);
		cr_expect_eq(req->dest, api.self);
		cr_expect_eq(req->context, injects(call) ? NULL : &ctx);
		cr_expect_eq(req->no_context, injects(call));
		check_local(call);
		check_remote(call);
		if (call == WRITEDATA || call == INJECTDATA) {
			cr_expect_eq(req->data, DATA);
			cr_expect(req->flags & FI_REMOTE_CQ_DATA);
		} else {
			cr_expect_not(req->flags & FI_REMOTE_CQ_DATA);
		}
	}
	SEEN(call_with(WRITEMSG, FI_REMOTE_CQ_DATA));
	cr_expect_eq(req->data, DATA);
	cr_expect(req->flags & FI_REMOTE_CQ_DATA);
}

/* ---- flags ---- */

static uint64_t flags_of(enum call call, uint64_t flags)
{
	SEEN(call_with(call, flags));
	return rma_seen.req.flags & ~FI_REMOTE_CQ_DATA;
}

Test(rma_calls, flags_of_the_endpoint_are_those_of_calls_without)
{
	rma_open(&api, RMA, FI_INJECT | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE,
		 FI_SELECTIVE_COMPLETION);
	cr_expect_eq(flags_of(WRITE, 0), FI_INJECT | FI_DELIVERY_COMPLETE);
	cr_expect_eq(flags_of(WRITEV, 0), FI_INJECT | FI_DELIVERY_COMPLETE);
	cr_expect_eq(flags_of(WRITEDATA, 0), FI_INJECT | FI_DELIVERY_COMPLETE);
	cr_expect_eq(flags_of(READ, 0), 0);
	cr_expect_eq(flags_of(READV, 0), 0);
	cr_expect_eq(flags_of(WRITEMSG, 0), 0);
	cr_expect_eq(flags_of(READMSG, 0), 0);
	cr_expect_eq(flags_of(INJECT, 0), FI_INJECT);
	cr_expect_eq(flags_of(INJECTDATA, 0), FI_INJECT);
}

Test(rma_calls, flags_of_a_call_replace_those_of_the_endpoint)
{
	rma_open(&api, RMA, FI_COMPLETION | FI_DELIVERY_COMPLETE,
		 FI_SELECTIVE_COMPLETION);
	cr_expect_eq(flags_of(WRITE, 0), FI_COMPLETION | FI_DELIVERY_COMPLETE);
	cr_expect_eq(flags_of(READ, 0), FI_COMPLETION);
	cr_expect_eq(flags_of(WRITEMSG, FI_INJECT | FI_FENCE | FI_MORE),
		     FI_INJECT | FI_FENCE | FI_MORE);
	cr_expect_eq(flags_of(WRITEMSG, FI_COMPLETION | FI_INJECT_COMPLETE |
			      FI_TRANSMIT_COMPLETE),
		     FI_COMPLETION | FI_TRANSMIT_COMPLETE);
	cr_expect_eq(flags_of(READMSG, FI_COMPLETION | FI_FENCE | FI_MORE |
			      FI_INJECT | FI_DELIVERY_COMPLETE),
		     FI_COMPLETION | FI_FENCE | FI_MORE);
}

Test(rma_calls, without_selective_completion_all_are_reported)
{
	rma_open(&api, RMA, 0, 0);
	for (int i = 0; i < CALLS; i++)
		cr_expect_eq(flags_of((enum call) i, 0),
			     injects((enum call) i) ? FI_INJECT : FI_COMPLETION,
			     "call %d", i);
}

/* Nothing matches a write: the strongest level is that its bytes are there. */
Test(rma_calls, a_match_counts_as_delivery)
{
	rma_open(&api, RMA, FI_MATCH_COMPLETE, FI_SELECTIVE_COMPLETION);
	cr_expect_eq(flags_of(WRITE, 0), FI_DELIVERY_COMPLETE);
	cr_expect_eq(flags_of(WRITEMSG, FI_MATCH_COMPLETE), FI_DELIVERY_COMPLETE);
	cr_expect_eq(flags_of(WRITEMSG, FI_MATCH_COMPLETE | FI_DELIVERY_COMPLETE),
		     FI_DELIVERY_COMPLETE);
}

/* The counter shows when an injected write has ended; the queue does not. */
Test(rma_calls, injects_have_a_level_where_they_are_counted)
{
	uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
	struct fid_cntr *cntr;

	rma_open(&api, RMA, FI_TRANSMIT_COMPLETE, 0);
	cr_assert_eq(fi_cntr_open(api.domain, NULL, &cntr, NULL), 0);
	cr_expect_eq(flags_of(INJECT, 0), FI_INJECT);
	cr_assert_eq(fi_ep_bind(api.ep, &cntr->fid, FI_WRITE), 0);
	cr_expect_eq(flags_of(INJECT, 0), FI_INJECT | FI_TRANSMIT_COMPLETE);
	cr_assert_eq(fi_control(&api.ep->fid, FI_SETOPSFLAG, &flags), 0);
	cr_expect_eq(flags_of(INJECT, 0), FI_INJECT | FI_DELIVERY_COMPLETE);
	cr_expect_eq(flags_of(WRITE, 0), FI_COMPLETION | FI_DELIVERY_COMPLETE);
	api_must_close(&api.ep->fid);
	api.ep = NULL;
	api_must_close(&cntr->fid);
}

Test(rma_calls, unknown_flags_are_refused)
{
	rma_open(&api, RMA, 0, 0);
	for (int bit = 0; bit < 64; bit++) {
		uint64_t flag = UINT64_C(1) << bit;
		bool known = flag & (FI_COMPLETION | FI_MORE | FI_FENCE | FI_INJECT |
				     FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
				     FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);

		cr_expect_eq(call_with(READMSG, flag), known ? 0 : -FI_EBADFLAGS,
			     "bit %d", bit);
		cr_expect_eq(call_with(WRITEMSG, flag),
			     known || flag == FI_REMOTE_CQ_DATA ? 0 : -FI_EBADFLAGS,
			     "bit %d", bit);
	}
}

/* ---- refusals ---- */

static ssize_t write_msg(const struct iovec *local, size_t cnt,
			 const struct fi_rma_iov *to, size_t to_cnt)
{
	const struct fi_msg_rma msg = {
		.msg_iov = local, .iov_count = cnt, .addr = api.self, .rma_iov = to,
		.rma_iov_count = to_cnt,
	};

	return fi_writemsg(api.ep, &msg, 0);
}

Test(rma_calls, segments_are_limited)
{
	const struct iovec five[5] = { { buf, 1 }, { buf, 1 }, { buf, 1 },
				       { buf, 1 }, { buf, 1 } };
	const struct fi_rma_iov to[5] = { { 0, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 },
					  { 0, 1, 1 }, { 0, 1, 1 } };

	rma_open(&api, RMA, 0, 0);
	api_log_start("warn");
	SEEN(write_msg(five, 4, to, 4));
	REFUSED(write_msg(five, 5, to, 4), -FI_EINVAL, "5 segments");
	REFUSED(fi_writev(api.ep, five, NULL, 5, api.self, 0, 1, NULL), -FI_EINVAL,
		"5 segments");
	REFUSED(write_msg(five, 4, to, 5), -FI_EINVAL, "5 ranges");
	REFUSED(write_msg(five, 1, to, 0), -FI_EINVAL, "0 ranges");
	REFUSED(write_msg(NULL, 0, to, 0), -FI_EINVAL, "0 ranges");
	REFUSED(write_msg(five, 1, NULL, 1), -FI_EINVAL, "0 ranges");
	REFUSED(write_msg(NULL, 1, to, 1), -FI_EINVAL, "NULL");
	REFUSED(fi_writev(api.ep, NULL, NULL, 1, api.self, 0, 1, NULL), -FI_EINVAL,
		"NULL");
	REFUSED(fi_read(api.ep, NULL, 1, NULL, api.self, 0, 1, NULL), -FI_EINVAL,
		"NULL");
}

Test(rma_calls, both_sides_have_the_same_length)
{
	const struct iovec huge[2] = { { buf, SIZE_MAX }, { buf, 2 } };
	const struct iovec byte = { buf, 1 };
	const struct fi_rma_iov one = { 0, 1, 1 }, two[2] = { { 0, SIZE_MAX, 1 },
							      { 0, 2, 1 } };

	rma_open(&api, RMA, 0, 0);
	api_log_start("warn");
	REFUSED(write_msg(iov, 2, &one, 1), -FI_EINVAL, "15 bytes here and 1 at");
	/* Sums that wrap to 1. */
	REFUSED(write_msg(huge, 2, &one, 1), -FI_EINVAL, "bytes here and 1 at");
	REFUSED(write_msg(&byte, 1, two, 2), -FI_EINVAL, "1 bytes here");
}

Test(rma_calls, nothing_may_be_moved)
{
	const struct fi_rma_iov none = { ADDR, 0, KEY };

	rma_open(&api, RMA, 0, 0);
	SEEN(fi_write(api.ep, NULL, 0, NULL, api.self, ADDR, KEY, NULL));
	SEEN(fi_read(api.ep, NULL, 0, NULL, api.self, ADDR, KEY, NULL));
	SEEN(fi_writev(api.ep, NULL, NULL, 0, api.self, ADDR, KEY, NULL));
	SEEN(write_msg(NULL, 0, &none, 1));
	SEEN(fi_inject_writedata(api.ep, NULL, 0, DATA, api.self, ADDR, KEY));
}

Test(rma_calls, injects_are_short)
{
	static char large[TAGRV_INJECT_MAX + 1];
	const struct iovec local = { large, sizeof(large) };
	const struct fi_rma_iov to = { 0, sizeof(large), 1 };
	const struct fi_msg_rma msg = {
		.msg_iov = &local, .iov_count = 1, .addr = api.self, .rma_iov = &to,
		.rma_iov_count = 1,
	};

	rma_open(&api, RMA, 0, 0);
	api_log_start("warn");
	SEEN(fi_inject_write(api.ep, large, sizeof(large) - 1, api.self, 0, 1));
	REFUSED(fi_inject_write(api.ep, large, sizeof(large), api.self, 0, 1),
		-FI_EMSGSIZE, "1025 bytes");
	REFUSED(fi_writemsg(api.ep, &msg, FI_INJECT), -FI_EMSGSIZE, "1025 bytes");
	SEEN(fi_readmsg(api.ep, &msg, FI_INJECT));
}

Test(rma_calls, errors_of_the_engine_come_back_with_a_reason)
{
	rma_open(&api, RMA, 0, 0);
	api_log_start("warn");
	rma_answer = -FI_EINVAL;
	REFUSED(call_with(WRITE, 0), -FI_EINVAL, "address number");
	rma_answer = -FI_EMSGSIZE;
	REFUSED(call_with(READ, 0), -FI_EMSGSIZE, "max_msg_size");
	rma_answer = -FI_EAGAIN;
	cr_expect_eq(call_with(WRITE, 0), -FI_EAGAIN);
	cr_expect_eq(api_log_lines(NULL), 0);
}

/* ---- capabilities ---- */

static void expect_only(bool can_read, bool can_write)
{
	for (int i = 0; i < CALLS; i++) {
		enum call call = (enum call) i;
		bool can = reads(call) ? can_read : can_write;

		cr_expect_eq(call_with(call, 0), can ? 0 : -FI_ENOSYS, "call %d", i);
	}
	api_close(&api);
}

Test(rma_calls, an_endpoint_does_what_it_has_capabilities_for)
{
	rma_open(&api, FI_MSG, 0, 0);
	expect_only(false, false);
	rma_open(&api, FI_MSG | FI_ATOMIC, 0, 0);
	expect_only(false, false);
	rma_open(&api, FI_RMA | FI_READ, 0, 0);
	expect_only(true, false);
	rma_open(&api, FI_RMA | FI_WRITE, 0, 0);
	expect_only(false, true);
	rma_open(&api, FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0);
	expect_only(false, false);
	rma_open(&api, FI_RMA, 0, 0);
	expect_only(true, true);
}

Test(rma_calls, an_endpoint_must_be_enabled)
{
	struct fi_info *hints = api_hints();

	hints->caps = RMA;
	api_open_domain(&api, hints);
	fi_freeinfo(hints);
	cr_assert_eq(fi_endpoint(api.domain, api.info, &api.ep, NULL), 0);
	api_log_start("warn");
	REFUSED(call_with(WRITE, 0), -FI_EOPBADSTATE, "fi_enable");
	REFUSED(call_with(READMSG, 0), -FI_EOPBADSTATE, "fi_enable");
}
