/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Paths of a joined link fail, over scripted devices: every packet arrives once, in
 * order, and every operation ends once and well, as long as a path is left or a new
 * link comes.
 *
 * A queue pair that breaks has or has not carried out what it is asked for: both happen
 * here, as with a real device, whose acknowledgement may be lost.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/xport/conformance.h"
#include "xport/multi/multi_priv.h"
#include "xport/verbs/verbs_priv.h"

#define SIZE	(256u << 10)	/* bytes of a region */
#define PIECE	4096u

/* What one end has sent, and what it has got. */
struct flow {
	struct end *end;
	uint64_t sent, got;
	unsigned renews, downs;
	bool	renew, down;
	struct tagrv_link *fresh;	/* which the end has not got yet */
	struct region own, far;	/* 'far' is memory of the other end */
};

static struct pair pair;
static struct flow flows[2];
static unsigned seed;

static unsigned draw(unsigned below)
{
	return (unsigned) rand_r(&seed) % below;
}

/* ---- packets ---- */

static void on_numbered(struct end *end, const void *data, size_t len)
{
	struct flow *flow = end->arg;
	uint64_t nr;

	cr_assert_geq(len, sizeof(nr));
	memcpy(&nr, data, sizeof(nr));
	cr_assert_eq(nr >> 8, flow->got, "packet %llu came, %llu was due",
		     (unsigned long long) nr >> 8, (unsigned long long) flow->got);
	for (size_t i = sizeof(nr); i < len; i++)
		cr_assert_eq(((const uint8_t *) data)[i], (uint8_t) (flow->got + i));
	flow->got++;
}

/* Sends the next packet; false: there is no room. */
static bool send_numbered(struct flow *flow, size_t len, struct op *op, bool brief)
{
	const struct tagrv_xport_ops *ops = flow->end->xport->ops;
	/* The first byte is none of ours. */
	uint64_t nr = flow->sent << 8 | 1;
	uint8_t buf[8192];
	struct iovec iov = { buf, len };
	uint64_t hdr[TAGRV_SHORT_WORDS];
	int ret;

	memcpy(buf, &nr, sizeof(nr));
	for (size_t i = sizeof(nr); i < len; i++)
		buf[i] = (uint8_t) (flow->sent + i);
	if (brief) {
		memcpy(hdr, buf, sizeof(hdr));
		ret = ops->send_short(flow->end->link, hdr, buf + sizeof(hdr),
				      len - sizeof(hdr));
	} else {
		if (op)
			op->in_call = true;
		ret = ops->send(flow->end->link, &iov, 1, 0, op ? &op->done : NULL);
		if (op)
			op->in_call = false;
	}
	cr_assert(!ret || ret == -FI_EAGAIN, "%d", ret);
	flow->sent += !ret;
	return !ret;
}

/* ---- a pair ---- */

static void on_renew(struct tagrv_sink *sink, void *ctx, bool down)
{
	struct end *end = ctx;
	struct flow *flow = end->arg;

	cr_assert_eq(&end->sink, sink);
	flow->renews++;
	flow->downs += down;
	flow->renew = true;
	flow->down |= down;
}

static void open_all(enum pair_kind kind, bool renews)
{
	pair_open(&pair, kind);
	for (int i = 0; i < 2; i++) {
		struct end *end = &pair.ends[i];

		flows[i] = (struct flow) { .end = end };
		end->arg = &flows[i];
		end->forget = true;
		end->on_packet = on_numbered;
		if (renews)
			end->sink.link_renew = on_renew;
	}
	pair_connect(&pair);
	for (int i = 0; i < 2; i++) {
		region_open(&flows[i].own, flows[i].end, SIZE, TAGRV_MEM_STORE);
		region_open(&flows[!i].far, flows[i].end, SIZE,
			    TAGRV_MEM_REMOTE | TAGRV_MEM_STORE);
		/* Reads use the first half, writes the second. */
		fill_pattern(flows[!i].far.data, (unsigned) i, SIZE / 2);
		fill_pattern(flows[i].own.data + SIZE / 2, 7, SIZE / 2);
	}
}

static void close_all(void)
{
	for (int i = 0; i < 2; i++) {
		region_close(&flows[i].own);
		region_close(&flows[i].far);
	}
	pair_close(&pair);
}

static struct multi_link *link_of(int i)
{
	return multi_link_of(flows[i].end->link);
}

