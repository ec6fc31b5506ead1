/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_mr: memory registered by the application. A region is up to two things:
 *
 *   a descriptor   for its own transfers, which saves the engine a registration. No
 *                  transfer requires one. mem_desc points to the struct tagrv_mem, so
 *                  that the engine can use the descriptor array of a transfer as it is;
 *                  hence a region of several segments has none.
 *   a window       for peers, if 'access' has a right for them (object/mrtab.h). It needs
 *                  no registration with the device: operations make that.
 *
 * Keys and addresses of windows follow the domain's mr_mode: keys are the application's, and
 * addresses count from 0; with FI_MR_PROV_KEY keys are drawn here, with FI_MR_VIRT_ADDR
 * addresses are those of this process.
 */
#include <stdlib.h>

#include "api/objects_priv.h"
#include "core/iov.h"
#include "core/log.h"
#include "core/random.h"

#define LOCAL_ACCESS	(FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_COLLECTIVE)
#define REMOTE_ACCESS	TAGRV_MR_REMOTE_ACCESS
/* Capabilities, which some programs pass besides the access that they want. */
#define NO_ACCESS	(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC)

/* ---- windows ---- */

static int add_window(struct tagrv_dom *dom, struct tagrv_window *window)
{
	int ret;

	tagrv_dom_lock(dom);
	ret = tagrv_window_add(dom, window);
	tagrv_lock_release(&dom->lock);
	return ret;
}

/* Draws keys that no peer can guess until one is free. */
static int add_with_new_key(struct tagrv_dom *dom, struct tagrv_window *window)
{
	int ret;

	do {
		ret = tagrv_random_fill(&window->key, sizeof(window->key));
		if (ret)
			return tagrv_refuse(ret, "fi_mr_reg: no key can be drawn, "
					    "getrandom(2) fails: %s",
					    fi_strerror(-ret));
		ret = window->key == FI_KEY_NOTAVAIL ? -FI_ENOKEY :
						       add_window(dom, window);
	} while (ret == -FI_ENOKEY);
	return ret;
}

static int add_with_asked_key(struct tagrv_dom *dom, struct tagrv_window *window)
{
	int ret;

	if (window->key == FI_KEY_NOTAVAIL)
		return tagrv_refuse(-FI_EKEYREJECTED, "fi_mr_reg: requested_key is "
				    "FI_KEY_NOTAVAIL, which is no key");
	ret = add_window(dom, window);
	if (ret == -FI_ENOKEY)
		tagrv_warn("fi_mr_reg: another region of the domain has the "
			   "requested_key 0x%llx, and peers may access both\n",
			   (unsigned long long) window->key);
	return ret;
}

static int open_window(struct tagrv_mr *mr, const struct fi_mr_attr *attr)
{
	struct tagrv_window *window = &mr->window;
	struct tagrv_domain *domain = mr->domain;

	window->access = attr->access & REMOTE_ACCESS;
	window->iov_cnt = attr->iov_count;
	for (size_t i = 0; i < attr->iov_count; i++)
		window->iov[i] = attr->mr_iov[i];
	window->len = tagrv_iov_len(window->iov, window->iov_cnt);
	if (domain->mr_mode & FI_MR_VIRT_ADDR)
		window->base = (uintptr_t) window->iov[0].iov_base;
	tagrv_mr_update_window(mr);
	return domain->mr_mode & FI_MR_PROV_KEY ?
	       add_with_new_key(domain->dom, window) :
	       add_with_asked_key(domain->dom, window);
}

