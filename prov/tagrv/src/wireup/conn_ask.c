/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Claims: REQs that could harm a connection and prove nothing by themselves.
 *
 * A REQ names a listener as its sender. A connection asks this listener for the
 * proof: it dials the listener, or uses the socket that it dialed before, and
 * sends ASK with the nonce of the REQ. Whoever listens there answers at once,
 * whatever its own state, so that two sides may ask each other at the same time.
 *
 * One claim waits at a time, on the channel on which its REQ came; others are
 * told to come again later (BUSY). While it waits, the connection goes on; if that
 * connects to the same peer process by another socket, the claim needs no proof any
 * more, and its socket is held or hung up. It must not go on waiting then: the peer
 * would take it for the one socket that both need, and hang up each other. A stranger
 * can give up a claim and begin the next one, again and again; so few questions go to
 * a peer that does not answer (a stopped process), or they would fill its socket, and
 * end the connection.
 */
#include "wireup/conn_priv.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"

#define ASK_MAX		2000	/* ms until a claim without an answer is refused */
#define ASKS_MAX	4	/* on one socket that wait for answers */

bool tagrv_conn_dials_to_ask(const struct tagrv_conn *conn)
{
	switch (conn->state) {
	case TAGRV_CONN_WANTED:
		/* It waits for room: a REQ cannot be sent, but the claim may be answered. */
		return conn->claim && !conn->epoch && tagrv_conn_is_crowded(conn, true);
	case TAGRV_CONN_BOUND:
		return tagrv_conn_has_chan(conn);
	case TAGRV_CONN_READY:
		return !tagrv_conn_lacks_chan(conn);
	default:
		return true;
	}
}

/* -- the end of a claim ---------------------------------------------------- */

static void stop_asking(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	if (chan)
		tagrv_conn_hang_up(conn, chan);
	if (conn->dial == TAGRV_CONN_DIALING && tagrv_conn_dials_to_ask(conn)) {
		tagrv_conn_leave_queue(conn);
		conn->host->ops->undial(conn);
		conn->dial = TAGRV_CONN_OFF;
	}
}

/* Moves the claim to *rec. Returns its channel. */
static struct tagrv_chan *take_claim(struct tagrv_conn *conn,
				     struct tagrv_wireup_rec *rec)
{
	struct tagrv_chan *claimer = conn->claim->claimer;
	struct tagrv_chan *asked = conn->claim->ask_chan;

	*rec = conn->claim->rec;
	free(conn->claim);
	conn->claim = NULL;
	conn->host->claims--;
	stop_asking(conn, asked);
	tagrv_conn_set_timer(conn);
	return claimer;
}

void tagrv_conn_refuse_claim(struct tagrv_conn *conn,
			     enum tagrv_wireup_reason reason)
{
	struct tagrv_wireup_rec rec;
	struct tagrv_chan *chan;

	if (!conn->claim)
		return;
	chan = take_claim(conn, &rec);
	tagrv_conn_reject(conn->host, chan, &rec, reason);
	tagrv_conn_hang_up(conn, chan);
}

static void believe_claim(struct tagrv_conn *conn)
{
	struct tagrv_wireup_rec rec;
	struct tagrv_chan *chan = take_claim(conn, &rec);

	tagrv_conn_take_req(conn, chan, &rec);
}

bool tagrv_conn_lost_claim_chan(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	struct tagrv_conn_claim *claim = conn->claim;
	struct tagrv_wireup_rec rec;

	if (!claim)
		return false;
	if (chan == claim->ask_chan) {
		claim->ask_chan = NULL;
		tagrv_conn_forget(conn, chan);
		tagrv_conn_refuse_claim(conn, TAGRV_WIREUP_BUSY);
		return true;
	}
	if (chan == claim->claimer) {
		(void) take_claim(conn, &rec);
		tagrv_conn_forget(conn, chan);
		return true;
	}
	return false;
}

/* -- asking ---------------------------------------------------------------- */

void tagrv_conn_send_ask(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	const struct tagrv_wireup_rec *claim = &conn->claim->rec;
	struct tagrv_wireup_rec ask;

	tagrv_conn_fill_head(conn->host, &ask, TAGRV_WIREUP_ASK, TAGRV_WIREUP_OK);
	memcpy(ask.dst_uuid, claim->src_uuid, TAGRV_UUID_LEN);
	memcpy(ask.dst_nonce, claim->src_nonce, TAGRV_NONCE_LEN);
	ask.dst_epoch = claim->src_epoch;
	chan->asks++;
	conn->host->ops->send(chan, &ask);
}

/* The socket on which the peer can be asked, NULL: it has to be dialed. */
static struct tagrv_chan *find_chan(const struct tagrv_conn *conn)
{
	struct tagrv_chan *chan = conn->chan[TAGRV_CONN_DIALED];

	return chan || !conn->claim ? chan : conn->claim->ask_chan;
}

static bool is_silent(const struct tagrv_conn *conn)
{
	const struct tagrv_chan *chan = find_chan(conn);

	return chan && chan->asks >= ASKS_MAX;
}

