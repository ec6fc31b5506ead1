/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * match/offload/offload.c: every order of a few events. A scenario has calls of the application and
 * messages. Their order among themselves is fixed, but both cross each other, the adapter's
 * work on commands and the polls of completions in every way: a run makes a choice at each
 * step, and the next run makes another one. Every match is compared by the rig.
 *
 * Calls and polls change the software and read the front of the completions; messages and
 * the work on commands change the adapter and append completions. So one of each kind can be
 * exchanged, and only the order with the software first is run, unless the poll is possible
 * through what the adapter did.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "unit/match/offload/offload_rig.h"

#define STEPS	64	/* of a run, at most */

enum call { END, POST, SOFT, CANCEL, LEAVE, PART };

struct call_of {
	enum call call;
	uint32_t peer;	/* 0: any; CANCEL: number of the receive */
	uint64_t tag, ignore;
};

struct scenario {
	const char *name;
	uint32_t tags;		/* entries of the list */
	struct call_of calls[6];
	struct { uint32_t peer; uint64_t tag; } msgs[4];
};

static const struct scenario scenarios[] = {
	{ "cancel of the older of two", 4,
	  { { POST, 1, 7, 0 }, { POST, 1, 7, 0 }, { CANCEL, 1, 0, 0 } }, { { 1, 7 }, { 1, 7 } } },
	{ "cancel of the younger of two", 4,
	  { { POST, 1, 7, 0 }, { POST, 0, 7, 0 }, { CANCEL, 2, 0, 0 } }, { { 1, 7 }, { 1, 7 } } },
	{ "cancel and again", 1,
	  { { POST, 1, 7, 0 }, { CANCEL, 1, 0, 0 }, { POST, 1, 7, 0 } }, { { 1, 7 }, { 1, 7 } } },
	{ "wide and narrow", 4,
	  { { POST, 0, 0, 15 }, { POST, 1, 7, 0 }, { POST, 1, 8, 15 } }, { { 1, 7 }, { 1, 9 } } },
	{ "software in the middle", 4,
	  { { POST, 1, 7, 0 }, { SOFT, 1, 7, 0 }, { POST, 1, 7, 0 } }, { { 1, 7 }, { 1, 7 } } },
	{ "list of one", 1,
	  { { POST, 1, 7, 0 }, { POST, 1, 8, 0 }, { POST, 1, 7, 0 } }, { { 1, 8 }, { 1, 7 } } },
	{ "two sources", 4,
	  { { POST, 1, 7, 0 }, { POST, 0, 7, 0 }, { POST, 2, 7, 0 } }, { { 2, 7 }, { 1, 7 } } },
	{ "local peer joins", 4,
	  { { POST, 0, 7, 0 }, { POST, 1, 7, 0 }, { LEAVE, 3, 0, 0 } }, { { 1, 7 }, { 1, 7 } } },
	{ "cancel, then a local peer", 4,
	  { { POST, 0, 7, 0 }, { CANCEL, 1, 0, 0 }, { LEAVE, 3, 0, 0 }, { POST, 0, 7, 0 } },
	  { { 1, 7 } } },
	{ "peer leaves", 4,
	  { { POST, 1, 7, 0 }, { POST, 0, 7, 0 }, { LEAVE, 1, 0, 0 } }, { { 2, 7 }, { 1, 7 } } },
	{ "cancel of both", 2,
	  { { POST, 1, 7, 0 }, { POST, 1, 7, 0 }, { CANCEL, 2, 0, 0 }, { CANCEL, 1, 0, 0 } },
	  { { 1, 7 } } },
	{ "recall and cancel", 4,
	  { { POST, 0, 7, 0 }, { POST, 1, 7, 0 }, { LEAVE, 3, 0, 0 }, { CANCEL, 1, 0, 0 } },
	  { { 1, 7 } } },
	{ "three, and a cancel", 4,
	  { { POST, 0, 7, 0 }, { POST, 1, 7, 0 }, { CANCEL, 1, 0, 0 }, { POST, 1, 7, 0 } },
	  { { 1, 7 }, { 1, 7 }, { 1, 7 } } },
	{ "room for one, and a cancel", 1,
	  { { POST, 1, 7, 0 }, { POST, 1, 8, 0 }, { CANCEL, 1, 0, 0 }, { POST, 1, 7, 0 } },
	  { { 1, 7 }, { 1, 8 }, { 1, 7 } } },
	{ "peer leaves, another cancels", 4,
	  { { POST, 1, 7, 0 }, { POST, 2, 7, 0 }, { LEAVE, 1, 0, 0 }, { CANCEL, 2, 0, 0 } },
	  { { 1, 7 }, { 2, 7 }, { 2, 7 } } },
	{ "peer parts and comes back", 4,
	  { { POST, 1, 7, 0 }, { POST, 0, 7, 0 }, { PART, 1, 0, 0 } }, { { 1, 7 }, { 1, 7 } } },
	{ "peer parts, a cancel, another post", 4,
	  { { POST, 1, 7, 0 }, { POST, 0, 7, 0 }, { PART, 1, 0, 0 }, { CANCEL, 1, 0, 0 },
	    { POST, 1, 7, 0 } }, { { 1, 7 }, { 1, 7 } } },
	{ "room for two, and a peer parts", 2,
	  { { POST, 1, 7, 0 }, { POST, 1, 8, 0 }, { POST, 0, 7, 8 }, { PART, 1, 0, 0 } },
	  { { 1, 7 }, { 1, 8 } } },
	{ "unexpected first", 4,
	  { { POST, 1, 7, 0 }, { POST, 1, 8, 0 } }, { { 1, 9 }, { 1, 7 }, { 1, 8 } } },
};

