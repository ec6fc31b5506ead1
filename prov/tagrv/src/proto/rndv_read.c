/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by remote read: the receiver pulls, the sender only waits.
 *
 *   sender                                    receiver
 *   QUEUED   -- RTS(tag, length, keys) --->   match
 *   FIN_WAIT                                  READING: reads in segments,
 *            <=== remote reads ============     read_depth in flight
 *   end      <-- FIN(status) --------------   end
 *
 * The sender's buffer is lent to us from RTS to FIN, so FIN goes out whatever
 * became of the receive: matched, truncated, discarded. Only when the
 * connection itself is gone does no FIN come; then both sides end their half.
 *
 * Layouts: docs/wire_protocol.md section 1.3. Choice: select.h.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <string.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

/* ---- sender ---- */

struct rts_packet {
	struct tagrv_hdr hdr;
	struct tagrv_rts rts;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};
static_assert(sizeof(struct rts_packet) == TAGRV_RTS_MAX, "no holes in an RTS");

static size_t fill_segments(const struct tagrv_op *op, struct rts_packet *pkt)
{
	size_t cnt = 0;

	for (unsigned i = 0; i < op->iov_cnt; i++) {
		struct tagrv_rts_seg *seg = &pkt->seg[cnt];
		struct tagrv_mem *mem = op->mem[i];

		if (!op->iov[i].iov_len)
			continue;
		seg->addr = htole64((uintptr_t) op->iov[i].iov_base);
		seg->len = htole64(op->iov[i].iov_len);
		pkt->rts.key_len = (uint8_t) mem->dev->ops->mem_key(mem, seg->key);
		cnt++;
	}
	pkt->rts.seg_cnt = (uint8_t) cnt;
	return cnt;
}

int tagrv_rndv_send(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	struct tagrv_link *link = peer->lane->link;
	uint16_t flags = op->space == TAGRV_SPACE_TAGGED ? TAGRV_PKT_TAGGED : 0;
	struct rts_packet pkt;
	struct iovec iov;
	size_t cnt;
	int ret;

	ret = tagrv_op_register(op, link->xport->dev, op->len, true);
	if (ret)
		return ret;
	if (op->flags & FI_REMOTE_CQ_DATA)
		flags |= TAGRV_PKT_DATA;
	memset(&pkt, 0, sizeof(pkt));
	pkt.hdr.opcode = TAGRV_PKT_RTS;
	pkt.hdr.op = htole32(op->node.handle);
	pkt.hdr.tag = htobe64(op->tag);
	pkt.hdr.flags = htole16(flags);
	pkt.hdr.credit = htole16(tagrv_credit_offer(&peer->credit));
	pkt.hdr.seq = htole32(peer->tx_seq);
	pkt.hdr.data = htole64(op->data);
	pkt.rts.len = htole64(op->len);
	cnt = fill_segments(op, &pkt);
	iov.iov_base = &pkt;
	iov.iov_len = offsetof(struct rts_packet, seg[cnt]);
	ret = link->xport->ops->send(link, &iov, 1, 0, NULL);
	if (ret)
		return ret;
	tagrv_credit_gave(&peer->credit, le16toh(pkt.hdr.credit));
	peer->tx_seq++;
	peer->engine->stats.rndv_tx++;
	return 0;
}

void tagrv_rndv_fin_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr)
{
	struct tagrv_op *op = tagrv_pool_find(&peer->engine->tx_ops, hdr->op);
	int status = 0;

	/* Only what waits for a FIN of this very peer can be ended by it. */
	if (!op || op->state != TAGRV_OP_FIN_WAIT || op->peer != peer) {
		tagrv_engine_count_bad(peer,
				       "FIN for an operation that awaits none");
		return;
	}
	if (hdr->data)
		status = hdr->data < FI_ERRNO_MAX ? -(int) hdr->data : -FI_EIO;
	tagrv_list_remove(&op->link);
	tagrv_op_send_end(op, status);
}

/* ---- receiver ---- */

/* What is checked is a copy: the peer may write to the packet meanwhile. */
static bool parse_rts(struct tagrv_remote *remote, const struct tagrv_hdr *hdr,
		      const void *body, size_t len)
{
	struct tagrv_rts rts;
	uint64_t sum = 0;

	if (len < sizeof(rts) || !hdr->op)
		return false;
	tagrv_copy_once(&rts, body, sizeof(rts));
	if ((!rts.seg_cnt && rts.len) || rts.seg_cnt > TAGRV_IOV_MAX ||
	    rts.key_len > TAGRV_KEY_MAX ||
	    len != sizeof(rts) + rts.seg_cnt * sizeof(struct tagrv_rts_seg))
		return false;
	remote->len = le64toh(rts.len);
	remote->op = hdr->op;
	remote->seg_cnt = rts.seg_cnt;
	remote->key_len = rts.key_len;
	if (remote->len > TAGRV_MAX_MSG)
		return false;
	tagrv_copy_once(remote->seg, (const char *) body + sizeof(rts),
			rts.seg_cnt * sizeof(struct tagrv_rts_seg));
	for (unsigned i = 0; i < remote->seg_cnt; i++) {
		remote->seg[i].addr = le64toh(remote->seg[i].addr);
		remote->seg[i].len = le64toh(remote->seg[i].len);
		if (!remote->seg[i].len || remote->seg[i].len > remote->len)
			return false;
		sum += remote->seg[i].len;
	}
	return sum == remote->len;
}

