/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by the files of the state machine:
 *
 *   conn.c       what happens at each event: record, socket, timer, call
 *   conn_record.c does what REQ, REP, RTU, REJ and CLOSE say
 *   conn_end.c   ends a connection, tries again, begins again with new links
 *   conn_link.c  makes, chooses and binds links
 *   conn_renew.c has a new link take the place of the old one, conn_renewed.c does
 *                what the peer's records say of it
 *   conn_ask.c   asks listeners whether they sent a REQ
 *   conn_wire.c  fills, sends and screens records
 *   conn_socket.c closes sockets that both sides can do without
 *   conn_wait.c  which events may wait at a busy side, and its WAIT
 *   conn_dial.c  adds and removes channels, dials, sets the timer
 */
#ifndef TAGRV_WIREUP_CONN_PRIV_H
#define TAGRV_WIREUP_CONN_PRIV_H

#include <rdma/fi_errno.h>
#include <string.h>

#include "wireup/conn.h"

/* Slots of tagrv_conn::chan. */
enum { TAGRV_CONN_ACCEPTED, TAGRV_CONN_DIALED };

/* ms from the REQ of a renewal, or the latest WAIT, to its REP */
#define TAGRV_CONN_ANSWER_MAX	8000

static inline bool tagrv_conn_has_chan(const struct tagrv_conn *conn)
{
	return conn->chan[TAGRV_CONN_ACCEPTED] || conn->chan[TAGRV_CONN_DIALED];
}

/*
 * READY, but the sign of life is lost: either the peer has died, or only its socket
 * has. A REQ on a new socket finds out.
 */
static inline bool tagrv_conn_is_doubted(const struct tagrv_conn *conn)
{
	return conn->state == TAGRV_CONN_READY && !conn->sockets_closed &&
	       !tagrv_conn_has_chan(conn);
}

static inline bool tagrv_conn_is_renewing(const struct tagrv_conn *conn)
{
	return conn->renew->wanted || conn->renew->state != TAGRV_CONN_REST;
}

/* READY, and has to dial: in doubt, or a renewal needs a socket. */
static inline bool tagrv_conn_lacks_chan(const struct tagrv_conn *conn)
{
	return conn->state == TAGRV_CONN_READY && !tagrv_conn_has_chan(conn) &&
	       (!conn->sockets_closed || tagrv_conn_is_renewing(conn));
}

static inline bool tagrv_conn_holds(const struct tagrv_conn *conn,
				    const struct tagrv_chan *chan)
{
	return conn->chan[chan->dialed] == chan;
}

/* True: the record has the epoch and the nonce of our link, so its sender has our record. */
static inline bool tagrv_conn_is_named(const struct tagrv_conn *conn,
				       const struct tagrv_wireup_rec *rec)
{
	return conn->epoch && rec->dst_epoch == conn->epoch &&
	       !memcmp(rec->dst_nonce, conn->nonce, TAGRV_NONCE_LEN);
}

/* True: likewise of the new link of a renewal. */
static inline bool tagrv_conn_names_new(const struct tagrv_conn *conn,
					const struct tagrv_wireup_rec *rec)
{
	const struct tagrv_conn_renew *renew = conn->renew;

	return renew->state != TAGRV_CONN_REST && renew->epoch &&
	       rec->dst_epoch == renew->epoch &&
	       !memcmp(rec->dst_nonce, renew->nonce, TAGRV_NONCE_LEN);
}

static inline uint64_t tagrv_conn_now(const struct tagrv_conn *conn)
{
	return *conn->host->now;
}

/* True: a local shortage that may be over when the connection is tried again. */
static inline bool tagrv_conn_is_transient(int status)
{
	return status == -FI_ENOMEM || status == -FI_EAGAIN ||
	       status == -FI_EMFILE || status == -FI_EBUSY ||
	       status == -FI_ENOSPC;
}

/* -- conn_end.c ------------------------------------------------------------ */

