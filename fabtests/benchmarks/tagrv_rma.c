/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided operations between two processes, over any provider of libfabric.
 *
 *   put    each writes in turn, and waits until the other's bytes are in its memory:
 *          half a round trip
 *   get    reads, one at a time: time of one
 *   add    fi_fetch_atomic FI_SUM on FI_UINT64, one at a time: time of one
 *   putbw, getbw   a window of them in flight: bytes per second
 *   addrate        a window of fi_fetch_atomic in flight: operations per second
 *
 * In get, add and the rates the target only reads its completion queue. A figure is the
 * median over blocks; how many operations a block has follows from a short first run.
 */
#include "clock.h"
#include "endpoint.h"
#include "measure.h"
#include "oob.h"
#include "pair.h"

#include <getopt.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 20, BLOCKS_MOST = 64, SIZES_MOST = 32, WINDOW_MOST = 1024 };

enum what { PUT, GET, ADD, PUT_BW, GET_BW, ADD_RATE, WHATS };

static const char *const names[WHATS] = { "put", "get", "add", "putbw", "getbw", "addrate" };

struct options {
	const char *provider, *dev[2], *domain[2], *address[2];
	size_t	sizes[SIZES_MOST], size_cnt;
	bool	chosen[WHATS];
	size_t	window;
	unsigned blocks, timeout;
	double	budget;			/* s of one measurement */
	bool	pin;
};

struct order {
	uint64_t what, size, count;	/* count 0: the end */
};

struct target {
	uint64_t addr, key;
};

struct bench {
	struct endpoint e;
	const struct options *opt;
	int	oob;
	bool	leads;
	struct fid_mr *mr;
	char	*window, *local;	/* what the peer accesses, and our side of it */
	void	*desc;
	struct target peer;
	uint64_t turn;			/* of put */
	struct endpoint_op ops[WINDOW_MOST];
	double	seconds_per_tick;
};

static double now(const struct bench *b)
{
	return (double)clock_ticks() * b->seconds_per_tick;
}

/* --- operations ------------------------------------------------------------ */

static size_t local_bytes(const struct options *opt)
{
	size_t most = 64;

	for (size_t i = 0; i < opt->size_cnt; i++)
		most = opt->sizes[i] > most ? opt->sizes[i] : most;
	return most;
}

static ssize_t post(struct bench *b, enum what what, size_t size, struct endpoint_op *op)
{
	struct endpoint *e = &b->e;
	/* The operand of an addition lies before its result. */
	char *result = b->local + 8;

	switch (what) {
	case PUT:
	case PUT_BW:
		return fi_write(e->ep, b->local, size, b->desc, e->peer, b->peer.addr, b->peer.key,
				&op->context);
	case GET:
	case GET_BW:
		return fi_read(e->ep, b->local, size, b->desc, e->peer, b->peer.addr, b->peer.key,
			       &op->context);
	default:
		return fi_fetch_atomic(e->ep, b->local, 1, b->desc, result, b->desc, e->peer,
				       b->peer.addr, b->peer.key, FI_UINT64, FI_SUM, &op->context);
	}
}

static void start(struct bench *b, enum what what, size_t size, struct endpoint_op *op)
{
	ssize_t ret;

	while ((ret = post(b, what, size, op)) == -FI_EAGAIN)
		endpoint_progress(&b->e);
	if (ret)
		bench_die("%s: %s", names[what], fi_strerror((int)-ret));
	op->busy = true;
	b->e.sent++;
}

static void await(struct bench *b, struct endpoint_op *op)
{
	while (*(volatile bool *)&op->busy)
		endpoint_progress(&b->e);
}

/* Writes the number of the turn behind the other bytes, and waits for the peer's. */
static void put_turn(struct bench *b, size_t size, uint64_t count)
{
	volatile char *last = b->window + size - 1;
	struct endpoint_op *op;
	ssize_t ret;

	for (uint64_t i = 0; i < count; i++) {
		char turn = (char)(++b->turn % 127 + 1);

		if (!b->leads)
			while (*last != turn)
				endpoint_progress(&b->e);
		op = &b->ops[b->turn % 16];
		if (size <= b->e.inject_size) {
			b->local[size - 1] = turn;
			while ((ret = fi_inject_write(b->e.ep, b->local, size, b->e.peer, b->peer.addr,
						      b->peer.key)) == -FI_EAGAIN)
				endpoint_progress(&b->e);
			if (ret)
				bench_die("fi_inject_write: %s", fi_strerror((int)-ret));
		} else {
			await(b, op);
			b->local[size - 1] = turn;
			start(b, PUT, size, op);
		}
		if (b->leads)
			while (*last != turn)
				endpoint_progress(&b->e);
	}
}

