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
 *   dialing, while WANTED, or while BOUND without a socket:
 *      OFF --> DIALING --> ASKED (REQ sent) --> OFF
 *                ^ '--------.'
 *                '-- PAUSE <'   refused, timed out, busy: growing pauses
 *
 * A REQ offers the sender's links, one per transport. Its answer is always a REP
 * with the one link that was chosen, even if the REQ is repeated. When two REQs
 * cross, each side binds to a link in the other side's REQ and answers with its
 * own link: neither REQ is wasted.
 *
 * Both sides prefer transports in the same order and bind to the first one that
 * works. If one side cannot bind to the transport that the other side chose, its
 * machine begins again: it avoids that transport, makes new links with a new
 * epoch and sends a new REQ. If UP was emitted for the old links, GONE with
 * -FI_EAGAIN revokes it. Every such restart avoids one more transport, so there
 * are no more restarts than transports.
 *
 * To a peer of this host the REQ offers local transports alone at first, and says so
 * (LOCAL): the link of a device is costly, and mostly would be discarded at once. If the
 * peer cannot bind what it is offered, it answers REJ(TRANSPORT), and this side begins
 * again with the rest. If REQs cross, this side may have to bind a transport that it has
 * held back: it does so with a new epoch, and what its REQ offered is void.
 *
 * A connection has up to two sockets ("channels"): one that this side dialed and
 * one that the peer dialed. Once READY, the channel dialed by the endpoint with
 * the smaller uuid stays open as a sign of life. When that channel breaks, either
 * the peer has died or only the socket (a firewall that forgets, a management
 * network that is away for a while): this side dials, and resumes the connection by
 * a REQ that names both links. The data path goes on meanwhile.
 *
 *   READY without a channel --> dialing --> REP: READY with one
 *                                      '--> refused, REJ(STALE), deadline: GONE
 *
 * That sign of life costs a descriptor at both sides. If the links of both show by
 * themselves that the other side is dead (feature SOCKETLESS, told in REQ and REP), the
 * socket is spare: either side may close it, and says so by CLOSE(SOCKET_CLOSED), so
 * that its end is no doubt (conn_socket.c). Whatever needs a socket later dials:
 *
 *               close_sockets(), or the peer's CLOSE(SOCKET_CLOSED)
 *      READY with a channel -------------------------------> READY, sockets_closed
 *                  ^  '-- hang-up alone: doubt --.              |
 *                  |                             v              |
 *                  '---- REP or REQ --------- dialing <---------'  a renewal
 *                  '------------------------------------ the peer's REQ
 *      READY, sockets_closed --> GONE: REQ of a restarted peer; else the link tells
 *
 * Renewal: a link may need new paths, because none works any more or one may work
 * again. Then a new link to the same peer process takes the place of the old one,
 * while the connection stays READY (conn_renew.c):
 *
 *      asks:    REST --> wanted --> OFFERED (REQ sent) --> REP: bind, UP, RTU --> REST
 *                          ^ '------------'  refused, silent: growing pauses
 *      answers: REST --> ANSWERED (link bound, REP sent) --> RTU: UP --> REST
 *
 * Room: where a device has no room for a link (xport/quota.h), a WANTED connection holds
 * none of its links while it waits in growing pauses, up to the deadline, and a REQ is
 * answered by REJ(BUSY). Offers leave the last place to answers. So endpoints that wait
 * for each other do not all hold what the others need.
 *
 * Time: the deadline is the peer's. It stands still while a dial waits for its turn behind
 * our own other dials (queued), and begins anew when the peer tells us to WAIT.
 *
 * A REQ proves nothing: anybody can send one in the name of another listener. It
 * is believed if it cannot do harm (no connection exists or is wanted, and it
 * comes from the host that it names) or if it is proven. Else it waits as a
 * "claim" while this side asks the listener that it names: "did you send this?"
 *
 *      REQ --> claim --> ASK on the socket we dialed, or on a new one
 *                          ANSWER(OK): handle the REQ
 *                          ANSWER(STALE), no answer: reject it, nothing else
 *
 * Only the true sender and its receivers know the nonce in a REQ, so that nobody
 * can be asked for a REQ of somebody else. The answers of a listener that was
 * dialed need no such proof, nor does a record that repeats our nonce.
 *
 * Where devices are slow, a REQ or REP may wait at the other side. That says so by WAIT, and
 * the time to give up begins again with each WAIT: the peer is there.
 *
 * Each function handles one event and calls ops; ops must not call the machine.
 * After each event the caller tests tagrv_conn_is_idle() and may free an idle
 * connection.
 *
 * Comments and log lines below say "we" and "ours" for the endpoint that runs
 * this code, "the peer" for the endpoint at the other end.
 */
