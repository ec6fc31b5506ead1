/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The engine's inside, shared by the files of proto/ only.
 */
#ifndef TAGRV_PROTO_ENGINE_PRIV_H
#define TAGRV_PROTO_ENGINE_PRIV_H

#include <rdma/fi_tagged.h>

#include "core/list.h"
#include "core/log.h"
#include "core/pool.h"
#include "match/match.h"
#include "proto/engine.h"
#include "proto/op.h"
#include "proto/peer.h"
#include "proto/rail.h"
#include "select/select.h"
#include "wire/packet.h"
#include "wireup/wireup.h"

/*
 * An unexpected message. What came with it is in a buffer of a size class: the
 * payload of an eager one, what an RTS says about the sender's memory.
 */
struct tagrv_umsg {
	struct tagrv_pool_node node;
	struct tagrv_match_msg *msg;
	struct tagrv_peer *peer;
	uint64_t data;
	size_t	len;		/* payload, or of the whole message */
	void	*payload;	/* NULL when empty */
	uint32_t op;		/* sender's handle */
	uint32_t life;		/* of the connection whose credit it holds,
				   or 0: of the endpoint's budget */
	uint16_t units;		/* that an eager one holds */
	uint16_t pkt_flags;
	uint8_t	payload_class;
	uint8_t	seg_cnt, key_len;	/* of an RTS */
	uint8_t	rndv;		/* 0: eager, else 1 + what the RTS asks for */
};

static_assert(sizeof(struct tagrv_umsg) == TAGRV_CACHE_LINE,
	      "one line of memory, besides the payload");

/* What is kept of an RTS with one segment: its length is the message's. */
struct tagrv_only_seg {
	uint64_t addr;
	uint8_t	key[TAGRV_KEY_MAX];
};

/* Payload of an unexpected message or an inject: node, then bytes. */
struct tagrv_buf {
	struct tagrv_pool_node node;
	char	bytes[];
};

#define TAGRV_BUF_CLASSES	5

/*
 * Progress passes that a peer which ended its connection is waited for since its
 * last message came, so that what it sent before is taken in; fewer when one
 * finds nothing.
 */
#define TAGRV_DRAIN_PASSES	64

struct tagrv_claim;
struct tagrv_rx_peer;

struct tagrv_rx {
	struct tagrv_match *match;
	struct tagrv_engine *first;	/* of engines; NULL: there is none */
	bool	directed;
	bool	shared;			/* not the one engine's */
	size_t	min_multi_recv;
	struct tagrv_pool ops;		/* receives */
	struct tagrv_pool slices;	/* receives into multi-recv buffers */
	struct tagrv_claim *claims;	/* by context */
	struct tagrv_list engines;	/* that use it, in order of joining */
	struct tagrv_compq *cq;		/* for what is about it alone, or NULL */
	struct tagrv_counter *cntr;
	struct tagrv_rx_peer *peers;	/* shared: uthash by address */
};

struct tagrv_engine {
	struct tagrv_dom *dom;
	struct tagrv_list dom_node;
	struct tagrv_list av_node;
	struct tagrv_engine_attr attr;
	struct tagrv_engine_sinks sinks;
	struct tagrv_rails rails;	/* the transports */
	struct tagrv_wireup_ep *wep;
	const atomic_size_t *wep_events;	/* how many it has */
	struct tagrv_addr name;
	bool	enabled;
	uint32_t credit_target;		/* units a peer may have here */
	uint32_t frags;			/* granted to peers and not here yet */
	uint32_t budget;		/* units of kept messages that cost no
					   peer any credit: what is left */
	char	*batch;			/* the packet that batch.c puts together */

	struct tagrv_match *match;	/* that of rx: one look less */
	struct tagrv_rx *rx;
	struct tagrv_list rx_node;
	struct tagrv_pool tx_ops;	/* sends: what a FIN names */
	struct tagrv_pool pieces;	/* reads of parts of a message */
	struct tagrv_pool umsgs;
	struct tagrv_pool ctls;
	struct tagrv_pool xfers;	/* receives that peers send to */
	struct tagrv_pool bufs[TAGRV_BUF_CLASSES];
	size_t	buf_size[TAGRV_BUF_CLASSES];

