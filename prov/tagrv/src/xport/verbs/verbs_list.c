/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The list of posted receives of an xport: see verbs_list.h.
 *
 * An xport without a list does not pay for it: one that has a list has other functions in
 * its table.
 */
#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

static const struct verbs_list_ops *const ops = &tagrv_verbs_tm_ops;

/* No link has a queue pair of the list yet: what comes is dropped. */
static bool on_packet(void *owner, const struct verbs_list_packet *packet)
{
	struct verbs_xport *xp = owner;

	(void) packet;
	xp->list.stray++;
	return true;
}

static bool on_permit(void *owner, const struct verbs_list_packet *packet)
{
	(void) owner;
	(void) packet;
	return true;
}

static int progress(struct tagrv_xport *xport)
{
	struct tagrv_taglist *list = verbs_xport_of(xport)->list.taglist;
	int events = list->ops->progress(list);

	return events + tagrv_verbs_progress(xport);
}

void tagrv_verbs_list_open(struct verbs_xport *xp)
{
	struct verbs_list *list = &xp->list;
	const struct verbs_list_attr attr = {
		.max_entries = VERBS_LIST_ENTRIES,
		.rxq = &list->rxq,
		.bufs = tagrv_verbs_rx_max(xp) / 2,
		.first_bufs = VERBS_RX_SLAB,
		.buf_size = tagrv_verbs_buf_size(xp),
		.receive = on_packet, .permit = on_permit, .owner = xp,
		.channel = xp->channel, .vector = xp->vector,
	};

	if (!xp->params.hw_tags || !xp->base.sink->wants_list || !xp->use_srq ||
	    ops->open(xp->dev, &attr, &list->taglist))
		return;
	list->ops = *xp->base.ops;
	list->ops.progress = progress;
	xp->base.ops = &list->ops;
	xp->base.list = list->taglist;
	tagrv_info("verbs: %s: the device matches tagged messages with up to %u receives\n",
		   xp->dev->base.name, list->taglist->max_entries);
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
}

int tagrv_verbs_list_qp_create(struct verbs_xport *xp, void *ctx, struct ibv_qp **qp)
{
	return ops->qp_create(xp->list.taglist, ctx, qp);
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
