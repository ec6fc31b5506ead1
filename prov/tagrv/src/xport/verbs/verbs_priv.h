/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects of the verbs transport and how they hold each other:
 *
 *   device    context, protection domain, one port
 *     xport     two completion queues, receive buffers, copy buffers
 *       link      one RC queue pair
 *
 * Threads: links are created, bound and discarded by the wireup thread while
 * the endpoint's thread polls. Both meet only in struct verbs_inbox, under its
 * mutex, and in the atomic 'alarm' bits. All other fields of an xport and of
 * an attached link belong to the domain lock.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_PRIV_H
#define TAGRV_XPORT_VERBS_VERBS_PRIV_H

#include <errno.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>

#include "xport/verbs/verbs_dev.h"

#define VERBS_WIRE_ID		1
#define VERBS_BATCH		16	/* completions taken in one poll */
#define VERBS_POST_BATCH	32	/* receives posted in one call */
#define VERBS_RX_SLAB		512u	/* receive buffers registered at once */
#define VERBS_TX_SLAB		128u	/* copy buffers registered at once */
#define VERBS_RX_LEAST		16u	/* where little memory may be locked */
#define VERBS_TX_LEAST		8u
#define VERBS_RQ_LEAST		4u
#define VERBS_EAGER_LEAST	256u
#define VERBS_RQ_DEPTH		63u	/* receives of a link without SRQ */
#define VERBS_TX_CQ_DEPTH	4095u	/* sends in flight of one endpoint */
#define VERBS_RX_CQ_DEPTH	16383u	/* without SRQ, to begin with */
#define VERBS_RX_CQ_MAX		65535u	/* and where it cannot grow */
#define VERBS_SGE_MAX		(TAGRV_IOV_MAX + 1)
#define VERBS_STRAY_LINK	64u	/* early packets kept for one link */
#define VERBS_STRAY_MAX		1024u	/* and for all links together */
#define VERBS_CLOSE_MS		1000	/* a queue pair drains at most so long */
#define VERBS_CLOSE_HW_MS	1	/* and with SRQ at least so long, */
#define VERBS_CLOSE_SOFT_MS	5	/* on software devices so long */
#define VERBS_CLOSE_BATCH	16u	/* destroyed in one pass: a slow call */
#define VERBS_GRANT_FIRST	16u	/* packets a new link may bring */
#define VERBS_GRANT_MIN		4u	/* any link, of which the last */
#define VERBS_GRANT_CTRL	2u	/* two are for control packets, */
#define VERBS_GRANT_LAST	1u	/* and one of these for grants */
#define VERBS_GRANT_MAX		128u	/* packets on their way to us per link */
#define VERBS_SOFT_BURST	8u	/* packets in flight over software */
#define VERBS_NO_BUF		UINT32_MAX

/* ---- links: verbs_link.c, verbs_blob.c, verbs_map.c ---- */

/* One work request in flight, at index (sequence & ring_mask). */
struct verbs_tx {
	struct tagrv_done *done;
	uint32_t buf;			/* copy buffer, VERBS_NO_BUF */
	bool	get, put;
	bool	signaled;
};

/* A packet that came before its link was attached. */
struct verbs_stray {
	struct tagrv_list node;
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
	VERBS_LINK_BOUND,	/* queue pair ready to send */
	VERBS_LINK_OPEN,	/* attached: the sink gets its packets */
	VERBS_LINK_CLOSING,	/* queue pair in error, being drained */
};

struct verbs_link {
	struct tagrv_link base;
	struct ibv_qp	*qp;
	uint32_t qpn;
	uint32_t serial;	/* tells links of one qpn apart, in wr_id */
	_Atomic enum verbs_link_state state;	/* bind and progress meet */
	/* first error, 0 while alive: nothing is posted from then on */
	int	error;
	bool	quiet;		/* discarded: no callback, ctx is invalid */
	bool	reported;	/* link_error was called */
	bool	draining;	/* closing: the last request was posted */

