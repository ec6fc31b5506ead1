/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two connection state machines against each other over wires that break at
 * random: in the end they agree, and without faults nothing is ever lost.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <time.h>

#include "unit/proto/conn_driver.h"

/*
 * A TCP connection: records of each direction in order; an end that closes
 * lets what it sent arrive, or not, before the other end sees that.
 */
#define WIRES		8
#define QUEUE		16

struct wire_end {
	struct driver *d;
	struct driver_chan *chan;	/* NULL: closed */
	struct tagrv_wireup_rec queue[QUEUE];	/* to this end */
	size_t	cnt;
	bool	ended;			/* after the queue: the other's end */
};

struct wire {
	bool	used;
	struct wire_end end[2];		/* [0] dialed */
};

struct world {
	struct driver d[2];
	struct wire wires[WIRES];
	unsigned seed;
};

static struct world world;

static unsigned pick(unsigned limit)
{
	return (unsigned) rand_r(&world.seed) % limit;
}

static void gather(struct wire *wire)
{
	for (int i = 0; i < 2; i++) {
		struct wire_end *end = &wire->end[i], *far = &wire->end[!i];
		struct driver_chan *chan = end->chan;

		if (!chan)
			continue;
		for (size_t n = 0; n < chan->sent_cnt; n++) {
			cr_assert_lt(far->cnt, QUEUE);
			if (far->chan)
				far->queue[far->cnt++] = chan->sent[n];
		}
		chan->sent_cnt = 0;
		if (!chan->open) {
			chan->wire = NULL;
			end->chan = NULL;
			/* Unread input makes it a reset that overtakes. */
			if (end->cnt)
				far->cnt = pick((unsigned) far->cnt + 1);
			end->cnt = 0;
			far->ended = true;
		}
	}
	if (!wire->end[0].chan && !wire->end[1].chan)
		wire->used = false;
}

static void gather_all(void)
{
	for (int i = 0; i < WIRES; i++) {
		if (world.wires[i].used)
			gather(&world.wires[i]);
	}
}

static struct wire *find_wire(void)
{
	for (int i = 0; i < WIRES; i++) {
		if (!world.wires[i].used)
			return &world.wires[i];
	}
	return NULL;
}

static void dial_wire(int who)
{
	struct driver *d = &world.d[who], *far = &world.d[!who];
	struct driver_chan *chan = driver_open(far, false);
	struct wire *wire = find_wire();

	if (!wire || !chan) {
		if (chan)
			chan->open = false;
		driver_fail_dial(d, -FI_ETIMEDOUT);
		return;
	}
	memset(wire, 0, sizeof(*wire));
	wire->used = true;
	chan->wire = wire;
	wire->end[1] = (struct wire_end) { .d = far, .chan = chan };
	chan = driver_answer_dial(d);
	chan->wire = wire;
	wire->end[0] = (struct wire_end) { .d = d, .chan = chan };
}

/* One step of one end: a record or the end arrives. */
static void step_end(struct wire_end *end)
{
	struct tagrv_wireup_rec rec;

	if (!end->chan)
		return;
	if (end->cnt) {
		rec = end->queue[0];
		memmove(&end->queue[0], &end->queue[1],
			--end->cnt * sizeof(rec));
		driver_record(end->d, end->chan, &rec);
	} else if (end->ended) {
		driver_close(end->d, end->chan);
	}
}

static bool is_quiet_end(const struct wire_end *end)
{
	return !end->chan || (!end->cnt && !end->ended);
}

/* Without time passing, nothing will happen. */
static bool is_quiet(void)
{
	for (int i = 0; i < WIRES; i++) {
		if (world.wires[i].used &&
		    (!is_quiet_end(&world.wires[i].end[0]) ||
		     !is_quiet_end(&world.wires[i].end[1])))
			return false;
	}
	return !world.d[0].dial && !world.d[1].dial;
}

static void step_wire(struct wire *wire)
{
	struct wire_end *end = &wire->end[pick(2)];

	step_end(end);
	gather(wire);
}

static void cut_wire(struct wire *wire)
{
	for (int i = 0; i < 2; i++) {
		wire->end[i].cnt = pick((unsigned) wire->end[i].cnt + 1);
		wire->end[i].ended = true;
	}
}

/* The process dies, and another one takes its address. */
static void restart(int who)
{
	struct driver *d = &world.d[who];
	uint8_t life = (uint8_t) (d->host.uuid[1] + 1);
	uint64_t time = d->now;

	for (int i = 0; i < WIRES; i++) {
		for (int e = 0; e < 2; e++) {
			struct wire *wire = &world.wires[i];

			if (!wire->used || wire->end[e].d != d ||
			    !wire->end[e].chan)
				continue;
			wire->end[e].chan = NULL;
			wire->end[!e].ended = true;
			if (!wire->end[!e].chan)
				wire->used = false;
		}
	}
	tagrv_conn_close(&d->conn);
	driver_free_link(d);
	driver_init(d, (uint8_t) (1 + who), (uint8_t) (2 - who));
	d->host.uuid[1] = life;
	d->now = time;
}

