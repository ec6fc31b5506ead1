/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects of the shared-memory transport and what its files call of each other.
 *
 *   shm_device   listening socket, table of registered memory, all links
 *     shm_xport  bell, hot rings, sends and gets that wait for something
 *       shm_link tx: the peer's ring, mapped when its handover was read
 *                rx: our own ring, there from link_bind on
 *
 * Locks: device->mutex guards what the wireup thread shares with the thread of
 * the endpoint: the list of links, the socket, a link's tx until tx_ready.
 * device->mem_mutex guards the table of memory. Everything else belongs to the
 * thread that holds the domain lock.
 */
#ifndef TAGRV_XPORT_SHM_SHM_PRIV_H
#define TAGRV_XPORT_SHM_SHM_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "xport/shm/shm_ring.h"
#include "xport/xport.h"

#define SHM_NAME	"shm"
#define SHM_HOT		16	/* rings looked at in every pass */
#define SHM_HOT_IDLE	4096	/* passes until one may lose its place */
#define SHM_HOT_KEEP	4	/* that never go cold unless others want a place */
#define SHM_TEND	1024	/* passes between two looks at rare things */
#define SHM_COOL	65536	/* passes after which an idle one goes cold */
#define SHM_LARGE	32	/* lines of an entry that zeroes no heads ahead */
/* bytes behind the header of an entry that is not large */
#define SHM_SHORT	((SHM_LARGE - 1) * SHM_LINE - SHM_HEAD_WORD - \
			 TAGRV_SHORT_HDR)
#define SHM_BATCH	64	/* entries of one ring in one pass */
#define SHM_DONES	1024	/* a power of two */
#define SHM_GETS	16	/* per link and direction */
#define SHM_PENDING	64	/* connections without their message */
#define SHM_PENDING_MS	5000	/* how long they are kept */
#define SHM_ACCEPT_PAUSE_MS	100	/* without descriptors */
#define SHM_TABLE	(1u << 20)	/* registrations of a device */
#define SHM_CMA_PIECE	(1u << 20)	/* bytes read in one pass */
#define SHM_GET_PIECE	8192u	/* through a ring; the same for puts */
#define SHM_SOCK_NAME	16

/* What both sides of a link know of it before they meet. */
struct shm_blob {
	uint8_t	 host[16];
	uint32_t uid;
	uint8_t	 name[SHM_SOCK_NAME];
	uint64_t id, nonce;
};

struct shm_pending {
	int	fd;		/* -1: free */
	uint64_t since;		/* tagrv_clock_ms() */
};

struct shm_mem {
	struct tagrv_mem base;
	uint32_t index;		/* in the table; 0: not for peers */
};

struct shm_device {
	struct tagrv_device base;
	uint8_t	name[SHM_SOCK_NAME];	/* of the abstract socket */
	bool	cma;		/* process_vm_readv, where it is allowed */
	bool	force_fence;	/* our senders cannot rely on membarrier */
	pthread_mutex_t mutex;
	struct tagrv_list links;
	struct tagrv_list unpushed;	/* peer's socket was full */
	_Atomic unsigned unpushed_cnt;
	uint64_t next_id;
	int	listen_fd, epoll_fd;
	int	resume_fd;	/* timer: the listener is polled again */
	bool	told_files;
	struct shm_pending pending[SHM_PENDING];
	_Atomic unsigned refused;	/* handovers that were no good */
	pthread_mutex_t mem_mutex;
	struct shm_entry *table;	/* [0]: the token */
	uint32_t table_used, table_free;
	uint64_t random[32];
	unsigned random_left;
};

enum shm_get_state {
	SHM_GET_FREE,
	SHM_GET_CMA,		/* in xport->cma_gets */
	SHM_GET_ASK,		/* in xport->ask_gets: to be asked for */
	SHM_GET_ASKED,		/* the owner sends pieces */
};

