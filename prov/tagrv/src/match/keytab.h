/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Table from hashed keys to pool indexes: buckets of one cache line.
 *
 *   bucket   hash[0..6]  passed  index[0..6]
 *               |           `-- keys that went on because this one was full
 *               `-- 0: the cell is free
 *
 * A key is in the bucket that its hash says, or, where that was full when it
 * came, in one of the next. Cells hold the whole hash and all of a bucket are
 * compared at once, without a branch for each: a key that is not there costs one
 * line and no look at any entry, and one that is there costs one line before
 * the entry. Nothing moves when a key goes. At most four of seven cells are
 * used, so that hardly a key is not in its first bucket.
 *
 * It grows by doubling, a bucket with each insertion: 'old' is what has not been
 * moved yet. Nothing is rehashed: a cell knows its hash.
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
#define TAGRV_KEYTAB_CROWD	8	/* full buckets passed: not by chance */

struct tagrv_key_bucket {
	alignas(TAGRV_CACHE_LINE)
	uint32_t hash[TAGRV_KEYTAB_CELLS];
	uint32_t passed;
	uint32_t index[TAGRV_KEYTAB_CELLS];
	uint32_t unused;
};

static_assert(sizeof(struct tagrv_key_bucket) == TAGRV_CACHE_LINE,
	      "a probe touches one line");

/* One array of buckets; 'memory' is what malloc gave for it. */
struct tagrv_key_array {
	struct tagrv_key_bucket *buckets;	/* or NULL */
	size_t	mask;		/* buckets - 1 */
	void	*memory;
};

struct tagrv_keytab {
	struct tagrv_key_array now;
	size_t	cnt;		/* keys, those in 'old' included */
	struct tagrv_key_array old;
	size_t	old_next;	/* buckets before are moved */
	bool	crowded;	/* a key had to pass many; for the user to clear */
};

/* Whether the entry at a pool index has the key that is looked for. */
typedef bool (*tagrv_keytab_same)(const void *key, uint32_t index);

/* Room for 'keys' without growing. 0 or -FI_ENOMEM. */
int tagrv_keytab_init(struct tagrv_keytab *tab, size_t keys) TAGRV_WARN_UNUSED;
void tagrv_keytab_fini(struct tagrv_keytab *tab);

/* Forgets all keys, keeps the memory. */
void tagrv_keytab_clear(struct tagrv_keytab *tab);

/* What an insertion seldom does: doubles, moves a bucket. False: no room. */
bool tagrv_keytab_make_room(struct tagrv_keytab *tab);

/*
 * Sees to it that so many more keys can be added. False: no memory. Invalidates
 * cells found before.
 */
bool tagrv_keytab_reserve(struct tagrv_keytab *tab, size_t keys)
	TAGRV_WARN_UNUSED;

/* Allocates before it must be: true when it did. */
bool tagrv_keytab_grow_ahead(struct tagrv_keytab *tab);

/* How many cells there are for keys, before it grows. */
static inline size_t tagrv_keytab_room(const struct tagrv_keytab *tab)
{
	return (tab->now.mask + 1) * TAGRV_KEYTAB_FILL;
}

/* ---- buckets ---- */

/* Bit i: words[i] is 'word', of the first TAGRV_KEYTAB_CELLS. */
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
 * words[cell] = word. What is compared by vectors is written by vectors: a load
 * that overlaps a smaller store has to wait until that and all stores before it
 * have reached the cache, and who matches and posts again comes back at once.
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

/* A hash as cells hold it: 0 means free there. */
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
 * Adds a key that is not there. False when there is no room and no memory for
 * more. Invalidates cells found before.
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

/* Inlined with 'same', which is what makes a probe cheap. */
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

/* Where the index of a key's entry is, or NULL. The caller may change it. */
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

/* The cell that holds an entry, which must be there. */
uint32_t *tagrv_keytab_cell_of(const struct tagrv_keytab *tab, uint32_t hash,
			       uint32_t index);

/* Removes the key of a cell. No other cell changes its place. */
void tagrv_keytab_erase(struct tagrv_keytab *tab, uint32_t *cell);

#endif
