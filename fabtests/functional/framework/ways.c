/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ways of a message: see ways.h.
 */
#include "ways.h"
#include "completion.h"
#include "message.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { FILL_MOST = 8192, FILLERS = 2000, LEFT = 3 };

#define AT(member) offsetof(struct fi_tagrv_proto_stats, member)

const struct way ways[WAY_COUNT] = {
	[WAY_EAGER] = { .name = "eager", .proto = "eager:0-", .rndv = "auto", .len = 4000,
			.most = 8192, .sent = AT(eager_tx), .got = AT(eager_rx) },
	[WAY_BATCHED] = { .name = "batched", .proto = "eager:0-", .rndv = "auto", .len = 1000,
			  .most = 1024, .flags = FI_MORE, .batched = true,
			  .sent = AT(batched_tx), .got = AT(batched_rx) },
	[WAY_PREPARED] = { .name = "prepared", .proto = "prepared:1-", .rndv = "auto", .len = 4000,
			   .most = 8192, .prepared = true,
			   .sent = AT(prepared_tx), .got = AT(eager_rx) },
	[WAY_STARVED] = { .name = "starved", .proto = "eager:0-", .rndv = "auto", .len = 4000,
			  .most = 8192, .announced = true, .starved = true,
			  .sent = AT(no_credit_tx), .got = AT(announced_rx) },
	[WAY_INJECTED] = { .name = "injected", .proto = "eager:0-", .rndv = "auto", .len = 1000,
			   .most = 1024, .flags = FI_INJECT, .announced = true, .starved = true,
			   .sent = AT(buffered_tx), .got = AT(announced_rx) },
	[WAY_GET] = { .name = "get", .proto = "get:1-", .rndv = "get", .len = 100000,
		      .most = 5 << 20, .announced = true, .sent = AT(get_tx), .got = AT(get_rx) },
	[WAY_PUT] = { .name = "put", .proto = "put:1-", .rndv = "put", .len = 100000,
		      .most = 5 << 20, .announced = true, .sent = AT(put_tx), .got = AT(put_rx) },
	[WAY_COPY] = { .name = "copy", .proto = "copy:1-", .rndv = "copy", .len = 100000,
		       .most = 5 << 20, .announced = true, .sent = AT(copy_tx), .got = AT(copy_rx) },
	[WAY_PIPELINE] = { .name = "pipeline", .proto = "pipeline:1-", .rndv = "pipeline",
			   .len = 100000, .most = 5 << 20, .announced = true,
			   .sent = AT(pipeline_tx), .got = AT(pipeline_rx) },
};

static struct fi_tagrv_ops_proto *open_ops(struct fx *fx)
{
	void *ops = NULL;
	int ret = fi_open_ops(&fx->ep->fid, TAGRV_EP_PROTO_OPS, 0, &ops, NULL);

	if (ret == -FI_ENOSYS || ret == -FI_EINVAL)
		run_skip("the provider has no counters of protocols");
	CHECK_OK(ret);
	return ops;
}

struct fi_tagrv_proto_stats ways_stats(struct fx *fx)
{
	struct fi_tagrv_proto_stats now;
	size_t len = sizeof(now);

	CHECK_OK(open_ops(fx)->get_stats(fx->ep, &now, &len));
	CHECK(len == sizeof(now), "%zu bytes filled, not %zu", len, sizeof(now));
	return now;
}

uint64_t ways_count(const struct fi_tagrv_proto_stats *stats, size_t member)
{
	uint64_t value;

	memcpy(&value, (const char *)stats + member, sizeof(value));
	return value;
}

/* Call it before the domain is opened, which reads the parameters. */
static void set_parameters(const struct way *way)
{
	setenv("FI_TAGRV_PROTO", way->proto, 1);
	setenv("FI_TAGRV_RNDV", way->rndv, 1);
	/* Devices without prepared sends must send 8192 bytes eagerly, at any measured times. */
	setenv("FI_TAGRV_RNDV_THRESH", way->prepared ? "8193" : "auto", 1);
	setenv("FI_TAGRV_EAGER_BUDGET", way->starved ? "1" : "8388608", 1);
	setenv("FI_TAGRV_EAGER_CREDIT", way->starved ? "16384" : "393216", 1);
}

