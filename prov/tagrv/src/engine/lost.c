/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ends receives that name a lost source: see lost.h.
 */
#include "engine/lost.h"

#include <rdma/fi_errno.h>

#include "engine/connect.h"
#include "object/op.h"
#include "object/recv.h"
#include "object/tags.h"

/* ---- the end of one ---- */

/* Where slices of the buffer are under way, their end releases it. */
static void end_multi(struct tagrv_op *op, int status)
{
	op->rx.retired = true;
	op->status = status;
	tagrv_op_multi_check(op);
}

void tagrv_rx_end_posted(struct tagrv_rx *rx, const struct tagrv_recv *recv,
			 fi_addr_t src, int status)
{
	struct tagrv_op *op = recv->op;

	tagrv_assert_locked(rx->dom);
	if (op && op->rx.multi) {
		end_multi(op, status);
		return;
	}
	tagrv_rx_report_error(rx, &(struct tagrv_comp) {
		.context = recv->context,
		.flags = tagrv_op_comp_flags(op ? op->space : recv->space,
					     false),
		.buf = !op ? recv->buf : op->iov_cnt ? op->iov[0].iov_base : NULL,
		.tag = op ? op->tag : recv->tag,
		.src = src,
		.err = (uint64_t) -status,
	});
	if (op) {
		tagrv_op_set_free(op);
		tagrv_pool_put(&rx->ops, op);
	}
}

/*
 * A source that nobody names is not known: op->peer is of no receive that has no message.
 */
static fi_addr_t addr_of(const struct tagrv_peer *peer)
{
	return peer ? peer->fi_addr : FI_ADDR_NOTAVAIL;
}

void tagrv_rx_withdraw(struct tagrv_rx *rx, const struct tagrv_recv *recv,
		       struct tagrv_peer *peer, int status)
{
	struct tagrv_op *op = recv->op;

	tagrv_assert_locked(rx->dom);
	if (op && op->rx.listed) {
		op->peer = peer;
		if (tagrv_tags_cancel(rx->tags, op, status))
			return;		/* the device tells whether a message was faster */
	}
	tagrv_rx_end_posted(rx, recv, addr_of(peer), status);
}

void tagrv_rx_withdrawn(struct tagrv_tags *tags, struct tagrv_op *op)
{
	const struct tagrv_recv recv = { .op = op, .context = op->context };

	(void) tags;
	tagrv_rx_end_posted(op->rx.rx, &recv, addr_of(op->peer), op->status);
}

/* ---- endpoints that share receives ---- */

static struct tagrv_engine *engine_of(struct tagrv_list *rx_node)
{
	return tagrv_container_of(rx_node, struct tagrv_engine, rx_node);
}

/* Whether the peer, or the same of another endpoint, has or gets a connection. */
static bool is_reached(const struct tagrv_peer *peer)
{
	struct tagrv_list *node;

	tagrv_list_for_each(&peer->engine->rx->engines, node) {
		const struct tagrv_peer *other =
			tagrv_peer_find(engine_of(node), &peer->addr);

		if (other && (other->lane ||
			      other->state == TAGRV_PEER_CONNECTING))
			return true;
	}
	return false;
}

/* ---- peers are lost ---- */

void tagrv_peer_lose(struct tagrv_peer *peer, int status)
{
	struct tagrv_engine *engine = peer->engine;

	tagrv_assert_locked(engine->dom);
	peer->lost = status;
	if (!tagrv_engine_ends_receives(engine))
		return;
	tagrv_peer_forget_rows(peer);
	peer->lost_status = status;
	if (!tagrv_list_linked(&peer->lost_node))
		tagrv_list_push_tail(&engine->conn.lost, &peer->lost_node);
	engine->conn.due |= TAGRV_DUE_ENDS;
	tagrv_watch_attend(&engine->dom->watch);
	/* A thread that sleeps waits for such a receive, perhaps. */
	tagrv_dom_kick(engine->dom);
}

struct ending {
	struct tagrv_rx *rx;
	struct tagrv_peer *peer;
};

static void end_receive(struct tagrv_match_recv *record, void *arg)
{
	const struct ending *ending = arg;

	tagrv_rx_withdraw(ending->rx, tagrv_recv_of(record), ending->peer,
			  ending->peer->lost_status);
}

static void end_lost(struct tagrv_peer *peer)
{
	struct tagrv_rx *rx = peer->engine->rx;
	struct ending ending = { rx, peer };

	if (is_reached(peer))
		return;
	tagrv_match_drain_source(rx->match, peer->match_id, end_receive,
				 &ending);
}

void tagrv_engine_end_lost(struct tagrv_engine *engine)
{
	struct tagrv_list *node;

	tagrv_assert_locked(engine->dom);
	while ((node = tagrv_list_pop(&engine->conn.lost)))
		end_lost(tagrv_container_of(node, struct tagrv_peer, lost_node));
}

/* ---- receives that are posted ---- */

int tagrv_rx_look_at_source(struct tagrv_rx *rx, fi_addr_t src,
			    uint32_t *match_id, int *lost)
{
	struct tagrv_engine *engine = rx->first;
	struct tagrv_peer *peer;
	int ret;

	tagrv_assert_locked(rx->dom);
	*lost = 0;
	if (!engine)
		return -FI_EINVAL;
	ret = tagrv_peer_resolve(engine, src, &peer);
	if (ret)
		return ret;
	*match_id = peer->match_id;
	if (!tagrv_engine_ends_receives(engine))
		return 0;
	if (!peer->lost)
		tagrv_peer_connect(peer);
	if (peer->lost && !is_reached(peer))
		*lost = peer->lost;
	return 0;
}
