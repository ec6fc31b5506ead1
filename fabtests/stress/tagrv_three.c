/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two senders and one receiver with wildcard receives. Each sender uses a transport
 * of its own if there is an RDMA device.
 *
 *   rank 2 (--dev-a) ---- shared memory ----> rank 0 (--dev-a)   any source, any tag
 *   rank 1 (--dev-b) ---- the device -------> rank 0
 *
 * Parameters keep rank 1 from shared memory, unless its device is "shm": then all
 * messages go through shared memory. The messages of one sender must match receives
 * in the order in which they were sent, whatever their sizes and whatever the other
 * sender sends. The order is that of posting: a long message may complete after a
 * short one that was sent later.
 */
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/options.h"
#include "framework/pattern.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, WINDOW = 24, LEN_MAX = 256 << 10, MIDDLE_MAX = 16 << 10, SMALL_MAX = 600,
       SOURCE_SHIFT = 32, MOOD_TURNS = 256 };

static uint64_t messages = 4000;

struct slot {
	struct fi_context2 ctx;
	bool busy;
	uint64_t number;	/* of the receive or message, in order of posting */
	struct guard g;
};

struct three {
	struct fx fx;
	struct slot slot[WINDOW];
	uint64_t posted, done, bytes;
	uint64_t *tags;		/* rank 0: the tag that each receive got */
	uint64_t random;
	bool lazy;		/* posts nothing for a while, so that messages are unexpected */
};

/* The tag contains sender and number; length and content are derived from it. */
static uint64_t tag_of(int rank, uint64_t number)
{
	return (uint64_t)rank << SOURCE_SHIFT | number;
}

static size_t len_of(uint64_t tag)
{
	uint64_t r = pattern_next(&tag);
	size_t max = r & 7 ? r & 6 ? SMALL_MAX : MIDDLE_MAX : LEN_MAX;

	return (r >> 8) % (max + 1);
}

static struct slot *free_slot(struct three *s)
{
	for (int i = 0; i < WINDOW; i++)
		if (!s->slot[i].busy)
			return &s->slot[i];
	return NULL;
}

static void taken(struct three *s, struct slot *slot, ssize_t ret, const char *what)
{
	if (ret == -FI_EAGAIN)
		return;
	CHECK(!ret, "%s %" PRIu64 ": %zd (%s)", what, s->posted, ret, fi_strerror((int)-ret));
	slot->number = s->posted++;
	slot->busy = true;
}

/* Finds the operation of a completion; fails if it is not outstanding. */
static struct slot *slot_of(struct three *s, const struct comp *c)
{
	struct slot *slot = c->ctx;

	CHECK(slot >= s->slot && slot < s->slot + WINDOW && slot->busy,
	      "a completion of nobody's, err %d", c->err);
	CHECK(!c->err, "operation %" PRIu64 " fails: %d (%s)", slot->number, c->err,
	      fi_strerror(c->err));
	return slot;
}

static void pass_time(struct three *s)
{
	FX_CHECK_MOVES(&s->fx, "%" PRIu64 " posted, %" PRIu64 " done: no end in sight",
	      s->posted, s->done);
	sched_yield();
}

/* ---- senders ---- */

static void try_send(struct three *s)
{
	struct slot *slot = free_slot(s);
	uint64_t tag = tag_of(s->fx.t->rank, s->posted);

	if (!slot || s->posted == messages)
		return;
	pattern_fill(slot->g.data, len_of(tag), tag);
	taken(s, slot, TRY_SEND(&s->fx, .tagged = true, .buf = slot->g.data, .len = len_of(tag),
				.addr = s->fx.addr[0], .tag = tag, .ctx = slot), "send");
}

static void be_sender(struct three *s)
{
	struct comp c;

	while (s->done < messages) {
		try_send(s);
		if (!comp_poll(&s->fx, FX_TX, &c)) {
			pass_time(s);
			continue;
		}
		slot_of(s, &c)->busy = false;
		s->done++;
	}
}

/* ---- receiver ---- */

static void try_recv(struct three *s)
{
	struct slot *slot = free_slot(s);

	if (!slot || s->lazy || s->posted == 2 * messages)
		return;
	taken(s, slot, TRY_RECV(&s->fx, .tagged = true, .buf = slot->g.data, .len = LEN_MAX,
				.addr = FI_ADDR_UNSPEC, .ignore = UINT64_MAX, .ctx = slot),
	      "receive");
}

