/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous: the announcement, and how the parts play together.
 *
 *   sender                                    receiver
 *   QUEUED    -- RTS(tag, length, keys) -->   match, choose: begin.c
 *   ANNOUNCED                                   get:      read.c
 *                                               put:      write.c
 *                                               copy:     copy.c
 *                                               pipeline: pipe.c, piece.c
 *   end      <-- FIN(status) --------------   end
 *
 * The sender proposes a protocol, by its table (select/select.h); the receiver may
 * want another one (FI_TAGRV_RNDV) and decides. An RTS has keys only when the sender
 * proposes get: peers may read no other message. There are none either when the sender
 * cannot register its buffer; one longer than a piece goes by pieces then.
 *
 * The sender's buffer is lent to us from RTS to FIN, so a FIN goes out whatever
 * became of the receive: matched, truncated, discarded. Only put ends the sender by
 * its last write, unless a level above INJECT is asked for. The FIN serves for
 * every level: it is sent after the match, when the bytes are in place. No FIN
 * comes when the connection itself is gone; then both sides end their half.
 *
 * Layouts: docs/wire_protocol.md section 1.3.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <string.h>

#include "core/iov.h"
#include "proto/packet/packet_flags.h"
#include "proto/packet/packet_send.h"
#include "proto/rndv/rndv_priv.h"

struct rts_packet {
	uint64_t words[TAGRV_SHORT_WORDS];
	struct tagrv_rts rts;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};
static_assert(sizeof(struct rts_packet) == TAGRV_RTS_MAX, "no holes in an RTS");

static const struct tagrv_proto_ops announced_ops = {
	.name = "rendezvous",
	.fail = tagrv_rndv_send_fail,
	.release = tagrv_rndv_release,
};

static bool fits_packet(const struct tagrv_op *op)
{
	return op->len <= op->peer->packet_limit &&
	       tagrv_credit_units(op->len) <= op->peer->credit.left;
}

static bool may_read(const struct tagrv_op *op)
{
	const struct tagrv_xport_attr *attr = &tagrv_peer_xport(op->peer)->attr;

	return attr->caps & TAGRV_XPORT_GET && attr->admits & TAGRV_MEM_READ;
}

/*
 * Registers the message for the protocol, so that the peer may read it by get and
 * nobody but us by put. 0: *proto is the one to propose, *readable says whether there
 * are keys. A buffer that the device refuses for want of locked memory, or by its
 * nature, will be moved in pieces or copied. -FI_EFAULT: nobody could read it;
 * TAGRV_RNDV_USE_EAGER.
 */
static int prepare(struct tagrv_op *op, enum tagrv_proto *proto, bool *readable)
{
	bool get = *proto == TAGRV_PROTO_RNDV_READ && may_read(op);
	int ret = -FI_EOPNOTSUPP;

	*readable = false;
	if (*proto == TAGRV_PROTO_RNDV_COPY || *proto == TAGRV_PROTO_RNDV_PIPE)
		return 0;
	if (get || *proto == TAGRV_PROTO_RNDV_WRITE)
		ret = tagrv_op_register(op, tagrv_peer_xport(op->peer)->dev,
					op->len, get ? TAGRV_MEM_READ : 0);
	*readable = get && !ret;
	if (!ret)
		return 0;
	tagrv_op_deregister(op);
	if (ret == -FI_ENOMEM && fits_packet(op))
		return TAGRV_RNDV_USE_EAGER;
	if (tagrv_rndv_is_long(op, op->len) && may_read(op))
		*proto = TAGRV_PROTO_RNDV_PIPE;
	return ret == -FI_EFAULT ? ret : 0;
}

/* Sends the packet, and behind it as much of the message as travels with it. */
static int send_rts(struct tagrv_op *op, struct tagrv_hdr *hdr,
		    struct rts_packet *pkt, size_t head)
{
	struct iovec iov[TAGRV_IOV_MAX + 1] = {
		{ pkt, offsetof(struct rts_packet, seg[pkt->rts.seg_cnt]) },
	};
	size_t cnt = tagrv_iov_slice(iov + 1, op->iov, op->iov_cnt, 0, head);
	struct tagrv_peer *peer = op->peer;
	size_t body = iov[0].iov_len - sizeof(*hdr) + head;
	int ret = TAGRV_UNLIKELY(peer->number) && op->space == TAGRV_SPACE_TAGGED ?
		  tagrv_packet_send_listed(peer, hdr, iov, cnt + 1, body) :
		  tagrv_packet_send(peer, hdr, iov, cnt + 1, body, 0, NULL);

	if (ret)
		return ret;
	if (head)
		peer->credit.left -= tagrv_credit_units(head);
	peer->hold.places.left--;
	peer->tx_seq++;
	peer->engine->stats.rndv_tx++;
	op->rndv->offered = head;
	op->rndv->remote.proto = pkt->rts.proto;
	op->ops = &announced_ops;
	return 0;
}

static int send_announcement(struct tagrv_op *op, enum tagrv_proto proto,
			     bool readable)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_RTS,
		.op = op->node.handle,
		.tag = op->tag,
		/* Its FIN serves for DELIVERY and MATCH: no other is asked for. */
		.flags = tagrv_packet_flags(op->space,
					   op->flags & FI_REMOTE_CQ_DATA),
		.seq = op->peer->tx_seq,
		.data = op->data,
	};
	struct rts_packet pkt;
	size_t head = 0;

	memset(&pkt, 0, sizeof(pkt));
	pkt.rts.len = htole64(op->len);
	pkt.rts.proto = (uint8_t) proto;
	if (readable)
		pkt.rts.seg_cnt = (uint8_t) tagrv_rndv_pack_segments(
			op, op->len, pkt.seg, &pkt.rts.key_len);
	if (proto == TAGRV_PROTO_RNDV_PIPE)
		head = tagrv_rndv_head(op);
	return send_rts(op, &hdr, &pkt, head);
}

int tagrv_rndv_announce(struct tagrv_op *op, enum tagrv_proto proto)
{
	bool readable;
	int ret;

	tagrv_assert_locked(op->engine->dom);
	/* Until the peer has received others: proto/hold.h. */
	if (TAGRV_UNLIKELY(!op->peer->hold.places.left))
		return -FI_EAGAIN;
	ret = prepare(op, &proto, &readable);
	if (ret)
		return ret;
	if (!tagrv_rndv_attach(op))
		return -FI_ENOMEM;
	ret = send_announcement(op, proto, readable);
	if (ret)
		tagrv_rndv_detach(op);
	return ret;
}
