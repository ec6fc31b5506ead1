/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomics by the device (FI_TAGRV_ATOMICS=device): the target's device carries out those of
 * all peers, the target itself among them, and the target's processor has no part.
 *
 *   QUEUED -- view and side link are there --> WIRE -- done --> end
 *     |  ^                                      |
 *     |  '--- FI_DELIVERY_COMPLETE: once more --'   adds nothing, behind it
 *     |
 *     '-- no view: SHOW --> the target <-- VIEW ---  with rights, or with the reason why not
 *
 * The first of peer->pending asks for the view, and waits until it is here and the side link
 * (object/side.h) is open; others wait behind it. It ends with an error if the VIEW says why
 * not, or if there will be no side link.
 *
 * Order: a side link has the device carry out atomics in the order of the calls. Where
 * tx_attr asks for more (object/order.h), an atomic begins when nothing else is under way to
 * the peer, and stays the first of peer->pending until it has ended.
 *
 * Delivery: a second atomic on the same bytes, which changes nothing, reads them from memory
 * behind the write of the first one (rma_view.c says why that suffices).
 *
 * Oneself: the window is in the domain's own table, and the side link leads from the device
 * to itself.
 *
 * Peer death, close: an op that is WIRE ends by its callback, which a link that is closed
 * calls, too. Whether the device has carried it out then is not known.
 */
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <string.h>

#include "core/iov.h"
#include "core/log.h"
#include "object/engine.h"
#include "object/order.h"
#include "object/side.h"
#include "object/view.h"
#include "proto/packet/ack.h"
#include "proto/rma/rma_priv.h"

#define SIZE	sizeof(uint64_t)

/* Eight bytes of a target, as its device knows them. */
struct place {
	struct tagrv_link *link;
	uint64_t addr;
	uint8_t	key[TAGRV_KEY_MAX];
	size_t	key_len;
};

static TAGRV_COLD int refuse(const struct tagrv_peer *peer, int status, const char *why)
{
	static atomic_flag logged = ATOMIC_FLAG_INIT;
	char addr[TAGRV_ADDR_STRLEN];

	if (!atomic_flag_test_and_set(&logged))
		tagrv_warn("an atomic by the device on %s ends with '%s': %s (logged once)\n",
			   tagrv_addr_str(&peer->addr, addr, sizeof(addr)),
			   fi_strerror(-status), why);
	return status;
}

/* Rights of a window that the op needs. The device changes memory even where it adds 0. */
static unsigned rights_for(const struct tagrv_op *op)
{
	return TAGRV_MEM_ATOMIC | (tagrv_rma_wants_answer(op->tx.rma) ? TAGRV_MEM_READ : 0);
}

/* A side link has been begun (-FI_EAGAIN), or cannot be made. */
static int wait_for_side(struct tagrv_peer *peer)
{
	if (!peer->self)
		tagrv_rma_side_begin(peer);
	/* Not each operation tries to make one that could not be made. */
	tagrv_rma_side_miss(peer);
	if (peer->side)
		return -FI_EAGAIN;
	return refuse(peer, -FI_EOPNOTSUPP, "the connection for one-sided operations could not "
		      "be made, e.g. for want of queue pairs");
}

/* What the device needs besides rights. */
static int check_place(struct tagrv_peer *peer, const struct place *place)
{
	if (place->addr % SIZE)
		return refuse(peer, -FI_EINVAL, "the target's address is not a multiple of 8");
	return place->link ? 0 : wait_for_side(peer);
}

/* ---- a peer's window ---- */

/* Asks for a view of the window; returns -FI_EAGAIN, or why there is none. */
static int ask(const struct tagrv_op *op)
{
	const struct fi_rma_iov *range = &op->tx.rma->remote[0];
	struct tagrv_peer *peer = op->peer;
	struct tagrv_peer_views *views = tagrv_peer_begin_views(peer);
	struct tagrv_asked_view *asked;

	if (!views)
		return refuse(peer, -FI_ENOMEM, "there is no memory to ask for the region");
	asked = &views->asked;
	if (asked->id && asked->key == range->key && asked->addr == range->addr) {
		int status = asked->status;

		if (!status)
			return -FI_EAGAIN;
		asked->id = 0;
		return refuse(peer, status, "the target has no such region with the rights "
			      "for it, or counts accesses of it, or has other parameters "
			      "FI_TAGRV_ATOMICS or FI_TAGRV_EXPOSE, or a smaller "
			      "FI_TAGRV_REGCACHE_MAX");
	}
	asked->id = tagrv_view_new_id(peer, range->key);
	asked->status = 0;
	asked->key = range->key;
	asked->addr = range->addr;
	views->show.id = asked->id;
	views->show.key = range->key;
	views->show.addr = range->addr;
	views->show.must = true;
	peer->show_due = true;
	tagrv_peer_set_busy(peer);
	return -FI_EAGAIN;
}