static int mr_close(struct fid *fid)
{
	struct tagrv_mr *mr = tagrv_container_of(fid, struct tagrv_mr, mr.fid);
	struct tagrv_dom *dom = mr->domain->dom;

	if (mr->window.access)
		tagrv_dom_close_window(dom, &mr->window);
	tagrv_dom_lock(dom);
	tagrv_mr_put_bindings(mr);
	tagrv_lock_release(&dom->lock);
	if (mr->mem)
		mr->mem->dev->ops->mem_dereg(mr->mem);
	tagrv_ref_put(&mr->domain->refs);
	free(mr);
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = tagrv_mr_bind,
	.control = tagrv_mr_control,
	.ops_open = tagrv_nosys_ops_open,
	.tostr = tagrv_nosys_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

/* ---- registering ---- */

/* Only peers access it: nothing of it is ever given to a transfer of this process. */
static bool is_only_window(uint64_t access)
{
	return access & REMOTE_ACCESS && !(access & LOCAL_ACCESS);
}

/*
 * A window may begin at NULL: so applications give peers all their memory. It is
 * theirs to see to it that peers access no page that does not exist.
 */
static int check_segment(const struct iovec *iov, uint64_t access)
{
	if (iov->iov_len &&
	    ((!iov->iov_base && !is_only_window(access)) ||
	     (uintptr_t) iov->iov_base > UINTPTR_MAX - iov->iov_len)) {
		tagrv_warn("fi_mr_reg: %zu bytes at %p are no memory\n",
			   iov->iov_len, iov->iov_base);
		return -FI_EINVAL;
	}
	return 0;
}

static int check_segments(const struct fi_mr_attr *attr)
{
	int ret = 0;

	if (!attr->iov_count || attr->iov_count > TAGRV_IOV_MAX || !attr->mr_iov)
		return tagrv_refuse(-FI_EINVAL, "fi_mr_reg: a region has 1 to %d "
				    "segments, not %zu", TAGRV_IOV_MAX,
				    attr->mr_iov ? attr->iov_count : 0);
	for (size_t i = 0; i < attr->iov_count && !ret; i++)
		ret = check_segment(&attr->mr_iov[i], attr->access);
	if (!ret && attr->iov_count > 1 &&
	    tagrv_iov_len(attr->mr_iov, attr->iov_count) == SIZE_MAX)
		return tagrv_refuse(-FI_EINVAL, "fi_mr_reg: the segments have more "
				    "bytes together than there are addresses");
	return ret;
}

/* Does not read attr->iface, which applications without FI_HMEM may not set. */
static int check_attr(const struct fi_mr_attr *attr, uint64_t flags)
{
	if (flags & ~FI_RMA_EVENT) {
		tagrv_warn("fi_mr_reg: flags 0x%llx are not supported\n",
			   (unsigned long long) flags);
		return -FI_EBADFLAGS;
	}
	if (attr->access & ~(LOCAL_ACCESS | REMOTE_ACCESS | NO_ACCESS)) {
		tagrv_warn("fi_mr_reg: access 0x%llx has bits that are no access: "
			   "pass FI_SEND, FI_RECV or both\n",
			   (unsigned long long) attr->access);
		return -FI_EINVAL;
	}
	if (attr->offset)
		return tagrv_refuse(-FI_EINVAL, "fi_mr_reg: offset must be 0");
	return check_segments(attr);
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
 * FI_REMOTE_WRITE open a window, and give the device nothing.
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

static struct tagrv_mr *alloc_mr(struct tagrv_domain *domain,
				 const struct fi_mr_attr *attr, uint64_t flags)
{
	struct tagrv_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->domain = domain;
	mr->must_enable = domain->mr_mode & FI_MR_ENDPOINT ||
			  (domain->mr_mode & FI_MR_RMA_EVENT &&
			   flags & FI_RMA_EVENT);
	mr->window.key = attr->requested_key;
	mr->mr.fid.fclass = FI_CLASS_MR;
	mr->mr.fid.context = attr->context;
	mr->mr.fid.ops = &fid_ops;
	return mr;
}

/* Makes the descriptor and the window, as far as 'access' asks for them. */
static int open_parts(struct tagrv_mr *mr, const struct fi_mr_attr *attr)
{
	struct tagrv_dom *dom = mr->domain->dom;
	int ret = 0;

	if (dom->dev && attr->iov_count == 1 && attr->mr_iov->iov_len &&
	    !is_only_window(attr->access))
		ret = register_mem(dom, attr, &mr->mem);
	if (ret || !(attr->access & REMOTE_ACCESS))
		return ret;
	ret = open_window(mr, attr);
	if (ret && mr->mem)
		mr->mem->dev->ops->mem_dereg(mr->mem);
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
	self = alloc_mr(domain, attr, flags);
	if (!self)
		return -FI_ENOMEM;
	ret = open_parts(self, attr);
	if (ret) {
		free(self);
		return ret;
	}
	self->mr.mem_desc = self->mem;
	self->mr.key = self->window.key;
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
