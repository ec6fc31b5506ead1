/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A remote endpoint, known by the address of its listener.
 *
 *        send wanted         UP                    SENDABLE
 *   IDLE -----------> CONNECTING --> BOUND (receive only) --> READY
 *     ^  <--- FAILED -----|             |                       |
 *     |  <- GONE (EAGAIN): pending kept-|                       |
 *     |                                 '---- GONE: LEAVING ----|
 *     '--- link error, or drained: lane_fail -------------------'
 *
 * A lane is one life of the connection. It outlives the peer's interest in it
 * until the transport reports the link closed, so a new lane can come up while
 * the old one drains.
 */
#ifndef TAGRV_PROTO_PEER_H
#define TAGRV_PROTO_PEER_H

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/list.h"
#include "core/pool.h"
#include "proto/credit.h"
#include "wireup/wireup.h"

struct tagrv_engine;
struct tagrv_hdr;
struct tagrv_op;
struct tagrv_peer;
struct tagrv_select;

enum tagrv_peer_state {
	TAGRV_PEER_IDLE,	/* no connection, none wanted */
	TAGRV_PEER_CONNECTING,	/* asked wireup for one */
	TAGRV_PEER_BOUND,	/* may receive; sends wait for SENDABLE */
	TAGRV_PEER_READY,
	TAGRV_PEER_LEAVING,	/* hung up: takes in, sends nothing any more */
};

struct tagrv_lane {
	struct tagrv_list node;		/* engine->lanes */
	struct tagrv_list gone_node;	/* engine->gone */
	struct tagrv_list exposed;	/* receives that end with the link */
	struct tagrv_peer *peer;	/* NULL once replaced or failed */
	struct tagrv_link *link;
	uint32_t epoch;
	int	gone_status;
	unsigned gone_passes;		/* of progress since it is on gone, and
					   since its last message came: */
	uint32_t gone_seq;		/* peer->rx_seq then */
	int	status;			/* why it failed, once closing */
	bool	closing;		/* link_close was called */
};

/* The status of what was under way; cut off by the end of the lane: its reason. */
static inline int tagrv_lane_reason(const struct tagrv_lane *lane, int status)
{
	return status == -FI_ECANCELED && lane->closing ? lane->status : status;
}

/* A FIN or DONE that waits for others, or for room. */
struct tagrv_ctl {
	struct tagrv_pool_node node;
	struct tagrv_list link;		/* peer->ctl */
	uint8_t	opcode;
	uint16_t flags;
	uint32_t op;
	uint32_t status;
};

struct tagrv_peer {
	uint32_t id;			/* index in engine->peers */
	uint32_t match_id;		/* the same, or that of a shared rx */
	uint8_t	state;
	bool	self;
	fi_addr_t fi_addr;		/* FI_ADDR_NOTAVAIL: not in the table */
	struct tagrv_engine *engine;
	struct tagrv_lane *lane;
	size_t	eager_limit;		/* payload bytes: all up to it go eager */
	size_t	packet_limit;		/* payload bytes of one eager packet */
	const struct tagrv_select *select;	/* protocols beyond eager_limit;
						   NULL: no link so far */
	size_t	frag_max;		/* payload bytes that a packet can have */
	uint32_t frags;			/* granted to it and not here yet */
	size_t	held;			/* bytes of pending held back, FI_MORE */
	size_t	sent;			/* sends that have left pending and have
					   not ended: FI_FENCE waits for them */
	uint32_t tx_seq, rx_seq;
	struct tagrv_credit credit;
	struct tagrv_list pending;	/* ops in submit order */
	struct tagrv_list waiting;	/* ops sent, FIN outstanding */
	struct tagrv_list readers;	/* receives with reads to post */
	struct tagrv_list grants;	/* receives with something to grant */
	struct tagrv_list takers;	/* receives that wait for fragments */
	struct tagrv_list writers;	/* sends with granted fragments */
	struct tagrv_list ctl;
	struct tagrv_list busy_node;	/* engine->busy */
	struct tagrv_addr addr;
};

/* Finds or creates. NULL: out of memory. */
struct tagrv_peer *tagrv_peer_get(struct tagrv_engine *engine,
				  const struct tagrv_addr *addr);
/* NULL: no such peer yet. */
struct tagrv_peer *tagrv_peer_find(const struct tagrv_engine *engine,
				   const struct tagrv_addr *addr);
/* The peer an fi_addr stands for. -FI_EINVAL: no such row; -FI_ENOMEM. */
int tagrv_peer_of(struct tagrv_engine *engine, fi_addr_t fi_addr,
		  struct tagrv_peer **peer) TAGRV_WARN_UNUSED;
void tagrv_peer_destroy_all(struct tagrv_engine *engine);

/* Makes the peer be served by progress. */
void tagrv_peer_set_busy(struct tagrv_peer *peer);
/*
 * Sends what waits: control and grants first, then reads and fragments, then
 * messages in order, these up to a quantum. True when more could be sent at
 * once: the peer stays busy, and nobody may sleep before it was served again.
 */
bool tagrv_peer_serve(struct tagrv_peer *peer);
/* Asks wireup for a connection when there is none. */
void tagrv_peer_want(struct tagrv_peer *peer);

/*
 * Sends a control packet: hdr in host order, its credit is set here, then len
 * bytes of body. -FI_EAGAIN: later. On any other error the lane has been given
 * up, with all that depended on it.
 */
int tagrv_peer_control(struct tagrv_peer *peer, struct tagrv_hdr *hdr,
		       const void *body, size_t len) TAGRV_WARN_UNUSED;
/* FIN for the peer's operation 'op'; queued when there is no room. */
void tagrv_peer_fin(struct tagrv_peer *peer, uint32_t op, int status);
/*
 * The same by DONE: the peer's receive 'op' has all, or gets no more. flags: 0 or
 * TAGRV_PKT_ACK_DELIVERY.
 */
void tagrv_peer_done(struct tagrv_peer *peer, uint32_t op, uint16_t flags,
		     int status);

/*
 * The lane is of no use: ends everything that depends on it with 'status' and
 * closes the link. tell: the wireup thread does not know yet.
 */
void tagrv_lane_fail(struct tagrv_lane *lane, int status, bool tell);
/* Ends operations that wait for a connection which will not come. */
void tagrv_peer_fail_pending(struct tagrv_peer *peer, int status);

#endif
