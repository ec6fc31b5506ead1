/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The links of a connection: which are offered, which one is taken.
 *
 * Who asks makes a link of every transport, since any may be chosen; who is
 * asked makes them one by one until one can be bound. All links of one epoch are
 * made before the first record that carries it, so that (uuid, epoch) means the
 * same links for ever. Once one is bound the others are discarded.
 *
 * The order of preference is that of the host, and the same on both sides (see
 * docs/wire_protocol.md).
 */
#include "wireup/conn_priv.h"

#include <string.h>

static bool is_avoided(const struct tagrv_conn *conn, unsigned i)
{
	return conn->avoid & 1u << i;
}

/* -- making -------------------------------------------------------------- */

static int begin_epoch(struct tagrv_conn *conn)
{
	struct tagrv_conn_host *host = conn->host;
	int ret = host->ops->prepare(conn);

	if (ret)
		return ret;
	if (!++host->epoch)
		host->epoch = 1;
	conn->epoch = host->epoch;
	return 0;
}

static int make_link(struct tagrv_conn *conn, unsigned i)
{
	struct tagrv_xport *xport = conn->host->xports[i];
	struct tagrv_wireup_blob *blob = &conn->blobs[i];
	size_t len = 0;
	int ret;

	ret = xport->ops->link_create(xport, blob->data, &len,
				      &conn->links[i]);
	if (ret) {
		conn->links[i] = NULL;
		return ret;
	}
	assert(len <= TAGRV_BLOB_MAX);
	blob->wire_id = xport->ops->wire_id;
	blob->len = (uint8_t) len;
	blob->max_packet = (uint32_t) TAGRV_MIN(xport->attr.max_packet,
						(size_t) UINT32_MAX);
	return 0;
}

static void discard_link(struct tagrv_conn *conn, unsigned i)
{
	struct tagrv_link *link = conn->links[i];

	conn->links[i] = NULL;
	if (link)
		link->xport->ops->link_discard(link);
}

void tagrv_conn_discard_links(struct tagrv_conn *conn)
{
	for (unsigned i = 0; i < conn->host->xport_cnt; i++)
		discard_link(conn, i);
}

/* One is enough; what cannot be made is not offered. */
int tagrv_conn_make_links(struct tagrv_conn *conn)
{
	int ret, status = -FI_EHOSTUNREACH;
	bool any = false;

	if (conn->epoch)
		return 0;
	ret = begin_epoch(conn);
	if (ret)
		return ret;
	for (unsigned i = 0; i < conn->host->xport_cnt; i++) {
		if (is_avoided(conn, i))
			continue;
		ret = make_link(conn, i);
		if (ret)
			status = ret;
		else
			any = true;
	}
	return any ? 0 : status;
}

/* -- binding ------------------------------------------------------------- */

static const struct tagrv_wireup_blob *
find_blob(const struct tagrv_conn *conn, const struct tagrv_wireup_rec *rec,
	  unsigned i)
{
	uint8_t wire_id = conn->host->xports[i]->ops->wire_id;

	for (size_t n = 0; n < rec->link_cnt; n++) {
		if (rec->links[n].wire_id == wire_id)
			return &rec->links[n];
	}
	return NULL;
}

/* fresh: nothing was offered, so a link is made for what the peer offers. */
static int bind_one(struct tagrv_conn *conn, unsigned i,
		    const struct tagrv_wireup_blob *blob, bool fresh)
{
	struct tagrv_link *link;
	int ret;

	if (fresh) {
		ret = make_link(conn, i);
		if (ret)
			return ret;
	}
	link = conn->links[i];
	return link->xport->ops->link_bind(link, blob->data, blob->len);
}

static void become_bound(struct tagrv_conn *conn, unsigned i,
			 const struct tagrv_wireup_rec *rec,
			 const struct tagrv_wireup_blob *blob, bool sendable)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.sendable = sendable,
		.link = conn->links[i],
		.max_packet = blob->max_packet,
	};

	memcpy(conn->uuid, rec->src_uuid, TAGRV_UUID_LEN);
	conn->peer_epoch = rec->src_epoch;
	conn->state = sendable ? TAGRV_CONN_READY : TAGRV_CONN_BOUND;
	conn->chosen = i;
	conn->links[i] = NULL;
	tagrv_conn_discard_links(conn);
	tagrv_conn_emit(conn, &event);
}

int tagrv_conn_bind(struct tagrv_conn *conn,
		    const struct tagrv_wireup_rec *rec, bool sendable)
{
	int ret, status = -FI_EHOSTUNREACH;
	bool fresh = !conn->epoch;

	ret = fresh ? begin_epoch(conn) : 0;
	if (ret)
		return ret;
	for (unsigned i = 0; i < conn->host->xport_cnt; i++) {
		const struct tagrv_wireup_blob *blob = find_blob(conn, rec, i);

		if (!blob || is_avoided(conn, i) || !(fresh || conn->links[i]))
			continue;
		ret = bind_one(conn, i, blob, fresh);
		if (!ret) {
			become_bound(conn, i, rec, blob, sendable);
			return 0;
		}
		/* A link is bound once, so this one is of no use any more. */
		discard_link(conn, i);
		conn->avoid |= 1u << i;
		if (!tagrv_conn_is_busy(status))
			status = ret;
	}
	return status;
}

/* -- agreeing ------------------------------------------------------------ */

bool tagrv_conn_has_offer(const struct tagrv_conn *conn)
{
	for (unsigned i = 0; i < conn->host->xport_cnt; i++)
		if (!is_avoided(conn, i))
			return true;
	return false;
}

/*
 * Whoever chose the later one could not have the earlier one. So the earlier one
 * goes: on this side because the peer shows it, on the peer's it went already.
 */
bool tagrv_conn_agrees(struct tagrv_conn *conn,
		       const struct tagrv_wireup_rec *rec)
{
	unsigned i = 0;

	if (find_blob(conn, rec, conn->chosen))
		return true;
	while (i < conn->chosen && !find_blob(conn, rec, i))
		i++;
	conn->avoid |= 1u << i;
	return false;
}