/* One get of ours. */
struct shm_get {
	struct tagrv_list node;
	struct shm_link *link;
	struct tagrv_done *done;
	char	*addr;
	uint64_t raddr, len, copied;
	uint64_t secret;
	uint32_t index;		/* in the owner's table */
	uint32_t gen;
	enum shm_get_state state;
};

/* One get of the peer. */
struct shm_serve {
	struct shm_get_req req;
	uint64_t copied;
};

/* One put of ours. */
struct shm_put {
	struct tagrv_done *done;
	const char *addr;
	uint64_t raddr, len, copied;
	uint64_t secret;
	uint32_t index;		/* in the owner's table */
};

enum shm_wait {			/* why prod.starved is set */
	SHM_WAIT_SEND	= 1 << 0,
	SHM_WAIT_SERVE	= 1 << 1,
	SHM_WAIT_PUT	= 1 << 2,
};

struct shm_link {
	struct tagrv_link base;
	/* consumer: read in every pass */
	struct shm_rx rx;
	uint64_t last_pass;	/* that found something */
	int	hot_at;		/* place in xport->hot, or -1 */
	bool	rx_open;	/* attached, and what comes is delivered */
	bool	closing;
	/* producer */
	_Alignas(TAGRV_CACHE_LINE) struct shm_tx tx;
	bool	tx_open;	/* ready, not failed, not closing */
	/* the rest */
	_Alignas(TAGRV_CACHE_LINE) struct tagrv_list dev_node;
	struct tagrv_list push_node, starved_node, failed_node;
	struct tagrv_list closing_node, serve_node, wait_node, put_node;
	struct shm_bell *peer_bell;
	int	peer_event_fd;
	uint32_t peer_bit, own_bit;
	unsigned waits;		/* enum shm_wait */
	uint32_t need;		/* lines until room is announced */
	uint32_t queued;	/* records in xport->dones */
	int	status;		/* why it failed; 0: did not */
	bool	bound, attached, reported, corrupt;
	bool	cma;		/* the probe succeeded */
	uint64_t id, nonce;
	uint64_t peer_table;
	int	peer_pid;	/* 0: not visible */
	int	peer_pidfd;
	struct shm_blob peer;
	int	ring_fd;	/* until it is handed over */
	_Atomic uint32_t tx_ready;	/* tx and peer_* are set */
	_Atomic uint32_t peer_dead;
	struct shm_get gets[SHM_GETS];
	unsigned get_cnt, asked_cnt;
	struct shm_serve serves[SHM_GETS];
	unsigned serve_head, serve_cnt;
	struct shm_put puts[SHM_GETS];	/* in the order of calls */
	unsigned put_head, put_cnt;
};

struct shm_done {
	struct tagrv_done *done;
	struct shm_link *link;
	int	status;
};

struct shm_xport {
	struct tagrv_xport base;
	struct shm_bell *bell;
	uint64_t pass;
	unsigned hot_cnt;
	bool	slow;		/* one of the lists below is not empty */
	bool	armed;
	uint32_t arm_nr;	/* what bell->armed was last set to */
	struct shm_link *hot[SHM_HOT];
	uint32_t done_head, done_tail;
	bool	reaping, reporting;
	bool	room_due;	/* -FI_EAGAIN was given, it may work now */
	bool	dones_full, gets_full, puts_full;
	/* of links */
	struct tagrv_list starved, failed, closing, serving;
	struct tagrv_list waiting;	/* for the peer's pieces */
	struct tagrv_list putting;	/* with puts to be written */
	/* of gets */
	struct tagrv_list cma_gets, ask_gets;
	size_t	get_cnt, put_cnt;
	int	event_fd, bell_fd;
	size_t	ring_size;
	/* counted for tests */
	uint64_t polls;		/* rings looked at */
	uint64_t errors;	/* links that broke the rules */
	uint64_t used[SHM_BELL_WORDS];	/* bits given away; device->mutex */
	struct shm_link *links[SHM_BELL_LINKS];	/* attached, by bit */
	struct shm_done dones[SHM_DONES];
};

static inline struct shm_device *shm_device_of(struct tagrv_device *dev)
{
	return tagrv_container_of(dev, struct shm_device, base);
}