/* Breaks the path of a rail at one end, if there is one. */
static void break_path(int i, unsigned rail)
{
	struct multi_path *path = multi_path_up(link_of(i), rail);

	if (path)
		fake_verbs_break_qp(verbs_link_of(path->link)->qp);
}

/*
 * What wireup does: makes a new link for each end. One that an end has not got when the
 * next ones are made never comes.
 */
static void make_fresh(void)
{
	const struct tagrv_xport_ops *ops = pair.a->xport->ops;

	for (int i = 0; i < 2; i++)
		if (flows[i].fresh)
			ops->link_discard(flows[i].fresh);
	pair_link(&pair, &flows[0].fresh, &flows[1].fresh);
}

/* The end gets its new link, if there is one. */
static void take_fresh(int i)
{
	struct tagrv_link *link = flows[i].end->link, *fresh = flows[i].fresh;

	if (!fresh)
		return;
	flows[i].fresh = NULL;
	cr_assert_eq(link->xport->ops->link_resume(link, fresh), 0);
	flows[i].renew = flows[i].down = false;
}

static void resume(void)
{
	make_fresh();
	take_fresh(0);
	take_fresh(1);
}

static bool is_calm(void)
{
	for (int i = 0; i < 2; i++)
		if (tagrv_list_linked(&link_of(i)->busy_node) || link_of(i)->down)
			return false;
	return true;
}

#define UNTIL(cond) PAIR_UNTIL(&pair, cond)

/*
 * End a loses all paths while it sends. End b would notice only by a packet of its own, which
 * a permit is not always, so that it sends one, too.
 */
static void lose_all_paths(struct op *op)
{
	fake_verbs_hold(true);
	cr_assert(send_numbered(&flows[0], 64, op, false));
	cr_assert(send_numbered(&flows[1], 64, NULL, false));
	break_path(0, 0);
	break_path(0, 1);
	fake_verbs_hold(false);
	UNTIL(flows[0].down && flows[1].down);
}

/* ---- cases ---- */

Test(multi_fail, packets_go_on_by_the_other_rail)
{
	open_all(PAIR_MULTI, false);
	for (int i = 0; i < 20; i++)
		UNTIL(send_numbered(&flows[0], 100, NULL, false));
	break_path(0, (unsigned) link_of(0)->env);
	for (int i = 0; i < 20; i++)
		UNTIL(send_numbered(&flows[0], 100, NULL, false));
	UNTIL(flows[1].got == 40);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	UNTIL(is_calm());
	close_all();
}

/* The device has sent the packet, but its acknowledgement does not come. */
Test(multi_fail, packet_that_has_arrived_is_not_sent_again)
{
	struct op op;

	open_all(PAIR_MULTI, false);
	op_init(&op);
	fake_verbs_fail_wr(1, IBV_WC_RETRY_EXC_ERR);
	cr_assert(send_numbered(&flows[0], 64, &op, false));
	UNTIL(op.calls);
	cr_assert_eq(op.status, 0);
	cr_assert_eq(multi_xport_of(pair.a->xport)->stats.resent, 0);
	UNTIL(send_numbered(&flows[0], 64, NULL, false));
	UNTIL(flows[1].got == 2);
	close_all();
}

Test(multi_fail, packet_that_has_not_arrived_is_sent_again)
{
	struct op op;

	open_all(PAIR_MULTI, false);
	op_init(&op);
	fake_verbs_hold(true);
	cr_assert(send_numbered(&flows[0], 64, &op, false));
	break_path(0, (unsigned) link_of(0)->env);
	fake_verbs_hold(false);
	UNTIL(op.calls);
	cr_assert_eq(op.status, 0);
	cr_assert_eq(multi_xport_of(pair.a->xport)->stats.resent, 1);
	cr_assert_eq(flows[1].got, 1);
	close_all();
}

Test(multi_fail, reads_and_writes_take_another_rail)
{
	struct op ops[16];

	open_all(PAIR_MULTI, false);
	fake_verbs_hold(true);
	for (unsigned i = 0; i < 16; i++) {
		op_init(&ops[i]);
		if (i % 2)
			cr_assert_eq(put(pair.a, &flows[0].far, &flows[0].own,
					 i * PIECE, 0, &ops[i]), 0);
		else if (get(pair.a, &flows[0].own, &flows[0].far, i * PIECE,
			     PIECE, &ops[i]))
			ops[i].calls = 1;
	}
	break_path(0, (unsigned) link_of(0)->env);
	fake_verbs_hold(false);
	for (unsigned i = 0; i < 16; i++) {
		UNTIL(ops[i].calls);
		cr_assert_eq(ops[i].status, 0);
	}
	cr_assert_arr_eq(flows[0].own.data, flows[0].far.data, PIECE);
	close_all();
}

