/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The short ways of sends and receives, inlined into the calls of the API, so that
 * arguments stay in registers.
 *
 *   tagged send of one segment, nothing awaited, no counter, short, to a peer for
 *   which nothing waits  --> completion, then send_tagged: it cannot fail
 *   else                 --> tagrv_engine_send()
 *
 *   tagged receive of one segment, for which no message is kept, while few others are
 *   posted               --> a record of the matching engine, no op
 *   else                 --> tagrv_rx_recv()
 *
 * Few comparisons stand for all that the general way looks at, because object/peer.c
 * sets plain_end to 0 whenever one of these things is not so, and the transport
 * closes its gate.
 */
#ifndef TAGRV_ENGINE_FAST_H
#define TAGRV_ENGINE_FAST_H

#include "object/engine.h"
#include "object/op.h"
#include "object/peer.h"
#include "match/quick.h"
#include "object/recv.h"
#include "proto/eager.h"

/* Flags of sends that something is awaited for, or that are held back. */
#define TAGRV_NEEDS_OP	(TAGRV_ACK_LEVELS | FI_TRANSMIT_COMPLETE | FI_MORE | \
			 FI_FENCE)

/* The peer that the short way leads to, or NULL. Lock held. */
static inline struct tagrv_peer *
tagrv_fast_peer(const struct tagrv_engine *engine, fi_addr_t dest, size_t len)
{
	struct tagrv_peer *peer;

	tagrv_assert_locked(engine->dom);
	if (TAGRV_UNLIKELY(dest >= engine->table.by_addr_cnt))
		return NULL;
	peer = engine->table.by_addr[dest];
	return TAGRV_LIKELY(peer) && tagrv_eager_is_plain(peer, len) ? peer :
								      NULL;
}

/* Writes the completion of a send to such a peer. */
static inline void tagrv_fast_report(struct tagrv_engine *engine, void *context)
{
	if (TAGRV_LIKELY(engine->sinks.tx_cq != NULL))
		tagrv_compq_report(engine->sinks.tx_cq, &(struct tagrv_comp) {
			.context = context,
			.flags = FI_SEND | FI_TAGGED,
			.src = FI_ADDR_NOTAVAIL,
		});
}

/* The source, as tagrv_slot_peer(). False: look closer. */
static inline bool tagrv_fast_source(const struct tagrv_rx *rx, fi_addr_t src,
				     uint64_t *mask_peer)
{
	const struct tagrv_engine *engine = rx->first;
	const struct tagrv_peer *peer;

	*mask_peer = 0;
	if (!rx->directed || src == FI_ADDR_UNSPEC)
		return true;
	if (TAGRV_UNLIKELY(!engine || src >= engine->table.by_addr_cnt))
		return false;
	peer = engine->table.by_addr[src];
	if (TAGRV_UNLIKELY(!peer))
		return false;
	*mask_peer = (uint64_t) UINT32_MAX << 32 | peer->match_id;
	return true;
}

/*
 * Posts a tagged receive of one segment. False: nothing has happened. Lock held. The
 * record takes the arguments first, so that fewer are alive at a time.
 */
static inline __attribute__((always_inline)) bool
tagrv_fast_recv(struct tagrv_rx *rx, void *buf, size_t len,
		struct tagrv_mem *mem, fi_addr_t src, uint64_t tag,
		uint64_t ignore, void *context, bool reports)
{
	struct tagrv_posted_block *block;
	struct tagrv_match_recv *record;
	struct tagrv_recv *recv;
	uint64_t mask_peer;

	tagrv_assert_locked(rx->dom);
	block = tagrv_match_quick_block(rx->match);
	if (TAGRV_UNLIKELY(!block || rx->ops.used >= rx->max_recvs) ||
	    !tagrv_fast_source(rx, src, &mask_peer))
		return false;
	record = tagrv_match_quick_take(rx->match);
	recv = tagrv_recv_of(record);
	recv->context = context;
	recv->op = NULL;
	recv->buf = buf;
	recv->len = len;
	recv->plain_end = reports ? len + 1 : 0;
	recv->mem = mem;
	recv->tag = tag;
	recv->born = rx->dom->clock.tick;
	recv->space = TAGRV_SPACE_TAGGED;
	recv->reports = reports;
	tagrv_match_quick_add(block, record, tag, ignore, mask_peer);
	tagrv_trace_posted(recv, context, tag);
	return true;
}

#endif
