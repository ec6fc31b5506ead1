/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fabric and domain: names, references, the lock, fi_trywait.
 */
#include <stdlib.h>
#include <string.h>

#include "common/old_names.h"
#include "unit/api/api_fixture.h"

TestSuite(fabric, .init = api_init, .timeout = 20);

Test(fabric, only_its_own_name_opens_it)
{
	char name[] = "tagrv";
	struct fi_fabric_attr attr = { .name = name, .api_version = 0x10009 };
	struct fid_fabric *fabric;

	cr_assert_eq(tagrv_fabric_open(&attr, &fabric, &attr), 0);
	cr_expect_eq(fabric->fid.context, &attr);
	cr_expect_eq(fabric->api_version, 0x10009);
	cr_expect(tagrv_fabric_is_ours(fabric));
	api_must_close(&fabric->fid);
	name[0] = 'x';
	cr_expect_eq(tagrv_fabric_open(&attr, &fabric, NULL), -FI_EINVAL);
	attr.name = NULL;
	cr_expect_eq(tagrv_fabric_open(&attr, &fabric, NULL), -FI_EINVAL);
}

Test(fabric, objects_in_use_stay_open)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fid_eq *eq;
	struct api api;

	api_open_ep(&api, NULL, 0);
	cr_expect_eq(fi_close(&api.fabric->fid), -FI_EBUSY);
	cr_expect_eq(fi_close(&api.domain->fid), -FI_EBUSY);
	cr_expect_eq(fi_close(&api.cq->fid), -FI_EBUSY);
	cr_expect_eq(fi_close(&api.av->fid), -FI_EBUSY);
	cr_assert_eq(fi_eq_open(api.fabric, &attr, &eq, NULL), 0);
	api_close(&(struct api) { .ep = api.ep, .cq = api.cq, .av = api.av,
				  .domain = api.domain, .info = api.info });
	cr_expect_eq(fi_close(&api.fabric->fid), -FI_EBUSY);
	api_must_close(&eq->fid);
	api_must_close(&api.fabric->fid);
}

Test(fabric, two_domains_from_one_info)
{
	struct fid_domain *second;
	struct api api;

	api_open_domain(&api, NULL);
	cr_assert_eq(fi_domain(api.fabric, api.info, &second, NULL), 0);
	cr_expect(tagrv_domain_is_ours(second));
	api_must_close(&second->fid);
	api_close(&api);
}

Test(fabric, a_domain_needs_a_known_device_and_format)
{
	struct fid_domain *domain;
	struct api api;

	api_open_domain(&api, NULL);
	api.info->addr_format = FI_ADDR_STR;
	cr_expect_eq(fi_domain(api.fabric, api.info, &domain, NULL),
		     -FI_EINVAL);
	api.info->addr_format = FI_SOCKADDR_IN;
	strcpy(api.info->domain_attr->name, "xoop");
	cr_expect_eq(fi_domain(api.fabric, api.info, &domain, NULL),
		     -FI_ENODEV);
	free(api.info->domain_attr->name);
	api.info->domain_attr->name = NULL;
	cr_expect_eq(fi_domain(api.fabric, api.info, &domain, NULL),
		     -FI_EINVAL);
	api_close(&api);
}

Test(fabric, only_thread_domain_needs_no_lock)
{
	struct fi_info *hints = api_hints();

	for (int i = FI_THREAD_SAFE; i <= FI_THREAD_ENDPOINT; i++) {
		struct tagrv_domain *domain;
		struct api api;

		hints->domain_attr->threading = (enum fi_threading) i;
		api_open_domain(&api, hints);
		domain = tagrv_container_of(api.domain, struct tagrv_domain,
					    domain);
		cr_expect_eq(domain->dom->lock.on, i != FI_THREAD_DOMAIN);
		api_close(&api);
	}
	fi_freeinfo(hints);
}

Test(fabric, trywait_is_for_queues_and_counters)
{
	struct fid *fids[1];
	struct api api;

	api_open_domain(&api, NULL);
	api.cq = api_open_cq(&api, FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE);
	fids[0] = &api.domain->fid;
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), -FI_EINVAL);
	fids[0] = &api.cq->fid;
	cr_expect_eq(fi_trywait(api.fabric, fids, 1), -FI_EINVAL);
	cr_expect_eq(fi_trywait(api.fabric, fids, 0), 0);
	api_close(&api);
}

Test(fabric, an_event_queue_may_be_bound_to_a_domain)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fid_eq *eq;
	struct api api;

	api_open_domain(&api, NULL);
	cr_assert_eq(fi_eq_open(api.fabric, &attr, &eq, NULL), 0);
	cr_expect_eq(fi_domain_bind(api.domain, &eq->fid, 0), 0);
	cr_expect_eq(fi_domain_bind(api.domain, &eq->fid, OLD_REG_MR),
		     -FI_EBADFLAGS);
	cr_expect_eq(fi_domain_bind(api.domain, &api.fabric->fid, 0),
		     -FI_EINVAL);
	api_must_close(&eq->fid);
	api_close(&api);
}
