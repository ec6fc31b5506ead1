/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Parses the command line of the test programs.
 */
#include "options.h"
#include "common/slowness.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OWN_MAX = 16, OPT_OWN = 1000, STALL_S = 30 };

enum {
	OPT_DEV_A = 256,
	OPT_DEV_B,
	OPT_ADDR_A,
	OPT_ADDR_B,
	OPT_SELF,
	OPT_TRANSPORT,
	OPT_SEED,
	OPT_STALL,
	OPT_TIMEOUT,
};

static const struct option common[] = {
	{ "provider", required_argument, NULL, 'p' },
	{ "list", no_argument, NULL, 'l' },
	{ "test", required_argument, NULL, 't' },
	{ "dev-a", required_argument, NULL, OPT_DEV_A },
	{ "dev-b", required_argument, NULL, OPT_DEV_B },
	{ "addr-a", required_argument, NULL, OPT_ADDR_A },
	{ "addr-b", required_argument, NULL, OPT_ADDR_B },
	{ "self", no_argument, NULL, OPT_SELF },
	{ "transport", required_argument, NULL, OPT_TRANSPORT },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "stall", required_argument, NULL, OPT_STALL },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "help", no_argument, NULL, 'h' },
};

enum { COMMON_COUNT = sizeof(common) / sizeof(common[0]) };

static void print_help(const char *program, const struct option_number *own, int own_count)
{
	printf("usage: %s [options]\n"
	       "  -p, --provider NAME     provider to test (default: $FI_PROVIDER or tagrv)\n"
	       "  -l, --list              list the cases\n"
	       "  -t, --test PATTERN      run cases whose name contains or matches PATTERN\n"
	       "      --dev-a NAME        FI_TAGRV_DEVICES of even ranks\n"
	       "      --dev-b NAME        FI_TAGRV_DEVICES of odd ranks\n"
	       "      --addr-a ADDRESS    source address of even ranks\n"
	       "      --addr-b ADDRESS    source address of odd ranks\n"
	       "      --self              one process sends to itself (same as --transport loop)\n"
	       "      --transport KIND    pair (default) or loop\n"
	       "      --seed N            start of all random choices\n"
	       "      --stall SECONDS     a case fails when nothing moves for so long (default 30)\n"
	       "      --timeout SECONDS   a case fails after so long even if it moves; some cases\n"
	       "                          take a multiple (default: see the program)\n"
	       "                          On a slow machine both defaults are multiplied.\n"
	       "  -h, --help              this text\n",
	       program);
	for (int i = 0; i < own_count; i++)
		printf("      --%-17s %s (default %llu)\n", own[i].name, own[i].help,
		       (unsigned long long)*own[i].value);
}

static _Noreturn void usage_error(const char *what, const char *arg)
{
	fprintf(stderr, "%s: %s\n", what, arg);
	exit(2);
}

static uint64_t number(const char *text)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || end == text || *end)
		usage_error("not a number", text);
	return value;
}

static bool is_loop(const char *kind)
{
	if (strcmp(kind, "loop") != 0 && strcmp(kind, "pair") != 0)
		usage_error("unknown transport", kind);
	return !strcmp(kind, "loop");
}

static void apply(struct options *opt, int key)
{
	switch (key) {
	case 'p':
		opt->run.provider = optarg;
		break;
	case 'l':
		opt->list = true;
		break;
	case 't':
		opt->pattern = optarg;
		break;
	case OPT_DEV_A:
	case OPT_DEV_B:
		opt->run.device[key - OPT_DEV_A] = optarg;
		break;
	case OPT_ADDR_A:
	case OPT_ADDR_B:
		opt->run.address[key - OPT_ADDR_A] = optarg;
		break;
	case OPT_SELF:
		opt->run.self = true;
		break;
	case OPT_TRANSPORT:
		opt->run.self = is_loop(optarg);
		break;
	case OPT_SEED:
		opt->run.seed = number(optarg);
		break;
	case OPT_STALL:
		opt->run.stall_s = (int)number(optarg);
		break;
	case OPT_TIMEOUT:
		opt->run.timeout_s = (int)number(optarg);
		opt->timeout_given = true;
		break;
	default:
		exit(2);
	}
}

static void set_defaults(struct options *opt)
{
	const char *provider = getenv("FI_PROVIDER");

	memset(opt, 0, sizeof(*opt));
	opt->run.provider = provider && *provider ? provider : "tagrv";
	opt->run.stall_s = (int)(STALL_S * slowness());
	opt->run.seed = (uint64_t)time(NULL);
}

void options_parse(struct options *opt, int argc, char **argv, const struct option_number *own,
		   int own_count)
{
	struct option all[COMMON_COUNT + OWN_MAX + 1];
	int key;

	memset(all, 0, sizeof(all));
	memcpy(all, common, sizeof(common));
	assert(own_count <= OWN_MAX);
	for (int i = 0; i < own_count; i++)
		all[COMMON_COUNT + i] = (struct option){
			own[i].name, required_argument, NULL, OPT_OWN + i,
		};
	set_defaults(opt);
	while ((key = getopt_long(argc, argv, "p:lt:h", all, NULL)) != -1) {
		if (key == 'h') {
			print_help(argv[0], own, own_count);
			exit(EXIT_SUCCESS);
		}
		if (key >= OPT_OWN)
			*own[key - OPT_OWN].value = number(optarg);
		else
			apply(opt, key);
	}
	if (optind < argc)
		usage_error("unexpected argument", argv[optind]);
}

void options_default_timeout(struct options *opt, int seconds)
{
	if (!opt->timeout_given)
		opt->run.timeout_s = (int)(seconds * slowness());
}
