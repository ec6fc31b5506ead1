/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by copies: a pipeline of fragments through the packet buffers of
 * both sides, for memory that cannot be registered or reached.
 *
 *   sender                                    receiver (cts.c)
 *   ANNOUNCED                                 CTS
 *            <-- CTS(handle, want, n) ------
 *   COPYING  --- FRAG(handle, offset) ----->   copied into place
 *            --- ... n bytes in all ------->
 *            <-- GRANT(n) -----------------    when half of them are here
 *   FIN_WAIT --- FRAG --------------------->
 *   end      <-- FIN(status) --------------   end
 *
 *   A sender that cannot go on says so:
 *   end      --- DONE(handle, status) ----->  end
 *
 * A fragment is full unless it is the last, and begins where the one before it
 * ended: the receiver accepts nothing else.
 *
 * Layouts: docs/wire_protocol.md section 1.8.
 */
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "proto/packet/packet_send.h"
#include "proto/rndv/rndv_priv.h"

/* ---- receiver ---- */

static const struct tagrv_proto_ops recv_ops = {
	.name = "copy",
	.move = tagrv_rndv_grant,
	.fail = tagrv_rndv_cts_fail,
};

bool tagrv_rndv_copy_begin(struct tagrv_op *op)
{
	tagrv_rndv_ask(op, &recv_ops, TAGRV_PROTO_RNDV_COPY);
	return true;
}

/* ---- sender ---- */

int tagrv_rndv_send_frag(struct tagrv_op *op, size_t len)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_FRAG,
		.op = op->rndv->remote.op,
		.data = op->rndv->next,
	};
	uint64_t words[TAGRV_SHORT_WORDS];
	struct iovec iov[TAGRV_IOV_MAX + 1] = { { words, sizeof(words) } };
	size_t cnt = tagrv_iov_slice(iov + 1, op->iov, op->iov_cnt,
				     op->rndv->next, len);
	int ret = tagrv_packet_send(op->peer, &hdr, iov, cnt + 1, len, 0, NULL);

	if (!ret)
		op->rndv->next += len;
	return ret;
}

static int send_frags(struct tagrv_op *op)
{
	struct tagrv_rndv *r = op->rndv;
	size_t max = op->peer->frag_max;
	int ret = 0;

	if (r->ask_grant)
		ret = tagrv_rndv_send_frag(op, 0);
	r->ask_grant &= ret != 0;
	while (!ret && r->next < r->granted)
		ret = tagrv_rndv_send_frag(op, TAGRV_MIN(max,
							 r->want - r->next));
	return ret;
}

int tagrv_rndv_copy(struct tagrv_op *op)
{
	int ret = send_frags(op);

	if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
		return -FI_EAGAIN;
	tagrv_list_remove(&op->link);
	if (ret) {
		tagrv_rndv_send_quit(op, ret);
		return 0;
	}
	if (op->rndv->next == op->rndv->want)
		tagrv_op_set_state(op, TAGRV_OP_FIN_WAIT);
	tagrv_list_push_tail(&op->peer->waiting, &op->link);
	return 0;
}

static const struct tagrv_proto_ops send_ops = {
	.name = "copy",
	.move = tagrv_rndv_copy,
	.fail = tagrv_rndv_send_fail,
	.release = tagrv_rndv_release,
};

static void begin(struct tagrv_op *op, bool ask_grant)
{
	tagrv_op_set_state(op, TAGRV_OP_COPYING);
	op->ops = &send_ops;
	op->rndv->ask_grant = ask_grant;
}

void tagrv_rndv_copy_start(struct tagrv_op *op, size_t granted)
{
	/* The peer will not read it. */
	tagrv_op_deregister(op);
	op->rndv->granted = granted;
	begin(op, !granted);
	tagrv_op_count_moved_tx(op, TAGRV_PROTO_RNDV_COPY);
}

void tagrv_rndv_copy_rest(struct tagrv_op *op, size_t from)
{
	op->rndv->next = op->rndv->granted = from;
	begin(op, true);
}

/* Whole fragments, or all the rest: the receiver counts the same ones. */
bool tagrv_rndv_is_grant(const struct tagrv_op *op, uint64_t granted)
{
	const struct tagrv_rndv *r = op->rndv;

	return granted > r->granted && granted <= r->want &&
	       (granted == r->want || !(granted % op->peer->frag_max));
}

void tagrv_rndv_grant_packet(struct tagrv_peer *peer,
			     const struct tagrv_hdr *hdr, const void *body,
			     size_t len)
{
	struct tagrv_op *op =
		tagrv_rndv_find_send(peer, hdr->op, TAGRV_OP_COPYING);

	tagrv_assert_locked(peer->engine->dom);
	(void) body;
	(void) len;
	if (!op || !tagrv_rndv_is_grant(op, hdr->data)) {
		tagrv_peer_bad_packet(peer, "grant for nothing");
		return;
	}
	op->rndv->granted = hdr->data;
	tagrv_rndv_resume(op);
}
