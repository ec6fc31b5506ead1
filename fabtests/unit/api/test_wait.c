/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads that sleep on queues and counters while others work.
 */
#include "unit/api/api_fixture.h"

enum { PATIENCE_MS = 5000 };

static struct api api;

static void tear_down(void)
{
	api_close(&api);
}

TestSuite(wait, .init = api_init, .fini = tear_down, .timeout = 60);

/* fi_cq(3): whoever is interrupted gets what he gets when time is up. */
Test(wait, an_interrupted_read_finds_nothing)
{
	uint64_t start = tagrv_clock_ms();
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	api_open_domain(&api, NULL);
	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
	api_alarm(50);
	ret = fi_cq_sread(api.cq, &entry, 1, NULL, 2 * PATIENCE_MS);
	cr_expect_eq(ret, -FI_EAGAIN, "%s", fi_strerror((int) -ret));
	cr_expect_lt(tagrv_clock_ms() - start, PATIENCE_MS);
}