/* Memory of b that it could not register with its first rail. */
static void open_half(struct region *half)
{
	fake_verbs_fail_reg(1, EIO);
	region_open(half, pair.b, SIZE, TAGRV_MEM_REMOTE);
	cr_assert_null(multi_mem_of(half->mem)->mem[0]);
	cr_assert_not_null(multi_mem_of(half->mem)->mem[1]);
}

Test(multi_fail, rail_without_the_peers_memory_is_left_out)
{
	struct region half;
	struct op op;

	open_all(PAIR_MULTI, false);
	open_half(&half);
	for (unsigned i = 0; i < 64; i++) {
		op_init(&op);
		UNTIL(!(i % 2 ? put(pair.a, &half, &flows[0].own, i * PIECE, PIECE,
				    &op) :
				get(pair.a, &flows[0].own, &half, i * PIECE, PIECE,
				    &op)));
		UNTIL(op.calls);
		cr_assert_eq(op.status, 0, "%s", fi_strerror(-op.status));
	}
	cr_assert_eq(multi_xport_of(pair.a->xport)->stats.failed, 0);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	region_close(&half);
	close_all();
}

/* The rail that has it is lost: it may come back, but nobody waits for ever. */
Test(multi_fail, memory_without_a_rail_is_given_up)
{
	struct multi_xport *xp;
	struct region half;
	unsigned rail = 0;
	struct op op;

	open_all(PAIR_MULTI, true);
	open_half(&half);
	xp = multi_xport_of(pair.a->xport);
	xp->patience = 1000000;
	while (link_of(0)->pair_of[rail] != 1)
		rail++;
	op_init(&op);
	UNTIL(!get(pair.a, &flows[0].own, &half, 0, PIECE, &op));
	UNTIL(op.calls);
	/* One is under way when its rail fails. */
	op_init(&op);
	fake_verbs_hold(true);
	cr_assert_eq(get(pair.a, &flows[0].own, &half, 0, PIECE, &op), 0);
	tagrv_multi_path_fail(link_of(0)->paths[rail], -FI_ETIMEDOUT);
	fake_verbs_hold(false);
	UNTIL(!link_of(0)->paths[rail] && link_of(0)->heard);
	for (int i = 0; i < 1000; i++) {
		pair_progress(&pair);
		cr_assert_eq(get(pair.a, &flows[0].own, &half, 0, PIECE, &op),
			     -FI_EAGAIN);
	}
	cr_assert_eq(op.calls, 0);
	xp->patience = 0;
	UNTIL(op.calls);
	cr_assert_eq(op.status, -FI_EHOSTUNREACH);
	op_init(&op);
	cr_assert_eq(get(pair.a, &flows[0].own, &half, 0, PIECE, &op),
		     -FI_EHOSTUNREACH);
	cr_assert_eq(pair.a->errors, 0);
	/* Other memory is moved as before. */
	op_init(&op);
	UNTIL(!get(pair.a, &flows[0].own, &flows[0].far, 0, PIECE, &op));
	UNTIL(op.calls);
	cr_assert_eq(op.status, 0);
	resume();
	op_init(&op);
	UNTIL(!get(pair.a, &flows[0].own, &half, 0, PIECE, &op));
	UNTIL(op.calls);
	cr_assert_eq(op.status, 0);
	region_close(&half);
	close_all();
}

/* Not one rail after the other is broken by a read that no rail can do. */
Test(multi_fail, error_of_an_operation_fails_the_link)
{
	struct region none;
	struct op op;

	open_all(PAIR_MULTI, false);
	region_open(&none, pair.b, PIECE, TAGRV_MEM_STORE);
	op_init(&op);
	cr_assert_eq(get(pair.a, &flows[0].own, &none, 0, PIECE, &op), 0);
	UNTIL(pair.a->errors);
	cr_assert_eq(pair.a->error_status, -FI_EACCES);
	cr_assert_eq(pair.a->errors, 1);
	region_close(&none);
	close_all();
}

