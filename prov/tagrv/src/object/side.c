/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Side links: making and ending. See side.h; lane.c has their failure.
 */
#include "object/side.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "object/engine.h"
#include "object/lane.h"

int tagrv_side_begin(struct tagrv_peer *peer)
{
	struct tagrv_xport *xport = tagrv_peer_xport(peer);
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

static int attach(struct tagrv_peer *peer, struct tagrv_side *side)
{
	struct tagrv_lane *lane = tagrv_lane_create_side(peer, side->link);
	int ret;

	if (!lane)
		return -FI_ENOMEM;
	ret = side->link->xport->ops->link_attach(side->link, lane);
	if (ret) {
		tagrv_lane_discard(lane);
		return ret;
	}
	tagrv_rail_add_lane(tagrv_rail_of(side->link));
	side->lane = lane;
	side->ready_due = true;
	return 0;
}

int tagrv_side_bind(struct tagrv_peer *peer, const void *blob, size_t len)
{
	struct tagrv_side *side = peer->side;
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	ret = side->link->xport->ops->link_bind(side->link, blob, len);
	if (!ret)
		ret = attach(peer, side);
	if (ret) {
		tagrv_side_end(peer, ret);
		peer->side_off = true;
	}
	return ret;
}

void tagrv_side_end(struct tagrv_peer *peer, int status)
{
	struct tagrv_side *side = peer->side;

	tagrv_assert_locked(peer->engine->dom);
	if (!side)
		return;
	peer->side = NULL;
	if (side->lane)
		tagrv_lane_end_side(side->lane, status);
	else
		side->link->xport->ops->link_discard(side->link);
	free(side);
}