/*
 * Returns to IDLE: discards links, clears the timer, hangs up all channels but
 * 'keep' (may be NULL). send_close: sends CLOSE before each hang-up.
 */
void tagrv_conn_reset(struct tagrv_conn *conn, struct tagrv_chan *keep,
		      bool send_close);
void tagrv_conn_emit_gone(struct tagrv_conn *conn, int status);
/* Logs and emits FAILED and resets. State: WANTED. */
void tagrv_conn_fail(struct tagrv_conn *conn, int status);
/* Emits FAILED if not bound yet, else GONE, and resets. */
void tagrv_conn_give_up(struct tagrv_conn *conn, int status);
/*
 * Discards our links, remembers the peer's link in the record as given up (NULL: none),
 * and sends a REQ with new links of the transports that are not avoided. If all of
 * them are, gives up with this status.
 */
void tagrv_conn_begin_again(struct tagrv_conn *conn,
			    const struct tagrv_wireup_rec *rec, int status);
/* An attempt failed with this status: dials again later if it is still needed. */
void tagrv_conn_retry(struct tagrv_conn *conn, int status);
/* Makes links, unless they exist, and sends a REQ on the channel we dialed. */
void tagrv_conn_send_req(struct tagrv_conn *conn, struct tagrv_chan *chan);

/* No link can be made now: gives back those that were made, and tries again later. */
void tagrv_conn_await_room(struct tagrv_conn *conn);

/* -- conn_renew.c ---------------------------------------------------------- */

/* Goes on with a renewal, if there is one. Called after every event. */
void tagrv_conn_renew_go(struct tagrv_conn *conn);
/* Makes conn->renew one that may be written to. False: no memory. */
bool tagrv_conn_begin_renew(struct tagrv_conn *conn) TAGRV_WARN_UNUSED;
/* Discards the link of a renewal, if there is one; nothing is wanted any more. */
void tagrv_conn_end_renew(struct tagrv_conn *conn);
/* This attempt brought nothing: another one follows, with a link made then. */
void tagrv_conn_pause_renewal(struct tagrv_conn *conn);
/* Sends the REP of a renewal. */
void tagrv_conn_send_renewed(struct tagrv_conn *conn, struct tagrv_chan *chan);

/* The channel, newly dialed, is used for the REQ of a renewal. False: there is none. */
bool tagrv_conn_renew_asks(struct tagrv_conn *conn, struct tagrv_chan *chan);
void tagrv_conn_renew_timer(struct tagrv_conn *conn);
/* Sends CLOSE for the pair of links that the peer may use by now. */
void tagrv_conn_renew_close(struct tagrv_conn *conn, struct tagrv_chan *chan);

/* -- conn_renewed.c -------------------------------------------------------- */

/* True: the record was about a renewal, and has been handled. */
bool tagrv_conn_renew_record(struct tagrv_conn *conn, struct tagrv_chan *chan,
			     const struct tagrv_wireup_rec *rec);

/* -- conn_wait.c ----------------------------------------------------------- */

/* The offer of a renewal, which is due, has to wait for its turn among other work. */
bool tagrv_conn_waits_for_turn(struct tagrv_conn *conn);
/* The peer has our REQ or REP, and will handle it in its turn. */
void tagrv_conn_take_wait(struct tagrv_conn *conn, struct tagrv_chan *chan,
			  const struct tagrv_wireup_rec *rec);

/* -- conn_ask.c ------------------------------------------------------------ */

/* True: a dial is needed only to ask, not to send a REQ. */
bool tagrv_conn_dials_to_ask(const struct tagrv_conn *conn);
/* Has the REQ wait and asks the peer's listener for its proof; or rejects it. */
void tagrv_conn_claim(struct tagrv_conn *conn, struct tagrv_chan *chan,
		      const struct tagrv_wireup_rec *rec);