Test(multi_fail, without_a_path_the_link_fails)
{
	open_all(PAIR_MULTI, false);
	fake_verbs_hold(true);
	cr_assert(send_numbered(&flows[0], 64, NULL, false));
	break_path(0, 0);
	break_path(0, 1);
	fake_verbs_hold(false);
	UNTIL(pair.a->errors);
	cr_assert(multi_is_path_error(pair.a->error_status));
	close_all();
}

Test(multi_fail, without_a_path_the_link_waits_for_a_new_one)
{
	struct op op;

	open_all(PAIR_MULTI, true);
	op_init(&op);
	cr_assert(send_numbered(&flows[0], 64, NULL, false));
	lose_all_paths(&op);
	cr_assert_not(send_numbered(&flows[0], 64, NULL, false));
	cr_assert_eq(op.calls, 0);
	resume();
	UNTIL(op.calls);
	cr_assert_eq(op.status, 0);
	UNTIL(send_numbered(&flows[0], 64, NULL, false));
	UNTIL(flows[1].got == 3 && flows[0].got == 1);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	close_all();
}

static void fail_paths(int i)
{
	for (unsigned r = 0; r < MULTI_RAILS; r++) {
		struct multi_path *path = multi_path_up(link_of(i), r);

		if (path)
			tagrv_multi_path_fail(path, -FI_ETIMEDOUT);
	}
}

/* The peer's SYNC never comes by the new paths, since they fail before. */
static void resume_in_vain(void)
{
	resume();
	fail_paths(0);
}

/* Each renewal succeeds, and none helps: that ends some time. */
Test(multi_fail, new_paths_that_all_fail_are_not_tried_for_ever)
{
	struct multi_xport *xp;

	open_all(PAIR_MULTI, true);
	xp = multi_xport_of(pair.a->xport);
	xp->patience = 0;
	for (int i = 0; i < 3; i++) {
		/* One that was heard since waits as long as ever. */
		fail_paths(0);
		fail_paths(1);
		UNTIL(flows[0].down && flows[1].down);
		resume();
		UNTIL(is_calm());
	}
	xp->patience = 1000000;
	fail_paths(0);
	UNTIL(flows[0].down);
	for (int i = 0; i < 5; i++) {
		resume_in_vain();
		UNTIL(flows[0].down || link_of(0)->error);
	}
	cr_assert_eq(pair.a->errors, 0);
	xp->patience = 0;
	resume_in_vain();
	UNTIL(pair.a->errors);
	cr_assert_eq(pair.a->error_status, -FI_EHOSTUNREACH);
	close_all();
}

/* Nothing goes on, and nobody calls: what is under way ends with the link. */
Test(multi_fail, link_that_is_down_can_be_closed)
{
	struct op sent, got;

	open_all(PAIR_MULTI, true);
	op_init(&sent);
	op_init(&got);
	fake_verbs_hold(true);
	cr_assert(send_numbered(&flows[0], 64, &sent, false));
	cr_assert_eq(get(pair.a, &flows[0].own, &flows[0].far, 0, PIECE, &got), 0);
	break_path(0, 0);
	break_path(0, 1);
	fake_verbs_hold(false);
	UNTIL(flows[0].down);
	end_close_link(pair.a);
	cr_assert_eq(sent.calls, 1);
	cr_assert_eq(got.calls, 1);
	cr_assert_lt(sent.status, 0);
	cr_assert_lt(got.status, 0);
	close_all();
}

/* A path that is lost at one end only is given up by the other end, too, by its word. */
Test(multi_fail, other_end_hears_of_it)
{
	unsigned rail;

	open_all(PAIR_MULTI, false);
	rail = (unsigned) link_of(0)->env;
	UNTIL(send_numbered(&flows[0], 64, NULL, false));
	UNTIL(flows[1].got == 1);
	tagrv_multi_path_fail(link_of(0)->paths[rail], -FI_ETIMEDOUT);
	UNTIL(is_calm() && !link_of(0)->paths[rail]);
	UNTIL(!link_of(1)->paths[link_of(0)->pair_of[rail]]);
	close_all();
}

/* ---- renewals ---- */

/* Loses the rail that carries no packets; returns its number at the first end. */
static unsigned lose_rail(void)
{
	unsigned rail = !link_of(0)->env;

	UNTIL(send_numbered(&flows[0], 64, NULL, false));
	tagrv_multi_path_fail(link_of(0)->paths[rail], -FI_ETIMEDOUT);
	UNTIL(is_calm() && multi_up_cnt(link_of(0)) == 1 &&
	      multi_up_cnt(link_of(1)) == 1);
	return rail;
}

