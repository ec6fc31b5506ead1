/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Address table: see avtab.h.
 *
 *   rows     [0] [1] [2] [3] ...          an fi_addr is the index
 *             |       |
 *             '-next--'--> none           rows of one address, ascending
 *             ^
 *   firsts   [ ][0][ ][1][ ] ...          by the address' hash: its first row
 *
 * Jobs of 100000 processes insert each of them at each of them, so an address costs little:
 * a row of 32 bytes, and 4 bytes of 'firsts', a hash table with open addressing and linear
 * probing, which is at most three quarters full. The rows grow by a quarter at a time, since
 * what is allocated ahead counts, too. Nothing is allocated for a single row.
 *
 * Rows are linked, and named in 'firsts', by their number: the index and one, so that 0 is
 * none.
 */
#include "object/avtab.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"

#define ROWS_MIN	64
#define ROWS_HINT_MAX	((size_t) 1 << 20)	/* of what is allocated ahead */
#define FIRSTS_MIN	64			/* a power of two */
#define ROW_FREE	UINT32_MAX		/* as 'next'; so there is no such number */

struct tagrv_avtab_row {
	struct tagrv_addr addr;
	uint32_t next;			/* number of the next higher row with this
					   address; 0: none; or ROW_FREE */
};

_Static_assert(sizeof(struct tagrv_avtab_row) == 32, "an address costs more");

static bool is_used(const struct tagrv_avtab *tab, fi_addr_t fi_addr)
{
	return fi_addr < tab->cnt && tab->rows[fi_addr].next != ROW_FREE;
}

/* ---- the hash table ---- */

/* All 28 bytes of the address count: equality is that of memcmp. */
static size_t home_of(const struct tagrv_avtab *tab, const struct tagrv_addr *addr)
{
	const char *bytes = (const char *) addr;
	uint32_t word[3], hash;
	uint64_t head, body;

	_Static_assert(sizeof(*addr) == sizeof(head) + sizeof(body) + sizeof(word),
		       "the hash leaves bytes out");
	memcpy(&head, bytes, sizeof(head));
	memcpy(word, bytes + sizeof(head), sizeof(word));
	memcpy(&body, bytes + sizeof(head) + sizeof(word), sizeof(body));
	hash = tagrv_hash(&tab->seed, head, word[0], word[1]);
	return tagrv_hash(&tab->seed, body, word[2], hash) & (tab->first_cap - 1);
}

/* The place of the address in 'firsts', or the empty one where it would be. */
static size_t place_of(const struct tagrv_avtab *tab, const struct tagrv_addr *addr)
{
	size_t i = home_of(tab, addr);

	while (tab->firsts[i] &&
	       !tagrv_addr_equal(&tab->rows[tab->firsts[i] - 1].addr, addr))
		i = (i + 1) & (tab->first_cap - 1);
	return i;
}

/* Makes room for one more address. */
static int reserve_first(struct tagrv_avtab *tab)
{
	struct tagrv_avtab old = *tab;
	uint32_t *firsts;

	if ((tab->first_cnt + 1) * 4 <= tab->first_cap * 3)
		return 0;
	firsts = calloc(old.first_cap * 2, sizeof(*firsts));
	if (!firsts)
		return -FI_ENOMEM;
	tab->firsts = firsts;
	tab->first_cap = old.first_cap * 2;
	for (size_t i = 0; i < old.first_cap; i++)
		if (old.firsts[i])
			firsts[place_of(tab, &tab->rows[old.firsts[i] - 1].addr)] =
				old.firsts[i];
	free(old.firsts);
	return 0;
}

/*
 * Empties place i. What stands behind it, up to the next empty place, moves there if a
 * search for it, which begins at its home, would end at i otherwise.
 */
static void erase_first(struct tagrv_avtab *tab, size_t i)
{
	const size_t mask = tab->first_cap - 1;

	tab->firsts[i] = 0;
	for (size_t j = (i + 1) & mask; tab->firsts[j]; j = (j + 1) & mask) {
		size_t home = home_of(tab, &tab->rows[tab->firsts[j] - 1].addr);

		if (((j - home) & mask) < ((j - i) & mask))
			continue;
		tab->firsts[i] = tab->firsts[j];
		tab->firsts[j] = 0;
		i = j;
	}
	tab->first_cnt--;
}

/* ---- rows ---- */

static int grow(struct tagrv_avtab *tab, size_t cap)
{
	struct tagrv_avtab_row *rows;

	cap = TAGRV_MIN(cap, (size_t) ROW_FREE - 1);
	if (cap <= tab->cap)
		return -FI_ENOMEM;
	rows = realloc(tab->rows, cap * sizeof(*rows));
	if (!rows)
		return -FI_ENOMEM;
	tab->rows = rows;
	tab->cap = cap;
	return 0;
}

