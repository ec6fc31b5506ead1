/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections between the engines, reported as the wireup would report them: UP on
 * both sides, SENDABLE later on the side where UP did not imply it, GONE for broken
 * links whose end the wireup has to report, and for some that never came up. A side may look
 * at its UP late: the other one has sent by then.
 */
#include "sim.h"

enum { WAITING_MAX = 16 };

/* A side that still has to get SENDABLE, and UP before that. */
struct waiting {
	int	side, other;
	uint32_t epoch;		/* 0: free entry */
	struct sim_link *link;	/* NULL: it has UP */
};

static struct waiting waiting[WAITING_MAX];
static uint32_t last_epoch;

struct tagrv_peer *sim_conn_peer(int side, int other)
{
	return tagrv_peer_find(sim.side[side].engine, &sim.side[other].addr);
}

static void tell(int side, int other, struct tagrv_wireup_event event)
{
	event.addr = sim.side[other].addr;
	tagrv_engine_wireup_event(sim.side[side].engine, &event);
}

static void tell_up(int side, int other, struct sim_link *link, uint32_t epoch, bool sendable)
{
	tell(side, other, (struct tagrv_wireup_event){
		.type = TAGRV_WIREUP_UP, .epoch = epoch, .sendable = sendable,
		.link = sim_link_base(link),
		.max_packet = sim.side[other].engine->rails.xports[0]->attr.max_packet });
}

static void tell_gone(int side, int other, uint32_t epoch, int status)
{
	tell(side, other, (struct tagrv_wireup_event){
		.type = TAGRV_WIREUP_GONE, .epoch = epoch, .status = status });
}

static void await_sendable(int side, int other, uint32_t epoch, struct sim_link *link)
{
	size_t i = 0;

	while (i < WAITING_MAX && waiting[i].epoch)
		i++;
	SIM_CHECK(i < WAITING_MAX, "too many connections come up at a time");
	waiting[i] = (struct waiting){ side, other, epoch, link };
}

static bool awaits_up(int side, int other)
{
	for (size_t i = 0; i < WAITING_MAX; i++)
		if (waiting[i].link && waiting[i].side == side && waiting[i].other == other)
			return true;
	return false;
}

static void tell_late_up(struct waiting *w)
{
	struct sim_link *link = w->link;

	w->link = NULL;
	tell_up(w->side, w->other, link, w->epoch, false);
}

void sim_conn_finish(void)
{
	for (size_t i = 0; i < WAITING_MAX; i++) {
		if (waiting[i].link)
			tell_late_up(&waiting[i]);
		waiting[i].epoch = 0;
	}
}

static void connect_pair(int side, int other)
{
	uint32_t epoch[2] = { last_epoch + 1, last_epoch + 2 };
	struct sim_link *link[2];

	last_epoch += 2;
	SIM_TRACE("connection %d-%d", side, other);
	sim_link_pair(link, (int[]){ side, other }, epoch);
	if (sim_chance(30)) {
		tell_up(other, side, link[1], epoch[1], true);
		await_sendable(side, other, epoch[0], link[0]);
		return;
	}
	tell_up(side, other, link[0], epoch[0], false);
	if (sim.mix.breaks && sim_chance(15)) {
		SIM_TRACE("connection %d-%d is taken back", side, other);
		sim_link_discard_peer(link[0]);
		tell_gone(side, other, epoch[0], -FI_EAGAIN);
		return;
	}
	tell_up(other, side, link[1], epoch[1], true);
	await_sendable(side, other, epoch[0], NULL);
}

static bool has_lane(const struct tagrv_peer *peer)
{
	return peer && peer->lane;
}

static bool is_asking(const struct tagrv_peer *peer)
{
	return peer && peer->state == TAGRV_PEER_CONNECTING;
}

/* With sim.mix.breaks, also when one side still has the old connection: the other restarted. */
static bool wants_connection(int side, int other)
{
	struct tagrv_peer *a = sim_conn_peer(side, other), *b = sim_conn_peer(other, side);

	if ((has_lane(a) && has_lane(b)) || awaits_up(side, other) || awaits_up(other, side))
		return false;
	if ((has_lane(a) || has_lane(b)) && !(sim.mix.breaks && sim_chance(3)))
		return false;
	return (is_asking(a) || is_asking(b)) && sim_chance(20);
}

static void tell_sendable(struct waiting *w)
{
	struct tagrv_wireup_event event = { .type = TAGRV_WIREUP_SENDABLE, .epoch = w->epoch };

	w->epoch = 0;
	tell(w->side, w->other, event);
}

void sim_conn_step(void)
{
	uint32_t epoch;
	int other;

	for (int i = 0; i < sim.side_cnt; i++)
		for (int j = 0; j < sim.side_cnt; j++)
			if (i != j && wants_connection(i, j))
				connect_pair(i, j);
	for (size_t i = 0; i < WAITING_MAX; i++)
		if (waiting[i].link && sim_chance(10))
			tell_late_up(&waiting[i]);
		else if (waiting[i].epoch && !waiting[i].link && sim_chance(30))
			tell_sendable(&waiting[i]);
	for (int i = 0; i < sim.side_cnt; i++)
		while ((epoch = sim_link_take_gone(i, &other)))
			tell_gone(i, other, epoch, sim_chance(50) ? 0 : -FI_ECONNRESET);
}
