/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous: the announcement, who moves the bytes, the end.
 *
 *   sender                                    receiver
 *   QUEUED    -- RTS(tag, length, keys) -->   match, choose
 *   ANNOUNCED                                   get:      rndv_read.c
 *                                               put:      rndv_write.c
 *                                               copy:     rndv_copy.c
 *                                               pipeline: rndv_pipe.c
 *   end      <-- FIN(status) --------------   end
 *
 * The sender proposes a way, by its table (select.h); the receiver may want
 * another one (FI_TAGRV_RNDV), and its word is the last. That is tried first, then
 * get, then pieces, then (without remote reads) put, then copies, which always work:
 * they need no keys and no registration. An RTS has no keys when the sender was told
 * to have it copied, cannot register its buffer, or not before it is to be moved: a
 * buffer longer than a piece that cannot be registered at once goes by pieces.
 *
 * The sender's buffer is lent to us from RTS to FIN, so FIN goes out whatever
 * became of the receive: matched, truncated, discarded (put alone ends the sender
 * by its last write, unless a level above INJECT is asked for). Only when the
 * connection itself is gone does no FIN come; then both sides end their half.
 * It serves for every level: it is sent after the match, and when the bytes are
 * in place.
 *
 * Layouts: docs/wire_protocol.md section 1.3.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <string.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

/* ---- sender ---- */

struct rts_packet {
	uint64_t hdr[TAGRV_SHORT_WORDS];
	struct tagrv_rts rts;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};
static_assert(sizeof(struct rts_packet) == TAGRV_RTS_MAX, "no holes in an RTS");

size_t tagrv_rndv_fill(const struct tagrv_op *op, size_t len,
		       struct tagrv_rts_seg *seg, uint8_t *key_len)
{
	size_t cnt = 0;

	for (unsigned i = 0; i < op->iov_cnt && len; i++) {
		size_t n = TAGRV_MIN(op->iov[i].iov_len, len);
		struct tagrv_mem *mem = op->mem[i];

		if (!n)
			continue;
		seg[cnt].addr = htole64((uintptr_t) op->iov[i].iov_base);
		seg[cnt].len = htole64(n);
		*key_len = (uint8_t) mem->dev->ops->mem_key(mem, seg[cnt].key);
		len -= n;
		cnt++;
	}
	return cnt;
}

static bool fits_packet(const struct tagrv_op *op)
{
	return op->len <= op->peer->packet_limit &&
	       tagrv_credit_units(op->len) <= op->peer->credit.left;
}

/*
 * 1: the peer may read it; 0: it will be copied; -FI_EFAULT: nobody could. What
 * a device refuses for want of locked memory or by its nature is no error;
 * -FI_ENOMEM: it is, but one packet would do.
 */
static int make_readable(struct tagrv_op *op, const struct tagrv_xport *xport,
			 enum tagrv_proto proto)
{
	int ret;

	if (proto == TAGRV_PROTO_RNDV_COPY || proto == TAGRV_PROTO_RNDV_PIPE ||
	    !(xport->attr.caps & TAGRV_XPORT_GET))
		return 0;
	ret = tagrv_op_register(op, xport->dev, op->len, TAGRV_MEM_READ);
	if (!ret)
		return 1;
	tagrv_op_deregister(op);
	if (ret == -FI_ENOMEM && fits_packet(op))
		return ret;
	return ret == -FI_EFAULT ? ret : 0;
}

/* Whether less of it at a time may be what can be registered. */
static bool is_long(const struct tagrv_op *op, size_t len)
{
	return len > op->engine->dom->params.read_segment &&
	       op->peer->lane->link->xport->attr.caps & TAGRV_XPORT_GET;
}

