/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posts a one-sided operation by the call that onesided.call names.
 */
#include "onesided.h"
#include "arithmetic.h"

#include <sched.h>

/* ---- reads and writes ---- */

struct parts {
	struct iovec one;
	const struct iovec *iov;
	size_t count;
	struct fi_rma_iov remote_one;
	const struct fi_rma_iov *remote;
	size_t remote_count;
};

static void parts_init(struct parts *p, const struct onesided *o)
{
	p->one = (struct iovec){ .iov_base = o->buf, .iov_len = o->len };
	p->iov = o->iov ? o->iov : &p->one;
	p->count = o->iov ? o->iov_count : 1;
	p->remote_one = (struct fi_rma_iov){ .addr = o->at, .len = o->len, .key = o->key };
	p->remote = o->remote ? o->remote : &p->remote_one;
	p->remote_count = o->remote ? o->remote_count : 1;
}

static struct fi_msg_rma rma_msg(const struct onesided *o, const struct parts *p)
{
	return (struct fi_msg_rma){
		.msg_iov = p->iov,
		.iov_count = p->count,
		.addr = o->addr,
		.rma_iov = p->remote,
		.rma_iov_count = p->remote_count,
		.context = o->ctx,
		.data = o->data,
	};
}

static ssize_t put(struct fid_ep *ep, const struct onesided *o)
{
	struct fi_msg_rma msg;
	struct parts p;

	parts_init(&p, o);
	msg = rma_msg(o, &p);
	switch (o->call) {
	case CALL_BUF:
		return fi_write(ep, o->buf, o->len, NULL, o->addr, o->at, o->key, o->ctx);
	case CALL_IOV:
		return fi_writev(ep, p.iov, NULL, p.count, o->addr, o->at, o->key, o->ctx);
	case CALL_MSG:
		return fi_writemsg(ep, &msg, o->flags);
	case CALL_INJECT:
		return fi_inject_write(ep, o->buf, o->len, o->addr, o->at, o->key);
	case CALL_DATA:
		return fi_writedata(ep, o->buf, o->len, NULL, o->data, o->addr, o->at, o->key,
				    o->ctx);
	case CALL_INJECTDATA:
		return fi_inject_writedata(ep, o->buf, o->len, o->data, o->addr, o->at, o->key);
	}
	return -FI_ENOSYS;
}

static ssize_t get(struct fid_ep *ep, const struct onesided *o)
{
	struct fi_msg_rma msg;
	struct parts p;

	parts_init(&p, o);
	msg = rma_msg(o, &p);
	if (o->call == CALL_MSG)
		return fi_readmsg(ep, &msg, o->flags);
	if (o->call == CALL_IOV)
		return fi_readv(ep, p.iov, NULL, p.count, o->addr, o->at, o->key, o->ctx);
	return fi_read(ep, o->buf, o->len, NULL, o->addr, o->at, o->key, o->ctx);
}

/* ---- atomics ---- */

/* Segments of whole elements, as atomics name them. */
struct elements {
	struct fi_ioc ioc[ONESIDED_IOV_MAX];
	size_t count;
};

static void elements_init(struct elements *e, const struct onesided *o, const void *buf,
			  const struct iovec *iov, size_t count)
{
	struct iovec one = { .iov_base = (void *)(uintptr_t)buf, .iov_len = o->len };

	e->count = iov ? count : 1;
	for (size_t i = 0; i < e->count; i++) {
		const struct iovec *part = iov ? &iov[i] : &one;

		e->ioc[i] = (struct fi_ioc){
			.addr = part->iov_base, .count = part->iov_len / arithmetic_size(o->type),
		};
	}
}

static size_t remote_elements(struct fi_rma_ioc *ioc, const struct onesided *o)
{
	struct fi_rma_iov one = { .addr = o->at, .len = o->len, .key = o->key };
	size_t count = o->remote ? o->remote_count : 1;

	for (size_t i = 0; i < count; i++) {
		const struct fi_rma_iov *part = o->remote ? &o->remote[i] : &one;

		ioc[i] = (struct fi_rma_ioc){
			.addr = part->addr, .count = part->len / arithmetic_size(o->type),
			.key = part->key,
		};
	}
	return count;
}

/* What all three families of calls take. */
struct atomic_args {
	struct elements operand, result, compare;
	struct fi_rma_ioc remote[ONESIDED_IOV_MAX];
	struct fi_msg_atomic msg;
	size_t count;
};

