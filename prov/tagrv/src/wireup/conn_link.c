/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The links of a connection: which ones are offered, which one is chosen.
 *
 * The side that sends a REQ makes a link of every transport first, since the peer
 * may choose any of them; of a device not yet, if the peer is on this host (conn.h).
 * The side that gets a REQ makes them one by one until
 * one can be bound. All links of an epoch exist before the first record with this
 * epoch is sent, so that (uuid, epoch) means the same links for ever. Once one
 * link is bound the others are discarded.
 *
 * The order of preference is that of host->xports, the same on both sides
 * (docs/wire_protocol.md, section 2.3).
 */
#include "wireup/conn_priv.h"

#include <stdlib.h>
#include <string.h>

#include "xport/taglist.h"

static bool is_avoided(const struct tagrv_conn *conn, unsigned i)
{
	return conn->avoid & 1u << i;
}

static bool is_held_back(const struct tagrv_conn *conn, unsigned i)
{
	return conn->held & 1u << i;
}

/* -- making links --------------------------------------------------------- */

static int begin_epoch(struct tagrv_conn *conn, uint32_t *epoch, uint8_t *nonce)
{
	struct tagrv_conn_host *host = conn->host;
	int ret = host->ops->prepare(conn);

	if (!ret)
		ret = host->ops->draw(conn, nonce);
	if (ret)
		return ret;
	if (!++host->epoch)
		host->epoch = 1;
	*epoch = host->epoch;
	return 0;
}

static void discard_link(struct tagrv_link **place)
{
	struct tagrv_link *link = *place;

	*place = NULL;
	if (link)
		link->xport->ops->link_discard(link);
}

/* Discards its links, and frees their blobs. */
static void end_offer(struct tagrv_conn *conn)
{
	struct tagrv_conn_offer *offer = conn->offer;

	if (!offer)
		return;
	for (unsigned i = 0; i < conn->host->xport_cnt; i++) {
		discard_link(&offer->links[i]);
		free(offer->blobs[i]);
	}
	free(offer);
	conn->offer = NULL;
}

static int begin_offer(struct tagrv_conn *conn)
{
	int ret;

	assert(!conn->offer);
	conn->offer = calloc(1, sizeof(*conn->offer));
	if (!conn->offer)
		return -FI_ENOMEM;
	ret = begin_epoch(conn, &conn->epoch, conn->nonce);
	if (ret)
		end_offer(conn);
	return ret;
}

/* Returns the time. */
static uint64_t leave(struct tagrv_conn *conn, const struct tagrv_xport *xport)
{
	uint64_t now = tagrv_conn_now(conn);

	if (conn->host->ops->leave)
		conn->host->ops->leave(conn, xport);
	return now;
}

static void enter(struct tagrv_conn *conn, const struct tagrv_xport *xport, uint64_t left)
{
	if (conn->host->ops->enter)
		conn->host->ops->enter(conn, xport);
	tagrv_conn_excuse(conn, tagrv_conn_now(conn) - left);
}

/* NULL: no memory. */
static struct tagrv_conn_blob *new_blob(const struct tagrv_xport *xport,
					const uint8_t *data, size_t len)
{
	struct tagrv_conn_blob *blob = malloc(sizeof(*blob) + len);

	assert(len <= TAGRV_BLOB_MAX);
	if (!blob)
		return NULL;
	blob->max_packet = (uint32_t) TAGRV_MIN(xport->attr.max_packet,
						(size_t) UINT32_MAX);
	blob->wire_id = xport->ops->wire_id;
	blob->len = (uint8_t) len;
	memcpy(blob->data, data, len);
	return blob;
}

/* A device that matches the peer's messages has to know of whom they are, by each link. */
static int create_link(struct tagrv_conn *conn, struct tagrv_xport *xport, void *data,
		       size_t *len, struct tagrv_link **link)
{
	const struct tagrv_taglist *list = __atomic_load_n(&xport->list, __ATOMIC_ACQUIRE);

	return list && list->link_create ?
	       list->link_create(xport, &conn->addr, data, len, link) :
	       xport->ops->link_create(xport, data, len, link);
}

/* *link: NULL; *blob: of an earlier link, or NULL. */
static int make_link(struct tagrv_conn *conn, unsigned i, struct tagrv_link **link,
		     struct tagrv_conn_blob **blob)
{
	struct tagrv_xport *xport = conn->host->xports[i];
	uint8_t data[TAGRV_BLOB_MAX] = { 0 };
	struct tagrv_link *made = NULL;
	size_t len = 0;
	uint64_t left;
	int ret;

	free(*blob);
	*blob = NULL;
	left = leave(conn, xport);
	ret = create_link(conn, xport, data, &len, &made);
	enter(conn, xport, left);
	if (ret)
		return ret;
	*link = made;
	*blob = new_blob(xport, data, len);
	if (*blob)
		return 0;
	discard_link(link);
	return -FI_ENOMEM;
}

