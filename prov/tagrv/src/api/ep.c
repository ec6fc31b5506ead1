/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_ep: opening, binding, enabling, closing. Options, names and flags
 * are in ep_opt.c, transfers in msg.c, tagged.c, rma_calls.c and atomic_calls.c.
 *
 * fi_enable opens the engine. Until then the struct only collects settings and
 * bindings, which may come in any order.
 */
#include <stdlib.h>

#include "api/info/info.h"
#include "api/objects_priv.h"
#include "core/log.h"

#define CNTR_BIND_FLAGS	(FI_SEND | FI_RECV | FI_READ | FI_WRITE | \
			 FI_REMOTE_READ | FI_REMOTE_WRITE)

static struct tagrv_ep *ep_of(struct fid *fid)
{
	return tagrv_container_of(fid, struct tagrv_ep, ep.fid);
}

/* An object is bound once, and must be of the endpoint's domain or fabric. */
static int check_bind(bool ours, bool again, const char *object)
{
	if (!ours)
		return tagrv_refuse(-FI_EINVAL, "fi_ep_bind: the %s belongs to "
				    "another domain or fabric", object);
	if (again)
		return tagrv_refuse(-FI_EINVAL, "fi_ep_bind: the endpoint has "
				    "its %s already", object);
	return 0;
}

static int bind_cq(struct tagrv_ep *ep, struct tagrv_cq *cq, uint64_t flags)
{
	int ret;

	if (!(flags & (FI_TRANSMIT | FI_RECV)) ||
	    flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION))
		return tagrv_refuse(-FI_EBADFLAGS, "fi_ep_bind: flags 0x%llx "
				    "do not apply to a completion queue",
				    (unsigned long long) flags);
	ret = check_bind(cq->domain == ep->domain,
			 (flags & FI_TRANSMIT && ep->tx_cq) ||
			 (flags & FI_RECV && ep->rx_cq), "completion queue");
	if (ret)
		return ret;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->tx_force = flags & FI_SELECTIVE_COMPLETION ? 0 :
							FI_COMPLETION;
		tagrv_ref_get(&cq->refs);
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_force = flags & FI_SELECTIVE_COMPLETION ? 0 :
							FI_COMPLETION;
		tagrv_ref_get(&cq->refs);
	}
	return 0;
}

/* One kind of operation that a counter counts. */
struct counted {
	uint64_t flag;
	size_t	offset;		/* of the counter in struct tagrv_ep */
};

#define COUNTED(flag, member)	{ flag, offsetof(struct tagrv_ep, member) }

static const struct counted counted[] = {
	COUNTED(FI_SEND, tx_cntr),
	COUNTED(FI_RECV, rx_cntr),
	COUNTED(FI_READ, read_cntr),
	COUNTED(FI_WRITE, write_cntr),
	COUNTED(FI_REMOTE_READ, remote_read_cntr),
	COUNTED(FI_REMOTE_WRITE, remote_write_cntr),
};

static struct tagrv_cntr **cntr_at(struct tagrv_ep *ep, size_t i)
{
	return (struct tagrv_cntr **) (void *) ((char *) ep + counted[i].offset);
}

/* Capabilities are not asked for: programs bind counters to what they never do. */
static int bind_cntr(struct tagrv_ep *ep, struct tagrv_cntr *cntr,
		     uint64_t flags)
{
	bool again = false;
	int ret;

	if (flags & ~CNTR_BIND_FLAGS)
		return tagrv_refuse(-FI_EBADFLAGS, "fi_ep_bind: flags 0x%llx "
				    "do not apply to a counter",
				    (unsigned long long) flags);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(counted); i++)
		if (flags & counted[i].flag && *cntr_at(ep, i))
			again = true;
	ret = check_bind(cntr->domain == ep->domain, again, "counter");
	if (ret)
		return ret;
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(counted); i++)
		if (flags & counted[i].flag) {
			*cntr_at(ep, i) = cntr;
			tagrv_ref_get(&cntr->refs);
		}
	return 0;
}

static int bind_av(struct tagrv_ep *ep, struct tagrv_av *av)
{
	int ret;

	ret = check_bind(av->domain == ep->domain, ep->av, "address vector");
	if (ret)
		return ret;
	ep->av = av;
	tagrv_ref_get(&av->refs);
	return 0;
}

static int bind_eq(struct tagrv_ep *ep, struct tagrv_eq *eq)
{
	int ret;

	ret = check_bind(eq->fabric == ep->domain->fabric, ep->eq,
			 "event queue");
	if (ret)
		return ret;
	ep->eq = eq;
	tagrv_ref_get(&eq->refs);
	return 0;
}

