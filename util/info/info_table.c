/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of protocols of a device: opened as a domain would open it, but nothing is sent.
 */
#include <rdma/fi_errno.h>

#include "select/profile.h"
#include "util/info/info_host.h"

/* A transport is opened and nothing is sent: no callback is called. */
static void on_packet(struct tagrv_sink *sink, void *link_ctx, const void *data, size_t len)
{
	(void) sink;
	(void) link_ctx;
	(void) data;
	(void) len;
}

static void on_room(struct tagrv_sink *sink)
{
	(void) sink;
}

static void on_link_error(struct tagrv_sink *sink, void *link_ctx, int status)
{
	(void) sink;
	(void) link_ctx;
	(void) status;
}

static void on_link_closed(struct tagrv_sink *sink, void *link_ctx)
{
	(void) sink;
	(void) link_ctx;
}

static void on_fatal(struct tagrv_sink *sink, int status)
{
	(void) sink;
	(void) status;
}

static void fill(const struct tagrv_dom *dom, const struct tagrv_xport *xport,
		 struct info_table *table)
{
	table->attr = xport->attr;
	tagrv_profile_apply(dom->profile, xport->dev, &table->attr);
	table->eager_limit = tagrv_select_eager_limit(&dom->params, table->attr.max_packet);
	tagrv_select_build(&table->table, &dom->select, &table->attr, table->eager_limit);
	snprintf(table->transport, sizeof(table->transport), "%s", xport->ops->name);
}

int info_table_read(const char *name, struct info_table *table)
{
	struct tagrv_dom_attr attr = { .name = name, .serialized = true };
	struct tagrv_sink sink = {
		.packet = on_packet, .room = on_room, .link_error = on_link_error,
		.link_closed = on_link_closed, .fatal = on_fatal,
	};
	struct tagrv_xport *xport;
	struct tagrv_device *dev;
	struct tagrv_dom *dom;
	int ret = tagrv_dom_open(&attr, &dom);

	if (ret)
		return ret;
	dev = dom->dev ? dom->dev : dom->loop;
	ret = dev->ops->xport_open(dev, &dom->params, &sink, &xport);
	if (!ret) {
		fill(dom, xport, table);
		dev->ops->xport_close(xport);
	}
	tagrv_dom_close(dom);
	return ret;
}
