/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Functions that the files of the shared-memory transport share. Unless another
 * thread is named they need the domain lock; functions *_locked need
 * device->mutex.
 */
#ifndef TAGRV_XPORT_SHM_SHM_PRIV_H
#define TAGRV_XPORT_SHM_SHM_PRIV_H

#include "xport/shm/shm_objects.h"

/* ---- shm_region.c: memory that can be handed over ---- */

/*
 * Creates and maps a sealed memfd of 'size' bytes; the caller closes *fd. 0 or the
 * negated errno of the system call.
 */
int tagrv_shm_region_create(const char *name, size_t size, int *fd,
			    void **addr) TAGRV_WARN_UNUSED;
/* Maps a peer's memfd. -FI_EINVAL: another size, or it could shrink. */
int tagrv_shm_region_map(int fd, size_t size, void **addr) TAGRV_WARN_UNUSED;
/* addr may be NULL. */
void tagrv_shm_region_unmap(void *addr, size_t size);

/* ---- shm_barrier.c: a barrier in all senders, executed by the receiver ---- */

/* Registers the process for membarrier, once. False: not available. */
bool tagrv_shm_barrier_available(void);
/* A full barrier in this thread and in all running threads of registered
 * processes. */
void tagrv_shm_barrier(const struct shm_device *dev);

/* ---- shm_blob.c ---- */

#define SHM_BLOB_LEN	60
/* Writes SHM_BLOB_LEN bytes to 'to'; returns their number. */
size_t tagrv_shm_blob_pack(const struct shm_blob *blob, void *to);
/* 0, -FI_EINVAL: malformed, -FI_EHOSTUNREACH: another version. */
int tagrv_shm_blob_unpack(struct shm_blob *blob, const void *from, size_t len)
	TAGRV_WARN_UNUSED;
/* An id that is equal for processes that share memory and abstract sockets. */
void tagrv_shm_host_id(uint8_t id[16]);

/* ---- shm_hand.c: handovers through the socket ---- */

/* Opens the device's descriptors. 0 or -errno; then call unlisten all the same. */
int tagrv_shm_listen(struct shm_device *dev) TAGRV_WARN_UNUSED;
void tagrv_shm_unlisten(struct shm_device *dev);
/*
 * Sends the handover of a link's own ring to the peer, or puts the link on
 * 'unpushed' if the peer's socket is full. 0 or the error of the socket.
 */
int tagrv_shm_push_locked(struct shm_device *dev, struct shm_link *link)
	TAGRV_WARN_UNUSED;
/* Reads all handovers that have come, and sends those of 'unpushed'. */
void tagrv_shm_pull(struct shm_device *dev);
/* Adds a descriptor to the epoll set. what: EVENT_* or the id of a link. */
int tagrv_shm_watch(struct shm_device *dev, int fd, uint64_t what)
	TAGRV_WARN_UNUSED;
/*
 * Removes a descriptor from the epoll set and closes it. close(2) alone would not
 * remove it while a forked child has the descriptor, too.
 */
void tagrv_shm_unwatch(struct shm_device *dev, int fd);
/* Counts a handover that cannot be used; warns of the first. */
void tagrv_shm_refuse(struct shm_device *dev, const char *why);
int tagrv_shm_dev_event_fd(struct tagrv_device *dev);
void tagrv_shm_dev_event(struct tagrv_device *dev);

/* ---- shm_map.c: use of a handover ---- */

/*
 * Checks a handover that came through 'sock' and maps it for its link. Sets fds[i]
 * to -1 for descriptors it keeps; the caller closes the others.
 */
void tagrv_shm_map_locked(struct shm_device *dev, int sock,
			  const struct shm_hand *hand, int fds[SHM_HAND_FDS]);
/* The pidfd of a link's peer is readable: its process has ended. */
void tagrv_shm_peer_died_locked(struct shm_device *dev, uint64_t id);

/* ---- shm_bell.c ---- */

/* Opens wait_fd and wake_fd. Returns 0 or -errno. */
int tagrv_shm_wake_open(struct shm_xport *xp);
/* Whether a peer's descriptor can be one that wakes it. */
bool tagrv_shm_is_wake_fd(int fd);
/* Makes wait_fd not readable. */
void tagrv_shm_wake_clear(struct shm_xport *xp);
/* Sets the link's bit in the peer's bell, and wakes the peer if it sleeps. */
void tagrv_shm_ring_bell(struct shm_link *link);
/* Sets the link's bit in our own bell, and wakes our sleepers. Any thread. */
void tagrv_shm_ring_own_bell(struct shm_link *link);
/* Makes our wait_fd readable if bell->armed. */
void tagrv_shm_wake_own(struct shm_xport *xp);
/*
 * To be called when progress gets work for which no peer rings the bell: another
 * thread of this process may be asleep.
 */
