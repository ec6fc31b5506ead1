/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The protocol engine of one endpoint: what api/ calls.
 *
 *   fi_tsend --> tagrv_engine_send --> eager / rendezvous --> link
 *   fi_trecv --> tagrv_rx_recv     --> match              <-- link
 *   fi_cq_read --> tagrv_engine_progress --> completions pushed to compqs
 *
 * Every function is called with the domain lock held unless it says otherwise.
 * A submit call that returns 0 has accepted the operation: exactly one
 * completion follows (or none, when the request did not ask for a success
 * completion; an error completion is always written, except for injects, whose
 * failure is logged and counted). -FI_EAGAIN: nothing happened, try again
 * after reading a completion queue.
 *
 * At most TAGRV_POOL_MAX messages nobody asked for are kept; the next one ends
 * the connection it came by with FI_ENOBUFS, because nothing holds senders back
 * yet.
 */
#ifndef TAGRV_PROTO_ENGINE_H
#define TAGRV_PROTO_ENGINE_H

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "core/addr.h"
#include "core/limits.h"
#include "match/match.h"
#include "proto/avtab.h"
#include "proto/comp.h"
#include "proto/dom.h"
#include "proto/rx.h"

struct tagrv_engine;

struct tagrv_engine_attr {
	struct tagrv_addr src;	/* address to listen on; port 0: any */
	struct tagrv_rx *rx;	/* shared with others; NULL: its own */
	bool	directed_recv;	/* its own honours the source of receives */
	bool	source;		/* report the source with completions */
	bool	source_err;	/* report an unknown one as an error */
};

/* Where completions go; any may be NULL. Set before enable. */
struct tagrv_engine_sinks {
	struct tagrv_compq *tx_cq, *rx_cq;
	struct tagrv_counter *tx_cntr, *rx_cntr;
	/* Receives are reported whatever their flags: those of a shared context
	 * are posted by who cannot know how the queue was bound. */
	bool	rx_all;
};

struct tagrv_send_req {
	const struct iovec *iov;
	size_t	iov_cnt;	/* <= TAGRV_IOV_MAX, checked by the caller */
	struct tagrv_mem **mem;	/* registration of each iov, or NULL */
	fi_addr_t dest;
	uint64_t tag;
	uint64_t data;		/* with FI_REMOTE_CQ_DATA in flags */
	void	*context;
	/*
	 * FI_REMOTE_CQ_DATA, FI_INJECT (buffers free on return; <=
	 * TAGRV_INJECT_MAX, checked by the caller), one of FI_INJECT_COMPLETE,
	 * FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE,
	 * FI_COMPLETION exactly when success is to be reported, FI_FENCE: not
	 * before all sends to this peer that were accepted earlier have ended,
	 * and FI_MORE: the message may wait for the next send to this peer
	 * without it, at most until progress is made.
	 */
	uint64_t flags;
	uint8_t	space;		/* enum tagrv_match_space */
	bool	no_context;	/* fi_inject family: no completion at all */
};

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
/* Where its receives are posted. */
struct tagrv_rx *tagrv_engine_rx(const struct tagrv_engine *engine);
/*
 * dom lock not held. Starts the listener: -FI_EADDRINUSE, -FI_EADDRNOTAVAIL.
 */
int tagrv_engine_enable(struct tagrv_engine *engine) TAGRV_WARN_UNUSED;
/*
 * dom lock not held. Waits up to close_timeout until peers have what was
 * accepted, then drops the rest; posted receives vanish without completion.
 * Those of a shared context stay posted, and what of it was being received here
 * ends there with FI_ECANCELED.
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

/* Messages by protocol, and what their acks cost, since the engine was opened. */
struct tagrv_proto_stats {
	uint64_t eager_tx, eager_rx;
	uint64_t batched_tx, batched_rx;	/* of those, several to a packet */
	uint64_t rndv_tx, rndv_rx;	/* announced by an RTS */
	uint64_t no_credit;		/* sent: of those, small ones */
	uint64_t buffered;		/* sent: of those, from a copy */
	uint64_t read_tx, read_rx;	/* of those, by who moved the bytes */
	uint64_t write_tx, write_rx;
	uint64_t copy_tx, copy_rx;
	uint64_t pipeline_tx, pipeline_rx;
	uint64_t acks, ack_packets;	/* sent; packets that had nothing else */
	uint64_t prepared_tx;		/* of those eager, by send_prepared */
};
void tagrv_engine_proto_stats(const struct tagrv_engine *engine,
			      struct tagrv_proto_stats *stats);

/* Moves everything; returns events handled. */
int tagrv_engine_progress(struct tagrv_engine *engine);

/* The address table calls these for each engine that uses it. */
void tagrv_engine_av_inserted(struct tagrv_engine *engine, fi_addr_t fi_addr,
			      const struct tagrv_addr *addr);
void tagrv_engine_av_removed(struct tagrv_engine *engine, fi_addr_t fi_addr);
struct tagrv_engine *tagrv_engine_from_av_node(struct tagrv_list *node);

#endif
