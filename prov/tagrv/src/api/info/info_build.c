/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: allocates and fills one fi_info.
 *
 * libfabric calls free() for each struct of an fi_info, and newer versions read
 * members behind those of our headers. So each struct is an allocation of its
 * own, zeroed, with room at its end.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info_priv.h"
#include "core/limits.h"
#include "core/log.h"

#define ROOM	256		/* bytes for members that newer versions add */

#define TAG_FORMAT_ALL	0xaaaaaaaaaaaaaaaaULL	/* all 64 bits, one field */
#define TAG_FORMAT_DEVICE (TAG_FORMAT_ALL & TAGRV_DEVICE_TAG_MASK)
/* Counts to show. The provider has no limits; file descriptors may run out. */
#define OBJECTS		256	/* of each kind */
#define REGIONS		65536

static void *zalloc(size_t size)
{
	return calloc(1, size + ROOM);
}

void tagrv_info_free(struct fi_info *info)
{
	struct fi_info *next;

	for (; info; info = next) {
		next = info->next;
		free(info->src_addr);
		free(info->dest_addr);
		free(info->tx_attr);
		free(info->rx_attr);
		if (info->ep_attr)
			free(info->ep_attr->auth_key);
		free(info->ep_attr);
		if (info->domain_attr) {
			free(info->domain_attr->auth_key);
			free(info->domain_attr->name);
		}
		free(info->domain_attr);
		if (info->fabric_attr)
			free(info->fabric_attr->name);
		free(info->fabric_attr);
		if (info->nic)
			fi_close(&info->nic->fid);
		free(info);
	}
}

static struct fi_info *alloc_info(void)
{
	struct fi_info *info = zalloc(sizeof(*info));

	if (!info)
		return NULL;
	info->tx_attr = zalloc(sizeof(*info->tx_attr));
	info->rx_attr = zalloc(sizeof(*info->rx_attr));
	info->ep_attr = zalloc(sizeof(*info->ep_attr));
	info->domain_attr = zalloc(sizeof(*info->domain_attr));
	info->fabric_attr = zalloc(sizeof(*info->fabric_attr));
	if (info->tx_attr && info->rx_attr && info->ep_attr &&
	    info->domain_attr && info->fabric_attr)
		return info;
	tagrv_info_free(info);
	return NULL;
}

/* The orders that cost nothing, and those that were asked for. */
static uint64_t order_of(const struct fi_info *info, uint64_t asked)
{
	return asked | (info->caps & FI_ATOMIC ? TAGRV_MSG_ORDERS_FREE :
						 FI_ORDER_SAS);
}

static void fill_tx(const struct tagrv_ask *ask, struct fi_info *info)
{
	const struct fi_tx_attr *hint = ask->hints ? ask->hints->tx_attr : NULL;
	struct fi_tx_attr *tx = info->tx_attr;

	tx->caps = info->caps & TAGRV_CAPS_TX;
	tx->msg_order = order_of(info, hint ? hint->msg_order : 0);
	tx->inject_size = TAGRV_INJECT_MAX;
	tx->size = TAGRV_SIZE_DEFAULT;
	tx->iov_limit = TAGRV_IOV_MAX;
	tx->rma_iov_limit = tagrv_info_rma_iov_limit(info->caps);
	if (!hint)
		return;
	if (hint->caps & TAGRV_CAPS_TX)
		tx->caps &= hint->caps;
	tx->op_flags = hint->op_flags;
	tx->size = TAGRV_MAX(tx->size, hint->size);
}

static void fill_rx(const struct tagrv_ask *ask, struct fi_info *info)
{
	const struct fi_rx_attr *hint = ask->hints ? ask->hints->rx_attr : NULL;
	struct fi_rx_attr *rx = info->rx_attr;

	rx->caps = info->caps & TAGRV_CAPS_RX;
	rx->msg_order = order_of(info, hint ? hint->msg_order : 0);
	rx->size = TAGRV_MIN((size_t) TAGRV_SIZE_DEFAULT,
			     tagrv_param_max_recvs(&ask->params));
	rx->iov_limit = TAGRV_IOV_MAX;
	if (!hint)
		return;
	if (hint->caps & TAGRV_CAPS_RX)
		rx->caps &= hint->caps;
	rx->op_flags = hint->op_flags;
	rx->size = TAGRV_MAX(rx->size, hint->size);
}

