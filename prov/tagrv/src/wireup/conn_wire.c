/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Records of the state machine: filled and sent, and screened before a connection
 * gets them.
 */
#include <string.h>

#include "wireup/conn_priv.h"

void tagrv_conn_fill_head(const struct tagrv_conn_host *host,
			  struct tagrv_wireup_rec *rec,
			  enum tagrv_wireup_rec_type type, uint8_t reason)
{
	*rec = (struct tagrv_wireup_rec) {
		.type = type,
		.reason = reason,
		.version_min = TAGRV_WIRE_VERSION_MIN,
		.version_max = TAGRV_WIRE_VERSION,
		.features = host->features,
		.addr = host->addr,
	};
	memcpy(rec->src_uuid, host->uuid, TAGRV_UUID_LEN);
}

/* All links that we offer or, once bound, the chosen one. */
static void fill_links(const struct tagrv_conn *conn,
		       struct tagrv_wireup_rec *rec)
{
	const struct tagrv_conn_offer *offer = conn->offer;

	rec->max_packet = UINT32_MAX;
	if (tagrv_conn_is_bound(conn))
		tagrv_conn_put_blob(rec, conn->blob);
	for (unsigned i = 0; offer && i < conn->host->xport_cnt; i++)
		if (offer->links[i])
			tagrv_conn_put_blob(rec, offer->blobs[i]);
}

void tagrv_conn_send_rec(struct tagrv_conn *conn, struct tagrv_chan *chan,
			 enum tagrv_wireup_rec_type type, uint8_t reason)
{
	struct tagrv_wireup_rec rec;

	tagrv_conn_fill_head(conn->host, &rec, type, reason);
	rec.src_epoch = conn->epoch;
	if (conn->epoch)
		memcpy(rec.src_nonce, conn->nonce, TAGRV_NONCE_LEN);
	if (tagrv_conn_is_bound(conn)) {
		memcpy(rec.dst_uuid, conn->uuid, TAGRV_UUID_LEN);
		rec.dst_epoch = conn->peer_epoch;
		memcpy(rec.dst_nonce, conn->peer_nonce, TAGRV_NONCE_LEN);
	}
	if (type == TAGRV_WIREUP_REQ || type == TAGRV_WIREUP_REP)
		fill_links(conn, &rec);
	conn->host->ops->send(chan, &rec);
}

void tagrv_conn_send_reply(const struct tagrv_conn_host *host,
			   struct tagrv_chan *chan,
			   const struct tagrv_wireup_rec *rec,
			   enum tagrv_wireup_rec_type type, uint8_t reason)
{
	struct tagrv_wireup_rec out;

	tagrv_conn_fill_head(host, &out, type, reason);
	memcpy(out.dst_uuid, rec->src_uuid, TAGRV_UUID_LEN);
	out.src_epoch = rec->dst_epoch;
	out.dst_epoch = rec->src_epoch;
	memcpy(out.src_nonce, rec->dst_nonce, TAGRV_NONCE_LEN);
	memcpy(out.dst_nonce, rec->src_nonce, TAGRV_NONCE_LEN);
	host->ops->send(chan, &out);
}

void tagrv_conn_reject(const struct tagrv_conn_host *host,
		       struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *req,
		       enum tagrv_wireup_reason reason)
{
	tagrv_conn_send_reply(host, chan, req, TAGRV_WIREUP_REJ, (uint8_t) reason);
}

int tagrv_conn_screen(const struct tagrv_conn_host *host,
		      const struct tagrv_wireup_rec *rec)
{
	bool to_us = !memcmp(rec->dst_uuid, host->uuid, TAGRV_UUID_LEN);
	bool to_any = tagrv_uuid_is_zero(rec->dst_uuid);

	switch (rec->type) {
	case TAGRV_WIREUP_REQ:
		if (!host->xport_cnt)
			return TAGRV_WIREUP_TRANSPORT;
		if (!memcmp(rec->src_uuid, host->uuid, TAGRV_UUID_LEN))
			return TAGRV_WIREUP_SELF;
		return to_us || to_any ? TAGRV_WIREUP_OK : TAGRV_WIREUP_STALE;
	case TAGRV_WIREUP_REJ:
	case TAGRV_WIREUP_CLOSE:
		/* The sender may not know our uuid yet. */
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
