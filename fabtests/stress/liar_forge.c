/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Forged packets of one-sided operations: well-formed entries of a ring, as if the liar's
 * provider had sent them. Requests name windows of the honest ones and other memory;
 * answers name operations of the honest ones, which are learnt from the rings by which
 * the liar receives.
 *
 * The entry comes behind the last one of the ring, where the liar's own provider will send
 * the next one.
 */
#include "framework/pattern.h"
#include "liar.h"
#include "wire/packet.h"
#include "wire/rma_packet.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <string.h>

enum { BODY_MAX = 2200, LEARNT = 32 };

typedef _Atomic uint64_t word_t;

/* An operation of an honest one, or memory that it has lent. */
static struct learnt {
	uint32_t op;
	uint64_t len;
} learnt[LEARNT];
static unsigned learnt_cnt;

static word_t *head_of(const struct catch *c, uint64_t nr)
{
	return (word_t *)(void *)((char *)(c->ring + 1) + nr % c->slots * SHM_STRIDE);
}

static char *arena_of(const struct catch *c)
{
	return (char *)(c->ring + 1) + (size_t)c->slots * SHM_STRIDE;
}

/* ---- learning ---- */

static void learn(uint32_t op, uint64_t len)
{
	learnt[learnt_cnt++ % LEARNT] = (struct learnt){ le32toh(op), len };
}

/* Looks at 64 bytes that may be the begin of a packet. */
static void learn_from(const char *at)
{
	struct tagrv_hdr hdr;
	struct tagrv_cts cts;
	uint64_t words[3];

	memcpy(&hdr, at, sizeof(hdr));
	memcpy(words, at + sizeof(hdr), sizeof(words));
	memcpy(&cts, at + sizeof(hdr), sizeof(cts));
	if (hdr.zero[0] || hdr.zero[1] || hdr.zero[2] || !hdr.op)
		return;
	switch (hdr.opcode) {
	case TAGRV_PKT_STORE:
	case TAGRV_PKT_PUT: learn(hdr.op, 0); return;
	case TAGRV_PKT_GET:
	case TAGRV_PKT_ATOMIC:
	case TAGRV_PKT_PULL: learn(hdr.op, le64toh(words[1])); return;
	case TAGRV_PKT_KEYS: learn(cts.op, 0); return;
	default: return;
	}
}

void forge_learn(const struct catch *c)
{
	char line[SHM_LINE];

	for (uint32_t i = 0; i < c->slots; i++) {
		memcpy(line, (char *)(void *)head_of(c, i) + SHM_HEAD_WORD, SHM_INLINE);
		learn_from(line);
	}
	for (size_t at = 0; at < c->size / 4; at += SHM_LINE) {
		memcpy(line, arena_of(c) + at, sizeof(line));
		learn_from(line);
	}
}

/* ---- contents ---- */

struct forged {
	struct tagrv_hdr hdr;
	char	body[BODY_MAX];
	size_t	len;		/* of the body */
};

static void put_body(struct forged *p, const void *from, size_t len)
{
	memcpy(p->body + p->len, from, len);
	p->len += len;
}

static void fill_body(struct forged *p, size_t len, uint64_t value)
{
	memset(p->body + p->len, (int)value, len);
	p->len += len;
}

/* Within the window, at its end, beyond it, or anywhere. */
static uint64_t any_addr(uint64_t *random)
{
	uint64_t r = pattern_next(random);

	switch (r & 7) {
	case 0: return pattern_next(random);
	case 1: return UINT64_MAX - (r >> 8) % 4096;
	case 2: return OPEN_LEN - (r >> 8) % 64;
	case 3: return OPEN_LEN + (r >> 8) % 64;
	default: return (r >> 8) % OPEN_LEN;
	}
}

static uint64_t any_len(uint64_t *random)
{
	uint64_t r = pattern_next(random);

	switch (r & 7) {
	case 0: return pattern_next(random);
	case 1: return UINT64_MAX - (r >> 8) % 4096;
	case 2: return 0;
	case 3: return (r >> 8) % (2 * OPEN_LEN);
	default: return (r >> 8) % 1024;
	}
}

