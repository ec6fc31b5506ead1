/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two connection state machines over wires that break at random: in the end they
 * agree, and without faults no connection is ever lost.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <time.h>

#include "unit/wireup/conn_world.h"

static void play(unsigned seed, const struct ability ability[2])
{
	start_both(seed, ability);
	for (int i = 0; i < 400; i++)
		step(true);
	settle(seed);
	for (int i = 0; i < 2; i++)
		driver_fini(&world.d[i]);
}

/* Without faults, crossing requests always give one connection. */
static void play_clean(unsigned seed, const struct ability ability[2])
{
	bool agree = ability[0].bad_local == ability[1].bad_local ||
		     ability[0].no_local || ability[1].no_local;

	start_both(seed, ability);
	driver_want(&world.d[seed % 2]);
	for (int i = 0; i < 100000 && !is_settled(); i++) {
		if (!pick(8))
			driver_want(&world.d[pick(2)]);
		step(false);
	}
	cr_assert(is_settled(), "seed %u never settles", seed);
	check_settled(seed);
	for (int i = 0; i < 2; i++) {
		struct driver *d = &world.d[i];

		cr_assert_eq(d->gones + d->faileds, 0, "seed %u", seed);
		cr_assert_eq(d->ups, 1 + d->agains, "seed %u", seed);
		cr_assert_leq(d->agains, agree ? 0 : 2, "seed %u", seed);
		cr_assert_leq(d->host.epoch, agree ? 1 : 3, "seed %u", seed);
		cr_assert_leq(d->fake.created, (int) d->host.epoch);
		driver_fini(d);
	}
}

/* Every pair of sides that have a transport in common. */
static const struct ability pairs[][2] = {
	{ { .no_local = true }, { .no_local = true } },
	{ { 0 }, { 0 } },
	{ { 0 }, { .no_local = true } },
	{ { .bad_local = true }, { .bad_local = true } },
	{ { .bad_local = true }, { .no_local = true } },
	{ { 0 }, { .bad_local = true } },
	{ { .bad_device = true }, { 0 } },
	{ { .bad_device = true }, { .bad_device = true } },
};

#define PAIRS	TAGRV_ARRAY_SIZE(pairs)

static void mirror(unsigned seed, struct ability ability[2])
{
	const struct ability *pair = pairs[seed % PAIRS];
	unsigned turn = seed / PAIRS % 2;

	ability[turn] = pair[0];
	ability[!turn] = pair[1];
}

Test(conn_wire, crossing_in_any_order_loses_nothing, .timeout = 120)
{
	for (unsigned seed = 0; seed < 12000; seed++) {
		struct ability ability[2];

		mirror(seed, ability);
		play_clean(seed, ability);
	}
}

/* The kept socket is cut, at any moment of what follows from the last cut, too. */
static void play_cuts(unsigned seed, unsigned cuts, bool renew)
{
	const struct ability ability[2] = { { 0 }, { 0 } };

	start_both(seed, ability);
	driver_want(&world.d[0]);
	for (int i = 0; i < 100000 && !is_settled(); i++)
		step(false);
	for (unsigned i = 0; i < cuts; i++) {
		struct wire *wire = &world.wires[pick(WIRES)];

		if (wire->used)
			cut_wire(wire);
		for (unsigned n = pick(30); n; n--)
			step(false);
		if (renew && !pick(3))
			driver_renew(&world.d[pick(2)], pick(2), 1000000);
	}
	for (int i = 0; i < 100000 && !is_settled(); i++)
		step(false);
	check_settled(seed);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(world.d[i].gones + world.d[i].faileds, 0,
			     "seed %u", seed);
		cr_assert_eq(world.d[i].ups, 1, "seed %u", seed);
		cr_assert_eq(world.d[i].renewals, world.d[!i].renewals,
			     "seed %u", seed);
		cr_assert(!renew || world.d[i].renewals, "seed %u", seed);
		driver_fini(&world.d[i]);
	}
}

Test(conn_wire, cut_sockets_end_no_connection, .timeout = 120)
{
	for (unsigned seed = 0; seed < 500; seed++)
		play_cuts(seed, 500, false);
}

/* Nor does it harm renewals, of one side or of both: they succeed, on both sides alike. */
Test(conn_wire, renewals_go_on_over_cut_sockets, .timeout = 120)
{
	for (unsigned seed = 0; seed < 500; seed++)
		play_cuts(seed, 300, true);
}

/*
 * Seeds that once found a fault. 377471262: a REQ waited for its proof although the same
 * peer was connected by another socket; each side kept a socket that the other did not.
 * 457012653: a REQ came behind a renewal, which had made its link an older one; it was not
 * answered, and both sockets stayed.
 */
static const unsigned found[] = { 377471262, 457012653 };

Test(conn_wire, two_machines_agree_where_they_once_did_not, .timeout = 120)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(found); i++) {
		struct ability ability[2];

		mirror(found[i], ability);
		play(found[i], ability);
	}
}

Test(conn_wire, two_machines_always_agree_in_the_end, .timeout = 120)
{
	unsigned first = (unsigned) time(NULL) * 1000;

	for (unsigned i = 0; i < 4000; i++) {
		unsigned seed = i < 2000 ? i : first + i;
		struct ability ability[2];

		mirror(seed, ability);
		play(seed, ability);
	}
}

/* No transport in common: both sides fail, and no object is left. */
Test(conn_wire, without_a_common_transport_both_give_up, .timeout = 60)
{
	const struct ability ability[2] = {
		{ .bad_local = true }, { .bad_device = true },
	};

	for (unsigned seed = 0; seed < 2000; seed++) {
		struct driver *d = world.d;

		start_both(seed, ability);
		driver_want(&d[seed % 2]);
		driver_want(&d[pick(2)]);
		for (int i = 0; i < 10000 &&
		     !(is_quiet() && tagrv_conn_is_idle(&d[0].conn) &&
		       tagrv_conn_is_idle(&d[1].conn)); i++)
			step(false);
		for (int i = 0; i < 2; i++) {
			cr_assert(tagrv_conn_is_idle(&d[i].conn), "seed %u",
				  seed);
			cr_assert_eq(d[i].up, false);
			cr_assert_eq(d[i].sendables, 0);
			driver_fini(&d[i]);
		}
		cr_assert_gt(d[0].faileds + d[0].gones + d[1].faileds +
			     d[1].gones, 0, "seed %u", seed);
		cr_assert_lt(d[0].now, 1000 + 30000, "seed %u", seed);
	}
}
