/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What was measured, and how it is shown.
 */
#ifndef PERF_RESULTS_H
#define PERF_RESULTS_H

#include <stdbool.h>
#include <stddef.h>

#include "perf.h"

struct perf_left_out {
	enum perf_test test;
	size_t	provider, pairs;
	char	why[512];
};

struct perf_results {
	const struct perf_options *opt;
	char	here[65], there[65];	/* names of the hosts */
	struct perf_about about[PERF_PROVIDERS_MAX];	/* provider empty: never opened */
	struct perf_row *rows;
	size_t	row_cnt;
	struct perf_left_out *left_out;
	size_t	left_out_cnt;
	unsigned failures;		/* tests that began and did not end */
};

/* Both keep a copy, and show it at once if the format allows. */
void results_add(struct perf_results *res, const struct perf_row *row);
void results_leave_out(struct perf_results *res, const struct perf_left_out *left_out);

/* Tells once for each provider what is measured. */
void results_about(struct perf_results *res, size_t provider, const struct perf_about *about);

/* Prints what is printed when all is measured: JSON. */
void results_print(struct perf_results *res);
void results_end(struct perf_results *res);

/* --- columns.c ------------------------------------------------------------------ */

/* A value of a row under its name in CSV and JSON, and below its head in tables. */
struct perf_column {
	const char *key, *head;
	int	width, precision;
	unsigned kinds;			/* set of 1 << enum perf_kind: in whose tables it is */
	double (*value)(const struct perf_row *row);	/* NAN: it has none */
};

extern const struct perf_column perf_columns[];
extern const size_t perf_column_cnt;

/* --- table.c, json.c, plot.c, pingpong/lines.c ----------------------------------------------------------- */

void table_row(const struct perf_results *res, const struct perf_row *row);
void csv_row(const struct perf_results *res, const struct perf_row *row);
void lines_about(const struct perf_results *res, const struct perf_about *about);
void lines_row(const struct perf_results *res, const struct perf_row *row);
void json_print(const struct perf_results *res);

/* Ends the program with a message if there is no gnuplot, or this file cannot be written. */
void plot_check(const char *file);
/* Returns 0, or -1 after a message. */
int plot_draw(const struct perf_results *res);

/* --- progress.c ------------------------------------------------------------------------- */

/* A line on standard error, if that is a terminal. */
void progress_start(size_t steps, bool quiet);
void progress_step(const char *provider, const struct perf_row *row);
/* Steps of what was left out. */
void progress_skip(size_t steps);
/* Before anything else is printed. */
void progress_clear(void);

#endif
