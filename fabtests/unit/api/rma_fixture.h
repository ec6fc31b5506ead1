/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests that one-sided calls pass to the engine: unit_api is linked with a wrapper of
 * tagrv_engine_rma() that keeps the last one.
 */
#ifndef UNIT_API_RMA_FIXTURE_H
#define UNIT_API_RMA_FIXTURE_H

#include "unit/api/api_fixture.h"

/* The last request; its arrays are copies. */
struct rma_seen {
	unsigned calls;
	struct tagrv_engine *engine;
	struct tagrv_rma_req req;
	struct iovec iov[TAGRV_IOV_MAX], result[TAGRV_IOV_MAX],
		     compare[TAGRV_IOV_MAX];
	struct tagrv_mem *mem[TAGRV_IOV_MAX];
	struct fi_rma_iov remote[TAGRV_IOV_MAX];
};

extern struct rma_seen rma_seen;
/* What the wrapper returns; calls reach the engine while rma_passes. */
extern ssize_t rma_answer;
extern bool rma_passes;

/* Opens an endpoint whose requests are kept. The fixture closes it with api_tear_down(). */
void rma_open(struct api *opened, uint64_t caps, uint64_t tx_flags, uint64_t bind_flags);

/* Expects that a call was passed on since the last one, with 0 as answer. */
#define SEEN(call) do { \
	unsigned calls_ = rma_seen.calls; \
	cr_assert_eq(call, 0); \
	cr_assert_eq(rma_seen.calls, calls_ + 1); \
} while (0)

#endif
