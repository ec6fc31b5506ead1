/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What tagrv_functional_devices finds in each copy of the module.
 */
#ifndef FUNCTIONAL_RANK_MODULE_H
#define FUNCTIONAL_RANK_MODULE_H

#include "framework/runner.h"

/* Cases of messages, one-sided operations and failures. */
#define RANK_MODULE_CASES \
	data_cases, format_cases, level_cases, rndv_cases, selective_cases, order_cases, \
	directed_cases, peek_cases, cancel_cases, truncate_cases, multi_recv_cases, \
	pressure_cases, progress_cases, connect_cases, fault_cases, lost_cases, restart_cases, \
	misuse_cases, length_cases, levels_cases, levels_hold_cases, matrix_cases, fence_cases, \
	source_cases, more_cases, close_cases, rma_cases, rma_data_cases, rma_counter_cases, \
	rma_region_cases, rma_enable_cases, rma_refused_cases, rma_life_cases, rma_alone_cases, \
	rma_order_cases, atomic_cases, atomic_device_cases, atomic_order_cases

/* Tables of cases. The functions of these types are found by their names. */
typedef const struct test_case *const *rank_module_tables_fn(size_t *cnt);
typedef void rank_module_run_fn(const char *name, struct test *t);

rank_module_tables_fn rank_module_tables;
rank_module_run_fn rank_module_run;

#endif
