/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Cost of receiving a tagged message by depth of the receiver's queues, between
 * two processes, over any provider of libfabric that has FI_DIRECTED_RECV.
 *
 *   receiver (measures)                     sender
 *   posted: posts N receives that match nothing, then in every round
 *     posts BATCH receives, orders  ------>
 *                             <------       sends BATCH messages, then reports it
 *     [reads completions]
 *   unexpected: receives N messages that match no receive, then in every round
 *     orders                  ------>
 *                             <------       sends BATCH messages and a marker
 *     [posts a receive, reads its completion] for each of them
 *
 * The steps in brackets are timed: the receiver's work for messages that have left
 * the sender. The result is the median over rounds, per message. Receives use four
 * masks, and half of them name their source: with 4 kinds of receives two of the
 * masks, with 8 kinds each mask in half of its receives.
 */
#include "clock.h"
#include "endpoint.h"
#include "oob.h"
#include "pair.h"

#include <getopt.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 16, ROUNDS_MAX = 400, ROUNDS_MIN = 5, WARM_UP = 8, BYTES = 8 };

/* The low half of a tag tells messages apart and is never ignored. */
#define TAG_MARKER	((uint64_t)1 << 30)
#define TAG_FILLER	((uint64_t)1 << 31)

static const uint64_t masks[] = {
	0, 0xffull << 32, 0xffffull << 32, 0xffffull << 48,
};

struct options {
	struct endpoint_conf conf;
	size_t	queued;
	double	seconds;
	unsigned kinds;		/* kinds of receives: 4 or 8 */
	bool	unexpected;
	bool	pin;
	bool	header;
};

/* An order of the receiver to the sender: messages with tags first, first + 1, ... */
struct order {
	uint64_t first;
	uint64_t count;		/* 0: the end */
	uint64_t marker;	/* whether the marker follows */
};

struct side {
	struct endpoint e;
	const struct options *opt;
	int	oob;
	struct endpoint_op *ops;	/* receives: fillers, batch, marker */
	char	buf[64];
	uint64_t waited;		/* receives that were waited for */
};

/* --- time limits ---------------------------------------------------------- */

static void give_up(int signal)
{
	static const char text[] = "tagrv_depth: nothing moves any more\n";

	(void)signal;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
		kill(getpid(), SIGTERM);
	else
		_exit(EXIT_FAILURE);
}

/* A provider may refuse for ever or spin inside a call. SIGTERM lets providers clean up. */
static void be_patient(const struct side *s)
{
	alarm(s->opt->conf.timeout);
}

static void check(ssize_t ret, const char *what)
{
	if (ret < 0)
		bench_die("%s: %s", what, fi_strerror((int)-ret));
}

/* --- sender --------------------------------------------------------------- */

static ssize_t try_send(struct side *s, uint64_t tag)
{
	return fi_tinject(s->e.ep, s->buf, BYTES, s->e.peer, tag);
}

static void send_one(struct side *s, uint64_t tag)
{
	ssize_t ret;

	while ((ret = try_send(s, tag)) == -FI_EAGAIN)
		endpoint_progress(&s->e);
	check(ret, "fi_tinject");
}

static void be_sender(struct side *s)
{
	struct order order;

	for (;;) {
		be_patient(s);
		oob_recv(s->oob, &order, sizeof(order), endpoint_progress, &s->e);
		if (!order.count)
			return;
		for (uint64_t i = 0; i < order.count; i++) {
			send_one(s, order.first + i);
			if (i % 1024 == 0)
				be_patient(s);
		}
		if (order.marker)
			send_one(s, TAG_MARKER);
		oob_send(s->oob, "", 1);
	}
}

/* --- receiver ------------------------------------------------------------- */

static void post(struct side *s, size_t slot, uint64_t tag, unsigned kind)
{
	uint64_t ignore = masks[kind % 4];
	bool directed = s->opt->kinds == 8 ? kind / 4 % 2 : kind % 2;
	fi_addr_t src = directed ? s->e.peer : FI_ADDR_UNSPEC;
	ssize_t ret;

	s->ops[slot].is_recv = true;
	while ((ret = fi_trecv(s->e.ep, s->buf, BYTES, NULL, src, tag, ignore,
			       &s->ops[slot].context)) == -FI_EAGAIN)
		endpoint_progress(&s->e);
	check(ret, "fi_trecv");
}

