/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects of the verbs transport, each of which holds those below it:
 *
 *   device    context, protection domain, one port (verbs_dev.h)
 *     xport     two completion queues, receive buffers, copy buffers
 *       link      one RC queue pair, or two: verbs_in.h
 *
 * Threads: the wireup thread creates, binds and discards links while the
 * endpoint's thread polls. The two threads share only struct verbs_inbox, under its
 * mutex, and atomic fields. All other fields of an xport and of an attached link
 * are protected by the domain lock.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_PRIV_H
#define TAGRV_XPORT_VERBS_VERBS_PRIV_H

#include <errno.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>

#include "xport/backends.h"
#include "xport/verbs/verbs_blob.h"
#include "xport/verbs/verbs_dev.h"
#include "xport/verbs/verbs_end.h"
#include "xport/verbs/verbs_list.h"
#include "xport/verbs/verbs_map.h"
#include "xport/verbs/verbs_pool.h"

#define VERBS_WIRE_ID		1
#define VERBS_BATCH		16	/* completions polled in one call */
#define VERBS_POST_BATCH	32	/* receives posted in one call */
#define VERBS_RX_SLAB		512u	/* receive buffers registered at once */
#define VERBS_TX_SLAB		128u	/* copy buffers registered at once */
/* Least numbers and sizes, for processes that may lock little memory */
#define VERBS_RX_LEAST		16u	/* receive buffers */
#define VERBS_TX_LEAST		8u	/* copy buffers */
#define VERBS_RQ_LEAST		4u	/* receives of a link without SRQ */
#define VERBS_EAGER_LEAST	256u	/* eager payload bytes */
#define VERBS_RQ_DEPTH		63u	/* most receives of a link without SRQ */
#define VERBS_RQ_SLAB		8u	/* of them, registered at once, and at first */
#define VERBS_TX_CQ_DEPTH	4095u	/* work requests in flight per endpoint */
/* Receive CQ without SRQ: its size at first, and if it cannot be resized */
#define VERBS_RX_CQ_DEPTH	16383u
#define VERBS_RX_CQ_MAX		65535u
#define VERBS_SGE_MAX		(TAGRV_IOV_MAX + 1)
#define VERBS_STRAY_LINK	64u	/* early packets kept for one link */
#define VERBS_STRAY_MAX		1024u	/* early packets kept for all links */
#define VERBS_CLOSE_MS		1000	/* most time for a queue pair to drain */
/* Time until the device has written all completions of a queue pair in ERR */
#define VERBS_CLOSE_HW_MS	1
#define VERBS_CLOSE_SOFT_MS	5
#define VERBS_CLOSE_BATCH	16u	/* queue pairs destroyed in one pass */
#define VERBS_DESTROY_MS	2	/* of a pass, for this; a thread destroys the rest */
/* Permits: numbers of packets per link (verbs_permit.c) */
#define VERBS_PERMIT_FIRST	16u	/* most in a blob, with SRQ */
#define VERBS_PERMIT_MIN	4u	/* each peer may have: buffers are kept for them */
#define VERBS_PERMIT_CTRL	2u	/* the last 2 are for control packets */
#define VERBS_PERMIT_LAST	1u	/* the last is for a permit-only packet */
#define VERBS_PERMIT_THIN	(1u << 30)	/* beside a number of packets */
/* In permit-only packets; the number is not added. See verbs_recall.c. */
#define VERBS_PERMIT_RECALL	(1u << 29)
#define VERBS_PERMIT_RETURN	(1u << 28)
#define VERBS_PERMIT_COUNT	0xffffu		/* the number */
#define VERBS_PERMIT_MAX		128u	/* largest window */
#define VERBS_MOVES_MAX		16u	/* gets or puts in flight, if short ones */
#define VERBS_SOFT_BURST	8u	/* packets in flight, software devices */
#define VERBS_INLINE_MAX	1024u	/* largest FI_TAGRV_INLINE */
/* Requests in flight of a link: as many as are in its struct, and then, until it needs more */
#define VERBS_RING_FIRST	4u
#define VERBS_RING_USED		32u
#define VERBS_NO_BUF		UINT32_MAX

/* ---- links: verbs_link.c ---- */

