/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Table from hashed keys to pool indexes: see keytab.h.
 */
#include "match/keytab.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

/* A slot of 'old' whose key is gone; its hash half keeps a scan going. */
#define MOVED	((uint64_t) 1 << 32)

/*
 * Slots moved with each insertion. 'old' was half full when its double came, so
 * it is empty after an eighth of the insertions until the next doubling.
 */
#define MOVES	8

/* By calloc: pages of a large table are zeroed when first used, not at once. */
static uint64_t *alloc_slots(size_t cnt)
{
	return calloc(cnt, sizeof(uint64_t));
}

int tagrv_keytab_init(struct tagrv_keytab *tab, size_t keys)
{
	size_t cnt = TAGRV_KEYTAB_MIN;

	while (cnt < 2 * keys)
		cnt *= 2;
	*tab = (struct tagrv_keytab) { .slots = alloc_slots(cnt) };
	if (!tab->slots)
		return -FI_ENOMEM;
	tab->mask = cnt - 1;
	return 0;
}

void tagrv_keytab_fini(struct tagrv_keytab *tab)
{
	free(tab->slots);
	free(tab->old);
	*tab = (struct tagrv_keytab) { 0 };
}

static void drop_old(struct tagrv_keytab *tab)
{
	free(tab->old);
	tab->old = NULL;
}

void tagrv_keytab_clear(struct tagrv_keytab *tab)
{
	drop_old(tab);
	if (tab->cnt)
		memset(tab->slots, 0, (tab->mask + 1) * sizeof(*tab->slots));
	tab->cnt = 0;
}

static void place(struct tagrv_keytab *tab, uint64_t slot)
{
	size_t at = (slot >> 32) & tab->mask;

	while (tab->slots[at])
		at = (at + 1) & tab->mask;
	tab->slots[at] = slot;
}

static void move_some(struct tagrv_keytab *tab)
{
	for (unsigned i = 0; i < MOVES; i++) {
		uint64_t *slot = &tab->old[tab->old_next];

		if ((uint32_t) *slot) {
			place(tab, *slot);
			*slot = MOVED;
		}
		if (tab->old_next++ == tab->old_mask) {
			drop_old(tab);
			return;
		}
	}
}

static TAGRV_COLD bool grow_to(struct tagrv_keytab *tab, size_t cnt)
{
	uint64_t *slots = alloc_slots(cnt);

	if (!slots)
		return false;
	tab->old = tab->slots;
	tab->old_mask = tab->mask;
	tab->old_next = 0;
	tab->slots = slots;
	tab->mask = cnt - 1;
	return true;
}

static bool grow(struct tagrv_keytab *tab)
{
	return grow_to(tab, (tab->mask + 1) * 2);
}

bool tagrv_keytab_reserve(struct tagrv_keytab *tab, size_t keys)
{
	size_t cnt = tab->mask + 1;

	if (tab->cnt + keys < cnt / 8 * 7)
		return true;
	while (tab->old)
		move_some(tab);
	while (cnt / 2 < tab->cnt + keys)
		cnt *= 2;
	return grow_to(tab, cnt);
}

bool tagrv_keytab_make_room(struct tagrv_keytab *tab)
{
	if (tab->old) {
		move_some(tab);
		return true;
	}
	return grow(tab) || tab->cnt < (tab->mask + 1) / 8 * 7;
}

/* Moves up what follows, as far as it may go towards its home. */
static void close_gap(struct tagrv_keytab *tab, size_t gap)
{
	size_t mask = tab->mask;

	for (size_t at = (gap + 1) & mask; tab->slots[at]; at = (at + 1) & mask) {
		size_t home = (tab->slots[at] >> 32) & mask;

		if (((at - home) & mask) < ((at - gap) & mask))
			continue;
		tab->slots[gap] = tab->slots[at];
		gap = at;
	}
	tab->slots[gap] = 0;
}

void tagrv_keytab_erase(struct tagrv_keytab *tab, uint64_t *slot)
{
	tab->cnt--;
	if (TAGRV_UNLIKELY(tab->old && slot >= tab->old &&
			   slot <= tab->old + tab->old_mask))
		*slot = MOVED;
	else
		close_gap(tab, (size_t) (slot - tab->slots));
}

bool tagrv_keytab_grow_ahead(struct tagrv_keytab *tab)
{
	return !tab->old && tab->cnt >= (tab->mask + 1) / 8 * 3 && grow(tab);
}

static bool is_index(const void *key, uint32_t index)
{
	return *(const uint32_t *) key == index;
}

uint64_t *tagrv_keytab_slot_of(const struct tagrv_keytab *tab, uint32_t hash,
			       uint32_t index)
{
	uint64_t *slot = tagrv_keytab_find(tab, hash, is_index, &index);

	assert(slot);
	return slot;
}
