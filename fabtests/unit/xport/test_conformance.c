/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets, room, callbacks and sleeping: see conformance.h.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/slowness.h"
#include "unit/xport/conformance.h"

ON_ALL(attributes_make_sense)
{
	const struct tagrv_xport_attr *attr = &p->a->xport->attr;

	cr_assert_eq(attr->max_packet, p->a->params.eager_max + 192);
	cr_assert_leq(attr->max_inline, attr->max_packet);
	/* Tests of absent capabilities do not run, so only the toy may lack them. */
	cr_assert_eq(has_caps(p, TAGRV_XPORT_GET | TAGRV_XPORT_PUT),
		     p->kind != PAIR_FILE);
	cr_assert_eq(attr->get_max > 0, has_caps(p, TAGRV_XPORT_GET));
	cr_assert_eq(attr->get_depth > 0, has_caps(p, TAGRV_XPORT_GET));
	cr_assert_eq(attr->put_max > 0, has_caps(p, TAGRV_XPORT_PUT));
	cr_assert_eq(attr->put_depth > 0, has_caps(p, TAGRV_XPORT_PUT));
	cr_assert_gt(attr->latency, 0);
	cr_assert_gt(attr->bandwidth, 0);
	cr_assert_eq(p->a->xport->dev, p->a->dev);
	cr_assert_eq(p->a->xport->sink, &p->a->sink);
}

ON_ALL(packets_arrive_once_and_in_order)
{
	unsigned cnt = p->kind >= PAIR_DEVICE ? 400 : 3000;

	pair_connect(p);
	for (unsigned i = 0; i < cnt; i++)
		pair_send(p, p->a, i, (i * 37) % max_packet(p), NULL);
	PAIR_UNTIL(p, p->b->packet_cnt >= cnt);
	for (unsigned i = 0; i < cnt; i++) {
		struct packet_record *packet = &p->b->packets[i];

		cr_assert_eq(packet->ctx, p->b);
		cr_assert_eq(packet->len, (i * 37) % max_packet(p));
		cr_assert(is_pattern(packet->data, i, packet->len));
	}
	for (int i = 0; i < 100; i++)
		pair_progress(p);
	cr_assert_eq(p->b->packet_cnt, cnt);
}

ON_ALL(both_directions_at_once)
{
	unsigned cnt = 500;

	if (p->a == p->b)
		return pair_connect(p);
	pair_connect(p);
	for (unsigned i = 0; i < cnt; i++) {
		pair_send(p, p->a, i, 64, NULL);
		pair_send(p, p->b, i + 7, 500, NULL);
	}
	PAIR_UNTIL(p, p->a->packet_cnt == cnt && p->b->packet_cnt == cnt);
	for (unsigned i = 0; i < cnt; i++) {
		cr_assert(is_pattern(p->b->packets[i].data, i, 64));
		cr_assert(is_pattern(p->a->packets[i].data, i + 7, 500));
	}
}

ON_ALL(every_size_arrives)
{
	size_t inl = p->a->xport->attr.max_inline, max = max_packet(p);
	size_t sizes[] = { 0, 1, 8, inl ? inl - 1 : 0, inl,
			   TAGRV_MIN(inl + 1, max), max / 2, max - 1, max };

	pair_connect(p);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(sizes); i++) {
		pair_send(p, p->a, (unsigned) i, sizes[i], NULL);
		PAIR_UNTIL(p, p->b->packet_cnt == i + 1);
		cr_assert_eq(p->b->packets[i].len, sizes[i]);
		cr_assert(is_pattern(p->b->packets[i].data, (unsigned) i,
				     sizes[i]));
	}
	cr_assert_eq(end_send(p->a, 0, max + 1, 0, NULL), -FI_EMSGSIZE);
}

ON_ALL(segments_are_gathered)
{
	char text[] = "abcdefghij";
	struct iovec iov[] = { { text, 1 }, { NULL, 0 }, { text + 1, 3 },
			       { text + 4, 2 }, { text + 6, 4 } };

	pair_connect(p);
	cr_assert_eq(ops_of(p)->send(p->a->link, iov, 5, 0, NULL), 0);
	PAIR_UNTIL(p, p->b->packet_cnt == 1);
	cr_assert_eq(p->b->packets[0].len, 10);
	cr_assert_arr_eq(p->b->packets[0].data, text, 10);
}

