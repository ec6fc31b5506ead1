/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Registration of an operation's buffer: by the application, by the cache, or for
 * this operation only. See op.h.
 */
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "object/engine.h"
#include "object/op.h"
#include "reg/regcache.h"

/* Whether the registration is of this device and memory and allows the access. */
static bool covers(const struct tagrv_mem *mem, const struct tagrv_device *dev,
		   const void *addr, size_t len, unsigned access)
{
	return mem && mem->dev == dev && (mem->access & access) == access &&
	       tagrv_range_within((uintptr_t) addr, len, (uintptr_t) mem->addr,
				  mem->len);
}

/* Whether a registration with these rights may serve more than one operation. */
static bool may_last(const struct tagrv_dom *dom, unsigned access)
{
	return !(access & ~dom->lasting);
}

/* From the cache if there is one, else for this operation only, exactly its bytes. */
static int acquire(struct tagrv_dom *dom, struct tagrv_device *dev, void *addr,
		   size_t len, unsigned access, struct tagrv_mem **mem)
{
	struct tagrv_regcache *cache = tagrv_dom_cache(dom, dev);
	int ret = -FI_EOPNOTSUPP;

	if (cache && may_last(dom, access))
		ret = tagrv_regcache_get(cache, addr, len, access, mem);
	/* There is no cache, or it ran out of something. */
	if (ret)
		ret = tagrv_dom_mem_reg(dom, dev, addr, len, access, mem);
	return ret;
}

static void release(struct tagrv_op *op, unsigned i)
{
	struct tagrv_mem *mem = op->mem[i];

	op->own_mem &= (uint8_t) ~(1u << i);
	/* Another protocol may register the segment again. */
	op->mem[i] = NULL;
	if (mem->owner)
		tagrv_regcache_put(mem);
	else
		mem->dev->ops->mem_dereg(mem);
}

static int register_one(struct tagrv_op *op, struct tagrv_device *dev,
			unsigned i, size_t bytes, unsigned access)
{
	bool own = op->own_mem & (1u << i);
	int ret;

	/* A registration of the application's lasts, as one in the cache does. */
	if ((own || may_last(op->engine->dom, access)) &&
	    covers(op->mem[i], dev, op->iov[i].iov_base, bytes, access))
		return 0;
	if (own)
		release(op, i);
	ret = acquire(op->engine->dom, dev, op->iov[i].iov_base, bytes, access,
		      &op->mem[i]);
	if (ret) {
		op->mem[i] = NULL;
		return ret;
	}
	op->own_mem |= (uint8_t) (1u << i);
	return 0;
}

int tagrv_op_register(struct tagrv_op *op, struct tagrv_device *dev,
		      size_t bytes, unsigned access)
{
	tagrv_assert_locked(op->engine->dom);
	for (unsigned i = 0; i < op->iov_cnt && bytes; i++) {
		size_t n = TAGRV_MIN(op->iov[i].iov_len, bytes);
		int ret;

		if (!n)
			continue;
		ret = register_one(op, dev, i, n, access);
		if (ret)
			return ret;
		bytes -= n;
	}
	return 0;
}

void tagrv_op_deregister(struct tagrv_op *op)
{
	tagrv_assert_locked(op->engine->dom);
	for (unsigned i = 0; op->own_mem; i++)
		if (op->own_mem & (1u << i))
			release(op, i);
}

bool tagrv_op_was_registered(const struct tagrv_op *op,
			     const struct tagrv_device *dev, unsigned access)
{
	struct tagrv_regcache *cache = tagrv_dom_cache(op->engine->dom, dev);

	tagrv_assert_locked(op->engine->dom);
	if (!may_last(op->engine->dom, access))
		return false;
	for (unsigned i = 0; i < op->iov_cnt; i++) {
		const struct iovec *iov = &op->iov[i];

		if (iov->iov_len &&
		    !covers(op->mem[i], dev, iov->iov_base, iov->iov_len,
			    access) &&
		    !(cache && tagrv_regcache_has_start(cache, iov->iov_base,
							iov->iov_len)))
			return false;
	}
	return true;
}
