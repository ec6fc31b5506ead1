/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection state machine: see conn.h for the picture.
 *
 * The epoch counts the links of an endpoint, not of a peer, so a (uuid, epoch)
 * names one link for ever. Rules that keep both sides agreed:
 *
 * - UP is emitted before the REP or RTU that lets the peer send.
 * - Whoever was heard on a channel got an answer there that makes it READY, so
 *   the other channel may be closed, even if that loses what is in flight.
 * - Nobody resumes what it has forgotten: a REQ that names our epoch (dst_epoch)
 *   is rejected as STALE by the driver when no connection has that epoch.
 */
#include "proto/conn_priv.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "core/log.h"

#define ATTEMPT_MAX	8000	/* ms from the first SYN to the REP */

/* -- ends ---------------------------------------------------------------- */

/* Back to IDLE; 'keep' stays held. tell: the peer may still believe in us. */
static void reset(struct tagrv_conn *conn, struct tagrv_chan *keep, bool tell)
{
	if (conn->dial == TAGRV_CONN_DIALING)
		conn->host->ops->undial(conn);
	for (int i = TAGRV_CONN_ACCEPTED; i <= TAGRV_CONN_DIALED; i++) {
		struct tagrv_chan *chan = conn->chan[i];

		if (!chan || chan == keep)
			continue;
		if (tell)
			tagrv_conn_say(conn, chan, TAGRV_WIREUP_CLOSE, TAGRV_WIREUP_OK);
		tagrv_conn_hang_up(conn, chan);
	}
	if (conn->link)
		conn->host->xport->ops->link_discard(conn->link);
	conn->host->ops->timer(conn, 0);
	conn->link = NULL;
	conn->epoch = 0;
	conn->peer_epoch = 0;
	conn->unkept = false;
	conn->state = TAGRV_CONN_IDLE;
	conn->dial = TAGRV_CONN_OFF;
	conn->deadline = 0;
	conn->step_end = 0;
	conn->fails = 0;
	conn->why = 0;
	if (keep)
		keep->heard = false;
}

static void emit_gone(struct tagrv_conn *conn, int status)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_GONE,
		.status = status,
	};

	tagrv_conn_emit(conn, &event);
}

/* What the user can do about a connection that did not come about. */
static const char *advice(int status)
{
	switch (status) {
	case -FI_ECONNREFUSED:
		return "no peer answers at this port; is it running, and is "
		       "this its address?";
	case -FI_ETIMEDOUT:
		return "no answer; does a firewall drop TCP to this port? "
		       "FI_TAGRV_CONNECT_TIMEOUT extends the wait";
	case -FI_EHOSTUNREACH:
		return "no route, or no transport in common; check the network "
		       "and FI_TAGRV_DEVICES on both hosts";
	case -FI_ENOPROTOOPT:
		return "the peer speaks another wire version; use the same "
		       "release of this provider on both hosts";
	case -FI_EINVAL:
		return "this is our own address";
	default:
		return "resources ran out; see ulimit -n and ulimit -l";
	}
}

static void fail(struct tagrv_conn *conn, int status)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_FAILED,
		.status = status,
	};
	char text[TAGRV_ADDR_STRLEN];

	tagrv_warn("wireup: cannot connect to %s: %s\n",
		   tagrv_addr_str(&conn->addr, text, sizeof(text)),
		   advice(status));
	tagrv_conn_emit(conn, &event);
	reset(conn, NULL, conn->epoch != 0);
}

static void give_up(struct tagrv_conn *conn, int status)
{
	if (!tagrv_conn_is_bound(conn)) {
		fail(conn, status);
		return;
	}
	emit_gone(conn, -FI_ECONNRESET);
	reset(conn, NULL, true);
}

/* An attempt ended without a connection; another one follows if needed. */
static void retry(struct tagrv_conn *conn, int why)
{
	if (tagrv_conn_is_bound(conn) &&
	    (conn->state == TAGRV_CONN_READY || tagrv_conn_has_chan(conn)))
		tagrv_conn_set_timer(conn);
	else if (conn->dial == TAGRV_CONN_OFF)
		tagrv_conn_pause_dial(conn, why);
}

/* -- states ----------------------------------------------------------------- */

