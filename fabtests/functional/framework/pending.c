/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations that may fail: see pending.h.
 */
#include "pending.h"

#include <sched.h>
#include <stdlib.h>

void pending_open(struct pending *p, size_t n)
{
	p->ctx = calloc(n, sizeof(*p->ctx));
	p->result = malloc(n * sizeof(*p->result));
	CHECK(p->ctx && p->result, "no memory");
	p->n = n;
	p->done = 0;
	for (size_t i = 0; i < n; i++)
		p->result[i] = -1;
}

void pending_close(struct pending *p)
{
	free(p->ctx);
	free(p->result);
}

static void take(struct pending *p, const struct comp *c)
{
	size_t i = ((uintptr_t)c->ctx - (uintptr_t)p->ctx) / sizeof(*p->ctx);

	CHECK(i < p->n && c->ctx == &p->ctx[i], "entry with foreign context, err %d", c->err);
	CHECK(p->result[i] < 0, "operation %zu completed twice: %d, then %d", i, p->result[i],
	      c->err);
	p->result[i] = c->err;
	p->done++;
}

static void take_both(struct fx *fx, struct pending *tx, struct pending *rx)
{
	struct comp c;

	if (comp_poll(fx, FX_TX, &c))
		take(tx, &c);
	if (comp_poll(fx, FX_RX, &c))
		take(rx, &c);
	sched_yield();
}

void pending_await(struct fx *fx, struct pending *tx, struct pending *rx,
		   const struct pending *until, size_t want, const char *what)
{
	while (until->done < want) {
		take_both(fx, tx, rx);
		FX_CHECK_MOVES(fx, "%zu of %zu %s", until->done, want, what);
	}
}

void pending_settle(struct fx *fx, struct pending *tx, struct pending *rx, int ms)
{
	int64_t end = run_now() + ms;

	while (rx->done < rx->n && run_now() < end)
		take_both(fx, tx, rx);
}
