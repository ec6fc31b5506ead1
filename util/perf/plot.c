/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Results as a figure, drawn by gnuplot: a panel for each test, a line for each provider and
 * number of pairs. Letters and lines are large, so that half the size can be read.
 */
#include "results.h"

#include <errno.h>
#include <math.h>
#include <rdma/fabric.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oob.h"

enum { PANEL_WIDTH = 900, PANEL_HEIGHT = 640, TITLE_HEIGHT = 70, FONT = 21, TICS = 7, COLOURS = 8 };

/* These can be told apart by people who do not see all colours. */
static const char *const colours[COLOURS] = {
	"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999",
};

void plot_check(void)
{
	const char *path = getenv("PATH");
	char *copy = strdup(path ? path : ""), *state = NULL, name[4096];

	for (char *s = strtok_r(copy, ":", &state); s; s = strtok_r(NULL, ":", &state)) {
		snprintf(name, sizeof(name), "%s/gnuplot", s);
		if (access(name, X_OK))
			continue;
		free(copy);
		return;
	}
	bench_die("--plot needs gnuplot, which is not in the PATH (Debian, Ubuntu: apt-get install gnuplot-nox)");
}

/* --- lines ------------------------------------------------------------------------- */

static double x_of(const struct perf_row *row)
{
	return row->test == PERF_DEPTH ? (double)row->depth : (double)row->size;
}

/* A logarithmic axis has no 0. */
static double x_shown(const struct perf_row *row)
{
	return fmax(x_of(row), 0.5);
}

static double y_of(const struct perf_row *row)
{
	switch (perf_tests[row->test].kind) {
	case PERF_TIMES: return row->times[PERF_P50] * 1e6;
	case PERF_SHARES: return row->shares[0] * 100;
	default: break;
	}
	return perf_tests[row->test].window > 16 ? row->per_second / 1e6 :
						   row->per_second * (double)row->size / 1e6;
}

static const char *label_of(enum perf_test test)
{
	switch (perf_tests[test].kind) {
	case PERF_TIMES: return "us";
	case PERF_SHARES: return "overlap, %";
	default: break;
	}
	return perf_tests[test].window > 16 ? "millions per second" : "MB/s";
}

/* By depth, only the first size is drawn. */
static bool is_shown(const struct perf_results *res, const struct perf_row *row, enum perf_test test)
{
	for (size_t i = 0; test == PERF_DEPTH && i < res->row_cnt; i++)
		if (res->rows[i].test == test)
			return row->test == test && row->size == res->rows[i].size;
	return row->test == test;
}

static bool is_line(const struct perf_results *res, const struct perf_row *row, enum perf_test test,
		    size_t provider, size_t pairs)
{
	return is_shown(res, row, test) && row->provider == provider && row->pairs == pairs;
}

/* Gnuplot's name of the data of a line. */
static void print_name(FILE *out, enum perf_test test, size_t provider, size_t pairs)
{
	fprintf(out, "$t%d_%zu_%zu", (int)test, provider, pairs);
}

static bool print_data(FILE *out, const struct perf_results *res, enum perf_test test, size_t provider, size_t pairs)
{
	size_t count = 0;

	for (size_t i = 0; i < res->row_cnt; i++) {
		const struct perf_row *row = &res->rows[i];

		if (!is_line(res, row, test, provider, pairs))
			continue;
		if (!count++) {
			print_name(out, test, provider, pairs);
			fprintf(out, " << EOD\n");
		}
		fprintf(out, "%.9g %.9g %.9g %.9g %.9g\n", x_shown(row), y_of(row),
			row->times[PERF_MIN] * 1e6, row->times[PERF_P99] * 1e6, row->shares[1] * 100);
	}
	if (count)
		fprintf(out, "EOD\n");
	return count > 0;
}

/* Quotes end a text for gnuplot. */
static void print_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++)
		fputc(*text == '"' || *text == '\\' || *text == '`' ? '\'' : *text, out);
	fputc('"', out);
}

static void print_title(FILE *out, const struct perf_results *res, size_t provider, size_t pairs, const char *what)
{
	char text[160];

	if (res->opt->pairs.count > 1)
		snprintf(text, sizeof(text), "%s, %zu pair%s%s", res->opt->providers[provider], pairs,
			 pairs > 1 ? "s" : "", what);
	else
		snprintf(text, sizeof(text), "%s%s", res->opt->providers[provider], what);
	print_text(out, text);
}

/* One or two lines of one provider; index: its colour. */
static void print_plot(FILE *out, const struct perf_results *res, enum perf_test test, size_t provider,
		       size_t pairs, size_t index)
{
	const char *colour = colours[index % COLOURS];
	const enum perf_kind kind = perf_tests[test].kind;

	if (kind == PERF_TIMES) {
		print_name(out, test, provider, pairs);
		fprintf(out, " using 1:3:4 with filledcurves fc rgb \"%s\" fs transparent solid 0.2 noborder notitle, ",
			colour);
	}
	print_name(out, test, provider, pairs);
	fprintf(out, " using 1:2 with linespoints lw 4 pt %zu ps 2 lc rgb \"%s\" title ", 5 + 2 * (index % 5), colour);
	print_title(out, res, provider, pairs, kind == PERF_SHARES ? ", sends" : "");
	if (kind != PERF_SHARES)
		return;
	fprintf(out, ", ");
	print_name(out, test, provider, pairs);
	fprintf(out, " using 1:5 with linespoints lw 4 dt 2 pt %zu ps 2 lc rgb \"%s\" title ", 4 + 2 * (index % 5), colour);
	print_title(out, res, provider, pairs, ", receives");
}

