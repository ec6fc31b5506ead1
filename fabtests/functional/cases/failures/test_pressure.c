/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * More operations than there is room for: no message is lost, traffic goes on.
 */
#include "cases/cases.h"
#include "common/slowness.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 5000, KIB = 1024 };

static const struct fx_attr plain;

/* n messages of equal length, each with memory and a context of its own. */
struct batch {
	size_t n;
	size_t len;
	uint8_t *mem;
	struct fi_context2 *ctx;
};

static void batch_open(struct batch *b, size_t n, size_t len)
{
	b->n = n;
	b->len = len;
	b->mem = calloc(n, len);
	b->ctx = calloc(n, sizeof(*b->ctx));
	CHECK(b->mem && b->ctx, "no memory");
}

static void batch_close(struct batch *b)
{
	free(b->mem);
	free(b->ctx);
}

static void batch_send(struct fx *fx, struct batch *b, bool tagged)
{
	for (size_t i = 0; i < b->n; i++) {
		pattern_fill(b->mem + i * b->len, b->len, i);
		SEND(fx, .tagged = tagged, .buf = b->mem + i * b->len, .len = b->len,
		     .addr = fx->peer, .tag = 1, .ctx = &b->ctx[i]);
	}
}

static void batch_recv(struct fx *fx, struct batch *b, bool tagged)
{
	for (size_t i = 0; i < b->n; i++)
		RECV(fx, .tagged = tagged, .buf = b->mem + i * b->len, .len = b->len,
		     .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &b->ctx[i]);
}

static void batch_check(const struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		CHECK(pattern_check(b->mem + i * b->len, b->len, i) == b->len,
		      "message %zu of %zu is wrong", i, b->n);
}

/* Posts as many receives as the provider accepts, at least rx_attr->size. */
static uint32_t post_until_full(struct fx *fx, struct batch *b)
{
	size_t promised = fx->info->rx_attr->size;
	uint32_t n = 0;

	while (n < b->n) {
		ssize_t ret = TRY_RECV(fx, .tagged = true, .buf = b->mem + n * b->len, .len = b->len,
				       .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &b->ctx[n]);

		if (ret == -FI_EAGAIN)
			break;
		CHECK(!ret, "receive %u: %zd", n, ret);
		n++;
	}
	CHECK(n >= promised || n == b->n, "%u receives taken, %zu announced", n, promised);
	return n;
}

static uint32_t agree(struct fx *fx, uint32_t mine)
{
	struct run_gathered all;
	uint32_t n;

	fx_exchange(fx, &mine, sizeof(mine), &all);
	memcpy(&n, all.data[1], sizeof(n));
	return n;
}

/* No entry is read before all operations are done. */
static void run_small_cq(struct test *t, size_t cq_size)
{
	struct fx_attr attr = { .cq_size = cq_size };
	struct batch b;
	struct fx fx;

	fx_open(t, &fx, &attr);
	batch_open(&b, MANY, 8);
	b.n = agree(&fx, run_receives(t) ? post_until_full(&fx, &b) : 0);
	run_step("%zu outstanding", b.n);
	if (run_sends(t))
		batch_send(&fx, &b, true);
	fx_barrier(&fx);
	fx_idle(&fx, 100);
	if (run_sends(t)) {
		COMP_ANY_ORDER(&fx, FX_TX, b.ctx, b.n);
	} else {
		COMP_ANY_ORDER(&fx, FX_RX, b.ctx, b.n);
		batch_check(&b);
	}
	fx_close(&fx);
	batch_close(&b);
}

static void cq_of_100(struct test *t)
{
	run_small_cq(t, 100);
}

static void cq_of_1(struct test *t)
{
	run_small_cq(t, 1);
}

/* The sender calls only fi_tsend until all messages are accepted. */
static void spin_send(struct fx *fx, struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		ssize_t ret;

		pattern_fill(b->mem + i * b->len, b->len, i);
		while ((ret = TRY_SEND(fx, .tagged = true, .buf = b->mem + i * b->len, .len = b->len,
				       .addr = fx->peer, .tag = 1, .ctx = &b->ctx[i])) == -FI_EAGAIN)
			FX_CHECK_MOVES(fx, "send %zu: -FI_EAGAIN without end", i);
		CHECK(!ret, "send %zu: %zd", i, ret);
	}
}