static void finish_recv(struct three *s, const struct comp *c)
{
	struct slot *slot = slot_of(s, c);
	uint64_t from = c->tag >> SOURCE_SHIFT;

	CHECK(from == 1 || from == 2, "tag 0x%" PRIx64 " is no sender's", c->tag);
	CHECK(c->src == s->fx.addr[from], "a message of rank %d came from another address",
	      (int)from);
	CHECK(c->flags == GOT_TAGGED && c->len == len_of(c->tag),
	      "message %" PRIu64 " of rank %d: flags 0x%" PRIx64 ", %zu bytes instead of %zu",
	      c->tag & UINT32_MAX, (int)from, c->flags, c->len, len_of(c->tag));
	GUARD_HOLDS(&slot->g, c->len, c->tag);
	guard_wipe(&slot->g);
	s->tags[slot->number] = c->tag;
	s->bytes += c->len;
	slot->busy = false;
	s->done++;
}

/* Returns how often the sender changed from one receive to the next. */
static uint64_t check_order(const struct three *s)
{
	uint64_t next[RANKS] = { 0 }, changes = 0;

	for (uint64_t i = 0; i < 2 * messages; i++) {
		uint64_t from = s->tags[i] >> SOURCE_SHIFT, number = s->tags[i] & UINT32_MAX;

		CHECK(number == next[from], "receive %" PRIu64 " got message %" PRIu64
		      " of rank %d instead of %" PRIu64, i, number, (int)from, next[from]);
		next[from]++;
		changes += i && from != s->tags[i - 1] >> SOURCE_SHIFT;
	}
	return changes;
}

static void be_receiver(struct three *s)
{
	struct comp c;

	s->tags = calloc(2 * messages, sizeof(*s->tags));
	CHECK(s->tags, "no memory");
	for (uint64_t turn = 0; s->done < 2 * messages; turn++) {
		if (turn % MOOD_TURNS == 0)
			s->lazy = pattern_next(&s->random) % 4 == 0;
		try_recv(s);
		if (comp_poll(&s->fx, FX_RX, &c))
			finish_recv(s, &c);
		else
			pass_time(s);
	}
	printf("%" PRIu64 " messages, %" PRIu64 " MiB, %" PRIu64 " changes of the sender between one "
	       "receive and the next\n", s->done, s->bytes >> 20, check_order(s));
	free(s->tags);
}

static void three(struct test *t)
{
	const char *far = t->opt->device[1];
	bool all_local = !far || !strcmp(far, "shm");
	struct three *s = calloc(1, sizeof(*s));

	CHECK(s, "no memory");
	setenv("FI_TAGRV_TRANSPORTS", all_local ? "shm" : t->rank == 1 ? "verbs" : "shm,verbs", 1);
	fx_open(t, &s->fx, &(struct fx_attr){ .caps = FI_MSG | FI_TAGGED | FI_SOURCE });
	s->random = t->seed;
	for (int i = 0; i < WINDOW; i++)
		s->slot[i].g = guard_alloc(LEN_MAX);
	fx_barrier(&s->fx);
	if (t->rank)
		be_sender(s);
	else
		be_receiver(s);
	run_step("all done");
	fx_close(&s->fx);
	for (int i = 0; i < WINDOW; i++)
		guard_free(&s->slot[i].g);
	free(s);
}

int main(int argc, char **argv)
{
	static const struct test_case test_case = {
		.name = "three", .shows = "two senders, one receiver", .run = three, .ranks = RANKS,
	};
	struct option_number own[] = {
		{ "messages", "messages of each sender", &messages },
	};
	struct run_result result;
	struct options opt;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, own, 1);
	options_default_timeout(&opt, 300);
	if (!messages || messages > UINT32_MAX || opt.run.self) {
		fputs("tagrv_three: three processes and some messages are needed\n", stderr);
		return 2;
	}
	printf("seed %" PRIu64 ", %" PRIu64 " messages of each sender\n", opt.run.seed, messages);
	run_case(&test_case, &opt.run, &result);
	if (result.outcome != RUN_PASSED) {
		printf("FAIL three: %s\n", result.why);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
