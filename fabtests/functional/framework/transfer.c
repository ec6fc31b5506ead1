/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Transfers: see transfer.h.
 */
#include "transfer.h"
#include "pattern.h"

#include <stdlib.h>
#include <string.h>

/* The send or the receive: buffer, segments, context of the operation. */
struct half {
	struct guard g;
	struct iovec iov[TRANSFER_IOV_MAX];
	size_t iov_count;
	struct fi_context2 ctx;
};

size_t transfer_iov_limit(const struct fx *fx)
{
	size_t n = fx->info->tx_attr->iov_limit;

	if (n > fx->info->rx_attr->iov_limit)
		n = fx->info->rx_attr->iov_limit;
	return n < TRANSFER_IOV_MAX ? n : TRANSFER_IOV_MAX;
}

void transfer_cut(struct iovec *iov, size_t n, uint8_t *buf, size_t len, uint64_t seed)
{
	size_t left = len;

	for (size_t i = 0; i < n; i++) {
		size_t part = left;

		if (i + 1 < n)
			part = pattern_next(&seed) % 4 ? pattern_next(&seed) % (left + 1) : 0;
		left -= part;
		iov[i] = (struct iovec){ .iov_base = buf + left, .iov_len = part };
	}
}

static bool takes_segments(enum msg_call call)
{
	return call == CALL_IOV || call == CALL_MSG;
}

static void half_init(struct half *h, size_t len, enum msg_call call, size_t segments, uint64_t seed)
{
	h->g = guard_alloc(len);
	h->iov_count = takes_segments(call) && segments ? segments : 1;
	transfer_cut(h->iov, h->iov_count, h->g.data, len, seed);
}

static void scatter_pattern(const struct half *h, uint64_t seed)
{
	uint8_t *flat = malloc(h->g.len + 1);
	size_t at = 0;

	CHECK(flat, "no memory");
	pattern_fill(flat, h->g.len, seed);
	for (size_t i = 0; i < h->iov_count; i++) {
		memcpy(h->iov[i].iov_base, flat + at, h->iov[i].iov_len);
		at += h->iov[i].iov_len;
	}
	free(flat);
}

static void check_content(const struct half *h, uint64_t seed)
{
	struct guard flat = guard_alloc(h->g.len);
	size_t at = 0;

	for (size_t i = 0; i < h->iov_count; i++) {
		memcpy(flat.data + at, h->iov[i].iov_base, h->iov[i].iov_len);
		at += h->iov[i].iov_len;
	}
	GUARD_HOLDS(&flat, h->g.len, seed);
	CHECK(!guard_damage(&h->g, h->g.len), "bytes written outside the buffer");
	guard_free(&flat);
}

static bool carries_data(const struct transfer *tr)
{
	return tr->send_call == CALL_DATA || tr->send_call == CALL_INJECTDATA ||
	       (tr->send_call == CALL_MSG && tr->send_flags & FI_REMOTE_CQ_DATA);
}

static void post_send(struct fx *fx, const struct transfer *tr, struct half *h)
{
	half_init(h, tr->len, tr->send_call, tr->send_segments, tr->id);
	scatter_pattern(h, tr->id);
	SEND(fx, .call = tr->send_call, .tagged = tr->tagged, .buf = h->g.data, .len = tr->len,
	     .iov = takes_segments(tr->send_call) ? h->iov : NULL, .iov_count = h->iov_count,
	     .addr = fx->peer, .tag = tr->id, .data = tr->data, .flags = tr->send_flags,
	     .ctx = &h->ctx);
	if (!msg_completes(tr->send_call) || tr->send_flags & FI_INJECT)
		guard_wipe(&h->g);
}

static void post_recv(struct fx *fx, const struct transfer *tr, struct half *h)
{
	half_init(h, tr->len, tr->recv_call, tr->recv_segments, tr->id + 1);
	RECV(fx, .call = tr->recv_call, .tagged = tr->tagged, .buf = h->g.data, .len = tr->len,
	     .iov = takes_segments(tr->recv_call) ? h->iov : NULL, .iov_count = h->iov_count,
	     .addr = FI_ADDR_UNSPEC, .tag = tr->id, .ctx = &h->ctx);
}

static void finish_send(struct fx *fx, const struct transfer *tr, struct half *h)
{
	if (msg_completes(tr->send_call))
		COMP_EXPECT(fx, FX_TX, .ctx = &h->ctx,
			    .flags = tr->tagged ? SENT_TAGGED : SENT_MSG);
	guard_free(&h->g);
}

static void finish_recv(struct fx *fx, const struct transfer *tr, struct half *h)
{
	uint64_t flags = tr->tagged ? GOT_TAGGED : GOT_MSG;

	if (carries_data(tr))
		flags |= FI_REMOTE_CQ_DATA;
	COMP_EXPECT(fx, FX_RX, .ctx = &h->ctx, .flags = flags, .len = tr->len, .tag = tr->id,
		    .data = tr->data);
	check_content(h, tr->id);
	guard_free(&h->g);
}

static void note_step(const struct transfer *tr)
{
	run_step("%zu bytes, %s, %s to %s, %zu to %zu segments, %s", tr->len,
		 tr->tagged ? "tagged" : "untagged", msg_call_name(tr->send_call),
		 msg_call_name(tr->recv_call), tr->send_segments, tr->recv_segments,
		 tr->unexpected ? "unexpected" : "expected");
}

void transfer_run(struct fx *fx, const struct transfer *tr)
{
	const struct test *t = fx->t;
	struct half out, in;

	note_step(tr);
	if (run_receives(t) && !tr->unexpected)
		post_recv(fx, tr, &in);
	if (!tr->unexpected)
		fx_barrier(fx);
	if (run_sends(t))
		post_send(fx, tr, &out);
	if (tr->unexpected) {
		fx_barrier(fx);
		fx_idle(fx, 1);
	}
	if (run_receives(t) && tr->unexpected)
		post_recv(fx, tr, &in);
	if (run_receives(t))
		finish_recv(fx, tr, &in);
	if (run_sends(t))
		finish_send(fx, tr, &out);
}

void transfer_several(struct fx *fx, uint64_t id)
{
	static const size_t sizes[] = { 0, 100, 20000, 1 << 20 };

	for (uint64_t i = 0; i < 8; i++) {
		struct transfer tr = {
			.id = id + i, .len = sizes[i / 2], .tagged = true, .unexpected = i & 1,
		};

		transfer_run(fx, &tr);
	}
}