static struct tagrv_counter *counter_of(struct tagrv_cntr *cntr)
{
	return cntr ? &cntr->counter : NULL;
}

/* Tells the engine where to report. Lock held. */
static void set_sinks(const struct tagrv_ep *ep, struct tagrv_engine *engine)
{
	const struct tagrv_engine_sinks sinks = {
		.tx_cq = ep->tx_cq ? &ep->tx_cq->queue : NULL,
		.rx_cq = ep->rx_cq ? &ep->rx_cq->queue : NULL,
		.tx_cntr = counter_of(ep->tx_cntr),
		.rx_cntr = counter_of(ep->rx_cntr),
		.read_cntr = counter_of(ep->read_cntr),
		.write_cntr = counter_of(ep->write_cntr),
		.remote_read_cntr = counter_of(ep->remote_read_cntr),
		.remote_write_cntr = counter_of(ep->remote_write_cntr),
		.rx_all = ep->srx && ep->rx_force,
	};

	tagrv_engine_set_sinks(engine, &sinks);
}

/* Of the references, those of regions that were bound to it are no alias's. */
static bool has_aliases(const struct tagrv_ep *ep)
{
	const struct tagrv_list *node;
	unsigned int regions = 0;

	tagrv_dom_lock(ep->dom);
	tagrv_list_for_each(&ep->regions, node)
		regions++;
	tagrv_lock_release(&ep->dom->lock);
	return atomic_load(&ep->refs) > regions;
}

/*
 * Counters of one-sided operations may be bound to an enabled endpoint, too: OpenSHMEM
 * does that. An alias would not know of them.
 */
static int bind_cntr_late(struct tagrv_ep *ep, struct fid *bfid, uint64_t flags)
{
	int ret;

	if (bfid->fclass != FI_CLASS_CNTR || flags & (FI_SEND | FI_RECV) || ep->base != ep ||
	    has_aliases(ep))
		return tagrv_refuse(-FI_EOPBADSTATE, "fi_ep_bind: the endpoint "
				    "is enabled already");
	ret = bind_cntr(ep, tagrv_container_of(bfid, struct tagrv_cntr, cntr.fid),
			flags);
	if (ret)
		return ret;
	tagrv_dom_lock(ep->dom);
	set_sinks(ep, ep->engine);
	tagrv_lock_release(&ep->dom->lock);
	tagrv_ep_resolve_flags(ep);
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct tagrv_ep *ep = ep_of(fid);

	if (ep->engine)
		return bind_cntr_late(ep, bfid, flags);
	switch (bfid->fclass) {
	case FI_CLASS_CQ:
		return bind_cq(ep, tagrv_container_of(bfid, struct tagrv_cq,
						      cq.fid), flags);
	case FI_CLASS_CNTR:
		return bind_cntr(ep, tagrv_container_of(bfid,
				 struct tagrv_cntr, cntr.fid), flags);
	case FI_CLASS_AV:
		return bind_av(ep, tagrv_container_of(bfid, struct tagrv_av,
						      av.fid));
	case FI_CLASS_EQ:
		return bind_eq(ep, tagrv_container_of(bfid, struct tagrv_eq,
						      eq.fid));
	case FI_CLASS_SRX_CTX:
		return tagrv_srx_share(ep, ep_of(bfid), flags);
	case FI_CLASS_STX_CTX:
		return tagrv_refuse(-FI_ENOSYS, "fi_ep_bind: there are no "
				    "shared transmit contexts");
	default:
		return tagrv_refuse(-FI_EINVAL, "fi_ep_bind: an object of class "
				    "%zu cannot be bound", bfid->fclass);
	}
}

/*
 * What ends at an endpoint is reported somewhere. What peers do with its memory needs no
 * report, so an endpoint without messages needs nothing for the side of receives.
 */
static const char *missing_report(const struct tagrv_ep *ep)
{
	bool sends = ep->caps & TAGRV_CAPS_MESSAGES && ep->caps & FI_SEND;
	bool receives = ep->caps & TAGRV_CAPS_MESSAGES && ep->caps & FI_RECV;

	if (sends && !ep->tx_cq && !ep->tx_cntr)
		return "FI_TRANSMIT";
	if (receives && !ep->rx_cq && !ep->rx_cntr)
		return "FI_RECV";
	if (!sends && ep->caps & FI_READ && !ep->tx_cq && !ep->read_cntr)
		return "FI_TRANSMIT (or a counter with FI_READ)";
	if (!sends && ep->caps & FI_WRITE && !ep->tx_cq && !ep->write_cntr)
		return "FI_TRANSMIT (or a counter with FI_WRITE)";
	return NULL;
}

