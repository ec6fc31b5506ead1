/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hash table from keys to pool indexes, with buckets of one cache line.
 *
 *   bucket   hash[0..6]  passed  index[0..6]
 *               |           `-- keys in later buckets because this one was full
 *               `-- 0: the cell is free
 *
 * A key is in the bucket that its hash selects or, if that bucket was full at
 * insertion, in one of the next. Cells hold the whole hash, and all cells of a
 * bucket are compared at once without a branch for each: looking up a key that
 * is not in the table reads one cache line and no entry, looking up one that is
 * reads one line before the entry. Erasing a key moves no other. On average at
 * most four of seven cells are used, so nearly all keys are in their first bucket.
 *
 * The table grows by doubling; each insertion moves one bucket from 'old', the
 * previous array, to 'now'. No key is hashed again: its cell holds the hash.
 */
#ifndef TAGRV_MATCH_KEYTAB_H
#define TAGRV_MATCH_KEYTAB_H

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "core/compiler.h"

#define TAGRV_KEYTAB_CELLS	7
#define TAGRV_KEYTAB_FILL	4	/* keys for each bucket, on average */
#define TAGRV_KEYTAB_MIN	8	/* buckets, a power of two */
#define TAGRV_KEYTAB_CROWD	8	/* full buckets in a row: not by chance */

struct tagrv_key_bucket {
	alignas(TAGRV_CACHE_LINE)
	uint32_t hash[TAGRV_KEYTAB_CELLS];
	uint32_t passed;
	uint32_t index[TAGRV_KEYTAB_CELLS];
	uint32_t unused;
};

static_assert(sizeof(struct tagrv_key_bucket) == TAGRV_CACHE_LINE,
	      "a probe touches one line");

struct tagrv_key_array {
	struct tagrv_key_bucket *buckets;	/* or NULL */
	size_t	mask;		/* number of buckets - 1 */
	void	*memory;	/* of 'buckets', not aligned; to be freed */
};

struct tagrv_keytab {
	struct tagrv_key_array now;
	size_t	cnt;		/* keys, those in 'old' included */
	struct tagrv_key_array old;
	size_t	old_next;	/* buckets of 'old' below this one are empty */
	bool	crowded;	/* an insertion passed TAGRV_KEYTAB_CROWD full
				   buckets; the table's user clears it */
};

/* Whether the entry at a pool index has the given key. */
typedef bool (*tagrv_keytab_same)(const void *key, uint32_t index);

/* Initializes a table with room for 'keys' keys. 0 or -FI_ENOMEM. */
int tagrv_keytab_init(struct tagrv_keytab *tab, size_t keys) TAGRV_WARN_UNUSED;
/* Frees the table's memory; a zeroed table is fine. */
void tagrv_keytab_fini(struct tagrv_keytab *tab);

/* Removes all keys; keeps the memory of 'now'. */
void tagrv_keytab_clear(struct tagrv_keytab *tab);

/*
 * The rare part of an insertion: moves one bucket of 'old', or doubles the table.
 * False: no memory, and the table is too full for another key.
 */
bool tagrv_keytab_make_room(struct tagrv_keytab *tab);

/*
 * Ensures that 'keys' more keys can be inserted. False: no memory. Invalidates
 * pointers to cells.
 */
bool tagrv_keytab_reserve(struct tagrv_keytab *tab, size_t keys)
	TAGRV_WARN_UNUSED;

/*
 * Doubles a table that is nearly full, before an insertion has to. Returns whether
 * it did. Invalidates pointers to cells if so.
 */
bool tagrv_keytab_grow_ahead(struct tagrv_keytab *tab);

/* Number of keys that the table holds before it doubles. */
static inline size_t tagrv_keytab_room(const struct tagrv_keytab *tab)
{
	return (tab->now.mask + 1) * TAGRV_KEYTAB_FILL;
}

/* ---- buckets ---- */

/* Returns a bit mask of the TAGRV_KEYTAB_CELLS words that equal 'word'. */
static inline unsigned tagrv_keytab_equal_loop(const uint32_t *words,
					       uint32_t word)
{
	unsigned equal = 0;

	for (unsigned i = 0; i < TAGRV_KEYTAB_CELLS; i++)
		equal |= (unsigned) (words[i] == word) << i;
	return equal;
}

static inline unsigned tagrv_keytab_equal(const uint32_t *words, uint32_t word)
{
#ifdef __SSE2__
	const __m128i *four = (const __m128i *) words;
	__m128i all = _mm_set1_epi32((int) word);
	__m128i low = _mm_cmpeq_epi32(_mm_load_si128(&four[0]), all);
	__m128i high = _mm_cmpeq_epi32(_mm_load_si128(&four[1]), all);
	int equal = _mm_movemask_ps(_mm_castsi128_ps(low)) |
		    _mm_movemask_ps(_mm_castsi128_ps(high)) << 4;

	return (unsigned) equal & ((1u << TAGRV_KEYTAB_CELLS) - 1);
#else
	return tagrv_keytab_equal_loop(words, word);
#endif
}

