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
#include "wireup/conn_priv.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "core/log.h"

/* -- states ----------------------------------------------------------------- */

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

	if (!conn->peer_epoch ||
	    memcmp(rec->src_uuid, conn->uuid, TAGRV_UUID_LEN))
		return OTHER;
	if (!tagrv_conn_is_bound(conn))
		return diff <= 0 ? OLDER : OTHER;
	return diff < 0 ? OLDER : diff ? OTHER : SAME;
}

/*
 * How the engine is told of a link that the peer has given up: nothing went over
 * it yet, and the process is the same, so what waits goes over the next one.
 */
static int replaced_status(const struct tagrv_conn *conn,
			   const struct tagrv_wireup_rec *rec)
{
	bool same = !memcmp(rec->src_uuid, conn->uuid, TAGRV_UUID_LEN);

	return same && conn->state == TAGRV_CONN_BOUND ? -FI_EAGAIN :
							 -FI_ECONNRESET;
}

/* It resumes with the one link it has chosen, and we know of others. */
static void ask_for_another(struct tagrv_conn *conn, struct tagrv_chan *chan,
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
	tagrv_conn_reject(conn->host, chan, rec, tagrv_conn_is_busy(status) ?
			  TAGRV_WIREUP_BUSY : TAGRV_WIREUP_TRANSPORT);
	tagrv_conn_hang_up(conn, chan);
	if (conn->state == TAGRV_CONN_WANTED)
		tagrv_conn_fail(conn, tagrv_conn_is_busy(status) ?
				status : -FI_EHOSTUNREACH);
	else
		tagrv_conn_reset(conn, NULL, false);
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
	enum kinship kin = compare(conn, rec);
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
		tagrv_conn_emit_gone(conn, replaced_status(conn, rec));
		tagrv_conn_reset(conn, tagrv_conn_holds(conn, chan) ? chan : NULL,
				 false);
	}
	tagrv_conn_hold(conn, chan);
	ret = tagrv_conn_bind(conn, rec, false);
	if (ret && rec->dst_epoch && conn->state == TAGRV_CONN_WANTED &&
	    tagrv_conn_has_offer(conn)) {
		ask_for_another(conn, chan, rec);
		return;
	}
	if (ret) {
		refuse_req(conn, chan, rec, ret);
		return;
	}
	tagrv_conn_stop_dial(conn);
	conn->deadline = tagrv_conn_now(conn) + conn->host->timeout;
	tagrv_conn_set_timer(conn);
	send_rep(conn, chan);
}

/* Binds to the link in the answer. False: begins again without it, or fails. */
static bool take_answer(struct tagrv_conn *conn, const struct tagrv_wireup_rec *rec)
{
	unsigned avoid = conn->avoid;
	int ret = tagrv_conn_bind(conn, rec, true);

	if (!ret)
		return true;
	if (!tagrv_conn_is_busy(ret))
		ret = -FI_EHOSTUNREACH;
	if (conn->avoid != avoid)
		tagrv_conn_begin_again(conn, rec, ret);
	else
		tagrv_conn_fail(conn, ret);	/* it offers what we did not */
	return false;
}

/* Bound to its REQ before: is it by the same transport? */
static bool check_answer(struct tagrv_conn *conn, const struct tagrv_wireup_rec *rec)
{
	if (tagrv_conn_agrees(conn, rec))
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
	enum kinship kin = bound ? compare(conn, rec) : SAME;

	if (!conn->epoch || rec->dst_epoch != conn->epoch || kin == OLDER)
		return;
	if (kin == OTHER && replaced_status(conn, rec) == -FI_EAGAIN) {
		tagrv_conn_begin_again(conn, rec, -FI_ECONNRESET);
		return;
	}
	if (kin == OTHER) {
		/* It was replaced between its REQ and its REP. */
		tagrv_conn_answer(conn->host, chan, rec, TAGRV_WIREUP_CLOSE,
				  TAGRV_WIREUP_OK);
		tagrv_conn_emit_gone(conn, -FI_ECONNRESET);
		tagrv_conn_reset(conn, NULL, false);
		return;
	}
	if (!(bound ? check_answer(conn, rec) : take_answer(conn, rec)))
		return;
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

static void on_stale(struct tagrv_conn *conn,
		     const struct tagrv_wireup_rec *rec)
{
	if (tagrv_conn_is_bound(conn)) {
		tagrv_conn_emit_gone(conn, replaced_status(conn, rec));
		tagrv_conn_reset(conn, NULL, true);
	} else {
		tagrv_conn_retry(conn, -FI_ECONNREFUSED);
	}
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
		tagrv_conn_give_up(conn, -FI_EHOSTUNREACH);
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
		tagrv_conn_emit_gone(conn, 0);
		tagrv_conn_reset(conn, NULL, false);
	} else if (conn->state == TAGRV_CONN_WANTED &&
		   tagrv_conn_holds(conn, chan)) {
		/* It closes, and may be replaced by another incarnation. */
		tagrv_conn_hang_up(conn, chan);
		tagrv_conn_retry(conn, -FI_ECONNREFUSED);
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
	tagrv_conn_start_attempt(conn);
}

void tagrv_conn_dialed(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	assert(conn->dial == TAGRV_CONN_DIALING && chan->dialed);
	tagrv_conn_hold(conn, chan);
	tagrv_conn_ask(conn, chan);
}

void tagrv_conn_dial_failed(struct tagrv_conn *conn, int status)
{
	assert(conn->dial == TAGRV_CONN_DIALING);
	conn->dial = TAGRV_CONN_OFF;
	/* It listened when it called us, so a refusal means that it died. */
	if (conn->state == TAGRV_CONN_BOUND && status == -FI_ECONNREFUSED)
		tagrv_conn_give_up(conn, status);
	else
		tagrv_conn_retry(conn, status);
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
		tagrv_conn_emit_gone(conn, -FI_ECONNRESET);
		tagrv_conn_reset(conn, NULL, false);
		break;
	case TAGRV_CONN_BOUND:
	case TAGRV_CONN_WANTED:
		tagrv_conn_retry(conn, -FI_ECONNREFUSED);
		break;
	default:
		break;
	}
}

void tagrv_conn_timer(struct tagrv_conn *conn)
{
	struct tagrv_chan *chan = conn->chan[TAGRV_CONN_DIALED];

	if (conn->deadline && tagrv_conn_now(conn) >= conn->deadline) {
		tagrv_conn_give_up(conn, conn->why ? conn->why : -FI_ETIMEDOUT);
	} else if (conn->dial == TAGRV_CONN_PAUSE &&
		   tagrv_conn_now(conn) >= conn->step_end) {
		tagrv_conn_start_dial(conn);
	} else if (conn->dial != TAGRV_CONN_OFF && conn->step_end &&
		   tagrv_conn_now(conn) >= conn->step_end) {
		tagrv_conn_stop_dial(conn);
		if (chan)
			tagrv_conn_hang_up(conn, chan);
		tagrv_conn_retry(conn, -FI_ETIMEDOUT);
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
	if (!conn->host->xport_cnt)
		tagrv_conn_fail(conn, -FI_EHOSTUNREACH);
	else
		tagrv_conn_start_dial(conn);
}

void tagrv_conn_drop(struct tagrv_conn *conn, uint32_t epoch)
{
	if (tagrv_conn_is_bound(conn) && conn->epoch == epoch)
		tagrv_conn_reset(conn, NULL, true);
}

void tagrv_conn_close(struct tagrv_conn *conn)
{
	tagrv_conn_reset(conn, NULL, conn->epoch != 0);
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
