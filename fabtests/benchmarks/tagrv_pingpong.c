/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Latency, bandwidth and message rate of tagged messages between two processes,
 * over any provider of libfabric.
 *
 *   leader                        follower
 *   order(size, counts)  --oob--> posts its receives
 *                        <--oob-- ready
 *   latency:    message  <------> message, one at a time; receives are posted after
 *               sends, while the messages travel
 *   bandwidth:  messages -------> posts another receive for each; both have as many
 *                                 in flight as there are slots
 *                        <------- 'block is in', empty
 *
 * A time is the median over blocks. The number of messages in a block is computed
 * from a short first run and the time that a measurement may take.
 */
#include "clock.h"
#include "endpoint.h"
#include "measure.h"
#include "oob.h"
#include "pair.h"
#include "pingpong.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM_UP = 5 };

enum order_kind { ORDER_LATENCY, ORDER_BANDWIDTH, ORDER_END };

/* An order of the leader to the follower: the next measurement. */
struct order {
	uint64_t kind;
	uint64_t size;
	uint64_t blocks;
	uint64_t count;		/* round trips, or messages in a block by slots */
};

struct bench {
	struct endpoint e;
	const struct options *opt;
	int	oob;
	bool	leads;
	uint64_t taken;		/* receives that were waited for */
	uint64_t to_post;	/* receives that this order or block still needs */
	double	pause;		/* s, the longest between two sends of a stream */
};

/* --- data ----------------------------------------------------------------- */

static uint8_t pattern(uint64_t message, size_t i)
{
	return (uint8_t)(message * 31 + i * 7 + (i >> 8));
}

static void fill(struct bench *b, size_t size)
{
	char *buf;

	if (!b->opt->verify)
		return;
	endpoint_wait_slot(&b->e);
	buf = endpoint_send_slot(&b->e, b->e.sent);
	for (size_t i = 0; i < size; i++)
		buf[i] = (char)pattern(b->e.sent, i);
}

static void verify(const struct bench *b, uint64_t message, size_t size)
{
	char *buf;

	if (!b->opt->verify)
		return;
	buf = endpoint_recv_slot(&b->e, message);
	for (size_t i = 0; i < size; i++)
		if ((uint8_t)buf[i] != pattern(message, i))
			bench_die("message %llu of %zu bytes: wrong byte at %zu",
				  (unsigned long long)message, size, i);
	memset(buf, 0, size);
}

/* --- time ----------------------------------------------------------------- */

static double seconds_per_tick;
static uint64_t first_tick;

static void start_clock(void)
{
	seconds_per_tick = clock_seconds_per_tick();
	first_tick = clock_ticks();
}

static double now(void)
{
	return (double)(clock_ticks() - first_tick) * seconds_per_tick;
}

/* --- latency -------------------------------------------------------------- */

static void send_one(struct bench *b, size_t size)
{
	fill(b, size);
	endpoint_post_send(&b->e, size);
}

static void recv_one(struct bench *b, size_t size)
{
	endpoint_take_recv(&b->e);
	verify(b, b->taken++, size);
}

/* Two receives are posted, so that the next message always finds one. */
static void post_next(struct bench *b, size_t size)
{
	if (!b->to_post)
		return;
	b->to_post--;
	endpoint_post_recv(&b->e, size);
}

/* The leader posts another receive before it takes a message, so it leaves a slot for that. */
static void post_first(struct bench *b, size_t size)
{
	const size_t most = b->leads ? b->e.conf.slots - 1 : b->e.conf.slots;

	for (size_t i = 0; i < 2 && i < most; i++)
		post_next(b, size);
}

static void round_trip(struct bench *b, size_t size)
{
	if (!b->leads)
		recv_one(b, size);
	send_one(b, size);
	post_next(b, size);
	if (b->leads)
		recv_one(b, size);
	endpoint_wait_sends(&b->e, b->e.sent);
}

/* The first receives were posted before. Returns seconds per half round trip. */
static double latency_block(struct bench *b, const struct order *order)
{
	double start = now();

	for (uint64_t i = 0; i < order->count; i++)
		round_trip(b, order->size);
	return (now() - start) / (double)order->count / 2;
}

