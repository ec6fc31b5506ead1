/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packet layouts, version 1. Sections cited below: docs/wire_protocol.md.
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
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/iov.h"
#include "xport/taglist.h"
#include "xport/xport.h"

/* Section 1.1. Tag-matching hardware uses the values 0..3 with the same meaning. */
enum tagrv_opcode {
	TAGRV_PKT_RTS	= 1,	/* rendezvous request: envelope without payload */
	TAGRV_PKT_FIN	= 2,	/* ends one or more operations of the receiver */
	TAGRV_PKT_EAGER	= 3,	/* envelope and payload */
	TAGRV_PKT_CREDIT = 4,	/* returns credit, nothing else */
	TAGRV_PKT_CTS	= 5,	/* answer to an RTS: asks the sender to move the bytes */
	TAGRV_PKT_GRANT	= 6,	/* the sender may send more fragments */
	TAGRV_PKT_FRAG	= 7,	/* a copied fragment of the message */
	TAGRV_PKT_DONE	= 8,	/* the sender has written all bytes, or gives up */
	TAGRV_PKT_PIECE	= 9,	/* keys of a piece for the receiver to read */
	/* One-sided operations: wire/rma_packet.h. */
	TAGRV_PKT_PUT	= 10,	/* bytes to write; the last one of an operation asks
				   for a FIN */
	TAGRV_PKT_GET	= 11,	/* asks for bytes */
	TAGRV_PKT_ANSWER = 12,	/* the next bytes of what a GET or ATOMIC asked for */
	TAGRV_PKT_KEYS	= 13,	/* keys by which the sender of a GET may read */
	TAGRV_PKT_ATOMIC = 14,	/* elements to change, as PUT; former values are an
				   ANSWER */
	TAGRV_PKT_PULL	= 15,	/* keys of bytes to write: the target reads them */
	TAGRV_PKT_BATCH	= 16,	/* several small eager messages, and FINs */
	TAGRV_PKT_VIEW	= 17,	/* keys by which the sender of GETs may read a window from
				   now on */
	TAGRV_PKT_RECALL = 18,	/* it may not any more */
	TAGRV_PKT_STORE	= 19,	/* a write of one packet, by one FIN or counted */
	TAGRV_PKT_COUNT	= 20,	/* ends counted operations of the receiver */
	TAGRV_PKT_SHOW	= 21,	/* the initiator wants to see a window */
	TAGRV_PKT_SIDE	= 22,	/* a side link: its blob, or it is ready */
	TAGRV_PKT_PART	= 23,	/* an idle connection: asks to close it, or answers */
};

/* Section 1.11: the field op of a PART. */
enum tagrv_pkt_part {
	TAGRV_PKT_PART_ASK	= 0,
	TAGRV_PKT_PART_AGREE	= 1,
	TAGRV_PKT_PART_REFUSE	= 2,
};

enum tagrv_pkt_flags {
	TAGRV_PKT_TAGGED	= 1 << 0,	/* tag space; else FI_MSG space */
	TAGRV_PKT_DATA		= 1 << 1,	/* hdr.data is immediate data */
	TAGRV_PKT_ACK_DELIVERY	= 1 << 2,	/* FIN when all is in the buffer */
	TAGRV_PKT_ACK_MATCH	= 1 << 3,	/* FIN when matched to a receive */
	TAGRV_PKT_FLAGS		= (1 << 4) - 1,
};

/* Not one of these: a flag of the header form of section 1.12. An RTS; its body follows. */
#define TAGRV_PKT_RTS_INSIDE	(1 << 4)

