/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects of the shared-memory transport.
 *
 *   shm_device   listening socket, table of registered memory, all links
 *     shm_xport  bell, hot rings, done records, lists of links with work
 *       shm_link tx: the peer's ring, mapped when its handover was read
 *                rx: our own ring, created by link_bind
 *
 * Locks: device->mutex protects what the wireup thread shares with the endpoint's
 * thread: the list of links, the socket, a link's tx until tx_ready. Functions
 * *_locked need it. device->mem_mutex protects the table of memory. All other
 * fields are protected by the domain lock.
 */
#ifndef TAGRV_XPORT_SHM_SHM_OBJECTS_H
#define TAGRV_XPORT_SHM_SHM_OBJECTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "xport/backends.h"
#include "xport/shm/shm_ring.h"

#define SHM_NAME	"shm"
#define SHM_HOT		16	/* most rings polled in every pass */
#define SHM_HOT_IDLE	4096	/* idle passes until another may take a place */
#define SHM_HOT_KEEP	4	/* hot rings that SHM_COOL does not apply to */
#define SHM_RARE_PASSES	1024	/* passes between two calls of rare_work() */
#define SHM_COOL	65536	/* idle passes until a ring becomes cold */
#define SHM_BATCH	64	/* entries of one ring handled in one pass */
#define SHM_KEPT	16	/* of those, messages that no receive was posted for */
#define SHM_DONES	1024	/* done records of an xport; a power of two */
#define SHM_GETS	16	/* gets, and puts, of a link and direction */
#define SHM_PENDING	64	/* connections whose message has not come */
#define SHM_ACCEPTS	64	/* connections taken at a time, under the mutex */
#define SHM_PENDING_MS	5000	/* time until such a connection is closed */
#define SHM_ACCEPT_PAUSE_MS	100	/* if no descriptor is left */
#define SHM_TABLE	(1u << 20)	/* registrations of a device */
#define SHM_CMA_PIECE	(256u << 10)	/* bytes read by one process_vm_readv */
#define SHM_CMA_LEAST	16384u		/* bytes of a get that is faster than packets */
#define SHM_HELP_WAIT_MS	10000	/* for a peer that may be stopped */
#define SHM_GET_PIECE	8192u	/* bytes of a get's or put's piece in a ring */
#define SHM_SOCK_NAME	16

/* Contents of a link's address blob. */
struct shm_blob {
	uint8_t	 host[16];	/* see shm_blob.c */
	uint32_t uid;
	uint8_t	 name[SHM_SOCK_NAME];	/* of the device's socket */
	uint64_t id, nonce;	/* of the link */
};

/* A connection whose handover message has not come yet. */
struct shm_pending {
	int	fd;		/* -1: unused */
	uint64_t since;		/* tagrv_clock_ms() */
};

struct shm_mem {
	struct tagrv_mem base;
	uint32_t index;		/* in the table; 0: not accessible to peers */
};

struct shm_device {
	struct tagrv_device base;
	uint8_t	name[SHM_SOCK_NAME];	/* of the abstract socket */
	bool	cma;		/* get by process_vm_readv if a peer allows it */
	bool	force_fence;	/* membarrier is not available */
	pthread_mutex_t mutex;
	struct tagrv_list links;
	struct tagrv_list unpushed;	/* links whose handover was not sent,
					   because the peer's socket was full */
	_Atomic unsigned unpushed_cnt;
	uint64_t next_id;
	int	listen_fd, epoll_fd;
	int	resume_fd;	/* timer: poll the listener again */
	bool	warned_files;	/* warned that accept failed for want of files */
	struct shm_pending pending[SHM_PENDING];
	_Atomic unsigned refused;	/* handovers that were refused */
	pthread_mutex_t mem_mutex;
	struct shm_entry *table;	/* entry 0 holds the token */
	uint32_t table_used;		/* entries ever used */
	uint32_t table_free;		/* first free one of them; 0: none */
	uint64_t random[32];		/* random numbers for secrets */
	unsigned random_left;
};

