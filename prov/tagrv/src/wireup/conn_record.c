/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What each record of the handshake does: REQ, REP, RTU, REJ, CLOSE.
 *
 * A record is about a link of the peer, which (src_uuid, src_epoch) names for ever,
 * since the epoch counts the links of an endpoint, not of a peer. So the first question
 * is always whether that is the link that we are bound to, an older one, or a new one
 * (classify_link). Records of claims (conn_ask.c) and of renewals (conn_renew.c) have
 * been taken out before.
 *
 * Rules that keep the states of both sides consistent:
 *
 * - UP is emitted before the REP or RTU that allows the peer to send.
 * - The REP or RTU sent on a channel makes the peer READY. So once a channel is
 *   marked 'answered', the other channel may be closed, even if records on it
 *   are lost.
 * - A connection is resumed only if both sides remember it: the driver rejects a
 *   REQ that names our epoch (dst_epoch) as STALE when no connection has it.
 */
#include "wireup/conn_priv.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "core/log.h"

/* The link that a record names (src_uuid, src_epoch), compared with the peer's link of conn. */
enum rec_link {
	LINK_SAME,		/* the peer's link that conn is bound to */
	LINK_OLDER,		/* an earlier link of the same peer process */
	LINK_FORGED,		/* its number, but not its nonce */
	LINK_NEW,		/* a later link, or of a restarted peer */
};

static enum rec_link classify_link(const struct tagrv_conn *conn,
				   const struct tagrv_wireup_rec *rec)
{
	int32_t diff = (int32_t) (rec->src_epoch - conn->peer_epoch);

	if (!conn->peer_epoch ||
	    memcmp(rec->src_uuid, conn->uuid, TAGRV_UUID_LEN))
		return LINK_NEW;
	if (!tagrv_conn_is_bound(conn))
		return diff <= 0 ? LINK_OLDER : LINK_NEW;
	if (diff)
		return diff < 0 ? LINK_OLDER : LINK_NEW;
	return memcmp(rec->src_nonce, conn->peer_nonce, TAGRV_NONCE_LEN) ?
	       LINK_FORGED : LINK_SAME;
}

bool tagrv_conn_is_new_link(const struct tagrv_conn *conn,
			    const struct tagrv_wireup_rec *rec)
{
	return classify_link(conn, rec) == LINK_NEW;
}

/*
 * The status of GONE when the peer gave its link up. -FI_EAGAIN: the peer process
 * is the same and nothing was sent over the link, so queued operations can use the
 * next link.
 */
static int gone_status(const struct tagrv_conn *conn,
		       const struct tagrv_wireup_rec *rec)
{
	bool same = !memcmp(rec->src_uuid, conn->uuid, TAGRV_UUID_LEN);

	return same && conn->state == TAGRV_CONN_BOUND ? -FI_EAGAIN :
							 -FI_ECONNRESET;
}

/*
 * The peer resumes with the one link that it chose, which we cannot bind; other
 * transports are left to try.
 */
static void reject_and_begin_again(struct tagrv_conn *conn, struct tagrv_chan *chan,
			    const struct tagrv_wireup_rec *rec)
{
	tagrv_conn_reject(conn->host, chan, rec, TAGRV_WIREUP_STALE);
	tagrv_conn_hang_up(conn, chan);
	tagrv_conn_begin_again(conn, rec, -FI_EHOSTUNREACH);
}

static void refuse_req(struct tagrv_conn *conn, struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *rec, int status)
{
	char text[TAGRV_ADDR_STRLEN];

	tagrv_info("wireup: refused %s: %s\n",
		   tagrv_addr_str(&conn->addr, text, sizeof(text)),
		   fi_strerror(-status));
	tagrv_conn_reject(conn->host, chan, rec, tagrv_conn_is_transient(status) ?
			  TAGRV_WIREUP_BUSY : TAGRV_WIREUP_TRANSPORT);
	tagrv_conn_hang_up(conn, chan);
	if (conn->state == TAGRV_CONN_WANTED)
		tagrv_conn_fail(conn, tagrv_conn_is_transient(status) ?
				status : -FI_EHOSTUNREACH);
	else
		tagrv_conn_reset(conn, NULL, false);
}

/*
 * The peer has offered local transports alone, none of which can be bound, and both may have
 * others. It begins again with those. A REQ of ours may offer what has just failed; then so
 * do we, or else ours goes on. The channel stays meanwhile: the peer may have begun again
 * on it already, or may have asked something there.
 */