static uint64_t any_key(uint64_t *random)
{
	uint64_t r = pattern_next(random);
	int honest = (int)(r >> 8 & 1);

	switch (r & 7) {
	case 0: return pattern_next(random);
	case 1: return (r >> 16) % 16;
	case 2:
	case 3: return scene->key[honest][WINDOW_READ];
	default: return scene->key[honest][WINDOW_OPEN];
	}
}

static void forge_put(struct forged *p, uint64_t *random)
{
	const struct tagrv_rma_put put = { htole64(any_addr(random)) };
	uint64_t r = pattern_next(random);

	p->hdr.opcode = TAGRV_PKT_PUT;
	put_body(p, &put, sizeof(put));
	fill_body(p, r & 1 ? (r >> 8) % 16 : (r >> 8) % 2000, r >> 32);
}

/* Most are counted, which have no handle. */
static void forge_store(struct forged *p, uint64_t *random)
{
	uint64_t r = pattern_next(random);

	p->hdr.opcode = TAGRV_PKT_STORE;
	p->hdr.data = htole64(any_addr(random));
	if (r & 7)
		p->hdr.flags = 0;
	if (!(r & 64))
		p->hdr.op = 0;
	fill_body(p, r & 1 << 8 ? (r >> 16) % 16 : (r >> 16) % 2000, r >> 32);
}

/* Of few: the honest side has begun some, or none. */
static void forge_count(struct forged *p, uint64_t *random)
{
	uint64_t r = pattern_next(random);

	p->hdr.opcode = TAGRV_PKT_COUNT;
	p->hdr.op = htole32((uint32_t)(r % 3));
	p->hdr.seq = htole32((uint32_t)(r >> 8) % 2);
	p->hdr.flags = 0;
	p->hdr.data = htole64(p->hdr.seq ? FI_EACCES : 0);
}

static void forge_get(struct forged *p, uint64_t *random)
{
	uint64_t cnt = 1 + (pattern_next(random) & 3);

	p->hdr.opcode = TAGRV_PKT_GET;
	p->hdr.tag = 0;
	for (uint64_t i = 0; i < cnt; i++) {
		const struct tagrv_rma_range range = {
			htole64(any_addr(random)), htole64(any_len(random)), htole64(any_key(random)),
		};

		put_body(p, &range, sizeof(range));
	}
}

static void forge_atomic(struct forged *p, uint64_t *random)
{
	uint64_t r = pattern_next(random), len = (r >> 40) % 64 * 8;
	const struct tagrv_rma_atomic atomic = {
		htole64(any_addr(random)), htole64(r & 1 << 20 ? any_len(random) : len),
	};

	p->hdr.opcode = TAGRV_PKT_ATOMIC;
	p->hdr.seq = htole32((uint32_t)(2 + r % 4) | (r & 1 << 21 ? (uint32_t)FI_UINT64 : (r >> 8) % 32) << 8 |
			     (r & 1 << 22 ? (uint32_t)FI_SUM : (r >> 16) % 32) << 16);
	put_body(p, &atomic, sizeof(atomic));
	fill_body(p, (r % 4 == 2 ? 2 : 1) * len, r >> 32);
}

static void forge_pull(struct forged *p, uint64_t *random)
{
	uint64_t r = pattern_next(random), segs = r % 6, len = any_len(random), left = len;
	const struct tagrv_rma_source pull = {
		.addr = htole64(any_addr(random)), .len = htole64(len), .seg_cnt = (uint8_t)segs,
		.key_len = r & 1 << 10 ? 12 : (uint8_t)(r >> 16),
	};

	p->hdr.opcode = TAGRV_PKT_PULL;
	put_body(p, &pull, sizeof(pull));
	for (uint64_t i = 0; i < segs; i++) {
		struct tagrv_rts_seg seg = { .addr = htole64(pattern_next(random)) };
		uint64_t n = i + 1 < segs ? left / 2 : left;

		seg.len = htole64(n);
		left -= n;
		memset(seg.key, (int)r, sizeof(seg.key));
		put_body(p, &seg, sizeof(seg));
	}
}

