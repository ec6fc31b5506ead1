/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: are the hints within what the provider offers?
 *
 * Only members of the oldest supported struct layout are read, because the
 * application may have been built with that layout.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info_priv.h"
#include "auth/auth_key.h"
#include "core/limits.h"
#include "core/log.h"

#define KEYS_OF_AV		SIZE_MAX	/* FI_AV_AUTH_KEY, newer headers */
#define THREADING_MAX		FI_THREAD_ENDPOINT
#define PROGRESS_UNIFIED	3	/* FI_PROGRESS_CONTROL_UNIFIED, newer headers */

/* ---- refusals ---- */

/* A user who names the provider alone gets no other one: they want to know at once. */
static bool is_named_alone(void)
{
	const char *names = getenv("FI_PROVIDER");

	return names && !strcmp(names, tagrv_prov.name);
}

/* Programs ask again and again. */
static bool is_new(const char *what)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char last[128];
	bool is_new;

	pthread_mutex_lock(&lock);
	is_new = strncmp(last, what, sizeof(last) - 1) != 0;
	if (is_new)
		snprintf(last, sizeof(last), "%s", what);
	pthread_mutex_unlock(&lock);
	return is_new;
}

static int refuse(const struct tagrv_ask *ask, const char *member)
{
	bool warns = is_named_alone() && !(ask->flags & TAGRV_FLAG_INTERNAL);

	if (!warns)
		tagrv_info("fi_getinfo: the hints ask for more than there is: %s\n",
			   member);
	else if (is_new(member))
		tagrv_warn("fi_getinfo: the program asks for more than tagrv has: %s; if it "
			   "cannot do without, it needs another provider than FI_PROVIDER "
			   "says\n", member);
	return -FI_ENODATA;
}

/* Because of a parameter that the user has set. */
static void refuse_param(const struct tagrv_ask *ask, const char *why)
{
	if (!(ask->flags & TAGRV_FLAG_INTERNAL) && is_new(why))
		tagrv_warn("fi_getinfo: %s; the program takes another provider, if there "
			   "is one\n", why);
}

static int refuse_caps(const struct tagrv_ask *ask, uint64_t caps)
{
	char text[128] = "caps: ";
	const size_t begin = strlen(text);

	(void) fi_tostr_r(text + begin, sizeof(text) - begin, &caps, FI_TYPE_CAPS);
	return refuse(ask, text);
}

/* ---- hints ---- */

#define DIRECTIONS	(FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

uint64_t tagrv_info_fill_caps(uint64_t caps)
{
	if (!caps)
		return TAGRV_CAPS_DEFAULT;
	if (!(caps & (TAGRV_CAPS_MESSAGES | TAGRV_CAPS_ONE_SIDED)))
		caps |= TAGRV_CAPS_MESSAGES;
	if (caps & TAGRV_CAPS_MESSAGES && !(caps & (FI_SEND | FI_RECV)))
		caps |= FI_SEND | FI_RECV;
	if (caps & TAGRV_CAPS_ONE_SIDED && !(caps & DIRECTIONS))
		caps |= DIRECTIONS;
	return caps | TAGRV_CAPS_DOMAIN;
}

static int match_caps(struct tagrv_ask *ask, const struct fi_info *hints)
{
	ask->caps = tagrv_info_fill_caps(hints->caps);
	if (ask->caps & ~TAGRV_CAPS)
		return refuse_caps(ask, ask->caps & ~TAGRV_CAPS);
	/* Multi-receive buffers take untagged messages only. */
	if (ask->caps & FI_MULTI_RECV && !(ask->caps & FI_MSG))
		return refuse(ask, "caps: FI_MULTI_RECV without FI_MSG");
	if (ask->caps & DIRECTIONS && !(ask->caps & TAGRV_CAPS_ONE_SIDED))
		return refuse(ask, "caps: FI_READ, FI_WRITE, FI_REMOTE_READ or "
			      "FI_REMOTE_WRITE without FI_RMA or FI_ATOMIC");
	if (ask->caps & FI_RMA_EVENT &&
	    !(ask->caps & (FI_REMOTE_READ | FI_REMOTE_WRITE)))
		return refuse(ask, "caps: FI_RMA_EVENT without FI_REMOTE_READ or "
			      "FI_REMOTE_WRITE");
	if (ask->caps & FI_SOURCE_ERR && !(ask->caps & FI_SOURCE))
		return refuse(ask, "caps: FI_SOURCE_ERR without FI_SOURCE");
	return 0;
}