/* What of our own troubles may pass by itself. */
static bool is_busy(int status)
{
	return status == -FI_ENOMEM || status == -FI_EAGAIN ||
	       status == -FI_EMFILE || status == -FI_EBUSY ||
	       status == -FI_ENOSPC;
}

/* Two channels and one is enough: the smaller uuid's stays. */
static void settle(struct tagrv_conn *conn)
{
	int keep = memcmp(conn->host->uuid, conn->uuid, TAGRV_UUID_LEN) < 0 ?
		   TAGRV_CONN_DIALED : TAGRV_CONN_ACCEPTED;

	if (conn->state == TAGRV_CONN_READY &&
	    conn->chan[TAGRV_CONN_ACCEPTED] && conn->chan[TAGRV_CONN_DIALED] &&
	    conn->chan[keep]->heard)
		tagrv_conn_hang_up(conn, conn->chan[!keep]);
}

static void become_ready(struct tagrv_conn *conn)
{
	struct tagrv_wireup_event event = { .type = TAGRV_WIREUP_SENDABLE };

	if (conn->state == TAGRV_CONN_BOUND) {
		conn->state = TAGRV_CONN_READY;
		tagrv_conn_emit(conn, &event);
	}
	tagrv_conn_stop_dial(conn);
	conn->deadline = 0;
	conn->step_end = 0;
	conn->fails = 0;
	tagrv_conn_set_timer(conn);
}

/* -- records ------------------------------------------------------------- */

enum kinship {
	SAME,		/* the link we are bound to */
	OLDER,		/* an earlier one of that peer */
	OTHER,		/* a later one, or of another incarnation */
};

static enum kinship compare(const struct tagrv_conn *conn,
			    const struct tagrv_wireup_rec *rec)
{
	int32_t diff = (int32_t) (rec->src_epoch - conn->peer_epoch);

	if (memcmp(rec->src_uuid, conn->uuid, TAGRV_UUID_LEN))
		return OTHER;
	return diff < 0 ? OLDER : diff ? OTHER : SAME;
}

static void refuse_req(struct tagrv_conn *conn, struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *rec, int status)
{
	char text[TAGRV_ADDR_STRLEN];

	tagrv_info("wireup: refused %s: %s\n",
		   tagrv_addr_str(&conn->addr, text, sizeof(text)),
		   fi_strerror(-status));
	tagrv_conn_reject(conn->host, chan, rec, is_busy(status) ?
			  TAGRV_WIREUP_BUSY : TAGRV_WIREUP_TRANSPORT);
	tagrv_conn_hang_up(conn, chan);
	if (conn->state == TAGRV_CONN_WANTED)
		fail(conn, is_busy(status) ? status : -FI_EHOSTUNREACH);
	else
		reset(conn, NULL, false);
}

static void send_rep(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	tagrv_conn_say(conn, chan, TAGRV_WIREUP_REP, TAGRV_WIREUP_OK);
	chan->heard = true;
	settle(conn);
}

static void on_req(struct tagrv_conn *conn, struct tagrv_chan *chan,
		   const struct tagrv_wireup_rec *rec)
{
	bool bound = tagrv_conn_is_bound(conn);
	enum kinship kin = bound ? compare(conn, rec) : OTHER;
	int ret;

	if (kin == OLDER) {
		if (!tagrv_conn_holds(conn, chan))
			tagrv_conn_hang_up(conn, chan);
		return;
	}
	if (kin == SAME) {
		tagrv_conn_stop_dial(conn);
		tagrv_conn_hold(conn, chan);
		send_rep(conn, chan);
		return;
	}
	if (bound) {
		emit_gone(conn, -FI_ECONNRESET);
		reset(conn, tagrv_conn_holds(conn, chan) ? chan : NULL, false);
	}
	tagrv_conn_hold(conn, chan);
	ret = tagrv_conn_make_link(conn);
	if (!ret)
		ret = tagrv_conn_bind_link(conn, rec, false);
	if (ret) {
		refuse_req(conn, chan, rec, ret);
		return;
	}
	tagrv_conn_stop_dial(conn);
	conn->deadline = tagrv_conn_now(conn) + conn->host->timeout;
	tagrv_conn_set_timer(conn);
	send_rep(conn, chan);
}

