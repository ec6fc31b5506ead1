/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pairs of every kind, and registered memory: see conformance.h.
 */
#include "unit/xport/conformance.h"

#include <criterion/logging.h>
#include <stdlib.h>

void run_on_all(uint32_t caps, void (*test)(struct pair *p))
{
	enum pair_kind kinds[PAIR_KINDS];
	size_t cnt = pair_kinds(kinds);
	struct pair *p = calloc(1, sizeof(*p));

	for (size_t i = 0; i < cnt; i++) {
		cr_log_info("on %s", pair_kind_names[kinds[i]]);
		pair_open(p, kinds[i]);
		if (has_caps(p, caps))
			test(p);
		pair_close(p);
	}
	free(p);
}

/* ---- memory ---- */

void region_open(struct region *r, struct end *end, size_t len, unsigned access)
{
	r->data = calloc(1, len);
	r->len = len;
	cr_assert_eq(end->xport->ops->mem_reg(end->dev, r->data, len, access,
					      &r->mem), 0);
	cr_assert_eq(r->mem->dev, end->dev);
	cr_assert_eq(r->mem->addr, r->data);
	cr_assert_eq(r->mem->len, len);
	r->key_len = end->xport->ops->mem_key(r->mem, r->key);
	cr_assert_leq(r->key_len, TAGRV_KEY_MAX);
}

void region_close(struct region *r)
{
	r->mem->dev->ops->mem_dereg(r->mem);
	free(r->data);
}

int get(struct end *end, struct region *to, struct region *from,
	size_t offset, size_t len, struct op *op)
{
	int ret;

	op->in_call = true;
	ret = end->xport->ops->get(end->link, to->data + offset, to->mem,
				   (uintptr_t) from->data + offset, from->key,
				   from->key_len, len, &op->done);
	op->in_call = false;
	return ret;
}

int put(struct end *end, struct region *to, struct region *from,
	size_t offset, size_t len, struct op *op)
{
	int ret;

	op->in_call = true;
	ret = end->xport->ops->put(end->link, from->data + offset, from->mem,
				   (uintptr_t) to->data + offset, to->key,
				   to->key_len, len, &op->done);
	op->in_call = false;
	return ret;
}
