/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Views of windows, and what the owner of a window knows of them: see view.h.
 */
#include "object/view.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "core/iov.h"
#include "object/engine.h"
#include "object/mrtab.h"
#include "object/peer.h"

/* ---- what a peer has of them ---- */

const struct tagrv_peer_views tagrv_no_views = {
	.showings = {
		(struct tagrv_list *) &tagrv_no_views.showings,
		(struct tagrv_list *) &tagrv_no_views.showings,
	},
};

struct tagrv_peer_views *tagrv_peer_begin_views(struct tagrv_peer *peer)
{
	struct tagrv_peer_views *views;

	tagrv_assert_locked(peer->engine->dom);
	if (peer->rma.views != &tagrv_no_views)
		return peer->rma.views;
	views = calloc(1, sizeof(*views));
	if (!views)
		return NULL;
	tagrv_list_init(&views->showings);
	peer->rma.views = views;
	return views;
}

/* No lock is needed at the end of the engine. */
void tagrv_peer_end_views(struct tagrv_peer *peer)
{
	if (peer->rma.views == &tagrv_no_views)
		return;
	free(peer->rma.views);
	peer->rma.views = (struct tagrv_peer_views *) &tagrv_no_views;
}

void tagrv_peer_reset_views(struct tagrv_peer *peer)
{
	struct tagrv_peer_views *views = peer->rma.views;

	tagrv_assert_locked(peer->engine->dom);
	peer->show_due = false;
	if (views == &tagrv_no_views)
		return;
	views->pause = 0;
	views->show.id = 0;
	views->asked.id = 0;
	views->shows.id = 0;
}

/* ---- initiator ---- */

/* Operations on other windows of this place, of which one asks for a view. */
#define ASK_EVERY	64u

static uint32_t place_of(const struct tagrv_peer *peer, uint64_t key)
{
	uint64_t mixed = (key + peer->id * UINT64_C(0xff51afd7ed558ccd)) *
			 UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t) (mixed >> 32) & (TAGRV_VIEWS - 1);
}

const struct tagrv_view *tagrv_view_find(const struct tagrv_peer *peer, uint64_t key,
					 uint64_t addr, uint64_t len)
{
	const struct tagrv_views *views = &peer->engine->views;
	const struct tagrv_view *view;

	tagrv_assert_locked(peer->engine->dom);
	if (!views->places)
		return NULL;
	view = &views->places[place_of(peer, key)];
	return view->key == key && view->peer == peer &&
	       tagrv_range_within(addr, len, view->base, view->len) ? view : NULL;
}

uint32_t tagrv_view_new_id(const struct tagrv_peer *peer, uint64_t key)
{
	struct tagrv_views *views = &peer->engine->views;

	tagrv_assert_locked(peer->engine->dom);
	/* Never 0 as a whole. */
	views->last_id = views->last_id % (UINT32_MAX / TAGRV_VIEWS) + 1;
	return views->last_id * TAGRV_VIEWS + place_of(peer, key);
}

uint32_t tagrv_view_ask(const struct tagrv_peer *peer, uint64_t key)
{
	struct tagrv_views *views = &peer->engine->views;

	if (views->places && views->places[place_of(peer, key)].peer &&
	    ++views->misses % ASK_EVERY)
		return 0;
	return tagrv_view_new_id(peer, key);
}

bool tagrv_view_keep(const struct tagrv_peer *peer, const struct tagrv_view *from)
{
	struct tagrv_views *views = &peer->engine->views;
	struct tagrv_view *view;

	tagrv_assert_locked(peer->engine->dom);
	if (from->id % TAGRV_VIEWS != place_of(peer, from->key) ||
	    from->id < TAGRV_VIEWS)
		return false;
	if (!views->places)
		views->places = calloc(TAGRV_VIEWS, sizeof(*views->places));
	if (!views->places)
		return true;
	view = &views->places[place_of(peer, from->key)];
	*view = *from;
	view->peer = peer;
	return true;
}

