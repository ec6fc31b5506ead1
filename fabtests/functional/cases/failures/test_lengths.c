/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lengths at every limit, also such whose sum exceeds 64 bits: a call is taken, or
 * answers the documented code and changes nothing.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"

#include <string.h>
#include <sys/mman.h>

#define B40 ((size_t)1 << 40)
#define B63 ((size_t)1 << 63)
#define ALL SIZE_MAX			/* 2^64 - 1 */
#define NONE ((size_t)1 << 48)		/* with these bytes: at NULL */

enum { SEGMENTS = 4, SPACE_SHIFT = 41 };

struct row {
	size_t cnt;
	size_t len[SEGMENTS];
	int err;
	uint64_t flags;
	enum msg_call call;
};

static const struct row sends[] = {
	{ 1, { B40 - 1 }, 0, .call = CALL_MSG },
	{ 1, { B40 }, 0, .call = CALL_BUF },
	{ 1, { B40 + 1 }, FI_EMSGSIZE, .call = CALL_BUF },
	{ 1, { B63 - 1 }, FI_EMSGSIZE, .call = CALL_BUF },
	{ 1, { B63 }, FI_EMSGSIZE, .call = CALL_DATA },
	{ 1, { B63 + 1 }, FI_EMSGSIZE, .call = CALL_BUF },
	{ 1, { ALL - 7 }, FI_EMSGSIZE, .call = CALL_BUF },
	{ 1, { ALL }, FI_EMSGSIZE, .call = CALL_BUF },
	{ 1, { ALL }, FI_EMSGSIZE, .call = CALL_INJECT },
	{ 1, { ALL - 7 }, FI_EMSGSIZE, .call = CALL_INJECTDATA },
	{ 2, { B40 - 1, 1 }, 0, .call = CALL_IOV },
	{ 2, { B40, 1 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 2, { B40 / 2, B40 / 2 + 1 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 2, { B63, B63 - 1 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 2, { B63, B63 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 2, { B63, B63 + 1 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 2, { ALL - 7, 7 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 2, { ALL - 7, 8 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 2, { ALL - 7, 16 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 2, { 16, ALL - 7 }, FI_EMSGSIZE, .call = CALL_MSG },
	{ 2, { ALL - 7, 60008 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 2, { ALL - 7, 60008 }, FI_EMSGSIZE, FI_DELIVERY_COMPLETE, CALL_MSG },
	{ 2, { ALL - 7, 16 }, FI_EMSGSIZE, FI_INJECT, CALL_MSG },
	{ 2, { ALL, ALL }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 3, { ALL - 7, 0, 16 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 4, { B63 / 2, B63 / 2, B63 / 2, B63 / 2 + 100 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 4, { 8, ALL, 8, B40 }, FI_EMSGSIZE, .call = CALL_MSG },
};

static const struct row recvs[] = {
	{ 1, { B40 + 1 }, 0, .call = CALL_BUF },
	{ 1, { ALL }, 0, .call = CALL_BUF },
	{ 2, { B63, B63 - 2 }, 0, .call = CALL_IOV },
	{ 2, { B63, B63 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 2, { ALL - 7, 16 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 2, { ALL - 7, 60008 }, FI_EMSGSIZE, .call = CALL_MSG },
	{ 3, { 1, ALL, 1 }, FI_EMSGSIZE, .call = CALL_IOV },
	{ 4, { B63 / 2, B63 / 2, B63 / 2, B63 / 2 }, FI_EMSGSIZE, .call = CALL_MSG },
};

/* Of both directions; other providers may end with SIGSEGV. */
static const struct row nulls[] = {
	{ 1, { NONE | 1 }, FI_EINVAL, .call = CALL_BUF },
	{ 1, { NONE | 60000 }, FI_EINVAL, .call = CALL_MSG },
	{ 2, { 4, NONE | 4 }, FI_EINVAL, .call = CALL_IOV },
	{ 3, { NONE | 100000, 0, 4 }, FI_EINVAL, .call = CALL_MSG },
	{ 1, { NONE | 100 }, FI_EINVAL, .call = CALL_INJECT },
};

static const struct fx_attr plain;

/* The row's call; its segments begin at buf, or at NULL. */
static struct msg message_of(const struct row *row, struct iovec *iov, void *buf, struct fi_context2 *ctx)
{
	for (size_t i = 0; i < row->cnt; i++) {
		bool none = row->err == FI_EINVAL && row->len[i] & NONE;

		iov[i] = (struct iovec){ none ? NULL : buf, none ? row->len[i] & ~NONE : row->len[i] };
	}
	return (struct msg){
		.call = row->call, .flags = row->flags, .ctx = ctx, .addr = FI_ADDR_UNSPEC,
		.buf = iov[0].iov_base, .len = iov[0].iov_len, .tag = 9,
		.iov = row->call == CALL_IOV || row->call == CALL_MSG ? iov : NULL,
		.iov_count = row->cnt,
	};
}

static void note(const char *what, const struct row *row, bool tagged)
{
	run_step("%s: %s of %zu segments, %zx %zx %zx %zx, tagged %d", what, msg_call_name(row->call),
		 row->cnt, row->len[0], row->len[1], row->len[2], row->len[3], tagged);
}

/* A message that is taken is received with room for nothing. */
static void receive_nothing(struct fx *fx, const struct msg *sent, size_t len)
{
	struct fi_context2 ctx;

	RECV(fx, .tagged = sent->tagged, .addr = FI_ADDR_UNSPEC, .tag = 9, .ctx = &ctx);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .err = FI_ETRUNC, .olen = len, .tag = sent->tagged ? 9 : 0,
		    .flags = sent->tagged ? GOT_TAGGED : GOT_MSG);
	COMP_EXPECT(fx, FX_TX, .ctx = sent->ctx, .flags = sent->tagged ? SENT_TAGGED : SENT_MSG);
}

static void send_row(struct fx *fx, const struct row *row, void *buf, bool tagged)
{
	struct iovec iov[SEGMENTS];
	struct fi_context2 ctx;
	struct msg m = message_of(row, iov, buf, &ctx);

	m.tagged = tagged;
	m.addr = fx->addr[0];
	note("send", row, tagged);
	CHECK_ERR(msg_try_send(fx->ep, &m), -row->err);
	if (!row->err)
		receive_nothing(fx, &m, row->len[0] + row->len[1]);
}

static void recv_row(struct fx *fx, const struct row *row, void *buf, bool tagged)
{
	struct iovec iov[SEGMENTS];
	struct fi_context2 ctx;
	struct msg m = message_of(row, iov, buf, &ctx);

	m.tagged = tagged;
	note("receive", row, tagged);
	CHECK_ERR(msg_try_recv(fx->ep, &m), -row->err);
	if (row->err)
		return;
	CHECK_OK((int)fi_cancel(&fx->ep->fid, &ctx));
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .err = FI_ECANCELED);
}

static void message_to_self(struct fx *fx)
{
	struct fi_context2 ctx[2];
	char out[4] = "abc", in[4] = "";

	RECV(fx, .tagged = true, .buf = in, .len = 4, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx[0]);
	SEND(fx, .tagged = true, .buf = out, .len = 4, .addr = fx->addr[0], .tag = 1, .ctx = &ctx[1]);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED, .tag = 1, .len = 4, .buf = in);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx[1], .flags = SENT_TAGGED);
	CHECK(!memcmp(in, out, 4), "a message after refused ones is damaged");
}

static void null_rows(struct fx *fx, void *buf, bool tagged)
{
	for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++) {
		send_row(fx, &nulls[i], buf, tagged);
		if (nulls[i].call != CALL_INJECT)
			recv_row(fx, &nulls[i], buf, tagged);
	}
}

static void lengths(struct test *t)
{
	size_t space = (size_t)1 << SPACE_SHIFT;
	struct fx fx;
	void *buf;

	/* Memory for the messages that are taken; nobody writes to it. */
	buf = mmap(NULL, space, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (buf == MAP_FAILED)
		run_skip("2^%d bytes of addresses cannot be had", SPACE_SHIFT);
	fx_open(t, &fx, &plain);
	if (fx.info->ep_attr->max_msg_size != B40)
		run_skip("the longest message has not 2^40 bytes");
	message_to_self(&fx);
	for (int tagged = 0; tagged < 2; tagged++) {
		for (size_t i = 0; i < sizeof(sends) / sizeof(sends[0]); i++)
			send_row(&fx, &sends[i], buf, tagged);
		for (size_t i = 0; i < sizeof(recvs) / sizeof(recvs[0]); i++)
			recv_row(&fx, &recvs[i], buf, tagged);
		if (!strcmp(t->opt->provider, "tagrv"))
			null_rows(&fx, buf, tagged);
	}
	COMP_NONE(&fx, 20);
	message_to_self(&fx);
	fx_close(&fx);
	munmap(buf, space);
}

const struct test_case length_cases[] = {
	{ "lengths", "sums of lengths at 2^40, 2^63 and 2^64, and NULL, have their documented answers", lengths, .ranks = 1 },
	{ 0 },
};