/* Section 1.2: the first 32 bytes of every packet. */
struct tagrv_hdr {
	uint8_t	opcode;
	uint8_t	zero[3];
	uint32_t op;		/* RTS, EAGER: handle of the send, 0: no FIN is
				 * wanted; FIN: handle of the operation that ends;
				 * CTS, GRANT: handle of the RTS; FRAG, DONE,
				 * PIECE: handle of the CTS; CREDIT: places */
	uint64_t tag;		/* big-endian */
	uint16_t flags;
	uint16_t credit;	/* section 1.5: units given back */
	uint32_t seq;		/* EAGER, RTS: number of the envelope */
	uint64_t data;		/* immediate data; FIN, DONE: FI_E* status or 0;
				 * CTS, GRANT: bytes granted from the start of the
				 * message on, or the offset where the copied tail
				 * begins; FRAG, PIECE: offset in the message */
};
static_assert(sizeof(struct tagrv_hdr) == 32, "eager header is 32 bytes");
static_assert(offsetof(struct tagrv_hdr, tag) == 8, "tag where hardware looks");
static_assert(sizeof(struct tagrv_hdr) == TAGRV_SHORT_HDR &&
	      offsetof(struct tagrv_hdr, op) == 4 &&
	      offsetof(struct tagrv_hdr, flags) == 16 &&
	      offsetof(struct tagrv_hdr, seq) == 20 &&
	      offsetof(struct tagrv_hdr, data) == 24, "a header is four words");

/*
 * Writes a header in wire byte order. hdr, with its tag, is in host byte order.
 * Headers are written and read by 64-bit words: to read a word that was written
 * in smaller parts just before stalls the processor (no store forwarding).
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

/* Reads a header into host byte order. False: undefined bits are set. */
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
 * Section 1.12: a tagged message that a list of the receiver's device may match begins with the
 * two words of xport/taglist.h, in one of two forms. The tag is the application's, with
 * the number of the sender and the form above it.
 *
 *   plain form     [ app: the data | tag ] payload
 *   header form    [ app: the handle | tag ] [ flags, credit, seq | data ] payload, or
 *                  struct tagrv_rts and what follows it
 */
#define TAGRV_LISTED_TAG_BITS	48	/* the application's */
#define TAGRV_LISTED_TAG	((1ull << TAGRV_LISTED_TAG_BITS) - 1)
#define TAGRV_LISTED_NUMBERS	0x3fff	/* greatest number; 0: none */
#define TAGRV_LISTED_HAS_HEADER	(1ull << 62)	/* header form */
#define TAGRV_LISTED_HAS_DATA	(1ull << 63)	/* plain form: app is immediate data */
#define TAGRV_LISTED_PLAIN	(TAGRV_TAGLIST_WORDS * sizeof(uint64_t))	/* bytes */

static inline uint16_t tagrv_listed_number(uint64_t tag)
{
	return tag >> TAGRV_LISTED_TAG_BITS & TAGRV_LISTED_NUMBERS;
}

/* Whether the plain form can say what the header says. It returns no credit. */
static inline bool tagrv_hdr_is_plain(const struct tagrv_hdr *hdr)
{
	return !hdr->op && !(hdr->flags & TAGRV_PKT_DATA && hdr->data > UINT32_MAX);
}

/*
 * Writes the header of an EAGER or RTS of the tagged space, as tagrv_hdr_pack(), in the shortest
 * form; number: of the link. Returns the bytes written, which are whole words.
 */
static inline size_t tagrv_hdr_pack_listed(uint64_t words[TAGRV_SHORT_WORDS],
					   const struct tagrv_hdr *hdr, uint16_t number)
{
	bool plain = tagrv_hdr_is_plain(hdr), data = hdr->flags & TAGRV_PKT_DATA;
	uint64_t inside = hdr->opcode == TAGRV_PKT_RTS ? TAGRV_PKT_RTS_INSIDE : 0;
	uint64_t form = !plain ? TAGRV_LISTED_HAS_HEADER : data ? TAGRV_LISTED_HAS_DATA : 0;
	uint32_t app = !plain ? hdr->op : data ? (uint32_t) hdr->data : 0;

	/* app is big-endian. */
	words[0] = htole64(TAGRV_TAGLIST_EAGER | (uint64_t) __builtin_bswap32(app) << 32);
	words[1] = htobe64((hdr->tag & TAGRV_LISTED_TAG) |
			   (uint64_t) number << TAGRV_LISTED_TAG_BITS | form);
	if (plain)
		return TAGRV_LISTED_PLAIN;
	words[2] = htole64(hdr->flags | inside | (uint64_t) hdr->credit << 16 |
			   (uint64_t) hdr->seq << 32);
	words[3] = htole64(hdr->data);
	return TAGRV_SHORT_HDR;
}

