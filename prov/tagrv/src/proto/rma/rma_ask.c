/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets of writes, reads and atomics: what the initiator sends, and the ANSWERs that it
 * gets. See rma.h. An op stays the first of peer->pending until its last packet is sent, so
 * nothing comes between the packets of one operation.
 */
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "atomic/atomic.h"
#include "core/iov.h"
#include "object/order.h"
#include "proto/packet/packet_send.h"
#include "proto/rma/rma_priv.h"

/* The next bytes of an op: contiguous at the target. */
struct part {
	const struct fi_rma_iov *remote;
	uint64_t addr;
	size_t	len;
	bool	last;
};

static struct part next_part(const struct tagrv_op *op, size_t max)
{
	const struct tagrv_rma *r = op->tx.rma;
	size_t skip = r->sent;
	struct part part;

	part.remote = tagrv_rma_find_range(r->remote, r->remote_cnt, &skip);
	part.addr = part.remote->addr + skip;
	part.len = TAGRV_MIN(part.remote->len - skip, max);
	part.last = r->sent + part.len == op->len;
	return part;
}

static uint16_t flags_of(const struct tagrv_op *op, bool last)
{
	return (last ? 0 : TAGRV_RMA_MORE) |
	       (op->flags & FI_REMOTE_CQ_DATA ? TAGRV_RMA_DATA : 0);
}

/* The part is in a packet. sum: TAGRV_RMA_WRITE, TAGRV_RMA_ATOMIC. */
static inline void count(struct tagrv_op *op, const struct part *part, size_t *bytes,
			 enum tagrv_rma_kind sum)
{
	op->tx.rma->sent += part->len;
	tagrv_rma_bring_data(op);
	*bytes += part->len + sizeof(struct tagrv_hdr);
	if (!part->last)
		return;
	tagrv_rma_sum_add(&op->engine->stats.rma_tx, sum, op->len);
	tagrv_rma_asked(op);
}

/*
 * Whether so many operations are not answered that the next one has to wait. Not messages:
 * their receiver may be waiting for this one.
 */
static bool is_far_ahead(const struct tagrv_peer *peer)
{
	return TAGRV_UNLIKELY(peer->sent >= TAGRV_RMA_UNANSWERED_MAX) &&
	       peer->sent - peer->sent_msgs >= TAGRV_RMA_UNANSWERED_MAX;
}

/* words: room for the header, in front of the body. */
static int send_packet(struct tagrv_peer *peer, struct tagrv_hdr *hdr, void *words,
		       const void *body, size_t len)
{
	if (TAGRV_LIKELY(!tagrv_packet_send_short(peer, hdr, body, len)))
		return 0;
	return tagrv_packet_send(peer, hdr, &(struct iovec) { words, sizeof(*hdr) + len },
				 1, len, 0, NULL);
}

/* ---- writes ---- */

struct put_packet {
	uint64_t words[TAGRV_SHORT_WORDS];
	struct tagrv_rma_put put;
};

static int send_put(struct tagrv_op *op, const struct part *part)
{
	struct put_packet pkt = { .put.addr = htole64(part->addr) };
	struct iovec iov[TAGRV_IOV_MAX + 1] = { { &pkt, sizeof(pkt) } };
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_PUT, .op = op->node.handle,
		.tag = part->remote->key, .flags = flags_of(op, part->last),
		.data = op->data,
	};
	size_t cnt = tagrv_iov_slice(iov + 1, op->iov, op->iov_cnt,
				     op->tx.rma->sent, part->len);

	return tagrv_packet_send(op->peer, &hdr, iov, cnt + 1,
				 sizeof(pkt.put) + part->len, 0, NULL);
}

/* Whether the part is a whole write, from one segment. */
static bool is_short(const struct tagrv_op *op, const struct part *part)
{
	return part->len == op->len && op->iov_cnt <= 1 &&
	       !(op->flags & FI_REMOTE_CQ_DATA);
}