void tagrv_conn_send_ask(struct tagrv_conn *conn, struct tagrv_chan *chan);
/* Rejects the REQ that waits, if any. */
void tagrv_conn_refuse_claim(struct tagrv_conn *conn,
			     enum tagrv_wireup_reason reason);
/*
 * If nothing is left that the waiting REQ can harm: the connection has ended, or it is
 * now to the link that the REQ is about, or to a later one of the same peer.
 */
void tagrv_conn_settle_claim(struct tagrv_conn *conn);
/* True: the record was an answer, or came on a channel of a claim. */
bool tagrv_conn_claim_record(struct tagrv_conn *conn, struct tagrv_chan *chan,
			     const struct tagrv_wireup_rec *rec);
/* True: the channel belonged to a claim, which is over. */
bool tagrv_conn_lost_claim_chan(struct tagrv_conn *conn, struct tagrv_chan *chan);

/* -- conn.c ---------------------------------------------------------------- */

/* Both sides are bound: SENDABLE is emitted if need be, dialing and doubts end. */
void tagrv_conn_become_ready(struct tagrv_conn *conn);
/* One channel of a READY connection stays. */
void tagrv_conn_hang_up_extra(struct tagrv_conn *conn);

/* -- conn_record.c --------------------------------------------------------- */

/* Handles a record that is about neither a claim nor a renewal. */
void tagrv_conn_take_record(struct tagrv_conn *conn, struct tagrv_chan *chan,
			    const struct tagrv_wireup_rec *rec);
/*
 * True: the link that the record is from is later than the one we are bound to, or of
 * another peer process, so that to take it would end the connection.
 */
bool tagrv_conn_is_new_link(const struct tagrv_conn *conn,
			    const struct tagrv_wireup_rec *rec);
/* Handles a REQ that is proven, or that cannot do harm. */
void tagrv_conn_take_req(struct tagrv_conn *conn, struct tagrv_chan *chan,
			 const struct tagrv_wireup_rec *rec);

/* -- conn_socket.c -------------------------------------------------------- */

/* The peer has sent CLOSE(SOCKET_CLOSED), about our link, on this channel. */
void tagrv_conn_peer_closes_socket(struct tagrv_conn *conn, struct tagrv_chan *chan);
/* The peer has answered on a channel: it is a sign of life, if there was none. */
void tagrv_conn_note_socket(struct tagrv_conn *conn);

/* -- conn_dial.c ---------------------------------------------------------- */

/*
 * Makes the channel one of this connection's. It replaces an older channel that
 * was dialed by the same side.
 */
void tagrv_conn_hold(struct tagrv_conn *conn, struct tagrv_chan *chan);
/* Undoes hold; the socket stays open. */
void tagrv_conn_forget(struct tagrv_conn *conn, struct tagrv_chan *chan);
/* Undoes hold and has the driver close the socket. */
void tagrv_conn_hang_up(struct tagrv_conn *conn, struct tagrv_chan *chan);
/* Sets the timer to deadline, step_end or claim_end, whichever comes first. */
void tagrv_conn_set_timer(struct tagrv_conn *conn);
/*
 * Sets step_end for one attempt and, if it is the first one, the deadline; of a dial that is
 * queued, when the driver begins.
 */
void tagrv_conn_start_attempt(struct tagrv_conn *conn);
void tagrv_conn_start_dial(struct tagrv_conn *conn);
/* A dial waits for its turn behind our own other ones. */
static inline bool tagrv_conn_is_queued(const struct tagrv_conn *conn)
{
	return conn->dial == TAGRV_CONN_DIALING && conn->queued;
}

/*
 * The driver dials, or need not any more: what this dial has waited for a turn is no time of
 * the peer's, so the deadline moves by it.
 */
