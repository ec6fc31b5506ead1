/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random traffic between protocol engines over a random transport: see sim.h.
 *
 * Each seed runs in a process of its own, so that a crash or a hang is a failed seed.
 * The last line is 'N passed, N failed'.
 */
#include "sim.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/slowness.h"

enum { SEEDS = 100, STEPS = 8000 };

/* Limit for each STEPS steps of a seed, which take about a second. */
enum { SEED_MS = 60000 };

/* Rounds until all operations have ended: idle ones before the end, the limit, for cancels. */
enum { PASSES = 30, IDLE_ROUNDS = 100, ROUNDS_MAX = 20000, CANCEL_ROUNDS = 400, REST = 300 };

/* Receives at a time while each message must find one; how many are cancelled at a time. */
enum { MANY = 300, SOME = 50 };

/* --- one seed --- */

static unsigned often(unsigned percent_without, unsigned most)
{
	return sim_chance(percent_without) ? 0 : (unsigned)sim_below(most);
}

static void mix_transport(struct sim_mix *mix)
{
	mix->caps |= sim_chance(80) ? TAGRV_XPORT_GET : 0;
	mix->caps |= sim_chance(80) ? TAGRV_XPORT_PUT : 0;
	mix->caps |= sim_chance(50) ? TAGRV_XPORT_PUT_FENCED : 0;
	mix->caps |= sim_chance(60) ? TAGRV_XPORT_PREPARED : 0;
	mix->tagged_end = sim_chance(30) ? 0 : sim_below(400);
	mix->depth = 1 + sim_below(5);
	mix->full = often(30, 60);
	mix->no_reg = often(50, 60);
	mix->lossy = sim_chance(20) ? 1 + (unsigned)sim_below(20) : 0;
	sim.broken = mix->lossy;
	mix->breaks = sim_chance(40);
	mix->lists = sim.lists ? 100 : often(50, 100);
	mix->late = (unsigned)sim_below(sim_chance(70) ? 5 : 100);
}

static void mix_traffic(struct sim_mix *mix)
{
	mix->sends = 1 + sim_below(sim_chance(20) ? 1500 : 200);
	mix->recvs = 1 + sim_below(200);
	mix->max_len = sim_chance(40) ? 2000 : 150000;
	mix->multi = often(50, 60);
	mix->peek = often(50, 20);
	mix->cancel = often(50, 10);
	mix->directed = often(50, 50);
	mix->own_mem = often(50, 80);
	mix->abrupt = sim_chance(15);
	mix->pause = sim_chance(20) ? 0 : (size_t)8 << sim_below(6);
}

static void trace_mix(const struct sim_mix *mix)
{
	SIM_TRACE("caps %#x, tagged below %zu, depth %zu, full %u%%, unregistered %u%%, lossy %u%%%s%s",
		  mix->caps, mix->tagged_end, mix->depth, mix->full, mix->no_reg, mix->lossy, mix->breaks ? ", breaks" : "",
		  mix->abrupt ? ", abrupt" : "");
	SIM_TRACE("lists %u%%, late by up to %u", mix->lists, mix->late);
	SIM_TRACE("a pause each %zu steps", mix->pause);
	SIM_TRACE("%zu sends, %zu receives at a time, of %zu bytes, multi %u%%, peek %u%%, "
		  "cancel %u%%, directed %u%%, own memory %u%%", mix->sends, mix->recvs,
		  mix->max_len, mix->multi, mix->peek, mix->cancel, mix->directed, mix->own_mem);
}

static void take_all(void)
{
	for (int i = 0; i < sim.side_cnt; i++) {
		sim_expect_rx(i);
		sim_expect_tx(i);
	}
}

static void take_some(void)
{
	for (int i = 0; i < sim.side_cnt; i++) {
		if (sim_chance(40))
			sim_expect_rx(i);
		if (sim_chance(40))
			sim_expect_tx(i);
	}
}

