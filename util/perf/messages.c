/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rounds of tagged messages: latency, also with receives posted in front, streams in one
 * direction or both, and overlap of communication and computation.
 */
#include "side.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdlib.h>
#include <time.h>

#include "oob.h"

/* Numbers of messages, which are the tags, stay below. */
#define FILLER_TAG	((uint64_t)1 << 47)

/* Posts the next receive of this round, if it needs another one. */
static void post_next(struct side *s, size_t size)
{
	if (!s->to_post)
		return;
	s->to_post--;
	endpoint_post_recv(&s->e, size);
}

/*
 * Fewer than most if the provider holds no more: the others follow as messages come, and a
 * message that comes before its receive waits at the provider. Nothing comes before the first
 * receives are posted, so to wait for room would be to wait for ever.
 */
static void post_first(struct side *s, size_t most, size_t size)
{
	if (most)
		post_next(s, size);
	for (size_t i = 1; i < most && s->to_post && endpoint_try_recv(&s->e, size); i++)
		s->to_post--;
}

/* --- latency ----------------------------------------------------------------- */

/*
 * Two receives are posted, so that the next message always finds one. The lead posts another
 * one before it takes a message, so it leaves a slot for that.
 */
static void latency_prepare(struct side *s, const struct perf_order *order)
{
	const size_t most = s->leads ? order->window - 1 : order->window;

	s->part = 0.5;
	s->to_post = order_operations(order);
	post_first(s, most < 2 ? most : 2, order->size);
}

static inline void round_trip(struct side *s, size_t size)
{
	if (!s->leads)
		side_take(s, size);
	side_send(s, size);
	post_next(s, size);
	if (s->leads)
		side_take(s, size);
	endpoint_wait_sends(&s->e, s->e.sent);
}

/* Reads the clock between blocks only. */
static void latency_blocks(struct side *s, const struct perf_order *order)
{
	for (uint64_t b = 0; b < order->blocks; b++) {
		const uint64_t begin = clock_ticks();

		for (uint64_t i = 0; i < order->count; i++)
			round_trip(s, order->size);
		side_sample(s, side_end_block(s, begin, order->count, s->part) / order->count);
	}
}

/* A round trip begins where the one before it ended, unless samples were counted between. */
static void latency_each(struct side *s, const struct perf_order *order, uint64_t before)
{
	for (uint64_t i = 0; i < order->count; i++) {
		uint64_t after;

		round_trip(s, order->size);
		if (!s->leads)
			continue;
		after = clock_ticks();
		before = side_sample(s, after - before) ? clock_ticks() : after;
	}
}

static void latency_run(struct side *s, const struct perf_order *order, struct perf_reply *result)
{
	const uint64_t begin = clock_ticks();

	if (order->blocks)
		latency_blocks(s, order);
	else
		latency_each(s, order, begin);
	side_finish(s, result, begin, s->part);
}

const struct side_ops side_latency = { latency_prepare, latency_run };

/* --- depth ---------------------------------------------------------------------- */

/* The provider needs the contexts until the endpoint is closed. */
struct filler_chunk {
	struct filler_chunk *next;
	struct endpoint_op ops[];
};

static void post_filler(struct side *s, struct endpoint_op *op)
{
	const time_t start = time(NULL);
	ssize_t ret;

	op->is_recv = true;
	while ((ret = fi_trecv(s->e.ep, s->e.memory, 0, s->e.desc, FI_ADDR_UNSPEC,
			       FILLER_TAG + s->fillers, 0, &op->context)) == -FI_EAGAIN) {
		endpoint_progress(&s->e);
		if (time(NULL) - start > (time_t)s->hello->timeout)
			bench_die("the provider takes only %llu receives",
				  (unsigned long long)s->fillers);
	}
	if (ret)
		bench_die("fi_trecv: %s", fi_strerror((int)-ret));
	s->fillers++;
}

/* They are never taken back: a team's depths ascend. */
static void post_fillers(struct side *s, uint64_t depth)
{
	struct filler_chunk *chunk;
	const uint64_t more = depth > s->fillers ? depth - s->fillers : 0;

	if (!more)
		return;
	chunk = calloc(1, sizeof(*chunk) + more * sizeof(chunk->ops[0]));
	if (!chunk)
		bench_die("out of memory");
	chunk->next = s->filler_chunks;
	s->filler_chunks = chunk;
	for (uint64_t i = 0; i < more; i++)
		post_filler(s, &chunk->ops[i]);
}

void side_free_fillers(struct side *s)
{
	while (s->filler_chunks) {
		struct filler_chunk *next = s->filler_chunks->next;

		free(s->filler_chunks);
		s->filler_chunks = next;
	}
}

static void depth_prepare(struct side *s, const struct perf_order *order)
{
	post_fillers(s, order->depth);
	latency_prepare(s, order);
}

const struct side_ops side_depth = { depth_prepare, latency_run };

/* --- streams ----------------------------------------------------------------------- */

static void stream_prepare(struct side *s, const struct perf_order *order)
{
	s->to_post = s->leads ? 0 : order->count;
	post_first(s, order->window, order->size);
}

/* With the time between two sends, which includes the wait for a slot. */
static void send_watched(struct side *s, const struct perf_order *order)
{
	uint64_t before = clock_ticks();

	for (uint64_t i = 0; i < order->count; i++) {
		uint64_t after;

		side_send(s, order->size);
		after = clock_ticks();
		if (after - before > s->pause)
			s->pause = after - before;
		before = after;
	}
}