static inline void tagrv_shm_wake_if_armed(struct shm_xport *xp)
{
	if (TAGRV_UNLIKELY(xp->armed))
		tagrv_shm_wake_own(xp);
}
/* One of the lists of links and gets may have got an entry: the next pass looks. */
static inline void tagrv_shm_set_slow(struct shm_xport *xp)
{
	xp->slow = true;
	tagrv_watch_attend(xp->base.sink->watch);
}
/* Rings the peer's bell unless the peer polls the ring; after a full fence. */
void tagrv_shm_notify(struct shm_link *link);

/* ---- shm_link.c; the first five as in xport.h ---- */

int tagrv_shm_link_create(struct tagrv_xport *xport, void *blob, size_t *len,
			  struct tagrv_link **link);
int tagrv_shm_link_bind(struct tagrv_link *link, const void *blob, size_t len);
void tagrv_shm_link_discard(struct tagrv_link *link);
int tagrv_shm_link_attach(struct tagrv_link *link, void *ctx);
void tagrv_shm_link_close(struct tagrv_link *link);
/* Sets the status of a link unless it has one; progress or reap reports it. */
void tagrv_shm_link_fail(struct shm_link *link, int status);
/*
 * Fails a link whose peer wrote invalid data; counts it, warns once per process.
 * what: the kind of data.
 */
void tagrv_shm_link_corrupt(struct shm_link *link, const char *what);
/*
 * Reports failed links by sink->link_error, and ends their gets and puts. A link
 * with entries that are not delivered yet waits; deliver: they are delivered.
 * Returns the number of events.
 */
unsigned tagrv_shm_report(struct shm_xport *xp, bool deliver);
/* Frees closing links whose operations have ended; returns the events. */
unsigned tagrv_shm_links_finish(struct shm_xport *xp);

/* ---- shm_send.c; send, send_short and reap as in xport.h ---- */

int tagrv_shm_send(struct tagrv_link *link, const struct iovec *iov,
		   size_t cnt, unsigned flags, struct tagrv_done *done);
int tagrv_shm_send_short(struct tagrv_link *link,
			 const uint64_t hdr[TAGRV_SHORT_WORDS],
			 const void *payload, size_t len);
ssize_t tagrv_shm_send_tagged(struct tagrv_link *link, uint64_t meta, uint64_t tag,
			  uint64_t data, const void *payload);
/* Sets tx_open if tx is mapped by now. False: not mapped, failed or closing. */
bool tagrv_shm_tx_open(struct shm_link *link);
/* Closes tx for sends. */
void tagrv_shm_tx_shut(struct shm_link *link);
/*
 * Whether there is room for an entry with a body of len bytes (shm_tx_body()) that
 * leaves this much free; reads cons.head if necessary, and fails the link if that is
 * invalid.
 */
bool tagrv_shm_tx_room(struct shm_link *link, uint32_t len,
		       enum shm_leave leave);
/* Publishes an entry whose body was written to shm_tx_body(). */
void tagrv_shm_tx_finish(struct shm_link *link, enum shm_kind kind, uint32_t len);
/*
 * Handles shm_tx_state() after a publish if it is not SHM_POLLED: rings the peer's
 * bell, or fails the link because the peer has closed it.
 */
void tagrv_shm_tx_check_state(struct shm_link *link, uint32_t state);
/* Sets prod.starved because 'why' waits for room. unstarve: 'why' no longer waits. */
void tagrv_shm_starve(struct shm_link *link, enum shm_wait why);
/* The same for a call that returns -FI_EAGAIN: sink->room follows when there is room
 * for such an entry. */
void tagrv_shm_starve_send(struct shm_link *link, enum shm_leave leave,
			   uint32_t len);
void tagrv_shm_unstarve(struct shm_link *link, enum shm_wait why);
/* The process may go to sleep: callers that repeat their sends must be woken for room. */
void tagrv_shm_starve_refused(struct shm_xport *xp);
/* Whether a send of a starved link would not return -FI_EAGAIN again. */
bool tagrv_shm_has_room(struct shm_link *link);
/* Runs the done callbacks that are due; returns their number. */
unsigned tagrv_shm_run_dones(struct shm_xport *xp);
int tagrv_shm_reap(struct tagrv_xport *xport);
/* Sets room_due if a starved link has room. */
void tagrv_shm_look_for_room(struct shm_xport *xp);

