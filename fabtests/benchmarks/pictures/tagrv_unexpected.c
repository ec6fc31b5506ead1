/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory that messages take while nobody receives them, over any provider of
 * libfabric: of the process that they are sent to, and of the process that sends.
 *
 *   receiver                              sender
 *   orders more messages   ------------>
 *   makes progress                        sends them, until the provider refuses
 *                          <------------  reports how many it took, and its memory
 *   waits until its memory is steady, prints a line, and orders more
 *   ...
 *   receives the last message, then all others in order
 *
 * The sender has one buffer for all messages, and the contexts of all sends are there
 * before: what grows is the provider's.
 */
#include "benchmarks/clock.h"
#include "benchmarks/endpoint.h"
#include "benchmarks/oob.h"
#include "benchmarks/pair.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST = 1024, SLOTS = 16, STEADY_MS = 200 };

struct options {
	struct endpoint_conf conf;
	uint64_t messages;
	double	patience;	/* seconds without an accepted send, or until a receive has its message */
	double	most;		/* MiB of both processes at which no more is sent */
	bool	pin;
};

struct side {
	struct endpoint e;
	const struct options *opt;
	int	oob;
	struct endpoint_op *ops;	/* one for each message */
	uint64_t sent;
	double	memory;			/* MiB, before the first message */
};

/* The sender's answer to an order. */
struct answer {
	uint64_t sent;
	double	grown;		/* MiB */
	uint64_t refused;
};

static double now(void)
{
	return (double)clock_monotonic_ns() * 1e-9;
}

/* MiB of this process that are in memory. */
static double resident(void)
{
	char text[100] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	long pages = 0;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, "%*d %ld", &pages) != 1)
		bench_die("no /proc/self/statm");
	close(fd);
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

/* --- sender --------------------------------------------------------------- */

/* Returns whether the provider took the message in time. */
static bool send_one(struct side *s)
{
	double end = 0;
	ssize_t ret;

	while ((ret = fi_tsend(s->e.ep, endpoint_send_slot(&s->e, 0), s->opt->conf.slot_size, s->e.desc,
			       s->e.peer, s->sent, &s->ops[s->sent].context)) == -FI_EAGAIN) {
		endpoint_progress(&s->e);
		if (!end)
			end = now() + s->opt->patience;
		else if (now() > end)
			return false;
	}
	if (ret)
		bench_die("fi_tsend: %s", fi_strerror((int)-ret));
	s->sent++;
	return true;
}

static void send_up_to(struct side *s, uint64_t count, struct answer *answer)
{
	answer->refused = 0;
	while (s->sent < count && !answer->refused) {
		answer->refused = !send_one(s);
		if (s->sent % SLOTS == 0)
			endpoint_progress(&s->e);
	}
	answer->sent = s->sent;
}

static void be_sender(struct side *s)
{
	struct answer answer;
	uint64_t count;

	for (;;) {
		oob_recv(s->oob, &count, sizeof(count), endpoint_progress, &s->e);
		if (!count)
			break;
		send_up_to(s, count, &answer);
		answer.grown = resident() - s->memory;
		oob_send(s->oob, &answer, sizeof(answer));
	}
	endpoint_wait_sends(&s->e, s->sent);
}

/* --- receiver ------------------------------------------------------------- */

static void post(struct side *s, uint64_t number)
{
	ssize_t ret;

	s->ops[number].is_recv = true;
	while ((ret = fi_trecv(s->e.ep, endpoint_recv_slot(&s->e, 0), s->opt->conf.slot_size, s->e.desc,
			       FI_ADDR_UNSPEC, number, 0, &s->ops[number].context)) == -FI_EAGAIN)
		endpoint_progress(&s->e);
	if (ret)
		bench_die("fi_trecv: %s", fi_strerror((int)-ret));
}

/* Makes progress until this process has not grown for a while. Returns by how much it has. */
static double wait_steady(struct side *s)
{
	double grown = resident() - s->memory, end = now() + STEADY_MS * 1e-3;

	while (now() < end) {
		for (unsigned i = 0; i < 1000; i++)
			endpoint_progress(&s->e);
		if (resident() - s->memory > grown) {
			grown = resident() - s->memory;
			end = now() + STEADY_MS * 1e-3;
		}
	}
	return grown;
}

/* Returns whether the provider refused, or memory is enough for no more. */
static bool order(struct side *s, uint64_t count)
{
	struct answer answer;
	double grown;

	oob_send(s->oob, &count, sizeof(count));
	oob_recv(s->oob, &answer, sizeof(answer), endpoint_progress, &s->e);
	grown = wait_steady(s);
	printf("%s %" PRIu64 " %.3f %.3f %s\n", s->opt->conf.provider, answer.sent, grown, answer.grown,
	       answer.refused ? "refused" : "accepted");
	fflush(stdout);
	s->sent = answer.sent;
	return answer.refused || grown + answer.grown > s->opt->most;
}

static void flood(struct side *s)
{
	for (uint64_t count = FIRST; count <= s->opt->messages; count *= 2) {
		if (order(s, count))
			return;
		if (count + count / 2 <= s->opt->messages && order(s, count + count / 2))
			return;
	}
}

/* A receive of the last message, behind all others. */
static void receive_last(struct side *s)
{
	double start = now();

	post(s, s->sent - 1);
	while (!s->e.recvs_done && now() < start + s->opt->patience)
		endpoint_progress(&s->e);
	printf("last %s\n", s->e.recvs_done ? "received" : "waits");
	fflush(stdout);
}