static bool must_dial(const struct tagrv_conn *conn)
{
	return !find_chan(conn) && conn->dial != TAGRV_CONN_DIALING;
}

static void ask(struct tagrv_conn *conn)
{
	struct tagrv_chan *chan = find_chan(conn);

	if (must_dial(conn))
		tagrv_conn_start_dial(conn);
	if (chan)
		tagrv_conn_send_ask(conn, chan);
	else if (conn->dial == TAGRV_CONN_DIALING)
		conn->host->ops->hasten(conn);
	tagrv_conn_set_timer(conn);
}

void tagrv_conn_settle_claim(struct tagrv_conn *conn)
{
	if (!conn->claim)
		return;
	if (!tagrv_conn_is_new_link(conn, &conn->claim->rec)) {
		/* We have connected to its link, or to a later one, by another socket. */
		believe_claim(conn);
		return;
	}
	if (conn->state != TAGRV_CONN_IDLE)
		return;
	if (conn->claim->claimer->near)
		believe_claim(conn);
	else if (!conn->claim->ask_chan && conn->dial == TAGRV_CONN_OFF)
		ask(conn);
	else
		tagrv_conn_set_timer(conn);
}

void tagrv_conn_claim(struct tagrv_conn *conn, struct tagrv_chan *chan,
		      const struct tagrv_wireup_rec *rec)
{
	struct tagrv_conn_host *host = conn->host;
	bool dials = must_dial(conn);

	if (conn->claim || host->claims >= host->claims_max || is_silent(conn) ||
	    (dials && !host->ops->may_ask(conn, chan)))
		goto busy;
	conn->claim = malloc(sizeof(*conn->claim));
	if (!conn->claim)
		goto busy;
	host->claims++;
	*conn->claim = (struct tagrv_conn_claim) {
		.claimer = chan,
		.asked = dials,
		.end = tagrv_conn_now(conn) + ASK_MAX,
		.rec = *rec,
	};
	chan->conn = conn;
	ask(conn);
	return;

busy:
	tagrv_conn_reject(host, chan, rec, TAGRV_WIREUP_BUSY);
	tagrv_conn_hang_up(conn, chan);
}

/* -- records --------------------------------------------------------------- */

static bool is_same_nonce(const uint8_t *a, const uint8_t *b)
{
	return !memcmp(a, b, TAGRV_NONCE_LEN);
}

/* The peer may begin again on this socket, which replaces its claim. */
static void on_claimer(struct tagrv_conn *conn, const struct tagrv_wireup_rec *rec)
{
	if (rec->type != TAGRV_WIREUP_REQ ||
	    (rec->reason && rec->reason != TAGRV_WIREUP_LOCAL) ||
	    is_same_nonce(rec->src_nonce, conn->claim->rec.src_nonce))
		return;
	conn->claim->rec = *rec;
	if (is_silent(conn))
		tagrv_conn_refuse_claim(conn, TAGRV_WIREUP_BUSY);
	else
		ask(conn);
}

static void on_answer(struct tagrv_conn *conn, struct tagrv_chan *chan,
		      const struct tagrv_wireup_rec *rec)
{
	char text[TAGRV_ADDR_STRLEN];

	if (chan->asks)
		chan->asks--;
	if (!conn->claim ||
	    !is_same_nonce(rec->src_nonce, conn->claim->rec.src_nonce))
		return;
	if (rec->reason == TAGRV_WIREUP_OK) {
		if (conn->claim->asked)
			conn->host->ops->asked_well(conn, conn->claim->claimer);
		believe_claim(conn);
		return;
	}
	tagrv_info("wireup: refused a request that was sent in the name of %s; "
		   "that endpoint did not send it\n",
		   tagrv_addr_str(&conn->addr, text, sizeof(text)));
	tagrv_conn_refuse_claim(conn, TAGRV_WIREUP_STALE);
}

bool tagrv_conn_claim_record(struct tagrv_conn *conn, struct tagrv_chan *chan,
			     const struct tagrv_wireup_rec *rec)
{
	if (conn->claim && chan == conn->claim->claimer)
		on_claimer(conn, rec);
	else if (rec->type == TAGRV_WIREUP_ANSWER && chan->dialed)
		on_answer(conn, chan, rec);
	else
		return conn->claim && chan == conn->claim->ask_chan;
	return true;
}

bool tagrv_conn_sent_req(const struct tagrv_conn *conn,
			 const struct tagrv_wireup_rec *ask)
{
	return tagrv_conn_is_named(conn, ask) &&
	       !memcmp(conn->host->uuid, ask->dst_uuid, TAGRV_UUID_LEN);
}

void tagrv_conn_answer(const struct tagrv_conn_host *host,
		       struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *ask, bool yes)
{
	tagrv_conn_send_reply(host, chan, ask, TAGRV_WIREUP_ANSWER,
			      yes ? TAGRV_WIREUP_OK : TAGRV_WIREUP_STALE);
}
