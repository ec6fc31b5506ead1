/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The engines: opened with random parameters, checked when all operations have
 * ended, closed.
 */
#include "sim.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PORT = 9 };	/* of side 0; nobody listens at these ports */

static const char *const rndv_ways[] = { "auto", "get", "put", "copy", "pipeline" };

static const char *const proto_tables[] = {
	"", "eager:0-4k,get:4k-", "pipeline:1-", "prepared:100-2k,copy:2k-", "put:64-", "copy:1-",
};

/* --- parameters --- */

static void set_text(const char *name, const char *value)
{
	SIM_TRACE("  %s=%s", name, value);
	SIM_CHECK(!setenv(name, value, 1), "no memory");
}

static void set_number(const char *name, size_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", value);
	set_text(name, text);
}

static void set_fixed(void)
{
	set_text("FI_TAGRV_PROFILE", "none");
	set_text("FI_TAGRV_REGCACHE", "no");
	set_number("FI_TAGRV_CLOSE_TIMEOUT", 0);
	set_number("FI_TAGRV_CONNECT_TIMEOUT", 3600);
	set_number("FI_TAGRV_MAX_OPS", 1024);
}

static size_t some_eager_max(void)
{
	if (sim_chance(30))
		return 64 + sim_below(400);
	return sim_chance(50) ? 8192 : 1024 + sim_below(4000);
}

/* Each side has parameters of its own. */
static void set_random(void)
{
	set_number("FI_TAGRV_EAGER_MAX", some_eager_max());
	set_number("FI_TAGRV_EAGER_CREDIT", sim_chance(50) ? 16384 : 393216);
	set_number("FI_TAGRV_EAGER_BUDGET", sim_chance(60) ? 1 + sim_below(3) * 4096 : 8388608);
	set_number("FI_TAGRV_READ_SEGMENT", (size_t)4096 << sim_below(6));
	set_number("FI_TAGRV_READ_DEPTH", 1 + sim_below(6));
	set_number("FI_TAGRV_COPY_DEPTH", 1 + sim_below(8));
	set_text("FI_TAGRV_RNDV", rndv_ways[sim_below(TAGRV_ARRAY_SIZE(rndv_ways))]);
	set_text("FI_TAGRV_PROTO", proto_tables[sim_below(TAGRV_ARRAY_SIZE(proto_tables))]);
	if (sim_chance(40))
		set_number("FI_TAGRV_RNDV_THRESH", 1 + sim_below(3000));
	else
		set_text("FI_TAGRV_RNDV_THRESH", "auto");
}

/* --- opening --- */

static struct tagrv_addr local_addr(uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct tagrv_addr addr;

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	SIM_CHECK(!tagrv_addr_from(&addr, &sin, sizeof(sin)), "no address");
	return addr;
}

static bool shares(int i)
{
	return sim.shared && i > 0;
}

/* Of sides with a shared context only side 1 owns domain and address table. */
static bool owns(int i)
{
	return !shares(i) || i == 1;
}

static void open_dom(int i)
{
	struct tagrv_dom_attr attr = { .name = "loop", .serialized = true, .allocated = true };
	struct sim_side *side = &sim.side[i];

	SIM_TRACE("side %d", i);
	set_random();
	SIM_CHECK(!tagrv_dom_open(&attr, &side->dom), "no domain");
	side->dev.ops = &sim_xport_ops;
	snprintf(side->dev.name, sizeof(side->dev.name), "sim%d", i);
	side->dom->dev = side->dom->devs[0] = &side->dev;
	side->dom->dev_cnt = 1;
	side->hw_tags = sim_chance(sim.mix.lists);
	side->dom->params.hw_tags = side->hw_tags;
	SIM_TRACE("  lists: %d", side->hw_tags);
	side->av = &side->own_av;
	SIM_CHECK(!tagrv_avtab_init(side->av, SIM_SIDES), "no memory");
	for (int j = 0; j < sim.side_cnt; j++) {
		fi_addr_t row;

		SIM_CHECK(!tagrv_avtab_insert(side->av, &sim.side[j].addr, &row) &&
			  row == (fi_addr_t)j, "side %d has no row", j);
	}
}

static void open_queues(struct sim_side *side)
{
	SIM_CHECK(!tagrv_compq_init(&side->tx_cq, 16, false) &&
		  !tagrv_compq_init(&side->rx_cq, 16, false) &&
		  !tagrv_counter_init(&side->tx_cntr, false) &&
		  !tagrv_counter_init(&side->rx_cntr, false), "no memory");
}

