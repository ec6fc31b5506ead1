/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The options of tagrv_perf. man/tagrv_perf.1.md describes them; util/check_docs compares
 * the two.
 */
#include "options.h"

#include <getopt.h>
#include <rdma/fabric.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "oob.h"
#include "talk.h"

#define USUAL_SIZES	"8:2M:4"

const struct perf_test_info perf_tests[PERF_TESTS] = {
	[PERF_LAT] = { "lat", "tagged messages there and back, half a round trip", PERF_TIMES,
		       PERF_MESSAGES, 2, USUAL_SIZES, false },
	[PERF_BW] = { "bw", "tagged messages in one direction, a window in flight", PERF_STREAM,
		      PERF_MESSAGES, 16, USUAL_SIZES, false },
	[PERF_RATE] = { "rate", "short tagged messages in one direction, a large window", PERF_STREAM,
			PERF_MESSAGES, 64, "8", false },
	[PERF_BIDIR] = { "bidir", "tagged messages in both directions, a window in each", PERF_STREAM,
			 PERF_MESSAGES, 16, USUAL_SIZES, false },
	[PERF_OVERLAP] = { "overlap", "share of a transfer's time that computation hides", PERF_SHARES,
			   PERF_MESSAGES, 2, "64K:4M:4", false },
	[PERF_REG] = { "reg", "register memory and release it", PERF_TIMES,
		       PERF_MESSAGES, 1, USUAL_SIZES, false },
	[PERF_DEPTH] = { "depth", "half a round trip with other receives posted in front", PERF_TIMES,
			 PERF_DEEP, 2, "8", false },
	[PERF_PUT] = { "put", "write to the peer's memory, until it is there", PERF_TIMES,
		       PERF_REMOTE, 2, USUAL_SIZES, false },
	[PERF_GET] = { "get", "read from the peer's memory", PERF_TIMES,
		       PERF_REMOTE, 2, USUAL_SIZES, false },
	[PERF_PUT_BW] = { "put_bw", "writes, a window in flight", PERF_STREAM,
			  PERF_REMOTE, 16, USUAL_SIZES, false },
	[PERF_GET_BW] = { "get_bw", "reads, a window in flight", PERF_STREAM,
			  PERF_REMOTE, 16, USUAL_SIZES, false },
	[PERF_ADD] = { "add", "fetch and add 64 bits in the peer's memory", PERF_TIMES,
		       PERF_ATOMIC, 2, "8", true },
	[PERF_ADD_RATE] = { "add_rate", "fetch and add, a large window in flight", PERF_STREAM,
			    PERF_ATOMIC, 64, "8", true },
};

static void print_help(void)
{
	puts("usage: tagrv_perf [options]            both processes on this host\n"
	     "       tagrv_perf [options] --server   waits for a client on another host\n"
	     "       tagrv_perf [options] HOST       measures against the server on HOST\n"
	     "\n"
	     "Measure messages and remote memory over any provider of libfabric.\n"
	     "\n"
	     "What is measured:\n"
	     "  -t, --tests LIST      of the names below, or all (default lat,bw,rate)\n"
	     "  -s, --sizes LIST      bytes: 8,4K,1M, and ranges: 8:1M doubles, 8:1M:4 quadruples\n"
	     "  -w, --window N        operations in flight (default 16, for rates 64)\n"
	     "      --pairs LIST      pairs of processes that measure at once (default 1)\n"
	     "      --depths LIST     receives in front, for depth (default 0,16,256,4096)\n"
	     "  -r, --rounds N        of each line; rates are medians of them (default 11)\n"
	     "  -b, --blocks N        time operations not one by one, but N blocks in each round\n"
	     "  -T, --time SECONDS    of all rounds of a line (default 0.5)\n"
	     "  -n, --iterations N    operations in a round, or in a block, instead of --time\n"
	     "  -W, --warmup N        operations before the first round (default 20)\n"
	     "      --verify          check every byte of messages, and measure that, too\n"
	     "      --one-buffer      send all messages from one buffer, receive all into one\n"
	     "      --register        register the buffers of messages beforehand\n"
	     "      --no-inject       fi_tsend at every size\n"
	     "      --thread-safe     ask for FI_THREAD_SAFE instead of FI_THREAD_DOMAIN\n"
	     "      --pause           of bw and rate, the longest time between two sends, too\n"
	     "Over what:\n"
	     "  -p, --provider NAME   provider (default $FI_PROVIDER, or tagrv)\n"
	     "  -d, --device A[,B]    domain of the client, and of the server or second process\n"
	     "  -a, --address A[,B]   source addresses\n"
	     "      --dev-a NAMES     FI_TAGRV_DEVICES of the client\n"
	     "      --dev-b NAMES     FI_TAGRV_DEVICES of the server or second process\n"
	     "      --compare LIST    providers that are measured in turns, with ratios\n"
	     "      --server          wait for one client, then end\n"
	     "      --port PORT       of the server's control connection (default 47921)\n"
	     "      --timeout SECS    without an answer, a completion or a server (default 60)\n"
	     "      --pin             each process to a processor of its own\n"
	     "      --yield           give the processor away after each empty poll: for hosts with\n"
	     "                        fewer processors than processes, where it is the default\n"
	     "Output:\n"
	     "      --csv, --json     instead of tables\n"
	     "      --plot FILE.png   a figure besides (needs gnuplot)\n"
	     "  -q, --quiet           no progress line on a terminal\n"
	     "  -V, --version         of this program and of libfabric\n"
	     "  -h, --help            this text\n"
	     "\n"
	     "Tests:");
	for (size_t i = 0; i < PERF_TESTS; i++)
		printf("  %-9s %s\n", perf_tests[i].name, perf_tests[i].title);
}