	struct tagrv_avtab *av;
	struct tagrv_peer **by_addr;	/* by fi_addr, filled on first use */
	size_t	by_addr_cnt;
	struct tagrv_peer **peers;	/* by id */
	size_t	peer_cnt, peer_cap;
	void	*peer_index;		/* uthash by address */
	bool	in_pass;		/* peers are served when it ends */
	struct tagrv_list busy;		/* READY peers with work to send */
	struct tagrv_list lanes;
	struct tagrv_list gone;		/* lanes whose peer hung up */

	struct {
		uint64_t bad_packets;	/* refused: malformed, out of order */
		uint64_t lost_injects;	/* injects that failed after return */
		uint64_t eager_tx, eager_rx, rndv_tx, rndv_rx;
		uint64_t prepared_tx;	/* of those eager */
		uint64_t no_credit;	/* small ones sent as an RTS */
		uint64_t buffered;	/* those of them that are our copies */
		/* rendezvous by who moved the bytes, if any had to be moved */
		uint64_t moved_tx[TAGRV_PROTO_CNT], moved_rx[TAGRV_PROTO_CNT];
		uint64_t fin_tx, fin_packets;
		uint64_t batch_tx, batch_rx;	/* packets of several things */
		uint64_t batched_tx, batched_rx;	/* messages in them */
	} stats;
};

struct tagrv_buf *tagrv_engine_buf_get(struct tagrv_engine *engine, size_t len,
				       uint8_t *class);
void tagrv_engine_buf_put(struct tagrv_engine *engine, void *bytes,
			  uint8_t class);

/* engine.c: set-up of the parts that open.c puts together; transports first. */
extern const struct tagrv_sink tagrv_engine_sink;
void tagrv_engine_init_pools(struct tagrv_engine *engine);
void tagrv_engine_fini_pools(struct tagrv_engine *engine);

/* engine.c: counts and says once that a peer sent something senseless. */
void tagrv_engine_count_bad(struct tagrv_peer *peer, const char *what);
/* The same, and gives the connection up: the lane may be gone on return. */
void tagrv_engine_bad_packet(struct tagrv_peer *peer, const char *what);

/* stats.c: one line about the queues, to the log. */
void tagrv_engine_tell_match(const struct tagrv_engine *engine);
/* The same about who moved the bytes of rendezvous messages. */
void tagrv_engine_tell_rndv(const struct tagrv_engine *engine);

/* event.c: what the wireup thread found out. */
void tagrv_engine_wireup_event(struct tagrv_engine *engine,
			       const struct tagrv_wireup_event *event);
/* A lane to ourselves over the loop transport. */
int tagrv_engine_connect_self(struct tagrv_peer *peer) TAGRV_WARN_UNUSED;

/* unexp.c: says that too many messages are kept, and the error of that. */
int tagrv_unexp_full(void) TAGRV_COLD;

/* Where an envelope is matched. */
static inline uint8_t tagrv_hdr_space(const struct tagrv_hdr *hdr)
{
	return hdr->flags & TAGRV_PKT_TAGGED ? TAGRV_SPACE_TAGGED :
					       TAGRV_SPACE_MSG;
}

/* Finds the receive of a message, as tagrv_match_arrive does. */
static inline int tagrv_unexp_arrive(struct tagrv_peer *peer,
				     const struct tagrv_hdr *hdr, void **cookie,
				     struct tagrv_match_msg **msg)
{
	int ret = tagrv_match_arrive(peer->engine->match, peer->match_id,
				     tagrv_hdr_space(hdr), hdr->tag, cookie,
				     msg);

	return TAGRV_LIKELY(ret != -FI_EAGAIN) ? ret : tagrv_unexp_full();
}

/* What an eager message of this connection took is free again. */
static inline void tagrv_peer_credit(struct tagrv_peer *peer, uint32_t units)
{
	if (TAGRV_UNLIKELY(tagrv_credit_free(&peer->credit, units,
					     peer->engine->credit_target)) &&
	    peer->state == TAGRV_PEER_READY)
		tagrv_peer_set_busy(peer);
}

/* eager.c */
uint16_t tagrv_eager_flags(uint8_t space, uint64_t op_flags);
int tagrv_eager_send(struct tagrv_peer *peer, const struct tagrv_send_req *req,
		     size_t len, uint32_t handle, struct tagrv_done *done)
	TAGRV_WARN_UNUSED;
