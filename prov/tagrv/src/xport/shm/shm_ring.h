/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Both ends of a ring: one producer, one consumer, no index in between.
 *
 *          rx.head                  tx.tail      tx.limit     tx.freed
 *   lines ----+------------------------+------------+-------------+----
 *    free     | published,             | free,      | free        |
 *             | not consumed           | heads zero |             |
 *
 * The consumer looks at the head word of the line where the next entry must
 * begin. What an older entry left there must never be taken for a head, so the
 * producer puts zeros into the head words of free lines before it gets to them,
 * and keeps one such line beyond every entry; only lines that a large entry
 * covers anyway are left out. It does so well ahead and after publishing: the
 * next line itself is in the consumer's cache already (it comes with the one
 * that is polled), and to get it back would cost as much as the entry. An entry
 * is published by one release store of its head word, and one that does not fit
 * to the ring's end by that of the SHM_PAD in front of it.
 *
 * The consumer never writes to the lines. It publishes how far it is only now
 * and then; the producer reads that only when it knows of no more free lines.
 * So what travels between the caches per small entry is the entry's line.
 */
#ifndef TAGRV_XPORT_SHM_SHM_RING_H
#define TAGRV_XPORT_SHM_SHM_RING_H

#include <stdbool.h>
#include <string.h>

#include "xport/shm/shm_layout.h"

struct shm_tx {
	char	*data;		/* line 0 of the entries */
	struct shm_header *hdr;
	uint32_t lines;
	uint32_t pos;		/* line of the next entry */
	uint64_t tail;		/* lines written, pads included */
	uint64_t limit;		/* lines before this one can be written */
	uint64_t freed;		/* head last read + lines */
	uint32_t zero;		/* line of 'limit' */
	uint32_t max_packet;
	bool	fence;
};

struct shm_rx {
	char	*data;
	struct shm_header *hdr;
	uint32_t lines;
	uint32_t pos;
	uint64_t head;
	uint64_t published;	/* the head that the producer can see */
};