/* What is to be done when a work request is complete, besides counting it. */
enum verbs_todo {
	VERBS_TODO_NOTHING,
	VERBS_TODO_FREE,	/* count a signaled one, free a copy buffer */
	VERBS_TODO_ALL,		/* it is a get or put, or has a callback */
	VERBS_TODO_FORMER,	/* the same for an atomic, whose former value is here */
};

/* One work request in flight, at ring[sequence & ring_mask]. */
struct verbs_tx {
	struct tagrv_done *done;	/* or NULL */
	union {
		uint32_t buf;		/* copy buffer, or VERBS_NO_BUF */
		uint32_t packets;	/* of a get or put: how many it takes */
	};
	bool	get, put;		/* an atomic is a get of one packet */
	bool	signaled;
	uint8_t	todo;			/* enum verbs_todo; set by the post, but
					   VERBS_TODO_FORMER by the caller: 'buf' has a
					   verbs_former */
};

/* In the copy buffer of an atomic in flight. */
struct verbs_former {
	uint64_t value;			/* written by the device */
	uint64_t *to;			/* where the caller wants it */
};

/* Gets or puts of a link in flight, and the most that may be: verbs_rdma.c. */
struct verbs_moves {
	uint32_t cnt, cnt_max;		/* requests */
	uint32_t packets, packets_max;	/* packets of the path's MTU */
};

enum verbs_stray_kind {
	VERBS_STRAY_PACKET,
	VERBS_STRAY_LISTED,	/* for sink->listed; it is to be counted */
	VERBS_STRAY_ENTRY,	/* an entry of the list took it; the key is here */
};

/* An early packet: it came before its link was attached. */
struct verbs_stray {
	struct tagrv_list node;
	enum verbs_stray_kind kind;
	size_t	len;
	char	data[];
};

/*
 *   NEW --bind--> BOUND --attach--> OPEN --close--> CLOSING --> gone
 *     \             \--------discard----------------/
 *      \--discard------------------------------------/
 */
enum verbs_link_state {
	VERBS_LINK_NEW,		/* queue pair in INIT, blob on its way */
	VERBS_LINK_BOUND,	/* queue pair in RTS */
	VERBS_LINK_OPEN,	/* attached: the sink gets its packets */
	VERBS_LINK_CLOSING,	/* queue pair in ERR, being drained */
};

static inline bool verbs_link_may_become(enum verbs_link_state from,
					 enum verbs_link_state to)
{
	return to == VERBS_LINK_CLOSING ? from != VERBS_LINK_CLOSING :
					  to == from + 1;
}

struct verbs_link {
	struct tagrv_link base;
	struct ibv_qp	*qp;
	uint32_t qpn;
	uint32_t serial;	/* in wr_id: detects completions of an earlier
				   link with the same qpn */
	/* enum verbs_link_state; written by bind, too, in the wireup thread */
	atomic_uchar state;
	atomic_uchar end;	/* enum verbs_end */
	int	error;		/* status of its first error; 0: alive. Nothing
				   is posted to a link with an error */
	bool	discarded;	/* no callback is due, ctx is invalid */
	bool	reported;	/* link_error was called */
	bool	draining;	/* closing: the last request was posted */
	bool	direct;		/* OPEN, and no early packet waits before others */
	bool	side;		/* a side link: gets and puts only */
	uint8_t	counted;	/* queue pairs of it in the device's quota */
	bool	in_used;	/* set by bind: the peer's packets come by 'in' */
	bool	may_write;	/* the peer's queue pair admits writes */
	bool	thin;		/* the peer has permitted more packets than it has buffers,
				   it says */
	bool	thin_told;	/* the peer believes the same of us */
	bool	return_due;	/* 'returning' is to be told, if only of none */
	bool	recalled;	/* the peer was asked for permits, and has not answered */
	bool	lost_stray;	/* no packet behind it may be delivered */
	uint8_t	mtu_shift;	/* the path's MTU is 2^mtu_shift bytes */
	uint16_t in_number;	/* of the peer's messages in our list; 0: 'in' is not of it */

