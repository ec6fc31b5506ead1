/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers and lanes: see peer.h.
 */
#include "proto/peer.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "proto/engine_priv.h"

/* Bytes of messages that one peer sends before others have their turn. */
#define QUANTUM		((size_t) 64 << 10)

/* A peer with its place in the engine's index by address. */
struct indexed_peer {
	struct tagrv_peer peer;
	UT_hash_handle hh;
};

static void init_peer(struct tagrv_peer *peer, struct tagrv_engine *engine,
		      const struct tagrv_addr *addr)
{
	peer->engine = engine;
	peer->addr = *addr;
	peer->state = TAGRV_PEER_IDLE;
	peer->eager_limit = engine->dom->params.eager_max;
	peer->packet_limit = peer->eager_limit;
	peer->fi_addr = engine->av ? tagrv_avtab_find(engine->av, addr) :
				     FI_ADDR_NOTAVAIL;
	tagrv_list_init(&peer->pending);
	tagrv_list_init(&peer->waiting);
	tagrv_list_init(&peer->readers);
	tagrv_list_init(&peer->grants);
	tagrv_list_init(&peer->takers);
	tagrv_list_init(&peer->writers);
	tagrv_list_init(&peer->ctl);
	tagrv_list_init(&peer->busy_node);
}

static int number_peer(struct tagrv_engine *engine, struct tagrv_peer *peer)
{
	int ret = 0;

	if (engine->peer_cnt == engine->peer_cap) {
		size_t cap = TAGRV_MAX(engine->peer_cap * 2, (size_t) 16);
		struct tagrv_peer **peers =
			realloc(engine->peers, cap * sizeof(*peers));

		if (!peers)
			return -FI_ENOMEM;
		engine->peers = peers;
		engine->peer_cap = cap;
	}
	peer->id = (uint32_t) engine->peer_cnt;
	peer->match_id = peer->id;
	if (engine->rx->shared)
		ret = tagrv_rx_id(engine->rx, &peer->addr, &peer->match_id);
	if (!ret)
		engine->peers[engine->peer_cnt++] = peer;
	return ret;
}

struct tagrv_peer *tagrv_peer_find(const struct tagrv_engine *engine,
				   const struct tagrv_addr *addr)
{
	struct indexed_peer *index = engine->peer_index, *found;

	HASH_FIND(hh, index, addr, sizeof(*addr), found);
	return found ? &found->peer : NULL;
}

struct tagrv_peer *tagrv_peer_get(struct tagrv_engine *engine,
				  const struct tagrv_addr *addr)
{
	struct indexed_peer *index = engine->peer_index, *found;

	HASH_FIND(hh, index, addr, sizeof(*addr), found);
	if (found)
		return &found->peer;
	found = calloc(1, sizeof(*found));
	if (!found)
		return NULL;
	init_peer(&found->peer, engine, addr);
	HASH_ADD(hh, index, peer.addr, sizeof(*addr), found);
	if (!found->hh.tbl || number_peer(engine, &found->peer)) {
		if (found->hh.tbl)
			HASH_DEL(index, found);
		engine->peer_index = index;
		free(found);
		return NULL;
	}
	engine->peer_index = index;
	return &found->peer;
}

static int grow_by_addr(struct tagrv_engine *engine, fi_addr_t fi_addr)
{
	size_t cnt = TAGRV_MAX((size_t) fi_addr + 1, engine->by_addr_cnt * 2);
	struct tagrv_peer **map = realloc(engine->by_addr, cnt * sizeof(*map));

	if (!map)
		return -FI_ENOMEM;
	memset(map + engine->by_addr_cnt, 0,
	       (cnt - engine->by_addr_cnt) * sizeof(*map));
	engine->by_addr = map;
	engine->by_addr_cnt = cnt;
	return 0;
}

static TAGRV_COLD int resolve(struct tagrv_engine *engine, fi_addr_t fi_addr,
			      struct tagrv_peer **peer)
{
	const struct tagrv_addr *addr;

	addr = engine->av ? tagrv_avtab_lookup(engine->av, fi_addr) : NULL;
	if (!addr)
		return -FI_EINVAL;
	if (fi_addr >= engine->by_addr_cnt && grow_by_addr(engine, fi_addr))
		return -FI_ENOMEM;
	*peer = tagrv_peer_get(engine, addr);
	engine->by_addr[fi_addr] = *peer;
	return *peer ? 0 : -FI_ENOMEM;
}

int tagrv_peer_of(struct tagrv_engine *engine, fi_addr_t fi_addr,
		  struct tagrv_peer **peer)
{
	if (TAGRV_UNLIKELY(fi_addr >= engine->by_addr_cnt ||
			   !engine->by_addr[fi_addr]))
		return resolve(engine, fi_addr, peer);
	*peer = engine->by_addr[fi_addr];
	return 0;
}

