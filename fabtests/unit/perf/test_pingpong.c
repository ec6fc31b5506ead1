/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * pingpong/pingpong.c of tagrv_perf: what each option of tagrv_pingpong stands for.
 */
#include <criterion/criterion.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oob.h"
#include "options.h"

TestSuite(pingpong, .timeout = 10);

static struct perf_options parse(const char *words)
{
	/* The options point into it; those of a few calls are kept. */
	static char kept[8][512];
	static size_t at;
	char *copy = kept[at++ % 8], *state = NULL, name[] = "tagrv_pingpong", *argv[32] = { name };
	struct perf_options opt;
	int argc = 1;

	unsetenv("FI_PROVIDER");
	cr_assert_lt(snprintf(copy, sizeof(kept[0]), "%s", words), (int) sizeof(kept[0]));
	for (char *s = strtok_r(copy, " ", &state); s; s = strtok_r(NULL, " ", &state))
		argv[argc++] = s;
	optind = 0;
	pingpong_parse(&opt, argc, argv);
	return opt;
}

static unsigned tests_of(const struct perf_options *opt)
{
	unsigned set = 0;

	for (enum perf_test test = 0; test < PERF_TESTS; test++)
		set |= opt->tests[test] ? 1u << test : 0;
	return set;
}

Test(pingpong, without_options_it_is_a_line_per_size)
{
	const struct perf_options opt = parse("");

	cr_assert_eq(tests_of(&opt), 1u << PERF_LAT | 1u << PERF_BW);
	cr_assert_eq(opt.format, PERF_LINES);
	cr_assert(opt.by_size && opt.windows && !opt.quiet && !opt.pin);
	cr_assert_eq(opt.rounds, 1);
	cr_assert_eq(opt.blocks, 11);
	cr_assert_eq(opt.window, 16);
	cr_assert_eq(opt.iterations, 0);
	cr_assert_float_eq(opt.seconds, 0.5, 1e-9);
	cr_assert_eq(opt.timeout, 60);
	cr_assert_eq(opt.flags, 0);
	cr_assert_eq(opt.sizes.count, 10);
	cr_assert_eq(opt.sizes.values[9], 4 << 20);
	cr_assert_str_eq(opt.providers[0], "tagrv");
	cr_assert_str_eq(opt.port, "47920");
	cr_assert_null(opt.host);
}

Test(pingpong, modes_are_tests)
{
	static const struct {
		const char *words;
		unsigned tests;
		size_t	window, sizes;
	} cases[] = {
		{ "-m lat", 1u << PERF_LAT, 16, 10 },
		{ "--mode bw", 1u << PERF_BW, 16, 10 },
		{ "-m both", 1u << PERF_LAT | 1u << PERF_BW, 16, 10 },
		{ "-m rate", 1u << PERF_RATE, 64, 1 },
		{ "-m rate -w 5 -S 8,9", 1u << PERF_RATE, 5, 2 },
		{ "-m reg", 1u << PERF_REG, 16, 10 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct perf_options opt = parse(cases[i].words);

		cr_assert_eq(tests_of(&opt), cases[i].tests, "%s", cases[i].words);
		cr_assert_eq(opt.window, cases[i].window, "%s", cases[i].words);
		cr_assert_eq(opt.sizes.count, cases[i].sizes, "%s", cases[i].words);
	}
}

Test(pingpong, numbers_and_names_are_taken)
{
	const struct perf_options opt = parse("-p tcp -b 3 -n 7 -t 2 -q --pin --timeout 9 --port 1 --client there "
					      "--dev-a x,y --dev-b z --domain-a d --addr-b 127.0.0.1");

	cr_assert_str_eq(opt.providers[0], "tcp");
	cr_assert_eq(opt.blocks, 3);
	cr_assert_eq(opt.iterations, 7);
	cr_assert_float_eq(opt.seconds, 2, 1e-9);
	cr_assert(opt.quiet && opt.pin);
	cr_assert_eq(opt.timeout, 9);
	cr_assert_str_eq(opt.port, "1");
	cr_assert_str_eq(opt.host, "there");
	cr_assert_str_eq(opt.devices[0], "x,y");
	cr_assert_str_eq(opt.devices[1], "z");
	cr_assert_str_eq(opt.device[0], "d");
	cr_assert_null(opt.device[1]);
	cr_assert_null(opt.address[0]);
	cr_assert_str_eq(opt.address[1], "127.0.0.1");
}

Test(pingpong, flags_are_those_of_tagrv_perf)
{
	static const struct {
		const char *word;
		uint64_t flag;
	} cases[] = {
		{ "-v", PERF_VERIFY }, { "--verify", PERF_VERIFY }, { "--one-buffer", PERF_ONE_BUFFER },
		{ "--pause", PERF_PAUSE }, { "--register", PERF_REGISTER },
		{ "--no-inject", PERF_NO_INJECT }, { "--thread-safe", PERF_THREAD_SAFE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char words[64] = "-t 1 ";
		struct perf_options theirs;
		char *argv[] = { words, words + 5, NULL };

		strcpy(words + 5, cases[i].word);
		cr_assert_eq(parse(words).flags, cases[i].flag, "%s", cases[i].word);
		if (words[6] != '-')
			continue;
		words[4] = 0;
		optind = 0;
		options_parse(&theirs, 2, argv);
		cr_assert_eq(theirs.flags, cases[i].flag, "%s", cases[i].word);
	}
}

/* It takes what is for the second process; what is for the client does no harm. */
Test(pingpong, a_server_is_the_second_process)
{
	const struct perf_options opt = parse("--server --domain-a a --domain-b b --addr-b c --dev-b d -S 8 -m lat");

	cr_assert(opt.server);
	cr_assert_str_eq(opt.device[0], "b");
	cr_assert_str_eq(opt.address[0], "c");
	cr_assert_str_eq(opt.devices[1], "d");
}

static _Noreturn void tell(const char *text)
{
	_exit(strstr(text, "--server and --client") ? 7 : EXIT_FAILURE);
}

Test(pingpong, a_server_has_no_server, .exit_code = 7)
{
	bench_on_die(tell);
	parse("--server --client there");
}
