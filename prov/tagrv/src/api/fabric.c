/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_fabric, which only has a name because peers are found by address;
 * fi_getinfo, fi_trywait.
 */
#include <stdlib.h>
#include <string.h>

#include "api/info/info.h"
#include "api/objects_priv.h"

static int fabric_close(struct fid *fid)
{
	struct tagrv_fabric *fabric = tagrv_container_of(fid,
			struct tagrv_fabric, fabric.fid);
	int ret;

	ret = tagrv_ref_check(&fabric->refs, "fabric",
			      "domains and event queues");
	if (!ret)
		free(fabric);
	return ret;
}

static int trywait_one(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return tagrv_cq_trywait(tagrv_container_of(fid,
				struct tagrv_cq, cq.fid));
	case FI_CLASS_CNTR:
		return tagrv_cntr_trywait(tagrv_container_of(fid,
				struct tagrv_cntr, cntr.fid));
	case FI_CLASS_EQ:
		return tagrv_eq_trywait(tagrv_container_of(fid,
				struct tagrv_eq, eq.fid));
	default:
		return -FI_EINVAL;
	}
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids,
			  int count)
{
	int ret;

	(void) fabric;
	for (int i = 0; i < count; i++) {
		ret = trywait_one(fids[i]);
		if (ret)
			return ret;
	}
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = tagrv_nosys_bind,
	.control = tagrv_nosys_control,
	.ops_open = tagrv_nosys_ops_open,
	.tostr = tagrv_nosys_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = tagrv_domain_open,
	.passive_ep = tagrv_nosys_passive_ep,
	.eq_open = tagrv_eq_open,
	.wait_open = tagrv_nosys_wait_open,
	.trywait = fabric_trywait,
	.domain2 = tagrv_nosys_domain2,
};

bool tagrv_fabric_is_ours(const struct fid_fabric *fabric)
{
	return fabric->fid.fclass == FI_CLASS_FABRIC &&
	       fabric->fid.ops == &fid_ops;
}

/* Looks up the open objects that the hints name. */
static void find_objects(const struct fi_info *hints,
			 struct tagrv_info_objects *objects)
{
	const struct fi_fabric_attr *fabric = hints->fabric_attr;
	const struct fi_domain_attr *domain = hints->domain_attr;

	if (fabric && fabric->fabric)
		objects->foreign_fabric = !tagrv_fabric_is_ours(fabric->fabric);
	if (!domain || !domain->domain)
		return;
	if (tagrv_domain_is_ours(domain->domain))
		objects->domain_name = tagrv_container_of(domain->domain,
				struct tagrv_domain, domain)->name;
	else
		objects->foreign_domain = true;
}

int tagrv_getinfo(uint32_t version, const char *node, const char *service,
		  uint64_t flags, const struct fi_info *hints,
		  struct fi_info **info)
{
	struct tagrv_info_objects objects = { 0 };

	if (hints)
		find_objects(hints, &objects);
	return tagrv_info_get(version, node, service, flags, hints, &objects,
			      info);
}

int tagrv_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
		      void *context)
{
	struct tagrv_fabric *self;

	if (!attr->name || strcmp(attr->name, TAGRV_FABRIC_NAME))
		return -FI_EINVAL;
	self = calloc(1, sizeof(*self));
	if (!self)
		return -FI_ENOMEM;
	self->fabric.fid.fclass = FI_CLASS_FABRIC;
	self->fabric.fid.context = context;
	self->fabric.fid.ops = &fid_ops;
	self->fabric.ops = &fabric_ops;
	self->fabric.api_version = attr->api_version;
	*fabric = &self->fabric;
	return 0;
}
