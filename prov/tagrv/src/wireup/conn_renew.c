/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Renewal: a new link to the same peer process takes the place of the one in use.
 *
 *      asker                                      the other side
 *        makes link a'   -- REQ(a', names b) -->    makes link b', binds it to a'
 *        binds a' to b'  <- REP(b', a') --------
 *        UP              -- RTU(a', b') ------->    UP
 *
 * The connection stays READY by the old pair (a, b) until UP. Rules that keep both
 * sides consistent:
 *
 * - Only a READY side asks, and names the link that it is bound to. A link is bound
 *   once, so both sides mean the same pair.
 * - The side that answers goes over to the new pair only when it knows that the asker
 *   has: by any record but WAIT that names the new pair. Until then it repeats the REP, and
 *   dials for it if it has to.
 * - The asker takes each offer back (by a newer one, or by none) only while it is not
 *   bound: it answers a REP to such an offer with REJ(STALE), and the other side drops
 *   its new link.
 * - If two REQs cross, the one of the smaller uuid counts.
 */
#include "wireup/conn_priv.h"

#include <stdlib.h>

#include "core/log.h"

#define REPEAT		2000	/* ms from a REP to its repetition */
/* ms from a request that is not urgent to the REQ: ports that return at both sides, and
 * their addresses, come one after the other */
#define SETTLE		500

static bool is_newer(uint32_t a, uint32_t b)
{
	return (int32_t) (a - b) > 0;
}

static bool is_of_peer(const struct tagrv_conn *conn,
		       const struct tagrv_wireup_rec *rec)
{
	return !memcmp(rec->src_uuid, conn->uuid, TAGRV_UUID_LEN);
}

static bool is_link(uint32_t epoch, const uint8_t *nonce, uint32_t epoch2,
		    const uint8_t *nonce2)
{
	return epoch && epoch == epoch2 &&
	       !memcmp(nonce, nonce2, TAGRV_NONCE_LEN);
}

/* The record is from the peer's link that our new one is bound to. */
static bool is_from_new(const struct tagrv_conn *conn,
			const struct tagrv_wireup_rec *rec)
{
	return conn->renew.state == TAGRV_CONN_ANSWERED &&
	       is_of_peer(conn, rec) &&
	       is_link(conn->renew.peer_epoch, conn->renew.peer_nonce,
		       rec->src_epoch, rec->src_nonce);
}

bool tagrv_conn_has_epoch(const struct tagrv_conn *conn, uint32_t epoch)
{
	return epoch && (conn->epoch == epoch || conn->was_epoch == epoch ||
			 (conn->renew.state != TAGRV_CONN_REST &&
			  conn->renew.epoch == epoch));
}

/* -- sending ------------------------------------------------------------- */

static void send_new(struct tagrv_conn *conn, struct tagrv_chan *chan,
		     enum tagrv_wireup_rec_type type, uint8_t reason)
{
	const struct tagrv_conn_renew *renew = &conn->renew;
	bool answered = renew->state == TAGRV_CONN_ANSWERED;
	struct tagrv_wireup_rec rec;

	tagrv_conn_fill_head(conn->host, &rec, type, reason);
	rec.src_epoch = renew->epoch;
	memcpy(rec.src_nonce, renew->nonce, TAGRV_NONCE_LEN);
	memcpy(rec.dst_uuid, conn->uuid, TAGRV_UUID_LEN);
	rec.dst_epoch = answered ? renew->peer_epoch : conn->peer_epoch;
	memcpy(rec.dst_nonce, answered ? renew->peer_nonce : conn->peer_nonce,
	       TAGRV_NONCE_LEN);
	if (type != TAGRV_WIREUP_CLOSE) {
		rec.max_packet = UINT32_MAX;
		tagrv_conn_put_blob(&rec, renew->blob);
	}
	conn->host->ops->send(chan, &rec);
}

void tagrv_conn_renew_close(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	if (conn->renew.state == TAGRV_CONN_ANSWERED)
		send_new(conn, chan, TAGRV_WIREUP_CLOSE, TAGRV_WIREUP_OK);
}

