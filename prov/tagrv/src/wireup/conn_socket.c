/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections without a socket: see conn.h.
 *
 * Both sides have said in REQ and REP that they can do without (TAGRV_WIRE_SOCKETLESS), so
 * none asks the other again. The record goes ahead of the end of the socket:
 *
 *   we close        CLOSE(SOCKET_CLOSED) -->   the peer hangs up, too
 *   both close      the records cross, and each side finds its socket closed already
 *   it gets lost    (a reset) the peer doubts, dials and resumes: there is a socket
 *                   again, which may be closed as the first one was
 *
 * From a READY side the record comes behind the REP or RTU by which the receiver is
 * READY, too, or else the receiver dials, as after any broken socket.
 */
#include "wireup/conn_priv.h"

bool tagrv_conn_has_spare_socket(const struct tagrv_conn *conn)
{
	return conn->state == TAGRV_CONN_READY && conn->socket_spare &&
	       tagrv_conn_has_chan(conn) && !conn->claim &&
	       conn->dial == TAGRV_CONN_OFF && !tagrv_conn_is_renewing(conn);
}

static void note_closed(struct tagrv_conn *conn)
{
	if (!conn->sockets_closed)
		atomic_fetch_add_explicit(&conn->host->closed_sockets, 1,
					  memory_order_relaxed);
	conn->sockets_closed = true;
}

void tagrv_conn_note_socket(struct tagrv_conn *conn)
{
	if (!conn->sockets_closed || !tagrv_conn_has_chan(conn))
		return;
	conn->sockets_closed = false;
	atomic_fetch_add_explicit(&conn->host->reopened_sockets, 1,
				  memory_order_relaxed);
}

void tagrv_conn_close_sockets(struct tagrv_conn *conn)
{
	if (conn->state != TAGRV_CONN_READY || tagrv_conn_is_renewing(conn))
		return;
	note_closed(conn);
	tagrv_conn_stop_dial(conn);
	conn->deadline = 0;
	tagrv_conn_set_timer(conn);
	for (int i = TAGRV_CONN_ACCEPTED; i <= TAGRV_CONN_DIALED; i++) {
		struct tagrv_chan *chan = conn->chan[i];

		if (!chan)
			continue;
		tagrv_conn_send_rec(conn, chan, TAGRV_WIREUP_CLOSE,
				    TAGRV_WIREUP_SOCKET_CLOSED);
		tagrv_conn_hang_up(conn, chan);
	}
}

void tagrv_conn_peer_closes_socket(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	if (conn->state != TAGRV_CONN_READY || !tagrv_conn_holds(conn, chan))
		return;
	/* What is sent on it from here on is not read. */
	tagrv_conn_hang_up(conn, chan);
	if (!tagrv_conn_has_chan(conn))
		note_closed(conn);
}
