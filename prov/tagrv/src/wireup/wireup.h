/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connection set-up: one listener per endpoint, one helper thread per domain.
 *
 * The thread owns sockets, timers and half-made links, so that the passive side
 * answers while the application computes. It exchanges one idempotent record
 * over TCP (wireup/wireup_rec.h) and talks with the engine through two queues:
 *
 *   engine (domain lock)                      wireup thread
 *     connect(addr), drop(addr, epoch)  --->  commands
 *     poll() <-- UP, SENDABLE, FAILED, GONE,  events
 *                TICK
 *
 * Everything the thread finds out becomes an event; it never touches an engine,
 * a peer or an attached link. Order: UP is queued before the peer can learn
 * that it may send to this link.
 */
#ifndef TAGRV_WIREUP_WIREUP_H
#define TAGRV_WIREUP_WIREUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/compiler.h"
#include "xport/xport.h"

#define TAGRV_UUID_LEN		16
#define TAGRV_WIRE_VERSION	1	/* newest packet format we speak */
#define TAGRV_WIRE_VERSION_MIN	1
/* Optional abilities we have, one bit each. */
#define TAGRV_WIRE_FEATURES	UINT64_C(0)

struct tagrv_wireup;
struct tagrv_wireup_ep;

enum tagrv_wireup_event_type {
	/* A link was bound. Ours from here on; attach it. 'sendable' tells
	 * whether the peer is known to be able to receive already. */
	TAGRV_WIREUP_UP,
	/* The peer of an earlier UP (same epoch) can receive now. */
	TAGRV_WIREUP_SENDABLE,
	/* connect() gave up: status. */
	TAGRV_WIREUP_FAILED,
	/*
	 * The peer of an earlier UP is gone (status 0: it closed in an orderly
	 * way; -FI_ECONNRESET: it died or was restarted; -FI_EHOSTUNREACH: no
	 * transport does on both sides). What it sent before may still be in
	 * the device's queue.
	 * -FI_EAGAIN: only this link is of no use, and we have not been told
	 * that we may send over it; what waits may ask for another one.
	 */
	TAGRV_WIREUP_GONE,
	/*
	 * So much time as asked for has passed. Comes as an event because
	 * progress looks for those anyway, and shall read no clock.
	 */
	TAGRV_WIREUP_TICK,
};

struct tagrv_wireup_event {
	enum tagrv_wireup_event_type type;
	int	status;
	struct tagrv_addr addr;		/* the peer's listener */
	uint8_t	uuid[TAGRV_UUID_LEN];	/* its incarnation */
	uint32_t epoch;			/* our number of this connection */
	bool	sendable;
	struct tagrv_link *link;	/* UP */
	size_t	max_packet;		/* UP: what the peer can receive */
};

struct tagrv_wireup_attr {
	struct tagrv_addr addr;		/* to bind; port 0: any */
	/* Best first, at most TAGRV_WIREUP_LINKS_MAX; 0: refuse everybody. */
	struct tagrv_xport *const *xports;	/* outlives the endpoint */
	size_t	xport_cnt;
	int	connect_timeout;	/* seconds */
	/* ms between TICKs, 0: none; no second one before the first is polled */
	unsigned tick;
	void	(*kick)(void *arg);	/* an event was queued; any thread */
	void	*kick_arg;
};

/* Starts the thread. -FI_ENOMEM, -FI_EMFILE. */
int tagrv_wireup_create(struct tagrv_wireup **wireup) TAGRV_WARN_UNUSED;
/* Every endpoint was closed before. Joins the thread. */
void tagrv_wireup_destroy(struct tagrv_wireup *wireup);

/*
 * Calls fn(arg) in the thread whenever fd is readable, until unwatch, and a last
 * time when it is broken.
 */
int tagrv_wireup_watch(struct tagrv_wireup *wireup, int fd,
		       void (*fn)(void *arg), void *arg) TAGRV_WARN_UNUSED;
void tagrv_wireup_unwatch(struct tagrv_wireup *wireup, int fd);

/*
 * Binds and listens, returns once peers can connect. -FI_EADDRINUSE,
 * -FI_EADDRNOTAVAIL, -FI_ENOMEM; one log line says what to do.
 */
int tagrv_wireup_listen(struct tagrv_wireup *wireup,
			const struct tagrv_wireup_attr *attr,
			struct tagrv_wireup_ep **wep) TAGRV_WARN_UNUSED;
/*
 * Ends listening and every connection, in an orderly way, and waits until the
 * thread has let go of the endpoint. Links that were never reported are
 * discarded, events not polled are dropped (their links discarded, too).
 */
void tagrv_wireup_unlisten(struct tagrv_wireup_ep *wep);

/* The address peers can use, never a wildcard, real port. */
void tagrv_wireup_name(const struct tagrv_wireup_ep *wep,
		       struct tagrv_addr *addr);

/*
 * Asks for a connection; an UP (or FAILED) event follows, once. Asking again
 * while one is on its way or up does nothing. -FI_ENOMEM.
 */
int tagrv_wireup_connect(struct tagrv_wireup_ep *wep,
			 const struct tagrv_addr *addr) TAGRV_WARN_UNUSED;
/*
 * The connection of this epoch is of no use any more: its link failed or was
 * closed. The next connect starts afresh with a new epoch; the peer is told
 * where a socket to it was kept and there is memory to do so.
 */
void tagrv_wireup_drop(struct tagrv_wireup_ep *wep,
		       const struct tagrv_addr *addr, uint32_t epoch);

/*
 * The number of events, for progress to look at before it polls; valid until
 * unlisten.
 */
const atomic_size_t *tagrv_wireup_event_cnt(const struct tagrv_wireup_ep *wep);
static inline bool tagrv_wireup_has_event(const atomic_size_t *cnt)
{
	return atomic_load_explicit(cnt, memory_order_relaxed) != 0;
}

/* True with the oldest event. */
bool tagrv_wireup_poll(struct tagrv_wireup_ep *wep,
		       struct tagrv_wireup_event *event);

#endif