/* From registered memory, which is busy until done runs. */
int tagrv_eager_send_prepared(struct tagrv_peer *peer,
			      const struct tagrv_send_req *req, size_t len,
			      uint32_t handle, struct tagrv_done *done)
	TAGRV_WARN_UNUSED;
void tagrv_eager_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			const void *payload, size_t len);
/* The same for one message of a packet of several. */
void tagrv_eager_item(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		      const void *payload, size_t len);

/*
 * batch.c: sends the first of the peer's pending ops and those behind it that
 * may travel in the same packet. 0: *cnt ops, the first of the queue, were
 * taken. -FI_ENOENT: there is nothing to gather, send the first by itself.
 * Others as the transport's send: nothing has happened.
 */
int tagrv_batch_send(struct tagrv_peer *peer, size_t *cnt) TAGRV_WARN_UNUSED;
void tagrv_batch_packet(struct tagrv_peer *peer, const void *body, size_t len);
/* Bytes that a message takes in such a packet, 0: it does not join one. */
size_t tagrv_batch_room(const struct tagrv_op *op);

/*
 * fin.c: sends the first FINs or the first DONE of the peer's queue, which is not
 * empty, in one packet. -FI_EAGAIN and others as the transport's send.
 */
int tagrv_fin_send(struct tagrv_peer *peer) TAGRV_WARN_UNUSED;
/*
 * Writes the first FINs of the queue to 'to' as items of a BATCH, at most
 * TAGRV_FIN_RIDE_MAX; returns how many. When that packet has left they are
 * taken off by the second call.
 */
size_t tagrv_fin_ride(const struct tagrv_peer *peer, char *to);
void tagrv_fin_ridden(struct tagrv_peer *peer, size_t cnt);
void tagrv_fin_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		      const void *body, size_t len);

/* rndv.c: the announcement, who moves the bytes, the end */
/*
 * Announces it, with the way that is proposed. -FI_EAGAIN: no room now;
 * -FI_ENOMEM: it cannot be registered, but may be sent eager; -FI_EFAULT.
 */
int tagrv_rndv_send(struct tagrv_op *op, enum tagrv_proto proto)
	TAGRV_WARN_UNUSED;
void tagrv_rndv_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		       const void *body, size_t len);
void tagrv_rndv_fin_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr);
/* A matched receive gets its data. */
void tagrv_rndv_take(struct tagrv_op *op);
/* Frees the sender, then ends the receive with op->status. On no list. */
void tagrv_rndv_recv_end(struct tagrv_op *op);
/* The status in a packet that ends something. */
int tagrv_rndv_status(const struct tagrv_hdr *hdr);

/* The next bytes to be moved, as one piece of memory on both sides. */
struct tagrv_piece {
	char	*addr;
	struct tagrv_mem *mem;
	uint64_t raddr;
	const uint8_t *key;
	size_t	len;		/* at most 'max' */
};
void tagrv_rndv_next(const struct tagrv_op *op, size_t max,
		     struct tagrv_piece *piece);
/* Segments of a packet, checked: they are 'len' bytes together. */
bool tagrv_rndv_segments(struct tagrv_remote *remote, const void *from,
			 size_t bytes, uint64_t len) TAGRV_WARN_UNUSED;
/* Fills in segments for the first 'len' bytes; returns how many. */
size_t tagrv_rndv_fill(const struct tagrv_op *op, size_t len,
		       struct tagrv_rts_seg *seg, uint8_t *key_len);

/* rndv_read.c: of a whole message, or of a piece */
void tagrv_rndv_read_start(struct tagrv_op *op);
/* Posts more reads. 0: all posted, -FI_EAGAIN: no room now. */
int tagrv_rndv_read(struct tagrv_op *op);

/* rndv_cts.c: the sender is asked; the receive is TAKING */
void tagrv_rndv_ask(struct tagrv_op *op, enum tagrv_proto way);
/* Sends a CTS or GRANT. 0: done, else: not now, or the lane is gone. */
int tagrv_rndv_grant(struct tagrv_op *op);
/* Ends a receive that is TAKING, whatever list it is on; tells nobody. */
void tagrv_rndv_take_end(struct tagrv_op *op, int status);
void tagrv_rndv_frag_packet(struct tagrv_peer *peer,
			    const struct tagrv_hdr *hdr, const void *payload,
			    size_t len);
