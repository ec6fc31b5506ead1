/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection state machine and peers of this host: no link of a device is made as
 * long as the local transport works, and one is made in time if it does not. "local"
 * is preferred to "device".
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <time.h>

#include "unit/wireup/conn_world.h"

#define US	10
#define PEER	20

static void init(struct driver *d)
{
	driver_init(d, US, PEER);
	driver_add_local(d);
	d->here = true;
}

/* Gives a record of a peer that names these links. */
static void give(struct driver *d, struct driver_chan *chan,
		 enum tagrv_wireup_rec_type type, uint32_t epoch, bool local,
		 bool device, enum tagrv_wireup_reason reason)
{
	struct tagrv_wireup_rec rec = driver_rec(d, type, PEER, epoch);

	rec.reason = (uint8_t) reason;
	rec.link_cnt = 0;
	if (device)
		rec.links[rec.link_cnt++] = (struct tagrv_wireup_blob) {
			.wire_id = FAKE_WIRE_ID, .len = 8, .max_packet = 4000,
			.data = { PEER, (uint8_t) epoch },
		};
	if (local)
		rec.links[rec.link_cnt++] = (struct tagrv_wireup_blob) {
			.wire_id = FAKE_LOCAL_ID, .len = 8, .max_packet = 1500,
			.data = { PEER, (uint8_t) epoch, 1 },
		};
	driver_record(d, chan, &rec);
	if (type == TAGRV_WIREUP_REQ && d->conn.claim)
		driver_answer(d, true);
}

/* The peer's REQ offers its local link alone, and says so. */
static void give_local(struct driver *d, struct driver_chan *chan, uint32_t epoch)
{
	give(d, chan, TAGRV_WIREUP_REQ, epoch, true, false, TAGRV_WIREUP_LOCAL);
}

/* The peer's answer to our REQ of this epoch, which it was not bound to. */
static void give_rej(struct driver *d, struct driver_chan *chan, uint32_t about,
		     enum tagrv_wireup_reason reason)
{
	struct tagrv_wireup_rec rec = driver_rec(d, TAGRV_WIREUP_REJ, PEER, 0);

	rec.reason = (uint8_t) reason;
	rec.link_cnt = 0;
	rec.dst_epoch = about;
	driver_record(d, chan, &rec);
}

static struct driver_chan *ask(struct driver *d)
{
	driver_want(d);
	return driver_answer_dial(d);
}

/* The latest record has this type and epoch and these links. */
static bool says(const struct driver_chan *chan, enum tagrv_wireup_rec_type type,
		 uint32_t epoch, bool local, bool device)
{
	const struct tagrv_wireup_rec *rec = driver_last(chan);
	bool has_local = false, has_device = false;

	for (size_t i = 0; i < rec->link_cnt; i++) {
		has_local |= rec->links[i].wire_id == FAKE_LOCAL_ID;
		has_device |= rec->links[i].wire_id == FAKE_WIRE_ID;
	}
	return rec->type == type && rec->src_epoch == epoch &&
	       has_local == local && has_device == device &&
	       rec->reason == (type == TAGRV_WIREUP_REQ && local && !device ?
			       TAGRV_WIREUP_LOCAL : TAGRV_WIREUP_OK);
}

static bool refuses(const struct driver_chan *chan, enum tagrv_wireup_reason reason)
{
	const struct tagrv_wireup_rec *rec = driver_last(chan);

	return rec->type == TAGRV_WIREUP_REJ && rec->reason == reason;
}

/* -- what is offered -- */

Test(conn_near, peers_of_this_host_are_offered_local_links_alone, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	chan = ask(&d);
	cr_assert(says(chan, TAGRV_WIREUP_REQ, 1, true, false));
	cr_assert_eq(driver_last(chan)->max_packet, 2048, "of the local link");
	give(&d, chan, TAGRV_WIREUP_REP, 7, true, false, TAGRV_WIREUP_OK);
	cr_assert(d.sendable);
	cr_assert(driver_is_local(&d));
	cr_assert_eq(d.fake.created, 0);
	driver_fini(&d);
	/* Another host, or a process of an older release. */
	init(&d);
	d.here = false;
	cr_assert(says(ask(&d), TAGRV_WIREUP_REQ, 1, true, true));
	driver_fini(&d);
}