/* -- what goes on -- */

/* Whoever may send has a peer whose link takes it in. */
static void check_sendable(const struct driver *d)
{
	const struct fake_link *link;

	if (!d->up || !d->sendable)
		return;
	link = fake_link_of(d->link);
	cr_assert_eq(fake_bound_to[link->peer_id % FAKE_MEMORY], link->id);
}

static void step(bool faults)
{
	int who = (int) pick(2);
	struct driver *d = &world.d[who];
	struct wire *wire = &world.wires[pick(WIRES)];
	unsigned what = pick(faults ? 24 : 12);

	if (what < 8) {
		if (wire->used)
			step_wire(wire);
	} else if (what < 10) {
		if (d->dial)
			dial_wire(who);
	} else if (what < 12) {
		if (d->timer_at && (faults ? !pick(10) : is_quiet()))
			driver_run_timer(d);
	} else if (what < 14) {
		driver_want(d);
	} else if (what == 14) {
		if (!pick(4))
			driver_drop(d);
	} else if (what == 15) {
		if (wire->used && !pick(4))
			cut_wire(wire);
	} else if (what == 16) {
		if (d->dial)
			driver_fail_dial(d, pick(2) ? -FI_ETIMEDOUT :
						      -FI_ECONNREFUSED);
	} else if (what == 17) {
		if (!pick(20))
			restart(who);
	}
	gather_all();
	check_sendable(&world.d[0]);
	check_sendable(&world.d[1]);
	world.d[0].now = TAGRV_MAX(world.d[0].now, world.d[1].now);
	world.d[1].now = world.d[0].now;
}

static bool is_settled(void)
{
	return is_quiet() && world.d[0].conn.state == TAGRV_CONN_READY &&
	       world.d[1].conn.state == TAGRV_CONN_READY;
}

static void check_settled(unsigned seed)
{
	struct driver *a = &world.d[0], *b = &world.d[1];
	int wires = 0;

	cr_assert(a->link && b->link);
	cr_assert_eq(fake_link_of(a->link)->peer_id,
		     fake_link_of(b->link)->id, "seed %u", seed);
	cr_assert_eq(fake_link_of(b->link)->peer_id,
		     fake_link_of(a->link)->id, "seed %u", seed);
	for (int i = 0; i < WIRES; i++)
		wires += world.wires[i].used;
	cr_assert_eq(wires, 1, "seed %u: %d sockets stay", seed, wires);
}

static void play(unsigned seed)
{
	int rounds;

	memset(&world, 0, sizeof(world));
	world.seed = seed;
	driver_init(&world.d[0], 1, 2);
	driver_init(&world.d[1], 2, 1);
	for (int i = 0; i < 400; i++)
		step(true);
	for (rounds = 0; rounds < 100000 && !is_settled(); rounds++) {
		driver_want(&world.d[0]);
		driver_want(&world.d[1]);
		step(false);
	}
	cr_assert(is_settled(), "seed %u never settles", seed);
	check_settled(seed);
	for (int i = 0; i < 2; i++)
		driver_fini(&world.d[i]);
}

/* Nothing goes wrong: whatever crosses, one connection comes of it. */
static void play_clean(unsigned seed)
{
	memset(&world, 0, sizeof(world));
	world.seed = seed;
	driver_init(&world.d[0], 1, 2);
	driver_init(&world.d[1], 2, 1);
	driver_want(&world.d[seed % 2]);
	for (int i = 0; i < 100000 && !is_settled(); i++) {
		if (!pick(8))
			driver_want(&world.d[pick(2)]);
		step(false);
	}
	cr_assert(is_settled(), "seed %u never settles", seed);
	check_settled(seed);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(world.d[i].gones + world.d[i].faileds, 0,
			     "seed %u", seed);
		cr_assert_eq(world.d[i].ups, 1, "seed %u", seed);
		cr_assert_eq(world.d[i].fake.created, 1, "seed %u", seed);
		driver_fini(&world.d[i]);
	}
}

Test(conn_wire, crossing_in_any_order_loses_nothing, .timeout = 120)
{
	for (unsigned seed = 0; seed < 5000; seed++)
		play_clean(seed);
}

Test(conn_wire, two_machines_always_agree_in_the_end, .timeout = 120)
{
	unsigned first = (unsigned) time(NULL) * 1000;

	for (unsigned i = 0; i < 3000; i++)
		play(i < 1500 ? i : first + i);
}
