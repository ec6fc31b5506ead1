/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of devices and fork(): libibverbs is prepared where the kernel is not.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "unit/xport/verbs/verbs_fixture.h"

TestSuite(verbs_fork, .init = verbs_prepare, .timeout = 10);

static void discover(void)
{
	struct tagrv_device_desc *descs;
	char why[256];
	size_t cnt;

	fake_verbs_start(&config);
	cr_assert_eq(tagrv_verbs_ops.discover(&params, &descs, &cnt, why, sizeof(why)), 0);
	free(descs);
}

Test(verbs_fork, is_prepared_before_anything_else)
{
	config.fork = IBV_FORK_DISABLED;
	discover();
	cr_expect_eq(fake_verbs_count().fork_inits, 1);
	cr_expect_eq(fake_verbs_count().late_fork_inits, 0);
}

Test(verbs_fork, is_prepared_once)
{
	struct tagrv_device_desc *descs;
	char why[256];
	size_t cnt;

	config.fork = IBV_FORK_DISABLED;
	discover();
	cr_assert_eq(tagrv_verbs_ops.discover(&params, &descs, &cnt, why, sizeof(why)), 0);
	free(descs);
	cr_expect_eq(fake_verbs_count().fork_inits, 1);
}

Test(verbs_fork, needs_nothing_with_other_kernels)
{
	config.fork = IBV_FORK_UNNEEDED;
	discover();
	cr_expect_eq(fake_verbs_count().fork_inits, 0);
}

Test(verbs_fork, can_be_declined)
{
	config.fork = IBV_FORK_DISABLED;
	setenv("FI_FORK_UNSAFE", "yes", 1);
	discover();
	cr_expect_eq(fake_verbs_count().fork_inits, 0);
	setenv("FI_FORK_UNSAFE", "0", 1);
	discover();
	cr_expect_eq(fake_verbs_count().fork_inits, 1);
	unsetenv("FI_FORK_UNSAFE");
}

Test(verbs_fork, devices_are_used_without_it)
{
	config.fork = IBV_FORK_DISABLED;
	config.fork_errno = EINVAL;
	discover();
	cr_expect_eq(fake_verbs_count().fork_inits, 1);
	verbs_connect();
	verbs_send_many(1, 8);
	pair_close(&pair);
}