#ifndef TAGRV_WIREUP_CONN_H
#define TAGRV_WIREUP_CONN_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/compiler.h"
#include "wireup/wireup.h"
#include "wireup/wireup_rec.h"
#include "xport/xport.h"

struct tagrv_conn;

/*
 * What an event has the machine do with devices, whose commands may be slow. A driver may
 * let such events wait (wireup_queue.h); to the machine they have not happened yet.
 */
enum tagrv_conn_work {
	TAGRV_CONN_NO_WORK,
	TAGRV_CONN_FINISH,	/* binds a link: ends a handshake that we began */
	TAGRV_CONN_RESPOND,	/* makes and binds a link: a REQ, or a claim's ANSWER */
	TAGRV_CONN_OFFER,	/* makes links for a REQ of ours */
	TAGRV_CONN_WORKS
};

/* A socket as the machine sees it. The driver (wireup_sock.c) embeds it. */
struct tagrv_chan {
	struct tagrv_conn *conn;	/* NULL: belongs to no connection */
	bool	dialed;			/* by us, else by the peer */
	bool	answered;		/* we sent REP or RTU here for this epoch */
	bool	near;			/* accepted: from the host that its REQ names */
	bool	local;			/* dialed: to this host, and REQ(LOCAL) is known there */
	unsigned asks;			/* dialed: ASKs without an answer yet */
};

/* Of one epoch: UP, SENDABLE, and GONE or FAILED. */
#define TAGRV_CONN_EVENTS_PER_EPOCH	3

struct tagrv_conn_ops {
	/*
	 * Allocates the messages for the events of one epoch, as far as there are none left
	 * (tagrv_conn_events_left()). 0 or -FI_ENOMEM.
	 */
	int (*prepare)(struct tagrv_conn *conn);
	/* Copies the event and queues it for the engine; cannot fail. */
	void (*emit)(struct tagrv_conn *conn,
		     const struct tagrv_wireup_event *event);
	/*
	 * Asks for a socket to conn->addr. When dialing starts, the driver calls
	 * tagrv_conn_dialing(), and then tagrv_conn_dialed() or
	 * tagrv_conn_dial_failed(); none of the three from within dial().
	 */
	void (*dial)(struct tagrv_conn *conn);
	/*
	 * A claim waits for this dial: it must not wait for other handshakes.
	 * Those may wait for our answer in turn, at many peers at once.
	 */
	void (*hasten)(struct tagrv_conn *conn);
	/* Cancels dial(): the driver closes the socket and reports nothing. */
	void (*undial)(struct tagrv_conn *conn);
	/* Cannot fail: a broken channel is reported later, by tagrv_conn_closed(). */
	void (*send)(struct tagrv_chan *chan,
		     const struct tagrv_wireup_rec *rec);
	/* Closes the channel after what was sent on it has been delivered. */
	void (*hangup)(struct tagrv_chan *chan);
	/* Fills in a number that nobody can guess. 0 or -FI_EIO. */
	int (*draw)(struct tagrv_conn *conn, uint8_t nonce[TAGRV_NONCE_LEN]);
	/* False: too many listeners were asked lately, on behalf of strangers. */
	bool (*may_ask)(struct tagrv_conn *conn,
			const struct tagrv_chan *claimer);
	/* The question that was allowed was right: it does not count. */
	void (*asked_well)(struct tagrv_conn *conn,
			   const struct tagrv_chan *claimer);
	/* A device has no room for a link that is wanted. */
	void (*crowded)(struct tagrv_conn *conn);
	/*
	 * Optional. Before and after a command of a device, which may take long. Meanwhile
	 * machines of other connections may be called, but not this one.
	 */
	void (*leave)(struct tagrv_conn *conn, const struct tagrv_xport *xport);
	void (*enter)(struct tagrv_conn *conn, const struct tagrv_xport *xport);
	/*
	 * Optional. The offer of a renewal is due, which has devices work. True: the driver
	 * calls tagrv_conn_offer() when its turn has come; false: it is made now.
	 */
	bool (*postpone)(struct tagrv_conn *conn);
	/* Calls tagrv_conn_timer() once at this time (ms); 0 clears the timer. */
	void (*timer)(struct tagrv_conn *conn, uint64_t at);
};

