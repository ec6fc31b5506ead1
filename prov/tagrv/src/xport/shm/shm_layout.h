/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Layout of the memory that two processes share, and of the handover message;
 * version 4. All fields are in native byte order, because they never leave the
 * host.
 *
 * Ring region: a memfd created by the receiver and mapped by the receiver and one
 * sender. A line is 64 bytes.
 *
 *   line 0        constants, written by the receiver before the handover
 *   line 1        written by the consumer: head
 *   line 2        written by the consumer: state
 *   line 3        written by the producer: starved
 *   line 4, 5     written by both: gets of the consumer that both copy (shm_help.c)
 *   slots         one line of every SHM_STRIDE bytes; a power of two of them
 *   arena         bytes for bodies that do not fit into a slot
 *
 * Entry: one slot. Its first 8 bytes are the head word; it is published by the store
 * of that word. The lap bit is 1 in the first lap around the slots, 0 in the second,
 * and so on: a slot whose lap bit is that of the lap before has no entry yet.
 *
 *    63       32 31      16 15      8 7     1  0
 *   +-----------+----------+---------+-------+-----+
 *   | body bytes|   extra  | SHM_MARK| kind  | lap |
 *   +-----------+----------+---------+-------+-----+
 *
 * The body follows the head word if it fits into the slot. Entries SHM_TAGGED have
 * their tag, SHM_TAGGED_DATA their tag and data, between the head word and the body,
 * and credit in 'extra'. A body that does not fit there is in the arena: it begins
 * where the last one there ended, at a whole line; or at offset 0, if it would cross
 * the arena's end. So both sides know where it is, and with the slot its part of the
 * arena is free again.
 *
 * Bell: a memfd created by an xport and mapped by the xport and all its peers.
 *
 *   line 0        summary: one bit per word below
 *                 armed: number of the current sleep; 0: the owner is awake, or
 *                 has been woken
 *   line 1 ... 8  one bit per link: its ring may have entries
 */
#ifndef TAGRV_XPORT_SHM_SHM_LAYOUT_H
#define TAGRV_XPORT_SHM_SHM_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/compiler.h"

#define SHM_VERSION	4u
#define SHM_MAGIC	0x676e697276726774ull	/* "tgrvring" */
#define SHM_MARK	0xa5u

#define SHM_LINE	64u
#define SHM_HDR_LINES	6u
#define SHM_HELPS	2u	/* gets that both sides copy at the same time */
/*
 * A processor that waits for a line may fetch its neighbour, too, with which it forms
 * 128 aligned bytes: the slot that is written next must not be that neighbour.
 */
#define SHM_STRIDE	128u		/* bytes from one slot to the next */
#define SHM_RING_MIN	16384u		/* bytes of a ring region */
#define SHM_RING_MAX	4194304u
#define SHM_RESERVE	16u		/* slots kept for control packets */
#define SHM_RESERVE_BYTES 1024u		/* of the arena, likewise */
#define SHM_BELL_LINKS	4096u
#define SHM_BELL_WORDS	(SHM_BELL_LINKS / 64)
#define SHM_BELL_SIZE	4096u

enum shm_kind {
	SHM_PACKET	= 1,	/* body: a packet for the sink */
	SHM_TAGGED	= 2,	/* a tagged message: tag; body: payload */
	SHM_TAGGED_DATA	= 3,	/* the same: tag, data; body: payload */
	SHM_GET_REQ	= 4,	/* struct shm_get_req */
	SHM_GET_DATA	= 5,	/* struct shm_get_data and a piece */
	SHM_GET_FAIL	= 6,	/* struct shm_get_fail */
	SHM_PUT		= 7,	/* struct shm_put_piece and the piece */
	SHM_HELP	= 8,	/* struct shm_help_req */
};

enum shm_state {
	/* The consumer reads the ring in every pass: no bell is needed. */
	SHM_POLLED	= 1 << 0,
	/* The consumer has closed its link and reads no more. */
	SHM_CLOSED	= 1 << 1,
};

struct shm_constants {
	uint64_t magic;
	uint32_t version;
	uint32_t slots;		/* a power of two */
	uint32_t max_packet;	/* bytes */
	uint32_t arena;		/* bytes: whole lines */
	uint8_t	 zero[40];
};

struct shm_consumer {
	/* Slots, and bytes of the arena with what was skipped at its end, that
	 * were consumed since the start. Published from time to time only, 'head'
	 * after 'arena'. */
	_Atomic uint64_t head;
	_Atomic uint64_t arena;
	uint8_t	 zero[48];
	/* On a line of its own: producers read it with every entry. */
	_Atomic uint32_t state;	/* enum shm_state */
	uint8_t	 zero2[60];
};

struct shm_producer {
	_Atomic uint32_t starved;	/* ring the bell when head is published */
	uint8_t	 zero[60];
};

/*
 * Progress of a get that both sides copy in chunks:
 *
 *    63      32 31        16 15       0
 *   +----------+------------+----------+
 *   | seq      | chunks claimed from   |
 *   |          | the front  | the back |   claim: written by both
 *   +----------+------------+----------+
 *   | seq      | 1: failed  | chunks   |   ack: written by the owner of the memory,
 *   |          |            | copied   |   after it has copied
 *   +----------+------------+----------+
 */
struct shm_help_line {
	_Atomic uint64_t claim;
	_Atomic uint64_t ack;
	uint8_t	 zero[48];
};

struct shm_header {
	struct shm_constants constants;
	struct shm_consumer cons;
	struct shm_producer prod;
	struct shm_help_line helps[SHM_HELPS];
};

