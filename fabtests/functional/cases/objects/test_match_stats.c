/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Statistics of the matching queues, through fi_open_ops.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"

#include <rdma/fi_ext_tagrv.h>

enum { QUEUED = 40 };

static const struct fx_attr plain;

static struct fi_tagrv_ops_match *open_ops(struct fx *fx)
{
	void *ops = NULL;
	int ret = fi_open_ops(&fx->ep->fid, TAGRV_EP_MATCH_OPS, 0, &ops, NULL);

	if (ret == -FI_ENOSYS || ret == -FI_EINVAL)
		run_skip("the provider has no statistics of matching");
	CHECK_OK(ret);
	return ops;
}

static void read_stats(struct fx *fx, struct fi_tagrv_match_stats *now)
{
	size_t len = sizeof(*now);

	CHECK_OK(open_ops(fx)->get_stats(fx->ep, now, &len));
	CHECK(len == sizeof(*now), "%zu bytes filled, not %zu", len, sizeof(*now));
}

#define CHECK_STAT(now, member, want)                                                              \
	CHECK((now)->member == (want), #member " is %llu, not %llu",                               \
	      (unsigned long long)(now)->member, (unsigned long long)(want))

/* Receives without messages are queued, counted by age, cancelled one by one. */
static void posted(struct test *t)
{
	static struct fi_context2 ctx[QUEUED];
	struct fi_tagrv_match_stats now;
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (uint64_t i = 0; i < QUEUED; i++)
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = i,
		     .ignore = i % 2 ? 0xff00 : 0, .ctx = &ctx[i]);
	read_stats(&fx, &now);
	CHECK_STAT(&now, posted, QUEUED);
	CHECK_STAT(&now, posted_peak, QUEUED);
	CHECK_STAT(&now, posted_oldest, QUEUED - 1);
	CHECK_STAT(&now, unexpected, 0);
	for (uint64_t i = 0; i < QUEUED; i++) {
		CHECK_OK(fi_cancel(&fx.ep->fid, &ctx[i]));
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[i], .flags = FI_RECV, .err = FI_ECANCELED);
	}
	read_stats(&fx, &now);
	CHECK_STAT(&now, posted, 0);
	CHECK_STAT(&now, posted_peak, QUEUED);
	CHECK_STAT(&now, posted_oldest, 0);
	fx_close(&fx);
}

static void expect_unexpected(struct fx *fx, uint64_t cnt)
{
	struct fi_tagrv_match_stats now;

	do {
		fx_progress(fx);
		read_stats(fx, &now);
		FX_CHECK_MOVES(fx, "%llu of %llu messages came",
			       (unsigned long long)now.unexpected, (unsigned long long)cnt);
	} while (now.unexpected < cnt);
	CHECK_STAT(&now, unexpected, cnt);
	CHECK_STAT(&now, unexpected_peak, cnt);
	CHECK_STAT(&now, unexpected_oldest, cnt - 1);
}

/* Unexpected messages of another process, received later. */
static void unexpected(struct test *t)
{
	static struct fi_context2 ctx[QUEUED];
	struct fi_tagrv_match_stats before, now;
	struct fx fx;

	fx_open(t, &fx, &plain);
	open_ops(&fx);
	if (run_sends(t)) {
		for (uint64_t i = 0; i < QUEUED; i++)
			SEND(&fx, .tagged = true, .addr = fx.peer, .tag = i, .ctx = &ctx[i]);
		COMP_ANY_ORDER(&fx, FX_TX, ctx, QUEUED);
		fx_barrier(&fx);
		fx_close(&fx);
		return;
	}
	expect_unexpected(&fx, QUEUED);
	read_stats(&fx, &before);
	for (uint64_t i = QUEUED; i--;) {
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = i, .ctx = &ctx[i]);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[i], .flags = GOT_TAGGED, .tag = i);
	}
	read_stats(&fx, &now);
	CHECK_STAT(&now, unexpected, 0);
	CHECK_STAT(&now, unexpected_peak, QUEUED);
	CHECK_STAT(&now, searches - before.searches, QUEUED);
	CHECK(now.probes > before.probes, "messages were found without looking at any");
	fx_barrier(&fx);
	fx_close(&fx);
}

const struct test_case match_stats_cases[] = {
	{ "match_stats_posted", "length, peak and age of the queue of posted receives", posted, .ranks = 1 },
	{ "match_stats_unexpected", "length and peak of the queue of unexpected messages; searches", unexpected, .ranks = 2 },
	{ 0 },
};
