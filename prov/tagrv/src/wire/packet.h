/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packet layouts, version 1. Described in docs/wire_protocol.md, section 1.
 *
 * The first 16 bytes have the shape that tag-matching hardware parses: opcode,
 * three zero bytes, 32 bits of context, big-endian tag. All other fields are
 * little-endian. A header and 8 bytes of payload fit the 44 inline bytes of
 * one 64-byte work request.
 */
#ifndef TAGRV_WIRE_PACKET_H
#define TAGRV_WIRE_PACKET_H

#include <assert.h>
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/iov.h"
#include "xport/xport.h"

/* Section 1.1. Values 0..3 mean to tag-matching hardware what they mean here. */
enum tagrv_opcode {
	TAGRV_PKT_RTS	= 1,	/* rendezvous request */
	TAGRV_PKT_FIN	= 2,	/* an operation of yours is finished */
	TAGRV_PKT_EAGER	= 3,	/* envelope and payload */
	TAGRV_PKT_CREDIT = 4,	/* nothing but credit */
	TAGRV_PKT_CTS	= 5,	/* answer to an RTS: send it to me */
	TAGRV_PKT_GRANT	= 6,	/* send more of it */
	TAGRV_PKT_FRAG	= 7,	/* a piece of it */
	TAGRV_PKT_DONE	= 8,	/* a receive of yours has all, or gets no more */
	TAGRV_PKT_PIECE	= 9,	/* read this part of it */
	TAGRV_PKT_BATCH	= 16,	/* several small eager messages */
};

enum tagrv_pkt_flags {
	TAGRV_PKT_TAGGED	= 1 << 0,	/* else FI_MSG space */
	TAGRV_PKT_DATA		= 1 << 1,	/* hdr.data is immediate data */
	TAGRV_PKT_ACK_DELIVERY	= 1 << 2,	/* FIN when taken in */
	TAGRV_PKT_ACK_MATCH	= 1 << 3,	/* FIN when matched */
	TAGRV_PKT_FLAGS		= (1 << 4) - 1,
};

/* Section 1.2: starts every packet. */
struct tagrv_hdr {
	uint8_t	opcode;
	uint8_t	zero[3];
	uint32_t op;		/* RTS, EAGER: sender's handle, 0 when no FIN
				 * is wanted; FIN: the handle it ends; CTS,
				 * GRANT: handle of the RTS; FRAG, DONE, PIECE:
				 * that of the CTS */
	uint64_t tag;		/* big-endian */
	uint16_t flags;
	uint16_t credit;	/* section 1.5: units given back */
	uint32_t seq;		/* EAGER, RTS: number of the envelope */
	uint64_t data;		/* immediate data; FIN, DONE: FI_E* status or 0;
				 * CTS, GRANT: bytes that may be sent, from the
				 * first one on, or where the copied tail begins;
				 * FRAG, PIECE: where it begins */
};
static_assert(sizeof(struct tagrv_hdr) == 32, "eager header is 32 bytes");
static_assert(offsetof(struct tagrv_hdr, tag) == 8, "tag where hardware looks");
static_assert(sizeof(struct tagrv_hdr) == TAGRV_SHORT_HDR &&
	      offsetof(struct tagrv_hdr, op) == 4 &&
	      offsetof(struct tagrv_hdr, flags) == 16 &&
	      offsetof(struct tagrv_hdr, seq) == 20 &&
	      offsetof(struct tagrv_hdr, data) == 24, "a header is four words");

/*
 * A header as it travels, written and read by whole words: what is written in
 * small pieces and read in larger ones at once has to wait for the cache. hdr
 * holds host byte order; its tag does, too.
 */
static inline void tagrv_hdr_pack(uint64_t words[TAGRV_SHORT_WORDS],
				  const struct tagrv_hdr *hdr)
{
	words[0] = htole64(hdr->opcode | (uint64_t) hdr->op << 32);
	words[1] = htobe64(hdr->tag);
	words[2] = htole64(hdr->flags | (uint64_t) hdr->credit << 16 |
			   (uint64_t) hdr->seq << 32);
	words[3] = htole64(hdr->data);
}

/* False: bits are set that have no meaning. */
static inline bool tagrv_hdr_unpack(struct tagrv_hdr *hdr,
				    const uint64_t words[TAGRV_SHORT_WORDS])
{
	uint64_t first = le64toh(words[0]), third = le64toh(words[2]);

	*hdr = (struct tagrv_hdr) {
		.opcode = (uint8_t) first,
		.op = (uint32_t) (first >> 32),
		.tag = be64toh(words[1]),
		.flags = (uint16_t) third,
		.credit = (uint16_t) (third >> 16),
		.seq = (uint32_t) (third >> 32),
		.data = le64toh(words[3]),
	};
	return !(first & 0xffffff00) && !(hdr->flags & ~TAGRV_PKT_FLAGS);
}

/*
 * Section 1.6: each message of a BATCH begins with two words; immediate data, if
 * the flags say so, is a third, then follow payload and zeros up to a whole word.
 * A FIN that travels with them is the first word alone.
 */
struct tagrv_item {
	uint32_t op;		/* as in an EAGER header; FIN: what it ends */
	uint16_t len;		/* bytes of payload; FIN: status, FI_E* or 0 */
	uint16_t flags;		/* enum tagrv_pkt_flags, or TAGRV_ITEM_FIN */
	uint64_t tag;		/* big-endian */
	uint64_t data;		/* only with TAGRV_PKT_DATA */
};
static_assert(sizeof(struct tagrv_item) == 24, "an item is three words");

