/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared receive contexts: a struct fid_ep that only receives, on behalf of the
 * endpoints it is bound to.
 *
 * A context needs no fi_enable: receives may be posted before there is any
 * endpoint. Its transfer calls are those of endpoints, which refuse sends because
 * a context has no engine.
 */
#include <stdlib.h>

#include "api/info/info.h"
#include "api/objects_priv.h"

/* A context must have these if its endpoints do: they decide which messages match. */
#define MATCHED_CAPS	(FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_MULTI_RECV)

static struct tagrv_ep *srx_of(struct fid *fid)
{
	return tagrv_container_of(fid, struct tagrv_ep, ep.fid);
}

static int check_bind(bool ours, bool again, uint64_t flags, const char *object)
{
	if (flags != FI_RECV)
		return tagrv_refuse(-FI_EBADFLAGS, "fi_ep_bind: a %s is bound to "
				    "a shared receive context with FI_RECV "
				    "alone, not flags 0x%llx", object,
				    (unsigned long long) flags);
	if (!ours)
		return tagrv_refuse(-FI_EINVAL, "fi_ep_bind: the %s belongs to "
				    "another domain", object);
	if (again)
		return tagrv_refuse(-FI_EINVAL, "fi_ep_bind: the shared receive "
				    "context has its %s already", object);
	return 0;
}

static int bind_cq(struct tagrv_ep *srx, struct tagrv_cq *cq, uint64_t flags)
{
	int ret = check_bind(cq->domain == srx->domain, srx->rx_cq, flags,
			     "completion queue");

	if (ret)
		return ret;
	tagrv_dom_lock(srx->dom);
	tagrv_rx_set_cq(srx->rx, &cq->queue);
	tagrv_lock_release(&srx->dom->lock);
	srx->rx_cq = cq;
	tagrv_ref_get(&cq->refs);
	return 0;
}

static int bind_cntr(struct tagrv_ep *srx, struct tagrv_cntr *cntr,
		     uint64_t flags)
{
	int ret = check_bind(cntr->domain == srx->domain, srx->rx_cntr, flags,
			     "counter");

	if (ret)
		return ret;
	tagrv_dom_lock(srx->dom);
	tagrv_rx_set_cntr(srx->rx, &cntr->counter);
	tagrv_lock_release(&srx->dom->lock);
	srx->rx_cntr = cntr;
	tagrv_ref_get(&cntr->refs);
	return 0;
}

static int srx_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct tagrv_ep *srx = srx_of(fid);

	switch (bfid->fclass) {
	case FI_CLASS_CQ:
		return bind_cq(srx, tagrv_container_of(bfid, struct tagrv_cq,
						       cq.fid), flags);
	case FI_CLASS_CNTR:
		return bind_cntr(srx, tagrv_container_of(bfid,
				 struct tagrv_cntr, cntr.fid), flags);
	default:
		return tagrv_refuse(-FI_EINVAL, "fi_ep_bind: an object of class "
				    "%zu cannot be bound to a shared receive "
				    "context", bfid->fclass);
	}
}

/* Default flags: a context has those of receives only. */
static int control_flags(struct fid *fid, int command, uint64_t *flags)
{
	if (!(*flags & FI_RECV))
		return -FI_EINVAL;
	return tagrv_ep_control(fid, command, flags);
}

static int srx_control(struct fid *fid, int command, void *arg)
{
	switch (command) {
	case FI_ENABLE:
		return 0;
	case FI_GETOPSFLAG:
	case FI_SETOPSFLAG:
		return control_flags(fid, command, arg);
	default:
		return tagrv_nosys("fi_control");
	}
}