static inline struct shm_xport *shm_xport_of(struct tagrv_xport *xport)
{
	return tagrv_container_of(xport, struct shm_xport, base);
}

static inline struct shm_link *shm_link_of(struct tagrv_link *link)
{
	return tagrv_container_of(link, struct shm_link, base);
}

static inline struct shm_xport *shm_xport_of_link(const struct shm_link *link)
{
	return shm_xport_of(link->base.xport);
}

/* ---- shm_region.c: memory that can be handed over ---- */

/* A sealed memfd of 'size' bytes, mapped. -FI_ENOMEM, -FI_EMFILE, ... */
int tagrv_shm_region_create(const char *name, size_t size, int *fd,
			    void **addr) TAGRV_WARN_UNUSED;
/* Maps a peer's, if it is of that size and cannot shrink; else -FI_EINVAL. */
int tagrv_shm_region_map(int fd, size_t size, void **addr) TAGRV_WARN_UNUSED;
void tagrv_shm_region_unmap(void *addr, size_t size);
void tagrv_shm_random(void *buf, size_t len);

/* ---- shm_barrier.c: one side of a fence paid for by the other ---- */

/* Registers the process, once. False: it cannot be. */
bool tagrv_shm_barrier_available(void);
/* A full barrier here and in every registered process that is running. */
void tagrv_shm_barrier(const struct shm_device *dev);

/* ---- shm_blob.c ---- */

#define SHM_BLOB_LEN	60
size_t tagrv_shm_blob_pack(const struct shm_blob *blob, void *to);
/* -FI_EINVAL: nonsense; -FI_EHOSTUNREACH: another version. */
int tagrv_shm_blob_unpack(struct shm_blob *blob, const void *from, size_t len)
	TAGRV_WARN_UNUSED;
/* Equal for processes that can share memory and abstract sockets. */
void tagrv_shm_host_id(uint8_t id[16]);

/* ---- shm_hand.c: handover through the socket; shm_take.c: its reading ---- */

int tagrv_shm_listen(struct shm_device *dev) TAGRV_WARN_UNUSED;
void tagrv_shm_unlisten(struct shm_device *dev);
/* Sends our ring to the peer, now or as soon as its socket has room. */
int tagrv_shm_push_locked(struct shm_device *dev, struct shm_link *link)
	TAGRV_WARN_UNUSED;
/* Reads whatever handovers have come and sends what could not be sent. */
void tagrv_shm_pull(struct shm_device *dev);
/* A descriptor in the epoll set; 'what': the id of a link. */
int tagrv_shm_watch(struct shm_device *dev, int fd, uint64_t what)
	TAGRV_WARN_UNUSED;
/*
 * Takes it out and closes it. In this order: a child that was forked has it,
 * too, and would keep it in the set.
 */
void tagrv_shm_unwatch(struct shm_device *dev, int fd);
/* Counts a handover that was no good; logs the first. */
void tagrv_shm_refuse(struct shm_device *dev, const char *why);
/* Maps what came for a link. Descriptors it keeps are -1 after. */
void tagrv_shm_take_locked(struct shm_device *dev, int sock,
			   const struct shm_hand *hand, int fds[SHM_HAND_FDS]);
/* The process behind a descriptor of the epoll set has ended. */
void tagrv_shm_died_locked(struct shm_device *dev, uint64_t id);
int tagrv_shm_dev_event_fd(struct tagrv_device *dev);
void tagrv_shm_dev_event(struct tagrv_device *dev);

/* ---- shm_bell.c ---- */

/* Makes the peer look at the ring of this link, and wakes it. */
void tagrv_shm_ring_bell(struct shm_link *link);
/* The same for ourselves; any thread. */
void tagrv_shm_ring_own(struct shm_link *link);
/* Makes our wait_fd readable if we are armed. */
void tagrv_shm_wake_own(struct shm_xport *xp);
/*
 * There is something for progress to do that no peer rings for. Another thread
 * of ours may be asleep.
 */