/* The choice of each step, and how many there were. */
struct orders {
	unsigned choice[STEPS], of[STEPS], depth;
};

static unsigned choose(struct orders *orders, unsigned of)
{
	unsigned at = orders->depth++;

	cr_assert_lt(at, STEPS);
	orders->of[at] = of;
	return orders->choice[at];
}

/* The next order: the last choice that has another one, and first choices behind it. */
static bool advance(struct orders *orders)
{
	while (orders->depth &&
	       orders->choice[orders->depth - 1] + 1 == orders->of[orders->depth - 1])
		orders->depth--;
	if (!orders->depth)
		return false;
	orders->choice[orders->depth - 1]++;
	for (unsigned i = orders->depth; i < STEPS; i++)
		orders->choice[i] = 0;
	orders->depth = 0;
	return true;
}

static void call(struct rig *rig, const struct call_of *call)
{
	if (call->call == CANCEL) {
		rig_cancel(rig, call->peer);
	} else if (call->call == LEAVE) {
		rig_leave(rig, call->peer);
		rig_send(rig, call->peer, 7, RIG_SHORT);
	} else if (call->call == PART) {
		rig_part(rig, call->peer);
	} else {
		rig_post(rig, call->peer, call->tag, call->ignore, call->call == POST);
	}
}

enum step { CALL, MESSAGE, APPLY, POLL };

struct play {
	struct rig *rig;
	const struct scenario *scenario;
	unsigned call, msg;	/* next ones */
	bool	adapter, ready;	/* the last step was the adapter's, a poll was possible before */
};

/* A message of a peer cannot be exchanged with its leaving, nor with its parting. */
static bool leaves(const struct play *play)
{
	const struct call_of *next = &play->scenario->calls[play->call];

	return (next->call == LEAVE || next->call == PART) && play->msg &&
	       next->peer == play->scenario->msgs[play->msg - 1].peer;
}

static unsigned enabled(const struct play *play, enum step can[4])
{
	uint32_t peer = play->msg < 4 ? play->scenario->msgs[play->msg].peer : 0;
	unsigned cnt = 0;

	if (play->scenario->calls[play->call].call != END && (!play->adapter || leaves(play)))
		can[cnt++] = CALL;
	if (peer && !play->rig->outside[peer])
		can[cnt++] = MESSAGE;
	if (tag_list_waiting(play->rig->list))
		can[cnt++] = APPLY;
	if (tag_list_ready(play->rig->list) && (!play->adapter || !play->ready))
		can[cnt++] = POLL;
	return cnt;
}

static void make(struct play *play, enum step step)
{
	const struct scenario *scenario = play->scenario;

	play->ready = tag_list_ready(play->rig->list);
	play->adapter = step == MESSAGE || step == APPLY;
	if (step == CALL) {
		call(play->rig, &scenario->calls[play->call++]);
	} else if (step == MESSAGE) {
		rig_send(play->rig, scenario->msgs[play->msg].peer, scenario->msgs[play->msg].tag,
			 RIG_SHORT);
		play->msg++;
	} else if (step == APPLY) {
		tag_list_apply(play->rig->list);
	} else {
		rig_poll(play->rig);
		rig_serve(play->rig);
	}
}

/* One run. An order that ends with something left is another one's twin. */
static void run(struct rig *rig, const struct scenario *scenario, struct orders *orders)
{
	struct play play = { .rig = rig, .scenario = scenario };
	enum step can[4];
	unsigned cnt;

	while ((cnt = enabled(&play, can))) {
		make(&play, can[choose(orders, cnt)]);
		rig_check_rule(rig);
	}
}

static void start(struct rig *rig, const struct scenario *scenario)
{
	rig_init(rig, scenario->tags, 16, 8, 8);
	rig->name = scenario->name;
	rig_enter(rig, 1);
	rig_enter(rig, 2);
	rig_send(rig, 1, 0xffff, RIG_SHORT);
	rig_poll(rig);
	tag_list_set_delays(rig->list, &(struct tag_list_delays) { .apply = TAG_LIST_HOLD });
}

static void all_orders(const struct scenario *scenario)
{
	static struct rig rig;
	struct orders orders = { .depth = 0 };
	struct tagrv_offload_stats sum = { 0 };
	unsigned runs = 0;

	do {
		orders.depth = 0;
		start(&rig, scenario);
		rig.step = runs++;
		run(&rig, scenario, &orders);
		rig_settle(&rig);
		sum.consumed += rig_stats(&rig).consumed;
		sum.taken += rig_stats(&rig).taken;
		sum.late += rig_stats(&rig).late;
		rig_fini(&rig);
	} while (advance(&orders));
	cr_log_info("%s: %u orders, consumed %llu, taken %llu, late %llu", scenario->name, runs,
		    (unsigned long long) sum.consumed, (unsigned long long) sum.taken,
		    (unsigned long long) sum.late);
}

Test(offload_orders, all, .timeout = 300)
{
	for (unsigned i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		all_orders(&scenarios[i]);
}