/* --- bandwidth ------------------------------------------------------------ */

/* A block has 'count' messages for each slot. The first of each are posted before it begins. */
static void post_window(struct bench *b, const struct order *order)
{
	b->to_post = (order->count - 1) * b->e.conf.slots;
	for (size_t i = 0; i < b->e.conf.slots; i++)
		endpoint_post_recv(&b->e, order->size);
}

/* As many sends as there are slots may be in flight: send_one() waits for one. */
static void send_stream(struct bench *b, uint64_t messages, size_t size)
{
	double before = now(), after;

	for (uint64_t i = 0; i < messages; i++) {
		send_one(b, size);
		if (!b->opt->pause)
			continue;
		after = now();
		if (after - before > b->pause)
			b->pause = after - before;
		before = after;
	}
	endpoint_wait_sends(&b->e, b->e.sent);
}

/* Each message makes room for another receive, in another slot or the same one. */
static void recv_stream(struct bench *b, uint64_t messages, size_t size)
{
	for (uint64_t i = 0; i < messages; i++) {
		recv_one(b, size);
		post_next(b, size);
	}
}

/*
 * The first receives were posted before; the receives of the next block are posted when
 * all of this one's have come. Returns seconds per message.
 */
static double bandwidth_block(struct bench *b, const struct order *order, bool last)
{
	const uint64_t messages = order->count * b->e.conf.slots;
	double start = now();

	if (b->leads) {
		endpoint_post_recv(&b->e, 0);
		send_stream(b, messages, order->size);
		recv_one(b, 0);
	} else {
		recv_stream(b, messages, order->size);
		if (!last)
			post_window(b, order);
		endpoint_post_send(&b->e, 0);
		endpoint_wait_sends(&b->e, b->e.sent);
	}
	return (now() - start) / (double)messages;
}

/* --- orders --------------------------------------------------------------- */

static double run_order(struct bench *b, const struct order *order)
{
	double values[BLOCKS_MAX];

	for (uint64_t i = 0; i < order->blocks; i++) {
		bool last = i + 1 == order->blocks;

		values[i] = order->kind == ORDER_LATENCY ? latency_block(b, order) :
							   bandwidth_block(b, order, last);
	}
	return measure_median(values, order->blocks);
}

static void prepare(struct bench *b, const struct order *order)
{
	b->to_post = order->kind == ORDER_LATENCY ? order->blocks * order->count : 0;
	if (order->kind == ORDER_LATENCY)
		post_first(b, order->size);
	else if (!b->leads)
		post_window(b, order);
}

static double lead_order(struct bench *b, const struct order *order)
{
	char ready;

	oob_send(b->oob, order, sizeof(*order));
	prepare(b, order);
	oob_recv(b->oob, &ready, 1, endpoint_progress, &b->e);
	return run_order(b, order);
}

static void follow(struct bench *b)
{
	struct order order;

	for (;;) {
		oob_recv(b->oob, &order, sizeof(order), endpoint_progress, &b->e);
		if (order.kind == ORDER_END || order.size > b->e.conf.slot_size ||
		    order.blocks > BLOCKS_MAX)
			return;
		prepare(b, &order);
		oob_send(b->oob, "", 1);
		run_order(b, &order);
	}
}

/* A short run warms up and measures how many messages fit the time. */
static double measure(struct bench *b, enum order_kind kind, size_t size)
{
	const struct options *opt = b->opt;
	struct order order = { .kind = kind, .size = size, .blocks = 1 };
	double unit = kind == ORDER_LATENCY ? 2 : (double)b->e.conf.slots;
	double once, fits;

	order.count = kind == ORDER_LATENCY ? WARM_UP : 1;
	once = lead_order(b, &order) * unit;
	fits = opt->budget / opt->blocks / once;
	order.blocks = opt->blocks;
	order.count = opt->iterations ? opt->iterations : fits > 1 ? (uint64_t)fits : 1;
	return lead_order(b, &order);
}

/* --- registration --------------------------------------------------------- */

