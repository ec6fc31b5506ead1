/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two connection state machines over wires (conn_world.h): sockets are closed by
 * agreement at any moment, and opened again.
 */
#include "unit/wireup/conn_world.h"

static void settle_without(unsigned seed)
{
	for (int i = 0; i < 100000 && !is_settled(); i++)
		step(false);
	cr_assert(is_settled(), "seed %u never settles", seed);
	check_settled(seed);
}

static void connect_both(unsigned seed, const struct ability ability[2])
{
	start_both(seed, ability);
	driver_want(&world.d[0]);
	if (pick(2))
		driver_want(&world.d[1]);
	settle_without(seed);
}

static void fini_both(void)
{
	driver_fini(&world.d[0]);
	driver_fini(&world.d[1]);
}

/* One side closes its socket, or both do, while one is cut or a renewal needs it. */
static void play_saved(unsigned seed, const struct ability ability[2])
{
	connect_both(seed, ability);
	for (int i = 0; i < 60; i++) {
		struct wire *wire = &world.wires[pick(WIRES)];

		driver_save_socket(&world.d[pick(2)]);
		if (!pick(3))
			driver_save_socket(&world.d[pick(2)]);
		if (!pick(3) && wire->used)
			cut_wire(wire);
		if (!pick(3))
			driver_renew(&world.d[pick(2)], pick(2), 1000000);
		gather_all();
		for (unsigned n = pick(30); n; n--)
			step(false);
	}
	settle_without(seed);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(world.d[i].gones + world.d[i].faileds, 0, "seed %u", seed);
		cr_assert_eq(world.d[i].ups, 1, "seed %u", seed);
		cr_assert_eq(world.d[i].renewals, world.d[!i].renewals, "seed %u", seed);
	}
}

Test(conn_saved, closed_sockets_end_no_connection, .timeout = 120)
{
	static const struct ability able[2];
	unsigned closed = 0, reopened = 0, socketless = 0;

	for (unsigned seed = 0; seed < 1000; seed++) {
		play_saved(seed, able);
		socketless += is_socketless();
		closed += (unsigned) world.d[0].host.closed_sockets;
		reopened += (unsigned) world.d[0].host.reopened_sockets;
		fini_both();
	}
	cr_assert(closed && reopened && socketless);
	cr_assert_lt(socketless, 1000);
}

Test(conn_saved, needy_side_keeps_its_socket, .timeout = 120)
{
	for (unsigned seed = 0; seed < 500; seed++) {
		struct ability needy[2] = { { 0 }, { 0 } };

		needy[seed % 2].needy = true;
		play_saved(seed, needy);
		cr_assert_eq(world.d[0].host.closed_sockets, 0);
		cr_assert_eq(world.d[1].host.closed_sockets, 0);
		fini_both();
	}
}

/* One side dies while there is no socket, or while it is being closed. */
static void play_death(unsigned seed)
{
	static const struct ability able[2];
	int who = (int) (seed % 2);
	bool asks;

	connect_both(seed, able);
	driver_save_socket(&world.d[pick(2)]);
	gather_all();
	for (unsigned n = pick(20); n; n--)
		step(false);
	restart(who);
	gather_all();
	/* The new process asks; or the other side has seen by its link that it is dead. */
	asks = pick(2);
	if (!asks)
		driver_drop(&world.d[!who]);
	driver_want(&world.d[asks ? who : !who]);
	gather_all();
	for (int i = 0; i < 100000 && !is_settled(); i++)
		step(false);
	cr_assert(is_settled(), "seed %u never settles", seed);
	check_settled(seed);
	cr_assert_leq(world.d[!who].gones, 1, "seed %u", seed);
	cr_assert_geq(world.d[!who].gones, asks, "seed %u", seed);
	cr_assert_eq(world.d[!who].ups, 2, "seed %u", seed);
	fini_both();
}

Test(conn_saved, death_without_a_socket_is_noticed_by_the_next_connection, .timeout = 120)
{
	for (unsigned seed = 0; seed < 3000; seed++)
		play_death(seed);
}
