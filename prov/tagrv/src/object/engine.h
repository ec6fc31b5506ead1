/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The engine of one endpoint: its data. engine/ opens, drives and closes it,
 * proto/ moves messages with it.
 *
 * owner: the endpoint, by tagrv_engine_open() and tagrv_engine_close(). lock: the
 * domain's, for every field that is not constant from open on.
 */
#ifndef TAGRV_OBJECT_ENGINE_H
#define TAGRV_OBJECT_ENGINE_H

#include "core/addrmap.h"
#include "core/list.h"
#include "core/pool.h"
#include "match/match.h"
#include "object/attr.h"
#include "object/avtab.h"
#include "object/credit.h"
#include "object/dom.h"
#include "object/places.h"
#include "object/rail.h"
#include "object/request.h"
#include "object/rx.h"
#include "object/view.h"
#include "select/select.h"

struct tagrv_peer;
struct tagrv_tags;
struct tagrv_wireup_ep;

/*
 * An unexpected message. What came with it is the message's data, if it has any, and
 * behind that the payload of an eager message, or the segments or the head of an RTS.
 * It lies in the record itself if it is short, else in a buffer of a size class.
 *
 * With the matching engine's record, a short eager message costs 120 bytes: whoever
 * makes it longer makes a flood of them dearer.
 */
#define TAGRV_UMSG_ROOM	16	/* bytes in the record itself */

struct tagrv_umsg {
	struct tagrv_pool_node node;
	struct tagrv_match_msg *msg;
	struct tagrv_peer *peer;
	uint32_t op;		/* sender's handle */
	uint32_t life;		/* credit.life of the connection whose credit it
				   holds; 0: it holds the endpoint's budget */
	uint16_t units;		/* of credit that it cost */
	uint16_t pkt_flags;
	uint8_t	place;		/* class of 'buf'; or TAGRV_UMSG_BARE; or
				   TAGRV_UMSG_HERE + bytes of payload */
	uint8_t	seg_cnt, key_len;	/* of an RTS */
	uint8_t	rndv;		/* 0: eager, else 1 + protocol proposed */
	union {
		char	here[TAGRV_UMSG_ROOM];
		struct {
			char	*buf;	/* if bare: the data, if any */
			size_t	len;	/* eager: payload; RTS: whole message */
		};
	};
};

#define TAGRV_UMSG_BARE	127u	/* nothing but a length: an RTS */
#define TAGRV_UMSG_HERE	128u

static_assert(sizeof(struct tagrv_umsg) == 56 &&
	      sizeof(struct tagrv_umsg) + TAGRV_CACHE_LINE <=
	      2 * TAGRV_CREDIT_UNIT, "memory of a kept short message");

/* What is kept of an RTS with one segment: its length is the message's. */
struct tagrv_only_seg {
	uint64_t addr;
	uint8_t	key[TAGRV_KEY_MAX];
};

/* What came with an unexpected message, or an inject: node, then bytes. */
struct tagrv_buf {
	struct tagrv_pool_node node;
	char	bytes[];
};

/*
 * Size classes of such buffers: an RTS with one segment; 32, 64, ... bytes, so that one
 * is at most half empty; what one packet may bring; injects.
 */
#define TAGRV_BUF_SIZES		13
#define TAGRV_BUF_PACKET	TAGRV_BUF_SIZES
#define TAGRV_BUF_INJECT	(TAGRV_BUF_SIZES + 1)
#define TAGRV_BUF_CLASSES	(TAGRV_BUF_SIZES + 2)
static_assert(TAGRV_BUF_CLASSES <= TAGRV_UMSG_BARE, "tagrv_umsg::place");

/* A peer that returns no credit for so long is taken for one that does not receive. */
#define TAGRV_REFUSE_NS		20000000u

/* Entries with remote CQ data, 4 MiB, that are kept for an application that reads late. */
#define TAGRV_UNREAD_MAX	65536u

/*
 * One-sided operations and bytes of the target's memory, by enum tagrv_rma_kind; all atomics
 * count as TAGRV_RMA_ATOMIC. Were both numbers of a kind side by side, compilers would make a
 * vector of them, and need more instructions.
 */
#define TAGRV_RMA_SUMS	(TAGRV_RMA_ATOMIC + 1)

struct tagrv_rma_sums {
	uint64_t ops[TAGRV_RMA_SUMS], bytes[TAGRV_RMA_SUMS];
};