static void await_answer(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	struct tagrv_conn_renew *renew = &conn->renew;

	renew->chan = chan;
	renew->at = tagrv_conn_now(conn) +
		    (renew->state == TAGRV_CONN_OFFERED ? TAGRV_CONN_ANSWER_MAX : REPEAT);
	tagrv_conn_set_timer(conn);
}

static void send_rep(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	send_new(conn, chan, TAGRV_WIREUP_REP, TAGRV_WIREUP_RENEWAL);
	chan->answered = true;
	await_answer(conn, chan);
}

/* -- ends ---------------------------------------------------------------- */

static void discard_new(struct tagrv_conn *conn)
{
	tagrv_conn_discard_renewed(conn);
	conn->renew.state = TAGRV_CONN_REST;
	conn->renew.epoch = 0;
	conn->renew.chan = NULL;
	conn->renew.at = 0;
}

/* A doubt that the renewal was to clear up, too, is looked into. */
static void resume_doubt(struct tagrv_conn *conn)
{
	if (tagrv_conn_is_doubted(conn) && conn->dial == TAGRV_CONN_OFF)
		tagrv_conn_retry(conn, -FI_ETIMEDOUT);
	else if (!tagrv_conn_lacks_chan(conn) && !tagrv_conn_has_chan(conn))
		tagrv_conn_stop_dial(conn);
	tagrv_conn_set_timer(conn);
}

/* This attempt brought nothing: another one follows, with a link made then. */
static void pause_renewal(struct tagrv_conn *conn)
{
	struct tagrv_conn_renew *renew = &conn->renew;

	discard_new(conn);
	if (!renew->wanted) {
		resume_doubt(conn);
		return;
	}
	renew->at = tagrv_conn_now(conn) + tagrv_conn_pause(conn, renew->fails++);
	tagrv_conn_set_timer(conn);
}

/* The engine has waited long enough. */
static void give_up(struct tagrv_conn *conn)
{
	struct tagrv_wireup_event event = { .type = TAGRV_WIREUP_RENEW_FAILED };

	if (conn->renew.down) {
		tagrv_conn_give_up(conn, -FI_EHOSTUNREACH);
		return;
	}
	/* An answer that we gave stays. */
	if (conn->renew.state == TAGRV_CONN_OFFERED)
		discard_new(conn);
	conn->renew.wanted = false;
	conn->renew.deadline = 0;
	conn->renew.fails = 0;
	if (conn->renew.state == TAGRV_CONN_REST)
		conn->renew.at = 0;
	tagrv_conn_emit(conn, &event);
	resume_doubt(conn);
}

/* Both sides are bound by the new pair of links: it is the connection from here on. */
static void go_over(struct tagrv_conn *conn)
{
	const struct tagrv_conn_renew renew = conn->renew;
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.resumes = conn->epoch,
		.sendable = true,
		.link = conn->links[conn->chosen],
		.max_packet = renew.max_packet,
	};

	conn->links[conn->chosen] = NULL;
	free(conn->blobs[conn->chosen]);
	conn->blobs[conn->chosen] = renew.blob;
	conn->was_epoch = conn->epoch;
	conn->epoch = renew.epoch;
	memcpy(conn->nonce, renew.nonce, TAGRV_NONCE_LEN);
	conn->peer_epoch = renew.peer_epoch;
	memcpy(conn->peer_nonce, renew.peer_nonce, TAGRV_NONCE_LEN);
	conn->renew = (struct tagrv_conn_renew) { .state = TAGRV_CONN_REST };
	if (conn->dial == TAGRV_CONN_ASKED)
		conn->dial = TAGRV_CONN_OFF;	/* a REJ of that REQ is late */
	tagrv_conn_emit(conn, &event);
	tagrv_conn_become_ready(conn);
}

/* -- asking ---------------------------------------------------------------- */