static void forge_keys(struct forged *p, const struct learnt *l, uint64_t *random)
{
	uint64_t r = pattern_next(random), segs = r & 1 << 8 ? 1 : r % 4;
	const struct tagrv_cts cts = {
		.want = htole64(l->len), .op = htole32((uint32_t)(r >> 32)), .seg_cnt = (uint8_t)segs,
		.key_len = 12,
	};
	struct tagrv_rts_seg seg = { .addr = htole64(pattern_next(random)), .len = htole64(l->len) };

	p->hdr.opcode = TAGRV_PKT_KEYS;
	put_body(p, &cts, sizeof(cts));
	for (uint64_t i = 0; i < segs; i++)
		put_body(p, &seg, sizeof(seg));
}

static void forge_answer(struct forged *p, uint64_t *random)
{
	uint64_t r = pattern_next(random);
	const struct learnt *l = &learnt[r % LEARNT];

	p->hdr.op = htole32(r & 1 << 10 ? l->op : (uint32_t)(r >> 32));
	p->hdr.tag = 0;
	p->hdr.flags = 0;
	p->hdr.data = 0;
	switch (r >> 16 & 3) {
	case 0:
		p->hdr.opcode = TAGRV_PKT_FIN;
		p->hdr.data = htole64((r >> 20) % 256);
		return;
	case 1:
		forge_keys(p, l, random);
		return;
	default:
		p->hdr.opcode = TAGRV_PKT_ANSWER;
		fill_body(p, r & 1 << 24 ? l->len % 2000 : (r >> 32) % 2000, r >> 40);
	}
}

static void forge(struct forged *p, uint64_t *random)
{
	uint64_t r = pattern_next(random);

	*p = (struct forged){
		.hdr = {
			.op = htole32((uint32_t)(1 + r % 4)), .tag = htobe64(any_key(random)),
			.flags = htole16((r >> 8) % 4), .data = htole64(r),
		},
	};
	switch (r >> 16 & 7) {
	case 0: forge_put(p, random); return;
	case 1: forge_store(p, random); return;
	case 2: p->hdr.flags = htole16(r >> 8 & 4); forge_get(p, random); return;
	case 3: forge_atomic(p, random); return;
	case 4: p->hdr.flags = htole16(r >> 8 & 2); forge_pull(p, random); return;
	case 5: forge_count(p, random); return;
	default: forge_answer(p, random); return;
	}
}

/* ---- sending ---- */

static uint64_t lap_of(const struct catch *c, uint64_t nr)
{
	return ~(nr / c->slots) & 1;
}

/* Where the entry behind the last one goes; *pos: where its body in the arena would. */
static uint64_t find_tail(const struct catch *c, uint64_t *pos)
{
	uint64_t nr = atomic_load(&c->ring->cons.head), arena = c->ring->constants.arena;

	*pos = atomic_load(&c->ring->cons.arena);
	for (uint32_t i = 0; arena && i < c->slots; i++, nr++) {
		uint64_t word = atomic_load(head_of(c, nr)), len = word >> 32;
		uint64_t lines = (len + SHM_LINE - 1) / SHM_LINE * SHM_LINE;

		if ((word & 1) != lap_of(c, nr))
			return nr;
		if (len <= SHM_INLINE)
			continue;
		if (*pos % arena + lines > arena)
			*pos += arena - *pos % arena;
		*pos += lines;
	}
	return nr;
}

void forge_send(const struct catch *c, uint64_t *random)
{
	struct forged p;
	uint64_t pos, nr = find_tail(c, &pos), arena = c->ring->constants.arena;
	size_t len;
	char *to;

	forge(&p, random);
	len = sizeof(p.hdr) + p.len;
	to = (char *)(void *)head_of(c, nr) + SHM_HEAD_WORD;
	if (len > SHM_INLINE) {
		if (arena < 2 * sizeof(p) || arena > c->size / 2 - sizeof(*c->ring))
			return;		/* another lie has changed it */
		if (pos % arena + len > arena)
			pos += arena - pos % arena;
		to = arena_of(c) + pos % arena;
	}
	memcpy(to, &p, len);
	atomic_store(head_of(c, nr), (uint64_t)len << 32 | SHM_MARK << 8 | SHM_PACKET << 1 | lap_of(c, nr));
}
