/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Closing a window: peers find it no longer, so operations that come in packets are refused.
 * But a transport may be moving bytes from or to its memory (struct tagrv_use), and the
 * caller may free that memory next:
 *
 *   peers that read it by themselves are told to do that no longer (object/view.h)
 *   progress until these operations have ended, within close_timeout
 *   --> a connection whose operation has not ended fails, which stops the transport
 *   --> registrations by which peers have read are not kept (FI_TAGRV_EXPOSE)
 */
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "core/log.h"
#include "engine/drive.h"
#include "engine/endpoint.h"
#include "object/engine.h"
#include "object/lane.h"
#include "object/mrtab.h"
#include "object/peer.h"
#include "proto/rma/rma.h"

/* ms until a device has ended what was under way by a connection that has failed. */
#define END_MS	3000

static bool is_unused(void *arg)
{
	const struct tagrv_window *window = arg;

	return tagrv_list_empty(&window->uses);
}

/* Fails the connections by which the window is used. What they did ends later. */
static void fail_users(struct tagrv_window *window)
{
	struct tagrv_list users, *node;

	/* The failure of one may end the uses of others, which leave this list then. */
	tagrv_list_init(&users);
	tagrv_list_splice_tail(&users, &window->uses);
	while ((node = tagrv_list_pop(&users))) {
		struct tagrv_use *use =
			tagrv_container_of(node, struct tagrv_use, link);
		struct tagrv_peer *peer = use->peer;
		char addr[TAGRV_ADDR_STRLEN];

		tagrv_list_push_tail(&window->uses, node);
		if (!tagrv_lane_is_of(use->lane, peer))
			continue;
		tagrv_warn("fi_close of a memory region: %s has not ended a transfer "
			   "within FI_TAGRV_CLOSE_TIMEOUT (%d s), so its connection is "
			   "given up\n", tagrv_addr_str(&peer->addr, addr, sizeof(addr)),
			   peer->engine->dom->params.close_timeout);
		tagrv_lane_fail(peer->lane, -FI_ETIMEDOUT, true);
	}
}

/* The uses end without the window, whenever that is. */
static void abandon(struct tagrv_window *window)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(&window->uses)))
		tagrv_container_of(node, struct tagrv_use, link)->window = NULL;
}

static bool await_unused(struct tagrv_dom *dom, struct tagrv_window *window,
			 uint64_t ms)
{
	return tagrv_dom_progress_until(dom, is_unused, window, ms);
}

/* Returns when the window is not used any more, or all that can be done was done. */
static void end_uses(struct tagrv_dom *dom, struct tagrv_window *window)
{
	if (await_unused(dom, window, (uint64_t) dom->params.close_timeout * 1000))
		return;
	tagrv_dom_lock(dom);
	fail_users(window);
	tagrv_lock_release(&dom->lock);
	if (await_unused(dom, window, END_MS))
		return;
	tagrv_warn("fi_close of a memory region: the device does not end its operations, "
		   "and may still access the memory\n");
	tagrv_dom_lock(dom);
	abandon(window);
	tagrv_lock_release(&dom->lock);
}

void tagrv_dom_close_window(struct tagrv_dom *dom, struct tagrv_window *window)
{
	bool unused;

	tagrv_dom_lock(dom);
	tagrv_window_remove(dom, window);
	tagrv_rma_recall(dom, window);
	unused = is_unused(window);
	tagrv_lock_release(&dom->lock);
	if (!unused)
		end_uses(dom, window);
	tagrv_window_deregister(dom, window);
	if (!(window->access & FI_REMOTE_READ))
		return;
	tagrv_dom_lock(dom);
	tagrv_dom_withdraw(dom, window->iov, window->iov_cnt);
	tagrv_lock_release(&dom->lock);
}

void tagrv_dom_recall_window(struct tagrv_dom *dom, struct tagrv_window *window)
{
	tagrv_rma_recall(dom, window);
}

void tagrv_dom_refresh_window(struct tagrv_dom *dom, struct tagrv_window *window)
{
	tagrv_rma_recall(dom, window);
	tagrv_window_deregister(dom, window);
}
