/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * More messages than a receiver can keep, before it posts a single receive.
 *
 *   flood    senders 1..N --> rank 0, which first sleeps, then only makes
 *            progress, and receives when the senders have sent all they can
 *   mutual   two ranks flood each other
 *
 * Every message must arrive, complete and in the order of its sender. While the
 * receiver posts no receive, its memory grows by a bounded amount, however much is
 * sent.
 */
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/options.h"
#include "framework/pattern.h"
#include "resident.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEN = 1024, SOURCE_SHIFT = 32, QUIET_MS = 300 };

static uint64_t messages = 4000, senders = 8, sleep_ms = 500, bound_mib = 128, mutual;

struct flood {
	struct fx fx;
	uint8_t *mem;		/* all messages of this sender */
	uint64_t sent, ended;
};

static uint64_t tag_of(int rank, uint64_t number)
{
	return (uint64_t)rank << SOURCE_SHIFT | number;
}

static void judge(long grown)
{
	if (!JUDGED)
		printf("a sanitizer's memory is not judged\n");
	else
		CHECK(grown >> 10 <= (long)bound_mib, "%ld MiB are more than %" PRIu64,
		      grown >> 10, bound_mib);
}

static void in_time(struct flood *s)
{
	FX_CHECK_MOVES(&s->fx, "%" PRIu64 " sent, %" PRIu64 " ended: no end in sight",
	      s->sent, s->ended);
	sched_yield();
}

static void reap(struct flood *s)
{
	struct comp c;

	while (comp_poll(&s->fx, FX_TX, &c)) {
		CHECK(!c.err, "a send fails: %d (%s)", c.err, fi_strerror(c.err));
		s->ended++;
	}
}

static void open_flood(struct test *t, struct flood *s)
{
	fx_open(t, &s->fx, &(struct fx_attr){
		.caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV });
	s->mem = malloc(messages * LEN);
	CHECK(s->mem, "no memory");
	for (uint64_t i = 0; i < messages; i++)
		pattern_fill(s->mem + i * LEN, LEN, tag_of(t->rank, i));
	fx_barrier(&s->fx);
}

/* Posts sends until the provider refuses. */
static void send_some(struct flood *s, fi_addr_t to)
{
	while (s->sent < messages) {
		ssize_t ret = TRY_SEND(&s->fx, .tagged = true, .buf = s->mem + s->sent * LEN,
				       .len = LEN, .addr = to,
				       .tag = tag_of(s->fx.t->rank, s->sent), .ctx = NULL);

		if (ret == -FI_EAGAIN)
			return;
		CHECK(!ret, "send %" PRIu64 ": %s", s->sent, fi_strerror((int)-ret));
		s->sent++;
	}
}

static void finish_sends(struct flood *s, fi_addr_t to)
{
	while (s->ended < messages) {
		send_some(s, to);
		reap(s);
		in_time(s);
	}
}

/* Makes progress until nothing more arrives without receives. Returns the growth in KiB. */
static long be_flooded(struct flood *s, fi_addr_t to)
{
	int64_t quiet = run_now() + QUIET_MS;
	long before = resident(), grown = 0;
	uint64_t sent = s->sent;

	while (run_now() < quiet) {
		if (to != FI_ADDR_UNSPEC)
			send_some(s, to);
		fx_progress(&s->fx);
		if (resident() - before > grown || s->sent != sent) {
			grown = resident() - before;
			quiet = run_now() + QUIET_MS;
		}
		sent = s->sent;
		in_time(s);
	}
	return grown;
}

/* Receives the messages of one rank in the order of sending, and sends the rest to 'to'. */
static void receive_from(struct flood *s, int rank, fi_addr_t to)
{
	uint8_t buf[LEN + 1];
	struct comp c;

	for (uint64_t i = 0; i < messages; i++) {
		int ctx;

		RECV(&s->fx, .tagged = true, .buf = buf, .len = LEN, .addr = s->fx.addr[rank],
		     .tag = 0, .ignore = UINT64_MAX, .ctx = &ctx);
		while (!comp_poll(&s->fx, FX_RX, &c)) {
			if (to != FI_ADDR_UNSPEC) {
				send_some(s, to);
				reap(s);
			}
			in_time(s);
		}
		CHECK(!c.err && c.ctx == &ctx, "receive %" PRIu64 " of rank %d: %d (%s)", i, rank,
		      c.err, fi_strerror(c.err));
		CHECK(c.tag == tag_of(rank, i), "message %" PRIx64 " of rank %d instead of %" PRIx64,
		      c.tag, rank, tag_of(rank, i));
		CHECK(c.len == LEN && pattern_check(buf, LEN, c.tag) == LEN,
		      "message %" PRIu64 " of rank %d is damaged", i, rank);
	}
}

static void nap(void)
{
	struct timespec ts = { (time_t)(sleep_ms / 1000), (long)(sleep_ms % 1000) * 1000000 };

	nanosleep(&ts, NULL);
}

static void flood(struct test *t)
{
	struct flood *s = calloc(1, sizeof(*s));
	int64_t start;
	long grown;

	CHECK(s, "no memory");
	open_flood(t, s);
	start = run_now();
	if (t->rank) {
		finish_sends(s, s->fx.addr[0]);
	} else {
		nap();
		grown = be_flooded(s, FI_ADDR_UNSPEC);
		for (int i = 1; i <= (int)senders; i++)
			receive_from(s, i, FI_ADDR_UNSPEC);
		printf("%" PRIu64 " messages of %d bytes in %.1f s; memory grew by %.1f MiB before "
		       "the first was received\n", senders * messages, LEN, (double)(run_now() - start) * 1e-3,
		       (double)grown / 1024);
		judge(grown);
	}
	run_step("all done");
	fx_close(&s->fx);
	free(s->mem);
	free(s);
}

static void both_ways(struct test *t)
{
	struct flood *s = calloc(1, sizeof(*s));
	fi_addr_t to;
	long grown;

	CHECK(s, "no memory");
	open_flood(t, s);
	to = s->fx.addr[!t->rank];
	grown = be_flooded(s, to);
	receive_from(s, !t->rank, to);
	finish_sends(s, to);
	printf("rank %d: %" PRIu64 " messages each way; memory grew by %.1f MiB\n", t->rank, messages,
	       (double)grown / 1024);
	judge(grown);
	run_step("all done");
	fx_close(&s->fx);
	free(s->mem);
	free(s);
}

int main(int argc, char **argv)
{
	static struct test_case test_case = {
		.name = "flood", .shows = "more messages than receives", .run = flood,
	};
	struct option_number own[] = {
		{ "messages", "messages of each sender", &messages },
		{ "senders", "how many send to one receiver", &senders },
		{ "sleep", "milliseconds that the receiver is away", &sleep_ms },
		{ "bound", "MiB that its memory may grow by", &bound_mib },
		{ "mutual", "1: two ranks flood each other instead", &mutual },
	};
	struct run_result result;
	struct options opt;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, own, sizeof(own) / sizeof(own[0]));
	options_default_timeout(&opt, 300);
	if (!messages || messages > UINT32_MAX || !senders || senders >= RUN_RANKS_MAX ||
	    opt.run.self) {
		fprintf(stderr, "tagrv_flood: some messages and 1 to %d senders are needed\n",
			RUN_RANKS_MAX - 1);
		return 2;
	}
	test_case.ranks = mutual ? 2 : (int)senders + 1;
	test_case.run = mutual ? both_ways : flood;
	run_case(&test_case, &opt.run, &result);
	if (result.outcome != RUN_PASSED) {
		printf("FAIL flood: %s\n", result.why);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
