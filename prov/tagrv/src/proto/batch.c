/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Small eager messages that wait for the same peer share a packet, a BATCH.
 *
 *   pending   [ m1 | m2 | m3 | RTS | m4 ]
 *   packets     \___________/
 *               BATCH: m1 m2 m3, then the RTS by itself, then m4
 *
 * A message waits only where a packet could not go at once: behind messages that
 * found no room in the transport, or because FI_MORE said that the next one is
 * coming. So a lone message is never delayed, and the further a transport is
 * behind, the fewer packets it is given for the same messages. A transport may
 * ask for that before it is full: tagrv_xport_attr.burst.
 *
 * FINs that wait for the same peer (ack.c) travel in front of the messages, even
 * when there is only one message.
 *
 * Order, sequence numbers, credit and acks are the same as if each message had a
 * packet of its own. The packet is put together in memory of the engine, which
 * costs one more copy; that is why only messages of up to MSG_MAX bytes join. When
 * the transport has no room, nothing has happened, and the next attempt may find
 * more messages.
 *
 * Tagged messages to a peer whose device matches them (peer->number) never join.
 *
 * Layout: docs/wire_protocol.md section 1.6.
 */
#include "proto/batch.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "proto/eager.h"
#include "proto/packet/ack.h"
#include "proto/packet/packet_flags.h"
#include "proto/packet/packet_send.h"
#include "proto/sent.h"

/* On any transport, copying that much costs less than a packet. */
#define MSG_MAX		1024u
static_assert(MSG_MAX <= UINT16_MAX, "the length fits an item");

size_t tagrv_batch_room(const struct tagrv_op *op)
{
	uint16_t flags = tagrv_packet_flags(op->space, op->flags);

	/* A device matches whole packets. */
	if (TAGRV_UNLIKELY(op->peer->number) && op->space == TAGRV_SPACE_TAGGED)
		return 0;
	return op->len <= MSG_MAX ? tagrv_item_size(flags, op->len) : 0;
}

static char *put_item(char *to, const struct tagrv_op *op)
{
	const struct tagrv_item item = {
		.op = tagrv_op_awaits_fin(op) ? op->node.handle : 0,
		.len = (uint16_t) op->len,
		.flags = tagrv_packet_flags(op->space, op->flags),
		.tag = op->tag,
		.data = op->data,
	};
	char *end = to + tagrv_item_size(item.flags, item.len);

	/* The last word is zero beyond the payload, which is copied over it. */
	memset(end - TAGRV_ITEM_WORD, 0, TAGRV_ITEM_WORD);
	to += tagrv_item_pack(to, &item);
	tagrv_iov_gather(to, op->iov, op->iov_cnt);
	return end;
}

/* The content of the packet that is being put together. */
struct batch {
	size_t	cnt, len;		/* messages, bytes without header */
	size_t	fins;
	uint32_t units;			/* of credit */
	struct tagrv_op *leader;	/* first that waits for the wire */
};

/* False: the message does not fit, or does not go eager. */
static bool add_op(struct tagrv_peer *peer, struct batch *b,
		   struct tagrv_op *op)
{
	size_t room = tagrv_batch_room(op);

	if (op->ops->start)
		return false;
	/* Sends in front of a fence must have ended. */
	if (op->flags & FI_FENCE && (b->cnt || peer->sent))
		return false;
	if (!room || b->len + room > peer->packet_limit ||
	    !tagrv_eager_fits(peer, op->len, peer->credit.left - b->units))
		return false;
	put_item(peer->engine->tx.batch + sizeof(struct tagrv_hdr) + b->len, op);
	b->cnt++;
	b->len += room;
	b->units += tagrv_credit_units(op->len);
	if (!b->leader && tagrv_op_awaits_wire(op))
		b->leader = op;
	return true;
}

static int send_packet(struct tagrv_peer *peer, const struct batch *b)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_BATCH,
		.seq = peer->tx_seq,
	};
	const struct iovec iov = {
		peer->engine->tx.batch, sizeof(hdr) + b->len,
	};
	int ret = tagrv_packet_send(peer, &hdr, &iov, 1, b->len, 0,
				    b->leader ? &b->leader->done : NULL);

	if (ret)
		return ret;
	peer->credit.left -= b->units;
	peer->tx_seq += (uint32_t) b->cnt;
	peer->engine->stats.eager_tx += b->cnt;
	if (b->cnt > 1)
		peer->engine->stats.batched_tx += b->cnt;
	peer->engine->stats.batch_tx++;
	tagrv_ack_items_sent(peer, b->fins);
	return 0;
}

int tagrv_batch_send(struct tagrv_peer *peer, size_t *cnt)
{
	struct batch b = { 0 };
	struct tagrv_list *node;
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	*cnt = 0;
	node = tagrv_list_first(&peer->pending);
	if (node->next == &peer->pending && tagrv_list_empty(&peer->acks))
		return -FI_ENOENT;
	b.fins = tagrv_ack_pack_items(peer, peer->engine->tx.batch +
				      sizeof(struct tagrv_hdr));
	b.len = b.fins * TAGRV_ITEM_WORD;
	for (; node != &peer->pending; node = node->next)
		if (!add_op(peer, &b, tagrv_container_of(node, struct tagrv_op,
							 link)))
			break;
	if (!b.cnt || b.cnt + b.fins < 2)
		return -FI_ENOENT;
	ret = send_packet(peer, &b);
	if (ret)
		return ret;
	*cnt = b.cnt;
	while (b.cnt--) {
		struct tagrv_op *op = tagrv_container_of(
			tagrv_list_first(&peer->pending), struct tagrv_op,
			link);

		tagrv_trace_item_out(peer, op, op->tag, op->len);
		tagrv_sent_eager(op, b.leader);
	}
	return 0;
}