/* ---- shm_poll.c ---- */

int tagrv_shm_progress(struct tagrv_xport *xport);
/* Handles at most SHM_BATCH entries of a link's ring; returns their number. */
unsigned tagrv_shm_drain(struct shm_link *link);
/* Watches for the link's next entry, if the link is watched. */
void tagrv_shm_watch_next(struct shm_link *link);
/* As tagrv_shm_drain(), for a hot link between passes: ops->drain. */
int tagrv_shm_drain_hot(void *link);
/* ops->publish */
void tagrv_shm_publish(struct tagrv_link *link);
/* Publishes rx.in.cnt, and rings the bell of a producer that waits for it. */
void tagrv_shm_publish_head(struct shm_link *link);
/* Publishes rx.in.cnt if the producer waits for it. */
static inline void tagrv_shm_publish_wanted(struct shm_link *link)
{
	if (TAGRV_UNLIKELY(atomic_load_explicit(
				&link->rx.hdr->prod.starved,
				memory_order_relaxed)))
		tagrv_shm_publish_head(link);
}
/*
 * Fails a link whose peer's process has ended, or whose peer has closed it while
 * something of ours waits for the peer. Returns whether the link has failed.
 */
bool tagrv_shm_check_peer(struct shm_link *link);
void tagrv_shm_check(struct tagrv_link *link, bool awaited);

/* ---- shm_hot.c ---- */

int tagrv_shm_arm(struct tagrv_xport *xport);
/* Disarms an armed xport that was woken or has work. False: it has none. */
bool tagrv_shm_disarm_if_work(struct shm_xport *xp);
/* Handles the links whose bits are set in the bell; returns the events. */
unsigned tagrv_shm_visit_bits(struct shm_xport *xp);
/* Makes a link's ring cold: it is no longer polled. */
void tagrv_shm_cool(struct shm_link *link);
/* Makes one ring cold that had no entries for SHM_COOL passes. */
void tagrv_shm_cool_idle(struct shm_xport *xp);

/* ---- shm_get.c; shm_serve.c: on_get_req, serve_pass, can_serve ---- */

int tagrv_shm_get(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
		  uint64_t raddr, const void *key, size_t key_len, size_t len,
		  struct tagrv_done *done);
/* Ends all gets of a link; returns their number. */
unsigned tagrv_shm_gets_end(struct shm_link *link, int status);
/* Ends a get and runs its callback, which may close the link. */
void tagrv_shm_get_finish(struct shm_get *get, int status);
/*
 * The same, of a get whose key is not valid: -FI_ECONNRESET if the owner has closed the
 * link, else -FI_EACCES.
 */
void tagrv_shm_get_refuse(struct shm_get *get);
/* Enters another state, which must be legal. */
static inline void tagrv_shm_get_set_state(struct shm_get *get,
					   enum shm_get_state state)
{
	assert(state == SHM_GET_FREE ? get->state != SHM_GET_FREE :
	       get->state + 1 == state ||
	       (get->state == SHM_GET_FREE && state == SHM_GET_QUEUED));
	get->state = state;
}
/* Sends the requests of queued gets; returns the number sent. */
unsigned tagrv_shm_request_pass(struct shm_xport *xp);
/* Handle entries of a ring; the peer may change the body meanwhile. False: invalid. */
bool tagrv_shm_on_get_req(struct shm_link *link, const char *body, size_t len);
bool tagrv_shm_on_get_data(struct shm_link *link, const char *body,
			   size_t len);
bool tagrv_shm_on_get_fail(struct shm_link *link, const char *body,
			   size_t len);
/* Sends pieces of the peers' gets; returns the number of pieces. */
unsigned tagrv_shm_serve_pass(struct shm_xport *xp);
/* Whether a piece could be sent; if not, sets prod.starved. */
bool tagrv_shm_can_serve(struct shm_link *link);

/* ---- shm_put.c ---- */

int tagrv_shm_put(struct tagrv_link *link, const void *addr,
		  struct tagrv_mem *mem, uint64_t raddr, const void *key,
		  size_t key_len, size_t len, struct tagrv_done *done);
/* Sends pieces of our puts; returns the number of pieces. */
unsigned tagrv_shm_put_pass(struct shm_xport *xp);
/* Whether a piece could be sent; if not, sets prod.starved. */
bool tagrv_shm_can_put(struct shm_link *link);
/* Ends all puts of a link; returns their number. */
unsigned tagrv_shm_puts_end(struct shm_link *link, int status);
/* Handles an SHM_PUT entry. False: it is invalid. */
bool tagrv_shm_on_put(struct shm_link *link, const char *body, size_t len);

