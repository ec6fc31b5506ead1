/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Address table: fi_addr_t (small index) <-> endpoint address.
 *
 * Serves FI_AV_MAP and FI_AV_TABLE alike: an fi_addr is the index of its row.
 * A removed row is reused, lowest first. The same address may be inserted more
 * than once; the reverse look-up answers the lowest living row. Watchers are
 * called after each insert and removal. Domain lock.
 *
 * size: less than 52 bytes for each address, however many there are.
 */
#ifndef TAGRV_OBJECT_AVTAB_H
#define TAGRV_OBJECT_AVTAB_H

#include <rdma/fi_domain.h>

#include "core/addr.h"
#include "core/list.h"
#include "match/hash.h"

struct tagrv_avtab_row;

/* Embedded in what keeps copies of rows. Callbacks must not change the table. */
struct tagrv_av_watcher {
	struct tagrv_list node;		/* tagrv_avtab::watchers */
	void (*inserted)(struct tagrv_av_watcher *watcher, fi_addr_t fi_addr,
			 const struct tagrv_addr *addr);
	void (*removed)(struct tagrv_av_watcher *watcher, fi_addr_t fi_addr,
			const struct tagrv_addr *addr);
};

struct tagrv_avtab {
	struct tagrv_avtab_row *rows;
	size_t	cnt;		/* rows up to the last living one */
	size_t	used;		/* of these, living ones */
	size_t	cap;
	size_t	lowest_free;	/* no free row below this one */
	uint32_t *firsts;	/* hash table: the first row of each address */
	size_t	first_cnt;	/* different addresses */
	size_t	first_cap;	/* a power of two */
	struct tagrv_hash_seed seed;
	struct tagrv_list watchers;	/* tagrv_av_watcher::node */
};

/* 0, -FI_ENOMEM, or an error of tagrv_random_fill(). */
int tagrv_avtab_init(struct tagrv_avtab *tab, size_t count) TAGRV_WARN_UNUSED;
void tagrv_avtab_fini(struct tagrv_avtab *tab);

/* 0 and *fi_addr, or -FI_ENOMEM. */
int tagrv_avtab_insert(struct tagrv_avtab *tab, const struct tagrv_addr *addr,
		       fi_addr_t *fi_addr) TAGRV_WARN_UNUSED;
/* -FI_EINVAL when the row is not in use. */
int tagrv_avtab_remove(struct tagrv_avtab *tab, fi_addr_t fi_addr)
	TAGRV_WARN_UNUSED;
/* NULL when the row is not in use. */
const struct tagrv_addr *tagrv_avtab_lookup(const struct tagrv_avtab *tab,
					    fi_addr_t fi_addr);
/* FI_ADDR_NOTAVAIL when the address is not in the table. */
fi_addr_t tagrv_avtab_find(const struct tagrv_avtab *tab,
			   const struct tagrv_addr *addr);

#endif
