/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The peers of an endpoint: their table, commands and timers of their state machines
 * (conn.c), and what such a machine decides. Records come by wireup_dispatch.c.
 *
 * A peer exists from the first command or REQ about it until its machine is idle
 * again. The messages for its events are allocated before they are needed, so that
 * no event is lost for want of memory:
 *
 *   connect()      the command's own message serves for FAILED
 *   conn_prepare() a long one for UP, and three short ones: for SENDABLE, for GONE or
 *                  FAILED, and for the drop of the connection
 *
 * Of an idle connection two are left, for GONE and, with the endpoint, for its drop.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/random.h"
#include "wireup/wireup_priv.h"

#define BOUND_MIN	1000	/* ms that a peer has to send its RTU, at least */

struct tagrv_wireup_peer {
	struct tagrv_addrnode node;	/* wep->peers, by conn.addr */
	struct tagrv_conn conn;
	struct tagrv_wireup_timer timer;
	uint64_t due;			/* of the timer, by the patient clock; 0: not set */
	struct tagrv_list dial_node;	/* on wireup->dials or urgent */
	struct tagrv_list bound_node;	/* on wireup->bounds */
	struct tagrv_list kept_node;	/* on wep->kept */
	uint64_t bound_at;		/* ms of the patient clock, since when it is there */
	struct tagrv_wireup_sock *dialing;	/* in state CONNECTING, or NULL */
	struct tagrv_wireup_up *up;	/* message for UP, or NULL */
	struct tagrv_list spares;	/* messages for other events */
	unsigned spare_cnt;
};

static struct tagrv_wireup_peer *peer_of(struct tagrv_conn *conn)
{
	return tagrv_container_of(conn, struct tagrv_wireup_peer, conn);
}

static struct tagrv_wireup_ep *wep_of(const struct tagrv_wireup_peer *peer)
{
	return tagrv_container_of(peer->conn.host, struct tagrv_wireup_ep, host);
}

static struct tagrv_wireup_sock *sock_of(struct tagrv_chan *chan)
{
	return tagrv_container_of(chan, struct tagrv_wireup_sock, chan);
}

static void add_spare(struct tagrv_wireup_peer *peer,
		      struct tagrv_wireup_msg *msg)
{
	tagrv_list_push_tail(&peer->spares, &msg->node);
	peer->spare_cnt++;
}

static struct tagrv_wireup_msg *pop_spare(struct tagrv_wireup_peer *peer)
{
	struct tagrv_list *node = tagrv_list_pop(&peer->spares);

	assert(node);
	peer->spare_cnt--;
	return tagrv_container_of(node, struct tagrv_wireup_msg, node);
}

static void free_spares(struct tagrv_wireup_peer *peer, int left)
{
	if (left == INT_MAX)
		return;
	free(peer->up);
	peer->up = NULL;
	while (peer->spare_cnt > (unsigned) left)
		free(pop_spare(peer));
}

/* -- the table ----------------------------------------------------------- */

static void on_timer(struct tagrv_wireup_timer *timer);

void tagrv_wireup_peers_init(struct tagrv_wireup_ep *wep)
{
	wep->peers = (struct tagrv_addrmap)
		     TAGRV_ADDRMAP_INIT(struct tagrv_wireup_peer, node, conn.addr);
}

static struct tagrv_wireup_peer *of_node(struct tagrv_addrnode *node)
{
	return node ? tagrv_container_of(node, struct tagrv_wireup_peer, node) : NULL;
}

struct tagrv_conn *tagrv_wireup_peer_find(struct tagrv_wireup_ep *wep,
					  const struct tagrv_addr *addr)
{
	struct tagrv_wireup_peer *peer = of_node(tagrv_addrmap_find(&wep->peers, addr));

	return peer ? &peer->conn : NULL;
}

/* The peer behind this one; NULL: the first one. */
static struct tagrv_wireup_peer *next_of(struct tagrv_wireup_ep *wep,
					 const struct tagrv_wireup_peer *peer)
{
	return of_node(tagrv_addrmap_next(&wep->peers, peer ? &peer->node : NULL));
}