/* Reads the two words into host byte order. False: no tagged message begins like this. */
static inline bool tagrv_listed_words(const uint64_t words[TAGRV_TAGLIST_WORDS],
				      uint64_t *tag, uint32_t *app)
{
	uint64_t first = le64toh(words[0]);

	*tag = be64toh(words[1]);
	*app = __builtin_bswap32((uint32_t) (first >> 32));
	return (uint32_t) first == TAGRV_TAGLIST_EAGER;
}

/*
 * Reads the header of such a message, of which the two words were read. from: what follows
 * them; *head: bytes of it that belong to the header. hdr: opcode TAGRV_PKT_EAGER or
 * TAGRV_PKT_RTS, host byte order; the plain form leaves seq as it is. False: malformed.
 */
static inline bool tagrv_hdr_unpack_listed(struct tagrv_hdr *hdr, size_t *head,
					   uint64_t tag, uint32_t app,
					   const void *from, size_t len)
{
	bool data = tag & TAGRV_LISTED_HAS_DATA;
	uint64_t third;

	*hdr = (struct tagrv_hdr) {
		.opcode = TAGRV_PKT_EAGER,
		.tag = tag & TAGRV_LISTED_TAG,
		.flags = TAGRV_PKT_TAGGED | (data ? TAGRV_PKT_DATA : 0),
		.seq = hdr->seq,
		.data = data ? app : 0,
	};
	*head = 0;
	if (!(tag & TAGRV_LISTED_HAS_HEADER))
		return data || !app;
	if (data || len < TAGRV_SHORT_HDR - TAGRV_LISTED_PLAIN)
		return false;
	*head = TAGRV_SHORT_HDR - TAGRV_LISTED_PLAIN;
	third = le64toh(tagrv_word_load(from));
	if (third & TAGRV_PKT_RTS_INSIDE)
		hdr->opcode = TAGRV_PKT_RTS;
	hdr->op = app;
	hdr->flags = (uint16_t) (third & ~(uint64_t) TAGRV_PKT_RTS_INSIDE);
	hdr->credit = (uint16_t) (third >> 16);
	hdr->seq = (uint32_t) (third >> 32);
	hdr->data = le64toh(tagrv_word_load((const char *) from + sizeof(third)));
	return hdr->flags & TAGRV_PKT_TAGGED && !(hdr->flags & ~TAGRV_PKT_FLAGS);
}

/* The status in a FIN or DONE, FI_E* or 0, as 0 or -FI_E*. */
static inline int tagrv_status_unpack(uint64_t status)
{
	if (!status)
		return 0;
	return status < FI_ERRNO_MAX ? -(int) status : -FI_EIO;
}

/*
 * Section 1.6: an item of a BATCH. A message has two words, a third word if
 * TAGRV_PKT_DATA is set, then its payload, with zeros up to a whole word. A FIN has
 * the first word only.
 */
struct tagrv_item {
	uint32_t op;		/* as in an EAGER header; FIN: handle that ends */
	uint16_t len;		/* bytes of payload; FIN: status, FI_E* or 0 */
	uint16_t flags;		/* enum tagrv_pkt_flags, or TAGRV_ITEM_FIN */
	uint64_t tag;		/* big-endian */
	uint64_t data;		/* only with TAGRV_PKT_DATA */
};
static_assert(sizeof(struct tagrv_item) == 24, "an item is three words");

#define TAGRV_ITEM_WORD	sizeof(uint64_t)	/* bytes */
#define TAGRV_ITEM_MIN	(2 * TAGRV_ITEM_WORD)	/* bytes of the smallest message */
#define TAGRV_ITEM_FIN	(1u << 15)	/* the item is a FIN; no other flag is set */

