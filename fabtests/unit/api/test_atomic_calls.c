/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomics: what each call passes to the engine, what is refused, and queries.
 */
#include <limits.h>

#include "atomic/atomic.h"
#include "unit/api/api_calls.h"
#include "unit/api/rma_fixture.h"

#define ATOMIC	(FI_MSG | FI_ATOMIC)
#define ADDR	0x1000u
#define KEY	5u

TestSuite(atomic_calls, .init = api_init, .fini = api_tear_down, .timeout = 30);

static uint32_t operand[4], compare[4], result[4];
static struct fi_context2 ctx;
static struct tagrv_mem mem[2];
/* Some calls have more segments than two. */
static void *descs[TAGRV_IOV_MAX] = { &mem[0], &mem[1] };
/* Three elements each, in different segments. */
static const struct fi_ioc ioc[2] = { { operand, 1 }, { operand + 1, 2 } };
static const struct fi_ioc with[2] = { { compare, 2 }, { compare + 2, 1 } };
static struct fi_ioc to[1] = { { result, 3 } };
static const struct fi_rma_ioc remote[2] = { { ADDR, 1, KEY }, { 99, 2, 7 } };

enum call {
	BASE, BASEV, BASEMSG, INJECT, FETCH, FETCHV, FETCHMSG, COMPARE, COMPAREV,
	COMPAREMSG, CALLS
};

/* The arguments that tests change. */
static enum fi_op op;
static enum fi_datatype type;
static uint64_t msg_flags;
static struct fi_msg_atomic msg;

static ssize_t base(enum call call)
{
	switch (call) {
	case BASE:
		return fi_atomic(api.ep, operand, 3, &mem[0], api.self, ADDR, KEY,
				 type, op, &ctx);
	case BASEV:
		return fi_atomicv(api.ep, ioc, descs, 2, api.self, ADDR, KEY, type,
				  op, &ctx);
	case BASEMSG:
		return fi_atomicmsg(api.ep, &msg, msg_flags);
	default:
		return fi_inject_atomic(api.ep, operand, 3, api.self, ADDR, KEY, type,
					op);
	}
}

static ssize_t fetch(enum call call)
{
	switch (call) {
	case FETCH:
		return fi_fetch_atomic(api.ep, operand, 3, &mem[0], result, NULL,
				       api.self, ADDR, KEY, type, op, &ctx);
	case FETCHV:
		return fi_fetch_atomicv(api.ep, ioc, descs, 2, to, NULL, 1, api.self,
					ADDR, KEY, type, op, &ctx);
	default:
		return fi_fetch_atomicmsg(api.ep, &msg, to, NULL, 1, msg_flags);
	}
}

static ssize_t compared(enum call call)
{
	switch (call) {
	case COMPARE:
		return fi_compare_atomic(api.ep, operand, 3, &mem[0], compare, NULL,
					 result, NULL, api.self, ADDR, KEY, type, op,
					 &ctx);
	case COMPAREV:
		return (ssize_t) fi_compare_atomicv(api.ep, ioc, descs, 2, with, NULL,
						    2, to, NULL, 1, api.self, ADDR,
						    KEY, type, op, &ctx);
	default:
		return fi_compare_atomicmsg(api.ep, &msg, with, NULL, 2, to, NULL, 1,
					    msg_flags);
	}
}

static ssize_t call_as(enum call call)
{
	return call < FETCH ? base(call) : call < COMPARE ? fetch(call) :
							    compared(call);
}

/* Every call works with what follows. */
static void usual(enum call call)
{
	type = FI_UINT32;
	op = call < COMPARE ? FI_SUM : FI_CSWAP;
	msg_flags = 0;
	msg = (struct fi_msg_atomic) {
		.msg_iov = ioc, .desc = descs, .iov_count = 2, .addr = api.self,
		.rma_iov = remote, .rma_iov_count = 2, .datatype = type, .op = op,
		.context = &ctx,
	};
}

static bool is_msg(enum call call)
{
	return call == BASEMSG || call == FETCHMSG || call == COMPAREMSG;
}