ON_ALL(nothing_is_delivered_inside_send)
{
	pair_connect(p);
	cr_assert_eq(end_send(p->a, 1, 8, 0, NULL), 0);
	cr_assert_eq(p->b->packet_cnt, 0);
	PAIR_UNTIL(p, p->b->packet_cnt == 1);
}

ON_ALL(again_means_that_nothing_happened)
{
	unsigned sent = 0, seen;
	int ret;

	pair_connect(p);
	while (!(ret = end_send(p->a, sent, 1000, 0, NULL)) && sent < 100000)
		sent++;
	cr_assert_eq(ret, -FI_EAGAIN);
	cr_assert_gt(sent, 0);
	cr_assert_eq(p->a->rooms, 0);
	PAIR_UNTIL(p, p->a->rooms > 0);
	PAIR_UNTIL(p, p->b->packet_cnt == sent);
	for (int i = 0; i < 50; i++)
		pair_progress(p);
	seen = p->a->rooms;
	pair_send(p, p->a, sent, 1000, NULL);
	PAIR_UNTIL(p, p->b->packet_cnt == sent + 1);
	for (int i = 0; i < 50; i++)
		pair_progress(p);
	cr_assert_eq(p->a->rooms, seen, "room without anybody waiting");
	for (unsigned i = 0; i <= sent; i++)
		cr_assert(is_pattern(p->b->packets[i].data, i, 1000));
}

ON_ALL(control_packets_have_room_left)
{
	unsigned sent = 0;

	pair_connect(p);
	while (!end_send(p->a, sent, 1000, 0, NULL))
		sent++;
	cr_assert_eq(end_send(p->a, sent, 16, TAGRV_SEND_CTRL, NULL), 0);
	PAIR_UNTIL(p, p->b->packet_cnt == sent + 1);
	cr_assert(is_pattern(p->b->packets[sent].data, sent, 16));
}

/* A sender that gets -FI_EAGAIN and only calls reap can go on, too. */
ON_ALL(reap_alone_makes_room)
{
	unsigned sent = 0, spins = 0;

	if (p->a == p->b)	/* loop: delivery makes room */
		return pair_connect(p);
	pair_connect(p);
	p->b->forget = true;
	while (sent < 2000 && spins < 1000000) {
		if (!end_send(p->a, sent, 3000, 0, NULL)) {
			sent++;
			continue;
		}
		ops_of(p)->reap(p->a->xport);
		p->b->xport->ops->progress(p->b->xport);
		spins++;
	}
	cr_assert_eq(sent, 2000);
	cr_assert_eq(p->a->packet_cnt, 0);
	PAIR_UNTIL(p, p->b->packet_cnt == sent);
}

ON_ALL(reap_delivers_no_packet)
{
	struct op op;
	double until = pair_work() + 5;

	pair_connect(p);
	op_init(&op);
	pair_send(p, p->b, 1, 20, NULL);
	pair_send(p, p->a, 2, 20, &op);
	while (!op.calls && pair_work() < until) {
		ops_of(p)->reap(p->a->xport);
		if (p->a != p->b)
			p->b->xport->ops->progress(p->b->xport);
	}
	cr_assert_eq(op.calls, 1);
	cr_assert_eq(op.status, 0);
	if (p->a != p->b)
		cr_assert_eq(p->a->packet_cnt, 0);
	PAIR_UNTIL(p, p->a->packet_cnt >= 1);
}

