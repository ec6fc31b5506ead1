/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The protocol engine of one endpoint: what api/ calls.
 *
 *   fi_tsend --> tagrv_engine_send --> eager / rendezvous --> link
 *   fi_trecv --> tagrv_rx_recv     --> match              <-- link
 *   fi_cq_read --> tagrv_dom_progress --> completions pushed to compqs
 *
 * Every function is called with the domain lock held unless it says otherwise.
 * A submit call that returns 0 has accepted the operation: exactly one
 * completion follows (or none, when the request did not ask for a success
 * completion; an error completion is always written, except for injects, whose
 * failure is logged and counted). -FI_EAGAIN: nothing happened, try again
 * after reading a completion queue.
 *
 * Credit (object/credit.h) bounds the payload of unexpected messages, places
 * (object/places.h) bound the number of announced ones. Nobody is ended for sending
 * too early: proto/hold.h.
 */
#ifndef TAGRV_ENGINE_ENDPOINT_H
#define TAGRV_ENGINE_ENDPOINT_H

#include <sys/types.h>

#include "core/addr.h"
#include "core/limits.h"
#include "object/attr.h"
#include "object/avtab.h"
#include "object/dom.h"
#include "object/request.h"
#include "object/rx.h"

struct tagrv_engine;

/* dom lock not held. Opens transports; -FI_ENOMEM when memory cannot be pinned. */
int tagrv_engine_open(struct tagrv_dom *dom, const struct tagrv_engine_attr *attr,
		      struct tagrv_engine **engine) TAGRV_WARN_UNUSED;
/*
 * Before enable. -FI_EINVAL: the endpoints that use its shared context already
 * have another.
 */
int tagrv_engine_set_av(struct tagrv_engine *engine, struct tagrv_avtab *av)
	TAGRV_WARN_UNUSED;
void tagrv_engine_set_sinks(struct tagrv_engine *engine,
			    const struct tagrv_engine_sinks *sinks);
/* Where its receives are posted: constant, needs no lock. */
struct tagrv_rx *tagrv_engine_rx(const struct tagrv_engine *engine);
/* dom lock not held. Starts the listener: -FI_EADDRINUSE, -FI_EADDRNOTAVAIL. */
int tagrv_engine_enable(struct tagrv_engine *engine) TAGRV_WARN_UNUSED;
/*
 * dom lock not held. Waits up to close_timeout until peers have the messages that
 * were accepted, then drops the rest; posted receives vanish without completion.
 * Receives of a shared context stay posted; those that were receiving a message
 * of this endpoint end there with FI_ECANCELED.
 */
void tagrv_engine_close(struct tagrv_engine *engine);

/* The address peers can use; port 0 before enable unless one was asked for. */
void tagrv_engine_name(const struct tagrv_engine *engine,
		       struct tagrv_addr *addr);

/*
 * -FI_EINVAL: no such destination; -FI_EMSGSIZE; -FI_EAGAIN; -FI_EOPBADSTATE:
 * not enabled; -FI_ENOMEM.
 */
ssize_t tagrv_engine_send(struct tagrv_engine *engine,
			  const struct tagrv_send_req *req) TAGRV_WARN_UNUSED;

/*
 * Writes into the memory of a peer, without a completion, if that can be done at once. False:
 * nothing has happened, tagrv_engine_rma() has to look closer. buf: len bytes, which are free
 * behind the call.
 */
bool tagrv_engine_store(struct tagrv_engine *engine, fi_addr_t dest, const void *buf,
			size_t len, uint64_t addr, uint64_t key);

/*
 * Begins a one-sided operation. As tagrv_engine_send(), and one more error:
 * -FI_EINVAL: remote addresses wrap.
 */
ssize_t tagrv_engine_rma(struct tagrv_engine *engine,
			 const struct tagrv_rma_req *req) TAGRV_WARN_UNUSED;

/*
 * Closes a window of the domain to all peers, and returns when nobody accesses its memory
 * any more. Lock not held.
 */
void tagrv_dom_close_window(struct tagrv_dom *dom, struct tagrv_window *window);
/*
 * Who may access the window, or who counts it, has changed: peers that read it by themselves
 * have to ask again. Needs the domain lock.
 */
void tagrv_dom_recall_window(struct tagrv_dom *dom, struct tagrv_window *window);
/*
 * The pages of the window may have been replaced: peers are told as above, and devices see
 * the new ones with the next view. Needs the domain lock.
 */
void tagrv_dom_refresh_window(struct tagrv_dom *dom, struct tagrv_window *window);

/*
 * As tagrv_engine_send(): accepted with 0, then exactly one completion.
 * -FI_EINVAL: no such source; -FI_EAGAIN; -FI_ENOMEM. FI_PEEK, FI_CLAIM and
 * FI_DISCARD report to the queue; -FI_EBUSY: a second claim by one context.
 */
ssize_t tagrv_rx_recv(struct tagrv_rx *rx, const struct tagrv_recv_req *req)
	TAGRV_WARN_UNUSED;
/*
 * Takes back the earliest posted receive with this context: 0 and an
 * FI_ECANCELED completion, or -FI_ENOENT when none is (or no longer) posted.
 */
int tagrv_rx_cancel(struct tagrv_rx *rx, void *context);

/* Messages by protocol since the engine was opened. */
void tagrv_engine_proto_stats(const struct tagrv_engine *engine,
			      struct tagrv_proto_stats *stats);

/* Moves one engine; returns events handled. */
int tagrv_engine_progress(struct tagrv_engine *engine);
/* Serves its busy peers once; returns how many have more to do. */
int tagrv_engine_serve(struct tagrv_engine *engine);

#endif
