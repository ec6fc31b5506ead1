/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by runner.c and rank.c only.
 */
#ifndef FUNCTIONAL_RUNNER_PRIV_H
#define FUNCTIONAL_RUNNER_PRIV_H

#include "runner.h"

#include <stdarg.h>

enum { RUN_EXIT_PASSED = 0, RUN_EXIT_FAILED = 101, RUN_EXIT_SKIPPED = 102 };

/* One contribution to an exchange. Never empty on the socket: 0 bytes mean that a rank is gone. */
struct run_blob {
	uint32_t len;
	uint8_t data[RUN_BLOB_MAX];
};

/* Makes run_fail(), run_step() and the like work in this process. */
void rank_enter(struct test *t);

#endif
