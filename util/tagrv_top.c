/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * tagrv_top: shows what the endpoints of this user's processes do. See man/tagrv_top.1.md.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "util/top/top_json.h"
#include "util/top/top_text.h"
#include "util/top/top_ui.h"

#define WAIT_MS	100	/* for answers; a busy process needs a few */

struct options {
	struct top_ui_options view;
	bool	once, json;
};

static void print_help(void)
{
	puts("usage: tagrv_top [options]\n"
	     "\n"
	     "Show what the endpoints of the provider tagrv do in this user's processes: rates of\n"
	     "messages and bytes, protocols, one-sided operations, queues, credit, connections.\n"
	     "\n"
	     "  -1, --once               print one table and the details of each endpoint, and end\n"
	     "  -j, --json               print one JSON object, in one line, for each look\n"
	     "  -d, --interval SECONDS   time between looks (default: 1)\n"
	     "  -p, --pid PID            only this process\n"
	     "  -s, --sort KEY           pid, command, out, in, bytes, posted, unexpected, memory or\n"
	     "                           queued (default: pid)\n"
	     "  -h, --help               this text\n"
	     "\n"
	     "Keys of the live view: q quits, h explains.");
}

static int complain(const char *what, const char *value)
{
	fprintf(stderr, "tagrv_top: %s%s%s (try --help)\n", what, value ? ": " : "",
		value ? value : "");
	return 2;
}

static int complain_of_term(void)
{
	const char *term = getenv("TERM");

	fprintf(stderr, "tagrv_top: the terminal '%s' (TERM) is not known here: set TERM to one that "
		"is, such as vt100, or use --once\n", term ? term : "");
	return 2;
}

/* ---- options ---- */

static bool read_seconds(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	return *text && !*end && isfinite(*seconds) && *seconds >= 0.05 && *seconds <= 86400;
}

static bool read_pid(const char *text, pid_t *pid)
{
	char *end;
	long value = strtol(text, &end, 10);

	*pid = (pid_t) value;
	return *text && !*end && value > 0 && value <= 1 << 22;
}

/* -1: go on; else the exit status. */
static int read_option(struct options *o, int option)
{
	switch (option) {
	case '1':
		o->once = true;
		return -1;
	case 'j':
		o->json = true;
		return -1;
	case 'd':
		return read_seconds(optarg, &o->view.interval) ? -1 :
		       complain("an interval has 0.05 to 86400 seconds", optarg);
	case 'p':
		return read_pid(optarg, &o->view.source.pid) ? -1 :
		       complain("no number of a process", optarg);
	case 's':
		o->view.key = top_key_find(optarg);
		return o->view.key != TOP_KEYS ? -1 : complain("no key to sort by", optarg);
	case 'h':
		print_help();
		return 0;
	default:
		return 2;
	}
}

static int read_options(int argc, char **argv, struct options *o)
{
	static const struct option options[] = {
		{ "once", no_argument, NULL, '1' },
		{ "json", no_argument, NULL, 'j' },
		{ "interval", required_argument, NULL, 'd' },
		{ "pid", required_argument, NULL, 'p' },
		{ "sort", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int option, status;

	while ((option = getopt_long(argc, argv, "1jd:p:s:h", options, NULL)) != -1) {
		status = read_option(o, option);
		if (status >= 0)
			return status;
	}
	if (optind < argc)
		return complain("no arguments are expected", argv[optind]);
	return -1;
}

/* ---- without the live view ---- */

static void sleep_for(double seconds)
{
	struct timespec rest = {
		.tv_sec = (time_t) seconds,
		.tv_nsec = (long) ((seconds - floor(seconds)) * 1e9),
	};

	nanosleep(&rest, NULL);
}

/* 0: no terminal, no limit. */
static int width_of_output(void)
{
	struct winsize size;

	return isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) ?
	       size.ws_col : 0;
}

static void print_table(const struct options *o, const struct top_rows *rows)
{
	const struct top_table table = { .key = o->view.key, .width = width_of_output() };
	struct top_text text = { 0 };

	if (rows->cnt)
		top_text_heading(&text, &table);
	else
		top_text_nothing(&text, o->view.source.pid);
	for (size_t i = 0; i < rows->cnt; i++)
		top_text_row(&text, &table, &rows->rows[i]);
	for (size_t i = 0; i < rows->cnt; i++)
		top_text_details(&text, &rows->rows[i]);
	fputs(text.text ? text.text : "", stdout);
	top_text_free(&text);
}

static int print_look(const struct options *o, const struct top_look *now,
		      const struct top_look *before)
{
	struct top_rows rows;
	int ret = top_rows_make(now, before, &rows);

	if (ret)
		return ret;
	top_rows_sort(&rows, o->view.key, false);
	if (o->json)
		ret = top_json_write(now, &rows, tagrv_clock_read(CLOCK_REALTIME), stdout);
	else
		print_table(o, &rows);
	top_rows_free(&rows);
	return ret;
}

/* Each look but the first one is printed. */
static int print_looks(const struct options *o)
{
	struct top_look before, now;
	int ret = top_look_take(&o->view.source, &before);

	if (ret)
		return ret;
	do {
		sleep_for(o->view.interval);
		ret = top_look_take(&o->view.source, &now);
		if (ret)
			break;
		ret = print_look(o, &now, &before);
		top_look_free(&before);
		before = now;
	} while (!ret && !o->once);
	top_look_free(&before);
	return ret;
}

int main(int argc, char **argv)
{
	struct options o = {
		.view = {
			.source = {
				.proc = "/proc", .sys = "/sys", .user = geteuid(),
				.wait_ms = WAIT_MS,
			},
			.key = TOP_BY_PID,
			.interval = 1,
		},
	};
	int ret = read_options(argc, argv, &o);

	if (ret >= 0)
		return ret;
	if (o.once || o.json)
		ret = print_looks(&o);
	else if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		return complain("the live view needs a terminal; --once and --json do not", NULL);
	else
		ret = top_ui_run(&o.view);
	if (ret == -ENOTTY)
		return complain_of_term();
	if (!ret && (fflush(stdout) || ferror(stdout)))
		ret = errno ? -errno : -EIO;
	if (ret)
		fprintf(stderr, "tagrv_top: %s\n", strerror(-ret));
	return ret ? 1 : 0;
}
