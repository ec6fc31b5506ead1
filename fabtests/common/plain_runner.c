/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Runs unit tests that are written for Criterion, without its library: configure
 * --with-criterion=plain. The library starts each test by executing the program anew and
 * changing the child's memory before its main(), which an emulator of another processor
 * does not survive. Here a test is a child by fork() and nothing else.
 *
 *   main: for each test that --filter names, so many at a time as --jobs says
 *     fork --> child: stdout and stderr into a file; init, test, fini; exit status
 *     the child ends, or its time is up --> its output is printed if it has failed
 *
 * This file defines the functions that the macros of Criterion's headers call. Of the
 * hooks only the limits of unit_limits.c matter, and they are chosen here anew.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <criterion/options.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/slowness.h"

/* The limits in the tests are for native code on a quiet machine. */
#define SPARE	10
#define LIMIT	60		/* s, of tests that name none */

enum { JOBS_MAX = 64 };

/* Exit statuses of a child that is still in charge of itself. */
enum { PASSED = 0, FAILED = 100, SKIPPED = 101 };

/* The linker's names for the sections where the macros put tests and suites. */
extern struct criterion_test *const __start_cr_tst[] __attribute__((weak));
extern struct criterion_test *const __stop_cr_tst[] __attribute__((weak));
extern struct criterion_suite *const __start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *const __stop_cr_sts[] __attribute__((weak));

struct criterion_options criterion_options;

/* ---- in the child ---- */

static const struct criterion_test *current;
static const struct criterion_test_extra_data *current_suite;
static volatile sig_atomic_t failures, skips;
static sigjmp_buf end_of_part;
static FILE *caught_stderr;

/* Runs a part of a test until it returns or an assertion ends it. */
static void run_part(void (*part)(void))
{
	if (part && !sigsetjmp(end_of_part, 0))
		part();
}

void criterion_internal_test_setup(void)
{
	run_part(current_suite ? current_suite->init : NULL);
	run_part(current->data->init);
}

void criterion_internal_test_main(void (*fn)(void))
{
	if (!failures && !skips)
		run_part(fn);
}

void criterion_internal_test_teardown(void)
{
	if (skips)
		return;
	run_part(current->data->fini);
	run_part(current_suite ? current_suite->fini : NULL);
}

void criterion_abort_test(void)
{
	siglongjmp(end_of_part, 1);
}

void criterion_continue_test(void)
{
}

void criterion_skip_test(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
	skips = 1;
	criterion_abort_test();
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (stats->passed)
		return;
	failures = 1;
	printf("[----] %s:%u: Assertion failed: %s\n", stats->file, stats->line, stats->message);
}

void cri_asserts_passed_incr(void)
{
}

char *cr_translate_assert_msg(int msg_index, ...)
{
	const char *text;
	va_list ap;

	(void) msg_index;
	va_start(ap, msg_index);
	text = va_arg(ap, const char *);
	va_end(ap);
	return strdup(text);
}

int cr_asprintf(char **strp, const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = vasprintf(strp, fmt, ap);
	va_end(ap);
	return ret;
}

void cr_asprintf_free(char *buf)
{
	free(buf);
}

void cr_log(enum criterion_severity severity, const char *msg, ...)
{
	va_list ap;

	(void) severity;
	fputs("[----] ", stdout);
	va_start(ap, msg);
	vprintf(msg, ap);
	va_end(ap);
	putchar('\n');
}

/* What is written to stderr from here on can be read as far as it has come. */
void cr_redirect_stderr(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) || dup2(ends[1], STDERR_FILENO) < 0)
		abort();
	close(ends[1]);
	caught_stderr = fdopen(ends[0], "r");
}

FILE *cr_get_redirected_stderr(void)
{
	return caught_stderr;
}

static const struct criterion_test_extra_data *suite_of(const struct criterion_test *test)
{
	for (struct criterion_suite *const *s = __start_cr_sts; s < __stop_cr_sts; s++)
		if (!strcmp((*s)->name, test->category))
			return (*s)->data;
	return NULL;
}

static void run_child(const struct criterion_test *test, int out, const sigset_t *mask)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	current = test;
	current_suite = suite_of(test);
	test->test();
	fflush(stdout);
	_exit(failures ? FAILED : skips ? SKIPPED : PASSED);
}

