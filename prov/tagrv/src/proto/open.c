/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Life of an engine: open, enable, close, and its view of the address table.
 *
 * Close, in this order: refuse new work; progress until peers have what was
 * accepted and the acks they wait for, within close_timeout; say goodbye to
 * peers (they see an orderly end, not a death); end links; free.
 */
#include <inttypes.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "proto/engine_priv.h"
#include "reg/regcache.h"

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

static void close_rx(struct tagrv_engine *engine)
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
	e->credit_target = (uint32_t) (dom->params.eager_credit /
				       TAGRV_CREDIT_UNIT);
	e->budget = (uint32_t) (dom->params.eager_budget / TAGRV_CREDIT_UNIT);
	tagrv_list_init(&e->busy);
	tagrv_list_init(&e->lanes);
	tagrv_list_init(&e->gone);
	tagrv_list_init(&e->av_node);
	tagrv_list_init(&e->rx_node);
	ret = tagrv_rails_open(e, &tagrv_engine_sink);
	if (ret)
		goto close_rails;
	ret = open_rx(e, attr);
	if (ret)
		goto close_rails;
	e->batch = malloc(dom->params.eager_max + sizeof(struct tagrv_hdr));
	if (!e->batch) {
		ret = -FI_ENOMEM;
		goto close_rx;
	}
	tagrv_engine_init_pools(e);
	tagrv_lock_acquire(&dom->lock);
	tagrv_list_push_tail(&dom->engines, &e->dom_node);
	tagrv_lock_release(&dom->lock);
	*engine = e;
	return 0;

close_rx:
	close_rx(e);
close_rails:
	tagrv_rails_close(e);
	free(e);
	return ret;
}

int tagrv_engine_set_av(struct tagrv_engine *engine, struct tagrv_avtab *av)
{
	int ret;

	engine->av = av;
	ret = tagrv_rx_join(engine->rx, engine);
	if (!ret)
		tagrv_list_push_tail(&av->engines, &engine->av_node);
	return ret;
}

void tagrv_engine_set_sinks(struct tagrv_engine *engine,
			    const struct tagrv_engine_sinks *sinks)
{
	engine->sinks = *sinks;
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
		.connect_timeout = dom->params.connect_timeout,
		.tick = (unsigned) dom->params.match_stats * 1000,
		.kick = kick,
		.kick_arg = dom,
	};
	struct tagrv_wireup_ep *wep;
	int ret;

	tagrv_lock_acquire(&dom->lock);
	ret = need_wireup(dom);
	tagrv_lock_release(&dom->lock);
	if (ret)
		return ret;
	ret = tagrv_wireup_listen(dom->wireup, &attr, &wep);
	if (ret)
		return ret;
	tagrv_lock_acquire(&dom->lock);
	engine->wep = wep;
	engine->wep_events = tagrv_wireup_event_cnt(wep);
	tagrv_wireup_name(wep, &engine->name);
	engine->enabled = true;
	tagrv_lock_release(&dom->lock);
	/* Who went to sleep meanwhile has not looked at our events. */
	tagrv_dom_kick(dom);
	return 0;
}

void tagrv_engine_name(const struct tagrv_engine *engine,
		       struct tagrv_addr *addr)
{
	*addr = engine->name;
}

/* ---- close ---- */

/*
 * Sends that the application was told are done, but that have not left: what is
 * only announced is ours to keep until the peer has all of it.
 */
static bool has_injected(const struct tagrv_list *sends)
{
	const struct tagrv_list *node;

	tagrv_list_for_each(sends, node) {
		const struct tagrv_op *op =
			tagrv_container_of(node, struct tagrv_op, link);

		if ((op->no_context || (op->flags & FI_INJECT)) &&
		    op->state != TAGRV_OP_FIN_WAIT)
			return true;
	}
	return false;
}

static bool owes_peer(const struct tagrv_peer *peer)
{
	if (!peer->lane)
		return has_injected(&peer->pending);
	return !tagrv_list_empty(&peer->pending) ||
	       !tagrv_list_empty(&peer->ctl) ||
	       has_injected(&peer->waiting) || has_injected(&peer->writers);
}

static bool is_quiet(struct tagrv_engine *engine)
{
	for (size_t i = 0; i < engine->peer_cnt; i++)
		if (owes_peer(engine->peers[i]))
			return false;
	return tagrv_rails_flush(&engine->rails);
}

static bool has_no_lanes(struct tagrv_engine *engine)
{
	return tagrv_list_empty(&engine->lanes);
}

/* Progresses until the condition holds or 'ms' have passed. */
static bool progress_until(struct tagrv_engine *engine,
			   bool (*holds)(struct tagrv_engine *), uint64_t ms)
{
	struct tagrv_dom *dom = engine->dom;
	uint64_t end = tagrv_clock_ms() + ms;
	bool ok;

	do {
		int events;

		tagrv_lock_acquire(&dom->lock);
		/* Of all: a wake-up taken here may be another endpoint's. */
		events = tagrv_dom_progress(dom);
		ok = holds(engine);
		if (!ok && !events)
			events = tagrv_dom_arm(dom);
		tagrv_dom_unlock(dom);
		if (!ok && !events)
			tagrv_dom_sleep(dom, -1, 10);
	} while (!ok && tagrv_clock_ms() < end);
	return ok;
}

static void close_lanes(struct tagrv_engine *engine)
{
	struct tagrv_list *node, *tmp;

	/* Nobody is told any more but who shares the receives. */
	tagrv_rx_leave(engine);
	engine->sinks = (struct tagrv_engine_sinks) { .rx_all = true };
	tagrv_list_for_each_safe(&engine->lanes, node, tmp)
		tagrv_lane_fail(tagrv_container_of(node, struct tagrv_lane,
						   node), -FI_ECANCELED, false);
	tagrv_unexp_drop(engine);
}

