/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers of an engine: states, creation, and how the address table names them.
 * See peer.h.
 */
#include "object/peer.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "object/lane.h"
#include "object/rx.h"
#include "object/tags.h"

static const char *const names[TAGRV_PEER_STATES] = {
	[TAGRV_PEER_IDLE]	= "IDLE",
	[TAGRV_PEER_CONNECTING]	= "CONNECTING",
	[TAGRV_PEER_BOUND]	= "BOUND",
	[TAGRV_PEER_READY]	= "READY",
	[TAGRV_PEER_LEAVING]	= "LEAVING",
	[TAGRV_PEER_PARTING]	= "PARTING",
};

#define TO(state)	(1u << TAGRV_PEER_##state)

/* Bit n: the peer may move to state n. */
static const uint8_t moves[TAGRV_PEER_STATES] = {
	[TAGRV_PEER_IDLE]	= TO(CONNECTING) | TO(BOUND),
	[TAGRV_PEER_CONNECTING]	= TO(IDLE) | TO(BOUND),
	[TAGRV_PEER_BOUND]	= TO(IDLE) | TO(READY) | TO(LEAVING),
	[TAGRV_PEER_READY]	= TO(IDLE) | TO(LEAVING) | TO(PARTING),
	[TAGRV_PEER_LEAVING]	= TO(IDLE) | TO(LEAVING),
	[TAGRV_PEER_PARTING]	= TO(IDLE) | TO(LEAVING) | TO(READY),
};

const char *tagrv_peer_state_name(unsigned state)
{
	return state < TAGRV_PEER_STATES ? names[state] : "?";
}

bool tagrv_peer_may_move(unsigned from, unsigned to)
{
	return from < TAGRV_PEER_STATES && to < TAGRV_PEER_STATES &&
	       moves[from] & 1u << to;
}

void tagrv_peer_open_plain(struct tagrv_peer *peer)
{
	const struct tagrv_xport *xport;

	peer->plain_end = 0;
	if (peer->state != TAGRV_PEER_READY || !tagrv_list_empty(&peer->pending))
		return;
	xport = tagrv_peer_xport(peer);
	peer->gate = peer->lane->link->gate;
	peer->plain_link = peer->lane->link;
	peer->send_tagged = xport->ops->send_tagged;
	/* Injects take the short way, too. */
	peer->plain_end = TAGRV_MIN(TAGRV_MIN(xport->attr.tagged_short,
					      TAGRV_INJECT_MAX + 1),
				    peer->eager_limit + 1);
}

static void init_peer(struct tagrv_peer *peer, struct tagrv_engine *engine,
		      const struct tagrv_addr *addr)
{
	peer->engine = engine;
	peer->addr = *addr;
	peer->state = TAGRV_PEER_IDLE;
	peer->eager_limit = engine->dom->params.eager_max;
	peer->packet_limit = peer->eager_limit;
	peer->fi_addr = engine->table.av ? tagrv_avtab_find(engine->table.av, addr) :
				     FI_ADDR_NOTAVAIL;
	tagrv_list_init(&peer->pending);
	tagrv_list_init(&peer->waiting);
	tagrv_list_init(&peer->readers);
	tagrv_list_init(&peer->to_grant);
	tagrv_list_init(&peer->granted);
	tagrv_list_init(&peer->writers);
	tagrv_list_init(&peer->acks);
	tagrv_list_init(&peer->rma.answers);
	peer->rma.views = (struct tagrv_peer_views *) &tagrv_no_views;
	tagrv_list_init(&peer->rma.held);
	tagrv_list_init(&peer->busy_node);
	peer->known = peer->fi_addr != FI_ADDR_NOTAVAIL;
	tagrv_list_init(&peer->lost_node);
	tagrv_list_init(&peer->hold.node);
	tagrv_places_reset(&peer->hold.places, engine->credit.places);
}

static int number_peer(struct tagrv_engine *engine, struct tagrv_peer *peer)
{
	int ret = 0;

	if (engine->table.cnt == engine->table.cap) {
		size_t cap = TAGRV_MAX(engine->table.cap * 2, (size_t) 16);
		struct tagrv_peer **peers =
			realloc(engine->table.peers, cap * sizeof(*peers));

		if (!peers)
			return -FI_ENOMEM;
		engine->table.peers = peers;
		engine->table.cap = cap;
	}
	peer->id = (uint32_t) engine->table.cnt;
	peer->match_id = peer->id;
	if (engine->rx->shared)
		ret = tagrv_rx_id(engine->rx, &peer->addr, &peer->match_id);
	if (!ret)
		engine->table.peers[engine->table.cnt++] = peer;
	return ret;
}