static int find_at_peer(const struct tagrv_op *op, struct place *place)
{
	const struct fi_rma_iov *range = &op->tx.rma->remote[0];
	const struct tagrv_view *view = tagrv_view_find(op->peer, range->key, range->addr,
							SIZE);
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];

	if (!view)
		return ask(op);
	if (rights_for(op) & ~view->rights)
		return refuse(op->peer, -FI_EACCES, "the target's region lacks the rights");
	if (tagrv_view_slice(view, range->addr, SIZE, seg) != 1)
		return refuse(op->peer, -FI_EOPNOTSUPP, "its bytes are in two segments");
	place->link = tagrv_side_link(op->peer);
	place->addr = seg[0].addr;
	place->key_len = view->key_len;
	memcpy(place->key, seg[0].key, sizeof(seg[0].key));
	return 0;
}

void tagrv_rma_device_shown(struct tagrv_peer *peer, uint32_t id, int status)
{
	struct tagrv_asked_view *asked = &peer->rma.views->asked;

	tagrv_assert_locked(peer->engine->dom);
	if (!asked->id || asked->id != id)
		return;
	if (!status && !tagrv_view_find(peer, asked->key, asked->addr, SIZE))
		status = peer->engine->views.places ? -FI_EACCES : -FI_ENOMEM;
	asked->status = status;
	if (!status)
		asked->id = 0;
	tagrv_peer_set_busy(peer);
}

/* ---- a window of our own ---- */

static struct tagrv_xport *find_xport(const struct tagrv_engine *engine)
{
	const struct tagrv_rails *rails = &engine->rails;

	for (size_t i = 0; i < rails->cnt; i++)
		if (rails->all[i].xport->attr.caps & TAGRV_XPORT_ATOMIC)
			return rails->all[i].xport;
	return NULL;
}

/* Where byte 'offset' of the window and those behind it are; false: in two segments. */
static bool find_segment(const struct tagrv_window *window, struct tagrv_mem *const *mem,
			 size_t offset, struct place *place)
{
	for (size_t i = 0; i < window->iov_cnt; i++) {
		size_t len = window->iov[i].iov_len;

		if (offset >= len) {
			offset -= len;
			continue;
		}
		place->addr = (uintptr_t) window->iov[i].iov_base + offset;
		place->key_len = mem[i]->dev->ops->mem_key(mem[i], place->key);
		return len - offset >= SIZE;
	}
	return false;
}

/* The side link to oneself, made when it is wanted first. */
static struct tagrv_link *self_link(struct tagrv_peer *peer, struct tagrv_xport *xport)
{
	if (!peer->side && !peer->side_unable && tagrv_side_begin_self(peer, xport))
		tagrv_side_count_end(peer, peer->rma.side_nr, true);
	return tagrv_side_link(peer);
}

static int find_at_self(const struct tagrv_op *op, struct place *place)
{
	const struct fi_rma_iov *range = &op->tx.rma->remote[0];
	struct tagrv_xport *xport = find_xport(op->engine);
	struct tagrv_window *window;
	struct tagrv_mem **mem;
	unsigned rights;
	size_t offset;

	window = tagrv_rma_window(op->peer, range->key, range->addr, SIZE, FI_REMOTE_WRITE,
				  &offset);
	rights = window ? tagrv_window_rights(op->engine, window) : 0;
	if (!xport || rights_for(op) & ~rights)
		return refuse(op->peer, -FI_EACCES, "this endpoint has no such region with "
			      "the rights for it, or counts accesses of it");
	tagrv_window_forget_failures(window);
	mem = tagrv_window_register(op->engine->dom, window, xport->dev, rights);
	if (!mem)
		return refuse(op->peer, -FI_EOPNOTSUPP, "the device cannot register the region, or it "
			      "does not fit into FI_TAGRV_REGCACHE_MAX");
	if (!find_segment(window, mem, offset, place))
		return refuse(op->peer, -FI_EOPNOTSUPP, "its bytes are in two segments");
	place->link = self_link(op->peer, xport);
	return 0;
}

