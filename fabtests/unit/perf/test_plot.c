/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * plot.c of tagrv_perf: what gnuplot is told of the most lines that options allow. Gnuplot is a
 * script that keeps what it reads.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"
#include "show/results.h"

TestSuite(plot, .timeout = 30);

static char folder[] = "/tmp/tagrv_plot_XXXXXX";

static void fake_gnuplot(void)
{
	char name[64], path[512];
	FILE *file;

	cr_assert(mkdtemp(folder));
	snprintf(name, sizeof(name), "%s/gnuplot", folder);
	file = fopen(name, "w");
	cr_assert(file);
	fprintf(file, "#!/bin/sh\nexec cat >%s/read\n", folder);
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(chmod(name, 0700), 0);
	snprintf(path, sizeof(path), "%s:/usr/bin:/bin", folder);
	cr_assert_eq(setenv("PATH", path, 1), 0);
}

/* The caller frees it. */
static char *what_gnuplot_read(void)
{
	char name[64], *text = NULL;
	size_t room = 0;
	FILE *file;

	snprintf(name, sizeof(name), "%s/read", folder);
	file = fopen(name, "r");
	cr_assert(file);
	cr_assert_gt(getdelim(&text, &room, 0, file), 0);
	fclose(file);
	unlink(name);
	snprintf(name, sizeof(name), "%s/gnuplot", folder);
	unlink(name);
	rmdir(folder);
	return text;
}

static size_t count(const char *text, const char *word)
{
	size_t found = 0;

	while ((text = strstr(text, word))) {
		found++;
		text += strlen(word);
	}
	return found;
}

/* Two sizes of each provider and number of pairs; names as long as they may be. */
static char *draw(enum perf_test test, size_t providers, size_t pairs)
{
	static char names[PERF_PROVIDERS_MAX][64];
	static struct perf_options opt;
	struct perf_results res = { .opt = &opt };

	opt = (struct perf_options){ .provider_cnt = providers, .plot = "/nowhere/a.png", .pairs.count = pairs };
	res.rows = calloc(providers * pairs * 2, sizeof(*res.rows));
	for (size_t p = 0; p < providers; p++) {
		memset(names[p], 'a' + (int)p, providers > 1 ? 63 : 5);
		opt.providers[p] = names[p];
		snprintf(res.about[p].provider, sizeof(res.about[p].provider), "%s", names[p]);
		strcpy(res.about[p].version, "1.0");
		memset(res.about[p].domain, 'A' + (int)p, 63);
		for (size_t i = 0; i < 2 * pairs; i++) {
			opt.pairs.values[i / 2] = i / 2 + 1;
			res.rows[res.row_cnt++] = (struct perf_row){
				.provider = p, .test = test, .size = 8 << i % 2, .pairs = i / 2 + 1, .per_second = 1e6,
			};
		}
	}
	fake_gnuplot();
	cr_assert_eq(plot_draw(&res), 0);
	free(res.rows);
	return what_gnuplot_read();
}

static void check_end(const char *text)
{
	const char *end = "\nunset multiplot\n";

	cr_assert_geq(strlen(text), strlen(end));
	cr_assert_str_eq(text + strlen(text) - strlen(end), end);
}

Test(plot, no_line_of_the_most_lines_is_cut_off)
{
	char *text = draw(PERF_LAT, PERF_PROVIDERS_MAX, PERF_PAIRS_MAX);

	check_end(text);
	cr_assert_eq(count(text, " with linespoints "), 512);
	cr_assert_eq(count(text, " << EOD\n"), 512);
	/* Names in full, all in the title and each in the legend. */
	for (int p = 0; p < PERF_PROVIDERS_MAX; p++) {
		char name[64] = "", domain[64] = "";

		memset(name, 'a' + p, 63);
		memset(domain, 'A' + p, 63);
		cr_assert_eq(count(text, name), 65, "%c: %zu", 'a' + p, count(text, name));
		cr_assert_eq(count(text, domain), 1);
	}
	cr_assert_eq(count(text, "set key outside"), 1);
	free(text);
}

Test(plot, few_lines_are_named_inside)
{
	char *text = draw(PERF_BW, 1, 2);

	check_end(text);
	cr_assert_eq(count(text, " with linespoints "), 2);
	cr_assert_eq(count(text, "set key inside bottom right"), 1);
	cr_assert_eq(count(text, "size 900,710"), 1);
	free(text);
}
