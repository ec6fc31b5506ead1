/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages that come too early hurt nobody.
 *
 *   flooders 1..N  --> rank 0   small messages, for which it posts no receive
 *   the other one <--> rank 0   one message and its answer after the other, meanwhile;
 *                               and again when flooder 1 has been killed
 *
 * Not one message of the other one may fail or be late for ever, the memory of rank 0
 * stays bounded, and in the end it receives all that the living flooders have sent, in
 * order. Tells how many sends of a flooder ended before the first was received.
 */
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/options.h"
#include "framework/pattern.h"
#include "resident.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { LEN_MAX = 4096, BASE_MIB = 32 };

static const uint64_t GO = UINT64_C(1) << 62, CALL = UINT64_C(1) << 61, ANSWER = UINT64_C(1) << 60;

static uint64_t messages = 65536, flooders = 17, calls = 90, len = 8, kill_one, ended, budget_mib;
static uint64_t quiet_ms = 500, window = UINT32_MAX;

struct early {
	struct fx fx;
	uint8_t mem[LEN_MAX], buf[LEN_MAX];
	uint64_t sent, done;	/* of a flooder */
	uint64_t call;		/* number of the call that comes next */
	bool	posted;		/* rank 0: the receive of the call */
};

static int other_rank(void)
{
	return (int)flooders + 1;
}

static void in_time(struct early *e)
{
	FX_CHECK_MOVES(&e->fx, "%" PRIu64 " sent, %" PRIu64 " ended, call %" PRIu64, e->sent,
		       e->done, e->call);
	sched_yield();
}

/* --- a flooder --- */

static void reap(struct early *e)
{
	struct comp c;

	while (comp_poll(&e->fx, FX_TX, &c)) {
		CHECK(!c.err, "send %" PRIu64 " fails: %d (%s)", e->done, c.err,
		      fi_strerror(c.err));
		e->done++;
	}
}

static void send_some(struct early *e)
{
	while (e->sent < messages && e->sent - e->done < window) {
		ssize_t ret = TRY_SEND(&e->fx, .tagged = true, .buf = e->mem, .len = len,
				       .addr = e->fx.addr[0], .tag = e->sent, .ctx = NULL);

		if (ret == -FI_EAGAIN)
			return;
		CHECK(!ret, "send %" PRIu64 ": %s", e->sent, fi_strerror((int)-ret));
		e->sent++;
	}
}

static void flood(struct early *e)
{
	bool gone = false;
	struct comp c;
	int ctx;

	RECV(&e->fx, .tagged = true, .buf = e->buf, .len = len, .addr = e->fx.addr[0], .tag = GO,
	     .ctx = &ctx);
	while (e->done < messages || !gone) {
		send_some(e);
		reap(e);
		if (!gone && comp_poll(&e->fx, FX_RX, &c)) {
			CHECK(!c.err, "the word to end fails: %s", fi_strerror(c.err));
			gone = true;
			printf("flooder %d: %" PRIu64 " of %" PRIu64 " sends ended before any was "
			       "received\n", e->fx.t->rank, e->done, messages);
			CHECK(e->done >= ended, "only %" PRIu64 " sends ended", e->done);
		}
		in_time(e);
	}
}

/* --- the other one --- */

/* One message to rank 0, and its answer. */
static void call_once(struct early *e)
{
	struct comp c;
	int ctx;

	RECV(&e->fx, .tagged = true, .buf = e->buf, .len = len, .addr = e->fx.addr[0],
	     .tag = ANSWER | e->call, .ctx = &ctx);
	SEND(&e->fx, .tagged = true, .buf = e->mem, .len = len, .addr = e->fx.addr[0],
	     .tag = CALL | e->call, .ctx = &ctx);
	for (int missing = 2; missing;) {
		while (comp_poll(&e->fx, FX_TX, &c) || comp_poll(&e->fx, FX_RX, &c)) {
			CHECK(!c.err, "call %" PRIu64 " fails: %s", e->call, fi_strerror(c.err));
			missing--;
		}
		in_time(e);
	}
	e->call++;
}

/* --- rank 0 --- */

/* Answers the call that has come, if one has. */
static void answer(struct early *e)
{
	fi_addr_t other = e->fx.addr[other_rank()];
	struct comp c;
	int ctx;

	if (!e->posted)
		RECV(&e->fx, .tagged = true, .buf = e->buf, .len = len, .addr = other,
		     .tag = CALL | e->call, .ctx = &ctx);
	e->posted = true;
	while (comp_poll(&e->fx, FX_TX, &c))
		CHECK(!c.err, "an answer fails: %s", fi_strerror(c.err));
	if (!comp_poll(&e->fx, FX_RX, &c))
		return;
	CHECK(!c.err && c.tag == (CALL | e->call), "call %" PRIu64 ": %s", e->call,
	      fi_strerror(c.err));
	e->posted = false;
	SEND(&e->fx, .tagged = true, .buf = e->mem, .len = len, .addr = other,
	     .tag = ANSWER | e->call++, .ctx = &ctx);
}

