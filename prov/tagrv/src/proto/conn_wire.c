/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a connection says and what it makes of what is said: records written,
 * records screened, links made and bound.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "proto/conn_priv.h"

static void fill_head(const struct tagrv_conn_host *host,
		      struct tagrv_wireup_rec *rec,
		      enum tagrv_wireup_rec_type type, uint8_t reason)
{
	*rec = (struct tagrv_wireup_rec) {
		.type = type,
		.reason = reason,
		.version_min = TAGRV_WIRE_VERSION_MIN,
		.version_max = TAGRV_WIRE_VERSION,
		.features = TAGRV_WIRE_FEATURES,
		.addr = host->addr,
	};
	memcpy(rec->src_uuid, host->uuid, TAGRV_UUID_LEN);
	if (host->xport)
		rec->max_packet = (uint32_t) TAGRV_MIN(
			host->xport->attr.max_packet, (size_t) UINT32_MAX);
}

void tagrv_conn_say(struct tagrv_conn *conn, struct tagrv_chan *chan,
		    enum tagrv_wireup_rec_type type, uint8_t reason)
{
	struct tagrv_wireup_rec rec;

	fill_head(conn->host, &rec, type, reason);
	rec.src_epoch = conn->epoch;
	if (tagrv_conn_is_bound(conn)) {
		memcpy(rec.dst_uuid, conn->uuid, TAGRV_UUID_LEN);
		rec.dst_epoch = conn->peer_epoch;
	}
	if (type == TAGRV_WIREUP_REQ || type == TAGRV_WIREUP_REP) {
		rec.link_cnt = 1;
		rec.links[0].wire_id = conn->host->xport->ops->wire_id;
		rec.links[0].len = conn->blob_len;
		memcpy(rec.links[0].data, conn->blob, conn->blob_len);
	}
	conn->host->ops->send(chan, &rec);
}

void tagrv_conn_answer(const struct tagrv_conn_host *host,
		       struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *rec,
		       enum tagrv_wireup_rec_type type, uint8_t reason)
{
	struct tagrv_wireup_rec out;

	fill_head(host, &out, type, reason);
	memcpy(out.dst_uuid, rec->src_uuid, TAGRV_UUID_LEN);
	out.src_epoch = rec->dst_epoch;
	out.dst_epoch = rec->src_epoch;
	host->ops->send(chan, &out);
}

void tagrv_conn_reject(const struct tagrv_conn_host *host,
		       struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *req,
		       enum tagrv_wireup_reason reason)
{
	tagrv_conn_answer(host, chan, req, TAGRV_WIREUP_REJ, (uint8_t) reason);
}

int tagrv_conn_screen(const struct tagrv_conn_host *host,
		      const struct tagrv_wireup_rec *rec)
{
	bool to_us = !memcmp(rec->dst_uuid, host->uuid, TAGRV_UUID_LEN);
	bool to_any = tagrv_uuid_is_zero(rec->dst_uuid);

	switch (rec->type) {
	case TAGRV_WIREUP_REQ:
		if (!host->xport)
			return TAGRV_WIREUP_TRANSPORT;
		if (!memcmp(rec->src_uuid, host->uuid, TAGRV_UUID_LEN))
			return TAGRV_WIREUP_SELF;
		return to_us || to_any ? TAGRV_WIREUP_OK : TAGRV_WIREUP_STALE;
	case TAGRV_WIREUP_REJ:
	case TAGRV_WIREUP_CLOSE:
		/* Their senders may not know yet who we are. */
		return to_us || to_any ? TAGRV_WIREUP_OK : -FI_EINVAL;
	default:
		return to_us ? TAGRV_WIREUP_OK : -FI_EINVAL;
	}
}

void tagrv_conn_emit(struct tagrv_conn *conn, struct tagrv_wireup_event *event)
{
	event->addr = conn->addr;
	event->epoch = conn->epoch;
	if (tagrv_conn_is_bound(conn))
		memcpy(event->uuid, conn->uuid, TAGRV_UUID_LEN);
	conn->host->ops->emit(conn, event);
}

/* -- binding ------------------------------------------------------------- */

int tagrv_conn_make_link(struct tagrv_conn *conn)
{
	struct tagrv_conn_host *host = conn->host;
	struct tagrv_link *link;
	size_t len = 0;
	int ret;

	if (conn->epoch)
		return 0;
	ret = host->ops->prepare(conn);
	if (ret)
		return ret;
	ret = host->xport->ops->link_create(host->xport, conn->blob, &len,
					    &link);
	if (ret)
		return ret;
	assert(len <= TAGRV_BLOB_MAX);
	if (!++host->epoch)
		host->epoch = 1;
	conn->epoch = host->epoch;
	conn->blob_len = (uint8_t) len;
	conn->link = link;
	return 0;
}

static const struct tagrv_wireup_blob *
find_blob(const struct tagrv_conn *conn, const struct tagrv_wireup_rec *rec)
{
	uint8_t wire_id = conn->host->xport->ops->wire_id;

	for (size_t i = 0; i < rec->link_cnt; i++) {
		if (rec->links[i].wire_id == wire_id)
			return &rec->links[i];
	}
	return NULL;
}

int tagrv_conn_bind_link(struct tagrv_conn *conn,
			 const struct tagrv_wireup_rec *rec, bool sendable)
{
	const struct tagrv_wireup_blob *blob = find_blob(conn, rec);
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.sendable = sendable,
		.link = conn->link,
		.max_packet = rec->max_packet,
	};
	int ret;

	if (!blob)
		return -FI_EHOSTUNREACH;
	ret = conn->host->xport->ops->link_bind(conn->link, blob->data,
						blob->len);
	if (ret)
		return ret;
	memcpy(conn->uuid, rec->src_uuid, TAGRV_UUID_LEN);
	conn->peer_epoch = rec->src_epoch;
	conn->state = sendable ? TAGRV_CONN_READY : TAGRV_CONN_BOUND;
	conn->link = NULL;
	tagrv_conn_emit(conn, &event);
	return 0;
}
