/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The owner of a window: looks where writers say that they have written, and at all of
 * it in the end.
 */
#include "onesided_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void onesided_scatter(uint8_t *area, const struct range *range, size_t parts, const void *from)
{
	for (size_t i = 0, at = 0; i < parts; at += range[i++].len)
		memcpy(area + range[i].at, (const uint8_t *)from + at, range[i].len);
}

void onesided_gather(const uint8_t *area, const struct range *range, size_t parts, void *to)
{
	for (size_t i = 0, at = 0; i < parts; at += range[i++].len)
		memcpy((uint8_t *)to + at, area + range[i].at, range[i].len);
}

static size_t difference(size_t at, const uint8_t *got, const uint8_t *expect, size_t len)
{
	int type = onesided_cell_type(at);
	size_t i = 0;

	if (type >= 0 && arithmetic_size((unsigned)type) &&
	    arithmetic_same((unsigned)type, got, expect, len / arithmetic_size((unsigned)type)))
		return len;
	while (i < len && got[i] == expect[i])
		i++;
	return i;
}

/* A range is within the bytes, or whole cells of one type. */
bool onesided_same(const struct range *range, size_t parts, const uint8_t *got,
		   const uint8_t *expect, size_t *wrong)
{
	for (size_t i = 0, at = 0; i < parts; at += range[i++].len) {
		size_t same = difference(range[i].at, got + at, expect + at, range[i].len);

		if (same == range[i].len)
			continue;
		*wrong = at + same;
		return false;
	}
	return true;
}

void onesided_receive(struct side *r, size_t i)
{
	RECV(&r->fx, .buf = &r->rx_buf[i], .len = sizeof(r->rx_buf[i]), .addr = FI_ADDR_UNSPEC,
	     .ctx = &r->rx_ctx[i]);
}

static void check_written(struct side *r, const struct note *n, int writer, const char *how)
{
	uint8_t *got = malloc(n->len + 1);
	size_t right;

	CHECK(got, "no memory");
	onesided_gather(r->w.g.data + (size_t)writer * AREA, n->range, n->parts, got);
	right = pattern_check(got, n->len, n->seed);
	CHECK(right == n->len, "%s of rank %d came before byte %zu of %zu that it is about", how,
	      writer, right, n->len);
	free(got);
}

/* What a message or remote CQ data say: the writer in the top byte, and which note. */
static void look_at(struct side *r, uint64_t word, size_t len, const char *how)
{
	int me = r->fx.t->rank, writer = (int)(word >> 56);
	uint64_t number = word & UINT32_MAX;
	struct note *n;

	CHECK(writer < r->fx.t->ranks, "%s of nobody: 0x%" PRIx64, how, word);
	n = &r->all->note[me][writer][number % NOTES];
	CHECK(!atomic_load(&n->taken), "%s %" PRIu64 " of rank %d comes twice", how, number, writer);
	CHECK(!onesided_strict || len == SIZE_MAX || len == n->len, "%s %" PRIu64 " of rank %d: %zu bytes, want %zu",
	      how, number, writer, len, n->len);
	check_written(r, n, writer, how);
	atomic_store(&n->taken, true);
}

static void message(struct side *r, const struct comp *c)
{
	size_t i = (size_t)((struct fi_context2 *)c->ctx - r->rx_ctx);

	CHECK(i < NOTES && c->flags == GOT_MSG && c->len == sizeof(r->rx_buf[i]),
	      "an entry that nobody expects: flags 0x%" PRIx64 ", %zu bytes", c->flags, c->len);
	look_at(r, r->rx_buf[i], SIZE_MAX, "the message");
	onesided_receive(r, i);
}

bool onesided_look(struct side *r)
{
	struct comp c;
	bool any = false;

	while (comp_poll(&r->fx, FX_RX, &c)) {
		any = true;
		CHECK(!c.err, "an error on the receive CQ: %d (%s)", c.err, fi_strerror(c.err));
		if (!(c.flags & FI_REMOTE_CQ_DATA)) {
			message(r, &c);
			continue;
		}
		CHECK(!onesided_strict || (c.flags == GOT_DATA && !c.ctx), "remote CQ data: flags 0x%" PRIx64
		      ", context %p", c.flags, c.ctx);
		look_at(r, c.data, c.len, "the entry");
	}
	return any;
}

/* ---- the end ---- */

static void check_area(struct side *r, int writer)
{
	const uint8_t *got = r->w.g.data + (size_t)writer * AREA;
	const uint8_t *want = onesided_model(r, r->fx.t->rank, writer);
	struct range bytes = { .at = 0, .len = BYTES };
	size_t wrong = 0;

	CHECK(onesided_same(&bytes, 1, got, want, &wrong),
	      "byte %zu that rank %d wrote is 0x%02x, want 0x%02x", wrong, writer, got[wrong],
	      want[wrong]);
	for (unsigned type = 0; type < ARITHMETIC_TYPES; type++) {
		size_t at = BYTES + type * CELLS_SIZE;

		CHECK(!arithmetic_size(type) || arithmetic_same(type, got + at, want + at, CELLS),
		      "cells of %s that rank %d wrote are wrong", arithmetic_type_name(type), writer);
	}
}

void onesided_check_window(struct side *r)
{
	int me = r->fx.t->rank;
	const uint64_t *shared = (const void *)(r->w.g.data + (size_t)r->fx.t->ranks * AREA);

	for (int writer = 0; writer < r->fx.t->ranks; writer++)
		check_area(r, writer);
	for (int i = 0; i < SHARED; i++)
		CHECK(shared[i] == atomic_load(&r->all->cells[me][i]),
		      "shared cell %d is 0x%" PRIx64 ", want 0x%" PRIx64, i, shared[i],
		      atomic_load(&r->all->cells[me][i]));
}