/* The packet, and behind it as much of the message as goes with it. */
static int send_rts(struct tagrv_op *op, struct rts_packet *pkt, size_t segs)
{
	struct tagrv_link *link = op->peer->lane->link;
	struct iovec iov[TAGRV_IOV_MAX + 1] = {
		{ pkt, offsetof(struct rts_packet, seg[segs]) },
	};
	size_t head = pkt->rts.proto == TAGRV_PROTO_RNDV_PIPE ?
		      tagrv_rndv_head(op) : 0;
	size_t cnt = tagrv_iov_slice(iov + 1, op->iov, op->iov_cnt, 0, head);
	int ret = link->xport->ops->send(link, iov, cnt + 1, 0, NULL);

	if (ret)
		return ret;
	if (head)
		op->peer->credit.left -= tagrv_credit_units(head);
	op->offered = head;
	op->remote.proto = pkt->rts.proto;
	return 0;
}

int tagrv_rndv_send(struct tagrv_op *op, enum tagrv_proto proto)
{
	struct tagrv_peer *peer = op->peer;
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_RTS,
		.op = op->node.handle,
		.tag = op->tag,
		/* Its FIN serves for DELIVERY and MATCH: no other is asked for. */
		.flags = tagrv_eager_flags(op->space,
					   op->flags & FI_REMOTE_CQ_DATA),
		.credit = tagrv_credit_offer(&peer->credit),
		.seq = peer->tx_seq,
		.data = op->data,
	};
	struct rts_packet pkt;
	size_t cnt = 0;
	int ret;

	ret = make_readable(op, peer->lane->link->xport, proto);
	if (ret < 0)
		return ret;
	if (!ret && proto != TAGRV_PROTO_RNDV_COPY && is_long(op, op->len))
		proto = TAGRV_PROTO_RNDV_PIPE;
	memset(&pkt, 0, sizeof(pkt));
	tagrv_hdr_pack(pkt.hdr, &hdr);
	pkt.rts.len = htole64(op->len);
	pkt.rts.proto = (uint8_t) proto;
	if (ret)
		cnt = tagrv_rndv_fill(op, op->len, pkt.seg, &pkt.rts.key_len);
	pkt.rts.seg_cnt = (uint8_t) cnt;
	ret = send_rts(op, &pkt, cnt);
	if (ret)
		return ret;
	tagrv_credit_gave(&peer->credit, hdr.credit);
	peer->tx_seq++;
	peer->engine->stats.rndv_tx++;
	return 0;
}

int tagrv_rndv_status(const struct tagrv_hdr *hdr)
{
	if (!hdr->data)
		return 0;
	return hdr->data < FI_ERRNO_MAX ? -(int) hdr->data : -FI_EIO;
}

static bool awaits_fin(const struct tagrv_op *op)
{
	return op->state == TAGRV_OP_FIN_WAIT ||
	       op->state == TAGRV_OP_ANNOUNCED || op->state == TAGRV_OP_COPYING;
}

/* Without a word: it was read, or the head was all. */
static void count_taken(const struct tagrv_op *op)
{
	bool piped = op->remote.proto == TAGRV_PROTO_RNDV_PIPE;

	op->engine->stats.moved_tx[piped ? TAGRV_PROTO_RNDV_PIPE :
					   TAGRV_PROTO_RNDV_READ]++;
}

void tagrv_rndv_fin_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr)
{
	struct tagrv_op *op = tagrv_pool_find(&peer->engine->tx_ops, hdr->op);

	/* Only what waits for a FIN of this very peer can be ended by it. */
	if (op && op->peer == peer &&
	    (tagrv_rndv_write_acked(op, tagrv_rndv_status(hdr)) ||
	     tagrv_send_prepared_acked(op, tagrv_rndv_status(hdr))))
		return;
	if (op && op->peer == peer && op->state == TAGRV_OP_PIECE) {
		tagrv_rndv_piece_fin(op, tagrv_rndv_status(hdr));
		return;
	}
	if (!op || !awaits_fin(op) || op->peer != peer) {
		tagrv_engine_count_bad(peer,
				       "FIN for an operation that awaits none");
		return;
	}
	if (op->state == TAGRV_OP_ANNOUNCED && op->len && !hdr->data)
		count_taken(op);
	tagrv_list_remove(&op->link);
	tagrv_op_send_end(op, tagrv_rndv_status(hdr));
}

