/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomic operations: each operation on each datatype, vectors, injects, several ranks at
 * the same cell.
 */
#include "cases/cases.h"
#include "framework/arithmetic.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/window.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct fx_attr plain = {
	.caps = FI_MSG | FI_RMA | FI_ATOMIC, .tx_flags = FI_DELIVERY_COMPLETE,
};

enum { COUNT = 3, PLACE = COUNT * ARITHMETIC_SIZE_MAX, BATCH = 64 };

static bool is_defined(enum onesided_kind kind, unsigned op, unsigned type)
{
	if (!arithmetic_size(type))
		return false;
	if (kind == DO_COMPARE)
		return arithmetic_is_compare(op, type);
	return arithmetic_is_update(op, type) || (kind == DO_FETCH && op == FI_ATOMIC_READ);
}

static int ask(struct fx *fx, enum onesided_kind kind, unsigned op, unsigned type, size_t *count)
{
	enum fi_datatype datatype = (enum fi_datatype)type;

	if (kind == DO_ATOMIC)
		return fi_atomicvalid(fx->ep, datatype, (enum fi_op)op, count);
	if (kind == DO_FETCH)
		return fi_fetch_atomicvalid(fx->ep, datatype, (enum fi_op)op, count);
	return fi_compare_atomicvalid(fx->ep, datatype, (enum fi_op)op, count);
}

/* ---- all of them ---- */

/* The operation on three elements at a place of its own; both ranks compute it. */
struct one {
	enum onesided_kind kind;
	unsigned op, type;
	size_t size;
	uint8_t before[PLACE], operand[PLACE], compare[PLACE], after[PLACE];
};

static void one_init(struct one *o, uint64_t seed)
{
	o->size = arithmetic_size(o->type);
	arithmetic_fill(o->type, o->before, COUNT, seed);
	arithmetic_fill(o->type, o->operand, COUNT, seed + 1);
	arithmetic_fill(o->type, o->compare, COUNT, seed + 2);
	/* One is equal to what is there, one is not; the third is equal and 0. */
	memcpy(o->compare, o->before, o->size);
	memset(o->before + 2 * o->size, 0, o->size);
	memset(o->compare + 2 * o->size, 0, o->size);
	memcpy(o->after, o->before, sizeof(o->after));
	arithmetic_apply(o->op, o->type, o->after, o->operand, o->compare, COUNT);
}

static struct one *list(struct fx *fx, size_t *n)
{
	static struct one all[(DO_COMPARE - DO_ATOMIC + 1) * ARITHMETIC_OPS * ARITHMETIC_TYPES];
	size_t count;

	*n = 0;
	for (int kind = DO_ATOMIC; kind <= DO_COMPARE; kind++)
		for (unsigned type = 0; type < ARITHMETIC_TYPES; type++)
			for (unsigned op = 0; op < ARITHMETIC_OPS; op++) {
				struct one *o = &all[*n];

				*o = (struct one){ .kind = (enum onesided_kind)kind, .op = op, .type = type };
				if (!is_defined(o->kind, op, type) || ask(fx, o->kind, op, type, &count))
					continue;
				CHECK(count >= COUNT, "%s %s: %zu elements at most",
				      arithmetic_type_name(type), arithmetic_op_name(op), count);
				one_init(o, *n + 1);
				++*n;
			}
	return all;
}

static const char *name(const struct one *o)
{
	static char text[80];

	snprintf(text, sizeof(text), "%s %s %s", onesided_name(o->kind), arithmetic_type_name(o->type),
		 arithmetic_op_name(o->op));
	return text;
}