static void print_version(void)
{
	printf("tagrv_perf %s (libfabric %u.%u)\n", PACKAGE_VERSION, FI_MAJOR(fi_version()),
	       FI_MINOR(fi_version()));
}

/* --- values ---------------------------------------------------------------------- */

static void choose_test(struct perf_options *opt, const char *name)
{
	if (!strcmp(name, "all")) {
		for (size_t i = 0; i < PERF_TESTS; i++)
			opt->tests[i] = true;
		return;
	}
	for (size_t i = 0; i < PERF_TESTS; i++) {
		if (strcmp(name, perf_tests[i].name))
			continue;
		opt->tests[i] = true;
		return;
	}
	bench_die("--tests: there is no test '%s' (--help lists them)", name);
}

static void parse_tests(struct perf_options *opt, const char *list)
{
	char *copy = strdup(list), *state = NULL;

	memset(opt->tests, 0, sizeof(opt->tests));
	for (char *s = strtok_r(copy, ",", &state); s; s = strtok_r(NULL, ",", &state))
		choose_test(opt, s);
	free(copy);
}

const char *options_text(const char *text, const char *name, size_t most)
{
	if (strlen(text) >= most)
		bench_die("%s: '%s' is too long", name, text);
	return text;
}

/* Names of providers have semicolons, but no commas. The copies live as long as the program. */
static size_t split(const char **out, size_t most, const char *list, const char *name)
{
	char *copy = strdup(list), *state = NULL;
	size_t count = 0;

	for (char *s = strtok_r(copy, ",", &state); s; s = strtok_r(NULL, ",", &state)) {
		if (count == most)
			bench_die("%s: more than %zu values in '%s'", name, most, list);
		out[count++] = options_text(s, name, PERF_NAME_LEN);
	}
	if (!count)
		bench_die("%s wants a value", name);
	return count;
}

/* One value stands for both sides. */
static void parse_two(const char **two, const char *list, const char *name)
{
	if (split(two, 2, list, name) == 1)
		two[1] = two[0];
}

static void parse_plot(struct perf_options *opt, const char *file)
{
	const char *end = strrchr(file, '.');

	if (!end || strcmp(end, ".png"))
		bench_die("--plot: the name must end with .png, '%s' does not", file);
	opt->plot = file;
}

/* --- table ------------------------------------------------------------------------- */

enum {
	OPT_PAIRS = 256, OPT_DEPTHS, OPT_COMPARE, OPT_SERVER, OPT_PORT, OPT_TIMEOUT, OPT_PIN,
	OPT_YIELD, OPT_CSV, OPT_JSON, OPT_PLOT, OPT_DEV_A, OPT_DEV_B,
	OPT_VERIFY, OPT_ONE_BUFFER, OPT_REGISTER, OPT_NO_INJECT, OPT_THREAD_SAFE, OPT_PAUSE,
};

