/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The list of posted receives of an xport: see verbs_list.h.
 *
 * An xport without a list does not pay for it: one that has a list has other functions in
 * its table.
 */
#include <stdlib.h>

#include "core/log.h"
#include "xport/verbs/verbs_list_rx.h"

static const struct verbs_list_ops *const ops = &tagrv_verbs_tm_ops;

/*
 * The list is looked at first: a link that closes is swept if it was empty in a pass behind the
 * one in which the sweep began (verbs_close.c).
 */
static int progress(struct tagrv_xport *xport)
{
	struct verbs_xport *xp = verbs_xport_of(xport);
	struct verbs_list *list = &xp->list;
	struct verbs_pool *pool = &list->pool;
	int events = list->taglist->ops->progress(list->taglist);

	list->polled += (unsigned) events;
	if (events < (int) VERBS_LIST_PASS)
		list->empty_pass = xp->pass;
	if (TAGRV_UNLIKELY((unsigned) events > pool->rxq.bufs.total / 2))
		tagrv_verbs_pool_grow(pool);
	if (TAGRV_UNLIKELY(pool->want_rx_bufs || pool->searching || pool->thin_due))
		tagrv_verbs_pool_serve(pool);
	return events + tagrv_verbs_progress(xport);
}

static void adorn(struct verbs_xport *xp)
{
	struct verbs_list *list = &xp->list;

	list->pool.rx_total = list->pool.rxq.bufs.total;
	list->ops = *xp->base.ops;
	list->ops.progress = progress;
	xp->base.ops = &list->ops;
	list->taglist->link_create = tagrv_verbs_link_create_to;
	list->taglist->numbers = list->numbers;
	xp->base.list = list->taglist;
	tagrv_info("verbs: %s: the device matches tagged messages with up to %u receives\n",
		   xp->dev->base.name, list->taglist->max_entries);
}

void tagrv_verbs_list_open(struct verbs_xport *xp)
{
	struct verbs_list *list = &xp->list;
	const struct verbs_list_attr attr = {
		.max_entries = VERBS_LIST_ENTRIES,
		.rxq = &list->pool.rxq,
		.bufs = tagrv_verbs_rx_max(xp) / 2,
		.first_bufs = VERBS_RX_SLAB,
		.buf_size = tagrv_verbs_buf_size(xp),
		.receive = tagrv_verbs_list_packet, .permit = tagrv_verbs_list_permit,
		.match = tagrv_verbs_list_match, .keep = tagrv_verbs_list_keep, .owner = xp,
		.channel = xp->channel, .vector = xp->vector,
	};

	if (!xp->params.hw_tags || !xp->base.sink->wants_list || !xp->use_srq)
		return;
	list->links = calloc(VERBS_NUMBER_MAX + 1, sizeof(*list->links));
	list->numbers = tagrv_numbers_create();
	tagrv_verbs_pool_init(&list->pool, xp, VERBS_LIST_BUFS_IDLE);
	if (list->links && list->numbers && !ops->open(xp->dev, &attr, &list->taglist)) {
		adorn(xp);
		return;
	}
	free(list->links);
	list->links = NULL;
	tagrv_numbers_destroy(list->numbers);
	list->numbers = NULL;
}

void tagrv_verbs_list_close(struct verbs_xport *xp)
{
	struct tagrv_taglist *list = xp->list.taglist;

	if (!list)
		return;
	if (xp->list.stray)
		tagrv_info("verbs: %s: %llu packets of no link came by the list of receives\n",
			   xp->dev->base.name, (unsigned long long) xp->list.stray);
	xp->base.list = xp->list.taglist = NULL;
	list->ops->close(list);
	free(xp->list.links);
	xp->list.links = NULL;
}

int tagrv_verbs_list_qp_create(struct verbs_xport *xp, void *ctx, struct ibv_qp **qp)
{
	return ops->qp_create(xp->list.taglist, ctx, qp);
}

void tagrv_verbs_list_adopt(struct verbs_link *link)
{
	if (link->in_number)
		verbs_xport_of(link->base.xport)->list.links[link->in_number] = link;
}

/* Nothing has come by a queue pair that was not used. */
void tagrv_verbs_list_end(struct verbs_link *link)
{
	struct verbs_list *list = &verbs_xport_of(link->base.xport)->list;

	if (!link->in_number)
		return;
	if (list->links[link->in_number] == link)
		list->links[link->in_number] = NULL;
	if (link->in_used)
		ops->end(list->taglist, &link->base);
}

void tagrv_verbs_list_deliver(struct verbs_xport *xp, uint64_t key)
{
	ops->deliver(xp->list.taglist, key);
}

void tagrv_verbs_list_handled(struct verbs_xport *xp)
{
	struct tagrv_taglist_sink *sink = xp->list.taglist->sink;

	sink->handled(sink);
}

bool tagrv_verbs_list_holds(struct verbs_xport *xp)
{
	return ops->holds(xp->list.taglist);
}

/* As its completion queue. */
uint64_t tagrv_verbs_list_depth(const struct verbs_xport *xp)
{
	return xp->list.pool.rxq.bufs.max + 2ull * xp->list.taglist->max_entries +
	       VERBS_LIST_OPS;
}

void tagrv_verbs_list_fail(struct verbs_xport *xp, int status)
{
	ops->fail(xp->list.taglist, status);
}

void tagrv_verbs_list_reap(struct verbs_xport *xp)
{
	ops->reap(xp->list.taglist);
}

bool tagrv_verbs_list_event(struct verbs_xport *xp, const struct ibv_cq *cq)
{
	return ops->event(xp->list.taglist, cq);
}

int tagrv_verbs_list_arm(struct verbs_xport *xp)
{
	return ops->arm(xp->list.taglist);
}
