/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The tables of cases, one for each file in messages/, objects/, failures/ and onesided/;
 * each ends with an entry without a name.
 */
#ifndef FUNCTIONAL_CASES_H
#define FUNCTIONAL_CASES_H

#include "framework/runner.h"

extern const struct test_case getinfo_cases[];
extern const struct test_case attribute_cases[];
extern const struct test_case address_cases[];
extern const struct test_case av_cases[];
extern const struct test_case object_cases[];
extern const struct test_case cq_cases[];
extern const struct test_case eq_cases[];
extern const struct test_case counter_cases[];
extern const struct test_case data_cases[];
extern const struct test_case format_cases[];
extern const struct test_case level_cases[];
extern const struct test_case levels_cases[];
extern const struct test_case levels_hold_cases[];
extern const struct test_case matrix_cases[];
extern const struct test_case selective_cases[];
extern const struct test_case rndv_cases[];
extern const struct test_case order_cases[];
extern const struct test_case directed_cases[];
extern const struct test_case peek_cases[];
extern const struct test_case cancel_cases[];
extern const struct test_case truncate_cases[];
extern const struct test_case multi_recv_cases[];
extern const struct test_case pressure_cases[];
extern const struct test_case progress_cases[];
extern const struct test_case connect_cases[];
extern const struct test_case fault_cases[];
extern const struct test_case lost_cases[];
extern const struct test_case socketless_cases[];
extern const struct test_case restart_cases[];
extern const struct test_case thread_cases[];
extern const struct test_case length_cases[];
extern const struct test_case misuse_cases[];
extern const struct test_case match_stats_cases[];
extern const struct test_case dump_cases[];
extern const struct test_case fence_cases[];
extern const struct test_case source_cases[];
extern const struct test_case alias_cases[];
extern const struct test_case more_cases[];
extern const struct test_case close_cases[];
extern const struct test_case srx_cases[];
extern const struct test_case srx_life_cases[];
extern const struct test_case rma_cases[];
extern const struct test_case rma_data_cases[];
extern const struct test_case rma_counter_cases[];
extern const struct test_case rma_region_cases[];
extern const struct test_case rma_enable_cases[];
extern const struct test_case rma_refused_cases[];
extern const struct test_case rma_alone_cases[];
extern const struct test_case rma_life_cases[];
extern const struct test_case rma_order_cases[];
extern const struct test_case atomic_cases[];
extern const struct test_case atomic_device_cases[];
extern const struct test_case atomic_order_cases[];

#endif