/* ---- receiver ---- */

/* What is checked is a copy: the peer may write to the packet meanwhile. */
bool tagrv_rndv_segments(struct tagrv_remote *remote, const void *from,
			 size_t bytes, uint64_t len)
{
	uint64_t sum = 0;

	if (remote->seg_cnt > TAGRV_IOV_MAX ||
	    remote->key_len > TAGRV_KEY_MAX ||
	    bytes != remote->seg_cnt * sizeof(struct tagrv_rts_seg))
		return false;
	tagrv_copy_once(remote->seg, from, bytes);
	for (unsigned i = 0; i < remote->seg_cnt; i++) {
		remote->seg[i].addr = le64toh(remote->seg[i].addr);
		remote->seg[i].len = le64toh(remote->seg[i].len);
		if (!remote->seg[i].len || remote->seg[i].len > len)
			return false;
		sum += remote->seg[i].len;
	}
	return !remote->seg_cnt || sum == len;
}

static bool parse_rts(struct tagrv_remote *remote, const struct tagrv_hdr *hdr,
		      const void *body, size_t len)
{
	struct tagrv_rts rts;

	if (len < sizeof(rts) || !hdr->op)
		return false;
	tagrv_copy_once(&rts, body, sizeof(rts));
	remote->len = le64toh(rts.len);
	remote->op = hdr->op;
	/* One that we do not know is none. */
	remote->proto = rts.proto < TAGRV_PROTO_RNDV_END ? rts.proto : 0;
	remote->seg_cnt = rts.seg_cnt;
	remote->key_len = rts.key_len;
	remote->head = (const char *) body + sizeof(rts);
	remote->head_len = 0;
	len -= sizeof(rts);
	if (remote->proto == TAGRV_PROTO_RNDV_PIPE && !remote->seg_cnt) {
		remote->head_len = (uint32_t) len;
		len = 0;
	}
	return remote->len <= TAGRV_MAX_MSG &&
	       remote->head_len <= remote->len &&
	       tagrv_rndv_segments(remote, remote->head, len, remote->len);
}

void tagrv_rndv_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		       const void *body, size_t len)
{
	struct tagrv_match_msg *msg;
	struct tagrv_remote remote;
	uint32_t units;
	void *cookie;
	int ret;

	if (!parse_rts(&remote, hdr, body, len)) {
		tagrv_engine_bad_packet(peer, "malformed RTS");
		return;
	}
	units = remote.head_len ? tagrv_credit_units(remote.head_len) : 0;
	if (!tagrv_credit_arrived(&peer->credit, units)) {
		tagrv_engine_bad_packet(peer, "sent without credit");
		return;
	}
	peer->engine->stats.rndv_rx++;
	ret = tagrv_unexp_arrive(peer, hdr, &cookie, &msg);
	if (ret == 1) {
		if (units)
			tagrv_peer_credit(peer, units);
		tagrv_recv_rndv(cookie, peer, hdr, &remote);
		return;
	}
	if (!ret)
		ret = tagrv_unexp_keep(peer, msg, hdr, NULL, 0, &remote);
	if (ret)
		tagrv_lane_fail(peer->lane, ret, true);
}