struct tagrv_conn *tagrv_wireup_peer_find_epoch(struct tagrv_wireup_ep *wep,
						const struct tagrv_wireup_rec *rec)
{
	struct tagrv_wireup_peer *peer = next_of(wep, NULL);

	if (memcmp(rec->dst_uuid, wep->host.uuid, TAGRV_UUID_LEN))
		return NULL;
	while (peer && !tagrv_conn_has_epoch(&peer->conn, rec->dst_epoch))
		peer = next_of(wep, peer);
	if (peer && tagrv_conn_is_bound(&peer->conn) &&
	    memcmp(peer->conn.uuid, rec->src_uuid, TAGRV_UUID_LEN))
		return NULL;
	return peer ? &peer->conn : NULL;
}

struct tagrv_conn *tagrv_wireup_peer_create(struct tagrv_wireup_ep *wep,
					    const struct tagrv_addr *addr)
{
	struct tagrv_wireup_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	if (tagrv_wireup_timer_reserve(&wep->wireup->timers))
		goto free_peer;
	tagrv_conn_init(&peer->conn, &wep->host, addr);
	if (tagrv_addrmap_add(&wep->peers, &peer->node))
		goto release_timer;
	peer->timer.fn = on_timer;
	tagrv_list_init(&peer->dial_node);
	tagrv_list_init(&peer->bound_node);
	tagrv_list_init(&peer->kept_node);
	tagrv_list_init(&peer->spares);
	return &peer->conn;

release_timer:
	tagrv_wireup_timer_release(&wep->wireup->timers, &peer->timer);
free_peer:
	free(peer);
	return NULL;
}

static void end_bound(struct tagrv_wireup_peer *peer)
{
	if (!tagrv_list_linked(&peer->bound_node))
		return;
	tagrv_list_remove(&peer->bound_node);
	wep_of(peer)->wireup->bound--;
}

static void destroy(struct tagrv_wireup_peer *peer)
{
	struct tagrv_wireup_ep *wep = wep_of(peer);

	assert(!peer->dialing && !tagrv_list_linked(&peer->dial_node));
	end_bound(peer);
	tagrv_wireup_kept_remove(wep, &peer->kept_node);
	tagrv_addrmap_remove(&wep->peers, &peer->node);
	tagrv_wireup_timer_release(&wep->wireup->timers, &peer->timer);
	free_spares(peer, 0);
	free(peer);
}

/* Keeps the peers that owe us the RTU in the order in which they came. */
static void note_bound(struct tagrv_wireup_peer *peer)
{
	struct tagrv_wireup *wireup = wep_of(peer)->wireup;
	bool bound = peer->conn.state == TAGRV_CONN_BOUND;

	if (bound == tagrv_list_linked(&peer->bound_node))
		return;
	end_bound(peer);
	if (!bound)
		return;
	tagrv_list_push_tail(&wireup->bounds, &peer->bound_node);
	wireup->bound++;
	peer->bound_at = wireup->patient;
}

void tagrv_wireup_peer_settle(struct tagrv_conn *conn)
{
	struct tagrv_wireup_peer *peer = peer_of(conn);
	struct tagrv_wireup_ep *wep = wep_of(peer);
	struct tagrv_wireup *wireup = wep->wireup;

	if (tagrv_conn_is_idle(conn)) {
		destroy(peer);
		return;
	}
	note_bound(peer);
	tagrv_wireup_kept_note(wep, &peer->kept_node, conn);
	free_spares(peer, tagrv_conn_events_left(conn));
	if (conn->state != TAGRV_CONN_READY || wireup->socks <= wireup->caps.socks)
		return;
	if (!wep->logged_sockets_closed)
		tagrv_info("wireup: more than %zu sockets: those of connected "
			   "peers are closed, so that the death of such a peer "
			   "is noticed late; raise ulimit -n to avoid that\n",
			   wireup->caps.socks);
	wep->logged_sockets_closed = true;
	tagrv_wireup_kept_remove(wep, &peer->kept_node);
	tagrv_conn_close_sockets(conn);
}

struct tagrv_conn *tagrv_wireup_peer_of_kept(struct tagrv_list *node)
{
	return &tagrv_container_of(node, struct tagrv_wireup_peer, kept_node)->conn;
}

