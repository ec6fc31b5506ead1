/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which operations may be under way at the same time, and when one has ended for good:
 * what libfabric promises, and not more.
 *
 *   FREE -> READY -> FLYING --+--> FREE      it has returned something, or has FI_DELIVERY_COMPLETE
 *                             |
 *                             +--> UNKNOWN   the completion says nothing about the target: until
 *                             |              a fence, which is an order, too
 *                             +--> TOLD      until the owner has looked
 */
#include "onesided_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

static bool is_atomic(const struct slot *s)
{
	return s->o.kind >= DO_ATOMIC;
}

/* Atomics that return something are read operations to libfabric's order. */
static bool is_read(const struct slot *s)
{
	return s->o.kind == DO_GET || s->o.kind >= DO_FETCH;
}

struct pair {
	uint64_t any, rma, atomic;
	size_t limit;
};

/* The promise for 'second' after 'first'. */
static struct pair promise(const struct side *r, const struct slot *first, const struct slot *second)
{
	const struct fi_ep_attr *ep = r->fx.info->ep_attr;

	if (is_read(first) && is_read(second))
		return (struct pair){ FI_ORDER_RAR, FI_ORDER_RMA_RAR, FI_ORDER_ATOMIC_RAR, SIZE_MAX };
	if (is_read(first))
		return (struct pair){ FI_ORDER_WAR, FI_ORDER_RMA_WAR, FI_ORDER_ATOMIC_WAR,
				      ep->max_order_war_size };
	if (is_read(second))
		return (struct pair){ FI_ORDER_RAW, FI_ORDER_RMA_RAW, FI_ORDER_ATOMIC_RAW,
				      ep->max_order_raw_size };
	return (struct pair){ FI_ORDER_WAW, FI_ORDER_RMA_WAW, FI_ORDER_ATOMIC_WAW,
			      ep->max_order_waw_size };
}

static bool is_ordered(const struct side *r, const struct slot *first, const struct slot *second)
{
	struct pair p = promise(r, first, second);
	uint64_t bits = p.any;

	if (second->wants_fence || first->number < r->fenced[first->peer])
		return true;
	if (!is_atomic(first) && !is_atomic(second))
		bits |= p.rma;
	if (is_atomic(first) && is_atomic(second))
		bits |= p.atomic;
	return r->order & bits && first->len <= p.limit && second->len <= p.limit;
}

static bool overlap(const struct slot *a, const struct slot *b)
{
	for (size_t i = 0; i < a->parts; i++)
		for (size_t k = 0; k < b->parts; k++)
			if (a->range[i].at < b->range[k].at + b->range[k].len &&
			    b->range[k].at < a->range[i].at + a->range[i].len)
				return true;
	return false;
}

static bool is_in_the_way(const struct side *r, const struct slot *old, const struct slot *new)
{
	if (old->state < FLYING || old->peer != new->peer || old->shared || new->shared)
		return false;
	if (!(old->modifies || new->modifies) || !overlap(old, new))
		return false;
	return (old->note && new->modifies) || !is_ordered(r, old, new);
}

bool onesided_may_post(const struct side *r, const struct slot *s)
{
	for (int i = 0; i < SLOTS; i++)
		if (is_in_the_way(r, &r->slot[i], s))
			return false;
	return true;
}

/* ---- life ---- */

void onesided_free(struct slot *s)
{
	guard_free(&s->buf);
	guard_free(&s->result);
	guard_free(&s->compare);
	free(s->data);
	free(s->compared);
	free(s->expect);
	memset(s, 0, sizeof(*s));
}

static void settle(struct side *r, struct slot *s)
{
	bool seen = s->note && atomic_load(&s->note->taken);
	bool past = s->number < r->fenced[s->peer];

	if ((s->state == TOLD && seen) || (s->state == UNKNOWN && past))
		onesided_free(s);
}

void onesided_settle(struct side *r)
{
	for (int i = 0; i < SLOTS; i++)
		settle(r, &r->slot[i]);
}

static void change_model(struct side *r, struct slot *s)
{
	uint8_t *model = onesided_model(r, s->peer, r->fx.t->rank);
	size_t at = 0;

	if (s->expect)
		onesided_gather(model, s->range, s->parts, s->expect);
	if (s->o.kind == DO_PUT)
		onesided_scatter(model, s->range, s->parts, s->data);
	for (size_t i = 0; is_atomic(s) && i < s->parts; at += s->range[i++].len)
		arithmetic_apply(s->o.op, s->o.type, model + s->range[i].at, s->data + at,
				 s->compared ? s->compared + at : NULL,
				 s->range[i].len / arithmetic_size(s->o.type));
}

static void change_shared(struct side *r, struct slot *s)
{
	_Atomic uint64_t *cell = &r->all->cells[s->peer][s->range[0].at / 8];
	uint64_t value;

	memcpy(&value, s->data, 8);
	if (s->o.op == FI_SUM)
		atomic_fetch_add(cell, value);
	else
		atomic_fetch_xor(cell, value);
}

/* ---- what was posted ---- */

static void remember(struct side *r, const struct slot *s)
{
	struct past *p = &r->past[s->number % HISTORY];

	*p = (struct past){
		.number = s->number, .flags = s->o.flags, .peer = s->peer, .kind = s->o.kind,
		.call = s->o.call, .parts = s->shared ? 0 : s->parts,
	};
	memcpy(p->range, s->range, sizeof(p->range));
}

static bool touches(const struct past *p, size_t at)
{
	for (size_t i = 0; i < p->parts; i++)
		if (at >= p->range[i].at && at < p->range[i].at + p->range[i].len)
			return true;
	return false;
}

void onesided_print_past(const struct side *r, int peer, size_t at)
{
	uint64_t from = r->posted < HISTORY ? 1 : r->posted - HISTORY + 1;

	printf("rank %d, what touched byte %zu at rank %d:\n", r->fx.t->rank, at, peer);
	for (uint64_t n = from; n <= r->posted; n++) {
		const struct past *p = &r->past[n % HISTORY];

		if (p->peer == peer && (touches(p, at) || p->flags & FI_FENCE))
			printf("  %" PRIu64 " %s%s (%s), flags 0x%" PRIx64 "%s\n", n,
			       onesided_name(p->kind), touches(p, at) ? "" : " elsewhere",
			       msg_call_name(p->call), p->flags, p->ended ? "" : ", not ended");
	}
}

/* ---- life, again ---- */

/* Injects end with the call. */
void onesided_posted(struct side *r, struct slot *s)
{
	s->number = ++r->posted;
	if (s->wants_fence)
		r->fenced[s->peer] = s->number;
	s->state = FLYING;
	remember(r, s);
	if (s->shared)
		change_shared(r, s);
	else
		change_model(r, s);
	if (!msg_completes(s->o.call) || s->o.flags & FI_INJECT)
		guard_wipe(&s->buf);
	if (!msg_completes(s->o.call))
		onesided_completed(r, s);
	if (r->fenced[s->peer] == s->number)
		onesided_settle(r);
}

void onesided_completed(struct side *r, struct slot *s)
{
	r->done++;
	r->past[s->number % HISTORY].ended = true;
	if (s->note)
		s->state = TOLD;
	else if (is_read(s) || s->o.flags & FI_DELIVERY_COMPLETE || s->shared)
		onesided_free(s);
	else
		s->state = UNKNOWN;
	if (s->state != FREE)
		settle(r, s);
}