static void on_rep(struct tagrv_conn *conn, struct tagrv_chan *chan,
		   const struct tagrv_wireup_rec *rec)
{
	bool bound = tagrv_conn_is_bound(conn);
	enum kinship kin = bound ? compare(conn, rec) : SAME;
	int ret;

	if (!conn->epoch || rec->dst_epoch != conn->epoch || kin == OLDER)
		return;
	if (kin == OTHER) {
		/* It was replaced between its REQ and its REP. */
		tagrv_conn_answer(conn->host, chan, rec, TAGRV_WIREUP_CLOSE,
				  TAGRV_WIREUP_OK);
		emit_gone(conn, -FI_ECONNRESET);
		reset(conn, NULL, false);
		return;
	}
	if (!bound) {
		ret = tagrv_conn_bind_link(conn, rec, true);
		if (ret) {
			fail(conn, is_busy(ret) ? ret : -FI_EHOSTUNREACH);
			return;
		}
	}
	if (chan->dialed && conn->dial == TAGRV_CONN_ASKED)
		conn->dial = TAGRV_CONN_OFF;
	become_ready(conn);
	tagrv_conn_say(conn, chan, TAGRV_WIREUP_RTU, TAGRV_WIREUP_OK);
	chan->heard = true;
	settle(conn);
}

static bool is_ours(const struct tagrv_conn *conn,
		    const struct tagrv_wireup_rec *rec)
{
	return tagrv_conn_is_bound(conn) && compare(conn, rec) == SAME &&
	       rec->dst_epoch == conn->epoch;
}

static void on_rtu(struct tagrv_conn *conn, const struct tagrv_wireup_rec *rec)
{
	if (!is_ours(conn, rec))
		return;
	become_ready(conn);
	settle(conn);
}

static void on_rej(struct tagrv_conn *conn, struct tagrv_chan *chan,
		   const struct tagrv_wireup_rec *rec)
{
	if (rec->dst_epoch && rec->dst_epoch != conn->epoch)
		return;
	if (conn->state == TAGRV_CONN_READY || !tagrv_conn_holds(conn, chan))
		return;
	tagrv_conn_hang_up(conn, chan);
	switch (rec->reason) {
	case TAGRV_WIREUP_BUSY:
		retry(conn, -FI_ETIMEDOUT);
		break;
	case TAGRV_WIREUP_STALE:
		if (tagrv_conn_is_bound(conn))
			give_up(conn, -FI_ECONNRESET);
		else
			retry(conn, -FI_ECONNREFUSED);
		break;
	case TAGRV_WIREUP_VERSION:
		give_up(conn, -FI_ENOPROTOOPT);
		break;
	case TAGRV_WIREUP_SELF:
		give_up(conn, -FI_EINVAL);
		break;
	default:
		give_up(conn, -FI_EHOSTUNREACH);
	}
}

static void on_close(struct tagrv_conn *conn, struct tagrv_chan *chan,
		     const struct tagrv_wireup_rec *rec)
{
	if (rec->reason == TAGRV_WIREUP_UNKEPT) {
		conn->unkept = conn->unkept || is_ours(conn, rec);
		return;		/* the hang-up follows */
	}
	/* It gives no epoch of ours when it had not got our REP yet. */
	if (tagrv_conn_is_bound(conn) && compare(conn, rec) == SAME &&
	    (!rec->dst_epoch || rec->dst_epoch == conn->epoch)) {
		emit_gone(conn, 0);
		reset(conn, NULL, false);
	} else if (conn->state == TAGRV_CONN_WANTED &&
		   tagrv_conn_holds(conn, chan)) {
		/* It closes, and may be replaced by another incarnation. */
		tagrv_conn_hang_up(conn, chan);
		retry(conn, -FI_ECONNREFUSED);
	}
}

void tagrv_conn_record(struct tagrv_conn *conn, struct tagrv_chan *chan,
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
	}
}

/* -- sockets and time ---------------------------------------------------- */