void tagrv_peer_destroy_all(struct tagrv_engine *engine)
{
	struct indexed_peer *index = engine->peer_index, *p, *tmp;

	HASH_ITER(hh, index, p, tmp) {
		HASH_DEL(index, p);
		free(p);
	}
	engine->peer_index = NULL;
	free(engine->peers);
	free(engine->by_addr);
	engine->peers = NULL;
	engine->by_addr = NULL;
	engine->peer_cnt = 0;
	engine->by_addr_cnt = 0;
}

void tagrv_peer_set_busy(struct tagrv_peer *peer)
{
	if (!tagrv_list_linked(&peer->busy_node))
		tagrv_list_push_tail(&peer->engine->busy, &peer->busy_node);
}

/* ---- sending what waits ---- */

/*
 * What a control packet's send answered. -FI_EAGAIN: later. On any other error
 * the lane is given up.
 */
static int check_control(struct tagrv_peer *peer, int ret)
{
	if (TAGRV_LIKELY(!ret || ret == -FI_EAGAIN))
		return ret;
	if (ret == -FI_ENOTCONN)
		return -FI_EAGAIN;	/* the link error says why */
	/* Without its FIN the peer would wait for ever. */
	tagrv_lane_fail(peer->lane, ret, true);
	return ret;
}

int tagrv_peer_control(struct tagrv_peer *peer, struct tagrv_hdr *hdr,
		       const void *body, size_t len)
{
	struct tagrv_link *link = peer->lane->link;
	uint64_t words[TAGRV_SHORT_WORDS];
	struct iovec iov[2] = {
		{ words, sizeof(words) }, { (void *) (uintptr_t) body, len },
	};
	int ret;

	hdr->credit = tagrv_credit_offer(&peer->credit);
	tagrv_hdr_pack(words, hdr);
	ret = link->xport->ops->send(link, iov, len ? 2 : 1, TAGRV_SEND_CTRL,
				     NULL);
	if (!ret)
		tagrv_credit_gave(&peer->credit, hdr->credit);
	return check_control(peer, ret);
}

/* The first of the queue; a FIN with messages that wait, where it can. */
static int serve_first(struct tagrv_peer *peer)
{
	const struct tagrv_ctl *first = tagrv_container_of(
		tagrv_list_first(&peer->ctl), struct tagrv_ctl, link);
	size_t cnt;

	if (first->opcode == TAGRV_PKT_FIN &&
	    !tagrv_list_empty(&peer->pending) && !tagrv_batch_send(peer, &cnt))
		return 0;
	/* What has no room may have some as control. */
	return check_control(peer, tagrv_fin_send(peer));
}

/* Credit goes with what is sent anyway, else by itself. */
static int serve_ctl(struct tagrv_peer *peer)
{
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_CREDIT };

	while (!tagrv_list_empty(&peer->ctl)) {
		int ret = serve_first(peer);

		if (ret)
			return ret;
	}
	return tagrv_credit_is_due(&peer->credit) ?
	       tagrv_peer_control(peer, &hdr, NULL, 0) : 0;
}

static void send_end(struct tagrv_peer *peer, uint8_t opcode, uint16_t flags,
		     uint32_t op, uint32_t status)
{
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_ctl *ctl;

	if (!peer->lane)
		return;		/* the operation ended with the connection */
	ctl = tagrv_pool_get(&engine->ctls);
	if (!ctl) {
		/* Without its FIN the peer would wait for ever. */
		tagrv_warn("no memory for a FIN: the connection is given up\n");
		tagrv_lane_fail(peer->lane, -FI_ENOMEM, true);
		return;
	}
	ctl->opcode = opcode;
	ctl->flags = flags;
	ctl->op = op;
	ctl->status = status;
	tagrv_list_push_tail(&peer->ctl, &ctl->link);
	if (peer->state != TAGRV_PEER_READY)
		return;
	/* Others may follow in this pass: they share a packet. */
	if (engine->in_pass ||
	    check_control(peer, tagrv_fin_send(peer)) == -FI_EAGAIN)
		tagrv_peer_set_busy(peer);
}

void tagrv_peer_fin(struct tagrv_peer *peer, uint32_t op, int status)
{
	send_end(peer, TAGRV_PKT_FIN, 0, op, (uint32_t) -status);
}

void tagrv_peer_done(struct tagrv_peer *peer, uint32_t op, uint16_t flags,
		     int status)
{
	send_end(peer, TAGRV_PKT_DONE, flags, op, (uint32_t) -status);
}

/* 0: nothing waits any more; 1: the quantum is used up; -FI_EAGAIN: no room. */
static int serve_pending(struct tagrv_peer *peer)
{
	struct tagrv_list *node;
	size_t bytes = 0;

	while ((node = tagrv_list_first(&peer->pending))) {
		int ret;

		if (bytes >= QUANTUM)
			return 1;
		ret = tagrv_send_next(peer, &bytes);
		if (!ret)
			continue;
		if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
			return -FI_EAGAIN;
		tagrv_list_remove(node);
		tagrv_op_send_end(tagrv_container_of(node, struct tagrv_op,
						     link), ret);
	}
	return 0;
}