Test(conn_near, without_a_local_link_the_device_is_offered_at_once, .timeout = 10)
{
	struct driver d;

	init(&d);
	d.local.create_status = -FI_EMFILE;
	cr_assert(says(ask(&d), TAGRV_WIREUP_REQ, 1, false, true));
	driver_fini(&d);
}

Test(conn_near, who_has_nothing_else_does_not_say_so, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	d.host.xport_cnt = 1;
	chan = ask(&d);
	cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_OK);
	cr_assert_eq(driver_last(chan)->link_cnt, 1);
	give_rej(&d, chan, 1, TAGRV_WIREUP_TRANSPORT);
	cr_assert_eq(d.faileds, 1);
	cr_assert_eq(d.event.status, -FI_EHOSTUNREACH);
	driver_fini(&d);
}

Test(conn_near, a_transport_that_is_preferred_is_not_held_back, .timeout = 10)
{
	struct driver d;

	init(&d);
	d.xports[0] = &d.fake.base;
	d.xports[1] = &d.local.base;
	cr_assert(says(ask(&d), TAGRV_WIREUP_REQ, 1, true, true));
	driver_fini(&d);
}

/* -- the peer refuses -- */

Test(conn_near, refused_local_links_are_followed_by_the_device, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	chan = ask(&d);
	give_rej(&d, chan, 1, TAGRV_WIREUP_TRANSPORT);
	cr_assert(chan->hung_up);
	cr_assert(d.dial, "at once");
	cr_assert_eq(d.faileds, 0);
	chan = driver_answer_dial(&d);
	cr_assert(says(chan, TAGRV_WIREUP_REQ, 2, false, true));
	give(&d, chan, TAGRV_WIREUP_REP, 7, false, true, TAGRV_WIREUP_OK);
	cr_assert(d.sendable);
	cr_assert(!driver_is_local(&d));
	cr_assert_eq(d.ups, 1);
	cr_assert_eq(d.local.created, 1);
	driver_drop(&d);
	cr_assert(says(ask(&d), TAGRV_WIREUP_REQ, 3, true, false),
		  "it is forgotten with the connection");
	driver_fini(&d);
}

Test(conn_near, a_second_refusal_is_the_last, .timeout = 10)
{
	struct driver d;

	init(&d);
	give_rej(&d, ask(&d), 1, TAGRV_WIREUP_TRANSPORT);
	give_rej(&d, driver_answer_dial(&d), 2, TAGRV_WIREUP_TRANSPORT);
	cr_assert_eq(d.faileds, 1);
	cr_assert_eq(d.event.status, -FI_EHOSTUNREACH);
	cr_assert(tagrv_conn_is_idle(&d.conn));
	driver_fini(&d);
}

Test(conn_near, a_busy_peer_is_asked_for_the_same_later, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	chan = ask(&d);
	give_rej(&d, chan, 1, TAGRV_WIREUP_BUSY);
	cr_assert(!d.dial, "not at once");
	driver_run_timer(&d);
	chan = driver_answer_dial(&d);
	cr_assert(says(chan, TAGRV_WIREUP_REQ, 1, true, false));
	cr_assert_eq(d.fake.created, 0);
	driver_fini(&d);
}

Test(conn_near, an_answer_that_we_cannot_bind_is_followed_by_the_device, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	d.local.bind_status = -FI_ECONNREFUSED;
	chan = ask(&d);
	give(&d, chan, TAGRV_WIREUP_REP, 7, true, false, TAGRV_WIREUP_OK);
	cr_assert(says(chan, TAGRV_WIREUP_REQ, 2, false, true));
	give(&d, chan, TAGRV_WIREUP_REP, 8, false, true, TAGRV_WIREUP_OK);
	cr_assert(d.sendable);
	cr_assert_eq(d.ups, 1);
	driver_fini(&d);
}

/* No peer does that: what it names was never offered. */
Test(conn_near, an_answer_by_what_was_held_back_fails, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	chan = ask(&d);
	give(&d, chan, TAGRV_WIREUP_REP, 7, false, true, TAGRV_WIREUP_OK);
	cr_assert_eq(d.faileds, 1);
	cr_assert_eq(d.fake.created, 0);
	driver_fini(&d);
}