void tagrv_conn_dialing(struct tagrv_conn *conn)
{
	assert(conn->dial == TAGRV_CONN_DIALING);
	conn->step_end = tagrv_conn_now(conn) + ATTEMPT_MAX;
	if (!conn->deadline)
		conn->deadline = tagrv_conn_now(conn) + conn->host->timeout;
	tagrv_conn_set_timer(conn);
}

void tagrv_conn_dialed(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	int ret;

	assert(conn->dial == TAGRV_CONN_DIALING && chan->dialed);
	tagrv_conn_hold(conn, chan);
	conn->dial = TAGRV_CONN_ASKED;
	ret = tagrv_conn_make_link(conn);
	if (ret)
		fail(conn, ret);
	else
		tagrv_conn_say(conn, chan, TAGRV_WIREUP_REQ, TAGRV_WIREUP_OK);
}

void tagrv_conn_dial_failed(struct tagrv_conn *conn, int status)
{
	assert(conn->dial == TAGRV_CONN_DIALING);
	conn->dial = TAGRV_CONN_OFF;
	/* It listened when it called us, so a refusal means that it died. */
	if (conn->state == TAGRV_CONN_BOUND && status == -FI_ECONNREFUSED)
		give_up(conn, status);
	else
		retry(conn, status);
}

void tagrv_conn_closed(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	bool held = tagrv_conn_holds(conn, chan);

	tagrv_conn_forget(conn, chan);
	if (!held || tagrv_conn_has_chan(conn))
		return;
	switch (conn->state) {
	case TAGRV_CONN_READY:
		if (conn->unkept)
			break;
		emit_gone(conn, -FI_ECONNRESET);
		reset(conn, NULL, false);
		break;
	case TAGRV_CONN_BOUND:
	case TAGRV_CONN_WANTED:
		retry(conn, -FI_ECONNREFUSED);
		break;
	default:
		break;
	}
}

void tagrv_conn_timer(struct tagrv_conn *conn)
{
	struct tagrv_chan *chan = conn->chan[TAGRV_CONN_DIALED];

	if (conn->deadline && tagrv_conn_now(conn) >= conn->deadline) {
		give_up(conn, conn->why ? conn->why : -FI_ETIMEDOUT);
	} else if (conn->dial == TAGRV_CONN_PAUSE &&
		   tagrv_conn_now(conn) >= conn->step_end) {
		tagrv_conn_start_dial(conn);
	} else if (conn->dial != TAGRV_CONN_OFF && conn->step_end &&
		   tagrv_conn_now(conn) >= conn->step_end) {
		tagrv_conn_stop_dial(conn);
		if (chan)
			tagrv_conn_hang_up(conn, chan);
		retry(conn, -FI_ETIMEDOUT);
	} else {
		tagrv_conn_set_timer(conn);
	}
}

/* -- the engine's wishes ------------------------------------------------- */

void tagrv_conn_init(struct tagrv_conn *conn, struct tagrv_conn_host *host,
		     const struct tagrv_addr *addr)
{
	*conn = (struct tagrv_conn) { .host = host, .addr = *addr };
}

void tagrv_conn_want(struct tagrv_conn *conn)
{
	if (conn->state != TAGRV_CONN_IDLE)
		return;
	conn->state = TAGRV_CONN_WANTED;
	if (!conn->host->xport)
		fail(conn, -FI_EHOSTUNREACH);
	else
		tagrv_conn_start_dial(conn);
}

void tagrv_conn_drop(struct tagrv_conn *conn, uint32_t epoch)
{
	if (tagrv_conn_is_bound(conn) && conn->epoch == epoch)
		reset(conn, NULL, true);
}

void tagrv_conn_close(struct tagrv_conn *conn)
{
	reset(conn, NULL, conn->epoch != 0);
}

void tagrv_conn_unkeep(struct tagrv_conn *conn)
{
	if (conn->state != TAGRV_CONN_READY)
		return;
	conn->unkept = true;
	for (int i = TAGRV_CONN_ACCEPTED; i <= TAGRV_CONN_DIALED; i++) {
		struct tagrv_chan *chan = conn->chan[i];

		if (!chan)
			continue;
		tagrv_conn_say(conn, chan, TAGRV_WIREUP_CLOSE, TAGRV_WIREUP_UNKEPT);
		tagrv_conn_hang_up(conn, chan);
	}
}
