/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Closes links: puts the queue pair into ERR, drains it, destroys it. All of this
 * runs in the endpoint's thread, but for queue pairs that a slow device destroys.
 *
 * A closing link is drained when all its sends are complete and no receive
 * completion of it can come any more. With a receive queue of its own that is when
 * all buffers have come back. With the SRQ it is when the receive CQ was polled
 * empty some time after the queue pair was put into ERR, because not all devices
 * have an event for it. The completions must be polled before the queue pair is
 * destroyed: some devices then remove them from the CQ, and their packets and shared
 * buffers would be lost; others leave them there, where they take up entries. Buffers that
 * are lost all the same are taken back later: verbs_lost.c.
 */
#include <rdma/fi_errno.h>

#include "core/clock.h"
#include "core/log.h"
#include "xport/verbs/verbs_in.h"

static void begin_close(struct verbs_link *link, bool discarded)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	tagrv_verbs_link_set_state(link, VERBS_LINK_CLOSING);
	verbs_link_set_direct(link);
	link->discarded = discarded;
	verbs_link_set_error(link, -FI_ECANCELED);
	if (!link->stray_cnt || !link->base.delivers_last) {
		tagrv_list_remove(&link->todo_node);
		tagrv_verbs_strays_drop(link);
	}
	tagrv_verbs_qp_fail(link, link->qp);
	if (link->in.qp)
		tagrv_verbs_qp_fail(link, link->in.qp);
	tagrv_verbs_drain(link);
	link->closed_at = tagrv_clock_ms();
	link->sweep_pass = 0;
	tagrv_list_push_tail(&xp->closing, &link->close_node);
}

void tagrv_verbs_link_close(struct tagrv_link *base)
{
	struct verbs_link *link = verbs_link_of(base);

	if (link->state != VERBS_LINK_CLOSING)
		begin_close(link, false);
}

void tagrv_verbs_links_close_discarded(struct verbs_xport *xp)
{
	struct tagrv_list discarded, *node;

	tagrv_verbs_links_adopt(xp);
	tagrv_list_init(&discarded);
	pthread_mutex_lock(&xp->inbox.mutex);
	tagrv_list_splice_tail(&discarded, &xp->inbox.discarded);
	tagrv_list_for_each(&discarded, node) {
		struct verbs_link *link =
			tagrv_container_of(node, struct verbs_link,
					   discard_node);

		/* Still fresh: the map had no memory for the link. */
		if (tagrv_list_linked(&link->inbox_node))
			tagrv_verbs_permit_adopt(link);
		tagrv_list_remove(&link->inbox_node);
	}
	pthread_mutex_unlock(&xp->inbox.mutex);
	while ((node = tagrv_list_pop(&discarded)))
		begin_close(tagrv_container_of(node, struct verbs_link,
					       discard_node), true);
}

/* Without SRQ the wireup thread makes it larger. */
static uint32_t rx_cq_depth(struct verbs_xport *xp)
{
	uint32_t depth;

	pthread_mutex_lock(&xp->inbox.mutex);
	depth = xp->inbox.rx_cq_depth;
	pthread_mutex_unlock(&xp->inbox.mutex);
	return depth;
}

/* The same of the list, if the link's packets come by it. */
static bool list_is_swept(const struct verbs_list *list, const struct verbs_link *link)
{
	return !link->in_number || list->empty_pass > link->sweep_pass ||
	       list->polled >= link->list_end;
}

/*
 * Whether all receive completions of a closing link were polled. The device has
 * VERBS_CLOSE_*_MS to write them; the sweep begins then. It ends when the receive CQ
 * was polled empty or, if other links keep it full, when as many completions were
 * polled as it can hold.
 */