static void run_batch(struct fx *fx, const struct window *w, struct one *all, size_t n, size_t first)
{
	static struct fi_context2 ctx[BATCH];
	static uint8_t result[BATCH][PLACE] __attribute__((aligned(32)));
	int peer = window_peer(fx);

	for (size_t i = 0; i < n; i++) {
		struct one *o = &all[i];

		memset(result[i], 0xee, PLACE);
		ONESIDED(fx, .kind = o->kind, .buf = o->operand, .len = COUNT * o->size,
			 .addr = fx->peer, .at = window_at(w, peer, (first + i) * PLACE),
			 .key = w->key[peer], .type = (enum fi_datatype)o->type, .op = (enum fi_op)o->op,
			 .result = result[i], .compare = o->compare, .ctx = &ctx[i]);
	}
	for (size_t i = 0; i < n; i++) {
		struct comp c;
		size_t k;

		COMP_WAIT(fx, FX_TX, &c);
		k = (size_t)((struct fi_context2 *)c.ctx - ctx);
		CHECK(k < n, "a completion of nobody's");
		CHECK(!c.err, "%s fails: %d (%s)", name(&all[k]), c.err, fi_strerror(c.err));
		CHECK(c.flags == onesided_did(all[k].kind), "%s: flags 0x%" PRIx64, name(&all[k]),
		      c.flags);
	}
	for (size_t i = 0; i < n; i++)
		CHECK(all[i].kind == DO_ATOMIC ||
		      arithmetic_same(all[i].type, result[i], all[i].before, COUNT),
		      "%s returns something else than was there", name(&all[i]));
}

static void matrix(struct test *t)
{
	struct one *all;
	struct window w;
	struct fx fx;
	size_t n;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	all = list(&fx, &n);
	CHECK(n, "no operation is valid");
	window_open(&fx, &w, n * PLACE, 0);
	for (size_t i = 0; i < n; i++)
		memcpy(w.g.data + i * PLACE, all[i].before, COUNT * all[i].size);
	fx_barrier(&fx);
	for (size_t i = 0; run_sends(t) && i < n; i += BATCH)
		run_batch(&fx, &w, all + i, n - i < BATCH ? n - i : BATCH, i);
	fx_barrier(&fx);
	for (size_t i = 0; run_receives(t) && i < n; i++) {
		CHECK(arithmetic_same(all[i].type, w.g.data + i * PLACE, all[i].after, COUNT),
		      "%s leaves something wrong", name(&all[i]));
		CHECK(!guard_changed(&w.g, i * PLACE + COUNT * all[i].size,
				     PLACE - COUNT * all[i].size), "%s: bytes behind have changed",
		      name(&all[i]));
	}
	window_close(&w);
	fx_close(&fx);
}

/* ---- what is valid ---- */

/*
 * What is said to be valid is done (matrix), and what is not valid is refused at once;
 * the domain says the same as the endpoint.
 */
static void valid(struct test *t)
{
	static const uint64_t flags[] = { 0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC };
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	for (int kind = DO_ATOMIC; kind <= DO_COMPARE; kind++)
		for (unsigned type = 0; type < ARITHMETIC_TYPES; type++)
			for (unsigned op = 0; op < ARITHMETIC_OPS; op++) {
				struct fi_atomic_attr attr = { 0 };
				size_t count = 0;
				int ret = ask(&fx, (enum onesided_kind)kind, op, type, &count);

				run_step("%s %s %s", onesided_name((enum onesided_kind)kind),
					 arithmetic_type_name(type), arithmetic_op_name(op));
				CHECK(ret <= 0, "the call returns %d", ret);
				CHECK(ret || is_defined((enum onesided_kind)kind, op, type),
				      "it is valid but has no meaning");
				CHECK(!ret == !fi_query_atomic(fx.domain, (enum fi_datatype)type,
					(enum fi_op)op, &attr, flags[kind - DO_ATOMIC]),
				      "fi_query_atomic says something else");
				CHECK(ret || (attr.size == arithmetic_size(type) && attr.count == count),
				      "%zu elements of %zu bytes, want %zu of %zu", attr.count, attr.size,
				      count, arithmetic_size(type));
			}
	fx_close(&fx);
}

/* Everything that the manual defines is there: what MPI libraries need to use a provider. */
static void whole(struct test *t)
{
	size_t count, missing = 0;
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	for (int kind = DO_ATOMIC; kind <= DO_COMPARE; kind++)
		for (unsigned type = 0; type < ARITHMETIC_TYPES; type++)
			for (unsigned op = 0; op < ARITHMETIC_OPS; op++)
				missing += is_defined((enum onesided_kind)kind, op, type) &&
					   ask(&fx, (enum onesided_kind)kind, op, type, &count);
	if (missing && strcmp(t->opt->provider, "tagrv") != 0)
		run_skip("the provider lacks %zu operations", missing);
	CHECK(!missing, "%zu operations are missing", missing);
	fx_close(&fx);
}

