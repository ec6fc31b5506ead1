/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * BATCH packets that come: see unbatch.h; proto/batch.c is the sender.
 *
 *   header (number of the first envelope) | FIN ... FIN | message ... message
 *
 * The lane may fail with any item; then the rest of the packet is dropped.
 *
 * Layout: docs/wire_protocol.md section 1.6.
 */
#include "engine/unbatch.h"

#include "core/trace.h"
#include "object/lane.h"
#include "proto/acked.h"
#include "proto/arrive.h"

/* One message; false: the packet is refused. */
static bool handle_message(struct tagrv_peer *peer, struct tagrv_item *item,
			   const char *pos, size_t left)
{
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_EAGER };

	if (!tagrv_item_unpack(item, pos, left)) {
		tagrv_peer_bad_packet(peer, "malformed batch");
		return false;
	}
	hdr.op = item->op;
	hdr.tag = item->tag;
	hdr.flags = item->flags;
	hdr.data = item->data;
	peer->rx_seq++;
	tagrv_trace_item_in(peer, item->op, item->tag, item->len);
	tagrv_arrive_item(peer, &hdr, pos + tagrv_item_head(item->flags),
			  item->len);
	return true;
}

/* Handles the FINs in front; returns where they end. */
static const char *handle_fins(struct tagrv_peer *peer, const char *pos,
			       const char *end)
{
	const struct tagrv_lane *lane = peer->lane;
	struct tagrv_item item;

	while (peer->lane == lane &&
	       tagrv_item_peek(&item, pos, (size_t) (end - pos)) &&
	       item.flags == TAGRV_ITEM_FIN) {
		tagrv_acked_fin(peer, item.op, item.len);
		pos += TAGRV_ITEM_WORD;
	}
	return pos;
}

bool tagrv_unbatch_finds_tagged(const void *body, size_t len)
{
	const char *pos = body, *end = pos + len;
	struct tagrv_item item;

	while (tagrv_item_peek(&item, pos, (size_t) (end - pos))) {
		size_t size = item.flags == TAGRV_ITEM_FIN ? TAGRV_ITEM_WORD :
			      tagrv_item_size(item.flags, item.len);

		if (item.flags != TAGRV_ITEM_FIN && item.flags & TAGRV_PKT_TAGGED)
			return true;
		if (size > (size_t) (end - pos))
			return false;
		pos += size;
	}
	return false;
}

void tagrv_unbatch(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		   const void *body, size_t len)
{
	const struct tagrv_lane *lane = peer->lane;
	const char *end = (const char *) body + len;
	const char *pos = handle_fins(peer, body, end);
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_item item;
	uint64_t cnt = 0;

	tagrv_assert_locked(engine->dom);
	(void) hdr;
	engine->stats.batch_rx++;
	if (peer->lane != lane)
		return;
	/* The header's number has counted the first message. */
	peer->rx_seq--;
	do {
		size_t left = (size_t) (end - pos);

		if (!tagrv_item_peek(&item, pos, left)) {
			tagrv_peer_bad_packet(peer, "malformed batch");
			return;
		}
		if (!handle_message(peer, &item, pos, left))
			return;
		cnt++;
		pos += tagrv_item_size(item.flags, item.len);
	} while (pos < end && peer->lane == lane);
	if (cnt > 1)
		engine->stats.batched_rx += cnt;
}