	/* send queue: sequences tail..head-1 are in flight */
	uint32_t ring_mask;
	atomic_int async_error;	/* set by the wireup thread with an alarm */
	struct verbs_tx *ring;	/* 'first', or allocated */
	struct verbs_tx first[VERBS_RING_FIRST];
	uint32_t head, tail;
	uint32_t depth;		/* most in flight, without close's last one: as many
				   as the ring has room for, which grows */
	uint32_t reserve;	/* slots of depth for control packets */
	uint32_t signal_from;	/* in flight, from which on all are signaled */
	uint32_t unsignaled;	/* requests since the last signaled one */
	struct verbs_moves gets, puts;
	uint32_t max_packet;	/* bytes that the peer's buffers hold */
	uint32_t open_max;	/* the same while it is OPEN without an error, else 0; 0, too, if
				   the peer has a list: verbs_send.c */

	/* verbs_check.c */
	struct {
		uint64_t since;	/* ms: 'tail' has been this since then; 0: not seen, or
				   nothing was in flight at the last look */
		uint32_t tail;
		bool	overdue;	/* since the last look; completions were polled */
	} check;

	/* permits: verbs_permit.c */
	uint32_t tx_permits;	/* packets that we may still send */
	uint32_t rx_permits;	/* packets that the peer may still send */
	uint32_t rx_from;	/* and since its window was looked at: verbs_window.c */
	uint32_t rx_pass;	/* lower bits of xport->pass then */
	uint16_t rx_window;	/* most packets permitted at a time */
	uint16_t offer_at;	/* rx_permits at which packets permit more */
	uint16_t owe_at;	/* rx_permits at which half is used, or what is kept */
	uint16_t rx_ms;		/* lower bits of the clock at the last look that was late */
	uint32_t rx_seen;	/* lower bits of rx_last at the last look of verbs_check.c */
	uint32_t returning;	/* permits that the peer gets back */
	uint64_t rx_last;	/* wr_id of the last receive that completed; verbs_lost.c */
	struct tagrv_list owed_node;	/* in xport->owed */

	/* receive side */
	struct verbs_pool *pool;	/* of its permits */
	struct verbs_rxq *rxq;	/* own queue, NULL: the pool's */
	struct tagrv_list refill_node;	/* in xport->refill */
	union {
		uint64_t asked_for;	/* lost.before when the peer was asked for a packet */
		uint64_t list_end;	/* closing: as sweep_end, of the list */
	};
	struct tagrv_list strays;
	unsigned stray_cnt;
	uint32_t psn;		/* of our first packet */

	struct {		/* second queue pair: verbs_in.h */
		struct ibv_qp *qp;	/* NULL: there is none */
		uint32_t qpn, psn;
	} in;

	struct verbs_port *port;	/* of this side, as in the blob sent; NULL: bound */

	struct tagrv_list todo_node;	/* in xport->ready, ->failed or ender.links */
	union {
		struct tagrv_list discard_node;	/* in inbox.discarded, then */
		struct tagrv_list close_node;	/* in xport->closing */
	};
	union {
		struct tagrv_list inbox_node;	/* in inbox.fresh, or in none */
		struct {		/* CLOSING */
			uint64_t closed_at;	/* ms */
			/* xport->pass when the sweep began, 0: not yet; rx_cq_is_swept() */
			uint64_t sweep_pass;
		};
	};
	union {
		uint64_t sweep_end;	/* xport->rx_polled when all that was there is polled */
		uint64_t rx_matched;	/* OPEN: rxq.next when an entry of the list took its
					   last message */
	};
};

/* ---- xport ---- */

/* Reasons for progress to leave its fast path. */
enum verbs_alarm {
	VERBS_ALARM_DISCARDED	= 1 << 0,	/* inbox.discarded has links */
	VERBS_ALARM_DEVICE	= 1 << 1,	/* device or a queue has died */
	VERBS_ALARM_LINK	= 1 << 2,	/* some link has async_error */
	VERBS_ALARM_FAILED	= 1 << 3,	/* xport->failed has links */
	VERBS_ALARM_READY	= 1 << 4,	/* xport->ready has links */
	VERBS_ALARM_FLUSH	= 1 << 5,	/* a flush is not complete */
	VERBS_ALARM_ROOM	= 1 << 6,	/* announce room, though nothing
						   was freed */
	VERBS_ALARM_PORT	= 1 << 7,	/* the port is active, or has changed */
};

