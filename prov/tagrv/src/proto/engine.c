/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The engine: packets in, progress, and the pools everything draws from.
 *
 * One progress pass: what the wireup thread found out, then the transports,
 * then peers with work to send. A peer that hung up is dropped only after a
 * pass that found nothing, or many passes: what it sent before is taken in
 * first.
 */
#include "proto/engine.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

/* Size classes of kept payloads; the last two: injects, whole packets. */
static const size_t small_classes[TAGRV_BUF_CLASSES - 2] = {
	sizeof(struct tagrv_only_seg), 128, 512,
};

void tagrv_engine_count_bad(struct tagrv_peer *peer, const char *what)
{
	char addr[TAGRV_ADDR_STRLEN];

	if (!peer->engine->stats.bad_packets++)
		tagrv_warn("packet from %s refused: %s (counted, not logged "
			   "again)\n", tagrv_addr_str(&peer->addr, addr,
						      sizeof(addr)), what);
}

/*
 * What the packet was about will never end, on either side: only the end of the
 * connection tells both.
 */
void tagrv_engine_bad_packet(struct tagrv_peer *peer, const char *what)
{
	tagrv_engine_count_bad(peer, what);
	tagrv_lane_fail(peer->lane, -FI_EREMOTEIO, true);
}

struct tagrv_buf *tagrv_engine_buf_get(struct tagrv_engine *engine, size_t len,
				       uint8_t *class)
{
	for (uint8_t i = 0; i < TAGRV_BUF_CLASSES; i++) {
		if (len > engine->buf_size[i])
			continue;
		*class = i;
		return tagrv_pool_get(&engine->bufs[i]);
	}
	return NULL;
}

void tagrv_engine_buf_put(struct tagrv_engine *engine, void *bytes,
			  uint8_t class)
{
	tagrv_pool_put(&engine->bufs[class],
		       (char *) bytes - offsetof(struct tagrv_buf, bytes));
}

/*
 * What one packet may bring. That is more than our own eager_max: a sender with
 * a larger one fills the packets that we said we take.
 */
static size_t largest_payload(const struct tagrv_engine *engine)
{
	size_t packet = tagrv_rails_max_packet(&engine->rails);

	return TAGRV_MAX(packet - sizeof(struct tagrv_hdr), TAGRV_INJECT_MAX);
}

void tagrv_engine_init_pools(struct tagrv_engine *engine)
{
	size_t max_ops = engine->dom->params.max_ops;

	/* Not those of receives: they never keep sends from ending. */
	tagrv_pool_init(&engine->tx_ops, sizeof(struct tagrv_op), max_ops);
	tagrv_pool_init(&engine->pieces, sizeof(struct tagrv_op), max_ops);
	tagrv_pool_init(&engine->umsgs, sizeof(struct tagrv_umsg),
			TAGRV_POOL_MAX);
	tagrv_pool_init(&engine->ctls, sizeof(struct tagrv_ctl),
			TAGRV_POOL_MAX);
	tagrv_pool_init(&engine->xfers, sizeof(struct tagrv_xfer),
			TAGRV_POOL_MAX);
	memcpy(engine->buf_size, small_classes, sizeof(small_classes));
	engine->buf_size[TAGRV_BUF_CLASSES - 2] = TAGRV_INJECT_MAX;
	engine->buf_size[TAGRV_BUF_CLASSES - 1] = largest_payload(engine);
	for (size_t i = 0; i < TAGRV_BUF_CLASSES; i++)
		tagrv_pool_init(&engine->bufs[i], sizeof(struct tagrv_buf) +
				engine->buf_size[i], TAGRV_POOL_MAX);
}

void tagrv_engine_fini_pools(struct tagrv_engine *engine)
{
	tagrv_pool_fini(&engine->tx_ops);
	tagrv_pool_fini(&engine->pieces);
	tagrv_pool_fini(&engine->umsgs);
	tagrv_pool_fini(&engine->ctls);
	tagrv_pool_fini(&engine->xfers);
	for (size_t i = 0; i < TAGRV_BUF_CLASSES; i++)
		tagrv_pool_fini(&engine->bufs[i]);
}

/* ---- what a transport reports ---- */

