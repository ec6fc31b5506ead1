/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Small eager messages that wait for the same peer travel together.
 *
 *   pending   [ m1 | m2 | m3 | RTS | m4 ]
 *   packets     \___________/
 *               BATCH: m1 m2 m3, then the RTS by itself, then m4
 *
 * A message waits only where a packet could not go at once: behind others that
 * found no room in the transport, or because FI_MORE said that the next one is
 * coming. So a lone message never waits for company, and the more a transport is
 * behind, the fewer packets it is given for the same messages. A transport may
 * ask for that before it is full: tagrv_xport_attr.burst.
 *
 * FINs that wait for the same peer ride in front of the messages (fin.c), also
 * where there is but one of these.
 *
 * Nothing else changes: order, sequence numbers, credit and acks are those of
 * the same messages in packets of their own. The packet is put together in
 * memory of the engine, copied once more than those are; that is why only
 * messages of up to MSG_MAX bytes join. When the transport has no room, nothing
 * has happened, and the next attempt may gather more.
 *
 * Layout: docs/wire_protocol.md section 1.6.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

/* Copying as much again costs less than a packet on any transport. */
#define MSG_MAX		1024u
static_assert(MSG_MAX <= UINT16_MAX, "the length fits an item");

/* ---- sender ---- */

size_t tagrv_batch_room(const struct tagrv_op *op)
{
	uint16_t flags = tagrv_eager_flags(op->space, op->flags);

	return op->len <= MSG_MAX ? tagrv_item_size(flags, op->len) : 0;
}

static char *put_item(char *to, const struct tagrv_op *op)
{
	const struct tagrv_item item = {
		.op = tagrv_op_awaits_fin(op) ? op->node.handle : 0,
		.len = (uint16_t) op->len,
		.flags = tagrv_eager_flags(op->space, op->flags),
		.tag = op->tag,
		.data = op->data,
	};
	char *end = to + tagrv_item_size(item.flags, item.len);

	/* What fills the last word: the payload goes over the rest. */
	memset(end - TAGRV_ITEM_WORD, 0, TAGRV_ITEM_WORD);
	to += tagrv_item_pack(to, &item);
	tagrv_iov_gather(to, op->iov, op->iov_cnt);
	return end;
}

/* What a packet is being filled with. */
struct filling {
	size_t	cnt, len;		/* messages, bytes without header */
	size_t	fins;
	uint32_t units;			/* of credit */
	struct tagrv_op *leader;	/* first that waits for the wire */
};

/* False: the message does not fit, or takes another way. */
static bool add_op(struct tagrv_peer *peer, struct filling *f,
		   struct tagrv_op *op)
{
	size_t room = tagrv_batch_room(op);

	/* Before a fence those in front must have ended. */
	if (op->flags & FI_FENCE && (f->cnt || peer->sent))
		return false;
	if (!room || f->len + room > peer->packet_limit ||
	    !tagrv_send_goes_eager(peer, op->len, peer->credit.left - f->units))
		return false;
	put_item(peer->engine->batch + sizeof(struct tagrv_hdr) + f->len, op);
	f->cnt++;
	f->len += room;
	f->units += tagrv_credit_units(op->len);
	if (!f->leader && tagrv_op_awaits_wire(op))
		f->leader = op;
	return true;
}

static int send_filled(struct tagrv_peer *peer, const struct filling *f)
{
	struct tagrv_link *link = peer->lane->link;
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_BATCH,
		.credit = tagrv_credit_offer(&peer->credit),
		.seq = peer->tx_seq,
	};
	struct iovec iov = {
		peer->engine->batch, sizeof(hdr) + f->len,
	};
	uint64_t words[TAGRV_SHORT_WORDS];
	int ret;

	tagrv_hdr_pack(words, &hdr);
	memcpy(iov.iov_base, words, sizeof(words));
	ret = link->xport->ops->send(link, &iov, 1, 0,
				     f->leader ? &f->leader->done : NULL);
	if (ret)
		return ret;
	tagrv_credit_gave(&peer->credit, hdr.credit);
	peer->credit.left -= f->units;
	peer->tx_seq += (uint32_t) f->cnt;
	peer->engine->stats.eager_tx += f->cnt;
	if (f->cnt > 1)
		peer->engine->stats.batched_tx += f->cnt;
	peer->engine->stats.batch_tx++;
	tagrv_fin_ridden(peer, f->fins);
	return 0;
}