/* A completion queue, and completions polled from it but not handled yet. */
struct verbs_cq {
	struct ibv_cq	*cq;
	unsigned unacked;	/* events to acknowledge */
	uint32_t held_pos, held_cnt, held_cap;
	struct ibv_wc *held;	/* held_cnt completions, from held_pos on */
};

/* Shared by the wireup thread and the endpoint's thread. */
struct verbs_inbox {
	pthread_mutex_t mutex;		/* protects all fields */
	struct tagrv_list fresh;	/* links that are not in the map yet */
	struct tagrv_list discarded;	/* links to be closed */
	uint32_t next_serial;
	uint32_t rx_cq_depth;		/* without SRQ: entries of the rx CQ, */
	uint32_t rx_cq_used;		/* entries that all links may fill */
};

/*
 * The request of packets in one segment. It lives as long as the xport, because most
 * of it is alike from packet to packet, or is not looked at by any device.
 */
struct verbs_packet {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	char	bytes[VERBS_INLINE_MAX];	/* of an inline packet */
};

struct verbs_xport {
	struct tagrv_xport base;
	const struct tagrv_verbs_calls *calls;
	struct verbs_dev *dev;
	struct tagrv_params params;
	struct tagrv_addr local;	/* where the endpoint listens; family 0: not known */
	struct verbs_port port;		/* for links from now on; under dev->mutex */

	/* data path */
	_Atomic uint32_t alarm;		/* enum verbs_alarm */
	struct verbs_cq rx, tx;
	struct verbs_map map;
	struct verbs_pool pool;		/* receive buffers */
	struct verbs_bufs tx_bufs;	/* copy buffers */
	uint32_t tx_buf_reserve;	/* copy buffers for control packets */
	uint32_t tx_cap;		/* most work requests in flight */
	uint32_t tx_reserve;		/* part of tx_cap for control packets */
	uint32_t signal_every;
	uint32_t signal_from;		/* in flight, from which on all are signaled */
	/* Not neighbours: the compiler would load both at once, behind a store of one. */
	uint32_t inflight;		/* work requests of all links */
	uint32_t idle_polls;
	uint32_t signaled;		/* signaled ones in flight */
	bool	starved;		/* a call returned -FI_EAGAIN: room is due */
	bool	freed;			/* something was freed since */
	bool	want_tx_bufs;		/* register more copy buffers */
	bool	lacks_permit;		/* a send waits for a permit */
	struct tagrv_list owed;		/* links to be permitted more, or to be answered */
	bool	polling_tx;		/* poll_tx() is running */
	bool	must_poll_tx;		/* it may explain a flushed receive */
	struct tagrv_list refill;	/* links with idle receive buffers */
	struct tagrv_list closing;	/* links being drained */
	uint64_t pass;			/* calls of progress */
	uint64_t rx_empty_pass;		/* last pass that emptied the rx CQ */
	uint64_t rx_polled;		/* completions polled from the rx CQ */
	unsigned stray_cnt;		/* early packets of all links */
	bool	use_srq;

	/* cold */
	uint32_t sq_depth, sq_reserve, rq_depth;
	uint32_t qp_sge;
	uint8_t	rd_in, rd_out;
	int	fatal;			/* status passed to sink->fatal, or 0 */
	atomic_int async_fatal;		/* set by the wireup thread with an alarm */
	struct tagrv_list ready;	/* links with early packets to deliver */
	struct tagrv_list failed;	/* links with an error to report */
	uint64_t stray_lost, stale;	/* counters for the log at close */
	uint64_t astray;		/* the same, of packets by a queue pair that sends only */
	struct {
		uint64_t permits_sent;	/* packets permitted to peers */
		uint64_t permit_only_sent; /* packets that were permits only */
		uint64_t permits_recalled; /* packets that peers were asked not to send */
		uint64_t sends_refused;	/* for lack of a permit */
		uint64_t packets_sent;
		uint64_t probes;
	} stats;
	struct verbs_inbox inbox;
	struct verbs_ender ender;
	struct verbs_map in_map;	/* second queue pairs */
	struct ibv_td	*td;		/* NULL: the device has none */
	struct ibv_pd	*qp_pd;		/* of queue pairs: with td, or the device's */
	struct ibv_comp_channel *channel;
	int	vector;			/* interrupt of both CQs */
	int	wake_fd;		/* eventfd: alarms from other threads */
	int	wait_fd;		/* epoll of channel and wake_fd */
	struct tagrv_list dev_node;	/* in dev->xports */
	struct verbs_packet packet;
	struct verbs_list list;
};

