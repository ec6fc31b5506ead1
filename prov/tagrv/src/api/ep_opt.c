/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_ep: options, names, default flags, aliases; fi_cancel.
 */
#include <stdlib.h>
#include <string.h>

#include "api/objects_priv.h"
#include "api/onesided_priv.h"
#include "core/limits.h"
#include "core/log.h"
#include "engine/fast.h"

/* Options of newer headers. Applications built with older ones do not know them. */
enum {
	OPT_CUDA_API_PERMITTED	= 10,
	OPT_SHARED_MEMORY_PERMITTED,
	OPT_MAX_MSG_SIZE,
	OPT_MAX_TAGGED_SIZE,
	OPT_MAX_RMA_SIZE,
	OPT_MAX_ATOMIC_SIZE,
	OPT_INJECT_MSG_SIZE	= 16,
	OPT_INJECT_TAGGED_SIZE,
	OPT_INJECT_RMA_SIZE,
	OPT_INJECT_ATOMIC_SIZE,
};

static struct tagrv_ep *ep_of(struct fid *fid)
{
	return tagrv_container_of(fid, struct tagrv_ep, ep.fid);
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct tagrv_ep *ep = ep_of(fid);
	int ret;

	/* Receives of an endpoint with a shared context are in the context. */
	if (!ep->rx)
		return ep->engine ? -FI_ENOENT : -FI_EOPBADSTATE;
	tagrv_dom_lock(ep->dom);
	ret = tagrv_rx_cancel(ep->rx, context);
	tagrv_lock_release(&ep->dom->lock);
	return ret;
}

static int option(const struct tagrv_ep *ep, int level, int name, size_t *value)
{
	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	switch (name) {
	case FI_OPT_MIN_MULTI_RECV:
		*value = ep->base->srx ? ep->base->srx->min_multi_recv :
					 ep->base->min_multi_recv;
		return 0;
	case FI_OPT_CM_DATA_SIZE:
		*value = 0;
		return 0;
	case OPT_MAX_MSG_SIZE:
	case OPT_MAX_TAGGED_SIZE:
	case OPT_MAX_RMA_SIZE:
		*value = TAGRV_MAX_MSG;
		return 0;
	case OPT_MAX_ATOMIC_SIZE:
		*value = ep->dom->by_device ? sizeof(uint64_t) : TAGRV_MAX_MSG;
		return 0;
	case OPT_INJECT_MSG_SIZE:
	case OPT_INJECT_TAGGED_SIZE:
	case OPT_INJECT_RMA_SIZE:
	case OPT_INJECT_ATOMIC_SIZE:
		*value = TAGRV_INJECT_MAX;
		return 0;
	default:
		return -FI_ENOPROTOOPT;
	}
}

static int ep_getopt(fid_t fid, int level, int optname, void *optval,
		     size_t *optlen)
{
	size_t value, room = *optlen;
	int ret;

	ret = option(ep_of(fid), level, optname, &value);
	if (ret)
		return ret;
	*optlen = sizeof(value);
	if (room < sizeof(value))
		return -FI_ETOOSMALL;
	memcpy(optval, &value, sizeof(value));
	return 0;
}

static int set_min_multi_recv(struct tagrv_ep *ep, size_t value)
{
	if (ep->shares_rx)
		return -FI_EOPNOTSUPP;	/* set it at the shared context */
	ep->min_multi_recv = value;
	if (!ep->rx)
		return 0;
	tagrv_dom_lock(ep->dom);
	tagrv_rx_set_min_multi_recv(ep->rx, value);
	tagrv_lock_release(&ep->dom->lock);
	return 0;
}

static int ep_setopt(fid_t fid, int level, int optname, const void *optval,
		     size_t optlen)
{
	size_t value;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	switch (optname) {
	case FI_OPT_MIN_MULTI_RECV:
		if (optlen != sizeof(value))
			return -FI_EINVAL;
		memcpy(&value, optval, sizeof(value));
		return set_min_multi_recv(ep_of(fid)->base, value);
	case FI_OPT_CM_DATA_SIZE:
	case FI_OPT_FI_HMEM_P2P:
	case OPT_CUDA_API_PERMITTED:
	case OPT_SHARED_MEMORY_PERMITTED:
	case OPT_MAX_MSG_SIZE:
	case OPT_MAX_TAGGED_SIZE:
	case OPT_MAX_RMA_SIZE:
	case OPT_MAX_ATOMIC_SIZE:
	case OPT_INJECT_MSG_SIZE:
	case OPT_INJECT_TAGGED_SIZE:
	case OPT_INJECT_RMA_SIZE:
	case OPT_INJECT_ATOMIC_SIZE:
		return -FI_EOPNOTSUPP;
	default:
		return -FI_ENOPROTOOPT;
	}
}

struct fi_ops_ep tagrv_ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
	.getopt = ep_getopt,
	.setopt = ep_setopt,
	.tx_ctx = tagrv_nosys_tx_ctx,
	.rx_ctx = tagrv_nosys_rx_ctx,
	.rx_size_left = tagrv_nosys_size_left,
	.tx_size_left = tagrv_nosys_size_left,
};

