/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The options of tagrv_pingpong, which is tagrv_perf by another name: each stands for one of
 * tagrv_perf, or for several. One round has all blocks; a line of a size follows the other.
 */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oob.h"

static void print_help(void)
{
	puts("usage: tagrv_pingpong [options]                 two processes on this host\n"
	     "       tagrv_pingpong [options] --server         wait for a client\n"
	     "       tagrv_pingpong [options] --client HOST    measure against that server\n"
	     "\n"
	     "Measure tagged messages and print one line per size:\n"
	     "size, half round trip (us), bandwidth (10^6 bytes/s), messages per second.\n"
	     "It is tagrv_perf, which can measure more, by another name and with other options.\n"
	     "\n"
	     "  -p, --provider NAME   provider (default: $FI_PROVIDER or tagrv)\n"
	     "  -m, --mode MODE       lat, bw, both, or rate: 8 bytes, 64 in a window (default both),\n"
	     "                        or reg: time to register and release memory (us)\n"
	     "  -S, --sizes LIST      sizes, e.g. 8,4K,1M (default 8 to 4M)\n"
	     "  -w, --window N        messages in flight for bandwidth (default 16)\n"
	     "  -b, --blocks N        measurements of which the median is shown (default 11)\n"
	     "  -n, --iterations N    round trips or windows in a block (default: by time)\n"
	     "  -t, --time SECONDS    for one measurement (default 0.5)\n"
	     "  -v, --verify          check every byte (and measure that, too)\n"
	     "  -q, --quiet           no header lines\n"
	     "      --one-buffer      send all from one buffer and receive all into one\n"
	     "      --pause           print the longest time between two sends of a stream\n"
	     "      --pin             each process on a processor of its own\n"
	     "      --register        register the buffers beforehand\n"
	     "      --no-inject       fi_tsend at every size\n"
	     "      --thread-safe     ask for FI_THREAD_SAFE instead of FI_THREAD_DOMAIN\n"
	     "      --dev-a NAME      FI_TAGRV_DEVICES of the first process or client\n"
	     "      --dev-b NAME      FI_TAGRV_DEVICES of the second process or server\n"
	     "      --domain-a, --domain-b NAME    libfabric domain instead, for any provider\n"
	     "      --addr-a, --addr-b ADDRESS     source address\n"
	     "      --server          wait for a client, which says what is measured\n"
	     "      --client HOST     measure against the server on HOST\n"
	     "      --port PORT       of the server's control connection (default 47920)\n"
	     "      --timeout SECS    without any completion (default 60)\n"
	     "  -h, --help            this text");
}

enum {
	OPT_PIN = 256, OPT_PAUSE, OPT_ONE_BUFFER, OPT_REGISTER, OPT_NO_INJECT, OPT_THREAD_SAFE,
	OPT_TIMEOUT, OPT_SERVER, OPT_CLIENT, OPT_PORT,
	OPT_DEV_A, OPT_DEV_B, OPT_DOMAIN_A, OPT_DOMAIN_B, OPT_ADDR_A, OPT_ADDR_B,
};

static const struct option long_options[] = {
	{ "provider", required_argument, NULL, 'p' },
	{ "mode", required_argument, NULL, 'm' },
	{ "sizes", required_argument, NULL, 'S' },
	{ "window", required_argument, NULL, 'w' },
	{ "blocks", required_argument, NULL, 'b' },
	{ "iterations", required_argument, NULL, 'n' },
	{ "time", required_argument, NULL, 't' },
	{ "verify", no_argument, NULL, 'v' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ "one-buffer", no_argument, NULL, OPT_ONE_BUFFER },
	{ "pause", no_argument, NULL, OPT_PAUSE },
	{ "pin", no_argument, NULL, OPT_PIN },
	{ "register", no_argument, NULL, OPT_REGISTER },
	{ "no-inject", no_argument, NULL, OPT_NO_INJECT },
	{ "thread-safe", no_argument, NULL, OPT_THREAD_SAFE },
	{ "server", no_argument, NULL, OPT_SERVER },
	{ "client", required_argument, NULL, OPT_CLIENT },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "dev-a", required_argument, NULL, OPT_DEV_A },
	{ "dev-b", required_argument, NULL, OPT_DEV_B },
	{ "domain-a", required_argument, NULL, OPT_DOMAIN_A },
	{ "domain-b", required_argument, NULL, OPT_DOMAIN_B },
	{ "addr-a", required_argument, NULL, OPT_ADDR_A },
	{ "addr-b", required_argument, NULL, OPT_ADDR_B },
	{ NULL, 0, NULL, 0 },
};

