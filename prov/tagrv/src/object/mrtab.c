/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Windows by key: see mrtab.h.
 *
 * The hash is one of our own, because every access of a peer looks here: a key leads to
 * its window by one multiplication and two loads.
 */
#include "object/mrtab.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "core/iov.h"
#include "object/engine.h"
#include "object/peer.h"

#define BITS_MIN	4

/*
 * Applications number their keys, so the multiplication has to spread consecutive numbers.
 * Peers do not choose keys, so nobody can make chains long on purpose.
 */
static struct tagrv_window **bucket_of(const struct tagrv_mrtab *tab, uint64_t key)
{
	return &tab->buckets[key * 0x9e3779b97f4a7c15ULL >> (64 - tab->bits)];
}

static void insert(struct tagrv_mrtab *tab, struct tagrv_window *window)
{
	struct tagrv_window **bucket = bucket_of(tab, window->key);

	window->next = *bucket;
	*bucket = window;
}

static struct tagrv_window *find(const struct tagrv_mrtab *tab, uint64_t key)
{
	struct tagrv_window *window;

	if (!tab->cnt)
		return NULL;
	window = *bucket_of(tab, key);
	while (window && window->key != key)
		window = window->next;
	return window;
}

/* As many buckets as windows, or more. -FI_ENOMEM: the table is as it was. */
static int grow(struct tagrv_mrtab *tab)
{
	struct tagrv_mrtab larger = *tab;

	larger.bits = TAGRV_MAX(BITS_MIN, tab->bits + 1);
	larger.buckets = calloc((size_t) 1 << larger.bits, sizeof(*larger.buckets));
	if (!larger.buckets)
		return -FI_ENOMEM;
	for (size_t i = 0; tab->buckets && i < (size_t) 1 << tab->bits; i++) {
		struct tagrv_window *next, *window = tab->buckets[i];

		for (; window; window = next) {
			next = window->next;
			insert(&larger, window);
		}
	}
	free(tab->buckets);
	*tab = larger;
	return 0;
}

int tagrv_window_add(struct tagrv_dom *dom, struct tagrv_window *window)
{
	struct tagrv_mrtab *tab = &dom->windows;

	tagrv_assert_locked(dom);
	if (find(tab, window->key))
		return -FI_ENOKEY;
	/* Without memory for more buckets the chains get longer, which is no failure. */
	if ((!tab->buckets || tab->cnt >> tab->bits) && grow(tab) && !tab->buckets)
		return -FI_ENOMEM;
	insert(tab, window);
	tab->cnt++;
	window->serial = ++tab->newest;
	tagrv_list_init(&window->uses);
	tagrv_list_init(&window->showings);
	return 0;
}

void tagrv_window_remove(struct tagrv_dom *dom, struct tagrv_window *window)
{
	struct tagrv_mrtab *tab = &dom->windows;
	struct tagrv_window **link;

	tagrv_assert_locked(dom);
	link = bucket_of(tab, window->key);
	while (*link != window)
		link = &(*link)->next;
	*link = window->next;
	if (--tab->cnt)
		return;
	free(tab->buckets);
	*tab = (struct tagrv_mrtab) { .newest = tab->newest };
}

struct tagrv_window *tagrv_window_find(struct tagrv_dom *dom,
				       const struct tagrv_engine *engine,
				       uint64_t key, uint64_t addr, uint64_t len,
				       uint64_t access, size_t *offset)
{
	struct tagrv_window *window;

	tagrv_assert_locked(dom);
	window = find(&dom->windows, key);
	if (!window || !window->enabled || access & ~window->access ||
	    (window->engine && window->engine != engine) ||
	    !tagrv_range_within(addr, len, window->base, window->len))
		return NULL;
	*offset = addr - window->base;
	return window;
}

/* ---- uses ---- */

struct tagrv_use *tagrv_use_begin(struct tagrv_peer *peer, struct tagrv_window *window)
{
	struct tagrv_use *use = tagrv_pool_get(&peer->engine->pools.uses);

	tagrv_assert_locked(peer->engine->dom);
	if (!use)
		return NULL;
	use->window = window;
	use->peer = peer;
	use->lane = peer->lane;
	tagrv_list_init(&use->link);
	tagrv_list_push_tail(&window->uses, &use->link);
	peer->rma.uses++;
	return use;
}

void tagrv_use_end(struct tagrv_use *use)
{
	struct tagrv_engine *engine = use->peer->engine;

	tagrv_assert_locked(engine->dom);
	tagrv_list_remove(&use->link);
	use->peer->rma.uses--;
	tagrv_pool_put(&engine->pools.uses, use);
}

size_t tagrv_window_slice(const struct tagrv_window *window, size_t offset,
			  size_t len, struct iovec *iov, size_t max)
{
	size_t cnt = 0;

	for (size_t i = 0; i < window->iov_cnt && len; i++) {
		size_t n = window->iov[i].iov_len;

		if (offset >= n) {
			offset -= n;
			continue;
		}
		n = TAGRV_MIN(n - offset, len);
		if (cnt < max)
			iov[cnt] = (struct iovec) {
				(char *) window->iov[i].iov_base + offset, n,
			};
		cnt++;
		offset = 0;
		len -= n;
	}
	return cnt;
}