/* A call with an operation that is not valid fails, and nothing else happens. */
static void refused(struct test *t)
{
	static const struct {
		enum onesided_kind kind;
		enum fi_op op;
		enum fi_datatype type;
	} wrong[] = {
		{ DO_ATOMIC, FI_ATOMIC_READ, FI_UINT64 }, { DO_ATOMIC, FI_CSWAP, FI_UINT64 },
		{ DO_ATOMIC, FI_BOR, FI_FLOAT }, { DO_FETCH, FI_MSWAP, FI_UINT64 },
		{ DO_FETCH, FI_MIN, FI_DOUBLE_COMPLEX }, { DO_COMPARE, FI_SUM, FI_UINT64 },
		{ DO_COMPARE, FI_MSWAP, FI_DOUBLE }, { DO_COMPARE, FI_CSWAP_LT, FI_FLOAT_COMPLEX },
	};
	struct guard g = guard_alloc(64);
	struct window w;
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	window_open(&fx, &w, 64, 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ssize_t ret = TRY_ONESIDED(&fx, .kind = wrong[i].kind, .buf = g.data, .len = 16,
					   .addr = fx.peer, .at = window_at(&w, window_peer(&fx), 0),
					   .key = w.key[window_peer(&fx)], .type = wrong[i].type,
					   .op = wrong[i].op, .result = g.data + 16,
					   .compare = g.data + 32);

		CHECK(ret < 0 && ret != -FI_EAGAIN, "%s %s %s: %zd", onesided_name(wrong[i].kind),
		      arithmetic_type_name(wrong[i].type), arithmetic_op_name(wrong[i].op), ret);
	}
	fx_barrier(&fx);
	COMP_NONE(&fx, 5);
	CHECK(!guard_changed(&w.g, 0, 64), "something was written");
	window_close(&w);
	guard_free(&g);
	fx_close(&fx);
}

/* ---- many elements, vectors ---- */

/* As many elements as one call takes, at the end of the window. */
static void longest(struct test *t)
{
	struct fi_context2 ctx;
	size_t count = 0, most;
	struct guard g, result;
	struct window w;
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	CHECK_OK(fi_fetch_atomicvalid(fx.ep, FI_UINT32, FI_SUM, &count));
	most = count < 1 << 20 ? count : 1 << 20;
	g = guard_alloc(4 * most);
	result = guard_alloc(4 * most);
	window_open(&fx, &w, 4 * most + 64, 0);
	pattern_fill(w.g.data + 64, 4 * most, 1);
	pattern_fill(g.data, 4 * most, 2);
	fx_barrier(&fx);
	if (run_sends(t)) {
		ONESIDED(&fx, .kind = DO_FETCH, .buf = g.data, .len = 4 * most, .addr = fx.peer,
			 .at = window_at(&w, window_peer(&fx), 64), .key = w.key[window_peer(&fx)],
			 .type = FI_UINT32, .op = FI_SUM, .result = result.data, .ctx = &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = DID_FETCH);
		GUARD_HOLDS(&result, 4 * most, 1);
	}
	fx_barrier(&fx);
	if (run_receives(t)) {
		pattern_fill(result.data, 4 * most, 1);
		arithmetic_apply(FI_SUM, FI_UINT32, result.data, g.data, NULL, most);
		CHECK(!memcmp(result.data, w.g.data + 64, 4 * most), "wrong sums");
	}
	window_close(&w);
	guard_free(&g);
	guard_free(&result);
	fx_close(&fx);
}

enum { PARTS = 3, ELEMENTS = 12 };

/* Pieces of 3, 4 and 5 elements, in the order that 'first' begins with; gaps of one. */
static void pieces(struct iovec *iov, uint8_t *base, size_t first)
{
	for (size_t i = 0; i < PARTS; i++) {
		size_t k = (i + first) % PARTS;

		iov[i] = (struct iovec){ .iov_base = base + k * 8 * 8, .iov_len = (3 + k) * 8 };
	}
}

/* Element i of all pieces together. */
static uint64_t *element(const struct iovec *iov, size_t i)
{
	for (i *= 8; i >= iov->iov_len; iov++)
		i -= iov->iov_len;
	return (void *)((uint8_t *)iov->iov_base + i);
}

