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
 * paths take over (multi_renew.c). All old paths are closed first; SYNC then says for
 * all of them what DOWN says for one:
 *
 *   SYNC heard, old paths gone --> as above, for everything that is under way
 */
#include <stdlib.h>

#include "core/clock.h"
#include "core/log.h"
#include "xport/multi/multi_priv.h"

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

void tagrv_multi_path_close(struct multi_path *path)
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
	tagrv_multi_path_close(path);
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
	if (path->retired) {
		link->old_open--;
	} else if (link->next[path->rail] == path) {
		link->next[path->rail] = NULL;
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
		link->dark_since = 0;
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

/*
 * Whether the peer was not heard for too long, though there were new paths: where sockets
 * work and adapters do not, each renewal succeeds, and each of its paths fails.
 */
static bool is_dark(struct multi_link *link)
{
	uint64_t now = tagrv_clock_ms();

	if (!link->dark_since) {
		link->dark_since = now;
		return false;
	}
	return now - link->dark_since >= multi_xport_of_link(link)->patience;
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
	if (is_dark(link)) {
		tagrv_multi_link_fail(link, -FI_EHOSTUNREACH);
		return 1;
	}
	link->renewing = true;
	sink->link_renew(sink, link->base.ctx, true);
	return 1;
}

/* Whether the link need not be looked at until something happens to it. */
static bool is_settled(const struct multi_link *link)
{
	return !link->syncing && link->env >= 0 && !link->resend &&
	       !link->to_say && !tagrv_multi_owes_sync(link) &&
	       tagrv_list_empty(&link->again);
}

int tagrv_multi_settle(struct multi_link *link)
{
	bool began = false, probed;

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
	probed = !link->next_gen || tagrv_multi_probe_next(link);
	if (tagrv_multi_wants_next(link))
		tagrv_multi_go_over(link);
	if (!multi_up_cnt(link))
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
	if (!link->error && !link->closing && probed && is_settled(link))
		tagrv_list_remove(&link->busy_node);
	return began;
}