/* Sends a packet in each of so many passes. Returns in how many there was no room. */
static unsigned count_refused(unsigned passes)
{
	unsigned refused = 0;

	while (passes--) {
		for (int i = 0; i < 2; i++)
			refused += !send_numbered(&flows[i], 64, NULL, false);
		pair_progress(&pair);
	}
	return refused;
}

static bool has_come(void)
{
	return flows[0].got == flows[1].sent && flows[1].got == flows[0].sent;
}

/*
 * While an end goes over to new paths it may not send until the old ones are closed on
 * both sides, for which their device gets its time, and then in so many passes.
 */
#define PAUSE	8u

/* Sends in each pass until the ends have gone over; returns in how many there was no room. */
static unsigned count_pause(void)
{
	double until = pair_work() + 10;
	unsigned refused = 0;

	while (!link_of(0)->gen || !link_of(1)->gen || link_of(0)->syncing ||
	       link_of(1)->syncing) {
		bool closing = link_of(0)->old_open || link_of(1)->old_open;
		unsigned now = count_refused(1);

		refused += closing ? 0 : now;
		cr_assert_lt(pair_work(), until);
	}
	return refused;
}

/* The peer's process may be busy with other things for long after its link was made. */
Test(multi_renew, paths_that_work_go_on_until_the_peer_has_new_ones)
{
	unsigned refused;
	struct op op;

	for (int first = 0; first < 2; first++) {
		open_all(first ? PAIR_MULTI : PAIR_MULTI_RQ, true);
		lose_rail();
		make_fresh();
		take_fresh(first);
		cr_assert_eq(count_refused(300), 0);
		op_init(&op);
		cr_assert_eq(get(pair.a, &flows[0].own, &flows[0].far, 0, PIECE, &op),
			     0);
		UNTIL(op.calls);
		cr_assert_eq(op.status, 0);
		take_fresh(!first);
		refused = count_pause();
		cr_assert_leq(refused, 2 * PAUSE, "%u times no room", refused);
		UNTIL(is_calm() && has_come());
		for (int i = 0; i < 2; i++) {
			cr_assert_eq(multi_up_cnt(link_of(i)), 2);
			cr_assert_eq(multi_xport_of(flows[i].end->xport)->stats.resumed,
				     1);
			cr_assert_eq(flows[i].renews, 0);
		}
		close_all();
	}
}

static void break_next(unsigned rail)
{
	for (int i = 0; i < 2; i++) {
		struct multi_path *path = link_of(i)->next[rail];

		if (i)
			path = link_of(1)->next[link_of(0)->next_pair[rail]];
		fake_verbs_break_qp(verbs_link_of(path->link)->qp);
	}
}

/* A rail that is still lost costs nothing but the attempt. */
Test(multi_renew, one_that_brings_nothing_disturbs_nothing)
{
	unsigned rail;

	open_all(PAIR_MULTI, true);
	rail = lose_rail();
	for (int n = 0; n < 3; n++) {
		resume();
		break_next(rail);
		cr_assert_eq(count_refused(300), 0);
	}
	UNTIL(is_calm());
	cr_assert_eq(link_of(0)->gen + link_of(1)->gen, 0);
	/* What it has brought is there when the path in use is lost. */
	break_path(0, (unsigned) link_of(0)->env);
	UNTIL(send_numbered(&flows[0], 64, NULL, false) && link_of(0)->gen == 3);
	UNTIL(send_numbered(&flows[0], 64, NULL, false) && is_calm());
	cr_assert_eq(flows[0].downs + flows[1].downs, 0);
	resume();
	UNTIL(is_calm() && multi_up_cnt(link_of(0)) == 2 &&
	      multi_up_cnt(link_of(1)) == 2);
	UNTIL(has_come());
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	close_all();
}

