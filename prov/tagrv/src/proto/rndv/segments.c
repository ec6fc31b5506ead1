/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads and writes of a message in segments: as many in flight as the transport
 * has room for. Used by read.c and write.c.
 */
#include <rdma/fi_errno.h>

#include "core/trace.h"
#include "proto/rndv/rndv_priv.h"

static int post_next(struct tagrv_op *op, size_t max, tagrv_rndv_post_fn post)
{
	struct tagrv_segment segment;
	int ret;

	tagrv_rndv_next_segment(op, max, &segment);
	ret = post(op, tagrv_rndv_link(op), &segment);
	if (ret)
		return ret;
	tagrv_trace_segment_posted(op, op->peer, op->rndv->next, segment.len);
	op->rndv->next += segment.len;
	op->rndv->inflight++;
	return 0;
}

int tagrv_rndv_post_all(struct tagrv_op *op, size_t max,
			tagrv_rndv_post_fn post)
{
	tagrv_assert_locked(op->engine->dom);
	while (op->rndv->next < op->rndv->want && !op->status) {
		int ret = post_next(op, max, post);

		if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
			return -FI_EAGAIN;
		if (ret)
			op->status = ret;
	}
	return 0;
}

bool tagrv_rndv_segment_done(struct tagrv_op *op, int status)
{
	tagrv_assert_locked(op->engine->dom);
	op->rndv->inflight--;
	tagrv_trace_segment_done(op, op->peer, status, op->rndv->inflight);
	if (status && !op->status)
		op->status = tagrv_lane_reason(op->lane, status);
	if (op->rndv->inflight)
		return false;
	return op->status || op->rndv->next == op->rndv->want;
}