/* -- what the machine decides -------------------------------------------- */

static int conn_prepare(struct tagrv_conn *conn)
{
	struct tagrv_wireup_peer *peer = peer_of(conn);

	if (!peer->up)
		peer->up = calloc(1, sizeof(*peer->up));
	if (!peer->up)
		return -FI_ENOMEM;
	while (peer->spare_cnt < TAGRV_CONN_EVENTS_PER_EPOCH) {
		struct tagrv_wireup_msg *msg = calloc(1, sizeof(*msg));

		if (!msg)
			return -FI_ENOMEM;
		add_spare(peer, msg);
	}
	return 0;
}

static void emit_up(struct tagrv_wireup_peer *peer, const struct tagrv_wireup_event *event)
{
	struct tagrv_wireup_up *up = peer->up;

	if (event->resumes && tagrv_wireup_replace(wep_of(peer), event))
		return;
	assert(up);
	peer->up = NULL;
	tagrv_wireup_up_fill(up, event);
	tagrv_wireup_emit(wep_of(peer), &up->msg, event->resumes ? NULL : pop_spare(peer));
}

static void conn_emit(struct tagrv_conn *conn,
		      const struct tagrv_wireup_event *event)
{
	struct tagrv_wireup_peer *peer = peer_of(conn);
	struct tagrv_wireup_msg *msg;

	if (event->type == TAGRV_WIREUP_UP) {
		emit_up(peer, event);
		return;
	}
	msg = pop_spare(peer);
	tagrv_wireup_msg_fill(msg, event);
	tagrv_wireup_emit(wep_of(peer), msg, NULL);
}

static void conn_dial(struct tagrv_conn *conn)
{
	struct tagrv_wireup_peer *peer = peer_of(conn);

	tagrv_list_push_tail(&wep_of(peer)->wireup->dials, &peer->dial_node);
}

static void conn_hasten(struct tagrv_conn *conn)
{
	struct tagrv_wireup_peer *peer = peer_of(conn);

	if (!tagrv_list_linked(&peer->dial_node))
		return;
	tagrv_list_remove(&peer->dial_node);
	tagrv_list_push_tail(&wep_of(peer)->wireup->urgent, &peer->dial_node);
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
	struct tagrv_wireup_peer *peer = peer_of(conn);

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
	return tagrv_wireup_may_ask(wep_of(peer_of(conn)), claimer->near);
}

static void conn_asked_well(struct tagrv_conn *conn,
			    const struct tagrv_chan *claimer)
{
	tagrv_wireup_asked_well(wep_of(peer_of(conn)), claimer->near);
}

static void conn_crowded(struct tagrv_conn *conn)
{
	tagrv_wireup_crowded(wep_of(peer_of(conn)));
}

static void conn_timer(struct tagrv_conn *conn, uint64_t at)
{
	struct tagrv_wireup_peer *peer = peer_of(conn);
	struct tagrv_wireup *wireup = wep_of(peer)->wireup;
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
	.timer = conn_timer,
};

/* -- commands and timers ------------------------------------------------- */

void tagrv_wireup_peer_connect(struct tagrv_wireup_msg *msg)
{
	struct tagrv_wireup_ep *wep = msg->wep;
	struct tagrv_conn *conn = tagrv_wireup_peer_find(wep, &msg->addr);

	if (conn && conn->state != TAGRV_CONN_IDLE) {
		free(msg);
		return;
	}
	if (!conn)
		conn = tagrv_wireup_peer_create(wep, &msg->addr);
	if (!conn) {
		msg->type = TAGRV_WIREUP_FAILED;
		msg->status = -FI_ENOMEM;
		tagrv_wireup_emit(wep, msg, NULL);
		return;
	}
	add_spare(peer_of(conn), msg);
	tagrv_conn_want(conn);
	tagrv_wireup_peer_settle(conn);
}

void tagrv_wireup_peer_drop(struct tagrv_wireup_msg *msg)
{
	struct tagrv_conn *conn = tagrv_wireup_peer_find(msg->wep,
							 &msg->addr);

	if (conn) {
		tagrv_conn_drop(conn, msg->epoch);
		tagrv_wireup_peer_settle(conn);
	}
	free(msg);
}

