/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided operations of the honest ones. With each other: rounds of a write, a read that
 * must bring what was written, and an atomic that counts. With the liar: anything.
 */
#include "liar.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/window.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 4, TASK_LEN = 60000, COUNTERS = TASKS * TASK_LEN, SECRET_LEN = COUNTERS + TASKS * 8 };

struct task {
	struct fi_context2 ctx;
	bool	busy;
	enum onesided_kind kind;	/* the next one, or the one under way */
	uint64_t round;
	uint64_t one, former;		/* of the atomic */
	uint8_t	*buf;
};

static struct task mine[TASKS], liars[TASKS];
static uint8_t *liar_result;
static struct guard open_area, read_area, secret;
static struct fid_mr *mr[LIAR_WINDOWS];

/* ---- windows ---- */

static void open_one(struct fx *fx, enum liar_window which, void *base, size_t len, uint64_t access)
{
	const struct iovec iov = { .iov_base = base, .iov_len = len };

	mr[which] = region_open(fx, &(struct region){ .iov = &iov, .access = access });
	scene->key[fx->t->rank][which] = fi_mr_key(mr[which]);
}

static void alloc_tasks(struct task *tasks, size_t len, enum onesided_kind kind)
{
	for (int i = 0; i < TASKS; i++) {
		tasks[i].buf = calloc(1, len);
		tasks[i].one = 1;
		tasks[i].kind = kind;
		CHECK(tasks[i].buf, "no memory");
	}
}

void windows_open(struct fx *fx)
{
	open_area = guard_alloc(3 * OPEN_LEN);
	read_area = guard_alloc(OPEN_LEN);
	secret = guard_alloc(SECRET_LEN);
	memset(secret.data + COUNTERS, 0, TASKS * 8);
	open_one(fx, WINDOW_OPEN, open_area.data + OPEN_LEN, OPEN_LEN, 0);
	open_one(fx, WINDOW_READ, read_area.data, OPEN_LEN, FI_REMOTE_READ);
	open_one(fx, WINDOW_SECRET, secret.data, SECRET_LEN, 0);
	alloc_tasks(mine, TASK_LEN, DO_PUT);
	alloc_tasks(liars, LIAR_WINDOW_LEN, DO_PUT);
	liar_result = calloc(1, LIAR_WINDOW_LEN);
	CHECK(liar_result, "no memory");
}

void windows_check(void)
{
	CHECK(!guard_changed(&open_area, 0, OPEN_LEN) && !guard_changed(&open_area, 2 * OPEN_LEN, OPEN_LEN),
	      "memory beside a window has changed");
	CHECK(!guard_changed(&read_area, 0, OPEN_LEN), "a window that peers may only read has changed");
	CHECK(!guard_damage(&open_area, open_area.len) && !guard_damage(&read_area, read_area.len) &&
	      !guard_damage(&secret, secret.len), "memory around a window has changed");
}

void windows_close(void)
{
	for (int i = 0; i < LIAR_WINDOWS; i++)
		CHECK_OK(fi_close(&mr[i]->fid));
	windows_check();
}

/* ---- among the honest ones ---- */

static size_t len_of(uint64_t round)
{
	static const size_t most[] = { 8, 48, 400, 3000, 20000, TASK_LEN };

	return round * 2654435761u % (most[round % 6] + 1);
}

static uint64_t seed_of(int rank, int task, uint64_t round)
{
	return 1ULL << 60 | (uint64_t)rank << 56 | (uint64_t)task << 48 | round;
}