/* A full barrier; the thread sanitizer does not know the fence. */
static inline void shm_fence(void)
{
#ifdef __SANITIZE_THREAD__
	_Atomic int any = 0;

	atomic_fetch_add(&any, 1);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

static inline _Atomic uint64_t *shm_head_at(const char *data, uint32_t line)
{
	return (_Atomic uint64_t *) (uintptr_t) (data + (size_t) line *
						 SHM_LINE);
}

static inline uint64_t shm_word(enum shm_kind kind, uint32_t len)
{
	return SHM_MARK << 40 | (uint64_t) kind << 32 | len;
}

/* Lines of an entry with a body of 'len' bytes (below 2^32 - 128). */
static inline uint32_t shm_lines_of(size_t len)
{
	return (uint32_t) ((len + SHM_HEAD_WORD + SHM_LINE - 1) / SHM_LINE);
}

/*
 * Longest body that always fits once the ring is empty, wherever it starts:
 * before it up to its own length less one is lost to a pad.
 */
static inline size_t shm_body_max(uint32_t lines)
{
	return (size_t) ((lines - SHM_RESERVE) / 2) * SHM_LINE - SHM_HEAD_WORD;
}

/* ---- producer ---- */

static inline char *shm_tx_line(const struct shm_tx *tx, uint32_t line)
{
	return tx->data + (size_t) line * SHM_LINE;
}

/* Lines that an entry of n lines takes, with the pad in front of it. */
static inline uint32_t shm_tx_cost(const struct shm_tx *tx, uint32_t n)
{
	uint32_t rest = tx->lines - tx->pos;

	return TAGRV_LIKELY(n <= rest) ? n : rest + n;
}

static inline bool shm_tx_fits(const struct shm_tx *tx, uint32_t cost,
			       uint32_t reserve)
{
	return tx->tail + cost + 1 + reserve <= tx->limit;
}

/* Learns what was consumed. False: the consumer's word cannot be true. */
static inline bool shm_tx_refresh(struct shm_tx *tx)
{
	uint64_t head = atomic_load_explicit(&tx->hdr->cons.head,
					     memory_order_acquire);

	if (head > tx->tail || head + tx->lines < tx->freed)
		return false;
	tx->freed = head + tx->lines;
	return true;
}

/* Makes free lines up to 'limit' ready, as far as there are. */
static inline void shm_tx_clear(struct shm_tx *tx, uint64_t limit)
{
	limit = TAGRV_MIN(limit, tx->freed);
	while (tx->limit < limit) {
		atomic_store_explicit(shm_head_at(tx->data, tx->zero), 0,
				      memory_order_relaxed);
		tx->zero = tx->zero + 1 == tx->lines ? 0 : tx->zero + 1;
		tx->limit++;
	}
}

/*
 * The same for an entry that will be written next, whatever it takes: its body
 * goes over the old head words, and the consumer does not look at them. Only
 * the one behind it must be zero.
 */
static inline void shm_tx_skip(struct shm_tx *tx, uint32_t cost)
{
	uint64_t behind = tx->tail + cost;

	if (tx->limit < behind) {
		tx->limit = behind;
		tx->zero = (tx->pos + cost) % tx->lines;
	}
	shm_tx_clear(tx, behind + 1);
}

/*
 * After each entry: keeps SHM_AHEAD lines ready. False as shm_tx_refresh().
 */
static inline bool shm_tx_ahead(struct shm_tx *tx)
{
	bool good = true;

	if (tx->limit - tx->tail >= SHM_AHEAD)
		return true;
	if (TAGRV_UNLIKELY(tx->freed - tx->tail < SHM_AHEAD))
		good = shm_tx_refresh(tx);
	shm_tx_clear(tx, tx->tail + SHM_AHEAD);
	return good;
}

/* Where the body of an entry of n lines goes. */
static inline char *shm_tx_body(const struct shm_tx *tx, uint32_t n)
{
	uint32_t at = n <= tx->lines - tx->pos ? tx->pos : 0;

	return shm_tx_line(tx, at) + SHM_HEAD_WORD;
}

/* Makes the entry visible; its body is written. cost: shm_tx_cost(). */
static inline void shm_tx_publish(struct shm_tx *tx, uint32_t n, uint32_t cost,
				  uint64_t word)
{
	uint32_t at = tx->pos, next = at + n;

	if (TAGRV_UNLIKELY(cost != n)) {
		atomic_store_explicit(shm_head_at(tx->data, 0), word,
				      memory_order_relaxed);
		word = shm_word(SHM_PAD, (tx->lines - at) * SHM_LINE -
				SHM_HEAD_WORD);
		next = n;
	}
	if (next == tx->lines)
		next = 0;
	atomic_store_explicit(shm_head_at(tx->data, at), word,
			      memory_order_release);
	tx->pos = next;
	tx->tail += cost;
}

/* What the consumer says about itself, read after what was published. */
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

static inline uint64_t shm_rx_peek(const struct shm_rx *rx)
{
	return atomic_load_explicit(shm_head_at(rx->data, rx->pos),
				    memory_order_acquire);
}

/* The line behind an entry of n lines that is next. */
static inline uint32_t shm_rx_behind(const struct shm_rx *rx, uint32_t n)
{
	return rx->pos + n == rx->lines ? 0 : rx->pos + n;
}

/*
 * Lines of the entry whose head word was read, 0 if it breaks the rules. The
 * word comes from the peer: only this copy of it may be used.
 */
static inline uint32_t shm_rx_check(const struct shm_rx *rx, uint64_t word)
{
	uint32_t len = (uint32_t) word, rest = rx->lines - rx->pos;

	if (word >> 40 != SHM_MARK || len > rest * SHM_LINE - SHM_HEAD_WORD)
		return 0;
	return shm_lines_of(len);
}

static inline enum shm_kind shm_kind_of(uint64_t word)
{
	return (enum shm_kind) (word >> 32 & 0xff);
}

static inline char *shm_rx_body_at(const struct shm_rx *rx, uint32_t line)
{
	return rx->data + (size_t) line * SHM_LINE + SHM_HEAD_WORD;
}

static inline char *shm_rx_body(const struct shm_rx *rx)
{
	return shm_rx_body_at(rx, rx->pos);
}

static inline void shm_rx_advance(struct shm_rx *rx, uint32_t n)
{
	rx->pos = shm_rx_behind(rx, n);
	rx->head += n;
}

static inline void shm_rx_publish(struct shm_rx *rx)
{
	rx->published = rx->head;
	atomic_store_explicit(&rx->hdr->cons.head, rx->head,
			      memory_order_release);
}

#endif
