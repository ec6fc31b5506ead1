/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Registers memory with the device. A packed key is the rkey: 4 bytes, big-endian.
 *
 * Memory of messages has relaxed ordering if the parameter allows it: the device may
 * write to it in any order, and later writes may overtake earlier ones on the bus. What
 * is read there is read after a completion only, and a completion is still ordered
 * behind all data of its request and of those before it on the queue pair:
 *
 *   get       the bytes are in memory when its own completion is polled
 *   put       those of the peer are when the DONE packet behind them is polled
 *   prepared  the device only reads
 *
 * Nobody polls the bytes themselves. The same memory is not the target of two transfers
 * at a time. Neither holds for windows that peers access by views (TAGRV_MEM_ORDERED): a
 * write may follow another to the same bytes, and the owner may read behind a packet of
 * another queue pair. They stay in strict order, as packet buffers do, which are short and
 * gain nothing.
 */
#include <endian.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

static_assert(sizeof(uint32_t) <= TAGRV_KEY_MAX, "key must fit");

/* By far the most frequent reason is the limit of locked memory: names it. */
static TAGRV_COLD void warn_of_enomem(struct verbs_dev *dev, size_t len)
{
	struct rlimit limit = { 0 };

	if (atomic_exchange(&dev->memlock_warned, true))
		return;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY) {
		tagrv_warn("verbs: %s: no memory to register %zu bytes\n",
			   dev->base.name, len);
		return;
	}
	tagrv_warn("verbs: %s: cannot register %zu bytes: this process may "
		   "lock %llu bytes; raise that with 'ulimit -l unlimited' or "
		   "in limits.conf, for a container with "
		   "'--ulimit memlock=-1'\n", dev->base.name, len,
		   (unsigned long long) limit.rlim_cur);
}

/*
 * libibverbs leaves relaxed ordering out where the kernel does not know it. Should a
 * device refuse it all the same, it is not asked again.
 */
static struct ibv_mr *register_flags(struct verbs_dev *dev, void *addr,
				     size_t len, int flags)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = dev->calls->reg_mr(dev->pd, addr, len, flags);
	if (mr || !(flags & IBV_ACCESS_RELAXED_ORDERING) ||
	    (errno != EINVAL && errno != EOPNOTSUPP))
		return mr;
	errno = 0;
	mr = dev->calls->reg_mr(dev->pd, addr, len,
				flags & ~IBV_ACCESS_RELAXED_ORDERING);
	if (mr && atomic_exchange(&dev->relaxed, false))
		tagrv_info("verbs: %s has no relaxed ordering\n",
			   dev->base.name);
	return mr;
}

/*
 * Local writes give peers nothing, so they are always asked for: what was sent may
 * later be received into. A buffer that is only read may be in read-only
 * memory, which cannot be registered for local writes: tries again without them.
 */
static struct ibv_mr *register_range(struct verbs_dev *dev, void *addr,
				     size_t len, unsigned *access, int flags)
{
	struct ibv_mr *mr;

	if (*access & TAGRV_MEM_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (*access & TAGRV_MEM_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if (*access & TAGRV_MEM_ATOMIC)
		flags |= IBV_ACCESS_REMOTE_ATOMIC;
	mr = register_flags(dev, addr, len, flags | IBV_ACCESS_LOCAL_WRITE);
	if (mr)
		*access |= TAGRV_MEM_STORE;
	else if (!(*access & (TAGRV_MEM_STORE | TAGRV_MEM_WRITE | TAGRV_MEM_ATOMIC)) &&
		 errno == EFAULT)
		mr = register_flags(dev, addr, len, flags);
	return mr;
}

/* flags: of enum ibv_access_flags, besides those that follow from 'access'. */
static int reg_mem(struct verbs_dev *dev, void *addr, size_t len, unsigned access,
		   int flags, struct tagrv_mem **out)
{
	struct verbs_mem *mem;
	int err;

	if (!len)
		return -FI_EINVAL;
	mem = malloc(sizeof(*mem));
	if (!mem)
		return -FI_ENOMEM;
	mem->base = (struct tagrv_mem) {
		.dev = &dev->base, .addr = addr, .len = len, .access = access,
	};
	mem->mr = register_range(dev, addr, len, &mem->base.access, flags);
	if (!mem->mr) {
		err = errno ? errno : EIO;
		free(mem);
		if (err == ENOMEM)
			warn_of_enomem(dev, len);
		return -err;
	}
	*out = &mem->base;
	return 0;
}

int tagrv_verbs_mem_reg(struct tagrv_device *device, void *addr, size_t len,
			unsigned access, struct tagrv_mem **out)
{
	struct verbs_dev *dev = verbs_dev_of(device);
	bool relaxed = !(access & TAGRV_MEM_ORDERED) && atomic_load(&dev->relaxed);

	return reg_mem(dev, addr, len, access, relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0, out);
}

int tagrv_verbs_mem_reg_packets(struct verbs_dev *dev, void *addr, size_t len,
				struct tagrv_mem **out)
{
	return reg_mem(dev, addr, len, 0, 0, out);
}

void tagrv_verbs_mem_dereg(struct tagrv_mem *base)
{
	struct verbs_mem *mem = tagrv_container_of(base, struct verbs_mem, base);
	struct verbs_dev *dev = verbs_dev_of(base->dev);
	int err = dev->calls->dereg_mr(mem->mr);

	if (err)
		tagrv_warn("verbs: %s: cannot deregister memory: %s\n",
			   dev->base.name, strerror(err));
	free(mem);
}

size_t tagrv_verbs_mem_key(const struct tagrv_mem *base, void *key)
{
	const struct verbs_mem *mem = (const struct verbs_mem *) base;
	uint32_t rkey = htobe32(mem->mr->rkey);

	memcpy(key, &rkey, sizeof(rkey));
	return sizeof(rkey);
}
