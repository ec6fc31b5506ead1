/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Regions that peers may access once they are enabled: FI_MR_ENDPOINT and FI_MR_RMA_EVENT.
 * A provider need not ask for these modes; where the domain is opened with one all the same,
 * it holds.
 */
#include "cases/cases.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/window.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>

enum { LEN = 4096, COUNT = 10 };

static void open_with(struct test *t, struct fx *fx, int mode)
{
	const struct fx_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_EVENT, .tx_flags = FI_DELIVERY_COMPLETE,
		.mr_mode = mode, .mr_insist = mode,
	};

	window_open_ep(t, fx, &attr, KEYS_ANY);
	if (strcmp(t->opt->provider, "tagrv"))
		run_skip("other providers need not keep modes that they do not ask for");
}

/* A region that nothing is bound to yet, of which all know the key. */
static void open_disabled(struct fx *fx, struct window *w, uint64_t flags)
{
	struct iovec iov;
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
		.requested_key = 77,
	};
	struct fid_mr *mr;

	w->g = guard_alloc(LEN);
	iov = (struct iovec){ .iov_base = w->g.data, .iov_len = LEN };
	CHECK_OK(fi_mr_regattr(fx->domain, &attr, flags, &mr));
	window_publish(fx, w, mr, region_base(fx, &iov));
}

/* One write and one read of the peer's window: both end so. */
static void access_window(struct fx *fx, const struct window *w, uint64_t seed, int err)
{
	struct guard g = guard_alloc(LEN);
	struct fi_context2 ctx;
	int peer = window_peer(fx);
	struct comp c;

	pattern_fill(g.data, LEN, seed);
	for (int kind = DO_PUT; kind <= DO_GET; kind++) {
		ONESIDED(fx, .kind = (enum onesided_kind)kind, .buf = g.data, .len = LEN, .addr = fx->peer,
			 .at = window_at(w, peer, 0), .key = w->key[peer], .ctx = &ctx);
		COMP_WAIT(fx, FX_TX, &c);
		CHECK(c.err == err, "%s of a region: %d (%s), want %d", kind == DO_PUT ? "a write" : "a read",
		      c.err, fi_strerror(c.err), err);
	}
	if (!err)
		GUARD_HOLDS(&g, LEN, seed);
	guard_free(&g);
}

/* Peers use it only between fi_mr_enable and fi_close, and only by the endpoint. */
static void endpoint(struct test *t)
{
	struct window w;
	struct fx fx;

	open_with(t, &fx, FI_MR_ENDPOINT);
	open_disabled(&fx, &w, 0);
	CHECK_ERR(fi_mr_enable(w.mr), -FI_EINVAL);
	if (run_sends(t))
		access_window(&fx, &w, 1, FI_EACCES);
	fx_barrier(&fx);
	CHECK_OK(fi_mr_bind(w.mr, &fx.ep->fid, 0));
	fx_barrier(&fx);
	if (run_sends(t))
		access_window(&fx, &w, 2, FI_EACCES);
	fx_barrier(&fx);
	CHECK(!guard_changed(&w.g, 0, LEN), "a region that is not enabled has changed");
	CHECK_OK(fi_mr_enable(w.mr));
	fx_barrier(&fx);
	if (run_sends(t))
		access_window(&fx, &w, 3, 0);
	fx_barrier(&fx);
	if (run_receives(t))
		WINDOW_HOLDS(&w, 0, LEN, 3);
	window_close(&w);
	fx_barrier(&fx);
	if (run_sends(t)) {
		struct window gone = { 0 };

		memcpy(gone.key, w.key, sizeof(gone.key));
		access_window(&fx, &gone, 4, FI_EACCES);
	}
	fx_close(&fx);
}

static void await_value(struct fx *fx, struct fid_cntr *cntr, uint64_t value)
{
	while (fi_cntr_read(cntr) < value) {
		fx_progress(fx);
		FX_CHECK_MOVES(fx, "%" PRIu64 " of %" PRIu64 " counted", fi_cntr_read(cntr), value);
		sched_yield();
	}
	CHECK(fi_cntr_read(cntr) == value, "%" PRIu64 " counted, want %" PRIu64, fi_cntr_read(cntr), value);
}

/*
 * What is to be counted must be said when the region is registered; its counters are bound
 * before it is enabled, and count each access from the first one on.
 */
static void event(struct test *t)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *cntr;
	struct window w;
	struct fx fx;

	open_with(t, &fx, FI_MR_RMA_EVENT);
	open_disabled(&fx, &w, FI_RMA_EVENT);
	CHECK_OK(fi_cntr_open(fx.domain, &attr, &cntr, NULL));
	if (run_sends(t))
		access_window(&fx, &w, 1, FI_EACCES);
	fx_barrier(&fx);
	CHECK_OK(fi_mr_bind(w.mr, &cntr->fid, FI_REMOTE_WRITE));
	CHECK_OK(fi_mr_enable(w.mr));
	CHECK_ERR(fi_mr_bind(w.mr, &cntr->fid, FI_REMOTE_READ), -FI_EOPBADSTATE);
	fx_barrier(&fx);
	for (int i = 0; run_sends(t) && i < COUNT; i++)
		access_window(&fx, &w, (uint64_t)i, 0);
	if (run_receives(t))
		await_value(&fx, cntr, COUNT);
	fx_barrier(&fx);
	if (run_receives(t))
		WINDOW_HOLDS(&w, 0, LEN, COUNT - 1);
	CHECK_ERR(fi_close(&cntr->fid), -FI_EBUSY);
	window_close(&w);
	CHECK_OK(fi_close(&cntr->fid));
	fx_close(&fx);
}

/* Registered without FI_RMA_EVENT, a region counts nothing, and is open at once. */
static void no_event(struct test *t)
{
	struct window w;
	struct fx fx;

	open_with(t, &fx, FI_MR_RMA_EVENT);
	open_disabled(&fx, &w, 0);
	if (run_sends(t))
		access_window(&fx, &w, 1, 0);
	fx_barrier(&fx);
	if (run_receives(t))
		WINDOW_HOLDS(&w, 0, LEN, 1);
	window_close(&w);
	fx_close(&fx);
}

const struct test_case rma_enable_cases[] = {
	{ "enable_endpoint", "FI_MR_ENDPOINT: peers use a region once it is bound and enabled", endpoint, .self = true },
	{ "enable_event", "FI_MR_RMA_EVENT: counters of a region count from fi_mr_enable on", event, .self = true },
	{ "enable_no_event", "FI_MR_RMA_EVENT: a region without events needs no enabling", no_event, .self = true },
	{ 0 },
};
