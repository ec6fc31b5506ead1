/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Describes one send or receive, and posts it by any of libfabric's calls.
 */
#ifndef FUNCTIONAL_MESSAGE_H
#define FUNCTIONAL_MESSAGE_H

#include "fixture.h"

enum msg_call {
	CALL_BUF,		/* fi_send, fi_recv, and their tagged forms */
	CALL_IOV,		/* fi_sendv, fi_recvv */
	CALL_MSG,		/* fi_sendmsg, fi_recvmsg: only these use msg.flags */
	CALL_INJECT,
	CALL_DATA,		/* fi_senddata */
	CALL_INJECTDATA,
};

struct msg {
	enum msg_call call;
	bool tagged;
	void *buf;		/* used when iov is NULL */
	size_t len;
	const struct iovec *iov;
	size_t iov_count;
	fi_addr_t addr;
	uint64_t tag;
	uint64_t ignore;
	uint64_t data;
	uint64_t flags;
	void *ctx;
};

/* One attempt; returns the value of the call. */
ssize_t msg_try_send(struct fid_ep *ep, const struct msg *m);
ssize_t msg_try_recv(struct fid_ep *ep, const struct msg *m);

/* Repeat on -FI_EAGAIN, with progress; another error fails the case. */
void msg_send(struct fx *fx, const struct msg *m);
void msg_recv(struct fx *fx, const struct msg *m);

#define SEND(fx, ...) msg_send((fx), &(struct msg){ __VA_ARGS__ })
#define RECV(fx, ...) msg_recv((fx), &(struct msg){ __VA_ARGS__ })
#define TRY_SEND(fx, ...) msg_try_send((fx)->ep, &(struct msg){ __VA_ARGS__ })
#define TRY_RECV(fx, ...) msg_try_recv(fx_rx_ep(fx), &(struct msg){ __VA_ARGS__ })

/* Whether sends by this call write a completion. */
static inline bool msg_completes(enum msg_call call)
{
	return call != CALL_INJECT && call != CALL_INJECTDATA;
}

const char *msg_call_name(enum msg_call call);

#endif
