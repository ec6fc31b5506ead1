/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The pools that an engine's messages draw from, and buffers by size class.
 */
#include <string.h>

#include "core/limits.h"
#include "object/engine.h"
#include "object/op.h"
#include "object/peer.h"

/* Size classes of kept payloads; two more: injects, whole packets. */
static const size_t small_classes[TAGRV_BUF_CLASSES - 2] = {
	sizeof(struct tagrv_only_seg), 128, 512,
};

/*
 * Bytes of payload that one packet may bring. That is more than our own
 * eager_max: a sender with a larger one fills the packets that we said we take.
 */
static size_t largest_payload(const struct tagrv_engine *engine)
{
	size_t packet = tagrv_rails_max_packet(&engine->rails);

	return TAGRV_MAX(packet - sizeof(struct tagrv_hdr), TAGRV_INJECT_MAX);
}

void tagrv_engine_init_pools(struct tagrv_engine *engine)
{
	size_t max_ops = engine->dom->params.max_ops;

	/* Pieces of receives have a pool of their own, so that receives never
	 * keep sends from starting. */
	tagrv_pool_init(&engine->pools.tx_ops, sizeof(struct tagrv_op), max_ops);
	tagrv_pool_init(&engine->pools.pieces, sizeof(struct tagrv_op), max_ops);
	tagrv_pool_init(&engine->pools.rndvs, sizeof(struct tagrv_rndv),
			TAGRV_POOL_MAX);
	tagrv_pool_init(&engine->pools.umsgs, sizeof(struct tagrv_umsg),
			TAGRV_POOL_MAX);
	tagrv_pool_init(&engine->pools.acks, sizeof(struct tagrv_ack),
			TAGRV_POOL_MAX);
	tagrv_pool_init(&engine->pools.xfers, sizeof(struct tagrv_xfer),
			TAGRV_POOL_MAX);
	memcpy(engine->pools.buf_size, small_classes, sizeof(small_classes));
	engine->pools.buf_size[TAGRV_BUF_INJECT] = TAGRV_INJECT_MAX;
	engine->pools.buf_size[TAGRV_BUF_CLASSES - 1] = largest_payload(engine);
	for (size_t i = 0; i < TAGRV_BUF_CLASSES; i++)
		tagrv_pool_init(&engine->pools.bufs[i],
				sizeof(struct tagrv_buf) +
				engine->pools.buf_size[i], TAGRV_POOL_MAX);
}

void tagrv_engine_fini_pools(struct tagrv_engine *engine)
{
	tagrv_pool_fini(&engine->pools.tx_ops);
	tagrv_pool_fini(&engine->pools.pieces);
	tagrv_pool_fini(&engine->pools.rndvs);
	tagrv_pool_fini(&engine->pools.umsgs);
	tagrv_pool_fini(&engine->pools.acks);
	tagrv_pool_fini(&engine->pools.xfers);
	for (size_t i = 0; i < TAGRV_BUF_CLASSES; i++)
		tagrv_pool_fini(&engine->pools.bufs[i]);
}

struct tagrv_buf *tagrv_engine_buf_get(struct tagrv_engine *engine, size_t len,
				       uint8_t *class)
{
	tagrv_assert_locked(engine->dom);
	for (uint8_t i = 0; i < TAGRV_BUF_CLASSES; i++) {
		if (len > engine->pools.buf_size[i])
			continue;
		*class = i;
		return tagrv_pool_get(&engine->pools.bufs[i]);
	}
	return NULL;
}

void tagrv_engine_buf_put(struct tagrv_engine *engine, void *bytes,
			  uint8_t class)
{
	tagrv_assert_locked(engine->dom);
	tagrv_pool_put(&engine->pools.bufs[class],
		       (char *) bytes - offsetof(struct tagrv_buf, bytes));
}
