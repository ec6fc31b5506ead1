/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection to one peer as a state machine without sockets or threads.
 *
 *               want                 REP: bind, UP sendable, send RTU
 *      IDLE ------------> WANTED ------------------------------.
 *       | ^                 | |                                v
 *   REQ | | REJ, deadline   | | REQ: bind, UP, send REP      READY
 *       | |   FAILED        | v                                ^
 *       | '-----------------' BOUND ---------------------------'
 *       '---------------------^     RTU or REP: SENDABLE
 *
 *   BOUND, READY --> IDLE: GONE (CLOSE, hang-up, a restarted peer) or drop
 *   WANTED, BOUND --> WANTED: begins again with new links (see below)
 *
 *   dialing, while WANTED or (its socket lost) BOUND:
 *      OFF --> DIALING --> ASKED (REQ sent) --> OFF
 *                ^ '--------.'
 *                '-- PAUSE <'   refused, timed out, busy: growing pauses
 *
 * A REQ means "here are my links, one per transport, tell me yours" and is
 * answered by a REP with the one link chosen, however often it comes. When two
 * REQs cross, each side binds to a link in the other's REQ and answers with its
 * own: nobody loses.
 *
 * Both sides prefer transports in the same order and take the first that can be
 * bound. Only where one side cannot bind what the other has chosen, a machine
 * begins again: it avoids that transport, makes new links with a new epoch and
 * asks. An UP of the old ones is taken back by GONE with -FI_EAGAIN. Each time
 * one side avoids one transport more, so this ends.
 *
 * A connection has up to two sockets ("channels"): the one we dialed and the
 * one the peer dialed. Once READY, the one dialed by the smaller uuid is kept as
 * a sign of life; its hang-up means that the peer died.
 *
 * Functions take one event in, call ops, and never call back into each other;
 * ops must not call the machine. After each event the caller looks whether the
 * connection is idle, and may free it then.
 */
#ifndef TAGRV_WIREUP_CONN_H
#define TAGRV_WIREUP_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/compiler.h"
#include "wireup/wireup.h"
#include "wireup/wireup_rec.h"
#include "xport/xport.h"

struct tagrv_conn;

/* A socket as the machine sees it; the driver embeds it. */
struct tagrv_chan {
	struct tagrv_conn *conn;	/* NULL: none, or not any more */
	bool	dialed;			/* by us */
	bool	heard;			/* the peer answered our epoch here */
};

struct tagrv_conn_ops {
	/* Memory for the events of one epoch. -FI_ENOMEM. */
	int (*prepare)(struct tagrv_conn *conn);
	void (*emit)(struct tagrv_conn *conn,
		     const struct tagrv_wireup_event *event);
	/*
	 * Asks for a socket to conn->addr, now or when its turn comes:
	 * tagrv_conn_dialing, then tagrv_conn_dialed or tagrv_conn_dial_failed
	 * follow, never from within.
	 */
	void (*dial)(struct tagrv_conn *conn);
	void (*undial)(struct tagrv_conn *conn);
	/* A channel that breaks is reported later, by tagrv_conn_closed. */
	void (*send)(struct tagrv_chan *chan,
		     const struct tagrv_wireup_rec *rec);
	/* Forgets the channel; what was sent on it still gets through. */
	void (*hangup)(struct tagrv_chan *chan);
	/* Calls tagrv_conn_timer once at this time; 0: not any more. */
	void (*timer)(struct tagrv_conn *conn, uint64_t at);
};

/* What the connections of one endpoint share. */
struct tagrv_conn_host {
	const struct tagrv_conn_ops *ops;
	/* Best first, at most TAGRV_WIREUP_LINKS_MAX; 0: refuses everybody. */
	struct tagrv_xport *const *xports;
	size_t	xport_cnt;
	struct tagrv_addr addr;		/* our listener as peers know it */
	uint8_t	uuid[TAGRV_UUID_LEN];
	uint32_t epoch;			/* last one given out */
	uint32_t seed;			/* of jitter, not zero */
	uint64_t timeout;		/* ms until a peer is unreachable */
	const uint64_t *now;		/* ms, of the event being handled */
};