struct tagrv_peer *tagrv_peer_find(const struct tagrv_engine *engine,
				   const struct tagrv_addr *addr)
{
	struct tagrv_addrnode *node;

	tagrv_assert_locked(engine->dom);
	node = tagrv_addrmap_find(&engine->table.index, addr);
	return node ? tagrv_container_of(node, struct tagrv_peer, by_addr) : NULL;
}

/* A blank one keeps its number and its place in the table. */
static struct tagrv_peer *new_peer(struct tagrv_engine *engine)
{
	struct tagrv_list *node = tagrv_list_pop(&engine->table.blank);
	struct tagrv_peer *peer;
	uint32_t id;

	if (!node)
		return calloc(1, sizeof(*peer));
	peer = tagrv_container_of(node, struct tagrv_peer, blank_node);
	id = peer->id;
	memset(peer, 0, sizeof(*peer));
	peer->id = peer->match_id = id;
	return peer;
}

static bool is_numbered(const struct tagrv_engine *engine,
			const struct tagrv_peer *peer)
{
	return peer->id < engine->table.cnt &&
	       engine->table.peers[peer->id] == peer;
}

/* It is not in the index. */
static void make_blank(struct tagrv_peer *peer)
{
	tagrv_peer_end_views(peer);
	peer->blank = true;
	tagrv_list_init(&peer->blank_node);
	tagrv_list_push_tail(&peer->engine->table.blank, &peer->blank_node);
}

/* There is no memory to index it by its address. */
static void drop_new(struct tagrv_engine *engine, struct tagrv_peer *peer)
{
	if (is_numbered(engine, peer))
		make_blank(peer);
	else
		free(peer);
}

struct tagrv_peer *tagrv_peer_get(struct tagrv_engine *engine,
				  const struct tagrv_addr *addr)
{
	struct tagrv_peer *peer = tagrv_peer_find(engine, addr);

	if (peer)
		return peer;
	peer = new_peer(engine);
	if (!peer)
		return NULL;
	init_peer(peer, engine, addr);
	if (tagrv_addrmap_add(&engine->table.index, &peer->by_addr)) {
		drop_new(engine, peer);
		return NULL;
	}
	if (!is_numbered(engine, peer) && number_peer(engine, peer)) {
		tagrv_addrmap_remove(&engine->table.index, &peer->by_addr);
		drop_new(engine, peer);
		return NULL;
	}
	return peer;
}

/* ---- strangers ---- */

bool tagrv_peer_awaits_bytes(const struct tagrv_peer *peer)
{
	const struct tagrv_tags *tags = peer->engine->tags;

	return tags && tagrv_tags_awaits(tags, peer);
}

bool tagrv_peer_is_idle(const struct tagrv_peer *peer)
{
	return tagrv_list_empty(&peer->pending) &&
	       tagrv_list_empty(&peer->waiting) &&
	       tagrv_list_empty(&peer->readers) &&
	       tagrv_list_empty(&peer->to_grant) &&
	       tagrv_list_empty(&peer->granted) &&
	       tagrv_list_empty(&peer->writers) &&
	       tagrv_list_empty(&peer->acks) &&
	       tagrv_list_empty(&peer->rma.answers) &&
	       tagrv_list_empty(&peer->rma.held) && !peer->rma.uses &&
	       !tagrv_peer_owes_count(peer) && !peer->sent && !tagrv_peer_awaits_bytes(peer);
}

/* Nothing names the peer or its number, and nothing is on its way to or from it. */
static bool is_blank(const struct tagrv_peer *peer)
{
	return !peer->known && !peer->met && !peer->rx_seq && !peer->lane &&
	       !peer->listed_lanes &&
	       peer->state == TAGRV_PEER_IDLE && !peer->engine->rx->shared &&
	       tagrv_peer_is_idle(peer) && !peer->frags &&
	       !tagrv_list_linked(&peer->busy_node) &&
	       !tagrv_list_linked(&peer->lost_node) && !peer->blank;
}

void tagrv_peer_forget(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	if (!is_blank(peer))
		return;
	tagrv_addrmap_remove(&peer->engine->table.index, &peer->by_addr);
	make_blank(peer);
}

/* ---- rows of the address table ---- */