static void eagain_spin(struct test *t)
{
	struct batch b;
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ .cq_size = 100 });
	batch_open(&b, MANY, KIB);
	if (run_sends(t)) {
		spin_send(&fx, &b);
		COMP_ANY_ORDER(&fx, FX_TX, b.ctx, b.n);
	} else {
		batch_recv(&fx, &b, true);
		COMP_ANY_ORDER(&fx, FX_RX, b.ctx, b.n);
		batch_check(&b);
	}
	fx_close(&fx);
	batch_close(&b);
}

static void run_flood(struct test *t, size_t n, size_t len, bool tagged, uint64_t flags)
{
	struct batch b;
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ .tx_flags = flags });
	batch_open(&b, n, len);
	run_step("%zu x %zu bytes, flags 0x%llx", n, len, (unsigned long long)flags);
	if (run_sends(t)) {
		batch_send(&fx, &b, tagged);
		COMP_ANY_ORDER(&fx, FX_TX, b.ctx, b.n);
	} else {
		sleep(1);
		batch_recv(&fx, &b, tagged);
		COMP_ANY_ORDER(&fx, FX_RX, b.ctx, b.n);
		batch_check(&b);
	}
	fx_close(&fx);
	batch_close(&b);
}

static void flood_64(struct test *t)
{
	run_flood(t, 64, KIB, false, 0);
	run_flood(t, 64, KIB, false, FI_DELIVERY_COMPLETE);
}

static void flood_3000(struct test *t)
{
	run_flood(t, 3000, KIB, true, 0);
	run_flood(t, 3000, KIB, false, 0);
}

static size_t resident_bytes(void)
{
	unsigned long size = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file && fscanf(file, "%lu %lu", &size, &resident) == 2, "cannot read memory usage");
	fclose(file);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* 64 MiB of unexpected messages stay at the sender, not in the receiver's memory. */
static void flood_large(struct test *t)
{
	size_t before, after;
	struct batch b;
	struct fx fx;

	run_need_processes(t);
	fx_open(t, &fx, &plain);
	batch_open(&b, 64, 1 << 20);
	before = resident_bytes();
	if (run_sends(t))
		batch_send(&fx, &b, true);
	fx_barrier(&fx);
	fx_idle(&fx, 200);
	after = resident_bytes();
	if (run_sends(t)) {
		COMP_ANY_ORDER(&fx, FX_TX, b.ctx, b.n);
	} else {
		CHECK(after < before + (48UL << 20), "%zu bytes of unexpected messages buffered",
		      after - before);
		batch_recv(&fx, &b, true);
		COMP_ANY_ORDER(&fx, FX_RX, b.ctx, b.n);
		batch_check(&b);
	}
	fx_close(&fx);
	batch_close(&b);
}

/* Injects write no entry, so the transmit CQ need not be read. */
static void inject_all(struct fx *fx, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		ssize_t ret;

		while ((ret = TRY_SEND(fx, .call = CALL_INJECT, .tagged = true, .buf = &i,
				       .len = sizeof(i), .addr = fx->peer, .tag = 1)) == -FI_EAGAIN) {
			fi_cq_read(fx->cq[FX_RX], NULL, 0);
			FX_CHECK_MOVES(fx, "inject %d: -FI_EAGAIN without end",
			      (int)i);
			sched_yield();
		}
		CHECK(!ret, "inject %d: %zd", (int)i, ret);
	}
}

static void inject_stream(struct test *t)
{
	enum { N = 20000 };
	struct fi_context2 ctx;
	uint64_t value = 0;
	struct fx fx;

	fx_open(t, &fx, &plain);
	if (run_sends(t))
		inject_all(&fx, N);
	for (uint64_t i = 0; i < N && !run_sends(t); i++) {
		RECV(&fx, .tagged = true, .buf = &value, .len = sizeof(value),
		     .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = 8, .tag = 1);
		CHECK(value == i, "message %d holds %d", (int)i, (int)value);
	}
	fx_close(&fx);
}

/* Both flood before either posts a receive. */
static void mutual_flood(struct test *t)
{
	struct batch out, in;
	struct fx fx;

	fx_open(t, &fx, &plain);
	batch_open(&out, 3000, KIB);
	batch_open(&in, 3000, KIB);
	batch_send(&fx, &out, true);
	fx_barrier(&fx);
	batch_recv(&fx, &in, true);
	COMP_ANY_ORDER(&fx, FX_RX, in.ctx, in.n);
	COMP_ANY_ORDER(&fx, FX_TX, out.ctx, out.n);
	batch_check(&in);
	fx_close(&fx);
	batch_close(&out);
	batch_close(&in);
}

