/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a transport reports: packets, by a table of opcodes, and links that fail
 * or close.
 */
#include "engine/dispatch.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "core/iov.h"
#include "core/log.h"
#include "core/trace.h"
#include "engine/connect.h"
#include "engine/part.h"
#include "engine/unbatch.h"
#include "object/lane.h"
#include "object/op.h"
#include "object/tags.h"
#include "proto/acked.h"
#include "proto/arrive.h"
#include "proto/intake.h"
#include "proto/listed.h"
#include "proto/rma/rma.h"
#include "proto/rndv/rndv.h"
#include "proto/unexp.h"

/* ---- packets ---- */

static void on_credit(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		      const void *body, size_t len)
{
	/* Besides the credit that every header has. */
	if (!tagrv_places_received(&peer->hold.places, hdr->op))
		tagrv_peer_bad_packet(peer, "too many places");
	(void) body;
	(void) len;
}

struct handler {
	/* The header's credit was counted; the body was not looked at. */
	void (*packet)(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		       const void *body, size_t len);
	bool	numbered;	/* the header has the number of an envelope */
};

/*
 * By opcode. A new kind of packet is one entry, and one in wire/packet.h. EAGER
 * has none: dispatch() calls its handler, so that the compiler inlines it there.
 */
static const struct handler handlers[] = {
	[TAGRV_PKT_BATCH]  = { tagrv_unbatch, true },
	[TAGRV_PKT_RTS]	   = { tagrv_arrive_rts, true },
	[TAGRV_PKT_FIN]	   = { tagrv_acked_packet, false },
	[TAGRV_PKT_CREDIT] = { on_credit, false },
	[TAGRV_PKT_CTS]	   = { tagrv_rndv_cts_packet, false },
	[TAGRV_PKT_GRANT]  = { tagrv_rndv_grant_packet, false },
	[TAGRV_PKT_FRAG]   = { tagrv_rndv_frag_packet, false },
	[TAGRV_PKT_DONE]   = { tagrv_rndv_done_packet, false },
	[TAGRV_PKT_PIECE]  = { tagrv_rndv_piece_packet, false },
	[TAGRV_PKT_PUT]	   = { tagrv_rma_put_packet, false },
	[TAGRV_PKT_GET]	   = { tagrv_rma_get_packet, false },
	[TAGRV_PKT_ANSWER] = { tagrv_rma_answer_packet, false },
	[TAGRV_PKT_KEYS]   = { tagrv_rma_keys_packet, false },
	[TAGRV_PKT_ATOMIC] = { tagrv_rma_atomic_packet, false },
	[TAGRV_PKT_PULL]   = { tagrv_rma_pull_packet, false },
	[TAGRV_PKT_VIEW]   = { tagrv_rma_view_packet, false },
	[TAGRV_PKT_RECALL] = { tagrv_rma_recall_packet, false },
	[TAGRV_PKT_STORE]  = { tagrv_rma_store_packet, false },
	[TAGRV_PKT_COUNT]  = { tagrv_rma_count_packet, false },
	[TAGRV_PKT_SHOW]   = { tagrv_rma_show_packet, false },
	[TAGRV_PKT_SIDE]   = { tagrv_rma_side_packet, false },
	[TAGRV_PKT_PART]   = { tagrv_part_packet, false },
};

static bool decode_header(struct tagrv_hdr *hdr, const void *data, size_t len)
{
	uint64_t words[TAGRV_SHORT_WORDS];

	if (len < sizeof(words))
		return false;
	/* Each word is read once: the peer may be able to change them. */
#pragma GCC unroll 4
	for (int i = 0; i < TAGRV_SHORT_WORDS; i++)
		words[i] = tagrv_word_load((const char *) data +
					   (size_t) i * sizeof(*words));
	return tagrv_hdr_unpack(hdr, words);
}

/* The number of the first envelope of a packet; a BATCH counts the others. */
static bool in_sequence(struct tagrv_peer *peer, const struct tagrv_hdr *hdr)
{
	if (TAGRV_LIKELY(hdr->seq == peer->rx_seq)) {
		peer->rx_seq++;
		return true;
	}
	tagrv_peer_bad_packet(peer, "out of sequence");
	return false;
}