/* Connects both ranks by an inject, which leaves no completion. */
static void connect(struct fx *fx)
{
	struct fi_context2 ctx;

	if (run_receives(fx->t))
		RECV(fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = WAYS_FILL_TAG, .ctx = &ctx);
	if (run_sends(fx->t))
		SEND(fx, .call = CALL_INJECT, .tagged = true, .addr = fx->peer,
		     .tag = WAYS_FILL_TAG);
	if (run_receives(fx->t))
		COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .tag = WAYS_FILL_TAG);
	fx_barrier(fx);
}

static uint8_t filler[FILL_MOST];
static uint32_t fillers;	/* sent by this process */

/* Sends a filler. Returns false if it was announced because credit was short. */
static bool fill_one(struct fx *fx, size_t len)
{
	struct fi_tagrv_proto_stats before = ways_stats(fx), now;

	SEND(fx, .call = CALL_MSG, .tagged = true, .buf = filler, .len = len, .addr = fx->peer,
	     .tag = WAYS_FILL_TAG);
	fillers++;
	do {
		fx_progress(fx);
		now = ways_stats(fx);
		FX_CHECK_MOVES(fx, "a filler is not sent");
	} while (now.eager_tx == before.eager_tx && now.announced_tx == before.announced_tx);
	if (now.no_credit_tx != before.no_credit_tx)
		return false;
	if (!fx->attr.tx_bind)
		COMP_EXPECT(fx, FX_TX, .flags = SENT_TAGGED);
	return true;
}

static uint64_t messages_got(struct fx *fx)
{
	struct fi_tagrv_proto_stats now = ways_stats(fx);

	return now.eager_rx + now.announced_rx;
}

/* Tells both ranks how many fillers the sender has sent. */
static uint32_t agree(struct fx *fx)
{
	struct run_gathered all;
	uint32_t n;

	fx_exchange(fx, &fillers, sizeof(fillers), &all);
	memcpy(&n, all.data[0], sizeof(n));
	return n;
}

/* Uses up all credit, first by long fillers, then by empty ones. */
static void starve(struct fx *fx)
{
	static const size_t lens[LEFT] = { FILL_MOST, 1000, 0 };
	uint32_t n;

	fillers = 0;
	for (int i = 0; i < LEFT && run_sends(fx->t); i++)
		while (fill_one(fx, lens[i]))
			CHECK(fillers < FILLERS, "the peer keeps whatever is sent to it");
	/* The fillers, and the inject of connect(). */
	n = agree(fx) + 1;
	while (run_receives(fx->t) && messages_got(fx) < n) {
		fx_progress(fx);
		FX_CHECK_MOVES(fx, "fillers do not come");
	}
	fx_barrier(fx);
}

static void drain(struct fx *fx)
{
	uint32_t n = agree(fx);
	struct fi_context2 ctx;

	for (uint32_t i = 0; i < n && run_receives(fx->t); i++) {
		struct comp c;

		RECV(fx, .tagged = true, .buf = filler, .len = FILL_MOST, .addr = FI_ADDR_UNSPEC,
		     .tag = WAYS_FILL_TAG, .ctx = &ctx);
		COMP_WAIT(fx, FX_RX, &c);
		CHECK(!c.err, "filler %u: err %d", i, c.err);
	}
	/* The sends without credit complete only now. */
	for (int i = 0; i < LEFT && run_sends(fx->t) && !fx->attr.tx_bind; i++)
		COMP_EXPECT(fx, FX_TX, .flags = SENT_TAGGED);
}

size_t ways_sent(const struct fx *fx, const struct way *way)
{
	const char *name = fx->info->domain_attr->name, *fake = getenv("FAKE_VERBS");
	/* Nor do devices that gather a few segments only send what is prepared. */
	bool few = fake && (!strcmp(fake, "hns") || !strcmp(fake, "qedr"));
	bool copies = few || !strcmp(name, "shm") || !strcmp(name, "loop");

	return way->prepared && copies ? AT(eager_tx) : way->sent;
}

void ways_open(struct test *t, struct fx *fx, const struct way *way, const struct fx_attr *attr)
{
	set_parameters(way);
	fx_open(t, fx, attr);
	open_ops(fx);
	connect(fx);
	if (way->starved)
		starve(fx);
}

void ways_close(struct fx *fx, const struct way *way)
{
	if (way->starved)
		drain(fx);
	fx_close(fx);
}
