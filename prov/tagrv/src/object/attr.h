/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an endpoint's engine is opened with, where it reports to, and what it
 * counts.
 */
#ifndef TAGRV_OBJECT_ATTR_H
#define TAGRV_OBJECT_ATTR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/addr.h"

struct tagrv_compq;
struct tagrv_counter;
struct tagrv_rx;
struct tagrv_auth_key;

struct tagrv_engine_attr {
	struct tagrv_addr src;	/* address to listen on; port 0: any */
	struct tagrv_rx *rx;	/* shared receive context; NULL: its own */
	bool	directed_recv;	/* its own context honours the source of receives */
	bool	untagged;	/* it takes no tagged messages */
	bool	source;		/* completions have the source */
	bool	source_err;	/* a source that the address table lacks is an error */
	/* Of FI_RMA and FI_ATOMIC, what peers may do with the domain's windows through
	 * this endpoint: FI_REMOTE_READ, FI_REMOTE_WRITE. */
	uint64_t serves;
	/* tx_attr->msg_order: which one-sided operations wait for earlier ones of the same
	 * peer (proto/rma/rma.h). */
	uint64_t order;
	/* Which peers may connect; outlives the engine. NULL: all. */
	const struct tagrv_auth_key *key;
};

/* Where completions go; any may be NULL. Set before enable. */
struct tagrv_engine_sinks {
	struct tagrv_compq *tx_cq, *rx_cq;
	struct tagrv_counter *tx_cntr, *rx_cntr;
	/* One-sided operations: of this endpoint, and of peers. Remote CQ data go to
	 * rx_cq. */
	struct tagrv_counter *read_cntr, *write_cntr;
	struct tagrv_counter *remote_read_cntr, *remote_write_cntr;
	/* Receives are reported whatever their flags: whoever posts to a shared
	 * context cannot know how this endpoint's queue was bound. */
	bool	rx_all;
};

/* Messages by protocol, and what their acks cost, since the engine was opened. */
struct tagrv_proto_stats {
	uint64_t eager_tx, eager_rx;
	uint64_t batched_tx, batched_rx;	/* eager, several to a packet */
	uint64_t rndv_tx, rndv_rx;	/* announced by an RTS */
	uint64_t no_credit;		/* rndv_tx: small, for want of credit */
	uint64_t buffered;		/* rndv_tx: from our copy */
	/* rendezvous messages by the protocol that moved the bytes */
	uint64_t read_tx, read_rx;
	uint64_t write_tx, write_rx;
	uint64_t copy_tx, copy_rx;
	uint64_t pipeline_tx, pipeline_rx;
	uint64_t acks, ack_packets;	/* FINs sent; packets of nothing else */
	uint64_t prepared_tx;		/* eager, by send_prepared */
	uint64_t parted, rejoined;	/* connections closed to make room, made again */
	/* connections without a socket; that got one again */
	uint64_t sockets_closed, sockets_reopened;
};

#endif
