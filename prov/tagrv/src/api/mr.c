/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_mr: memory registered by the application, which no transfer requires.
 * A transfer with a descriptor saves the engine its own registration.
 *
 * mem_desc points to the struct tagrv_mem, so that the engine can use the
 * descriptor array of a transfer as it is. Hence a region has one segment.
 */
#include <stdlib.h>

#include "api/objects_priv.h"
#include "core/log.h"

/* Of an operation that this provider does not have, too: programs ask for all. */
#define ACCESS	(FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | \
		 FI_REMOTE_WRITE | FI_COLLECTIVE)

static int mr_close(struct fid *fid)
{
	struct tagrv_mr *mr = tagrv_container_of(fid, struct tagrv_mr, mr.fid);

	if (mr->mem)
		mr->mem->dev->ops->mem_dereg(mr->mem);
	tagrv_ref_put(&mr->domain->refs);
	free(mr);
	return 0;
}

/* A region is enabled from the start, so FI_ENABLE does nothing. */
static int mr_control(struct fid *fid, int command, void *arg)
{
	(void) fid;
	(void) arg;
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = tagrv_nosys_bind,
	.control = mr_control,
	.ops_open = tagrv_nosys_ops_open,
	.tostr = tagrv_nosys_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

/* Does not read attr->iface, which applications without FI_HMEM may not set. */
static int check_attr(const struct fi_mr_attr *attr, uint64_t flags)
{
	if (flags) {
		tagrv_warn("fi_mr_reg: flags 0x%llx are not supported\n",
			   (unsigned long long) flags);
		return -FI_EBADFLAGS;
	}
	if (attr->access & ~ACCESS) {
		tagrv_warn("fi_mr_reg: access 0x%llx has bits that are no access: "
			   "pass FI_SEND, FI_RECV or both\n",
			   (unsigned long long) attr->access);
		return -FI_EINVAL;
	}
	if (attr->iov_count != 1 || !attr->mr_iov) {
		tagrv_warn("fi_mr_reg: a region has one segment, not %zu\n",
			   attr->iov_count);
		return -FI_EINVAL;
	}
	if (attr->mr_iov->iov_len &&
	    (!attr->mr_iov->iov_base ||
	     (uintptr_t) attr->mr_iov->iov_base >
	     UINTPTR_MAX - attr->mr_iov->iov_len)) {
		tagrv_warn("fi_mr_reg: %zu bytes at %p are no memory\n",
			   attr->mr_iov->iov_len, attr->mr_iov->iov_base);
		return -FI_EINVAL;
	}
	return 0;
}

/* Drops cached registrations in favour of the application's. */
static bool make_room(struct tagrv_dom *dom)
{
	size_t cnt;

	tagrv_dom_lock(dom);
	cnt = tagrv_dom_evict(dom, dom->dev);
	tagrv_lock_release(&dom->lock);
	return cnt > 0;
}

/*
 * What the device is told to allow. Peers read long messages from memory that is
 * sent, unless FI_TAGRV_EXPOSE wants a registration for each message. Where a peer
 * writes a message to, it is registered for this message only. FI_REMOTE_READ and
 * FI_REMOTE_WRITE give nothing: without FI_RMA no peer has a use for them.
 */
static unsigned rights_of(const struct tagrv_dom *dom, uint64_t access)
{
	unsigned rights = 0;

	if (access & FI_SEND)
		rights |= TAGRV_MEM_READ & dom->lasting;
	if (access & (FI_RECV | FI_READ))
		rights |= TAGRV_MEM_STORE;
	return rights;
}

static int register_mem(struct tagrv_dom *dom, const struct fi_mr_attr *attr,
			struct tagrv_mem **mem)
{
	const struct iovec *iov = attr->mr_iov;
	unsigned rights = rights_of(dom, attr->access);
	struct tagrv_device *dev = dom->dev;
	int ret;

	ret = dev->ops->mem_reg(dev, iov->iov_base, iov->iov_len, rights, mem);
	if (ret == -FI_ENOMEM && make_room(dom))
		ret = dev->ops->mem_reg(dev, iov->iov_base, iov->iov_len, rights,
					mem);
	/* The device has logged -FI_ENOMEM with the limit to raise. */
	if (ret && ret != -FI_ENOMEM)
		tagrv_warn("fi_mr_reg: %zu bytes at %p cannot be registered on "
			   "%s: %s\n", iov->iov_len, iov->iov_base, dev->name,
			   fi_strerror(-ret));
	return ret;
}

static int mr_open(struct tagrv_domain *domain, const struct fi_mr_attr *attr,
		   uint64_t flags, struct fid_mr **mr)
{
	struct tagrv_mr *self;
	int ret;

	ret = check_attr(attr, flags);
	if (ret)
		return ret;
	self = calloc(1, sizeof(*self));
	if (!self)
		return -FI_ENOMEM;
	if (domain->dom->dev && attr->mr_iov->iov_len) {
		ret = register_mem(domain->dom, attr, &self->mem);
		if (ret) {
			free(self);
			return ret;
		}
	}
	self->domain = domain;
	self->mr.fid.fclass = FI_CLASS_MR;
	self->mr.fid.context = attr->context;
	self->mr.fid.ops = &fid_ops;
	self->mr.mem_desc = self->mem;
	self->mr.key = attr->requested_key;
	tagrv_ref_get(&domain->refs);
	*mr = &self->mr;
	return 0;
}

static struct tagrv_domain *domain_of(struct fid *fid)
{
	return tagrv_container_of(fid, struct tagrv_domain, domain.fid);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr,
		      uint64_t flags, struct fid_mr **mr)
{
	return mr_open(domain_of(fid), attr, flags, mr);
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count,
		   uint64_t access, uint64_t offset, uint64_t requested_key,
		   uint64_t flags, struct fid_mr **mr, void *context)
{
	const struct fi_mr_attr attr = {
		.mr_iov = iov,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.requested_key = requested_key,
		.context = context,
	};

	return mr_open(domain_of(fid), &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
		  uint64_t offset, uint64_t requested_key, uint64_t flags,
		  struct fid_mr **mr, void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };

	return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr,
		       context);
}

struct fi_ops_mr tagrv_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
