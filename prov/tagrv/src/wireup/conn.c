/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection state machine: its events. conn.h has the picture.
 *
 * A record goes to the claim that waits for it (conn_ask.c), else to the renewal
 * (conn_renew.c), else to the handshake (conn_record.c). What the sockets, the timer
 * and the engine tell is handled here. The end of a connection is in conn_end.c.
 */
#include "wireup/conn_priv.h"

#include <rdma/fi_errno.h>
#include <string.h>

/* -- states ----------------------------------------------------------------- */

/*
 * A READY connection needs one channel: the one dialed by the smaller uuid stays,
 * once we have answered on it.
 */
void tagrv_conn_hang_up_extra(struct tagrv_conn *conn)
{
	int keep = memcmp(conn->host->uuid, conn->uuid, TAGRV_UUID_LEN) < 0 ?
		   TAGRV_CONN_DIALED : TAGRV_CONN_ACCEPTED;

	if (conn->state == TAGRV_CONN_READY &&
	    conn->chan[TAGRV_CONN_ACCEPTED] && conn->chan[TAGRV_CONN_DIALED] &&
	    conn->chan[keep]->answered)
		tagrv_conn_hang_up(conn, conn->chan[!keep]);
}

/* After each event: what waited for it goes on. */
static void settle(struct tagrv_conn *conn)
{
	tagrv_conn_settle_claim(conn);
	tagrv_conn_renew_go(conn);
}

void tagrv_conn_become_ready(struct tagrv_conn *conn)
{
	struct tagrv_wireup_event event = { .type = TAGRV_WIREUP_SENDABLE };

	if (conn->state == TAGRV_CONN_BOUND) {
		conn->state = TAGRV_CONN_READY;
		tagrv_conn_emit(conn, &event);
	}
	tagrv_conn_stop_dial(conn);
	tagrv_conn_note_socket(conn);
	conn->deadline = 0;
	conn->step_end = 0;
	conn->fails = 0;
	tagrv_conn_set_timer(conn);
}

/* -- records, sockets and time ------------------------------------------- */

void tagrv_conn_record(struct tagrv_conn *conn, struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *rec)
{
	if (!tagrv_conn_claim_record(conn, chan, rec) &&
	    !tagrv_conn_renew_record(conn, chan, rec))
		tagrv_conn_take_record(conn, chan, rec);
	settle(conn);
}

void tagrv_conn_dialing(struct tagrv_conn *conn)
{
	assert(conn->dial == TAGRV_CONN_DIALING);
	tagrv_conn_leave_queue(conn);
	if (!tagrv_conn_dials_to_ask(conn))
		tagrv_conn_start_attempt(conn);
}

void tagrv_conn_dialed(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	assert(conn->dial == TAGRV_CONN_DIALING && chan->dialed);
	tagrv_conn_leave_queue(conn);
	if (tagrv_conn_dials_to_ask(conn)) {
		assert(conn->claim);
		conn->dial = TAGRV_CONN_OFF;
		conn->claim->ask_chan = chan;
		chan->conn = conn;
		if (conn->state == TAGRV_CONN_WANTED)
			tagrv_conn_await_room(conn);
	} else {
		if (!conn->step_end)
			tagrv_conn_start_attempt(conn);
		tagrv_conn_hold(conn, chan);
		tagrv_conn_send_req(conn, chan);
	}
	if (conn->claim && chan->conn == conn)
		tagrv_conn_send_ask(conn, chan);
	settle(conn);
}

void tagrv_conn_dial_failed(struct tagrv_conn *conn, int status)
{
	assert(conn->dial == TAGRV_CONN_DIALING);
	tagrv_conn_leave_queue(conn);
	conn->dial = TAGRV_CONN_OFF;
	tagrv_conn_refuse_claim(conn, status == -FI_ECONNREFUSED ||
				status == -FI_EACCES ? TAGRV_WIREUP_STALE :
						       TAGRV_WIREUP_BUSY);
	if (tagrv_conn_dials_to_ask(conn)) {
		tagrv_conn_set_timer(conn);
		return;
	}
	/*
	 * Another job or another release has this address, and will not go away. A
	 * bound peer had a listener when it sent its record: refused means dead.
	 */
	if (status == -FI_EACCES || status == -FI_ENOPROTOOPT ||
	    (tagrv_conn_is_bound(conn) && status == -FI_ECONNREFUSED))
		tagrv_conn_give_up(conn, status);
	else
		/* To the user, whoever breaks each socket is no peer. */
		tagrv_conn_retry(conn, status == -FI_ECONNRESET ?
				 -FI_ECONNREFUSED : status);
	settle(conn);
}

