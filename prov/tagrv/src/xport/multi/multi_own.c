/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets between the two transports, which no owner sees and nobody counts:
 *
 *   0 MULTI_MARK   1 type   2 rail   3-7 zero   8 packets taken in, little-endian
 *
 *   PROBE  shows that a path works: its callback, or its arrival; sent by every new
 *          path, to show that this side has it
 *   DOWN   "my end of the path of your rail is closed, and all that came by it is
 *          taken in": once for each path and generation
 *   ALIEN  no packet of ours: 8 bytes before a packet of the owner that begins with
 *          MULTI_MARK; it has a number
 *   SYNC   the same about all paths of earlier generations; sent by every new path, of
 *          which it is the probe, too
 *
 * DOWN may be lost with the path that carries it; then it is sent again by another.
 * It may so arrive twice, and counts once.
 */
#include <endian.h>
#include <string.h>

#include "core/log.h"
#include "xport/multi/multi_priv.h"

enum own_type { OWN_PROBE = 1, OWN_DOWN, OWN_SYNC, OWN_ALIEN };

struct own_wire {
	uint8_t	mark, type, rail, zero[5];
	uint64_t taken;
};

static_assert(sizeof(struct own_wire) == 16, "wire layout");

/* ---- sending ---- */

static void on_done(struct tagrv_done *done, int status)
{
	struct multi_own *own = tagrv_container_of(done, struct multi_own, done);
	struct multi_path *path = own->path;
	struct multi_link *link = path->owner;
	unsigned bit = 1u << own->rail;
	bool down = own->type == OWN_DOWN;

	tagrv_pool_put(&multi_xport_of_link(link)->owns, own);
	if (!status)
		path->proven = true;
	if (down && path->gen == link->gen) {
		link->saying &= ~bit;
		if (status)
			link->to_say |= bit;
		else
			link->said |= bit;
	}
	/* A proven path may carry what waits. */
	multi_link_set_busy(link);
}

/* 0: it is on its way; else it may be said by another path, or later. */
static int send_own(struct multi_path *path, enum own_type type, unsigned rail)
{
	struct multi_link *link = path->owner;
	struct multi_xport *xp = multi_xport_of_link(link);
	struct own_wire wire = {
		.mark = MULTI_MARK, .type = (uint8_t) type,
		.taken = htole64(link->taken),
	};
	struct iovec iov = { &wire, sizeof(wire) };
	struct multi_own *own = tagrv_pool_get(&xp->owns);
	int ret;

	if (!own)
		return -FI_EAGAIN;
	if (type == OWN_DOWN)
		wire.rail = (uint8_t) link->pair_of[rail];
	own->path = path;
	own->type = (uint8_t) type;
	own->rail = (uint8_t) rail;
	own->done.fn = on_done;
	ret = path->link->xport->ops->send(path->link, &iov, 1, TAGRV_SEND_CTRL,
					   &own->done);
	if (ret)
		tagrv_pool_put(&xp->owns, own);
	return ret;
}

void tagrv_multi_probe(struct multi_link *link)
{
	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		struct multi_path *path = multi_path_up(link, i);

		if (!path || path->proven || path->probed || link->env == (int) i)
			continue;
		path->probed = !send_own(path, OWN_PROBE, 0);
	}
}

bool tagrv_multi_probe_next(struct multi_link *link)
{
	bool all = true;

	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		struct multi_path *path = link->next[i];

		if (!path || path->closing || path->probed)
			continue;
		path->probed = !send_own(path, OWN_PROBE, 0);
		all &= path->probed;
	}
	return all;
}

bool tagrv_multi_owes_sync(const struct multi_link *link)
{
	for (unsigned i = 0; i < MULTI_RAILS; i++)
		if (link->gen && multi_path_up(link, i) &&
		    !(link->sync_sent & 1u << i))
			return true;
	return false;
}

static void say_sync(struct multi_link *link)
{
	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		struct multi_path *path = multi_path_up(link, i);

		if (path && !(link->sync_sent & 1u << i) &&
		    !send_own(path, OWN_SYNC, 0))
			link->sync_sent |= 1u << i;
	}
}

/* By the first path that takes it; those that are proven come first. */
static void say_down(struct multi_link *link, unsigned rail)
{
	unsigned bit = 1u << rail;

	for (int proven = 1; proven >= 0; proven--) {
		for (unsigned i = 0; i < MULTI_RAILS; i++) {
			struct multi_path *path = multi_path_up(link, i);

			if (!path || path->proven != proven ||
			    send_own(path, OWN_DOWN, rail))
				continue;
			link->to_say &= ~bit;
			link->saying |= bit;
			return;
		}
	}
}

void tagrv_multi_say(struct multi_link *link)
{
	/* Also after the peer's SYNC: the peer waits for ours, which may have had no room. */
	if (tagrv_multi_owes_sync(link) && !link->old_open)
		say_sync(link);
	for (unsigned i = 0; i < MULTI_RAILS; i++)
		if (link->to_say & 1u << i)
			say_down(link, i);
}

void tagrv_multi_own_head(void *head)
{
	const struct own_wire wire = { .mark = MULTI_MARK, .type = OWN_ALIEN };

	memcpy(head, &wire, MULTI_HEAD);
}

/* ---- arrival ---- */

bool tagrv_multi_is_alien(const void *data, size_t len)
{
	return len >= MULTI_HEAD && ((const uint8_t *) data)[1] == OWN_ALIEN;
}

/* A side that says more than PROBE by new paths has given up the old ones. */
static void heard_by_next(struct multi_link *link, unsigned type)
{
	link->next_heard = true;
	if (type == OWN_SYNC || type == OWN_DOWN)
		tagrv_multi_go_over(link);
	else
		multi_link_set_busy(link);
}

void tagrv_multi_own_packet(struct multi_path *path, const void *data, size_t len)
{
	struct multi_link *link = path->owner;
	struct own_wire wire;

	if (path->retired)
		return;
	if (len == sizeof(wire)) {
		memcpy(&wire, data, sizeof(wire));
		if (path->gen != link->gen)
			heard_by_next(link, wire.type);
		switch (wire.type) {
		case OWN_PROBE:
			return;
		case OWN_SYNC:
			tagrv_multi_heard_sync(link, le64toh(wire.taken));
			return;
		case OWN_DOWN:
			if (wire.rail >= MULTI_RAILS)
				break;
			tagrv_multi_heard_down(link, wire.rail, le64toh(wire.taken));
			return;
		}
	}
	tagrv_info("multi: a peer sent what no peer would send\n");
	tagrv_multi_link_fail(link, -FI_EREMOTEIO);
}
