/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Paths that fail, and what goes on by others.
 *
 *   a path fails here        its end is closed; what its device has taken in still comes
 *   it is gone               DOWN with the count of packets taken in goes to the peer,
 *                            which closes its end, too, and says DOWN in turn
 *   gone and DOWN heard      the path is fenced: nothing can arrive by it on either side
 *
 *   the path of packets:  fenced --> packets that the peer has taken in end well, the
 *                         others are sent again by another path, in order; then new ones
 *   gets and puts on it:  fenced --> they are posted again by other paths
 *
 * So each packet arrives once and in order: the peer counts before it says DOWN, and
 * takes in packets by the other path only from a sender that has heard it.
 *
 * When no path is left, the link is down, and the owner is asked for a new one, whose
 * paths take over (link_resume). All paths of the old generation are closed first; SYNC
 * then says for all of them what DOWN says for one:
 *
 *   SYNC heard, old paths gone --> as above, for everything that is under way
 *
 * The same happens when the owner is asked for a new link because a path that was lost
 * may work again (tagrv_multi_check).
 */
#include <stdlib.h>

#include "core/clock.h"
#include "core/log.h"
#include "xport/multi/multi_priv.h"

#define RENEW_FIRST	2000u	/* ms from the loss of a path until it is asked for */
/* ms between two questions: each disturbs the paths that work */
#define RENEW_MOST	(5u * 60000u)

/* ---- the ends of paths and links ---- */

void tagrv_multi_link_fail(struct multi_link *link, int status)
{
	struct tagrv_sink *sink = link->base.xport->sink;

	if (link->error || link->closing)
		return;
	link->error = status;
	link->env = -1;
	link->resend = NULL;
	sink->link_error(sink, link->base.ctx, status);
}

static void close_path(struct multi_path *path)
{
	path->closing = true;
	path->link->delivers_last = !path->owner->closing;
	path->link->xport->ops->link_close(path->link);
}

static void log_failed(const struct multi_path *path, int status)
{
	tagrv_info("multi: %s: a path failed: %s; what it had goes by others\n",
		   path->link->xport->dev->name, fi_strerror(-status));
}

void tagrv_multi_path_fail(struct multi_path *path, int status)
{
	struct multi_link *link = path->owner;

	if (path->closing)
		return;
	close_path(path);
	if (link->closing || path->gen != link->gen)
		return;
	log_failed(path, status);
	multi_xport_of_link(link)->stats.failed++;
	link->last_error = status;
	if (link->env == (int) path->rail) {
		link->env_lost = link->env;
		link->env = -1;
		link->resend = NULL;
	}
	multi_link_set_busy(link);
	if (!multi_is_path_error(status))
		tagrv_multi_link_fail(link, status);
}

void tagrv_multi_path_gone(struct multi_path *path)
{
	struct multi_link *link = path->owner;

	link->open--;
	if (path->gen != link->gen) {
		link->old_open--;
	} else {
		link->paths[path->rail] = NULL;
		link->to_say |= 1u << path->rail;
	}
	multi_link_set_busy(link);
	free(path);
}

/* ---- the peer's words ---- */

void tagrv_multi_heard_down(struct multi_link *link, unsigned rail, uint64_t taken)
{
	unsigned bit = 1u << rail;
	struct multi_path *path = link->paths[rail];

	if (link->heard & bit)
		return;
	link->heard |= bit;
	if (path)
		tagrv_multi_path_fail(path, -FI_ECONNRESET);
	else if (!((link->to_say | link->saying | link->said) & bit) &&
		 link->pair_of[rail] >= 0)
		link->to_say |= bit;	/* we never had it */
	if (link->env_lost == (int) rail)
		link->heard_taken = taken;
	multi_link_set_busy(link);
}

void tagrv_multi_heard_sync(struct multi_link *link, uint64_t taken)
{
	if (!link->syncing || link->sync_heard)
		return;
	link->sync_heard = true;
	link->heard_taken = taken;
	multi_link_set_busy(link);
}

/* ---- going on ---- */

/* Ends what the peer has taken in. False: its count cannot be. */
static bool settle_packets(struct multi_link *link)
{
	uint64_t ahead = link->heard_taken - link->tx_base;

	if (ahead > link->tx_cnt - link->tx_base) {
		tagrv_info("multi: a peer has counted %llu packets of %llu\n",
			   (unsigned long long) link->heard_taken,
			   (unsigned long long) link->tx_cnt);
		tagrv_multi_link_fail(link, -FI_EREMOTEIO);
		return false;
	}
	tagrv_multi_packets_end(link, link->heard_taken, 0);
	return true;
}

/*
 * Chooses the path of packets: one that is proven, if there is any; the first one of
 * all only for a link that never had another. -1: none.
 */
static int choose_env(const struct multi_link *link)
{
	const struct multi_xport *xp = multi_xport_of_link(link);
	int any = -1;

	for (unsigned n = 0; n < xp->cnt; n++) {
		unsigned i = (link->order + n) % xp->cnt;
		struct multi_path *path = multi_path_up(link, i);

		if (path && path->proven)
			return (int) i;
		if (path && any < 0)
			any = (int) i;
	}
	return any;
}