/* What all connections of one endpoint share. The driver owns it. */
struct tagrv_conn_host {
	const struct tagrv_conn_ops *ops;
	/* Best first, at most TAGRV_WIREUP_LINKS_MAX. */
	struct tagrv_xport *const *xports;
	size_t	xport_cnt;		/* 0: every REQ is rejected */
	struct tagrv_addr addr;		/* our listener as peers know it */
	uint8_t	uuid[TAGRV_UUID_LEN];
	uint64_t features;		/* ours: TAGRV_WIRE_* */
	uint32_t epoch;			/* the last epoch given to a connection */
	uint32_t seed;			/* of the jitter of pauses, not zero */
	uint64_t timeout;		/* ms until a peer is unreachable */
	unsigned claims;		/* that wait now */
	unsigned claims_max;		/* more of them are refused */
	/* Connections that gave up their sockets, and that got one again; any thread. */
	_Atomic uint64_t closed_sockets, reopened_sockets;
	const uint64_t *now;		/* ms, of the event being handled; slower than
					   the time while the driver works */
};

enum tagrv_conn_state {
	TAGRV_CONN_IDLE,	/* no connection; see tagrv_conn_is_idle() */
	TAGRV_CONN_WANTED,	/* the engine asked; no answer from the peer yet */
	TAGRV_CONN_BOUND,	/* UP emitted; the peer may not be bound yet */
	TAGRV_CONN_READY,	/* both sides are bound and can send */
};

enum tagrv_conn_renew_state {
	TAGRV_CONN_REST,	/* no renewal, or it waits for a socket or a pause */
	TAGRV_CONN_OFFERED,	/* a REQ names our new link; not bound */
	TAGRV_CONN_ANSWERED,	/* our new link is bound; waits for the RTU */
};

/*
 * What our records say of a link of ours: allocated with it, in the length that it has, since
 * a connection needs one of them for as long as it lasts, and few need TAGRV_BLOB_MAX bytes.
 */
struct tagrv_conn_blob {
	uint32_t max_packet;
	uint8_t	wire_id;
	uint8_t	len;			/* bytes of data */
	uint8_t	data[];
};

/* Of an epoch, until one of its links is bound. */
struct tagrv_conn_offer {
	/* By index of the transport; NULL: not offered. */
	struct tagrv_link *links[TAGRV_WIREUP_LINKS_MAX];
	struct tagrv_conn_blob *blobs[TAGRV_WIREUP_LINKS_MAX];
};

/*
 * A link that is to take the place of the present one. Few connections are renewed at a time:
 * those that are not share tagrv_conn_at_rest.
 */
struct tagrv_conn_renew {
	enum tagrv_conn_renew_state state;
	bool	wanted;			/* the engine asked, and waits for an event */
	bool	down;			/* and has no path that works */
	bool	queued;			/* ops->postpone() has it wait for its turn */
	bool	turn;			/* which has come */
	uint64_t deadline;		/* ms, of what the engine wants */
	uint64_t at;			/* end of a pause, or of the wait for an answer */
	unsigned fails;			/* in a row */
	struct tagrv_chan *chan;	/* on which an answer is awaited, or NULL */
	/* Our new link, until UP hands it over; from OFFERED on: */
	struct tagrv_link *link;
	uint32_t epoch;
	uint8_t	nonce[TAGRV_NONCE_LEN];
	struct tagrv_conn_blob *blob;
	/* the peer's, ANSWERED */
	uint32_t peer_epoch;
	uint8_t	peer_nonce[TAGRV_NONCE_LEN];
	size_t	max_packet;
};

extern const struct tagrv_conn_renew tagrv_conn_at_rest;

/* A REQ that waits for its proof (conn_ask.c). */
struct tagrv_conn_claim {
	struct tagrv_chan *claimer;	/* the channel on which it came */
	struct tagrv_chan *ask_chan;	/* dialed only to ask; NULL: none */
	bool	asked;			/* ops->may_ask() has counted it */
	uint64_t end;			/* ms */
	struct tagrv_wireup_rec rec;
};

enum tagrv_conn_dial {
	TAGRV_CONN_OFF,		/* not dialing */
	TAGRV_CONN_PAUSE,	/* waits before it dials again */
	TAGRV_CONN_DIALING,	/* the driver was asked for a socket, for a REQ
				   or, in any state, to ask for a claim */
	TAGRV_CONN_ASKED,	/* REQ sent on that socket, no answer yet */
};

