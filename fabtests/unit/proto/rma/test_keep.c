/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_INJECT: constant buffers are the caller's again when the call returns, also when
 * nothing, or not all, could be sent in it.
 */
#include <stdlib.h>

#include "core/limits.h"
#include "unit/proto/rma/onesided_fixture.h"

TestSuite(rma_keep, .init = onesided_setup, .fini = onesided_teardown, .timeout = 20);

/* The bytes behind the fixed part of the only ATOMIC. */
static const char *operands(void)
{
	size_t at;

	sent_nr(TAGRV_PKT_ATOMIC, 0, &at);
	return (const char *) fake.log[at].data + sizeof(struct tagrv_hdr) +
	       sizeof(struct tagrv_rma_atomic);
}

Test(rma_keep, operands_and_what_is_compared_are_copied)
{
	struct tagrv_rma_req req = rma_req(TAGRV_RMA_COMPARE, 512, rma_ctx);
	const struct iovec with = { mine + 1000, 512 }, result = { mine + 2000, 512 };
	char former[1024];

	req.compare = &with;
	req.result = &result;
	req.flags |= FI_INJECT;
	memcpy(former, mine, 512);
	memcpy(former + 512, with.iov_base, 512);
	fake.refuse_all = true;
	cr_assert_eq(submit(&req), 0);
	memset(mine, 0, 1512);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_arr_eq(operands(), former, 512);
	cr_assert_arr_eq(operands() + 512, former + 512, 512);
	arrive_answer(sent_nr(TAGRV_PKT_ATOMIC, 0, NULL).op, former, 512);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(fx.engine->pools.bufs[TAGRV_BUF_INJECT].used, 0);
}

Test(rma_keep, nothing_is_left_of_what_was_never_sent)
{
	struct tagrv_rma_req req = rma_req(TAGRV_RMA_COMPARE, 512, rma_ctx);

	req.flags |= FI_INJECT;
	fake.refuse_all = true;
	cr_assert_eq(submit(&req), 0);
	tagrv_lane_fail(the_peer()->lane, -FI_ECONNRESET, false);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	cr_assert_eq(fx.engine->pools.bufs[TAGRV_BUF_INJECT].used, 0);
}

static void setup_short_packets(void)
{
	setenv("FI_TAGRV_EAGER_MAX", "64", 1);
	onesided_setup();
	unsetenv("FI_TAGRV_EAGER_MAX");
}

TestSuite(rma_keep_short, .init = setup_short_packets, .fini = onesided_teardown,
	  .timeout = 20);

Test(rma_keep_short, target_does_not_read_what_is_injected)
{
	struct tagrv_rma_req req = rma_req(TAGRV_RMA_WRITE, TAGRV_INJECT_MAX, rma_ctx);

	post(TAGRV_RMA_WRITE, TAGRV_INJECT_MAX, rma_ctx);
	cr_assert_eq(sent(TAGRV_PKT_PULL), 1, "it would read others");
	req.flags |= FI_INJECT;
	cr_assert_eq(submit(&req), 0);
	cr_assert_eq(sent(TAGRV_PKT_PULL), 1);
	cr_assert_gt(sent(TAGRV_PKT_PUT), 1);
}