/* Not inlined: the path of eager packets would have to save more registers. */
static __attribute__((noinline))
void other_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		  const void *body, size_t len)
{
	struct handler handler = { NULL, false };

	if (hdr->opcode < TAGRV_ARRAY_SIZE(handlers))
		handler = handlers[hdr->opcode];
	if (!handler.packet)
		tagrv_peer_bad_packet(peer, "unknown opcode");
	else if (!handler.numbered || in_sequence(peer, hdr))
		handler.packet(peer, hdr, body, len);
}

static void dispatch(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		     const void *body, size_t len)
{
	if (TAGRV_UNLIKELY(!tagrv_credit_received(&peer->credit, hdr->credit)))
		tagrv_peer_bad_packet(peer, "too much credit");
	else if (TAGRV_LIKELY(hdr->opcode == TAGRV_PKT_EAGER)) {
		if (in_sequence(peer, hdr))
			tagrv_arrive_eager(peer, hdr, body, len);
	} else {
		other_packet(peer, hdr, body, len);
	}
}

static void on_packet(struct tagrv_sink *sink, void *link_ctx,
		      const void *data, size_t len)
{
	struct tagrv_lane *lane = link_ctx;
	struct tagrv_peer *peer = lane->peer;
	struct tagrv_hdr hdr;

	tagrv_assert_locked(tagrv_rail_of_sink(sink)->engine->dom);
	(void) sink;
	if (!peer || peer->lane != lane)
		return;		/* of a connection that was given up */
	if (!decode_header(&hdr, data, len)) {
		tagrv_peer_bad_packet(peer, "malformed header");
		return;
	}
	tagrv_trace_packet_in(peer, data, len - sizeof(hdr));
	tagrv_peer_note_message(peer);
	dispatch(peer, &hdr, (const char *) data + sizeof(hdr),
		 len - sizeof(hdr));
}

/* A tagged message that the list has not seen: it would get a receive that is in the list. */
static bool passes_list(const void *data, size_t len)
{
	const char *body = (const char *) data + sizeof(struct tagrv_hdr);
	struct tagrv_hdr hdr;

	if (!decode_header(&hdr, data, len))
		return false;	/* on_packet() refuses it */
	if (hdr.opcode == TAGRV_PKT_BATCH)
		return tagrv_unbatch_finds_tagged(body, len - sizeof(hdr));
	return (hdr.opcode == TAGRV_PKT_EAGER || hdr.opcode == TAGRV_PKT_RTS) &&
	       hdr.flags & TAGRV_PKT_TAGGED;
}

/* As on_packet(), where there is a list: others do not pay for the look. */
static void on_packet_beside_list(struct tagrv_sink *sink, void *link_ctx, const void *data,
				  size_t len)
{
	const struct tagrv_lane *lane = link_ctx;
	struct tagrv_peer *peer = lane->peer;

	if (lane->listed && peer && peer->lane == lane && passes_list(data, len))
		tagrv_peer_bad_packet(peer, "tagged, but not by the list");
	else
		on_packet(sink, link_ctx, data, len);
}

void tagrv_dispatch_with_list(struct tagrv_sink *sink)
{
	sink->packet = on_packet_beside_list;
}

static void on_tagged(void *link_ctx, uint64_t meta, uint64_t tag,
		      uint64_t data, const void *payload)
{
	struct tagrv_lane *lane = link_ctx;
	struct tagrv_peer *peer = lane->peer;

	if (TAGRV_UNLIKELY(!peer || peer->lane != lane))
		return;		/* of a connection that was given up */
	tagrv_assert_locked(peer->engine->dom);
	tagrv_trace_tagged_in(peer, peer->rx_seq, meta, tag, data);
	tagrv_peer_note_message(peer);
	peer->rx_seq++;
	if (TAGRV_UNLIKELY(!tagrv_credit_received(&peer->credit,
						  TAGRV_META_CREDIT(meta))))
		tagrv_peer_bad_packet(peer, "too much credit");
	else
		tagrv_arrive_tagged(peer, tag, data, meta & TAGRV_META_DATA,
				    payload, TAGRV_META_LEN(meta));
}

/* A tagged message that no entry of the device's list has taken. */
static void on_listed(struct tagrv_sink *sink, void *link_ctx, const void *data, size_t len)
{
	const struct tagrv_lane *lane = link_ctx;
	struct tagrv_peer *peer = lane->peer;

	tagrv_assert_locked(tagrv_rail_of_sink(sink)->engine->dom);
	(void) sink;
	if (!peer || peer->lane != lane)
		return;		/* of a connection that was given up */
	if (!lane->listed) {
		tagrv_peer_bad_packet(peer, "tagged, but not for a list");
		return;
	}
	/* It may be behind a match that was dropped. The lane ends. */
	if (tagrv_tags_is_deaf(peer->engine->tags))
		return;
	tagrv_peer_note_message(peer);
	tagrv_listed_packet(peer, data, len);
}