static void refuse_local(struct tagrv_conn *conn, struct tagrv_chan *chan,
			 const struct tagrv_wireup_rec *rec, bool is_void)
{
	tagrv_conn_reject(conn->host, chan, rec, TAGRV_WIREUP_TRANSPORT);
	if (conn->state != TAGRV_CONN_WANTED)
		tagrv_conn_reset(conn, NULL, false);
	else if (is_void)
		tagrv_conn_begin_again(conn, rec, -FI_EHOSTUNREACH);
}

static void send_rep(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	tagrv_conn_send_rec(conn, chan, TAGRV_WIREUP_REP, TAGRV_WIREUP_OK);
	chan->answered = true;
	tagrv_conn_hang_up_extra(conn);
}

/*
 * The connection came up by the other channel, and was renewed, before this channel's REQ
 * arrived: nothing will answer it, so this channel would stay for ever.
 */
static bool is_overtaken(const struct tagrv_conn *conn, const struct tagrv_chan *chan)
{
	const struct tagrv_chan *other = conn->chan[!chan->dialed];

	return conn->state == TAGRV_CONN_READY && !chan->answered && other &&
	       other->answered;
}

/*
 * A link could not be made for want of room: that is told, whoever wants the connection. There
 * may be room again by now.
 */
static bool lacked_room(struct tagrv_conn *conn, int status, unsigned avoid)
{
	unsigned avoids = conn->avoid;
	bool crowded;

	conn->avoid = avoid;	/* as it was before the attempt */
	crowded = status == -FI_ENOSPC ||
		  (tagrv_conn_is_transient(status) && tagrv_conn_is_crowded(conn, false));
	conn->avoid = avoids;
	if (crowded && conn->host->ops->crowded)
		conn->host->ops->crowded(conn);
	return crowded;
}

/* We want the connection as well, and have no room for a link: both try again. */
static bool wait_too(struct tagrv_conn *conn, struct tagrv_chan *chan,
		     const struct tagrv_wireup_rec *rec, unsigned avoid)
{
	if (conn->state != TAGRV_CONN_WANTED)
		return false;
	conn->avoid = avoid;
	tagrv_conn_reject(conn->host, chan, rec, TAGRV_WIREUP_BUSY);
	tagrv_conn_hang_up(conn, chan);
	tagrv_conn_await_room(conn);
	return true;
}

/* Binds to a link in the REQ. False: it was refused, and what follows from that is done. */
static bool bind_to_req(struct tagrv_conn *conn, struct tagrv_chan *chan,
			const struct tagrv_wireup_rec *rec)
{
	struct tagrv_chan *dialed = conn->chan[TAGRV_CONN_DIALED];
	uint32_t epoch = conn->epoch;
	unsigned avoid = conn->avoid;
	int ret = tagrv_conn_bind(conn, rec, false);
	bool is_void = avoid != conn->avoid || epoch != conn->epoch;

	if (!ret) {
		/* We held this link back, and what our REQ offered is void. */
		if (epoch && epoch != conn->epoch && dialed && dialed != chan)
			tagrv_conn_hang_up(conn, dialed);
		return true;
	}
	if (lacked_room(conn, ret, avoid) && wait_too(conn, chan, rec, avoid))
		return false;
	if (rec->dst_epoch && conn->state == TAGRV_CONN_WANTED &&
	    tagrv_conn_has_offer(conn))
		reject_and_begin_again(conn, chan, rec);
	else if (rec->reason == TAGRV_WIREUP_LOCAL && tagrv_conn_has_offer(conn))
		refuse_local(conn, chan, rec, is_void);
	else
		refuse_req(conn, chan, rec, ret);
	return false;
}

void tagrv_conn_take_req(struct tagrv_conn *conn, struct tagrv_chan *chan,
			 const struct tagrv_wireup_rec *rec)
{
	bool bound = tagrv_conn_is_bound(conn);
	enum rec_link link = classify_link(conn, rec);

	if (link == LINK_OLDER || link == LINK_FORGED) {
		if (!tagrv_conn_holds(conn, chan) ||
		    (link == LINK_OLDER && is_overtaken(conn, chan)))
			tagrv_conn_hang_up(conn, chan);
		return;
	}
	if (link == LINK_SAME) {
		tagrv_conn_stop_dial(conn);
		tagrv_conn_hold(conn, chan);
		if (conn->state == TAGRV_CONN_READY)
			tagrv_conn_become_ready(conn);	/* no longer in doubt */
		send_rep(conn, chan);
		return;
	}
	if (bound) {
		tagrv_conn_emit_gone(conn, gone_status(conn, rec));
		tagrv_conn_reset(conn, tagrv_conn_holds(conn, chan) ? chan : NULL,
				 false);
	}
	tagrv_conn_hold(conn, chan);
	if (!bind_to_req(conn, chan, rec))
		return;
	tagrv_conn_stop_dial(conn);
	conn->deadline = tagrv_conn_now(conn) + conn->host->timeout;
	tagrv_conn_set_timer(conn);
	send_rep(conn, chan);
}