static bool decode_header(struct tagrv_hdr *hdr, const void *data, size_t len)
{
	uint64_t words[TAGRV_SHORT_WORDS];

	if (len < sizeof(words))
		return false;
	/* Each once: somebody else may be able to change them. */
#pragma GCC unroll 4
	for (int i = 0; i < TAGRV_SHORT_WORDS; i++)
		words[i] = tagrv_word_load((const char *) data +
					   (size_t) i * sizeof(*words));
	return tagrv_hdr_unpack(hdr, words);
}

/* The number of the first envelope of a packet; the packet counts the rest. */
static bool in_sequence(struct tagrv_peer *peer, const struct tagrv_hdr *hdr)
{
	if (TAGRV_LIKELY(hdr->seq == peer->rx_seq)) {
		peer->rx_seq++;
		return true;
	}
	tagrv_engine_bad_packet(peer, "out of sequence");
	return false;
}

/* Not within the way of an eager one, which would have to save more for it. */
static __attribute__((noinline))
void other_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		  const void *body, size_t len)
{
	switch (hdr->opcode) {
	case TAGRV_PKT_RTS:
		if (in_sequence(peer, hdr))
			tagrv_rndv_packet(peer, hdr, body, len);
		break;
	case TAGRV_PKT_BATCH:
		if (in_sequence(peer, hdr))
			tagrv_batch_packet(peer, body, len);
		break;
	case TAGRV_PKT_FIN:
		tagrv_fin_packet(peer, hdr, body, len);
		break;
	case TAGRV_PKT_CREDIT:
		break;
	case TAGRV_PKT_CTS:
		tagrv_rndv_cts_packet(peer, hdr, body, len);
		break;
	case TAGRV_PKT_GRANT:
		tagrv_rndv_grant_packet(peer, hdr);
		break;
	case TAGRV_PKT_FRAG:
		tagrv_rndv_frag_packet(peer, hdr, body, len);
		break;
	case TAGRV_PKT_DONE:
		tagrv_rndv_done_packet(peer, hdr);
		break;
	case TAGRV_PKT_PIECE:
		tagrv_rndv_piece_packet(peer, hdr, body, len);
		break;
	default:
		tagrv_engine_bad_packet(peer, "unknown opcode");
	}
}

static void dispatch(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		     const void *body, size_t len)
{
	if (TAGRV_UNLIKELY(!tagrv_credit_got(&peer->credit, hdr->credit)))
		tagrv_engine_bad_packet(peer, "too much credit");
	else if (TAGRV_LIKELY(hdr->opcode == TAGRV_PKT_EAGER)) {
		if (in_sequence(peer, hdr))
			tagrv_eager_packet(peer, hdr, body, len);
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

	(void) sink;
	if (!peer || peer->lane != lane)
		return;		/* of a connection that was given up */
	if (!decode_header(&hdr, data, len)) {
		tagrv_engine_bad_packet(peer, "malformed header");
		return;
	}
	/* Who sends can receive: nobody sends before he is ready for both. */
	if (TAGRV_UNLIKELY(peer->state == TAGRV_PEER_BOUND)) {
		peer->state = TAGRV_PEER_READY;
		tagrv_peer_set_busy(peer);
	}
	dispatch(peer, &hdr, (const char *) data + sizeof(hdr),
		 len - sizeof(hdr));
}

/* Only for tags that lie behind many others is there anything to do. */
static void on_ahead(struct tagrv_sink *sink, void *link_ctx, const void *data,
		     size_t len)
{
	const struct tagrv_lane *lane = link_ctx;
	const struct tagrv_peer *peer = lane->peer;
	struct tagrv_hdr hdr;

	(void) sink;
	if (!peer || TAGRV_LIKELY(!tagrv_match_is_far(peer->engine->match)) ||
	    !decode_header(&hdr, data, len))
		return;
	tagrv_match_ahead(peer->engine->match, peer->match_id,
			  tagrv_hdr_space(&hdr), hdr.tag);
}

static void on_room(struct tagrv_sink *sink)
{
	(void) sink;	/* every progress pass serves the busy peers anyway */
}

static void on_link_error(struct tagrv_sink *sink, void *link_ctx, int status)
{
	struct tagrv_lane *lane = link_ctx;
	char addr[TAGRV_ADDR_STRLEN];

	(void) sink;
	if (lane->peer)
		tagrv_warn("connection to %s failed: %s\n",
			   tagrv_addr_str(&lane->peer->addr, addr,
					  sizeof(addr)), fi_strerror(-status));
	tagrv_lane_fail(lane, status, true);
}

static void on_link_closed(struct tagrv_sink *sink, void *link_ctx)
{
	struct tagrv_lane *lane = link_ctx;
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(&lane->exposed)))
		tagrv_rndv_take_end(tagrv_container_of(node, struct tagrv_op,
						       link), lane->status);
	tagrv_list_remove(&lane->node);
	free(lane);
	tagrv_rail_drop_lane(tagrv_rail_of_sink(sink));
}

