/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The board, and flows of numbered messages in one direction. Both sides derive
 * length and content of a message from its tag.
 *
 * Every second receive ignores the number, so that messages meet exact receives as
 * well as wildcards. Receives are posted and matched in order, so each of them must
 * get exactly the number it was posted for, as long as the sender lives.
 */
#include "kill.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WHAT_SHIFT = 56, ROUND_SHIFT = 32, EAGER_MAX = 8192, BULK_MIN = 64 << 10, BULK_MORE = 1 << 20 };

struct kill_board *board;
enum kill_kind kill_kind;

int64_t kill_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static bool is_bulk(enum flow_what what)
{
	return what == FLOW_NEVER || (what == FLOW_DATA && kill_kind != KILL_EAGER);
}

size_t flow_len_max(enum flow_what what)
{
	if (is_bulk(what))
		return BULK_MIN + BULK_MORE;
	return what == FLOW_DATA ? EAGER_MAX : BULK_MIN;
}

static size_t len_of(const struct flow *f, uint64_t tag)
{
	uint64_t r = pattern_next(&tag);

	if (is_bulk(f->what))
		return BULK_MIN + r % (BULK_MORE + 1);
	return (r & 7 ? r >> 8 & 255 : r >> 8) % (flow_len_max(f->what) + 1);
}

void flow_open(struct flow *f, struct fx *fx, enum flow_what what, int round, bool sends,
	       fi_addr_t addr)
{
	memset(f, 0, sizeof(*f));
	f->fx = fx;
	f->what = what;
	f->sends = sends;
	f->addr = addr;
	f->next = (uint64_t)what << WHAT_SHIFT | (uint64_t)round << ROUND_SHIFT;
	for (int i = 0; i < FLOW_WINDOW; i++)
		f->op[i].g = guard_alloc(flow_len_max(what));
}

void flow_close(struct flow *f)
{
	for (int i = 0; i < FLOW_WINDOW; i++)
		guard_free(&f->op[i].g);
	memset(f, 0, sizeof(*f));
}

static ssize_t try_post(struct flow *f, struct flow_op *op)
{
	if (!f->sends)
		return TRY_RECV(f->fx, .tagged = true, .buf = op->g.data, .len = op->g.len,
				.addr = FI_ADDR_UNSPEC, .tag = op->tag,
				.ignore = op->wide ? UINT32_MAX : 0, .ctx = op);
	return TRY_SEND(f->fx, .tagged = true, .buf = op->g.data, .len = len_of(f, op->tag),
			.addr = f->addr, .tag = op->tag, .ctx = op);
}

static void fill(struct flow *f, struct flow_op *op)
{
	op->tag = f->next++;
	op->wide = op->tag & 1;
	op->filled = true;
	if (f->sends)
		pattern_fill(op->g.data, len_of(f, op->tag), op->tag);
}

/* Returns false if the provider refused, for now or for ever. */
static bool post_one(struct flow *f, struct flow_op *op)
{
	ssize_t ret;

	if (!op->filled)
		fill(f, op);
	op->posted = kill_now();
	ret = try_post(f, op);
	if (ret == -FI_EAGAIN)
		return false;
	if (ret) {
		CHECK(f->mortal && atomic_load(&board->killed_at), "%s of a living peer: %zd (%s)",
		      f->sends ? "send" : "receive", ret, fi_strerror((int)-ret));
		f->refused++;
		f->stopped = true;
		return false;
	}
	op->filled = false;
	op->busy = true;
	f->busy++;
	f->posted++;
	return true;
}

/* Posts in order: receives match in the order of posting, which must be that of their numbers. */
void flow_post(struct flow *f)
{
	for (int n = 0; n < FLOW_WINDOW && !f->stopped; n++) {
		struct flow_op *op = &f->op[f->posted % FLOW_WINDOW];

		if (op->busy || !post_one(f, op))
			return;
	}
}

/*
 * A message that the victim had only announced makes the receive that matches it
 * fail. So each receive gets the message with its own number, or fails.
 */
static void check_message(const struct flow *f, const struct flow_op *op, const struct comp *c)
{
	uint64_t tag = op->tag;
	size_t len = len_of(f, tag), at;

	CHECK(c->flags == GOT_TAGGED && c->tag == tag && c->len == len,
	      "flags 0x%" PRIx64 " tag 0x%" PRIx64 " len %zu, want tag 0x%" PRIx64 " len %zu",
	      c->flags, c->tag, c->len, tag, len);
	at = pattern_check(op->g.data, len, tag);
	CHECK(at == len, "message 0x%" PRIx64 ": wrong content at byte %zu of %zu", tag, at, len);
}

static void take_error(struct flow *f, const struct flow_op *op, const struct comp *c)
{
	int64_t killed = atomic_load(&board->killed_at);

	/* The survivor says so before it closes: from then on, what is left with it fails. */
	if (!f->mortal && atomic_load(&board->over)) {
		f->failed++;
		return;
	}
	/* Wait a moment: if the peer ended because a check failed, its report comes first. */
	if (!f->mortal || !killed)
		usleep(100000);
	CHECK(f->mortal && killed, "an operation with a living peer fails: err %d (%s)", c->err,
	      fi_strerror(c->err));
	if (op->withdrawn) {
		CHECK(c->err == FI_ECANCELED, "a receive withdrawn ends with err %d", c->err);
		f->cancelled++;
		return;
	}
	CHECK(c->err != FI_ECANCELED, "nobody withdrew operation 0x%" PRIx64, op->tag);
	f->failed++;
	/* Operations posted after the kill do not count. */
	if (op->posted < killed && kill_now() - killed > f->worst)
		f->worst = kill_now() - killed;
}

static void take(struct flow *f, struct flow_op *op, const struct comp *c)
{
	CHECK(op->busy, "operation 0x%" PRIx64 " completed twice, now with err %d", op->tag,
	      c->err);
	op->busy = false;
	f->busy--;
	if (c->err) {
		take_error(f, op, c);
		return;
	}
	f->done++;
	if (f->sends)
		COMP_SAME(f->fx, c, .ctx = op, .flags = SENT_TAGGED);
	else
		check_message(f, op, c);
}

static void dispatch(struct flow *flow, size_t n, const struct comp *c)
{
	for (size_t i = 0; i < n; i++) {
		struct flow_op *op = c->ctx;

		if (op < flow[i].op || op >= flow[i].op + FLOW_WINDOW)
			continue;
		take(&flow[i], op, c);
		return;
	}
	CHECK(false, "a completion with foreign context %p, err %d", c->ctx, c->err);
}

bool flow_poll(struct flow *flow, size_t n)
{
	bool any = false;
	struct comp c;

	for (int side = 0; side < 2; side++) {
		if (!comp_poll(flow->fx, side, &c))
			continue;
		dispatch(flow, n, &c);
		any = true;
	}
	return any;
}

void flow_cancel(struct flow *f)
{
	for (int i = 0; i < FLOW_WINDOW; i++) {
		int ret;

		if (!f->op[i].busy)
			continue;
		ret = (int)fi_cancel(&f->fx->ep->fid, &f->op[i]);
		f->op[i].withdrawn = !ret;
		CHECK(!ret || ret == -FI_ENOENT, "fi_cancel: %d (%s)", ret, fi_strerror(-ret));
	}
}