static void one_by_one(struct bench *b, enum what what, size_t size, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		start(b, what, size, &b->ops[0]);
		await(b, &b->ops[0]);
	}
}

static void stream(struct bench *b, enum what what, size_t size, uint64_t count)
{
	const size_t window = b->opt->window;

	for (uint64_t i = 0; i < count; i++) {
		await(b, &b->ops[i % window]);
		start(b, what, size, &b->ops[i % window]);
	}
	for (size_t i = 0; i < window; i++)
		await(b, &b->ops[i]);
}

/* --- orders ---------------------------------------------------------------- */

static void run(struct bench *b, const struct order *order)
{
	if (order->what == PUT)
		put_turn(b, order->size, order->count);
	else if (order->what < PUT_BW)
		one_by_one(b, order->what, order->size, order->count);
	else
		stream(b, order->what, order->size, order->count);
}

/* Returns the seconds. The follower serves until the leader says that it is through. */
static double lead(struct bench *b, enum what what, size_t size, uint64_t count)
{
	const struct order order = { what, size, count };
	double begin, end;
	char ready;

	oob_send(b->oob, &order, sizeof(order));
	oob_recv(b->oob, &ready, 1, endpoint_progress, &b->e);
	begin = now(b);
	run(b, &order);
	end = now(b);
	oob_send(b->oob, "", 1);
	return end - begin;
}

static void follow(struct bench *b)
{
	struct order order;
	char end;

	for (;;) {
		oob_recv(b->oob, &order, sizeof(order), endpoint_progress, &b->e);
		if (!order.count)
			return;
		oob_send(b->oob, "", 1);
		if (order.what == PUT)
			run(b, &order);
		oob_recv(b->oob, &end, 1, endpoint_progress, &b->e);
	}
}

static double measure(struct bench *b, enum what what, size_t size)
{
	const struct options *opt = b->opt;
	uint64_t first = what < PUT_BW ? WARM_UP : 2 * opt->window, count;
	double values[BLOCKS_MOST], once;

	lead(b, what, size, first);
	once = lead(b, what, size, first) / (double)first;
	count = (uint64_t)(opt->budget / opt->blocks / once);
	count = count > first ? count : first;
	for (unsigned i = 0; i < opt->blocks; i++)
		values[i] = lead(b, what, size, count) / (double)count;
	return measure_median(values, opt->blocks) / (what == PUT ? 2 : 1);
}

static void print_line(enum what what, size_t size, double seconds)
{
	if (what < PUT_BW)
		printf("%s %zu %.3f us\n", names[what], size, seconds * 1e6);
	else if (what == ADD_RATE)
		printf("%s %zu %.0f /s\n", names[what], size, 1 / seconds);
	else
		printf("%s %zu %.1f MB/s\n", names[what], size, (double)size / seconds / 1e6);
	fflush(stdout);
}

static void measure_all(struct bench *b)
{
	const struct order end = { 0 };

	for (enum what what = 0; what < WHATS; what++) {
		bool adds = what == ADD || what == ADD_RATE;

		for (size_t i = 0; b->opt->chosen[what] && i < (adds ? 1 : b->opt->size_cnt); i++) {
			size_t size = adds ? 8 : b->opt->sizes[i];

			print_line(what, size, measure(b, what, size));
		}
	}
	oob_send(b->oob, &end, sizeof(end));
}

/* --- memory ---------------------------------------------------------------- */

static void check(long ret, const char *what)
{
	if (ret)
		bench_die("%s: %s", what, fi_strerror((int)-ret));
}

static void share_memory(struct bench *b)
{
	size_t bytes = local_bytes(b->opt);
	const uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	struct target mine;

	if (posix_memalign((void **)&b->window, 4096, 2 * bytes))
		bench_die("out of memory");
	b->local = b->window + bytes;
	memset(b->window, 0, 2 * bytes);
	check(fi_mr_reg(b->e.domain, b->window, 2 * bytes, access, 0, 7, 0, &b->mr, NULL),
	      "fi_mr_reg");
	b->desc = fi_mr_desc(b->mr);
	mine = (struct target){
		.addr = b->e.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)b->window : 0,
		.key = fi_mr_key(b->mr),
	};
	oob_send(b->oob, &mine, sizeof(mine));
	oob_recv(b->oob, &b->peer, sizeof(b->peer), endpoint_progress, &b->e);
}