/* The socket broke, and another process has the address: perhaps of an older release. */
Test(conn_near, another_process_is_offered_what_it_knows, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	chan = ask(&d);
	driver_close(&d, chan);
	driver_run_timer(&d);
	d.here = false;
	chan = driver_answer_dial(&d);
	cr_assert(says(chan, TAGRV_WIREUP_REQ, 2, true, true));
	driver_close(&d, chan);
	driver_run_timer(&d);
	d.here = true;
	chan = driver_answer_dial(&d);
	cr_assert(says(chan, TAGRV_WIREUP_REQ, 2, true, true), "the links exist");
	driver_fini(&d);
}

/* -- we refuse -- */

Test(conn_near, local_links_that_cannot_be_bound_are_refused, .timeout = 10)
{
	static const int reasons[] = { -FI_EHOSTUNREACH, -FI_ENOMEM };
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	for (int i = 0; i < 2; i++) {
		d.local.bind_status = reasons[i];
		chan = driver_open(&d, false);
		give_local(&d, chan, 7);
		cr_assert(refuses(chan, TAGRV_WIREUP_TRANSPORT),
			  "for want of memory, too: the device may work now");
		cr_assert(tagrv_conn_is_idle(&d.conn));
		cr_assert_eq(d.fake.created, 0);
	}
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, 8, false, true, TAGRV_WIREUP_OK);
	cr_assert(says(chan, TAGRV_WIREUP_REP, 3, false, true));
	cr_assert_eq(d.ups, 1);
	driver_fini(&d);
}

Test(conn_near, who_has_no_device_asks_for_patience, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	d.host.xport_cnt = 1;
	d.local.bind_status = -FI_ENOMEM;
	chan = driver_open(&d, false);
	give_local(&d, chan, 7);
	cr_assert(refuses(chan, TAGRV_WIREUP_BUSY));
	driver_fini(&d);
	/* So does everybody to a peer that has nothing else, of any release. */
	init(&d);
	d.local.bind_status = -FI_ENOMEM;
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, 7, true, false, TAGRV_WIREUP_OK);
	cr_assert(refuses(chan, TAGRV_WIREUP_BUSY));
	driver_fini(&d);
}

/* -- crossing -- */

Test(conn_near, crossing_requests_of_one_host_make_no_device_link, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct driver d;

	init(&d);
	out = ask(&d);
	in = driver_open(&d, false);
	give_local(&d, in, 7);
	cr_assert(says(in, TAGRV_WIREUP_REP, 1, true, false));
	give(&d, out, TAGRV_WIREUP_REP, 7, true, false, TAGRV_WIREUP_OK);
	cr_assert(d.sendable);
	cr_assert_eq(d.ups, 1);
	cr_assert_eq(d.fake.created, 0);
	driver_fini(&d);
}

Test(conn_near, who_cannot_bind_the_other_request_begins_again, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct tagrv_wireup_rec rec;
	struct driver d;

	init(&d);
	d.local.bind_status = -FI_EHOSTUNREACH;
	out = ask(&d);
	in = driver_open(&d, false);
	give_local(&d, in, 7);
	cr_assert(refuses(in, TAGRV_WIREUP_TRANSPORT));
	cr_assert_eq(d.faileds, 0);
	cr_assert(says(out, TAGRV_WIREUP_REQ, 2, false, true));
	/* The peer had bound our first offer, and told us. */
	rec = driver_rec(&d, TAGRV_WIREUP_REP, PEER, 7);
	rec.dst_epoch = 1;
	driver_nonce(rec.dst_nonce, US, 1);
	driver_record(&d, out, &rec);
	cr_assert_eq(d.ups, 0);
	give(&d, out, TAGRV_WIREUP_REP, 8, false, true, TAGRV_WIREUP_OK);
	cr_assert(d.sendable);
	cr_assert_eq(d.ups, 1);
	cr_assert_eq(d.local.refused, 1);
	driver_fini(&d);
}