static_assert(TAGRV_RMA_WRITE < TAGRV_RMA_ATOMIC && TAGRV_RMA_READ < TAGRV_RMA_ATOMIC &&
	      TAGRV_RMA_FETCH > TAGRV_RMA_ATOMIC && TAGRV_RMA_COMPARE > TAGRV_RMA_ATOMIC,
	      "index of a sum: the kind, or that of all atomics");

/* What a pass has to do seldom, all in one byte that it looks at. */
enum tagrv_pass_due {
	TAGRV_DUE_ENDS	= 1 << 0,	/* of connections: conn.gone, parts or lost is not
					   empty, perhaps, or conn.self is to be connected */
	TAGRV_DUE_TAGS	= 1 << 1,	/* always, while there is a list: tagrv_tags_flush() */
};

struct tagrv_engine {
	/* Read by every send and every arrival. */
	struct tagrv_dom *dom;
	struct tagrv_rx *rx;
	struct tagrv_match *match;	/* copy of rx->match, saves a load */
	bool	enabled;
	bool	closing;	/* nobody will read its queues to make room in them */
	bool	plain_ends;	/* the end of a receive is an entry in rx_cq and
				   nothing else: no counter, no source to check */
	struct tagrv_engine_sinks sinks;

	/* Peers, and the address table that names them. */
	struct {
		struct tagrv_peer **by_addr;	/* by fi_addr; filled on first use */
		size_t	by_addr_cnt;
		struct tagrv_peer **peers;	/* by peer->id */
		size_t	cnt, cap;
		struct tagrv_addrmap index;	/* those that have an address */
		struct tagrv_list blank;	/* peers of no address: blank_node */
		struct tagrv_avtab *av;
		struct tagrv_av_watcher watcher;
	} table;

	struct {
		struct tagrv_list busy;	/* READY peers with work to send */
		char	*batch;		/* packet that proto/batch.c fills */
		uint32_t refusals;	/* sends that their callers repeat */
		bool	no_credit;	/* one was for want of credit, since the last
					   of these: */
		uint32_t arms;		/* the application wanted to sleep */
		uint64_t refuse_ns;	/* longest that injects are refused for want of
					   credit: TAGRV_REFUSE_NS */
	} tx;

	struct {
		uint32_t target;	/* units of credit a peer may have here */
		uint32_t places;	/* that a connection begins with, on both
					   sides: TAGRV_PLACES_FIRST */
		uint32_t budget;	/* units left for kept messages that cost
					   no peer any credit */
		uint32_t frags;		/* fragments granted to all peers and not
					   here yet */
		size_t	unread;		/* entries that rx_cq may have beyond its size
					   before FINs are held: TAGRV_UNREAD_MAX */
		uint32_t lost;		/* kept announcements of connections that
					   have ended */
		bool	reported;	/* that no budget was left for a receive */
	} credit;

	struct {
		uint64_t bad_packets;	/* refused: malformed, out of order */
		uint64_t lost_injects;	/* injects that failed after the call had
					   returned 0 */
		uint64_t eager_tx, eager_rx, rndv_tx, rndv_rx;
		uint64_t prepared_tx;	/* eager_tx by send_prepared */
		uint64_t no_credit;	/* small messages sent as an RTS */
		uint64_t buffered;	/* no_credit, from our copy */
		/* rendezvous messages by the protocol that moved the bytes */
		uint64_t moved_tx[TAGRV_PROTO_CNT], moved_rx[TAGRV_PROTO_CNT];
		uint64_t moved_bytes_tx, moved_bytes_rx;	/* of these messages */
		uint64_t fin_tx, fin_packets;
		/* one-sided operations, begun here; served for peers */
		struct tagrv_rma_sums rma_tx, rma_rx;
		uint64_t rma_refused;		/* not in rma_rx: no window allows them */
		uint64_t rma_views;		/* of rma_tx: without the peer */
		uint64_t batch_tx, batch_rx;	/* BATCH packets */
		uint64_t batched_tx, batched_rx;	/* messages in BATCH packets */
		uint64_t parted;		/* connections closed by agreement */
		uint64_t part_refused;		/* that peers did not want to close */
		uint64_t rejoined;		/* connections to peers that had one before */
	} stats;

	uint32_t lent;		/* ops in state LENT */
	struct tagrv_views views;	/* of peers' windows */

	struct tagrv_rails rails;	/* the transports */
	struct tagrv_tags *tags;	/* list of receives in a device; NULL: none */

