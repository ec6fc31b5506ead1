/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of protocols of a device: opened as a domain would open it, but nothing is sent.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>

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

/* peer: the model of the peer's device, or 0. */
static void fill(const struct tagrv_dom *dom, const struct tagrv_xport *xport, uint64_t peer,
		 struct info_table *table)
{
	struct tagrv_xport_attr *attr = &table->attr;

	*attr = xport->attr;
	table->peer_model = peer;
	tagrv_profile_apply(dom->profile, xport->dev, attr);
	(void) tagrv_profile_apply_pair(dom->profile, xport->dev, tagrv_model_key(peer), attr);
	snprintf(table->section, sizeof(table->section), "%s",
		 attr->section ? attr->section : "");
	attr->section = NULL;
	table->eager_limit = tagrv_select_eager_limit(&dom->params, attr->max_packet);
	tagrv_select_build(&table->table, &dom->select, attr, table->eager_limit);
	snprintf(table->transport, sizeof(table->transport), "%s", xport->ops->name);
}

/* Returns how many of 'most' tables were filled: that for all peers, then those for pairs. */
static size_t fill_all(const struct tagrv_dom *dom, const struct tagrv_xport *xport,
		       struct info_table *tables, size_t most)
{
	uint64_t peer = 0;
	size_t cnt = 0;

	do {
		fill(dom, xport, peer, &tables[cnt++]);
		peer = tagrv_profile_pair(dom->profile, xport->dev, cnt - 1);
	} while (peer && cnt < most);
	return cnt;
}

/* *cnt: room in tables; then how many were filled. */
static int read_tables(const char *name, struct info_table *tables, size_t *cnt)
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
		*cnt = fill_all(dom, xport, tables, *cnt);
		dev->ops->xport_close(xport);
	}
	tagrv_dom_close(dom);
	return ret;
}

int info_table_read(const char *name, struct info_table *table)
{
	size_t cnt = 1;

	return read_tables(name, table, &cnt);
}

int info_tables_read(const char *name, struct info_table **tables, size_t *cnt)
{
	int ret = -FI_ENOMEM;

	*cnt = INFO_TABLES;
	*tables = calloc(INFO_TABLES, sizeof(**tables));
	if (*tables)
		ret = read_tables(name, *tables, cnt);
	if (!ret)
		return 0;
	free(*tables);
	*tables = NULL;
	*cnt = 0;
	return ret;
}

const char *info_table_source(const struct info_table *table, char *text, size_t size)
{
	snprintf(text, size, "%s%s%s", table->attr.source ? table->attr.source : "unknown",
		 *table->section ? ", section " : "", table->section);
	return text;
}