	/* send queue: sequences tail..head-1 are in flight */
	struct verbs_tx *ring;
	uint32_t ring_mask;
	uint32_t head, tail;
	uint32_t depth;		/* in flight at most, the last one apart */
	uint32_t reserve;	/* of them for control packets */
	uint32_t unsignaled;	/* posted since the last signaled one */
	uint32_t gets, max_gets;
	uint32_t puts;
	size_t	max_packet;	/* what the peer's buffers hold */

	/* packets that may be sent: verbs_grant.c */
	uint32_t granted;	/* by us */
	uint32_t out;		/* by the peer */
	struct tagrv_list owing_node;	/* in xport->owing */

	/* receive side */
	struct verbs_rxq *rxq;	/* own queue, NULL: the xport's SRQ */
	struct tagrv_list dirty_node;	/* in xport->dirty: idle buffers */
	struct tagrv_list strays;
	unsigned stray_cnt;

	/* parameters of the connection */
	struct verbs_port port;	/* ours, as the peer was told */
	uint32_t psn;
	atomic_int async_error;	/* set by the wireup thread with an alarm */

	struct tagrv_list todo_node;	/* in xport->ready or ->failed */
	struct tagrv_list inbox_node;	/* in inbox.fresh, or in none */
	struct tagrv_list drop_node;	/* in inbox.dropped */
	struct tagrv_list close_node;	/* in xport->closing */
	uint64_t closed_at;	/* ms */
	uint64_t ripe_pass;	/* by then the device had its time, 0: no */
	uint64_t ripe_taken;	/* xport->rx_taken then */
};

/* What travels in a blob, in host order: verbs_blob.c. */
struct verbs_blob {
	uint32_t qpn, psn;
	uint32_t max_packet;
	uint16_t lid;
	uint8_t	mtu;		/* enum ibv_mtu */
	uint8_t	rd_in, rd_out;	/* reads served, reads made at a time */
	uint8_t	net;			/* enum verbs_net */
	uint16_t grant;		/* packets the peer may send */
	union ibv_gid gid;
};

size_t tagrv_verbs_blob_pack(const struct verbs_blob *blob, void *to);
int tagrv_verbs_blob_unpack(struct verbs_blob *blob, const void *from,
			    size_t len) TAGRV_WARN_UNUSED;

/* Links by queue pair number: open addressing, at most half full. */
struct verbs_map {
	struct verbs_link **slots;
	uint32_t mask;		/* slots - 1; 0: no slots yet */
	unsigned shift;
	uint32_t cnt;
};

static inline uint32_t verbs_map_home(const struct verbs_map *map, uint32_t qpn)
{
	return (qpn * 2654435769u) >> map->shift;
}

static inline struct verbs_link *verbs_map_find(const struct verbs_map *map,
						uint32_t qpn)
{
	uint32_t i;

	if (TAGRV_UNLIKELY(!map->mask))
		return NULL;
	for (i = verbs_map_home(map, qpn); map->slots[i];
	     i = (i + 1) & map->mask)
		if (map->slots[i]->qpn == qpn)
			return map->slots[i];
	return NULL;
}

int tagrv_verbs_map_add(struct verbs_map *map, struct verbs_link *link)
	TAGRV_WARN_UNUSED;
void tagrv_verbs_map_remove(struct verbs_map *map, struct verbs_link *link);
void tagrv_verbs_map_fini(struct verbs_map *map);

/* ---- xport ---- */

/* Reasons for progress to leave its fast path. */
enum verbs_alarm {
	VERBS_ALARM_DROPPED	= 1 << 0,	/* inbox.dropped has links */
	VERBS_ALARM_DEVICE	= 1 << 1,	/* device or a queue has died */
	VERBS_ALARM_LINK	= 1 << 2,	/* some link has async_error */
	VERBS_ALARM_FAILED	= 1 << 3,	/* failed has links */
	VERBS_ALARM_READY	= 1 << 4,	/* ready has links */
	VERBS_ALARM_FLUSH	= 1 << 5,	/* a flush is not complete */
	VERBS_ALARM_ROOM	= 1 << 6,	/* announce room, come what may */
};