int tagrv_rma_put(struct tagrv_op *op, size_t *bytes)
{
	struct tagrv_rma *r = op->tx.rma;
	const size_t len = op->len;
	struct part part;
	int ret;

	if (!tagrv_rma_may_bring_data(op))
		return -FI_EAGAIN;
	if (tagrv_rma_write_view(op)) {
		*bytes += len;
		return 0;
	}
	/* What is injected is not ours to be read when the call has returned. */
	if (!r->sent && !r->by_packets && !(op->flags & FI_INJECT) &&
	    tagrv_rma_is_long(op->peer, op->len)) {
		ret = tagrv_rma_pull(op);
		if (ret != -FI_EOPNOTSUPP)
			return ret;
		r->by_packets = true;
	}
	if (is_far_ahead(op->peer))
		return -FI_EAGAIN;
	part = next_part(op, op->peer->frag_max - sizeof(struct tagrv_rma_put));
	ret = is_short(op, &part) ?
		tagrv_rma_store(op->peer, op->node.handle, op->iov[0].iov_base, op->len,
				part.addr, part.remote->key) : -FI_EAGAIN;
	/* A transport may have room for a packet that it has to look at closer. */
	if (ret == -FI_EAGAIN)
		ret = send_put(op, &part);
	if (!ret)
		count(op, &part, bytes, TAGRV_RMA_WRITE);
	return ret;
}

/* ---- reads ---- */

struct get_packet {
	uint64_t words[TAGRV_SHORT_WORDS];
	struct tagrv_rma_range ranges[TAGRV_IOV_MAX];
};

static size_t pack_ranges(const struct tagrv_rma *r, struct tagrv_rma_range *to)
{
	for (unsigned i = 0; i < r->remote_cnt; i++)
		to[i] = (struct tagrv_rma_range) {
			htole64(r->remote[i].addr), htole64(r->remote[i].len),
			htole64(r->remote[i].key),
		};
	return r->remote_cnt * sizeof(*to);
}

int tagrv_rma_get(struct tagrv_op *op, size_t *bytes)
{
	struct tagrv_peer *peer = op->peer;
	struct tagrv_rma *r = op->tx.rma;
	bool is_long = !r->by_packets && tagrv_rma_is_long(peer, op->len) &&
		       !tagrv_order_holds_read(op->engine->attr.order);
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_GET, .op = op->node.handle,
		.flags = is_long ? TAGRV_RMA_KEYS : 0,
	};
	struct get_packet pkt;
	size_t len;
	int ret;

	if (tagrv_rma_read_view(op)) {
		*bytes += op->len;
		return 0;
	}
	if (!tagrv_rma_may_ask(peer))
		return -FI_EAGAIN;
	hdr.seq = tagrv_rma_ask_view(op);
	if (hdr.seq)
		hdr.flags |= TAGRV_RMA_VIEW;
	len = pack_ranges(r, pkt.ranges);
	ret = send_packet(peer, &hdr, pkt.words, pkt.ranges, len);
	if (ret)
		return ret;
	r->sent = op->len;
	r->takes_keys = is_long;
	r->holds = tagrv_order_holds_read(op->engine->attr.order);
	*bytes += len + sizeof(hdr);
	tagrv_rma_sum_add(&op->engine->stats.rma_tx, TAGRV_RMA_READ, op->len);
	tagrv_rma_ask(op);
	tagrv_rma_asked(op);
	return 0;
}

/* ---- atomics ---- */

/* Operands are gathered first: they come from two lists. */
struct atomic_packet {
	uint64_t words[TAGRV_SHORT_WORDS];
	struct tagrv_rma_atomic atomic;
	char	operands[TAGRV_RMA_VALUES_MAX];
};

/* Most bytes of the target that one packet changes: whole elements. */
static size_t atomic_max(const struct tagrv_op *op)
{
	size_t room = TAGRV_MIN(op->peer->frag_max - sizeof(struct tagrv_rma_atomic),
				(size_t) TAGRV_RMA_VALUES_MAX);
	size_t size = tagrv_atomic_size(op->tx.rma->datatype);

	if (op->tx.rma->kind == TAGRV_RMA_COMPARE)
		room /= 2;
	return room - tagrv_atomic_rest(room, size);
}

static TAGRV_COLD size_t gather_pieces(char *to, const struct iovec *iov, size_t cnt,
					size_t skip, size_t len)
{
	struct iovec part[TAGRV_IOV_MAX];

	return tagrv_iov_gather(to, part,
				tagrv_iov_slice(part, iov, cnt, skip, len));
}

static inline size_t gather_part(char *to, const struct iovec *iov, size_t cnt,
				 size_t skip, size_t len)
{
	if (TAGRV_UNLIKELY(cnt > 1 || !len))
		return gather_pieces(to, iov, cnt, skip, len);
	if (!cnt)
		return 0;
	tagrv_copy(to, (char *) iov[0].iov_base + skip, len);
	return len;
}

