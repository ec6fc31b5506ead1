/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory regions: what is bound to them, and from when on peers may access them.
 */
#include "unit/api/api_calls.h"

static char buf[10];
static struct fid_mr *mr;
static struct fid_cntr *cntr;

static void open_domain(int mr_mode)
{
	struct fi_info *hints = api_hints();

	api.info = api_must_getinfo(hints);
	fi_freeinfo(hints);
	api.info->domain_attr->mr_mode = mr_mode;
	cr_assert_eq(tagrv_fabric_open(api.info->fabric_attr, &api.fabric, NULL),
		     0);
	cr_assert_eq(fi_domain(api.fabric, api.info, &api.domain, NULL), 0);
	api.av = api_open_av(&api);
	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	cr_assert_eq(fi_endpoint(api.domain, api.info, &api.ep, NULL), 0);
	cr_assert_eq(fi_cntr_open(api.domain, NULL, &cntr, NULL), 0);
}

static void open_region(int mr_mode, uint64_t flags)
{
	open_domain(mr_mode);
	cr_assert_eq(fi_mr_reg(api.domain, buf, 10, FI_REMOTE_READ |
			       FI_REMOTE_WRITE, 0, 1, flags, &mr, NULL), 0);
}

static void enable_ep(void)
{
	cr_assert_eq(fi_ep_bind(api.ep, &api.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	cr_assert_eq(fi_ep_bind(api.ep, &api.av->fid, 0), 0);
	cr_assert_eq(fi_enable(api.ep), 0);
}

static void tear_down(void)
{
	if (mr)
		api_must_close(&mr->fid);
	if (api.ep)
		api_must_close(&api.ep->fid);
	api.ep = NULL;
	if (cntr)
		api_must_close(&cntr->fid);
	api_close(&api);
}

TestSuite(mr_bind, .init = api_init, .fini = tear_down, .timeout = 20);

static struct tagrv_window *window(const struct tagrv_engine *engine)
{
	struct tagrv_dom *dom = tagrv_container_of(api.domain, struct tagrv_domain,
						   domain)->dom;
	struct tagrv_window *found;
	size_t offset;

	tagrv_dom_lock(dom);
	found = tagrv_window_find(dom, engine, fi_mr_key(mr), 0, 10,
				  FI_REMOTE_WRITE, &offset);
	tagrv_lock_release(&dom->lock);
	return found;
}

static const struct tagrv_engine *engine_of_ep(void)
{
	return tagrv_container_of(api.ep, struct tagrv_ep, ep)->engine;
}

static struct tagrv_counter *counter(void)
{
	return &tagrv_container_of(cntr, struct tagrv_cntr, cntr)->counter;
}

/* The calls are for longer keys, but may be made with any. */
static void expect_raw(int mr_mode, uint64_t base)
{
	uint64_t at = 1, key = 0;
	uint8_t raw[9] = { 0 };
	size_t len = 7;

	open_region(mr_mode, 0);
	cr_expect_eq(fi_mr_raw_attr(mr, &at, raw, &len, 0), -FI_ETOOSMALL);
	cr_expect_eq(len, 8);
	len = 9;
	cr_expect_eq(fi_mr_raw_attr(mr, &at, raw, &len, 0), 0);
	cr_expect_eq(len, 8);
	cr_expect_eq(at, base);
	cr_expect_eq(fi_mr_map_raw(api.domain, at, raw, len, &key, 0), 0);
	cr_expect_eq(key, fi_mr_key(mr));
	cr_expect_eq(fi_mr_unmap_key(api.domain, key), 0);
	cr_expect_eq(fi_mr_map_raw(api.domain, at, raw, 9, &key, 0), -FI_EINVAL);
}

Test(mr_bind, a_raw_key_is_the_key)
{
	expect_raw(0, 0);
}

Test(mr_bind, a_raw_key_comes_with_the_address)
{
	expect_raw(FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED, (uintptr_t) buf);
}

Test(mr_bind, a_region_without_modes_is_open_at_once)
{
	open_region(0, FI_RMA_EVENT);
	cr_expect_not_null(window(NULL));
	cr_expect_eq(fi_mr_enable(mr), 0);
	cr_expect_not_null(window(NULL));
}

Test(mr_bind, a_region_of_an_endpoint_opens_when_both_are_enabled)
{
	open_region(FI_MR_ENDPOINT, 0);
	cr_expect_eq(fi_mr_enable(mr), -FI_EINVAL, "no endpoint is bound");
	cr_expect_eq(fi_mr_bind(mr, &api.ep->fid, 0), 0);
	cr_expect_eq(fi_mr_enable(mr), 0);
	cr_expect_null(window(engine_of_ep()), "the endpoint is not enabled");
	enable_ep();
	cr_expect_not_null(window(engine_of_ep()));
	cr_expect_null(window(NULL), "not through other endpoints");
	cr_expect_eq(fi_mr_enable(mr), 0);
	cr_expect_eq(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE),
		     -FI_EOPBADSTATE);
}

Test(mr_bind, an_enabled_endpoint_waits_for_the_region)
{
	open_region(FI_MR_ENDPOINT, 0);
	enable_ep();
	cr_expect_eq(fi_mr_bind(mr, &api.ep->fid, FI_REMOTE_WRITE), 0);
	cr_expect_null(window(engine_of_ep()));
	cr_expect_eq(fi_mr_enable(mr), 0);
	cr_expect_not_null(window(engine_of_ep()));
}

/* As long as the endpoint has no alias, which would not know of the counter. */
Test(mr_bind, counters_may_be_bound_to_an_endpoint_that_has_regions)
{
	struct fid_ep *alias;

	open_region(FI_MR_ENDPOINT, 0);
	enable_ep();
	cr_assert_eq(fi_mr_bind(mr, &api.ep->fid, 0), 0);
	cr_assert_eq(fi_ep_alias(api.ep, &alias, 0), 0);
	cr_expect_eq(fi_ep_bind(api.ep, &cntr->fid, FI_REMOTE_WRITE), -FI_EOPBADSTATE);
	api_must_close(&alias->fid);
	cr_expect_eq(fi_ep_bind(api.ep, &cntr->fid, FI_REMOTE_WRITE), 0);
}

Test(mr_bind, a_region_with_events_opens_by_enable)
{
	open_region(FI_MR_RMA_EVENT, FI_RMA_EVENT);
	cr_expect_null(window(NULL));
	cr_expect_eq(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), 0);
	cr_expect_null(window(NULL));
	cr_expect_eq(fi_mr_enable(mr), 0);
	cr_assert_not_null(window(NULL));
	cr_expect_eq(window(NULL)->write_cntr, counter());
	cr_expect_null(window(NULL)->read_cntr);
}