static int srx_close(struct fid *fid)
{
	struct tagrv_ep *srx = srx_of(fid);
	int ret;

	ret = tagrv_ref_check(&srx->refs, "shared receive context",
			      "endpoints");
	if (ret)
		return ret;
	tagrv_rx_close(srx->rx);
	if (srx->rx_cq)
		tagrv_ref_put(&srx->rx_cq->refs);
	if (srx->rx_cntr)
		tagrv_ref_put(&srx->rx_cntr->refs);
	tagrv_ref_put(&srx->domain->refs);
	free(srx);
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = srx_close,
	.bind = srx_bind,
	.control = srx_control,
	.ops_open = tagrv_ep_ops_open,
	.tostr = tagrv_nosys_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

static int check_attr(const struct tagrv_domain *domain,
		      const struct fi_rx_attr *attr)
{
	const char *member = NULL;

	if (attr->caps & ~TAGRV_CAPS)
		member = "caps";
	else if (attr->op_flags & ~TAGRV_RX_OP_FLAGS)
		member = "op_flags";
	else if (attr->msg_order & ~TAGRV_MSG_ORDERS)
		member = "msg_order";
	else if (attr->comp_order)
		member = "comp_order";
	else if (attr->size > tagrv_param_max_recvs(&domain->dom->params))
		member = "size (see FI_TAGRV_MAX_RECVS)";
	else if (attr->iov_limit > TAGRV_IOV_MAX)
		member = "iov_limit";
	return member ? tagrv_refuse(-FI_EINVAL, "fi_srx_context: more than "
				   "fi_getinfo offers: %s", member) : 0;
}

int tagrv_srx_open(struct fid_domain *fid, struct fi_rx_attr *attr,
		   struct fid_ep **srx, void *context)
{
	struct tagrv_domain *domain = tagrv_container_of(fid,
			struct tagrv_domain, domain);
	struct tagrv_ep *self;
	int ret;

	ret = attr ? check_attr(domain, attr) : 0;
	if (ret)
		return ret;
	self = calloc(1, sizeof(*self));
	if (!self)
		return -FI_ENOMEM;
	self->base = self;
	self->domain = domain;
	self->dom = domain->dom;
	/* One-sided operations have no receives that could be shared. */
	self->caps = tagrv_info_fill_caps(attr ? attr->caps : 0) &
		     ~TAGRV_CAPS_ONE_SIDED;
	self->rx_op_flags = attr ? attr->op_flags : 0;
	self->min_multi_recv = TAGRV_MIN_MULTI_RECV;
	ret = tagrv_rx_open(self->dom, self->caps & FI_DIRECTED_RECV,
			    &self->rx);
	if (ret) {
		free(self);
		return ret;
	}
	tagrv_ep_resolve_flags(self);
	tagrv_ep_init_fid(self, FI_CLASS_SRX_CTX, &fid_ops, &tagrv_nosys_cm,
			  context);
	tagrv_ref_get(&domain->refs);
	*srx = &self->ep;
	return 0;
}

int tagrv_srx_share(struct tagrv_ep *ep, struct tagrv_ep *srx, uint64_t flags)
{
	uint64_t lack = ep->rx_caps & MATCHED_CAPS & ~srx->caps;

	if (flags)
		return tagrv_refuse(-FI_EBADFLAGS, "fi_ep_bind: flags 0x%llx "
				    "do not apply to a shared receive "
				    "context", (unsigned long long) flags);
	if (srx->domain != ep->domain)
		return tagrv_refuse(-FI_EINVAL, "fi_ep_bind: the shared receive "
				    "context belongs to another domain");
	if (!ep->shares_rx)
		return tagrv_refuse(-FI_EINVAL, "fi_ep_bind: the endpoint has "
				    "receives of its own: its rx_ctx_cnt was "
				    "not FI_SHARED_CONTEXT");
	if (ep->srx)
		return tagrv_refuse(-FI_EINVAL, "fi_ep_bind: the endpoint has "
				    "its shared receive context already");
	if (lack)
		return tagrv_refuse(-FI_EINVAL, "fi_ep_bind: the endpoint has "
				    "capabilities that the shared receive "
				    "context lacks: 0x%llx",
				    (unsigned long long) lack);
	ep->srx = srx;
	tagrv_ref_get(&srx->refs);
	return 0;
}
