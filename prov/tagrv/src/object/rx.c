/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Life of a receive context and of its users: see rx.h. Posting is in
 * engine/post.c, unexpected messages are in proto/unexp.c.
 */
#include "object/rx.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "object/engine.h"
#include "object/op.h"

/* The number that all engines of a shared context use for one address. */
struct tagrv_rx_peer {
	struct tagrv_addr addr;
	uint32_t id;
	UT_hash_handle hh;
};

int tagrv_rx_open(struct tagrv_dom *dom, bool directed, struct tagrv_rx **rx)
{
	struct tagrv_rx *r = calloc(1, sizeof(*r));
	int ret;

	if (!r)
		return -FI_ENOMEM;
	ret = tagrv_match_create(tagrv_param_max_recvs(&dom->params), 0, &r->match);
	if (ret) {
		free(r);
		return ret;
	}
	r->dom = dom;
	r->directed = directed;
	r->shared = true;
	r->min_multi_recv = TAGRV_MIN_MULTI_RECV;
	r->max_recvs = r->plain_recvs = tagrv_param_max_recvs(&dom->params);
	tagrv_list_init(&r->engines);
	tagrv_list_init(&r->stopped);
	/* Posted receives get their op with a message: no limit is to stop that.
	 * 'max_recvs' ops may be in use when so many receives are posted. */
	tagrv_pool_init(&r->ops, sizeof(struct tagrv_op), TAGRV_POOL_TOP);
	tagrv_pool_init(&r->slices, sizeof(struct tagrv_op), TAGRV_POOL_MAX);
	*rx = r;
	return 0;
}

void tagrv_rx_close(struct tagrv_rx *rx)
{
	struct tagrv_rx_peer *peer, *tmp;

	assert(tagrv_list_empty(&rx->engines) && !rx->claims);
	HASH_ITER(hh, rx->peers, peer, tmp) {
		HASH_DEL(rx->peers, peer);
		free(peer);
	}
	tagrv_match_destroy(rx->match);
	tagrv_pool_fini(&rx->ops);
	tagrv_pool_fini(&rx->slices);
	free(rx);
}

void tagrv_rx_set_cq(struct tagrv_rx *rx, struct tagrv_compq *cq)
{
	tagrv_assert_locked(rx->dom);
	rx->cq = cq;
}

void tagrv_rx_set_cntr(struct tagrv_rx *rx, struct tagrv_counter *cntr)
{
	tagrv_assert_locked(rx->dom);
	rx->cntr = cntr;
}

void tagrv_rx_set_min_multi_recv(struct tagrv_rx *rx, size_t bytes)
{
	tagrv_assert_locked(rx->dom);
	rx->min_multi_recv = bytes;
}

/* ---- engines that use it ---- */

static void choose_first(struct tagrv_rx *rx)
{
	struct tagrv_list *node = tagrv_list_first(&rx->engines);

	rx->first = node ? tagrv_container_of(node, struct tagrv_engine,
					      rx_node) : NULL;
}

int tagrv_rx_join(struct tagrv_rx *rx, struct tagrv_engine *engine)
{
	tagrv_assert_locked(rx->dom);
	if (rx->first && rx->first->table.av != engine->table.av)
		return -FI_EINVAL;
	tagrv_list_push_tail(&rx->engines, &engine->rx_node);
	choose_first(rx);
	return 0;
}

void tagrv_rx_leave(struct tagrv_engine *engine)
{
	tagrv_assert_locked(engine->dom);
	tagrv_list_remove(&engine->rx_node);
	choose_first(engine->rx);
}

int tagrv_rx_id(struct tagrv_rx *rx, const struct tagrv_addr *addr,
		uint32_t *id)
{
	struct tagrv_rx_peer *peer;

	tagrv_assert_locked(rx->dom);
	HASH_FIND(hh, rx->peers, addr, sizeof(*addr), peer);
	if (!peer) {
		peer = calloc(1, sizeof(*peer));
		if (!peer)
			return -FI_ENOMEM;
		peer->addr = *addr;
		peer->id = HASH_COUNT(rx->peers);
		HASH_ADD(hh, rx->peers, addr, sizeof(*addr), peer);
		if (!peer->hh.tbl) {
			free(peer);
			return -FI_ENOMEM;
		}
	}
	*id = peer->id;
	return 0;
}

/* ---- reports that concern the context alone ---- */

struct tagrv_compq *tagrv_rx_cq(const struct tagrv_rx *rx)
{
	tagrv_assert_locked(rx->dom);
	if (rx->cq)
		return rx->cq;
	return rx->first ? rx->first->sinks.rx_cq : NULL;
}

struct tagrv_counter *tagrv_rx_cntr(const struct tagrv_rx *rx)
{
	tagrv_assert_locked(rx->dom);
	if (rx->cntr)
		return rx->cntr;
	return rx->first ? rx->first->sinks.rx_cntr : NULL;
}

void tagrv_rx_report(struct tagrv_rx *rx, const struct tagrv_comp *comp)
{
	struct tagrv_compq *cq = tagrv_rx_cq(rx);

	if (cq)
		tagrv_compq_push(cq, comp);
}

void tagrv_rx_report_error(struct tagrv_rx *rx, const struct tagrv_comp *comp)
{
	struct tagrv_counter *cntr = tagrv_rx_cntr(rx);

	if (cntr)
		tagrv_counter_add_err(cntr, 1);
	tagrv_rx_report(rx, comp);
}

void tagrv_rx_match_stats(const struct tagrv_rx *rx,
			  struct tagrv_match_stats *stats)
{
	tagrv_assert_locked(rx->dom);
	tagrv_match_get_stats(rx->match, stats);
}
