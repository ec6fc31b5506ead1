/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rails: opening, closing, polling. See rail.h.
 */
#include "object/rail.h"

#include <errno.h>
#include <inttypes.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "core/log.h"
#include "object/dom_rails.h"
#include "object/engine.h"
#include "select/profile.h"

/* ---- open and close ---- */

static int watch(struct tagrv_dom *dom, struct tagrv_xport *xport)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = xport->ops->wait_fd(xport);

	if (fd < 0)
		return 0;
	return epoll_ctl(dom->wait_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* What the tables of this rail, for whatever peers, need peers to be allowed to do. */
static unsigned rights_of(const struct tagrv_rail *rail)
{
	const struct tagrv_dom *dom = rail->engine->dom;
	const struct tagrv_device *dev = rail->xport->dev;
	const struct tagrv_xport_attr *own = &rail->xport->attr;
	size_t limit = tagrv_select_eager_limit(&dom->params, own->max_packet);
	unsigned rights = tagrv_select_rights(&dom->select, own, limit);
	uint64_t peer;

	for (size_t i = 0; (peer = tagrv_profile_pair(dom->profile, dev, i)); i++) {
		struct tagrv_xport_attr attr = *own;

		(void) tagrv_profile_apply_pair(dom->profile, dev, tagrv_model_key(peer),
						&attr);
		rights |= tagrv_select_rights(&dom->select, &attr, limit);
	}
	return rights;
}

static int open_one(struct tagrv_engine *engine, struct tagrv_device *dev,
		    const struct tagrv_sink *sink)
{
	struct tagrv_rails *rails = &engine->rails;
	struct tagrv_rail *rail = &rails->all[rails->cnt];
	const char *launcher;
	int ret;

	rail->sink = *sink;
	rail->sink.watch = &engine->dom->watch;
	rail->sink.local = &engine->attr.src;
	rail->engine = engine;
	ret = dev->ops->xport_open(dev, &engine->dom->params, &rail->sink,
				   &rail->xport);
	if (ret)
		return ret;
	tagrv_xport_for_each_quota(quota, rail->xport)
		tagrv_quota_share(*quota, tagrv_dom_rails_procs(getenv, &launcher));
	if (!engine->dom->params.fast)
		rail->xport->attr.tagged_end = rail->xport->attr.tagged_short = 0;
	/* By the declared cost: with a cache, a profile has the cost of finding a
	 * registration instead. */
	tagrv_dom_lock(engine->dom);
	tagrv_dom_want_cache(engine->dom, rail->xport);
	tagrv_lock_release(&engine->dom->lock);
	tagrv_profile_apply(engine->dom->profile, dev, &rail->xport->attr);
	rail->xport->attr.admits &= rights_of(rail);
	rails->cnt++;
	return watch(engine->dom, rail->xport);
}

int tagrv_rails_open(struct tagrv_engine *engine, const struct tagrv_sink *sink)
{
	struct tagrv_rails *rails = &engine->rails;
	struct tagrv_dom *dom = engine->dom;

	rails->dom = dom;
	for (size_t i = 0; i < dom->dev_cnt; i++) {
		int ret = open_one(engine, dom->devs[i], sink);

		if (ret)
			return ret;
		rails->xports[rails->xport_cnt++] = rails->all[i].xport;
	}
	return open_one(engine, dom->loop, sink);
}

static void free_pairs(struct tagrv_rail *rail)
{
	while (rail->pairs) {
		struct tagrv_rail_pair *pair = rail->pairs;

		rail->pairs = pair->next;
		free(pair);
	}
}

void tagrv_rails_close(struct tagrv_engine *engine)
{
	struct tagrv_rails *rails = &engine->rails;

	while (rails->cnt) {
		struct tagrv_rail *rail = &rails->all[--rails->cnt];
		struct tagrv_xport *xport = rail->xport;
		struct tagrv_mem *dump = rail->dump_mem;
		int fd = xport->ops->wait_fd(xport);

		/* A forked process may hold a copy that would report to us. */
		if (fd >= 0)
			(void) epoll_ctl(engine->dom->wait_fd, EPOLL_CTL_DEL,
					 fd, NULL);
		/* What is still outstanding ends by callbacks now. */
		tagrv_dom_lock(engine->dom);
		xport->ops->xport_close(xport);
		tagrv_lock_release(&engine->dom->lock);
		free_pairs(rail);
		if (dump)
			dump->dev->ops->mem_dereg(dump);
	}
}

struct tagrv_mem *tagrv_rail_dump(struct tagrv_rail *rail)
{
	struct tagrv_device *dev = rail->xport->dev;

	if (!rail->dump_mem &&
	    dev->ops->mem_reg(dev, &rail->dump, sizeof(rail->dump), TAGRV_MEM_STORE,
			      &rail->dump_mem))
		rail->dump_mem = NULL;
	return rail->dump_mem;
}

/* ---- lanes ---- */

static bool is_watched(const struct tagrv_rail *rail)
{
	return rail->xport->attr.caps & TAGRV_XPORT_WATCHED;
}

void tagrv_rail_add_lane(struct tagrv_rail *rail)
{
	struct tagrv_rails *rails = &rail->engine->rails;

	tagrv_assert_locked(rails->dom);
	rail->ups++;
	if (rail->lanes++)
		return;
	rails->active[rails->active_cnt++] = rail;
	if (!is_watched(rail))
		tagrv_watch_add_unlisted(&rails->dom->watch);
}

void tagrv_rail_drop_lane(struct tagrv_rail *rail)
{
	struct tagrv_rails *rails = &rail->engine->rails;
	size_t i = 0;

	tagrv_assert_locked(rails->dom);
	if (--rail->lanes)
		return;
	while (rails->active[i] != rail)
		i++;
	rails->active[i] = rails->active[--rails->active_cnt];
	if (!is_watched(rail))
		tagrv_watch_remove_unlisted(&rails->dom->watch);
}

/* ---- protocols ---- */

static void log_select(const struct tagrv_rail *rail, const struct tagrv_select *select,
		       const struct tagrv_xport_attr *attr)
{
	const struct tagrv_xport *xport = rail->xport;
	char line[160];

	tagrv_info("protocols over %s %s, by times and rates %s%s%s:\n",
		   xport->ops->name, xport->dev->name,
		   attr->source ? attr->source : "unknown", attr->section ? ", section " : "",
		   attr->section ? attr->section : "");
	for (size_t i = 0; i < select->cnt; i++)
		tagrv_info("%s\n", tagrv_select_describe(select, i, attr, line,
							 sizeof(line)));
	if (tagrv_select_describe_prepared(select, attr, line, sizeof(line)))
		tagrv_info("%s\n", line);
	for (size_t i = 0; i < select->no_credit_cnt; i++)
		tagrv_info("%s\n", tagrv_select_describe_credit(select, i, attr, line,
								sizeof(line)));
}

static void build_select(const struct tagrv_rail *rail, const struct tagrv_xport_attr *attr,
			 struct tagrv_select *select)
{
	const struct tagrv_dom *dom = rail->engine->dom;

	tagrv_select_build(select, &dom->select, attr,
			   tagrv_select_eager_limit(&dom->params, attr->max_packet));
	log_select(rail, select, attr);
}

const struct tagrv_select *tagrv_rail_select(struct tagrv_rail *rail)
{
	tagrv_assert_locked(rail->engine->dom);
	if (!rail->select.cnt)
		build_select(rail, &rail->xport->attr, &rail->select);
	return &rail->select;
}

static const struct tagrv_rail_pair *find_pair(const struct tagrv_rail *rail,
					       uint32_t peer_key)
{
	const struct tagrv_rail_pair *pair = rail->pairs;

	while (pair && pair->peer_key != peer_key)
		pair = pair->next;
	return pair;
}

/* NULL: the profile has no section for such peers, or there is no memory. */
static const struct tagrv_rail_pair *add_pair(struct tagrv_rail *rail, uint32_t peer_key)
{
	const struct tagrv_xport *xport = rail->xport;
	struct tagrv_xport_attr attr = xport->attr;
	struct tagrv_rail_pair *pair;

	if (!tagrv_profile_apply_pair(rail->engine->dom->profile, xport->dev, peer_key,
				      &attr))
		return NULL;
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return NULL;
	pair->peer_key = peer_key;
	build_select(rail, &attr, &pair->select);
	pair->next = rail->pairs;
	rail->pairs = pair;
	return pair;
}

const struct tagrv_select *tagrv_rail_select_for(struct tagrv_rail *rail,
						 const struct tagrv_link *link)
{
	const struct tagrv_rail_pair *pair;

	tagrv_assert_locked(rail->engine->dom);
	pair = find_pair(rail, link->peer_key);
	if (!pair)
		pair = add_pair(rail, link->peer_key);
	return pair ? &pair->select : tagrv_rail_select(rail);
}

/* ---- all rails ---- */

TAGRV_COLD int tagrv_rails_poll_all(struct tagrv_rails *rails)
{
	int events = 0;

	tagrv_assert_locked(rails->dom);
	for (size_t i = 0; i < rails->cnt; i++) {
		struct tagrv_xport *xport = rails->all[i].xport;

		events += xport->ops->progress(xport);
	}
	return events;
}

void tagrv_rails_reap(struct tagrv_rails *rails)
{
	tagrv_assert_locked(rails->dom);
	for (size_t i = 0; i < rails->active_cnt; i++) {
		struct tagrv_xport *xport = rails->active[i]->xport;

		xport->ops->reap(xport);
	}
}

int tagrv_rails_arm(struct tagrv_rails *rails)
{
	tagrv_assert_locked(rails->dom);
	for (size_t i = 0; i < rails->cnt; i++) {
		struct tagrv_xport *xport = rails->all[i].xport;

		if (xport->ops->arm(xport))
			return -FI_EAGAIN;
	}
	return 0;
}

bool tagrv_rails_flush(struct tagrv_rails *rails)
{
	bool quiet = true;

	tagrv_assert_locked(rails->dom);
	for (size_t i = 0; i < rails->cnt; i++) {
		struct tagrv_xport *xport = rails->all[i].xport;

		if (rails->all[i].fatal)
			continue;
		xport->ops->flush(xport);
		quiet &= !xport->ops->outstanding(xport);
	}
	return quiet;
}

size_t tagrv_rails_max_packet(const struct tagrv_rails *rails)
{
	size_t max = 0;

	for (size_t i = 0; i < rails->cnt; i++)
		max = TAGRV_MAX(max, rails->all[i].xport->attr.max_packet);
	return max;
}

int tagrv_rails_lost(const struct tagrv_rails *rails)
{
	int status = -FI_EHOSTUNREACH;

	tagrv_assert_locked(rails->dom);
	for (size_t i = 0; i < rails->xport_cnt; i++) {
		status = rails->all[i].fatal;
		if (!status)
			break;
	}
	return status;
}

int tagrv_rails_blame(const struct tagrv_rails *rails, int status)
{
	tagrv_assert_locked(rails->dom);
	for (size_t i = 0; i < rails->xport_cnt; i++)
		if (status == -FI_EHOSTUNREACH && rails->all[i].fatal)
			status = rails->all[i].fatal;
	return status;
}

bool tagrv_rails_need_cpu(const struct tagrv_rails *rails)
{
	tagrv_assert_locked(rails->dom);
	for (size_t i = 0; i < rails->active_cnt; i++)
		if (rails->active[i]->xport->dev->software)
			return true;
	return false;
}

void tagrv_rails_describe(const struct tagrv_rails *rails, char *text, size_t len)
{
	size_t used = 0;

	tagrv_assert_locked(rails->dom);
	text[0] = '\0';
	for (size_t i = 0; i < rails->cnt && used < len; i++)
		used += (size_t) snprintf(text + used, len - used,
					  "%s%" PRIu64 " %s", i ? ", " : "",
					  rails->all[i].ups,
					  rails->all[i].xport->ops->name);
}