static bool is_vector(enum call call)
{
	return is_msg(call) || call == BASEV || call == FETCHV || call == COMPAREV;
}

static size_t bytes(const struct iovec *iov, size_t cnt)
{
	size_t len = 0;

	while (cnt)
		len += iov[--cnt].iov_len;
	return len;
}

static void check_lists(enum call call)
{
	const struct tagrv_rma_req *req = &rma_seen.req;

	cr_expect_eq(req->iov_cnt, is_vector(call) ? 2 : 1);
	cr_expect_eq(req->iov[0].iov_base, operand);
	cr_expect_eq(bytes(req->iov, req->iov_cnt), 12);
	cr_expect_eq(bytes(req->result, req->result_cnt), call < FETCH ? 0 : 12);
	cr_expect_eq(bytes(req->compare, req->compare_cnt), call < COMPARE ? 0 : 12);
	if (call >= FETCH)
		cr_expect_eq(req->result[0].iov_base, result);
	if (call >= COMPARE)
		cr_expect_eq(req->compare[0].iov_base, compare);
	if (is_vector(call)) {
		cr_expect_eq(req->iov[1].iov_base, operand + 1);
		cr_expect_eq(req->iov[1].iov_len, 8);
		cr_expect_eq(rma_seen.mem[1], &mem[1]);
	}
	if (call != INJECT)
		cr_expect_eq(rma_seen.mem[0], &mem[0]);
}

static void check_remote(enum call call)
{
	const struct fi_rma_iov *at = rma_seen.remote;

	cr_expect_eq(rma_seen.req.remote_cnt, is_msg(call) ? 2 : 1);
	cr_expect_eq(at[0].addr, ADDR);
	cr_expect_eq(at[0].key, KEY);
	cr_expect_eq(at[0].len, is_msg(call) ? 4 : 12);
	if (is_msg(call)) {
		cr_expect_eq(at[1].addr, 99);
		cr_expect_eq(at[1].len, 8);
		cr_expect_eq(at[1].key, 7);
	}
}

Test(atomic_calls, every_call_passes_its_arguments_in_bytes)
{
	const struct tagrv_rma_req *req = &rma_seen.req;

	rma_open(&api, ATOMIC, 0, 0);
	for (int i = 0; i < CALLS; i++) {
		enum call call = (enum call) i;

		usual(call);
		SEEN(call_as(call));
		cr_expect_eq(req->kind, call < FETCH ? TAGRV_RMA_ATOMIC :
			     call < COMPARE ? TAGRV_RMA_FETCH : TAGRV_RMA_COMPARE);
		cr_expect_eq(req->op, op);
		cr_expect_eq(req->datatype, FI_UINT32);
		cr_expect_eq(req->dest, api.self);
		cr_expect_eq(req->context, call == INJECT ? NULL : &ctx);
		cr_expect_eq(req->no_context, call == INJECT);
		check_lists(call);
		check_remote(call);
	}
}

/* ---- flags ---- */

static uint64_t flags_of(enum call call, uint64_t flags)
{
	usual(call);
	msg_flags = flags;
	SEEN(call_as(call));
	return rma_seen.req.flags;
}

/* Those that fetch end when the result is there: no level is weaker. */
Test(atomic_calls, flags_of_the_endpoint_are_those_of_calls_without)
{
	rma_open(&api, ATOMIC, FI_COMPLETION | FI_MATCH_COMPLETE,
		 FI_SELECTIVE_COMPLETION);
	for (int i = 0; i < CALLS; i++) {
		enum call call = (enum call) i;

		cr_expect_eq(flags_of(call, 0), call == INJECT ? FI_INJECT :
			     is_msg(call) ? 0 : call < FETCH ?
			     FI_COMPLETION | FI_DELIVERY_COMPLETE : FI_COMPLETION,
			     "call %d", i);
	}
}

