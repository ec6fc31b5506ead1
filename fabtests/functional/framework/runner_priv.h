/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the two sides of the runner share with each other and with nobody else.
 */
#ifndef FUNCTIONAL_RUNNER_PRIV_H
#define FUNCTIONAL_RUNNER_PRIV_H

#include "runner.h"

#include <stdarg.h>

enum { RUN_EXIT_PASSED = 0, RUN_EXIT_FAILED = 101, RUN_EXIT_SKIPPED = 102 };

/* One contribution to an exchange; never empty on the wire, so 0 bytes mean 'gone'. */
struct run_blob {
	uint32_t len;
	uint8_t data[RUN_BLOB_MAX];
};

/* Makes t the context of run_fail() and its kin in this process. */
void rank_enter(struct test *t);

#endif
