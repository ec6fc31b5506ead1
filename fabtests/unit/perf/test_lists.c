/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lists.c of tagrv_perf: lists of numbers and ranges, and what is said of those that are none.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "oob.h"
#include "options.h"

TestSuite(lists, .timeout = 10);

static void check_list(const char *text, const size_t *values, size_t count)
{
	struct perf_list list;

	list_parse(&list, text, "--sizes", 0, PERF_SIZE_MAX);
	cr_assert_eq(list.count, count, "%s: %zu values", text, list.count);
	for (size_t i = 0; i < count; i++)
		cr_assert_eq(list.values[i], values[i], "%s: value %zu is %zu", text, i, list.values[i]);
}

#define CHECK_LIST(text, ...)						\
	do {								\
		const size_t expected[] = { __VA_ARGS__ };		\
									\
		check_list(text, expected, sizeof(expected) / sizeof(expected[0])); \
	} while (0)

static int die_to;

static _Noreturn void tell(const char *text)
{
	_exit(write(die_to, text, strlen(text)) < 0);
}

/* A child parses the list, and dies of it. */
static void check_refused(const char *text, size_t min, size_t max, const char *said)
{
	char answer[256] = "";
	int fd[2];
	pid_t child;

	cr_assert_eq(pipe(fd), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (!child) {
		struct perf_list list;

		die_to = fd[1];
		bench_on_die(tell);
		list_parse(&list, text, "--what", min, max);
		_exit(7);
	}
	close(fd[1]);
	cr_assert_geq(read(fd[0], answer, sizeof(answer) - 1), 0);
	close(fd[0]);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	cr_assert(strstr(answer, said), "'%s': '%s', not '%s'", text, answer, said);
}

Test(lists, numbers_are_sorted_and_said_once)
{
	CHECK_LIST("8", 8);
	CHECK_LIST("64,8,64,0", 0, 8, 64);
	CHECK_LIST("1k,2K,1m,1G", 1 << 10, 2 << 10, 1 << 20, 1 << 30);
}

Test(lists, ranges_double_or_multiply)
{
	CHECK_LIST("8:64", 8, 16, 32, 64);
	CHECK_LIST("8:63", 8, 16, 32);
	CHECK_LIST("1:1M:1K", 1, 1 << 10, 1 << 20);
	CHECK_LIST("0:2", 0, 1, 2);
	CHECK_LIST("5:5", 5);
	CHECK_LIST("4:16,8:32,3", 3, 4, 8, 16, 32);
}

Test(lists, what_is_no_list_is_refused)
{
	static const char *const none[] = {
		"x", "8x", "8:", ":8", "8:4", "8:64:1", "8:64:2:2", "-1", "8 ", "K", "99999999999999999999G", "17179869184G",
	};

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		check_refused(none[i], 0, ~(size_t)0, "--what: '");
	check_refused("", 0, 10, "the list is empty");
	check_refused(",,", 0, 10, "the list is empty");
}

Test(lists, limits_hold_for_both_ends)
{
	check_refused("0", 1, 64, "'0' is not from 1 to 64");
	check_refused("65", 1, 64, "'65' is not from 1 to 64");
	check_refused("1:65", 1, 64, "is not from 1 to 64");
	check_refused("0:4", 1, 64, "is not from 1 to 64");
}

Test(lists, no_more_values_than_there_is_room_for)
{
	char text[PERF_LIST_MAX * 4 + 8] = "";

	for (int i = 0; i <= PERF_LIST_MAX; i++)
		sprintf(text + strlen(text), "%d,", i);
	check_refused(text, 0, 1000, "more than 64 values");
}

Test(lists, as_given_keeps_order_and_repetitions)
{
	static const size_t values[] = { 1048576, 8, 8, 4096, 8192, 8 };
	struct perf_list list;

	list_parse_as_given(&list, "1M,8,8,4K:8K,8", "--sizes", 0, PERF_SIZE_MAX);
	cr_assert_eq(list.count, sizeof(values) / sizeof(values[0]));
	for (size_t i = 0; i < list.count; i++)
		cr_assert_eq(list.values[i], values[i], "value %zu is %zu", i, list.values[i]);
}