/* One element, as the device takes it. */
static ssize_t by_device(enum call call, uint64_t flags)
{
	static uint64_t one, other, former;
	const struct fi_ioc from = { &one, 1 }, against = { &other, 1 };
	const struct fi_rma_ioc at = { ADDR, 1, KEY };
	struct fi_ioc into = { &former, 1 };
	const struct fi_msg_atomic of = {
		.msg_iov = &from, .iov_count = 1, .addr = api.self, .rma_iov = &at,
		.rma_iov_count = 1, .datatype = FI_UINT64,
		.op = call < COMPARE ? FI_SUM : FI_CSWAP,
	};

	switch (call) {
	case FETCH:
		return fi_fetch_atomic(api.ep, &one, 1, NULL, &former, NULL, api.self,
				       ADDR, KEY, FI_UINT64, of.op, &ctx);
	case FETCHV:
		return fi_fetch_atomicv(api.ep, &from, NULL, 1, &into, NULL, 1, api.self,
					ADDR, KEY, FI_UINT64, of.op, &ctx);
	case FETCHMSG:
		return fi_fetch_atomicmsg(api.ep, &of, &into, NULL, 1, flags);
	case COMPARE:
		return fi_compare_atomic(api.ep, &one, 1, NULL, &other, NULL, &former, NULL,
					 api.self, ADDR, KEY, FI_UINT64, of.op, &ctx);
	case COMPAREV:
		return (ssize_t) fi_compare_atomicv(api.ep, &from, NULL, 1, &against, NULL,
						    1, &into, NULL, 1, api.self, ADDR, KEY,
						    FI_UINT64, of.op, &ctx);
	default:
		return fi_compare_atomicmsg(api.ep, &of, &against, NULL, 1, &into, NULL, 1,
					    flags);
	}
}

/* When the result is there, the device may still be about to write. */
Test(atomic_calls, what_the_device_fetches_keeps_its_level)
{
	static const uint64_t levels[] = { FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE };

	rma_open(&api, ATOMIC, 0, 0);
	tagrv_container_of(api.ep, struct tagrv_ep, ep)->dom->by_device = true;
	for (int i = 0; i < 2; i++) {
		uint64_t flags = FI_TRANSMIT | levels[i];

		cr_assert_eq(fi_control(&api.ep->fid, FI_SETOPSFLAG, &flags), 0);
		for (int call = FETCH; call < CALLS; call++) {
			SEEN(by_device((enum call) call, levels[i]));
			cr_expect_eq(rma_seen.req.flags, FI_COMPLETION |
				     FI_DELIVERY_COMPLETE, "call %d", call);
		}
	}
	tagrv_container_of(api.ep, struct tagrv_ep, ep)->dom->by_device = false;
}

Test(atomic_calls, flags_of_a_call_replace_those_of_the_endpoint)
{
	const uint64_t flags = FI_COMPLETION | FI_FENCE | FI_MORE | FI_INJECT;

	rma_open(&api, ATOMIC, FI_TRANSMIT_COMPLETE, FI_SELECTIVE_COMPLETION);
	cr_expect_eq(flags_of(BASEMSG, flags | FI_DELIVERY_COMPLETE),
		     flags | FI_DELIVERY_COMPLETE);
	cr_expect_eq(flags_of(FETCHMSG, flags | FI_DELIVERY_COMPLETE), flags);
	cr_expect_eq(flags_of(COMPAREMSG, flags | FI_DELIVERY_COMPLETE), flags);
}

Test(atomic_calls, unknown_flags_are_refused)
{
	static const enum call calls[] = { BASEMSG, FETCHMSG, COMPAREMSG };

	rma_open(&api, ATOMIC, 0, 0);
	for (int bit = 0; bit < 64; bit++) {
		uint64_t flag = UINT64_C(1) << bit;
		bool known = flag & (FI_COMPLETION | FI_MORE | FI_FENCE | FI_INJECT |
				     FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
				     FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);

		for (size_t i = 0; i < 3; i++) {
			usual(calls[i]);
			msg_flags = flag;
			cr_expect_eq(call_as(calls[i]), known ? 0 : -FI_EBADFLAGS,
				     "bit %d", bit);
		}
	}
}

/* ---- operations and datatypes ---- */

static enum tagrv_atomic_kind kind_of(enum call call)
{
	return call < FETCH ? TAGRV_ATOMIC_BASE : call < COMPARE ?
	       TAGRV_ATOMIC_FETCH : TAGRV_ATOMIC_COMPARE;
}

