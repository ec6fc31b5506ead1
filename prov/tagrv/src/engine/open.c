/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opening and enabling an engine; close.c ends it.
 */
#include "engine/open.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "board/board.h"
#include "core/log.h"
#include "engine/dispatch.h"
#include "engine/endpoint.h"
#include "engine/lost.h"
#include "engine/tick.h"
#include "object/peer.h"
#include "object/tags.h"
#include "proto/hold.h"
#include "proto/listed.h"
#include "proto/peek.h"
#include "proto/rma/rma.h"
#include "proto/unexp.h"
#include "wireup/wireup.h"

/* engine->conn.lane_lost */
static void on_lane_lost(struct tagrv_peer *peer, int status)
{
	tagrv_unexp_lose_rndv(peer);
	tagrv_peek_lose_rndv(peer);
	tagrv_hold_reset(peer);
	tagrv_peer_lose(peer, status);
}

/* ---- a list of receives in the device ---- */

static const struct tagrv_tags_ops tags_ops = {
	.arrived = tagrv_listed_arrived,
	.cancelled = tagrv_rx_withdrawn,
};

/* A list holds one order of receives: those of one endpoint, from one device. */
static const char *why_no_list(const struct tagrv_engine *engine)
{
	if (engine->attr.untagged)
		return "it takes none";
	if (engine->attr.rx)
		return "it shares its receives with others";
	if (engine->dom->joined)
		return "it uses several adapters together";
	return NULL;
}

static struct tagrv_xport *find_list(const struct tagrv_engine *engine)
{
	const struct tagrv_rails *rails = &engine->rails;

	for (size_t i = 0; i < rails->cnt; i++)
		if (rails->all[i].xport->list)
			return rails->all[i].xport;
	return NULL;
}

static int open_rails(struct tagrv_engine *engine)
{
	struct tagrv_sink sink = tagrv_engine_sink;

	sink.wants_list = engine->dom->params.hw_tags && !why_no_list(engine);
	return tagrv_rails_open(engine, &sink);
}

/* No list is no error: software matches. */
static int open_tags(struct tagrv_engine *engine)
{
	struct tagrv_xport *xport = find_list(engine);
	const char *why = why_no_list(engine);
	int ret;

	if (!engine->dom->params.hw_tags)
		return 0;
	if (!xport) {
		tagrv_info("an endpoint matches tagged messages in software: %s "
			   "(FI_TAGRV_HW_TAGS)\n", why ? why : "no device of it can");
		return 0;
	}
	ret = tagrv_tags_open(engine, xport, xport->attr.max_packet, &tags_ops,
			      &engine->tags);
	if (ret)
		return ret;
	tagrv_dispatch_with_list(xport->sink);
	engine->conn.due |= TAGRV_DUE_TAGS;
	engine->rx->tags = engine->tags;
	engine->rx->plain_recvs = 0;
	return 0;
}

/* ---- opening ---- */

static int open_rx(struct tagrv_engine *engine,
		   const struct tagrv_engine_attr *attr)
{
	int ret = 0;

	engine->rx = attr->rx;
	if (!engine->rx) {
		ret = tagrv_rx_open(engine->dom, attr->directed_recv,
				    &engine->rx);
		if (ret)
			return ret;
		engine->rx->shared = false;
	}
	engine->match = engine->rx->match;
	return 0;
}

/* The device may write to memory of the list until its transport is closed. */
void tagrv_engine_close_rails(struct tagrv_engine *engine)
{
	tagrv_rails_close(engine);
	tagrv_tags_close(engine->tags);
	if (engine->rx && !engine->rx->shared)
		tagrv_rx_close(engine->rx);
}

int tagrv_engine_open(struct tagrv_dom *dom, const struct tagrv_engine_attr *attr,
		      struct tagrv_engine **engine)
{
	struct tagrv_engine *e = calloc(1, sizeof(*e));
	int ret;

