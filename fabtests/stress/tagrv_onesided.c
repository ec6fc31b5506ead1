/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random one-sided traffic: two to four ranks write, read and change each other's memory
 * and their own at the same time, and a model says what each of them must find. See
 * onesided_run.h. There is a case for each kind of keys, with all orders that the provider
 * offers and without any.
 */
#include "onesided_run.h"

#include "framework/options.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { DRAWS = 4, QUEUE = 4096 };

static uint64_t ranks = 3, total_ops = 20000, automatic, window_ops = WINDOW_MAX, segments = PARTS_MAX, use_fences = 1;
uint64_t onesided_strict = 1, onesided_empty = 1;
static struct onesided_shared *shared;

/* ---- one operation ---- */

static struct slot *free_slot(struct side *r)
{
	for (int i = 0; i < SLOTS; i++)
		if (r->slot[i].state == FREE)
			return &r->slot[i];
	return NULL;
}

static uint64_t used_slots(const struct side *r)
{
	uint64_t used = 0;

	for (int i = 0; i < SLOTS; i++)
		used += r->slot[i].state != FREE;
	return used;
}

static const char *describe(const struct slot *s)
{
	static char text[300];

	snprintf(text, sizeof(text), "%s %" PRIu64 " to rank %d (%s, %s %s, %zu bytes in %zu parts from %zu on"
		 ", flags 0x%" PRIx64 ")", onesided_name(s->o.kind), s->number, s->peer,
		 msg_call_name(s->o.call), s->o.kind < DO_ATOMIC ? "bytes" : arithmetic_type_name(s->o.type),
		 s->o.kind < DO_ATOMIC ? "" : arithmetic_op_name(s->o.op), s->len, s->parts,
		 s->range[0].at, s->o.flags);
	return text;
}

static void post(struct side *r)
{
	struct slot *s = r->ready;
	ssize_t ret = onesided_try(r->fx.ep, &s->o);

	if (ret == -FI_EAGAIN)
		return;
	CHECK(!ret, "%s: %zd (%s)", describe(s), ret, fi_strerror((int)-ret));
	r->ready = NULL;
	onesided_posted(r, s);
}

/* A fence is due when half of the window is held by what may be on its way. */
static int unsure_peer(const struct side *r)
{
	uint64_t count = 0;
	int peer = -1;

	for (int i = 0; i < SLOTS; i++) {
		if (r->slot[i].state != UNKNOWN)
			continue;
		count++;
		peer = r->slot[i].peer;
	}
	return 2 * count >= window_ops ? peer : -1;
}

static void draw(struct side *r)
{
	int peer = unsure_peer(r);
	struct slot *s = free_slot(r);

	if (s && peer >= 0) {
		onesided_draw_fence(r, s, peer);
		r->ready = s;
	}
	for (int i = 0; !r->ready && i < DRAWS && used_slots(r) < window_ops; i++)
		if (onesided_draw(r, s))
			r->ready = s;
}

static void try_post(struct side *r)
{
	if (!r->ready && r->posted < r->ops)
		draw(r);
	if (r->ready)
		post(r);
}

/* ---- completions ---- */

static void check_guards(const struct slot *s)
{
	CHECK(!guard_damage(&s->buf, s->buf.len), "%s: bytes written outside the buffer", describe(s));
	CHECK(!s->result.base || !guard_damage(&s->result, s->result.len),
	      "%s: bytes written outside the result", describe(s));
}

static void check_ticket(struct side *r, const struct slot *s)
{
	uint64_t ticket;

	memcpy(&ticket, s->result.data, 8);
	if (s->range[0].at / 8 != TICKET || ticket >= TICKETS)
		return;
	CHECK(!atomic_exchange(&r->all->ticket[s->peer][ticket], 1),
	      "ticket %" PRIu64 " of rank %d was drawn twice", ticket, s->peer);
}

/* Where in the area byte i of the operation is. */
static size_t place_of(const struct slot *s, size_t i)
{
	size_t k = 0;

	while (k + 1 < s->parts && i >= s->range[k].len)
		i -= s->range[k++].len;
	return s->range[k].at + i;
}

/* What the operation has returned must be what was there. */
static void check_returned(const struct side *r, const struct slot *s)
{
	const struct iovec *iov = s->o.kind == DO_GET ? s->iov : s->result_iov;
	size_t count = s->o.kind == DO_GET ? s->o.iov_count : s->o.result_count, at = 0, wrong = 0;
	uint8_t *got = malloc(s->len + 1);

	CHECK(got, "no memory");
	for (size_t i = 0; i < count; at += iov[i++].iov_len)
		memcpy(got + at, iov[i].iov_base, iov[i].iov_len);
	if (onesided_same(s->range, s->parts, got, s->expect, &wrong)) {
		free(got);
		return;
	}
	onesided_print_past(r, s->peer, place_of(s, wrong));
	run_fail(__FILE__, __LINE__, "%s: byte %zu is 0x%02x, want 0x%02x", describe(s), wrong, got[wrong],
		 s->expect[wrong]);
}