/* A completion queue, and completions taken from it but not handled yet. */
struct verbs_cq {
	struct ibv_cq	*cq;
	unsigned unacked;	/* events to acknowledge */
	uint32_t held_pos, held_cnt, held_cap;
	struct ibv_wc *held;	/* of them, those from held_pos on wait */
};

/* Where the wireup thread and progress meet. */
struct verbs_inbox {
	pthread_mutex_t mutex;
	struct tagrv_list fresh;	/* created, not in the map yet */
	struct tagrv_list dropped;	/* discarded, to be drained */
	uint32_t next_serial;
	uint32_t rx_cq_depth;		/* without SRQ: entries of the queue */
	uint32_t rx_cq_used;		/* and what its links may fill */
	uint32_t rx_total, rx_max;	/* shared receive buffers now, ever */
	uint32_t rx_first;		/* promised to fresh links */
};

struct verbs_xport {
	struct tagrv_xport base;
	const struct tagrv_verbs_calls *calls;
	struct verbs_dev *dev;
	struct tagrv_params params;

	/* data path */
	_Atomic uint32_t alarm;		/* enum verbs_alarm */
	struct verbs_cq rx, tx;
	struct verbs_map map;
	struct verbs_rxq rxq;		/* with SRQ */
	struct verbs_bufs tx_bufs;
	uint32_t tx_buf_reserve;	/* of them for control packets */
	uint32_t tx_cap;		/* work requests in flight at most */
	uint32_t tx_reserve;
	uint32_t signal_every;
	uint32_t inflight;
	uint32_t signaled;		/* of them with a completion to come */
	uint32_t idle_polls;
	bool	starved;		/* -FI_EAGAIN was given, room is due */
	bool	freed;			/* something became free since */
	bool	want_tx_bufs;
	bool	want_rx_bufs;		/* more could be granted */
	bool	ungranted;		/* a send waits for a grant */
	_Atomic uint32_t rx_out;	/* packets that links in the map may bring */
	uint32_t rx_window;		/* and what each may bring at most */
	struct tagrv_list owing;	/* links to be granted more */
	bool	reaping;		/* the send side is being polled */
	bool	must_poll_tx;		/* it may explain a flushed receive */
	struct tagrv_list dirty;	/* links with idle receive buffers */

	/* cold */
	bool	use_srq;
	uint32_t sq_depth, sq_reserve, rq_depth;
	uint32_t qp_sge;
	uint8_t	rd_in, rd_out;
	int	fatal;			/* reported status, 0: alive */
	atomic_int async_fatal;
	struct tagrv_list ready, failed, closing;
	unsigned stray_cnt;
	uint64_t stray_lost, stale;	/* counters for the log at close */
	struct {
		uint64_t given;		/* packets granted to peers */
		uint64_t bare;		/* packets sent for that alone */
		_Atomic uint64_t over;	/* granted beyond the buffers */
		uint64_t starved;	/* sends refused for want of a grant */
		uint64_t sent;		/* packets sent, each for a grant */
	} stats;
	bool	over_told;
	uint64_t pass;			/* of progress */
	uint64_t rx_empty_pass;		/* the last that emptied the receive CQ */
	uint64_t rx_taken;		/* completions from it */
	struct verbs_inbox inbox;
	struct ibv_comp_channel *channel;
	int	wake_fd;		/* eventfd: alarms from other threads */
	int	wait_fd;		/* epoll of channel and wake_fd */
	struct tagrv_list dev_node;	/* in dev->xports */
};

static inline struct verbs_xport *verbs_xport_of(struct tagrv_xport *xport)
{
	return tagrv_container_of(xport, struct verbs_xport, base);
}

static inline struct verbs_link *verbs_link_of(struct tagrv_link *link)
{
	return tagrv_container_of(link, struct verbs_link, base);
}

/* 2^k entries take twice the memory of 2^k - 1 where a slot stays empty. */
static inline uint32_t verbs_ring_size(uint32_t n)
{
	return n > 4 && !(n & (n - 1)) ? n - 1 : n;
}