void tagrv_rndv_done_packet(struct tagrv_peer *peer,
			    const struct tagrv_hdr *hdr);
void tagrv_rndv_cts_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len);
/* Moves what the sender may. 0: all of it, -FI_EAGAIN: no room now. */
int tagrv_rndv_move(struct tagrv_op *op);
/* Puts it among those that have something to move, or begins at once. */
void tagrv_rndv_go_on(struct tagrv_op *op);
/* The send that a peer names, NULL if it is not in this state. */
struct tagrv_op *tagrv_rndv_find_send(struct tagrv_peer *peer, uint32_t handle,
				      enum tagrv_op_state state);

/* The receive that a peer names, NULL if it may not. */
struct tagrv_op *tagrv_rndv_find_taker(struct tagrv_peer *peer,
				       uint32_t handle);
/* A piece of it has ended: it ends if nothing else is to come. */
void tagrv_rndv_taken(struct tagrv_op *op);
/*
 * The body of a CTS or PIECE for at most 'limit' bytes. remote->len: bytes;
 * *pieces: offered at a time.
 */
bool tagrv_rndv_parse_cts(struct tagrv_remote *remote, uint8_t *pieces,
			  uint64_t limit, const void *body, size_t len)
	TAGRV_WARN_UNUSED;

/* rndv_pipe.c: pieces */
/* Bytes of the message that go with its RTS. */
size_t tagrv_rndv_head(const struct tagrv_op *op);
/* False: what is granted makes no sense. */
bool tagrv_rndv_pipe_start(struct tagrv_op *op, uint64_t middle);
/* Sends and offers what may be. 0: all of it, -FI_EAGAIN: no room now. */
int tagrv_rndv_pipe(struct tagrv_op *op);
/* The peer has done with a piece; its message may end. */
void tagrv_rndv_piece_fin(struct tagrv_op *piece, int status);
void tagrv_rndv_drop_pieces(struct tagrv_op *op);
/* A piece was read, or cannot be: piece->status. Its receive may end. */
void tagrv_rndv_piece_end(struct tagrv_op *piece);
void tagrv_rndv_piece_packet(struct tagrv_peer *peer,
			     const struct tagrv_hdr *hdr, const void *body,
			     size_t len);
/* Where copies begin that take the place of the pieces that are missing. */
size_t tagrv_rndv_gap(const struct tagrv_op *op);

/* rndv_copy.c: fragments */
void tagrv_rndv_take_frag(struct tagrv_op *op, const void *payload, size_t len);
/* Is this what may be granted next? */
bool tagrv_rndv_is_grant(const struct tagrv_op *op, uint64_t granted);
int tagrv_rndv_copy(struct tagrv_op *op);
/* The next len bytes in one packet; an empty one asks for grants. */
int tagrv_rndv_send_frag(struct tagrv_op *op, size_t len) TAGRV_WARN_UNUSED;
void tagrv_rndv_grant_packet(struct tagrv_peer *peer,
			     const struct tagrv_hdr *hdr);

/* rndv_write.c: false: it cannot be done here. */
bool tagrv_rndv_write_start(struct tagrv_op *op);
/* A FIN for it: false: it awaits none. It ends with its last write, by status. */
bool tagrv_rndv_write_acked(struct tagrv_op *op, int status);
int tagrv_rndv_write(struct tagrv_op *op);

/* Levels above INJECT: something has to be awaited after the packet is taken. */
#define TAGRV_ACK_LEVELS	(FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)

static inline bool tagrv_op_awaits_fin(const struct tagrv_op *op)
{
	return op->flags & TAGRV_ACK_LEVELS;
}

static inline bool tagrv_op_awaits_wire(const struct tagrv_op *op)
{
	return !tagrv_op_awaits_fin(op) && op->flags & FI_TRANSMIT_COMPLETE;
}

/* Whether a message needs no look at the table: by its size and by credit. */
static inline bool tagrv_send_goes_eager(const struct tagrv_peer *peer,
					 size_t len, uint32_t credit)
{
	return len <= peer->eager_limit && tagrv_credit_units(len) <= credit;
}
/* Whether the first of the peer's pending ops has to wait for others to end. */
static inline bool tagrv_send_is_fenced(const struct tagrv_op *op)
{
	return op->flags & FI_FENCE && op->peer->sent;
}