static int send_atomic(struct tagrv_op *op, const struct part *part)
{
	struct tagrv_rma *r = op->tx.rma;
	struct atomic_packet pkt;
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_ATOMIC, .op = op->node.handle,
		.tag = part->remote->key, .flags = flags_of(op, part->last),
		.seq = r->kind | (uint32_t) r->datatype << 8 | (uint32_t) r->op << 16,
		.data = op->data,
	};
	size_t len;

	pkt.atomic.addr = htole64(tagrv_word_load(&part->addr));
	pkt.atomic.len = htole64(tagrv_word_load(&part->len));
	len = gather_part(pkt.operands, op->iov, op->iov_cnt, r->sent, part->len);
	len += gather_part(pkt.operands + len, r->compare, r->compare_cnt, r->sent,
			   part->len);
	len += sizeof(pkt.atomic);
	return send_packet(op->peer, &hdr, pkt.words, &pkt.atomic, len);
}

int tagrv_rma_change(struct tagrv_op *op, size_t *bytes)
{
	bool fetches = tagrv_rma_wants_answer(op->tx.rma);
	struct part part;
	int ret;

	if (TAGRV_UNLIKELY(op->engine->dom->by_device))
		return tagrv_rma_device_change(op, bytes);
	if ((fetches ? !tagrv_rma_may_ask(op->peer) : is_far_ahead(op->peer)) ||
	    !tagrv_rma_may_bring_data(op))
		return -FI_EAGAIN;
	part = next_part(op, atomic_max(op));
	ret = send_atomic(op, &part);
	if (ret)
		return ret;
	if (fetches)
		tagrv_rma_ask(op);
	count(op, &part, bytes, TAGRV_RMA_ATOMIC);
	return 0;
}

/* ---- answers ---- */

/* The op of this peer that awaits bytes; some ANSWERs may come before its last packet. */
static struct tagrv_op *find_asker(struct tagrv_peer *peer, uint32_t handle)
{
	struct tagrv_op *op = tagrv_pool_find(&peer->engine->pools.tx_ops, handle);

	if (!op || op->peer != peer ||
	    (op->state != TAGRV_OP_ASKED && op->state != TAGRV_OP_QUEUED) ||
	    !op->ops->start || !tagrv_rma_wants_answer(op->tx.rma))
		return NULL;
	return op->state == TAGRV_OP_ASKED || op->tx.rma->sent ? op : NULL;
}

static void store(struct tagrv_op *op, const void *payload, size_t len)
{
	const struct tagrv_rma *r = op->tx.rma;
	bool read = r->kind == TAGRV_RMA_READ;
	const struct iovec *to = read ? op->iov : r->result;
	size_t cnt = read ? op->iov_cnt : r->result_cnt;
	struct iovec iov[TAGRV_IOV_MAX];

	if (TAGRV_LIKELY(cnt == 1 && len)) {
		tagrv_copy((char *) to[0].iov_base + r->got, payload, len);
		return;
	}
	tagrv_iov_scatter(iov, tagrv_iov_slice(iov, to, cnt, r->got, len), payload, len);
}

/* False: the target has nothing to answer, or not so much. */
static bool is_due(const struct tagrv_rma *r, size_t len)
{
	return r->asked && len <= r->sent - r->got;
}

void tagrv_rma_answer_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			     const void *payload, size_t len)
{
	struct tagrv_op *op = find_asker(peer, hdr->op);

	tagrv_assert_locked(peer->engine->dom);
	/* As a FIN: here the operation may have failed meanwhile. */
	if (!op) {
		tagrv_peer_count_bad(peer, "ANSWER to an operation that awaits none");
		return;
	}
	if (!is_due(op->tx.rma, len)) {
		tagrv_peer_bad_packet(peer, "ANSWER with more than was asked for");
		return;
	}
	/* Each ATOMIC has its ANSWER. */
	if (op->tx.rma->kind != TAGRV_RMA_READ) {
		op->tx.rma->asked--;
		peer->rma.asked--;
	}
	store(op, payload, len);
	op->tx.rma->got += len;
	if (op->tx.rma->got < op->len)
		return;
	tagrv_rma_take(op);
	tagrv_op_rma_end(op, 0);
}