static void wait_recvs(struct side *s, uint64_t more)
{
	s->waited += more;
	endpoint_wait_recvs(&s->e, s->waited);
}

static void order_messages(struct side *s, uint64_t first, uint64_t count, bool marker)
{
	const struct order order = { first, count, marker };

	be_patient(s);
	oob_send(s->oob, &order, sizeof(order));
}

static void fill_posted(struct side *s)
{
	for (size_t i = 0; i < s->opt->queued; i++) {
		post(s, i, TAG_FILLER + i, (unsigned)i);
		if (i % 1024 == 0)
			be_patient(s);
	}
}

/* When the marker has arrived, all messages have arrived. */
static void wait_marker(struct side *s)
{
	char said;

	wait_recvs(s, 1);
	oob_recv(s->oob, &said, 1, endpoint_progress, &s->e);
}

static void post_marker(struct side *s)
{
	post(s, s->opt->queued + BATCH, TAG_MARKER, 0);
}

static void fill_unexpected(struct side *s)
{
	post_marker(s);
	order_messages(s, TAG_FILLER, s->opt->queued, true);
	wait_marker(s);
}

/* idle: called until all messages have left the sender; NULL in measured rounds. */
static uint64_t round_posted(struct side *s, uint64_t first, oob_idle_fn idle)
{
	uint64_t start;
	char said;

	for (unsigned i = 0; i < BATCH; i++)
		post(s, s->opt->queued + i, first + i, i);
	order_messages(s, first, BATCH, false);
	oob_recv(s->oob, &said, 1, idle, &s->e);
	start = clock_ticks();
	wait_recvs(s, BATCH);
	return clock_ticks() - start;
}

static uint64_t round_unexpected(struct side *s, uint64_t first)
{
	uint64_t start;

	post_marker(s);
	order_messages(s, first, BATCH, true);
	wait_marker(s);
	start = clock_ticks();
	for (unsigned i = 0; i < BATCH; i++) {
		post(s, s->opt->queued + i, first + i, i);
		wait_recvs(s, 1);
	}
	return clock_ticks() - start;
}

static uint64_t one_round(struct side *s, uint64_t nr)
{
	if (s->opt->unexpected)
		return round_unexpected(s, nr * BATCH);
	return round_posted(s, nr * BATCH, NULL);
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Returns microseconds per message. */
static double measure(struct side *s)
{
	uint64_t ticks[ROUNDS_MAX], nr = 0, cnt = 0, end;
	double per_tick = clock_seconds_per_tick();

	for (; nr < WARM_UP; nr++)
		one_round(s, nr);
	end = clock_monotonic_ns() + (uint64_t)(s->opt->seconds * 1e9);
	while (cnt < ROUNDS_MAX && (cnt < ROUNDS_MIN || clock_monotonic_ns() < end))
		ticks[cnt++] = one_round(s, nr++);
	qsort(ticks, cnt, sizeof(*ticks), compare);
	return (double)ticks[cnt / 2] * per_tick * 1e6 / BATCH;
}

static void be_receiver(struct side *s)
{
	const struct options *opt = s->opt;
	double us;

	be_patient(s);
	/* Connect before anything is queued. */
	round_posted(s, TAG_MARKER / 2, endpoint_progress);
	if (opt->unexpected)
		fill_unexpected(s);
	else
		fill_posted(s);
	us = measure(s);
	if (opt->header)
		printf("# provider queue length us_per_message\n");
	printf("%s %s %zu %.4f\n", opt->conf.provider, opt->unexpected ? "unexpected" : "posted",
	       opt->queued, us);
	order_messages(s, 0, 0, false);
}

/* --- processes ------------------------------------------------------------ */

/* who: 0 receives and measures, 1 sends. */
static void be(const void *arg, int who, int oob)
{
	const struct options *opt = arg;
	struct side s = { .opt = opt, .oob = oob };
	struct endpoint_conf conf = opt->conf;

	if (opt->pin)
		pair_pin(who);
	signal(SIGALRM, give_up);
	be_patient(&s);
	s.ops = calloc(opt->queued + BATCH + 1, sizeof(*s.ops));
	if (!s.ops)
		bench_die("out of memory");
	if (who)
		conf.recvs = 0;
	endpoint_open(&s.e, &conf, oob);
	s.e.expect = BYTES;
	if (who)
		be_sender(&s);
	else
		be_receiver(&s);
	be_patient(&s);
	endpoint_close(&s.e);
	free(s.ops);
	close(oob);
}

static void print_help(void)
{
	puts("usage: tagrv_depth [options]\n"
	     "\n"
	     "Measure what it costs a process to receive a tagged message while its queues are\n"
	     "deep, and print one line: provider, queue, its length, microseconds per message.\n"
	     "\n"
	     "  -p, --provider NAME   provider (default: $FI_PROVIDER or tagrv)\n"
	     "  -q, --queue QUEUE     posted: receives that match nothing (default), or\n"
	     "                        unexpected: messages that nobody asks for\n"
	     "  -l, --length N        how many of them (default 16)\n"
	     "  -k, --kinds N         kinds of receives: 4 masks, of which two go with a source and two\n"
	     "                        without (4, default), or each with both (8)\n"
	     "  -t, --time SECONDS    of the measurement (default 1)\n"
	     "      --domain NAME     libfabric domain (default: the provider's first)\n"
	     "      --addr ADDRESS    source address\n"
	     "      --pin             each process on a processor of its own\n"
	     "      --timeout SECONDS after which a provider that does not move is given up\n"
	     "                        (default 60)\n"
	     "      --header          a line with the names of the columns\n"
	     "  -h, --help            this text\n"
	     "\n"
	     "Messages have 8 bytes. Providers may have limits of their own for receives and\n"
	     "messages that wait: compare-depth raises them.");
}

enum { OPT_DOMAIN = 256, OPT_ADDR, OPT_PIN, OPT_TIMEOUT, OPT_HEADER };

static const struct option long_options[] = {
	{ "provider", required_argument, NULL, 'p' },
	{ "queue", required_argument, NULL, 'q' },
	{ "length", required_argument, NULL, 'l' },
	{ "kinds", required_argument, NULL, 'k' },
	{ "time", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ "domain", required_argument, NULL, OPT_DOMAIN },
	{ "addr", required_argument, NULL, OPT_ADDR },
	{ "pin", no_argument, NULL, OPT_PIN },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "header", no_argument, NULL, OPT_HEADER },
	{ NULL, 0, NULL, 0 },
};