/* ---- in the parent ---- */

struct job {
	const struct criterion_test *test;
	pid_t	pid;		/* 0: free */
	int	out;		/* file with its output */
	double	end;		/* when its time is up */
	bool	late;
};

static struct job jobs[JOBS_MAX];
static unsigned most = 1, running;
static unsigned tested, passed, crashed;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec * 1e-9;
}

static double limit_of(const struct criterion_test *test)
{
	const struct criterion_test_extra_data *suite = suite_of(test);
	double limit = test->data->timeout;

	if (!(limit > 0) && suite)
		limit = suite->timeout;
	return (limit > 0 ? limit : LIMIT) * SPARE * slowness();
}

static void start(const struct criterion_test *test, const sigset_t *mask)
{
	struct job *job = jobs;

	while (job->pid)
		job++;
	*job = (struct job) { .test = test, .out = memfd_create("output", MFD_CLOEXEC),
			      .end = now() + limit_of(test) };
	fflush(stdout);
	job->pid = fork();
	if (job->out < 0 || job->pid < 0) {
		perror("cannot start a test");
		exit(1);
	}
	if (!job->pid)
		run_child(test, job->out, mask);
	running++;
}

static void print_output(int out)
{
	char buf[4096];
	ssize_t got;

	lseek(out, 0, SEEK_SET);
	while ((got = read(out, buf, sizeof(buf))) > 0)
		fwrite(buf, 1, (size_t) got, stdout);
}

static void finish(struct job *job, int status)
{
	const struct criterion_test *test = job->test;
	bool ended = WIFEXITED(status), good = ended && WEXITSTATUS(status) == PASSED;

	running--;
	job->pid = 0;
	if (ended && WEXITSTATUS(status) == SKIPPED) {
		printf("[SKIP] %s::%s: ", test->category, test->name);
		print_output(job->out);
	} else {
		tested++;
		passed += good;
		crashed += !ended;
		if (!good) {
			print_output(job->out);
			printf("[%s] %s::%s%s (status 0x%x)\n", ended ? "FAIL" : "CRASH",
			       test->category, test->name,
			       job->late ? ": its time is up" : "", (unsigned) status);
		}
	}
	close(job->out);
	fflush(stdout);
}

/* Ends what is late; returns when a test has ended. */
static void await_one(const sigset_t *child)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	unsigned before = running;
	int status;

	while (running == before) {
		sigtimedwait(child, NULL, &pause);
		for (unsigned i = 0; i < most; i++) {
			struct job *job = &jobs[i];

			if (job->pid && waitpid(job->pid, &status, WNOHANG) == job->pid) {
				finish(job, status);
			} else if (job->pid && !job->late && now() > job->end) {
				job->late = true;
				kill(-job->pid, SIGKILL);
			}
		}
	}
}

static bool is_wanted(const struct criterion_test *test, const char *filter)
{
	char name[512];

	snprintf(name, sizeof(name), "%s/%s", test->category, test->name);
	return !test->data->disabled &&
	       (!filter || !fnmatch(filter, name, FNM_EXTMATCH));
}

static int usage(const char *program)
{
	fprintf(stderr, "usage: %s [--filter SUITE/NAME] [--jobs N] [--list]\n", program);
	return 2;
}

int main(int argc, char **argv)
{
	const char *filter = NULL;
	sigset_t child, mask;
	bool list = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--list"))
			list = true;
		else if (!strcmp(argv[i], "--filter") && i + 1 < argc)
			filter = argv[++i];
		else if (!strcmp(argv[i], "--jobs") && i + 1 < argc)
			most = (unsigned) strtoul(argv[++i], NULL, 10);
		else
			return usage(argv[0]);
	}
	if (!most || most > JOBS_MAX)
		return usage(argv[0]);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &mask);
	for (struct criterion_test *const *t = __start_cr_tst; t < __stop_cr_tst; t++) {
		if (!is_wanted(*t, filter))
			continue;
		if (list) {
			printf("%s/%s\n", (*t)->category, (*t)->name);
			continue;
		}
		while (running == most)
			await_one(&child);
		start(*t, &mask);
	}
	while (running)
		await_one(&child);
	printf("[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: %u\n", tested,
	       passed, tested - passed, crashed);
	return passed != tested;
}