static int grow_by_addr(struct tagrv_engine *engine, fi_addr_t fi_addr)
{
	size_t old = engine->table.by_addr_cnt;
	size_t cnt = TAGRV_MAX((size_t) fi_addr + 1, old + old / 4);	/* as the rows do */
	struct tagrv_peer **map = realloc(engine->table.by_addr, cnt * sizeof(*map));

	if (!map)
		return -FI_ENOMEM;
	memset(map + old, 0, (cnt - old) * sizeof(*map));
	engine->table.by_addr = map;
	engine->table.by_addr_cnt = cnt;
	return 0;
}

int tagrv_peer_resolve(struct tagrv_engine *engine, fi_addr_t fi_addr,
		       struct tagrv_peer **peer)
{
	const struct tagrv_addr *addr;

	tagrv_assert_locked(engine->dom);
	addr = engine->table.av ? tagrv_avtab_lookup(engine->table.av, fi_addr) : NULL;
	if (!addr)
		return -FI_EINVAL;
	if (fi_addr >= engine->table.by_addr_cnt && grow_by_addr(engine, fi_addr))
		return -FI_ENOMEM;
	*peer = tagrv_peer_get(engine, addr);
	if (*peer)
		(*peer)->known = true;
	if (!*peer)
		return -FI_ENOMEM;
	if ((*peer)->state != TAGRV_PEER_IDLE || !engine->dom->params.peer_errors)
		engine->table.by_addr[fi_addr] = *peer;
	return 0;
}

void tagrv_peer_forget_rows(struct tagrv_peer *peer)
{
	struct tagrv_engine *engine = peer->engine;

	tagrv_assert_locked(engine->dom);
	for (size_t i = 0; i < engine->table.by_addr_cnt; i++)
		if (engine->table.by_addr[i] == peer)
			engine->table.by_addr[i] = NULL;
}

static void free_peer(struct tagrv_peer *peer)
{
	tagrv_peer_end_views(peer);
	free(peer);
}

void tagrv_peer_destroy_all(struct tagrv_engine *engine)
{
	struct tagrv_addrmap *index = &engine->table.index;
	struct tagrv_addrnode *indexed, *next;
	struct tagrv_list *node;

	for (indexed = tagrv_addrmap_next(index, NULL); indexed; indexed = next) {
		next = tagrv_addrmap_next(index, indexed);
		free_peer(tagrv_container_of(indexed, struct tagrv_peer, by_addr));
	}
	while ((node = tagrv_list_pop(&engine->table.blank)))
		free_peer(tagrv_container_of(node, struct tagrv_peer, blank_node));
	tagrv_addrmap_fini(index);
	free(engine->table.peers);
	free(engine->table.by_addr);
	engine->table.peers = NULL;
	engine->table.by_addr = NULL;
	engine->table.cnt = 0;
	engine->table.by_addr_cnt = 0;
}

/* ---- names in the address table ---- */

static struct tagrv_engine *engine_of(struct tagrv_av_watcher *watcher)
{
	return tagrv_container_of(watcher, struct tagrv_engine, table.watcher);
}

/* A peer that sent to us before it was inserted gets its fi_addr now. */
static void on_inserted(struct tagrv_av_watcher *watcher, fi_addr_t fi_addr,
			const struct tagrv_addr *addr)
{
	struct tagrv_peer *peer = tagrv_peer_find(engine_of(watcher), addr);

	if (!peer)
		return;
	peer->known = true;
	if (peer->fi_addr == FI_ADDR_NOTAVAIL)
		peer->fi_addr = fi_addr;
	/* The application expects that it can be reached, or can be again. */
	peer->lost = 0;
}

/* The peer's row is gone; another row may have the same address. */
static void rename_peer(struct tagrv_peer *peer)
{
	peer->fi_addr = tagrv_avtab_find(peer->engine->table.av, &peer->addr);
}

static void on_removed(struct tagrv_av_watcher *watcher, fi_addr_t fi_addr,
		       const struct tagrv_addr *addr)
{
	struct tagrv_engine *engine = engine_of(watcher);
	struct tagrv_peer *peer;

	tagrv_assert_locked(engine->dom);
	if (fi_addr < engine->table.by_addr_cnt)
		engine->table.by_addr[fi_addr] = NULL;
	/* The row may never have been used for a call, but reported as a source. */
	peer = tagrv_peer_find(engine, addr);
	if (peer && peer->fi_addr == fi_addr)
		rename_peer(peer);
}

void tagrv_peer_watch_table(struct tagrv_engine *engine, struct tagrv_avtab *av)
{
	struct tagrv_av_watcher *watcher = &engine->table.watcher;

	tagrv_assert_locked(engine->dom);
	watcher->inserted = on_inserted;
	watcher->removed = on_removed;
	tagrv_list_push_tail(&av->watchers, &watcher->node);
}
