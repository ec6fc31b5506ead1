/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Draws operations: kind, memory at both ends, call, flags.
 */
#include "onesided_run.h"

#include <stdlib.h>
#include <string.h>

enum { HOT = 256, WARM = 4096, SMALL = 64, MIDDLE = 20000, LARGE = 1 << 20, ELEMENTS = 8 };

static uint64_t draw(struct side *r, uint64_t n)
{
	return pattern_next(&r->random) % n;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ---- memory ---- */

static size_t draw_len(struct side *r)
{
	uint64_t way = draw(r, 64);

	return draw(r, 1 + (way < 50 ? SMALL : way < 60 ? WARM : way < 63 ? MIDDLE : LARGE));
}

/* Half of all operations meet in a few bytes. */
static size_t draw_begin(struct side *r, size_t span, size_t room)
{
	uint64_t way = draw(r, 4);
	size_t most = way < 2 ? HOT : way < 3 ? WARM : room;

	return draw(r, least(most, room) - least(span, least(most, room) - 1));
}

/*
 * Cuts 'len' bytes at the target into parts, which begin at multiples of 'unit' and
 * have gaps between them.
 */
static void draw_ranges(struct side *r, struct slot *s, size_t len, size_t unit, size_t max)
{
	size_t parts = 1 + (draw(r, 3) ? 0 : draw(r, max)), at, left = len / unit;

	at = draw_begin(r, len + parts * 16 * unit, BYTES) / unit;
	s->parts = parts;
	for (size_t i = 0; i < parts; i++) {
		size_t part = i + 1 < parts ? draw(r, left + 1) : left;

		s->range[i] = (struct range){ .at = at * unit, .len = part * unit };
		left -= part;
		at += part + draw(r, 16);
	}
	s->len = len;
	/* The parts come in any order. */
	for (size_t i = parts; i > 1; i--) {
		size_t k = draw(r, i);
		struct range swap = s->range[k];

		s->range[k] = s->range[i - 1];
		s->range[i - 1] = swap;
	}
}

/* Local segments of whole units, some of them empty, in the reverse order of addresses. */
static size_t cut(struct side *r, struct iovec *iov, const struct guard *g, size_t unit)
{
	size_t n = 1 + draw(r, r->iov_limit), left = g->len / unit;

	if (!onesided_empty)
		n = least(n, left ? left : 1);
	for (size_t i = 0; i < n; i++) {
		size_t part = i + 1 < n ? draw(r, left + 1) : left;

		if (!onesided_empty && left && i + 1 < n)
			part = 1 + draw(r, left - (n - i) + 1);

		left -= part;
		iov[i] = (struct iovec){ .iov_base = g->data + left * unit, .iov_len = part * unit };
	}
	return n;
}

static size_t area_at(const struct side *r, const struct slot *s)
{
	return (size_t)(s->shared ? r->fx.t->ranks : r->fx.t->rank) * AREA;
}

static void name_remote(struct side *r, struct slot *s)
{
	struct onesided *o = &s->o;

	o->addr = r->fx.addr[s->peer];
	o->key = r->w.key[s->peer];
	o->at = window_at(&r->w, s->peer, area_at(r, s) + s->range[0].at);
	o->len = s->len;
	o->ctx = &s->ctx;
	if (o->call != CALL_MSG)
		return;
	for (size_t i = 0; i < s->parts; i++)
		s->remote[i] = (struct fi_rma_iov){
			.addr = window_at(&r->w, s->peer, area_at(r, s) + s->range[i].at),
			.len = s->range[i].len, .key = o->key,
		};
	o->remote = s->remote;
	o->remote_count = s->parts;
}

/* ---- flags ---- */

/* Without fences a completion must say that the target has everything. */
static uint64_t draw_level(struct side *r, size_t len)
{
	static const uint64_t level[] = {
		0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_DELIVERY_COMPLETE,
	};
	uint64_t way = draw(r, 6);

	if (!r->fences)
		return FI_DELIVERY_COMPLETE;
	if (way == 5)
		return len <= r->inject ? FI_INJECT : 0;
	return level[way];
}

static void draw_call(struct side *r, struct slot *s, size_t max_parts)
{
	bool reads = s->o.kind == DO_GET || s->o.kind >= DO_FETCH;
	uint64_t way = max_parts > 1 ? 2 : draw(r, 4);

	/* Only fi_writemsg takes flags. */
	s->o.call = way == 0 ? CALL_BUF : way == 1 ? CALL_IOV : CALL_MSG;
	if (!reads && !r->fences)
		s->o.call = CALL_MSG;
	if (!reads && r->fences && s->len <= r->inject && s->parts == 1 && !draw(r, 6))
		s->o.call = CALL_INJECT;
	if (s->o.call != CALL_MSG)
		return;
	if (!reads)
		s->o.flags = draw_level(r, s->len);
	if (r->fences && !draw(r, 24)) {
		s->o.flags |= FI_FENCE;
		s->wants_fence = true;
	}
	if (!draw(r, 16))
		s->o.flags |= FI_MORE;
}

/* ---- reads and writes ---- */

/* One of the owner's looks; they are few. */
static void draw_note(struct side *r, struct slot *s)
{
	struct note *n = &r->all->note[s->peer][r->fx.t->rank][r->notes[s->peer] % NOTES];

	if (draw(r, 6) || !atomic_load(&n->taken))
		return;
	s->by_message = draw(r, 2);
	/* Behind a write that has no such order, the message waits for its end. */
	if (s->by_message && !(r->order & FI_ORDER_SAW)) {
		s->o.call = CALL_MSG;
		s->o.flags = FI_DELIVERY_COMPLETE | (s->o.flags & FI_FENCE);
	}
	s->note = n;
}

static void use_note(struct side *r, struct slot *s)
{
	uint64_t number = r->notes[s->peer]++;

	memcpy(s->note->range, s->range, sizeof(s->range));
	s->note->parts = s->parts;
	s->note->len = s->len;
	s->note->seed = s->seed;
	atomic_store(&s->note->taken, false);
	s->o.data = (uint64_t)r->fx.t->rank << 56 | number;
	if (s->by_message)
		return;
	if (s->o.call == CALL_MSG)
		s->o.flags |= FI_REMOTE_CQ_DATA;
	else
		s->o.call = s->o.call == CALL_INJECT ? CALL_INJECTDATA : CALL_DATA;
}

static uint8_t *bytes(size_t len)
{
	uint8_t *p = calloc(1, len + 1);

	CHECK(p, "no memory");
	return p;
}

/* Whole cells of a type that is no integer. */
static void draw_cells(struct side *r, struct slot *s, unsigned type, size_t count)
{
	size_t size = arithmetic_size(type), first = draw(r, CELLS - count + 1);

	s->parts = 1;
	s->len = count * size;
	s->range[0] = (struct range){ .at = BYTES + type * CELLS_SIZE + first * size, .len = s->len };
}

/* What is written, or where what is read has to be. */
static void draw_content(struct side *r, struct slot *s)
{
	int type = onesided_cell_type(s->range[0].at);

	s->buf = guard_alloc(s->len);
	if (s->o.kind == DO_GET) {
		s->expect = bytes(s->len);
		return;
	}
	s->modifies = true;
	s->seed = pattern_next(&r->random);
	s->data = bytes(s->len);
	if (type < 0)
		pattern_fill(s->data, s->len, s->seed);
	else
		arithmetic_fill((unsigned)type, s->data, s->len / arithmetic_size((unsigned)type),
				s->seed);
}

static void draw_rma(struct side *r, struct slot *s)
{
	s->o.kind = draw(r, 2) ? DO_PUT : DO_GET;
	draw_ranges(r, s, draw_len(r), 1, draw(r, 3) ? 1 : r->remote_limit);
	draw_call(r, s, s->parts);
	if (s->o.kind == DO_PUT)
		draw_note(r, s);
	draw_content(r, s);
}

/* Whole cells of a type that is no integer. */
static bool draw_typed(struct side *r, struct slot *s)
{
	unsigned type = (unsigned)draw(r, ARITHMETIC_TYPES);

	if (!arithmetic_size(type) || arithmetic_is_integer(type))
		return false;
	s->o.kind = draw(r, 2) ? DO_PUT : DO_GET;
	draw_cells(r, s, type, 1 + draw(r, CELLS));
	draw_call(r, s, 1);
	draw_content(r, s);
	return true;
}

/* ---- atomics ---- */

static bool is_valid(struct side *r, struct slot *s, size_t *count)
{
	const struct onesided *o = &s->o;

	*count = 0;
	if (o->kind == DO_ATOMIC)
		return !fi_atomicvalid(r->fx.ep, o->type, o->op, count);
	if (o->kind == DO_FETCH)
		return !fi_fetch_atomicvalid(r->fx.ep, o->type, o->op, count);
	return !fi_compare_atomicvalid(r->fx.ep, o->type, o->op, count);
}

/* An operation that the manual defines and the provider has. */
static bool draw_operation(struct side *r, struct slot *s, size_t *count)
{
	struct onesided *o = &s->o;
	bool defined;

	o->kind = DO_ATOMIC + draw(r, 3);
	o->type = (enum fi_datatype)draw(r, ARITHMETIC_TYPES);
	o->op = (enum fi_op)draw(r, ARITHMETIC_OPS);
	if (o->kind == DO_COMPARE)
		defined = arithmetic_is_compare(o->op, o->type);
	else
		defined = arithmetic_is_update(o->op, o->type) ||
			  (o->kind == DO_FETCH && o->op == FI_ATOMIC_READ);
	return defined && arithmetic_size(o->type) && is_valid(r, s, count) && *count;
}

/* Numbers stay small, so that the order of additions makes no difference. */
static void keep_small(struct side *r, struct slot *s)
{
	const uint8_t *cells = onesided_model(r, s->peer, r->fx.t->rank) + s->range[0].at;

	if (s->o.kind != DO_COMPARE && s->o.op != FI_ATOMIC_READ &&
	    !arithmetic_is_small(s->o.type, cells, s->len / arithmetic_size(s->o.type)))
		s->o.op = FI_ATOMIC_WRITE;
}

/* Half of the elements that are compared are equal. */
static void draw_compared(struct side *r, struct slot *s)
{
	const uint8_t *model = onesided_model(r, s->peer, r->fx.t->rank);
	size_t size = arithmetic_size(s->o.type), count = s->len / size, at = 0;
	uint8_t *now = bytes(s->len);

	s->compare = guard_alloc(s->len);
	s->compared = bytes(s->len);
	arithmetic_fill(s->o.type, s->compared, count, s->seed + 1);
	onesided_gather(model, s->range, s->parts, now);
	for (; at < s->len; at += size)
		if (draw(r, 2))
			memcpy(s->compared + at, now + at, size);
	free(now);
}

static void draw_operands(struct side *r, struct slot *s)
{
	s->modifies = s->o.op != FI_ATOMIC_READ;
	s->seed = pattern_next(&r->random);
	s->buf = guard_alloc(s->len);
	s->data = bytes(s->len);
	if (arithmetic_is_integer(s->o.type) && draw(r, 2))
		pattern_fill(s->data, s->len, s->seed);
	else
		arithmetic_fill(s->o.type, s->data, s->len / arithmetic_size(s->o.type), s->seed);
	if (s->o.kind == DO_ATOMIC)
		return;
	s->result = guard_alloc(s->len);
	s->expect = bytes(s->len);
	if (s->o.kind == DO_COMPARE)
		draw_compared(r, s);
}

static bool draw_atomic(struct side *r, struct slot *s)
{
	size_t max, count, size;

	if (!draw_operation(r, s, &max))
		return false;
	count = 1 + draw(r, least(max, draw(r, 16) ? ELEMENTS : CELLS));
	size = arithmetic_size(s->o.type);
	if (arithmetic_is_integer(s->o.type)) {
		draw_ranges(r, s, count * size, size, draw(r, 3) ? 1 : r->remote_limit);
	} else {
		draw_cells(r, s, s->o.type, count);
		keep_small(r, s);
	}
	draw_call(r, s, s->parts);
	draw_operands(r, s);
	return true;
}

/* ---- shared cells ---- */

/* All ranks add or xor, so that the order makes no difference; or draw a ticket. */
static bool draw_shared(struct side *r, struct slot *s)
{
	size_t max = 0, cell = draw(r, 4) ? draw(r, SHARED) : TICKET;

	s->shared = true;
	s->o.kind = cell == TICKET ? DO_FETCH : DO_ATOMIC + draw(r, 2);
	s->o.type = FI_UINT64;
	s->o.op = cell < SHARED_SUM || cell == TICKET ? FI_SUM : FI_BXOR;
	if (!is_valid(r, s, &max) || !max)
		return false;
	s->range[0] = (struct range){ .at = cell * 8, .len = 8 };
	s->parts = 1;
	s->len = 8;
	draw_call(r, s, 1);
	draw_operands(r, s);
	if (cell == TICKET)
		memcpy(s->data, &(uint64_t){ 1 }, 8);
	return true;
}

static bool draw_any(struct side *r, struct slot *s)
{
	uint64_t way = draw(r, 16);

	s->peer = (int)draw(r, (uint64_t)r->fx.t->ranks);
	if (way < 8)
		draw_rma(r, s);
	else if (way < 9)
		return draw_typed(r, s);
	else if (way < 14)
		return draw_atomic(r, s);
	else
		return draw_shared(r, s);
	return true;
}

/* ---- for the provider ---- */

static void load(const struct iovec *iov, size_t count, const uint8_t *from)
{
	for (size_t i = 0; from && i < count; from += iov[i++].iov_len)
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
}

/* Calls without vectors use one segment, which is the buffer. */
static size_t cut_or_not(struct side *r, struct slot *s, struct iovec *iov, const struct guard *g,
			 const uint8_t *content)
{
	bool vector = s->o.call == CALL_IOV || s->o.call == CALL_MSG;
	size_t unit = s->o.kind >= DO_ATOMIC ? arithmetic_size(s->o.type) : 1, n = 1;

	if (vector)
		n = cut(r, iov, g, unit);
	else
		iov[0] = (struct iovec){ .iov_base = g->data, .iov_len = g->len };
	load(iov, n, content);
	return n;
}

static void name_local(struct side *r, struct slot *s)
{
	struct onesided *o = &s->o;
	bool vector = o->call == CALL_IOV || o->call == CALL_MSG;

	/* FI_ATOMIC_READ needs no operand, and ignores one. */
	if (o->kind != DO_FETCH || o->op != FI_ATOMIC_READ || !onesided_empty || draw(r, 2))
		o->buf = s->buf.data;
	o->iov_count = cut_or_not(r, s, s->iov, &s->buf, s->data);
	o->iov = vector ? s->iov : NULL;
	if (s->result.base) {
		o->result = s->result.data;
		o->result_count = cut_or_not(r, s, s->result_iov, &s->result, NULL);
		o->result_iov = vector ? s->result_iov : NULL;
	}
	if (s->compare.base) {
		o->compare = s->compare.data;
		o->compare_count = cut_or_not(r, s, s->compare_iov, &s->compare, s->compared);
		o->compare_iov = vector ? s->compare_iov : NULL;
	}
}

static void prepare(struct side *r, struct slot *s)
{
	if (s->note)
		use_note(r, s);
	name_local(r, s);
	name_remote(r, s);
	s->state = READY;
}

bool onesided_draw(struct side *r, struct slot *s)
{
	if (!draw_any(r, s) || !onesided_may_post(r, s)) {
		onesided_free(s);
		return false;
	}
	prepare(r, s);
	return true;
}

void onesided_draw_fence(struct side *r, struct slot *s, int peer)
{
	s->peer = peer;
	s->o.kind = DO_GET;
	s->o.call = CALL_MSG;
	s->o.flags = FI_FENCE;
	s->wants_fence = true;
	draw_ranges(r, s, 8, 1, 1);
	draw_content(r, s);
	prepare(r, s);
}
