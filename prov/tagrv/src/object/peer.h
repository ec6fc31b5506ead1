/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peer: a remote endpoint, known by the address of its listener.
 *
 *        send wanted         UP                    SENDABLE
 *   IDLE -----------> CONNECTING --> BOUND (receive only) --> READY
 *     ^  <--- FAILED -----|             |                       |
 *     |  <- GONE (EAGAIN): pending kept-|                       |
 *     |                                 '---- GONE: LEAVING ----|
 *     '--- link error, or drained: lane_fail -------------------'
 *
 *   READY --> PARTING --> IDLE, READY if the peer refuses, or LEAVING
 *
 * UP may come in any state without a lane: the peer dials us, too. lane.h has
 * the connection itself.
 *
 * lock: the domain lock is held in every call; tagrv_peer_destroy_all() needs none,
 * because the engine is in no list any more.
 */
#ifndef TAGRV_OBJECT_PEER_H
#define TAGRV_OBJECT_PEER_H

#include <assert.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/list.h"
#include "core/pool.h"
#include "core/trace.h"
#include "match/offload/offload.h"
#include "object/credit.h"
#include "object/engine.h"
#include "xport/xport.h"

struct tagrv_lane;
struct tagrv_side;
struct tagrv_select;

/*
 * Bytes that one peer is sent before others have their turn: of messages and one-sided
 * operations, and of answers.
 */
#define TAGRV_PEER_QUANTUM	((size_t) 64 << 10)

enum tagrv_peer_state {
	TAGRV_PEER_IDLE,	/* no connection, none wanted */
	TAGRV_PEER_CONNECTING,	/* asked wireup for one */
	TAGRV_PEER_BOUND,	/* may receive; sends wait for SENDABLE */
	TAGRV_PEER_READY,
	TAGRV_PEER_LEAVING,	/* hung up: packets are received, none are sent */
	TAGRV_PEER_PARTING,	/* likewise: the connection is to be closed until it is
				   needed (engine/part.c), or goes on */
	TAGRV_PEER_STATES
};

/* An ack, FIN or DONE, or a RECALL, that waits for others or for room. */
struct tagrv_ack {
	struct tagrv_pool_node node;
	struct tagrv_list link;		/* peer->acks */
	uint8_t	opcode;			/* TAGRV_PKT_FIN, _DONE or _RECALL */
	uint16_t flags;
	uint32_t op;			/* the peer's handle */
	uint32_t status;		/* FI_E* or 0 */
};

/*
 * What a peer has asked for by a GET or a fetching ATOMIC, and was not sent yet; or how that
 * ended. proto/rma/rma_answer.c.
 */
struct tagrv_answer {
	struct tagrv_pool_node node;
	struct tagrv_list link;		/* peer->rma.answers */
	uint32_t op;			/* the peer's handle */
	uint32_t range_cnt;		/* GET: ranges of windows; ATOMIC: 0 */
	struct fi_rma_iov ranges[TAGRV_IOV_MAX];
	size_t	len, sent;		/* bytes */
	uint64_t newest;		/* GET: dom->windows.newest when it came */
	char	*values;		/* ATOMIC: a buffer of 'class'; NULL: no bytes */
	uint8_t	class;
};

/* A view that an atomic waits for: proto/rma/rma_device.c. */
struct tagrv_asked_view {
	uint32_t id;		/* 0: none is asked for */
	int	status;		/* -FI_E*: why there is none; 0: no answer yet */
	uint64_t key, addr;
};

/*
 * What is known of windows that the peer shows, or is shown (object/view.h). Few peers have any:
 * the others share tagrv_no_views.
 */
struct tagrv_peer_views {
	struct tagrv_list showings;	/* tagrv_showing::of_peer */
	uint32_t showing_cnt;
	uint32_t pause;			/* writes until a SHOW asks for a view again */
	struct {			/* a SHOW that is to be sent; id 0: none */
		uint32_t id;
		bool	must;		/* it is to be answered in any case */
		uint64_t key, addr;
	} show;
	struct tagrv_asked_view asked;
	struct {			/* the peer's SHOW that is to be answered; id 0 */
		uint32_t id;
		uint64_t key, addr;
	} shows;
};