ON_ALL(done_runs_exactly_once)
{
	enum { CNT = 400 };
	struct op *ops = calloc(CNT, sizeof(*ops));

	pair_connect(p);
	for (unsigned i = 0; i < CNT; i++) {
		op_init(&ops[i]);
		pair_send(p, p->a, i, i % 3 ? 64 : 2000,
			  i % 5 ? &ops[i] : NULL);
	}
	ops_of(p)->flush(p->a->xport);
	PAIR_UNTIL(p, p->b->packet_cnt == CNT &&
		   !ops_of(p)->outstanding(p->a->xport));
	for (unsigned i = 0; i < CNT; i++) {
		cr_assert_eq(ops[i].calls, i % 5 ? 1 : 0);
		cr_assert_eq(ops[i].status, 0);
	}
	free(ops);
}

ON_ALL(flush_confirms_all)
{
	pair_connect(p);
	for (unsigned i = 0; i < 7; i++)
		pair_send(p, p->a, i, 30, NULL);
	PAIR_UNTIL(p, p->b->packet_cnt == 7);
	ops_of(p)->flush(p->a->xport);
	PAIR_UNTIL(p, !ops_of(p)->outstanding(p->a->xport));
	ops_of(p)->flush(p->a->xport);	/* no effect */
	cr_assert_eq(ops_of(p)->outstanding(p->a->xport), 0);
	cr_assert_eq(p->a->errors + p->b->errors, 0);
	cr_assert_eq(p->b->packet_cnt, 7, "flush must not send packets");
}

/* ---- callbacks ---- */

static void answer(struct end *end, const void *data, size_t len)
{
	unsigned *left = end->arg;
	struct iovec iov = { (void *) (uintptr_t) data, len };

	if (*left && --*left)
		cr_assert_eq(end->xport->ops->send(end->link, &iov, 1, 0,
						   NULL), 0);
}

ON_ALL(packet_callback_may_send)
{
	unsigned left = 1000;

	pair_connect(p);
	p->a->arg = p->b->arg = &left;
	p->a->on_packet = p->b->on_packet = answer;
	cr_assert_eq(end_send(p->a, 1, 24, 0, NULL), 0);
	PAIR_UNTIL(p, !left);
	cr_assert_eq(p->a->errors + p->b->errors, 0);
}

static void close_it(struct end *end, const void *data, size_t len)
{
	(void) data;
	(void) len;
	end->xport->ops->link_close(end->link);
	end->link = NULL;
	end->on_packet = NULL;
}

ON_ALL(packet_callback_may_close)
{
	pair_connect(p);
	p->b->on_packet = close_it;
	/* A sender that hears from no peer may get no more permits. */
	cr_assert_eq(end_send(p->a, 0, 24, 0, NULL), 0);
	for (unsigned i = 1; i < 4; i++)
		if (end_send(p->a, i, 24, 0, NULL))
			break;
	PAIR_UNTIL(p, p->b->closed == 1);
	cr_assert_eq(p->b->packet_cnt, 1, "no packet after link_close");
	cr_assert_null(p->b->link);
	p->a->link = p->a == p->b ? NULL : p->a->link;
}

static void send_again(struct end *end)
{
	while (!end_send(end, 1, 1000, 0, NULL))
		++*(unsigned *) end->arg;
}

ON_ALL(room_callback_may_send)
{
	unsigned sent = 0;

	pair_connect(p);
	p->b->forget = true;
	p->a->arg = &sent;
	p->a->on_room = send_again;
	send_again(p->a);
	PAIR_UNTIL(p, sent > 2000);
	p->a->on_room = NULL;
	PAIR_UNTIL(p, p->b->packet_cnt == sent);
}

/* ---- sleeping ---- */

/* As end_settle, and the descriptor becomes quiet, so that a thread does sleep. */
static void fall_asleep(struct end *end)
{
	double until = pair_now() + 5;

	do {
		cr_assert(pair_now() < until, "always readable");
		end_settle(end);
	} while (is_readable(end->xport->ops->wait_fd(end->xport), 0));
}

/* Sends to end b, which sleeps. Over a real device what it has permitted may be on its way. */
static void send_to_sleeper(struct pair *p, unsigned seed)
{
	double until = pair_now() + slow_ms(5000) * 1e-3;
	int ret;

	while ((ret = end_send(p->a, seed, 8, 0, NULL)) == -FI_EAGAIN && pair_now() < until)
		ops_of(p)->progress(p->a->xport);
	cr_assert_eq(ret, 0);
}

