/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Holding back senders of messages that are early, so that the memory of kept messages
 * is bounded and nobody is ended for being early.
 *
 * Who decides: the receiver, here, message by message; no transport knows of it. What a
 * peer may send is what it was promised: credit for payloads (object/credit.h), a place
 * for each announcement (object/places.h). A sender without credit announces; a sender
 * without a place waits, with its messages in order on peer->pending. Nothing else
 * waits: FIN, CTS, GRANT, DONE and CREDIT cost neither, so rings and receive queues are
 * always emptied, and what is under way to or from the peer goes on.
 *
 * Who pays for a kept message:
 *
 *   the endpoint's budget          credit and place go back to the peer at once
 *     (FI_TAGRV_EAGER_BUDGET)
 *   else the peer's own reserve    credit and place are held until it is delivered
 *
 * The budget pays for a peer whose kept messages take up to HOLD_SHARE times what is
 * left of the budget. So one heavy sender gets 8/9 of it, two get 8/17 each, and a peer
 * that comes late still finds something. The reserve is the peer's alone and exists by
 * number only: an idle peer costs no memory, and a peer can always deliver that much,
 * whatever others have sent.
 *
 *     a place is used or free again, the                    CREDIT is sent
 *     peer has none, no CREDIT is due
 *   FREE ------------------------------------> STOPPED ------------------------> FREE
 *                                                 |  ^  a place is free again, a quarter
 *                          wanted, places owed:   |  |  of them is owed: CREDIT
 *                          urgent, CREDIT         |  |
 *                          wanted, none owed:     |  '- no budget: stays, asked again
 *                          TAGRV_PLACES_STEP more |     in each pass
 *                          ones, the budget pays -'
 *
 * The last place may also be that of a message which matched, or which the budget pays
 * for: the peer has none then, and fewer are owed than a CREDIT is sent for.
 *
 * A stopped peer is wanted when a receive is posted that could match a message of it,
 * or when a peek for one found none: what they wait for may be behind what is kept. The
 * share does not count then, but the budget does: when it is used up, the receive waits
 * until others of the kept messages are received. The next pass looks at a peer that was
 * just stopped, and at all stopped peers behind a post: at each receive once, and again
 * after each step of places. The first post behind a look wakes a sleeping application
 * (rx->roused). A stopped peer that nobody waits for is not on tx.busy: it costs the
 * others nothing, however long that takes.
 *
 * -FI_EAGAIN of the transport for a CREDIT: the peer is busy, the next pass sends it.
 * End of the connection: places are forgotten, those beyond the first go back to the
 * budget; proto/unexp.h says what becomes of the kept messages. Closing: as for other
 * pending sends; a receiver that closes ends the connection, and with it the senders'
 * waiting. Multi-receive: such a receive stays posted, so its sender is always wanted.
 *
 * Bound of the memory of kept messages, per endpoint: the budget, and for each
 * connection that has messages kept twice FI_TAGRV_EAGER_CREDIT for eager ones, and
 * TAGRV_PLACES_FIRST times TAGRV_PLACE_UNITS units of 64 bytes for announcements.
 *
 * lock: the domain's.
 */
#ifndef TAGRV_PROTO_HOLD_H
#define TAGRV_PROTO_HOLD_H

#include "object/peer.h"

/* Units of memory of an announcement, at most: the record, and four segments. */
#define TAGRV_PLACE_UNITS	7u

/* Pays for a message that takes so many units of memory. False: the peer's reserve
 * has to. */
bool tagrv_hold_pay(struct tagrv_peer *peer, uint32_t units) TAGRV_WARN_UNUSED;
/* The units are free again. */
void tagrv_hold_repay(struct tagrv_peer *peer, uint32_t units);

/* An announcement has come. False: it breaks the rules. */
bool tagrv_hold_use_place(struct tagrv_peer *peer) TAGRV_WARN_UNUSED;
/* Its place is free again: it matched, or the budget pays, or it was delivered. */
void tagrv_hold_release_place(struct tagrv_peer *peer);
/* It was kept and holds its place: stops the peer if that was the last one. */
void tagrv_hold_kept(struct tagrv_peer *peer);

/* Of a stopped peer that is served: gives it places if it is wanted. */
void tagrv_hold_look(struct tagrv_peer *peer) TAGRV_COLD;
/* A CREDIT packet with so many places has left. */
void tagrv_hold_returned(struct tagrv_peer *peer, uint32_t cnt);
/* Whether the next pass must look at a stopped peer, although nothing else is to be
 * sent to it. */
bool tagrv_hold_looks_again(const struct tagrv_peer *peer) TAGRV_COLD;

/* A receive was posted while peers are stopped: they are looked at in the next pass. */
void tagrv_hold_posted(struct tagrv_rx *rx) TAGRV_COLD;
/* A peek for a message of this peer, or of any, found none. */
void tagrv_hold_peeked(struct tagrv_rx *rx, uint32_t match_id) TAGRV_COLD;
/* The connection has ended. */
void tagrv_hold_reset(struct tagrv_peer *peer);

#endif