/* An end that sleeps gets only the last one of several. */
Test(multi_renew, some_may_be_skipped)
{
	for (int first = 0; first < 2; first++) {
		open_all(PAIR_MULTI, true);
		lose_rail();
		for (int n = 0; n < 4; n++) {
			make_fresh();
			take_fresh(first);
			cr_assert_eq(count_refused(20), 0);
		}
		/* It has gone over by itself, to a link that the other end skips. */
		tagrv_multi_go_over(link_of(first));
		count_refused(20);
		make_fresh();
		take_fresh(first);
		count_refused(20);
		take_fresh(!first);
		UNTIL(is_calm() && multi_up_cnt(link_of(0)) == 2 &&
		      multi_up_cnt(link_of(1)) == 2);
		UNTIL(has_come());
		cr_assert_eq(link_of(first)->old_open, 0);
		cr_assert_eq(pair.a->errors + pair.b->errors, 0);
		close_all();
	}
}

/*
 * The other end has skipped the link to which this one has gone over, is idle, and has no
 * cause of its own to go over to the next.
 */
Test(multi_renew, end_that_went_over_alone_goes_on)
{
	for (int first = 0; first < 2; first++) {
		open_all(PAIR_MULTI, true);
		make_fresh();
		take_fresh(first);
		tagrv_multi_go_over(link_of(first));
		/* The other end's devices have got its word; nobody will read it. */
		UNTIL(link_of(first)->sync_sent == 3);
		for (int n = 0; n < 100; n++)
			pair_progress(&pair);
		make_fresh();
		take_fresh(first);
		take_fresh(!first);
		UNTIL(!link_of(first)->syncing && !link_of(!first)->syncing);
		UNTIL(is_calm());
		UNTIL(send_numbered(&flows[first], 64, NULL, false));
		UNTIL(has_come());
		cr_assert_eq(flows[0].downs + flows[1].downs, 0);
		close_all();
	}
}

/* Leaves an end no record for packets of our own; returns those that it had. */
static struct tagrv_pool lack_owns(int i)
{
	struct tagrv_pool *owns = &multi_xport_of(flows[i].end->xport)->owns;
	struct tagrv_pool had = *owns;

	cr_assert_eq(owns->used, 0);
	owns->free_head = NULL;
	owns->max = owns->chunk_cnt * owns->chunk_objs;
	return had;
}

/* It heard the peer's SYNC while there was no room for its own, which the peer awaits. */
Test(multi_renew, sync_that_found_no_room_is_said_later)
{
	struct tagrv_pool *owns, had;

	open_all(PAIR_MULTI, true);
	cr_assert(send_numbered(&flows[0], 64, NULL, false));
	lose_all_paths(NULL);
	owns = &multi_xport_of(flows[0].end->xport)->owns;
	UNTIL(!owns->used);
	had = lack_owns(0);
	resume();
	UNTIL(link_of(0)->sync_heard);
	for (int i = 0; i < 10; i++)
		pair_progress(&pair);
	cr_assert_eq(link_of(0)->sync_sent, 0);
	*owns = had;
	UNTIL(send_numbered(&flows[1], 100, NULL, false));
	UNTIL(send_numbered(&flows[0], 100, NULL, false));
	UNTIL(flows[0].got == 2 && flows[1].got == 3);
	UNTIL(is_calm());
	close_all();
}

static void port_is_back(unsigned dev)
{
	int port = 1;

	fake_verbs_event(dev, IBV_EVENT_PORT_ACTIVE, &port);
	pair.a->dev->ops->dev_event(pair.a->dev);
	for (int n = 0; n < 10; n++)
		pair_progress(&pair);
}

Test(multi_renew, lost_rail_is_asked_for_when_its_port_is_back)
{
	unsigned rail;

	open_all(PAIR_MULTI, true);
	port_is_back(0);
	cr_assert_eq(flows[0].renews, 0, "nothing is lost");
	rail = lose_rail();
	cr_assert_eq(flows[0].renews, 0, "nothing has changed");
	port_is_back(rail);
	cr_assert_eq(flows[0].renews, 1);
	cr_assert_eq(flows[0].downs, 0);
	/* An attempt that is under way may have to wait: it is urged. */
	break_path(0, (unsigned) link_of(0)->env);
	UNTIL(send_numbered(&flows[0], 64, NULL, false) || flows[0].down);
	UNTIL(flows[0].down);
	port_is_back(rail);
	cr_assert_eq(flows[0].downs, 2);
	cr_assert_eq(flows[0].renews, 3);
	resume();
	UNTIL(is_calm() && multi_up_cnt(link_of(0)) == 2);
	port_is_back(rail);
	cr_assert_eq(flows[0].renews, 3);
	close_all();
}

/* ---- at random ---- */

struct random_op {
	struct op op;
	bool	busy, is_get, moves;
	unsigned offset;
};

