/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tests whose results are known, for scripts/plain_runner: most of them must not pass.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <criterion/redirect.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int order;

static void first(void)
{
	cr_assert_eq(order++, 0);
}

static void second(void)
{
	cr_assert_eq(order++, 1);
}

/* ---- these pass ---- */

TestSuite(good, .init = first);

Test(good, fixtures_come_in_order, .init = second)
{
	cr_assert_eq(order, 2);
}

Test(good, dies_as_announced, .signal = SIGTERM)
{
	raise(SIGTERM);
}

Test(good, exits_as_announced, .exit_code = 7)
{
	exit(7);
}

/* What a test writes to standard error comes back to it. */
Test(good, stderr_can_be_read, .timeout = 10)
{
	char text[16] = "";

	cr_redirect_stderr();
	fputs("hello\n", stderr);
	cr_assert_not_null(fgets(text, sizeof(text), cr_get_redirected_stderr()));
	cr_assert_str_eq(text, "hello\n");
}

TestSuite(good_suite, .exit_code = 9);

Test(good_suite, exits_as_its_suite_says)
{
	exit(9);
}

static struct criterion_test_params three_values(void)
{
	static int values[] = { 1, 2, 3 };

	return cr_make_param_array(int, values, 3);
}

ParameterizedTestParameters(good_param, of_three)
{
	return three_values();
}

ParameterizedTest(int *value, good_param, of_three)
{
	cr_assert(*value >= 1 && *value <= 3);
}

/* ---- these do not ---- */

ParameterizedTestParameters(bad_param, of_three)
{
	return three_values();
}

ParameterizedTest(int *value, bad_param, of_three)
{
	cr_assert(*value != 2, "value %d", *value);
}

static void fini_of_suite(void)
{
	if (order)
		puts("said by fini of the suite");
}

static void fini_of_test(void)
{
	order = 1;
	puts("said by fini of the test");
}

TestSuite(bad, .fini = fini_of_suite);

Test(bad, asserts, .fini = fini_of_test)
{
	cr_assert(0, "the test ends here");
	puts("said too much");
}

Test(bad, expects)
{
	cr_expect(0, "goes on");
	puts("said after it");
}

Test(bad, crashes)
{
	puts("said before it crashed");
	raise(SIGTERM);
}

static void *assert_here(void *arg)
{
	cr_assert(0, "in a thread");
	return arg;
}

Test(bad, asserts_in_a_thread)
{
	pthread_t thread;

	pthread_create(&thread, NULL, assert_here, NULL);
	pthread_join(thread, NULL);
}

Test(bad, asserts_in_a_child)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child)
		cr_assert(0, "in a child");
	waitpid(child, NULL, 0);
}

Test(bad, exits)
{
	exit(101);
}

Test(bad, lives_on, .signal = SIGTERM)
{
}

Test(bad, returns, .exit_code = 7)
{
}

Test(bad, asserts_and_exits, .exit_code = 7)
{
	cr_expect(0, "nothing");
	exit(7);
}

/* As leak checkers do. */
static void end_badly(void)
{
	fputs("said by the destructor\n", stderr);
	fflush(stdout);
	_exit(23);
}

Test(bad, fails_at_exit)
{
	cr_redirect_stderr();
	atexit(end_badly);
}

TestSuite(bad_suite, .timeout = 0.5);

Test(bad_suite, hangs)
{
	for (;;)
		pause();
}

/* ---- these do not run ---- */

Test(skipped, says_why)
{
	cr_skip_test("no such %s", "device");
}

Test(skipped, disabled, .disabled = true)
{
	cr_assert(0);
}

TestSuite(skipped_suite, .disabled = true);

Test(skipped_suite, one)
{
	cr_assert(0);
}