enum shm_get_state {
	SHM_GET_FREE,		/* unused */
	SHM_GET_CMA,		/* in xport->cma_gets */
	SHM_GET_QUEUED,		/* in xport->queued_gets: not requested yet */
	SHM_GET_REQUESTED,	/* the owner sends pieces */
};

/* A get that this side has issued; states are drawn in shm_get.c. */
struct shm_get {
	struct tagrv_list node;
	struct shm_link *link;
	struct tagrv_done *done;
	char	*addr;
	uint64_t raddr, len, copied;
	uint64_t secret;
	uint32_t index;		/* in the owner's table */
	uint32_t gen;		/* number of earlier gets in this slot */
	enum shm_get_state state;
	bool	asked;		/* the owner may have been asked for help */
	struct shm_help *help;	/* NULL: this side copies alone */
};

/* A get whose owner was asked to copy a part: shm_help.c. */
struct shm_help {
	struct shm_get *get;	/* NULL: the record is free */
	uint32_t seq;		/* number of the get among those of the link */
	uint32_t chunk;		/* bytes */
	uint32_t chunks;	/* in all */
	uint32_t front, back;	/* claimed by this side; by the owner, as last read */
};

/* A get of the peer of which this side copies a part. */
struct shm_assist {
	struct shm_help_req req;
	uint32_t done;		/* chunks copied */
	bool	active;
};

/* A get that the peer has requested. */
struct shm_serve {
	struct shm_get_req req;
	uint64_t copied;
};

/* A put that this side has issued. */
struct shm_put {
	struct tagrv_done *done;
	const char *addr;
	uint64_t raddr, len, copied;
	uint64_t secret;
	uint32_t index;		/* in the owner's table */
};

/* What waits for room in the peer's ring: the reason why prod.starved is set. */
enum shm_wait {
	SHM_WAIT_SEND	= 1 << 0,	/* a call that returned -FI_EAGAIN */
	SHM_WAIT_SERVE	= 1 << 1,	/* a get of the peer */
	SHM_WAIT_PUT	= 1 << 2,	/* a put to the peer */
};

/* What an entry must leave free in the ring. */
enum shm_leave {
	SHM_LEAVE_NOTHING,	/* control packets */
	SHM_LEAVE_RESERVE,	/* what control packets may need */
	SHM_LEAVE_QUARTER,	/* pieces: and a quarter, for packets */
};

#define SHM_LEAVES	3
#define SHM_NEEDS_NONE	UINT32_MAX

