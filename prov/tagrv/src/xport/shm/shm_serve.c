/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote reads through the rings, on the side that owns the memory.
 *
 *   SHM_GET_REQ --> link->serves --> SHM_GET_DATA entries, some per pass
 *                                '--> SHM_GET_FAIL, if the key is invalid
 *
 * While this side fills one piece, the peer copies an earlier one: the two copies
 * overlap. A quarter of the ring is left to packets, so that no packet waits for
 * a whole get.
 */
#include <string.h>

#include "xport/shm/shm_priv.h"

#define PIECES	4	/* most pieces of a link per pass */

static struct shm_serve *first(struct shm_link *link)
{
	return &link->serves[link->serve_head % SHM_GETS];
}

static void drop_all(struct shm_link *link)
{
	link->serve_cnt = 0;
	tagrv_list_remove(&link->serve_node);
	tagrv_shm_unstarve(link, SHM_WAIT_SERVE);
}

static void drop_first(struct shm_link *link)
{
	link->serve_head++;
	link->serve_cnt--;
	if (!link->serve_cnt)
		drop_all(link);
}

bool tagrv_shm_on_get_req(struct shm_link *link, const char *body, size_t len)
{
	struct shm_xport *xp = shm_xport_of_link(link);
	struct shm_serve *serve;

	if (len != sizeof(serve->req) || link->serve_cnt == SHM_GETS)
		return false;
	serve = &link->serves[(link->serve_head + link->serve_cnt) % SHM_GETS];
	memcpy(&serve->req, body, sizeof(serve->req));
	serve->copied = 0;
	if (!link->serve_cnt++)
		tagrv_list_push_tail(&xp->serving, &link->serve_node);
	tagrv_shm_set_slow(xp);
	return true;
}

/* Bytes of the next piece of the first request. */
static size_t next_piece(const struct shm_link *link)
{
	size_t quarter = link->tx.arena_size / 4;
	struct shm_serve *serve = first((struct shm_link *) (uintptr_t) link);
	size_t most = TAGRV_MIN(quarter, (size_t) SHM_GET_PIECE);

	return (size_t) TAGRV_MIN((uint64_t) most,
				  serve->req.len - serve->copied);
}

static bool has_room(struct shm_link *link)
{
	size_t len = sizeof(struct shm_get_data) + next_piece(link);

	return tagrv_shm_tx_room(link, (uint32_t) len, SHM_LEAVE_QUARTER);
}

bool tagrv_shm_can_serve(struct shm_link *link)
{
	/* Mapped, but not open yet: the next pass opens it. */
	if (!link->tx_open)
		return atomic_load(&link->tx_ready);
	if (has_room(link))
		return true;
	/* prod.starved may not be set: has_room() was true in the last pass. */
	tagrv_shm_starve(link, SHM_WAIT_SERVE);
	return has_room(link);
}

/* Sends the answer that the first request cannot be served. */
static void fail_first(struct shm_link *link)
{
	struct shm_serve *serve = first(link);
	struct shm_get_fail fail = {
		.slot = serve->req.slot, .gen = serve->req.gen,
	};

	serve->copied = serve->req.len;
	memcpy(shm_tx_body(&link->tx, sizeof(fail)), &fail, sizeof(fail));
	tagrv_shm_tx_finish(link, SHM_GET_FAIL, sizeof(fail));
}

static void answer_first(struct shm_link *link, size_t len)
{
	struct shm_device *dev = shm_device_of(link->base.xport->dev);
	struct shm_serve *serve = first(link);
	struct shm_get_data data = {
		.slot = serve->req.slot, .gen = serve->req.gen,
		.offset = serve->copied,
	};
	uint32_t bytes = (uint32_t) (sizeof(data) + len);
	char *body = shm_tx_body(&link->tx, bytes);

	if (serve->req.raddr + serve->copied < serve->req.raddr ||
	    tagrv_shm_mem_read(dev, serve->req.index, serve->req.secret,
			       serve->req.raddr + serve->copied,
			       body + sizeof(data), len)) {
		fail_first(link);
		return;
	}
	serve->copied += len;
	memcpy(body, &data, sizeof(data));
	tagrv_shm_tx_finish(link, SHM_GET_DATA, bytes);
}

/* Sends the next piece. False: no room, or no request is left. */
static bool serve_piece(struct shm_link *link)
{
	if (!has_room(link)) {
		tagrv_shm_starve(link, SHM_WAIT_SERVE);
		return false;
	}
	tagrv_shm_unstarve(link, SHM_WAIT_SERVE);
	answer_first(link, next_piece(link));
	if (first(link)->copied == first(link)->req.len)
		drop_first(link);
	return link->serve_cnt != 0;
}

/* Whether the peer still waits. A peer that has closed is no error here. */
static bool is_wanted(struct shm_link *link)
{
	if (link->status || link->closing)
		return false;
	return (!link->tx_open && !tagrv_shm_tx_open(link)) ||
	       !(atomic_load(&link->tx.hdr->cons.state) & SHM_CLOSED);
}

unsigned tagrv_shm_serve_pass(struct shm_xport *xp)
{
	struct tagrv_list *pos, *tmp;
	unsigned events = 0;

	tagrv_list_for_each_safe(&xp->serving, pos, tmp) {
		struct shm_link *link =
			tagrv_container_of(pos, struct shm_link, serve_node);
		unsigned left = PIECES;

		if (!is_wanted(link)) {
			drop_all(link);
			continue;
		}
		while (left && link->tx_open && serve_piece(link))
			left--;
		events += PIECES - left;
	}
	return events;
}