/* Each takes its op off the list when it is through with it. */
static int serve_list(struct tagrv_list *list,
		      int (*serve)(struct tagrv_op *op))
{
	struct tagrv_list *node;

	while ((node = tagrv_list_first(list)))
		if (serve(tagrv_container_of(node, struct tagrv_op, link)))
			return -FI_EAGAIN;
	return 0;
}

bool tagrv_peer_serve(struct tagrv_peer *peer)
{
	int blocked, pending;

	if (peer->state != TAGRV_PEER_READY)
		return false;
	peer->held = 0;
	blocked = serve_ctl(peer);
	/* None waits for another: reads have slots of their own. */
	blocked |= serve_list(&peer->grants, tagrv_rndv_grant);
	blocked |= serve_list(&peer->readers, tagrv_rndv_read);
	blocked |= serve_list(&peer->writers, tagrv_rndv_move);
	pending = serve_pending(peer);
	/* What ended meanwhile may have left a FIN or DONE without room. */
	if (!blocked && !pending && tagrv_list_empty(&peer->ctl) &&
	    tagrv_list_linked(&peer->busy_node))
		tagrv_list_remove(&peer->busy_node);
	return pending > 0;
}

void tagrv_peer_want(struct tagrv_peer *peer)
{
	struct tagrv_engine *engine = peer->engine;
	int ret;

	if (peer->state != TAGRV_PEER_IDLE)
		return;
	peer->self = tagrv_addr_equal(&peer->addr, &engine->name);
	if (peer->self) {
		ret = tagrv_engine_connect_self(peer);
	} else {
		ret = tagrv_rails_lost(&engine->rails);
		if (!ret)
			ret = tagrv_wireup_connect(engine->wep, &peer->addr);
		if (!ret)
			peer->state = TAGRV_PEER_CONNECTING;
	}
	if (ret)
		tagrv_peer_fail_pending(peer, ret);
}

/* ---- failure ---- */

static void fail_sends(struct tagrv_list *list, int status)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(list)))
		tagrv_op_send_end(tagrv_container_of(node, struct tagrv_op,
						     link), status);
}

void tagrv_peer_fail_pending(struct tagrv_peer *peer, int status)
{
	fail_sends(&peer->pending, status);
}

/* Reads in flight end by their callbacks; the rest ends here. */
static void fail_readers(struct tagrv_peer *peer, int status)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(&peer->readers))) {
		struct tagrv_op *op =
			tagrv_container_of(node, struct tagrv_op, link);

		if (!op->status)
			op->status = status;
		if (op->inflight)
			continue;
		if (op->piece_of)
			tagrv_rndv_piece_end(op);
		else
			tagrv_op_recv_end(op, op->status);
	}
}

/* The same of writes. */
static void fail_writers(struct tagrv_peer *peer, int status)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(&peer->writers))) {
		struct tagrv_op *op =
			tagrv_container_of(node, struct tagrv_op, link);

		if (!op->status)
			op->status = status;
		if (!op->inflight)
			tagrv_op_send_end(op, op->status);
	}
}

/*
 * Where the peer may still write, the end of the link ends it; where pieces of it
 * are being read, the end of the last one.
 */
static void fail_takers(struct tagrv_list *list, int status)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(list))) {
		struct tagrv_op *op =
			tagrv_container_of(node, struct tagrv_op, link);

		if (op->keys && op->told)
			tagrv_list_push_tail(&op->lane->exposed, node);
		else if (op->pieces)
			op->status = status;
		else
			tagrv_rndv_take_end(op, status);
	}
}

static void drop_ctl(struct tagrv_peer *peer)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(&peer->ctl)))
		tagrv_pool_put(&peer->engine->ctls,
			       tagrv_container_of(node, struct tagrv_ctl, link));
}

static void fail_peer(struct tagrv_peer *peer, struct tagrv_lane *lane,
		      int status, bool tell)
{
	struct tagrv_engine *engine = peer->engine;

	peer->lane = NULL;
	peer->state = TAGRV_PEER_IDLE;
	peer->tx_seq = 0;
	peer->rx_seq = 0;
	tagrv_list_remove(&peer->busy_node);
	if (tell && engine->wep && !peer->self)
		tagrv_wireup_drop(engine->wep, &peer->addr, lane->epoch);
	tagrv_unexp_lose_rndv(peer);
	drop_ctl(peer);
	fail_sends(&peer->waiting, status);
	fail_readers(peer, status);
	fail_writers(peer, status);
	fail_takers(&peer->grants, status);
	fail_takers(&peer->takers, status);
	tagrv_peer_fail_pending(peer, status);
}

void tagrv_lane_fail(struct tagrv_lane *lane, int status, bool tell)
{
	struct tagrv_peer *peer = lane->peer;

	if (lane->closing)
		return;
	lane->closing = true;
	lane->status = status;
	tagrv_list_remove(&lane->gone_node);
	lane->peer = NULL;
	if (peer && peer->lane == lane)
		fail_peer(peer, lane, status, tell);
	/* Frees the lane, now or when everything outstanding has ended. */
	lane->link->xport->ops->link_close(lane->link);
}