static bool take_completions(struct side *r)
{
	struct comp c;
	bool any = false;

	while (comp_poll(&r->fx, FX_TX, &c)) {
		struct slot *s = c.ctx;

		any = true;
		CHECK(s >= r->slot && s < r->slot + SLOTS && s->state == FLYING,
		      "a completion of nobody's: err %d, flags 0x%" PRIx64, c.err, c.flags);
		CHECK(!c.err, "%s fails: %d (%s)", describe(s), c.err, fi_strerror(c.err));
		CHECK(!onesided_strict || c.flags == onesided_did(s->o.kind), "%s: flags 0x%" PRIx64, describe(s), c.flags);
		check_guards(s);
		if (s->shared && s->result.base)
			check_ticket(r, s);
		else if (s->expect && !s->shared)
			check_returned(r, s);
		onesided_completed(r, s);
	}
	return any;
}

/* ---- messages ---- */

/* Where sends are not ordered behind writes, a message leaves when the write has ended. */
static void tell(struct side *r, struct slot *s)
{
	bool may = r->order & FI_ORDER_SAW ? s->state >= FLYING : s->state == TOLD;
	ssize_t ret;

	if (!s->note || !s->by_message || s->said || !may)
		return;
	ret = TRY_SEND(&r->fx, .call = CALL_INJECT, .buf = &s->o.data, .len = sizeof(s->o.data),
		       .addr = r->fx.addr[s->peer]);
	CHECK(!ret || ret == -FI_EAGAIN, "a message about %s: %zd", describe(s), ret);
	s->said = !ret;
}

/* ---- a rank ---- */

static bool is_done(const struct side *r)
{
	if (r->posted < r->ops || r->ready)
		return false;
	for (int i = 0; i < SLOTS; i++)
		if (r->slot[i].state != FREE)
			return false;
	return true;
}

static void turn(struct side *r)
{
	bool any;

	try_post(r);
	for (int i = 0; i < SLOTS; i++)
		tell(r, &r->slot[i]);
	any = take_completions(r);
	if (onesided_look(r) || any)
		return;
	onesided_settle(r);
	FX_CHECK_MOVES(&r->fx, "%" PRIu64 " posted, %" PRIu64 " done: no end in sight; %s", r->posted,
		       r->done, r->ready ? describe(r->ready) : "nothing to post");
	sched_yield();
}

/* Fenced reads tell that all owners have everything. */
static void finish(struct side *r)
{
	for (int i = 0; r->fences && i < r->fx.t->ranks; i++) {
		struct slot *s;

		while (r->ready || !(s = free_slot(r)))
			turn(r);
		onesided_draw_fence(r, s, i);
		r->ready = s;
	}
	while (!is_done(r))
		turn(r);
}

static void traffic(struct side *r)
{
	while (r->posted < r->ops)
		turn(r);
	run_step("the last fences");
	finish(r);
	run_step("the other ranks");
	atomic_fetch_add(&r->all->finished, 1);
	while (atomic_load(&r->all->finished) < (unsigned)r->fx.t->ranks)
		turn(r);
}

static uint64_t offered_order(struct test *t, struct fx_attr attr)
{
	static const uint64_t bits[] = {
		FI_ORDER_RAR, FI_ORDER_RAW, FI_ORDER_WAR, FI_ORDER_WAW, FI_ORDER_SAW,
		FI_ORDER_RMA_RAR, FI_ORDER_RMA_RAW, FI_ORDER_RMA_WAR, FI_ORDER_RMA_WAW,
		FI_ORDER_ATOMIC_RAR, FI_ORDER_ATOMIC_RAW, FI_ORDER_ATOMIC_WAR, FI_ORDER_ATOMIC_WAW,
	};
	uint64_t all = FI_ORDER_SAS;

	attr.mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		struct fi_info *info;

		attr.order = bits[i] | FI_ORDER_SAS;
		if (!fx_try_info(t, &attr, &info))
			all |= bits[i];
		fi_freeinfo(info);
	}
	return all;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

enum orders { ALL, SOME, NONE };

/* The same in all ranks. */
static uint64_t wanted_order(struct test *t, const struct fx_attr *attr, enum orders orders)
{
	uint64_t state = t->seed, all;

	if (orders == NONE)
		return 0;
	all = offered_order(t, *attr);
	if (orders == SOME)
		all &= pattern_next(&state) | FI_ORDER_SAS;
	return all;
}

