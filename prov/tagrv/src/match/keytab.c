/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hash table from keys to pool indexes, see keytab.h: memory, erasure, growth.
 */
#include "match/keytab.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

/* Keys per bucket, on average, up to which insertions succeed without memory. */
#define FILL_MAX	6
/* Keys per bucket from which on tagrv_keytab_grow_ahead() doubles. */
#define FILL_AHEAD	3

/* Uses calloc, so that the kernel zeroes pages of a large table on first use. */
static bool alloc_array(struct tagrv_key_array *array, size_t cnt)
{
	uintptr_t at;

	if (cnt > SIZE_MAX / sizeof(*array->buckets) - 1)
		return false;
	array->memory = calloc(cnt + 1, sizeof(*array->buckets));
	if (!array->memory)
		return false;
	at = (uintptr_t) array->memory + TAGRV_CACHE_LINE - 1;
	array->buckets = (void *) (at & ~(uintptr_t) (TAGRV_CACHE_LINE - 1));
	array->mask = cnt - 1;
	return true;
}

static void free_array(struct tagrv_key_array *array)
{
	free(array->memory);
	*array = (struct tagrv_key_array) { 0 };
}

static size_t buckets_for(size_t cnt, size_t keys)
{
	while (cnt * TAGRV_KEYTAB_FILL < keys)
		cnt *= 2;
	return cnt;
}

int tagrv_keytab_init(struct tagrv_keytab *tab, size_t keys)
{
	*tab = (struct tagrv_keytab) { 0 };
	if (!alloc_array(&tab->now, buckets_for(TAGRV_KEYTAB_MIN, keys)))
		return -FI_ENOMEM;
	return 0;
}

void tagrv_keytab_fini(struct tagrv_keytab *tab)
{
	free_array(&tab->now);
	free_array(&tab->old);
	tab->cnt = 0;
}

void tagrv_keytab_clear(struct tagrv_keytab *tab)
{
	free_array(&tab->old);
	if (tab->cnt)
		memset(tab->now.buckets, 0,
		       (tab->now.mask + 1) * sizeof(*tab->now.buckets));
	tab->cnt = 0;
}

static struct tagrv_key_bucket *bucket_of(uint32_t *cell)
{
	return (void *) ((uintptr_t) cell & ~(uintptr_t) (TAGRV_CACHE_LINE - 1));
}

/* Frees a cell and uncounts its key in the buckets that it passed. */
static uint32_t clear_cell(const struct tagrv_key_array *array,
			   struct tagrv_key_bucket *bucket, unsigned cell)
{
	uint32_t hash = bucket->hash[cell];
	size_t nr = hash;

	tagrv_keytab_set(bucket->hash, cell, 0);
	while (tagrv_keytab_bucket(array, nr) != bucket)
		tagrv_keytab_bucket(array, nr++)->passed--;
	return hash;
}

void tagrv_keytab_erase(struct tagrv_keytab *tab, uint32_t *cell)
{
	struct tagrv_key_bucket *bucket = bucket_of(cell);
	struct tagrv_key_array *old = &tab->old;
	bool is_old = TAGRV_UNLIKELY(old->buckets) && bucket >= old->buckets &&
		      bucket <= old->buckets + old->mask;

	clear_cell(is_old ? old : &tab->now, bucket,
		   (unsigned) (cell - bucket->index));
	tab->cnt--;
}

/* ---- growth ---- */

/* Moves the keys of the next bucket of 'old' to 'now'; tab->cnt stays the same. */
static void move_bucket(struct tagrv_keytab *tab)
{
	struct tagrv_key_array old = tab->old;
	struct tagrv_key_bucket *bucket = &old.buckets[tab->old_next];

	/* Without 'old', the insertions below do not move another bucket. */
	tab->old.buckets = NULL;
	for (unsigned i = 0; i < TAGRV_KEYTAB_CELLS; i++) {
		if (!bucket->hash[i])
			continue;
		tab->cnt--;
		if (!tagrv_keytab_insert(tab, clear_cell(&old, bucket, i),
					 bucket->index[i]))
			assert(!"twice the buckets have room");
	}
	tab->old.buckets = old.buckets;
	if (tab->old_next++ == old.mask)
		free_array(&tab->old);
}

static TAGRV_COLD bool grow_to(struct tagrv_keytab *tab, size_t cnt)
{
	struct tagrv_key_array array;

	if (!alloc_array(&array, cnt))
		return false;
	tab->old = tab->now;
	tab->old_next = 0;
	tab->now = array;
	return true;
}

static bool grow(struct tagrv_keytab *tab)
{
	return grow_to(tab, (tab->now.mask + 1) * 2);
}

bool tagrv_keytab_reserve(struct tagrv_keytab *tab, size_t keys)
{
	size_t cnt = tab->now.mask + 1;

	if (tab->cnt + keys < cnt * FILL_MAX)
		return true;
	while (tab->old.buckets)
		move_bucket(tab);
	return grow_to(tab, buckets_for(cnt, tab->cnt + keys));
}

bool tagrv_keytab_make_room(struct tagrv_keytab *tab)
{
	if (tab->old.buckets) {
		move_bucket(tab);
		return true;
	}
	return grow(tab) || tab->cnt < (tab->now.mask + 1) * FILL_MAX;
}

bool tagrv_keytab_grow_ahead(struct tagrv_keytab *tab)
{
	return !tab->old.buckets &&
	       tab->cnt >= (tab->now.mask + 1) * FILL_AHEAD && grow(tab);
}

/* ---- lookup by entry ---- */

static bool is_index(const void *key, uint32_t index)
{
	return *(const uint32_t *) key == index;
}

uint32_t *tagrv_keytab_cell_of(const struct tagrv_keytab *tab, uint32_t hash,
			       uint32_t index)
{
	uint32_t *cell = tagrv_keytab_find(tab, hash, is_index, &index);

	assert(cell);
	return cell;
}