extern const struct tagrv_peer_views tagrv_no_views;

struct tagrv_peer {
	/* Read by every send. */
	size_t	plain_end;		/* tagged messages with fewer bytes go
					   by send_tagged, if the gate is open;
					   0: another send waits, or none is
					   possible, or there is no gate */
	/* of lane->link, if plain_end is not 0 */
	const struct tagrv_gate *gate;
	struct tagrv_link *plain_link;
	tagrv_send_tagged_fn send_tagged;
	struct tagrv_credit credit;
	uint32_t tx_seq;
	struct tagrv_engine *engine;
	struct tagrv_lane *lane;	/* NULL: not connected */
	struct tagrv_side *side;	/* side link, or its beginnings; NULL: none */
	struct tagrv_list pending;	/* sends in submit order */
	size_t	eager_limit;		/* payload bytes: all up to it go eager */
	uint16_t number;		/* lane->link->number: the peer's device
					   matches our tagged messages */
	uint16_t listed_lanes;		/* of tags.h: that had entered, and are not gone */
	/* Read by every arrival. */
	uint32_t rx_seq;
	uint32_t match_id;		/* id, or that of a shared context */
	uint8_t	state;			/* enum: tagrv_peer_set_state() */
	bool	self;			/* it is this endpoint */
	bool	known;			/* the application has named it */
	bool	met;			/* an earlier connection brought packets */
	bool	side_unable;		/* the last side link could not be made */
	bool	side_off_due;		/* the peer is to be told of its end, before all else */
	bool	show_due;		/* a SHOW is to be sent, or to be answered */
	bool	blank;			/* it stands for no address */
	uint32_t life;			/* connections so far */
	fi_addr_t fi_addr;		/* FI_ADDR_NOTAVAIL: not in the table */

	uint32_t id;			/* index in engine->table.peers */
	uint32_t frags;			/* fragments granted to it and not here */
	struct {			/* injects refused for want of credit */
		uint32_t cnt;		/* in a row; 0: none */
		uint32_t credit;	/* units that were left to send then */
		uint32_t arms;		/* engine->tx.arms at the first one */
		uint64_t since;		/* ns by the clock at the first one */
	} refused;
	struct {			/* proto/hold.h */
		struct tagrv_places places;
		uint32_t paid;		/* units of the budget that its kept
					   messages hold */
		uint32_t lost;		/* announced, and the connection ended */
		bool	stopped;	/* it has no place left, and is in 'node' */
		bool	wanted;		/* stopped, but may have what is waited for */
		struct tagrv_list node;	/* engine->rx->stopped */
		uint64_t seen;		/* posts that were looked at since then */
	} hold;
	size_t	packet_limit;		/* payload bytes of one eager packet */
	size_t	frag_max;		/* payload bytes of one fragment */
	const struct tagrv_select *select;	/* protocols beyond eager_limit;
						   NULL: no link so far */
	size_t	held;			/* bytes of pending held back, FI_MORE */
	size_t	sent;			/* sends that have left pending and have
					   not ended: FI_FENCE waits for them */
	struct tagrv_list waiting;	/* sends that wait for FIN or CTS */
	struct tagrv_list readers;	/* receives with reads to post */
	struct tagrv_list to_grant;	/* receives with a CTS or GRANT to send */
	struct tagrv_list granted;	/* receives that wait for the sender */
	struct tagrv_list writers;	/* sends with something to move */
	struct tagrv_list acks;		/* tagrv_ack::link */
	uint32_t ack_cnt;		/* how many but for RECALLs */
	uint32_t sent_msgs;		/* of 'sent', messages: the others need no call of
					   the peer's application */
	struct {			/* one-sided operations: proto/rma/rma.h */
		uint32_t asked;		/* what it keeps for us: proto/rma/rma_op.c */
		uint32_t serving;	/* what we keep for it */
		uint32_t uses;		/* of windows, by all its connections */
		uint32_t changes;	/* PUTs, STOREs and ATOMICs that came */
		uint32_t begun;		/* operations of ours: which connections are in use */
		/* Counted operations: proto/rma/rma_store.c. */
		uint32_t counted;	/* of ours, not answered; in 'sent', too */
		uint32_t done, refused;	/* of its own, not answered yet */
		/* The peer's operation whose packets are coming; op 0: none. */
		uint32_t op;
		int	status;		/* the first error of its packets */
		uint64_t len;		/* bytes of them */
		uint32_t newest;	/* dom->windows.newest at the first of several */
		uint32_t side_nr;	/* side links of this connection that have ended */
		struct tagrv_list answers;	/* tagrv_answer::link */
		struct tagrv_peer_views *views;	/* not written to if it is tagrv_no_views */
		uint64_t side_free_at;	/* ms: when the peer has begun none lately */
		uint32_t side_pause;	/* operations until another one is begun */
		uint32_t side_pause_last;	/* how many it was at first; 0: none so far */
		/* Remote CQ data: proto/rma/rma_data.c. */
		uint32_t data_asked;	/* operations of ours with data, not answered */
		uint16_t held_cnt;	/* FINs that are held */
		uint16_t held_before;	/* by connections that have ended since the queue
					   had room */
		struct tagrv_list held;	/* tagrv_ack::link */
	} rma;
	struct tagrv_list busy_node;	/* engine->tx.busy */
	int	lost;			/* -FI_E*: why its last connection failed, or
					   could not be made; 0: since then another
					   came up, or there was none */
	int	lost_status;		/* the same, for receives that name it, while: */
	struct tagrv_list lost_node;	/* engine->conn.lost */
	union {
		struct tagrv_addrnode by_addr;	/* engine->table.index */
		struct tagrv_list blank_node;	/* blank: engine->table.blank */
	};
	struct tagrv_offload_source listed;	/* for receives that name it: tags.h */
	struct tagrv_addr addr;
};

