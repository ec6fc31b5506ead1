/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests that one-sided calls pass to the engine: see rma_fixture.h.
 */
#include "unit/api/rma_fixture.h"

struct rma_seen rma_seen;
ssize_t rma_answer;
bool rma_passes = true;

ssize_t __real_tagrv_engine_rma(struct tagrv_engine *engine,
				const struct tagrv_rma_req *req);
ssize_t __wrap_tagrv_engine_rma(struct tagrv_engine *engine,
				const struct tagrv_rma_req *req);

static void copy_iov(struct iovec *to, const struct iovec **from, size_t cnt)
{
	cr_assert_leq(cnt, TAGRV_IOV_MAX);
	for (size_t i = 0; i < cnt; i++)
		to[i] = (*from)[i];
	*from = to;
}

static void keep(struct tagrv_engine *engine, const struct tagrv_rma_req *req)
{
	struct rma_seen *seen = &rma_seen;

	seen->calls++;
	seen->engine = engine;
	seen->req = *req;
	copy_iov(seen->iov, &seen->req.iov, req->iov_cnt);
	copy_iov(seen->result, &seen->req.result, req->result_cnt);
	copy_iov(seen->compare, &seen->req.compare, req->compare_cnt);
	for (size_t i = 0; req->mem && i < req->iov_cnt; i++)
		seen->mem[i] = req->mem[i];
	cr_assert(req->remote_cnt && req->remote_cnt <= TAGRV_IOV_MAX);
	for (size_t i = 0; i < req->remote_cnt; i++)
		seen->remote[i] = req->remote[i];
}

ssize_t __wrap_tagrv_engine_rma(struct tagrv_engine *engine,
				const struct tagrv_rma_req *req)
{
	if (rma_passes)
		return __real_tagrv_engine_rma(engine, req);
	keep(engine, req);
	return rma_answer;
}

void rma_open(struct api *opened, uint64_t caps, uint64_t tx_flags, uint64_t bind_flags)
{
	struct fi_info *hints = api_hints();

	hints->caps = caps;
	hints->tx_attr->op_flags = tx_flags;
	api_open_ep(opened, hints, bind_flags);
	fi_freeinfo(hints);
	rma_passes = false;
}