/* Bytes of a message before the payload. */
static inline size_t tagrv_item_head(uint16_t flags)
{
	return flags & TAGRV_PKT_DATA ? 3 * TAGRV_ITEM_WORD : TAGRV_ITEM_MIN;
}

/* Bytes of a whole message, padding included. */
static inline size_t tagrv_item_size(uint16_t flags, size_t len)
{
	return tagrv_item_head(flags) +
	       ((len + TAGRV_ITEM_WORD - 1) & ~(TAGRV_ITEM_WORD - 1));
}

/*
 * Writes the words of a message before its payload; item is in host byte order.
 * Returns the bytes written, tagrv_item_head(item->flags).
 */
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

/* Writes a FIN, one word. op: handle that ends; status: positive FI_E* or 0. */
static inline void tagrv_item_pack_fin(void *to, uint32_t op, uint32_t status)
{
	const uint64_t word = htole64(op | (uint64_t) (status & UINT16_MAX) << 32 |
				      (uint64_t) TAGRV_ITEM_FIN << 48);

	memcpy(to, &word, sizeof(word));
}

/*
 * Reads the first word of an item: op, len and flags. False: fewer than 8 bytes
 * are left.
 */
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
 * Reads the rest of a message after tagrv_item_peek(). False: the item is longer
 * than the bytes left, or undefined flags are set.
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

/*
 * Section 1.3: follows the header of an RTS. Behind it come seg_cnt segments, or
 * the first bytes of the message (its head).
 */
struct tagrv_rts {
	uint64_t len;		/* bytes of the whole message */
	uint8_t	seg_cnt;	/* at most TAGRV_IOV_MAX; 0: no keys */
	uint8_t	key_len;	/* bytes used of each key */
	uint8_t	proto;		/* enum tagrv_proto proposed, 0: any */
	uint8_t	zero[5];
};
static_assert(sizeof(struct tagrv_rts) == 16, "fixed part of an RTS");

struct tagrv_rts_seg {
	uint64_t addr;
	uint64_t len;
	uint8_t	key[TAGRV_KEY_MAX];
};
static_assert(sizeof(struct tagrv_rts_seg) == 32, "segment of an RTS");

/* Section 1.7: further operations that a FIN ends, behind its header. */
struct tagrv_fin_more {
	uint32_t op;
	uint32_t status;	/* FI_E* or 0 */
};
static_assert(sizeof(struct tagrv_fin_more) == 8, "one more FIN");

/* Limits of what is sent. Any number that fits a packet is received. */
#define TAGRV_BATCH_FIN_MAX	8	/* FINs in a BATCH */
#define TAGRV_FIN_MORE_MAX	16	/* struct tagrv_fin_more in a FIN */
static_assert(sizeof(struct tagrv_hdr) + TAGRV_FIN_MORE_MAX *
	      sizeof(struct tagrv_fin_more) <= TAGRV_HDR_ROOM,
	      "every link takes it");

/*
 * Section 1.8: follows the header of a CTS, a PIECE or a KEYS. seg_cnt segments follow it.
 */
struct tagrv_cts {
	uint64_t want;		/* CTS: bytes wanted; PIECE: its length */
	uint32_t op;		/* CTS: receiver's handle; PIECE: sender's */
	uint8_t	seg_cnt;	/* at most TAGRV_IOV_MAX; CTS, 0: copy or pieces */
	uint8_t	key_len;	/* bytes used of each key */
	uint8_t	pieces;		/* CTS: pieces offered at a time; 0: none */
	uint8_t	zero;
};
static_assert(sizeof(struct tagrv_cts) == sizeof(struct tagrv_rts),
	      "a CTS is no longer than an RTS");

/* Bytes of the longest control packet, an RTS with all segments. */
#define TAGRV_RTS_MAX	(sizeof(struct tagrv_hdr) + sizeof(struct tagrv_rts) + \
			 TAGRV_IOV_MAX * sizeof(struct tagrv_rts_seg))
static_assert(TAGRV_RTS_MAX <= TAGRV_HDR_ROOM, "packets are eager_max + that");

#endif