static void move(void)
{
	struct sim_side *side = &sim.side[sim_below((size_t)sim.side_cnt)];

	sim_conn_step();
	if (sim_chance(50))
		tagrv_dom_progress(side->dom);
	else
		tagrv_engine_progress(side->engine);
	if (sim.mix.breaks && !sim_below(500))
		sim_link_break_one((int)sim_below((size_t)sim.side_cnt));
	take_some();
}

/* Counts messages that no receive has matched. */
static size_t missing(void)
{
	size_t cnt = 0;

	if (!sim.broken)
		return sim.msg_cnt - sim.got_cnt;
	for (int i = 0; i < sim.side_cnt; i++) {
		struct tagrv_match_stats stats;

		tagrv_rx_match_stats(sim.side[i].rx, &stats);
		cnt += stats.unexpected;
	}
	return cnt;
}

static void cancel_some(size_t cnt)
{
	while (cnt--)
		sim_traffic_cancel();
}

/* Receives and sends nothing, until all messages have ended for so many rounds. */
static void settle(unsigned rounds)
{
	for (unsigned round = 0, idle = 0; idle < rounds; round++) {
		SIM_CHECK(round < ROUNDS_MAX, "%zu messages, %zu sends, %zu receives never end",
			  missing(), sim.sends, sim.recvs);
		for (int i = 0; i < PASSES; i++)
			move();
		take_all();
		sim_traffic_claim(true);
		if (!missing() && !sim.sends) {
			idle++;
			continue;
		}
		idle = 0;
		for (int i = 0; i < 5; i++)
			sim_traffic_recv();
		if (sim.recvs >= MANY - 1)
			cancel_some(SOME);
	}
}

/*
 * Pauses show operations that the engine has forgotten: later traffic with the same
 * peer would serve them.
 */
static void pause_traffic(unsigned rounds)
{
	struct sim_mix mix = sim.mix;

	SIM_TRACE("pause");
	sim.mix.breaks = false;
	sim.mix.recvs = MANY;
	settle(rounds);
	sim.mix.breaks = mix.breaks;
	sim.mix.recvs = mix.recvs;
}

static void step(void)
{
	size_t what = sim_below(100);

	if (what < 35)
		sim_traffic_send();
	else if (what < 65)
		sim_traffic_recv();
	else
		move();
	if (sim_chance(sim.mix.peek))
		sim_traffic_peek();
	if (sim_chance(sim.mix.cancel))
		sim_traffic_cancel();
	if (sim.mix.peek)
		sim_traffic_claim(false);
	if (sim.mix.pause && !sim_below(sim.mix.pause))
		pause_traffic(1);
}

static void cancel_rest(void)
{
	for (unsigned round = 0; round < CANCEL_ROUNDS && sim_traffic_posted(); round++) {
		cancel_some(SOME);
		move();
		take_all();
	}
	/* Devices are asked for receives that their lists have, a few at a time. */
	sim.mix.late = 0;
	for (int i = 0; i < REST || (sim.recvs && i < ROUNDS_MAX); i++)
		move();
	take_all();
}

static void run_seed(uint64_t seed)
{
	sim_seed(seed);
	tagrv_list_init(&sim.live);
	sim.msgs = sim_alloc(sim.steps * sizeof(*sim.msgs));
	mix_transport(&sim.mix);
	mix_traffic(&sim.mix);
	trace_mix(&sim.mix);
	sim_side_open_all();
	for (uint64_t i = 0; i < sim.steps; i++)
		step();
	if (!sim.mix.abrupt) {
		sim.mix.breaks = false;
		pause_traffic(IDLE_ROUNDS);
		cancel_rest();
		sim_side_judge();
	}
	sim_expect_order();
	sim_side_close_all((int)sim_below((size_t)sim.side_cnt));
	sim_traffic_drop_all();
	SIM_CHECK(!sim.regs, "%zu registrations left", sim.regs);
	sim_side_free_all();
	free(sim.msgs);
	SIM_TRACE("%u messages, %u of them received", sim.msg_cnt, sim.got_cnt);
}

