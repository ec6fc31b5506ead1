/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by copies: a pipeline of fragments through the packet buffers of
 * both sides, for memory that cannot be registered or reached.
 *
 *   sender                                    receiver
 *   ANNOUNCED                                 TAKING
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
 * A link is in order, so a fragment always begins where the one before ended,
 * and it is full unless it is the last: nothing else is accepted, and nothing
 * is written outside of what was asked for.
 *
 * Layouts: docs/wire_protocol.md section 1.8.
 */
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

/* ---- receiver ---- */

void tagrv_rndv_take_frag(struct tagrv_op *op, const void *payload, size_t len)
{
	struct iovec iov[TAGRV_IOV_MAX];
	size_t cnt = tagrv_iov_slice(iov, op->iov, op->iov_cnt, op->next, len);

	tagrv_iov_scatter(iov, cnt, payload, len);
	op->next += len;
}

/* ---- sender ---- */

int tagrv_rndv_send_frag(struct tagrv_op *op, size_t len)
{
	struct tagrv_peer *peer = op->peer;
	struct tagrv_link *link = peer->lane->link;
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_FRAG,
		.op = op->remote.op,
		.credit = tagrv_credit_offer(&peer->credit),
		.data = op->next,
	};
	uint64_t words[TAGRV_SHORT_WORDS];
	struct iovec iov[TAGRV_IOV_MAX + 1] = { { words, sizeof(words) } };
	size_t cnt;
	int ret;

	tagrv_hdr_pack(words, &hdr);
	cnt = tagrv_iov_slice(iov + 1, op->iov, op->iov_cnt, op->next, len);
	ret = link->xport->ops->send(link, iov, cnt + 1, 0, NULL);
	if (ret)
		return ret;
	tagrv_credit_gave(&peer->credit, hdr.credit);
	op->next += len;
	return 0;
}

static int send_frags(struct tagrv_op *op)
{
	size_t max = op->peer->frag_max;
	int ret = 0;

	if (op->asks)
		ret = tagrv_rndv_send_frag(op, 0);
	op->asks &= ret != 0;
	while (!ret && op->next < op->granted)
		ret = tagrv_rndv_send_frag(op, TAGRV_MIN(max,
							 op->want - op->next));
	return ret;
}

int tagrv_rndv_copy(struct tagrv_op *op)
{
	int ret = send_frags(op);

	if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
		return -FI_EAGAIN;
	tagrv_list_remove(&op->link);
	if (ret) {
		/* The receiver waits for the rest. */
		tagrv_peer_done(op->peer, op->remote.op, 0, ret);
		tagrv_op_send_end(op, ret);
		return 0;
	}
	if (op->next == op->want)
		op->state = TAGRV_OP_FIN_WAIT;
	tagrv_list_push_tail(&op->peer->waiting, &op->link);
	return 0;
}

/* Whole fragments, or all the rest: the receiver counts the same ones. */
bool tagrv_rndv_is_grant(const struct tagrv_op *op, uint64_t granted)
{
	return granted > op->granted && granted <= op->want &&
	       (granted == op->want || !(granted % op->peer->frag_max));
}

void tagrv_rndv_grant_packet(struct tagrv_peer *peer,
			     const struct tagrv_hdr *hdr)
{
	struct tagrv_op *op =
		tagrv_rndv_find_send(peer, hdr->op, TAGRV_OP_COPYING);

	if (!op || !tagrv_rndv_is_grant(op, hdr->data)) {
		tagrv_engine_bad_packet(peer, "grant for nothing");
		return;
	}
	op->granted = hdr->data;
	tagrv_rndv_go_on(op);
}