static inline struct verbs_xport *verbs_xport_of(struct tagrv_xport *xport)
{
	return tagrv_container_of(xport, struct verbs_xport, base);
}

static inline struct verbs_link *verbs_link_of(struct tagrv_link *link)
{
	return tagrv_container_of(link, struct verbs_link, base);
}

/*
 * A queue size of at most n: on devices that keep one slot of a queue empty, 2^k
 * entries take twice the memory of 2^k - 1.
 */
static inline uint32_t verbs_ring_size(uint32_t n)
{
	return n > 4 && !(n & (n - 1)) ? n - 1 : n;
}

/* Packets of the VERBS_PERMIT_MIN that a peer may not send now: their buffers are kept for it. */
static inline uint32_t verbs_kept(uint32_t permits)
{
	return permits < VERBS_PERMIT_MIN ? VERBS_PERMIT_MIN - permits : 0;
}

/* Whether the peer has used half of the window since it was looked at last: verbs_window.c */
static inline bool verbs_window_is_used(const struct verbs_link *link)
{
	return (link->rx_from - link->rx_permits) * 2 >= link->rx_window;
}

/* Sets alarm bits (enum verbs_alarm); wakes no thread. */
static inline void verbs_alarm_set(struct verbs_xport *xp, uint32_t bits)
{
	atomic_fetch_or_explicit(&xp->alarm, bits, memory_order_release);
}

static inline uint32_t verbs_clamp(uint32_t value, uint32_t min, uint32_t max)
{
	return TAGRV_MAX(min, TAGRV_MIN(value, max));
}

/* The status of a verbs call that failed; errno must have been 0 before it. */
static inline int verbs_status_of_errno(void)
{
	return errno ? -errno : -FI_EIO;
}

/* Sets alarm bits from another thread, and wakes threads on the wait_fd. */
void tagrv_verbs_alarm_wake(struct verbs_xport *xp, uint32_t bits);

/*
 * verbs_conn.c: queue pairs. 0 or the negated errno of the verbs call.
 * create: link is returned by events, NULL: of none; *got_inline: bytes the device
 * accepts inline, at least max_inline.
 */
int tagrv_verbs_qp_create(struct verbs_xport *xp, struct verbs_link *link,
			  uint32_t max_inline, struct ibv_qp **qp,
			  uint32_t *got_inline) TAGRV_WARN_UNUSED;
/* What the link's queue pair lets the peer do: TAGRV_MEM_READ, TAGRV_MEM_WRITE. */
unsigned tagrv_verbs_qp_rights(const struct verbs_link *link);
/* One that receives only, from the SRQ. */
int tagrv_verbs_qp_create_in(struct verbs_xport *xp, struct verbs_link *link,
			     struct ibv_qp **qp) TAGRV_WARN_UNUSED;
/* To INIT: receives may be posted. */
int tagrv_verbs_qp_init(struct verbs_link *link, struct ibv_qp *qp) TAGRV_WARN_UNUSED;
/* A queue pair of ours and the peer's that it is connected to. */
struct verbs_way {
	struct ibv_qp *qp;
	uint32_t psn, peer_qpn, peer_psn;
};
/* To RTS, connected to a queue pair of the peer's blob. */
int tagrv_verbs_qp_connect(struct verbs_link *link, const struct verbs_way *way,
			   const struct verbs_blob *peer) TAGRV_WARN_UNUSED;
/* To ERR: the device flushes all requests. */
void tagrv_verbs_qp_fail(struct verbs_link *link, struct ibv_qp *qp);

/* verbs_link.c: life of a link until it is closed; see xport.h */
int tagrv_verbs_link_create(struct tagrv_xport *xport, void *blob, size_t *len,
			    struct tagrv_link **link);
int tagrv_verbs_link_create_to(struct tagrv_xport *xport, const struct tagrv_addr *peer,
			       void *blob, size_t *len, struct tagrv_link **link);
