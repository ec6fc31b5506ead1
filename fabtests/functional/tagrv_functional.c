/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Functional tests of a libfabric provider through its public calls: selects, runs and reports cases.
 */
#include "cases/cases.h"
#include "framework/options.h"
#include "framework/runner.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct test_case *const tables[] = {
	getinfo_cases, address_cases, av_cases, object_cases, cq_cases, eq_cases,
	counter_cases, data_cases, format_cases, level_cases, rndv_cases, selective_cases,
	order_cases, directed_cases, peek_cases, cancel_cases, truncate_cases,
	multi_recv_cases, pressure_cases, progress_cases, connect_cases, fault_cases, lost_cases,
	socketless_cases,
	restart_cases, thread_cases, misuse_cases, length_cases, match_stats_cases, dump_cases, levels_cases,
	levels_hold_cases, matrix_cases, fence_cases, source_cases, alias_cases, more_cases,
	close_cases, attribute_cases, srx_cases, srx_life_cases, rma_cases, rma_data_cases,
	rma_counter_cases, rma_region_cases, rma_enable_cases, rma_refused_cases, rma_life_cases, rma_alone_cases,
	rma_order_cases,
	atomic_cases, atomic_device_cases, atomic_order_cases,
};

/* Whether a device other than shared memory may be there. */
static bool may_have_rdma(const struct run_options *run)
{
	return !run->self && (!run->device[0] || strcmp(run->device[0], "shm") != 0);
}

static bool wanted(const struct test_case *test_case, const char *pattern)
{
	return !pattern || strstr(test_case->name, pattern) ||
	       !fnmatch(pattern, test_case->name, 0);
}

static void list_case(const struct test_case *test_case)
{
	printf("%-32s %s\n", test_case->name, test_case->shows);
}

int main(int argc, char **argv)
{
	struct options opt;
	struct run_tally tally = { 0 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, NULL, 0);
	options_default_timeout(&opt, 300);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		for (const struct test_case *c = tables[i]; c->name; c++) {
			if (!wanted(c, opt.pattern) ||
			    (c->rdma && !opt.list && !may_have_rdma(&opt.run)))
				continue;
			if (opt.list)
				list_case(c);
			else
				run_counted(c, &opt.run, &tally);
		}
	}
	if (opt.list)
		return EXIT_SUCCESS;
	run_print_tally(&tally);
	return tally.failed || !tally.passed ? EXIT_FAILURE : EXIT_SUCCESS;
}
