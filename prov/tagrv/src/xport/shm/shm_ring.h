/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Both ends of a ring: one producer, one consumer. They share no index on the data
 * path; the consumer finds an entry by the lap bit of its head word.
 *
 *            rx.in.cnt                  tx.gate.cnt          tx.limit
 *   slots ------+------------------------+---------------------+----
 *      free     | published,             | free                |
 *               | not consumed           |                     |
 *
 * The consumer polls the head word of the slot where the next entry must come. It
 * never writes to slots or arena. It publishes rx.in.cnt from time to time, and the
 * producer reads that only when it knows of no more free slots or bytes. So a small
 * entry costs the transfer of one line between the caches, and the producer fetches
 * the lines that it will write soon ahead of time (shm_prefetch_write).
 *
 * Everything that the consumer reads may be changed by the peer at any time: a head
 * word is read once, and the place of a body is computed, not read.
 */
#ifndef TAGRV_XPORT_SHM_SHM_RING_H
#define TAGRV_XPORT_SHM_SHM_RING_H

#include <stdbool.h>
#include <string.h>

#include "xport/shm/shm_layout.h"
#include "xport/xport.h"

#define SHM_FETCH_AHEAD	4u	/* slots between the next one and the one prefetched */

/*
 * Producer's end. gate.cnt, limit, arena_tail and arena_limit count since the start and
 * never wrap.
 */
struct shm_tx {
	char	*data;		/* slot 0 */
	/* cnt: slots used. end: limit - SHM_RESERVE, or 0 when a send has to be
	 * looked at closer (not open, or 'fence'). */
	struct tagrv_gate gate;
	uint32_t mask;		/* slots - 1 */
	uint32_t shift;		/* log2 of slots */
	struct shm_header *hdr;
	char	*arena;
	uint32_t arena_size;
	uint32_t arena_pos;	/* of arena_tail */
	uint64_t arena_tail;	/* end of the last body */
	uint64_t arena_limit;	/* end of the free bytes, as last read */
	uint64_t limit;		/* end of the free slots, as last read */
	uint32_t max_packet;	/* bytes */
	bool	fence;		/* full barrier before reading cons.state */
};

/* Consumer's end. */
struct shm_rx {
	/* cnt, passed: slots, and bytes of the arena, consumed since the start */
	struct tagrv_intake in;
	struct shm_header *hdr;
	uint64_t published;	/* value of cons.head */
};

static_assert(SHM_STRIDE == TAGRV_INTAKE_STRIDE &&
	      SHM_LINE == TAGRV_INTAKE_LINE &&
	      (SHM_MARK << 8 | SHM_TAGGED << 1) == TAGRV_INTAKE_MARK &&
	      (SHM_TAGGED | TAGRV_INTAKE_DATA >> 1) == SHM_TAGGED_DATA &&
	      SHM_DATA_INLINE == TAGRV_INTAKE_BYTES - sizeof(uint64_t) &&
	      SHM_TAGGED_INLINE == TAGRV_INTAKE_BYTES,
	      "an intake finds its messages in slots");

