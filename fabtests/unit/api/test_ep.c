/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints: binding, enabling, names, options, default flags, aliases.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "object/engine.h"
#include "unit/api/api_calls.h"

#define FROM_NEWER_HEADERS_MAX_MSG_SIZE		12
#define FROM_NEWER_HEADERS_MAX_ATOMIC_SIZE	15
#define FROM_NEWER_HEADERS_INJECT_RMA_SIZE	18
#define FROM_NEWER_HEADERS_SHARED_MEMORY	11

static void set_up(void)
{
	api_set_up();
	api.av = api_open_av(&api);
	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	cr_assert_eq(fi_endpoint(api.domain, api.info, &api.ep, &api), 0);
}

TestSuite(ep, .init = set_up, .fini = api_tear_down, .timeout = 30);

static int bind_to(struct fid *fid, uint64_t flags)
{
	return fi_ep_bind(api.ep, fid, flags);
}

static void enable(void)
{
	cr_assert_eq(bind_to(&api.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	cr_assert_eq(bind_to(&api.av->fid, 0), 0);
	cr_assert_eq(fi_enable(api.ep), 0);
}

/* ---- opening ---- */

Test(ep, opens_from_an_info_only)
{
	struct fid_ep *ep;

	cr_expect_eq(api.ep->fid.context, &api);
	cr_expect_eq(fi_endpoint(api.domain, NULL, &ep, NULL), -FI_EINVAL);
	api.info->ep_attr->type = FI_EP_MSG;
	cr_expect_eq(fi_endpoint(api.domain, api.info, &ep, NULL), -FI_EINVAL);
	api.info->ep_attr->type = FI_EP_RDM;
	api.info->caps |= FI_COLLECTIVE;
	cr_expect_eq(fi_endpoint(api.domain, api.info, &ep, NULL), -FI_EINVAL);
	api.info->caps &= ~FI_COLLECTIVE;
	api.info->tx_attr->msg_order = FI_ORDER_RAS;
	cr_expect_eq(fi_endpoint(api.domain, api.info, &ep, NULL), -FI_EINVAL);
	api.info->tx_attr->msg_order = 0;
	api.info->tx_attr->op_flags = FI_TRIGGER;
	cr_expect_eq(fi_endpoint(api.domain, api.info, &ep, NULL), -FI_EINVAL);
}

Test(ep, several_endpoints_open_from_one_info)
{
	struct fid_ep *ep[3];

	for (int i = 0; i < 3; i++)
		cr_assert_eq(fi_endpoint(api.domain, api.info, &ep[i], NULL),
			     0);
	for (int i = 0; i < 3; i++)
		api_must_close(&ep[i]->fid);
}

Test(ep, without_source_address_one_is_chosen)
{
	struct sockaddr_in name;
	size_t len = sizeof(name);
	struct fid_ep *ep;

	free(api.info->src_addr);
	api.info->src_addr = NULL;
	api.info->src_addrlen = 0;
	cr_assert_eq(fi_endpoint(api.domain, api.info, &ep, NULL), 0);
	cr_expect_eq(fi_getname(&ep->fid, &name, &len), 0);
	cr_expect_eq(name.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	api_must_close(&ep->fid);
}

/* ---- binding and enabling ---- */

Test(ep, each_direction_needs_a_queue)
{
	cr_assert_eq(bind_to(&api.av->fid, 0), 0);
	cr_expect_eq(fi_enable(api.ep), -FI_ENOCQ);
	cr_expect_eq(bind_to(&api.cq->fid, FI_TRANSMIT), 0);
	cr_expect_eq(fi_enable(api.ep), -FI_ENOCQ);
	cr_expect_eq(bind_to(&api.cq->fid, FI_RECV), 0);
	cr_expect_eq(fi_enable(api.ep), 0);
	cr_expect_eq(fi_enable(api.ep), -FI_EOPBADSTATE);
}

Test(ep, an_address_vector_is_needed)
{
	cr_assert_eq(bind_to(&api.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	cr_expect_eq(fi_enable(api.ep), -FI_ENOAV);
	cr_expect_eq(bind_to(&api.av->fid, 0), 0);
	cr_expect_eq(fi_enable(api.ep), 0);
	cr_expect_eq(bind_to(&api.av->fid, 0), -FI_EOPBADSTATE);
}

Test(ep, counters_may_stand_in_for_queues)
{
	struct fid_cntr *cntr;

	cr_assert_eq(fi_cntr_open(api.domain, NULL, &cntr, NULL), 0);
	cr_expect_eq(bind_to(&cntr->fid, FI_SEND | FI_WRITE | FI_READ), 0);
	cr_expect_eq(bind_to(&cntr->fid, FI_SEND), -FI_EINVAL);
	cr_expect_eq(bind_to(&cntr->fid, FI_RECV | FI_REMOTE_WRITE |
			  FI_REMOTE_READ), 0);
	cr_expect_eq(bind_to(&cntr->fid, 0), 0);
	cr_expect_eq(bind_to(&cntr->fid, FI_PEEK), -FI_EBADFLAGS);
	cr_assert_eq(bind_to(&api.av->fid, 0), 0);
	cr_expect_eq(fi_enable(api.ep), 0);
	cr_expect_eq(fi_close(&cntr->fid), -FI_EBUSY);
	api_must_close(&api.ep->fid);
	api.ep = NULL;
	api_must_close(&cntr->fid);
}

static struct tagrv_ep *self(void)
{
	return tagrv_container_of(api.ep, struct tagrv_ep, ep);
}

/* One counter for each kind of operation, found where the engine counts. */
Test(ep, the_engine_counts_what_counters_are_bound_for)
{
	static const uint64_t flags[] = {
		FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE,
	};
	struct fid_cntr *cntr[6];

	for (size_t i = 0; i < 6; i++) {
		cr_assert_eq(fi_cntr_open(api.domain, NULL, &cntr[i], NULL), 0);
		cr_expect_eq(bind_to(&cntr[i]->fid, flags[i]), 0);
		cr_expect_eq(bind_to(&cntr[i]->fid, flags[i]), -FI_EINVAL);
	}
	enable();
	for (size_t i = 0; i < 6; i++) {
		const struct tagrv_engine_sinks *sinks = &self()->engine->sinks;
		const struct tagrv_counter *const found[] = {
			sinks->tx_cntr, sinks->rx_cntr, sinks->read_cntr,
			sinks->write_cntr, sinks->remote_read_cntr,
			sinks->remote_write_cntr,
		};

		cr_expect_eq(found[i], &tagrv_container_of(
			cntr[i], struct tagrv_cntr, cntr)->counter, "%zu", i);
		cr_expect_eq(fi_close(&cntr[i]->fid), -FI_EBUSY);
	}
	api_must_close(&api.ep->fid);
	api.ep = NULL;
	for (size_t i = 0; i < 6; i++)
		api_must_close(&cntr[i]->fid);
}

/* OpenSHMEM binds counters of one-sided operations when the endpoint is enabled. */
Test(ep, one_sided_operations_may_be_counted_later)
{
	struct fid_ep *alias;
	struct fid_cntr *cntr;

	enable();
	cr_assert_eq(fi_cntr_open(api.domain, NULL, &cntr, NULL), 0);
	cr_expect_eq(bind_to(&cntr->fid, FI_SEND), -FI_EOPBADSTATE);
	cr_expect_eq(bind_to(&cntr->fid, FI_RECV | FI_READ), -FI_EOPBADSTATE);
	cr_expect_eq(bind_to(&cntr->fid, FI_REMOTE_WRITE), 0);
	cr_expect_eq(bind_to(&cntr->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	cr_expect_eq(self()->engine->sinks.remote_write_cntr,
		     &tagrv_container_of(cntr, struct tagrv_cntr, cntr)->counter);
	cr_expect_eq(self()->engine->sinks.tx_cq, &tagrv_container_of(
		     api.cq, struct tagrv_cq, cq)->queue);
	cr_assert_eq(fi_ep_alias(api.ep, &alias, 0), 0);
	cr_expect_eq(bind_to(&cntr->fid, FI_READ), -FI_EOPBADSTATE,
		     "the alias would not know of it");
	api_must_close(&alias->fid);
	cr_expect_eq(bind_to(&cntr->fid, FI_READ), 0);
	api_must_close(&api.ep->fid);
	api.ep = NULL;
	api_must_close(&cntr->fid);
}

/* What is needed by an endpoint without messages, by its capabilities. */
static void expect_needs(uint64_t caps, uint64_t cq_flags, uint64_t cntr_flags, int want)
{
	struct fi_info *info = fi_dupinfo(api.info);
	struct fid_cntr *cntr;
	struct fid_ep *ep;

	info->caps = caps;
	cr_assert_eq(fi_cntr_open(api.domain, NULL, &cntr, NULL), 0);
	cr_assert_eq(fi_endpoint(api.domain, info, &ep, NULL), 0);
	cr_assert_eq(fi_ep_bind(ep, &api.av->fid, 0), 0);
	if (cq_flags)
		cr_assert_eq(fi_ep_bind(ep, &api.cq->fid, cq_flags), 0);
	cr_assert_eq(fi_ep_bind(ep, &cntr->fid, cntr_flags), 0);
	cr_expect_eq(fi_enable(ep), want, "caps 0x%llx, flags 0x%llx, 0x%llx",
		     (unsigned long long) caps, (unsigned long long) cq_flags,
		     (unsigned long long) cntr_flags);
	api_must_close(&ep->fid);
	api_must_close(&cntr->fid);
	fi_freeinfo(info);
}

Test(ep, an_endpoint_without_messages_needs_no_queue_for_receives)
{
	expect_needs(FI_RMA, 0, 0, -FI_ENOCQ);
	expect_needs(FI_RMA, FI_RECV, 0, -FI_ENOCQ);
	expect_needs(FI_RMA, FI_TRANSMIT, 0, 0);
	expect_needs(FI_RMA, 0, FI_READ, -FI_ENOCQ);
	expect_needs(FI_RMA, 0, FI_WRITE, -FI_ENOCQ);
	expect_needs(FI_RMA, 0, FI_READ | FI_WRITE, 0);
	expect_needs(FI_ATOMIC | FI_READ, 0, FI_READ, 0);
	expect_needs(FI_RMA | FI_WRITE | FI_RECV, 0, FI_WRITE, 0);
	expect_needs(FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0);
	expect_needs(FI_MSG | FI_RMA, FI_TRANSMIT, 0, -FI_ENOCQ);
	expect_needs(FI_MSG | FI_RMA | FI_SEND, FI_TRANSMIT, 0, 0);
	expect_needs(FI_MSG | FI_RMA, FI_TRANSMIT | FI_RECV, 0, 0);
}

static void expect_serves(uint64_t caps, uint64_t order, uint64_t serves)
{
	struct fi_info *info = fi_dupinfo(api.info);
	const struct tagrv_engine_attr *attr;
	struct fid_ep *ep;

	info->caps = caps;
	info->tx_attr->msg_order = order;
	cr_assert_eq(fi_endpoint(api.domain, info, &ep, NULL), 0);
	cr_assert_eq(fi_ep_bind(ep, &api.av->fid, 0), 0);
	cr_assert_eq(fi_ep_bind(ep, &api.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	cr_assert_eq(fi_enable(ep), 0);
	attr = &tagrv_container_of(ep, struct tagrv_ep, ep)->engine->attr;
	cr_expect_eq(attr->serves, serves);
	cr_expect_eq(attr->order, order);
	api_must_close(&ep->fid);
	fi_freeinfo(info);
}

Test(ep, the_engine_knows_what_peers_may_do_and_which_order_holds)
{
	expect_serves(FI_MSG, FI_ORDER_SAS, 0);
	expect_serves(FI_MSG | FI_RMA, FI_ORDER_SAS | FI_ORDER_RAW,
		      FI_REMOTE_READ | FI_REMOTE_WRITE);
	expect_serves(FI_ATOMIC | FI_REMOTE_READ, FI_ORDER_ATOMIC_RAW,
		      FI_REMOTE_READ);
	expect_serves(FI_RMA | FI_READ | FI_WRITE, 0, 0);
}

Test(ep, wrong_bindings_are_refused)
{
	struct fid_eq *eq;
	struct api other;

	cr_expect_eq(bind_to(&api.cq->fid, 0), -FI_EBADFLAGS);
	cr_expect_eq(bind_to(&api.cq->fid, FI_TRANSMIT | FI_PEEK), -FI_EBADFLAGS);
	cr_expect_eq(bind_to(&api.cq->fid, FI_TRANSMIT), 0);
	cr_expect_eq(bind_to(&api.cq->fid, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
	cr_expect_eq(bind_to(&api.domain->fid, 0), -FI_EINVAL);
	api_open_domain(&other, NULL);
	other.cq = api_open_cq(&other, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	other.av = api_open_av(&other);
	cr_expect_eq(bind_to(&other.cq->fid, FI_RECV), -FI_EINVAL);
	cr_expect_eq(bind_to(&other.av->fid, 0), -FI_EINVAL);
	api_close(&other);
	cr_assert_eq(fi_eq_open(api.fabric, NULL, &eq, NULL), 0);
	cr_expect_eq(bind_to(&eq->fid, 0), 0);
	cr_expect_eq(fi_close(&eq->fid), -FI_EBUSY);
	api_must_close(&api.ep->fid);
	api.ep = NULL;
	api_must_close(&eq->fid);
}

Test(ep, queues_may_go_before_the_address_vector_and_after)
{
	enable();
	api_must_close(&api.ep->fid);
	api.ep = NULL;
	api_must_close(&api.cq->fid);
	api.cq = NULL;
}

/* ---- names ---- */

Test(ep, the_name_has_a_port_once_enabled)
{
	struct sockaddr_in name;
	size_t len = sizeof(name);

	cr_assert_eq(fi_getname(&api.ep->fid, &name, &len), 0);
	cr_expect_eq(name.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	cr_expect_eq(name.sin_port, 0);
	enable();
	cr_assert_eq(fi_getname(&api.ep->fid, &name, &len), 0);
	cr_expect_eq(len, sizeof(name));
	cr_expect_neq(name.sin_port, 0);
	len = 0;
	cr_expect_eq(fi_getname(&api.ep->fid, NULL, &len), -FI_ETOOSMALL);
	cr_expect_eq(len, sizeof(name));
	len = 4;
	cr_expect_eq(fi_getname(&api.ep->fid, &name, &len), -FI_ETOOSMALL);
	cr_expect_eq(len, sizeof(name));
}

Test(ep, the_name_can_be_set_before_enable)
{
	struct sockaddr_in name = { .sin_family = AF_INET }, got;
	struct sockaddr_in6 name6 = { .sin6_family = AF_INET6 };
	size_t len = sizeof(got);

	name.sin_addr.s_addr = htonl(0x7f000005);
	cr_expect_eq(fi_setname(&api.ep->fid, &name, 4), -FI_EINVAL);
	cr_expect_eq(fi_setname(&api.ep->fid, &name6, sizeof(name6)),
		     -FI_EINVAL);
	cr_expect_eq(fi_setname(&api.ep->fid, &name, sizeof(name)), 0);
	enable();
	cr_assert_eq(fi_getname(&api.ep->fid, &got, &len), 0);
	cr_expect_eq(got.sin_addr.s_addr, name.sin_addr.s_addr);
	cr_expect_eq(fi_setname(&api.ep->fid, &name, sizeof(name)),
		     -FI_EOPBADSTATE);
}

/* ---- options ---- */

static int set(int level, int name, size_t value)
{
	return fi_setopt(&api.ep->fid, level, name, &value, sizeof(value));
}

static size_t get(int name)
{
	size_t value = 0, len = sizeof(value);

	cr_expect_eq(fi_getopt(&api.ep->fid, FI_OPT_ENDPOINT, name, &value,
			       &len), 0);
	cr_expect_eq(len, sizeof(value));
	return value;
}

Test(ep, options_known_and_unknown)
{
	size_t value, len = sizeof(value);

	cr_expect_eq(set(FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, 100), 0);
	cr_expect_eq(get(FI_OPT_MIN_MULTI_RECV), 100);
	enable();
	cr_expect_eq(set(FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, 200), 0);
	cr_expect_eq(get(FI_OPT_MIN_MULTI_RECV), 200);
	cr_expect_eq(get(FI_OPT_CM_DATA_SIZE), 0);
	cr_expect_eq(get(FROM_NEWER_HEADERS_MAX_MSG_SIZE), TAGRV_MAX_MSG);
	cr_expect_eq(get(FROM_NEWER_HEADERS_MAX_ATOMIC_SIZE), TAGRV_MAX_MSG);
	tagrv_container_of(api.ep, struct tagrv_ep, ep)->dom->by_device = true;
	cr_expect_eq(get(FROM_NEWER_HEADERS_MAX_ATOMIC_SIZE), 8);
	tagrv_container_of(api.ep, struct tagrv_ep, ep)->dom->by_device = false;
	cr_expect_eq(get(FROM_NEWER_HEADERS_INJECT_RMA_SIZE), TAGRV_INJECT_MAX);
	cr_expect_eq(set(77, FI_OPT_MIN_MULTI_RECV, 1), -FI_ENOPROTOOPT);
	cr_expect_eq(set(FI_OPT_ENDPOINT, 4711, 1), -FI_ENOPROTOOPT);
	cr_expect_eq(set(FI_OPT_ENDPOINT, FROM_NEWER_HEADERS_SHARED_MEMORY, 0),
		     -FI_EOPNOTSUPP);
	cr_expect_eq(fi_getopt(&api.ep->fid, FI_OPT_ENDPOINT, 4711, &value,
			       &len), -FI_ENOPROTOOPT);
	cr_expect_eq(fi_getopt(&api.ep->fid, 77, FI_OPT_MIN_MULTI_RECV, &value,
			       &len), -FI_ENOPROTOOPT);
	len = 1;
	cr_expect_eq(fi_getopt(&api.ep->fid, FI_OPT_ENDPOINT,
			       FI_OPT_MIN_MULTI_RECV, &value, &len),
		     -FI_ETOOSMALL);
	cr_expect_eq(fi_setopt(&api.ep->fid, FI_OPT_ENDPOINT,
			       FI_OPT_MIN_MULTI_RECV, &value, 1), -FI_EINVAL);
}

/* ---- default flags and aliases ---- */

static int control(struct fid_ep *ep, int command, uint64_t *flags)
{
	return fi_control(&ep->fid, command, flags);
}

Test(ep, default_flags_are_read_and_written)
{
	uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;

	cr_expect_eq(control(api.ep, FI_SETOPSFLAG, &flags), 0);
	flags = FI_TRANSMIT;
	cr_expect_eq(control(api.ep, FI_GETOPSFLAG, &flags), 0);
	cr_expect_eq(flags, FI_DELIVERY_COMPLETE);
	flags = FI_RECV;
	cr_expect_eq(control(api.ep, FI_GETOPSFLAG, &flags), 0);
	cr_expect_eq(flags, 0);
	flags = FI_TRANSMIT | FI_RECV;
	cr_expect_eq(control(api.ep, FI_GETOPSFLAG, &flags), -FI_EINVAL);
	cr_expect_eq(control(api.ep, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	flags = FI_TRANSMIT | FI_FENCE;
	cr_expect_eq(control(api.ep, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	cr_expect_eq(control(api.ep, FI_BACKLOG, &flags), -FI_ENOSYS);
}

Test(ep, an_alias_has_its_own_flags)
{
	uint64_t flags = FI_TRANSMIT;
	struct fid_ep *alias = NULL;

	cr_expect_eq(fi_ep_alias(api.ep, &alias, 0), -FI_EOPBADSTATE);
	enable();
	cr_assert_eq(fi_ep_alias(api.ep, &alias, FI_TRANSMIT |
				 FI_DELIVERY_COMPLETE), 0);
	cr_expect_eq(control(alias, FI_GETOPSFLAG, &flags), 0);
	cr_expect_eq(flags, FI_DELIVERY_COMPLETE);
	flags = FI_TRANSMIT;
	cr_expect_eq(control(api.ep, FI_GETOPSFLAG, &flags), 0);
	cr_expect_eq(flags, 0);
	cr_expect_eq(fi_close(&api.ep->fid), -FI_EBUSY);
	cr_expect_eq(fi_enable(alias), -FI_EOPBADSTATE);
	cr_expect_eq(fi_ep_bind(alias, &api.av->fid, 0), -FI_EOPBADSTATE);
	api_must_close(&alias->fid);
	cr_expect_eq(fi_ep_alias(api.ep, &alias, FI_TRANSMIT | FI_TRIGGER),
		     -FI_EINVAL);
}

static uint64_t flags_of(struct fid_ep *ep, uint64_t side)
{
	cr_assert_eq(control(ep, FI_GETOPSFLAG, &side), 0);
	return side;
}

/* Flags are copied from the alias given to FI_ALIAS, not from its endpoint. */
Test(ep, an_alias_of_an_alias_copies_that_aliases_flags)
{
	struct fid_ep *alias, *second;

	enable();
	cr_assert_eq(fi_ep_alias(api.ep, &alias, FI_TRANSMIT |
				 FI_DELIVERY_COMPLETE), 0);
	cr_assert_eq(fi_ep_alias(alias, &second, FI_RECV | FI_MULTI_RECV), 0);
	cr_expect_eq(flags_of(second, FI_TRANSMIT), FI_DELIVERY_COMPLETE);
	cr_expect_eq(flags_of(second, FI_RECV), FI_MULTI_RECV);
	cr_expect_eq(flags_of(alias, FI_RECV), 0);
	api_must_close(&alias->fid);
	cr_expect_eq(fi_close(&api.ep->fid), -FI_EBUSY);
	api_must_close(&second->fid);
}

Test(ep, transfers_fail_before_enable)
{
	struct fi_msg_tagged msg = { 0 };
	char byte = 0;

	cr_expect_eq(fi_tsend(api.ep, &byte, 1, NULL, 0, 1, NULL),
		     -FI_EOPBADSTATE);
	cr_expect_eq(fi_recv(api.ep, &byte, 1, NULL, 0, NULL),
		     -FI_EOPBADSTATE);
	cr_expect_eq(fi_trecvmsg(api.ep, &msg, FI_PEEK), -FI_EOPBADSTATE);
	cr_expect_eq(fi_inject(api.ep, &byte, 1, 0), -FI_EOPBADSTATE);
	cr_expect_eq(fi_cancel(&api.ep->fid, &byte), -FI_EOPBADSTATE);
}
