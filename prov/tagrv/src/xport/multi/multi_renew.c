/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * New paths: when they are asked for, and when they take over.
 *
 * The owner brings a new link when no path is left, or when a path that was lost may work
 * again. The paths in use go on until the new ones are worth the pause:
 *
 *   new paths attached      each sends a PROBE, which proves it at both ends
 *   wants_next              no path in use works; or the peer was heard by a new path, so
 *                           that it has them, too, and more of them work than of those in
 *                           use, or nothing has gone by those yet
 *   go_over                 the paths in use are closed, SYNC is said by the new ones;
 *                           packets wait until the peer's SYNC comes (multi_fail.c)
 *
 * Each side decides by itself, and the other one follows, since whatever is said by a new
 * path but PROBE is said by a side that has gone over. What is known of old paths is a
 * count of all packets so far, so a side may skip renewals: new paths that were not gone
 * over to are retired like old ones when newer ones come.
 */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "xport/multi/multi_priv.h"

#define RENEW_FIRST	2000u	/* ms from the loss of a path until it is asked for */
#define RENEW_MOST	(5u * 60000u)	/* ms between two questions */

/* ---- taking over ---- */

static void retire(struct multi_link *link, struct multi_path *paths[MULTI_RAILS])
{
	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		struct multi_path *path = paths[i];

		if (!path)
			continue;
		paths[i] = NULL;
		path->retired = true;
		link->old_open++;
		if (!path->closing)
			tagrv_multi_path_close(path);
	}
}

bool tagrv_multi_wants_next(const struct multi_link *link)
{
	unsigned up = multi_up_cnt(link), cnt = 0;

	if (!link->next_gen)
		return false;
	for (unsigned i = 0; i < MULTI_RAILS; i++)
		cnt += link->next[i] && !link->next[i]->closing &&
		       link->next[i]->proven;
	/* While syncing, nothing goes by the present ones: the peer may have skipped them. */
	return !up || (link->next_heard && (link->syncing || cnt > up));
}

void tagrv_multi_go_over(struct multi_link *link)
{
	retire(link, link->paths);
	memcpy(link->paths, link->next, sizeof(link->paths));
	memset(link->next, 0, sizeof(link->next));
	memcpy(link->pair_of, link->next_pair, sizeof(link->pair_of));
	link->gen = link->next_gen;
	link->next_gen = 0;
	link->env = link->env_lost = -1;
	link->resend = NULL;
	link->to_say = link->saying = link->said = link->heard = 0;
	/* The peer may have paths that failed here. */
	for (unsigned i = 0; i < MULTI_RAILS; i++)
		if (link->pair_of[i] >= 0 && !link->paths[i])
			link->to_say |= 1u << i;
	link->syncing = true;
	link->sync_heard = false;
	link->sync_sent = 0;
	link->down = false;
	link->unserved_at = 0;
	multi_link_set_busy(link);
	multi_xport_of_link(link)->stats.resumed++;
}

static void take_next(struct multi_link *link, struct multi_link *fresh)
{
	retire(link, link->next);
	link->next_gen = ++link->last_gen;
	link->next_heard = false;
	memcpy(link->next_pair, fresh->pair_of, sizeof(link->next_pair));
	memcpy(link->next, fresh->paths, sizeof(link->next));
	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		if (!link->next[i])
			continue;
		link->next[i]->owner = link;
		link->next[i]->gen = link->next_gen;
	}
	link->base.get_max = TAGRV_MIN(link->base.get_max, fresh->base.get_max);
	link->base.put_max = TAGRV_MIN(link->base.put_max, fresh->base.put_max);
	free(fresh);
	(void) tagrv_multi_attach_paths(link, link->next);
}

int tagrv_multi_link_resume(struct tagrv_link *base, struct tagrv_link *fresh_base)
{
	struct multi_link *link = multi_link_of(base);
	struct multi_link *fresh = multi_link_of(fresh_base);

	if (link->error || link->closing || !link->attached)
		return -FI_ENOTCONN;
	if (!fresh->pairs || fresh->peer_rails != link->peer_rails)
		return -FI_EINVAL;
	take_next(link, fresh);
	link->renewing = false;
	multi_link_set_busy(link);
	if (tagrv_multi_wants_next(link))
		tagrv_multi_go_over(link);
	return 0;
}

void tagrv_multi_link_unrenewed(struct tagrv_link *base)
{
	multi_link_of(base)->renewing = false;
}

/* ---- asking ---- */

/* Whether there could be more paths than there are. All that are there must work. */
static bool lacks_paths(const struct multi_link *link)
{
	const struct multi_xport *xp = multi_xport_of_link(link);

	return multi_up_cnt(link) < TAGRV_MIN(xp->cnt, link->peer_rails);
}

static void ask_for_paths(struct multi_link *link)
{
	struct tagrv_sink *sink = link->base.xport->sink;
	uint64_t now = tagrv_clock_ms();

	if (!lacks_paths(link)) {
		link->renew_at = 0;
		return;
	}
	if (!link->renew_at) {
		link->renew_pause = RENEW_FIRST;
		link->renew_at = now + link->renew_pause;
	}
	if (now < link->renew_at)
		return;
	link->renew_pause = TAGRV_MIN(2 * link->renew_pause, RENEW_MOST);
	link->renew_at = now + link->renew_pause;
	link->renewing = true;
	sink->link_renew(sink, link->base.ctx, false);
}

void tagrv_multi_hope(struct multi_link *link)
{
	struct tagrv_sink *sink = link->base.xport->sink;

	if (link->error || link->closing || !sink->link_renew || !lacks_paths(link))
		return;
	/* The peer's port may need some time more: the pauses begin anew. */
	link->renew_pause = RENEW_FIRST;
	link->renew_at = tagrv_clock_ms() + link->renew_pause;
	link->renewing = true;
	sink->link_renew(sink, link->base.ctx, link->down);
}

void tagrv_multi_check(struct tagrv_link *base, bool awaited)
{
	struct multi_link *link = multi_link_of(base);

	if (link->error || link->closing)
		return;
	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		struct multi_path *path = multi_path_up(link, i);

		if (path)
			path->link->xport->ops->check(path->link, awaited);
	}
	if (base->xport->sink->link_renew && !link->down && !link->renewing &&
	    !link->syncing)
		ask_for_paths(link);
}
