/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Runs unit tests that are written for Criterion, without its library: configure
 * --with-criterion=plain. The library starts each test by executing the program anew and
 * changing the child's memory before its main(). That takes most of the time of most tests,
 * and neither an emulator of another processor nor the thread sanitizer survives it. Here a
 * test is a child by fork() and nothing else.
 *
 *   main: for each test that --filter names, so many at a time as --jobs says
 *     fork --> child: stdout and stderr into a file; init, test, fini; exit()
 *     the child ends, or its time is up --> its output is printed if it has failed
 *
 * A test passes if it returns and the process then ends with status 0, which it does not
 * if a leak checker finds something; or as .signal or .exit_code of the test says. What
 * the child knows besides its status is in memory that it shares with main. A program in
 * which no test has run does not pass.
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
#include <criterion/parameterized.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/slowness.h"

/* The limits in the tests are for a quiet machine. An emulator needs more: --spare. */
#define SPARE	3
#define LIMIT	60		/* s, of tests that name none */

enum { JOBS_MAX = 64, NAME_SIZE = 512 };

/* Exit statuses: of a child after an assertion failed, and of a program that ran nothing. */
enum { FAILED = 100, NONE_RAN = 1, ALL_SKIPPED = 77 };

/* The linker's names for the sections where the macros put tests and suites. */
extern struct criterion_test *const __start_cr_tst[] __attribute__((weak));
extern struct criterion_test *const __stop_cr_tst[] __attribute__((weak));
extern struct criterion_suite *const __start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *const __stop_cr_sts[] __attribute__((weak));

struct criterion_options criterion_options;

/* ---- in the child ---- */

/* What main learns from a child, also from one that was killed. */
struct verdict {
	volatile sig_atomic_t failed, skipped;
	volatile sig_atomic_t returned;		/* from the test's last part */
};

static const struct criterion_test *current;
static const struct criterion_test_extra_data *current_suite;
static void *current_param;
static struct verdict *verdict;
static pid_t test_thread;
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
	void (*with_param)(void *) = (void (*)(void *)) (uintptr_t) fn;

	if (verdict->failed || verdict->skipped)
		return;
	if (current->data->kind_ != CR_TEST_PARAMETERIZED)
		run_part(fn);
	else if (!sigsetjmp(end_of_part, 0))
		with_param(current_param);
}

void criterion_internal_test_teardown(void)
{
	if (verdict->skipped)
		return;
	run_part(current->data->fini);
	run_part(current_suite ? current_suite->fini : NULL);
}

/* Another thread, or a child of the test, cannot end the test's function: it ends itself. */
void criterion_abort_test(void)
{
	if (syscall(SYS_gettid) != test_thread) {
		fflush(stdout);
		_exit(FAILED);
	}
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
	verdict->skipped = 1;
	criterion_abort_test();
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (stats->passed)
		return;
	verdict->failed = 1;
	printf("[----] %s:%u: Assertion failed: %s\n", stats->file, stats->line, stats->message);
	fflush(stdout);
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

/*
 * exit(), as after a test under the library: so destructors run, and leak checkers. They
 * shall write where main reads.
 */
static _Noreturn void run_child(const struct criterion_test *test, int out, const sigset_t *mask)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	setvbuf(stdout, NULL, _IONBF, 0);
	test_thread = (pid_t) syscall(SYS_gettid);
	current = test;
	current_suite = suite_of(test);
	test->test();
	verdict->returned = 1;
	fflush(NULL);
	dup2(out, STDERR_FILENO);
	exit(verdict->failed ? FAILED : EXIT_SUCCESS);
}

/* ---- in the parent ---- */

struct job {
	const struct criterion_test *test;
	char	name[NAME_SIZE];
	pid_t	pid;		/* 0: free */
	int	out;		/* file with its output */
	double	end;		/* when its time is up */
	bool	late;
};

static struct job jobs[JOBS_MAX];
static struct verdict *verdicts;	/* one per job */
static unsigned most, running;
static unsigned tested, passed, crashed, skipped;
static double spare = SPARE;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec * 1e-9;
}

/* What the test says of itself, else its suite. */
static int signal_of(const struct criterion_test *test)
{
	const struct criterion_test_extra_data *suite = suite_of(test);

	return test->data->signal || !suite ? test->data->signal : suite->signal;
}

static int exit_code_of(const struct criterion_test *test)
{
	const struct criterion_test_extra_data *suite = suite_of(test);

	return test->data->exit_code || !suite ? test->data->exit_code : suite->exit_code;
}

static bool is_disabled(const struct criterion_test *test)
{
	const struct criterion_test_extra_data *suite = suite_of(test);

	return test->data->disabled || (suite && suite->disabled);
}

static double limit_of(const struct criterion_test *test)
{
	const struct criterion_test_extra_data *suite = suite_of(test);
	double limit = test->data->timeout;

	if (!(limit > 0) && suite)
		limit = suite->timeout;
	return (limit > 0 ? limit : LIMIT) * spare * slowness();
}

