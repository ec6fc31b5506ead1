/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_domain: one device, and the parent of all objects opened on it.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info.h"
#include "api/objects_priv.h"
#include "core/log.h"

static int domain_close(struct fid *fid)
{
	struct tagrv_domain *domain = tagrv_container_of(fid,
			struct tagrv_domain, domain.fid);
	int ret;

	ret = tagrv_ref_check(&domain->refs, "domain",
			      "endpoints, shared contexts, queues, counters, "
			      "address vectors and memory regions");
	if (ret)
		return ret;
	tagrv_dom_stop(domain->dom);
	tagrv_dom_close(domain->dom);
	tagrv_ref_put(&domain->fabric->refs);
	tagrv_auth_key_wipe(&domain->key);
	free(domain);
	return 0;
}

/* Accepts an event queue, but keeps no reference: no call reports to it. */
static int domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void) fid;
	if (bfid->fclass != FI_CLASS_EQ)
		return tagrv_refuse(-FI_EINVAL, "fi_domain_bind: only an event "
				    "queue can be bound");
	if (flags)
		return tagrv_refuse(-FI_EBADFLAGS, "fi_domain_bind: flags "
				    "0x%llx are not supported",
				    (unsigned long long) flags);
	return 0;
}

/* The other half of FI_GET_RAW_MR: mr_bind.c. */
static int map_raw(const struct fi_mr_map_raw *map)
{
	uint64_t key;

	if (map->key_size != sizeof(key))
		return tagrv_refuse(-FI_EINVAL, "fi_mr_map_raw: keys have 8 bytes, not %zu",
				    map->key_size);
	memcpy(&key, map->raw_key, sizeof(key));
	*map->key = le64toh(key);
	return 0;
}

static int domain_control(struct fid *fid, int command, void *arg)
{
	switch (command) {
	case FI_MAP_RAW_MR:
		return map_raw(arg);
	case FI_UNMAP_KEY:
		return 0;	/* nothing is kept for it */
	default:
		return tagrv_nosys_control(fid, command, arg);
	}
}

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = domain_control,
	.ops_open = tagrv_nosys_ops_open,
	.tostr = tagrv_nosys_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = tagrv_av_open,
	.cq_open = tagrv_cq_open,
	.endpoint = tagrv_ep_open,
	.scalable_ep = tagrv_nosys_scalable_ep,
	.cntr_open = tagrv_cntr_open,
	.poll_open = tagrv_nosys_poll_open,
	.stx_ctx = tagrv_nosys_stx_ctx,
	.srx_ctx = tagrv_srx_open,
	.query_atomic = tagrv_query_atomic,
	.query_collective = tagrv_nosys_query_collective,
	.endpoint2 = tagrv_nosys_endpoint2,
};

bool tagrv_domain_is_ours(const struct fid_domain *domain)
{
	return domain->fid.fclass == FI_CLASS_DOMAIN &&
	       domain->fid.ops == &fid_ops;
}

static int open_dom(struct tagrv_domain *domain,
		    const struct fi_domain_attr *attr)
{
	/*
	 * Only FI_THREAD_DOMAIN allows going without the lock. With
	 * FI_THREAD_COMPLETION two threads may read two queues at once, and
	 * both queues may belong to one engine.
	 */
	const struct tagrv_dom_attr dom_attr = {
		.name = domain->name,
		.serialized = attr->threading == FI_THREAD_DOMAIN,
		.auto_progress = attr->data_progress == FI_PROGRESS_AUTO ||
				 attr->control_progress == FI_PROGRESS_AUTO,
		.allocated = domain->mr_mode & FI_MR_ALLOCATED,
	};

	int ret = tagrv_dom_open(&dom_attr, &domain->dom);

	if (ret)
		return ret;
	ret = tagrv_dom_start(domain->dom);
	if (ret)
		tagrv_dom_close(domain->dom);
	return ret;
}

static int check_format(uint32_t format)
{
	switch (format) {
	case FI_FORMAT_UNSPEC:
	case FI_SOCKADDR:
	case FI_SOCKADDR_IN:
	case FI_SOCKADDR_IN6:
		return 0;
	default:
		tagrv_warn("fi_domain: address format %u is not FI_SOCKADDR, "
			   "FI_SOCKADDR_IN or FI_SOCKADDR_IN6\n",
			   format);
		return -FI_EINVAL;
	}
}

static void init_domain(struct tagrv_domain *domain, struct fid_fabric *fabric,
			const struct fi_info *info, void *context)
{
	domain->domain.fid.fclass = FI_CLASS_DOMAIN;
	domain->domain.fid.context = context;
	domain->domain.fid.ops = &fid_ops;
	domain->domain.ops = &domain_ops;
	domain->domain.mr = &tagrv_mr_ops;
	domain->fabric = tagrv_container_of(fabric, struct tagrv_fabric,
					    fabric);
	domain->api_version = fabric->api_version;
	domain->addr_format = info->addr_format ? info->addr_format :
						  FI_SOCKADDR_IN;
	domain->mr_mode = tagrv_info_full_mr_mode(info->domain_attr->mr_mode);
	snprintf(domain->name, sizeof(domain->name), "%s",
		 info->domain_attr->name);
}

int tagrv_key_take(struct tagrv_auth_key *key, const uint8_t *bytes, size_t len,
		   const char *call)
{
	if (!bytes || tagrv_auth_key_make(key, bytes, len))
		return tagrv_refuse(-FI_EINVAL, "%s: an auth_key has %d to %d "
				    "bytes; keys of an address vector "
				    "(FI_AV_AUTH_KEY) are not supported", call,
				    TAGRV_AUTH_SECRET_MIN,
				    TAGRV_AUTH_SECRET_MAX);
	return 0;
}

/* The application's key, or the one that the environment gives. */
static int choose_key(struct tagrv_domain *domain,
		      const struct fi_domain_attr *attr)
{
	if (!attr->auth_key_size)
		return tagrv_auth_key_find(&domain->key);
	return tagrv_key_take(&domain->key, attr->auth_key, attr->auth_key_size,
			      "fi_domain");
}

int tagrv_domain_open(struct fid_fabric *fabric, struct fi_info *info,
		      struct fid_domain **domain, void *context)
{
	struct tagrv_domain *self;
	int ret;

	if (!info || !info->domain_attr || !info->domain_attr->name)
		return -FI_EINVAL;
	ret = check_format(info->addr_format);
	if (ret)
		return ret;
	self = calloc(1, sizeof(*self));
	if (!self)
		return -FI_ENOMEM;
	init_domain(self, fabric, info, context);
	ret = choose_key(self, info->domain_attr);
	if (!ret)
		ret = open_dom(self, info->domain_attr);
	if (ret) {
		tagrv_auth_key_wipe(&self->key);
		free(self);
		return ret;
	}
	tagrv_ref_get(&self->fabric->refs);
	*domain = &self->domain;
	return 0;
}