void tagrv_conn_put_blob(struct tagrv_wireup_rec *rec,
			 const struct tagrv_conn_blob *blob)
{
	struct tagrv_wireup_blob *out = &rec->links[rec->link_cnt++];

	out->wire_id = blob->wire_id;
	out->len = blob->len;
	out->max_packet = blob->max_packet;
	memcpy(out->data, blob->data, blob->len);
	rec->max_packet = TAGRV_MIN(rec->max_packet, blob->max_packet);
}

void tagrv_conn_discard_renewed(struct tagrv_conn *conn)
{
	struct tagrv_conn_renew *renew = conn->renew;

	if (renew == &tagrv_conn_at_rest)
		return;
	discard_link(&renew->link);
	free(renew->blob);
	renew->blob = NULL;
	renew->state = TAGRV_CONN_REST;
	renew->epoch = 0;
	renew->chan = NULL;
	renew->at = 0;
}

void tagrv_conn_void_offer(struct tagrv_conn *conn)
{
	end_offer(conn);
	free(conn->blob);
	conn->blob = NULL;
	conn->epoch = 0;
	conn->held = 0;
}

/* The peer is on this host, or listens at our own address: probably it needs no device. */
static bool is_local(const struct tagrv_conn *conn)
{
	const struct tagrv_chan *dialed = conn->chan[TAGRV_CONN_DIALED];
	size_t own_len, len;
	const void *own = tagrv_addr_ip(&conn->host->addr, &own_len);
	const void *ip = tagrv_addr_ip(&conn->addr, &len);

	return (dialed && dialed->local) || (own_len == len && !memcmp(own, ip, len));
}

static bool has_room(const struct tagrv_xport *xport, bool offer)
{
	tagrv_xport_for_each_quota(quota, xport)
		if (!tagrv_quota_has_room(*quota, offer ? 1 : 0))
			return false;
	return true;
}

bool tagrv_conn_is_crowded(const struct tagrv_conn *conn, bool offer)
{
	bool crowded = false, other = false;

	for (unsigned i = 0; i < conn->host->xport_cnt; i++) {
		if (is_avoided(conn, i))
			continue;
		if (has_room(conn->host->xports[i], offer))
			other = true;
		else
			crowded = true;
	}
	return crowded && !(other && is_local(conn));
}

/*
 * Makes the links in the mask. One is enough; a transport whose link cannot be made is not
 * offered, unless that is for want of room: -FI_ENOSPC. Other endpoints use the device, too:
 * the room that a link did not find may be there again when we look.
 */
static int make_some(struct tagrv_conn *conn, unsigned mask)
{
	struct tagrv_conn_offer *offer = conn->offer;
	int ret, status = -FI_EHOSTUNREACH;
	bool any = false, full = false;

	for (unsigned i = 0; i < conn->host->xport_cnt; i++) {
		if (!(mask & 1u << i))
			continue;
		ret = make_link(conn, i, &offer->links[i], &offer->blobs[i]);
		if (!ret) {
			any = true;
			continue;
		}
		status = ret;
		full |= ret == -FI_ENOSPC && conn->host->xports[i]->quotas[0];
	}
	full = full ? !(any && is_local(conn)) :
	       status != -FI_EHOSTUNREACH && tagrv_conn_is_crowded(conn, false);
	return full ? -FI_ENOSPC : any ? 0 : status;
}

static unsigned mask_of(const struct tagrv_conn *conn, bool local)
{
	unsigned mask = 0;

	for (unsigned i = 0; i < conn->host->xport_cnt; i++)
		if (local == !!(conn->host->xports[i]->attr.caps & TAGRV_XPORT_LOCAL))
			mask |= 1u << i;
	return mask;
}

/* The best transport has the lowest bit. */
static bool is_better(unsigned mask, unsigned than)
{
	return __builtin_ctz(mask) < __builtin_ctz(than);
}

