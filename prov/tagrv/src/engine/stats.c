/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Statistics of an engine: for callers, and as lines of the log.
 */
#include "engine/stats.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/log.h"
#include "engine/endpoint.h"
#include "object/engine.h"
#include "object/tags.h"
#include "reg/regcache.h"

void tagrv_engine_proto_stats(const struct tagrv_engine *engine,
			      struct tagrv_proto_stats *stats)
{
	const uint64_t *tx = engine->stats.moved_tx;
	const uint64_t *rx = engine->stats.moved_rx;

	struct tagrv_wireup_stats wireup = { 0 };

	tagrv_assert_locked(engine->dom);
	if (engine->conn.wep)
		tagrv_wireup_get_stats(engine->conn.wep, &wireup);
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
		.parted = engine->stats.parted,
		.rejoined = engine->stats.rejoined,
		.sockets_closed = wireup.closed_sockets,
		.sockets_reopened = wireup.reopened_sockets,
	};
}

void tagrv_engine_log_match(const struct tagrv_engine *engine)
{
	char addr[TAGRV_ADDR_STRLEN];
	struct tagrv_match_stats m;

	tagrv_assert_locked(engine->dom);
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

static void log_rndv(const struct tagrv_engine *engine)
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

static const char *describe_sums(const struct tagrv_rma_sums *sums, char *text, size_t size)
{
	snprintf(text, size, "%" PRIu64 " writes of %" PRIu64 " bytes, %" PRIu64
		 " reads of %" PRIu64 ", %" PRIu64 " atomics of %" PRIu64,
		 sums->ops[TAGRV_RMA_WRITE], sums->bytes[TAGRV_RMA_WRITE],
		 sums->ops[TAGRV_RMA_READ], sums->bytes[TAGRV_RMA_READ],
		 sums->ops[TAGRV_RMA_ATOMIC], sums->bytes[TAGRV_RMA_ATOMIC]);
	return text;
}

static void log_onesided(const struct tagrv_engine *engine)
{
	char addr[TAGRV_ADDR_STRLEN], sent[192], served[192];

	tagrv_info("endpoint %s: of one-sided operations, %" PRIu64 " were sent, %"
		   PRIu64 " of them by views, without the peer; of those that came, %"
		   PRIu64 " were carried out and %" PRIu64 " refused; sent: %s; carried "
		   "out: %s\n", tagrv_addr_str(&engine->name, addr, sizeof(addr)),
		   tagrv_rma_sum_ops(&engine->stats.rma_tx), engine->stats.rma_views,
		   tagrv_rma_sum_ops(&engine->stats.rma_rx), engine->stats.rma_refused,
		   describe_sums(&engine->stats.rma_tx, sent, sizeof(sent)),
		   describe_sums(&engine->stats.rma_rx, served, sizeof(served)));
}

static void log_parted(const struct tagrv_engine *engine)
{
	char addr[TAGRV_ADDR_STRLEN];

	tagrv_info("endpoint %s: %" PRIu64 " idle connections were closed to make room for "
		   "others, %" PRIu64 " peers refused that, %" PRIu64
		   " connections were made again (FI_TAGRV_MAX_QPS)\n",
		   tagrv_addr_str(&engine->name, addr, sizeof(addr)),
		   engine->stats.parted, engine->stats.part_refused,
		   engine->stats.rejoined);
}

static void log_tags(const struct tagrv_engine *engine)
{
	char addr[TAGRV_ADDR_STRLEN];
	struct tagrv_tags_counts c;

	tagrv_tags_get_counts(engine->tags, &c);
	tagrv_info("endpoint %s: the adapter's list%s got %" PRIu64 " receives, %" PRIu64
		   " of them late, and matched %" PRIu64 "; %" PRIu64 " were matched in "
		   "software, %" PRIu64 " called back, %" PRIu64 " cancelled, of which a "
		   "message was faster than %" PRIu64 "; %" PRIu64 " messages unexpected, %"
		   PRIu64 " of them handled; %" PRIu64 " syncs (FI_TAGRV_HW_TAGS)\n",
		   tagrv_addr_str(&engine->name, addr, sizeof(addr)),
		   c.entries ? "" : ", which was lost,", c.offload.added,
		   c.offload.promoted, c.offload.consumed, c.offload.taken,
		   c.offload.recalled, c.offload.cancelled, c.offload.late, c.unexpected,
		   c.handled, c.offload.syncs);
}

void tagrv_engine_log_sockets(const struct tagrv_engine *engine,
			      const struct tagrv_wireup_ep *wep)
{
	struct tagrv_wireup_stats stats;
	char addr[TAGRV_ADDR_STRLEN];

	tagrv_wireup_get_stats(wep, &stats);
	if (!stats.closed_sockets)
		return;
	tagrv_info("endpoint %s: %" PRIu64 " connections gave up their sockets, %" PRIu64
		   " got one again (FI_TAGRV_MAX_SOCKETS)\n",
		   tagrv_addr_str(&engine->name, addr, sizeof(addr)),
		   stats.closed_sockets, stats.reopened_sockets);
}

void tagrv_engine_log_stats(const struct tagrv_engine *engine)
{
	char addr[TAGRV_ADDR_STRLEN];
	struct tagrv_regcache_stats regs;
	struct tagrv_match_stats match;
	char rails[128];

	tagrv_assert_locked(engine->dom);
	tagrv_dom_cache_stats(engine->dom, &regs);
	tagrv_rails_describe(&engine->rails, rails, sizeof(rails));
	tagrv_match_get_stats(engine->match, &match);
	tagrv_info("endpoint %s: connections: %s; sent %" PRIu64 " eager, %" PRIu64
		   " rendezvous (%" PRIu64 " for want of credit), %" PRIu64
		   " eager together in %" PRIu64 " packets; got %" PRIu64
		   " eager, %" PRIu64 " rendezvous, %" PRIu64
		   " eager together in %" PRIu64 " packets; %" PRIu64
		   " FINs in %" PRIu64 " packets; up to %zu unexpected at a "
		   "time; %" PRIu64 " packets refused, %" PRIu64
		   " injects lost; registrations of the domain: %" PRIu64
		   " found, %" PRIu64 " made and kept, %" PRIu64 " evicted, %"
		   PRIu64 " lost their memory, %" PRIu64 " not kept\n",
		   tagrv_addr_str(&engine->name, addr, sizeof(addr)), rails,
		   engine->stats.eager_tx, engine->stats.rndv_tx,
		   engine->stats.no_credit, engine->stats.batched_tx,
		   engine->stats.batch_tx, engine->stats.eager_rx,
		   engine->stats.rndv_rx, engine->stats.batched_rx,
		   engine->stats.batch_rx, engine->stats.fin_tx,
		   engine->stats.fin_packets,
		   match.unexpected_peak, engine->stats.bad_packets,
		   engine->stats.lost_injects, regs.hits, regs.misses,
		   regs.evictions, regs.invalidations, regs.bypasses);
	if (engine->stats.rndv_tx || engine->stats.rndv_rx)
		log_rndv(engine);
	if (tagrv_rma_sum_ops(&engine->stats.rma_tx) ||
	    tagrv_rma_sum_ops(&engine->stats.rma_rx) || engine->stats.rma_refused)
		log_onesided(engine);
	if (engine->stats.parted || engine->stats.part_refused)
		log_parted(engine);
	if (engine->tags)
		log_tags(engine);
}
