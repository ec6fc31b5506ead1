/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of the tests of tagged messages that a device's list may match: test_listed*.c. What
 * the peer sends is written byte by byte here, not by the functions under test.
 */
#ifndef FABTESTS_UNIT_PROTO_LISTED_CALLS_H
#define FABTESTS_UNIT_PROTO_LISTED_CALLS_H

#include <string.h>

#include "common/engine_fixture.h"
#include "object/recv.h"
#include "object/tags.h"
#include "proto/listed.h"

#define HIS	0x155u	/* the number in the peer's tags */
#define OURS	0x2aau	/* the one in ours */
#define TAG	UINT64_C(0x123456789abc)
#define DATA64	UINT64_C(0x1122334455667788)

static char ctx[8];		/* contexts of operations */

static inline struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

/* A connection with lists on both sides, as the transport makes it. */
static inline void listed_up(bool sendable)
{
	peer_up(sendable);
	fx.link->number = OURS;
	fx.link->given = HIS;
	peer()->number = OURS;
}

static inline void listed_setup(void)
{
	engine_setup();
	listed_up(true);
}

/* A message as the peer writes it: two words, then what is behind them. */
struct message {
	uint64_t tag;
	uint32_t app;
	size_t	len;
	uint8_t	bytes[8192];
};

static inline void append(struct message *m, const void *bytes, size_t len)
{
	memcpy(m->bytes + m->len, bytes, len);
	m->len += len;
}

static inline uint64_t numbered(uint64_t tag)
{
	return tag | (uint64_t) HIS << 48;
}

static inline void plain(struct message *m, const char *text)
{
	m->tag = numbered(TAG);
	m->app = 0;
	m->len = 0;
	append(m, text, strlen(text));
}

/* What follows the words in the header form. */
struct tail {
	uint16_t flags, credit;
	uint32_t seq;
	uint64_t data;
};

/* flags: besides TAGGED. handle: 0: no FIN is wanted. */
static inline void header(struct message *m, uint16_t flags, uint32_t handle, uint32_t seq,
			  uint16_t credit)
{
	const struct tail tail = {
		.flags = htole16(flags | TAGRV_PKT_TAGGED),
		.credit = htole16(credit),
		.seq = htole32(seq),
		.data = htole64(DATA64),
	};

	m->tag = numbered(TAG) | UINT64_C(1) << 62;
	m->app = handle;
	m->len = 0;
	append(m, &tail, sizeof(tail));
}

/* An RTS that offers len bytes at buf for reading. */
static inline void announce(struct message *m, const void *buf, size_t len, uint32_t handle,
			    uint32_t seq)
{
	const struct tagrv_rts rts = {
		.len = htole64(len), .seg_cnt = 1, .key_len = 4,
		.proto = TAGRV_PROTO_RNDV_READ,
	};
	struct tagrv_rts_seg seg = {
		.addr = htole64((uintptr_t) buf), .len = htole64(len),
	};

	header(m, 1 << 4, handle, seq, 0);
	append(m, &rts, sizeof(rts));
	append(m, &seg, sizeof(seg));
}

/* One whose first bytes come with it. */
static inline void announce_head(struct message *m, const char *head, size_t len,
				 uint32_t handle, uint32_t seq)
{
	const struct tagrv_rts rts = {
		.len = htole64(len), .proto = TAGRV_PROTO_RNDV_PIPE,
	};

	header(m, 1 << 4, handle, seq, 0);
	append(m, &rts, sizeof(rts));
	append(m, head, strlen(head));
}

/*
 * Messages that no sender writes, by their number: makes the first packet of a connection, and
 * returns what is wrong with it, or NULL behind the last one.
 */
static inline const char *malform(struct message *m, unsigned number)
{
	enum { FLAGS_FROM = 9, FLAGS = 16 };

	if (number >= FLAGS_FROM && number < FLAGS_FROM + FLAGS - 5) {
		header(m, (uint16_t) (1u << (number - FLAGS_FROM + 5)), 0, 0, 0);
		return "undefined flag";
	}
	header(m, 0, 0, 0, 0);
	switch (number) {
	case 0:
		m->len = 15;
		return "header too short";
	case 1:
		m->tag |= UINT64_C(1) << 63;
		return "both forms";
	case 2:
		m->bytes[0] &= (uint8_t) ~TAGRV_PKT_TAGGED;
		return "not tagged";
	case 3:
		header(m, 0, 0, 1, 0);
		return "out of sequence";
	case 4:
		peer()->credit.left = UINT32_MAX;
		header(m, 0, 0, 0, 1);
		return "too much credit";
	case 5:
		plain(m, "x");
		m->app = 1;
		return "data without its bit";
	case 6:
		announce_head(m, "headline", 8, 0, 0);
		return "RTS without a handle";
	case 7:
		header(m, 1 << 4, 56, 0, 0);
		return "RTS without a body";
	case 8:
		announce_head(m, "headline", 7, 56, 0);
		return "head longer than the message";
	default:
		return NULL;
	}
}

#endif