void tagrv_view_drop(const struct tagrv_peer *peer, uint32_t id)
{
	struct tagrv_view *view;

	tagrv_assert_locked(peer->engine->dom);
	if (!peer->engine->views.places)
		return;
	view = &peer->engine->views.places[id % TAGRV_VIEWS];
	if (view->peer == peer && view->id == id)
		view->peer = NULL;
}

void tagrv_views_forget(const struct tagrv_peer *peer)
{
	struct tagrv_view *places = peer->engine->views.places;

	tagrv_assert_locked(peer->engine->dom);
	for (size_t i = 0; places && i < TAGRV_VIEWS; i++)
		if (places[i].peer == peer)
			places[i].peer = NULL;
}

size_t tagrv_view_slice(const struct tagrv_view *view, uint64_t addr, uint64_t len,
			struct tagrv_rts_seg *seg)
{
	uint64_t skip = addr - view->base;
	size_t cnt = 0;

	for (unsigned i = 0; i < view->seg_cnt && len; i++) {
		uint64_t n = view->seg[i].len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		seg[cnt] = view->seg[i];
		seg[cnt].addr += skip;
		seg[cnt].len = TAGRV_MIN(n - skip, len);
		len -= seg[cnt++].len;
		skip = 0;
	}
	return cnt;
}

void tagrv_views_fini(struct tagrv_engine *engine)
{
	free(engine->views.places);
	engine->views.places = NULL;
}

/* ---- target: registrations ---- */

unsigned tagrv_window_rights(const struct tagrv_engine *engine,
			     const struct tagrv_window *window)
{
	const uint64_t access = window->access & engine->attr.serves;
	unsigned rights = 0;

	/* Whoever lets no key outlive its operation has no views. */
	if (!window->len || !(engine->dom->lasting & TAGRV_MEM_READ))
		return 0;
	if (access & FI_REMOTE_READ && !window->read_cntr &&
	    !engine->sinks.remote_read_cntr)
		rights |= TAGRV_MEM_READ;
	if (access & FI_REMOTE_WRITE && !window->write_cntr &&
	    !engine->sinks.remote_write_cntr)
		rights |= TAGRV_MEM_WRITE;
	if (engine->dom->by_device && rights & TAGRV_MEM_WRITE)
		rights |= TAGRV_MEM_ATOMIC;
	return rights;
}

static void deregister(struct tagrv_dom *dom, struct tagrv_window_reg *reg)
{
	for (size_t i = 0; i < TAGRV_IOV_MAX; i++)
		if (reg->mem[i])
			reg->mem[i]->dev->ops->mem_dereg(reg->mem[i]);
	tagrv_dom_uncount_shown(dom, reg->counted);
	*reg = (struct tagrv_window_reg) { .dev = reg->dev, .rights = reg->rights };
}

/*
 * Nobody awaits a completion between two accesses: they stay in order (TAGRV_MEM_ORDERED).
 * counted: bytes of the domain's limit that the registration has.
 */
static void register_all(struct tagrv_dom *dom, const struct tagrv_window *window,
			 struct tagrv_window_reg *reg, size_t counted)
{
	int ret = 0;

	reg->counted = counted;
	for (size_t i = 0; i < window->iov_cnt && !ret; i++)
		if (window->iov[i].iov_len)
			ret = tagrv_dom_mem_reg(dom, reg->dev, window->iov[i].iov_base,
						window->iov[i].iov_len,
						reg->rights | TAGRV_MEM_ORDERED,
						&reg->mem[i]);
	reg->usable = !ret;
	if (ret)
		deregister(dom, reg);
}

/* dev NULL, rights 0: one that is free. */
static struct tagrv_window_reg *find_reg(struct tagrv_window *window,
					 const struct tagrv_device *dev, unsigned rights)
{
	for (size_t i = 0; i < TAGRV_WINDOW_REGS; i++)
		if (window->regs[i].dev == dev && window->regs[i].rights == rights)
			return &window->regs[i];
	return NULL;
}