/*
 * owner: the driver (wireup_peer.c), which embeds it. lock: none, only the wireup
 * thread touches it. lifetime: from the first event of a peer until IDLE.
 */
struct tagrv_conn {
	struct tagrv_conn_host *host;
	struct tagrv_addr addr;		/* the peer's listener */
	enum tagrv_conn_state state;
	enum tagrv_conn_dial dial;
	struct tagrv_chan *chan[2];	/* by enum in conn_priv.h */

	/* our side */
	uint32_t epoch;			/* number of our links; 0: none made yet */
	uint8_t	nonce[TAGRV_NONCE_LEN];	/* of this epoch */
	unsigned avoid;			/* bit i: do not use host->xports[i] */
	unsigned held;			/* bit i: the REQ of this epoch held it back */
	unsigned chosen;		/* index of the transport, once bound */
	/*
	 * The machine owns the links until UP hands one of them over; the others are
	 * discarded then. Of that one the blob stays, for records that are repeated.
	 */
	struct tagrv_conn_offer *offer;	/* NULL: none made yet, or bound */
	struct tagrv_conn_blob *blob;	/* once bound */

	/*
	 * The peer's side, once bound. While WANTED, after a restart: the peer's
	 * link that was given up (peer_epoch 0: none).
	 */
	uint8_t	uuid[TAGRV_UUID_LEN];
	uint32_t peer_epoch;
	uint8_t	peer_nonce[TAGRV_NONCE_LEN];	/* once bound */
	bool	sockets_closed;		/* by either side, to save descriptors: that there
					   is none does not mean that the peer died */
	bool	socket_spare;		/* both sides can do without one */
	bool	queued;			/* while DIALING: the driver has not begun yet */

	struct tagrv_conn_renew *renew;	/* not written while it is at rest */
	uint64_t renew_credit_at;	/* ms: when links of renewals are paid for */
	uint32_t first_epoch;		/* ours, of the first UP of this connection */
	uint32_t was_epoch;		/* ours, before the last renewal; 0: none */

	struct tagrv_conn_claim *claim;	/* NULL: none */

	/* times in ms, as *host->now */
	uint64_t deadline;		/* to give up at; 0: not started */
	uint64_t step_end;		/* end of the pause or of the attempt; while queued:
					   since when, and the deadline stands still */
	unsigned fails;			/* failed attempts in a row */
	int	last_error;		/* -FI_E* of the last attempt; 0: none */
};

/* Fills conn: IDLE, without channels or links. */
void tagrv_conn_init(struct tagrv_conn *conn, struct tagrv_conn_host *host,
		     const struct tagrv_addr *addr);

/* True: the connection may be freed. */
static inline bool tagrv_conn_is_idle(const struct tagrv_conn *conn)
{
	return conn->state == TAGRV_CONN_IDLE && !conn->claim;
}

/* True: a link is bound, and uuid and peer_epoch name the peer's link. */
static inline bool tagrv_conn_is_bound(const struct tagrv_conn *conn)
{
	return conn->state >= TAGRV_CONN_BOUND;
}

/*
 * How many events may come, at most, before ops->prepare() is called again: of a connection at
 * rest its GONE, and the end of a renewal that is wanted, none of them UP. More messages need
 * not be kept.
 */
static inline int tagrv_conn_events_left(const struct tagrv_conn *conn)
{
	if (conn->state == TAGRV_CONN_READY && conn->renew->state == TAGRV_CONN_REST)
		return 1 + conn->renew->wanted;
	return INT_MAX;
}

/* The engine asks for the connection. Does nothing unless the state is IDLE. */
void tagrv_conn_want(struct tagrv_conn *conn);
/* The engine's link of this epoch failed or was closed. Ignores other epochs. */
void tagrv_conn_drop(struct tagrv_conn *conn, uint32_t epoch);
/*
 * The engine's link of this epoch needs new paths. One event follows: UP with
 * 'resumes', RENEW_FAILED (unless 'down') or GONE, the latest after 'patience' ms; at once
 * without memory. Ignores other epochs. The driver has allocated one more message. A call while an
 * event is due shortens the pauses between attempts, or makes the renewal urgent.
 */
void tagrv_conn_renew(struct tagrv_conn *conn, uint32_t epoch, bool down,
		      uint64_t patience);