	struct {
		struct tagrv_pool tx_ops;	/* sends; a FIN has a handle of one */
		struct tagrv_pool rndvs;	/* rendezvous parts of all ops */
		struct tagrv_pool pieces;	/* reads of parts of a message */
		struct tagrv_pool umsgs;
		struct tagrv_pool acks;
		struct tagrv_pool xfers;	/* handles of receives, in CTSs */
		struct tagrv_pool rmas;		/* parts of one-sided operations */
		struct tagrv_pool answers;	/* struct tagrv_answer */
		struct tagrv_pool uses;		/* struct tagrv_use */
		struct tagrv_pool showings;	/* struct tagrv_showing */
		struct tagrv_pool bufs[TAGRV_BUF_CLASSES];
		size_t	buf_size[TAGRV_BUF_CLASSES];	/* bytes without node */
		bool	spare_used;	/* objects set aside were taken */
	} pools;

	/* Connections and their set-up. */
	struct {
		struct tagrv_wireup_ep *wep;		/* NULL: not enabled */
		const _Atomic uint64_t *wep_events;	/* reports waiting in it */
		struct tagrv_list lanes;
		uint8_t	due;		/* enum tagrv_pass_due: what else passes have to do */
		struct tagrv_peer *self;	/* ourselves, to be connected; NULL: not now */
		struct tagrv_list gone;	/* lanes whose peer hung up */
		struct tagrv_list parts;	/* tagrv_lane::part.node */
		struct tagrv_list lost;	/* peers that receives may name */
		/* engine/tick.c: ms by the clock; not before */
		uint64_t next_stats, next_check;
		/* The peer has lost its lane: proto/ marks the rendezvous
		 * requests of the peer that it keeps as lost, and engine/ ends
		 * receives that name it, where that is wanted. */
		void	(*lane_lost)(struct tagrv_peer *peer, int status);
	} conn;

	struct tagrv_engine_attr attr;
	struct tagrv_addr name;		/* address that peers use */
	struct {
		int	slot;		/* of dom->show.board */
		uint32_t number;	/* of the endpoint on it */
	} show;
	struct tagrv_list dom_node;	/* dom->engines */
	struct tagrv_list rx_node;	/* rx->engines */
};

static inline void tagrv_rma_sum_add(struct tagrv_rma_sums *sums, enum tagrv_rma_kind kind,
				     uint64_t len)
{
	sums->ops[kind]++;
	sums->bytes[kind] += len;
}

/* The operation begins once more. */
static inline void tagrv_rma_sum_take_back(struct tagrv_rma_sums *sums,
					   enum tagrv_rma_kind kind, uint64_t len)
{
	sums->ops[kind]--;
	sums->bytes[kind] -= len;
}

/* Operations of all kinds. */
static inline uint64_t tagrv_rma_sum_ops(const struct tagrv_rma_sums *sums)
{
	uint64_t ops = 0;

	for (size_t i = 0; i < TAGRV_RMA_SUMS; i++)
		ops += sums->ops[i];
	return ops;
}

/* pools.c */
void tagrv_engine_init_pools(struct tagrv_engine *engine);
void tagrv_engine_fini_pools(struct tagrv_engine *engine);
/*
 * Sets records and buffers of unexpected messages aside for when there is no memory: a
 * chunk of each pool. 0 or -FI_ENOMEM.
 */
int tagrv_engine_set_aside(struct tagrv_engine *engine)
	TAGRV_COLD TAGRV_WARN_UNUSED;
/* A record of such a message; NULL: no memory, and nothing is set aside any more. */
struct tagrv_umsg *tagrv_engine_umsg_get(struct tagrv_engine *engine)
	TAGRV_WARN_UNUSED;
/* A buffer of len bytes or more; *class names its size for put. NULL: likewise, or len
 * is more than a packet can bring. */
struct tagrv_buf *tagrv_engine_buf_get(struct tagrv_engine *engine, size_t len,
				       uint8_t *class);
/*
 * Copies segments of at most TAGRV_INJECT_MAX bytes that the caller of an operation may
 * reuse on return, and makes one segment of them: the copy, which *copy names for
 * tagrv_engine_buf_put() with TAGRV_BUF_INJECT. Of no bytes nothing is changed. 0,
 * -FI_EAGAIN, -FI_ENOMEM.
 */
int tagrv_engine_copy_injected(struct tagrv_engine *engine, struct iovec *iov,
			       uint8_t *cnt, void **copy) TAGRV_WARN_UNUSED;
void tagrv_engine_buf_put(struct tagrv_engine *engine, void *bytes,
			  uint8_t class);

#endif
