/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Both ends of a ring: one producer, one consumer. They share no index on the data
 * path; the consumer finds an entry by its head word.
 *
 *          rx.head                  tx.tail      tx.limit     tx.freed
 *   lines ----+------------------------+------------+-------------+----
 *    free     | published,             | free, head | free        |
 *             | not consumed           | words zero |             |
 *
 * The consumer polls the head word of the line where the next entry must begin.
 * Data of an older entry must never be taken for a head word. So the producer
 * zeroes the head words of free lines before it reaches them, and keeps at least
 * one zeroed line behind every entry. It does so SHM_AHEAD lines ahead, after
 * publishing an entry: the very next line is in the consumer's cache (prefetched
 * with the polled one), and fetching it back would cost as much as the entry. The
 * inner lines of a large entry need not be zeroed, because its body covers them.
 *
 * An entry is published by one release store of its head word. An entry that does
 * not fit to the end of the ring begins at line 0, behind an SHM_PAD, and is
 * published by the store of the pad's head word.
 *
 * The consumer never writes to the lines. It publishes rx.head from time to time,
 * and the producer reads that only when it knows of no more free lines. So a small
 * entry costs the transfer of one line between the caches.
 */
#ifndef TAGRV_XPORT_SHM_SHM_RING_H
#define TAGRV_XPORT_SHM_SHM_RING_H

#include <stdbool.h>
#include <string.h>

#include "xport/shm/shm_layout.h"

/*
 * Producer's end. tail, limit and freed count lines since the start and never wrap;
 * pos and zero are indexes of lines, below 'lines'.
 */
struct shm_tx {
	char	*data;		/* line 0 of the entries */
	struct shm_header *hdr;
	uint32_t lines;
	uint32_t pos;		/* of 'tail': the next entry */
	uint64_t tail;		/* end of the last entry */
	uint64_t limit;		/* end of the lines zeroed */
	uint64_t freed;		/* end of the free lines, as last read */
	uint32_t zero;		/* of 'limit' */
	uint32_t max_packet;	/* bytes */
	bool	fence;		/* full barrier before reading cons.state */
};

/* Consumer's end. */
struct shm_rx {
	char	*data;
	struct shm_header *hdr;
	uint32_t lines;
	uint32_t pos;		/* of 'head': the next entry */
	uint64_t head;		/* lines consumed since the start */
	uint64_t published;	/* value of cons.head */
};

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
 * Longest body that fits into the empty ring from any position: a pad in front of
 * the entry takes at most the entry's own lines less one.
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

/* Lines that an entry of n lines takes, including a pad in front of it. */
static inline uint32_t shm_tx_cost(const struct shm_tx *tx, uint32_t n)
{
	uint32_t rest = tx->lines - tx->pos;

	return TAGRV_LIKELY(n <= rest) ? n : rest + n;
}

/* Whether an entry fits into the zeroed lines, with one behind it. */
static inline bool shm_tx_fits(const struct shm_tx *tx, uint32_t cost,
			       uint32_t reserve)
{
	return tx->tail + cost + 1 + reserve <= tx->limit;
}

/* Reads cons.head into 'freed'. False: the value is impossible (peer's fault). */
static inline bool shm_tx_refresh(struct shm_tx *tx)
{
	uint64_t head = atomic_load_explicit(&tx->hdr->cons.head,
					     memory_order_acquire);

	if (head > tx->tail || head + tx->lines < tx->freed)
		return false;
	tx->freed = head + tx->lines;
	return true;
}

/* Zeroes head words up to 'limit', but of free lines only. */
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
 * Zeroes only the head word behind the next entry, for a large entry: its body
 * overwrites the inner lines, whose head words the consumer does not read.
 */
static inline void shm_tx_clear_behind(struct shm_tx *tx, uint32_t cost)
{
	uint64_t behind = tx->tail + cost;

	if (tx->limit < behind) {
		tx->limit = behind;
		tx->zero = (tx->pos + cost) % tx->lines;
	}
	shm_tx_clear(tx, behind + 1);
}

/* Zeroes SHM_AHEAD lines ahead, after each entry. False: as shm_tx_refresh(). */
static inline bool shm_tx_clear_ahead(struct shm_tx *tx)
{
	bool good = true;

	if (tx->limit - tx->tail >= SHM_AHEAD)
		return true;
	if (TAGRV_UNLIKELY(tx->freed - tx->tail < SHM_AHEAD))
		good = shm_tx_refresh(tx);
	shm_tx_clear(tx, tx->tail + SHM_AHEAD);
	return good;
}

/* Address of the body of the next entry, which has n lines. */
static inline char *shm_tx_body(const struct shm_tx *tx, uint32_t n)
{
	uint32_t at = n <= tx->lines - tx->pos ? tx->pos : 0;

	return shm_tx_line(tx, at) + SHM_HEAD_WORD;
}

/* Publishes an entry whose body was written. cost: shm_tx_cost(tx, n). */
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

/* Reads the head word of the next entry; 0: none was published yet. */
static inline uint64_t shm_rx_peek(const struct shm_rx *rx)
{
	return atomic_load_explicit(shm_head_at(rx->data, rx->pos),
				    memory_order_acquire);
}

/* Index of the line behind the next entry, which has n lines. */
static inline uint32_t shm_rx_behind(const struct shm_rx *rx, uint32_t n)
{
	return rx->pos + n == rx->lines ? 0 : rx->pos + n;
}

/*
 * Lines of the next entry by its head word; 0: the word is invalid. The peer may
 * change the word in the ring at any time: only the copy that was checked may be
 * used.
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

/* Steps past an entry of n lines. */
static inline void shm_rx_advance(struct shm_rx *rx, uint32_t n)
{
	rx->pos = shm_rx_behind(rx, n);
	rx->head += n;
}

/* Lets the producer use the lines that were consumed. */
static inline void shm_rx_publish(struct shm_rx *rx)
{
	rx->published = rx->head;
	atomic_store_explicit(&rx->hdr->cons.head, rx->head,
			      memory_order_release);
}

#endif