static void open_engine(int i)
{
	struct sim_side *side = &sim.side[i];
	struct tagrv_engine_attr attr = {
		.src = local_addr(0), .rx = shares(i) ? sim.shared : NULL,
		.directed_recv = true, .source = true,
	};
	struct tagrv_engine_sinks sinks = {
		.tx_cq = &side->tx_cq, .rx_cq = &sim.side[shares(i) ? 1 : i].rx_cq,
		.tx_cntr = &side->tx_cntr, .rx_cntr = &side->rx_cntr, .rx_all = shares(i),
	};
	struct tagrv_addr own;

	open_queues(side);
	SIM_CHECK(!tagrv_engine_open(side->dom, &attr, &side->engine), "no engine");
	SIM_CHECK(!tagrv_engine_set_av(side->engine, side->av), "no address table");
	tagrv_engine_set_sinks(side->engine, &sinks);
	SIM_CHECK(!tagrv_engine_enable(side->engine), "the engine cannot listen");
	side->rx = tagrv_engine_rx(side->engine);
	tagrv_engine_name(side->engine, &own);
	SIM_CHECK(!tagrv_avtab_insert(side->av, &own, &side->self), "no memory");
	if (sim_chance(50))
		tagrv_rx_set_min_multi_recv(side->rx, sim_below(3000));
}

void sim_side_open_all(void)
{
	uint32_t places;
	bool share;

	sim.side_cnt = 2 + (int)sim_below(SIM_SIDES - 1);
	share = sim.side_cnt == SIM_SIDES && sim_chance(60);
	set_fixed();
	for (int i = 0; i < sim.side_cnt; i++)
		sim.side[i].addr = local_addr((uint16_t)(PORT + i));
	for (int i = 0; i < (share ? 2 : sim.side_cnt); i++)
		open_dom(i);
	if (share) {
		sim.side[2].dom = sim.side[1].dom;
		sim.side[2].av = sim.side[1].av;
		sim.side[2].hw_tags = sim.side[1].hw_tags;
		SIM_CHECK(!tagrv_rx_open(sim.side[1].dom, true, &sim.shared), "no context");
	}
	places = sim_chance(50) ? TAGRV_PLACES_FIRST : 1 + (uint32_t)sim_below(20);
	SIM_TRACE("  %u places", places);
	for (int i = 0; i < sim.side_cnt; i++) {
		open_engine(i);
		sim.side[i].engine->credit.places = places;
	}
}

/* --- checking --- */

static int side_of(const struct tagrv_addr *addr)
{
	for (int i = 0; i < sim.side_cnt; i++)
		if (tagrv_addr_equal(addr, &sim.side[i].addr))
			return i;
	return -1;
}

/* The credit that one side has is exactly what the other side has promised. */
static void judge_credit(int i, const struct tagrv_peer *peer)
{
	const struct tagrv_credit *credit = &peer->credit;
	int j = side_of(&peer->addr);
	const struct tagrv_peer *back = j >= 0 ? sim_conn_peer(j, i) : NULL;

	SIM_CHECK((uint32_t)(credit->promised + credit->owed) == credit->window,
		  "side %d has promised %u units and owes %u: not %u together", i,
		  (unsigned)credit->promised, (unsigned)credit->owed, (unsigned)credit->window);
	if (sim.broken || !back || !back->lane)
		return;
	SIM_CHECK(back->credit.promised == credit->left,
		  "side %d has %u units, side %d promised %u", i, (unsigned)credit->left, j,
		  (unsigned)back->credit.promised);
}

/* The same of places; and nobody is stopped whose messages have all been received. */
static void judge_places(int i, const struct tagrv_peer *peer)
{
	const struct tagrv_places *places = &peer->hold.places;
	int j = side_of(&peer->addr);
	const struct tagrv_peer *back = j >= 0 ? sim_conn_peer(j, i) : NULL;

	SIM_CHECK(places->promised + places->owed == places->window &&
		  places->window == places->first,
		  "side %d has promised %u places and owes %u: not %u together", i,
		  (unsigned)places->promised, (unsigned)places->owed, (unsigned)places->window);
	SIM_CHECK(!peer->hold.paid, "side %d: %u units paid for a peer", i,
		  (unsigned)peer->hold.paid);
	if (sim.broken || !back || !back->lane)
		return;
	SIM_CHECK(back->hold.places.promised == places->left,
		  "side %d has %u places, side %d promised %u", i, (unsigned)places->left, j,
		  (unsigned)back->hold.places.promised);
}

