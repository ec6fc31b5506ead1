/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The end of a connection; another attempt; a restart with new links.
 */
#include "wireup/conn_priv.h"

#include <string.h>

#include "core/log.h"

/* -- ends ---------------------------------------------------------------- */

static void forget_links(struct tagrv_conn *conn)
{
	tagrv_conn_void_offer(conn);
	conn->first_epoch = 0;
	conn->was_epoch = 0;
	tagrv_conn_end_renew(conn);
	conn->sockets_closed = false;
	conn->socket_spare = false;
}

void tagrv_conn_reset(struct tagrv_conn *conn, struct tagrv_chan *keep,
		      bool send_close)
{
	if (conn->dial == TAGRV_CONN_DIALING)
		conn->host->ops->undial(conn);
	for (int i = TAGRV_CONN_ACCEPTED; i <= TAGRV_CONN_DIALED; i++) {
		struct tagrv_chan *chan = conn->chan[i];

		if (!chan || chan == keep)
			continue;
		if (send_close)
			tagrv_conn_renew_close(conn, chan);
		if (send_close)
			tagrv_conn_send_rec(conn, chan, TAGRV_WIREUP_CLOSE,
					    TAGRV_WIREUP_OK);
		tagrv_conn_hang_up(conn, chan);
	}
	conn->host->ops->timer(conn, 0);
	forget_links(conn);
	conn->peer_epoch = 0;
	conn->avoid = 0;
	conn->state = TAGRV_CONN_IDLE;
	conn->dial = TAGRV_CONN_OFF;
	conn->deadline = 0;
	conn->step_end = 0;
	conn->fails = 0;
	conn->last_error = 0;
	if (keep)
		keep->answered = false;
}

void tagrv_conn_emit_gone(struct tagrv_conn *conn, int status)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_GONE,
		.status = status,
	};

	tagrv_conn_emit(conn, &event);
}

/* What the user can do about a failure to connect. */
static const char *advice(int status)
{
	switch (status) {
	case -FI_ECONNREFUSED:
		return "no peer answers at this port; is it running, and is "
		       "this its address?";
	case -FI_ETIMEDOUT:
		return "no answer; does a firewall drop TCP to this port? "
		       "FI_TAGRV_CONNECT_TIMEOUT extends the wait";
	case -FI_EHOSTUNREACH:
		return "no route, or no transport in common; check the "
		       "network, FI_TAGRV_DEVICES and FI_TAGRV_TRANSPORTS on "
		       "both hosts";
	case -FI_ENOPROTOOPT:
		return "the peer's tagrv is another release, with another wire version; "
		       "install the same release of tagrv on both hosts";
	case -FI_EACCES:
		return "the process there is of another job, or of another user: "
		       "does it have the same FI_TAGRV_JOB_KEY? Its log says more";
	case -FI_EINVAL:
		return "this is our own address";
	case -FI_ENOSPC:
		return "no queue pair became free; connections to many peers were busy "
		       "all the time, see FI_TAGRV_MAX_QPS";
	default:
		return "resources ran out; see ulimit -n and ulimit -l";
	}
}

void tagrv_conn_fail(struct tagrv_conn *conn, int status)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_FAILED,
		.status = status,
	};
	char text[TAGRV_ADDR_STRLEN];

	tagrv_warn("cannot connect to %s: %s\n",
		   tagrv_addr_str(&conn->addr, text, sizeof(text)),
		   advice(status));
	tagrv_conn_emit(conn, &event);
	tagrv_conn_reset(conn, NULL, conn->epoch != 0);
}

void tagrv_conn_give_up(struct tagrv_conn *conn, int status)
{
	if (!tagrv_conn_is_bound(conn)) {
		tagrv_conn_fail(conn, status);
		return;
	}
	tagrv_conn_emit_gone(conn, status == -FI_EHOSTUNREACH ?
			     status : -FI_ECONNRESET);
	tagrv_conn_reset(conn, NULL, true);
}

/* -- calls of the engine and the driver ---------------------------------- */

void tagrv_conn_drop(struct tagrv_conn *conn, uint32_t epoch)
{
	/* The engine may not have seen yet that the connection was renewed. */
	if (tagrv_conn_is_bound(conn) &&
	    (int32_t) (epoch - conn->first_epoch) >= 0 &&
	    (int32_t) (conn->epoch - epoch) >= 0)
		tagrv_conn_reset(conn, NULL, true);
	tagrv_conn_settle_claim(conn);
}