static void post_mine(struct fx *fx, int i, int other)
{
	struct task *k = &mine[i];
	struct onesided o = {
		.kind = k->kind, .buf = k->buf, .len = len_of(k->round), .addr = fx->addr[other],
		.at = (uint64_t)i * TASK_LEN, .key = scene->key[other][WINDOW_SECRET], .ctx = &k->ctx,
	};
	ssize_t ret;

	if (k->busy)
		return;
	if (k->kind == DO_PUT)
		pattern_fill(k->buf, o.len, seed_of(fx->t->rank, i, k->round));
	else
		memset(k->buf, 0, o.len);
	if (k->kind == DO_FETCH) {
		o.buf = &k->one;
		o.len = sizeof(k->one);
		o.at = COUNTERS + (uint64_t)i * 8;
		o.type = FI_UINT64;
		o.op = FI_SUM;
		o.result = &k->former;
	}
	ret = onesided_try(fx->ep, &o);
	CHECK(!ret || ret == -FI_EAGAIN, "%s: %s", onesided_name(o.kind), fi_strerror((int)-ret));
	k->busy = !ret;
}

static void end_mine(struct task *k, int i, int rank)
{
	size_t len = len_of(k->round);

	switch (k->kind) {
	case DO_PUT:
		k->kind = DO_GET;
		return;
	case DO_GET:
		CHECK(pattern_check(k->buf, len, seed_of(rank, i, k->round)) == len,
		      "a read brings other bytes than were written");
		k->kind = DO_FETCH;
		return;
	default:
		CHECK(k->former == k->round, "atomic %" PRIu64 " finds %" PRIu64, k->round, k->former);
		k->kind = DO_PUT;
		k->round++;
		atomic_fetch_add(&scene->rounds[rank], 1);
	}
}

/* ---- with the liar ---- */

static void post_liars(struct fx *fx, int i, fi_addr_t liar, uint64_t *random)
{
	static const size_t lens[] = { 0, 8, 64, 1000, 4000, 20000, 150000, LIAR_WINDOW_LEN };
	uint64_t r = pattern_next(random);
	struct task *k = &liars[i];
	struct onesided o = {
		.kind = (enum onesided_kind)(r % (DO_COMPARE + 1)), .buf = k->buf,
		.addr = liar, .key = LIAR_KEY, .ctx = &k->ctx, .type = FI_UINT64,
		.result = liar_result, .compare = k->buf,
	};

	if (k->busy || liar == FI_ADDR_NOTAVAIL)
		return;
	o.op = o.kind == DO_COMPARE ? FI_CSWAP : FI_SUM;
	o.len = o.kind >= DO_ATOMIC ? (r >> 8) % 600 * 8 : lens[(r >> 8) % 8];
	if (o.kind == DO_PUT && o.len <= 64 && r & 1 << 20) {
		o.call = CALL_INJECT;
		(void)onesided_try(fx->ep, &o);
		return;
	}
	k->busy = !onesided_try(fx->ep, &o);
}

/* ---- both ---- */

void windows_post(struct fx *fx, int other, fi_addr_t liar, uint64_t *random)
{
	for (int i = 0; i < TASKS; i++) {
		post_mine(fx, i, other);
		post_liars(fx, i, liar, random);
	}
}

static int index_of(const struct task *tasks, const void *ctx)
{
	for (int i = 0; i < TASKS; i++)
		if (ctx == &tasks[i].ctx)
			return i;
	return -1;
}

bool windows_complete(const struct comp *c, int rank)
{
	int own = index_of(mine, c->ctx), i = index_of(liars, c->ctx);

	if (!c->err && c->flags & FI_REMOTE_WRITE)
		return true;		/* remote CQ data of a liar */
	if (own >= 0) {
		CHECK(mine[own].busy, "a one-sided operation has ended twice");
		CHECK(!c->err, "a one-sided operation with an honest peer fails: %s", fi_strerror(c->err));
		mine[own].busy = false;
		end_mine(&mine[own], own, rank);
		return true;
	}
	if (i < 0)
		return false;
	CHECK(liars[i].busy, "a one-sided operation with a liar has ended twice");
	liars[i].busy = false;
	atomic_fetch_add(c->err ? &scene->failed[rank] : &scene->done[rank], 1);
	return true;
}

bool windows_busy(bool liar)
{
	const struct task *tasks = liar ? liars : mine;

	for (int i = 0; i < TASKS; i++)
		if (tasks[i].busy)
			return true;
	return false;
}