static void be_receiver(struct side *s)
{
	uint64_t end = 0;
	double start;

	printf("provider %s\n", s->e.info->fabric_attr->prov_name);
	flood(s);
	if (!s->sent)
		bench_die("the provider takes no message that nobody receives");
	receive_last(s);
	start = now();
	for (uint64_t i = 0; i < s->sent - 1; i++) {
		post(s, i);
		endpoint_wait_recvs(&s->e, i + 1);
	}
	oob_send(s->oob, &end, sizeof(end));
	endpoint_wait_recvs(&s->e, s->sent);
	printf("all received %.3f\n", now() - start);
}

/* --- processes ------------------------------------------------------------ */

/* One message that is received, so that both are connected. */
static void connect_both(struct side *s, int who)
{
	if (who)
		endpoint_post_send(&s->e, s->opt->conf.slot_size);
	else
		endpoint_post_recv(&s->e, s->opt->conf.slot_size);
	endpoint_wait_sends(&s->e, who ? 1 : 0);
	endpoint_wait_recvs(&s->e, who ? 0 : 1);
	s->e.sends_done = s->e.recvs_done = 0;
}

/* who: 0 receives, 1 sends. */
static void be(const void *arg, int who, int oob)
{
	const struct options *opt = arg;
	struct side s = { .opt = opt, .oob = oob };
	size_t bytes = opt->messages * sizeof(*s.ops);

	if (opt->pin)
		pair_pin(who);
	s.ops = malloc(bytes);
	if (!s.ops)
		bench_die("out of memory");
	memset(s.ops, 0, bytes);
	endpoint_open(&s.e, &opt->conf, oob);
	connect_both(&s, who);
	s.memory = resident();
	if (who)
		be_sender(&s);
	else
		be_receiver(&s);
	endpoint_close(&s.e);
	free(s.ops);
	close(oob);
}

static void print_help(void)
{
	puts("usage: tagrv_unexpected [options]\n"
	     "\n"
	     "Send messages to a process that receives none, and print the name of the provider and,\n"
	     "each time that their number has grown by a third or by half: provider, messages sent, MiB\n"
	     "by which the receiver's memory and the sender's have grown, accepted or refused. Then\n"
	     "whether a receive for the last of them gets it, and the seconds until all are received.\n"
	     "\n"
	     "  -p, --provider NAME     provider (default: $FI_PROVIDER or tagrv)\n"
	     "  -n, --messages N        most messages (default 131072)\n"
	     "  -S, --size BYTES        of each (default 1024)\n"
	     "      --patience SECONDS  after which a send that the provider does not take is given up,\n"
	     "                          and a receive without its message (default 2)\n"
	     "      --most MIB          of both processes together, at which no more is sent (default 4096)\n"
	     "      --domain NAME       libfabric domain (default: the provider's first)\n"
	     "      --pin               each process on a processor of its own\n"
	     "      --timeout SECONDS   without a completion at the end (default 60)\n"
	     "  -h, --help              this text");
}

enum { OPT_PATIENCE = 256, OPT_MOST, OPT_DOMAIN, OPT_PIN, OPT_TIMEOUT };

static const struct option long_options[] = {
	{ "provider", required_argument, NULL, 'p' },
	{ "messages", required_argument, NULL, 'n' },
	{ "size", required_argument, NULL, 'S' },
	{ "help", no_argument, NULL, 'h' },
	{ "patience", required_argument, NULL, OPT_PATIENCE },
	{ "most", required_argument, NULL, OPT_MOST },
	{ "domain", required_argument, NULL, OPT_DOMAIN },
	{ "pin", no_argument, NULL, OPT_PIN },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ NULL, 0, NULL, 0 },
};

static void apply(struct options *opt, int key, const char *arg)
{
	switch (key) {
	case 'p': opt->conf.provider = arg; break;
	case 'n': opt->messages = (uint64_t)bench_number(arg, "--messages", FIRST, 1e8); break;
	case 'S': opt->conf.slot_size = (size_t)bench_number(arg, "--size", 1, 1 << 30); break;
	case 'h': print_help(); exit(EXIT_SUCCESS);
	case OPT_PATIENCE: opt->patience = bench_number(arg, "--patience", 0.001, 3600); break;
	case OPT_MOST: opt->most = bench_number(arg, "--most", 1, 1e9); break;
	case OPT_DOMAIN: opt->conf.domain = arg; break;
	case OPT_PIN: opt->pin = true; break;
	case OPT_TIMEOUT: opt->conf.timeout = (unsigned)bench_number(arg, "--timeout", 1, 86400); break;
	default: exit(2);
	}
}

int main(int argc, char **argv)
{
	const char *provider = getenv("FI_PROVIDER");
	struct options opt = {
		.conf = {
			.provider = provider && *provider ? provider : "tagrv",
			.slot_size = 1024,
			.slots = SLOTS,
			.timeout = 60,
			.yield = sysconf(_SC_NPROCESSORS_ONLN) < 2,
		},
		.messages = 131072,
		.patience = 2,
		.most = 4096,
	};
	int key;

	while ((key = getopt_long(argc, argv, "p:n:S:h", long_options, NULL)) != -1)
		apply(&opt, key, optarg);
	if (optind < argc)
		bench_die("unexpected argument '%s'", argv[optind]);
	return pair_run(be, &opt);
}