static void be(const void *arg, int who, int oob)
{
	const struct options *opt = arg;
	const struct endpoint_conf conf = {
		.provider = opt->provider, .domain = opt->domain[who], .address = opt->address[who],
		.slot_size = 64, .slots = 2, .caps = FI_RMA | FI_ATOMIC, .timeout = opt->timeout,
		.use_mr = true,
	};
	struct bench *b = calloc(1, sizeof(*b));

	if (!b)
		bench_die("out of memory");
	if (opt->pin)
		pair_pin(who);
	if (opt->dev[who])
		setenv("FI_TAGRV_DEVICES", opt->dev[who], 1);
	b->opt = opt;
	b->oob = oob;
	b->leads = !who;
	b->seconds_per_tick = clock_seconds_per_tick();
	endpoint_open(&b->e, &conf, oob);
	share_memory(b);
	if (b->leads)
		measure_all(b);
	else
		follow(b);
	check(fi_close(&b->mr->fid), "fi_close of the memory region");
	endpoint_close(&b->e);
	free(b->window);
	free(b);
}

/* --- options --------------------------------------------------------------- */

static void usage(void)
{
	printf("usage: tagrv_rma [options]\n\n"
	       "Measure one-sided operations between two processes of this host; print one line each.\n\n"
	       "  -p, --provider NAME   provider (default: tagrv)\n"
	       "  -m, --mode LIST       of put, get, add, putbw, getbw, addrate (default: all)\n"
	       "  -S, --sizes LIST      bytes (default 8,4096,65536,1048576)\n"
	       "  -w, --window N        operations in flight for rates (default 16)\n"
	       "  -b, --blocks N        measurements of which the median is shown (default 11)\n"
	       "  -t, --time SECONDS    for one measurement (default 0.5)\n"
	       "      --pin             each process on a processor of its own\n"
	       "      --dev-a, --dev-b NAME          FI_TAGRV_DEVICES of the two\n"
	       "      --domain-a, --domain-b NAME    libfabric domain instead, for any provider\n"
	       "      --addr-a, --addr-b ADDRESS     source address\n"
	       "      --timeout SECONDS without any completion (default 60)\n"
	       "  -h, --help            this text\n");
	exit(0);
}

static void take_sizes(struct options *opt, char *list)
{
	opt->size_cnt = 0;
	for (char *one = strtok(list, ","); one && opt->size_cnt < SIZES_MOST; one = strtok(NULL, ","))
		opt->sizes[opt->size_cnt++] = (size_t)bench_number(one, "--sizes", 1, 1 << 30);
}

static void take_modes(struct options *opt, char *list)
{
	memset(opt->chosen, 0, sizeof(opt->chosen));
	for (char *one = strtok(list, ","); one; one = strtok(NULL, ",")) {
		enum what what = 0;

		while (what < WHATS && strcmp(one, names[what]))
			what++;
		if (what == WHATS)
			bench_die("--mode: there is no '%s' (see --help)", one);
		opt->chosen[what] = true;
	}
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "provider", 1, NULL, 'p' }, { "mode", 1, NULL, 'm' }, { "sizes", 1, NULL, 'S' },
		{ "window", 1, NULL, 'w' }, { "blocks", 1, NULL, 'b' }, { "time", 1, NULL, 't' },
		{ "pin", 0, NULL, 1 }, { "dev-a", 1, NULL, 2 }, { "dev-b", 1, NULL, 3 },
		{ "domain-a", 1, NULL, 4 }, { "domain-b", 1, NULL, 5 }, { "addr-a", 1, NULL, 6 },
		{ "addr-b", 1, NULL, 7 }, { "timeout", 1, NULL, 8 }, { "help", 0, NULL, 'h' }, { 0 },
	};
	struct options opt = {
		.provider = "tagrv", .sizes = { 8, 4096, 65536, 1048576 }, .size_cnt = 4,
		.chosen = { true, true, true, true, true, true }, .window = 16, .blocks = 11,
		.timeout = 60, .budget = 0.5,
	};
	int c;

	while ((c = getopt_long(argc, argv, "p:m:S:w:b:t:h", longs, NULL)) != -1) {
		switch (c) {
		case 'p': opt.provider = optarg; break;
		case 'm': take_modes(&opt, optarg); break;
		case 'S': take_sizes(&opt, optarg); break;
		case 'w': opt.window = (size_t)bench_number(optarg, "--window", 1, WINDOW_MOST); break;
		case 'b': opt.blocks = (unsigned)bench_number(optarg, "--blocks", 1, BLOCKS_MOST); break;
		case 't': opt.budget = bench_number(optarg, "--time", 0.001, 1000); break;
		case 1: opt.pin = true; break;
		case 2: case 3: opt.dev[c - 2] = optarg; break;
		case 4: case 5: opt.domain[c - 4] = optarg; break;
		case 6: case 7: opt.address[c - 6] = optarg; break;
		case 8: opt.timeout = (unsigned)bench_number(optarg, "--timeout", 1, 1e6); break;
		case 'h': usage(); break;
		default: return 2;
		}
	}
	return pair_run(be, &opt);
}
