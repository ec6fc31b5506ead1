/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Between the files of the state machine:
 *
 *   conn.c       decides: records, time, the engine's wishes
 *   conn_end.c   ends, and begins again
 *   conn_link.c  makes, chooses and binds links
 *   conn_wire.c  says and screens records
 *   conn_dial.c  holds sockets and dials
 */
#ifndef TAGRV_WIREUP_CONN_PRIV_H
#define TAGRV_WIREUP_CONN_PRIV_H

#include <rdma/fi_errno.h>

#include "wireup/conn.h"

/* Slots of tagrv_conn::chan. */
enum { TAGRV_CONN_ACCEPTED, TAGRV_CONN_DIALED };

static inline bool tagrv_conn_has_chan(const struct tagrv_conn *conn)
{
	return conn->chan[TAGRV_CONN_ACCEPTED] || conn->chan[TAGRV_CONN_DIALED];
}

static inline bool tagrv_conn_holds(const struct tagrv_conn *conn,
				    const struct tagrv_chan *chan)
{
	return conn->chan[chan->dialed] == chan;
}

static inline uint64_t tagrv_conn_now(const struct tagrv_conn *conn)
{
	return *conn->host->now;
}

/* What of our own troubles may pass by itself. */
static inline bool tagrv_conn_is_busy(int status)
{
	return status == -FI_ENOMEM || status == -FI_EAGAIN ||
	       status == -FI_EMFILE || status == -FI_EBUSY ||
	       status == -FI_ENOSPC;
}

/* -- conn_end.c ------------------------------------------------------------ */

/* Back to IDLE; 'keep' stays held. tell: the peer may still believe in us. */
void tagrv_conn_reset(struct tagrv_conn *conn, struct tagrv_chan *keep,
		      bool tell);
void tagrv_conn_emit_gone(struct tagrv_conn *conn, int status);
/* What was WANTED does not come about. */
void tagrv_conn_fail(struct tagrv_conn *conn, int status);
/* As fail, or the end of what is bound. */
void tagrv_conn_give_up(struct tagrv_conn *conn, int status);
/*
 * Gives up the peer's link in the record, and asks anew, with new links of what
 * is not avoided; ends with this status when everything is.
 */
void tagrv_conn_begin_again(struct tagrv_conn *conn,
			    const struct tagrv_wireup_rec *rec, int status);
/* An attempt ended without a connection; another one follows if needed. */
void tagrv_conn_retry(struct tagrv_conn *conn, int why);
/* Makes links and sends a REQ on the channel we dialed. */
void tagrv_conn_ask(struct tagrv_conn *conn, struct tagrv_chan *chan);

/* -- conn_dial.c ---------------------------------------------------------- */

/* Makes the channel this connection's; an older one of its kind is hung up. */
void tagrv_conn_hold(struct tagrv_conn *conn, struct tagrv_chan *chan);
void tagrv_conn_forget(struct tagrv_conn *conn, struct tagrv_chan *chan);
/* Forgets it and tells the driver. */
void tagrv_conn_hang_up(struct tagrv_conn *conn, struct tagrv_chan *chan);
/* To the deadline or the end of the step of dialing, whichever is nearer. */
void tagrv_conn_set_timer(struct tagrv_conn *conn);
/* The time of an attempt begins, and that of all if it is the first. */
void tagrv_conn_start_attempt(struct tagrv_conn *conn);
void tagrv_conn_start_dial(struct tagrv_conn *conn);
/* Ends an attempt that has not got as far as a REQ. */
void tagrv_conn_stop_dial(struct tagrv_conn *conn);
/* Dials again after a pause that grows with each failure. */
void tagrv_conn_pause_dial(struct tagrv_conn *conn, int why);

/* -- conn_wire.c ---------------------------------------------------------- */

/* Completes the event from the connection and emits it. */
void tagrv_conn_emit(struct tagrv_conn *conn,
		     struct tagrv_wireup_event *event);

/* Sends a record about this connection. */
void tagrv_conn_say(struct tagrv_conn *conn, struct tagrv_chan *chan,
		    enum tagrv_wireup_rec_type type, uint8_t reason);
/* Sends one to whoever sent rec, connection or not. */
void tagrv_conn_answer(const struct tagrv_conn_host *host,
		       struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *rec,
		       enum tagrv_wireup_rec_type type, uint8_t reason);

/* -- conn_link.c ----------------------------------------------------------- */

/* Makes a link of every transport to offer, and gives them the next epoch. */
int tagrv_conn_make_links(struct tagrv_conn *conn) TAGRV_WARN_UNUSED;
void tagrv_conn_discard_links(struct tagrv_conn *conn);
/*
 * Takes the best transport in the record that can be bound, avoids those before
 * it, becomes BOUND (or READY if sendable) and emits UP. -FI_EHOSTUNREACH: none.
 */
int tagrv_conn_bind(struct tagrv_conn *conn,
		    const struct tagrv_wireup_rec *rec, bool sendable)
	TAGRV_WARN_UNUSED;
/* Whether a transport is left that is not avoided. */
bool tagrv_conn_has_offer(const struct tagrv_conn *conn);
/*
 * Whether the peer is bound to the transport that we are bound to. If not, the
 * one that does not do on both sides is avoided from here on.
 */
bool tagrv_conn_agrees(struct tagrv_conn *conn,
		       const struct tagrv_wireup_rec *rec);

#endif
