/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rounds of registrations: the lead registers memory and releases it, repeatedly. The follower
 * has nothing to do.
 */
#include "side.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "oob.h"

/* Of a provider that leaves keys to the program; that of --register's buffers is 0. */
enum { KEY = 8 };

/* Pages that exist: what a program sends from was written to. */
static void register_prepare(struct side *s, const struct perf_order *order)
{
	if (!s->leads)
		return;
	if (posix_memalign((void **)&s->region, 4096, order->size ? order->size : 1))
		bench_die("out of memory");
	memset(s->region, 1, order->size);
}

static void register_once(const struct side *s, size_t size)
{
	struct fid_mr *mr;
	int ret = fi_mr_reg(s->e.domain, s->region, size, FI_SEND | FI_RECV, 0, KEY, 0, &mr, NULL);

	if (!ret)
		ret = fi_close(&mr->fid);
	if (ret)
		bench_die("cannot register %zu bytes: %s", size, fi_strerror(-ret));
}

static void register_blocks(struct side *s, const struct perf_order *order)
{
	for (uint64_t b = 0; b < order->blocks; b++) {
		const uint64_t begin = clock_ticks();

		for (uint64_t i = 0; i < order->count; i++)
			register_once(s, order->size);
		side_sample(s, side_end_block(s, begin, order->count, 1) / order->count);
	}
}

static void register_each(struct side *s, const struct perf_order *order)
{
	for (uint64_t i = 0; i < order->count; i++) {
		const uint64_t begin = clock_ticks();

		register_once(s, order->size);
		side_sample(s, clock_ticks() - begin);
	}
}

static void register_run(struct side *s, const struct perf_order *order, struct perf_reply *result)
{
	const uint64_t begin = clock_ticks();

	if (!s->leads)
		return;
	if (order->blocks)
		register_blocks(s, order);
	else
		register_each(s, order);
	side_finish(s, result, begin, 1);
	free(s->region);
}

const struct side_ops side_register = { register_prepare, register_run };