/*
 * words[cell] = word, by a 16-byte store, because lookups use 16-byte loads: such
 * a load that overlaps a recent 4-byte store waits until that store and all before
 * it have reached the cache. Programs that post again after each match would
 * run into this at once.
 */
static inline void tagrv_keytab_set(uint32_t *words, unsigned cell,
				    uint32_t word)
{
#ifdef __SSE2__
	__m128i *four = (__m128i *) words + cell / 4;
	__m128i lane = _mm_cmpeq_epi32(_mm_set1_epi32((int) cell % 4),
				       _mm_setr_epi32(0, 1, 2, 3));
	__m128i value = _mm_and_si128(lane, _mm_set1_epi32((int) word));

	_mm_store_si128(four, _mm_or_si128(value, _mm_andnot_si128(lane,
						_mm_load_si128(four))));
#else
	words[cell] = word;
#endif
}

/* A hash as cells hold it: never 0, which marks a free cell. */
static inline uint32_t tagrv_keytab_hash(uint32_t hash)
{
	return hash + !hash;
}

static inline struct tagrv_key_bucket *
tagrv_keytab_bucket(const struct tagrv_key_array *array, size_t nr)
{
	return &array->buckets[nr & array->mask];
}

/* ---- keys ---- */

static inline void tagrv_keytab_prefetch(const struct tagrv_keytab *tab,
					 uint32_t hash)
{
	__builtin_prefetch(tagrv_keytab_bucket(&tab->now,
					       tagrv_keytab_hash(hash)));
}

/*
 * Inserts a key that is not in the table. False: no room and no memory.
 * Invalidates pointers to cells.
 */
TAGRV_WARN_UNUSED
static inline bool tagrv_keytab_insert(struct tagrv_keytab *tab, uint32_t hash,
				       uint32_t index)
{
	struct tagrv_key_bucket *bucket;
	size_t nr = hash = tagrv_keytab_hash(hash);
	unsigned unused, cell;

	if (TAGRV_UNLIKELY(tab->old.buckets ||
			   tab->cnt >= tagrv_keytab_room(tab)) &&
	    !tagrv_keytab_make_room(tab))
		return false;
	bucket = tagrv_keytab_bucket(&tab->now, nr);
	while (TAGRV_UNLIKELY(!(unused = tagrv_keytab_equal(bucket->hash, 0)))) {
		bucket->passed++;
		bucket = tagrv_keytab_bucket(&tab->now, ++nr);
		if (TAGRV_UNLIKELY(nr - hash >= TAGRV_KEYTAB_CROWD))
			tab->crowded = true;
	}
	cell = (unsigned) __builtin_ctz(unused);
	tagrv_keytab_set(bucket->hash, cell, hash);
	bucket->index[cell] = index;
	tab->cnt++;
	return true;
}

/* Looks up a key in one array. Always inlined, and 'same' with it, for speed. */
static inline __attribute__((always_inline)) uint32_t *
tagrv_keytab_scan(const struct tagrv_key_array *array, uint32_t hash,
		  tagrv_keytab_same same, const void *key)
{
	size_t nr = hash;

	do {
		struct tagrv_key_bucket *bucket =
			tagrv_keytab_bucket(array, nr);
		unsigned hits = tagrv_keytab_equal(bucket->hash, hash);

		for (; hits; hits &= hits - 1) {
			uint32_t *cell = &bucket->index[__builtin_ctz(hits)];

			if (TAGRV_LIKELY(same(key, *cell)))
				return cell;
		}
		if (TAGRV_LIKELY(!bucket->passed))
			break;
	} while (nr++ - hash < array->mask);
	return NULL;
}

/*
 * Returns the cell that holds the pool index of a key's entry, or NULL. The
 * caller may write another index with the same key to it.
 */
static inline __attribute__((always_inline)) uint32_t *
tagrv_keytab_find(const struct tagrv_keytab *tab, uint32_t hash,
		  tagrv_keytab_same same, const void *key)
{
	uint32_t *cell;

	hash = tagrv_keytab_hash(hash);
	cell = tagrv_keytab_scan(&tab->now, hash, same, key);
	if (TAGRV_LIKELY(cell || !tab->old.buckets))
		return cell;
	return tagrv_keytab_scan(&tab->old, hash, same, key);
}

/* Returns the cell of an entry that is in the table under this hash. */
uint32_t *tagrv_keytab_cell_of(const struct tagrv_keytab *tab, uint32_t hash,
			       uint32_t index);

/* Removes the key of a cell. Pointers to other cells remain valid. */
void tagrv_keytab_erase(struct tagrv_keytab *tab, uint32_t *cell);

#endif