#define TAGRV_ITEM_WORD	sizeof(uint64_t)
#define TAGRV_ITEM_MIN	(2 * TAGRV_ITEM_WORD)
#define TAGRV_ITEM_FIN	(1u << 15)	/* no other flag goes with it */

/* Bytes before the payload. */
static inline size_t tagrv_item_head(uint16_t flags)
{
	return flags & TAGRV_PKT_DATA ? 3 * TAGRV_ITEM_WORD : TAGRV_ITEM_MIN;
}

/* Bytes of the whole item. */
static inline size_t tagrv_item_size(uint16_t flags, size_t len)
{
	return tagrv_item_head(flags) +
	       ((len + TAGRV_ITEM_WORD - 1) & ~(TAGRV_ITEM_WORD - 1));
}

/* item: host byte order. Returns the bytes written, tagrv_item_head(). */
static inline size_t tagrv_item_pack(void *to, const struct tagrv_item *item)
{
	const uint64_t words[3] = {
		htole64(item->op | (uint64_t) item->len << 32 |
			(uint64_t) item->flags << 48),
		htobe64(item->tag),
		htole64(item->data),
	};
	size_t len = tagrv_item_head(item->flags);

	memcpy(to, words, len);
	return len;
}

/* Writes a FIN, one word. status: FI_E* or 0. */
static inline void tagrv_item_pack_fin(void *to, uint32_t op, uint32_t status)
{
	const uint64_t word = htole64(op | (uint64_t) (status & UINT16_MAX) << 32 |
				      (uint64_t) TAGRV_ITEM_FIN << 48);

	memcpy(to, &word, sizeof(word));
}

/* Reads the first word. False: it is not there. */
static inline bool tagrv_item_peek(struct tagrv_item *item, const void *from,
				   size_t left)
{
	uint64_t first;

	if (left < TAGRV_ITEM_WORD)
		return false;
	first = le64toh(tagrv_word_load(from));
	*item = (struct tagrv_item) {
		.op = (uint32_t) first,
		.len = (uint16_t) (first >> 32),
		.flags = (uint16_t) (first >> 48),
	};
	return true;
}

/*
 * Reads a message, the first word of which is in *item. False: it is not all
 * there, or bits are set that have no meaning.
 */
static inline bool tagrv_item_unpack(struct tagrv_item *item, const void *from,
				     size_t left)
{
	if (left < TAGRV_ITEM_MIN)
		return false;
	item->tag = be64toh(tagrv_word_load((const char *) from + 8));
	if (item->flags & ~TAGRV_PKT_FLAGS ||
	    tagrv_item_size(item->flags, item->len) > left)
		return false;
	if (item->flags & TAGRV_PKT_DATA)
		item->data = le64toh(tagrv_word_load((const char *) from + 16));
	return true;
}

/* Section 1.3: follows the header of an RTS; seg_cnt segments or a head follow it. */
struct tagrv_rts {
	uint64_t len;		/* bytes of the whole message */
	uint8_t	seg_cnt;	/* 0: it cannot be read; ..TAGRV_IOV_MAX */
	uint8_t	key_len;	/* bytes used of each key */
	uint8_t	proto;		/* enum tagrv_proto asked for, 0: any */
	uint8_t	zero[5];
};
static_assert(sizeof(struct tagrv_rts) == 16, "fixed part of an RTS");

struct tagrv_rts_seg {
	uint64_t addr;
	uint64_t len;
	uint8_t	key[TAGRV_KEY_MAX];
};
static_assert(sizeof(struct tagrv_rts_seg) == 32, "segment of an RTS");

/* Section 1.7: each follows the header of a FIN for another operation. */
struct tagrv_fin_more {
	uint32_t op;
	uint32_t status;	/* FI_E* or 0 */
};
static_assert(sizeof(struct tagrv_fin_more) == 8, "one more FIN");

#define TAGRV_FIN_RIDE_MAX	8	/* sent in front of messages; the same */
#define TAGRV_FIN_MORE_MAX	16	/* sent; any number is received */
static_assert(sizeof(struct tagrv_hdr) + TAGRV_FIN_MORE_MAX *
	      sizeof(struct tagrv_fin_more) <= TAGRV_HDR_ROOM,
	      "every link takes it");

/* Section 1.8: follows the header of a CTS or a PIECE; seg_cnt segments follow it. */
struct tagrv_cts {
	uint64_t want;		/* bytes: what fits the receive; of the piece */
	uint32_t op;		/* receiver's handle; sender's of the piece */
	uint8_t	seg_cnt;	/* 0: to be copied; ..TAGRV_IOV_MAX */
	uint8_t	key_len;	/* bytes used of each key */
	uint8_t	pieces;		/* CTS: offered at a time, 0: none at all */
	uint8_t	zero;
};
static_assert(sizeof(struct tagrv_cts) == sizeof(struct tagrv_rts),
	      "a CTS is no longer than an RTS");

/* Largest control packet: what a receive buffer holds beyond the payload. */
#define TAGRV_RTS_MAX	(sizeof(struct tagrv_hdr) + sizeof(struct tagrv_rts) + \
			 TAGRV_IOV_MAX * sizeof(struct tagrv_rts_seg))
static_assert(TAGRV_RTS_MAX <= TAGRV_HDR_ROOM, "packets are eager_max + that");

#endif