/* ---- operations ---- */

/* The element in the segments; 0 without any. */
static uint64_t gather(const struct iovec *iov, size_t cnt)
{
	uint64_t value = 0;

	tagrv_iov_gather((char *) &value, iov, cnt);
	return value;
}

static struct tagrv_xport_change change_of(const struct tagrv_op *op)
{
	const struct tagrv_rma *r = op->tx.rma;

	if (r->flushing || r->op == FI_ATOMIC_READ)
		return (struct tagrv_xport_change) { 0 };
	return (struct tagrv_xport_change) {
		.swaps = r->op == FI_CSWAP,
		.operand = gather(op->iov, op->iov_cnt),
		.compare = r->op == FI_CSWAP ? gather(r->compare, r->compare_cnt) : 0,
	};
}

/* Takes it back to the front of the queue, to be carried out once more without effect. */
static void flush_next(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	op->tx.rma->flushing = true;
	tagrv_rma_sum_take_back(&peer->engine->stats.rma_tx, TAGRV_RMA_ATOMIC, SIZE);
	peer->engine->stats.rma_views--;
	tagrv_peer_uncount_sent(peer, 1);
	tagrv_op_set_state(op, TAGRV_OP_QUEUED);
	if (!op->tx.rma->holds)
		tagrv_rma_queue_first(peer, op);
	else
		tagrv_peer_set_busy(peer);
}

static void changed(struct tagrv_done *done, int status)
{
	struct tagrv_op *op = tagrv_container_of(done, struct tagrv_op, done);
	struct tagrv_rma *r = op->tx.rma;

	tagrv_assert_locked(op->engine->dom);
	if (!status && !r->flushing && tagrv_rma_wants_answer(r))
		tagrv_iov_scatter(r->result, r->result_cnt, &r->former, SIZE);
	status = tagrv_lane_reason(op->lane, status);
	if (!status && !r->flushing && op->flags & FI_DELIVERY_COMPLETE &&
	    r->op != FI_ATOMIC_READ) {
		if (!op->lane->closing) {
			flush_next(op);
			return;
		}
		status = op->lane->status;
	}
	tagrv_list_remove(&op->link);
	tagrv_rma_unask(op);
	tagrv_op_rma_end(op, status);
}

static void begun(struct tagrv_op *op, size_t *bytes)
{
	struct tagrv_peer *peer = op->peer;

	op->lane = peer->side->lane;
	op->tx.rma->sent = SIZE;
	peer->sent++;
	tagrv_rma_sum_add(&peer->engine->stats.rma_tx, TAGRV_RMA_ATOMIC, SIZE);
	peer->engine->stats.rma_views++;
	*bytes += SIZE;
	tagrv_op_set_state(op, TAGRV_OP_WIRE);
	if (!op->tx.rma->holds)
		tagrv_list_remove(&op->link);
}

int tagrv_rma_device_change(struct tagrv_op *op, size_t *bytes)
{
	struct tagrv_peer *peer = op->peer;
	uint64_t order = op->engine->attr.order;
	struct tagrv_xport_change change;
	struct place place;
	int ret;

	tagrv_assert_locked(op->engine->dom);
	op->tx.rma->holds = order & (TAGRV_ORDER_AFTER_WRITE | TAGRV_ORDER_AFTER_READ);
	if (op->tx.rma->holds && peer->sent) {
		/* Whoever ends the last one looks for a fence. */
		op->flags |= FI_FENCE;
		return -FI_EAGAIN;
	}
	ret = peer->self ? find_at_self(op, &place) : find_at_peer(op, &place);
	if (!ret)
		ret = check_place(peer, &place);
	if (ret)
		return ret;
	change = change_of(op);
	op->done.fn = changed;
	ret = place.link->xport->ops->atomic(place.link, &change, place.addr, place.key,
					     place.key_len, &op->tx.rma->former, &op->done);
	if (!ret)
		begun(op, bytes);
	return ret;
}
