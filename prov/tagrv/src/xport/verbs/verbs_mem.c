/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Registers memory with the device. A packed key is the rkey: 4 bytes, big-endian.
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
 * A buffer for remote reads only may be in read-only memory, which cannot be
 * registered for local writes: tries again without them.
 */
static struct ibv_mr *register_range(struct verbs_dev *dev, void *addr,
				     size_t len, unsigned access)
{
	int flags = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr;

	if (access & TAGRV_MEM_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (access & TAGRV_MEM_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	errno = 0;
	mr = dev->calls->reg_mr(dev->pd, addr, len, flags);
	if (!mr && access == TAGRV_MEM_READ && errno == EFAULT)
		mr = dev->calls->reg_mr(dev->pd, addr, len,
					IBV_ACCESS_REMOTE_READ);
	return mr;
}

int tagrv_verbs_mem_reg(struct tagrv_device *device, void *addr, size_t len,
			unsigned access, struct tagrv_mem **out)
{
	struct verbs_dev *dev = verbs_dev_of(device);
	struct verbs_mem *mem;
	int err;

	if (!len)
		return -FI_EINVAL;
	mem = malloc(sizeof(*mem));
	if (!mem)
		return -FI_ENOMEM;
	mem->base = (struct tagrv_mem) {
		.dev = device, .addr = addr, .len = len, .access = access,
	};
	mem->mr = register_range(dev, addr, len, access);
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
