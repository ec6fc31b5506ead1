/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two connection state machines and the wires between them, which deliver, break and
 * fall silent as pick() says.
 */
#ifndef FABTESTS_UNIT_WIREUP_CONN_WORLD_H
#define FABTESTS_UNIT_WIREUP_CONN_WORLD_H

#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "unit/wireup/conn_driver.h"

/*
 * A TCP connection: records arrive in order in each direction. When an end closes,
 * its records may or may not arrive before the other end sees the close.
 */
#define WIRES		8
#define QUEUE		16

struct wire_end {
	struct driver *d;
	struct driver_chan *chan;	/* NULL: closed */
	struct tagrv_wireup_rec queue[QUEUE];	/* to this end */
	size_t	cnt;
	bool	ended;			/* other end closed; seen after the queue */
};

struct wire {
	bool	used;
	struct wire_end end[2];		/* [0] dialed */
};

/* The transports that a side cannot use, also after a restart. */
struct ability {
	bool	no_local;	/* it does not know the preferred transport */
	bool	bad_local;	/* it cannot bind it */
	bool	bad_device;	/* it cannot bind the device */
	bool	here;		/* it takes the peer for one of its own host */
	bool	moody;		/* it does so now and then */
	bool	needy;		/* it needs sockets as a sign of life */
};

struct world {
	struct driver d[2];
	struct ability ability[2];
	struct wire wires[WIRES];
	unsigned seed;
	unsigned (*choose)(unsigned limit);	/* for pick(); NULL: at random */
};

static struct world world;

static inline unsigned pick(unsigned limit)
{
	return world.choose ? world.choose(limit) :
			      (unsigned) rand_r(&world.seed) % limit;
}

static inline void start(int who)
{
	const struct ability *ability = &world.ability[who];
	struct driver *d = &world.d[who];

	driver_init(d, (uint8_t) (1 + who), (uint8_t) (2 - who));
	if (!ability->no_local)
		driver_add_local(d);
	d->local.bind_status = ability->bad_local ? -FI_EHOSTUNREACH : 0;
	d->fake.bind_status = ability->bad_device ? -FI_ENETUNREACH : 0;
	d->here = ability->here;
	if (ability->needy)
		d->host.features &= ~TAGRV_WIRE_SOCKETLESS;
}

static inline void start_both(unsigned seed, const struct ability ability[2])
{
	memset(&world, 0, sizeof(world));
	world.seed = seed;
	memcpy(world.ability, ability, sizeof(world.ability));
	start(0);
	start(1);
}

static inline bool has_local(int who)
{
	return !world.ability[who].no_local && !world.ability[who].bad_local;
}

static inline void gather(struct wire *wire)
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
			/* Closing with unread input is a reset, which overtakes queued records. */
			if (end->cnt)
				far->cnt = pick((unsigned) far->cnt + 1);
			end->cnt = 0;
			far->ended = true;
		}
	}
	if (!wire->end[0].chan && !wire->end[1].chan)
		wire->used = false;
}

static inline void gather_all(void)
{
	for (int i = 0; i < WIRES; i++) {
		if (world.wires[i].used)
			gather(&world.wires[i]);
	}
}

static inline struct wire *find_wire(void)
{
	for (int i = 0; i < WIRES; i++) {
		if (!world.wires[i].used)
			return &world.wires[i];
	}
	return NULL;
}

static inline void dial_wire(int who)
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
	if (world.ability[who].moody)
		d->here = pick(2);
	chan = driver_answer_dial(d);
	chan->wire = wire;
	wire->end[0] = (struct wire_end) { .d = d, .chan = chan };
}

/* One step of one end: a record or the close arrives. */
static inline void step_end(struct wire_end *end)
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

static inline bool is_quiet_end(const struct wire_end *end)
{
	return !end->chan || (!end->cnt && !end->ended);
}

/* Whether nothing can happen until a timer fires. */
static inline bool is_quiet(void)
{
	for (int i = 0; i < WIRES; i++) {
		if (world.wires[i].used &&
		    (!is_quiet_end(&world.wires[i].end[0]) ||
		     !is_quiet_end(&world.wires[i].end[1])))
			return false;
	}
	return !world.d[0].dial && !world.d[1].dial;
}

