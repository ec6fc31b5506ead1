/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_cq: completion queues, on top of struct tagrv_compq. cq_read.c has the
 * reads.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/objects_priv.h"
#include "core/log.h"

#define SIZE_DEFAULT	1024

static struct tagrv_cq *cq_of(struct fid_cq *cq)
{
	return tagrv_container_of(cq, struct tagrv_cq, cq);
}

/*
 * The only error data is the address of a sender that is not in the address
 * vector. From version 1.5 on an application may provide a buffer for it; others
 * get a pointer into the queue.
 */
static void put_err_data(struct tagrv_cq *cq, struct fi_cq_err_entry *out,
			 const struct tagrv_addr *addr)
{
	bool sized = FI_VERSION_GE(cq->domain->api_version, FI_VERSION(1, 5));
	size_t len = addr ? tagrv_addr_len(addr) : 0;

	if (sized && out->err_data_size) {
		out->err_data_size = TAGRV_MIN(len, out->err_data_size);
		if (len)
			memcpy(out->err_data, addr, out->err_data_size);
		return;
	}
	if (addr)
		cq->err_data = *addr;
	out->err_data = addr ? &cq->err_data : NULL;
	if (sized)
		out->err_data_size = len;
}

/*
 * struct fi_cq_err_entry has grown: err_data_size came with 1.5, src_addr (which
 * our headers may not have) with 1.20. Applications of older versions may have
 * no memory there.
 */
static void put_error(struct tagrv_cq *cq, struct fi_cq_err_entry *out,
		      const struct tagrv_comp *comp)
{
	bool unknown_source = comp->err == TAGRV_ERR_UNKNOWN_SOURCE;
	fi_addr_t src = unknown_source ? FI_ADDR_NOTAVAIL : comp->src;

	memcpy(out, comp, sizeof(struct fi_cq_tagged_entry));
	out->olen = comp->olen;
	out->err = unknown_source ? FI_EADDRNOTAVAIL : comp->err;
	/* There are no device codes; fi_cq_strerror takes prov_errno. */
	out->prov_errno = out->err;
	put_err_data(cq, out, unknown_source ? comp->unknown_source : NULL);
	if (FI_VERSION_GE(cq->domain->api_version, FI_VERSION(1, 20)))
		memcpy((char *) out + offsetof(struct fi_cq_err_entry,
					       err_data_size) + sizeof(size_t),
		       &src, sizeof(src));
	if (unknown_source)
		free(comp->unknown_source);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf,
			  uint64_t flags)
{
	struct tagrv_cq *cq = cq_of(fid);
	const struct tagrv_comp *comp;
	ssize_t ret = -FI_EAGAIN;

	(void) flags;
	tagrv_dom_lock(cq->dom);
	comp = tagrv_compq_peek(&cq->queue);
	if (comp && comp->err) {
		put_error(cq, buf, comp);
		tagrv_compq_pop(&cq->queue, 1);
		ret = 1;
	}
	tagrv_lock_release(&cq->dom->lock);
	return ret;
}

static int cq_signal(struct fid_cq *fid)
{
	struct tagrv_cq *cq = cq_of(fid);

	if (!tagrv_wait_possible(&cq->wait))
		return tagrv_refuse(-FI_EINVAL, TAGRV_CQ_NO_WAIT, "fi_cq_signal");
	atomic_store(&cq->signaled, true);
	tagrv_dom_lock(cq->dom);
	cq->queue.waker.armed = true;
	tagrv_waker_signal(&cq->queue.waker);
	tagrv_lock_release(&cq->dom->lock);
	return 0;
}

static const char *cq_strerror(struct fid_cq *cq, int prov_errno,
			       const void *err_data, char *buf, size_t len)
{
	(void) cq;
	(void) err_data;
	return tagrv_strerror(prov_errno, buf, len);
}

