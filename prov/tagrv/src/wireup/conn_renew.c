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
 *
 * This file has what begins a renewal, repeats it and gives it up; conn_renewed.c what the
 * peer's records do.
 */
#include "wireup/conn_priv.h"

#include <stdlib.h>

#include "core/log.h"

#define REPEAT		2000	/* ms from a REP to its repetition */
/* ms from a request that is not urgent to the REQ: ports that return at both sides, and
 * their addresses, come one after the other */
#define SETTLE		500

const struct tagrv_conn_renew tagrv_conn_at_rest;

bool tagrv_conn_has_epoch(const struct tagrv_conn *conn, uint32_t epoch)
{
	return epoch && (conn->epoch == epoch || conn->was_epoch == epoch ||
			 (conn->renew->state != TAGRV_CONN_REST &&
			  conn->renew->epoch == epoch));
}

/* -- sending ------------------------------------------------------------- */

static void send_new(struct tagrv_conn *conn, struct tagrv_chan *chan,
		     enum tagrv_wireup_rec_type type, uint8_t reason)
{
	const struct tagrv_conn_renew *renew = conn->renew;
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
	if (conn->renew->state == TAGRV_CONN_ANSWERED)
		send_new(conn, chan, TAGRV_WIREUP_CLOSE, TAGRV_WIREUP_OK);
}

static void await_answer(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	struct tagrv_conn_renew *renew = conn->renew;

	renew->chan = chan;
	renew->at = tagrv_conn_now(conn) +
		    (renew->state == TAGRV_CONN_OFFERED ? TAGRV_CONN_ANSWER_MAX : REPEAT);
	tagrv_conn_set_timer(conn);
}

void tagrv_conn_send_renewed(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	send_new(conn, chan, TAGRV_WIREUP_REP, TAGRV_WIREUP_RENEWAL);
	chan->answered = true;
	await_answer(conn, chan);
}

/* -- begin and end ------------------------------------------------------- */

static bool is_at_rest(const struct tagrv_conn *conn)
{
	return conn->renew == &tagrv_conn_at_rest;
}

bool tagrv_conn_begin_renew(struct tagrv_conn *conn)
{
	struct tagrv_conn_renew *renew;

	if (!is_at_rest(conn))
		return true;
	renew = calloc(1, sizeof(*renew));
	if (renew)
		conn->renew = renew;
	return renew;
}

void tagrv_conn_end_renew(struct tagrv_conn *conn)
{
	if (is_at_rest(conn))
		return;
	tagrv_conn_discard_renewed(conn);
	free(conn->renew);
	conn->renew = (struct tagrv_conn_renew *) &tagrv_conn_at_rest;
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

void tagrv_conn_pause_renewal(struct tagrv_conn *conn)
{
	struct tagrv_conn_renew *renew = conn->renew;

	tagrv_conn_discard_renewed(conn);
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

	if (conn->renew->down) {
		tagrv_conn_give_up(conn, -FI_EHOSTUNREACH);
		return;
	}
	/* An answer that we gave stays. */
	if (conn->renew->state == TAGRV_CONN_OFFERED)
		tagrv_conn_discard_renewed(conn);
	conn->renew->wanted = false;
	conn->renew->deadline = 0;
	conn->renew->fails = 0;
	if (conn->renew->state == TAGRV_CONN_REST)
		conn->renew->at = 0;
	tagrv_conn_emit(conn, &event);
	resume_doubt(conn);
}

/* -- asking ---------------------------------------------------------------- */

static bool make_offer(struct tagrv_conn *conn)
{
	if (tagrv_conn_make_renewed(conn)) {
		tagrv_conn_pause_renewal(conn);
		return false;
	}
	conn->renew->state = TAGRV_CONN_OFFERED;
	return true;
}

bool tagrv_conn_renew_asks(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	struct tagrv_conn_renew *renew = conn->renew;

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
	struct tagrv_conn_renew *renew = conn->renew;
	struct tagrv_chan *chan = conn->chan[TAGRV_CONN_DIALED];

	if (!tagrv_conn_is_renewing(conn)) {
		tagrv_conn_end_renew(conn);
		return;
	}
	if (conn->state != TAGRV_CONN_READY || renew->chan || (renew->state == TAGRV_CONN_REST && renew->at))
		return;
	if (!chan)
		chan = conn->chan[TAGRV_CONN_ACCEPTED];
	if (!chan)
		dial(conn);
	else if (renew->state == TAGRV_CONN_ANSWERED)
		tagrv_conn_send_renewed(conn, chan);
	else if (!tagrv_conn_waits_for_turn(conn))
		(void) tagrv_conn_renew_asks(conn, chan);
}

/* A port is back: the pauses after failures end soon. */
static void hasten(struct tagrv_conn *conn)
{
	struct tagrv_conn_renew *renew = conn->renew;
	uint64_t soon = tagrv_conn_now(conn) + SETTLE;

	renew->fails = 0;
	if (renew->state == TAGRV_CONN_REST && renew->at)
		renew->at = TAGRV_MIN(renew->at, soon);
	if (conn->dial == TAGRV_CONN_PAUSE)
		conn->step_end = TAGRV_MIN(conn->step_end, soon);
	tagrv_conn_set_timer(conn);
}

/* Without memory the engine has its answer at once. */
static void refuse_to_renew(struct tagrv_conn *conn, bool down)
{
	struct tagrv_wireup_event event = { .type = TAGRV_WIREUP_RENEW_FAILED };

	if (down)
		tagrv_conn_give_up(conn, -FI_EHOSTUNREACH);
	else
		tagrv_conn_emit(conn, &event);
	tagrv_conn_settle_claim(conn);
}

void tagrv_conn_renew(struct tagrv_conn *conn, uint32_t epoch, bool down,
		      uint64_t patience)
{
	struct tagrv_conn_renew *renew;

	if (!tagrv_conn_is_bound(conn) || conn->epoch != epoch)
		return;
	if (!tagrv_conn_begin_renew(conn)) {
		refuse_to_renew(conn, down);
		return;
	}
	renew = conn->renew;
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
	struct tagrv_conn_renew *renew = conn->renew;
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
		tagrv_conn_pause_renewal(conn);
	} else {
		renew->chan = NULL;	/* say it again */
	}
}