static void on_req(struct tagrv_conn *conn, struct tagrv_chan *chan,
		   const struct tagrv_wireup_rec *rec)
{
	if (!tagrv_conn_is_new_link(conn, rec) ||
	    (conn->state == TAGRV_CONN_IDLE && chan->near) ||
	    tagrv_conn_holds(conn, chan) || tagrv_conn_is_named(conn, rec))
		tagrv_conn_take_req(conn, chan, rec);
	else
		tagrv_conn_claim(conn, chan, rec);
}

/* Binds to the link in the REP. False: began again without its transport, or failed. */
static bool bind_to_rep(struct tagrv_conn *conn, const struct tagrv_wireup_rec *rec)
{
	unsigned avoid = conn->avoid;
	int ret = tagrv_conn_bind(conn, rec, true);

	if (!ret)
		return true;
	if (!tagrv_conn_is_transient(ret))
		ret = -FI_EHOSTUNREACH;
	if (conn->avoid != avoid)
		tagrv_conn_begin_again(conn, rec, ret);
	else
		/* The REP has no transport that our REQ offered. */
		tagrv_conn_fail(conn, ret);
	return false;
}

/*
 * A REP arrives after conn was bound to the peer's REQ (the REQs crossed): both
 * sides must have chosen the same transport. False: began again, or gave up.
 */
static bool check_rep_transport(struct tagrv_conn *conn,
				const struct tagrv_wireup_rec *rec)
{
	if (tagrv_conn_same_transport(conn, rec))
		return true;
	if (conn->state == TAGRV_CONN_READY)
		tagrv_conn_give_up(conn, -FI_ECONNRESET);
	else
		tagrv_conn_begin_again(conn, rec, -FI_EHOSTUNREACH);
	return false;
}

static void on_rep(struct tagrv_conn *conn, struct tagrv_chan *chan,
		   const struct tagrv_wireup_rec *rec)
{
	bool bound = tagrv_conn_is_bound(conn);
	enum rec_link link = bound ? classify_link(conn, rec) : LINK_SAME;

	if (!tagrv_conn_is_named(conn, rec) || link == LINK_OLDER ||
	    link == LINK_FORGED)
		return;
	if (link == LINK_NEW && gone_status(conn, rec) == -FI_EAGAIN) {
		tagrv_conn_begin_again(conn, rec, -FI_ECONNRESET);
		return;
	}
	if (link == LINK_NEW) {
		/* The peer was restarted between its REQ and its REP. */
		tagrv_conn_send_reply(conn->host, chan, rec, TAGRV_WIREUP_CLOSE,
				      TAGRV_WIREUP_OK);
		tagrv_conn_emit_gone(conn, -FI_ECONNRESET);
		tagrv_conn_reset(conn, NULL, false);
		return;
	}
	if (!(bound ? check_rep_transport(conn, rec) : bind_to_rep(conn, rec)))
		return;
	if (chan->dialed && conn->dial == TAGRV_CONN_ASKED)
		conn->dial = TAGRV_CONN_OFF;
	tagrv_conn_become_ready(conn);
	tagrv_conn_send_rec(conn, chan, TAGRV_WIREUP_RTU, TAGRV_WIREUP_OK);
	chan->answered = true;
	tagrv_conn_hang_up_extra(conn);
}

/* True: the record names both links of this connection. */
static bool is_about_our_link(const struct tagrv_conn *conn,
			      const struct tagrv_wireup_rec *rec)
{
	return tagrv_conn_is_bound(conn) && classify_link(conn, rec) == LINK_SAME &&
	       tagrv_conn_is_named(conn, rec);
}

static void on_rtu(struct tagrv_conn *conn, const struct tagrv_wireup_rec *rec)
{
	if (!is_about_our_link(conn, rec))
		return;
	tagrv_conn_become_ready(conn);
	tagrv_conn_hang_up_extra(conn);
}