static int ep_setname(fid_t fid, void *addr, size_t addrlen)
{
	struct tagrv_ep *ep = ep_of(fid)->base;
	struct tagrv_addr src;
	int ret;

	if (ep->engine)
		return -FI_EOPBADSTATE;
	ret = tagrv_addr_from(&src, addr, addrlen);
	if (ret)
		return ret;
	if (tagrv_addr_len(&src) != tagrv_addr_len(&ep->src))
		return -FI_EINVAL;
	ep->src = src;
	return 0;
}

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct tagrv_ep *ep = ep_of(fid);
	struct tagrv_addr name = ep->src;
	size_t len, room = *addrlen;

	if (ep->engine) {
		tagrv_dom_lock(ep->dom);
		tagrv_engine_name(ep->engine, &name);
		tagrv_lock_release(&ep->dom->lock);
	}
	len = tagrv_addr_len(&name);
	*addrlen = len;
	if (addr && room)
		memcpy(addr, &name, TAGRV_MIN(len, room));
	return !addr || room < len ? -FI_ETOOSMALL : 0;
}

struct fi_ops_cm tagrv_ep_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = ep_setname,
	.getname = ep_getname,
	.getpeer = tagrv_nosys_getpeer,
	.connect = tagrv_nosys_connect,
	.listen = tagrv_nosys_listen,
	.accept = tagrv_nosys_accept,
	.reject = tagrv_nosys_reject,
	.shutdown = tagrv_nosys_shutdown,
	.join = tagrv_nosys_join,
};

void tagrv_ep_resolve_flags(struct tagrv_ep *ep)
{
	ep->tx_flags = tagrv_strongest_level(ep->tx_op_flags) | ep->tx_force;
	ep->rx_flags = ep->rx_op_flags | ep->rx_force;
	/* Without a counter no one can observe the level of an inject. */
	ep->inject_flags = FI_INJECT |
			   (ep->tx_cntr ? ep->tx_flags & TAGRV_LEVEL_FLAGS : 0);
	ep->rma_flags = tagrv_rma_write_flags(ep->tx_flags);
	ep->fetch_flags = tagrv_rma_fetch_flags(ep, ep->rma_flags);
	ep->rma_inject_flags = FI_INJECT | (ep->write_cntr ?
			       ep->rma_flags & TAGRV_LEVEL_FLAGS : 0);
	ep->reader = ep->caps & FI_READ ? ep->engine : NULL;
	ep->writer = ep->caps & FI_WRITE ? ep->engine : NULL;
	ep->plain_send = ep->plain_inject = NULL;
	ep->plain_rx = NULL;
	ep->plain_writer = NULL;
	if (!ep->dom->params.fast)
		return;
	/* An adapter that matches has to hear of each receive. */
	if (ep->rx && !ep->rx->tags)
		ep->plain_rx = ep->rx;
	ep->plain_writer = ep->writer;
	if (ep->tx_cntr)
		return;
	if (!(ep->tx_flags & (TAGRV_NEEDS_OP | FI_INJECT)))
		ep->plain_send = ep->engine;
	if (!(ep->inject_flags & TAGRV_NEEDS_OP))
		ep->plain_inject = ep->engine;
}

/* Flags contain either FI_TRANSMIT or FI_RECV, for the side they apply to. */
static int set_op_flags(struct tagrv_ep *ep, uint64_t flags)
{
	uint64_t ops = flags & ~(FI_TRANSMIT | FI_RECV);
	bool tx = flags & FI_TRANSMIT, rx = flags & FI_RECV;

	if (tx == rx)
		return -FI_EINVAL;
	if (ops & ~(tx ? TAGRV_TX_OP_FLAGS : TAGRV_RX_OP_FLAGS)) {
		tagrv_info("default operation flags 0x%llx are not supported\n",
			   (unsigned long long) ops);
		return -FI_EINVAL;
	}
	if (tx)
		ep->tx_op_flags = ops;
	else
		ep->rx_op_flags = ops;
	tagrv_ep_resolve_flags(ep);
	return 0;
}

static int get_op_flags(const struct tagrv_ep *ep, uint64_t *flags)
{
	bool tx = *flags & FI_TRANSMIT, rx = *flags & FI_RECV;

	if (tx == rx)
		return -FI_EINVAL;
	*flags = tx ? ep->tx_op_flags : ep->rx_op_flags;
	return 0;
}

static int ep_alias(struct tagrv_ep *ep, const struct fi_alias *alias)
{
	struct tagrv_ep *self;
	int ret;

	/* The alias is a copy: objects bound later would be missing in it. */
	if (!ep->engine)
		return -FI_EOPBADSTATE;
	self = malloc(sizeof(*self));
	if (!self)
		return -FI_ENOMEM;
	*self = *ep;		/* default flags too, which ep may have changed */
	atomic_init(&self->refs, 0);
	ret = alias->flags ? set_op_flags(self, alias->flags) : 0;
	if (ret) {
		free(self);
		return ret;
	}
	tagrv_ref_get(&ep->base->refs);
	*alias->fid = &self->ep.fid;
	return 0;
}

int tagrv_ep_control(struct fid *fid, int command, void *arg)
{
	struct tagrv_ep *ep = ep_of(fid);

	switch (command) {
	case FI_ENABLE:
		return tagrv_ep_enable(ep);
	case FI_GETOPSFLAG:
		return get_op_flags(ep, arg);
	case FI_SETOPSFLAG:
		return set_op_flags(ep, *(const uint64_t *) arg);
	case FI_ALIAS:
		return ep_alias(ep, arg);
	default:
		return -FI_ENOSYS;
	}
}
