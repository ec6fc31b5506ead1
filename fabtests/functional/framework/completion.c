/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads CQ entries of any format into struct comp and compares them field by field.
 */
#include "completion.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static bool poll_error(struct fx *fx, enum fx_side side, struct comp *c)
{
	struct fi_cq_err_entry e;
	ssize_t n;

	memset(&e, 0, sizeof(e));
	n = fi_cq_readerr(fx->cq[side], &e, 0);
	if (n == -FI_EAGAIN)
		return false;
	CHECK(n == 1, "fi_cq_readerr: %zd", n);
	CHECK(e.err > 0, "an error entry with err %d", e.err);
	/* FI_PEEK without success is no move: a test may repeat it for ever. */
	if (e.err != FI_ENOMSG)
		run_moved();
	*c = (struct comp){
		.ctx = e.op_context,
		.flags = e.flags,
		.len = e.len,
		.buf = e.buf,
		.data = e.data,
		.tag = e.tag,
		.err = e.err,
		.olen = e.olen,
		.src = FI_ADDR_NOTAVAIL,
	};
	return true;
}

static ssize_t read_one(struct fx *fx, enum fx_side side, struct fi_cq_tagged_entry *e,
			fi_addr_t *src)
{
	if (fx->attr.caps & FI_SOURCE)
		return fi_cq_readfrom(fx->cq[side], e, 1, src);
	return fi_cq_read(fx->cq[side], e, 1);
}

/* Each format is a prefix of fi_cq_tagged_entry. */
bool comp_poll(struct fx *fx, enum fx_side side, struct comp *c)
{
	struct fi_cq_tagged_entry e;
	fi_addr_t src = FI_ADDR_NOTAVAIL;
	ssize_t n;

	memset(&e, 0, sizeof(e));
	n = read_one(fx, side, &e, &src);
	if (n == -FI_EAGAIN || n == -FI_EINTR)
		return false;
	if (n == -FI_EAVAIL)
		return poll_error(fx, side, c);
	CHECK(n == 1, "fi_cq_read of one entry: %zd (%s)", n, n < 0 ? fi_strerror((int)-n) : "");
	run_moved();
	*c = (struct comp){
		.ctx = e.op_context,
		.flags = e.flags,
		.len = e.len,
		.buf = e.buf,
		.data = e.data,
		.tag = e.tag,
		.src = src,
	};
	return true;
}

static const char *side_name(enum fx_side side)
{
	return side == FX_TX ? "transmit" : "receive";
}

void comp_wait(const char *file, int line, struct fx *fx, enum fx_side side, struct comp *c)
{
	while (!comp_poll(fx, side, c)) {
		if (fx->cq[FX_TX] != fx->cq[FX_RX])
			fi_cq_read(fx->cq[!side], NULL, 0);
		fx_look(fx);
		run_check_moves(file, line, "no completion on the %s CQ", side_name(side));
		sched_yield();
	}
}

/* A fixture that a case has put together by itself has no word of them. */
static uint64_t tag_bits(const struct fx *fx)
{
	return fx->tag_bits ? fx->tag_bits : UINT64_MAX;
}

static void compare_error(const char *file, int line, const struct fx *fx,
			  const struct comp *got, const struct comp *want)
{
	if (want->flags & ~got->flags)
		run_fail(file, line, "error entry: flags 0x%" PRIx64 ", want 0x%" PRIx64, got->flags,
			 want->flags);
	if (want->err != FI_ETRUNC)
		return;
	if (got->len != want->len || got->olen != want->olen)
		run_fail(file, line, "truncated: len %zu olen %zu, want %zu and %zu", got->len,
			 got->olen, want->len, want->olen);
	if (want->flags & FI_TAGGED && got->tag != (want->tag & tag_bits(fx)))
		run_fail(file, line, "truncated: tag 0x%" PRIx64 ", want 0x%" PRIx64, got->tag,
			 want->tag);
}

static uint64_t data_mask(const struct fx *fx)
{
	size_t bytes = fx->info->domain_attr->cq_data_size;

	return bytes >= 8 ? UINT64_MAX : (1ULL << (8 * bytes)) - 1;
}