static inline void tagrv_shm_own_work(struct shm_xport *xp)
{
	if (TAGRV_UNLIKELY(xp->armed))
		tagrv_shm_wake_own(xp);
}
/* Rings unless the peer looks anyway. */
void tagrv_shm_notify(struct shm_link *link);

/* ---- shm_link.c ---- */

int tagrv_shm_link_create(struct tagrv_xport *xport, void *blob, size_t *len,
			  struct tagrv_link **link);
int tagrv_shm_link_bind(struct tagrv_link *link, const void *blob, size_t len);
void tagrv_shm_link_discard(struct tagrv_link *link);
int tagrv_shm_link_attach(struct tagrv_link *link, void *ctx);
void tagrv_shm_link_close(struct tagrv_link *link);
/* The first reason counts; it is reported by progress or reap. */
void tagrv_shm_link_fail(struct shm_link *link, int status);
/* The same for a peer that broke the rules: counted, logged once. */
void tagrv_shm_link_corrupt(struct shm_link *link, const char *what);
/* Reports failed links; with 'deliver' after what they had sent. */
unsigned tagrv_shm_report(struct shm_xport *xp, bool deliver);
/* Frees closed links. */
unsigned tagrv_shm_bury(struct shm_xport *xp);

/* ---- shm_send.c ---- */

int tagrv_shm_send(struct tagrv_link *link, const struct iovec *iov,
		   size_t cnt, unsigned flags, struct tagrv_done *done);
int tagrv_shm_send_short(struct tagrv_link *link,
			 const uint64_t hdr[TAGRV_SHORT_WORDS],
			 const void *payload, size_t len);
/* Slow half of opening tx: false: not mapped yet, or failed. */
bool tagrv_shm_tx_open(struct shm_link *link);
/* Is there room for that many lines? Looks at what was consumed. */
bool tagrv_shm_tx_free(struct shm_link *link, uint32_t cost, uint32_t reserve);
/* The same, and makes them ready to be written. */
bool tagrv_shm_tx_room(struct shm_link *link, uint32_t cost, uint32_t reserve);
/* After a publish: rings, or finds the peer gone. */
void tagrv_shm_tx_told(struct shm_link *link, uint32_t state);
/* Remembers that somebody waits for room. */
void tagrv_shm_starve(struct shm_link *link, enum shm_wait why, uint32_t need);
void tagrv_shm_unstarve(struct shm_link *link, enum shm_wait why);
/* Is there room for what waits? */
bool tagrv_shm_has_room(struct shm_link *link);
unsigned tagrv_shm_run_dones(struct shm_xport *xp);
int tagrv_shm_reap(struct tagrv_xport *xport);
/* Finds starved links that have room. */
void tagrv_shm_look_for_room(struct shm_xport *xp);

/* ---- shm_poll.c, shm_hot.c ---- */

int tagrv_shm_progress(struct tagrv_xport *xport);
int tagrv_shm_arm(struct tagrv_xport *xport);
/* Armed: is there a reason not to be? It is disarmed then. */
bool tagrv_shm_wake_up(struct shm_xport *xp);
/* Delivers at most SHM_BATCH entries; returns how many. */
unsigned tagrv_shm_drain(struct shm_link *link);
/* Publishes head and tells a producer that waits for it. */
void tagrv_shm_publish_head(struct shm_link *link);
/* The same if the producer waits. */
static inline void tagrv_shm_publish_wanted(struct shm_link *link)
{
	if (TAGRV_UNLIKELY(atomic_load_explicit(
				&link->rx.hdr->prod.starved,
				memory_order_relaxed)))
		tagrv_shm_publish_head(link);
}
/* Is the peer's side of a link we depend on gone? Fails the link then. */
bool tagrv_shm_check_peer(struct shm_link *link);
unsigned tagrv_shm_visit_bits(struct shm_xport *xp);
void tagrv_shm_cool(struct shm_link *link);	/* out of the hot list */
/* Called now and then: those that bring nothing for long go cold. */
void tagrv_shm_cool_idle(struct shm_xport *xp);