/* fi_endpoint and fi_domain make their keys of the returned info. */
static int echo_key(uint8_t **key, size_t *len, const uint8_t *hint,
		    size_t hint_len)
{
	if (!hint_len)
		return 0;
	*key = zalloc(hint_len);
	if (!*key)
		return -FI_ENOMEM;
	memcpy(*key, hint, hint_len);
	*len = hint_len;
	return 0;
}

static int fill_ep(const struct tagrv_ask *ask, const struct tagrv_device_desc *desc,
		   const struct fi_info *info)
{
	struct fi_ep_attr *ep = info->ep_attr;
	const struct fi_ep_attr *hint = ask->hints ? ask->hints->ep_attr : NULL;

	ep->type = FI_EP_RDM;
	ep->protocol = TAGRV_PROTO;
	ep->protocol_version = TAGRV_PROTO_VERSION;
	ep->max_msg_size = TAGRV_MAX_MSG;
	ep->max_order_raw_size = tagrv_info_max_order(info->caps);
	ep->max_order_war_size = tagrv_info_max_order(info->caps);
	ep->max_order_waw_size = tagrv_info_max_order(info->caps);
	ep->mem_tag_format = hint && hint->mem_tag_format ?
			     hint->mem_tag_format :
			     tagrv_info_has_short_tags(ask, desc) ?
			     TAG_FORMAT_DEVICE : TAG_FORMAT_ALL;
	ep->tx_ctx_cnt = 1;
	ep->rx_ctx_cnt = hint && hint->rx_ctx_cnt == FI_SHARED_CONTEXT ?
			 FI_SHARED_CONTEXT : 1;
	return hint ? echo_key(&ep->auth_key, &ep->auth_key_size,
			       hint->auth_key, hint->auth_key_size) : 0;
}

static void fill_domain_limits(struct fi_domain_attr *domain)
{
	domain->mr_key_size = TAGRV_MR_KEY_SIZE;
	domain->cq_data_size = TAGRV_CQ_DATA_SIZE;
	domain->cq_cnt = OBJECTS;
	domain->ep_cnt = OBJECTS;
	domain->tx_ctx_cnt = OBJECTS;
	domain->rx_ctx_cnt = OBJECTS;
	domain->max_ep_tx_ctx = 1;
	domain->max_ep_rx_ctx = 1;
	domain->max_ep_srx_ctx = OBJECTS;
	domain->cntr_cnt = OBJECTS;
	domain->mr_iov_limit = TAGRV_IOV_MAX;
	domain->mr_cnt = REGIONS;
}

/* Counts are no limits: hints that ask for more get more. */
static void echo_domain_counts(struct fi_domain_attr *domain,
			       const struct fi_domain_attr *hint)
{
	domain->cq_cnt = TAGRV_MAX(domain->cq_cnt, hint->cq_cnt);
	domain->ep_cnt = TAGRV_MAX(domain->ep_cnt, hint->ep_cnt);
	domain->tx_ctx_cnt = TAGRV_MAX(domain->tx_ctx_cnt, hint->tx_ctx_cnt);
	domain->rx_ctx_cnt = TAGRV_MAX(domain->rx_ctx_cnt, hint->rx_ctx_cnt);
	domain->max_ep_srx_ctx = TAGRV_MAX(domain->max_ep_srx_ctx,
					   hint->max_ep_srx_ctx);
	domain->cntr_cnt = TAGRV_MAX(domain->cntr_cnt, hint->cntr_cnt);
	domain->mr_cnt = TAGRV_MAX(domain->mr_cnt, hint->mr_cnt);
}

/*
 * The bits about keys and addresses come back to those who can do with them. No other is
 * required, so none is returned; nor is any for messages. The two old modes, which are
 * never combined with others, always come back. Before API 1.5 there was nothing else:
 * who names none leaves the choice between the two to the provider.
 */