static void on_next_tagged(void *link_ctx, uint64_t tag)
{
	const struct tagrv_lane *lane = link_ctx;
	const struct tagrv_peer *peer = lane->peer;

	if (peer && TAGRV_UNLIKELY(tagrv_match_uses_hash(peer->engine->match)))
		tagrv_match_prefetch(peer->engine->match, peer->match_id,
				     TAGRV_SPACE_TAGGED, tag);
}

/* Prefetches the memory that matching this packet will need, when its turn comes. */
static void on_next_packet(struct tagrv_sink *sink, void *link_ctx,
			   const void *data, size_t len)
{
	const struct tagrv_lane *lane = link_ctx;
	const struct tagrv_peer *peer = lane->peer;
	struct tagrv_hdr hdr;

	(void) sink;
	if (!peer || TAGRV_LIKELY(!tagrv_match_uses_hash(peer->engine->match)) ||
	    !decode_header(&hdr, data, len))
		return;
	tagrv_match_prefetch(peer->engine->match, peer->match_id,
			     tagrv_hdr_space(&hdr), hdr.tag);
}

static void on_room(struct tagrv_sink *sink)
{
	(void) sink;	/* every progress pass serves the busy peers anyway */
}

/* ---- links ---- */

static void on_link_error(struct tagrv_sink *sink, void *link_ctx, int status)
{
	struct tagrv_lane *lane = link_ctx;
	char addr[TAGRV_ADDR_STRLEN];

	tagrv_assert_locked(tagrv_rail_of_sink(sink)->engine->dom);
	(void) sink;
	if (!lane->side && tagrv_part_takes_error(lane, status))
		return;
	if (lane->peer && !lane->side)
		tagrv_warn("connection to %s failed: %s\n",
			   tagrv_addr_str(&lane->peer->addr, addr,
					  sizeof(addr)), fi_strerror(-status));
	tagrv_lane_fail(lane, status, true);
}

static void on_link_renew(struct tagrv_sink *sink, void *link_ctx, bool down)
{
	tagrv_assert_locked(tagrv_rail_of_sink(sink)->engine->dom);
	(void) sink;
	tagrv_lane_renew(link_ctx, down);
}

static void on_link_closed(struct tagrv_sink *sink, void *link_ctx)
{
	struct tagrv_lane *lane = link_ctx;
	struct tagrv_list *node;

	tagrv_assert_locked(tagrv_rail_of_sink(sink)->engine->dom);
	while ((node = tagrv_list_pop(&lane->exposed)))
		tagrv_rndv_recv_abort(tagrv_container_of(node, struct tagrv_op,
							 link), lane->status);
	tagrv_list_remove(&lane->node);
	if (lane->listed)
		tagrv_tags_link_gone(tagrv_rail_of_sink(sink)->engine->tags, lane);
	free(lane);
	tagrv_rail_drop_lane(tagrv_rail_of_sink(sink));
}

static void on_fatal(struct tagrv_sink *sink, int status)
{
	struct tagrv_rail *rail = tagrv_rail_of_sink(sink);
	struct tagrv_engine *engine = rail->engine;
	struct tagrv_list *node, *tmp;

	tagrv_assert_locked(engine->dom);
	rail->fatal = status;
	tagrv_warn("device %s is lost: operations under way over it fail, and so "
		   "does every new connection that needs it\n",
		   rail->xport->dev->name);
	tagrv_list_for_each_safe(&engine->conn.lanes, node, tmp) {
		struct tagrv_lane *lane =
			tagrv_container_of(node, struct tagrv_lane, node);

		if (lane->link->xport == rail->xport)
			tagrv_lane_fail(lane, status, true);
	}
}

const struct tagrv_sink tagrv_engine_sink = {
	.packet = on_packet,
	.drain = tagrv_intake_drain,
	.tagged = on_tagged,
	.listed = on_listed,
	.next_tagged = on_next_tagged,
	.next_packet = on_next_packet,
	.room = on_room,
	.link_error = on_link_error,
	.link_closed = on_link_closed,
	.link_renew = on_link_renew,
	.fatal = on_fatal,
};