/* A full barrier. The thread sanitizer does not support atomic_thread_fence(). */
static inline void shm_fence(void)
{
#ifdef __SANITIZE_THREAD__
	_Atomic int any = 0;

	atomic_fetch_add(&any, 1);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/*
 * What this thread read and stored before is done before what it stores behind. A store
 * with release order is not enough for that: on processors other than x86, later stores
 * may pass it.
 */
static inline void shm_fence_stores(void)
{
#ifndef __SANITIZE_THREAD__
	atomic_thread_fence(memory_order_release);
#endif
}

/*
 * Fetches a line that will be written, as a hint. x86 needs assembly: without a flag
 * for newer processors, compilers fetch such lines for reading only.
 */
static inline void shm_prefetch_write(const void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m" (*(const char *) line));
#else
	__builtin_prefetch(line, 1);
#endif
}

static inline char *shm_slot_at(char *data, uint32_t mask, uint64_t nr)
{
	return data + (nr & mask) * SHM_STRIDE;
}

static inline _Atomic uint64_t *shm_head_of(char *slot)
{
	return (_Atomic uint64_t *) (void *) slot;
}

/* The lap bit of the entry with this number. */
static inline uint64_t shm_lap(uint64_t nr, uint32_t shift)
{
	return ~(nr >> shift) & 1;
}

/* A head word without its lap bit. */
static inline uint64_t shm_word(enum shm_kind kind, uint32_t len, uint16_t extra)
{
	return (uint64_t) len << 32 | (uint64_t) extra << 16 | SHM_MARK << 8 |
	       (uint64_t) kind << 1;
}

static inline uint32_t shm_word_len(uint64_t word)
{
	return (uint32_t) (word >> 32);
}

static inline uint16_t shm_word_extra(uint64_t word)
{
	return (uint16_t) (word >> 16);
}

/* The kind; a value that is no enum shm_kind if the word has no SHM_MARK. */
static inline unsigned shm_word_kind(uint64_t word)
{
	return (word >> 1 & 0x7fff) ^ SHM_MARK << 7;
}

/*
 * Longest body that fits into the empty arena from any position: what is skipped at
 * the arena's end is less than the body.
 */
static inline size_t shm_body_max(uint32_t arena)
{
	return ((arena - SHM_RESERVE_BYTES) / 2) & ~(size_t) (SHM_LINE - 1);
}

/* How a region is divided: a half for slots, the rest for the arena. */
static inline uint32_t shm_slots_of(size_t region)
{
	return (uint32_t) (region / 2 / SHM_STRIDE);
}

static inline uint32_t shm_arena_of(size_t region)
{
	return (uint32_t) (region / 2 - SHM_HDR_LINES * SHM_LINE);
}

static inline size_t shm_region_of(uint32_t slots)
{
	return (size_t) slots * SHM_STRIDE * 2;
}

/* ---- producer ---- */

static inline char *shm_tx_slot(const struct shm_tx *tx)
{
	return shm_slot_at(tx->data, tx->mask, tx->gate.cnt);
}

/* Bytes of the arena that a body takes, with what is skipped in front of it. */
static inline uint32_t shm_tx_arena_cost(const struct shm_tx *tx, uint32_t len)
{
	uint32_t need = tagrv_intake_lines(len);
	uint32_t rest = tx->arena_size - tx->arena_pos;

	return TAGRV_LIKELY(need <= rest) ? need : rest + need;
}

/*
 * Whether an entry may be sent as far as is known: one slot, and 'bytes' of the arena
 * (0: the body fits into the slot). slots, reserve: to be left free.
 */
static inline bool shm_tx_fits(const struct shm_tx *tx, uint32_t bytes,
			       uint32_t slots, uint32_t reserve)
{
	return tx->gate.cnt + slots < tx->limit &&
	       (!bytes || tx->arena_tail + bytes + reserve <= tx->arena_limit);
}

/* Sets gate.end after a change of 'limit'. */
static inline void shm_tx_open(struct shm_tx *tx)
{
	tx->gate.end = tx->fence ? 0 : tx->limit - SHM_RESERVE;
}

static inline void shm_tx_shut(struct shm_tx *tx)
{
	tx->gate.end = 0;
}

/* Reads what the consumer has published. False: it is impossible (peer's fault). */
static inline bool shm_tx_refresh(struct shm_tx *tx)
{
	uint64_t head = atomic_load_explicit(&tx->hdr->cons.head,
					     memory_order_acquire);
	/* It may be newer than head, and then needs an order of its own. */
	uint64_t arena = atomic_load_explicit(&tx->hdr->cons.arena,
					      memory_order_acquire);

	if (head > tx->gate.cnt || head + tx->mask + 1 < tx->limit ||
	    arena > tx->arena_tail ||
	    arena + tx->arena_size < tx->arena_limit)
		return false;
	tx->limit = head + tx->mask + 1;
	tx->arena_limit = arena + tx->arena_size;
	return true;
}

/* Where the body of the next entry goes if it does not fit into the slot. */
static inline char *shm_tx_arena(const struct shm_tx *tx, uint32_t len)
{
	bool wraps = tagrv_intake_lines(len) > tx->arena_size - tx->arena_pos;

	return tx->arena + (wraps ? 0 : tx->arena_pos);
}

/* The next entry has its body in the arena. */
static inline void shm_tx_use_arena(struct shm_tx *tx, uint32_t len)
{
	uint32_t need = tagrv_intake_lines(len);

	tx->arena_tail += shm_tx_arena_cost(tx, len);
	if (need > tx->arena_size - tx->arena_pos)
		tx->arena_pos = 0;
	tx->arena_pos += need;
	if (tx->arena_pos == tx->arena_size)
		tx->arena_pos = 0;
}

/* Where the body of the next entry goes, unless the entry is a tagged message. */
static inline char *shm_tx_body(const struct shm_tx *tx, uint32_t len)
{
	return len <= SHM_INLINE ? shm_tx_slot(tx) + SHM_HEAD_WORD :
				   shm_tx_arena(tx, len);
}

/* Publishes the next entry, whose body was written. */
static inline void shm_tx_publish(struct shm_tx *tx, uint64_t word)
{
	uint64_t nr = tx->gate.cnt++;

	atomic_store_explicit(shm_head_of(shm_slot_at(tx->data, tx->mask, nr)),
			      word | shm_lap(nr, tx->shift),
			      memory_order_release);
	shm_prefetch_write(shm_slot_at(tx->data, tx->mask,
				       nr + 1 + SHM_FETCH_AHEAD));
}

/* The same for an entry with shm_tx_body(). */
static inline void shm_tx_publish_body(struct shm_tx *tx, enum shm_kind kind,
				       uint32_t len)
{
	if (len > SHM_INLINE)
		shm_tx_use_arena(tx, len);
	shm_tx_publish(tx, shm_word(kind, len, 0));
}

/* Reads the consumer's state (enum shm_state), ordered behind the last publish. */
static inline uint32_t shm_tx_state(const struct shm_tx *tx)
{
	if (tx->fence)
		shm_fence();
	else
		atomic_signal_fence(memory_order_seq_cst);
	return atomic_load_explicit(&tx->hdr->cons.state,
				    memory_order_relaxed);
}

/* ---- consumer ---- */

static inline char *shm_rx_slot(const struct shm_rx *rx)
{
	return shm_slot_at(rx->in.slots, rx->in.mask, rx->in.cnt);
}

static inline uint64_t shm_rx_load(const struct shm_rx *rx, uint64_t nr)
{
	return atomic_load_explicit(
		shm_head_of(shm_slot_at(rx->in.slots, rx->in.mask, nr)),
		memory_order_acquire);
}

/* Whether this head word is that of the entry with this number. */
static inline bool shm_rx_is_new(const struct shm_rx *rx, uint64_t word,
				 uint64_t nr)
{
	return (word & 1) == shm_lap(nr, rx->in.shift);
}

/* Whether the next entry was published; *word: its head word. */
static inline bool shm_rx_peek(const struct shm_rx *rx, uint64_t *word)
{
	*word = shm_rx_load(rx, rx->in.cnt);
	return shm_rx_is_new(rx, *word, rx->in.cnt);
}

static inline bool shm_rx_has(const struct shm_rx *rx)
{
	uint64_t word;

	return shm_rx_peek(rx, &word);
}

/*
 * The body of the next entry; room: bytes of the slot that it may take, at the slot's
 * end. NULL: the length is invalid.
 */
static inline char *shm_rx_body(const struct shm_rx *rx, uint32_t len,
				uint32_t room)
{
	if (len <= room)
		return shm_rx_slot(rx) + SHM_LINE - room;
	if (TAGRV_UNLIKELY(len > rx->in.arena_size / 2))
		return NULL;
	return tagrv_intake_at(&rx->in, len);
}

/* Steps past the entry; len and room as for shm_rx_body(). */
static inline void shm_rx_advance(struct shm_rx *rx, uint32_t len,
				  uint32_t room)
{
	rx->in.cnt++;
	if (TAGRV_UNLIKELY(len > room))
		tagrv_intake_pass(&rx->in, len);
}

static inline bool shm_rx_is_published(const struct shm_rx *rx)
{
	return rx->in.cnt == rx->published;
}

/* Lets the producer use what was consumed. */
static inline void shm_rx_publish(struct shm_rx *rx)
{
	rx->published = rx->in.cnt;
	rx->in.due = rx->in.cnt + rx->in.mask / 4 + 1;
	rx->in.pass_due = rx->in.passed + rx->in.arena_size / 4;
	atomic_store_explicit(&rx->hdr->cons.arena, rx->in.passed,
			      memory_order_release);
	atomic_store_explicit(&rx->hdr->cons.head, rx->in.cnt,
			      memory_order_release);
}

#endif