static int check_bindings(const struct tagrv_ep *ep)
{
	const char *lack = missing_report(ep);

	if (lack) {
		tagrv_warn("fi_enable: no completion queue or counter was "
			   "bound with %s\n", lack);
		return -FI_ENOCQ;
	}
	if (!ep->av) {
		tagrv_warn("fi_enable: no address vector was bound\n");
		return -FI_ENOAV;
	}
	if (ep->shares_rx && !ep->srx)
		return tagrv_refuse(-FI_EINVAL, "fi_enable: no shared receive "
				    "context was bound, though rx_ctx_cnt is "
				    "FI_SHARED_CONTEXT");
	return 0;
}

/* Passes the bound objects to the engine. Takes the domain lock. */
static int connect_engine(struct tagrv_ep *ep, struct tagrv_engine *engine)
{
	int ret;

	tagrv_dom_lock(ep->dom);
	set_sinks(ep, engine);
	ret = tagrv_engine_set_av(engine, &ep->av->tab);
	if (!ep->srx)
		tagrv_rx_set_min_multi_recv(tagrv_engine_rx(engine),
					    ep->min_multi_recv);
	tagrv_lock_release(&ep->dom->lock);
	return ret ? tagrv_refuse(ret, "fi_enable: endpoints that share a "
				  "receive context must have one address vector") : 0;
}

int tagrv_ep_enable(struct tagrv_ep *ep)
{
	const struct tagrv_engine_attr attr = {
		.src = ep->src,
		.rx = ep->srx ? ep->srx->rx : NULL,
		.directed_recv = ep->caps & FI_DIRECTED_RECV,
		.untagged = !(ep->caps & FI_TAGGED && ep->caps & FI_RECV),
		.source = ep->caps & FI_SOURCE,
		.source_err = ep->caps & FI_SOURCE_ERR,
		.serves = ep->caps & TAGRV_CAPS_ONE_SIDED ?
			  ep->caps & (FI_REMOTE_READ | FI_REMOTE_WRITE) : 0,
		.order = ep->msg_order,
		.key = ep->key,
	};
	struct tagrv_engine *engine;
	int ret;

	if (ep->base != ep || ep->engine)
		return tagrv_refuse(-FI_EOPBADSTATE, "fi_enable: the endpoint "
				    "is enabled already");
	ret = check_bindings(ep);
	if (ret)
		return ret;
	ret = tagrv_engine_open(ep->dom, &attr, &engine);
	if (ret)
		return ret;
	ret = connect_engine(ep, engine);
	if (!ret)
		ret = tagrv_engine_enable(engine);
	if (ret) {
		tagrv_engine_close(engine);
		return ret;
	}
	ep->rx = ep->srx ? NULL : tagrv_engine_rx(engine);
	ep->engine = engine;
	tagrv_ep_resolve_flags(ep);
	tagrv_mr_ep_enabled(ep);
	return 0;
}

static void put_bindings(struct tagrv_ep *ep)
{
	if (ep->tx_cq)
		tagrv_ref_put(&ep->tx_cq->refs);
	if (ep->rx_cq)
		tagrv_ref_put(&ep->rx_cq->refs);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(counted); i++)
		if (*cntr_at(ep, i))
			tagrv_ref_put(&(*cntr_at(ep, i))->refs);
	if (ep->av)
		tagrv_ref_put(&ep->av->refs);
	if (ep->eq)
		tagrv_ref_put(&ep->eq->refs);
	if (ep->srx)
		tagrv_ref_put(&ep->srx->refs);
	tagrv_ref_put(&ep->domain->refs);
}

static void drop_key(struct tagrv_ep *ep)
{
	if (ep->key == &ep->domain->key)
		return;
	tagrv_auth_key_wipe(ep->key);
	free(ep->key);
}