/* --- axes ----------------------------------------------------------------------------- */

static void print_count(FILE *out, double x)
{
	static const char units[] = { 0, 'K', 'M', 'G' };
	int unit = 0;

	while (x >= 1024 && fmod(x, 1024) == 0 && unit < 3) {
		x /= 1024;
		unit++;
	}
	if (units[unit])
		fprintf(out, "\"%.0f%c\"", x, units[unit]);
	else
		fprintf(out, "\"%.0f\"", x);
}

static int compare_rows(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The x values of a test, each once; returns how many. */
static size_t find_xs(const struct perf_results *res, enum perf_test test, double *xs)
{
	size_t count = 0, once = 0;

	for (size_t i = 0; i < res->row_cnt; i++)
		if (is_shown(res, &res->rows[i], test))
			xs[count++] = x_of(&res->rows[i]);
	qsort(xs, count, sizeof(*xs), compare_rows);
	for (size_t i = 0; i < count; i++)
		if (!once || xs[once - 1] != xs[i])
			xs[once++] = xs[i];
	return once;
}

static void print_axes(FILE *out, const double *xs, size_t count, enum perf_test test)
{
	const size_t step = (count + TICS - 1) / TICS;

	fprintf(out, "set xtics (");
	for (size_t i = 0; i < count; i += step) {
		if (i)
			fprintf(out, ", ");
		print_count(out, xs[i]);
		fprintf(out, " %.9g", fmax(xs[i], 0.5));
	}
	fprintf(out, ")\nset xrange [%.9g:%.9g]\n", fmax(xs[0], 0.5) / 1.5, fmax(xs[count - 1], 0.5) * 1.5);
	fprintf(out, "set xlabel \"%s\"\nset ylabel \"%s\"\n", test == PERF_DEPTH ? "receives in front" : "bytes",
		label_of(test));
	if (perf_tests[test].kind == PERF_SHARES)
		fprintf(out, "unset logscale y\nset yrange [0:105]\n");
	else
		fprintf(out, "set logscale y\nset yrange [*:*]\n");
	/* With few values, a logarithmic axis may have no tic at all. */
	if (count == 1 || test == PERF_RATE)
		fprintf(out, "unset logscale y\nset yrange [0:*]\n");
	fprintf(out, "set key %s\n", perf_tests[test].kind == PERF_STREAM ? "bottom right" : "top left");
}

static void print_panel(FILE *out, const struct perf_results *res, enum perf_test test, double *xs)
{
	const struct perf_list *pairs = &res->opt->pairs;
	size_t index = 0, count = find_xs(res, test, xs);
	char plots[65536];
	FILE *plot = fmemopen(plots, sizeof(plots), "w");

	if (!plot)
		bench_die("out of memory");
	for (size_t p = 0; p < res->opt->provider_cnt; p++) {
		for (size_t i = 0; i < pairs->count; i++) {
			if (!print_data(out, res, test, p, pairs->values[i]))
				continue;
			fprintf(plot, index ? ", " : "");
			print_plot(plot, res, test, p, pairs->values[i], index++);
		}
	}
	fclose(plot);
	print_axes(out, xs, count, test);
	fprintf(out, "set title ");
	print_text(out, perf_tests[test].title);
	fprintf(out, "\nplot %s\n", plots);
}

/* --- figure --------------------------------------------------------------------------- */

static size_t count_panels(const struct perf_results *res, bool *shown)
{
	size_t count = 0;

	for (size_t i = 0; i < res->row_cnt; i++) {
		count += !shown[res->rows[i].test];
		shown[res->rows[i].test] = true;
	}
	return count;
}

static void print_head(FILE *out, const struct perf_results *res, size_t panels)
{
	const size_t columns = panels == 1 ? 1 : panels <= 4 ? 2 : 3, lines = (panels + columns - 1) / columns;
	char text[512] = "";

	fprintf(out, "set terminal pngcairo noenhanced size %zu,%zu font \"sans,%d\"\nset output ",
		columns * PANEL_WIDTH, lines * PANEL_HEIGHT + TITLE_HEIGHT, FONT);
	print_text(out, res->opt->plot);
	for (size_t i = 0; i < res->opt->provider_cnt; i++) {
		const struct perf_about *about = &res->about[i];
		const size_t len = strlen(text);

		if (about->provider[0])
			snprintf(text + len, sizeof(text) - len, "%s%s %s (%s)", len ? ", " : "",
				 res->opt->providers[i], about->version, about->domain);
	}
	fprintf(out, "\nset multiplot layout %zu,%zu title ", lines, columns);
	print_text(out, text);
	fprintf(out, " font \"sans,%d\"\nset logscale x 2\nset grid\nset border lw 2\n", FONT + 3);
}

int plot_draw(const struct perf_results *res)
{
	bool shown[PERF_TESTS] = { false };
	const size_t panels = count_panels(res, shown);
	double *xs = calloc(res->row_cnt, sizeof(*xs));
	/* gnuplot may end before it has read all. */
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);
	FILE *out = popen("gnuplot", "w");
	int status;

	if (!out || !xs)
		bench_die("cannot start gnuplot: %s", strerror(errno));
	print_head(out, res, panels);
	for (enum perf_test test = 0; test < PERF_TESTS; test++)
		if (shown[test])
			print_panel(out, res, test, xs);
	fprintf(out, "unset multiplot\n");
	free(xs);
	status = pclose(out);
	signal(SIGPIPE, before);
	if (status)
		fprintf(stderr, "tagrv_perf: gnuplot could not draw %s\n", res->opt->plot);
	return status ? -1 : 0;
}