static void judge_peers(int i)
{
	const struct tagrv_engine *engine = sim.side[i].engine;

	for (size_t p = 0; p < engine->table.cnt; p++) {
		const struct tagrv_peer *peer = engine->table.peers[p];

		SIM_CHECK(!peer->sent && !peer->frags, "side %d: %zu sends, %u fragments left", i,
			  (size_t)peer->sent, (unsigned)peer->frags);
		SIM_CHECK(tagrv_list_empty(&peer->waiting) && tagrv_list_empty(&peer->acks),
			  "side %d keeps what a peer waits for", i);
		if (!peer->lane)
			continue;
		judge_credit(i, peer);
		judge_places(i, peer);
	}
}

static void judge_pool(int i, const char *what, const struct tagrv_pool *pool)
{
	SIM_CHECK(!pool->used, "side %d holds %zu %s", i, pool->used, what);
}

static void judge_engine(int i)
{
	const struct tagrv_engine *engine = sim.side[i].engine;

	judge_pool(i, "sends", &engine->pools.tx_ops);
	judge_pool(i, "parts of rendezvous", &engine->pools.rndvs);
	judge_pool(i, "pieces", &engine->pools.pieces);
	judge_pool(i, "messages", &engine->pools.umsgs);
	judge_pool(i, "transfers", &engine->pools.xfers);
	judge_pool(i, "receives", &engine->rx->ops);
	judge_pool(i, "parts of receives", &engine->rx->slices);
	SIM_CHECK(!engine->credit.frags, "side %d: %u fragments left", i, engine->credit.frags);
	SIM_CHECK(engine->credit.budget == sim.side[i].dom->params.eager_budget / 64,
		  "side %d: %u units of its budget left", i, engine->credit.budget);
	SIM_CHECK(sim.broken || !engine->stats.bad_packets, "side %d refused %" PRIu64 " packets",
		  i, engine->stats.bad_packets);
}

static void judge_counters(void)
{
	uint64_t ok = 0, err = 0;

	for (int i = 0; i < sim.side_cnt; i++) {
		struct sim_side *side = &sim.side[i];
		uint64_t sent = atomic_load(&side->tx_cntr.value) +
				atomic_load(&side->tx_cntr.err);

		SIM_CHECK(sent == side->accepted, "side %d counted %" PRIu64 " of %" PRIu64 " sends",
			  i, sent, side->accepted);
		ok += atomic_load(&side->rx_cntr.value);
		err += atomic_load(&side->rx_cntr.err);
	}
	SIM_CHECK(ok == sim.rx_ok && err == sim.rx_err,
		  "counted %" PRIu64 " receives and %" PRIu64 " errors, not %" PRIu64
		  " and %" PRIu64, ok, err, sim.rx_ok, sim.rx_err);
}

void sim_side_judge(void)
{
	struct sim_op *op;

	if (!tagrv_list_empty(&sim.live)) {
		op = tagrv_container_of(tagrv_list_first(&sim.live), struct sim_op, node);
		sim_fail("operation %u of side %d, kind %d, %zu bytes, never ends", op->number,
			 op->side, (int)op->kind, op->len);
	}
	for (int i = 0; i < sim.side_cnt; i++) {
		judge_peers(i);
		judge_engine(i);
	}
	judge_counters();
}

/* --- closing --- */

/* Only the application's own registrations may be left. */
static void judge_closed(void)
{
	struct tagrv_list *pos;
	size_t own = 0;

	tagrv_list_for_each(&sim.live, pos)
		own += tagrv_container_of(pos, struct sim_op, node)->mem != NULL;
	SIM_CHECK(sim.regs == own, "%zu registrations left", sim.regs - own);
	SIM_CHECK(!sim.links, "%zu connections left", sim.links);
}

void sim_side_close_all(int first)
{
	sim_conn_finish();
	for (int i = 0; i < sim.side_cnt; i++)
		tagrv_engine_close(sim.side[(first + i) % sim.side_cnt].engine);
	if (sim.shared)
		tagrv_rx_close(sim.shared);
	judge_closed();
}

void sim_side_free_all(void)
{
	for (int i = 0; i < sim.side_cnt; i++) {
		struct sim_side *side = &sim.side[i];

		tagrv_compq_fini(&side->tx_cq);
		tagrv_compq_fini(&side->rx_cq);
		tagrv_counter_fini(&side->tx_cntr);
		tagrv_counter_fini(&side->rx_cntr);
		if (!owns(i))
			continue;
		tagrv_avtab_fini(side->av);
		side->dom->dev_cnt = 0;
		tagrv_dom_close(side->dom);
	}
}
