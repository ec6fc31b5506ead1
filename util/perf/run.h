/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The plan of a run: which teams are opened, and which rounds they get, in which order.
 */
#ifndef PERF_RUN_H
#define PERF_RUN_H

#include <stdint.h>

#include "options.h"
#include "show/results.h"

/* Measures everything that the options ask for; session: of the server, if there is one. */
void run_all(struct perf_results *res, uint64_t session);

#endif