Test(conn_near, a_request_that_is_not_void_goes_on, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct driver d;

	init(&d);
	give_rej(&d, ask(&d), 1, TAGRV_WIREUP_TRANSPORT);
	out = driver_answer_dial(&d);
	in = driver_open(&d, false);
	give_local(&d, in, 7);
	cr_assert(refuses(in, TAGRV_WIREUP_TRANSPORT));
	cr_assert(says(out, TAGRV_WIREUP_REQ, 2, false, true));
	cr_assert_eq(d.fake.created, 1);
	give(&d, out, TAGRV_WIREUP_REP, 8, false, true, TAGRV_WIREUP_OK);
	cr_assert(d.sendable);
	driver_fini(&d);
	/* The same if the peer's REQ comes while we dial. */
	init(&d);
	give_rej(&d, ask(&d), 1, TAGRV_WIREUP_TRANSPORT);
	in = driver_open(&d, false);
	give_local(&d, in, 7);
	cr_assert(says(driver_asked(&d), TAGRV_WIREUP_REQ, 2, false, true));
	driver_fini(&d);
}

/* A peer that does not know that it is on this host offers all. */
Test(conn_near, what_was_held_back_is_bound_with_another_epoch, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct driver d;

	for (int local = 0; local < 2; local++) {
		init(&d);
		d.local.bind_status = -FI_EHOSTUNREACH;
		out = ask(&d);
		in = driver_open(&d, false);
		give(&d, in, TAGRV_WIREUP_REQ, 7, local, true, TAGRV_WIREUP_OK);
		cr_assert(says(in, TAGRV_WIREUP_REP, 2, false, true));
		cr_assert_eq(d.fake.created, 1);
		cr_assert(out->hung_up, "what was asked there is void");
		cr_assert_eq(d.conn.state, TAGRV_CONN_BOUND);
		give(&d, in, TAGRV_WIREUP_RTU, 7, false, false, TAGRV_WIREUP_OK);
		cr_assert(d.sendable);
		cr_assert_eq(d.ups, 1);
		driver_fini(&d);
	}
}

Test(conn_near, no_memory_for_another_epoch_is_a_failure, .timeout = 10)
{
	struct driver_chan *in;
	struct driver d;

	init(&d);
	ask(&d);
	in = driver_open(&d, false);
	d.prepare_status = -FI_ENOMEM;
	give(&d, in, TAGRV_WIREUP_REQ, 7, false, true, TAGRV_WIREUP_OK);
	cr_assert(refuses(in, TAGRV_WIREUP_BUSY));
	cr_assert_eq(d.faileds, 1);
	cr_assert_eq(d.event.status, -FI_ENOMEM);
	driver_fini(&d);
}

/* The peer begins again on the socket on which its REQ waits for its proof. */
Test(conn_near, a_local_request_takes_the_place_of_its_claim, .timeout = 10)
{
	struct tagrv_wireup_rec rec;
	struct driver_chan *in;
	struct driver d;

	init(&d);
	ask(&d);
	in = driver_open(&d, false);
	for (uint32_t epoch = 7; epoch < 9; epoch++) {
		rec = driver_rec(&d, TAGRV_WIREUP_REQ, PEER, epoch);
		rec.reason = TAGRV_WIREUP_LOCAL;
		rec.links[0].wire_id = FAKE_LOCAL_ID;
		driver_record(&d, in, &rec);
		cr_assert(d.conn.claim);
		cr_assert_eq(d.conn.claim->rec.src_epoch, epoch);
	}
	driver_answer(&d, true);
	cr_assert(says(in, TAGRV_WIREUP_REP, 1, true, false));
	cr_assert_eq(d.conn.peer_epoch, 8);
	driver_fini(&d);
}

/* It refused our REQ, but sent one of its own that we are bound to. */
Test(conn_near, a_refusal_ends_no_connection, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct driver d;

	for (int ready = 0; ready < 2; ready++) {
		init(&d);
		out = ask(&d);
		in = driver_open(&d, false);
		give_local(&d, in, 7);
		if (ready)
			give(&d, in, TAGRV_WIREUP_RTU, 7, false, false,
			     TAGRV_WIREUP_OK);
		/* Of two sockets ours stays. */
		give_rej(&d, out, 1, TAGRV_WIREUP_TRANSPORT);
		cr_assert(out->hung_up);
		cr_assert_eq(d.gones + d.agains + d.faileds, 0);
		cr_assert_eq(d.conn.state, ready ? TAGRV_CONN_READY :
						   TAGRV_CONN_BOUND);
		if (!ready) {
			/* What it sent was void, too. */
			give(&d, in, TAGRV_WIREUP_REQ, 8, false, true,
			     TAGRV_WIREUP_OK);
			cr_assert_eq(d.agains, 1);
			cr_assert(!driver_is_local(&d));
			give(&d, in, TAGRV_WIREUP_RTU, 8, false, false,
			     TAGRV_WIREUP_OK);
		}
		cr_assert(d.sendable);
		driver_fini(&d);
	}
}