/*
 * Sends the first of the peer's pending ops, and others with it where they may
 * travel together. Adds what they took to *bytes. On errors the queue is as it
 * was. -FI_EAGAIN: there is no room, or it is fenced.
 */
int tagrv_send_next(struct tagrv_peer *peer, size_t *bytes) TAGRV_WARN_UNUSED;
/*
 * The packet of a queued eager op was taken: it ends, or waits for what its
 * level asks for. leader: the op whose done the packet has, NULL if none.
 */
void tagrv_send_taken(struct tagrv_op *op, struct tagrv_op *leader);
/* Whether a FIN ends a message whose memory the device still has. */
bool tagrv_send_prepared_acked(struct tagrv_op *op, int status);

/* Whether the sender of an eager message waits for its FIN. */
static inline bool tagrv_hdr_wants_fin(uint16_t pkt_flags, uint32_t handle)
{
	return handle &&
	       (pkt_flags & (TAGRV_PKT_ACK_MATCH | TAGRV_PKT_ACK_DELIVERY));
}

/* recv.c: hands a message to a matched receive. */
void tagrv_recv_eager(struct tagrv_op *op, struct tagrv_peer *peer,
		      const struct tagrv_hdr *hdr, const void *payload,
		      size_t len);
void tagrv_recv_rndv(struct tagrv_op *op, struct tagrv_peer *peer,
		     const struct tagrv_hdr *hdr,
		     const struct tagrv_remote *remote);
/* The message can not be had any more: -FI_ECONNRESET. */
void tagrv_recv_lost(struct tagrv_op *op, struct tagrv_peer *peer,
		     const struct tagrv_hdr *hdr);
void tagrv_recv_multi_check(struct tagrv_op *parent);

/* rx.c: -FI_EINVAL: those that use it have another address table. */
int tagrv_rx_join(struct tagrv_rx *rx, struct tagrv_engine *engine)
	TAGRV_WARN_UNUSED;
void tagrv_rx_leave(struct tagrv_engine *engine);
/* By what number a shared one's engines call this peer in the matcher. */
int tagrv_rx_id(struct tagrv_rx *rx, const struct tagrv_addr *addr,
		uint32_t *id) TAGRV_WARN_UNUSED;
/* Of all engines that use it. */
void tagrv_rx_progress(struct tagrv_rx *rx);
/* Where to say what is about it alone; NULL: nowhere. */
struct tagrv_compq *tagrv_rx_cq(const struct tagrv_rx *rx);
struct tagrv_counter *tagrv_rx_cntr(const struct tagrv_rx *rx);
void tagrv_rx_report(struct tagrv_rx *rx, const struct tagrv_comp *comp);
/* With the counter. */
void tagrv_rx_report_error(struct tagrv_rx *rx, const struct tagrv_comp *comp);

/* unexp.c */
int tagrv_unexp_keep(struct tagrv_peer *peer, struct tagrv_match_msg *msg,
		     const struct tagrv_hdr *hdr, const void *payload,
		     size_t len, const struct tagrv_remote *remote)
	TAGRV_WARN_UNUSED;
/* Gives a kept message to a receive and frees it. */
void tagrv_unexp_deliver(struct tagrv_umsg *umsg, struct tagrv_op *op);
/*
 * Rendezvous requests of a connection that is gone can never be served: whatever
 * receive meets one fails with -FI_ECONNRESET, in its turn.
 */
void tagrv_unexp_lose_rndv(struct tagrv_peer *peer);
/* FI_PEEK and FI_CLAIM. */
ssize_t tagrv_unexp_peek(struct tagrv_rx *rx, const struct tagrv_recv_req *req,
			 uint32_t match_id);
ssize_t tagrv_unexp_claimed(struct tagrv_rx *rx,
			    const struct tagrv_recv_req *req,
			    struct tagrv_umsg **umsg);
/* Forgets what came by this engine: what was claimed, then the rest, too. */
void tagrv_unexp_drop_claims(struct tagrv_engine *engine);
void tagrv_unexp_drop(struct tagrv_engine *engine);

#endif