static inline void verbs_alarm_set(struct verbs_xport *xp, uint32_t bits)
{
	atomic_fetch_or_explicit(&xp->alarm, bits, memory_order_release);
}

static inline uint32_t verbs_clamp(uint32_t value, uint32_t min, uint32_t max)
{
	return TAGRV_MAX(min, TAGRV_MIN(value, max));
}

/* Of a verbs call that failed, errno having been 0 before it. */
static inline int verbs_status_of_errno(void)
{
	return errno ? -errno : -FI_EIO;
}

/* The same from another thread: wakes one that sleeps on the xport. */
void tagrv_verbs_alarm_wake(struct verbs_xport *xp, uint32_t bits);

/* verbs_conn.c: queue pairs */
int tagrv_verbs_qp_create(struct verbs_xport *xp, void *context,
			  uint32_t max_inline, struct ibv_qp **qp,
			  uint32_t *got_inline) TAGRV_WARN_UNUSED;
int tagrv_verbs_qp_init(struct verbs_link *link) TAGRV_WARN_UNUSED;
int tagrv_verbs_qp_connect(struct verbs_link *link,
			   const struct verbs_blob *peer) TAGRV_WARN_UNUSED;
void tagrv_verbs_qp_fail(struct verbs_link *link);

/* verbs_link.c: life of a link */
int tagrv_verbs_link_create(struct tagrv_xport *xport, void *blob, size_t *len,
			    struct tagrv_link **link);
int tagrv_verbs_link_bind(struct tagrv_link *link, const void *blob,
			  size_t len);
void tagrv_verbs_link_discard(struct tagrv_link *link);
int tagrv_verbs_link_attach(struct tagrv_link *link, void *ctx);
void tagrv_verbs_link_close(struct tagrv_link *link);
/* Moves fresh links into the map. True if there were any. */
bool tagrv_verbs_links_adopt(struct verbs_xport *xp);
/* Begins the close of what was discarded. */
void tagrv_verbs_links_take_dropped(struct verbs_xport *xp);
/* Ends closing links that are drained; returns how many. */
unsigned tagrv_verbs_links_finish(struct verbs_xport *xp);
/* First error of a link: tells the sink, or progress to do so ('later'). */
void tagrv_verbs_link_fail(struct verbs_link *link, int status, bool later);

/* verbs_post.c: send side */
int tagrv_verbs_send(struct tagrv_link *link, const struct iovec *iov,
		     size_t cnt, unsigned flags, struct tagrv_done *done);
int tagrv_verbs_send_prepared(struct tagrv_link *link, const void *hdr,
			      size_t hdr_len, const struct iovec *iov,
			      struct tagrv_mem *const *mem, size_t cnt,
			      struct tagrv_done *done);
int tagrv_verbs_get(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
		    uint64_t raddr, const void *key, size_t key_len,
		    size_t len, struct tagrv_done *done);
int tagrv_verbs_put(struct tagrv_link *link, const void *addr,
		    struct tagrv_mem *mem, uint64_t raddr, const void *key,
		    size_t key_len, size_t len, struct tagrv_done *done);
/* An empty packet that grants so many: 0, -FI_EAGAIN. */
int tagrv_verbs_send_grant(struct verbs_link *link, uint32_t cnt)
	TAGRV_WARN_UNUSED;
void tagrv_verbs_flush(struct tagrv_xport *xport);
size_t tagrv_verbs_outstanding(struct tagrv_xport *xport);
/* Posts the last request of a closing link, unless nothing is in flight. */
void tagrv_verbs_drain(struct verbs_link *link);
/* Completes work requests up to, not including, sequence 'end'. */
void tagrv_verbs_retire(struct verbs_link *link, uint32_t end, int status);

/* verbs_poll.c: completions */
int tagrv_verbs_progress(struct tagrv_xport *xport);
int tagrv_verbs_reap(struct tagrv_xport *xport);
/*
 * Takes completions, those held back by arm or reap first. Less than
 * VERBS_BATCH means that the queue was empty.
 */