static int mr_mode_of(uint32_t version, uint64_t caps, int hint)
{
	if (hint == TAGRV_MR_BASIC || hint == TAGRV_MR_SCALABLE)
		return hint;
	if (!(caps & TAGRV_CAPS_ONE_SIDED))
		return 0;
	if (!hint && FI_VERSION_LT(version, FI_VERSION(1, 5)))
		return TAGRV_MR_SCALABLE;
	return hint & (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
}

static void echo_domain_modes(struct fi_domain_attr *domain,
			      const struct fi_domain_attr *hint)
{
	if (hint->threading)
		domain->threading = hint->threading;
	if (hint->control_progress)
		domain->control_progress = hint->control_progress;
	if (hint->data_progress)
		domain->data_progress = hint->data_progress;
	domain->av_type = hint->av_type;
	domain->domain = hint->domain;
}

static int fill_domain(const struct tagrv_ask *ask, struct fi_info *info,
		       const char *name)
{
	struct fi_domain_attr *domain = info->domain_attr;

	domain->name = strdup(name);
	domain->threading = FI_THREAD_SAFE;
	domain->control_progress = FI_PROGRESS_MANUAL;
	domain->data_progress = FI_PROGRESS_MANUAL;
	domain->resource_mgmt = FI_RM_ENABLED;
	domain->caps = info->caps & TAGRV_CAPS_DOMAIN;
	fill_domain_limits(domain);
	domain->max_err_data = tagrv_info_err_data(info->caps);
	if (ask->hints && ask->hints->domain_attr) {
		echo_domain_counts(domain, ask->hints->domain_attr);
		echo_domain_modes(domain, ask->hints->domain_attr);
		domain->mr_mode = mr_mode_of(ask->version, info->caps,
					     ask->hints->domain_attr->mr_mode);
		if (echo_key(&domain->auth_key, &domain->auth_key_size,
			     ask->hints->domain_attr->auth_key,
			     ask->hints->domain_attr->auth_key_size))
			return -FI_ENOMEM;
	}
	return domain->name ? 0 : -FI_ENOMEM;
}

/* Leaves prov_name NULL, because libfabric sets it. */
static int fill_fabric(const struct tagrv_ask *ask,
		       struct fi_fabric_attr *fabric)
{
	fabric->name = strdup(TAGRV_FABRIC_NAME);
	fabric->prov_version = tagrv_prov.version;
	fabric->api_version = ask->version;
	if (ask->hints && ask->hints->fabric_attr)
		fabric->fabric = ask->hints->fabric_attr->fabric;
	return fabric->name ? 0 : -FI_ENOMEM;
}

static int put_addr(const struct tagrv_addr *addr, void **out, size_t *len)
{
	*len = tagrv_addr_len(addr);
	if (!*len)
		return 0;
	*out = zalloc(*len);
	if (!*out)
		return -FI_ENOMEM;
	memcpy(*out, addr, *len);
	return 0;
}

static int fill_addrs(const struct tagrv_ask *ask, struct fi_info *info,
		      const struct tagrv_addr *src)
{
	info->addr_format = ask->family == AF_INET6 ? FI_SOCKADDR_IN6 :
						      FI_SOCKADDR_IN;
	if (put_addr(src, &info->src_addr, &info->src_addrlen))
		return -FI_ENOMEM;
	return put_addr(&ask->dest, &info->dest_addr, &info->dest_addrlen);
}

struct fi_info *tagrv_info_build(const struct tagrv_ask *ask,
				 const struct tagrv_device_desc *desc,
				 const struct tagrv_addr *src)
{
	struct fi_info *info = alloc_info();

	if (!info)
		return NULL;
	info->caps = ask->caps;
	if (tagrv_info_is_local(desc->name) &&
	    !tagrv_info_wants_remote(ask->hints))
		info->caps &= ~FI_REMOTE_COMM;
	if (!tagrv_info_has_atomics(ask, desc))
		info->caps &= ~FI_ATOMIC;
	fill_tx(ask, info);
	fill_rx(ask, info);
	if (fill_ep(ask, desc, info) || fill_domain(ask, info, desc->name) ||
	    fill_fabric(ask, info->fabric_attr) || fill_addrs(ask, info, src))
		goto free_info;
	if (!tagrv_info_is_local(desc->name)) {
		info->nic = tagrv_nic_create(desc);
		if (!info->nic)
			goto free_info;
	}
	return info;
free_info:
	tagrv_info_free(info);
	return NULL;
}