void tagrv_conn_leave_queue(struct tagrv_conn *conn);
/* Stops dialing, unless a REQ was sent already (ASKED) or a claim needs it. */
void tagrv_conn_stop_dial(struct tagrv_conn *conn);
/* Dials again after a pause that doubles with each failure; status: its cause. */
void tagrv_conn_pause_dial(struct tagrv_conn *conn, int status);
/* ms of the pause after so many failures: doubled with each, and partly random. */
uint64_t tagrv_conn_pause(struct tagrv_conn *conn, unsigned fails);

/* -- conn_wire.c ---------------------------------------------------------- */

/* Fills in the event's addr, epoch and uuid and emits it. */
void tagrv_conn_emit(struct tagrv_conn *conn,
		     struct tagrv_wireup_event *event);

/* Begins a record. */
void tagrv_conn_fill_head(const struct tagrv_conn_host *host,
			  struct tagrv_wireup_rec *rec,
			  enum tagrv_wireup_rec_type type, uint8_t reason);
/* Sends a record with this connection's epochs and, for REQ and REP, its links. */
void tagrv_conn_send_rec(struct tagrv_conn *conn, struct tagrv_chan *chan,
			 enum tagrv_wireup_rec_type type, uint8_t reason);
/* Sends a record to the sender of 'rec', with its epochs; needs no connection. */
void tagrv_conn_send_reply(const struct tagrv_conn_host *host,
			   struct tagrv_chan *chan,
			   const struct tagrv_wireup_rec *rec,
			   enum tagrv_wireup_rec_type type, uint8_t reason);

/* -- conn_link.c ----------------------------------------------------------- */

/*
 * Makes a link of every transport that is not avoided and gives them the next
 * epoch, unless that was done before. -FI_E*: not one link could be made.
 * local: if the best transport is local, holds back those that are not.
 */
int tagrv_conn_make_links(struct tagrv_conn *conn, bool local) TAGRV_WARN_UNUSED;
/*
 * Whether a device that the connection may need has no room for its link. offer: so that
 * there is one more for answers to others.
 */
bool tagrv_conn_is_crowded(const struct tagrv_conn *conn, bool offer);
/* Discards the link of a renewal, which is at REST then; it may still be wanted. */
void tagrv_conn_discard_renewed(struct tagrv_conn *conn);
/* Adds a link of ours to a record. */
void tagrv_conn_put_blob(struct tagrv_wireup_rec *rec,
			 const struct tagrv_conn_blob *blob);
/* Discards our links: the next ones have another epoch. */
void tagrv_conn_void_offer(struct tagrv_conn *conn);
/*
 * Binds to the best transport in the record that works, becomes BOUND (or READY
 * if sendable) and emits UP. Transports that did not work are avoided from then
 * on. If none worked, returns the first transient failure or else the last one;
 * -FI_EHOSTUNREACH if the record has no transport that can be tried. A transport that
 * our REQ held back is bound with a new epoch.
 */
int tagrv_conn_bind(struct tagrv_conn *conn,
		    const struct tagrv_wireup_rec *rec, bool sendable)
	TAGRV_WARN_UNUSED;
/*
 * Makes the link of a renewal, of the transport in use. -FI_EBUSY: there were too many
 * of them lately.
 */
int tagrv_conn_make_renewed(struct tagrv_conn *conn) TAGRV_WARN_UNUSED;
/* Binds it to the link in the record; *blob: this link's. */
int tagrv_conn_bind_renewed(struct tagrv_conn *conn,
			    const struct tagrv_wireup_rec *rec,
			    const struct tagrv_wireup_blob **blob)
	TAGRV_WARN_UNUSED;
/* What is held back now is offered by the next REQ, local transports are avoided. */
void tagrv_conn_avoid_local(struct tagrv_conn *conn);
/* True: at least one transport is not avoided. */
bool tagrv_conn_has_offer(const struct tagrv_conn *conn);
/*
 * True: the record, a REP, is about the transport that we are bound to. Else the
 * transport of the two that does not work on both sides is avoided from then on.
 */
bool tagrv_conn_same_transport(struct tagrv_conn *conn,
			       const struct tagrv_wireup_rec *rec);

#endif