void tagrv_wireup_peer_renew(struct tagrv_wireup_msg *msg)
{
	struct tagrv_conn *conn = tagrv_wireup_peer_find(msg->wep,
							 &msg->addr);
	uint32_t epoch = msg->epoch;
	bool down = msg->down;
	unsigned patience = msg->patience;

	if (!conn || conn->epoch != epoch) {
		free(msg);
		return;
	}
	if (conn->renew->wanted)
		free(msg);	/* the event that is due has its message */
	else
		add_spare(peer_of(conn), msg);
	tagrv_conn_renew(conn, epoch, down, patience);
	tagrv_wireup_peer_settle(conn);
}

static void on_timer(struct tagrv_wireup_timer *timer)
{
	struct tagrv_wireup_peer *peer =
		tagrv_container_of(timer, struct tagrv_wireup_peer, timer);

	if (wep_of(peer)->wireup->patient < peer->due) {
		/* We were busy meanwhile, and that time does not count. */
		conn_timer(&peer->conn, peer->due);
		return;
	}
	tagrv_conn_timer(&peer->conn);
	tagrv_wireup_peer_settle(&peer->conn);
}

/*
 * A few slow peers may wait: the other end may have sent messages already, which
 * would be lost.
 */
void tagrv_wireup_peer_expire(struct tagrv_wireup *wireup)
{
	struct tagrv_wireup_peer *peer;

	while (wireup->socks > wireup->caps.socks &&
	       wireup->bound > wireup->caps.strangers / 2) {
		peer = tagrv_container_of(tagrv_list_first(&wireup->bounds),
					  struct tagrv_wireup_peer, bound_node);
		if (wireup->patient - peer->bound_at < BOUND_MIN)
			return;
		tagrv_conn_expire(&peer->conn);
		tagrv_wireup_peer_settle(&peer->conn);
	}
}

void tagrv_wireup_peer_close_all(struct tagrv_wireup_ep *wep)
{
	struct tagrv_wireup_peer *peer, *next;

	for (peer = next_of(wep, NULL); peer; peer = next) {
		next = next_of(wep, peer);
		tagrv_conn_close(&peer->conn);
		destroy(peer);
	}
	tagrv_addrmap_fini(&wep->peers);
}

/* -- dialing ------------------------------------------------------------- */

static void dial(struct tagrv_wireup_peer *peer)
{
	struct tagrv_wireup_sock *sock;
	int status;

	tagrv_conn_dialing(&peer->conn);
	sock = tagrv_wireup_sock_dial(wep_of(peer), &peer->conn.addr, &status);
	if (sock) {
		sock->chan.conn = &peer->conn;
		peer->dialing = sock;
		return;
	}
	tagrv_conn_dial_failed(&peer->conn, status);
	tagrv_wireup_peer_settle(&peer->conn);
}

void tagrv_wireup_peer_dial_more(struct tagrv_wireup *wireup)
{
	struct tagrv_list *node;

	for (;;) {
		node = NULL;
		if (wireup->dialing < 2 * wireup->caps.dials)
			node = tagrv_list_pop(&wireup->urgent);
		if (!node && wireup->dialing < wireup->caps.dials &&
		    tagrv_wireup_queue_may_dial(&wireup->queue, wireup->opening))
			node = tagrv_list_pop(&wireup->dials);
		if (!node)
			return;
		dial(tagrv_container_of(node, struct tagrv_wireup_peer,
					dial_node));
	}
}

void tagrv_wireup_peer_dialed(struct tagrv_wireup_sock *sock, int status)
{
	struct tagrv_wireup_peer *peer = peer_of(sock->chan.conn);

	if (!status) {
		tagrv_wireup_admit(sock, NULL);
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
	struct tagrv_wireup_peer *peer = peer_of(sock->chan.conn);

	end_dialing(peer);
	tagrv_conn_dialed(&peer->conn, &sock->chan);
	tagrv_wireup_peer_settle(&peer->conn);
}

void tagrv_wireup_peer_lost(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_peer *peer = peer_of(sock->chan.conn);

	tagrv_conn_closed(&peer->conn, &sock->chan);
	tagrv_wireup_peer_settle(&peer->conn);
}
