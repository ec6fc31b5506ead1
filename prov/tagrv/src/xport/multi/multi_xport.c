/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One endpoint's use of several devices: an instance of each rail's transport, which
 * reports to a sink of ours.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/log.h"
#include "xport/multi/multi_priv.h"
#include "xport/stubs.h"

#define SLOW	0.25	/* of the fastest rail's bandwidth: does not count */

/* ---- what the rails' transports report ---- */

static void on_packet(struct tagrv_sink *sink, void *ctx, const void *data, size_t len)
{
	struct multi_rail *rail = tagrv_container_of(sink, struct multi_rail, sink);
	struct tagrv_sink *up = rail->xp->base.sink;
	struct multi_path *path = ctx;
	struct multi_link *link = path->owner;

	if (TAGRV_UNLIKELY(link->closing || link->error))
		return;
	path->proven = true;
	if (TAGRV_UNLIKELY(len && *(const uint8_t *) data == MULTI_MARK)) {
		if (!tagrv_multi_is_alien(data, len)) {
			tagrv_multi_own_packet(path, data, len);
			return;
		}
		data = (const char *) data + MULTI_HEAD;
		len -= MULTI_HEAD;
	}
	link->taken++;
	up->packet(up, link->base.ctx, data, len);
}

static void on_room(struct tagrv_sink *sink)
{
	tagrv_container_of(sink, struct multi_rail, sink)->xp->freed = true;
}

static void on_link_error(struct tagrv_sink *sink, void *ctx, int status)
{
	(void) sink;
	tagrv_multi_path_fail(ctx, status);
}

static void on_link_closed(struct tagrv_sink *sink, void *ctx)
{
	(void) sink;
	tagrv_multi_path_gone(ctx);
}

static void on_fatal(struct tagrv_sink *sink, int status)
{
	struct multi_rail *rail = tagrv_container_of(sink, struct multi_rail, sink);
	struct multi_xport *xp = rail->xp;

	rail->fatal = status;
	tagrv_warn("multi: device %s is lost: %s\n", rail->xport->dev->name,
		   fi_strerror(-status));
	for (unsigned i = 0; i < xp->cnt; i++)
		if (!xp->rails[i].fatal)
			return;
	xp->base.sink->fatal(xp->base.sink, status);
}

static void on_port_back(struct tagrv_sink *sink)
{
	struct multi_xport *xp =
		tagrv_container_of(sink, struct multi_rail, sink)->xp;
	struct tagrv_list *pos;

	tagrv_list_for_each(&xp->links, pos)
		tagrv_multi_hope(tagrv_container_of(pos, struct multi_link, node));
}

static const struct tagrv_sink rail_sink = {
	.port_back = on_port_back,
	.packet = on_packet,
	.room = on_room,
	.link_error = on_link_error,
	.link_closed = on_link_closed,
	.fatal = on_fatal,
};

/* ---- open, close ---- */

/* What all rails can do, and the sum of their bandwidths. */
static void fill_attr(struct multi_xport *xp)
{
	struct tagrv_xport_attr *attr = &xp->base.attr;
	double most = 0, sum = 0;

	*attr = xp->rails[0].xport->attr;
	for (unsigned i = 0; i < xp->cnt; i++) {
		const struct tagrv_xport_attr *one = &xp->rails[i].xport->attr;

		/* Each rail has a queue pair of each link. */
		xp->base.quotas[i] = xp->rails[i].xport->quotas[0];
		attr->caps &= one->caps;
		attr->admits &= one->admits;
		attr->max_inline = TAGRV_MIN(attr->max_inline, one->max_inline);
		attr->max_short = TAGRV_MIN(attr->max_short, one->max_short);
		attr->max_packet = TAGRV_MIN(attr->max_packet, one->max_packet);
		attr->get_max = TAGRV_MIN(attr->get_max, one->get_max);
		attr->put_max = TAGRV_MIN(attr->put_max, one->put_max);
		attr->get_depth += i ? one->get_depth : 0;
		attr->put_depth += i ? one->put_depth : 0;
		most = TAGRV_MAX(most, one->bandwidth);
		xp->rails[i].rate.bytes_s = one->bandwidth;
	}
	for (unsigned i = 0; i < xp->cnt; i++)
		if (xp->rails[i].xport->attr.bandwidth >= most * SLOW)
			sum += xp->rails[i].xport->attr.bandwidth;
	/* A packet behind a put may take another path than the put. */
	attr->caps &= ~((uint32_t) TAGRV_XPORT_PUT_FENCED | TAGRV_XPORT_WATCHED |
			TAGRV_XPORT_SIDE | TAGRV_XPORT_ATOMIC);
	attr->get_least = SIZE_MAX;
	attr->caps |= TAGRV_XPORT_CHECKED | TAGRV_XPORT_RENEWED;
	attr->max_packet -= MULTI_HEAD;
	attr->max_short -= TAGRV_MIN(attr->max_short, (size_t) MULTI_HEAD);
	attr->get_max = TAGRV_MIN(attr->get_max, (size_t) MULTI_CHUNK);
	attr->put_max = TAGRV_MIN(attr->put_max, (size_t) MULTI_CHUNK);
	attr->tagged_end = attr->tagged_short = 0;
	if (!attr->copy_bandwidth)
		attr->copy_bandwidth = attr->bandwidth;
	attr->bandwidth = sum;
	attr->reg_overhead *= xp->cnt;
	attr->reg_growth *= xp->cnt;
}

