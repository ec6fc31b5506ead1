/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided operations: reads, writes and atomics on the windows of a peer
 * (object/mrtab.h). The target's processor looks at every request, so that a wrong one is
 * refused and nothing else of the connection suffers, and carries out all atomics.
 *
 *   initiator                                  target
 *   write   QUEUED -- PUT ... PUT ---------->  copies each one into the window
 *           ASKED  <-- FIN(status) ----------
 *   write,  QUEUED -- STORE ---------------->  the same, of one packet
 *     short ASKED  <-- FIN(status) ----------
 *   write,         -- STORE ... STORE ------>  the same
 *     counted      <-- COUNT(well, failed) --
 *   write,  QUEUED -- PULL(keys) ----------->
 *     long  ASKED  <=== remote reads ========  READING
 *                  <-- FIN(status) ----------
 *   read    QUEUED -- GET ------------------>  answers from the window
 *           ASKED  <-- ANSWER ... ANSWER ----
 *   read,   QUEUED -- GET ------------------>
 *     long  ASKED  <-- KEYS(handle) ---------  LENT: the memory stays registered
 *           FETCHING === remote reads ======>
 *                  --- FIN(handle) --------->
 *   read,   QUEUED  (object/view.h)
 *     view  WIRE, FETCHING === remote reads ===>
 *   write,  QUEUED  (likewise)
 *     view  WIRE, WRITING  === remote writes ==>
 *   atomic  QUEUED -- ATOMIC ... ATOMIC ---->  changes the window
 *           ASKED  <-- FIN, or ANSWERs ------
 *   atomic, QUEUED  (FI_TAGRV_ATOMICS=device)
 *     device WIRE  === the device's atomics ==>
 *
 * "Long" is what would travel by rendezvous as a message (select/select.h), where the
 * transport can read. What cannot be registered goes by packets: the target refuses a PULL
 * by a FIN with FI_EAGAIN, and does not answer a GET by KEYS.
 *
 * Completion: FIN and the last ANSWER come when the bytes are in the window or in the
 * caller's buffer. So every operation that has ended has FI_DELIVERY_COMPLETE, and the
 * errors of the target are reported, for injects by a log line.
 *
 * Remote CQ data: the target holds the FIN while nobody reads its queue, and the initiator
 * sends only so much without a FIN (rma_data.c).
 *
 * Order: packets of one peer are handled in the order of the calls, which gives the order
 * among atomics, and between writes by packets and all that comes later. Where tx_attr has
 * asked for more (object/order.h), an operation holds back all later ones to the same peer
 * until it has ended: a PULL for FI_ORDER_RAW, WAW and SAW, a read for WAR, SAR and RAR. No
 * read is told KEYS then, because it could not stay in front of the others.
 *
 * EAGAIN: an operation that finds no room is QUEUED on peer->pending, among the sends, and so
 * is one for which the peer would have to keep too much (TAGRV_RMA_ASKED_MAX, _UNANSWERED_MAX).
 *
 * Peer death, close: lane.c fails peer->pending and peer->waiting; reads in flight end by
 * their callbacks. A target drops its answers, and ends what it has LENT. A window is closed
 * when nothing of it is LENT and no PULL reads into it any more (engine/window.c).
 *
 * Packets: wire/rma_packet.h. lock: the domain lock is held in every call.
 */
#ifndef TAGRV_PROTO_RMA_RMA_H
#define TAGRV_PROTO_RMA_RMA_H

#include "object/op.h"
#include "object/peer.h"
#include "object/request.h"
#include "wire/rma_packet.h"

/*
 * Makes a QUEUED op of a request; the caller puts it on peer->pending or calls
 * op->ops->start. 0, -FI_EAGAIN, -FI_ENOMEM. A payload to be injected is not copied.
 */
int tagrv_rma_op_get(struct tagrv_engine *engine, struct tagrv_peer *peer,
		     const struct tagrv_rma_req *req, struct tagrv_op **op)
	TAGRV_WARN_UNUSED;
/* Copies what is to be injected, because the op stays QUEUED. 0, -FI_EAGAIN, -FI_ENOMEM. */
int tagrv_rma_op_keep(struct tagrv_op *op) TAGRV_WARN_UNUSED;

/* A FIN for an op that is ASKED. False: it awaits none. */
bool tagrv_rma_fin(struct tagrv_op *op, int status);
/* A FIN for an op that is LENT: the peer has read the memory, or not (status). */
void tagrv_rma_returned(struct tagrv_op *op, int status);

/*
 * Writes len bytes at buf into the peer's window, if that takes one packet, which has room,
 * and nothing waits for the peer. op: handle that the FIN names; 0: the write is counted.
 * -FI_EAGAIN: nothing has happened.
 */
int tagrv_rma_store(struct tagrv_peer *peer, uint32_t op, const void *buf, size_t len,
		    uint64_t addr, uint64_t key) TAGRV_WARN_UNUSED;
/* The same for a write that nothing is awaited of: counted. */
int tagrv_rma_store_counted(struct tagrv_peer *peer, const void *buf, size_t len,
			    uint64_t addr, uint64_t key) TAGRV_WARN_UNUSED;
/* Answers counted operations of the peer. 0; -FI_EAGAIN: no room. */
int tagrv_rma_serve_count(struct tagrv_peer *peer) TAGRV_WARN_UNUSED;

/* Sends answers that wait. 0; 1: other peers have their turn now; -FI_EAGAIN: no room. */
int tagrv_rma_serve_answers(struct tagrv_peer *peer);

/* Answers writes with remote CQ data whose FINs are held, if the queue has room now. */
void tagrv_rma_release_held(struct tagrv_peer *peer);

/* Packets of a connected peer; one that makes no sense fails the lane. */
void tagrv_rma_put_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			  const void *body, size_t len);
void tagrv_rma_atomic_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			     const void *body, size_t len);
void tagrv_rma_pull_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len);
void tagrv_rma_get_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			  const void *body, size_t len);
void tagrv_rma_answer_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			     const void *payload, size_t len);
void tagrv_rma_keys_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len);
void tagrv_rma_view_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len);
void tagrv_rma_store_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			    const void *bytes, size_t len);
void tagrv_rma_count_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			    const void *body, size_t len);
void tagrv_rma_recall_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			     const void *body, size_t len);

void tagrv_rma_show_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len);
void tagrv_rma_side_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len);

/* Sends the SHOW that is to be sent. 0; -FI_EAGAIN: no room. */
int tagrv_rma_serve_show(struct tagrv_peer *peer) TAGRV_WARN_UNUSED;
/* Answers the SHOW of the peer that is to be answered. 0; -FI_EAGAIN: no room. */
int tagrv_rma_serve_shows(struct tagrv_peer *peer) TAGRV_WARN_UNUSED;
/* Sends what is due of a side link's beginnings (object/side.h). 0; -FI_EAGAIN: no room. */
int tagrv_rma_serve_side(struct tagrv_peer *peer) TAGRV_WARN_UNUSED;

/* Peers that read this window by themselves are told to read it no longer. */
void tagrv_rma_recall(struct tagrv_dom *dom, struct tagrv_window *window);
/* The same of all windows that peers of this endpoint were shown by it. */
void tagrv_rma_recall_all(struct tagrv_engine *engine);

#endif