int tagrv_avtab_init(struct tagrv_avtab *tab, size_t count)
{
	uint64_t seed;
	int ret = tagrv_random_fill(&seed, sizeof(seed));

	*tab = (struct tagrv_avtab) { 0 };
	tagrv_list_init(&tab->watchers);
	if (ret)
		return ret;
	tab->seed = tagrv_hash_make_seed(seed);
	tab->firsts = calloc(FIRSTS_MIN, sizeof(*tab->firsts));
	tab->first_cap = FIRSTS_MIN;
	count = TAGRV_MIN(count, ROWS_HINT_MAX);
	if (tab->firsts && !grow(tab, TAGRV_MAX(count, (size_t) ROWS_MIN)))
		return 0;
	tagrv_avtab_fini(tab);
	return -FI_ENOMEM;
}

void tagrv_avtab_fini(struct tagrv_avtab *tab)
{
	free(tab->firsts);
	free(tab->rows);
	*tab = (struct tagrv_avtab) { 0 };
	tagrv_list_init(&tab->watchers);
}

/* The link that points, or would point, to the row of this number among those of its address. */
static uint32_t *link_to(struct tagrv_avtab *tab, size_t place, uint32_t number)
{
	uint32_t *link = &tab->firsts[place];

	while (*link && *link < number)
		link = &tab->rows[*link - 1].next;
	return link;
}

/*
 * Index of the lowest free row; the table has room for it on success. Rows are looked at only
 * if one in the middle is free.
 */
static int free_row(struct tagrv_avtab *tab, size_t *row)
{
	size_t i = tab->used == tab->cnt ? tab->cnt : tab->lowest_free;

	while (is_used(tab, i))
		i++;
	tab->lowest_free = i;
	*row = i;
	return i < tab->cap ? 0 : grow(tab, tab->cap + tab->cap / 4);
}

static struct tagrv_av_watcher *watcher_of(struct tagrv_list *node)
{
	return tagrv_container_of(node, struct tagrv_av_watcher, node);
}

static void fill_row(struct tagrv_avtab *tab, size_t row, const struct tagrv_addr *addr)
{
	size_t place = place_of(tab, addr);
	uint32_t *link = link_to(tab, place, (uint32_t) row + 1);

	tab->first_cnt += !tab->firsts[place];
	tab->rows[row] = (struct tagrv_avtab_row) { .addr = *addr, .next = *link };
	*link = (uint32_t) row + 1;
	tab->cnt = TAGRV_MAX(tab->cnt, row + 1);
	tab->used++;
	tab->lowest_free = row + 1;
}

int tagrv_avtab_insert(struct tagrv_avtab *tab, const struct tagrv_addr *addr,
		       fi_addr_t *fi_addr)
{
	struct tagrv_list *node, *tmp;
	size_t row;
	int ret;

	ret = free_row(tab, &row);
	if (!ret)
		ret = reserve_first(tab);
	if (ret)
		return ret;
	fill_row(tab, row, addr);
	*fi_addr = row;
	tagrv_list_for_each_safe(&tab->watchers, node, tmp) {
		struct tagrv_av_watcher *watcher = watcher_of(node);

		watcher->inserted(watcher, row, addr);
	}
	return 0;
}

int tagrv_avtab_remove(struct tagrv_avtab *tab, fi_addr_t fi_addr)
{
	struct tagrv_list *node, *tmp;
	struct tagrv_addr addr;
	size_t place;

	if (!is_used(tab, fi_addr))
		return -FI_EINVAL;
	addr = tab->rows[fi_addr].addr;
	place = place_of(tab, &addr);
	*link_to(tab, place, (uint32_t) fi_addr + 1) = tab->rows[fi_addr].next;
	if (!tab->firsts[place])
		erase_first(tab, place);
	tab->rows[fi_addr].next = ROW_FREE;
	tab->used--;
	while (tab->cnt && !is_used(tab, tab->cnt - 1))
		tab->cnt--;
	tab->lowest_free = TAGRV_MIN(tab->lowest_free, (size_t) fi_addr);
	tagrv_list_for_each_safe(&tab->watchers, node, tmp) {
		struct tagrv_av_watcher *watcher = watcher_of(node);

		watcher->removed(watcher, fi_addr, &addr);
	}
	return 0;
}

const struct tagrv_addr *tagrv_avtab_lookup(const struct tagrv_avtab *tab,
					    fi_addr_t fi_addr)
{
	return is_used(tab, fi_addr) ? &tab->rows[fi_addr].addr : NULL;
}

fi_addr_t tagrv_avtab_find(const struct tagrv_avtab *tab,
			   const struct tagrv_addr *addr)
{
	uint32_t first = tab->firsts[place_of(tab, addr)];

	return first ? first - 1 : FI_ADDR_NOTAVAIL;
}
