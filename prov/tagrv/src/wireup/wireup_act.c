/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the state machine of a peer (conn.c) decides: messages for its events, dialing, records
 * to send, its timer.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "core/random.h"
#include "wireup/wireup_peer.h"

static struct tagrv_wireup_sock *sock_of(struct tagrv_chan *chan)
{
	return tagrv_container_of(chan, struct tagrv_wireup_sock, chan);
}

/* -- events --------------------------------------------------------------- */

static int conn_prepare(struct tagrv_conn *conn)
{
	struct tagrv_wireup_peer *peer = wireup_peer_of(conn);

	if (!peer->up)
		peer->up = calloc(1, sizeof(*peer->up));
	if (!peer->up)
		return -FI_ENOMEM;
	while (peer->spare_cnt < TAGRV_CONN_EVENTS_PER_EPOCH) {
		struct tagrv_wireup_msg *msg = calloc(1, sizeof(*msg));

		if (!msg)
			return -FI_ENOMEM;
		tagrv_wireup_peer_add_spare(conn, msg);
	}
	return 0;
}

static void emit_up(struct tagrv_wireup_peer *peer, const struct tagrv_wireup_event *event)
{
	struct tagrv_wireup_up *up = peer->up;

	if (event->resumes && tagrv_wireup_replace(wireup_ep_of(peer), event))
		return;
	assert(up);
	peer->up = NULL;
	tagrv_wireup_up_fill(up, event);
	tagrv_wireup_emit(wireup_ep_of(peer), &up->msg, event->resumes ? NULL : tagrv_wireup_peer_pop_spare(peer));
}

static void conn_emit(struct tagrv_conn *conn,
		      const struct tagrv_wireup_event *event)
{
	struct tagrv_wireup_peer *peer = wireup_peer_of(conn);
	struct tagrv_wireup_msg *msg;

	if (event->type == TAGRV_WIREUP_UP) {
		emit_up(peer, event);
		return;
	}
	msg = tagrv_wireup_peer_pop_spare(peer);
	tagrv_wireup_msg_fill(msg, event);
	tagrv_wireup_emit(wireup_ep_of(peer), msg, NULL);
}

static void conn_dial(struct tagrv_conn *conn)
{
	struct tagrv_wireup_peer *peer = wireup_peer_of(conn);

	tagrv_list_push_tail(&wireup_ep_of(peer)->wireup->dials, &peer->dial_node);
}

static void conn_hasten(struct tagrv_conn *conn)
{
	struct tagrv_wireup_peer *peer = wireup_peer_of(conn);

	if (!tagrv_list_linked(&peer->dial_node))
		return;
	tagrv_list_remove(&peer->dial_node);
	tagrv_list_push_tail(&wireup_ep_of(peer)->wireup->urgent, &peer->dial_node);
}

/* Returns the socket that the peer dials no more: it is a channel, or to be closed. */
static struct tagrv_wireup_sock *end_dialing(struct tagrv_wireup_peer *peer)
{
	struct tagrv_wireup_sock *sock = peer->dialing;

	peer->dialing = NULL;
	tagrv_wireup_sock_opened(sock);
	return sock;
}

static void conn_undial(struct tagrv_conn *conn)
{
	struct tagrv_wireup_peer *peer = wireup_peer_of(conn);

	tagrv_list_remove(&peer->dial_node);
	if (peer->dialing)
		tagrv_wireup_sock_close(end_dialing(peer));
}

static void conn_send(struct tagrv_chan *chan,
		      const struct tagrv_wireup_rec *rec)
{
	tagrv_wireup_sock_send(sock_of(chan), rec);
}

static void conn_hangup(struct tagrv_chan *chan)
{
	tagrv_wireup_sock_hangup(sock_of(chan));
}

static int conn_draw(struct tagrv_conn *conn, uint8_t nonce[TAGRV_NONCE_LEN])
{
	(void) conn;
	return tagrv_random_fill(nonce, TAGRV_NONCE_LEN) ? -FI_EIO : 0;
}

static bool conn_may_ask(struct tagrv_conn *conn,
			 const struct tagrv_chan *claimer)
{
	return tagrv_wireup_may_ask(wireup_ep_of(wireup_peer_of(conn)), claimer->near);
}