static bool make_offer(struct tagrv_conn *conn)
{
	if (tagrv_conn_make_renewed(conn)) {
		pause_renewal(conn);
		return false;
	}
	conn->renew.state = TAGRV_CONN_OFFERED;
	return true;
}

bool tagrv_conn_renew_asks(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	struct tagrv_conn_renew *renew = &conn->renew;

	if (conn->state != TAGRV_CONN_READY || !tagrv_conn_is_renewing(conn))
		return false;
	if (renew->state == TAGRV_CONN_REST && !make_offer(conn))
		return false;
	send_new(conn, chan, TAGRV_WIREUP_REQ, TAGRV_WIREUP_RENEWAL);
	await_answer(conn, chan);
	return true;
}

static void dial(struct tagrv_conn *conn)
{
	if (conn->dial == TAGRV_CONN_OFF)
		tagrv_conn_start_dial(conn);
	else if (conn->dial == TAGRV_CONN_DIALING && conn->claim &&
		 !conn->step_end)	/* it was to ask only */
		tagrv_conn_start_attempt(conn);
}

void tagrv_conn_renew_go(struct tagrv_conn *conn)
{
	struct tagrv_conn_renew *renew = &conn->renew;
	struct tagrv_chan *chan = conn->chan[TAGRV_CONN_DIALED];

	if (conn->state != TAGRV_CONN_READY || !tagrv_conn_is_renewing(conn) ||
	    renew->chan || (renew->state == TAGRV_CONN_REST && renew->at))
		return;
	if (!chan)
		chan = conn->chan[TAGRV_CONN_ACCEPTED];
	if (!chan)
		dial(conn);
	else if (renew->state == TAGRV_CONN_ANSWERED)
		send_rep(conn, chan);
	else
		(void) tagrv_conn_renew_asks(conn, chan);
}

/* A port is back: the pauses after failures end soon. */
static void hasten(struct tagrv_conn *conn)
{
	struct tagrv_conn_renew *renew = &conn->renew;
	uint64_t soon = tagrv_conn_now(conn) + SETTLE;

	renew->fails = 0;
	if (renew->state == TAGRV_CONN_REST && renew->at)
		renew->at = TAGRV_MIN(renew->at, soon);
	if (conn->dial == TAGRV_CONN_PAUSE)
		conn->step_end = TAGRV_MIN(conn->step_end, soon);
	tagrv_conn_set_timer(conn);
}

void tagrv_conn_renew(struct tagrv_conn *conn, uint32_t epoch, bool down,
		      uint64_t patience)
{
	struct tagrv_conn_renew *renew = &conn->renew;

	if (!tagrv_conn_is_bound(conn) || conn->epoch != epoch)
		return;
	/* What was asked for while paths were left is urgent once none is. */
	if (renew->wanted && (renew->down || !down)) {
		hasten(conn);
		return;
	}
	if (!down && renew->state == TAGRV_CONN_REST)
		renew->at = tagrv_conn_now(conn) + SETTLE;
	else if (renew->state == TAGRV_CONN_REST)
		renew->at = 0;
	renew->wanted = true;
	renew->down = down;
	renew->deadline = tagrv_conn_now(conn) + patience;
	if (down && conn->state == TAGRV_CONN_READY)
		conn->deadline = 0;
	tagrv_conn_set_timer(conn);
	tagrv_conn_renew_go(conn);
}

/* -- time ---------------------------------------------------------------- */

/* Channels on which nothing is heard may be as dead as the paths. */
static void hang_up_all(struct tagrv_conn *conn)
{
	for (int i = TAGRV_CONN_ACCEPTED; i <= TAGRV_CONN_DIALED; i++)
		if (conn->chan[i])
			tagrv_conn_hang_up(conn, conn->chan[i]);
}

