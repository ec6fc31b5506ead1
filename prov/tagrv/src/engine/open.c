/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opening and enabling an engine; close.c ends it.
 */
#include "engine/open.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "engine/dispatch.h"
#include "engine/endpoint.h"
#include "engine/lost.h"
#include "engine/tick.h"
#include "object/peer.h"
#include "proto/hold.h"
#include "proto/peek.h"
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

void tagrv_engine_close_rx(struct tagrv_engine *engine)
{
	if (!engine->rx->shared)
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
	tagrv_list_init(&e->conn.lost);
	tagrv_list_init(&e->table.watcher.node);
	tagrv_list_init(&e->rx_node);
	ret = tagrv_rails_open(e, &tagrv_engine_sink);
	if (ret)
		goto close_rails;
	ret = open_rx(e, attr);
	if (ret)
		goto close_rails;
	e->tx.batch = malloc(dom->params.eager_max + sizeof(struct tagrv_hdr));
	if (!e->tx.batch) {
		ret = -FI_ENOMEM;
		goto close_rx;
	}
	tagrv_engine_init_pools(e);
	tagrv_dom_lock(dom);
	ret = tagrv_engine_set_aside(e);
	if (!ret)
		tagrv_list_push_tail(&dom->engines, &e->dom_node);
	tagrv_lock_release(&dom->lock);
	if (ret)
		goto fini_pools;
	*engine = e;
	return 0;

fini_pools:
	tagrv_engine_fini_pools(e);
	free(e->tx.batch);
close_rx:
	tagrv_engine_close_rx(e);
close_rails:
	tagrv_rails_close(e);
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
	tagrv_assert_locked(engine->dom);
	engine->sinks = *sinks;
	engine->plain_ends = sinks->rx_cq && !sinks->rx_cntr &&
			     !engine->attr.source_err;
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