static bool rx_cq_is_swept(struct verbs_xport *xp, struct verbs_link *link,
			   uint64_t now)
{
	uint64_t grace = xp->dev->base.software ? VERBS_CLOSE_SOFT_MS :
						  VERBS_CLOSE_HW_MS;

	if (now <= link->closed_at + grace)
		return false;
	if (!link->sweep_pass) {
		link->sweep_pass = xp->pass;
		link->sweep_end = xp->rx_polled + rx_cq_depth(xp);
		if (link->in_number)
			link->list_end = xp->list.polled + tagrv_verbs_list_depth(xp);
	}
	return (xp->rx_empty_pass > link->sweep_pass || xp->rx_polled >= link->sweep_end) &&
	       list_is_swept(&xp->list, link);
}

static bool may_destroy(struct verbs_xport *xp, struct verbs_link *link,
			uint64_t now)
{
	bool drained = link->head == link->tail && !link->stray_cnt &&
		       !(link->rxq && link->rxq->posted);

	if ((xp->fatal && !link->base.delivers_last) || (drained && link->rxq))
		return true;
	if (now <= link->closed_at + VERBS_CLOSE_MS)
		return rx_cq_is_swept(xp, link, now) && (drained || xp->fatal);
	tagrv_info("verbs: %s: qp 0x%x did not drain in %d ms: destroyed\n",
		   xp->dev->base.name, link->qpn, VERBS_CLOSE_MS);
	return true;
}

/* No completion names the link any more: another one may get the numbers of its queue pairs. */
static void leave_maps(struct verbs_xport *xp, struct verbs_link *link)
{
	tagrv_list_remove(&link->todo_node);
	tagrv_verbs_strays_drop(link);
	tagrv_verbs_map_remove(&xp->map, link);
	tagrv_verbs_map_remove(&xp->in_map, link);
}

/*
 * The queue pair is destroyed before requests are completed that the device did not
 * complete: the device must not write to buffers whose owners may reuse them.
 */
static void end_link(struct verbs_xport *xp, struct verbs_link *link)
{
	struct tagrv_sink *sink = xp->base.sink;
	void *ctx = link->base.ctx;
	bool discarded = link->discarded;

	tagrv_list_remove(&link->close_node);
	tagrv_verbs_strays_drop(link);
	tagrv_verbs_permit_forget(link);
	if (link->end == VERBS_END_KEPT)
		link->pool->lost.off = true;	/* it may still hold a buffer */
	tagrv_verbs_list_end(link);
	tagrv_verbs_lost_suspect(link);
	tagrv_verbs_retire(link, link->head, link->error);
	tagrv_verbs_link_destroy(link);
	if (!discarded)
		sink->link_closed(sink, ctx);
}

/*
 * Whether the link's queue pairs are destroyed. Once the device was slow in a pass, a thread
 * destroys all others, until no link is closing any more.
 */
static bool is_destroyed(struct verbs_xport *xp, struct verbs_link *link, uint64_t now)
{
	if (link->end != VERBS_END_NONE)
		return link->end != VERBS_END_DUE;
	if (!may_destroy(xp, link, now)) {
		tagrv_verbs_drain(link);
		return false;
	}
	leave_maps(xp, link);
	if (xp->ender.wanted && tagrv_verbs_end_later(link))
		return false;
	tagrv_verbs_end_now(link);
	xp->ender.wanted = tagrv_clock_ms() >= now + VERBS_DESTROY_MS;
	return true;
}

unsigned tagrv_verbs_links_finish(struct verbs_xport *xp)
{
	uint64_t now = tagrv_clock_ms();
	struct tagrv_list *pos, *tmp;
	unsigned ended = 0;

	tagrv_list_for_each_safe(&xp->closing, pos, tmp) {
		struct verbs_link *link =
			tagrv_container_of(pos, struct verbs_link, close_node);

		if (!is_destroyed(xp, link, now))
			continue;
		end_link(xp, link);
		if (++ended == VERBS_CLOSE_BATCH)
			break;
	}
	xp->ender.wanted &= !tagrv_list_empty(&xp->closing);
	return ended;
}
