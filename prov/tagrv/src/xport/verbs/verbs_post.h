/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What verbs_send.c and verbs_rdma.c need to post a work request: room, the posting
 * itself (verbs_post.c), and the check of registered memory.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_POST_H
#define TAGRV_XPORT_VERBS_VERBS_POST_H

#include "core/iov.h"
#include "xport/verbs/verbs_priv.h"

/* Returns -FI_EAGAIN; sink->room is called once something is freed. */
static inline int verbs_try_again(struct verbs_xport *xp)
{
	xp->starved = true;
	return -FI_EAGAIN;
}

/* Whether the queues have room. ctrl: the slots kept for control packets count, too. */
static inline bool verbs_has_room(const struct verbs_xport *xp,
				  const struct verbs_link *link, bool ctrl)
{
	uint32_t used = link->head - link->tail;

	if (ctrl)
		return used < link->depth && xp->inflight < xp->tx_cap;
	return used + link->reserve < link->depth &&
	       xp->inflight + xp->tx_reserve < xp->tx_cap;
}

static inline bool verbs_is_within(const struct verbs_xport *xp,
				   const void *addr, size_t len,
				   const struct tagrv_mem *mem)
{
	return mem->dev == &xp->dev->base &&
	       tagrv_range_within((uintptr_t) addr, len, (uintptr_t) mem->addr,
				  mem->len);
}

/*
 * Posts one work request, for which there is room. tx->signaled: signal it in any
 * case. 0, -FI_EAGAIN or -FI_ENOTCONN.
 */
int tagrv_verbs_post(struct verbs_xport *xp, struct verbs_link *link,
		     struct ibv_send_wr *wr, struct verbs_tx *tx)
	TAGRV_WARN_UNUSED;

#endif