/* Three ranks flood the fourth. */
static void incast(struct test *t)
{
	struct batch b;
	struct fx fx;

	fx_open(t, &fx, &plain);
	fx.peer = fx.addr[0];
	batch_open(&b, t->rank ? 1000 : 3000, KIB);
	if (t->rank) {
		batch_send(&fx, &b, true);
		COMP_ANY_ORDER(&fx, FX_TX, b.ctx, b.n);
	} else {
		fx_idle(&fx, 200);
		batch_recv(&fx, &b, true);
		COMP_ANY_ORDER(&fx, FX_RX, b.ctx, b.n);
	}
	fx_close(&fx);
	batch_close(&b);
}

/* ---- as many receives as memory has room for ---- */

enum { MILLION = 1000000, WINDOW = 500, STRIDE = 7919 };

static void post_million(struct fx *fx, const struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		ssize_t ret = TRY_RECV(fx, .tagged = true, .buf = b->mem + i * b->len, .len = b->len,
				       .addr = FI_ADDR_UNSPEC, .tag = i, .ctx = &b->ctx[i]);

		CHECK(!ret, "receive %zu of %zu: %zd (%s)", i, b->n, ret, fi_strerror((int)-ret));
	}
}

/* The messages come in another order than their receives: STRIDE is prime. */
static void send_million(struct fx *fx, size_t n)
{
	static struct fi_context2 ctx[WINDOW];
	static uint64_t out[WINDOW];

	for (size_t i = 0; i < n; i++) {
		size_t at = i % WINDOW;

		out[at] = i * STRIDE % n;
		SEND(fx, .tagged = true, .buf = &out[at], .len = sizeof(out[at]), .addr = fx->peer,
		     .tag = out[at], .ctx = &ctx[at]);
		if (at == WINDOW - 1)
			COMP_ANY_ORDER(fx, FX_TX, ctx, WINDOW);
	}
}

static void million_receives(struct test *t)
{
	/* A machine that is very slow posts fewer: also more than 16 bits count. */
	struct fx_attr attr = { .rx_size = slowness() < 4 ? MILLION : MILLION / 5 };
	struct batch b;
	struct fx fx;

	fx_open_or_skip(t, &fx, &attr, "room for as many receives");
	batch_open(&b, attr.rx_size, sizeof(uint64_t));
	run_step("%zu receives", b.n);
	if (!run_sends(t))
		post_million(&fx, &b);
	fx_barrier(&fx);
	if (run_sends(t)) {
		send_million(&fx, b.n);
	} else {
		COMP_ANY_ORDER(&fx, FX_RX, b.ctx, b.n);
		for (size_t i = 0; i < b.n; i++)
			CHECK(!memcmp(b.mem + i * b.len, &(uint64_t){ i }, b.len), "receive %zu is wrong", i);
	}
	fx_close(&fx);
	batch_close(&b);
}

const struct test_case pressure_cases[] = {
	{ "pressure_cq_of_100", "5000 operations outstanding on CQs of 100 entries", cq_of_100, .ranks = 2 },
	{ "pressure_cq_of_1", "5000 operations outstanding on CQs of one entry", cq_of_1, .ranks = 2 },
	{ "pressure_eagain_spin", "a sender that never reads a CQ makes progress", eagain_spin, .ranks = 2 },
	{ "pressure_flood_64", "64 x 1 KiB while the receiver sleeps a second", flood_64, .ranks = 2 },
	{ "pressure_flood_3000", "3000 x 1 KiB while the receiver sleeps a second", flood_3000, .ranks = 2 },
	{ "pressure_flood_large", "64 x 1 MiB unexpected are not buffered", flood_large, .ranks = 2 },
	{ "pressure_inject_stream", "20000 injects without reading the transmit CQ", inject_stream, .ranks = 2 },
	{ "pressure_mutual_flood", "both send 3000 x 1 KiB before either receives", mutual_flood, .ranks = 2 },
	{ "pressure_incast", "three ranks flood one", incast, .ranks = 4 },
	{ "pressure_million_receives", "1000000 receives are posted, and each gets its message", million_receives,
	  .ranks = 2 },
	{ 0 },
};