void tagrv_conn_renew_timer(struct tagrv_conn *conn)
{
	struct tagrv_conn_renew *renew = &conn->renew;
	uint64_t now = tagrv_conn_now(conn);

	if (renew->deadline && now >= renew->deadline) {
		give_up(conn);
		return;
	}
	if (!renew->at || now < renew->at)
		return;
	renew->at = 0;
	if (renew->state == TAGRV_CONN_OFFERED) {
		if (renew->down)
			hang_up_all(conn);
		pause_renewal(conn);
	} else {
		renew->chan = NULL;	/* say it again */
	}
}

/* -- records ------------------------------------------------------------- */

static void hang_up_other(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	if (!tagrv_conn_holds(conn, chan))
		tagrv_conn_hang_up(conn, chan);
}

/* The peer bound its new link to the one that we offered. False: ours cannot be bound. */
static bool bind_offer(struct tagrv_conn *conn, const struct tagrv_wireup_rec *rec)
{
	struct tagrv_conn_renew *renew = &conn->renew;
	const struct tagrv_wireup_blob *blob;

	if (tagrv_conn_bind_renewed(conn, rec, &blob)) {
		pause_renewal(conn);
		return false;
	}
	renew->peer_epoch = rec->src_epoch;
	memcpy(renew->peer_nonce, rec->src_nonce, TAGRV_NONCE_LEN);
	renew->max_packet = blob->max_packet;
	go_over(conn);
	return true;
}

/* Makes and binds a link for the peer's REQ. */
static int bind_answer(struct tagrv_conn *conn, const struct tagrv_wireup_rec *rec)
{
	struct tagrv_conn_renew *renew = &conn->renew;
	const struct tagrv_wireup_blob *blob;
	int ret;

	discard_new(conn);
	ret = tagrv_conn_make_renewed(conn);
	if (!ret)
		ret = tagrv_conn_bind_renewed(conn, rec, &blob);
	if (ret) {
		pause_renewal(conn);
		return ret;
	}
	renew->state = TAGRV_CONN_ANSWERED;
	renew->peer_epoch = rec->src_epoch;
	memcpy(renew->peer_nonce, rec->src_nonce, TAGRV_NONCE_LEN);
	renew->max_packet = blob->max_packet;
	return 0;
}

/* The peer lives and is READY, so it has our REP or RTU; no other socket is needed. */
static void keep(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	tagrv_conn_hold(conn, chan);
	tagrv_conn_become_ready(conn);
}

static void answer(struct tagrv_conn *conn, struct tagrv_chan *chan,
		   const struct tagrv_wireup_rec *rec)
{
	bool ours = conn->renew.state == TAGRV_CONN_OFFERED && conn->renew.chan &&
		    memcmp(conn->host->uuid, conn->uuid, TAGRV_UUID_LEN) < 0;
	int ret;

	keep(conn, chan);
	if (ours)
		return;
	ret = bind_answer(conn, rec);
	if (!ret) {
		send_rep(conn, chan);
		return;
	}
	tagrv_conn_reject(conn->host, chan, rec, tagrv_conn_is_transient(ret) ?
			  TAGRV_WIREUP_BUSY : TAGRV_WIREUP_TRANSPORT);
}

static void refuse(struct tagrv_conn *conn, struct tagrv_chan *chan,
		   const struct tagrv_wireup_rec *rec)
{
	tagrv_conn_reject(conn->host, chan, rec, TAGRV_WIREUP_STALE);
	hang_up_other(conn, chan);
}

/* The peer answered a REQ of ours by asking on a new socket: it lost the first one. */
static void on_asked_back(struct tagrv_conn *conn, struct tagrv_chan *chan,
			  const struct tagrv_wireup_rec *rec)
{
	keep(conn, chan);
	if (!bind_offer(conn, rec)) {
		tagrv_conn_reject(conn->host, chan, rec, TAGRV_WIREUP_STALE);
		return;
	}
	tagrv_conn_send_rec(conn, chan, TAGRV_WIREUP_REP, TAGRV_WIREUP_OK);
	chan->answered = true;
	tagrv_conn_hang_up_extra(conn);
}