int tagrv_batch_send(struct tagrv_peer *peer, size_t *cnt)
{
	struct filling f = { 0 };
	struct tagrv_list *node;
	int ret;

	*cnt = 0;
	node = tagrv_list_first(&peer->pending);
	if (node->next == &peer->pending && tagrv_list_empty(&peer->ctl))
		return -FI_ENOENT;
	f.fins = tagrv_fin_ride(peer, peer->engine->batch +
				      sizeof(struct tagrv_hdr));
	f.len = f.fins * TAGRV_ITEM_WORD;
	for (; node != &peer->pending; node = node->next)
		if (!add_op(peer, &f, tagrv_container_of(node, struct tagrv_op,
							 link)))
			break;
	if (!f.cnt || f.cnt + f.fins < 2)
		return -FI_ENOENT;
	ret = send_filled(peer, &f);
	if (ret)
		return ret;
	*cnt = f.cnt;
	while (f.cnt--)
		tagrv_send_taken(tagrv_container_of(
			tagrv_list_first(&peer->pending), struct tagrv_op,
			link), f.leader);
	return 0;
}

/* ---- receiver ---- */

/* One message; false: the packet is refused. */
static bool take_item(struct tagrv_peer *peer, struct tagrv_item *item,
		      const char *pos, size_t left)
{
	struct tagrv_hdr one = { .opcode = TAGRV_PKT_EAGER };

	if (!tagrv_item_unpack(item, pos, left)) {
		tagrv_engine_bad_packet(peer, "malformed batch");
		return false;
	}
	one.op = item->op;
	one.tag = item->tag;
	one.flags = item->flags;
	one.data = item->data;
	peer->rx_seq++;
	tagrv_eager_item(peer, &one, pos + tagrv_item_head(item->flags),
			 item->len);
	return true;
}

/* FINs that stand in front; returns where they end. The lane may die of one. */
static const char *take_fins(struct tagrv_peer *peer, const char *pos,
			     const char *end)
{
	const struct tagrv_lane *lane = peer->lane;
	struct tagrv_item item;

	while (peer->lane == lane &&
	       tagrv_item_peek(&item, pos, (size_t) (end - pos)) &&
	       item.flags == TAGRV_ITEM_FIN) {
		const struct tagrv_hdr one = {
			.opcode = TAGRV_PKT_FIN, .op = item.op, .data = item.len,
		};

		tagrv_rndv_fin_packet(peer, &one);
		pos += TAGRV_ITEM_WORD;
	}
	return pos;
}

void tagrv_batch_packet(struct tagrv_peer *peer, const void *body, size_t len)
{
	const struct tagrv_lane *lane = peer->lane;
	const char *end = (const char *) body + len;
	const char *pos = take_fins(peer, body, end);
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_item item;
	uint64_t cnt = 0;

	engine->stats.batch_rx++;
	if (peer->lane != lane)
		return;
	/* The header has counted the first. */
	peer->rx_seq--;
	do {
		size_t left = (size_t) (end - pos);

		if (!tagrv_item_peek(&item, pos, left)) {
			tagrv_engine_bad_packet(peer, "malformed batch");
			return;
		}
		if (!take_item(peer, &item, pos, left))
			return;
		cnt++;
		pos += tagrv_item_size(item.flags, item.len);
	} while (pos < end && peer->lane == lane);
	if (cnt > 1)
		engine->stats.batched_rx += cnt;
}