/* The queries of an endpoint and of the domain, and the calls, agree with the table. */
static int query(enum call call, size_t *count)
{
	static const uint64_t flags[] = { 0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC };
	struct fi_atomic_attr attr = { 0 };
	int ret, ret2;

	ret = call < FETCH ? fi_atomicvalid(api.ep, type, op, count) :
	      call < COMPARE ? fi_fetch_atomicvalid(api.ep, type, op, count) :
			       fi_compare_atomicvalid(api.ep, type, op, count);
	ret2 = fi_query_atomic(api.domain, type, op, &attr, flags[kind_of(call)]);
	cr_expect_eq(ret, ret2);
	cr_expect_eq(attr.count, *count);
	cr_expect_eq(attr.size, ret ? 0 : tagrv_atomic_size(type));
	return ret;
}

static void check_pair(enum call call)
{
	bool valid = tagrv_atomic_is_valid(kind_of(call), op, type);
	size_t count = 0, size = tagrv_atomic_size(type);

	msg.op = op;
	msg.datatype = type;
	cr_expect_eq(query(call, &count), valid ? 0 : -FI_EOPNOTSUPP);
	cr_expect_eq(call_as(call), valid ? 0 : -FI_EOPNOTSUPP,
		     "call %d, op %d, datatype %d", call, (int) op, (int) type);
	cr_expect_eq(count, valid ? TAGRV_MIN(TAGRV_MAX_MSG / size, INT_MAX) : 0);
	if (valid)
		cr_expect_eq(rma_seen.remote[0].len, size * (is_msg(call) ? 1 : 3));
}

static void check_all(enum call call)
{
	/* Values that a narrow member of the request would take for FI_SUM. */
	static const unsigned more[] = { 256 + FI_SUM, 1u << 31 };

	for (unsigned i = 0; i < 24; i++) {
		for (unsigned j = 0; j < 24; j++) {
			usual(call);
			op = (enum fi_op) i;
			type = (enum fi_datatype) j;
			check_pair(call);
		}
	}
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(more); i++) {
		usual(call);
		op = (enum fi_op) more[i];
		check_pair(call);
		usual(call);
		type = (enum fi_datatype) more[i];
		check_pair(call);
	}
}

Test(atomic_calls, calls_and_queries_agree_on_what_there_is)
{
	rma_open(&api, ATOMIC, 0, 0);
	for (int call = 0; call < CALLS; call++)
		check_all((enum call) call);
}