ON_ALL(sleep_is_safe_after_arm)
{
	int fd = p->b->xport->ops->wait_fd(p->b->xport);

	pair_connect(p);
	end_settle(p->b);
	if (fd < 0) {		/* no events from outside */
		cr_assert_eq(end_send(p->a, 1, 8, 0, NULL), 0);
		cr_assert_eq(p->b->xport->ops->arm(p->b->xport), -FI_EAGAIN);
		PAIR_UNTIL(p, p->b->packet_cnt == 1);
		return;
	}
	cr_assert(!is_readable(fd, 10));
	for (unsigned i = 0; i < 100; i++) {
		send_to_sleeper(p, i);
		cr_assert(is_readable(fd, 5000), "round %u", i);
		while (p->b->packet_cnt == i)
			p->b->xport->ops->progress(p->b->xport);
		ops_of(p)->progress(p->a->xport);
		end_settle(p->b);
	}
	cr_assert_eq(p->b->packet_cnt, 100);
	fall_asleep(p->b);
}

/* One thread sleeps, another one sends: done is due. */
ON_ALL(own_sends_wake)
{
	int fd = ops_of(p)->wait_fd(p->a->xport);
	struct op op;

	pair_connect(p);
	op_init(&op);
	if (fd < 0)
		return;
	fall_asleep(p->a);
	cr_assert_eq(end_send(p->a, 1, 8, 0, &op), 0);
	while (!op.calls) {
		cr_assert(is_readable(fd, 5000), "nobody runs done");
		ops_of(p)->progress(p->a->xport);
		end_settle(p->a);
	}
}

/* A sender that was told -FI_EAGAIN may sleep until there is room. */
ON_ALL(room_wakes)
{
	int fd = ops_of(p)->wait_fd(p->a->xport);
	unsigned sent = 0;

	pair_connect(p);
	if (fd < 0 || p->a == p->b)
		return;
	p->b->forget = true;
	while (!end_send(p->a, sent, 1000, 0, NULL))
		sent++;
	end_settle(p->a);
	while (!p->a->rooms) {
		double until = pair_now() + slow_ms(5000) * 1e-3;

		/* Over a real device the packets may not be there yet. */
		do {
			cr_assert(pair_now() < until, "nobody tells of room");
			p->b->xport->ops->progress(p->b->xport);
		} while (!is_readable(fd, 1));
		ops_of(p)->progress(p->a->xport);
		end_settle(p->a);
	}
	PAIR_UNTIL(p, p->b->packet_cnt == sent);
}

/* A thread that calls progress once more before it sleeps is woken, too. */
ON_ALL(progress_that_finds_nothing_stays_armed)
{
	int fd = p->b->xport->ops->wait_fd(p->b->xport);

	pair_connect(p);
	end_settle(p->b);
	for (unsigned i = 0; i < 20 && fd >= 0; i++) {
		do
			end_settle(p->b);
		while (p->b->xport->ops->progress(p->b->xport));
		ops_of(p)->progress(p->a->xport);
		send_to_sleeper(p, i);
		cr_assert(is_readable(fd, 5000), "round %u", i);
		PAIR_UNTIL(p, p->b->packet_cnt == i + 1);
	}
}

/* A packet that arrives between the last progress and arm must be noticed by arm. */
ON_ALL(arm_sees_what_came_before)
{
	double until = pair_now() + slow_ms(5000) * 1e-3;
	int fd = p->b->xport->ops->wait_fd(p->b->xport);

	pair_connect(p);
	end_settle(p->b);
	cr_assert_eq(end_send(p->a, 1, 8, 0, NULL), 0);
	while (!p->b->xport->ops->arm(p->b->xport)) {
		cr_assert(fd >= 0 && pair_now() < until);
		is_readable(fd, 1000);
	}
	cr_assert_eq(p->b->packet_cnt, 0, "arm delivers nothing");
	PAIR_UNTIL(p, p->b->packet_cnt == 1);
}