static void start(const struct criterion_test *test, const char *name, const sigset_t *mask)
{
	struct job *job = jobs;

	while (job->pid)
		job++;
	*job = (struct job) { .test = test, .out = memfd_create("output", MFD_CLOEXEC),
			      .end = now() + limit_of(test) };
	snprintf(job->name, sizeof(job->name), "%s", name);
	verdict = &verdicts[job - jobs];
	memset(verdict, 0, sizeof(*verdict));
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

/* A test that expects a signal or an exit code must not return. */
static bool is_good(const struct job *job, const struct verdict *said, int status)
{
	int sig = signal_of(job->test), code = exit_code_of(job->test);

	if (job->late || said->failed)
		return false;
	if (WIFSIGNALED(status))
		return sig == WTERMSIG(status);
	return !sig && WEXITSTATUS(status) == code && (!code || !said->returned);
}

static void finish(struct job *job, int status)
{
	const struct verdict *said = &verdicts[job - jobs];
	bool good = is_good(job, said, status);

	running--;
	job->pid = 0;
	if (said->skipped && WIFEXITED(status) && !WEXITSTATUS(status)) {
		skipped++;
		printf("[SKIP] %s: ", job->name);
		print_output(job->out);
	} else {
		tested++;
		passed += good;
		crashed += !good && WIFSIGNALED(status);
		if (!good) {
			print_output(job->out);
			printf("[%s] %s%s (status 0x%x)\n", WIFEXITED(status) ? "FAIL" : "CRASH",
			       job->name, job->late ? ": its time is up" : "",
			       (unsigned) status);
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

static int compare(const void *a, const void *b)
{
	const struct criterion_test *const *x = a, *const *y = b;
	int suites = strcmp((*x)->category, (*y)->category);

	return suites ? suites : strcmp((*x)->name, (*y)->name);
}

/* The order in the section is the compiler's. */
static const struct criterion_test **sorted_tests(size_t *cnt)
{
	const struct criterion_test **tests;

	*cnt = (size_t) (__stop_cr_tst - __start_cr_tst);
	tests = calloc(*cnt + 1, sizeof(*tests));
	if (!tests)
		abort();
	for (size_t i = 0; i < *cnt; i++)
		tests[i] = __start_cr_tst[i];
	qsort(tests, *cnt, sizeof(*tests), compare);
	return tests;
}

static bool is_wanted(const struct criterion_test *test, const char *filter)
{
	char name[NAME_SIZE];

	snprintf(name, sizeof(name), "%s/%s", test->category, test->name);
	return !filter || !fnmatch(filter, name, FNM_EXTMATCH);
}

static void start_when_free(const struct criterion_test *test, const char *name,
			    const sigset_t *child, const sigset_t *mask)
{
	while (running == most)
		await_one(child);
	start(test, name, mask);
}

/* A child has what it needs of the parameters when it has been forked. */
static void start_with_params(const struct criterion_test *test, const sigset_t *child,
			      const sigset_t *mask)
{
	struct criterion_test_params params = test->data->param_();
	char name[NAME_SIZE];

	for (size_t i = 0; i < params.length; i++) {
		current_param = (char *) params.params + i * params.size;
		snprintf(name, sizeof(name), "%s::%s[%zu]", test->category, test->name, i);
		start_when_free(test, name, child, mask);
	}
	if (params.cleanup)
		params.cleanup(&params);
}

static void run_test(const struct criterion_test *test, const sigset_t *child,
		     const sigset_t *mask)
{
	char name[NAME_SIZE];

	snprintf(name, sizeof(name), "%s::%s", test->category, test->name);
	if (is_disabled(test)) {
		skipped++;
		printf("[SKIP] %s: disabled\n", name);
	} else if (test->data->kind_ == CR_TEST_PARAMETERIZED) {
		start_with_params(test, child, mask);
	} else {
		start_when_free(test, name, child, mask);
	}
}

/* Tests that ended by a signal count as failing, too. */
static int report(void)
{
	printf("[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: %u\n", tested,
	       passed, tested - passed, crashed);
	if (tested)
		return passed != tested;
	printf("%s\n", skipped ? "all tests were skipped" : "no test has run");
	return skipped ? ALL_SKIPPED : NONE_RAN;
}

static int usage(const char *program)
{
	fprintf(stderr, "usage: %s [--filter SUITE/NAME] [--jobs N] [--spare N] [--list]\n", program);
	return 2;
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const struct criterion_test **tests;
	const char *filter = NULL;
	sigset_t child, mask;
	bool list = false;
	size_t cnt;

	most = cpus < 1 ? 1 : cpus > JOBS_MAX ? JOBS_MAX : (unsigned) cpus;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--list"))
			list = true;
		else if (!strcmp(argv[i], "--filter") && i + 1 < argc)
			filter = argv[++i];
		else if (!strcmp(argv[i], "--jobs") && i + 1 < argc)
			most = (unsigned) strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--spare") && i + 1 < argc)
			spare = strtod(argv[++i], NULL);
		else
			return usage(argv[0]);
	}
	if (!most || most > JOBS_MAX || !(spare > 0))
		return usage(argv[0]);
	verdicts = mmap(NULL, JOBS_MAX * sizeof(*verdicts), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (verdicts == MAP_FAILED) {
		perror("no shared memory");
		return 1;
	}
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &mask);
	tests = sorted_tests(&cnt);
	for (size_t i = 0; i < cnt; i++) {
		if (!is_wanted(tests[i], filter))
			continue;
		if (list)
			printf("%s/%s\n", tests[i]->category, tests[i]->name);
		else
			run_test(tests[i], &child, &mask);
	}
	free(tests);
	if (list)
		return 0;
	while (running)
		await_one(&child);
	return report();
}