/* -- two machines -- */

/* Every pair of sides that have a transport in common. */
static const struct ability pairs[][2] = {
	{ { 0 }, { 0 } },
	{ { .bad_device = true }, { 0 } },
	{ { 0 }, { .bad_local = true } },
	{ { .bad_local = true }, { .bad_local = true } },
	{ { 0 }, { .no_local = true } },
	{ { .bad_local = true }, { .no_local = true } },
};

#define PAIRS	TAGRV_ARRAY_SIZE(pairs)

/* Who holds back what depends on the peer's release, and on what its address looks like. */
static void choose_ability(unsigned nr, struct ability ability[2])
{
	unsigned turn = nr / PAIRS % 2;

	ability[turn] = pairs[nr % PAIRS][0];
	ability[!turn] = pairs[nr % PAIRS][1];
	ability[0].here = nr / PAIRS / 2 % 3 != 1 && !ability[1].no_local;
	ability[1].here = nr / PAIRS / 2 % 3 != 2 && !ability[0].no_local;
}

#define ABILITIES	(PAIRS * 2 * 3)

/* Without faults: one UP that stays, no failure, and no device link that is not needed. */
static void check_clean(unsigned nr)
{
	bool local = has_local(0) && has_local(1);

	check_settled(nr);
	for (int i = 0; i < 2; i++) {
		struct driver *d = &world.d[i];

		cr_assert_eq(d->gones + d->faileds, 0, "%u", nr);
		cr_assert_eq(d->ups, 1 + d->agains, "%u", nr);
		cr_assert(!local || !d->agains, "%u", nr);
		cr_assert(!local || !world.ability[i].here || !d->fake.created,
			  "%u: %d device links", nr, d->fake.created);
		cr_assert_leq(d->agains, 2, "%u: %d", nr, d->agains);
		cr_assert_leq(d->fake.created, 3, "%u: %d", nr, d->fake.created);
		cr_assert_lt(d->now, 1000 + 1000, "%u: %lu", nr,
			     (unsigned long) d->now);
		driver_fini(d);
	}
}

/* -- without faults, and with clocks that go right -- */

static bool can_go(const struct wire *wire, int end)
{
	return wire->used && !is_quiet_end(&wire->end[end]);
}

/* One of the things that can happen now; timers only if nothing else can. */
static void step_clean(bool *late)
{
	struct driver *d = world.d;
	int can[2 * WIRES + 3], cnt = 0, what;

	for (int i = 0; i < 2 * WIRES; i++)
		if (can_go(&world.wires[i / 2], i % 2))
			can[cnt++] = i;
	for (int i = 0; i < 2; i++)
		if (d[i].dial)
			can[cnt++] = 2 * WIRES + i;
	if (*late)
		can[cnt++] = 2 * WIRES + 2;
	if (!cnt) {
		driver_run_timer(!d[0].timer_at || (d[1].timer_at &&
				 d[1].timer_at < d[0].timer_at) ? &d[1] : &d[0]);
	} else {
		what = can[cnt > 1 ? pick((unsigned) cnt) : 0];
		if (what < 2 * WIRES)
			step_end(&world.wires[what / 2].end[what % 2]);
		else if (what < 2 * WIRES + 2)
			dial_wire(what - 2 * WIRES);
		else
			driver_want(&d[1]);
		*late = *late && what < 2 * WIRES + 2;
	}
	gather_all();
	check_sendable(&d[0]);
	check_sendable(&d[1]);
	d[0].now = d[1].now = TAGRV_MAX(d[0].now, d[1].now);
}

