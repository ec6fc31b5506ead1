/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packet layouts, version 1. Described in docs/wire_protocol.md, section 1.
 *
 * The first 16 bytes have the shape that tag-matching hardware parses: opcode,
 * three zero bytes, 32 bits of context, big-endian tag. All other fields are
 * little-endian. A header and 8 bytes of payload fit the 44 inline bytes of
 * one 64-byte work request.
 */
#ifndef TAGRV_PROTO_WIRE_H
#define TAGRV_PROTO_WIRE_H

#include <assert.h>
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
				 * GRANT: handle of the RTS; FRAG, DONE: that
				 * of the CTS */
	uint64_t tag;		/* big-endian */
	uint16_t flags;
	uint16_t credit;	/* section 1.5: units given back */
	uint32_t seq;		/* EAGER, RTS: number of the envelope */
	uint64_t data;		/* immediate data; FIN, DONE: FI_E* status or 0;
				 * CTS, GRANT: bytes that may be sent, from the
				 * first one on; FRAG: where it begins */
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

/* Section 1.3: follows the header of an RTS; seg_cnt segments follow it. */
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

/* Section 1.6: follows the header of a CTS; seg_cnt segments follow it. */
struct tagrv_cts {
	uint64_t want;		/* bytes, what fits the receive */
	uint32_t op;		/* receiver's handle */
	uint8_t	seg_cnt;	/* 0: to be copied; ..TAGRV_IOV_MAX */
	uint8_t	key_len;	/* bytes used of each key */
	uint8_t	zero[2];
};
static_assert(sizeof(struct tagrv_cts) == sizeof(struct tagrv_rts),
	      "a CTS is no longer than an RTS");

/* Largest control packet: what a receive buffer holds beyond the payload. */
#define TAGRV_RTS_MAX	(sizeof(struct tagrv_hdr) + sizeof(struct tagrv_rts) + \
			 TAGRV_IOV_MAX * sizeof(struct tagrv_rts_seg))
static_assert(TAGRV_RTS_MAX <= TAGRV_HDR_ROOM, "packets are eager_max + that");

#endif
