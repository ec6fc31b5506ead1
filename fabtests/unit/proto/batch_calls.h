/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of the tests of messages that share a packet: test_batch*.c.
 */
#ifndef FABTESTS_UNIT_PROTO_BATCH_CALLS_H
#define FABTESTS_UNIT_PROTO_BATCH_CALLS_H

#include <string.h>

#include "common/engine_fixture.h"

static char ctx[16];		/* contexts of operations */
static char data[8192];		/* payload of sends */

static inline struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

/* Sends cnt messages of len bytes with the tags and contexts 0, 1, ... */
static inline void send_some(size_t cnt, size_t len, uint64_t flags)
{
	for (size_t i = 0; i < cnt; i++)
		cr_assert_eq(submit_send(data, len, i, &ctx[i], flags), 0);
}

/* Queues cnt messages while the transport has no room, then makes room. */
static inline void send_backed_up(size_t cnt, size_t len, uint64_t flags)
{
	fake.refuse_all = true;
	send_some(cnt, len, flags);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
}

/* A packet of several messages, as the peer sends it. */
struct packet {
	size_t	len;
	uint8_t	bytes[8192];
};

/* The header alone, with the next number that the peer uses. */
static inline void begin(struct packet *p)
{
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_BATCH, .seq = fx.rx_seq,
	};
	uint64_t words[TAGRV_SHORT_WORDS];

	tagrv_hdr_pack(words, &hdr);
	memcpy(p->bytes, words, sizeof(words));
	p->len = sizeof(words);
}

/* Appends a message; handle: the operation at the peer that a FIN will name, or 0. */
static inline void add(struct packet *p, const char *text, uint64_t tag,
		       uint16_t flags, uint32_t handle)
{
	const struct tagrv_item item = {
		.op = handle, .len = (uint16_t) strlen(text), .tag = tag,
		.flags = flags, .data = 0x1122334455667788,
	};
	size_t head = tagrv_item_pack(p->bytes + p->len, &item);

	memcpy(p->bytes + p->len + head, text, item.len);
	p->len += tagrv_item_size(item.flags, item.len);
	fx.rx_seq++;
}

static inline void deliver(const struct packet *p)
{
	fake_deliver(fx.link, p->bytes, p->len);
}

#endif
