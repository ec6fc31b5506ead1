/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Results as tagrv_pingpong prints them: one line per size.
 */
#include "show/results.h"

#include <math.h>
#include <stdio.h>

void lines_about(const struct perf_results *res, const struct perf_about *about)
{
	const struct perf_options *opt = res->opt;

	if (opt->quiet)
		return;
	printf("# provider %s, domain %s, %zu messages in a window, median of %u blocks%s\n",
	       about->provider, about->domain, opt->window, opt->blocks,
	       opt->flags & PERF_VERIFY ? ", data verified" : "");
	puts(opt->tests[PERF_REG] ? "# size registration_us" :
				    "# size half_rtt_us bw_MBps msgs_per_s");
	fflush(stdout);
}

/* The two of a size follow each other. */
static void print_both(const struct perf_row *latency, const struct perf_row *stream)
{
	printf("%zu ", latency ? latency->size : stream->size);
	if (latency)
		printf("%.3f ", latency->times[PERF_P50] * 1e6);
	else
		printf("- ");
	if (stream)
		printf("%.2f %.0f\n", (double)stream->size * stream->per_second / 1e6, stream->per_second);
	else
		printf("- -\n");
}

void lines_row(const struct perf_results *res, const struct perf_row *row)
{
	const struct perf_options *opt = res->opt;
	const bool both = opt->tests[PERF_LAT] && opt->tests[PERF_BW];

	if (row->test == PERF_REG) {
		printf("%zu %.3f\n", row->size, row->times[PERF_P50] * 1e6);
		return;
	}
	if (row->test == PERF_LAT && both)
		return;
	if (row->test == PERF_LAT)
		print_both(row, NULL);
	else
		print_both(both ? &res->rows[res->row_cnt - 2] : NULL, row);
	if (opt->flags & PERF_PAUSE)
		printf("longest pause %.3f s\n", isnan(row->pause) ? 0 : row->pause);
}
