/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Aliases: the same endpoint under other default flags.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"

#include <string.h>

static const struct fx_attr selective = {
	.tx_bind = FI_SELECTIVE_COMPLETION,
	.rx_bind = FI_SELECTIVE_COMPLETION,
};

static struct fid_ep *alias_of(struct fid_ep *ep, uint64_t flags)
{
	struct fid_ep *alias = NULL;

	CHECK_OK(fi_ep_alias(ep, &alias, flags));
	CHECK(alias && alias != ep, "no alias");
	return alias;
}

/* Sends by the endpoint, silently, and by its alias, with completions, in turn. */
static void send_by_both(struct fx *fx, struct fid_ep *alias)
{
	struct fi_context2 ctx[5];
	static char byte;

	for (uint64_t i = 0; i < 10; i++) {
		struct fid_ep *ep = i & 1 ? alias : fx->ep;
		ssize_t ret;

		while ((ret = fi_tsend(ep, &byte, 1, NULL, fx->peer, i,
				       i & 1 ? &ctx[i / 2] : NULL)) == -FI_EAGAIN)
			fx_progress(fx);
		CHECK(!ret, "fi_tsend: %zd", ret);
	}
	COMP_ANY_ORDER(fx, FX_TX, ctx, 5);
}

/* Receives by both in turn; messages match in the order in which they were sent. */
static void recv_by_both(struct fx *fx, struct fid_ep *alias)
{
	struct fi_context2 ctx[10];
	static char room[10];

	for (uint64_t i = 0; i < 10; i++)
		CHECK_OK(fi_trecv(i & 1 ? alias : fx->ep, &room[i], 1, NULL, FI_ADDR_UNSPEC, 0, ~0ULL,
				  &ctx[i]));
	fx_barrier(fx);
	for (uint64_t i = 1; i < 10; i += 2)
		COMP_EXPECT(fx, FX_RX, .ctx = &ctx[i], .flags = GOT_TAGGED, .len = 1, .tag = i);
}

static void flags(struct test *t)
{
	struct fid_ep *alias;
	struct fx fx;

	fx_open(t, &fx, &selective);
	alias = alias_of(fx.ep, (run_sends(t) ? FI_TRANSMIT : FI_RECV) | FI_COMPLETION);
	if (run_receives(t)) {
		recv_by_both(&fx, alias);
	} else {
		fx_barrier(&fx);
		send_by_both(&fx, alias);
	}
	fx_barrier(&fx);
	COMP_NONE(&fx, 50);
	CHECK_OK(fi_close(&alias->fid));
	fx_close(&fx);
}

/* An alias has the endpoint's name and cancels its receives; the endpoint closes last. */
static void lifetime(struct test *t)
{
	struct fid_ep *alias, *second;
	struct fi_context2 ctx;
	size_t len = FX_NAME_MAX;
	uint8_t name[FX_NAME_MAX];
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ 0 });
	alias = alias_of(fx.ep, FI_TRANSMIT | FI_DELIVERY_COMPLETE);
	second = alias_of(alias, FI_TRANSMIT);
	CHECK_OK(fi_getname(&second->fid, name, &len));
	CHECK(len == fx.namelen && !memcmp(name, fx.name[0], len), "an alias has another name");
	CHECK_ERR(fi_close(&fx.ep->fid), -FI_EBUSY);
	RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx);
	CHECK_OK(fi_cancel(&alias->fid, &ctx));
	COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .err = FI_ECANCELED);
	CHECK_OK(fi_close(&alias->fid));
	CHECK_ERR(fi_close(&fx.ep->fid), -FI_EBUSY);
	CHECK_OK(fi_close(&second->fid));
	RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 2, .ctx = &ctx);
	SEND(&fx, .call = CALL_INJECT, .tagged = true, .addr = fx.addr[0], .tag = 2);
	COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .tag = 2);
	fx_close(&fx);
}

static void refused(struct test *t)
{
	struct fid_ep *alias;
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ 0 });
	CHECK_ERR(fi_ep_alias(fx.ep, &alias, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
	CHECK_ERR(fi_ep_alias(fx.ep, &alias, FI_COMPLETION), -FI_EINVAL);
	CHECK_ERR(fi_ep_alias(fx.ep, &alias, FI_RECV | FI_DELIVERY_COMPLETE), -FI_EINVAL);
	fx_close(&fx);
}

const struct test_case alias_cases[] = {
	{ "alias_flags", "an alias has its own default flags; order is kept across both", flags,
	  .ranks = 2 },
	{ "alias_lifetime", "an alias has the same name and receives; the endpoint closes last",
	  lifetime, .ranks = 1 },
	{ "alias_refused", "flags of both directions, of none, of the wrong one", refused,
	  .ranks = 1 },
	{ 0 },
};
