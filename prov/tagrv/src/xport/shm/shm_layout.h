/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What two processes share, version 1. Everything is in native byte order:
 * nothing of it leaves the host.
 *
 * Ring region: a memfd of the receiver, mapped by it and by the one sender.
 *
 *   line 0        constants, written by the receiver before anybody maps it
 *   line 1        the consumer's: head, state
 *   line 2        the producer's: starved
 *   line 3        unused
 *   line 4 ...    entries
 *
 * Entry: whole lines. The first 8 bytes of the first line are the head word,
 * the body follows. A head word of 0 means: nothing there yet.
 *
 *    63      40 39  32 31          0
 *   +----------+------+-------------+---------------------------
 *   | SHM_MARK | kind | body bytes  | body ... padded to 64
 *   +----------+------+-------------+---------------------------
 *
 * Bell: a memfd of an xport, mapped by it and by all its peers.
 *
 *   line 0        summary (one bit per word below), armed: the number of this
 *                 sleep, 0 if the owner is awake or has been woken
 *   line 1 ... 8  one bit per link: look at its ring
 */
#ifndef TAGRV_XPORT_SHM_SHM_LAYOUT_H
#define TAGRV_XPORT_SHM_SHM_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/compiler.h"

#define SHM_VERSION	1u
#define SHM_MAGIC	0x676e697276726774ull	/* "tgrvring" */
#define SHM_MARK	0x6d6873ull		/* "shm" */

#define SHM_LINE	64u
#define SHM_HDR_LINES	4u
#define SHM_RING_MIN	16384u		/* bytes of a ring region */
#define SHM_RING_MAX	4194304u
#define SHM_RESERVE	16u		/* lines kept back for control */
#define SHM_AHEAD	64u		/* free lines with a head of zero */
#define SHM_BELL_LINKS	4096u
#define SHM_BELL_WORDS	(SHM_BELL_LINKS / 64)
#define SHM_BELL_SIZE	4096u

enum shm_kind {
	SHM_PACKET	= 1,	/* body: a packet for the sink */
	SHM_PAD		= 2,	/* fills the ring to its end */
	SHM_GET_REQ	= 3,	/* struct shm_get_req */
	SHM_GET_DATA	= 4,	/* struct shm_get_data and a piece */
	SHM_GET_FAIL	= 5,	/* struct shm_get_fail */
	SHM_PUT		= 6,	/* struct shm_put_piece and the piece */
};

enum shm_state {
	/* The consumer looks at the ring in every pass: no bell is needed. */
	SHM_POLLED	= 1 << 0,
	/* The consumer is gone and reads no more. */
	SHM_CLOSED	= 1 << 1,
};

struct shm_constants {
	uint64_t magic;
	uint32_t version;
	uint32_t lines;		/* of entries */
	uint32_t max_packet;
	uint8_t	 zero[44];
};

struct shm_consumer {
	_Atomic uint64_t head;	/* lines consumed, never wraps; lags behind */
	_Atomic uint32_t state;	/* enum shm_state */
	uint8_t	 zero[52];
};

struct shm_producer {
	_Atomic uint32_t starved;	/* wants a bell when head moves */
	uint8_t	 zero[60];
};

struct shm_header {
	struct shm_constants constants;
	struct shm_consumer cons;
	struct shm_producer prod;
	uint8_t	 zero[64];
};

struct shm_bell {
	_Atomic uint64_t summary;
	_Atomic uint32_t armed;	/* set to 0 by who wrote the eventfd */
	uint8_t	 zero[52];
	_Atomic uint64_t bits[SHM_BELL_WORDS];
};

/* Read 'len' bytes at raddr. slot and gen come back with the answers. */
struct shm_get_req {
	uint32_t slot, gen;
	uint64_t raddr, len;
	uint64_t secret;
	uint32_t index;		/* of the owner's table of memory */
	uint32_t zero;
};

/* The piece follows at the next line of the entry. */
struct shm_get_data {
	uint32_t slot, gen;
	uint64_t offset;
	uint8_t	 zero[40];
};

struct shm_get_fail {
	uint32_t slot, gen;
};

/* Write what follows at the next line of the entry to raddr. */
struct shm_put_piece {
	uint64_t raddr;
	uint64_t secret;
	uint32_t index;		/* of the owner's table of memory */
	uint8_t	 zero[36];
};

/*
 * The message of the Unix socket. It comes with three descriptors: ring region
 * and bell (memfds), eventfd, all of the sender of this message.
 */
struct shm_hand {
	uint64_t magic;
	uint32_t version;
	uint32_t fence;		/* 1: fence after every send to this ring */
	uint64_t id, nonce;	/* of the link this is for */
	uint32_t bell_index;	/* the bit to set in the bell */
	uint32_t lines;
	uint32_t max_packet;
	uint32_t zero;
	uint64_t table;		/* address of the table of memory */
	uint64_t token;		/* what its first 8 bytes are */
};

#define SHM_HAND_FDS	3

/* One registration; the table is read by peers, written by its owner. */
struct shm_entry {
	_Atomic uint64_t secret;	/* random; 0: free */
	uint64_t addr, len;
	uint64_t next_free;	/* in use: enum tagrv_mem_access */
};

#define SHM_HEAD_WORD	8u
#define SHM_OFFSET(type, member, at) \
	static_assert(offsetof(struct type, member) == (at), "shared layout")

static_assert(sizeof(struct shm_constants) == SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_consumer) == SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_producer) == SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_header) == SHM_HDR_LINES * SHM_LINE,
	      "shared layout");
static_assert(sizeof(struct shm_bell) == 9 * SHM_LINE, "shared layout");
static_assert(sizeof(struct shm_bell) <= SHM_BELL_SIZE, "shared layout");
static_assert(sizeof(struct shm_get_req) == 40, "shared layout");
static_assert(sizeof(struct shm_get_data) + SHM_HEAD_WORD == SHM_LINE,
	      "a piece begins with a line");
static_assert(sizeof(struct shm_get_fail) == 8, "shared layout");
static_assert(sizeof(struct shm_put_piece) + SHM_HEAD_WORD == SHM_LINE,
	      "a piece begins with a line");
static_assert(sizeof(struct shm_hand) == 64, "shared layout");
static_assert(sizeof(struct shm_entry) == 32, "shared layout");
SHM_OFFSET(shm_constants, version, 8);
SHM_OFFSET(shm_constants, lines, 12);
SHM_OFFSET(shm_constants, max_packet, 16);
SHM_OFFSET(shm_consumer, state, 8);
SHM_OFFSET(shm_header, cons, 64);
SHM_OFFSET(shm_header, prod, 128);
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