static inline void step_wire(struct wire *wire)
{
	struct wire_end *end = &wire->end[pick(2)];

	step_end(end);
	gather(wire);
}

static inline void cut_wire(struct wire *wire)
{
	for (int i = 0; i < 2; i++) {
		wire->end[i].cnt = pick((unsigned) wire->end[i].cnt + 1);
		wire->end[i].ended = true;
	}
}

/* The process dies, and another one uses its address. */
static inline void restart(int who)
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
	start(who);
	d->host.uuid[1] = life;
	d->now = time;
}

/* -- random events -- */

/* A side that is sendable has a peer whose link receives. */
static inline void check_sendable(const struct driver *d)
{
	const struct fake_link *link;

	if (!d->up || !d->sendable)
		return;
	link = fake_link_of(d->link);
	cr_assert_eq(fake_bound_to[link->peer_id % FAKE_MEMORY], link->id);
}

static inline void step(bool faults)
{
	int who = (int) pick(2);
	struct driver *d = &world.d[who];
	struct wire *wire = &world.wires[pick(WIRES)];
	unsigned what = pick(faults ? 26 : 12);

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
	} else if (what == 24) {
		if (!pick(3))
			driver_renew(d, pick(2), 10000 + pick(60000));
	} else if (what == 25) {
		if (!pick(3))
			driver_save_socket(d);
	}
	gather_all();
	check_sendable(&world.d[0]);
	check_sendable(&world.d[1]);
	world.d[0].now = TAGRV_MAX(world.d[0].now, world.d[1].now);
	world.d[1].now = world.d[0].now;
}

/* Both have closed it, and nothing has happened since. */
static inline bool is_socketless(void)
{
	return world.d[0].conn.sockets_closed && world.d[1].conn.sockets_closed;
}

/* There is one socket, or none if that is agreed. */
static inline bool has_right_wires(void)
{
	int wires = 0;

	for (int i = 0; i < WIRES; i++)
		wires += world.wires[i].used;
	return wires == !is_socketless();
}

static inline bool is_settled(void)
{
	return is_quiet() && has_right_wires() &&
	       !world.d[0].renewing && !world.d[1].renewing &&
	       !world.d[0].conn.renew->state && !world.d[1].conn.renew->state &&
	       !world.d[0].conn.claim && !world.d[1].conn.claim &&
	       world.d[0].conn.state == TAGRV_CONN_READY &&
	       world.d[1].conn.state == TAGRV_CONN_READY;
}

/* Both sides mean the same pair of links. */
static inline bool is_one_pair(const struct tagrv_conn *a, const struct tagrv_conn *b)
{
	return a->epoch == b->peer_epoch && b->epoch == a->peer_epoch;
}

static inline void check_settled(unsigned seed)
{
	struct driver *a = &world.d[0], *b = &world.d[1];
	cr_assert(a->link && b->link);
	cr_assert(is_one_pair(&a->conn, &b->conn), "seed %u", seed);
	cr_assert_eq(fake_link_of(a->link)->peer_id,
		     fake_link_of(b->link)->id, "seed %u", seed);
	cr_assert_eq(fake_link_of(b->link)->peer_id,
		     fake_link_of(a->link)->id, "seed %u", seed);
	cr_assert_eq(driver_is_local(a), has_local(0) && has_local(1),
		     "seed %u", seed);
	cr_assert(has_right_wires(), "seed %u: too many sockets stay", seed);
	if (world.ability[0].needy || world.ability[1].needy)
		cr_assert(!is_socketless(), "seed %u: none stays", seed);
}

static inline void settle(unsigned seed)
{
	for (int i = 0; i < 100000 && !is_settled(); i++) {
		driver_want(&world.d[0]);
		driver_want(&world.d[1]);
		step(false);
	}
	cr_assert(is_settled(), "seed %u never settles", seed);
	check_settled(seed);
}

#endif