static void on_stale(struct tagrv_conn *conn,
		     const struct tagrv_wireup_rec *rec)
{
	if (tagrv_conn_is_bound(conn)) {
		tagrv_conn_emit_gone(conn, gone_status(conn, rec));
		tagrv_conn_reset(conn, NULL, true);
	} else {
		tagrv_conn_retry(conn, -FI_ECONNREFUSED);
	}
}

/*
 * The peer cannot bind what our first REQ offered, but we have held something back. If we
 * are bound to a REQ of the peer by now, that one is answered by our REP, or void: then the
 * peer begins again.
 */
static void on_local_refused(struct tagrv_conn *conn)
{
	char text[TAGRV_ADDR_STRLEN];

	if (conn->state != TAGRV_CONN_WANTED) {
		tagrv_conn_retry(conn, -FI_ECONNREFUSED);
		return;
	}
	tagrv_info("wireup: %s is on this host, but cannot use shared memory with us: "
		   "asking for a link of a device; FI_TAGRV_TRANSPORTS, or another user "
		   "or container, may be the reason\n",
		   tagrv_addr_str(&conn->addr, text, sizeof(text)));
	tagrv_conn_avoid_local(conn);
	tagrv_conn_begin_again(conn, NULL, -FI_EHOSTUNREACH);
}

static void on_rej(struct tagrv_conn *conn, struct tagrv_chan *chan,
		   const struct tagrv_wireup_rec *rec)
{
	if (rec->dst_epoch && rec->dst_epoch != conn->epoch)
		return;
	if (!tagrv_conn_holds(conn, chan) ||
	    (conn->state == TAGRV_CONN_READY &&
	     !(chan->dialed && conn->dial == TAGRV_CONN_ASKED)))
		return;
	tagrv_conn_hang_up(conn, chan);
	switch (rec->reason) {
	case TAGRV_WIREUP_BUSY:
		if (conn->state == TAGRV_CONN_WANTED && tagrv_conn_is_crowded(conn, true))
			tagrv_conn_await_room(conn);
		else
			tagrv_conn_retry(conn, -FI_ETIMEDOUT);
		break;
	case TAGRV_WIREUP_STALE:
		on_stale(conn, rec);
		break;
	case TAGRV_WIREUP_VERSION:
		tagrv_conn_give_up(conn, -FI_ENOPROTOOPT);
		break;
	case TAGRV_WIREUP_SELF:
		tagrv_conn_give_up(conn, -FI_EINVAL);
		break;
	default:
		if (conn->held && !rec->src_epoch)
			on_local_refused(conn);
		else
			tagrv_conn_give_up(conn, -FI_EHOSTUNREACH);
	}
}

static void on_close(struct tagrv_conn *conn, struct tagrv_chan *chan,
		     const struct tagrv_wireup_rec *rec)
{
	if (rec->reason == TAGRV_WIREUP_SOCKET_CLOSED) {
		if (is_about_our_link(conn, rec))
			tagrv_conn_peer_closes_socket(conn, chan);
		return;
	}
	/* dst_epoch is 0 if the peer had not received our REP yet. */
	if (tagrv_conn_is_bound(conn) && classify_link(conn, rec) == LINK_SAME &&
	    (!rec->dst_epoch || tagrv_conn_is_named(conn, rec))) {
		tagrv_conn_emit_gone(conn, 0);
		tagrv_conn_reset(conn, NULL, false);
	} else if (conn->state == TAGRV_CONN_WANTED &&
		   tagrv_conn_holds(conn, chan)) {
		/* The peer's endpoint closes; a restarted one may replace it. */
		tagrv_conn_hang_up(conn, chan);
		tagrv_conn_retry(conn, -FI_ECONNREFUSED);
	}
}

void tagrv_conn_take_record(struct tagrv_conn *conn, struct tagrv_chan *chan,
			    const struct tagrv_wireup_rec *rec)
{
	switch (rec->type) {
	case TAGRV_WIREUP_REQ:
		on_req(conn, chan, rec);
		break;
	case TAGRV_WIREUP_REP:
		on_rep(conn, chan, rec);
		break;
	case TAGRV_WIREUP_RTU:
		on_rtu(conn, rec);
		break;
	case TAGRV_WIREUP_REJ:
		on_rej(conn, chan, rec);
		break;
	case TAGRV_WIREUP_CLOSE:
		on_close(conn, chan, rec);
		break;
	case TAGRV_WIREUP_WAIT:
		tagrv_conn_take_wait(conn, chan, rec);
		break;
	case TAGRV_WIREUP_ASK:		/* the driver answers */
	case TAGRV_WIREUP_ANSWER:
		break;
	}
}
