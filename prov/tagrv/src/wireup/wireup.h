/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connection set-up: one listener per endpoint, one wireup thread per domain.
 *
 * The thread owns sockets, timers and links until they are bound, so that an
 * endpoint accepts connections while its application computes. It exchanges
 * records over TCP (wireup/wireup_rec.h; a repeated record does no harm) and
 * communicates with the engine through two queues:
 *
 *   engine (domain lock)                      wireup thread
 *     connect(addr), drop(addr, epoch), --->  commands
 *     renew(addr, epoch)
 *     poll() <-- UP, SENDABLE, FAILED, GONE,  events
 *                RENEW_FAILED, TICK
 *
 * The thread reports by events only; it never touches an engine, a peer of an
 * engine or an attached link. UP is queued before the peer can learn that it may
 * send over this link.
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
#define TAGRV_NONCE_LEN		16
#define TAGRV_WIRE_VERSION	2	/* newest packet format we speak */
#define TAGRV_WIRE_VERSION_MIN	2	/* oldest packet format we speak */
/* Optional features, one bit each: one is used if both sides have it. */
#define TAGRV_WIRE_PART		UINT64_C(1)	/* answers PART packets */
#define TAGRV_WIRE_SOCKETLESS	UINT64_C(2)	/* needs no socket as a sign of life */
/* Those that we may have. */
#define TAGRV_WIRE_FEATURES	(TAGRV_WIRE_PART | TAGRV_WIRE_SOCKETLESS)

struct tagrv_auth_key;
struct tagrv_wireup;
struct tagrv_wireup_ep;

enum tagrv_wireup_event_type {
	/*
	 * A link was bound. The engine owns it from here on and attaches it.
	 * sendable: the peer is bound, too, so that packets may be sent; else
	 * SENDABLE follows.
	 */
	TAGRV_WIREUP_UP,
	/* The peer of an earlier UP (same epoch) can receive now. */
	TAGRV_WIREUP_SENDABLE,
	/* A connect() failed with 'status'; no UP was reported. */
	TAGRV_WIREUP_FAILED,
	/*
	 * The peer of an earlier UP (same epoch) is gone. Packets that it sent
	 * before may still be in the transport's queues. status:
	 *  0                 the peer closed its endpoint
	 *  -FI_ECONNRESET    it died or was restarted
	 *  -FI_EHOSTUNREACH  no transport works on both sides
	 *  -FI_EAGAIN        only this link failed, before SENDABLE; the engine
	 *                    may connect again for its queued operations
	 */
	TAGRV_WIREUP_GONE,
	/*
	 * There is no new link for the connection of this epoch for now; it goes on
	 * as before. Answers tagrv_wireup_renew().
	 */
	TAGRV_WIREUP_RENEW_FAILED,
	/*
	 * attr.tick ms have passed. An event, because progress polls for events
	 * anyway and need not read a clock for this.
	 */
	TAGRV_WIREUP_TICK,
	/*
	 * A connection waits because a device has no room for its link (xport/quota.h):
	 * one that is idle should be closed. Repeated while that is so; at most one is
	 * queued at a time. No peer is named.
	 */
	TAGRV_WIREUP_CROWDED,
};

struct tagrv_wireup_event {
	enum tagrv_wireup_event_type type;
	int	status;
	struct tagrv_addr addr;		/* the peer's listener */
	uint8_t	uuid[TAGRV_UUID_LEN];	/* of the peer's endpoint, once bound */
	uint32_t epoch;			/* our number of this connection */
	/*
	 * UP: not 0: the link takes the place of the one of this epoch, of the same
	 * peer; always sendable.
	 */
	uint32_t resumes;
	bool	sendable;		/* UP */
	struct tagrv_link *link;	/* UP */
	size_t	max_packet;		/* UP: bytes of a packet to the peer, at most */
	uint64_t features;		/* UP, not of a renewal: that both sides have */
};

struct tagrv_wireup_attr {
	struct tagrv_addr addr;		/* to bind; port 0: any */
	/* Best first; the array and the transports outlive the endpoint. */
	struct tagrv_xport *const *xports;
	size_t	xport_cnt;		/* 0: refuses every peer; at most
					   TAGRV_WIREUP_LINKS_MAX */
	/* Which peers may connect; outlives the endpoint. NULL: all. */
	const struct tagrv_auth_key *key;
	int	connect_timeout;	/* seconds */
	/*
	 * Connections that keep a socket, at most; 0: all do. Not 0 only if each of the
	 * transports shows by itself that a peer has died, when something is awaited
	 * of it (TAGRV_XPORT_CHECKED).
	 */
	unsigned max_sockets;
	/* ms between TICKs, 0: none. At most one TICK is queued at a time. */
	unsigned tick;
	void	(*kick)(void *arg);	/* an event was queued; called by the
					   wireup thread; NULL: none */
	void	*kick_arg;
};

