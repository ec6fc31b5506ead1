/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A pool of receive buffers: its first ones, and more of them.
 *
 *   rxq                buffers, posted to one SRQ               verbs_buf.c
 *   rx_permits, ...    packets that peers may send to it        verbs_permit.c
 *   rx_window          how many each of them at a time          verbs_window.c
 *   recall             what idle peers have to give back        verbs_recall.c
 *   lost               buffers that the device has lost         verbs_lost.c
 */
#include <rdma/fi_errno.h>

#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

void tagrv_verbs_pool_init(struct verbs_pool *pool, struct verbs_xport *xp, uint32_t least)
{
	pool->xp = xp;
	pool->least = least;
	atomic_init(&pool->rx_kept, least);
}

int tagrv_verbs_pool_fill(struct verbs_pool *pool, size_t size, uint32_t max, uint32_t slab)
{
	struct verbs_rxq *rxq = &pool->rxq;
	int ret = tagrv_verbs_rxq_init(rxq, pool->xp->dev, size, max, slab);

	if (!ret)
		ret = tagrv_verbs_bufs_grow(&rxq->bufs);
	if (ret)
		return ret;
	rxq->refill_at = verbs_clamp(rxq->bufs.total / 4, 1, VERBS_BATCH);
	tagrv_verbs_rxq_refill(pool->xp->calls, rxq);
	pool->rx_total = rxq->posted;
	return rxq->posted ? 0 : -FI_ENOMEM;
}

void tagrv_verbs_pool_grow(struct verbs_pool *pool)
{
	struct verbs_xport *xp = pool->xp;
	struct verbs_bufs *bufs = &pool->rxq.bufs;

	pool->want_rx_bufs = false;
	if (!xp->use_srq || bufs->total >= bufs->max)
		return;
	if (tagrv_verbs_bufs_grow(bufs)) {
		tagrv_warn("verbs: %s: cannot register more than %u receive "
			   "buffers\n", xp->dev->base.name, bufs->total);
		tagrv_verbs_window_share(pool);	/* of fewer than there could be before */
	} else {
		tagrv_verbs_rxq_refill(xp->calls, &pool->rxq);
	}
	pthread_mutex_lock(&xp->inbox.mutex);
	pool->rx_total = bufs->total;
	pthread_mutex_unlock(&xp->inbox.mutex);
	pool->want_rx_bufs = tagrv_verbs_permit_lacks_bufs(pool);
	tagrv_verbs_permit_thin_look(pool);
}

void tagrv_verbs_pool_serve(struct verbs_pool *pool)
{
	if (TAGRV_UNLIKELY(pool->want_rx_bufs))
		tagrv_verbs_pool_grow(pool);
	tagrv_verbs_lost_search(pool);
	tagrv_verbs_permit_thin_look(pool);
}
