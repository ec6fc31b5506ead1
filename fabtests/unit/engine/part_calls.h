/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An engine whose transport has room for so many links, and what its peers answer.
 */
#ifndef TAGRV_PART_CALLS_H
#define TAGRV_PART_CALLS_H

#include "common/engine_fixture.h"
#include "engine/part.h"
#include "wireup/wireup.h"

static struct tagrv_quota quota;

static inline void part_setup(void)
{
	engine_setup();
	memset(&quota, 0, sizeof(quota));
	tagrv_quota_init(&quota, 1000, 100);
	fake.base.quotas[0] = &quota;
}

static char message[8] = "message";
static uint32_t epoch;

/* A connection to the peer, by a link that is 'link' from then on. */
static inline void up_with(const struct tagrv_addr *addr, uint64_t features)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.addr = *addr,
		.epoch = ++epoch,
		.sendable = true,
		.max_packet = fx.max_packet,
		.features = features,
	};

	fx.link = event.link = fake_link();
	fx.rx_seq = 0;
	tagrv_engine_wireup_event(fx.engine, &event);
	fake_end_closed();
}

static inline void up(void)
{
	up_with(&fx.addr, TAGRV_WIRE_PART);
}

static inline void gone(int status)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_GONE,
		.addr = fx.addr,
		.epoch = epoch,
		.status = status,
	};

	tagrv_engine_wireup_event(fx.engine, &event);
}

static inline void crowded(void)
{
	struct tagrv_wireup_event event = { .type = TAGRV_WIREUP_CROWDED };

	tagrv_engine_wireup_event(fx.engine, &event);
	fake_end_closed();
}

static inline void pass(int cnt)
{
	for (int i = 0; i < cnt; i++)
		tagrv_engine_progress(fx.engine);
}

static inline const struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

static inline unsigned closed(void)
{
	fake_end_closed();
	return peer()->lane ? 0 : (unsigned) fx.engine->stats.parted;
}

static inline int send_one(int *ctx)
{
	return submit_send(message, sizeof(message), 1, ctx, 0);
}

/* The number of our question, which is the last packet. */
static inline uint64_t asked(void)
{
	struct tagrv_hdr hdr;

	cr_assert_gt(fake.log_cnt, 0);
	hdr = packet_header(fake.log_cnt - 1);
	cr_assert_eq(hdr.opcode, TAGRV_PKT_PART);
	cr_assert_eq(hdr.op, TAGRV_PKT_PART_ASK);
	cr_assert_eq(peer()->state, TAGRV_PEER_PARTING);
	return hdr.data;
}

/* A connection that was used once, and that the peer is asked to close. */
static inline uint64_t ask(void)
{
	int ctx;

	up();
	cr_assert_eq(send_one(&ctx), 0);
	cr_assert_eq(take(&fx.tx).context, &ctx);
	crowded();
	return asked();
}

static inline void expect_answer(uint32_t want, uint64_t nr)
{
	struct tagrv_hdr hdr = packet_header(fake.log_cnt - 1);

	cr_assert_eq(hdr.opcode, TAGRV_PKT_PART);
	cr_assert_eq(hdr.op, want);
	cr_assert_eq(hdr.data, nr);
}

static inline void expect_lost(int *ctx, int err)
{
	struct tagrv_comp comp = take(&fx.tx);

	cr_assert_eq(comp.context, ctx);
	cr_assert_eq(comp.err, (uint64_t) err);
}

#endif