int tagrv_verbs_side_create(struct tagrv_xport *xport, void *blob, size_t *len,
			    struct tagrv_link **link);
int tagrv_verbs_link_bind(struct tagrv_link *link, const void *blob,
			  size_t len);
void tagrv_verbs_link_discard(struct tagrv_link *link);
int tagrv_verbs_link_attach(struct tagrv_link *link, void *ctx);
/* Moves fresh links into the map. Returns whether any was moved. */
bool tagrv_verbs_links_adopt(struct verbs_xport *xp);
/*
 * Sets the error of a link unless it has one. Reports it by sink->link_error, now
 * or, if 'later', in the next progress.
 */
void tagrv_verbs_link_fail(struct verbs_link *link, int status, bool later);
/*
 * To be called by the endpoint's thread when the link has become OPEN or CLOSING, or
 * when no early packet waits any more, or one is lost. (bind must not: it runs in another thread.)
 */
static inline void verbs_link_set_direct(struct verbs_link *link)
{
	link->direct = link->state == VERBS_LINK_OPEN && !link->stray_cnt && !link->lost_stray;
}

/* The first error of a link counts; nothing is posted to it any more. */
static inline void verbs_link_set_error(struct verbs_link *link, int status)
{
	if (!link->error)
		link->error = status;
	link->open_max = 0;
}

/* Enters another state, which must be legal. */
void tagrv_verbs_link_set_state(struct verbs_link *link,
				enum verbs_link_state state);
/* Frees a link, also a half-built one. Its queue pair is drained or unused. */
void tagrv_verbs_link_destroy(struct verbs_link *link);

/* verbs_close.c */
void tagrv_verbs_link_close(struct tagrv_link *link);
/* Closes the links that the wireup thread has discarded. */
void tagrv_verbs_links_close_discarded(struct verbs_xport *xp);
/* Destroys closing links that are drained; returns their number. */
unsigned tagrv_verbs_links_finish(struct verbs_xport *xp) TAGRV_COLD;

/* verbs_send.c, verbs_rdma.c: entries of the transport's table as in xport.h */
int tagrv_verbs_send(struct tagrv_link *link, const struct iovec *iov,
		     size_t cnt, unsigned flags, struct tagrv_done *done);
int tagrv_verbs_send_short(struct tagrv_link *link,
			   const uint64_t hdr[TAGRV_SHORT_WORDS],
			   const void *payload, size_t len);
int tagrv_verbs_send_prepared(struct tagrv_link *link, const void *hdr,
			      size_t hdr_len, const struct iovec *iov,
			      struct tagrv_mem *const *mem, size_t cnt,
			      struct tagrv_done *done);
int tagrv_verbs_get(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
		    uint64_t raddr, const void *key, size_t key_len,
		    size_t len, struct tagrv_done *done);
int tagrv_verbs_atomic(struct tagrv_link *link, const struct tagrv_xport_change *change,
		       uint64_t raddr, const void *key, size_t key_len,
		       uint64_t *former, struct tagrv_done *done);
int tagrv_verbs_put(struct tagrv_link *link, const void *addr,
		    struct tagrv_mem *mem, uint64_t raddr, const void *key,
		    size_t key_len, size_t len, struct tagrv_done *done);
/* Sets the bounds of gets and puts, when the peer's blob is known. */
void tagrv_verbs_rdma_bind(struct verbs_link *link,
			   const struct verbs_blob *peer);
/* Sends an empty packet that permits cnt packets. 0, -FI_EAGAIN, -FI_ENOTCONN. */
int tagrv_verbs_send_permit(struct verbs_link *link, uint32_t cnt)
	TAGRV_WARN_UNUSED;
/* Sends an empty packet with this bit and number; it leaves a packet for a permit. */
int tagrv_verbs_send_recall(struct verbs_link *link, uint32_t bit, uint32_t cnt)
	TAGRV_WARN_UNUSED;
/* As send_permit, signaled and with what is owed: it confirms all packets before it. */
int tagrv_verbs_send_flush(struct verbs_link *link) TAGRV_WARN_UNUSED;