int tagrv_conn_make_links(struct tagrv_conn *conn, bool local)
{
	unsigned near = local ? mask_of(conn, true) & ~conn->avoid : 0;
	unsigned far = mask_of(conn, false) & ~conn->avoid;
	int ret;

	if (conn->epoch)
		return 0;
	ret = begin_offer(conn);
	if (ret)
		return ret;
	if (!near || !far || is_better(far, near))
		return make_some(conn, ~conn->avoid);
	if (make_some(conn, near))
		return make_some(conn, far);
	conn->held = far;
	return 0;
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

static int bind_to(struct tagrv_conn *conn, struct tagrv_link *link,
		   const struct tagrv_wireup_blob *blob)
{
	uint64_t left = leave(conn, link->xport);
	int ret = link->xport->ops->link_bind(link, blob->data, blob->len);

	enter(conn, link->xport, left);
	return ret;
}

/* make: we have offered nothing yet, so the link must be made first. */
static int bind_link(struct tagrv_conn *conn, unsigned i,
		     const struct tagrv_wireup_blob *blob, bool make)
{
	struct tagrv_conn_offer *offer = conn->offer;
	int ret;

	if (make) {
		ret = make_link(conn, i, &offer->links[i], &offer->blobs[i]);
		if (ret)
			return ret;
	}
	return bind_to(conn, offer->links[i], blob);
}

static void become_bound(struct tagrv_conn *conn, unsigned i,
			 const struct tagrv_wireup_rec *rec,
			 const struct tagrv_wireup_blob *blob, bool sendable)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.sendable = sendable,
		.link = conn->offer->links[i],
		.max_packet = blob->max_packet,
		.features = rec->features & conn->host->features,
	};

	memcpy(conn->uuid, rec->src_uuid, TAGRV_UUID_LEN);
	conn->peer_epoch = rec->src_epoch;
	memcpy(conn->peer_nonce, rec->src_nonce, TAGRV_NONCE_LEN);
	conn->first_epoch = conn->epoch;
	conn->state = sendable ? TAGRV_CONN_READY : TAGRV_CONN_BOUND;
	conn->chosen = i;
	conn->socket_spare = event.features & TAGRV_WIRE_SOCKETLESS;
	conn->blob = conn->offer->blobs[i];
	conn->offer->links[i] = NULL;
	conn->offer->blobs[i] = NULL;
	end_offer(conn);
	tagrv_conn_emit(conn, &event);
}

/* What was held back gets an epoch of its own: the present one means what was offered. */
static int give_up_offer(struct tagrv_conn *conn)
{
	tagrv_conn_void_offer(conn);
	return begin_offer(conn);
}

int tagrv_conn_bind(struct tagrv_conn *conn,
		    const struct tagrv_wireup_rec *rec, bool sendable)
{
	int ret, status = -FI_EHOSTUNREACH;
	bool make = !conn->epoch;

	ret = make ? begin_offer(conn) : 0;
	if (ret)
		return ret;
	for (unsigned i = 0; i < conn->host->xport_cnt; i++) {
		const struct tagrv_wireup_blob *blob = find_blob(conn, rec, i);

		if (!blob || is_avoided(conn, i))
			continue;
		if (!make && is_held_back(conn, i) && rec->type == TAGRV_WIREUP_REQ) {
			ret = give_up_offer(conn);
			if (ret)
				return ret;
			make = true;
		}
		if (!make && !conn->offer->links[i])
			continue;
		ret = bind_link(conn, i, blob, make);
		if (!ret) {
			become_bound(conn, i, rec, blob, sendable);
			return 0;
		}
		/* link_bind() may be tried only once per link. */
		discard_link(&conn->offer->links[i]);
		conn->avoid |= 1u << i;
		if (!tagrv_conn_is_transient(status))
			status = ret;
	}
	return status;
}

/* -- renewal ------------------------------------------------------------- */

/*
 * Each link of a renewal costs queue pairs, and the thread that all peers share makes
 * them. A peer could ask, or break its paths so that we ask, as often as the network
 * lets it. So there are RENEW_BURST links at once, then one every RENEW_EVERY: more than
 * adapters need that fail and come back. Who gets none now tries again soon.
 */
#define RENEW_BURST	8u
#define RENEW_EVERY	1000u	/* ms */

static bool may_renew(struct tagrv_conn *conn)
{
	uint64_t now = tagrv_conn_now(conn);

	if (conn->renew_credit_at > now + (RENEW_BURST - 1) * RENEW_EVERY)
		return false;
	conn->renew_credit_at = TAGRV_MAX(conn->renew_credit_at, now) + RENEW_EVERY;
	return true;
}

int tagrv_conn_make_renewed(struct tagrv_conn *conn)
{
	struct tagrv_conn_renew *renew = conn->renew;
	int ret;

	if (!may_renew(conn))
		return -FI_EBUSY;
	ret = begin_epoch(conn, &renew->epoch, renew->nonce);
	return ret ? ret : make_link(conn, conn->chosen, &renew->link, &renew->blob);
}

int tagrv_conn_bind_renewed(struct tagrv_conn *conn,
			    const struct tagrv_wireup_rec *rec,
			    const struct tagrv_wireup_blob **blob)
{
	*blob = find_blob(conn, rec, conn->chosen);
	return *blob ? bind_to(conn, conn->renew->link, *blob) : -FI_EHOSTUNREACH;
}

/* -- agreeing on a transport ---------------------------------------------- */

void tagrv_conn_avoid_local(struct tagrv_conn *conn)
{
	conn->avoid |= mask_of(conn, true);
}

bool tagrv_conn_has_offer(const struct tagrv_conn *conn)
{
	for (unsigned i = 0; i < conn->host->xport_cnt; i++)
		if (!is_avoided(conn, i))
			return true;
	return false;
}

/*
 * Of the two chosen transports, the preferred one (lower index) did not work for
 * the side that chose the other one. That side avoids it already; from here on
 * this side does, too.
 */
bool tagrv_conn_same_transport(struct tagrv_conn *conn,
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
