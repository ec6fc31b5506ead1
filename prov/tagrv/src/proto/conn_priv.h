/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Between conn.c, which decides, and conn_wire.c, which says and binds.
 */
#ifndef TAGRV_PROTO_CONN_PRIV_H
#define TAGRV_PROTO_CONN_PRIV_H

#include "proto/conn.h"

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
