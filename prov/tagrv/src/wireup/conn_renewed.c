/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Renewal, drawn in conn_renew.c: what the peer's records do, and how both sides go over to
 * the new pair of links.
 */
#include "wireup/conn_priv.h"

#include <stdlib.h>

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
	return conn->renew->state == TAGRV_CONN_ANSWERED &&
	       is_of_peer(conn, rec) &&
	       is_link(conn->renew->peer_epoch, conn->renew->peer_nonce,
		       rec->src_epoch, rec->src_nonce);
}

/* Both sides are bound by the new pair of links: it is the connection from here on. */
static void go_over(struct tagrv_conn *conn)
{
	struct tagrv_conn_renew *renew = conn->renew;
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.resumes = conn->epoch,
		.sendable = true,
		.link = renew->link,
		.max_packet = renew->max_packet,
	};

	free(conn->blob);
	conn->blob = renew->blob;
	renew->blob = NULL;
	renew->link = NULL;
	conn->was_epoch = conn->epoch;
	conn->epoch = renew->epoch;
	memcpy(conn->nonce, renew->nonce, TAGRV_NONCE_LEN);
	conn->peer_epoch = renew->peer_epoch;
	memcpy(conn->peer_nonce, renew->peer_nonce, TAGRV_NONCE_LEN);
	tagrv_conn_end_renew(conn);
	if (conn->dial == TAGRV_CONN_ASKED)
		conn->dial = TAGRV_CONN_OFF;	/* a REJ of that REQ is late */
	tagrv_conn_emit(conn, &event);
	tagrv_conn_become_ready(conn);
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
	struct tagrv_conn_renew *renew = conn->renew;
	const struct tagrv_wireup_blob *blob;

	if (tagrv_conn_bind_renewed(conn, rec, &blob)) {
		tagrv_conn_pause_renewal(conn);
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
	struct tagrv_conn_renew *renew;
	const struct tagrv_wireup_blob *blob;
	int ret;

	if (!tagrv_conn_begin_renew(conn))
		return -FI_ENOMEM;
	renew = conn->renew;
	tagrv_conn_discard_renewed(conn);
	ret = tagrv_conn_make_renewed(conn);
	if (!ret)
		ret = tagrv_conn_bind_renewed(conn, rec, &blob);
	if (ret) {
		tagrv_conn_pause_renewal(conn);
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
	bool ours = conn->renew->state == TAGRV_CONN_OFFERED && conn->renew->chan &&
		    memcmp(conn->host->uuid, conn->uuid, TAGRV_UUID_LEN) < 0;
	int ret;

	keep(conn, chan);
	if (ours)
		return;
	ret = bind_answer(conn, rec);
	if (!ret) {
		tagrv_conn_send_renewed(conn, chan);
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
		   conn->renew->state == TAGRV_CONN_OFFERED) {
		on_asked_back(conn, chan, rec);
	} else if (tagrv_conn_names_new(conn, rec)) {
		/* The peer has gone over, and wants another link already. */
		go_over(conn);
		answer(conn, chan, rec);
	} else if (is_from_new(conn, rec)) {
		keep(conn, chan);
		tagrv_conn_send_renewed(conn, chan);
	} else if (!tagrv_conn_is_named(conn, rec)) {
		refuse(conn, chan, rec);
	} else if (conn->renew->state == TAGRV_CONN_ANSWERED &&
		   !is_newer(rec->src_epoch, conn->renew->peer_epoch)) {
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
	if (!tagrv_conn_names_new(conn, rec) || conn->renew->state != TAGRV_CONN_OFFERED ||
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
	if (conn->renew->state == TAGRV_CONN_OFFERED &&
	    rec->reason == TAGRV_WIREUP_STALE) {
		tagrv_conn_emit_gone(conn, -FI_ECONNRESET);
		tagrv_conn_reset(conn, NULL, true);
		return;
	}
	tagrv_conn_pause_renewal(conn);
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
