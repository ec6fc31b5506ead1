/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * match_depth: the cost of one match among 1 to a million queued entries.
 *
 * Built as fabtests/benchmarks/match_depth. The program calls functions of the
 * provider's match/, not libfabric's; util/check_layers allows this folder to do so.
 */
#include "depth.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/compiler.h"

struct numbers {
	unsigned values[DEPTH_LENGTHS];
	size_t	cnt;
};

struct options {
	struct numbers lengths, classes;
	bool	subjects[8];		/* indexed as depth_subjects */
	bool	sides[DEPTH_SIDES];
	bool	caches[DEPTH_CACHES];
	struct depth_conf conf;
	const char *csv;
	unsigned long count;		/* requests, 0: measure time */
	unsigned rounds;
	bool	judge, strict, check_only;
};

/* Powers of two, and neighbouring lengths where a structure may change. */
static const char all_lengths[] =
	"1,2,3,4,6,8,12,14,15,16,17,18,20,23,24,25,28,31,32,33,36,40,48,63,64,"
	"65,80,96,128,192,256,512,1024,2048,4096,8192,16384,32768,65536,100000,"
	"131072,262144,524288,1000000";
static const char quick_lengths[] = "1,2,4,8,16,24,32,64,256,1024,16384,100000";

static void print_help(void)
{
	puts("usage: match_depth [options]\n"
	     "\n"
	     "Measure one match among so many queued entries, for\n"
	     "  posted      a message finds its receive, which is posted again\n"
	     "  unexpected  a receive finds its message, which arrives again\n"
	     "and print CSV: side, structure, classes of receives, entries queued, caches, ns,\n"
	     "instructions and first-level cache misses of reads (both n/a where the\n"
	     "processor's counters may not be read). Every structure first has to give the\n"
	     "answers of a naive model.\n"
	     "\n"
	     "  -l, --lengths LIST     entries queued, 1 to 1000000, in order (default: powers of\n"
	     "                         two, 100000, and the surroundings of small ones)\n"
	     "  -k, --classes LIST     1 to 64 (default 1,2,4,8,16,64)\n"
	     "  -s, --structures LIST  of these (default all):");
	for (size_t i = 0; depth_subjects[i]; i++)
		printf("%28s%-8s%s\n", "", depth_subjects[i]->name,
		       depth_subjects[i]->is);
	puts("      --side SIDE        posted or unexpected (default both)\n"
	     "      --cache STATE      warm or disturbed (default both)\n"
	     "  -t, --time SECONDS     for each point (default 0.02)\n"
	     "      --rounds N         measure everything so many times, one round after the\n"
	     "                         other, and keep the fastest of each point: who else uses\n"
	     "                         the machine only makes it slower (default 1)\n"
	     "      --evict BYTES      walked before a disturbed match (default: twice the\n"
	     "                         second-level cache)\n"
	     "      --seed N           of the check and of the choice of entries (default 1)\n"
	     "      --quick            fewer lengths and classes, 2 ms for each point\n"
	     "      --csv FILE         write the CSV there\n"
	     "      --judge            print the targets instead of the CSV\n"
	     "      --strict           exit status 1 when a target is missed\n"
	     "      --check            only compare the answers, measure nothing\n"
	     "      --count N          no times: N matches inside the function\n"
	     "                         match_depth_counted, for a program that counts\n"
	     "                         (see count-depth); for one point\n"
	     "  -h, --help             this text");
}

/* ---- options ---- */

static double number(const char *text, const char *what, double min, double max)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= min && value <= max))
		depth_die("%s wants a number from %g to %g, not '%s'", what,
			  min, max, text);
	return value;
}

