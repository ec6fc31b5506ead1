/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Address table: see avtab.h.
 *
 *   rows     [0] [1] [2] [3] ...          an fi_addr is the index
 *             |       |
 *             '-next--'--> none           rows of one address, ascending
 *             ^
 *   by_addr: address -> first row
 *
 * The hash holds one entry per distinct address, allocated apart because the
 * rows move when the table grows.
 */
#include "object/avtab.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "core/log.h"

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(added) ((added)->oom = true)
#define HASH_FUNCTION(key, len, hash) HASH_FNV(key, len, hash)
#include <uthash.h>

#define ROWS_MIN	64
#define ROWS_HINT_MAX	((size_t) 1 << 20)	/* of what is allocated ahead */
#define NO_ROW		SIZE_MAX

struct entry {
	struct tagrv_addr addr;
	size_t	first;			/* lowest row with this address */
	bool	oom;
	UT_hash_handle hh;
};

struct tagrv_avtab_row {
	struct tagrv_addr addr;
	struct entry *entry;		/* NULL: the row is free */
	size_t	next;			/* next higher row with this address */
};

static int grow(struct tagrv_avtab *tab, size_t cap)
{
	struct tagrv_avtab_row *rows;

	rows = realloc(tab->rows, cap * sizeof(*rows));
	if (!rows)
		return -FI_ENOMEM;
	tab->rows = rows;
	tab->cap = cap;
	return 0;
}

int tagrv_avtab_init(struct tagrv_avtab *tab, size_t count)
{
	*tab = (struct tagrv_avtab) { 0 };
	tagrv_list_init(&tab->watchers);
	count = TAGRV_MIN(count, ROWS_HINT_MAX);
	return grow(tab, TAGRV_MAX(count, (size_t) ROWS_MIN));
}

void tagrv_avtab_fini(struct tagrv_avtab *tab)
{
	struct entry *head = tab->by_addr, *entry, *tmp;

	HASH_ITER(hh, head, entry, tmp) {
		HASH_DEL(head, entry);
		free(entry);
	}
	free(tab->rows);
	*tab = (struct tagrv_avtab) { 0 };
	tagrv_list_init(&tab->watchers);
}

static struct entry *find_entry(const struct tagrv_avtab *tab,
				const struct tagrv_addr *addr)
{
	struct entry *head = tab->by_addr, *entry;

	HASH_FIND(hh, head, addr, sizeof(*addr), entry);
	return entry;
}

static struct entry *add_entry(struct tagrv_avtab *tab,
			       const struct tagrv_addr *addr)
{
	struct entry *head = tab->by_addr, *entry;

	entry = malloc(sizeof(*entry));
	if (!entry)
		return NULL;
	entry->addr = *addr;
	entry->first = NO_ROW;
	entry->oom = false;
	HASH_ADD(hh, head, addr, sizeof(entry->addr), entry);
	if (entry->oom) {
		free(entry);
		return NULL;
	}
	tab->by_addr = head;
	return entry;
}

static void drop_entry(struct tagrv_avtab *tab, struct entry *entry)
{
	struct entry *head = tab->by_addr;

	HASH_DEL(head, entry);
	tab->by_addr = head;
	free(entry);
}

/* The link that points, or would point, to 'row' among those of its address. */
static size_t *link_to(struct tagrv_avtab *tab, struct entry *entry, size_t row)
{
	size_t *link = &entry->first;

	while (*link < row)
		link = &tab->rows[*link].next;
	return link;
}

/* Index of the lowest free row; the table has room for it on success. */
static int free_row(struct tagrv_avtab *tab, size_t *row)
{
	size_t i = tab->lowest_free;

	while (i < tab->cnt && tab->rows[i].entry)
		i++;
	tab->lowest_free = i;
	*row = i;
	return i < tab->cap ? 0 : grow(tab, tab->cap * 2);
}

static struct tagrv_av_watcher *watcher_of(struct tagrv_list *node)
{
	return tagrv_container_of(node, struct tagrv_av_watcher, node);
}

int tagrv_avtab_insert(struct tagrv_avtab *tab, const struct tagrv_addr *addr,
		       fi_addr_t *fi_addr)
{
	struct tagrv_list *node, *tmp;
	struct entry *entry;
	size_t row, *link;
	int ret;

	ret = free_row(tab, &row);
	if (ret)
		return ret;
	entry = find_entry(tab, addr);
	if (!entry)
		entry = add_entry(tab, addr);
	if (!entry)
		return -FI_ENOMEM;
	link = link_to(tab, entry, row);
	tab->rows[row] = (struct tagrv_avtab_row) {
		.addr = *addr, .entry = entry, .next = *link,
	};
	*link = row;
	tab->cnt = TAGRV_MAX(tab->cnt, row + 1);
	tab->lowest_free = row + 1;
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
	struct tagrv_avtab_row *row;

	if (fi_addr >= tab->cnt || !tab->rows[fi_addr].entry)
		return -FI_EINVAL;
	row = &tab->rows[fi_addr];
	*link_to(tab, row->entry, fi_addr) = row->next;
	if (row->entry->first == NO_ROW)
		drop_entry(tab, row->entry);
	row->entry = NULL;
	tab->lowest_free = TAGRV_MIN(tab->lowest_free, (size_t) fi_addr);
	tagrv_list_for_each_safe(&tab->watchers, node, tmp) {
		struct tagrv_av_watcher *watcher = watcher_of(node);

		watcher->removed(watcher, fi_addr);
	}
	return 0;
}

const struct tagrv_addr *tagrv_avtab_lookup(const struct tagrv_avtab *tab,
					    fi_addr_t fi_addr)
{
	if (fi_addr >= tab->cnt || !tab->rows[fi_addr].entry)
		return NULL;
	return &tab->rows[fi_addr].addr;
}

fi_addr_t tagrv_avtab_find(const struct tagrv_avtab *tab,
			   const struct tagrv_addr *addr)
{
	struct entry *entry = find_entry(tab, addr);

	return entry ? entry->first : FI_ADDR_NOTAVAIL;
}