/*
 * The first 'cnt' of our counted operations that are not answered end: counts them, and logs
 * the loss unless status is 0.
 */
void tagrv_peer_end_counted(struct tagrv_peer *peer, uint32_t cnt, int status);

/* Makes peer->rma.views one that may be written to: view.c. NULL: no memory. */
struct tagrv_peer_views *tagrv_peer_begin_views(struct tagrv_peer *peer) TAGRV_WARN_UNUSED;
/* Frees it; nothing is shown to the peer. */
void tagrv_peer_end_views(struct tagrv_peer *peer);
/* Nothing is asked of a new connection. */
void tagrv_peer_reset_views(struct tagrv_peer *peer);

/* Puts an answer of the peer back, which is on no list: op_rma.c. */
void tagrv_answer_free(struct tagrv_peer *peer, struct tagrv_answer *answer);

/* "READY" and the like; a state that does not exist is "?". */
const char *tagrv_peer_state_name(unsigned state);
/* Whether a peer may go from one state to the other. */
bool tagrv_peer_may_move(unsigned from, unsigned to);

/*
 * Sends may go at once, if there is a connection and none is pending: called
 * whenever one of the two has become true.
 */
void tagrv_peer_open_plain(struct tagrv_peer *peer);

/* A send is pending, or the connection goes away: later ones must not overtake. */
static inline void tagrv_peer_shut_plain(struct tagrv_peer *peer)
{
	peer->plain_end = 0;
}

static inline void tagrv_peer_set_state(struct tagrv_peer *peer,
					enum tagrv_peer_state state)
{
	assert(tagrv_peer_may_move(peer->state, state));
	tagrv_trace_peer_state(peer, peer->id, peer->state, state,
			       peer->engine->name.in.sin_port,
			       peer->addr.in.sin_port);
	peer->state = (uint8_t) state;
	tagrv_peer_open_plain(peer);
}

/* The peer with this address, created if it is new. NULL: out of memory. */
struct tagrv_peer *tagrv_peer_get(struct tagrv_engine *engine,
				  const struct tagrv_addr *addr);
