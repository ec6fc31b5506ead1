/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an engine tells about its queues: to callers, and to the log.
 */
#include <inttypes.h>

#include "proto/engine_priv.h"

void tagrv_engine_proto_stats(const struct tagrv_engine *engine,
			      struct tagrv_proto_stats *stats)
{
	const uint64_t *tx = engine->stats.moved_tx;
	const uint64_t *rx = engine->stats.moved_rx;

	*stats = (struct tagrv_proto_stats) {
		.eager_tx = engine->stats.eager_tx,
		.eager_rx = engine->stats.eager_rx,
		.batched_tx = engine->stats.batched_tx,
		.batched_rx = engine->stats.batched_rx,
		.rndv_tx = engine->stats.rndv_tx,
		.rndv_rx = engine->stats.rndv_rx,
		.no_credit = engine->stats.no_credit,
		.buffered = engine->stats.buffered,
		.read_tx = tx[TAGRV_PROTO_RNDV_READ],
		.read_rx = rx[TAGRV_PROTO_RNDV_READ],
		.write_tx = tx[TAGRV_PROTO_RNDV_WRITE],
		.write_rx = rx[TAGRV_PROTO_RNDV_WRITE],
		.copy_tx = tx[TAGRV_PROTO_RNDV_COPY],
		.copy_rx = rx[TAGRV_PROTO_RNDV_COPY],
		.pipeline_tx = tx[TAGRV_PROTO_RNDV_PIPE],
		.pipeline_rx = rx[TAGRV_PROTO_RNDV_PIPE],
		.acks = engine->stats.fin_tx,
		.ack_packets = engine->stats.fin_packets,
		.prepared_tx = engine->stats.prepared_tx,
	};
}

void tagrv_engine_tell_match(const struct tagrv_engine *engine)
{
	char addr[TAGRV_ADDR_STRLEN];
	struct tagrv_match_stats m;

	tagrv_match_get_stats(engine->match, &m);
	tagrv_info("endpoint %s%s: %zu receives posted, at most %zu, %zu classes, "
		   "oldest %" PRIu64 " posts ago; %zu messages unexpected, at "
		   "most %zu, %zu indexes, oldest %" PRIu64 " arrivals ago; %"
		   PRIu64 " searches, %.1f entries compared in each\n",
		   tagrv_addr_str(&engine->name, addr, sizeof(addr)),
		   engine->rx->shared ? " and those it shares receives with" :
					"",
		   m.posted, m.posted_peak, m.posted_classes, m.posted_oldest,
		   m.unexpected, m.unexpected_peak, m.unexpected_indexes,
		   m.unexpected_oldest, m.searches,
		   m.searches ? (double) m.probes / (double) m.searches : 0.0);
}

void tagrv_engine_tell_rndv(const struct tagrv_engine *engine)
{
	const uint64_t *tx = engine->stats.moved_tx;
	const uint64_t *rx = engine->stats.moved_rx;
	char addr[TAGRV_ADDR_STRLEN];

	tagrv_info("endpoint %s: of rendezvous messages sent, the peers read %"
		   PRIu64 " and %" PRIu64 " by pieces, %" PRIu64
		   " were written to them and %" PRIu64
		   " copied; of those that came, %" PRIu64 " were read, %"
		   PRIu64 " by pieces, %" PRIu64 " written by the peers and %"
		   PRIu64 " copied\n",
		   tagrv_addr_str(&engine->name, addr, sizeof(addr)),
		   tx[TAGRV_PROTO_RNDV_READ], tx[TAGRV_PROTO_RNDV_PIPE],
		   tx[TAGRV_PROTO_RNDV_WRITE], tx[TAGRV_PROTO_RNDV_COPY],
		   rx[TAGRV_PROTO_RNDV_READ], rx[TAGRV_PROTO_RNDV_PIPE],
		   rx[TAGRV_PROTO_RNDV_WRITE], rx[TAGRV_PROTO_RNDV_COPY]);
}