size_t tagrv_info_rma_iov_limit(uint64_t caps)
{
	return caps & TAGRV_CAPS_ONE_SIDED ? TAGRV_IOV_MAX : 0;
}

size_t tagrv_info_max_order(uint64_t caps)
{
	return caps & TAGRV_CAPS_ONE_SIDED ? SIZE_MAX : 0;
}

static int match_tx(const struct tagrv_ask *ask, const struct fi_tx_attr *tx)
{
	if (tx->caps & ~TAGRV_CAPS || tx->caps & TAGRV_CAPS_TX & ~ask->caps)
		return refuse(ask, "tx_attr->caps");
	if (tx->op_flags & ~TAGRV_TX_OP_FLAGS)
		return refuse(ask, "tx_attr->op_flags");
	if (tx->msg_order & ~TAGRV_MSG_ORDERS)
		return refuse(ask, "tx_attr->msg_order");
	if (tx->comp_order)
		return refuse(ask, "tx_attr->comp_order");
	if (tx->inject_size > TAGRV_INJECT_MAX)
		return refuse(ask, "tx_attr->inject_size");
	if (tx->size > ask->params.max_ops)
		return refuse(ask, "tx_attr->size (see FI_TAGRV_MAX_OPS)");
	if (tx->iov_limit > TAGRV_IOV_MAX ||
	    tx->rma_iov_limit > tagrv_info_rma_iov_limit(ask->caps))
		return refuse(ask, "tx_attr->iov_limit or rma_iov_limit");
	return 0;
}

static int match_rx(const struct tagrv_ask *ask, const struct fi_rx_attr *rx)
{
	if (rx->caps & ~TAGRV_CAPS || rx->caps & TAGRV_CAPS_RX & ~ask->caps)
		return refuse(ask, "rx_attr->caps");
	if (rx->op_flags & ~TAGRV_RX_OP_FLAGS)
		return refuse(ask, "rx_attr->op_flags");
	if (rx->msg_order & ~TAGRV_MSG_ORDERS)
		return refuse(ask, "rx_attr->msg_order");
	if (rx->comp_order)
		return refuse(ask, "rx_attr->comp_order");
	if (rx->size > tagrv_param_max_recvs(&ask->params))
		return refuse(ask, "rx_attr->size (see FI_TAGRV_MAX_RECVS)");
	if (rx->iov_limit > TAGRV_IOV_MAX)
		return refuse(ask, "rx_attr->iov_limit");
	return 0;
}

static int check_key(const struct tagrv_ask *ask, const char *what, const uint8_t *key, size_t len)
{
	return len && (!key || len < TAGRV_AUTH_SECRET_MIN ||
		       len > TAGRV_AUTH_SECRET_MAX) ? refuse(ask, what) : 0;
}

static int match_ep(const struct tagrv_ask *ask, const struct fi_ep_attr *ep)
{
	size_t max_order = tagrv_info_max_order(ask->caps);

	if ((ep->protocol && ep->protocol != TAGRV_PROTO) ||
	    ep->protocol_version > TAGRV_PROTO_VERSION)
		return refuse(ask, "ep_attr->protocol or protocol_version");
	if (ep->max_msg_size > TAGRV_MAX_MSG)
		return refuse(ask, "ep_attr->max_msg_size");
	if (ep->max_order_raw_size > max_order ||
	    ep->max_order_war_size > max_order ||
	    ep->max_order_waw_size > max_order)
		return refuse(ask, "ep_attr->max_order_*_size");
	if (ep->tx_ctx_cnt == FI_SHARED_CONTEXT)
		return refuse(ask, "ep_attr->tx_ctx_cnt: there are no shared "
			      "transmit contexts");
	if (ep->tx_ctx_cnt > 1 ||
	    (ep->rx_ctx_cnt > 1 && ep->rx_ctx_cnt != FI_SHARED_CONTEXT))
		return refuse(ask, "ep_attr->tx_ctx_cnt or rx_ctx_cnt");
	return check_key(ask, "ep_attr->auth_key: it has 16 to 4096 bytes",
			 ep->auth_key, ep->auth_key_size);
}