static void conn_asked_well(struct tagrv_conn *conn,
			    const struct tagrv_chan *claimer)
{
	tagrv_wireup_asked_well(wireup_ep_of(wireup_peer_of(conn)), claimer->near);
}

static void conn_crowded(struct tagrv_conn *conn)
{
	tagrv_wireup_crowded(wireup_ep_of(wireup_peer_of(conn)));
}

static bool conn_postpone(struct tagrv_conn *conn)
{
	return tagrv_wireup_admit_offer(wireup_ep_of(wireup_peer_of(conn)), &conn->addr);
}

static void conn_timer(struct tagrv_conn *conn, uint64_t at)
{
	struct tagrv_wireup_peer *peer = wireup_peer_of(conn);
	struct tagrv_wireup *wireup = wireup_ep_of(peer)->wireup;
	uint64_t rest = at > wireup->patient ? at - wireup->patient : 0;

	peer->due = at;
	tagrv_wireup_timer_set(&wireup->timers, &peer->timer,
			       at ? wireup->now + rest : 0);
}

const struct tagrv_conn_ops tagrv_wireup_conn_ops = {
	.prepare = conn_prepare,
	.emit = conn_emit,
	.dial = conn_dial,
	.hasten = conn_hasten,
	.undial = conn_undial,
	.send = conn_send,
	.hangup = conn_hangup,
	.draw = conn_draw,
	.may_ask = conn_may_ask,
	.asked_well = conn_asked_well,
	.crowded = conn_crowded,
	.leave = tagrv_wireup_run_leave,
	.enter = tagrv_wireup_run_enter,
	.postpone = conn_postpone,
	.timer = conn_timer,
};

/* -- dialing ------------------------------------------------------------- */

static void dial(struct tagrv_wireup_peer *peer)
{
	struct tagrv_wireup_sock *sock;
	int status;

	tagrv_conn_dialing(&peer->conn);
	sock = tagrv_wireup_sock_dial(wireup_ep_of(peer), &peer->conn.addr, &status);
	if (sock) {
		sock->chan.conn = &peer->conn;
		peer->dialing = sock;
		return;
	}
	tagrv_conn_dial_failed(&peer->conn, status);
	tagrv_wireup_peer_settle(&peer->conn);
}

/* The first one that is not busy; there are few of those. NULL: there is none. */
static struct tagrv_wireup_peer *pop_dial(struct tagrv_list *dials)
{
	struct tagrv_list *node;

	tagrv_list_for_each(dials, node) {
		struct tagrv_wireup_peer *peer = tagrv_container_of(
			node, struct tagrv_wireup_peer, dial_node);

		if (peer->run)
			continue;
		tagrv_list_remove(node);
		return peer;
	}
	return NULL;
}

void tagrv_wireup_peer_dial_more(struct tagrv_wireup *wireup)
{
	struct tagrv_wireup_peer *peer;

	for (;;) {
		peer = NULL;
		if (wireup->dialing < 2 * wireup->caps.dials)
			peer = pop_dial(&wireup->urgent);
		if (!peer && wireup->dialing < wireup->caps.dials &&
		    tagrv_wireup_queue_may_dial(&wireup->queue, wireup->opening))
			peer = pop_dial(&wireup->dials);
		if (!peer)
			return;
		dial(peer);
	}
}

void tagrv_wireup_peer_dialed(struct tagrv_wireup_sock *sock, int status)
{
	struct tagrv_wireup_peer *peer = wireup_peer_of(sock->chan.conn);

	if (!status) {
		tagrv_wireup_admit(sock, NULL);
		return;
	}
	if (peer->run) {
		sock->failed = status;
		tagrv_wireup_run_stall(peer->run, sock, NULL, 0);
		return;
	}
	end_dialing(peer);
	sock->chan.conn = NULL;
	tagrv_wireup_sock_close(sock);
	tagrv_conn_dial_failed(&peer->conn, status);
	tagrv_wireup_peer_settle(&peer->conn);
}

void tagrv_wireup_peer_use(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_peer *peer = wireup_peer_of(sock->chan.conn);

	end_dialing(peer);
	tagrv_conn_dialed(&peer->conn, &sock->chan);
	tagrv_wireup_peer_settle(&peer->conn);
}
