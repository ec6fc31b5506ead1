/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A peer of an endpoint. Its fields are for wireup_peer.c, its life, and wireup_act.c, what its
 * machine decides; others know its connection, and ask whether it is busy (wireup_run.h).
 */
#ifndef TAGRV_WIREUP_WIREUP_PEER_H
#define TAGRV_WIREUP_WIREUP_PEER_H

#include "wireup/wireup_priv.h"

/*
 * owner: the endpoint's table. lock: none, only who has the floor (wireup_crew.h) touches it.
 * lifetime: that of its connection (conn.h).
 */
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
	struct tagrv_wireup_run *run;	/* which the machine has left for a command; NULL:
					   it may be called */
	struct tagrv_wireup_up *up;	/* message for UP, or NULL */
	struct tagrv_list *spares;	/* messages for other events, by node.next, or NULL */
	unsigned spare_cnt;
};

static inline struct tagrv_wireup_peer *wireup_peer_of(struct tagrv_conn *conn)
{
	return tagrv_container_of(conn, struct tagrv_wireup_peer, conn);
}

static inline struct tagrv_wireup_ep *wireup_ep_of(const struct tagrv_wireup_peer *peer)
{
	return tagrv_container_of(peer->conn.host, struct tagrv_wireup_ep, host);
}

/* The run in which the connection's machine waits for a command, or NULL. */
struct tagrv_wireup_run *tagrv_wireup_peer_run(const struct tagrv_conn *conn);
/* The machine, which this run has called, is not to be called until settle. */
void tagrv_wireup_peer_set_busy(struct tagrv_conn *conn, struct tagrv_wireup_run *run);
/* The message serves for one more event. */
void tagrv_wireup_peer_add_spare(struct tagrv_conn *conn, struct tagrv_wireup_msg *msg);

/* One of those, of which there is one. */
struct tagrv_wireup_msg *tagrv_wireup_peer_pop_spare(struct tagrv_wireup_peer *peer);

#endif