/* Registers and releases touched memory repeatedly. Returns seconds for one turn. */
static double registration_block(const struct bench *b, char *memory, size_t size, uint64_t count)
{
	double start = now();
	struct fid_mr *mr;

	for (uint64_t i = 0; i < count; i++)
		if (fi_mr_reg(b->e.domain, memory, size, FI_SEND | FI_RECV, 0, i, 0, &mr, NULL) ||
		    fi_close(&mr->fid))
			bench_die("cannot register %zu bytes", size);
	return (now() - start) / (double)count;
}

static double measure_registration(const struct bench *b, size_t size)
{
	const struct options *opt = b->opt;
	char *memory = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
	double values[BLOCKS_MAX], once, fits;

	if (!memory)
		bench_die("out of memory");
	memset(memory, 1, size);
	once = registration_block(b, memory, size, WARM_UP);
	fits = opt->budget / opt->blocks / once;
	for (unsigned i = 0; i < opt->blocks; i++)
		values[i] = registration_block(b, memory, size, opt->iterations ? opt->iterations :
					       fits > 1 ? (uint64_t)fits : 1);
	free(memory);
	return measure_median(values, opt->blocks);
}

/* The first message makes the connection. */
static void connect_peers(struct bench *b)
{
	const struct order order = {
		.kind = ORDER_LATENCY, .size = 1, .blocks = 1, .count = WARM_UP,
	};

	lead_order(b, &order);
}

static void print_line(size_t size, double latency, double per_message)
{
	printf("%zu ", size);
	if (latency > 0)
		printf("%.3f ", latency * 1e6);
	else
		printf("- ");
	if (per_message > 0)
		printf("%.2f %.0f\n", (double)size / per_message / 1e6, 1 / per_message);
	else
		printf("- -\n");
}

static void lead(struct bench *b)
{
	const struct options *opt = b->opt;
	const struct order end = { .kind = ORDER_END };

	if (opt->header) {
		printf("# provider %s, domain %s, %zu messages in a window, median of %u blocks%s\n",
		       b->e.info->fabric_attr->prov_name, b->e.info->domain_attr->name,
		       b->e.conf.slots, opt->blocks, opt->verify ? ", data verified" : "");
		puts(opt->registration ? "# size registration_us" :
		     "# size half_rtt_us bw_MBps msgs_per_s");
	}
	start_clock();
	connect_peers(b);
	for (size_t i = 0; i < opt->size_cnt; i++) {
		double latency, per_message;
		size_t size = opt->sizes[i];

		if (opt->registration) {
			printf("%zu %.3f\n", size, measure_registration(b, size) * 1e6);
			continue;
		}
		latency = opt->latency ? measure(b, ORDER_LATENCY, size) : 0;
		per_message = opt->bandwidth ? measure(b, ORDER_BANDWIDTH, size) : 0;
		print_line(size, latency, per_message);
		if (opt->pause)
			printf("longest pause %.3f s\n", b->pause);
		b->pause = 0;
	}
	oob_send(b->oob, &end, sizeof(end));
}

/* --- processes ------------------------------------------------------------ */

/* who: 0 leads, 1 follows. */
static void be(const void *arg, int who, int oob)
{
	const struct options *opt = arg;
	struct bench b = { .opt = opt, .oob = oob, .leads = who == 0 };
	struct endpoint_conf conf = opt->conf;

	if (opt->pin)
		pair_pin(who);
	if (opt->dev[who])
		setenv("FI_TAGRV_DEVICES", opt->dev[who], 1);
	conf.domain = opt->domain[who];
	conf.address = opt->address[who];
	endpoint_open(&b.e, &conf, oob);
	if (b.leads)
		lead(&b);
	else
		follow(&b);
	endpoint_close(&b.e);
	close(oob);
}

int main(int argc, char **argv)
{
	struct options opt;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv);
	if (opt.server)
		be(&opt, 1, oob_accept(opt.port));
	else if (opt.host)
		be(&opt, 0, oob_connect(opt.host, opt.port));
	else
		return pair_run(be, &opt);
	return EXIT_SUCCESS;
}
