/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The peers of an endpoint: their table, and timers of their state machines (conn.c). What
 * such a machine decides is done in wireup_act.c. Records come by wireup_dispatch.c, commands
 * by wireup_cmd.c.
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
#include "wireup/wireup_peer.h"

#define BOUND_MIN	1000	/* ms that a peer has to send its RTU, at least */

void tagrv_wireup_peer_add_spare(struct tagrv_conn *conn, struct tagrv_wireup_msg *msg)
{
	struct tagrv_wireup_peer *peer = wireup_peer_of(conn);

	msg->node.next = peer->spares;
	peer->spares = &msg->node;
	peer->spare_cnt++;
}

struct tagrv_wireup_msg *tagrv_wireup_peer_pop_spare(struct tagrv_wireup_peer *peer)
{
	struct tagrv_list *node = peer->spares;

	assert(node);
	peer->spares = node->next;
	peer->spare_cnt--;
	tagrv_list_init(node);
	return tagrv_container_of(node, struct tagrv_wireup_msg, node);
}

static void free_spares(struct tagrv_wireup_peer *peer, int left)
{
	if (left == INT_MAX)
		return;
	free(peer->up);
	peer->up = NULL;
	while (peer->spare_cnt > (unsigned) left)
		free(tagrv_wireup_peer_pop_spare(peer));
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
	wireup_ep_of(peer)->wireup->bound--;
}

static void destroy(struct tagrv_wireup_peer *peer)
{
	struct tagrv_wireup_ep *wep = wireup_ep_of(peer);

	assert(!peer->dialing && !tagrv_list_linked(&peer->dial_node));
	end_bound(peer);
	tagrv_wireup_kept_remove(wep, &peer->kept_node);
	tagrv_addrmap_remove(&wep->peers, &peer->node);
	tagrv_wireup_timer_release(&wep->wireup->timers, &peer->timer);
	free_spares(peer, 0);
	free(peer);
}

struct tagrv_wireup_run *tagrv_wireup_peer_run(const struct tagrv_conn *conn)
{
	return tagrv_container_of(conn, const struct tagrv_wireup_peer, conn)->run;
}

void tagrv_wireup_peer_set_busy(struct tagrv_conn *conn, struct tagrv_wireup_run *run)
{
	struct tagrv_wireup_peer *peer = wireup_peer_of(conn);

	peer->run = run;
	/* Neither is to be closed by others meanwhile. */
	end_bound(peer);
	tagrv_wireup_kept_remove(wireup_ep_of(peer), &peer->kept_node);
}

/* The machine has returned. The time that has come meanwhile may have it leave again. */
static void end_busy(struct tagrv_wireup_peer *peer)
{
	while (peer->run) {
		struct tagrv_wireup_run *run = peer->run;

		peer->run = NULL;
		if (run->due)
			tagrv_conn_timer(&peer->conn);
		run->due = false;
	}
}

/* Keeps the peers that owe us the RTU in the order in which they came. */
static void note_bound(struct tagrv_wireup_peer *peer)
{
	struct tagrv_wireup *wireup = wireup_ep_of(peer)->wireup;
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
	struct tagrv_wireup_peer *peer = wireup_peer_of(conn);
	struct tagrv_wireup_ep *wep = wireup_ep_of(peer);
	struct tagrv_wireup *wireup = wep->wireup;

	end_busy(peer);
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

/* -- timers --------------------------------------------------------------- */

static void on_timer(struct tagrv_wireup_timer *timer)
{
	struct tagrv_wireup_peer *peer =
		tagrv_container_of(timer, struct tagrv_wireup_peer, timer);

	if (peer->run) {
		peer->run->due = true;
		return;
	}
	if (wireup_ep_of(peer)->wireup->patient < peer->due) {
		/* We were busy meanwhile, and that time does not count. */
		tagrv_wireup_conn_ops.timer(&peer->conn, peer->due);
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

void tagrv_wireup_peer_lost(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_peer *peer = wireup_peer_of(sock->chan.conn);

	tagrv_conn_closed(&peer->conn, &sock->chan);
	tagrv_wireup_peer_settle(&peer->conn);
}
