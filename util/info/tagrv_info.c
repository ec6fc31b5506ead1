/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * tagrv_info: prints the devices, parameters and protocol tables of this host.
 *
 * It is linked with the provider's own objects, so that it prints what the plug-in
 * of the same release would use.
 */
#include <errno.h>
#include <getopt.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "util/info/info_host.h"

enum what { HOST, PROTOCOLS, WHY, REPORT, MPI };

struct options {
	enum what what;
	bool	json;
	struct info_why why;
	const char *report;	/* file, "-": standard output */
};

static void print_help(void)
{
	puts("usage: tagrv_info [options]\n"
	     "\n"
	     "Print the devices that the provider tagrv offers, and its parameters with their\n"
	     "values and where these come from.\n"
	     "\n"
	     "  -p, --protocols    instead: for each device its times and rates, and the table of\n"
	     "                     protocols that follows from them: sizes, protocol, estimated\n"
	     "                     time of the shortest and of the longest message, reason\n"
	     "  -w, --why SIZE     instead: the way of one message of SIZE bytes (64, 8k, 1M) over\n"
	     "                     each device, and the reason for it\n"
	     "  -u, --unexpected   with --why: its receive is posted later\n"
	     "  -c, --no-credit    with --why: the receiver has no room for messages without one\n"
	     "  -d, --device NAME  with --why: over this device only\n"
	     "  -r, --report FILE  instead: write all that a report of a problem needs, without\n"
	     "                     secrets, to FILE ('-': standard output)\n"
	     "  -m, --mpi          instead: which providers libfabric lists for the hints of MPI\n"
	     "                     libraries, and what makes one take tagrv\n"
	     "  -j, --json         print JSON\n"
	     "  -h, --help         this text\n"
	     "\n"
	     "Uses the FI_TAGRV_ variables of the environment as the provider does: see\n"
	     "fi_tagrv(7).");
}

static void die(const char *text, const char *about)
{
	fprintf(stderr, "tagrv_info: %s%s (see tagrv_info --help)\n", text, about);
	exit(2);
}

/* -- options ---------------------------------------------------------------------------- */

static size_t parse_size(const char *text)
{
	unsigned long long value, factor = 1;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (end != text && *end && !end[1]) {
		const char *suffix = strchr("kKmMgG", *end);

		if (suffix) {
			factor = 1ull << (10 * ((suffix - strchr("kKmMgG", 'k')) / 2 + 1));
			end++;
		}
	}
	if (*text < '0' || *text > '9' || *end || errno || value > TAGRV_MAX_MSG / factor)
		die("--why wants a number of bytes such as 64, 8k or 1M, not ",
		    *text ? text : "nothing");
	return (size_t) (value * factor);
}

static void choose(struct options *opt, enum what what)
{
	if (opt->what != HOST && opt->what != what)
		die("--protocols, --why, --report and --mpi exclude each other", "");
	opt->what = what;
}

static void parse_option(struct options *opt, int key, const char *arg)
{
	switch (key) {
	case 'p':
		choose(opt, PROTOCOLS);
		break;
	case 'w':
		choose(opt, WHY);
		opt->why.size = parse_size(arg);
		break;
	case 'u':
		opt->why.unexpected = true;
		break;
	case 'c':
		opt->why.no_credit = true;
		break;
	case 'd':
		opt->why.device = arg;
		break;
	case 'r':
		choose(opt, REPORT);
		if (!*arg)
			die("--report wants the name of a file, or - for standard output", "");
		opt->report = arg;
		break;
	case 'm':
		choose(opt, MPI);
		break;
	case 'j':
		opt->json = true;
		break;
	case 'h':
		print_help();
		exit(EXIT_SUCCESS);
	default:
		exit(2);
	}
}

static void parse_options(int argc, char **argv, struct options *opt)
{
	static const struct option options[] = {
		{ "protocols", no_argument, NULL, 'p' }, { "why", required_argument, NULL, 'w' },
		{ "unexpected", no_argument, NULL, 'u' }, { "no-credit", no_argument, NULL, 'c' },
		{ "device", required_argument, NULL, 'd' }, { "report", required_argument, NULL, 'r' },
		{ "mpi", no_argument, NULL, 'm' },
		{ "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int key;

	while ((key = getopt_long(argc, argv, "pw:ucd:r:mjh", options, NULL)) != -1)
		parse_option(opt, key, optarg);
	if (optind < argc)
		die("unexpected argument ", argv[optind]);
	if (opt->what != WHY && (opt->why.unexpected || opt->why.no_credit || opt->why.device))
		die("--unexpected, --no-credit and --device need --why", "");
	if (opt->what == REPORT && opt->json)
		die("a report is text: --json does not go with --report", "");
}

/* -- output ----------------------------------------------------------------------------- */

static int print_json(const struct info_host *host, const struct options *opt)
{
	int failed = 0;
	json_t *json = opt->what == WHY ? info_why_json(host, &opt->why, &failed) :
		       opt->what == MPI ? info_mpi_json(&failed) :
		       opt->what == PROTOCOLS ? info_json_protocols(host, &failed) :
						info_json_host(host);

	if (!json || json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9))) {
		fprintf(stderr, "tagrv_info: no JSON: out of memory, or a name that is no text\n");
		failed = -FI_ENOMEM;
	}
	putchar('\n');
	json_decref(json);
	return failed;
}

static int write_report(const struct info_host *host, const char *path)
{
	FILE *out = strcmp(path, "-") != 0 ? fopen(path, "w") : stdout;
	int ret;

	if (!out) {
		fprintf(stderr, "tagrv_info: %s: %s\n", path, strerror(errno));
		return -errno;
	}
	ret = info_report(out, host);
	if (out != stdout && fclose(out) && !ret)
		ret = -errno;
	if (ret)
		fprintf(stderr, "tagrv_info: %s: %s\n", path, strerror(-ret));
	else if (out != stdout)
		printf("%s is written. Read it before you send it to anybody.\n", path);
	return ret;
}

static int print(const struct info_host *host, const struct options *opt)
{
	if (opt->what == REPORT)
		return write_report(host, opt->report);
	if (opt->json)
		return print_json(host, opt);
	if (opt->what == WHY)
		return info_why_text(stdout, host, &opt->why);
	if (opt->what == MPI)
		return info_mpi_text(stdout);
	if (opt->what == PROTOCOLS)
		return info_text_protocols(stdout, host);
	info_text_host(stdout, host);
	return 0;
}

int main(int argc, char **argv)
{
	struct options opt = { 0 };
	struct info_host host;
	bool any;
	int ret;

	parse_options(argc, argv, &opt);
	ret = info_host_read(&host);
	if (ret) {
		fprintf(stderr, "tagrv_info: %s\n", fi_strerror(-ret));
		return EXIT_FAILURE;
	}
	any = host.cnt > 0;
	ret = print(&host, &opt);
	if (ret == -FI_ENODEV && opt.why.device)
		fprintf(stderr, "tagrv_info: there is no device '%s'; tagrv_info lists them\n",
			opt.why.device);
	else if (!any && (opt.what == WHY || opt.what == PROTOCOLS))
		fprintf(stderr, "tagrv_info: no device is offered; tagrv_info, without options, "
			"says why\n");
	info_host_free(&host);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "tagrv_info: the output cannot be written: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	/* A report about a host without devices is a report all the same. */
	return (any || opt.what == REPORT) && !ret ? EXIT_SUCCESS : EXIT_FAILURE;
}