static void parse_numbers(struct numbers *numbers, const char *list,
			  const char *what, double max)
{
	char *copy = strdup(list), *state = NULL;

	numbers->cnt = 0;
	for (char *s = strtok_r(copy, ",", &state); s;
	     s = strtok_r(NULL, ",", &state)) {
		if (numbers->cnt == DEPTH_LENGTHS)
			depth_die("%s: more than %d", what, DEPTH_LENGTHS);
		numbers->values[numbers->cnt++] =
			(unsigned) number(s, what, 1, max);
	}
	free(copy);
	if (!numbers->cnt)
		depth_die("%s wants a list of numbers", what);
}

static void parse_lengths(struct options *opt, const char *list)
{
	parse_numbers(&opt->lengths, list, "--lengths", DEPTH_LENGTH_MAX);
}

static void parse_classes(struct options *opt, const char *list)
{
	parse_numbers(&opt->classes, list, "--classes", DEPTH_CLASSES);
}

static void parse_subjects(struct options *opt, const char *list)
{
	char *copy = strdup(list), *state = NULL;

	memset(opt->subjects, 0, sizeof(opt->subjects));
	for (char *s = strtok_r(copy, ",", &state); s;
	     s = strtok_r(NULL, ",", &state)) {
		size_t i = 0;

		while (depth_subjects[i] && strcmp(depth_subjects[i]->name, s))
			i++;
		if (!depth_subjects[i])
			depth_die("no structure is called '%s'", s);
		opt->subjects[i] = true;
	}
	free(copy);
}

static void parse_one_of(bool *wanted, const char *const *names, size_t cnt,
			 const char *name, const char *what)
{
	bool any = false;

	for (size_t i = 0; i < cnt; i++)
		any |= wanted[i] = !strcmp(names[i], name);
	if (!any)
		depth_die("%s wants %s or %s, not '%s'", what, names[0],
			  names[1], name);
}

static size_t default_evict(void)
{
	long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);

	return l2 > 0 ? 2 * (size_t) l2 : 4 << 20;
}

enum {
	OPT_SIDE = 256, OPT_CACHE, OPT_EVICT, OPT_SEED, OPT_QUICK, OPT_CSV,
	OPT_JUDGE, OPT_STRICT, OPT_CHECK, OPT_COUNT, OPT_ROUNDS,
};

static const struct option long_options[] = {
	{ "lengths", required_argument, NULL, 'l' },
	{ "classes", required_argument, NULL, 'k' },
	{ "structures", required_argument, NULL, 's' },
	{ "time", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ "side", required_argument, NULL, OPT_SIDE },
	{ "cache", required_argument, NULL, OPT_CACHE },
	{ "evict", required_argument, NULL, OPT_EVICT },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "quick", no_argument, NULL, OPT_QUICK },
	{ "csv", required_argument, NULL, OPT_CSV },
	{ "judge", no_argument, NULL, OPT_JUDGE },
	{ "strict", no_argument, NULL, OPT_STRICT },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "count", required_argument, NULL, OPT_COUNT },
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ NULL, 0, NULL, 0 },
};

static void make_quick(struct options *opt)
{
	parse_lengths(opt, quick_lengths);
	parse_classes(opt, "1,4,16");
	opt->conf.seconds = 0.002;
}

static void apply_more(struct options *opt, int key, const char *arg)
{
	switch (key) {
	case OPT_CSV: opt->csv = arg; break;
	case OPT_JUDGE: opt->judge = true; break;
	case OPT_STRICT: opt->judge = opt->strict = true; break;
	case OPT_CHECK: opt->check_only = true; break;
	case OPT_COUNT:
		opt->count = (unsigned long) number(arg, "--count", 1, 1e9);
		break;
	case OPT_ROUNDS:
		opt->rounds = (unsigned) number(arg, "--rounds", 1, 1000);
		break;
	case 'h': print_help(); exit(EXIT_SUCCESS);
	default: exit(2);
	}
}