/* Whether all that the last path of packets has brought is known. */
static bool is_counted(struct multi_link *link)
{
	if (link->syncing)
		return !link->old_open && link->sync_heard;
	return link->env_lost < 0 ||
	       (!link->paths[link->env_lost] && link->heard & 1u << link->env_lost);
}

static void begin_env(struct multi_link *link)
{
	if (link->syncing || link->env_lost >= 0) {
		link->syncing = false;
		link->env_lost = -1;
		if (!settle_packets(link))
			return;
	}
	link->env = choose_env(link);
	if (link->env < 0)
		return;
	link->resend = tagrv_list_empty(&link->sent) ? NULL :
		tagrv_container_of(tagrv_list_first(&link->sent),
				   struct multi_packet, list);
	multi_xport_of_link(link)->freed = true;
}

static bool is_any_up(const struct multi_link *link)
{
	for (unsigned i = 0; i < MULTI_RAILS; i++)
		if (multi_path_up(link, i))
			return true;
	return false;
}

/* No path is left. */
static int go_down(struct multi_link *link)
{
	struct tagrv_sink *sink = link->base.xport->sink;

	tagrv_list_remove(&link->busy_node);
	if (link->down)
		return 0;
	link->down = true;
	if (!sink->link_renew) {
		tagrv_multi_link_fail(link, link->last_error);
		return 1;
	}
	link->renewing = true;
	sink->link_renew(sink, link->base.ctx, true);
	return 1;
}

static bool is_settled(const struct multi_link *link)
{
	return !link->syncing && link->env >= 0 && !link->resend &&
	       !link->to_say && tagrv_list_empty(&link->again);
}

int tagrv_multi_settle(struct multi_link *link)
{
	bool began = false;

	if (link->closing) {
		if (link->open)
			return 0;
		tagrv_multi_link_end(link);
		return 1;
	}
	if (link->error) {
		tagrv_list_remove(&link->busy_node);
		return 0;
	}
	if (!is_any_up(link))
		return go_down(link);
	tagrv_multi_say(link);
	if (link->env < 0 && is_counted(link)) {
		begin_env(link);
		began = true;
	}
	if (link->env >= 0 && link->resend && tagrv_multi_resend(link))
		multi_xport_of_link(link)->freed = true;
	if (!link->error && !link->closing && !tagrv_list_empty(&link->again))
		tagrv_multi_moves_again(link);
	if (!link->error && !link->closing && is_settled(link))
		tagrv_list_remove(&link->busy_node);
	return began;
}

/* ---- new paths ---- */

static void retire_paths(struct multi_link *link)
{
	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		struct multi_path *path = link->paths[i];

		if (!path)
			continue;
		link->paths[i] = NULL;
		link->old_open++;
		if (!path->closing)
			close_path(path);
	}
}

static void take_paths(struct multi_link *link, struct multi_link *fresh)
{
	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		link->pair_of[i] = fresh->pair_of[i];
		link->paths[i] = fresh->paths[i];
		if (!link->paths[i])
			continue;
		link->paths[i]->owner = link;
		link->paths[i]->gen = link->gen;
	}
	link->base.get_max = TAGRV_MIN(link->base.get_max, fresh->base.get_max);
	link->base.put_max = TAGRV_MIN(link->base.put_max, fresh->base.put_max);
	link->pairs = fresh->pairs;
	link->unserved_at = 0;
	free(fresh);
}

int tagrv_multi_link_resume(struct tagrv_link *base, struct tagrv_link *fresh_base)
{
	struct multi_link *link = multi_link_of(base);
	struct multi_link *fresh = multi_link_of(fresh_base);

	if (link->error || link->closing || !link->attached)
		return -FI_ENOTCONN;
	if (!fresh->pairs || fresh->peer_rails != link->peer_rails)
		return -FI_EINVAL;
	link->gen++;
	retire_paths(link);
	link->env = link->env_lost = -1;
	link->resend = NULL;
	link->to_say = link->saying = link->said = link->heard = 0;
	link->syncing = true;
	link->sync_heard = false;
	link->sync_sent = 0;
	link->down = link->renewing = false;
	take_paths(link, fresh);
	tagrv_multi_attach_paths(link);
	multi_link_set_busy(link);
	multi_xport_of_link(link)->stats.resumed++;
	return 0;
}

void tagrv_multi_link_unrenewed(struct tagrv_link *base)
{
	multi_link_of(base)->renewing = false;
}

/* Whether there could be more paths than there are. All that are there must work. */
static bool lacks_paths(const struct multi_link *link)
{
	const struct multi_xport *xp = multi_xport_of_link(link);
	unsigned up = 0;

	for (unsigned i = 0; i < xp->cnt; i++)
		up += multi_path_up(link, i) != NULL;
	return up < TAGRV_MIN(xp->cnt, link->peer_rails);
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
