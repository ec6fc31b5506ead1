/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared receive contexts: attributes, binding, order of closing, options, and
 * calls that only an endpoint or only a context has.
 */
#include <rdma/fi_ext_tagrv.h>
#include <string.h>

#include "common/old_names.h"
#include "unit/api/api_calls.h"

#define EPS	2

static struct fid_ep *srx, *eps[EPS];
static struct fi_info *hints;

static void set_up(void)
{
	api_log_start("warn");
	api_init();
	hints = api_hints();
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	api_open_domain(&api, hints);
	api.av = api_open_av(&api);
	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	cr_assert_eq(fi_srx_context(api.domain, api.info->rx_attr, &srx, &api),
		     0);
	for (int i = 0; i < EPS; i++)
		cr_assert_eq(fi_endpoint(api.domain, api.info, &eps[i], NULL),
			     0);
}

static void tear_down(void)
{
	for (int i = 0; i < EPS; i++)
		if (eps[i])
			api_must_close(&eps[i]->fid);
	if (srx)
		api_must_close(&srx->fid);
	api_close(&api);
	fi_freeinfo(hints);
}

TestSuite(srx, .init = set_up, .fini = tear_down, .timeout = 30);

static void bind_usual(struct fid_ep *ep)
{
	cr_assert_eq(fi_ep_bind(ep, &api.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	cr_assert_eq(fi_ep_bind(ep, &api.av->fid, 0), 0);
}

static void enable(struct fid_ep *ep)
{
	bind_usual(ep);
	cr_assert_eq(fi_ep_bind(ep, &srx->fid, 0), 0);
	cr_assert_eq(fi_enable(ep), 0);
}

/* ---- attributes ---- */

Test(srx, hints_that_ask_for_one_are_met)
{
	struct fi_info *usual = api_hints(), *info = api_must_getinfo(usual);

	cr_expect_eq(api.info->ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
	cr_expect_eq(info->ep_attr->rx_ctx_cnt, 1);
	cr_expect_geq(info->domain_attr->max_ep_srx_ctx, 2);
	cr_expect_eq(info->domain_attr->max_ep_stx_ctx, 0);
	fi_freeinfo(info);
	fi_freeinfo(usual);
}

Test(srx, opens_from_offered_attributes)
{
	struct fi_rx_attr attr = *api.info->rx_attr;
	struct fid_ep *other;

	cr_expect_eq(srx->fid.fclass, FI_CLASS_SRX_CTX);
	cr_expect_eq(srx->fid.context, &api);
	attr.caps = FI_RECV | FI_COLLECTIVE;
	REFUSED(fi_srx_context(api.domain, &attr, &other, NULL), -FI_EINVAL,
		"caps");
	attr = *api.info->rx_attr;
	attr.op_flags = FI_DELIVERY_COMPLETE;
	REFUSED(fi_srx_context(api.domain, &attr, &other, NULL), -FI_EINVAL,
		"op_flags");
	attr = *api.info->rx_attr;
	attr.msg_order = FI_ORDER_RAS;
	REFUSED(fi_srx_context(api.domain, &attr, &other, NULL), -FI_EINVAL,
		"msg_order");
	attr = *api.info->rx_attr;
	attr.comp_order = OLD_ORDER_STRICT;
	REFUSED(fi_srx_context(api.domain, &attr, &other, NULL), -FI_EINVAL,
		"comp_order");
	attr = *api.info->rx_attr;
	attr.size = SIZE_MAX;
	REFUSED(fi_srx_context(api.domain, &attr, &other, NULL), -FI_EINVAL,
		"FI_TAGRV_MAX_RECVS");
	attr = *api.info->rx_attr;
	attr.iov_limit = TAGRV_IOV_MAX + 1;
	REFUSED(fi_srx_context(api.domain, &attr, &other, NULL), -FI_EINVAL,
		"iov_limit");
	cr_assert_eq(fi_srx_context(api.domain, NULL, &other, NULL), 0);
	api_must_close(&other->fid);
}

Test(srx, nobody_sends_from_a_shared_context)
{
	struct fid_stx *stx;
	struct fid_ep *ep;
	char byte = 0;

	REFUSED(fi_send(srx, &byte, 1, NULL, 0, NULL), -FI_ENOSYS, "send");
	REFUSED(fi_tinject(srx, &byte, 1, 0, 0), -FI_ENOSYS, "send");
	cr_expect_eq(fi_stx_context(api.domain, NULL, &stx, NULL), -FI_ENOSYS);
	api.info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	REFUSED(fi_endpoint(api.domain, api.info, &ep, NULL), -FI_EINVAL,
		"transmit");
}

/* ---- binding ---- */

Test(srx, an_endpoint_that_shares_needs_a_context)
{
	bind_usual(eps[0]);
	REFUSED(fi_enable(eps[0]), -FI_EINVAL, "no shared receive context");
	cr_expect_eq(fi_ep_bind(eps[0], &srx->fid, 0), 0);
	REFUSED(fi_ep_bind(eps[0], &srx->fid, 0), -FI_EINVAL, "already");
	cr_expect_eq(fi_enable(eps[0]), 0);
	REFUSED(fi_ep_bind(eps[0], &srx->fid, 0), -FI_EOPBADSTATE, "enabled");
}

Test(srx, wrong_bindings_are_refused)
{
	struct fi_rx_attr attr = { .caps = FI_TAGGED | FI_RECV };
	struct fid_ep *plain, *tagged;
	struct api other;

	REFUSED(fi_ep_bind(eps[0], &srx->fid, FI_RECV), -FI_EBADFLAGS, "flags");
	api.info->ep_attr->rx_ctx_cnt = 1;
	cr_assert_eq(fi_endpoint(api.domain, api.info, &plain, NULL), 0);
	REFUSED(fi_ep_bind(plain, &srx->fid, 0), -FI_EINVAL,
		"FI_SHARED_CONTEXT");
	api_must_close(&plain->fid);
	cr_assert_eq(fi_srx_context(api.domain, &attr, &tagged, NULL), 0);
	REFUSED(fi_ep_bind(eps[0], &tagged->fid, 0), -FI_EINVAL,
		"capabilities");
	api_must_close(&tagged->fid);
	api_open_domain(&other, hints);
	cr_assert_eq(fi_srx_context(other.domain, NULL, &tagged, NULL), 0);
	REFUSED(fi_ep_bind(eps[0], &tagged->fid, 0), -FI_EINVAL,
		"another domain");
	api_must_close(&tagged->fid);
	api_close(&other);
}

Test(srx, only_receive_capabilities_must_agree)
{
	struct fid_ep *tagged, *ep;

	api.info->rx_attr->caps = FI_TAGGED | FI_RECV;
	cr_assert_eq(fi_srx_context(api.domain, api.info->rx_attr, &tagged,
				    NULL), 0);
	cr_assert_eq(fi_endpoint(api.domain, api.info, &ep, NULL), 0);
	cr_expect_eq(fi_ep_bind(ep, &tagged->fid, 0), 0);
	api_must_close(&ep->fid);
	api_must_close(&tagged->fid);
}

Test(srx, its_endpoints_have_one_address_vector)
{
	struct fid_av *av = api_open_av(&api);

	enable(eps[0]);
	cr_assert_eq(fi_ep_bind(eps[1], &api.cq->fid, FI_TRANSMIT | FI_RECV),
		     0);
	cr_assert_eq(fi_ep_bind(eps[1], &av->fid, 0), 0);
	cr_assert_eq(fi_ep_bind(eps[1], &srx->fid, 0), 0);
	REFUSED(fi_enable(eps[1]), -FI_EINVAL, "one address vector");
	api_must_close(&eps[0]->fid);
	eps[0] = NULL;
	cr_expect_eq(fi_enable(eps[1]), 0, "no endpoint uses the other vector now");
	api_must_close(&eps[1]->fid);
	eps[1] = NULL;
	api_must_close(&av->fid);
}

Test(srx, queues_and_counters_are_bound_to_the_context)
{
	struct fid_cntr *cntr;
	struct api other;

	cr_assert_eq(fi_cntr_open(api.domain, NULL, &cntr, NULL), 0);
	REFUSED(fi_ep_bind(srx, &api.cq->fid, FI_RECV | FI_TRANSMIT),
		-FI_EBADFLAGS, "FI_RECV alone");
	REFUSED(fi_ep_bind(srx, &cntr->fid, FI_SEND), -FI_EBADFLAGS,
		"FI_RECV alone");
	REFUSED(fi_ep_bind(srx, &api.av->fid, 0), -FI_EINVAL, "cannot be bound");
	api_open_domain(&other, hints);
	other.cq = api_open_cq(&other, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	REFUSED(fi_ep_bind(srx, &other.cq->fid, FI_RECV), -FI_EINVAL,
		"another domain");
	api_close(&other);
	cr_expect_eq(fi_ep_bind(srx, &api.cq->fid, FI_RECV), 0);
	cr_expect_eq(fi_ep_bind(srx, &cntr->fid, FI_RECV), 0);
	REFUSED(fi_ep_bind(srx, &api.cq->fid, FI_RECV), -FI_EINVAL, "already");
	REFUSED(fi_ep_bind(srx, &cntr->fid, FI_RECV), -FI_EINVAL, "already");
	cr_expect_eq(fi_close(&cntr->fid), -FI_EBUSY);
	cr_expect_eq(fi_close(&api.cq->fid), -FI_EBUSY);
	api_must_close(&srx->fid);
	srx = NULL;
	api_must_close(&cntr->fid);
}

Test(srx, it_is_closed_last)
{
	struct fid_ep *alias;
	char byte;

	cr_assert_eq(fi_recv(srx, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	enable(eps[0]);
	enable(eps[1]);
	cr_assert_eq(fi_ep_alias(eps[0], &alias, 0), 0);
	for (int i = 0; i < EPS; i++) {
		REFUSED(fi_close(&srx->fid), -FI_EBUSY, "endpoints");
		if (!i)
			api_must_close(&alias->fid);
		api_must_close(&eps[i]->fid);
		eps[i] = NULL;
	}
	api_must_close(&api.av->fid);
	api.av = NULL;
	api_must_close(&srx->fid);
	srx = NULL;
}

/* ---- receives ---- */

static struct fi_cq_tagged_entry wait_one(int err)
{
	struct fi_cq_tagged_entry entry = { 0 };
	struct fi_cq_err_entry error = { 0 };
	ssize_t ret;

	cr_assert(api_wait(&api, &entry, &ret));
	cr_assert_eq(ret, err ? -FI_EAVAIL : 1);
	if (err) {
		cr_assert_eq(fi_cq_readerr(api.cq, &error, 0), 1);
		cr_assert_eq(error.err, err);
		entry.op_context = error.op_context;
	}
	return entry;
}

/* Sends to the endpoint itself; returns the context of the receive. */
static void *send_to_self(struct fid_ep *ep, bool tagged)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t self;
	char name[64];
	size_t len = sizeof(name);
	ssize_t ret;

	cr_assert_eq(fi_getname(&ep->fid, name, &len), 0);
	cr_assert_eq(fi_av_insert(api.av, name, 1, &self, 0, NULL), 1);
	ret = tagged ? fi_tinject(ep, "x", 1, self, 5) :
		       fi_inject(ep, "x", 1, self);
	cr_assert_eq(ret, 0);
	entry = wait_one(0);
	cr_assert(entry.flags & FI_RECV);
	cr_assert(entry.flags & (tagged ? FI_TAGGED : FI_MSG));
	return entry.op_context;
}

Test(srx, receives_are_posted_to_the_context_only)
{
	char byte, bytes[4][1];

	/* Receives may be posted before there is an endpoint. */
	cr_assert_eq(fi_trecv(srx, bytes[0], 1, NULL, FI_ADDR_UNSPEC, 5, 0,
			      &bytes[0]), 0);
	enable(eps[0]);
	enable(eps[1]);
	api_log_lines(NULL);
	REFUSED(fi_recv(eps[0], &byte, 1, NULL, FI_ADDR_UNSPEC, NULL),
		-FI_ENOSYS, "shared context");
	REFUSED(fi_trecv(eps[0], &byte, 1, NULL, FI_ADDR_UNSPEC, 0, 0, NULL),
		-FI_ENOSYS, "shared context");
	cr_expect_eq(fi_cancel(&eps[0]->fid, &bytes[0]), -FI_ENOENT);
	cr_assert_eq(fi_trecv(srx, bytes[1], 1, NULL, FI_ADDR_UNSPEC, 5, 0,
			      &bytes[1]), 0);
	cr_assert_eq(fi_recv(srx, bytes[2], 1, NULL, FI_ADDR_UNSPEC, &bytes[2]),
		     0);
	cr_assert_eq(fi_recv(srx, bytes[3], 1, NULL, FI_ADDR_UNSPEC, &bytes[3]),
		     0);
	cr_expect_eq(send_to_self(eps[1], true), &bytes[0]);
	cr_expect_eq(send_to_self(eps[0], true), &bytes[1]);
	cr_expect_eq(send_to_self(eps[1], false), &bytes[2]);
	cr_expect_eq(fi_cancel(&srx->fid, &byte), -FI_ENOENT);
	cr_expect_eq(fi_cancel(&srx->fid, &bytes[3]), 0);
	cr_expect_eq(wait_one(FI_ECANCELED).op_context, &bytes[3]);
}

Test(srx, the_context_receives_the_kinds_in_its_caps)
{
	struct fi_rx_attr attr = { .caps = FI_TAGGED | FI_RECV };
	struct fid_ep *tagged;
	char byte;

	cr_assert_eq(fi_srx_context(api.domain, &attr, &tagged, NULL), 0);
	cr_expect_eq(fi_recv(tagged, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL),
		     -FI_ENOSYS);
	cr_expect_eq(fi_trecv(tagged, &byte, 1, NULL, 12345, 0, 0, NULL), 0,
		     "without FI_DIRECTED_RECV a source means nothing");
	api_must_close(&tagged->fid);
}

/* ---- options and flags ---- */

static size_t min_of(struct fid_ep *ep)
{
	size_t value = 0, len = sizeof(value);

	cr_expect_eq(fi_getopt(&ep->fid, FI_OPT_ENDPOINT,
			       FI_OPT_MIN_MULTI_RECV, &value, &len), 0);
	return value;
}

Test(srx, min_multi_recv_is_set_at_the_context)
{
	size_t value = 100;

	cr_expect_eq(min_of(srx), 64);
	cr_expect_eq(fi_setopt(&srx->fid, FI_OPT_ENDPOINT,
			       FI_OPT_MIN_MULTI_RECV, &value, sizeof(value)), 0);
	cr_expect_eq(min_of(srx), 100);
	cr_expect_eq(fi_setopt(&eps[0]->fid, FI_OPT_ENDPOINT,
			       FI_OPT_MIN_MULTI_RECV, &value, sizeof(value)),
		     -FI_EOPNOTSUPP);
	enable(eps[0]);
	cr_expect_eq(min_of(eps[0]), 100);
}

Test(srx, default_flags_are_those_of_receives)
{
	uint64_t flags = FI_RECV | FI_COMPLETION;

	cr_expect_eq(fi_enable(srx), 0, "it is ready anyway");
	cr_expect_eq(fi_control(&srx->fid, FI_SETOPSFLAG, &flags), 0);
	flags = FI_RECV;
	cr_expect_eq(fi_control(&srx->fid, FI_GETOPSFLAG, &flags), 0);
	cr_expect_eq(flags, FI_COMPLETION);
	flags = FI_TRANSMIT;
	cr_expect_eq(fi_control(&srx->fid, FI_GETOPSFLAG, &flags), -FI_EINVAL);
	cr_expect_eq(fi_control(&srx->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	cr_expect_eq(fi_control(&srx->fid, FI_BACKLOG, &flags), -FI_ENOSYS);
}

Test(srx, statistics_are_those_of_the_context)
{
	struct fi_tagrv_match_stats stats;
	struct fi_tagrv_ops_match *ops;
	size_t len = sizeof(stats);
	void *proto;
	char byte;

	cr_assert_eq(fi_open_ops(&srx->fid, TAGRV_EP_MATCH_OPS, 0,
				 (void **) &ops, NULL), 0);
	cr_expect_eq(fi_open_ops(&srx->fid, TAGRV_EP_PROTO_OPS, 0, &proto,
				 NULL), -FI_ENOSYS);
	cr_assert_eq(fi_recv(srx, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	cr_expect_eq(ops->get_stats(srx, &stats, &len), 0);
	cr_expect_eq(stats.posted, 1);
	cr_expect_eq(ops->get_stats(eps[0], &stats, &len), -FI_EOPBADSTATE);
	enable(eps[0]);
	cr_expect_eq(ops->get_stats(eps[0], &stats, &len), 0);
	cr_expect_eq(stats.posted, 1);
}