static void send_stream(struct side *s, const struct perf_order *order)
{
	endpoint_post_recv(&s->e, 0);
	if (s->hello->flags & PERF_PAUSE)
		send_watched(s, order);
	else
		for (uint64_t i = 0; i < order->count; i++)
			side_send(s, order->size);
	side_take(s, 0);
}

/* Answers the last message with an empty one; the next block finds its first receives posted. */
static void take_stream(struct side *s, const struct perf_order *order, bool last)
{
	for (uint64_t i = 0; i < order->count; i++) {
		side_take(s, order->size);
		post_next(s, order->size);
	}
	if (!last)
		stream_prepare(s, order);
	side_send(s, 0);
}

static void stream_run(struct side *s, const struct perf_order *order, struct perf_reply *result)
{
	const uint64_t begin = clock_ticks(), blocks = order->blocks ? order->blocks : 1;

	for (uint64_t b = 0; b < blocks; b++) {
		const uint64_t start = clock_ticks();

		if (s->leads)
			send_stream(s, order);
		else
			take_stream(s, order, b + 1 == blocks);
		endpoint_wait_sends(&s->e, s->e.sent);
		if (order->blocks)
			side_end_block(s, start, order->count, 1);
	}
	side_finish(s, result, begin, 1);
	result->pause = (double)s->pause * s->seconds_per_tick;
}

const struct side_ops side_stream = { stream_prepare, stream_run };

static void both_ways_prepare(struct side *s, const struct perf_order *order)
{
	s->to_post = order->count;
	post_first(s, order->window, order->size);
}

/*
 * Each side sends its message number i and then takes number i - window, so that both have a
 * window in flight. The follower begins with the lead's first message.
 */
static void both_ways_run(struct side *s, const struct perf_order *order, struct perf_reply *result)
{
	const uint64_t begin = clock_ticks();

	if (!s->leads)
		endpoint_wait_op(&s->e, &s->e.ops[s->e.conf.slots + s->e.take_at]);
	for (uint64_t i = 0; i < order->count + order->window; i++) {
		if (i < order->count)
			side_send(s, order->size);
		if (i < order->window)
			continue;
		side_take(s, order->size);
		post_next(s, order->size);
	}
	endpoint_wait_sends(&s->e, s->e.sent);
	result->count *= 2;
	side_finish(s, result, begin, 1);
}

const struct side_ops side_both_ways = { both_ways_prepare, both_ways_run };

/* --- overlap ------------------------------------------------------------------------ */

/* Nothing is posted beforehand: each message follows an empty one that asks for it. */
static void overlap_prepare(struct side *s, const struct perf_order *order)
{
	(void)s;
	(void)order;
}

/* Calls nothing of the provider. */
static void compute(const struct side *s, double seconds)
{
	const uint64_t begin = clock_ticks(), ticks = (uint64_t)(seconds / s->seconds_per_tick);

	while (clock_ticks() - begin < ticks)
		;
}

/* Returns the seconds from the call that starts the transfer to its end. */
static double send_computing(struct side *s, size_t size, double seconds)
{
	uint64_t begin;

	endpoint_post_recv(&s->e, 0);
	side_take(s, 0);
	begin = clock_ticks();
	side_send(s, size);
	compute(s, seconds);
	endpoint_wait_sends(&s->e, s->e.sent);
	return side_seconds(s, begin);
}

static double recv_computing(struct side *s, size_t size, double seconds)
{
	uint64_t begin;

	endpoint_post_recv(&s->e, size);
	begin = clock_ticks();
	side_send(s, 0);
	compute(s, seconds);
	side_take(s, size);
	endpoint_wait_sends(&s->e, s->e.sent);
	return side_seconds(s, begin);
}

/* The share of the transfer's time that a computation of the same length hides. */
static double share(struct side *s, const struct perf_order *order,
		    double (*transfer)(struct side *, size_t, double), double *alone)
{
	double computing = 0, hidden;

	*alone = 0;
	for (uint64_t i = 0; i < order->count; i++)
		*alone += transfer(s, order->size, 0) / (double)order->count;
	for (uint64_t i = 0; i < order->count; i++)
		computing += transfer(s, order->size, *alone) / (double)order->count;
	hidden = *alone > 0 ? (2 * *alone - computing) / *alone : 0;
	return hidden < 0 ? 0 : hidden > 1 ? 1 : hidden;
}

static void serve_overlap(struct side *s, const struct perf_order *order)
{
	for (uint64_t i = 0; i < 2 * order->count; i++) {
		endpoint_post_recv(&s->e, order->size);
		side_send(s, 0);
		side_take(s, order->size);
		endpoint_wait_sends(&s->e, s->e.sent);
	}
	for (uint64_t i = 0; i < 2 * order->count; i++) {
		endpoint_post_recv(&s->e, 0);
		side_take(s, 0);
		side_send(s, order->size);
		endpoint_wait_sends(&s->e, s->e.sent);
	}
}

static void overlap_run(struct side *s, const struct perf_order *order, struct perf_reply *result)
{
	const uint64_t begin = clock_ticks();
	double alone[2];

	if (!s->leads) {
		serve_overlap(s, order);
		return;
	}
	result->shares[0] = share(s, order, send_computing, &alone[0]);
	result->shares[1] = share(s, order, recv_computing, &alone[1]);
	/* A transfer takes place four times, half of them beside a computation. */
	side_finish(s, result, begin, 1);
}

const struct side_ops side_overlap = { overlap_prepare, overlap_run };
