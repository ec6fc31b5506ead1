/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The cost of connected but silent peers: half a round trip of 8 bytes between two
 * endpoints without other peers, and between two endpoints that are connected to
 * many processes, which sleep.
 *
 *   leader  [few]  <------ messages ------> [few]   follower
 *           [many] <------ messages ------> [many]
 *              ^------ idle process 2 ------^        has sent one message to each
 *              ^------      ...       ------^
 *
 * Both processes have both endpoints, in separate domains. Blocks of round trips
 * alternate between the two pairs, so that a busy machine disturbs both alike.
 */
#include "clock.h"
#include "endpoint.h"
#include "measure.h"
#include "oob.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 8, PEERS_MAX = 4000, BLOCKS_MAX = 100001, WARM_UP = 10 };

static unsigned peers = 128, blocks = 201, iterations = 2000;
static bool pinned = true;
static const char *provider = "tagrv", *device = "shm";

static const struct endpoint_conf *conf(void)
{
	static struct endpoint_conf c;

	c = (struct endpoint_conf){
		.provider = provider, .slot_size = SIZE, .slots = 2, .timeout = 60,
		.one_buffer = true, .use_inject = true,
	};
	return &c;
}

/* ---- idle processes ---- */

/* Sends a message to the leader and to the follower, then sleeps. */
static _Noreturn void be_idle(int leader, int follower)
{
	struct endpoint_conf completes = *conf();
	int oob[2] = { leader, follower };
	struct endpoint e;
	fi_addr_t addr[2];
	char go;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* One process after the other, so that few compete for the processors. */
	oob_recv(leader, &go, 1, NULL, NULL);
	completes.yield = true;
	/* A sleeping process makes no progress for an injected message. */
	completes.use_inject = false;
	endpoint_open(&e, &completes, leader);
	addr[0] = e.peer;
	addr[1] = endpoint_meet(&e, follower);
	for (int i = 0; i < 2; i++) {
		oob_recv(oob[i], &e.sent, sizeof(e.sent), NULL, NULL);
		e.peer = addr[i];
		e.sends_done = e.sent;
		endpoint_post_send(&e, SIZE);
		endpoint_wait_sends(&e, e.sent);
	}
	for (;;)
		pause();
}

/* Receives the message of an idle process, at the leader or follower. */
static void hear_from(struct endpoint *e, bool leads, int oob)
{
	uint64_t number = e->received;
	char go = 0;

	if (leads)
		oob_send(oob, &go, 1);
	endpoint_meet(e, oob);
	endpoint_post_recv(e, SIZE);
	oob_send(oob, &number, sizeof(number));
	endpoint_wait_recvs(e, e->received);
	/* Tags are message numbers: keep both counters equal. */
	e->sent++;
	e->sends_done++;
	close(oob);
}

/* ---- leader and follower ---- */

/* Receives are posted one ahead; the first receive of a block before the block. */
static double round_trips(struct endpoint *e, bool leads, int oob, unsigned count, double tick)
{
	uint64_t start;
	char go = 0;

	endpoint_post_recv(e, SIZE);
	oob_send(oob, &go, 1);
	oob_recv(oob, &go, 1, NULL, NULL);
	start = clock_ticks();
	for (unsigned i = 0; i < count; i++) {
		if (leads)
			endpoint_post_send(e, SIZE);
		endpoint_wait_recvs(e, e->received);
		if (i + 1 < count)
			endpoint_post_recv(e, SIZE);
		if (!leads)
			endpoint_post_send(e, SIZE);
		endpoint_wait_sends(e, e->sent);
	}
	return (double)(clock_ticks() - start) * tick / count / 2;
}

static void report(double few[], double many[])
{
	double a = measure_median(few, blocks) * 1e6, b = measure_median(many, blocks) * 1e6;

	printf("# 8 bytes, half a round trip in us: median (best) of %u blocks of %u\n", blocks,
	       iterations);
	printf("peers 1: %.4f (%.4f)\npeers %u: %.4f (%.4f)\nratio %.3f (%.3f)\n", a,
	       few[0] * 1e6, peers, b, many[0] * 1e6, b / a, many[0] / few[0]);
}

