/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What endpoints show to viewers: see show.h.
 *
 * Queues are counted element by element, at most TAGRV_SHOW_STEPS of them for all endpoints of a
 * domain: a viewer must not hold up a process that has thousands of peers or sends.
 */
#include "engine/show.h"

#include "core/clock.h"
#include "object/lane.h"
#include "object/recv.h"
#include "object/tags.h"

#define STEPS_LEAST	256	/* of each endpoint */
#define PEER_STEPS	8	/* a peer has so many lines of memory to look at */
#define LATELY_MS	10000	/* a viewer that has asked so long ago is gone */
#define PAUSES		20	/* sleeps are preceded by 1/20 of the time at most */

/* What is left of the steps. */
struct walk {
	struct tagrv_board_levels *levels;
	unsigned steps;
	bool	cut;
};

static bool may_take(struct walk *walk, unsigned steps)
{
	if (walk->steps >= steps) {
		walk->steps -= steps;
		return true;
	}
	walk->cut = true;
	return false;
}

static bool may_step(struct walk *walk)
{
	return may_take(walk, 1);
}

static uint64_t length(struct walk *walk, const struct tagrv_list *list)
{
	const struct tagrv_list *node;
	uint64_t cnt = 0;

	tagrv_list_for_each(list, node) {
		if (!may_step(walk))
			break;
		cnt++;
	}
	return cnt;
}

/* ---- peers and their queues ---- */

static void add_queues(struct walk *walk, const struct tagrv_peer *peer)
{
	struct tagrv_board_levels *to = walk->levels;

	to->sends_queued += length(walk, &peer->pending);
	to->sends_under_way += peer->sent;
	to->sends_awaiting_peer += length(walk, &peer->waiting) + peer->rma.counted;
	to->sends_awaiting_room += length(walk, &peer->writers);
	to->receives_reading += length(walk, &peer->readers);
	to->receives_to_grant += length(walk, &peer->to_grant);
	to->receives_awaiting_peer += length(walk, &peer->granted);
	to->acks_queued += peer->ack_cnt;
}

static void add_connection(struct tagrv_board_levels *to, const struct tagrv_peer *peer)
{
	switch (peer->state) {
	case TAGRV_PEER_CONNECTING:
	case TAGRV_PEER_BOUND:
		to->waiting++;
		break;
	case TAGRV_PEER_READY:
		to->up++;
		break;
	case TAGRV_PEER_LEAVING:
	case TAGRV_PEER_PARTING:
		to->parting++;
		break;
	}
	if (peer->lane) {
		to->credit_bytes += (uint64_t) peer->credit.left * TAGRV_CREDIT_UNIT;
		to->promised_bytes += (uint64_t) peer->credit.promised * TAGRV_CREDIT_UNIT;
		to->owed_bytes += (uint64_t) peer->credit.owed * TAGRV_CREDIT_UNIT;
		to->waiting_for_paths += peer->lane->renew_since != 0;
	}
}

static void add_peers(struct walk *walk, const struct tagrv_engine *engine)
{
	walk->levels->peers = engine->table.cnt;
	for (size_t i = 0; i < engine->table.cnt && may_take(walk, PEER_STEPS); i++) {
		add_connection(walk->levels, engine->table.peers[i]);
		add_queues(walk, engine->table.peers[i]);
	}
}

/* ---- receives and kept messages ---- */

/* For tagrv_match_find(): true ends the walk. */
static bool add_posted(const struct tagrv_match_recv *record, tagrv_match_id id, void *arg)
{
	struct walk *walk = arg;

	(void) id;
	if (!may_step(walk))
		return true;
	if (tagrv_recv_of_const(record)->space != TAGRV_SPACE_TAGGED)
		walk->levels->posted_untagged++;
	else if (tagrv_match_source(record) == TAGRV_MATCH_ANY)
		walk->levels->posted_from_any++;
	else
		walk->levels->posted_from_one++;
	return false;
}

static uint64_t kept_bytes(const struct tagrv_engine *engine)
{
	uint64_t sum = engine->pools.umsgs.used *
		       (sizeof(struct tagrv_umsg) + TAGRV_CACHE_LINE);

	for (unsigned i = 0; i < TAGRV_BUF_INJECT; i++)
		sum += engine->pools.bufs[i].used * engine->pools.buf_size[i];
	return sum;
}