struct shm_bell {
	_Atomic uint64_t summary;
	_Atomic uint32_t armed;	/* a sender sets it to 0 after it signalled */
	uint8_t	 zero[52];
	_Atomic uint64_t bits[SHM_BELL_WORDS];
};

/* Requests 'len' bytes at raddr. The answers repeat slot and gen. */
struct shm_get_req {
	uint32_t slot, gen;
	uint64_t raddr, len;
	uint64_t secret;
	uint32_t index;		/* in the owner's table of memory */
	uint32_t zero;
};

/* Answers with a piece, whose data begin at the next line of the arena. */
struct shm_get_data {
	uint32_t slot, gen;
	uint64_t offset;
	uint8_t	 zero[48];
};

struct shm_get_fail {
	uint32_t slot, gen;
};

/* Requests to write a piece to raddr; its data begin at the next line of the arena. */
struct shm_put_piece {
	uint64_t raddr;
	uint64_t secret;
	uint32_t index;		/* in the owner's table of memory */
	uint8_t	 zero[44];
};

/*
 * Asks the owner of memory to copy parts of it to the sender of this entry, to addr in
 * its process, beginning with the last chunk.
 */
struct shm_help_req {
	uint32_t record;	/* in helps[] of the sender's ring */
	uint32_t seq;		/* number of the get */
	uint64_t raddr, addr, len;
	uint64_t secret;
	uint32_t index;		/* in the owner's table of memory */
	uint32_t chunk;		/* bytes */
};

/*
 * Handover message on the Unix socket. Three descriptors of its sender come with
 * it: the memfds of the ring region and of the bell, and the socket that wakes it.
 */
struct shm_hand {
	uint64_t magic;
	uint32_t version;
	uint32_t fence;		/* 1: fence after every send to this ring */
	uint64_t id, nonce;	/* of the receiver's link, from its blob */
	uint32_t bell_index;	/* the bit to set in the bell */
	uint32_t slots;
	uint32_t max_packet;
	uint32_t arena;
	uint64_t table;		/* address of the sender's table of memory */
	uint64_t token;		/* value of the table's first 8 bytes */
};

#define SHM_HAND_FDS	3

/* One registration. Peers read the table; only its owner writes it. */
struct shm_entry {
	_Atomic uint64_t secret;	/* random; 0: entry is free */
	uint64_t addr, len;
	uint64_t next_free;	/* free: index; in use: enum tagrv_mem_access */
};

#define SHM_HEAD_WORD	8u
#define SHM_INLINE	(SHM_LINE - SHM_HEAD_WORD)	/* bytes of a body */
#define SHM_TAGGED_INLINE	(SHM_INLINE - 8u)
#define SHM_DATA_INLINE	(SHM_INLINE - 16u)
#define SHM_OFFSET(type, member, at) \
	static_assert(offsetof(struct type, member) == (at), "shared layout")

static_assert(sizeof(struct shm_constants) == SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_consumer) == 2 * SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_producer) == SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_help_line) == SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_help_req) == 48, "shared layout");
static_assert(sizeof(struct shm_header) == SHM_HDR_LINES * SHM_LINE,
	      "shared layout");
static_assert(sizeof(struct shm_bell) == 9 * SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_bell) <= SHM_BELL_SIZE, "shared layout");
static_assert(sizeof(struct shm_get_req) == 40, "shared layout");
static_assert(sizeof(struct shm_get_data) == SHM_LINE,
	      "a piece begins with a line");
static_assert(sizeof(struct shm_get_fail) == 8, "shared layout");
static_assert(sizeof(struct shm_put_piece) == SHM_LINE,
	      "a piece begins with a line");
static_assert(sizeof(struct shm_hand) == 64, "shared layout");
static_assert(sizeof(struct shm_entry) == 32, "shared layout");
SHM_OFFSET(shm_constants, version, 8);
SHM_OFFSET(shm_constants, slots, 12);
SHM_OFFSET(shm_constants, max_packet, 16);
SHM_OFFSET(shm_constants, arena, 20);
SHM_OFFSET(shm_consumer, state, 64);
SHM_OFFSET(shm_header, cons, 64);
SHM_OFFSET(shm_header, prod, 192);
SHM_OFFSET(shm_header, helps, 256);
SHM_OFFSET(shm_help_line, ack, 8);
SHM_OFFSET(shm_help_req, raddr, 8);
SHM_OFFSET(shm_help_req, secret, 32);
SHM_OFFSET(shm_help_req, chunk, 44);
SHM_OFFSET(shm_bell, armed, 8);
SHM_OFFSET(shm_bell, bits, 64);
SHM_OFFSET(shm_get_req, raddr, 8);
SHM_OFFSET(shm_get_req, len, 16);
SHM_OFFSET(shm_get_req, secret, 24);
SHM_OFFSET(shm_get_req, index, 32);
SHM_OFFSET(shm_get_data, offset, 8);
SHM_OFFSET(shm_put_piece, secret, 8);
SHM_OFFSET(shm_put_piece, index, 16);
SHM_OFFSET(shm_hand, id, 16);
SHM_OFFSET(shm_hand, nonce, 24);
SHM_OFFSET(shm_hand, bell_index, 32);
SHM_OFFSET(shm_hand, table, 48);
SHM_OFFSET(shm_hand, token, 56);
SHM_OFFSET(shm_entry, addr, 8);
SHM_OFFSET(shm_entry, len, 16);
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
	      "a lock would not be shared");

#endif