static const struct option long_options[] = {
	{ "tests", required_argument, NULL, 't' },
	{ "sizes", required_argument, NULL, 's' },
	{ "window", required_argument, NULL, 'w' },
	{ "pairs", required_argument, NULL, OPT_PAIRS },
	{ "depths", required_argument, NULL, OPT_DEPTHS },
	{ "rounds", required_argument, NULL, 'r' },
	{ "blocks", required_argument, NULL, 'b' },
	{ "time", required_argument, NULL, 'T' },
	{ "iterations", required_argument, NULL, 'n' },
	{ "warmup", required_argument, NULL, 'W' },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "one-buffer", no_argument, NULL, OPT_ONE_BUFFER },
	{ "register", no_argument, NULL, OPT_REGISTER },
	{ "no-inject", no_argument, NULL, OPT_NO_INJECT },
	{ "thread-safe", no_argument, NULL, OPT_THREAD_SAFE },
	{ "pause", no_argument, NULL, OPT_PAUSE },
	{ "provider", required_argument, NULL, 'p' },
	{ "device", required_argument, NULL, 'd' },
	{ "address", required_argument, NULL, 'a' },
	{ "dev-a", required_argument, NULL, OPT_DEV_A },
	{ "dev-b", required_argument, NULL, OPT_DEV_B },
	{ "compare", required_argument, NULL, OPT_COMPARE },
	{ "server", no_argument, NULL, OPT_SERVER },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "pin", no_argument, NULL, OPT_PIN },
	{ "yield", no_argument, NULL, OPT_YIELD },
	{ "csv", no_argument, NULL, OPT_CSV },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "plot", required_argument, NULL, OPT_PLOT },
	{ "quiet", no_argument, NULL, 'q' },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void apply_way(struct perf_options *opt, int key)
{
	switch (key) {
	case OPT_VERIFY: opt->flags |= PERF_VERIFY; break;
	case OPT_ONE_BUFFER: opt->flags |= PERF_ONE_BUFFER; break;
	case OPT_REGISTER: opt->flags |= PERF_REGISTER; break;
	case OPT_NO_INJECT: opt->flags |= PERF_NO_INJECT; break;
	case OPT_THREAD_SAFE: opt->flags |= PERF_THREAD_SAFE; break;
	case OPT_PAUSE: opt->flags |= PERF_PAUSE; break;
	default: exit(2);
	}
}

static void apply_rest(struct perf_options *opt, int key, const char *arg)
{
	switch (key) {
	case OPT_SERVER: opt->server = true; break;
	case OPT_PORT: opt->port = arg; break;
	case OPT_TIMEOUT: opt->timeout = (unsigned)bench_number(arg, "--timeout", 1, 86400); break;
	case OPT_PIN: opt->pin = true; break;
	case OPT_YIELD: opt->yield = true; break;
	case OPT_CSV: opt->format = PERF_CSV; break;
	case OPT_JSON: opt->format = PERF_JSON; break;
	case OPT_PLOT: parse_plot(opt, arg); break;
	case 'q': opt->quiet = true; break;
	case 'V': print_version(); exit(EXIT_SUCCESS);
	case 'h': print_help(); exit(EXIT_SUCCESS);
	default: apply_way(opt, key);
	}
}

static void apply(struct perf_options *opt, int key, const char *arg)
{
	switch (key) {
	case 't': parse_tests(opt, arg); break;
	case 's':
		list_parse(&opt->sizes, arg, "--sizes", 0, PERF_SIZE_MAX);
		opt->sizes_given = true;
		break;
	case 'w': opt->window = (size_t)bench_number(arg, "--window", 1, PERF_WINDOW_MAX); break;
	case OPT_PAIRS: list_parse(&opt->pairs, arg, "--pairs", 1, PERF_PAIRS_MAX); break;
	case OPT_DEPTHS: list_parse(&opt->depths, arg, "--depths", 0, PERF_DEPTH_MAX); break;
	case 'r': opt->rounds = (unsigned)bench_number(arg, "--rounds", 1, PERF_ROUNDS_MAX); break;
	case 'b': opt->blocks = (unsigned)bench_number(arg, "--blocks", 1, PERF_BLOCKS_MAX); break;
	case 'T': opt->seconds = bench_number(arg, "--time", 0.001, 86400); break;
	case 'n': opt->iterations = (uint64_t)bench_number(arg, "--iterations", 1, 1e12); break;
	case 'W': opt->warmup = (uint64_t)bench_number(arg, "--warmup", 1, 1e9); break;
	case 'p': opt->provider_cnt = split(opt->providers, 1, arg, "--provider"); break;
	case 'd': parse_two(opt->device, arg, "--device"); break;
	case 'a': parse_two(opt->address, arg, "--address"); break;
	case OPT_DEV_A:
	case OPT_DEV_B: opt->devices[key - OPT_DEV_A] = options_text(arg, "--dev-a, --dev-b", PERF_DEVICES_LEN); break;
	case OPT_COMPARE:
		opt->provider_cnt = split(opt->providers, PERF_PROVIDERS_MAX, arg, "--compare");
		break;
	default: apply_rest(opt, key, arg);
	}
}