static int ep_close(struct fid *fid)
{
	struct tagrv_ep *ep = ep_of(fid);
	int ret;

	if (ep->base != ep) {
		tagrv_ref_put(&ep->base->refs);
		free(ep);
		return 0;
	}
	ret = tagrv_ref_check(&ep->refs, "endpoint",
			      "aliases and memory regions");
	if (ret)
		return ret;
	if (ep->engine)
		tagrv_engine_close(ep->engine);
	drop_key(ep);
	put_bindings(ep);
	free(ep);
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = tagrv_ep_control,
	.ops_open = tagrv_ep_ops_open,
	.tostr = tagrv_nosys_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

/* The address to listen on: the info's, else the one fi_getinfo would give. */
static int choose_source(struct tagrv_ep *ep, const struct fi_info *info)
{
	if (info->src_addr)
		return tagrv_addr_from(&ep->src, info->src_addr,
				       info->src_addrlen);
	return tagrv_info_default_source(ep->domain->name,
					 ep->domain->addr_format, &ep->src);
}

static int check_info(const struct tagrv_ep *ep, const struct fi_info *info)
{
	if (info->ep_attr && info->ep_attr->type != FI_EP_RDM &&
	    info->ep_attr->type != FI_EP_UNSPEC) {
		tagrv_warn("fi_endpoint: only FI_EP_RDM is supported\n");
		return -FI_EINVAL;
	}
	if (info->ep_attr && info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT) {
		tagrv_warn("fi_endpoint: there are no shared transmit "
			   "contexts\n");
		return -FI_EINVAL;
	}
	if (ep->caps & ~TAGRV_CAPS || ep->tx_op_flags & ~TAGRV_TX_OP_FLAGS ||
	    ep->rx_op_flags & ~TAGRV_RX_OP_FLAGS ||
	    ep->msg_order & ~TAGRV_MSG_ORDERS) {
		tagrv_warn("fi_endpoint: capabilities, operation flags or a "
			   "message order that fi_getinfo did not offer\n");
		return -FI_EINVAL;
	}
	return 0;
}

void tagrv_ep_init_fid(struct tagrv_ep *ep, size_t fclass, struct fi_ops *ops,
		       struct fi_ops_cm *cm, void *context)
{
	ep->ep.fid.fclass = fclass;
	ep->ep.fid.context = context;
	ep->ep.fid.ops = ops;
	ep->ep.ops = &tagrv_ep_ops;
	ep->ep.cm = cm;
	ep->ep.msg = ep->caps & FI_MSG ? &tagrv_msg_ops : &tagrv_nosys_msg;
	ep->ep.tagged = !(ep->caps & FI_TAGGED) ? &tagrv_nosys_tagged :
			ep->dom->lock.on ? &tagrv_tagged_locked_ops :
					   &tagrv_tagged_ops;
	ep->ep.rma = ep->caps & FI_RMA ? &tagrv_rma_ops : &tagrv_nosys_rma;
	ep->ep.atomic = ep->caps & FI_ATOMIC ? &tagrv_atomic_ops :
					       &tagrv_nosys_atomic;
	ep->ep.collective = &tagrv_nosys_collective;
}

static int choose_key(struct tagrv_ep *ep, const struct fi_ep_attr *attr)
{
	struct tagrv_auth_key *key;
	int ret;

	ep->key = &ep->domain->key;
	if (!attr || !attr->auth_key_size)
		return 0;
	key = calloc(1, sizeof(*key));
	if (!key)
		return -FI_ENOMEM;
	ret = tagrv_key_take(key, attr->auth_key, attr->auth_key_size,
			     "fi_endpoint");
	if (ret)
		free(key);
	else
		ep->key = key;
	return ret;
}

static int init_ep(struct tagrv_ep *ep, struct tagrv_domain *domain,
		   const struct fi_info *info)
{
	int ret;

	ep->base = ep;
	tagrv_list_init(&ep->regions);
	ep->domain = domain;
	ep->dom = domain->dom;
	ep->caps = tagrv_info_fill_caps(info->caps);
	ep->min_multi_recv = TAGRV_MIN_MULTI_RECV;
	ep->shares_rx = info->ep_attr &&
			info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
	ep->tx_force = ep->rx_force = FI_COMPLETION;
	if (info->tx_attr) {
		ep->tx_op_flags = info->tx_attr->op_flags;
		ep->msg_order = info->tx_attr->msg_order;
	}
	if (info->rx_attr)
		ep->rx_op_flags = info->rx_attr->op_flags;
	ep->rx_caps = ep->caps;
	if (info->rx_attr && info->rx_attr->caps)
		ep->rx_caps &= tagrv_info_fill_caps(info->rx_attr->caps);
	ret = check_info(ep, info);
	if (!ret)
		ret = choose_source(ep, info);
	return ret ? ret : choose_key(ep, info->ep_attr);
}

int tagrv_ep_open(struct fid_domain *domain, struct fi_info *info,
		  struct fid_ep **ep, void *context)
{
	struct tagrv_ep *self;
	int ret;

	if (!info)
		return -FI_EINVAL;
	self = calloc(1, sizeof(*self));
	if (!self)
		return -FI_ENOMEM;
	ret = init_ep(self, tagrv_container_of(domain, struct tagrv_domain,
					       domain), info);
	if (ret) {
		free(self);
		return ret;
	}
	tagrv_ep_init_fid(self, FI_CLASS_EP, &fid_ops, &tagrv_ep_cm_ops,
			  context);
	tagrv_ref_get(&self->domain->refs);
	*ep = &self->ep;
	return 0;
}
