/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * bad_input.c over RDMA devices in memory (common/fake_verbs.h), of which a process may register as
 * much as its limit of locked memory says: 'ulimit -l' works without an adapter, and for root, too.
 */
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/fake_verbs.h"

#define EXPORT	__attribute__((visibility("default")))

/* The provider's own, in this program. */
struct fi_provider *fi_prov_ini(void);

static struct fi_provider *provider;

/* The library reads FI_LOG_* when a call is made that looks for providers. */
static void begin_log(void)
{
	struct fi_param *params;
	int cnt;

	if (!fi_getparams(&params, &cnt))
		fi_freeparams(params);
}

static void begin(void)
{
	struct fake_verbs_config config = fake_verbs_defaults();
	struct rlimit limit;

	begin_log();
	if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY)
		config.memlock = limit.rlim_cur;
	fake_verbs_start(&config);
	provider = fi_prov_ini();
}

/* The library's function would offer the providers that it has found itself. */
EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		      const struct fi_info *hints, struct fi_info **info)
{
	int ret;

	if (!provider)
		begin();
	ret = provider->getinfo(version, node, service, flags, hints, info);
	for (struct fi_info *i = ret ? NULL : *info; i; i = i->next)
		if (!i->fabric_attr->prov_name)
			i->fabric_attr->prov_name = strdup(provider->name);
	return ret;
}

EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	return provider->fabric(attr, fabric, context);
}