static void lose_chan(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	bool held = tagrv_conn_holds(conn, chan);

	tagrv_conn_forget(conn, chan);
	if (!held)
		return;
	/* While WANTED, the peer waits for a REQ on the other channel, too. */
	if (tagrv_conn_has_chan(conn) && conn->state != TAGRV_CONN_WANTED)
		return;
	switch (conn->state) {
	case TAGRV_CONN_READY:
		if (!tagrv_conn_lacks_chan(conn))
			break;
		/* The listener of a dead process refuses at once. */
		if (conn->dial == TAGRV_CONN_OFF)
			tagrv_conn_start_dial(conn);
		else if (!conn->step_end)	/* it was to ask only */
			tagrv_conn_start_attempt(conn);
		break;
	case TAGRV_CONN_BOUND:
	case TAGRV_CONN_WANTED:
		tagrv_conn_retry(conn, -FI_ECONNREFUSED);
		break;
	default:
		break;
	}
}

void tagrv_conn_closed(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	if (!tagrv_conn_lost_claim_chan(conn, chan))
		lose_chan(conn, chan);
	settle(conn);
}

/* A socket is of no use as long as no link can be made. */
static void dial_if_room(struct tagrv_conn *conn)
{
	if (conn->state == TAGRV_CONN_WANTED && !conn->epoch &&
	    tagrv_conn_is_crowded(conn, true))
		tagrv_conn_await_room(conn);
	else
		tagrv_conn_start_dial(conn);
}

static void on_timer(struct tagrv_conn *conn)
{
	struct tagrv_chan *chan = conn->chan[TAGRV_CONN_DIALED];

	if (tagrv_conn_is_queued(conn)) {
		tagrv_conn_set_timer(conn);
	} else if (conn->deadline && tagrv_conn_now(conn) >= conn->deadline) {
		tagrv_conn_give_up(conn, conn->last_error ? conn->last_error :
							    -FI_ETIMEDOUT);
	} else if (conn->dial == TAGRV_CONN_PAUSE &&
		   tagrv_conn_now(conn) >= conn->step_end) {
		dial_if_room(conn);
	} else if (conn->dial != TAGRV_CONN_OFF && conn->step_end &&
		   tagrv_conn_now(conn) >= conn->step_end) {
		/* A listener that cannot be reached cannot be asked, either. */
		if (conn->dial == TAGRV_CONN_DIALING)
			tagrv_conn_refuse_claim(conn, TAGRV_WIREUP_BUSY);
		tagrv_conn_stop_dial(conn);
		if (chan)
			tagrv_conn_hang_up(conn, chan);
		tagrv_conn_retry(conn, -FI_ETIMEDOUT);
	} else {
		tagrv_conn_set_timer(conn);
	}
}

void tagrv_conn_timer(struct tagrv_conn *conn)
{
	if (conn->claim && tagrv_conn_now(conn) >= conn->claim->end)
		tagrv_conn_refuse_claim(conn, TAGRV_WIREUP_BUSY);
	tagrv_conn_renew_timer(conn);
	on_timer(conn);
	settle(conn);
}

/* -- calls of the engine -------------------------------------------------- */

void tagrv_conn_init(struct tagrv_conn *conn, struct tagrv_conn_host *host,
		     const struct tagrv_addr *addr)
{
	*conn = (struct tagrv_conn) {
		.host = host,
		.addr = *addr,
		.renew = (struct tagrv_conn_renew *) &tagrv_conn_at_rest,
	};
}

void tagrv_conn_want(struct tagrv_conn *conn)
{
	if (conn->state != TAGRV_CONN_IDLE)
		return;
	conn->state = TAGRV_CONN_WANTED;
	if (!conn->host->xport_cnt)
		tagrv_conn_fail(conn, -FI_EHOSTUNREACH);
	else if (conn->dial == TAGRV_CONN_DIALING)	/* to ask, so far */
		tagrv_conn_start_attempt(conn);
	else
		dial_if_room(conn);
}