/* Options that only set a flag. */
static const struct {
	int	key;
	enum perf_flags flag;
} flags[] = {
	{ 'v', PERF_VERIFY }, { OPT_ONE_BUFFER, PERF_ONE_BUFFER }, { OPT_PAUSE, PERF_PAUSE },
	{ OPT_REGISTER, PERF_REGISTER }, { OPT_NO_INJECT, PERF_NO_INJECT },
	{ OPT_THREAD_SAFE, PERF_THREAD_SAFE },
};

static const struct {
	const char *name, *sizes;
	size_t	window;
	enum perf_test tests[2];
} modes[] = {
	{ "lat", NULL, 16, { PERF_LAT, PERF_LAT } },
	{ "bw", NULL, 16, { PERF_BW, PERF_BW } },
	{ "both", NULL, 16, { PERF_LAT, PERF_BW } },
	{ "rate", "8", 64, { PERF_RATE, PERF_RATE } },
	{ "reg", NULL, 16, { PERF_REG, PERF_REG } },
};

static void parse_sizes(struct perf_options *opt, const char *list)
{
	list_parse_as_given(&opt->sizes, list, "--sizes", 0, PERF_SIZE_MAX);
}

static void parse_mode(struct perf_options *opt, const char *name)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(name, modes[i].name))
			continue;
		memset(opt->tests, 0, sizeof(opt->tests));
		opt->tests[modes[i].tests[0]] = opt->tests[modes[i].tests[1]] = true;
		opt->window = modes[i].window;
		if (modes[i].sizes)
			parse_sizes(opt, modes[i].sizes);
		return;
	}
	bench_die("--mode wants lat, bw, both, rate or reg, not '%s'", name);
}

static bool apply_flag(struct perf_options *opt, int key)
{
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (flags[i].key != key)
			continue;
		opt->flags |= flags[i].flag;
		return true;
	}
	return false;
}

static void apply_place(struct perf_options *opt, int key, const char *arg)
{
	switch (key) {
	case OPT_SERVER: opt->server = true; break;
	case OPT_CLIENT: opt->host = arg; break;
	case OPT_PORT: opt->port = arg; break;
	case OPT_DEV_A:
	case OPT_DEV_B: opt->devices[key - OPT_DEV_A] = options_text(arg, "--dev-a, --dev-b", PERF_DEVICES_LEN); break;
	case OPT_DOMAIN_A:
	case OPT_DOMAIN_B: opt->device[key - OPT_DOMAIN_A] = options_text(arg, "--domain", PERF_NAME_LEN); break;
	case OPT_ADDR_A:
	case OPT_ADDR_B: opt->address[key - OPT_ADDR_A] = options_text(arg, "--addr", PERF_NAME_LEN); break;
	case 'h': print_help(); exit(EXIT_SUCCESS);
	default: exit(2);
	}
}

static void apply(struct perf_options *opt, int key, const char *arg)
{
	switch (key) {
	case 'p': opt->providers[0] = options_text(arg, "--provider", PERF_NAME_LEN); break;
	case 'm': parse_mode(opt, arg); break;
	case 'S': parse_sizes(opt, arg); break;
	case 'w': opt->window = (size_t)bench_number(arg, "--window", 1, PERF_WINDOW_MAX); break;
	case 'b': opt->blocks = (unsigned)bench_number(arg, "--blocks", 1, PERF_BLOCKS_MAX); break;
	case 'n': opt->iterations = (uint64_t)bench_number(arg, "--iterations", 1, 1e9); break;
	case 't': opt->seconds = bench_number(arg, "--time", 0.001, 3600); break;
	case 'q': opt->quiet = true; break;
	case OPT_PIN: opt->pin = true; break;
	case OPT_TIMEOUT: opt->timeout = (unsigned)bench_number(arg, "--timeout", 1, 86400); break;
	default:
		if (!apply_flag(opt, key))
			apply_place(opt, key, arg);
	}
}

/* A server takes what is for the second process. */
static void take_place(struct perf_options *opt)
{
	if (!opt->server)
		return;
	if (opt->host)
		bench_die("--server and --client exclude each other");
	opt->device[0] = opt->device[1];
	opt->address[0] = opt->address[1];
}

void pingpong_parse(struct perf_options *opt, int argc, char **argv)
{
	int key;

	options_begin(opt);
	opt->format = PERF_LINES;
	opt->by_size = opt->windows = true;
	opt->rounds = 1;
	opt->blocks = 11;
	opt->warmup = 5;
	opt->port = "47920";
	parse_mode(opt, "both");
	parse_sizes(opt, "8,64,512,4K,8K,16K,64K,256K,1M,4M");
	while ((key = getopt_long(argc, argv, "p:m:S:w:b:n:t:vqh", long_options, NULL)) != -1)
		apply(opt, key, optarg);
	if (optind < argc)
		bench_die("unexpected argument '%s'", argv[optind]);
	take_place(opt);
	options_finish(opt);
}