/* Options that say how the server's own processes run; the client says what is measured. */
static bool is_for_server(int key)
{
	static const int keys[] = { OPT_SERVER, OPT_PORT, OPT_PIN, OPT_YIELD, OPT_DEV_B, 'd', 'a', 'q' };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i] == key)
			return true;
	return false;
}

static const char *name_of(int key)
{
	const struct option *o = long_options;

	while (o->val != key)
		o++;
	return o->name;
}

/* The most processes of this host that poll at once. */
static size_t processes_here(const struct perf_options *opt)
{
	return opt->pairs.values[opt->pairs.count - 1] * (opt->host || opt->server ? 1 : 2);
}

static void take_host(struct perf_options *opt, int argc, char **argv)
{
	if (optind < argc)
		opt->host = argv[optind++];
	if (optind < argc)
		bench_die("unexpected argument '%s'", argv[optind]);
	if (opt->server && opt->host)
		bench_die("a server has no server '%s': leave out --server or the name", opt->host);
}

void options_begin(struct perf_options *opt)
{
	const char *provider = getenv("FI_PROVIDER");

	*opt = (struct perf_options){
		.providers = { provider && *provider ? provider : "tagrv" }, .provider_cnt = 1,
		.tests = { [PERF_LAT] = true, [PERF_BW] = true, [PERF_RATE] = true },
		.rounds = 11, .timeout = 60, .warmup = 20, .seconds = 0.5, .port = "47921",
	};
	list_parse(&opt->depths, "0,16,256,4096", "--depths", 0, PERF_DEPTH_MAX);
	list_parse(&opt->pairs, "1", "--pairs", 1, PERF_PAIRS_MAX);
}

/* Other tests have nothing to verify, or no blocks. */
static void check_tests(const struct perf_options *opt)
{
	const unsigned with_blocks = 1u << PERF_LAT | 1u << PERF_BW | 1u << PERF_RATE | 1u << PERF_REG;

	for (enum perf_test test = 0; test < PERF_TESTS; test++) {
		if (!opt->tests[test])
			continue;
		if (opt->flags & PERF_VERIFY && perf_tests[test].need >= PERF_REMOTE)
			bench_die("--verify: the test %s has no messages", perf_tests[test].name);
		if (opt->blocks && !(with_blocks & 1u << test))
			bench_die("--blocks: lat, bw, rate and reg have blocks, the test %s has none",
				  perf_tests[test].name);
	}
}

void options_finish(struct perf_options *opt)
{
	check_tests(opt);
	if (opt->flags & PERF_VERIFY && opt->flags & PERF_ONE_BUFFER)
		bench_die("--verify needs a buffer for each message in flight: leave out --one-buffer");
	if ((long)processes_here(opt) > sysconf(_SC_NPROCESSORS_ONLN))
		opt->yield = true;
}

void options_parse(struct perf_options *opt, int argc, char **argv)
{
	int key, client_key = 0;

	options_begin(opt);
	while ((key = getopt_long(argc, argv, "t:s:w:r:b:T:n:W:p:d:a:qVh", long_options, NULL)) != -1) {
		apply(opt, key, optarg);
		if (!client_key && !is_for_server(key))
			client_key = key;
	}
	if (opt->server && client_key)
		bench_die("the client tells the server what to measure: leave out --%s here",
			  name_of(client_key));
	take_host(opt, argc, argv);
	options_finish(opt);
}
