/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Keeps early packets: those that come before their link is attached, because a
 * peer may send as soon as both sides are bound. They are copied to a list of the
 * link and delivered in order, before any other packet, once it is attached. So are
 * those of a link that fails meanwhile: the peer's device believes that they arrived.
 * A message that an entry of the list took has its turn among them (verbs_list.h).
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "xport/verbs/verbs_priv.h"

bool tagrv_verbs_stray_keep(struct verbs_link *link, enum verbs_stray_kind kind,
			    const void *data, size_t len)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct verbs_stray *stray = NULL;

	if (link->lost_stray)
		return false;
	if (link->stray_cnt < VERBS_STRAY_LINK &&
	    xp->stray_cnt < VERBS_STRAY_MAX)
		stray = malloc(sizeof(*stray) + len);
	if (!stray) {
		/* A link without one of its packets is of no use. */
		xp->stray_lost++;
		link->lost_stray = true;
		tagrv_verbs_link_fail(link, -FI_ENOBUFS, true);
		return false;
	}
	stray->kind = kind;
	stray->len = len;
	memcpy(stray->data, data, len);
	tagrv_list_push_tail(&link->strays, &stray->node);
	link->stray_cnt++;
	xp->stray_cnt++;
	return true;
}

static struct verbs_stray *pop_stray(struct verbs_xport *xp,
				     struct verbs_link *link)
{
	struct tagrv_list *node = tagrv_list_pop(&link->strays);

	if (!node)
		return NULL;
	link->stray_cnt--;
	xp->stray_cnt--;
	return tagrv_container_of(node, struct verbs_stray, node);
}

void tagrv_verbs_strays_drop(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct verbs_stray *stray;

	while ((stray = pop_stray(xp, link))) {
		if (stray->kind == VERBS_STRAY_LISTED)
			tagrv_verbs_list_handled(xp);
		free(stray);
	}
}

static void deliver(struct verbs_xport *xp, struct verbs_link *link,
		    const struct verbs_stray *stray)
{
	struct tagrv_sink *sink = xp->base.sink;
	uint64_t key;

	switch (stray->kind) {
	case VERBS_STRAY_PACKET:
		sink->packet(sink, link->base.ctx, stray->data, stray->len);
		break;
	case VERBS_STRAY_LISTED:
		sink->listed(sink, link->base.ctx, stray->data, stray->len);
		tagrv_verbs_list_handled(xp);
		break;
	case VERBS_STRAY_ENTRY:
		memcpy(&key, stray->data, sizeof(key));
		tagrv_verbs_list_deliver(xp, key);
		break;
	}
}

unsigned tagrv_verbs_strays_deliver(struct verbs_xport *xp)
{
	struct verbs_stray *stray;
	struct tagrv_list *node;
	unsigned events = 0;

	while ((node = tagrv_list_pop(&xp->ready))) {
		struct verbs_link *link =
			tagrv_container_of(node, struct verbs_link, todo_node);

		/* The callback may close the link, which frees all strays. */
		while ((stray = pop_stray(xp, link))) {
			deliver(xp, link, stray);
			free(stray);
			events++;
		}
		verbs_link_set_direct(link);
		if (link->error) {
			tagrv_verbs_link_fail(link, link->error, false);
			events++;
		}
	}
	return events;
}