/* The turn has come of an offer that ops->postpone() has had wait. */
void tagrv_conn_offer(struct tagrv_conn *conn);
/* Likewise, but the machine is busy: it asks for another turn, if there is need. */
void tagrv_conn_miss_turn(struct tagrv_conn *conn);
/* True: a REQ that names this epoch of ours is about this connection. */
bool tagrv_conn_has_epoch(const struct tagrv_conn *conn, uint32_t epoch);
/* The endpoint closes: ends the connection in any state and emits no event. */
void tagrv_conn_close(struct tagrv_conn *conn);
/* A BOUND connection is given up: the peer has had time enough for its RTU. */
void tagrv_conn_expire(struct tagrv_conn *conn);
/* True: a READY connection has a socket that neither side needs now. */
bool tagrv_conn_has_spare_socket(const struct tagrv_conn *conn);
/*
 * Closes the sockets of a READY connection, spare or not: descriptors may be scarce.
 * Does nothing while a renewal needs them.
 */
void tagrv_conn_close_sockets(struct tagrv_conn *conn);

/*
 * The driver starts to dial; has a connected socket; failed. status: -FI_E*;
 * -FI_ECONNREFUSED means that nobody listens there, -FI_ECONNRESET that the socket
 * broke before the other end had proven to be a peer.
 */
void tagrv_conn_dialing(struct tagrv_conn *conn);
void tagrv_conn_dialed(struct tagrv_conn *conn, struct tagrv_chan *chan);
void tagrv_conn_dial_failed(struct tagrv_conn *conn, int status);
/*
 * A record arrived on a channel of this connection, or on a channel without a
 * connection (then a REQ). tagrv_conn_screen() has returned TAGRV_WIREUP_OK for
 * it. On return chan->conn tells whether the connection kept the channel.
 */
void tagrv_conn_record(struct tagrv_conn *conn, struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *rec);
/*
 * What tagrv_conn_record() would do; conn NULL: the record is of a peer that is not known
 * yet. rec NULL: what tagrv_conn_dialed() would do.
 */
enum tagrv_conn_work tagrv_conn_work_of(const struct tagrv_conn *conn,
					const struct tagrv_chan *chan,
					const struct tagrv_wireup_rec *rec);
/*
 * Whether that work is probably done by another transport than local ones, whose links are
 * made in no time. conn as above.
 */
bool tagrv_conn_needs_device(const struct tagrv_conn_host *host, const struct tagrv_conn *conn,
			     const struct tagrv_chan *chan, const struct tagrv_wireup_rec *rec);
/*
 * This ANSWER waits for devices. If it is the one that the claim awaits, the claim has
 * patience, and the channel is returned whose peer has to have it, too: *claim is its REQ.
 */
struct tagrv_chan *tagrv_conn_claim_waits(struct tagrv_conn *conn,
					  const struct tagrv_wireup_rec *answer,
					  const struct tagrv_wireup_rec **claim);
/*
 * So long a device of ours has worked for the connection, or the connection has waited for
 * it: what the peer does is due that much later.
 */
void tagrv_conn_excuse(struct tagrv_conn *conn, uint64_t ms);
/* Tells the sender of this REQ or REP that it waits here, so that it has patience. */
void tagrv_conn_tell_wait(const struct tagrv_conn_host *host,
			  struct tagrv_chan *chan,
			  const struct tagrv_wireup_rec *rec);
/* The channel broke, or the peer closed it. The caller closes the socket. */
void tagrv_conn_closed(struct tagrv_conn *conn, struct tagrv_chan *chan);
/* The time that ops->timer was given has come. */
void tagrv_conn_timer(struct tagrv_conn *conn);

/*
 * Decides whether a record may be handed to a connection. Returns
 * TAGRV_WIREUP_OK; the reason with which a REQ must be rejected; or -FI_EINVAL
 * when the record is not for this endpoint and its socket must be closed.
 */
int tagrv_conn_screen(const struct tagrv_conn_host *host,
		      const struct tagrv_wireup_rec *rec) TAGRV_WARN_UNUSED;
/* True: the ASK is about the REQ of this connection. */
bool tagrv_conn_sent_req(const struct tagrv_conn *conn,
			 const struct tagrv_wireup_rec *ask);
/* Answers an ASK; any endpoint can do so for any asker. */
void tagrv_conn_answer(const struct tagrv_conn_host *host,
		       struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *ask, bool yes);
/* Sends a REJ for a REQ that belongs to no connection. */
void tagrv_conn_reject(const struct tagrv_conn_host *host,
		       struct tagrv_chan *chan,
		       const struct tagrv_wireup_rec *req,
		       enum tagrv_wireup_reason reason);

#endif