/* ---- shm_rate.c ---- */

/* Speed of copies between two processes of this host. */
struct shm_rates {
	double	ring;		/* bytes/s: two copies that overlap */
	double	copy;		/* bytes/s: two copies, one after the other */
	double	cma;		/* bytes/s: process_vm_readv; 0: not allowed */
	double	call;		/* s of a process_vm_readv of few bytes */
};

/* The rates of this host; the first call measures them, or loads them. */
const struct shm_rates *tagrv_shm_rates(void);

/* ---- shm_cache.c: file with the rates, for later processes ---- */

/* False: there is no valid and recent file of this host. */
bool tagrv_shm_rates_load(struct shm_rates *got);
/* Failures are ignored. */
void tagrv_shm_rates_store(const struct shm_rates *got);

/* ---- shm_cma.c ---- */

/* Whether gets use process_vm_readv: by FI_TAGRV_SHM_CMA, or measured. */
bool tagrv_shm_cma_wanted(const struct tagrv_params *params);
/* Bytes per second of gets by process_vm_readv (cma) or through the rings. */
double tagrv_shm_bandwidth(bool cma);
/* Whether process_vm_readv reads 'token' at 'table' of process pid. */
bool tagrv_shm_cma_probe(int pid, uint64_t table, uint64_t token);
/* Reads data of the first gets of cma_gets; returns the events. */
unsigned tagrv_shm_cma_pass(struct shm_xport *xp);

/*
 * Reads len bytes of a get, at most SHM_CMA_PIECE, from offset 'at' on. 0; EACCES: the key is not valid; another
 * errno value: process_vm_readv failed (EFAULT also if only a part was read).
 */
int tagrv_shm_cma_read(struct shm_get *get, uint64_t at, size_t len);
/* Reading a get failed: ends the get, fails the link, or leaves CMA for the link. */
void tagrv_shm_cma_error(struct shm_get *get, int err);

/* ---- shm_help.c ---- */

/* Asks owners for help with the first gets of cma_gets. */
void tagrv_shm_help_ask(struct shm_xport *xp);
/*
 * Copies the next part of a get with help. Returns the events; 0: this side has copied
 * its part, and waits for the owner's.
 */
unsigned tagrv_shm_help_pass(struct shm_get *get);
/* Ends the owner's help, if there is any: its memory is not written to any more. */
void tagrv_shm_help_end(struct shm_get *get);
/* Handles an SHM_HELP entry. False: it is invalid. */
bool tagrv_shm_on_help(struct shm_link *link, const char *body, size_t len);
/* Copies a chunk for a peer's get; returns the events. */
unsigned tagrv_shm_assist_pass(struct shm_xport *xp);

/* ---- shm_mem.c; mem_reg, mem_dereg and mem_key as in xport.h ---- */

/* Allocates the table. 0, -FI_ENOMEM, or the error of tagrv_random_fill(), logged. */
int tagrv_shm_mem_open(struct shm_device *dev) TAGRV_WARN_UNUSED;
void tagrv_shm_mem_close(struct shm_device *dev);
int tagrv_shm_mem_reg(struct tagrv_device *dev, void *addr, size_t len,
		      unsigned access, struct tagrv_mem **mem);
void tagrv_shm_mem_dereg(struct tagrv_mem *mem);
size_t tagrv_shm_mem_key(const struct tagrv_mem *mem, void *key);
/* False: the key has another length. The values are not checked. */
bool tagrv_shm_key_unpack(const void *key, size_t len, uint32_t *index,
			  uint64_t *secret);
/*
 * Whether an entry (secret, addr, len) is in use, has the secret 'wanted', and
 * covers [from, from + bytes).
 */
bool tagrv_shm_entry_covers(uint64_t secret, uint64_t addr, uint64_t len,
			    uint64_t wanted, uint64_t from, uint64_t bytes);
/*
 * Copy from and to registered memory of this process for a peer. -FI_EACCES: the
 * peer's key does not allow it.
 */
int tagrv_shm_mem_read(struct shm_device *dev, uint32_t index, uint64_t secret,
		       uint64_t from, void *to, size_t len);
/*
 * Copies registered memory of this process to address 'to' of process pid. False: the
 * key does not allow it, or the kernel does not.
 */
bool tagrv_shm_mem_give(struct shm_device *dev, uint32_t index, uint64_t secret,
			uint64_t from, int pid, uint64_t to, size_t len);
int tagrv_shm_mem_write(struct shm_device *dev, uint32_t index, uint64_t secret,
			uint64_t to, const void *from, size_t len);

#endif
