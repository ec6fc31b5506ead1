/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Table from hashed keys to pool indexes: open addressing, linear probing.
 *
 *   slot (64 bit) = hash << 32 | index + 1;   0: free
 *
 * Slots hold the whole hash and are eight to a cache line, so a key that is not
 * there costs one line and no look at any entry, and one that is there costs
 * one line before the entry. At most half of the slots are used.
 *
 * It grows by doubling, a few slots with each insertion: 'old' is what has not
 * been moved yet. Slots that have left 'old' are marked, not freed, since a
 * later key may have been pushed past them; in 'slots' an erased slot is closed
 * by moving up what follows. Nothing is rehashed: a slot knows its hash.
 */
#ifndef TAGRV_MATCH_KEYTAB_H
#define TAGRV_MATCH_KEYTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

#define TAGRV_KEYTAB_MIN	64	/* slots, a power of two */

struct tagrv_keytab {
	uint64_t *slots;
	size_t	mask;		/* slots - 1 */
	size_t	cnt;		/* keys, those in 'old' included */
	uint64_t *old;		/* or NULL */
	size_t	old_mask;
	size_t	old_next;	/* slots before are moved */
};

/* Whether the entry at a pool index has the key that is looked for. */
typedef bool (*tagrv_keytab_same)(const void *key, uint32_t index);

/* Room for 'keys' without growing. 0 or -FI_ENOMEM. */
int tagrv_keytab_init(struct tagrv_keytab *tab, size_t keys) TAGRV_WARN_UNUSED;
void tagrv_keytab_fini(struct tagrv_keytab *tab);

/* Forgets all keys, keeps the memory. */
void tagrv_keytab_clear(struct tagrv_keytab *tab);

/* What an insertion seldom does: doubles, moves slots. False: no room. */
bool tagrv_keytab_make_room(struct tagrv_keytab *tab);

/*
 * Sees to it that so many more keys can be added. False: no memory. Invalidates
 * slots found before.
 */
bool tagrv_keytab_reserve(struct tagrv_keytab *tab, size_t keys)
	TAGRV_WARN_UNUSED;

/* Removes a key. Invalidates slots found before. */
void tagrv_keytab_erase(struct tagrv_keytab *tab, uint64_t *slot);

/* Allocates before it must be: true when it did. */
bool tagrv_keytab_grow_ahead(struct tagrv_keytab *tab);

static inline void tagrv_keytab_prefetch(const struct tagrv_keytab *tab,
					 uint32_t hash)
{
	__builtin_prefetch(&tab->slots[hash & tab->mask]);
}

static inline uint32_t tagrv_keytab_index(const uint64_t *slot)
{
	return (uint32_t) *slot - 1;
}

/* The key's entry is now another one. */
static inline void tagrv_keytab_replace(uint64_t *slot, uint32_t index)
{
	*slot = (*slot & ~(uint64_t) UINT32_MAX) | (index + 1);
}

/*
 * Adds a key that is not there. False when there is no room and no memory for
 * more. Invalidates slots found before.
 */
TAGRV_WARN_UNUSED
static inline bool tagrv_keytab_insert(struct tagrv_keytab *tab, uint32_t hash,
				       uint32_t index)
{
	size_t at;

	if (TAGRV_UNLIKELY(tab->old || tab->cnt > tab->mask / 2) &&
	    !tagrv_keytab_make_room(tab))
		return false;
	at = hash & tab->mask;
	while (tab->slots[at])
		at = (at + 1) & tab->mask;
	tab->slots[at] = (uint64_t) hash << 32 | (index + 1);
	tab->cnt++;
	return true;
}

/* Inlined with 'same', which is what makes a probe cheap. */
static inline __attribute__((always_inline)) uint64_t *
tagrv_keytab_scan(uint64_t *slots, size_t mask, uint32_t hash,
		  tagrv_keytab_same same, const void *key)
{
	for (size_t at = hash & mask; slots[at]; at = (at + 1) & mask)
		if (slots[at] >> 32 == hash && (uint32_t) slots[at] &&
		    same(key, tagrv_keytab_index(&slots[at])))
			return &slots[at];
	return NULL;
}

/* The slot of a key, or NULL. */
static inline __attribute__((always_inline)) uint64_t *
tagrv_keytab_find(const struct tagrv_keytab *tab, uint32_t hash,
		  tagrv_keytab_same same, const void *key)
{
	uint64_t *slot = tagrv_keytab_scan(tab->slots, tab->mask, hash, same,
					   key);

	if (TAGRV_LIKELY(slot || !tab->old))
		return slot;
	return tagrv_keytab_scan(tab->old, tab->old_mask, hash, same, key);
}

/* The slot that holds an entry, which must be there. */
uint64_t *tagrv_keytab_slot_of(const struct tagrv_keytab *tab, uint32_t hash,
			       uint32_t index);

#endif
