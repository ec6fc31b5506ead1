/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Queue pairs of closing links are destroyed. That is a device command, which may take
 * milliseconds, and commands of all processes of a host wait for each other: when many links
 * fail at once, the endpoint would do nothing else. So it hands links to a thread, once those
 * that it has destroyed itself have shown that the device is slow (verbs_close.c).
 *
 *   endpoint's thread                     thread
 *   out of the maps; DUE --> links -----> destroys the queue pairs
 *   the rest of the end      <----------- DONE, or KEPT
 *
 * The link stays in xport->closing all the while. Nothing else of it is touched by the thread,
 * which lives as long as there are links, and is started again for later ones.
 */
#include "core/log.h"
#include "core/thread.h"
#include "xport/verbs/verbs_in.h"

bool tagrv_verbs_end_qps(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	bool done = true;

	if (link->qp && xp->calls->destroy_qp(link->qp)) {
		tagrv_warn("verbs: %s: cannot destroy qp 0x%x\n",
			   xp->dev->base.name, link->qpn);
		link->qp->qp_context = NULL;	/* its events are nobody's */
		done = false;
	}
	link->qp = NULL;
	return tagrv_verbs_in_destroy(link) && done;
}

void tagrv_verbs_end_now(struct verbs_link *link)
{
	enum verbs_end end = tagrv_verbs_end_qps(link) ? VERBS_END_DONE : VERBS_END_KEPT;

	atomic_store(&link->end, end);	/* of the thread: it may be freed now */
}

static void *run(void *arg)
{
	struct verbs_ender *ender = arg;
	struct tagrv_list *node;

	pthread_mutex_lock(&ender->mutex);
	while ((node = tagrv_list_pop(&ender->links))) {
		struct verbs_link *link =
			tagrv_container_of(node, struct verbs_link, todo_node);

		pthread_mutex_unlock(&ender->mutex);
		tagrv_verbs_end_now(link);
		pthread_mutex_lock(&ender->mutex);
	}
	ender->busy = false;
	pthread_mutex_unlock(&ender->mutex);
	return NULL;
}

static void join(struct verbs_ender *ender)
{
	if (ender->started)
		pthread_join(ender->thread, NULL);
	ender->started = false;
}

/* The former thread, if any, has no link any more. */
static bool start(struct verbs_ender *ender)
{
	join(ender);
	ender->started = !tagrv_thread_start(&ender->thread, "tagrv-destroy", run, ender);
	return ender->started;
}

bool tagrv_verbs_end_later(struct verbs_link *link)
{
	struct verbs_ender *ender = &verbs_xport_of(link->base.xport)->ender;
	bool busy;

	atomic_store(&link->end, VERBS_END_DUE);
	pthread_mutex_lock(&ender->mutex);
	tagrv_list_push_tail(&ender->links, &link->todo_node);
	busy = ender->busy;
	ender->busy = true;
	pthread_mutex_unlock(&ender->mutex);
	if (busy || start(ender))
		return true;
	tagrv_list_remove(&link->todo_node);
	ender->busy = false;
	atomic_store(&link->end, VERBS_END_NONE);
	return false;
}

void tagrv_verbs_ender_open(struct verbs_ender *ender)
{
	pthread_mutex_init(&ender->mutex, NULL);
	tagrv_list_init(&ender->links);
}

void tagrv_verbs_ender_close(struct verbs_ender *ender)
{
	join(ender);
	pthread_mutex_destroy(&ender->mutex);
}
