/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Between conn.c, which decides, conn_wire.c, which says and binds, and
 * conn_dial.c, which holds sockets and dials.
 */
#ifndef TAGRV_PROTO_CONN_PRIV_H
#define TAGRV_PROTO_CONN_PRIV_H

#include "proto/conn.h"

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

/* -- conn_dial.c ---------------------------------------------------------- */

/* Makes the channel this connection's; an older one of its kind is hung up. */
void tagrv_conn_hold(struct tagrv_conn *conn, struct tagrv_chan *chan);
void tagrv_conn_forget(struct tagrv_conn *conn, struct tagrv_chan *chan);
/* Forgets it and tells the driver. */
void tagrv_conn_hang_up(struct tagrv_conn *conn, struct tagrv_chan *chan);
/* To the deadline or the end of the step of dialing, whichever is nearer. */
void tagrv_conn_set_timer(struct tagrv_conn *conn);
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

/* Makes a link and gives it the next epoch, unless there is one. */
int tagrv_conn_make_link(struct tagrv_conn *conn) TAGRV_WARN_UNUSED;
/*
 * Binds it to the link in the record, becomes BOUND (or READY if sendable) and
 * emits UP. -FI_EHOSTUNREACH: no transport in common.
 */
int tagrv_conn_bind_link(struct tagrv_conn *conn,
			 const struct tagrv_wireup_rec *rec, bool sendable)
	TAGRV_WARN_UNUSED;

#endif