/* Answers calls until nothing more arrives without receives. Returns the growth in KiB. */
static long be_flooded(struct early *e)
{
	long before = resident(), grown = 0, now;
	int64_t quiet = run_now() + (int64_t)quiet_ms;

	while (run_now() < quiet || e->call < calls) {
		if (e->call < calls)
			answer(e);
		else
			fx_progress(&e->fx);
		now = resident() - before;
		if (now > grown) {
			grown = now;
			quiet = run_now() + (int64_t)quiet_ms;
		}
		in_time(e);
	}
	return grown;
}

static void judge(long grown)
{
	/* As the manual says, and a part for the process. */
	uint64_t most = budget_mib + (flooders + 1) * (2 * 384 + 448) / 1024 + 2 + BASE_MIB;

	printf("memory grew by %.1f MiB", (double)grown / 1024);
	if (budget_mib)
		printf(", at most %" PRIu64 " MiB are allowed", most);
	printf("\n");
	if (!JUDGED)
		printf("a sanitizer's memory is not judged\n");
	else if (budget_mib)
		CHECK((uint64_t)grown >> 10 <= most, "%ld MiB are too many", grown >> 10);
}

/* Receives all messages of a flooder in the order of sending. */
static void receive_from(struct early *e, int rank)
{
	struct comp c;

	for (uint64_t i = 0; i < messages; i++) {
		int ctx;

		RECV(&e->fx, .tagged = true, .buf = e->buf, .len = len, .addr = e->fx.addr[rank],
		     .tag = 0, .ignore = UINT64_MAX, .ctx = &ctx);
		while (!comp_poll(&e->fx, FX_RX, &c))
			in_time(e);
		CHECK(!c.err && c.ctx == &ctx, "receive %" PRIu64 " of rank %d: %s", i, rank,
		      fi_strerror(c.err));
		CHECK(c.tag == i && c.len == len, "message %" PRIx64 " of rank %d, not %" PRIx64,
		      c.tag, rank, i);
		CHECK(pattern_check(e->buf, len, (uint64_t)rank) == len, "it is damaged");
	}
}

static void end_flooder(struct early *e, int rank)
{
	struct comp c;
	int ctx;

	SEND(&e->fx, .tagged = true, .buf = e->mem, .len = len, .addr = e->fx.addr[rank],
	     .tag = GO, .ctx = &ctx);
	while (!comp_poll(&e->fx, FX_TX, &c))
		in_time(e);
	CHECK(!c.err, "the word to end fails: %s", fi_strerror(c.err));
	receive_from(e, rank);
}

static void receive(struct early *e)
{
	int64_t start = run_now();

	judge(be_flooded(e));
	if (kill_one)
		run_kill(e->fx.t, 1, RUN_MAY_DIE);
	run_step("calls after the flood");
	while (e->call < 2 * calls) {
		answer(e);
		in_time(e);
	}
	for (int rank = kill_one ? 2 : 1; rank <= (int)flooders; rank++)
		end_flooder(e, rank);
	printf("%" PRIu64 " messages of %" PRIu64 " flooders, %" PRIu64 " calls: 0 failed, %.1f s\n",
	       messages * flooders, flooders, 2 * calls, (double)(run_now() - start) * 1e-3);
}

static void early(struct test *t)
{
	struct early *e = calloc(1, sizeof(*e));

	CHECK(e, "no memory");
	fx_open(t, &e->fx, &(struct fx_attr){
		.caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV });
	pattern_fill(e->mem, len, (uint64_t)t->rank);
	fx_barrier(&e->fx);
	if (!t->rank)
		receive(e);
	else if (t->rank <= (int)flooders)
		flood(e);
	else
		while (e->call < 2 * calls)
			call_once(e);
	run_step("all done");
	fx_barrier(&e->fx);
	fx_close_now(&e->fx);
	free(e);
}

int main(int argc, char **argv)
{
	static struct test_case test_case = {
		.name = "early", .shows = "messages that come too early hurt nobody", .run = early,
	};
	struct option_number own[] = {
		{ "messages", "messages of each flooder", &messages },
		{ "flooders", "how many flood rank 0", &flooders },
		{ "calls", "calls of the other one during the flood, and behind it", &calls },
		{ "len", "bytes of each message", &len },
		{ "kill", "1: flooder 1 is killed", &kill_one },
		{ "ended", "sends of each flooder that must end before any is received", &ended },
		{ "window", "sends of a flooder that may be under way", &window },
		{ "quiet", "milliseconds without growth that end the flood", &quiet_ms },
		{ "budget", "MiB that rank 0 keeps (FI_TAGRV_EAGER_BUDGET); 0: the default, and "
			    "its memory is not judged", &budget_mib },
	};
	struct run_result result;
	struct options opt;
	char text[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, own, sizeof(own) / sizeof(own[0]));
	options_default_timeout(&opt, 600);
	if (!messages || messages > UINT32_MAX || !flooders || flooders + 2 > RUN_RANKS_MAX ||
	    len > LEN_MAX || opt.run.self) {
		fprintf(stderr, "tagrv_early: some messages and 1 to %d flooders are needed\n",
			RUN_RANKS_MAX - 2);
		return 2;
	}
	snprintf(text, sizeof(text), "%" PRIu64, budget_mib << 20);
	if (budget_mib)
		setenv("FI_TAGRV_EAGER_BUDGET", text, 1);
	test_case.ranks = (int)flooders + 2;
	run_case(&test_case, &opt.run, &result);
	if (result.outcome != RUN_PASSED) {
		printf("FAIL early: %s\n", result.why);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
