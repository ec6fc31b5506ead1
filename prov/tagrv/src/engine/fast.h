/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The short way of a send: a tagged message of one segment for which nothing is
 * awaited, to a peer for which nothing waits, in the form that its transport has
 * for such messages. Inlined into the calls of the API, so that the arguments stay in
 * registers.
 *
 *   peer->plain_end > bytes, credit --> send_tagged, completion, end
 *   else                            --> false: nothing happened; tagrv_engine_send()
 *
 * One comparison stands for all that the general way looks at, because
 * object/peer.c sets plain_end to 0 whenever one of these things is not so.
 */
#ifndef TAGRV_ENGINE_FAST_H
#define TAGRV_ENGINE_FAST_H

#include "object/engine.h"
#include "object/op.h"
#include "object/peer.h"
#include "proto/eager.h"

/* Flags of sends that something is awaited for, or that are held back. */
#define TAGRV_NEEDS_OP	(TAGRV_ACK_LEVELS | FI_TRANSMIT_COMPLETE | FI_MORE | \
			 FI_FENCE)

/* meta: bytes, and TAGRV_META_DATA. reports: a completion is written. Lock held. */
static inline bool tagrv_fast_send(struct tagrv_engine *engine, fi_addr_t dest,
				   uint64_t meta, uint64_t tag, uint64_t data,
				   const void *buf, void *context, bool reports)
{
	struct tagrv_peer *peer;

	tagrv_assert_locked(engine->dom);
	if (TAGRV_UNLIKELY(dest >= engine->table.by_addr_cnt))
		return false;
	peer = engine->table.by_addr[dest];
	if (TAGRV_UNLIKELY(!peer) ||
	    TAGRV_UNLIKELY(!tagrv_eager_send_plain(peer, meta, tag, data, buf)))
		return false;
	if (TAGRV_UNLIKELY(engine->sinks.tx_cntr != NULL))
		tagrv_counter_add(engine->sinks.tx_cntr, 1);
	if (reports && engine->sinks.tx_cq)
		tagrv_compq_report(engine->sinks.tx_cq, &(struct tagrv_comp) {
			.context = context,
			.flags = FI_SEND | FI_TAGGED,
			.src = FI_ADDR_NOTAVAIL,
		});
	return true;
}

#endif