struct shm_link {
	struct tagrv_link base;
	/* consumer: read in every pass */
	struct shm_rx rx;
	uint64_t last_pass;	/* last pass that found an entry, or learned of it */
	uint64_t seen;		/* rx.in.cnt when last_pass was set */
	int	hot_at;		/* index in xport->hot; -1: cold */
	bool	rx_open;	/* attached; entries are delivered */
	bool	closing;
	/* producer */
	_Alignas(TAGRV_CACHE_LINE) struct shm_tx tx;
	bool	tx_open;	/* tx_ready, not failed, not closing */
	/* the rest */
	_Alignas(TAGRV_CACHE_LINE) struct tagrv_list dev_node;
	struct tagrv_list push_node, starved_node, failed_node, refused_node;
	struct tagrv_list closing_node, serve_node, wait_node, put_node;
	struct tagrv_list help_node;
	struct shm_bell *peer_bell;
	int	peer_wake_fd;
	uint32_t peer_bit;	/* in peer_bell */
	uint32_t own_bit;	/* in xport->bell */
	unsigned waits;		/* enum shm_wait */
	/* by enum shm_leave: shortest body that SHM_WAIT_SEND waits for */
	uint32_t need[SHM_LEAVES];
	uint32_t refused_len;	/* shortest body that a caller repeats */
	uint32_t queued;	/* its records in xport->dones */
	int	status;		/* -FI_E*: why it failed; 0: alive */
	bool	bound, attached;
	bool	reported;	/* link_error was called */
	bool	corrupt;	/* the peer wrote invalid data */
	bool	cma;		/* process_vm_readv reaches the peer */
	bool	unwatched;	/* no pidfd tells of the end of the peer's process */
	uint64_t id, nonce;
	uint64_t peer_table;	/* address in the peer's process */
	int	peer_pid;	/* 0: in a PID namespace not visible here */
	int	peer_pidfd;	/* or -1 */
	struct shm_blob peer;
	int	ring_fd;	/* of rx; -1 once it is handed over */
	_Atomic uint32_t tx_ready;	/* tx and peer_* are set */
	_Atomic uint32_t peer_dead;	/* its process has ended, or the handover
					   failed */
	struct shm_get gets[SHM_GETS];
	unsigned get_cnt, requested_cnt;	/* not FREE; REQUESTED */
	struct shm_serve serves[SHM_GETS];	/* in the order of requests */
	unsigned serve_head, serve_cnt;
	struct shm_put puts[SHM_GETS];	/* in the order of calls */
	unsigned put_head, put_cnt;
	struct shm_help helps[SHM_HELPS];
	uint32_t help_seq;	/* of the last one */
	struct shm_assist assists[SHM_HELPS];	/* by the peer's record */
};

/* A done record whose callback is due. */
struct shm_done {
	struct tagrv_done *done;
	struct shm_link *link;
	int	status;
};

struct shm_xport {
	struct tagrv_xport base;
	struct shm_bell *bell;
	uint64_t pass;		/* calls of progress */
	unsigned hot_cnt;
	int	watch_at;	/* index of the bell's summary in sink->watch */
	bool	slow;		/* one of the lists below may have entries */
	bool	armed;		/* arm succeeded, progress found nothing since */
	uint32_t arm_nr;	/* value that bell->armed was last set to */
	struct shm_link *hot[SHM_HOT];	/* rings that are polled */
	uint32_t done_head, done_tail;	/* of dones[] */
	bool	running_dones;	/* tagrv_shm_run_dones() is running */
	bool	reporting;	/* tagrv_shm_report() is running */
	bool	room_due;	/* call sink->room in the next pass */
	bool	dones_full, gets_full, puts_full;	/* -FI_EAGAIN because of
							   a limit */
	/* lists of links */
	struct tagrv_list starved;	/* a call returned -FI_EAGAIN */
	struct tagrv_list refused;	/* the same, of a caller that repeats it: starved
					   when the transport is armed */
	struct tagrv_list failed;	/* link_error is due */
	struct tagrv_list closing;
	struct tagrv_list serving;	/* with gets of the peer */
	struct tagrv_list waiting;	/* with gets REQUESTED */
	struct tagrv_list putting;	/* with puts */
	struct tagrv_list helping;	/* with gets of the peer to be copied */
	/* lists of gets */
	struct tagrv_list cma_gets, queued_gets;
	size_t	get_cnt, put_cnt;	/* of all links */
	int	wait_fd, wake_fd;	/* ends of a pair of sockets: shm_bell.c */
	int	bell_fd;
	size_t	ring_size;	/* bytes of a ring region */
	size_t	help_min;	/* bytes of a get that both sides copy */
	unsigned help_wait_ms;	/* SHM_HELP_WAIT_MS, except in tests */
	/* counters for tests */
	uint64_t helped;	/* chunks copied for gets of peers */
	uint64_t polls;		/* rings polled */
	uint64_t errors;	/* links whose peer wrote invalid data */
	uint64_t used[SHM_BELL_WORDS];	/* bits of links; device->mutex */
	struct shm_link *links[SHM_BELL_LINKS];	/* attached, by own_bit */
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

#endif
