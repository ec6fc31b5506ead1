/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which events make devices work, and WAIT.
 *
 * A driver may let such events wait: the machine has not seen them then, so nothing here
 * has to remember them. A peer whose record waits is told so, and has patience from then on:
 * its deadlines are there to find out that nobody answers, and somebody has.
 */
#include "wireup/conn_priv.h"

/* As on_req() in conn_record.c decides: other REQs are repetitions, or become claims. */
static enum tagrv_conn_work work_of_req(const struct tagrv_conn *conn,
					const struct tagrv_chan *chan,
					const struct tagrv_wireup_rec *rec)
{
	if (!conn || conn->state == TAGRV_CONN_IDLE)
		return chan->near ? TAGRV_CONN_RESPOND : TAGRV_CONN_NO_WORK;
	if (rec->reason == TAGRV_WIREUP_RENEWAL)
		return TAGRV_CONN_RESPOND;
	if (!tagrv_conn_is_new_link(conn, rec))
		return TAGRV_CONN_NO_WORK;
	return tagrv_conn_holds(conn, chan) || tagrv_conn_is_named(conn, rec) ?
	       TAGRV_CONN_RESPOND : TAGRV_CONN_NO_WORK;
}

static enum tagrv_conn_work work_of_rep(const struct tagrv_conn *conn,
					const struct tagrv_wireup_rec *rec)
{
	if (tagrv_conn_is_bound(conn))
		return rec->reason == TAGRV_WIREUP_RENEWAL ?
		       TAGRV_CONN_FINISH : TAGRV_CONN_NO_WORK;
	return tagrv_conn_is_named(conn, rec) ? TAGRV_CONN_FINISH :
						TAGRV_CONN_NO_WORK;
}

/* A claim that is confirmed is handled like its REQ. */
static enum tagrv_conn_work work_of_answer(const struct tagrv_conn *conn,
					   const struct tagrv_wireup_rec *rec)
{
	return conn->claim && rec->reason == TAGRV_WIREUP_OK &&
	       !memcmp(rec->src_nonce, conn->claim->rec.src_nonce, TAGRV_NONCE_LEN) ?
	       TAGRV_CONN_RESPOND : TAGRV_CONN_NO_WORK;
}

/* A renewal that has had to dial makes its offer now. */
static bool renews(const struct tagrv_conn *conn)
{
	return conn->state == TAGRV_CONN_READY && tagrv_conn_is_renewing(conn) &&
	       conn->renew->state == TAGRV_CONN_REST && !tagrv_conn_dials_to_ask(conn);
}

static enum tagrv_conn_work work_of_dialed(const struct tagrv_conn *conn)
{
	if (renews(conn))
		return TAGRV_CONN_OFFER;
	if (conn->epoch || conn->state != TAGRV_CONN_WANTED ||
	    tagrv_conn_dials_to_ask(conn))
		return TAGRV_CONN_NO_WORK;
	/* A question goes with the REQ, and its peer waits for us. */
	return conn->claim ? TAGRV_CONN_FINISH : TAGRV_CONN_OFFER;
}

enum tagrv_conn_work tagrv_conn_work_of(const struct tagrv_conn *conn,
					const struct tagrv_chan *chan,
					const struct tagrv_wireup_rec *rec)
{
	if (!rec)
		return work_of_dialed(conn);
	if (rec->type == TAGRV_WIREUP_REQ)
		return work_of_req(conn, chan, rec);
	if (rec->type == TAGRV_WIREUP_REP)
		return work_of_rep(conn, rec);
	if (rec->type == TAGRV_WIREUP_ANSWER)
		return work_of_answer(conn, rec);
	return TAGRV_CONN_NO_WORK;
}

/* -- turns of our offers ------------------------------------------------------------- */

bool tagrv_conn_waits_for_turn(struct tagrv_conn *conn)
{
	const struct tagrv_conn_ops *ops = conn->host->ops;
	struct tagrv_conn_renew *renew = conn->renew;	/* of one that is wanted */

	if (renew->state != TAGRV_CONN_REST || renew->turn)
		return false;
	if (!renew->queued)
		renew->queued = ops->postpone && ops->postpone(conn);
	return renew->queued;
}

static bool is_at_rest(const struct tagrv_conn *conn)
{
	return conn->renew == &tagrv_conn_at_rest;
}