static void open_run(struct test *t, struct side *r, enum window_keys keys, enum orders orders)
{
	struct fx_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_ATOMIC, .cq_size = QUEUE,
		.progress = automatic ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL,
	};
	struct fx_attr with_fence = attr;
	struct fi_info *info;

	with_fence.caps |= FI_FENCE;
	with_fence.mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	r->fences = !fx_try_info(t, &with_fence, &info);
	fi_freeinfo(info);
	r->fences = r->fences && use_fences;
	if (r->fences)
		attr.caps = with_fence.caps;
	attr.order = wanted_order(t, &attr, orders);
	window_open_ep(t, &r->fx, &attr, keys);
	r->order = attr.order;
	r->inject = r->fx.info->tx_attr->inject_size;
	r->iov_limit = least(r->fx.info->tx_attr->iov_limit, segments);
	r->remote_limit = least(r->fx.info->tx_attr->rma_iov_limit, segments);
	window_open(&r->fx, &r->w, (size_t)t->ranks * AREA + SHARED * 8, 0);
	memset(r->w.g.data, 0, r->w.g.len);
	if (!t->rank)
		printf("   order 0x%" PRIx64 ", fences %d, mr_mode 0x%x\n", r->order, r->fences,
		       r->fx.info->domain_attr->mr_mode);
}

static void run_rank(struct test *t, enum window_keys keys, enum orders orders)
{
	struct side *r = calloc(1, sizeof(*r));

	CHECK(r, "no memory");
	r->all = shared;
	r->random = t->seed * 1000 + (uint64_t)t->rank;
	r->ops = total_ops / (uint64_t)t->ranks;
	open_run(t, r, keys, orders);
	for (size_t i = 0; i < NOTES; i++)
		onesided_receive(r, i);
	fx_barrier(&r->fx);
	traffic(r);
	fx_barrier(&r->fx);
	onesided_check_window(r);
	run_step("all is right");
	fx_barrier(&r->fx);
	window_close(&r->w);
	fx_close_now(&r->fx);
	free(r);
}

static void offset_ordered(struct test *t)
{
	run_rank(t, KEYS_OFFSET, ALL);
}

static void offset_some(struct test *t)
{
	run_rank(t, KEYS_OFFSET, SOME);
}

static void offset_relaxed(struct test *t)
{
	run_rank(t, KEYS_OFFSET, NONE);
}

static void address_ordered(struct test *t)
{
	run_rank(t, KEYS_ADDRESS, ALL);
}

static void address_some(struct test *t)
{
	run_rank(t, KEYS_ADDRESS, SOME);
}

static void address_relaxed(struct test *t)
{
	run_rank(t, KEYS_ADDRESS, NONE);
}

static struct test_case cases[] = {
	{ "onesided_offset_ordered", "keys of the application, with all orders", offset_ordered, .self = true },
	{ "onesided_offset_some", "keys of the application, with some orders", offset_some, .self = true },
	{ "onesided_offset_relaxed", "keys of the application, without order", offset_relaxed, .self = true },
	{ "onesided_address_ordered", "keys of the provider, with all orders", address_ordered, .self = true },
	{ "onesided_address_some", "keys of the provider, with some orders", address_some, .self = true },
	{ "onesided_address_relaxed", "keys of the provider, without order", address_relaxed, .self = true },
};

/* Forked ranks inherit it. */
static bool prepare_shared(void)
{
	if (shared)
		munmap(shared, sizeof(*shared));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return false;
	for (int owner = 0; owner < RANKS_MAX; owner++)
		for (int writer = 0; writer < RANKS_MAX; writer++)
			for (int i = 0; i < NOTES; i++)
				atomic_store(&shared->note[owner][writer][i].taken, true);
	return true;
}

int main(int argc, char **argv)
{
	struct option_number own[] = {
		{ "ranks", "processes, 2 to 4", &ranks },
		{ "ops", "operations of each case, all ranks together", &total_ops },
		{ "window", "operations under way per rank, at most 48", &window_ops },
		{ "auto", "1: FI_PROGRESS_AUTO", &automatic },
		{ "fences", "0: no fences, so all writes have FI_DELIVERY_COMPLETE", &use_fences },
		{ "strict", "0: flags and lengths of entries are not compared", &onesided_strict },
		{ "segments", "pieces of memory of an operation, at most 4", &segments },
		{ "empty", "0: no local segment is empty", &onesided_empty },
	};
	struct run_tally tally = { 0 };
	struct options opt;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, own, sizeof(own) / sizeof(own[0]));
	options_default_timeout(&opt, 1800);
	if (ranks < 2 || ranks > RANKS_MAX || !window_ops || window_ops > WINDOW_MAX) {
		fputs("tagrv_onesided: --ranks is 2 to 4, --window 1 to 48\n", stderr);
		return 2;
	}
	printf("seed %" PRIu64 ", %" PRIu64 " ranks, %" PRIu64 " operations\n", opt.run.seed, ranks,
	       total_ops);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (opt.pattern && !strstr(cases[i].name, opt.pattern))
			continue;
		cases[i].ranks = (int)ranks;
		if (!prepare_shared()) {
			fputs("tagrv_onesided: no shared memory\n", stderr);
			return EXIT_FAILURE;
		}
		run_counted(&cases[i], &opt.run, &tally);
	}
	run_print_tally(&tally);
	return tally.failed || !tally.passed ? EXIT_FAILURE : EXIT_SUCCESS;
}