static int open_rail(struct multi_xport *xp, unsigned i,
		     const struct tagrv_params *params)
{
	struct multi_rail *rail = &xp->rails[i];
	struct tagrv_device *dev = xp->dev->rails[i];
	struct epoll_event event = { .events = EPOLLIN };
	struct tagrv_params own = *params;
	int ret, fd;

	own.eager_max += MULTI_HEAD;
	own.hw_tags = false;	/* a list has one order, and so much no blob of ours has room for */
	rail->sink = rail_sink;
	rail->sink.local = xp->base.sink->local;
	rail->xp = xp;
	ret = dev->ops->xport_open(dev, &own, &rail->sink, &rail->xport);
	if (ret)
		return ret;
	xp->cnt++;
	fd = dev->ops->wait_fd(rail->xport);
	if (fd >= 0 && epoll_ctl(xp->wait_fd, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	return 0;
}

/* Returns events. */
static int settle_all(struct multi_xport *xp)
{
	struct tagrv_list *pos, *tmp;
	int events = 0;

	tagrv_list_for_each_safe(&xp->busy, pos, tmp)
		events += tagrv_multi_settle(
			tagrv_container_of(pos, struct multi_link, busy_node));
	return events;
}

static void xport_close(struct tagrv_xport *xport)
{
	struct multi_xport *xp = multi_xport_of(xport);

	for (unsigned i = 0; i < xp->cnt; i++)
		xp->rails[i].xport->ops->xport_close(xp->rails[i].xport);
	settle_all(xp);
	if (xp->stats.failed || xp->stats.resumed)
		tagrv_info("multi: %s: %llu paths failed, %llu packets sent again, "
			   "%llu reads and writes moved, %llu links resumed\n",
			   xp->dev->base.name,
			   (unsigned long long) xp->stats.failed,
			   (unsigned long long) xp->stats.resent,
			   (unsigned long long) xp->stats.moved,
			   (unsigned long long) xp->stats.resumed);
	tagrv_pool_fini(&xp->small);
	tagrv_pool_fini(&xp->large);
	tagrv_pool_fini(&xp->moves);
	tagrv_pool_fini(&xp->owns);
	close(xp->wait_fd);
	free(xp);
}

static int xport_open(struct tagrv_device *dev, const struct tagrv_params *params,
		      struct tagrv_sink *sink, struct tagrv_xport **xport)
{
	struct multi_xport *xp = calloc(1, sizeof(*xp));
	int ret = 0;

	if (!xp)
		return -FI_ENOMEM;
	xp->wait_fd = epoll_create1(EPOLL_CLOEXEC);
	if (xp->wait_fd < 0) {
		ret = -errno;
		free(xp);
		return ret;
	}
	xp->dev = multi_dev_of(dev);
	xp->patience = (uint64_t) params->peer_timeout * 1000;
	xp->base = (struct tagrv_xport) {
		.ops = dev->ops, .dev = dev, .sink = sink,
	};
	tagrv_list_init(&xp->links);
	tagrv_list_init(&xp->busy);
	for (unsigned i = 0; i < xp->dev->cnt && !ret; i++)
		ret = open_rail(xp, i, params);
	if (!ret)
		fill_attr(xp);
	tagrv_pool_init(&xp->small, sizeof(struct multi_packet) + MULTI_SMALL +
			MULTI_HEAD,
			TAGRV_POOL_MAX);
	tagrv_pool_init(&xp->large, sizeof(struct multi_packet) +
			xp->base.attr.max_packet + MULTI_HEAD, TAGRV_POOL_MAX);
	tagrv_pool_init(&xp->moves, sizeof(struct multi_move), TAGRV_POOL_MAX);
	tagrv_pool_init(&xp->owns, sizeof(struct multi_own), TAGRV_POOL_MAX);
	if (ret) {
		xport_close(&xp->base);
		return ret;
	}
	*xport = &xp->base;
	return 0;
}

/* ---- progress ---- */

/* Calls sink->room if a call returned -FI_EAGAIN and there may be room now. */
static inline void announce_room(struct multi_xport *xp)
{
	if (xp->starved && xp->freed) {
		xp->starved = false;
		xp->base.sink->room(xp->base.sink);
	}
	xp->freed = false;
}

static int progress(struct tagrv_xport *xport)
{
	struct multi_xport *xp = multi_xport_of(xport);
	int events = 0;

	for (unsigned i = 0; i < xp->cnt; i++) {
		struct multi_rail *rail = &xp->rails[i];

		rail->sink.deep = xport->sink->deep;
		rail->sink.crowded = xport->sink->crowded;
		events += rail->xport->ops->progress(rail->xport);
	}
	events += settle_all(xp);
	announce_room(xp);
	return events;
}

static int reap(struct tagrv_xport *xport)
{
	struct multi_xport *xp = multi_xport_of(xport);
	int events = 0;

	for (unsigned i = 0; i < xp->cnt; i++)
		events += xp->rails[i].xport->ops->reap(xp->rails[i].xport);
	announce_room(xp);
	return events;
}

static void flush(struct tagrv_xport *xport)
{
	struct multi_xport *xp = multi_xport_of(xport);

	for (unsigned i = 0; i < xp->cnt; i++)
		xp->rails[i].xport->ops->flush(xp->rails[i].xport);
}

/* What a link has that no rail has: it waits for another path. */
static size_t waiting(const struct multi_link *link)
{
	size_t cnt = !tagrv_list_empty(&link->again);

	if (!link->closing && (link->env < 0 || link->resend))
		cnt += (size_t) (link->tx_cnt - link->tx_base);
	return cnt;
}

static size_t outstanding(struct tagrv_xport *xport)
{
	struct multi_xport *xp = multi_xport_of(xport);
	struct tagrv_list *pos;
	size_t cnt = 0;

	for (unsigned i = 0; i < xp->cnt; i++)
		cnt += xp->rails[i].xport->ops->outstanding(xp->rails[i].xport);
	tagrv_list_for_each(&xp->links, pos)
		cnt += waiting(tagrv_container_of(pos, struct multi_link, node));
	return cnt;
}

/* ---- sleeping ---- */

static int wait_fd(struct tagrv_xport *xport)
{
	return multi_xport_of(xport)->wait_fd;
}

static int arm(struct tagrv_xport *xport)
{
	struct multi_xport *xp = multi_xport_of(xport);

	if (xp->starved && xp->freed)
		return -FI_EAGAIN;
	for (unsigned i = 0; i < xp->cnt; i++) {
		int ret = xp->rails[i].xport->ops->arm(xp->rails[i].xport);

		if (ret)
			return ret;
	}
	return 0;
}

/* ---- table ---- */

/* Nobody opens it by name: tagrv_xport_join() does. */
static int discover(const struct tagrv_params *params,
		    struct tagrv_device_desc **descs, size_t *cnt, char *why,
		    size_t why_len)
{
	(void) params;
	(void) descs;
	(void) cnt;
	(void) why;
	(void) why_len;
	return -FI_ENODATA;
}

static int dev_open(const char *name, const struct tagrv_params *params,
		    struct tagrv_device **dev)
{
	(void) name;
	(void) params;
	(void) dev;
	return -FI_ENODEV;
}

const struct tagrv_xport_ops tagrv_multi_ops = {
	.name = "multi",
	.wire_id = MULTI_WIRE_ID,
	.discover = discover,
	.dev_open = dev_open,
	.dev_close = tagrv_multi_dev_close,
	.dev_event_fd = tagrv_multi_dev_event_fd,
	.dev_event = tagrv_multi_dev_event,
	.mem_reg = tagrv_multi_mem_reg,
	.mem_dereg = tagrv_multi_mem_dereg,
	.mem_key = tagrv_multi_mem_key,
	.xport_open = xport_open,
	.xport_close = xport_close,
	.link_create = tagrv_multi_link_create,
	.link_bind = tagrv_multi_link_bind,
	.link_discard = tagrv_multi_link_discard,
	.side_create = tagrv_stub_side_create,
	.link_attach = tagrv_multi_link_attach,
	.link_close = tagrv_multi_link_close,
	.link_resume = tagrv_multi_link_resume,
	.link_unrenewed = tagrv_multi_link_unrenewed,
	.blobs_near = tagrv_stub_blobs_near,
	.send = tagrv_multi_send,
	.send_short = tagrv_multi_send_short,
	.send_tagged = tagrv_stub_send_tagged,
	.drain = tagrv_stub_drain,
	.publish = tagrv_stub_publish,
	.send_prepared = tagrv_multi_send_prepared,
	.get = tagrv_multi_get,
	.put = tagrv_multi_put,
	.atomic = tagrv_stub_atomic,
	.progress = progress,
	.reap = reap,
	.flush = flush,
	.check = tagrv_multi_check,
	.outstanding = outstanding,
	.wait_fd = wait_fd,
	.arm = arm,
};