static void compare_fields(const char *file, int line, const struct fx *fx,
			   const struct comp *got, const struct comp *want)
{
	enum fi_cq_format format = fx->attr.format ? fx->attr.format : FI_CQ_FORMAT_TAGGED;

	if (format >= FI_CQ_FORMAT_MSG && got->flags != want->flags)
		run_fail(file, line, "flags 0x%" PRIx64 ", want exactly 0x%" PRIx64, got->flags,
			 want->flags);
	if (!(want->flags & (FI_RECV | FI_REMOTE_WRITE)))
		return;
	if (format >= FI_CQ_FORMAT_MSG && got->len != want->len)
		run_fail(file, line, "len %zu, want %zu", got->len, want->len);
	if (format >= FI_CQ_FORMAT_DATA && want->flags & FI_REMOTE_CQ_DATA &&
	    (got->data ^ want->data) & data_mask(fx))
		run_fail(file, line, "data 0x%" PRIx64 ", want 0x%" PRIx64, got->data, want->data);
	if (format >= FI_CQ_FORMAT_TAGGED && want->flags & FI_TAGGED &&
	    got->tag != (want->tag & tag_bits(fx)))
		run_fail(file, line, "tag 0x%" PRIx64 ", want 0x%" PRIx64, got->tag, want->tag);
}

void comp_compare(const char *file, int line, const struct fx *fx, const struct comp *got,
		  const struct comp *want)
{
	if (got->err != want->err)
		run_fail(file, line, "completion with err %d (%s), want %d (%s)", got->err,
			 got->err ? fi_strerror(got->err) : "success", want->err,
			 want->err ? fi_strerror(want->err) : "success");
	if (got->ctx != want->ctx)
		run_fail(file, line, "completion with context %p, want %p", got->ctx, want->ctx);
	if (want->err)
		compare_error(file, line, fx, got, want);
	else
		compare_fields(file, line, fx, got, want);
}

void comp_expect(const char *file, int line, struct fx *fx, enum fx_side side,
		 const struct comp *want)
{
	struct comp got;

	comp_wait(file, line, fx, side, &got);
	comp_compare(file, line, fx, &got, want);
}

static size_t context_index(const char *file, int line, const struct comp *c,
			    struct fi_context2 *ctx, size_t n)
{
	uintptr_t offset = (uintptr_t)c->ctx - (uintptr_t)ctx;
	size_t i = offset / sizeof(*ctx);

	if (c->err)
		run_fail(file, line, "completion with err %d (%s), want success", c->err,
			 fi_strerror(c->err));
	if (offset % sizeof(*ctx) || i >= n)
		run_fail(file, line, "completion with unknown context %p", c->ctx);
	return i;
}

void comp_many(const char *file, int line, struct fx *fx, enum fx_side side,
	       struct fi_context2 *ctx, size_t n, bool ordered)
{
	uint8_t *seen = calloc(n ? n : 1, 1);

	CHECK(seen, "no memory");
	for (size_t k = 0; k < n; k++) {
		struct comp c;
		size_t i;

		comp_wait(file, line, fx, side, &c);
		i = context_index(file, line, &c, ctx, n);
		if (seen[i]++)
			run_fail(file, line, "operation %zu of %zu completed twice", i, n);
		if (ordered && i != k)
			run_fail(file, line, "operation %zu completed, want %zu of %zu", i, k, n);
	}
	free(seen);
}

void comp_none(const char *file, int line, struct fx *fx, int ms)
{
	int64_t end = run_now() + ms;
	struct comp c;

	do {
		for (int side = 0; side < 2; side++)
			if (comp_poll(fx, side, &c))
				run_fail(file, line,
					 "unexpected entry on the %s CQ: err %d flags 0x%" PRIx64
					 " len %zu tag 0x%" PRIx64,
					 side_name(side), c.err, c.flags, c.len, c.tag);
		sched_yield();
	} while (run_now() < end);
}