Test(atomic_calls, queries_with_wrong_flags_are_refused)
{
	struct fi_atomic_attr attr;

	rma_open(&api, ATOMIC, 0, 0);
	cr_expect_eq(fi_query_atomic(api.domain, FI_UINT32, FI_SUM, &attr,
				     FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
		     -FI_EINVAL);
	cr_expect_eq(fi_query_atomic(api.domain, FI_UINT32, FI_SUM, &attr, FI_TAGGED),
		     -FI_EOPNOTSUPP);
	cr_expect_eq(fi_query_atomic(api.domain, FI_UINT32, FI_SUM, &attr, FI_PEEK),
		     -FI_EBADFLAGS);
}

/* FI_ATOMIC_READ has no operand: what is passed may be anything. */
Test(atomic_calls, a_read_ignores_the_operand)
{
	rma_open(&api, ATOMIC, 0, 0);
	for (int call = FETCH; call <= FETCHMSG; call++) {
		usual((enum call) call);
		op = msg.op = FI_ATOMIC_READ;
		msg.msg_iov = NULL;
		msg.iov_count = 77;
		SEEN(call_as((enum call) call));
		cr_expect_eq(rma_seen.req.iov_cnt, 0);
		cr_expect_eq(bytes(rma_seen.result, 1), 12);
	}
	SEEN(fi_fetch_atomic(api.ep, NULL, 3, NULL, result, NULL, api.self, ADDR,
			     KEY, FI_UINT32, FI_ATOMIC_READ, &ctx));
	cr_expect_eq(rma_seen.remote[0].len, 12);
}

/* ---- refusals ---- */

static ssize_t base_msg(const struct fi_ioc *from, size_t cnt,
			const struct fi_rma_ioc *at, size_t at_cnt)
{
	usual(BASEMSG);
	msg.msg_iov = from;
	msg.iov_count = cnt;
	msg.rma_iov = at;
	msg.rma_iov_count = at_cnt;
	return fi_atomicmsg(api.ep, &msg, 0);
}

Test(atomic_calls, segments_are_limited)
{
	const struct fi_ioc five[5] = { { operand, 1 }, { operand, 1 },
					{ operand, 1 }, { operand, 1 },
					{ operand, 1 } };
	const struct fi_rma_ioc at[5] = { { 0, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 },
					  { 0, 1, 1 }, { 0, 1, 1 } };
	const struct fi_ioc null = { NULL, 1 };

	rma_open(&api, ATOMIC, 0, 0);
	SEEN(base_msg(five, 4, at, 4));
	cr_expect_eq(base_msg(five, 5, at, 4), -FI_EINVAL);
	cr_expect_eq(base_msg(five, 4, at, 5), -FI_EINVAL);
	cr_expect_eq(base_msg(five, 5, at, 5), -FI_EINVAL);
	cr_expect_eq(base_msg(five, 1, at, 0), -FI_EINVAL);
	cr_expect_eq(base_msg(five, 1, NULL, 1), -FI_EINVAL);
	cr_expect_eq(base_msg(NULL, 1, at, 1), -FI_EINVAL);
	cr_expect_eq(base_msg(&null, 1, at, 1), -FI_EINVAL);
	cr_expect_eq(fi_atomicv(api.ep, five, NULL, 5, api.self, 0, 1, FI_UINT32,
				FI_SUM, NULL), -FI_EINVAL);
	cr_expect_eq(fi_fetch_atomicv(api.ep, ioc, NULL, 2, (struct fi_ioc *) five,
				      NULL, 5, api.self, 0, 1, FI_UINT32, FI_SUM,
				      NULL), -FI_EINVAL);
	cr_expect_eq(fi_fetch_atomic(api.ep, operand, 1, NULL, NULL, NULL, api.self,
				     0, 1, FI_UINT32, FI_SUM, NULL), -FI_EINVAL);
	cr_expect_eq(fi_compare_atomic(api.ep, operand, 1, NULL, NULL, NULL, result,
				       NULL, api.self, 0, 1, FI_UINT32, FI_CSWAP,
				       NULL), -FI_EINVAL);
}

Test(atomic_calls, all_lists_have_as_many_elements)
{
	const struct fi_rma_ioc one = { 0, 1, 1 }, three = { 0, 3, 1 };
	struct fi_ioc two = { result, 2 };

	rma_open(&api, ATOMIC, 0, 0);
	cr_expect_eq(base_msg(ioc, 2, &one, 1), -FI_EINVAL);
	SEEN(base_msg(ioc, 2, &three, 1));
	usual(FETCHMSG);
	cr_expect_eq(fi_fetch_atomicmsg(api.ep, &msg, &two, NULL, 1, 0),
		     -FI_EINVAL);
	cr_expect_eq(fi_fetch_atomicmsg(api.ep, &msg, NULL, NULL, 0, 0),
		     -FI_EINVAL);
	cr_expect_eq(fi_fetch_atomicv(api.ep, ioc, NULL, 2, &two, NULL, 1, api.self,
				      0, 1, FI_UINT32, FI_SUM, NULL), -FI_EINVAL);
	usual(COMPAREMSG);
	cr_expect_eq(fi_compare_atomicmsg(api.ep, &msg, with, NULL, 1, to, NULL, 1,
					  0), -FI_EINVAL);
	cr_expect_eq(fi_compare_atomicmsg(api.ep, &msg, with, NULL, 2, &two, NULL,
					  1, 0), -FI_EINVAL);
}

Test(atomic_calls, no_number_of_elements_wraps)
{
	/* Times 4 bytes, both wrap to 4. */
	const struct fi_ioc huge = { operand, (SIZE_MAX >> 2) + 2 };
	const struct fi_rma_ioc far = { 0, (SIZE_MAX >> 2) + 2, 1 };
	const struct fi_ioc pair[2] = { { operand, SIZE_MAX >> 2 },
					{ operand, 2 } };
	const struct fi_rma_ioc one = { 0, 1, 1 };
	const struct fi_ioc small = { operand, 1 };

	rma_open(&api, ATOMIC, 0, 0);
	cr_expect_eq(base_msg(&huge, 1, &one, 1), -FI_EMSGSIZE);
	cr_expect_eq(base_msg(&small, 1, &far, 1), -FI_EMSGSIZE);
	cr_expect_eq(base_msg(pair, 2, &one, 1), -FI_EMSGSIZE);
	cr_expect_eq(fi_atomic(api.ep, operand, SIZE_MAX, NULL, api.self, 0, 1,
			       FI_UINT32, FI_SUM, NULL), -FI_EMSGSIZE);
}

Test(atomic_calls, nothing_may_be_changed)
{
	const struct fi_rma_ioc none = { ADDR, 0, KEY };

	rma_open(&api, ATOMIC, 0, 0);
	SEEN(fi_atomic(api.ep, NULL, 0, NULL, api.self, ADDR, KEY, FI_UINT32, FI_SUM,
		       NULL));
	SEEN(base_msg(NULL, 0, &none, 1));
	cr_expect_eq(rma_seen.remote[0].len, 0);
}

Test(atomic_calls, injects_are_short)
{
	static uint64_t large[TAGRV_INJECT_MAX / 8 + 1];

	rma_open(&api, ATOMIC, 0, 0);
	SEEN(fi_inject_atomic(api.ep, large, TAGRV_INJECT_MAX / 8, api.self, 0, 1,
			      FI_UINT64, FI_SUM));
	cr_expect_eq(fi_inject_atomic(api.ep, large, TAGRV_INJECT_MAX / 8 + 1,
				      api.self, 0, 1, FI_UINT64, FI_SUM),
		     -FI_EMSGSIZE);
}

/* FI_INJECT is for the operands, of which this operation has none. */
Test(atomic_calls, injected_reads_have_any_length)
{
	static uint64_t large[TAGRV_INJECT_MAX / 8 + 1];
	const size_t cnt = TAGRV_ARRAY_SIZE(large);
	const struct fi_rma_ioc from = { ADDR, cnt, KEY };
	const struct fi_msg_atomic read = {
		.addr = api.self, .rma_iov = &from, .rma_iov_count = 1,
		.datatype = FI_UINT64, .op = FI_ATOMIC_READ,
	};
	struct fi_ioc into = { large, cnt };

	rma_open(&api, ATOMIC, FI_INJECT, 0);
	SEEN(fi_fetch_atomicmsg(api.ep, &read, &into, NULL, 1, FI_INJECT));
	SEEN(fi_fetch_atomic(api.ep, NULL, cnt, NULL, large, NULL, api.self, ADDR, KEY,
			     FI_UINT64, FI_ATOMIC_READ, NULL));
	cr_expect_eq(fi_fetch_atomic(api.ep, large, cnt, NULL, large, NULL, api.self, ADDR,
				     KEY, FI_UINT64, FI_SUM, NULL), -FI_EMSGSIZE);
}

/* ---- capabilities ---- */

static void expect_only(bool can_read, bool can_write)
{
	for (int i = 0; i < CALLS; i++) {
		enum call call = (enum call) i;

		usual(call);
		cr_expect_eq(call_as(call), (call < FETCH ? can_write : can_read) ?
			     0 : -FI_ENOSYS, "call %d", i);
	}
	api_close(&api);
}

Test(atomic_calls, an_endpoint_does_what_it_has_capabilities_for)
{
	rma_open(&api, FI_MSG | FI_RMA, 0, 0);
	expect_only(false, false);
	rma_open(&api, FI_ATOMIC | FI_READ, 0, 0);
	expect_only(true, false);
	rma_open(&api, FI_ATOMIC | FI_WRITE, 0, 0);
	expect_only(false, true);
	rma_open(&api, FI_ATOMIC, 0, 0);
	expect_only(true, true);
}