/* Counted since the endpoint was created. */
struct tagrv_wireup_stats {
	uint64_t closed_sockets;	/* connections that gave up their sockets */
	uint64_t reopened_sockets;	/* and that got one again */
};

/* Starts the thread. Returns 0, -FI_ENOMEM or -FI_EMFILE. */
int tagrv_wireup_create(struct tagrv_wireup **wireup) TAGRV_WARN_UNUSED;
/*
 * Ends and joins the thread and frees *wireup (NULL: nothing to do). All its
 * endpoints must be closed.
 */
void tagrv_wireup_destroy(struct tagrv_wireup *wireup);

/*
 * Calls fn(arg) in the thread whenever fd is readable, until unwatch. When fd
 * reports an error, fn is called once more and never again. Waits for the thread;
 * must not be called by it. Returns 0, -FI_ENOMEM or -FI_EINVAL. The caller keeps
 * and closes fd, after unwatch.
 */
int tagrv_wireup_watch(struct tagrv_wireup *wireup, int fd,
		       void (*fn)(void *arg), void *arg) TAGRV_WARN_UNUSED;
/* fn is not running and is not called any more on return. */
void tagrv_wireup_unwatch(struct tagrv_wireup *wireup, int fd);

/*
 * Creates an endpoint: binds, listens, and returns once peers can connect. *wep
 * is freed by tagrv_wireup_unlisten(). Returns 0 or -FI_EADDRINUSE,
 * -FI_EADDRNOTAVAIL, -FI_EMFILE, -FI_ENOMEM, ...; an address that cannot be bound
 * is logged with advice.
 */
int tagrv_wireup_listen(struct tagrv_wireup *wireup,
			const struct tagrv_wireup_attr *attr,
			struct tagrv_wireup_ep **wep) TAGRV_WARN_UNUSED;
/*
 * Ends listening, sends CLOSE to every connected peer, waits until the thread does
 * not use the endpoint any more, and frees it (NULL: nothing to do). Discards
 * events that were not polled, and links that were not handed out by UP.
 */
void tagrv_wireup_unlisten(struct tagrv_wireup_ep *wep);

/* The address under which peers can connect: real port, never a wildcard. */
void tagrv_wireup_name(const struct tagrv_wireup_ep *wep,
		       struct tagrv_addr *addr);

/*
 * Asks for a connection; one UP or FAILED event follows. Does nothing while a
 * connection to this address is being made or exists. Returns 0 or -FI_ENOMEM.
 */
int tagrv_wireup_connect(struct tagrv_wireup_ep *wep,
			 const struct tagrv_addr *addr) TAGRV_WARN_UNUSED;
/*
 * Ends the connection of this epoch, because the engine closed its link. The next
 * connect makes a new one with a new epoch. The peer is sent CLOSE if a socket to
 * it was kept. Does nothing if memory is short and the UP's message was used up.
 */
void tagrv_wireup_drop(struct tagrv_wireup_ep *wep,
		       const struct tagrv_addr *addr, uint32_t epoch);

/*
 * Asks for a new link in the place of this epoch's. One event follows: UP with
 * 'resumes'; GONE, which is -FI_EHOSTUNREACH after 'patience' ms if the link is down;
 * RENEW_FAILED, only if it is not down. Does nothing if the connection has ended or
 * was renewed meanwhile, or if memory is short as for drop.
 */
void tagrv_wireup_renew(struct tagrv_wireup_ep *wep,
			const struct tagrv_addr *addr, uint32_t epoch,
			bool down, unsigned patience);

/* Any thread. */
void tagrv_wireup_get_stats(const struct tagrv_wireup_ep *wep,
			    struct tagrv_wireup_stats *stats);

/*
 * Returns the counter of queued events, which progress tests by
 * tagrv_wireup_has_event() before it polls. Valid until unlisten.
 */
const _Atomic uint64_t *
tagrv_wireup_event_cnt(const struct tagrv_wireup_ep *wep);
static inline bool tagrv_wireup_has_event(const _Atomic uint64_t *cnt)
{
	return atomic_load_explicit(cnt, memory_order_relaxed) != 0;
}

/* Moves the oldest event to *event. False: there is none. */
bool tagrv_wireup_poll(struct tagrv_wireup_ep *wep,
		       struct tagrv_wireup_event *event);

#endif
