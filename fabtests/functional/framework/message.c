/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posts a message by the call that msg.call names.
 */
#include "message.h"

#include <sched.h>

struct vector {
	struct iovec one;
	const struct iovec *iov;
	size_t count;
};

static void vector_init(struct vector *v, const struct msg *m)
{
	v->one = (struct iovec){ .iov_base = m->buf, .iov_len = m->len };
	v->iov = m->iov ? m->iov : &v->one;
	v->count = m->iov ? m->iov_count : 1;
	if (!m->iov && !m->buf && !m->len) {
		v->iov = NULL;
		v->count = 0;
	}
}

static struct fi_msg_tagged tagged_msg(const struct msg *m, const struct vector *v)
{
	return (struct fi_msg_tagged){
		.msg_iov = v->iov,
		.iov_count = v->count,
		.addr = m->addr,
		.tag = m->tag,
		.ignore = m->ignore,
		.context = m->ctx,
		.data = m->data,
	};
}

static struct fi_msg plain_msg(const struct msg *m, const struct vector *v)
{
	return (struct fi_msg){
		.msg_iov = v->iov,
		.iov_count = v->count,
		.addr = m->addr,
		.context = m->ctx,
		.data = m->data,
	};
}

static ssize_t send_tagged(struct fid_ep *ep, const struct msg *m, const struct vector *v)
{
	struct fi_msg_tagged msg = tagged_msg(m, v);

	switch (m->call) {
	case CALL_BUF:
		return fi_tsend(ep, m->buf, m->len, NULL, m->addr, m->tag, m->ctx);
	case CALL_IOV:
		return fi_tsendv(ep, v->iov, NULL, v->count, m->addr, m->tag, m->ctx);
	case CALL_MSG:
		return fi_tsendmsg(ep, &msg, m->flags);
	case CALL_INJECT:
		return fi_tinject(ep, m->buf, m->len, m->addr, m->tag);
	case CALL_DATA:
		return fi_tsenddata(ep, m->buf, m->len, NULL, m->data, m->addr, m->tag, m->ctx);
	case CALL_INJECTDATA:
		return fi_tinjectdata(ep, m->buf, m->len, m->data, m->addr, m->tag);
	}
	return -FI_ENOSYS;
}

static ssize_t send_plain(struct fid_ep *ep, const struct msg *m, const struct vector *v)
{
	struct fi_msg msg = plain_msg(m, v);

	switch (m->call) {
	case CALL_BUF:
		return fi_send(ep, m->buf, m->len, NULL, m->addr, m->ctx);
	case CALL_IOV:
		return fi_sendv(ep, v->iov, NULL, v->count, m->addr, m->ctx);
	case CALL_MSG:
		return fi_sendmsg(ep, &msg, m->flags);
	case CALL_INJECT:
		return fi_inject(ep, m->buf, m->len, m->addr);
	case CALL_DATA:
		return fi_senddata(ep, m->buf, m->len, NULL, m->data, m->addr, m->ctx);
	case CALL_INJECTDATA:
		return fi_injectdata(ep, m->buf, m->len, m->data, m->addr);
	}
	return -FI_ENOSYS;
}

ssize_t msg_try_send(struct fid_ep *ep, const struct msg *m)
{
	struct vector v;

	vector_init(&v, m);
	return m->tagged ? send_tagged(ep, m, &v) : send_plain(ep, m, &v);
}

static ssize_t recv_tagged(struct fid_ep *ep, const struct msg *m, const struct vector *v)
{
	struct fi_msg_tagged msg = tagged_msg(m, v);

	if (m->call == CALL_MSG)
		return fi_trecvmsg(ep, &msg, m->flags);
	if (m->call == CALL_IOV)
		return fi_trecvv(ep, v->iov, NULL, v->count, m->addr, m->tag, m->ignore, m->ctx);
	return fi_trecv(ep, m->buf, m->len, NULL, m->addr, m->tag, m->ignore, m->ctx);
}

static ssize_t recv_plain(struct fid_ep *ep, const struct msg *m, const struct vector *v)
{
	struct fi_msg msg = plain_msg(m, v);

	if (m->call == CALL_MSG)
		return fi_recvmsg(ep, &msg, m->flags);
	if (m->call == CALL_IOV)
		return fi_recvv(ep, v->iov, NULL, v->count, m->addr, m->ctx);
	return fi_recv(ep, m->buf, m->len, NULL, m->addr, m->ctx);
}

ssize_t msg_try_recv(struct fid_ep *ep, const struct msg *m)
{
	struct vector v;

	vector_init(&v, m);
	return m->tagged ? recv_tagged(ep, m, &v) : recv_plain(ep, m, &v);
}

static void retry(struct fx *fx, struct fid_ep *ep, const struct msg *m, const char *what,
		  ssize_t (*attempt)(struct fid_ep *ep, const struct msg *m))
{
	ssize_t ret;

	while ((ret = attempt(ep, m)) == -FI_EAGAIN) {
		fx_progress(fx);
		FX_CHECK_MOVES(fx, "%s of %zu bytes (%s): -FI_EAGAIN without end",
		      what, m->len, msg_call_name(m->call));
		sched_yield();
	}
	CHECK(!ret, "%s of %zu bytes (%s): %zd (%s)", what, m->len, msg_call_name(m->call), ret,
	      fi_strerror((int)-ret));
}

void msg_send(struct fx *fx, const struct msg *m)
{
	retry(fx, fx->ep, m, "send", msg_try_send);
}

void msg_recv(struct fx *fx, const struct msg *m)
{
	retry(fx, fx_rx_ep(fx), m, "receive", msg_try_recv);
}

const char *msg_call_name(enum msg_call call)
{
	static const char *const name[] = {
		[CALL_BUF] = "plain",	  [CALL_IOV] = "vector",
		[CALL_MSG] = "msg",	  [CALL_INJECT] = "inject",
		[CALL_DATA] = "data",	  [CALL_INJECTDATA] = "inject data",
	};

	return name[call];
}