#define OPS	32

static struct random_op random_ops[2][OPS];

static void end_random(int i, struct random_op *r)
{
	if (!r->busy || !r->op.calls)
		return;
	cr_assert_eq(r->op.calls, 1);
	cr_assert_eq(r->op.status, 0, "%s", fi_strerror(-r->op.status));
	if (r->moves)
		cr_assert_arr_eq(flows[i].own.data + r->offset,
				 flows[i].far.data + r->offset, PIECE);
	r->busy = false;
}

static void begin_random(int i)
{
	struct random_op *r = &random_ops[i][draw(OPS)];
	struct flow *flow = &flows[i];

	if (r->busy) {
		send_numbered(flow, 8 + draw(3000), NULL, false);
		return;
	}
	op_init(&r->op);
	r->is_get = r->moves = false;
	switch (draw(4)) {
	case 0:
		r->busy = send_numbered(flow, 8 + draw(8000), &r->op, false);
		break;
	case 1:
		send_numbered(flow, 32 + draw(64), NULL, true);
		break;
	case 2:
		r->offset = draw(SIZE / 2 / PIECE) * PIECE;
		r->is_get = r->moves = true;
		for (int k = 0; k < OPS; k++)
			if (random_ops[i][k].busy && random_ops[i][k].is_get &&
			    random_ops[i][k].offset == r->offset)
				return;
		memset(flow->own.data + r->offset, 0, PIECE);
		r->busy = !get(flow->end, &flow->own, &flow->far, r->offset,
			       PIECE, &r->op);
		break;
	default:
		r->moves = true;
		r->offset = SIZE / 2 + draw(SIZE / 2 / PIECE) * PIECE;
		r->busy = !put(flow->end, &flow->far, &flow->own, r->offset,
			       PIECE, &r->op);
	}
}

static void hurt_random(void)
{
	switch (draw(8)) {
	case 0:
		fake_verbs_fail_wr(1 + draw(8), IBV_WC_RETRY_EXC_ERR);
		break;
	case 1:
	case 2:
		break_path((int) draw(2), draw(2));
		break;
	case 3:
		fake_verbs_hold(true);
		break;
	case 4:
		break_path(0, draw(2));
		break_path(1, draw(2));
		break;
	case 5:
		/* A new link although paths are left; the ends get it one by one. */
		if (!draw(4))
			make_fresh();
		break;
	default:
		fake_verbs_hold(false);
	}
}

static void play(enum pair_kind kind, unsigned from)
{
	seed = from;
	memset(random_ops, 0, sizeof(random_ops));
	open_all(kind, true);
	for (int n = 0; n < 4000; n++) {
		int i = (int) draw(2);

		begin_random(i);
		if (!draw(3))
			pair_progress(&pair);
		if (!draw(40))
			hurt_random();
		/* One that is down at one end only is renewed, too. */
		if ((flows[0].down || flows[1].down) && !draw(20))
			make_fresh();
		if (!draw(12))
			take_fresh(i);
		for (int k = 0; k < OPS; k++)
			end_random(i, &random_ops[i][k]);
	}
	fake_verbs_hold(false);
	fake_verbs_fail_wr(0, 0);
	for (;;) {
		bool busy = flows[0].got != flows[1].sent ||
			    flows[1].got != flows[0].sent;
		double until = pair_work() + 0.05;

		while (pair_work() < until)
			pair_progress(&pair);
		for (int i = 0; i < 2; i++) {
			for (int k = 0; k < OPS; k++) {
				end_random(i, &random_ops[i][k]);
				busy |= random_ops[i][k].busy;
			}
		}
		if (!busy)
			break;
		take_fresh(0);
		take_fresh(1);
		if (flows[0].down || flows[1].down)
			resume();
	}
	take_fresh(0);
	take_fresh(1);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	close_all();
}

Test(multi_fail, random_failures_lose_nothing, .timeout = 600)
{
	const char *from = getenv("TAGRV_TEST_SEED");
	const char *cnt = getenv("TAGRV_TEST_ROUNDS");
	unsigned first = from ? (unsigned) atoi(from) : 1;
	unsigned rounds = cnt ? (unsigned) atoi(cnt) : 2;

	for (unsigned i = first; i < first + rounds; i++) {
		printf("seed %u\n", i);
		play(i % 2 ? PAIR_MULTI : PAIR_MULTI_RQ, i);
	}
}
