/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Results as a figure, drawn by gnuplot: a panel for each test, a line for each provider and
 * number of pairs. Letters and lines are large, so that half the size can be read.
 */
#include "results.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <rdma/fabric.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oob.h"

enum { PANEL_WIDTH = 900, PANEL_HEIGHT = 640, TITLE_HEIGHT = 70, FONT = 21, TICS = 7, COLOURS = 8 };

/*
 * More lines than this are named beside their panel, in small letters and columns, and have no
 * areas, which would hide each other. A column has the name of a provider, and the rest.
 */
enum { KEY_LINES = 12, KEY_ROWS = 32, KEY_COLUMNS = 3, KEY_FONT = 12, KEY_HEIGHT = 18, KEY_LETTER = 9, KEY_REST = 180 };

/* These can be told apart by people who do not see all colours. */
static const char *const colours[COLOURS] = {
	"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999",
};

/* Of a file that was not there, nothing is left. */
static void check_file(const char *name)
{
	const bool was_there = !access(name, F_OK);
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	char path[PATH_MAX];

	if (fd < 0)
		bench_die("--plot: %s cannot be written: %s", name, strerror(errno));
	close(fd);
	if (!was_there && realpath(name, path))		/* not a link to it */
		unlink(path);
}

void plot_check(const char *file)
{
	const char *path = getenv("PATH");
	char *copy = strdup(path ? path : ""), *state = NULL, name[4096];

	for (char *s = strtok_r(copy, ":", &state); s; s = strtok_r(NULL, ":", &state)) {
		snprintf(name, sizeof(name), "%s/gnuplot", s);
		if (access(name, X_OK))
			continue;
		free(copy);
		check_file(file);
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

static bool has_line(const struct perf_results *res, enum perf_test test, size_t provider, size_t pairs)
{
	for (size_t i = 0; i < res->row_cnt; i++)
		if (is_line(res, &res->rows[i], test, provider, pairs))
			return true;
	return false;
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
static void print_part(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc(*text == '"' || *text == '\\' || *text == '`' ? '\'' : *text, out);
}

static void print_text(FILE *out, const char *text)
{
	fputc('"', out);
	print_part(out, text);
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
		       size_t pairs, size_t index, bool area)
{
	const char *colour = colours[index % COLOURS];
	const enum perf_kind kind = perf_tests[test].kind;

	if (kind == PERF_TIMES && area) {
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

/* How many lines a panel has; overlap has two for each provider. */
static size_t count_lines(const struct perf_results *res, enum perf_test test)
{
	const struct perf_list *pairs = &res->opt->pairs;
	size_t count = 0;

	for (size_t p = 0; p < res->opt->provider_cnt; p++)
		for (size_t i = 0; i < pairs->count; i++)
			count += has_line(res, test, p, pairs->values[i]);
	return perf_tests[test].kind == PERF_SHARES ? 2 * count : count;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Gnuplot puts the names over the lines if they take too many columns. */
static size_t key_rows(size_t lines)
{
	return larger(KEY_ROWS, (lines + KEY_COLUMNS - 1) / KEY_COLUMNS);
}

static void print_key(FILE *out, enum perf_test test, size_t lines)
{
	if (lines > KEY_LINES)
		fprintf(out, "set key outside right top vertical maxrows %d font \"sans,%d\" samplen 1\n",
			(int)key_rows(lines), KEY_FONT);
	else
		fprintf(out, "set key inside %s font \"sans,%d\" samplen 4\n",
			perf_tests[test].kind == PERF_STREAM ? "bottom right" : "top left", FONT);
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
}

static void print_panel(FILE *out, const struct perf_results *res, enum perf_test test, double *xs)
{
	const struct perf_list *pairs = &res->opt->pairs;
	const size_t lines = count_lines(res, test);
	size_t index = 0, count = find_xs(res, test, xs), len = 0;
	char *plots = NULL;
	FILE *plot = open_memstream(&plots, &len);

	if (!plot)
		bench_die("out of memory");
	for (size_t p = 0; p < res->opt->provider_cnt; p++) {
		for (size_t i = 0; i < pairs->count; i++) {
			if (!print_data(out, res, test, p, pairs->values[i]))
				continue;
			fprintf(plot, index ? ", " : "");
			print_plot(plot, res, test, p, pairs->values[i], index++, lines <= KEY_LINES);
		}
	}
	if (fclose(plot))
		bench_die("out of memory");
	print_axes(out, xs, count, test);
	print_key(out, test, lines);
	fprintf(out, "set title ");
	print_text(out, perf_tests[test].title);
	fprintf(out, "\nplot %s\n", plots);
	free(plots);
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

/*
 * Names what was measured, in as many lines as fit between the edges. Returns how many these
 * are; out: NULL, to count them only.
 */
static size_t print_providers(FILE *out, const struct perf_results *res, size_t width)
{
	const size_t most = width / (FONT * 4 / 5);
	size_t lines = 1, used = 0;

	for (size_t i = 0; i < res->opt->provider_cnt; i++) {
		const struct perf_about *about = &res->about[i];
		char text[256];
		size_t len;

		if (!about->provider[0])
			continue;
		snprintf(text, sizeof(text), "%.63s %s (%s)", res->opt->providers[i], about->version, about->domain);
		len = strlen(text) + 2;
		if (out && used)
			fprintf(out, used + len > most ? ",\\n" : ", ");
		if (used && used + len > most) {
			lines++;
			used = 0;
		}
		if (out)
			print_part(out, text);
		used += len;
	}
	return lines;
}

/* Of the panel with most lines; their names may be beside it. */
static void find_panel_size(const struct perf_results *res, size_t *width, size_t *height)
{
	size_t most = 0, letters = 0;

	for (enum perf_test test = 0; test < PERF_TESTS; test++)
		most = larger(most, count_lines(res, test));
	for (size_t p = 0; p < res->opt->provider_cnt; p++)
		letters = larger(letters, strlen(res->opt->providers[p]));
	*width = PANEL_WIDTH;
	*height = PANEL_HEIGHT;
	if (most <= KEY_LINES)
		return;
	*width += (most + key_rows(most) - 1) / key_rows(most) * (KEY_REST + KEY_LETTER * letters);
	*height = larger(*height, (key_rows(most) + 6) * KEY_HEIGHT);
}

static void print_head(FILE *out, const struct perf_results *res, size_t panels)
{
	const size_t columns = panels == 1 ? 1 : panels <= 4 ? 2 : 3, rows = (panels + columns - 1) / columns;
	size_t width, height, title;

	find_panel_size(res, &width, &height);
	width *= columns;
	title = TITLE_HEIGHT + (print_providers(NULL, res, width) - 1) * 2 * FONT;

	fprintf(out, "set terminal pngcairo noenhanced size %zu,%zu font \"sans,%d\"\nset output ",
		width, rows * height + title, FONT);
	print_text(out, res->opt->plot);
	fprintf(out, "\nset multiplot layout %zu,%zu title \"", rows, columns);
	print_providers(out, res, width);
	fprintf(out, "\" font \"sans,%d\"\nset logscale x 2\nset grid\nset border lw 2\n", FONT + 3);
}

int plot_draw(const struct perf_results *res)
{
	bool shown[PERF_TESTS] = { false };
	const size_t panels = count_panels(res, shown);
	double *xs = calloc(res->row_cnt, sizeof(*xs));
	/* gnuplot may end before it has read all. */
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);
	/* Where it cannot open its file, the figure goes to standard output, which is for results. */
	FILE *out = popen("exec gnuplot >/dev/null", "w");
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