static void atomic_args_init(struct atomic_args *a, const struct onesided *o)
{
	bool none = o->op == FI_ATOMIC_READ && !o->buf;

	elements_init(&a->operand, o, o->buf, o->iov, o->iov_count);
	elements_init(&a->result, o, o->result, o->result_iov, o->result_count);
	elements_init(&a->compare, o, o->compare, o->compare_iov, o->compare_count);
	a->count = o->len / arithmetic_size(o->type);
	a->msg = (struct fi_msg_atomic){
		.msg_iov = none ? NULL : a->operand.ioc,
		.iov_count = none ? 0 : a->operand.count,
		.addr = o->addr,
		.rma_iov = a->remote,
		.rma_iov_count = remote_elements(a->remote, o),
		.datatype = o->type,
		.op = o->op,
		.context = o->ctx,
		.data = o->data,
	};
}

static ssize_t atomic(struct fid_ep *ep, const struct onesided *o, struct atomic_args *a)
{
	switch (o->call) {
	case CALL_IOV:
		return fi_atomicv(ep, a->operand.ioc, NULL, a->operand.count, o->addr, o->at, o->key,
				  o->type, o->op, o->ctx);
	case CALL_MSG:
		return fi_atomicmsg(ep, &a->msg, o->flags);
	case CALL_INJECT:
		return fi_inject_atomic(ep, o->buf, a->count, o->addr, o->at, o->key, o->type,
					o->op);
	default:
		return fi_atomic(ep, o->buf, a->count, NULL, o->addr, o->at, o->key, o->type, o->op,
				 o->ctx);
	}
}

static ssize_t fetch(struct fid_ep *ep, const struct onesided *o, struct atomic_args *a)
{
	switch (o->call) {
	case CALL_IOV:
		return fi_fetch_atomicv(ep, a->msg.msg_iov, NULL, a->msg.iov_count, a->result.ioc,
					NULL, a->result.count, o->addr, o->at, o->key, o->type, o->op,
					o->ctx);
	case CALL_MSG:
		return fi_fetch_atomicmsg(ep, &a->msg, a->result.ioc, NULL, a->result.count,
					  o->flags);
	default:
		return fi_fetch_atomic(ep, o->buf, a->count, NULL, o->result, NULL, o->addr, o->at,
				       o->key, o->type, o->op, o->ctx);
	}
}

static ssize_t compare(struct fid_ep *ep, const struct onesided *o, struct atomic_args *a)
{
	switch (o->call) {
	case CALL_IOV:
		return fi_compare_atomicv(ep, a->operand.ioc, NULL, a->operand.count,
					  a->compare.ioc, NULL, a->compare.count, a->result.ioc, NULL,
					  a->result.count, o->addr, o->at, o->key, o->type, o->op,
					  o->ctx);
	case CALL_MSG:
		return fi_compare_atomicmsg(ep, &a->msg, a->compare.ioc, NULL, a->compare.count,
					    a->result.ioc, NULL, a->result.count, o->flags);
	default:
		return fi_compare_atomic(ep, o->buf, a->count, NULL, o->compare, NULL, o->result,
					 NULL, o->addr, o->at, o->key, o->type, o->op, o->ctx);
	}
}

ssize_t onesided_try(struct fid_ep *ep, const struct onesided *o)
{
	struct atomic_args a;

	if (o->kind == DO_PUT)
		return put(ep, o);
	if (o->kind == DO_GET)
		return get(ep, o);
	atomic_args_init(&a, o);
	if (o->kind == DO_ATOMIC)
		return atomic(ep, o, &a);
	return o->kind == DO_FETCH ? fetch(ep, o, &a) : compare(ep, o, &a);
}

void onesided_post(struct fx *fx, const struct onesided *o)
{
	ssize_t ret;

	while ((ret = onesided_try(fx->ep, o)) == -FI_EAGAIN) {
		fx_progress(fx);
		FX_CHECK_MOVES(fx, "%s of %zu bytes (%s): -FI_EAGAIN without end",
			       onesided_name(o->kind), o->len, msg_call_name(o->call));
		sched_yield();
	}
	CHECK(!ret, "%s of %zu bytes (%s): %zd (%s)", onesided_name(o->kind), o->len,
	      msg_call_name(o->call), ret, fi_strerror((int)-ret));
}

uint64_t onesided_did(enum onesided_kind kind)
{
	static const uint64_t did[] = {
		[DO_PUT] = DID_PUT, [DO_GET] = DID_GET, [DO_ATOMIC] = DID_ATOMIC,
		[DO_FETCH] = DID_FETCH, [DO_COMPARE] = DID_FETCH,
	};

	return did[kind];
}

const char *onesided_name(enum onesided_kind kind)
{
	static const char *const name[] = {
		[DO_PUT] = "write", [DO_GET] = "read", [DO_ATOMIC] = "atomic",
		[DO_FETCH] = "fetching atomic", [DO_COMPARE] = "comparing atomic",
	};

	return name[kind];
}