static void apply(struct options *opt, int key, const char *arg)
{
	switch (key) {
	case 'l': parse_lengths(opt, arg); break;
	case 'k': parse_classes(opt, arg); break;
	case 's': parse_subjects(opt, arg); break;
	case 't': opt->conf.seconds = number(arg, "--time", 1e-4, 60); break;
	case OPT_QUICK: make_quick(opt); break;
	case OPT_SIDE:
		parse_one_of(opt->sides, depth_side_names, DEPTH_SIDES, arg,
			     "--side");
		break;
	case OPT_CACHE:
		parse_one_of(opt->caches, depth_cache_names, DEPTH_CACHES, arg,
			     "--cache");
		break;
	case OPT_EVICT:
		opt->conf.evict = (size_t) number(arg, "--evict", 0, 1 << 30);
		break;
	case OPT_SEED:
		opt->conf.seed = (uint64_t) number(arg, "--seed", 0, 1e15);
		break;
	default: apply_more(opt, key, arg);
	}
}

static void parse(struct options *opt, int argc, char **argv)
{
	int key;

	*opt = (struct options) {
		.conf = { .seconds = 0.02, .evict = default_evict(), .seed = 1 },
		.rounds = 1,
	};
	memset(opt->subjects, 1, sizeof(opt->subjects));
	memset(opt->sides, 1, sizeof(opt->sides));
	memset(opt->caches, 1, sizeof(opt->caches));
	parse_lengths(opt, all_lengths);
	parse_classes(opt, "1,2,4,8,16,64");
	while ((key = getopt_long(argc, argv, "l:k:s:t:h", long_options,
				  NULL)) != -1)
		apply(opt, key, optarg);
	if (optind < argc)
		depth_die("unexpected argument '%s'", argv[optind]);
}

/* ---- points ---- */

static void measure_point(const struct options *opt,
			  const struct depth_point *point)
{
	struct depth_cost cost[DEPTH_CACHES];
	bool wanted[DEPTH_CACHES];

	if (opt->count) {
		depth_count_only(point, (uint32_t) opt->count,
				 !opt->caches[DEPTH_WARM]);
		return;
	}
	memcpy(wanted, opt->caches, sizeof(wanted));
	depth_measure(point, wanted, cost);
	for (int i = 0; i < DEPTH_CACHES; i++)
		if (wanted[i])
			depth_result_add(point, i, &cost[i]);
}

static void measure_lengths(const struct options *opt,
			    struct depth_point point)
{
	for (size_t i = 0; i < opt->lengths.cnt; i++) {
		point.length = opt->lengths.values[i];
		measure_point(opt, &point);
	}
}

static void measure_all(const struct options *opt)
{
	for (int side = 0; side < DEPTH_SIDES; side++)
		for (size_t s = 0; depth_subjects[s]; s++)
			for (size_t k = 0; k < opt->classes.cnt; k++)
				if (opt->sides[side] && opt->subjects[s])
					measure_lengths(opt,
						(struct depth_point) {
						.subject = depth_subjects[s],
						.side = side,
						.classes = opt->classes.values[k],
					});
}

static bool report(const struct options *opt)
{
	FILE *out = opt->csv ? fopen(opt->csv, "w") : stdout;

	if (!out)
		depth_die("%s cannot be written", opt->csv);
	if (opt->csv || !opt->judge)
		depth_result_csv(out);
	if (opt->csv && fclose(out))
		depth_die("%s cannot be written", opt->csv);
	if (!depth_counters_work())
		fprintf(stderr, "match_depth: the processor's counters may not "
			"be read here; count-depth has instructions and lines "
			"from valgrind\n");
	return !opt->judge || depth_result_judge(stdout) || !opt->strict;
}

int main(int argc, char **argv)
{
	struct options opt;
	bool ok = true;

	parse(&opt, argc, argv);
	if (!opt.count && !depth_check(opt.conf.seed))
		return EXIT_FAILURE;
	if (opt.check_only)
		return EXIT_SUCCESS;
	depth_time_init(&opt.conf);
	for (unsigned round = 0; round < opt.rounds; round++)
		measure_all(&opt);
	if (!opt.count)
		ok = report(&opt);
	depth_time_fini();
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