static void say_goodbye(struct tagrv_engine *engine)
{
	struct tagrv_wireup_ep *wep = engine->wep;
	struct tagrv_dom *dom = engine->dom;

	if (!wep)
		return;
	/* Connections that came up meanwhile are dropped with the queue. */
	tagrv_lock_acquire(&dom->lock);
	engine->wep = NULL;
	tagrv_lock_release(&dom->lock);
	tagrv_wireup_unlisten(wep);
}

static void tell_stats(struct tagrv_engine *engine)
{
	char addr[TAGRV_ADDR_STRLEN];
	struct tagrv_regcache_stats regs;
	struct tagrv_match_stats match;
	char rails[128];

	tagrv_dom_cache_stats(engine->dom, &regs);
	tagrv_rails_tell(&engine->rails, rails, sizeof(rails));
	tagrv_match_get_stats(engine->match, &match);
	tagrv_info("endpoint %s: connections: %s; sent %" PRIu64 " eager, %" PRIu64
		   " rendezvous (%" PRIu64 " for want of credit), %" PRIu64
		   " eager together in %" PRIu64 " packets; got %" PRIu64
		   " eager, %" PRIu64 " rendezvous, %" PRIu64
		   " eager together in %" PRIu64 " packets; %" PRIu64
		   " FINs in %" PRIu64 " packets; up to %zu unexpected at a "
		   "time; %" PRIu64 " packets refused, %" PRIu64
		   " injects lost; registrations of the domain: %" PRIu64
		   " found, %" PRIu64 " made and kept, %" PRIu64 " evicted, %"
		   PRIu64 " lost their memory, %" PRIu64 " not kept\n",
		   tagrv_addr_str(&engine->name, addr, sizeof(addr)), rails,
		   engine->stats.eager_tx, engine->stats.rndv_tx,
		   engine->stats.no_credit, engine->stats.batched_tx,
		   engine->stats.batch_tx, engine->stats.eager_rx,
		   engine->stats.rndv_rx, engine->stats.batched_rx,
		   engine->stats.batch_rx, engine->stats.fin_tx,
		   engine->stats.fin_packets,
		   match.unexpected_peak, engine->stats.bad_packets,
		   engine->stats.lost_injects, regs.hits, regs.misses,
		   regs.evictions, regs.invalidations, regs.bypasses);
	if (engine->stats.rndv_tx || engine->stats.rndv_rx)
		tagrv_engine_tell_rndv(engine);
}

void tagrv_engine_close(struct tagrv_engine *engine)
{
	struct tagrv_dom *dom = engine->dom;
	char addr[TAGRV_ADDR_STRLEN];

	if (engine->enabled &&
	    !progress_until(engine, is_quiet,
			    (uint64_t) dom->params.close_timeout * 1000))
		tagrv_warn("endpoint %s closed with messages that no peer took "
			   "within FI_TAGRV_CLOSE_TIMEOUT (%d s)\n",
			   tagrv_addr_str(&engine->name, addr, sizeof(addr)),
			   dom->params.close_timeout);
	tagrv_lock_acquire(&dom->lock);
	/* What the connections leave behind is still queued. */
	if (engine->enabled && dom->params.match_stats)
		tagrv_engine_tell_match(engine);
	engine->enabled = false;
	tagrv_lock_release(&dom->lock);
	say_goodbye(engine);
	tagrv_lock_acquire(&dom->lock);
	close_lanes(engine);
	tagrv_lock_release(&dom->lock);
	if (!progress_until(engine, has_no_lanes, 3000))
		tagrv_warn("device %s does not give back its work: closed by "
			   "force\n",
			   engine->rails.active[0]->xport->dev->name);
	tagrv_lock_acquire(&dom->lock);
	tagrv_list_remove(&engine->dom_node);
	tagrv_list_remove(&engine->av_node);
	/* Others use what it tells of: a shared context, the caches. */
	tell_stats(engine);
	tagrv_lock_release(&dom->lock);
	tagrv_rails_close(engine);
	close_rx(engine);
	tagrv_peer_destroy_all(engine);
	tagrv_engine_fini_pools(engine);
	free(engine->batch);
	free(engine);
}

/* ---- address table ---- */

struct tagrv_engine *tagrv_engine_from_av_node(struct tagrv_list *node)
{
	return tagrv_container_of(node, struct tagrv_engine, av_node);
}

void tagrv_engine_av_inserted(struct tagrv_engine *engine, fi_addr_t fi_addr,
			      const struct tagrv_addr *addr)
{
	struct tagrv_peer *peer = tagrv_peer_find(engine, addr);

	/* A peer that spoke first gets its name now. */
	if (peer && peer->fi_addr == FI_ADDR_NOTAVAIL)
		peer->fi_addr = fi_addr;
}

/* Its row is gone; the same address may have another. */
static void rename_peer(struct tagrv_peer *peer)
{
	peer->fi_addr = tagrv_avtab_find(peer->engine->av, &peer->addr);
}

void tagrv_engine_av_removed(struct tagrv_engine *engine, fi_addr_t fi_addr)
{
	struct tagrv_peer *peer;

	if (fi_addr >= engine->by_addr_cnt || !engine->by_addr[fi_addr]) {
		/* Never used for a call, but perhaps reported as a source. */
		for (size_t i = 0; i < engine->peer_cnt; i++)
			if (engine->peers[i]->fi_addr == fi_addr)
				rename_peer(engine->peers[i]);
		return;
	}
	peer = engine->by_addr[fi_addr];
	engine->by_addr[fi_addr] = NULL;
	if (peer->fi_addr == fi_addr)
		rename_peer(peer);
}