/*
 * A device accesses the pages that were there when it was registered. If the owner may put
 * other pages there without a word, as without FI_MR_ALLOCATED, it has no window: monitors of
 * memory (reg/monitor.h) do not suffice, because nothing can be deregistered before the call
 * that changes memory returns, and peers may know of the change from then on.
 *
 * It locks all these pages, and makes those that were never touched. So there is a limit for
 * all windows together. For shared memory none of this holds: it goes by addresses.
 */
static struct tagrv_window_reg *new_reg(struct tagrv_dom *dom, struct tagrv_window *window,
					struct tagrv_device *dev, unsigned rights)
{
	struct tagrv_window_reg *reg = find_reg(window, NULL, 0);
	bool local = dev->ops == tagrv_xport_local();
	size_t counted = local ? 0 : window->len;

	/* What does not fit now is not remembered as a failure: others may be closed. */
	if (!reg || !(local || dom->allocated) || !tagrv_dom_count_shown(dom, counted))
		return NULL;
	reg->dev = dev;
	reg->rights = rights;
	register_all(dom, window, reg, counted);
	return reg;
}

struct tagrv_mem **tagrv_window_register(struct tagrv_dom *dom, struct tagrv_window *window,
					 struct tagrv_device *dev, unsigned rights)
{
	struct tagrv_window_reg *reg;

	tagrv_assert_locked(dom);
	reg = find_reg(window, dev, rights);
	if (!reg)
		reg = new_reg(dom, window, dev, rights);
	return reg && reg->usable ? reg->mem : NULL;
}

void tagrv_window_forget_failures(struct tagrv_window *window)
{
	for (size_t i = 0; i < TAGRV_WINDOW_REGS; i++)
		if (window->regs[i].dev && !window->regs[i].usable)
			window->regs[i] = (struct tagrv_window_reg) { 0 };
}

void tagrv_window_deregister(struct tagrv_dom *dom, struct tagrv_window *window)
{
	for (size_t i = 0; i < TAGRV_WINDOW_REGS; i++) {
		deregister(dom, &window->regs[i]);
		window->regs[i] = (struct tagrv_window_reg) { 0 };
	}
}

/* ---- target: who sees what ---- */

void tagrv_showing_settle(const struct tagrv_showing *showing)
{
	struct tagrv_list *node;

	tagrv_list_for_each(&showing->peer->rma.views->showings, node) {
		struct tagrv_showing *other =
			tagrv_container_of(node, struct tagrv_showing, of_peer);

		if (other != showing && other->id % TAGRV_VIEWS == showing->id % TAGRV_VIEWS) {
			tagrv_showing_end(other);
			return;
		}
	}
}

struct tagrv_showing *tagrv_showing_begin(struct tagrv_window *window,
					  struct tagrv_peer *peer, uint32_t id)
{
	struct tagrv_peer_views *views = tagrv_peer_begin_views(peer);
	struct tagrv_showing *showing;

	tagrv_assert_locked(peer->engine->dom);
	/* One more, until it has taken the place of an older one. */
	if (!views || views->showing_cnt > TAGRV_SHOWINGS_MAX)
		return NULL;
	showing = tagrv_pool_get(&peer->engine->pools.showings);
	if (!showing)
		return NULL;
	showing->window = window;
	showing->peer = peer;
	showing->id = id;
	tagrv_list_init(&showing->of_window);
	tagrv_list_init(&showing->of_peer);
	tagrv_list_push_tail(&window->showings, &showing->of_window);
	tagrv_list_push_tail(&views->showings, &showing->of_peer);
	views->showing_cnt++;
	return showing;
}

void tagrv_showing_end(struct tagrv_showing *showing)
{
	struct tagrv_peer *peer = showing->peer;

	tagrv_assert_locked(peer->engine->dom);
	tagrv_list_remove(&showing->of_window);
	tagrv_list_remove(&showing->of_peer);
	peer->rma.views->showing_cnt--;
	tagrv_pool_put(&peer->engine->pools.showings, showing);
}

void tagrv_showings_forget(struct tagrv_peer *peer)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_first(&peer->rma.views->showings)))
		tagrv_showing_end(tagrv_container_of(node, struct tagrv_showing, of_peer));
}
