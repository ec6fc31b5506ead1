/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The channels of a connection, attempts to dial and the pauses between them.
 */
#include "wireup/conn_priv.h"

#define ATTEMPT_MAX	8000	/* ms from the first SYN to the REP */
#define PAUSE_MIN	10	/* ms */
#define PAUSE_MAX	2000
#define EXCUSE_PART	16u

void tagrv_conn_forget(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	chan->conn = NULL;
	if (!tagrv_conn_holds(conn, chan))
		return;
	conn->chan[chan->dialed] = NULL;
	if (conn->renew->chan == chan)
		conn->renew->chan = NULL;
	if (chan->dialed && conn->dial == TAGRV_CONN_ASKED)
		conn->dial = TAGRV_CONN_OFF;
}

void tagrv_conn_hang_up(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	tagrv_conn_forget(conn, chan);
	conn->host->ops->hangup(chan);
}

/* The peer dials one socket at a time, so a newer one replaces the older. */
void tagrv_conn_hold(struct tagrv_conn *conn, struct tagrv_chan *chan)
{
	struct tagrv_chan *old = conn->chan[chan->dialed];

	if (old == chan)
		return;
	if (old)
		tagrv_conn_hang_up(conn, old);
	conn->chan[chan->dialed] = chan;
	chan->conn = conn;
	chan->answered = false;
}

void tagrv_conn_set_timer(struct tagrv_conn *conn)
{
	bool queued = tagrv_conn_is_queued(conn);
	uint64_t at = queued ? 0 : conn->deadline;

	if (!queued && conn->dial != TAGRV_CONN_OFF && conn->step_end &&
	    (!at || conn->step_end < at))
		at = conn->step_end;
	if (conn->claim && (!at || conn->claim->end < at))
		at = conn->claim->end;
	if (conn->renew->at && (!at || conn->renew->at < at))
		at = conn->renew->at;
	if (conn->renew->deadline && (!at || conn->renew->deadline < at))
		at = conn->renew->deadline;
	conn->host->ops->timer(conn, at);
}

/*
 * A peer that is only asked for new paths is not in doubt; one without any path is
 * waited for as long as the renewal is. A link that can be renewed shows by itself
 * whether the peer lives, when something is awaited of it: its sockets may use the one
 * network of several that is lost.
 */
static bool has_deadline(const struct tagrv_conn *conn)
{
	const struct tagrv_xport *xport = conn->host->xports[conn->chosen];

	return conn->state != TAGRV_CONN_READY ||
	       (tagrv_conn_is_doubted(conn) &&
		!(xport->attr.caps & TAGRV_XPORT_RENEWED) &&
		!(conn->renew->wanted && conn->renew->down));
}

/* It does not count, but for a part: the commands may have no end (wireup_clock.c). */
void tagrv_conn_excuse(struct tagrv_conn *conn, uint64_t ms)
{
	ms -= ms / EXCUSE_PART;
	if (!ms)
		return;
	if (conn->deadline)
		conn->deadline += ms;
	if (conn->step_end)
		conn->step_end += ms;
	if (conn->claim)
		conn->claim->end += ms;
	tagrv_conn_set_timer(conn);
}

void tagrv_conn_start_attempt(struct tagrv_conn *conn)
{
	if (tagrv_conn_is_queued(conn))
		return;
	conn->step_end = tagrv_conn_now(conn) + ATTEMPT_MAX;
	if (!conn->deadline && has_deadline(conn))
		conn->deadline = tagrv_conn_now(conn) + conn->host->timeout;
	tagrv_conn_set_timer(conn);
}

void tagrv_conn_start_dial(struct tagrv_conn *conn)
{
	conn->dial = TAGRV_CONN_DIALING;
	conn->queued = true;
	conn->step_end = tagrv_conn_now(conn);
	conn->host->ops->dial(conn);
	tagrv_conn_set_timer(conn);
}

void tagrv_conn_leave_queue(struct tagrv_conn *conn)
{
	if (!tagrv_conn_is_queued(conn))
		return;
	if (conn->deadline)
		conn->deadline += tagrv_conn_now(conn) - conn->step_end;
	conn->step_end = 0;
	conn->queued = false;
	tagrv_conn_set_timer(conn);
}

void tagrv_conn_stop_dial(struct tagrv_conn *conn)
{
	if (conn->dial == TAGRV_CONN_DIALING && conn->claim && !conn->claim->ask_chan)
		return;
	tagrv_conn_leave_queue(conn);
	if (conn->dial == TAGRV_CONN_DIALING)
		conn->host->ops->undial(conn);
	if (conn->dial != TAGRV_CONN_ASKED)
		conn->dial = TAGRV_CONN_OFF;
}

static uint32_t random_below(struct tagrv_conn_host *host, uint32_t limit)
{
	/* xorshift32: good enough to spread the retries of many peers */
	host->seed ^= host->seed << 13;
	host->seed ^= host->seed >> 17;
	host->seed ^= host->seed << 5;
	return host->seed % limit;
}

uint64_t tagrv_conn_pause(struct tagrv_conn *conn, unsigned fails)
{
	uint32_t pause = PAUSE_MIN << TAGRV_MIN(fails, 10u);

	pause = TAGRV_MIN(pause, (uint32_t) PAUSE_MAX);
	return pause / 2 + random_below(conn->host, pause / 2 + 1);
}

void tagrv_conn_pause_dial(struct tagrv_conn *conn, int status)
{
	conn->dial = TAGRV_CONN_PAUSE;
	conn->step_end = tagrv_conn_now(conn) +
			 tagrv_conn_pause(conn, conn->fails++);
	conn->last_error = status;
	tagrv_conn_set_timer(conn);
}
