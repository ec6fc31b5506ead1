/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The pools that an engine's messages draw from, and buffers by size class.
 */
#include "core/iov.h"
#include "core/limits.h"
#include "object/engine.h"
#include "object/op.h"
#include "object/peer.h"

/* Bytes of the first class whose size is a power of two. */
#define BUF_SHIFT	5
#define BUF_MIN		((size_t) 1 << BUF_SHIFT)

/*
 * Bytes that a packet may bring. That is more than our own eager_max: a sender with a
 * larger one fills the packets that we said we take. The message's data has room, too.
 */
static size_t largest_payload(const struct tagrv_engine *engine)
{
	return tagrv_rails_max_packet(&engine->rails);
}

static void init_bufs(struct tagrv_engine *engine)
{
	size_t *size = engine->pools.buf_size;

	size[0] = sizeof(struct tagrv_only_seg);
	for (size_t i = 1; i < TAGRV_BUF_SIZES; i++)
		size[i] = BUF_MIN << (i - 1);
	size[TAGRV_BUF_PACKET] = largest_payload(engine);
	size[TAGRV_BUF_INJECT] = TAGRV_INJECT_MAX;
	for (size_t i = 0; i < TAGRV_BUF_CLASSES; i++)
		tagrv_pool_init_large(&engine->pools.bufs[i],
				      sizeof(struct tagrv_buf) + size[i],
				      i == TAGRV_BUF_INJECT ? TAGRV_POOL_MAX :
							 TAGRV_POOL_LARGE_MAX);
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
	tagrv_pool_init_large(&engine->pools.umsgs, sizeof(struct tagrv_umsg),
			      TAGRV_POOL_LARGE_MAX);
	tagrv_pool_init(&engine->pools.acks, sizeof(struct tagrv_ack),
			TAGRV_POOL_MAX);
	tagrv_pool_init(&engine->pools.xfers, sizeof(struct tagrv_xfer),
			TAGRV_POOL_MAX);
	tagrv_pool_init(&engine->pools.rmas, sizeof(struct tagrv_rma),
			TAGRV_POOL_MAX);
	tagrv_pool_init(&engine->pools.answers, sizeof(struct tagrv_answer),
			TAGRV_POOL_MAX);
	tagrv_pool_init(&engine->pools.uses, sizeof(struct tagrv_use),
			TAGRV_POOL_MAX);
	tagrv_pool_init(&engine->pools.showings, sizeof(struct tagrv_showing),
			TAGRV_POOL_MAX);
	init_bufs(engine);
}

void tagrv_engine_fini_pools(struct tagrv_engine *engine)
{
	tagrv_pool_fini(&engine->pools.tx_ops);
	tagrv_pool_fini(&engine->pools.pieces);
	tagrv_pool_fini(&engine->pools.rndvs);
	tagrv_pool_fini(&engine->pools.umsgs);
	tagrv_pool_fini(&engine->pools.acks);
	tagrv_pool_fini(&engine->pools.xfers);
	tagrv_pool_fini(&engine->pools.rmas);
	tagrv_pool_fini(&engine->pools.answers);
	tagrv_pool_fini(&engine->pools.uses);
	tagrv_pool_fini(&engine->pools.showings);
	tagrv_views_fini(engine);
	for (size_t i = 0; i < TAGRV_BUF_CLASSES; i++)
		tagrv_pool_fini(&engine->pools.bufs[i]);
}

/* ---- without memory ---- */

int tagrv_engine_set_aside(struct tagrv_engine *engine)
{
	int ret = tagrv_pool_set_aside(&engine->pools.umsgs);

	tagrv_assert_locked(engine->dom);
	if (!ret)
		ret = tagrv_pool_set_aside(
			&engine->pools.bufs[TAGRV_BUF_PACKET]);
	engine->pools.spare_used = ret != 0;
	return ret;
}

static TAGRV_COLD void *get_spare(struct tagrv_engine *engine,
				  struct tagrv_pool *pool)
{
	engine->pools.spare_used = true;
	return tagrv_pool_get_spare(pool);
}

/* A buffer that is larger than need be will do. */
static TAGRV_COLD struct tagrv_buf *get_larger(struct tagrv_engine *engine,
					       uint8_t *class)
{
	for (unsigned i = *class; i < TAGRV_BUF_PACKET; i++)
		if (engine->pools.bufs[i].free_head) {
			*class = (uint8_t) i;
			return tagrv_pool_get(&engine->pools.bufs[i]);
		}
	*class = TAGRV_BUF_PACKET;
	return get_spare(engine, &engine->pools.bufs[TAGRV_BUF_PACKET]);
}

/* ---- what is kept of a message ---- */

struct tagrv_umsg *tagrv_engine_umsg_get(struct tagrv_engine *engine)
{
	struct tagrv_umsg *umsg = tagrv_pool_get(&engine->pools.umsgs);

	tagrv_assert_locked(engine->dom);
	return TAGRV_LIKELY(umsg != NULL) ? umsg :
	       get_spare(engine, &engine->pools.umsgs);
}

struct tagrv_buf *tagrv_engine_buf_get(struct tagrv_engine *engine, size_t len,
				       uint8_t *class)
{
	struct tagrv_buf *buf;
	unsigned i = 0;

	tagrv_assert_locked(engine->dom);
	if (len > engine->pools.buf_size[0])
		i = 65 - BUF_SHIFT - (unsigned) __builtin_clzll(
			(len - 1) | (BUF_MIN - 1));
	if (len > engine->pools.buf_size[TAGRV_BUF_PACKET])
		return NULL;
	if (i >= TAGRV_BUF_SIZES || engine->pools.buf_size[i] >
	    engine->pools.buf_size[TAGRV_BUF_PACKET])
		i = TAGRV_BUF_PACKET;
	*class = (uint8_t) i;
	buf = tagrv_pool_get(&engine->pools.bufs[i]);
	return TAGRV_LIKELY(buf != NULL) ? buf : get_larger(engine, class);
}

void tagrv_engine_buf_put(struct tagrv_engine *engine, void *bytes,
			  uint8_t class)
{
	tagrv_assert_locked(engine->dom);
	tagrv_pool_put_large(&engine->pools.bufs[class],
			     (char *) bytes - offsetof(struct tagrv_buf, bytes));
}

int tagrv_engine_copy_injected(struct tagrv_engine *engine, struct iovec *iov,
			       uint8_t *cnt, void **copy)
{
	struct tagrv_pool *pool = &engine->pools.bufs[TAGRV_BUF_INJECT];
	size_t len = tagrv_iov_len(iov, *cnt);
	struct tagrv_buf *buf;

	tagrv_assert_locked(engine->dom);
	if (!len)
		return 0;
	buf = tagrv_pool_get(pool);
	if (!buf)
		return tagrv_pool_why(pool);
	tagrv_iov_gather(buf->bytes, iov, *cnt);
	*copy = buf->bytes;
	iov[0] = (struct iovec) { buf->bytes, len };
	*cnt = 1;
	return 0;
}
