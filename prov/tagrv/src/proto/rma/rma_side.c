/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets by which two peers make a side link. See object/side.h, which has the picture.
 *
 * A packet has the number of a side link, and the sender's blob for it, or says that the
 * sender's link is bound (TAGRV_RMA_READY), or both; or it says that this link is closed or
 * could not be made (TAGRV_RMA_OFF).
 */
#include <rdma/fi_errno.h>

#include "core/clock.h"
#include "core/log.h"
#include "object/side.h"
#include "proto/packet/ack.h"
#include "proto/rma/rma_priv.h"

/* The link could not be made; without it, packets do. */
static void give_up(struct tagrv_peer *peer, int status)
{
	char addr[TAGRV_ADDR_STRLEN];

	tagrv_side_count_end(peer, peer->rma.side_nr, true);
	/* What waits for it, here and there, need not wait any more. */
	peer->side_off_due = true;
	tagrv_peer_set_busy(peer);
	tagrv_info("one-sided operations on %s go by packets: no connection for them: %s\n",
		   tagrv_addr_str(&peer->addr, addr, sizeof(addr)), fi_strerror(-status));
}

static bool begin(struct tagrv_peer *peer)
{
	int ret = tagrv_side_begin(peer);

	if (ret)
		give_up(peer, ret);
	return !ret;
}

void tagrv_rma_side_begin(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	if (!(tagrv_peer_xport(peer)->attr.caps & TAGRV_XPORT_SIDE) || peer->side ||
	    (peer->side_unable && peer->rma.side_pause) || !begin(peer))
		return;
	tagrv_peer_set_busy(peer);
}

void tagrv_rma_side_miss(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	if (peer->side || !peer->rma.side_pause || --peer->rma.side_pause)
		return;
	peer->side_unable = false;
	if (!peer->self)
		tagrv_rma_side_begin(peer);
}

static int send_off(struct tagrv_peer *peer)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_SIDE, .flags = TAGRV_RMA_OFF,
		.op = peer->rma.side_nr - 1,
	};
	int ret = tagrv_control_send(peer, &hdr, NULL, 0);

	if (!ret)
		peer->side_off_due = false;
	return ret;
}

int tagrv_rma_serve_side(struct tagrv_peer *peer)
{
	struct tagrv_side *side = peer->side;
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_SIDE, .op = peer->rma.side_nr };
	int ret = 0;

	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_UNLIKELY(peer->side_off_due))
		ret = send_off(peer);
	if (ret || TAGRV_LIKELY(!side || (!side->offer_due && !side->ready_due)))
		return ret;
	hdr.flags = side->ready_due ? TAGRV_RMA_READY : 0;
	ret = tagrv_control_send(peer, &hdr, side->blob,
				 side->offer_due ? side->blob_len : 0);
	/* On other errors the side link has ended with the lane. */
	if (!ret)
		side->offer_due = side->ready_due = false;
	return ret;
}

/*
 * Side links that a peer may begin at once, and then one each so many ms. It may end them as
 * often as it likes, each costs a queue pair, and the domain's lock is held meanwhile.
 */
#define BURST	8u
#define EVERY	100u

static bool may_begin(struct tagrv_peer *peer)
{
	uint64_t now = tagrv_clock_ms();

	if (peer->rma.side_free_at > now + (BURST - 1) * EVERY)
		return false;
	peer->rma.side_free_at = TAGRV_MAX(peer->rma.side_free_at, now) + EVERY;
	return true;
}

static bool begin_for_peer(struct tagrv_peer *peer)
{
	if (may_begin(peer))
		return begin(peer);
	give_up(peer, -FI_EBUSY);
	return false;
}

/* The peer's link is here: ours may be bound to it. */
static void bind_to(struct tagrv_peer *peer, const void *blob, size_t len)
{
	uint8_t copy[TAGRV_BLOB_MAX];
	int ret;

	if (!peer->side && !begin_for_peer(peer))
		return;
	tagrv_copy_once(copy, blob, len);
	ret = tagrv_side_bind(peer, copy, len);
	if (ret)
		give_up(peer, ret);
	else
		tagrv_peer_set_busy(peer);
}

/* 'ahead': the number of its link less that of ours. */
static bool makes_sense(const struct tagrv_peer *peer, uint16_t flags, size_t len,
			int32_t ahead)
{
	bool off = flags == TAGRV_RMA_OFF, ready = flags == TAGRV_RMA_READY;

	if (!(tagrv_peer_xport(peer)->attr.caps & TAGRV_XPORT_SIDE) || len > TAGRV_BLOB_MAX ||
	    !(len ? ready || !flags : ready || off))
		return false;
	/* A side says that a link has ended before it begins the next one. */
	if (ahead > 0)
		return off;
	return ahead < 0 || !len || !peer->side || !peer->side->lane;
}

/* The peer's end of link 'nr' is closed, or could not be made. */
static void end_here(struct tagrv_peer *peer, uint32_t nr)
{
	bool was_open = tagrv_side_link(peer);

	tagrv_side_end(peer, -FI_ECONNRESET);
	tagrv_side_count_end(peer, nr, !was_open);
	tagrv_peer_set_busy(peer);
}

void tagrv_rma_side_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len)
{
	int32_t ahead = (int32_t) (hdr->op - peer->rma.side_nr);

	tagrv_assert_locked(peer->engine->dom);
	if (!makes_sense(peer, hdr->flags, len, ahead)) {
		tagrv_peer_bad_packet(peer, "SIDE that makes no sense");
		return;
	}
	/* Of a link that has ended here: the peer did not know that yet. */
	if (ahead < 0)
		return;
	if (hdr->flags & TAGRV_RMA_OFF) {
		end_here(peer, hdr->op);
		return;
	}
	if (len)
		bind_to(peer, body, len);
	/* Else ours is given up, and the peer's has no use. */
	if (hdr->flags & TAGRV_RMA_READY && peer->side) {
		peer->side->peer_ready = true;
		tagrv_peer_set_busy(peer);
	}
}
