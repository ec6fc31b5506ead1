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
	rail->xport->attr.admits &= tagrv_select_rights(
		&engine->dom->select, &rail->xport->attr,
		tagrv_select_eager_limit(&engine->dom->params,
					 rail->xport->attr.max_packet));
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

static void log_select(const struct tagrv_rail *rail)
{
	const struct tagrv_xport *xport = rail->xport;
	char line[160];

	tagrv_info("protocols over %s %s, by times and rates %s:\n",
		   xport->ops->name, xport->dev->name,
		   xport->attr.source ? xport->attr.source : "unknown");
	for (size_t i = 0; i < rail->select.cnt; i++)
		tagrv_info("%s\n", tagrv_select_describe(
			&rail->select, i, &xport->attr, line, sizeof(line)));
	if (tagrv_select_describe_prepared(&rail->select, &xport->attr, line,
					   sizeof(line)))
		tagrv_info("%s\n", line);
	for (size_t i = 0; i < rail->select.no_credit_cnt; i++)
		tagrv_info("%s\n", tagrv_select_describe_credit(
			&rail->select, i, &xport->attr, line, sizeof(line)));
}

const struct tagrv_select *tagrv_rail_select(struct tagrv_rail *rail)
{
	const struct tagrv_dom *dom = rail->engine->dom;
	const struct tagrv_xport_attr *attr = &rail->xport->attr;

	tagrv_assert_locked(dom);
	if (!rail->select.cnt) {
		tagrv_select_build(&rail->select, &dom->select, attr,
				   tagrv_select_eager_limit(&dom->params,
							    attr->max_packet));
		log_select(rail);
	}
	return &rail->select;
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