/* False: a repetition of what was done before; an ordinary answer is right. */
static bool on_req(struct tagrv_conn *conn, struct tagrv_chan *chan,
		   const struct tagrv_wireup_rec *rec)
{
	if (!is_of_peer(conn, rec)) {
		refuse(conn, chan, rec);
	} else if (is_link(conn->peer_epoch, conn->peer_nonce, rec->src_epoch,
			   rec->src_nonce)) {
		return false;
	} else if (!is_newer(rec->src_epoch, conn->peer_epoch)) {
		hang_up_other(conn, chan);
	} else if (tagrv_conn_names_new(conn, rec) &&
		   conn->renew.state == TAGRV_CONN_OFFERED) {
		on_asked_back(conn, chan, rec);
	} else if (tagrv_conn_names_new(conn, rec)) {
		/* The peer has gone over, and wants another link already. */
		go_over(conn);
		answer(conn, chan, rec);
	} else if (is_from_new(conn, rec)) {
		keep(conn, chan);
		send_rep(conn, chan);
	} else if (!tagrv_conn_is_named(conn, rec)) {
		refuse(conn, chan, rec);
	} else if (conn->renew.state == TAGRV_CONN_ANSWERED &&
		   !is_newer(rec->src_epoch, conn->renew.peer_epoch)) {
		hang_up_other(conn, chan);
	} else {
		answer(conn, chan, rec);
	}
	return true;
}

/* False: about the pair in use. */
static bool on_rep(struct tagrv_conn *conn, struct tagrv_chan *chan,
		   const struct tagrv_wireup_rec *rec)
{
	if (!is_of_peer(conn, rec) || tagrv_conn_is_named(conn, rec))
		return false;
	if (!is_newer(rec->src_epoch, conn->peer_epoch))
		return true;
	if (!tagrv_conn_names_new(conn, rec) || conn->renew.state != TAGRV_CONN_OFFERED ||
	    !bind_offer(conn, rec)) {
		/* Of an offer that was taken back. */
		tagrv_conn_reject(conn->host, chan, rec, TAGRV_WIREUP_STALE);
		return true;
	}
	tagrv_conn_send_rec(conn, chan, TAGRV_WIREUP_RTU, TAGRV_WIREUP_OK);
	chan->answered = true;
	tagrv_conn_hang_up_extra(conn);
	return true;
}

static void on_rej(struct tagrv_conn *conn, struct tagrv_chan *chan,
		   const struct tagrv_wireup_rec *rec)
{
	if (!tagrv_conn_holds(conn, chan))
		return;
	if (chan->dialed && conn->dial == TAGRV_CONN_ASKED)
		tagrv_conn_hang_up(conn, chan);
	if (conn->renew.state == TAGRV_CONN_OFFERED &&
	    rec->reason == TAGRV_WIREUP_STALE) {
		tagrv_conn_emit_gone(conn, -FI_ECONNRESET);
		tagrv_conn_reset(conn, NULL, true);
		return;
	}
	pause_renewal(conn);
}

bool tagrv_conn_renew_record(struct tagrv_conn *conn, struct tagrv_chan *chan,
			     const struct tagrv_wireup_rec *rec)
{
	bool renews = rec->reason == TAGRV_WIREUP_RENEWAL;

	if (rec->type == TAGRV_WIREUP_REJ) {
		if (!tagrv_conn_names_new(conn, rec))
			return false;
		on_rej(conn, chan, rec);
		return true;
	}
	if (!tagrv_conn_is_bound(conn)) {
		if (renews && rec->type == TAGRV_WIREUP_REQ)
			refuse(conn, chan, rec);
		return renews;
	}
	/* A WAIT names both links as well, but the peer's is not bound yet. */
	if (rec->type != TAGRV_WIREUP_WAIT && is_from_new(conn, rec) &&
	    tagrv_conn_names_new(conn, rec))
		go_over(conn);
	if (renews && rec->type == TAGRV_WIREUP_REQ)
		return on_req(conn, chan, rec);
	return renews && rec->type == TAGRV_WIREUP_REP && on_rep(conn, chan, rec);
}
