/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The options of tagrv_pingpong.
 */
#include "pingpong.h"

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oob.h"

static void print_help(void)
{
	puts("usage: tagrv_pingpong [options]                 two processes on this host\n"
	     "       tagrv_pingpong [options] --server         wait for a client\n"
	     "       tagrv_pingpong [options] --client HOST    measure against that server\n"
	     "\n"
	     "Measure tagged messages and print one line per size:\n"
	     "size, half round trip (us), bandwidth (10^6 bytes/s), messages per second.\n"
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
	     "      --server          wait for a client\n"
	     "      --client HOST     measure against the server on HOST\n"
	     "      --port PORT       of the server's control connection (default 47920)\n"
	     "      --timeout SECONDS without any completion (default 60)\n"
	     "  -h, --help            this text\n"
	     "\n"
	     "With --server the other options that describe the measurement must be the same\n"
	     "on both sides.");
}

static size_t parse_size(const char *text)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	if (*end == 'K' || *end == 'k')
		value <<= 10, end++;
	else if (*end == 'M' || *end == 'm')
		value <<= 20, end++;
	if (end == text || *end || value > 1ULL << 32)
		bench_die("'%s' is no message size", text);
	return (size_t)value;
}

static void parse_sizes(struct options *opt, const char *list)
{
	char *copy = strdup(list), *state = NULL;

	opt->size_cnt = 0;
	for (char *s = strtok_r(copy, ",", &state); s; s = strtok_r(NULL, ",", &state)) {
		if (opt->size_cnt == SIZES_MAX)
			bench_die("more than %d sizes", SIZES_MAX);
		opt->sizes[opt->size_cnt++] = parse_size(s);
	}
	free(copy);
	if (!opt->size_cnt)
		bench_die("no sizes");
}

static void parse_mode(struct options *opt, const char *mode)
{
	bool rate = !strcmp(mode, "rate"), reg = !strcmp(mode, "reg");

	if (!rate && !reg && strcmp(mode, "lat") && strcmp(mode, "bw") && strcmp(mode, "both"))
		bench_die("--mode wants lat, bw, both, rate or reg, not '%s'", mode);
	opt->latency = !strcmp(mode, "lat") || !strcmp(mode, "both");
	opt->bandwidth = !opt->latency || !strcmp(mode, "both");
	opt->registration = reg;
	if (reg)
		opt->bandwidth = false;
	if (rate) {
		opt->conf.slots = 64;
		parse_sizes(opt, "8");
	}
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

static void apply_place(struct options *opt, int key, const char *arg)
{
	switch (key) {
	case OPT_SERVER: opt->server = true; break;
	case OPT_CLIENT: opt->host = arg; break;
	case OPT_PORT: opt->port = arg; break;
	case OPT_DEV_A:
	case OPT_DEV_B: opt->dev[key - OPT_DEV_A] = arg; break;
	case OPT_DOMAIN_A:
	case OPT_DOMAIN_B: opt->domain[key - OPT_DOMAIN_A] = arg; break;
	case OPT_ADDR_A:
	case OPT_ADDR_B: opt->address[key - OPT_ADDR_A] = arg; break;
	case 'h': print_help(); exit(EXIT_SUCCESS);
	default: exit(2);
	}
}

static void apply(struct options *opt, int key, const char *arg)
{
	switch (key) {
	case 'p': opt->conf.provider = arg; break;
	case 'm': parse_mode(opt, arg); break;
	case 'S': parse_sizes(opt, arg); break;
	case 'w': opt->conf.slots = (size_t)bench_number(arg, "--window", 1, 4096); break;
	case 'b': opt->blocks = (unsigned)bench_number(arg, "--blocks", 1, BLOCKS_MAX); break;
	case 'n': opt->iterations = (unsigned long)bench_number(arg, "--iterations", 1, 1e9); break;
	case 't': opt->budget = bench_number(arg, "--time", 0.001, 3600); break;
	case 'v': opt->verify = true; break;
	case 'q': opt->header = false; break;
	case OPT_ONE_BUFFER: opt->conf.one_buffer = true; break;
	case OPT_PIN: opt->pin = true; break;
	case OPT_PAUSE: opt->pause = true; break;
	case OPT_REGISTER: opt->conf.use_mr = true; break;
	case OPT_NO_INJECT: opt->conf.use_inject = false; break;
	case OPT_THREAD_SAFE: opt->conf.thread_safe = true; break;
	case OPT_TIMEOUT: opt->conf.timeout = (unsigned)bench_number(arg, "--timeout", 1, 86400); break;
	default: apply_place(opt, key, arg);
	}
}

void options_parse(struct options *opt, int argc, char **argv)
{
	const char *provider = getenv("FI_PROVIDER");
	int key;

	*opt = (struct options){
		.conf = {
			.provider = provider && *provider ? provider : "tagrv",
			.slots = 16,
			.timeout = 60,
			.use_inject = true,
			.yield = sysconf(_SC_NPROCESSORS_ONLN) < 2,
		},
		.port = "47920",
		.latency = true,
		.bandwidth = true,
		.header = true,
		.blocks = 11,
		.budget = 0.5,
	};
	parse_sizes(opt, "8,64,512,4K,8K,16K,64K,256K,1M,4M");
	while ((key = getopt_long(argc, argv, "p:m:S:w:b:n:t:vqh", long_options, NULL)) != -1)
		apply(opt, key, optarg);
	if (optind < argc)
		bench_die("unexpected argument '%s'", argv[optind]);
	if (opt->server && opt->host)
		bench_die("--server and --client exclude each other");
	if (opt->verify && opt->conf.one_buffer)
		bench_die("--verify needs a buffer for each message in flight");
	opt->conf.slot_size = 1;
	for (size_t i = 0; i < opt->size_cnt; i++)
		if (opt->sizes[i] > opt->conf.slot_size)
			opt->conf.slot_size = opt->sizes[i];
}