void tagrv_conn_miss_turn(struct tagrv_conn *conn)
{
	if (!is_at_rest(conn))
		conn->renew->queued = false;
}

void tagrv_conn_offer(struct tagrv_conn *conn)
{
	tagrv_conn_miss_turn(conn);
	if (!is_at_rest(conn))
		conn->renew->turn = true;
	tagrv_conn_renew_go(conn);
	/* It may have ended meanwhile. */
	if (!is_at_rest(conn))
		conn->renew->turn = false;
	tagrv_conn_settle_claim(conn);
}

/* -- which devices ----------------------------------------------------------------- */

static bool is_local(const struct tagrv_xport *xport)
{
	return xport->attr.caps & TAGRV_XPORT_LOCAL;
}

/* The record names a link of this transport. */
static bool has_link(const struct tagrv_wireup_rec *rec, const struct tagrv_xport *xport)
{
	for (size_t i = 0; i < rec->link_cnt; i++)
		if (rec->links[i].wire_id == xport->ops->wire_id)
			return true;
	return false;
}

/* A record of the peer whose links are to be bound; NULL: the socket is dialed. */
static bool needs_device(const struct tagrv_conn *conn, const struct tagrv_conn_host *host,
			 const struct tagrv_chan *chan, const struct tagrv_wireup_rec *rec)
{
	bool local = false, device = false;

	for (size_t i = 0; i < host->xport_cnt; i++) {
		const struct tagrv_xport *xport = host->xports[i];

		if ((conn && conn->avoid & 1u << i) || (rec && !has_link(rec, xport)))
			continue;
		local |= is_local(xport);
		device |= !is_local(xport);
	}
	/* To this host the first REQ offers local transports alone. */
	return device && !(local && !rec && chan->local);
}

bool tagrv_conn_needs_device(const struct tagrv_conn_host *host, const struct tagrv_conn *conn,
			     const struct tagrv_chan *chan, const struct tagrv_wireup_rec *rec)
{
	if (rec && rec->type == TAGRV_WIREUP_ANSWER)
		rec = conn && conn->claim ? &conn->claim->rec : NULL;
	return needs_device(conn, host, chan, rec);
}

/* -- WAIT -------------------------------------------------------------------------- */

struct tagrv_chan *tagrv_conn_claim_waits(struct tagrv_conn *conn,
					  const struct tagrv_wireup_rec *answer,
					  const struct tagrv_wireup_rec **claim)
{
	if (!conn->claim || memcmp(answer->src_nonce, conn->claim->rec.src_nonce,
				   TAGRV_NONCE_LEN))
		return NULL;
	conn->claim->end = tagrv_conn_now(conn) + TAGRV_CONN_ANSWER_MAX;
	tagrv_conn_set_timer(conn);
	*claim = &conn->claim->rec;
	return conn->claim->claimer;
}

void tagrv_conn_tell_wait(const struct tagrv_conn_host *host,
			  struct tagrv_chan *chan,
			  const struct tagrv_wireup_rec *rec)
{
	tagrv_conn_send_reply(host, chan, rec, TAGRV_WIREUP_WAIT, TAGRV_WIREUP_OK);
}

/* The peer is there: our attempts, and the connection, have their whole time again. */
static void have_patience(struct tagrv_conn *conn, const struct tagrv_chan *chan)
{
	if (conn->deadline)
		conn->deadline = tagrv_conn_now(conn) + conn->host->timeout;
	if (conn->dial == TAGRV_CONN_ASKED && chan->dialed)
		tagrv_conn_start_attempt(conn);
}

void tagrv_conn_take_wait(struct tagrv_conn *conn, struct tagrv_chan *chan,
			  const struct tagrv_wireup_rec *rec)
{
	bool renews = tagrv_conn_names_new(conn, rec);

	if (!tagrv_conn_holds(conn, chan))
		return;
	/* An answer that we gave is repeated all the same. */
	if (renews && conn->renew->state == TAGRV_CONN_OFFERED &&
	    conn->renew->chan == chan)
		conn->renew->at = tagrv_conn_now(conn) + TAGRV_CONN_ANSWER_MAX;
	if (renews || tagrv_conn_is_named(conn, rec))
		have_patience(conn, chan);
	tagrv_conn_set_timer(conn);
}