/* --- all seeds --- */

/*
 * libinfinipath, which libfabric may load, handles these signals: its handler calls
 * backtrace() and exit(), which wait for ever if malloc() or free() has raised the
 * signal, and turn any other crash into status 1.
 */
static void restore_signals(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGINT, SIGTERM };

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(signals); i++)
		signal(signals[i], SIG_DFL);
}

/* SIGALRM ends a seed that hangs. With -v a reader may stop the output: no limit. */
static void limit_time(void)
{
	uint64_t limit = (slow_ms(SEED_MS) / 1000) * (1 + sim.steps / STEPS);

	if (!sim.trace)
		alarm((unsigned)TAGRV_MIN(limit, (uint64_t)UINT32_MAX));
}

/* Whether the seed passed, in a process of its own. */
static bool try_seed(const char *program, uint64_t seed)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		limit_time();
		run_seed(seed);
		exit(EXIT_SUCCESS);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		perror("a process for the seed");
		exit(2);
	}
	if (WIFSIGNALED(status))
		printf("wrong: %s %d\n", WTERMSIG(status) == SIGALRM ?
		       "the seed hangs, signal" : "signal", WTERMSIG(status));
	if (status)
		printf("FAIL seed %" PRIu64 "; again: %s --seed %" PRIu64 " --seeds 1 --steps %"
		       PRIu64 "%s -v\n", seed, program, seed, sim.steps,
		       sim.lists ? " --lists" : "");
	return !status;
}

static void print_help(const char *program)
{
	printf("usage: %s [options]\n"
	       "  --seed N      the first seed (default 1)\n"
	       "  --seeds COUNT how many, one after the other (default %d; 1 with -v)\n"
	       "  --steps N     of one seed, until all that was posted is brought to its end\n"
	       "                (default %d)\n"
	       "  --lists       in each seed, all sides use lists of receives if they can\n"
	       "  -v            print what happens\n"
	       "  -h, --help    this text\n", program, SEEDS, STEPS);
}

static uint64_t number(const char *text)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || end == text || *end || *text == '-') {
		fprintf(stderr, "not a number: %s\n", text);
		exit(2);
	}
	return value;
}

struct choice {
	uint64_t first, cnt;
};

static struct choice parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seeds", required_argument, NULL, 'c' },
		{ "steps", required_argument, NULL, 'n' },
		{ "lists", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct choice choice = { .first = 1 };
	int key;

	sim.steps = STEPS;
	while ((key = getopt_long(argc, argv, "vh", options, NULL)) != -1) {
		if (key == 's')
			choice.first = number(optarg);
		else if (key == 'c')
			choice.cnt = number(optarg);
		else if (key == 'n')
			sim.steps = number(optarg);
		else if (key == 'l')
			sim.lists = true;
		else if (key == 'v')
			sim.trace = true;
		else if (key == 'h')
			print_help(argv[0]);
		if (key == 'h' || key == '?')
			exit(key == 'h' ? EXIT_SUCCESS : 2);
	}
	if (!choice.cnt)
		choice.cnt = sim.trace ? 1 : SEEDS;
	return choice;
}

int main(int argc, char **argv)
{
	struct choice choice = parse(argc, argv);
	uint64_t passed = 0;

	restore_signals();
	/* Seeds that break connections log many warnings, all of them expected. */
	setenv("FI_LOG_LEVEL", "error", 0);
	for (uint64_t i = 0; i < choice.cnt; i++)
		passed += try_seed(argv[0], choice.first + i);
	printf("%" PRIu64 " passed, %" PRIu64 " failed\n", passed, choice.cnt - passed);
	return passed == choice.cnt ? EXIT_SUCCESS : EXIT_FAILURE;
}
