/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Results as they come, in tables for people or as CSV; collects them for the other formats.
 */
#include "results.h"

#include <errno.h>
#include <math.h>
#include <rdma/fabric.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oob.h"

/* --- collection ------------------------------------------------------------------- */

static void *grow(void *array, size_t count, size_t size)
{
	void *more = realloc(array, (count + 1) * size);

	if (!more)
		bench_die("out of memory");
	return more;
}

void results_add(struct perf_results *res, const struct perf_row *row)
{
	res->rows = grow(res->rows, res->row_cnt, sizeof(*row));
	res->rows[res->row_cnt++] = *row;
	progress_clear();
	if (res->opt->format == PERF_TEXT)
		table_row(res, row);
	else if (res->opt->format == PERF_CSV)
		csv_row(res, row);
	else if (res->opt->format == PERF_LINES)
		lines_row(res, row);
	fflush(stdout);
}

void results_leave_out(struct perf_results *res, const struct perf_left_out *left_out)
{
	res->left_out = grow(res->left_out, res->left_out_cnt, sizeof(*left_out));
	res->left_out[res->left_out_cnt++] = *left_out;
	progress_clear();
	fprintf(stderr, "%s: %s over %s is left out: %s\n", program_invocation_short_name,
		perf_tests[left_out->test].name, res->opt->providers[left_out->provider], left_out->why);
}

void results_about(struct perf_results *res, size_t provider, const struct perf_about *about)
{
	const uint32_t version = fi_version();
	const bool same = !strcmp(about->domain, about->peer_domain);

	if (res->about[provider].provider[0])
		return;
	res->about[provider] = *about;
	progress_clear();
	if (res->opt->format == PERF_LINES)
		lines_about(res, about);
	if (res->opt->format != PERF_TEXT)
		return;
	printf("# %s %s over libfabric %u.%u, domain %s%s%s, protocol %s, %s%s%s\n",
	       about->provider, about->version, FI_MAJOR(version), FI_MINOR(version), about->domain,
	       same ? "" : " to ", same ? "" : about->peer_domain, about->protocol,
	       res->opt->host ? res->here : "both processes on ", res->opt->host ? " to " : res->here,
	       res->opt->host ? res->there : "");
	fflush(stdout);
}

void results_print(struct perf_results *res)
{
	if (res->opt->format == PERF_JSON)
		json_print(res);
	fflush(stdout);
}

void results_end(struct perf_results *res)
{
	free(res->rows);
	free(res->left_out);
	res->rows = NULL;
	res->left_out = NULL;
}

/* --- tables -------------------------------------------------------------------------- */

/* Columns that would be the same in each line are left out. */
static bool is_shown(const struct perf_results *res, const struct perf_column *column, enum perf_test test)
{
	const struct perf_list *pairs = &res->opt->pairs;

	if (!(column->kinds & 1u << perf_tests[test].kind))
		return false;
	if (!strcmp(column->key, "pairs"))
		return pairs->count > 1 || pairs->values[0] > 1;
	if (!strcmp(column->key, "depth"))
		return test == PERF_DEPTH;
	if (!strcmp(column->key, "pause_us"))
		return res->opt->flags & PERF_PAUSE;
	if (!strcmp(column->key, "ratio"))
		return res->opt->provider_cnt > 1;
	return true;
}

static int provider_width(const struct perf_results *res)
{
	size_t width = strlen("provider");

	for (size_t i = 0; i < res->opt->provider_cnt; i++)
		if (strlen(res->opt->providers[i]) > width)
			width = strlen(res->opt->providers[i]);
	return (int)width;
}

static void print_head(const struct perf_results *res, enum perf_test test)
{
	printf("\n# %s: %s\n#", perf_tests[test].name, perf_tests[test].title);
	for (size_t i = 0; i < perf_column_cnt; i++)
		if (is_shown(res, &perf_columns[i], test))
			printf(" %*s", perf_columns[i].width, perf_columns[i].head);
	if (res->opt->provider_cnt > 1)
		printf("  %-*s", provider_width(res), "provider");
	putchar('\n');
}

void table_row(const struct perf_results *res, const struct perf_row *row)
{
	const struct perf_row *before = res->row_cnt > 1 ? &res->rows[res->row_cnt - 2] : NULL;

	if (!before || before->test != row->test || before->pairs != row->pairs)
		print_head(res, row->test);
	putchar(' ');
	for (size_t i = 0; i < perf_column_cnt; i++) {
		const struct perf_column *column = &perf_columns[i];
		const double value = column->value(row);

		if (!is_shown(res, column, row->test))
			continue;
		if (isnan(value))
			printf(" %*s", column->width, "-");
		else
			printf(" %*.*f", column->width, column->precision, value);
	}
	if (res->opt->provider_cnt > 1)
		printf("  %s", res->opt->providers[row->provider]);
	putchar('\n');
}

/* --- CSV -------------------------------------------------------------------------------- */

void csv_row(const struct perf_results *res, const struct perf_row *row)
{
	const struct perf_about *about = &res->about[row->provider];

	if (res->row_cnt == 1) {
		printf("provider,version,domain,test");
		for (size_t i = 0; i < perf_column_cnt; i++)
			printf(",%s", perf_columns[i].key);
		putchar('\n');
	}
	printf("%s,%s,%s,%s", res->opt->providers[row->provider], about->version, about->domain,
	       perf_tests[row->test].name);
	for (size_t i = 0; i < perf_column_cnt; i++) {
		const double value = perf_columns[i].value(row);

		if (isnan(value))
			putchar(',');
		else
			printf(",%.*f", perf_columns[i].precision, value);
	}
	putchar('\n');
}