	if (!e)
		return -FI_ENOMEM;
	e->dom = dom;
	e->attr = *attr;
	e->name = attr->src;
	e->credit.target = (uint32_t) (dom->params.eager_credit /
				       TAGRV_CREDIT_UNIT);
	e->credit.budget = (uint32_t) (dom->params.eager_budget /
				       TAGRV_CREDIT_UNIT);
	e->credit.places = TAGRV_PLACES_FIRST;
	e->credit.unread = TAGRV_UNREAD_MAX;
	e->conn.lane_lost = on_lane_lost;
	tagrv_list_init(&e->tx.busy);
	e->tx.refuse_ns = TAGRV_REFUSE_NS;
	tagrv_list_init(&e->conn.lanes);
	tagrv_list_init(&e->conn.gone);
	tagrv_list_init(&e->conn.parts);
	tagrv_list_init(&e->table.blank);
	e->table.index = (struct tagrv_addrmap)
			 TAGRV_ADDRMAP_INIT(struct tagrv_peer, by_addr, addr);
	tagrv_list_init(&e->conn.lost);
	tagrv_list_init(&e->table.watcher.node);
	tagrv_list_init(&e->rx_node);
	ret = open_rails(e);
	if (ret)
		goto close_rails;
	ret = open_rx(e, attr);
	if (ret)
		goto close_rails;
	ret = open_tags(e);
	if (ret)
		goto close_rails;
	e->tx.batch = malloc(dom->params.eager_max + sizeof(struct tagrv_hdr));
	if (!e->tx.batch) {
		ret = -FI_ENOMEM;
		goto close_rails;
	}
	tagrv_engine_init_pools(e);
	tagrv_dom_lock(dom);
	ret = tagrv_engine_set_aside(e);
	if (!ret) {
		tagrv_list_push_tail(&dom->engines, &e->dom_node);
		e->show.slot = tagrv_board_add(dom->show.board, &e->show.number);
	}
	tagrv_lock_release(&dom->lock);
	if (ret)
		goto fini_pools;
	*engine = e;
	return 0;

fini_pools:
	tagrv_engine_fini_pools(e);
	free(e->tx.batch);
close_rails:
	tagrv_engine_close_rails(e);
	free(e);
	return ret;
}

int tagrv_engine_set_av(struct tagrv_engine *engine, struct tagrv_avtab *av)
{
	int ret;

	tagrv_assert_locked(engine->dom);
	engine->table.av = av;
	ret = tagrv_rx_join(engine->rx, engine);
	if (!ret)
		tagrv_peer_watch_table(engine, av);
	return ret;
}

void tagrv_engine_set_sinks(struct tagrv_engine *engine,
			    const struct tagrv_engine_sinks *sinks)
{
	bool counts = sinks->remote_read_cntr != engine->sinks.remote_read_cntr ||
		      sinks->remote_write_cntr != engine->sinks.remote_write_cntr;

	tagrv_assert_locked(engine->dom);
	engine->sinks = *sinks;
	/* What peers do by themselves nobody would count. */
	if (counts)
		tagrv_rma_recall_all(engine);
	engine->plain_ends = sinks->rx_cq && !sinks->rx_cntr &&
			     !engine->attr.source_err && !engine->tags;
}

struct tagrv_rx *tagrv_engine_rx(const struct tagrv_engine *engine)
{
	return engine->rx;
}

static void kick(void *arg)
{
	tagrv_dom_kick(arg);
}

static void device_event(void *arg)
{
	struct tagrv_device *dev = arg;

	dev->ops->dev_event(dev);
}

static int watch_device(struct tagrv_dom *dom, struct tagrv_device *dev)
{
	int fd = dev->ops->dev_event_fd(dev);

	if (fd < 0)
		return 0;
	return tagrv_wireup_watch(dom->wireup, fd, device_event, dev);
}

/* The thread starts with the first endpoint that needs it. */
static int need_wireup(struct tagrv_dom *dom)
{
	int ret;

	if (dom->wireup)
		return 0;
	ret = tagrv_wireup_create(&dom->wireup);
	if (ret)
		return ret;
	for (size_t i = 0; i < dom->dev_cnt && !ret; i++)
		ret = watch_device(dom, dom->devs[i]);
	if (ret) {
		tagrv_wireup_destroy(dom->wireup);
		dom->wireup = NULL;
	}
	return ret;
}

int tagrv_engine_enable(struct tagrv_engine *engine)
{
	struct tagrv_dom *dom = engine->dom;
	struct tagrv_wireup_attr attr = {
		.addr = engine->attr.src,
		.xports = engine->rails.xports,
		.xport_cnt = engine->rails.xport_cnt,
		.key = engine->attr.key,
		.connect_timeout = dom->params.connect_timeout,
		.tick = tagrv_engine_tick_ms(engine),
		.max_sockets = tagrv_engine_max_sockets(engine),
		.kick = kick,
		.kick_arg = dom,
	};
	struct tagrv_wireup_ep *wep;
	int ret;

	tagrv_dom_lock(dom);
	ret = need_wireup(dom);
	tagrv_lock_release(&dom->lock);
	if (ret)
		return ret;
	ret = tagrv_wireup_listen(dom->wireup, &attr, &wep);
	if (ret)
		return ret;
	tagrv_dom_lock(dom);
	engine->conn.wep = wep;
	engine->conn.wep_events = tagrv_wireup_event_cnt(wep);
	tagrv_wireup_name(wep, &engine->name);
	engine->enabled = true;
	tagrv_lock_release(&dom->lock);
	/* A thread that went to sleep meanwhile has not looked at our events. */
	tagrv_dom_kick(dom);
	return 0;
}

void tagrv_engine_name(const struct tagrv_engine *engine,
		       struct tagrv_addr *addr)
{
	tagrv_assert_locked(engine->dom);
	*addr = engine->name;
}