Test(mr_bind, a_region_without_events_is_open_at_once)
{
	open_region(FI_MR_RMA_EVENT, 0);
	cr_expect_not_null(window(NULL));
}

Test(mr_bind, counters_are_bound_by_kind_of_access)
{
	open_region(0, 0);
	cr_expect_eq(fi_mr_bind(mr, &cntr->fid, 0), -FI_EBADFLAGS);
	cr_expect_eq(fi_mr_bind(mr, &cntr->fid, FI_SEND), -FI_EBADFLAGS);
	cr_expect_eq(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_READ), 0);
	cr_expect_eq(window(NULL)->read_cntr, counter());
	cr_expect_null(window(NULL)->write_cntr);
	cr_expect_eq(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_READ | FI_REMOTE_WRITE),
		     -FI_EINVAL);
	cr_expect_eq(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), 0);
	cr_expect_eq(window(NULL)->write_cntr, counter());
}

Test(mr_bind, what_is_bound_stays_open)
{
	open_region(0, 0);
	cr_expect_eq(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_READ | FI_REMOTE_WRITE),
		     0);
	cr_expect_eq(fi_mr_bind(mr, &api.ep->fid, 0), 0);
	cr_expect_eq(fi_mr_bind(mr, &api.ep->fid, 0), -FI_EINVAL);
	cr_expect_eq(fi_close(&cntr->fid), -FI_EBUSY);
	cr_expect_eq(fi_close(&api.ep->fid), -FI_EBUSY);
	enable_ep();
	cr_expect_eq(fi_close(&api.ep->fid), -FI_EBUSY);
	api_must_close(&mr->fid);
	mr = NULL;
	api_must_close(&cntr->fid);
	cntr = NULL;
	api_must_close(&api.ep->fid);
	api.ep = NULL;
}

/* The alias may be closed before the region. */
Test(mr_bind, an_alias_stands_for_its_endpoint)
{
	struct fid_ep *alias = NULL;

	open_region(0, 0);
	enable_ep();
	cr_assert_eq(fi_ep_alias(api.ep, &alias, 0), 0);
	cr_expect_eq(fi_mr_bind(mr, &alias->fid, 0), 0);
	cr_expect_not_null(window(engine_of_ep()));
	api_must_close(&alias->fid);
	cr_expect_eq(fi_close(&api.ep->fid), -FI_EBUSY);
}

Test(mr_bind, foreign_objects_are_refused)
{
	struct fid_cntr *foreign;
	struct api other;

	open_region(0, 0);
	api_open_ep(&other, NULL, 0);
	cr_assert_eq(fi_cntr_open(other.domain, NULL, &foreign, NULL), 0);
	cr_expect_eq(fi_mr_bind(mr, &foreign->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	cr_expect_eq(fi_mr_bind(mr, &other.ep->fid, 0), -FI_EINVAL);
	api_must_close(&foreign->fid);
	api_close(&other);
	cr_expect_eq(fi_mr_bind(mr, &api.domain->fid, 0), -FI_EINVAL);
	cr_expect_eq(fi_mr_bind(mr, &api.ep->fid, FI_SEND), -FI_EBADFLAGS);
	cr_expect_not_null(window(NULL));
}
