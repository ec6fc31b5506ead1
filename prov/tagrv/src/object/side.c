/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Side links: making and ending. See side.h; lane.c has their failure.
 */
#include "object/side.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "object/engine.h"
#include "object/lane.h"

static int begin_over(struct tagrv_peer *peer, struct tagrv_xport *xport)
{
	struct tagrv_side *side = calloc(1, sizeof(*side));
	size_t len;
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	if (!side)
		return -FI_ENOMEM;
	ret = xport->ops->side_create(xport, side->blob, &len, &side->link);
	if (ret) {
		free(side);
		return ret;
	}
	side->blob_len = (uint8_t) len;
	side->offer_due = true;
	peer->side = side;
	return 0;
}

int tagrv_side_begin(struct tagrv_peer *peer)
{
	return begin_over(peer, tagrv_peer_xport(peer));
}

/* *lane: set on success. */
static int attach(struct tagrv_peer *peer, struct tagrv_link *link, struct tagrv_lane **lane)
{
	struct tagrv_lane *l = tagrv_lane_create_side(peer, link);
	int ret;

	if (!l)
		return -FI_ENOMEM;
	ret = link->xport->ops->link_attach(link, l);
	if (ret) {
		tagrv_lane_discard(l);
		return ret;
	}
	tagrv_rail_add_lane(tagrv_rail_of(link));
	*lane = l;
	return 0;
}

int tagrv_side_bind(struct tagrv_peer *peer, const void *blob, size_t len)
{
	struct tagrv_side *side = peer->side;
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	ret = side->link->xport->ops->link_bind(side->link, blob, len);
	if (!ret)
		ret = attach(peer, side->link, &side->lane);
	if (ret)
		tagrv_side_end(peer, ret);
	else
		side->ready_due = true;
	return ret;
}

/* ---- to oneself ---- */

/* Binds both ends to each other, and attaches them. */
static int join(struct tagrv_peer *peer, struct tagrv_link *back, const void *back_blob,
		size_t back_len)
{
	struct tagrv_side *side = peer->side;
	const struct tagrv_xport_ops *ops = back->xport->ops;
	int ret;

	ret = ops->link_bind(side->link, back_blob, back_len);
	if (!ret)
		ret = ops->link_bind(back, side->blob, side->blob_len);
	if (!ret)
		ret = attach(peer, back, &side->back);
	if (ret) {
		ops->link_discard(back);
		return ret;
	}
	return attach(peer, side->link, &side->lane);
}

int tagrv_side_begin_self(struct tagrv_peer *peer, struct tagrv_xport *xport)
{
	uint8_t blob[TAGRV_BLOB_MAX];
	struct tagrv_link *back;
	size_t len;
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	ret = begin_over(peer, xport);
	if (ret)
		return ret;
	peer->side->offer_due = false;
	ret = xport->ops->side_create(xport, blob, &len, &back);
	if (!ret)
		ret = join(peer, back, blob, len);
	if (ret)
		tagrv_side_end(peer, ret);
	else
		peer->side->peer_ready = true;
	return ret;
}

/* ---- end ---- */

void tagrv_side_count_end(struct tagrv_peer *peer, uint32_t nr, bool unable)
{
	uint32_t last = peer->rma.side_pause_last;

	tagrv_assert_locked(peer->engine->dom);
	peer->rma.side_nr = nr + 1;
	last = last ? TAGRV_MIN(2 * last, TAGRV_SIDE_PAUSE_MAX) : TAGRV_SIDE_PAUSE_MIN;
	peer->rma.side_pause = peer->rma.side_pause_last = last;
	peer->side_unable = unable;
}

void tagrv_side_end(struct tagrv_peer *peer, int status)
{
	struct tagrv_side *side = peer->side;

	tagrv_assert_locked(peer->engine->dom);
	if (!side)
		return;
	peer->side = NULL;
	if (side->back)
		tagrv_lane_end_side(side->back, status);
	if (side->lane)
		tagrv_lane_end_side(side->lane, status);
	else
		side->link->xport->ops->link_discard(side->link);
	free(side);
}