static void be_active(bool leads, int oob, const int *idle)
{
	double tick = clock_seconds_per_tick();
	struct endpoint few, many;
	static double of_few[BLOCKS_MAX], of_many[BLOCKS_MAX];

	if (pinned && !measure_pin(!leads))
		bench_die("two processors are needed (or --no-pin)");
	endpoint_open(&few, conf(), oob);
	endpoint_open(&many, conf(), oob);
	round_trips(&few, leads, oob, WARM_UP, tick);
	round_trips(&many, leads, oob, WARM_UP, tick);
	many.conf.yield = true;
	for (unsigned i = 0; i + 1 < peers; i++)
		hear_from(&many, leads, idle[i]);
	many.conf.yield = false;
	for (unsigned i = 0; i < blocks; i++) {
		if (i & 1)
			of_few[i] = round_trips(&few, leads, oob, iterations, tick);
		of_many[i] = round_trips(&many, leads, oob, iterations, tick);
		if (!(i & 1))
			of_few[i] = round_trips(&few, leads, oob, iterations, tick);
	}
	if (leads)
		report(of_few, of_many);
	endpoint_close(&many);
	endpoint_close(&few);
}

/* ---- processes ---- */

static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static pid_t fork_or_die(void)
{
	pid_t pid = fork();

	if (pid < 0)
		bench_die("cannot fork");
	return pid;
}

static int run(void)
{
	int *of_leader = calloc(peers, sizeof(int)), *of_follower = calloc(peers, sizeof(int));
	pid_t *idle = calloc(peers, sizeof(*idle)), follower;
	int pair[2], other[2], status;

	if (!of_leader || !of_follower || !idle)
		bench_die("out of memory");
	for (unsigned i = 0; i + 1 < peers; i++) {
		oob_pair(pair);
		oob_pair(other);
		idle[i] = fork_or_die();
		if (!idle[i])
			be_idle(pair[1], other[1]);
		close(pair[1]);
		close(other[1]);
		of_leader[i] = pair[0];
		of_follower[i] = other[0];
	}
	oob_pair(pair);
	follower = fork_or_die();
	if (!follower) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_active(false, pair[1], of_follower);
		exit(EXIT_SUCCESS);
	}
	be_active(true, pair[0], of_leader);
	waitpid(follower, &status, 0);
	for (unsigned i = 0; i + 1 < peers; i++) {
		kill(idle[i], SIGKILL);
		waitpid(idle[i], NULL, 0);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

static void print_help(void)
{
	printf("usage: tagrv_idle_peers [options]\n"
	       "\n"
	       "Half a round trip of 8 bytes between two processes of this host, without and with\n"
	       "other processes that are connected to both and silent.\n"
	       "\n"
	       "      --peers N         processes each of the two is connected to (default %u)\n"
	       "  -b, --blocks N        measurements of which the median is shown (default %u)\n"
	       "  -n, --iterations N    round trips in a block (default %u)\n"
	       "      --no-pin          do not put the two on processors of their own\n"
	       "  -p, --provider NAME   provider (default %s)\n"
	       "      --dev NAME        FI_TAGRV_DEVICES (default %s)\n"
	       "  -h, --help            this text\n",
	       peers, blocks, iterations, provider, device);
}

static unsigned number(const char *text, unsigned min, unsigned max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || value < min || value > max)
		bench_die("'%s' is no number from %u to %u", text, min, max);
	return (unsigned)value;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "peers", required_argument, NULL, 'P' },
		{ "blocks", required_argument, NULL, 'b' },
		{ "iterations", required_argument, NULL, 'n' },
		{ "no-pin", no_argument, NULL, 'N' },
		{ "provider", required_argument, NULL, 'p' },
		{ "dev", required_argument, NULL, 'D' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int key;

	while ((key = getopt_long(argc, argv, "b:n:p:h", options, NULL)) != -1) {
		switch (key) {
		case 'P': peers = number(optarg, 1, PEERS_MAX); break;
		case 'b': blocks = number(optarg, 1, BLOCKS_MAX); break;
		case 'n': iterations = number(optarg, 1, 1u << 30); break;
		case 'N': pinned = false; break;
		case 'p': provider = optarg; break;
		case 'D': device = optarg; break;
		case 'h': print_help(); return EXIT_SUCCESS;
		default: return 2;
		}
	}
	setenv("FI_TAGRV_DEVICES", device, 1);
	allow_descriptors();
	return run();
}