/* Both sides want to connect, the second one at any time. */
static void run_clean(unsigned seed, const struct ability ability[2],
		      unsigned (*choose)(unsigned limit), bool (*is_over)(void))
{
	bool late = true;

	start_both(seed, ability);
	world.choose = choose;
	driver_want(&world.d[0]);
	for (int i = 0; i < 1000 && (late || !is_over()); i++)
		step_clean(&late);
	cr_assert(is_over(), "seed %u never ends", seed);
}

Test(conn_near, crossing_in_any_order_needs_no_device, .timeout = 120)
{
	for (unsigned seed = 0; seed < 6000; seed++) {
		struct ability ability[2];

		choose_ability(seed, ability);
		run_clean(seed, ability, NULL, is_settled);
		check_clean(seed);
	}
}

Test(conn_near, two_machines_always_agree_in_the_end, .timeout = 120)
{
	unsigned first = (unsigned) time(NULL) * 1000;

	for (unsigned i = 0; i < 2000; i++) {
		unsigned seed = i < 1000 ? i : first + i;
		struct ability ability[2];

		choose_ability(seed, ability);
		ability[seed % 5 & 1].moody = true;
		start_both(seed, ability);
		world.d[seed % 2].far = seed % 3;	/* its claims need a proof */
		for (int n = 0; n < 400; n++)
			step(true);
		settle(seed);
		for (int n = 0; n < 2; n++)
			driver_fini(&world.d[n]);
	}
}

static bool is_given_up(void)
{
	return is_quiet() && tagrv_conn_is_idle(&world.d[0].conn) &&
	       tagrv_conn_is_idle(&world.d[1].conn);
}

/* No transport in common: both sides fail, and soon. */
Test(conn_near, without_a_common_transport_both_give_up, .timeout = 60)
{
	const struct ability ability[2] = {
		{ .bad_local = true, .here = true },
		{ .bad_device = true, .here = true },
	};

	for (unsigned seed = 0; seed < 2000; seed++) {
		struct driver *d = world.d;

		run_clean(seed, &ability[0], NULL, is_given_up);
		cr_assert_gt(d[0].faileds + d[0].gones + d[1].faileds +
			     d[1].gones, 0, "seed %u", seed);
		cr_assert_lt(d[0].now, 1000 + 1000, "seed %u: %lu", seed,
			     (unsigned long) d[0].now);
		for (int i = 0; i < 2; i++) {
			cr_assert(!d[i].up && !d[i].sendables);
			driver_fini(&d[i]);
		}
	}
}

/* -- every order of events -- */

/*
 * The choices of one run. The next run repeats all of them but the last one that has
 * another possibility left. Choices behind the last one of the plan are the first ones.
 */
#define PLAN_MAX	400

static struct {
	unsigned char made[PLAN_MAX], limit[PLAN_MAX];
	unsigned at;
} plan;

static unsigned follow_plan(unsigned limit)
{
	cr_assert_lt(plan.at, PLAN_MAX);
	plan.limit[plan.at] = (unsigned char) limit;
	return limit - 1 - plan.made[plan.at++];
}

/* Of the first so many choices. False: that was the last run. */
static bool next_plan(unsigned most)
{
	unsigned i = TAGRV_MIN(plan.at, most);

	while (i && plan.made[i - 1] + 1 == plan.limit[i - 1])
		i--;
	if (!i)
		return false;
	plan.made[i - 1]++;
	memset(&plan.made[i], 0, PLAN_MAX - i);
	return true;
}

static unsigned play_all(unsigned nr, unsigned most)
{
	struct ability ability[2];
	unsigned runs = 0;

	choose_ability(nr, ability);
	memset(&plan, 0, sizeof(plan));
	do {
		plan.at = 0;
		run_clean(nr, ability, follow_plan, is_settled);
		check_clean(nr);
		runs++;
	} while (next_plan(most));
	return runs;
}

Test(conn_near, every_order_of_crossing_events_makes_one_connection, .timeout = 300)
{
	unsigned runs = 0;

	for (unsigned nr = 0; nr < ABILITIES; nr++)
		runs += play_all(nr, 9);
	cr_log_info("%u orders", runs);
	cr_assert_gt(runs, 1000);
}