static int match_domain_modes(const struct tagrv_ask *ask,
			      const struct fi_domain_attr *domain)
{
	if ((unsigned int) domain->threading > THREADING_MAX)
		return refuse(ask, "domain_attr->threading");
	if ((unsigned int) domain->control_progress > PROGRESS_UNIFIED ||
	    (unsigned int) domain->data_progress > PROGRESS_UNIFIED)
		return refuse(ask, "domain_attr->control_progress or data_progress");
	if ((unsigned int) domain->resource_mgmt > FI_RM_ENABLED)
		return refuse(ask, "domain_attr->resource_mgmt");
	if ((unsigned int) domain->av_type > FI_AV_TABLE)
		return refuse(ask, "domain_attr->av_type");
	if (domain->caps & ~TAGRV_CAPS_DOMAIN)
		return refuse(ask, "domain_attr->caps");
	return 0;
}

static int match_domain(const struct tagrv_ask *ask,
			const struct fi_domain_attr *domain)
{
	int ret;

	if (ask->objects.foreign_domain)
		return refuse(ask, "domain_attr->domain of another provider");
	if (domain->mr_key_size > TAGRV_MR_KEY_SIZE)
		return refuse(ask, "domain_attr->mr_key_size");
	if (domain->cq_data_size > TAGRV_CQ_DATA_SIZE)
		return refuse(ask, "domain_attr->cq_data_size");
	if (domain->mr_iov_limit > TAGRV_IOV_MAX)
		return refuse(ask, "domain_attr->mr_iov_limit");
	if (domain->max_ep_tx_ctx > 1 || domain->max_ep_rx_ctx > 1 ||
	    domain->max_ep_stx_ctx)
		return refuse(ask, "domain_attr->max_ep_*_ctx: an endpoint has one "
			      "context each way, and none to send is shared");
	if (domain->auth_key_size == KEYS_OF_AV)
		return refuse(ask, "domain_attr->auth_key_size FI_AV_AUTH_KEY: an "
			      "endpoint has one key, its own or the domain's");
	ret = check_key(ask, "domain_attr->auth_key: it has 16 to 4096 bytes",
			domain->auth_key, domain->auth_key_size);
	if (ret)
		return ret;
	if (domain->max_err_data > tagrv_info_err_data(ask->caps))
		return refuse(ask, "domain_attr->max_err_data");
	return match_domain_modes(ask, domain);
}

size_t tagrv_info_err_data(uint64_t caps)
{
	return caps & FI_SOURCE_ERR ? sizeof(struct sockaddr_in6) : 0;
}

static int match_fabric(const struct tagrv_ask *ask,
			const struct fi_fabric_attr *fabric)
{
	if (ask->objects.foreign_fabric)
		return refuse(ask, "fabric_attr->fabric of another provider");
	if (fabric->name && strcmp(fabric->name, TAGRV_FABRIC_NAME))
		return refuse(ask, "fabric_attr->name");
	return 0;
}

bool tagrv_info_match_type(const struct fi_info *hints)
{
	return !hints || !hints->ep_attr ||
	       hints->ep_attr->type == FI_EP_UNSPEC ||
	       hints->ep_attr->type == FI_EP_RDM;
}

int tagrv_info_match(struct tagrv_ask *ask)
{
	const struct fi_info *hints = ask->hints;
	int ret;

	if (!hints) {
		ask->caps = TAGRV_CAPS_DEFAULT;
		return 0;
	}
	ret = match_caps(ask, hints);
	if (!ret && hints->tx_attr)
		ret = match_tx(ask, hints->tx_attr);
	if (!ret && hints->rx_attr)
		ret = match_rx(ask, hints->rx_attr);
	if (!ret && hints->ep_attr)
		ret = match_ep(ask, hints->ep_attr);
	if (!ret && hints->domain_attr)
		ret = match_domain(ask, hints->domain_attr);
	if (!ret && hints->fabric_attr)
		ret = match_fabric(ask, hints->fabric_attr);
	return ret;
}