void tagrv_conn_expire(struct tagrv_conn *conn)
{
	assert(conn->state == TAGRV_CONN_BOUND);
	tagrv_conn_give_up(conn, -FI_ETIMEDOUT);
	tagrv_conn_settle_claim(conn);
}

void tagrv_conn_close(struct tagrv_conn *conn)
{
	tagrv_conn_refuse_claim(conn, TAGRV_WIREUP_BUSY);
	tagrv_conn_reset(conn, NULL, conn->epoch != 0);
}

/* -- again --------------------------------------------------------------- */

void tagrv_conn_retry(struct tagrv_conn *conn, int status)
{
	if (tagrv_conn_has_chan(conn) ? tagrv_conn_is_bound(conn) :
	    conn->state == TAGRV_CONN_READY && !tagrv_conn_lacks_chan(conn))
		tagrv_conn_set_timer(conn);
	else if (conn->dial == TAGRV_CONN_OFF)
		tagrv_conn_pause_dial(conn, status);
}

/* Pauses do not double further: room may come at any time, and nobody tells. */
#define ROOM_FAILS	4u

void tagrv_conn_await_room(struct tagrv_conn *conn)
{
	struct tagrv_chan *dialed = conn->chan[TAGRV_CONN_DIALED];

	assert(conn->state == TAGRV_CONN_WANTED);
	tagrv_conn_void_offer(conn);
	if (conn->host->ops->crowded)
		conn->host->ops->crowded(conn);
	if (!conn->deadline)
		conn->deadline = tagrv_conn_now(conn) + conn->host->timeout;
	if (dialed)
		tagrv_conn_hang_up(conn, dialed);
	conn->fails = TAGRV_MIN(conn->fails, ROOM_FAILS);
	if (conn->dial == TAGRV_CONN_DIALING)	/* looks at it again when connected */
		tagrv_conn_set_timer(conn);
	else
		tagrv_conn_pause_dial(conn, -FI_ENOSPC);
}

void tagrv_conn_send_req(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	int ret;

	conn->dial = TAGRV_CONN_ASKED;
	if (tagrv_conn_renew_asks(conn, chan))
		return;
	/* Another process listens there now, which does not know REQ(LOCAL). */
	if (!tagrv_conn_is_bound(conn) && conn->held && !chan->local)
		forget_links(conn);
	ret = !conn->epoch && tagrv_conn_is_crowded(conn, true) ? -FI_ENOSPC :
	      tagrv_conn_make_links(conn, chan->local);
	if (ret == -FI_ENOSPC) {
		tagrv_conn_await_room(conn);
		return;
	}
	if (ret) {
		tagrv_conn_fail(conn, ret);
		return;
	}
	tagrv_conn_send_rec(conn, chan, TAGRV_WIREUP_REQ,
			    conn->held && !tagrv_conn_is_bound(conn) ?
			    TAGRV_WIREUP_LOCAL : TAGRV_WIREUP_OK);
}

void tagrv_conn_begin_again(struct tagrv_conn *conn,
			    const struct tagrv_wireup_rec *rec, int status)
{
	struct tagrv_chan *dialed = conn->chan[TAGRV_CONN_DIALED];

	if (!tagrv_conn_has_offer(conn)) {
		tagrv_conn_give_up(conn, status);
		return;
	}
	if (tagrv_conn_is_bound(conn))
		tagrv_conn_emit_gone(conn, -FI_EAGAIN);
	forget_links(conn);
	/* The peer's next link has a larger epoch than the link given up. */
	if (rec) {
		memcpy(conn->uuid, rec->src_uuid, TAGRV_UUID_LEN);
		conn->peer_epoch = rec->src_epoch;
	}
	conn->state = TAGRV_CONN_WANTED;
	for (int i = TAGRV_CONN_ACCEPTED; i <= TAGRV_CONN_DIALED; i++)
		if (conn->chan[i])
			conn->chan[i]->answered = false;
	if (dialed && conn->dial != TAGRV_CONN_DIALING) {
		tagrv_conn_start_attempt(conn);
		tagrv_conn_send_req(conn, dialed);
	} else if (conn->dial == TAGRV_CONN_OFF) {
		tagrv_conn_start_dial(conn);
	}
}