static void vector_one(struct fx *fx, struct window *w, enum onesided_kind kind, bool far)
{
	struct guard operand = guard_alloc(256), result = guard_alloc(256), compare = guard_alloc(256);
	struct iovec out[PARTS], in[PARTS], cmp[PARTS], there[PARTS];
	struct fi_rma_iov remote[PARTS];
	struct fi_context2 ctx;
	int peer = window_peer(fx);

	pieces(out, operand.data, 0);
	pieces(in, result.data, 1);
	pieces(cmp, compare.data, 2);
	pieces(there, NULL, 1);
	for (size_t i = 0; i < ELEMENTS; i++) {
		*element(out, i) = 100 + i;
		/* Every other comparison is true. */
		*element(cmp, i) = i & 1 ? 7 * i : 12345;
	}
	for (size_t i = 0; i < PARTS; i++)
		remote[i] = (struct fi_rma_iov){
			.addr = window_at(w, peer, (uintptr_t)there[i].iov_base),
			.len = there[i].iov_len, .key = w->key[peer],
		};
	ONESIDED(fx, .kind = kind, .call = far ? CALL_MSG : CALL_IOV, .iov = out, .iov_count = PARTS,
		 .len = ELEMENTS * 8, .addr = fx->peer, .at = window_at(w, peer, 0),
		 .key = w->key[peer], .remote = far ? remote : NULL, .remote_count = PARTS,
		 .type = FI_UINT64, .op = kind == DO_COMPARE ? FI_CSWAP : FI_SUM, .result_iov = in,
		 .result_count = PARTS, .compare_iov = cmp, .compare_count = PARTS,
		 .flags = FI_DELIVERY_COMPLETE, .ctx = &ctx);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = onesided_did(kind));
	for (size_t i = 0; kind != DO_ATOMIC && i < ELEMENTS; i++)
		CHECK(*element(in, i) == 7 * i, "result %zu is %" PRIu64, i, *element(in, i));
	guard_free(&operand);
	guard_free(&result);
	guard_free(&compare);
}

static uint64_t expected(enum onesided_kind kind, uint64_t i)
{
	if (kind == DO_COMPARE)
		return i & 1 ? 100 + i : 7 * i;
	return 7 * i + 100 + i;
}

static void vectors(struct test *t)
{
	struct iovec there[PARTS];
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	if (fx.info->tx_attr->iov_limit < PARTS || fx.info->tx_attr->rma_iov_limit < PARTS)
		run_skip("fewer than %d pieces", PARTS);
	for (int n = 0; n < 6; n++) {
		enum onesided_kind kind = (enum onesided_kind)(DO_ATOMIC + n / 2);
		struct window w;

		run_step("%s, %s", onesided_name(kind), n & 1 ? "pieces at the target" : "one piece there");
		window_open(&fx, &w, 256, 0);
		pieces(there, w.g.data, 1);
		if (!(n & 1))
			there[0] = (struct iovec){ .iov_base = w.g.data, .iov_len = 256 };
		for (size_t i = 0; i < ELEMENTS; i++)
			*element(there, i) = 7 * i;
		fx_barrier(&fx);
		if (run_sends(t))
			vector_one(&fx, &w, kind, n & 1);
		fx_barrier(&fx);
		for (size_t i = 0; run_receives(t) && i < ELEMENTS; i++)
			CHECK(*element(there, i) == expected(kind, i), "element %zu is %" PRIu64, i,
			      *element(there, i));
		window_close(&w);
	}
	fx_close(&fx);
}

/* ---- injects ---- */

/* The operand is overwritten at once. */
static void inject(struct test *t)
{
	struct fx_attr attr = plain;
	volatile uint64_t *sum;
	struct window w;
	struct fx fx;

	attr.tx_flags = 0;
	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, 64, 0);
	memset(w.g.data, 0, 64);
	sum = (void *)w.g.data;
	fx_barrier(&fx);
	for (uint64_t i = 0; run_sends(t) && i < 100; i++) {
		struct fi_context2 ctx;
		uint64_t operand = i;

		ONESIDED(&fx, .kind = DO_ATOMIC, .call = i & 1 ? CALL_MSG : CALL_INJECT, .buf = &operand,
			 .len = 8, .addr = fx.peer, .at = window_at(&w, window_peer(&fx), 0),
			 .key = w.key[window_peer(&fx)], .type = FI_UINT64, .op = FI_SUM,
			 .flags = FI_INJECT, .ctx = &ctx);
		operand = 1ULL << 50;
		if (i & 1)
			COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = DID_ATOMIC);
	}
	while (run_receives(t) && *sum < 4950) {
		fx_progress(&fx);
		FX_CHECK_MOVES(&fx, "the sum stays at %" PRIu64, *sum);
		sched_yield();
	}
	CHECK(!run_receives(t) || *sum == 4950, "the sum is %" PRIu64, *sum);
	fx_barrier(&fx);
	COMP_NONE(&fx, 0);
	window_close(&w);
	fx_close(&fx);
}