enum tagrv_conn_state {
	TAGRV_CONN_IDLE,	/* nothing to remember */
	TAGRV_CONN_WANTED,	/* the engine asked, no peer answered yet */
	TAGRV_CONN_BOUND,	/* UP reported; the peer may not hear us yet */
	TAGRV_CONN_READY,	/* both sides can send */
};

enum tagrv_conn_dial {
	TAGRV_CONN_OFF,		/* not dialing */
	TAGRV_CONN_PAUSE,	/* waits before it dials again */
	TAGRV_CONN_DIALING,	/* the driver was asked for a socket */
	TAGRV_CONN_ASKED,	/* REQ sent on that socket, no answer yet */
};

/*
 * owner: the driver, which embeds it. lock: none, one thread. lifetime: from
 * the first event of a peer until it is idle.
 */
struct tagrv_conn {
	struct tagrv_conn_host *host;
	struct tagrv_addr addr;		/* the peer's listener */
	enum tagrv_conn_state state;
	enum tagrv_conn_dial dial;
	struct tagrv_chan *chan[2];	/* [1]: the one we dialed */

	/* our side */
	uint32_t epoch;			/* 0: no link made yet */
	unsigned avoid;			/* bit per transport that does not do */
	unsigned chosen;		/* the transport, once bound */
	/* By transport; ours until UP is reported. NULL: not offered. */
	struct tagrv_link *links[TAGRV_WIREUP_LINKS_MAX];
	struct tagrv_wireup_blob blobs[TAGRV_WIREUP_LINKS_MAX];

	/* The peer's side, once bound; WANTED: the link given up, if not 0. */
	uint8_t	uuid[TAGRV_UUID_LEN];
	uint32_t peer_epoch;
	bool	unkept;			/* hang-up does not mean death */

	uint64_t deadline;		/* give up; 0: not started */
	uint64_t step_end;		/* of a pause or of one attempt */
	unsigned fails;			/* attempts in a row */
	int	why;			/* the last one failed */
};

void tagrv_conn_init(struct tagrv_conn *conn, struct tagrv_conn_host *host,
		     const struct tagrv_addr *addr);

static inline bool tagrv_conn_is_idle(const struct tagrv_conn *conn)
{
	return conn->state == TAGRV_CONN_IDLE;
}

/* Whether it knows the peer: uuid and peer_epoch are set. */
static inline bool tagrv_conn_is_bound(const struct tagrv_conn *conn)
{
	return conn->state >= TAGRV_CONN_BOUND;
}

/* The engine asks for the connection. */
void tagrv_conn_want(struct tagrv_conn *conn);
/* The engine's link of this epoch is of no use any more. */
void tagrv_conn_drop(struct tagrv_conn *conn, uint32_t epoch);
/* The endpoint closes: as drop, whatever the state; reports nothing. */
void tagrv_conn_close(struct tagrv_conn *conn);
/* Sockets are short: gives up those of a READY connection. */
void tagrv_conn_unkeep(struct tagrv_conn *conn);

/* An attempt to dial begins, has worked, has failed (-FI_E*). */
void tagrv_conn_dialing(struct tagrv_conn *conn);
void tagrv_conn_dialed(struct tagrv_conn *conn, struct tagrv_chan *chan);
void tagrv_conn_dial_failed(struct tagrv_conn *conn, int status);
/* A record arrived on a channel, new or known, that tagrv_conn_screen let by. */
void tagrv_conn_record(struct tagrv_conn *conn, struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *rec);
/* The channel is broken or closed by the peer; gone on return. */
void tagrv_conn_closed(struct tagrv_conn *conn, struct tagrv_chan *chan);
void tagrv_conn_timer(struct tagrv_conn *conn);

/*
 * Looks at a record before any connection does. -FI_EINVAL: a stranger's,
 * hang up; else a REQ to be rejected with this reason, or TAGRV_WIREUP_OK.
 */
int tagrv_conn_screen(const struct tagrv_conn_host *host,
		      const struct tagrv_wireup_rec *rec) TAGRV_WARN_UNUSED;
/* Answers a REQ that no connection deals with by a REJ. */
void tagrv_conn_reject(const struct tagrv_conn_host *host,
		       struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *req,
		       enum tagrv_wireup_reason reason);

#endif