int tagrv_verbs_take(struct verbs_xport *xp, struct verbs_cq *cq,
		     struct ibv_wc *wc);
/* Posts the receives that wait for more to be posted with them. */
void tagrv_verbs_refill_idle(struct verbs_xport *xp);
/* A completion of the receive CQ. */
void tagrv_verbs_on_rx(struct verbs_xport *xp, const struct ibv_wc *wc);
void tagrv_verbs_queue_failed(struct verbs_xport *xp);

/*
 * verbs_grant.c: packets that peers may send. The first three with inbox.mutex
 * held: what a new link may bring; when it is in the map; when it is no more.
 */
void tagrv_verbs_grant_first(struct verbs_link *link);
void tagrv_verbs_grant_adopt(struct verbs_link *link);
void tagrv_verbs_grant_forget(struct verbs_link *link);
/* What the next packet of the link should grant, and that it did. */
uint32_t tagrv_verbs_grant_offer(struct verbs_xport *xp,
				 struct verbs_link *link);
void tagrv_verbs_grant_gave(struct verbs_xport *xp, struct verbs_link *link,
			    uint32_t cnt);
/* As immediate data. bare: of a packet that carries nothing else. */
uint32_t tagrv_verbs_grant_imm(uint32_t cnt, bool bare);
/* Grants by themselves what is owed. */
void tagrv_verbs_grant_serve(struct verbs_xport *xp);
/* A packet has come. False: it was not granted. */
bool tagrv_verbs_grant_arrived(struct verbs_xport *xp, struct verbs_link *link)
	TAGRV_WARN_UNUSED;
/* Reads grants in the receive CQ for who does not handle what comes. */
void tagrv_verbs_grant_look(struct verbs_xport *xp);
/* With this immediate data. True: and with nothing else. */
bool tagrv_verbs_grant_got(struct verbs_xport *xp, struct verbs_link *link,
			   uint32_t imm);

/* verbs_stray.c: packets before attach */
void tagrv_verbs_stray_keep(struct verbs_link *link, const void *data,
			    size_t len) TAGRV_COLD;
/* Delivers packets kept for links attached since. */
unsigned tagrv_verbs_strays_deliver(struct verbs_xport *xp);
void tagrv_verbs_strays_drop(struct verbs_link *link);

/* verbs_error.c */
int tagrv_verbs_wc_status(const struct verbs_dev *dev, const struct ibv_wc *wc);
const char *tagrv_verbs_wc_hint(enum ibv_wc_status status);

/* verbs_sleep.c */
int tagrv_verbs_channel_open(struct verbs_xport *xp) TAGRV_WARN_UNUSED;
/* Takes and acknowledges the events that are left: before CQs are closed. */
void tagrv_verbs_channel_empty(struct verbs_xport *xp);
void tagrv_verbs_channel_close(struct verbs_xport *xp);
int tagrv_verbs_wait_fd(struct tagrv_xport *xport);
int tagrv_verbs_arm(struct tagrv_xport *xport);

/* verbs_size.c */
void tagrv_verbs_sizes_choose(struct verbs_xport *xp);
/* Warns, once for a device, where packets got smaller than 'wanted' bytes. */
void tagrv_verbs_sizes_tell(const struct verbs_xport *xp, size_t wanted);
/* Bytes of a packet buffer, and most receive buffers under a shared queue. */
size_t tagrv_verbs_buf_size(const struct verbs_xport *xp);
uint32_t tagrv_verbs_rx_max(const struct verbs_xport *xp);
/* max_inline: bytes that the device takes with a request. */
void tagrv_verbs_attr_fill(struct verbs_xport *xp, uint32_t max_inline);

/* verbs_xport.c */
int tagrv_verbs_xport_open(struct tagrv_device *dev,
			   const struct tagrv_params *params,
			   struct tagrv_sink *sink, struct tagrv_xport **xport);
void tagrv_verbs_xport_close(struct tagrv_xport *xport);

#endif