/* ---- several ranks ---- */

enum { TURNS = 300, RANKS = 4 };

/* Each rank draws tickets from rank 0, and adds to a sum there, also rank 0 itself. */
static void draw_tickets(struct fx *fx, struct window *w, uint64_t *tickets)
{
	static struct fi_context2 ctx[2 * TURNS];
	static uint64_t one = 1;
	size_t taken = 0;

	for (size_t i = 0; i < TURNS; i++) {
		for (int k = 0; k < 2; k++)
			ONESIDED(fx, .kind = k ? DO_ATOMIC : DO_FETCH, .buf = &one, .len = 8,
				 .addr = fx->addr[0], .at = window_at(w, 0, 8 * (size_t)k),
				 .key = w->key[0], .type = FI_UINT64, .op = FI_SUM, .result = &tickets[i],
				 .ctx = &ctx[2 * i + (size_t)k]);
		for (struct comp c; comp_poll(fx, FX_TX, &c); taken++)
			CHECK(!c.err, "an atomic fails: %d", c.err);
	}
	for (struct comp c; taken < 2 * TURNS; taken++) {
		COMP_WAIT(fx, FX_TX, &c);
		CHECK(!c.err, "an atomic fails: %d", c.err);
	}
}

/* Tickets of all ranks, as bits: none twice. */
static void check_tickets(struct fx *fx, const uint64_t *tickets)
{
	uint64_t bits[RANKS * TURNS / 64 + 1] = { 0 }, all[RANKS * TURNS / 64 + 1] = { 0 };
	struct run_gathered g;

	for (size_t i = 0; i < TURNS; i++) {
		CHECK(tickets[i] < (uint64_t)fx->t->ranks * TURNS, "ticket %" PRIu64, tickets[i]);
		CHECK(!(bits[tickets[i] / 64] >> tickets[i] % 64 & 1), "ticket %" PRIu64 " twice",
		      tickets[i]);
		bits[tickets[i] / 64] |= 1ULL << tickets[i] % 64;
	}
	fx_exchange(fx, bits, sizeof(bits), &g);
	for (int r = 0; r < fx->t->ranks; r++) {
		memcpy(bits, g.data[r], sizeof(bits));
		for (size_t i = 0; i < sizeof(bits) / 8; i++) {
			CHECK(!(all[i] & bits[i]), "rank %d has a ticket of another one", r);
			all[i] |= bits[i];
		}
	}
}

static void tickets(struct test *t)
{
	static uint64_t mine[TURNS];
	struct window w;
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	window_open(&fx, &w, 64, 0);
	memset(w.g.data, 0, 64);
	fx_barrier(&fx);
	draw_tickets(&fx, &w, mine);
	check_tickets(&fx, mine);
	if (t->rank == 0)
		CHECK(((uint64_t *)(void *)w.g.data)[1] == (uint64_t)t->ranks * TURNS, "the sum is %" PRIu64,
		      ((uint64_t *)(void *)w.g.data)[1]);
	window_close(&w);
	fx_close(&fx);
}

const struct test_case atomic_cases[] = {
	{ "atomic_matrix", "each valid operation on each datatype does what the manual says", matrix, .self = true },
	{ "atomic_valid", "what is said to be valid has a meaning, and both queries agree", valid, .ranks = 1 },
	{ "atomic_whole", "all operations of the manual on all datatypes", whole, .ranks = 1 },
	{ "atomic_refused", "calls with operations that are not valid fail", refused, .self = true },
	{ "atomic_longest", "as many elements as a call takes", longest, .self = true },
	{ "atomic_vectors", "pieces of operands, results, comparisons and at the target", vectors, .self = true },
	{ "atomic_inject", "injected atomics leave their operand at once", inject, .self = true },
	{ "atomic_tickets", "four ranks at the same cell at the same time", tickets, .ranks = RANKS, .self = true },
	{ 0 },
};