/* verbs_post.c */
/* Makes room in the ring for so many requests, one of them of close. False: no memory. */
bool tagrv_verbs_ring_fit(struct verbs_link *link, uint32_t cnt) TAGRV_WARN_UNUSED;
/* The ring of a new link, or of one that has nothing in flight: the few in its struct. */
void tagrv_verbs_ring_shorten(struct verbs_link *link);
void tagrv_verbs_flush(struct tagrv_xport *xport);
size_t tagrv_verbs_outstanding(struct tagrv_xport *xport);
/*
 * Posts the last request of a closing link, once, unless nothing is in flight. To
 * be called again until link->draining.
 */
void tagrv_verbs_drain(struct verbs_link *link);
/* Completes the work requests before sequence 'end': runs their done callbacks. */
void tagrv_verbs_retire(struct verbs_link *link, uint32_t end, int status);

/* Makes the outcome of unsignaled requests known. */
void tagrv_verbs_confirm(struct verbs_link *link);
/* Posts a request that only a living peer acknowledges; nothing is in flight. */
void tagrv_verbs_probe(struct verbs_link *link);

/* verbs_check.c: as in xport.h */
void tagrv_verbs_check(struct tagrv_link *link, bool awaited);

/* verbs_poll.c: completions */
int tagrv_verbs_progress(struct tagrv_xport *xport);
int tagrv_verbs_reap(struct tagrv_xport *xport);
/* Posts all idle receive buffers to the SRQ, or to the links in 'refill'. */
void tagrv_verbs_refill_idle(struct verbs_xport *xp);
/* Handles completions of the receive CQ. */
void tagrv_verbs_on_rx(struct verbs_xport *xp, const struct ibv_wc *wc, int cnt);

/*
 * verbs_stray.c: early packets.
 * keep: copies a packet. False: it is dropped, because too many are kept; the link fails.
 */
bool tagrv_verbs_stray_keep(struct verbs_link *link, enum verbs_stray_kind kind,
			    const void *data, size_t len) TAGRV_COLD;
/* Delivers the early packets of the links in 'ready'; returns the events. */
unsigned tagrv_verbs_strays_deliver(struct verbs_xport *xp);
/* Frees the early packets of a link. */
void tagrv_verbs_strays_drop(struct verbs_link *link);

/* verbs_error.c: the status (0 or -FI_E*) and a text for a completion status */
int tagrv_verbs_wc_status(const struct verbs_dev *dev, const struct ibv_wc *wc);
const char *tagrv_verbs_wc_hint(enum ibv_wc_status status);

/* verbs_fork.c: to be called before all other calls. */
void tagrv_verbs_fork_prepare(const struct tagrv_verbs_calls *calls);

/* verbs_sleep.c */
/* Opens channel, wake_fd and wait_fd. On failure call close all the same. */
int tagrv_verbs_channel_open(struct verbs_xport *xp) TAGRV_WARN_UNUSED;
/* Acknowledges all events in the channel; to be called before CQs are closed. */
void tagrv_verbs_channel_empty(struct verbs_xport *xp);
void tagrv_verbs_channel_close(struct verbs_xport *xp);
int tagrv_verbs_wait_fd(struct tagrv_xport *xport);
int tagrv_verbs_arm(struct tagrv_xport *xport);

/* verbs_size.c */
/* Sets the sizes of queues, from parameters, device limits and memlock limit. */
void tagrv_verbs_sizes_choose(struct verbs_xport *xp);
/* Warns, once per device, if eager_max had to become less than 'wanted' bytes. */
void tagrv_verbs_sizes_warn(const struct verbs_xport *xp, size_t wanted);
/* Bytes of a packet buffer; most receive buffers of the SRQ. */
size_t tagrv_verbs_buf_size(const struct verbs_xport *xp);
uint32_t tagrv_verbs_rx_max(const struct verbs_xport *xp);
/* Fills xport->attr. max_inline: bytes that the device takes inline. */
void tagrv_verbs_attr_fill(struct verbs_xport *xp, uint32_t max_inline);

/* verbs_xport.c */
int tagrv_verbs_xport_open(struct tagrv_device *dev,
			   const struct tagrv_params *params,
			   struct tagrv_sink *sink, struct tagrv_xport **xport);
void tagrv_verbs_xport_close(struct tagrv_xport *xport);

#endif
