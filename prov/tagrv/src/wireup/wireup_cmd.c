/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Commands of the engine about a peer, and the turn of a renewal's offer: what they have the
 * peer's state machine do. Those about a peer that is busy are kept (wireup_run.h).
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "wireup/wireup_peer.h"

void tagrv_wireup_peer_connect(struct tagrv_wireup_msg *msg)
{
	struct tagrv_wireup_ep *wep = msg->wep;
	struct tagrv_conn *conn = tagrv_wireup_peer_find(wep, &msg->addr);

	if (tagrv_wireup_run_keeps(conn, msg))
		return;
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
	tagrv_wireup_peer_add_spare(conn, msg);
	tagrv_conn_want(conn);
	tagrv_wireup_peer_settle(conn);
}

void tagrv_wireup_peer_drop(struct tagrv_wireup_msg *msg)
{
	struct tagrv_conn *conn = tagrv_wireup_peer_find(msg->wep,
							 &msg->addr);

	if (tagrv_wireup_run_keeps(conn, msg))
		return;
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

	if (tagrv_wireup_run_keeps(conn, msg))
		return;
	if (!conn || conn->epoch != epoch) {
		free(msg);
		return;
	}
	if (conn->renew->wanted)
		free(msg);	/* the event that is due has its message */
	else
		tagrv_wireup_peer_add_spare(conn, msg);
	tagrv_conn_renew(conn, epoch, down, patience);
	tagrv_wireup_peer_settle(conn);
}

void tagrv_wireup_peer_offer(struct tagrv_wireup_ep *wep, const struct tagrv_addr *addr)
{
	struct tagrv_conn *conn = tagrv_wireup_peer_find(wep, addr);

	if (!conn)
		return;
	tagrv_conn_offer(conn);
	tagrv_wireup_peer_settle(conn);
}
