/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Faults of a peer at a random moment: it is killed, stopped, exits, or closes its
 * endpoint, while its connection is made or used, amid operations of all kinds.
 *
 *	tagrv_fault [--rounds N] [--seed N] [--first N]
 *
 * Each round has a new victim and a new endpoint. A round depends on the seed and its
 * number alone, but for the moments at which things happen; --first begins with a later
 * one. fault_survivor.c says what must hold.
 */
#include "fault.h"
#include "framework/pattern.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct board *board;

static const char *const fault_names[FAULTS] = {
	"killed", "stopped, and continued", "stopped, then killed", "_exit()", "fi_close",
};

static struct {
	uint64_t seed, rounds, first;
} opt = { 0, 60, 1 };

static pid_t survivor, nursery;
static int current;

int64_t fault_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* A victim or the nursery tells the survivor, which ends the program. */
void fault_fail(const char *fmt, ...)
{
	char why[WHY_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	if (getpid() != survivor) {
		memcpy(board->why, why, sizeof(why));
		atomic_store(&board->failed, true);
		for (;;)
			pause();
	}
	printf("FAIL fault: round %d of seed %" PRIu64 " (%s): %s\n", current, opt.seed,
	       fault_names[board->plan.fault], why);
	fflush(stdout);
	kill(nursery, SIGKILL);
	_exit(EXIT_FAILURE);
}

/* ---- plans ---- */

/*
 * A peer that has hung up is where operations could get lost. Few passes are made in that
 * state: a sleeping survivor, or one with a thread, mostly misses it.
 */
static void plan_leaving(struct plan *plan, uint64_t bits)
{
	plan->later = 1 + (unsigned)(bits >> 16) % 5;
	plan->sleeps = plan->sleeps && bits >> 40 & 1;
	plan->automatic = plan->automatic && bits >> 41 & 1;
}

static void make_plan(struct plan *plan, uint64_t round)
{
	static const char *const rndv[] = { "auto", "get", "put", "copy", "pipeline" };
	uint64_t random = opt.seed * 1000003 + round, bits;

	pattern_next(&random);
	bits = pattern_next(&random);
	*plan = (struct plan) {
		.seed = pattern_next(&random),
		/* Each kind as often, whatever the number of rounds. */
		.fault = (enum fault)(round % FAULTS),
		.phase = (enum phase)(round / FAULTS % PHASES),
		.passive = bits & 1,
		.errors = bits & 2,
		.sleeps = (bits & 12) == 4,
		.automatic = (bits & 48) == 16,
		.rndv = rndv[(bits >> 8) % 5],
		.cma = bits & 64 ? "yes" : "no",
		/* A send to nobody ends after a second. */
		.later = bits >> 32 & 3 ? 0 : (unsigned)(bits >> 16) % 12,
	};
	if (plan->phase == PHASE_LEAVING)
		plan_leaving(plan, bits);
	/* Small ones as often as large ones: a connection takes some 300 us. */
	plan->delay = (int64_t)(pattern_next(&random) % (1u << ((bits >> 24) % 13)));
}

/* ---- the report ---- */

struct total {
	uint64_t faults[FAULTS], states[FAULTS][STATES];
	struct counts counts;
	int64_t worst[FAULTS];
};

static void add(struct total *t, const struct outcome *o)
{
	const uint64_t *from = (const uint64_t *)&o->counts;
	uint64_t *to = (uint64_t *)&t->counts;
	enum fault fault = board->plan.fault;

	t->faults[fault]++;
	t->states[fault][o->state]++;
	if (o->worst > t->worst[fault])
		t->worst[fault] = o->worst;
	for (size_t i = 0; i < sizeof(o->counts) / sizeof(*from); i++)
		to[i] += from[i];
}

static void report(const struct total *t)
{
	const struct counts *c = &t->counts;

	for (int f = 0; f < FAULTS; f++) {
		printf("%5" PRIu64 " %-22s while the connection was", t->faults[f], fault_names[f]);
		for (int i = 0; i < STATES; i++)
			printf(" %s %" PRIu64, state_names[i], t->states[f][i]);
		printf("; the last completion after %.1f ms\n", (double)t->worst[f] / 1000);
	}
	printf("%" PRIu64 " operations: %" PRIu64 " succeeded, %" PRIu64 " failed, %" PRIu64
	       " cancelled; %" PRIu64 " injects\n", c->posted, c->ok, c->failed, c->cancelled,
	       c->injected);
	for (int i = 0; i < OP_CODES && op_codes[i]; i++)
		if (c->codes[i])
			printf("%10" PRIu64 " %s\n", c->codes[i], fi_strerror(op_codes[i]));
}

/* ---- */

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (*text && !*end)
		return value;
	fprintf(stderr, "tagrv_fault: %s is no number\n", text);
	exit(2);
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "rounds", required_argument, NULL, 'r' }, { "seed", required_argument, NULL, 's' },
		{ "first", required_argument, NULL, 'f' }, { 0 },
	};
	int c;

	opt.seed = (uint64_t)time(NULL);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'r')
			opt.rounds = number(optarg);
		else if (c == 's')
			opt.seed = number(optarg);
		else if (c == 'f')
			opt.first = number(optarg);
		else
			exit(2);
	}
}

static void begin(void)
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED) {
		perror("tagrv_fault: mmap");
		exit(EXIT_FAILURE);
	}
	setenv("FI_TAGRV_TRANSPORTS", "shm", 1);
	setenv("FI_TAGRV_DEVICES", "shm", 1);
	setenv("FI_TAGRV_CONNECT_TIMEOUT", "1", 0);
	setenv("FI_TAGRV_CLOSE_TIMEOUT", "1", 0);
	setenv("FI_TAGRV_IFACE", "lo", 0);
	setenv("FI_PROVIDER", "tagrv", 0);
	survivor = getpid();
	nursery = fork();
	if (!nursery)
		fault_nursery(survivor);
	MUST(nursery > 0, "fork: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	struct total total = { 0 };
	struct outcome outcome;

	setvbuf(stdout, NULL, _IOLBF, 0);
	parse(argc, argv);
	begin();
	printf("seed %" PRIu64 ", %" PRIu64 " rounds from %" PRIu64 "\n", opt.seed, opt.rounds,
	       opt.first);
	for (uint64_t i = 0; i < opt.rounds; i++) {
		current = (int)(opt.first + i);
		make_plan(&board->plan, opt.first + i);
		memset(&outcome, 0, sizeof(outcome));
		fault_round((int)i + 1, &outcome);
		add(&total, &outcome);
	}
	report(&total);
	kill(nursery, SIGKILL);
	printf("ok fault\n");
	return EXIT_SUCCESS;
}