int tagrv_cq_trywait(struct tagrv_cq *cq)
{
	int ret = -FI_EAGAIN;

	if (!tagrv_wait_has_fd(&cq->wait))
		return tagrv_refuse(-FI_EINVAL, TAGRV_CQ_NO_WAIT " or FI_WAIT_YIELD",
				    "fi_trywait");
	tagrv_dom_lock(cq->dom);
	tagrv_dom_progress(cq->dom);
	if (tagrv_compq_empty(&cq->queue) && !cq->queue.overrun)
		ret = tagrv_wait_prepare(cq->dom, &cq->queue.waker);
	tagrv_dom_unlock(cq->dom);
	return tagrv_cq_take_signal(cq) ? -FI_EAGAIN : ret;
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = tagrv_cq_read,
	.readfrom = tagrv_cq_readfrom,
	.readerr = cq_readerr,
	.sread = tagrv_cq_sread,
	.sreadfrom = tagrv_cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

static int cq_close(struct fid *fid)
{
	struct tagrv_cq *cq = tagrv_container_of(fid, struct tagrv_cq, cq.fid);
	int ret;

	ret = tagrv_ref_check(&cq->refs, "completion queue", "endpoints");
	if (ret)
		return ret;
	if (cq->queue.over_peak)
		tagrv_info("completion queue of %zu entries: up to %zu more "
			   "waited because the application did not read\n",
			   cq->queue.mask + 1, cq->queue.over_peak);
	tagrv_wait_fini(&cq->wait);
	tagrv_compq_fini(&cq->queue);
	tagrv_ref_put(&cq->domain->refs);
	free(cq);
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct tagrv_cq *cq = tagrv_container_of(fid, struct tagrv_cq, cq.fid);

	return tagrv_wait_control(&cq->wait, cq->dom, &cq->queue.waker,
				  command, arg);
}

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = tagrv_nosys_bind,
	.control = cq_control,
	.ops_open = tagrv_nosys_ops_open,
	.tostr = tagrv_nosys_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

static int entry_size(enum fi_cq_format format, size_t *size)
{
	switch (format) {
	case FI_CQ_FORMAT_UNSPEC:
	case FI_CQ_FORMAT_CONTEXT:
		*size = sizeof(struct fi_cq_entry);
		return 0;
	case FI_CQ_FORMAT_MSG:
		*size = sizeof(struct fi_cq_msg_entry);
		return 0;
	case FI_CQ_FORMAT_DATA:
		*size = sizeof(struct fi_cq_data_entry);
		return 0;
	case FI_CQ_FORMAT_TAGGED:
		*size = sizeof(struct fi_cq_tagged_entry);
		return 0;
	default:
		return tagrv_refuse(-FI_ENOSYS, "fi_cq_open: format %d is not "
				    "supported", (int) format);
	}
}

static int init_cq(struct tagrv_cq *cq, const struct fi_cq_attr *attr)
{
	int ret;

	/* FI_AFFINITY is a hint about interrupts: ignored. */
	if (attr->flags & ~FI_AFFINITY)
		return tagrv_refuse(-FI_EBADFLAGS, "fi_cq_open: flags 0x%llx "
				    "are not supported",
				    (unsigned long long) attr->flags);
	if (attr->wait_obj != FI_WAIT_NONE &&
	    attr->wait_cond != FI_CQ_COND_NONE &&
	    attr->wait_cond != FI_CQ_COND_THRESHOLD)
		return tagrv_refuse(-FI_EINVAL, "fi_cq_open: wait condition %d "
				    "does not exist", (int) attr->wait_cond);
	cq->has_threshold = attr->wait_cond == FI_CQ_COND_THRESHOLD;
	ret = entry_size(attr->format, &cq->entry_size);
	if (!ret)
		ret = tagrv_wait_init(&cq->wait, attr->wait_obj);
	if (ret)
		return ret;
	ret = tagrv_compq_init(&cq->queue,
			       attr->size ? attr->size : SIZE_DEFAULT,
			       tagrv_wait_has_fd(&cq->wait));
	if (ret == -FI_EINVAL)
		return tagrv_refuse(ret, "fi_cq_open: %zu entries are too many",
				    attr->size);
	return ret;
}

int tagrv_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
		  struct fid_cq **cq, void *context)
{
	const struct fi_cq_attr defaults = { 0 };
	struct tagrv_cq *self;
	int ret;

	self = calloc(1, sizeof(*self));
	if (!self)
		return -FI_ENOMEM;
	ret = init_cq(self, attr ? attr : &defaults);
	if (ret) {
		free(self);
		return ret;
	}
	self->domain = tagrv_container_of(domain, struct tagrv_domain, domain);
	self->dom = self->domain->dom;
	self->queue.window.entry_size = self->entry_size;
	self->window_mask = self->dom->params.fast ? SIZE_MAX : 0;
	self->direct = self->dom->params.fast &&
		self->entry_size == sizeof(struct fi_cq_tagged_entry);
	self->cq.fid.fclass = FI_CLASS_CQ;
	self->cq.fid.context = context;
	self->cq.fid.ops = &fid_ops;
	self->cq.ops = &cq_ops;
	tagrv_ref_get(&self->domain->refs);
	*cq = &self->cq;
	return 0;
}