static void add_matching(struct walk *walk, const struct tagrv_engine *engine,
			 struct tagrv_board_counters *counters)
{
	struct tagrv_board_levels *to = walk->levels;
	struct tagrv_match_stats match;

	tagrv_match_get_stats(engine->match, &match);
	(void) tagrv_match_find(engine->match, add_posted, walk);
	to->posted = match.posted;
	to->posted_peak = match.posted_peak;
	to->posted_classes = match.posted_classes;
	to->unexpected = match.unexpected;
	to->unexpected_peak = match.unexpected_peak;
	to->unexpected_bytes = kept_bytes(engine);
	to->budget_bytes = (uint64_t) engine->credit.budget * TAGRV_CREDIT_UNIT;
	to->granted_fragments = engine->credit.frags;
	counters->searches = match.searches;
	counters->probes = match.probes;
}

static void add_list(const struct tagrv_engine *engine, struct tagrv_board_record *to)
{
	struct tagrv_tags_counts counts;

	if (!engine->tags)
		return;
	tagrv_tags_get_counts(engine->tags, &counts);
	to->flags |= TAGRV_BOARD_LISTED;
	to->levels.listed = counts.listed;
	to->levels.list_size = counts.entries;
	to->levels.listed_soft = counts.soft;
	to->counters.listed_matched = counts.offload.consumed;
	to->counters.listed_unexpected = counts.unexpected;
}

/* ---- one endpoint ---- */

static void add_onesided(const struct tagrv_engine *engine, struct tagrv_board_counters *to)
{
	const struct tagrv_rma_sums *tx = &engine->stats.rma_tx, *rx = &engine->stats.rma_rx;

	to->onesided_tx = tagrv_rma_sum_ops(tx);
	to->onesided_rx = tagrv_rma_sum_ops(rx);
	to->onesided_views = engine->stats.rma_views;
	to->onesided_refused = engine->stats.rma_refused;
	to->onesided_writes_tx = tx->ops[TAGRV_RMA_WRITE];
	to->onesided_writes_rx = rx->ops[TAGRV_RMA_WRITE];
	to->onesided_write_bytes_tx = tx->bytes[TAGRV_RMA_WRITE];
	to->onesided_write_bytes_rx = rx->bytes[TAGRV_RMA_WRITE];
	to->onesided_reads_tx = tx->ops[TAGRV_RMA_READ];
	to->onesided_reads_rx = rx->ops[TAGRV_RMA_READ];
	to->onesided_read_bytes_tx = tx->bytes[TAGRV_RMA_READ];
	to->onesided_read_bytes_rx = rx->bytes[TAGRV_RMA_READ];
	to->onesided_atomics_tx = tx->ops[TAGRV_RMA_ATOMIC];
	to->onesided_atomics_rx = rx->ops[TAGRV_RMA_ATOMIC];
	to->onesided_atomic_bytes_tx = tx->bytes[TAGRV_RMA_ATOMIC];
	to->onesided_atomic_bytes_rx = rx->bytes[TAGRV_RMA_ATOMIC];
}

static void add_counters(const struct tagrv_engine *engine, struct tagrv_board_counters *to)
{
	const uint64_t *tx = engine->stats.moved_tx, *rx = engine->stats.moved_rx;

	to->eager_tx = engine->stats.eager_tx;
	to->eager_rx = engine->stats.eager_rx;
	to->announced_tx = engine->stats.rndv_tx;
	to->announced_rx = engine->stats.rndv_rx;
	to->batched_tx = engine->stats.batched_tx;
	to->batched_rx = engine->stats.batched_rx;
	to->prepared_tx = engine->stats.prepared_tx;
	to->no_credit_tx = engine->stats.no_credit;
	to->buffered_tx = engine->stats.buffered;
	to->read_tx = tx[TAGRV_PROTO_RNDV_READ];
	to->read_rx = rx[TAGRV_PROTO_RNDV_READ];
	to->write_tx = tx[TAGRV_PROTO_RNDV_WRITE];
	to->write_rx = rx[TAGRV_PROTO_RNDV_WRITE];
	to->copy_tx = tx[TAGRV_PROTO_RNDV_COPY];
	to->copy_rx = rx[TAGRV_PROTO_RNDV_COPY];
	to->pipeline_tx = tx[TAGRV_PROTO_RNDV_PIPE];
	to->pipeline_rx = rx[TAGRV_PROTO_RNDV_PIPE];
	to->long_bytes_tx = engine->stats.moved_bytes_tx;
	to->long_bytes_rx = engine->stats.moved_bytes_rx;
	to->acks = engine->stats.fin_tx;
	to->ack_packets = engine->stats.fin_packets;
	to->parted = engine->stats.parted;
	to->rejoined = engine->stats.rejoined;
	to->bad_packets = engine->stats.bad_packets;
	to->lost_injects = engine->stats.lost_injects;
}