/* ---- shm_get.c, shm_serve.c ---- */

int tagrv_shm_get(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
		  uint64_t raddr, const void *key, size_t key_len, size_t len,
		  struct tagrv_done *done);
/* Ends every get of the link. */
unsigned tagrv_shm_gets_end(struct shm_link *link, int status);
void tagrv_shm_get_finish(struct shm_get *get, int status);
unsigned tagrv_shm_ask_pass(struct shm_xport *xp);
/* Entries of a ring; false: they break the rules. */
bool tagrv_shm_on_get_req(struct shm_link *link, const char *body, size_t len);
bool tagrv_shm_on_get_data(struct shm_link *link, const char *body,
			   size_t len);
bool tagrv_shm_on_get_fail(struct shm_link *link, const char *body,
			   size_t len);
unsigned tagrv_shm_serve_pass(struct shm_xport *xp);
bool tagrv_shm_can_serve(struct shm_link *link);

/* ---- shm_put.c ---- */

int tagrv_shm_put(struct tagrv_link *link, const void *addr,
		  struct tagrv_mem *mem, uint64_t raddr, const void *key,
		  size_t key_len, size_t len, struct tagrv_done *done);
/* Writes pieces of what waits; returns how many. */
unsigned tagrv_shm_put_pass(struct shm_xport *xp);
/* Is there room for a piece of what waits? */
bool tagrv_shm_can_put(struct shm_link *link);
/* Ends every put of the link. */
unsigned tagrv_shm_puts_end(struct shm_link *link, int status);
/* An entry of a ring; false: it breaks the rules. */
bool tagrv_shm_on_put(struct shm_link *link, const char *body, size_t len);

/* ---- shm_rate.c ---- */

/* Between two processes of this host. */
struct shm_rates {
	double	ring;		/* bytes/s: two copies, overlapped if possible */
	double	cma;		/* bytes/s: process_vm_readv; 0: not allowed */
	double	call;		/* s for one of those that reads very little */
};

const struct shm_rates *tagrv_shm_rates(void);

/* ---- shm_cache.c: what was measured on this host not long ago ---- */

bool tagrv_shm_rates_load(struct shm_rates *got);
void tagrv_shm_rates_store(const struct shm_rates *got);

/* ---- shm_cma.c ---- */

/* True if it is the faster way here, by FI_TAGRV_SHM_CMA or measured. */
bool tagrv_shm_cma_wanted(const struct tagrv_params *params);
/* Bytes per second of the way in use. */
double tagrv_shm_bandwidth(bool cma);
bool tagrv_shm_cma_probe(int pid, uint64_t table, uint64_t token);
unsigned tagrv_shm_cma_pass(struct shm_xport *xp);

/* ---- shm_mem.c ---- */

int tagrv_shm_mem_open(struct shm_device *dev) TAGRV_WARN_UNUSED;
void tagrv_shm_mem_close(struct shm_device *dev);
int tagrv_shm_mem_reg(struct tagrv_device *dev, void *addr, size_t len,
		      unsigned access, struct tagrv_mem **mem);
void tagrv_shm_mem_dereg(struct tagrv_mem *mem);
size_t tagrv_shm_mem_key(const struct tagrv_mem *mem, void *key);
bool tagrv_shm_key_unpack(const void *key, size_t len, uint32_t *index,
			  uint64_t *secret);
bool tagrv_shm_entry_covers(uint64_t secret, uint64_t addr, uint64_t len,
			    uint64_t wanted, uint64_t from, uint64_t bytes);
/* Copies out of registered memory; -FI_EACCES: the key does not cover it. */
int tagrv_shm_mem_read(struct shm_device *dev, uint32_t index, uint64_t secret,
		       uint64_t from, void *to, size_t len);
/* The same into it. */
int tagrv_shm_mem_write(struct shm_device *dev, uint32_t index, uint64_t secret,
			uint64_t to, const void *from, size_t len);

#endif
