/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rounds of one-sided operations: the lead writes to, reads from and adds to the follower's
 * memory, one at a time or a window of them. Meanwhile the follower only reads its completion
 * queue. An operation ends when its bytes are in their memory (FI_DELIVERY_COMPLETE).
 */
#include "side.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>
#include <string.h>

#include "oob.h"

/* At least what an addition needs: its operand, and its result at RESULT_AT. */
enum { LEAST_BYTES = 64, RESULT_AT = 8 };

/* --- memory ------------------------------------------------------------------ */

static void check(long ret, const char *what)
{
	if (ret)
		bench_die("%s: %s", what, fi_strerror((int)-ret));
}

void side_share_memory(struct side *s)
{
	const size_t bytes = s->hello->size > LEAST_BYTES ? s->hello->size : LEAST_BYTES;
	const uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	struct side_target mine;

	s->ops = calloc(s->hello->slots, sizeof(*s->ops));
	if (!s->ops || posix_memalign((void **)&s->window, 4096, 2 * bytes))
		bench_die("out of memory");
	s->local = s->window + bytes;
	memset(s->window, 0, 2 * bytes);
	check(fi_mr_reg(s->e.domain, s->window, 2 * bytes, access, 0, 7, 0, &s->mr, NULL),
	      "fi_mr_reg");
	s->desc = fi_mr_desc(s->mr);
	mine = (struct side_target){
		.addr = s->e.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)s->window : 0,
		.key = fi_mr_key(s->mr),
		.bytes = bytes,
	};
	oob_send(s->oob, &mine, sizeof(mine));
	oob_recv(s->oob, &s->peer, sizeof(s->peer), endpoint_progress, &s->e);
}

void side_unshare_memory(struct side *s)
{
	check(fi_close(&s->mr->fid), "fi_close of the memory region");
	free(s->window);
	free(s->ops);
}

/* --- operations ----------------------------------------------------------------- */

static ssize_t post(struct side *s, const struct perf_order *order, struct endpoint_op *op)
{
	struct endpoint *e = &s->e;

	switch (order->test) {
	case PERF_PUT:
	case PERF_PUT_BW:
		return fi_write(e->ep, s->local, order->size, s->desc, e->peer, s->peer.addr,
				s->peer.key, &op->context);
	case PERF_GET:
	case PERF_GET_BW:
		return fi_read(e->ep, s->local, order->size, s->desc, e->peer, s->peer.addr,
			       s->peer.key, &op->context);
	default:
		return fi_fetch_atomic(e->ep, s->local, 1, s->desc, s->local + RESULT_AT, s->desc,
				       e->peer, s->peer.addr, s->peer.key, FI_UINT64, FI_SUM,
				       &op->context);
	}
}

static void start(struct side *s, const struct perf_order *order, struct endpoint_op *op)
{
	ssize_t ret;

	while ((ret = post(s, order, op)) == -FI_EAGAIN)
		endpoint_progress(&s->e);
	check(ret, order->test == PERF_ADD || order->test == PERF_ADD_RATE ?
	      "fi_fetch_atomic (FI_SUM, FI_UINT64)" : "fi_write or fi_read");
	op->busy = true;
	s->e.sent++;
}

static void remote_prepare(struct side *s, const struct perf_order *order)
{
	if (order->size > s->peer.bytes)
		bench_die("the peer's memory has %llu bytes only",
			  (unsigned long long)s->peer.bytes);
}

/* The follower serves until the lead says that it is through. */
static void serve(struct side *s)
{
	char through;

	oob_recv(s->oob, &through, 1, endpoint_progress, &s->e);
}

static void through(struct side *s, uint64_t begin, struct perf_reply *result)
{
	side_finish(s, result, begin, 1);
	oob_send(s->oob, "", 1);
}

static void each_run(struct side *s, const struct perf_order *order, struct perf_reply *result)
{
	const uint64_t begin = clock_ticks();
	uint64_t before = begin;

	if (!s->leads) {
		serve(s);
		return;
	}
	for (uint64_t i = 0; i < order->count; i++) {
		uint64_t after;

		start(s, order, &s->ops[0]);
		endpoint_wait_op(&s->e, &s->ops[0]);
		after = clock_ticks();
		before = side_sample(s, after - before) ? clock_ticks() : after;
	}
	through(s, begin, result);
}

static void stream_run(struct side *s, const struct perf_order *order, struct perf_reply *result)
{
	const uint64_t begin = clock_ticks();
	size_t at = 0;

	if (!s->leads) {
		serve(s);
		return;
	}
	for (uint64_t i = 0; i < order->count; i++) {
		endpoint_wait_op(&s->e, &s->ops[at]);
		start(s, order, &s->ops[at]);
		at = at + 1 < order->window ? at + 1 : 0;
	}
	for (size_t i = 0; i < order->window; i++)
		endpoint_wait_op(&s->e, &s->ops[i]);
	through(s, begin, result);
}

const struct side_ops side_remote_each = { remote_prepare, each_run };
const struct side_ops side_remote_stream = { remote_prepare, stream_run };