static bool is_name(const char *asked, const char *name)
{
	return !asked || !strcmp(asked, name);
}

bool tagrv_info_match_name(const struct tagrv_ask *ask, const char *name)
{
	if (!ask->hints || !ask->hints->domain_attr)
		return true;
	return is_name(ask->objects.domain_name, name) &&
	       is_name(ask->hints->domain_attr->name, name);
}

int tagrv_info_refuse_name(const struct fi_info *hints)
{
	const char *name = hints->domain_attr->name;

	tagrv_info("fi_getinfo: the hints ask for a domain that no usable "
		   "device has: domain_attr->%s%s\n", name ? "name " : "domain",
		   name ? name : "");
	return -FI_ENODATA;
}

bool tagrv_info_is_local(const char *name)
{
	return !strcmp(name, TAGRV_LOOP_NAME) || !strcmp(name, TAGRV_SHM_NAME);
}

bool tagrv_info_wants_remote(const struct fi_info *hints)
{
	uint64_t caps = hints ? hints->caps : 0;

	if (hints && hints->domain_attr)
		caps |= hints->domain_attr->caps;
	return caps & FI_REMOTE_COMM;
}

bool tagrv_info_match_atomics(const struct tagrv_ask *ask,
			      const struct tagrv_device_desc *desc)
{
	const struct fi_info *hints = ask->hints;

	if (tagrv_info_has_atomics(ask, desc) || !hints || !(hints->caps & FI_ATOMIC))
		return true;
	refuse_param(ask, "the program asks for FI_ATOMIC, which FI_TAGRV_ATOMICS=device has "
		     "from an RDMA device with atomics and shared receive queues only, and for "
		     "programs whose mr_mode has FI_MR_ALLOCATED");
	return false;
}

/* Whether the program can do with FI_MR_ALLOCATED, without which devices access no region. */
static bool has_allocated(const struct fi_info *hints)
{
	return hints && hints->domain_attr &&
	       tagrv_info_full_mr_mode(hints->domain_attr->mr_mode) & FI_MR_ALLOCATED;
}

bool tagrv_info_has_atomics(const struct tagrv_ask *ask, const struct tagrv_device_desc *desc)
{
	return !tagrv_param_atomics_by_device(&ask->params) ||
	       (desc->atomics && has_allocated(ask->hints));
}

bool tagrv_info_match_tags(const struct tagrv_ask *ask, const struct tagrv_device_desc *desc)
{
	const struct fi_ep_attr *ep = ask->hints ? ask->hints->ep_attr : NULL;

	if (!ep || !(ep->mem_tag_format & ~TAGRV_DEVICE_TAG_MASK) ||
	    !tagrv_info_has_short_tags(ask, desc))
		return true;
	refuse_param(ask, "the program asks for tags of more than the 48 bits that "
		     "FI_TAGRV_HW_TAGS leaves (ep_attr->mem_tag_format)");
	return false;
}

bool tagrv_info_has_short_tags(const struct tagrv_ask *ask, const struct tagrv_device_desc *desc)
{
	return ask->params.hw_tags && !tagrv_info_is_local(desc->name);
}

/*
 * May this device be offered to hints with FI_REMOTE_COMM? MPI libraries ask
 * for it wherever their ranks are: a user who names shm in FI_TAGRV_DEVICES, or
 * allows no other transport, vouches that all ranks are on this host.
 */
static bool serves_remote(const struct tagrv_ask *ask, const char *name)
{
	return !tagrv_info_is_local(name) ||
	       (!strcmp(name, TAGRV_SHM_NAME) &&
		(ask->params.devices[0] ||
		 !strcmp(ask->params.transports, TAGRV_SHM_NAME)));
}

bool tagrv_info_match_reach(const struct tagrv_ask *ask, const char *name)
{
	if (!tagrv_info_wants_remote(ask->hints) || serves_remote(ask, name))
		return true;
	refuse(ask, "FI_REMOTE_COMM from a domain that reaches only this host");
	return false;
}