static void apply(struct options *opt, int key, const char *arg)
{
	switch (key) {
	case 'p': opt->conf.provider = arg; break;
	case 'q':
		opt->unexpected = !strcmp(arg, "unexpected");
		if (!opt->unexpected && strcmp(arg, "posted"))
			bench_die("--queue wants posted or unexpected, not '%s'", arg);
		break;
	case 'l': opt->queued = (size_t)bench_number(arg, "--length", 1, 1e7); break;
	case 'k':
		opt->kinds = (unsigned)bench_number(arg, "--kinds", 4, 8);
		if (opt->kinds % 4)
			bench_die("--kinds wants 4 or 8, not '%s'", arg);
		break;
	case 't': opt->seconds = bench_number(arg, "--time", 0.001, 3600); break;
	case 'h': print_help(); exit(EXIT_SUCCESS);
	case OPT_DOMAIN: opt->conf.domain = arg; break;
	case OPT_ADDR: opt->conf.address = arg; break;
	case OPT_PIN: opt->pin = true; break;
	case OPT_TIMEOUT: opt->conf.timeout = (unsigned)bench_number(arg, "--timeout", 1, 86400); break;
	case OPT_HEADER: opt->header = true; break;
	default: exit(2);
	}
}

int main(int argc, char **argv)
{
	const char *provider = getenv("FI_PROVIDER");
	struct options opt = {
		.conf = {
			.provider = provider && *provider ? provider : "tagrv",
			.slot_size = BYTES,
			.slots = BATCH,
			.caps = FI_DIRECTED_RECV,
			.timeout = 60,
			.yield = sysconf(_SC_NPROCESSORS_ONLN) < 2,
		},
		.queued = 16,
		.kinds = 4,
		.seconds = 1,
	};
	int key;

	while ((key = getopt_long(argc, argv, "p:q:l:k:t:h", long_options, NULL)) != -1)
		apply(&opt, key, optarg);
	if (optind < argc)
		bench_die("unexpected argument '%s'", argv[optind]);
	/* For some providers this limits unexpected messages, too. */
	opt.conf.recvs = opt.queued + 2 * BATCH + 2;
	return pair_run(be, &opt);
}