void tagrv_rndv_recv_end(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	/* Registration ends before the sender may reuse its buffer. */
	tagrv_op_deregister(op);
	if (peer->lane && peer->lane == op->lane)
		tagrv_peer_fin(peer, op->remote.op, op->status);
	tagrv_op_recv_end(op, op->status);
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

void tagrv_rndv_next(const struct tagrv_op *op, size_t max,
		     struct tagrv_piece *piece)
{
	size_t loff = op->next, roff = op->next;
	unsigned l = find_local(op, &loff);
	const struct tagrv_rts_seg *seg =
		&op->remote.seg[find_remote(&op->remote, &roff)];
	size_t len = TAGRV_MIN(op->want - op->next, max);

	len = TAGRV_MIN(len, op->engine->dom->params.read_segment);
	len = TAGRV_MIN(len, op->iov[l].iov_len - loff);
	*piece = (struct tagrv_piece) {
		.addr = (char *) op->iov[l].iov_base + loff,
		.mem = op->mem[l],
		.raddr = seg->addr + roff,
		.key = seg->key,
		.len = TAGRV_MIN(len, seg->len - roff),
	};
}

/* Memory that is not there is the end; any other failure is not. */
static bool make_ready(struct tagrv_op *op, unsigned access)
{
	int ret = tagrv_op_register(op, op->peer->lane->link->xport->dev,
				    op->want, access);

	if (!ret)
		return true;
	tagrv_op_deregister(op);
	if (ret == -FI_EFAULT)
		op->status = ret;
	return false;
}

/* What came with the RTS. True: it is all that is wanted. */
static bool take_head(struct tagrv_op *op)
{
	op->offered = TAGRV_MIN((size_t) op->remote.head_len, op->want);
	if (!op->offered)
		return !op->want;
	tagrv_iov_scatter(op->iov, op->iov_cnt, op->remote.head, op->offered);
	if (op->offered < op->want)
		return false;
	op->engine->stats.moved_rx[TAGRV_PROTO_RNDV_PIPE]++;
	return true;
}

/* False: not this way; op->status: not at all. */
static bool start(struct tagrv_op *op, enum tagrv_proto proto)
{
	uint32_t caps = op->peer->lane->link->xport->attr.caps;

	if (proto == TAGRV_PROTO_RNDV_READ && caps & TAGRV_XPORT_GET &&
	    op->remote.seg_cnt && make_ready(op, 0)) {
		tagrv_rndv_read_start(op);
		return true;
	}
	if (proto == TAGRV_PROTO_RNDV_WRITE && caps & TAGRV_XPORT_PUT &&
	    make_ready(op, TAGRV_MEM_WRITE)) {
		tagrv_rndv_ask(op, proto);
		return true;
	}
	if (proto == TAGRV_PROTO_RNDV_PIPE && caps & TAGRV_XPORT_GET) {
		op->engine->stats.moved_rx[proto]++;
		tagrv_rndv_ask(op, proto);
		return true;
	}
	if (proto == TAGRV_PROTO_RNDV_COPY)
		tagrv_rndv_ask(op, proto);
	return proto == TAGRV_PROTO_RNDV_COPY;
}

/*
 * Where get was not possible. A sender that offers no keys for reads has none, or
 * none so far, unless it wants copies.
 */
static enum tagrv_proto instead_of_get(const struct tagrv_op *op)
{
	enum tagrv_proto asked = op->remote.proto;

	if (!(op->peer->lane->link->xport->attr.caps & TAGRV_XPORT_GET))
		return TAGRV_PROTO_RNDV_WRITE;
	return asked == TAGRV_PROTO_RNDV_PIPE ||
	       (asked != TAGRV_PROTO_RNDV_COPY && is_long(op, op->want)) ?
	       TAGRV_PROTO_RNDV_PIPE : TAGRV_PROTO_RNDV_COPY;
}

static void choose(struct tagrv_op *op)
{
	enum tagrv_proto own = op->engine->dom->select.rndv;
	const enum tagrv_proto ways[] = {
		own ? own : op->remote.proto,
		TAGRV_PROTO_RNDV_READ,
		instead_of_get(op),
		TAGRV_PROTO_RNDV_COPY,
	};

	for (size_t i = 0; !op->status; i++)
		if (start(op, ways[i]))
			return;
	tagrv_rndv_recv_end(op);
}

void tagrv_rndv_take(struct tagrv_op *op)
{
	op->lane = op->peer->lane;
	op->status = 0;
	op->next = 0;
	op->inflight = 0;
	op->piece_of = NULL;
	op->want = TAGRV_MIN(op->remote.len, op->room);
	if (take_head(op))
		tagrv_rndv_recv_end(op);
	else
		choose(op);
}