static void add_rails(const struct tagrv_engine *engine, struct tagrv_board_record *to)
{
	static_assert(TAGRV_RAILS_MAX <= TAGRV_BOARD_RAILS, "all rails have a place");

	for (size_t i = 0; i < engine->rails.cnt; i++) {
		const struct tagrv_rail *rail = &engine->rails.all[i];
		struct tagrv_board_rail *shown = &to->rails[to->rail_cnt++];

		tagrv_board_text(shown->xport, sizeof(shown->xport), rail->xport->ops->name);
		tagrv_board_text(shown->device, sizeof(shown->device), rail->xport->dev->name);
		shown->links = rail->lanes;
		shown->connections = rail->ups;
		shown->lost = (uint32_t) -rail->fatal;
	}
}

void tagrv_engine_show(struct tagrv_engine *engine, unsigned steps, struct tagrv_board_record *to)
{
	const struct tagrv_device *dev = engine->dom->dev ? engine->dom->dev : engine->dom->loop;
	struct walk walk = { .levels = &to->levels, .steps = steps };
	char addr[TAGRV_ADDR_STRLEN];

	tagrv_assert_locked(engine->dom);
	*to = (struct tagrv_board_record) {
		.number = engine->show.number,
		.flags = engine->enabled ? TAGRV_BOARD_ENABLED : 0,
	};
	if (engine->rx->shared)
		to->flags |= TAGRV_BOARD_SHARED_RX;
	tagrv_board_text(to->name, sizeof(to->name),
			 tagrv_addr_str(&engine->name, addr, sizeof(addr)));
	tagrv_board_text(to->device, sizeof(to->device), dev->name);
	add_rails(engine, to);
	add_counters(engine, &to->counters);
	add_onesided(engine, &to->counters);
	add_peers(&walk, engine);
	add_matching(&walk, engine, &to->counters);
	add_list(engine, to);
	if (walk.cut)
		to->flags |= TAGRV_BOARD_CUT;
}

/* ---- all of them ---- */

/* What each endpoint may take of the steps. */
static unsigned share_of_steps(const struct tagrv_dom *dom)
{
	const struct tagrv_list *node;
	unsigned cnt = 0;

	tagrv_list_for_each(&dom->engines, node)
		cnt++;
	return TAGRV_MAX(TAGRV_SHOW_STEPS / TAGRV_MAX(cnt, 1u), (unsigned) STEPS_LEAST);
}

static void show_all(struct tagrv_dom *dom, uint64_t asked)
{
	uint64_t begin = tagrv_clock_ns(), end;
	unsigned steps = share_of_steps(dom);
	struct tagrv_board_record record;
	struct tagrv_list *node;

	tagrv_list_for_each(&dom->engines, node) {
		struct tagrv_engine *engine =
			tagrv_container_of(node, struct tagrv_engine, dom_node);

		if (engine->show.slot == TAGRV_BOARD_NO_SLOT)
			continue;
		tagrv_engine_show(engine, steps, &record);
		record.ns = begin;
		record.answers = asked;
		tagrv_board_write(dom->show.board, engine->show.slot, &record);
	}
	end = tagrv_clock_ns();
	dom->show.pause = end + PAUSES * (end - begin);
}

void tagrv_dom_show(struct tagrv_dom *dom)
{
	uint64_t asked;

	tagrv_assert_locked(dom);
	if (!dom->show.board)
		return;
	asked = tagrv_board_asked(dom->show.board);
	if (asked != dom->show.asked) {
		dom->show.asked = asked;
		dom->show.until = tagrv_clock_ms() + LATELY_MS;
		show_all(dom, asked);
	} else if (dom->show.until && tagrv_clock_ms() > dom->show.until) {
		dom->show.until = 0;
	}
}

void tagrv_dom_show_now(struct tagrv_dom *dom)
{
	tagrv_dom_show(dom);
	/* A process that sleeps a thousand times a second shall not do so each time. */
	if (dom->show.until && tagrv_clock_ns() >= dom->show.pause)
		show_all(dom, dom->show.asked);
}