static void on_fatal(struct tagrv_sink *sink, int status)
{
	struct tagrv_rail *rail = tagrv_rail_of_sink(sink);
	struct tagrv_engine *engine = rail->engine;
	struct tagrv_list *node, *tmp;

	rail->fatal = status;
	tagrv_warn("device %s is lost: what is under way over it fails, and so "
		   "does every new connection that needs it\n",
		   rail->xport->dev->name);
	tagrv_list_for_each_safe(&engine->lanes, node, tmp) {
		struct tagrv_lane *lane =
			tagrv_container_of(node, struct tagrv_lane, node);

		if (lane->link->xport == rail->xport)
			tagrv_lane_fail(lane, status, true);
	}
}

const struct tagrv_sink tagrv_engine_sink = {
	.packet = on_packet,
	.ahead = on_ahead,
	.room = on_room,
	.link_error = on_link_error,
	.link_closed = on_link_closed,
	.fatal = on_fatal,
};

/* ---- progress ---- */

/* Each busy peer once, another one first every time. Returns who can go on. */
static int serve_busy(struct tagrv_engine *engine)
{
	struct tagrv_list turn;
	struct tagrv_list *node;
	int more = 0;

	tagrv_list_init(&turn);
	tagrv_list_splice_tail(&turn, &engine->busy);
	node = tagrv_list_pop(&turn);
	tagrv_list_push_tail(&turn, node);
	while ((node = tagrv_list_pop(&turn))) {
		tagrv_list_push_tail(&engine->busy, node);
		more += tagrv_peer_serve(
			tagrv_container_of(node, struct tagrv_peer, busy_node));
	}
	return more;
}

/*
 * Where others keep us busy, no pass finds nothing; but what a transport hands
 * over in one pass may be far less than what the peer has left there.
 */
static bool is_drained(struct tagrv_lane *lane)
{
	if (lane->gone_seq != lane->peer->rx_seq) {
		lane->gone_seq = lane->peer->rx_seq;
		lane->gone_passes = 0;
	}
	return ++lane->gone_passes >= TAGRV_DRAIN_PASSES;
}

/* idle: this pass found nothing. */
static void drop_gone(struct tagrv_engine *engine, bool idle)
{
	struct tagrv_list turn, *node;

	/* Ending one may end others: whoever does takes them off this list. */
	tagrv_list_init(&turn);
	tagrv_list_splice_tail(&turn, &engine->gone);
	while ((node = tagrv_list_pop(&turn))) {
		struct tagrv_lane *lane =
			tagrv_container_of(node, struct tagrv_lane, gone_node);

		tagrv_list_push_tail(&engine->gone, node);
		if (idle || is_drained(lane))
			tagrv_lane_fail(lane, lane->gone_status, false);
	}
}

int tagrv_engine_progress(struct tagrv_engine *engine)
{
	struct tagrv_wireup_event event;
	int events = 0;

	while (engine->wep && tagrv_wireup_has_event(engine->wep_events) &&
	       tagrv_wireup_poll(engine->wep, &event)) {
		tagrv_engine_wireup_event(engine, &event);
		events++;
	}
	engine->in_pass = true;
	events += tagrv_rails_poll(&engine->rails);
	engine->in_pass = false;
	if (!tagrv_list_empty(&engine->busy))
		events += serve_busy(engine);
	if (TAGRV_UNLIKELY(!tagrv_list_empty(&engine->gone)))
		drop_gone(engine, !events);
	if (!events)
		tagrv_match_tend(engine->match);
	return events;
}