void tagrv_rndv_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		       const void *body, size_t len)
{
	struct tagrv_match_msg *msg;
	struct tagrv_remote remote;
	void *cookie;
	int ret;

	if (!parse_rts(&remote, hdr, body, len)) {
		tagrv_engine_bad_packet(peer, "malformed RTS");
		return;
	}
	peer->engine->stats.rndv_rx++;
	ret = tagrv_unexp_arrive(peer, hdr, &cookie, &msg);
	if (ret == 1) {
		tagrv_recv_rndv(cookie, peer, hdr, &remote);
		return;
	}
	if (!ret)
		ret = tagrv_unexp_keep(peer, msg, hdr, NULL, 0, &remote);
	if (ret)
		tagrv_lane_fail(peer->lane, ret, true);
}

/* All that was to be read is read, or the first failure is known. */
static void pull_end(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	if (tagrv_list_linked(&op->link))
		tagrv_list_remove(&op->link);
	/* Registration ends before the sender may reuse its buffer. */
	tagrv_op_deregister(op);
	if (peer->lane && peer->lane == op->lane)
		tagrv_peer_fin(peer, op->remote.op, op->status);
	tagrv_op_recv_end(op, op->status);
}

static void get_done(struct tagrv_done *done, int status)
{
	struct tagrv_op *op = tagrv_container_of(done, struct tagrv_op, done);

	op->inflight--;
	if (status && !op->status)
		op->status = tagrv_lane_reason(op->lane, status);
	if (op->inflight)
		return;
	if (op->status || op->next == op->want)
		pull_end(op);
}

/* Local position of byte 'pos': the iovec and the offset in it. */
static unsigned find_local(const struct tagrv_op *op, size_t *pos)
{
	unsigned i = 0;

	while (i < op->iov_cnt - 1u && *pos >= op->iov[i].iov_len)
		*pos -= op->iov[i++].iov_len;
	return i;
}

static unsigned find_remote(const struct tagrv_remote *remote, size_t *pos)
{
	unsigned i = 0;

	while (i < remote->seg_cnt - 1u && *pos >= remote->seg[i].len)
		*pos -= remote->seg[i++].len;
	return i;
}

static int get_next(struct tagrv_op *op)
{
	struct tagrv_engine *engine = op->engine;
	struct tagrv_link *link = op->peer->lane->link;
	size_t loff = op->next, roff = op->next;
	unsigned l = find_local(op, &loff);
	unsigned r = find_remote(&op->remote, &roff);
	const struct tagrv_rts_seg *seg = &op->remote.seg[r];
	size_t len = op->want - op->next;
	int ret;

	len = TAGRV_MIN(len, engine->dom->params.read_segment);
	len = TAGRV_MIN(len, link->get_max);
	len = TAGRV_MIN(len, op->iov[l].iov_len - loff);
	len = TAGRV_MIN(len, seg->len - roff);
	ret = link->xport->ops->get(link, (char *) op->iov[l].iov_base + loff,
				    op->mem[l], seg->addr + roff, seg->key,
				    op->remote.key_len, len, &op->done);
	if (ret)
		return ret;
	op->next += len;
	op->inflight++;
	return 0;
}

int tagrv_rndv_serve(struct tagrv_op *op)
{
	while (op->next < op->want && !op->status) {
		int ret = get_next(op);

		if (!ret)
			continue;
		if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
			return -FI_EAGAIN;
		op->status = ret;
	}
	tagrv_list_remove(&op->link);
	if (!op->inflight)
		pull_end(op);
	return 0;
}

void tagrv_rndv_pull(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	op->state = TAGRV_OP_READING;
	op->lane = peer->lane;
	op->done.fn = get_done;
	op->status = 0;
	op->next = 0;
	op->inflight = 0;
	op->want = TAGRV_MIN(op->remote.len, op->room);
	if (op->want)
		op->status = tagrv_op_register(op, peer->lane->link->xport->dev,
					       op->want, false);
	tagrv_list_push_tail(&peer->readers, &op->link);
	/* Reads keep the order in which receives matched. */
	if (op->link.prev != &peer->readers || tagrv_rndv_serve(op))
		tagrv_peer_set_busy(peer);
}