/* The peer with this address; NULL: there is none yet. */
struct tagrv_peer *tagrv_peer_find(const struct tagrv_engine *engine,
				   const struct tagrv_addr *addr);
/* As tagrv_peer_of(), for an fi_addr that is used for the first time. */
int tagrv_peer_resolve(struct tagrv_engine *engine, fi_addr_t fi_addr,
		       struct tagrv_peer **peer) TAGRV_COLD TAGRV_WARN_UNUSED;
/*
 * Makes each fi_addr that stands for the peer one that is used for the first time. With
 * FI_TAGRV_PEER_ERRORS it stays so while the peer is IDLE: engine/lost.h.
 */
void tagrv_peer_forget_rows(struct tagrv_peer *peer) TAGRV_COLD;
/* Whether a message of it has matched, in a device, whose bytes are not there yet. */
bool tagrv_peer_awaits_bytes(const struct tagrv_peer *peer);
/* Whether no operation waits on it, no such bytes are awaited and no ack is to be sent. */
bool tagrv_peer_is_idle(const struct tagrv_peer *peer);
/*
 * Its connection has ended. If it was a stranger's, which has brought nothing, the
 * peer serves for the next new address: invented peers cost no memory for long.
 */
void tagrv_peer_forget(struct tagrv_peer *peer) TAGRV_COLD;
void tagrv_peer_destroy_all(struct tagrv_engine *engine);
/* Follows the changes of the address table: engine->table.watcher. */
void tagrv_peer_watch_table(struct tagrv_engine *engine,
			    struct tagrv_avtab *av);

/* The peer an fi_addr stands for. -FI_EINVAL: no such row; -FI_ENOMEM. */
TAGRV_WARN_UNUSED
static inline int tagrv_peer_of(struct tagrv_engine *engine, fi_addr_t fi_addr,
				struct tagrv_peer **peer)
{
	if (TAGRV_UNLIKELY(fi_addr >= engine->table.by_addr_cnt ||
			   !engine->table.by_addr[fi_addr]))
		return tagrv_peer_resolve(engine, fi_addr, peer);
	*peer = engine->table.by_addr[fi_addr];
	return 0;
}

/* Whether counted operations of the peer have to be answered. */
static inline bool tagrv_peer_owes_count(const struct tagrv_peer *peer)
{
	return peer->rma.done | peer->rma.refused;
}

/* Makes the next progress pass serve the peer, or the look that is going on. */
static inline void tagrv_peer_set_busy(struct tagrv_peer *peer)
{
	struct tagrv_dom *dom = peer->engine->dom;

	if (tagrv_list_linked(&peer->busy_node))
		return;
	tagrv_list_push_tail(&peer->engine->tx.busy, &peer->busy_node);
	if (dom->in_look)
		dom->to_serve = true;
	else
		tagrv_watch_attend(&dom->watch);
}

/* A message has come: a peer sends nothing before it is READY, so it can receive, too. */
static inline void tagrv_peer_note_message(struct tagrv_peer *peer)
{
	if (TAGRV_LIKELY(peer->state != TAGRV_PEER_BOUND))
		return;
	tagrv_peer_set_state(peer, TAGRV_PEER_READY);
	tagrv_peer_set_busy(peer);
}

/* Units that a message of this connection used are free again. */
static inline void tagrv_peer_release_credit(struct tagrv_peer *peer,
					     uint32_t units)
{
	if (TAGRV_UNLIKELY(tagrv_credit_release(&peer->credit, units,
						peer->engine->credit.target)) &&
	    peer->state == TAGRV_PEER_READY)
		tagrv_peer_set_busy(peer);
}

/* A message of the peer has come, for which it has credit, and is gone again at once. */
static inline void tagrv_peer_pass_credit(struct tagrv_peer *peer,
					  uint32_t units)
{
	if (TAGRV_LIKELY(tagrv_credit_pass(&peer->credit, units)))
		return;
	peer->credit.owed -= units;
	tagrv_peer_release_credit(peer, units);
}

#endif
