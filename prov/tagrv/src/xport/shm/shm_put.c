/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote writes, both sides: pieces are sent through the ring.
 *
 *   put --> link->puts --> SHM_PUT entries, some per pass --> done callback
 *                             |
 *                             '--> owner: checks the key, copies the piece
 *
 * The owner of the memory writes to it itself. With process_vm_writev the peer could
 * still write after the link has ended and the owner has reused the buffer. A put is
 * done when its last piece is in the ring, so packets sent later arrive behind it.
 * A piece with an invalid key fails the link.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "xport/shm/shm_priv.h"

#define PIECES	4	/* most pieces of a link per pass */

/* ---- the side that issues the put ---- */

static struct shm_put *first(struct shm_link *link)
{
	return &link->puts[link->put_head % SHM_GETS];
}

/* Returns 0 if a put can be issued now, else its error. */
static int check_put(struct shm_link *link)
{
	struct shm_xport *xp = shm_xport_of_link(link);

	if (!link->tx_open && !tagrv_shm_tx_open(link)) {
		if (!link->bound || tagrv_shm_check_peer(link))
			return -FI_ENOTCONN;
		tagrv_shm_starve_send(link, SHM_LEAVE_RESERVE, 0);
		return -FI_EAGAIN;
	}
	if (link->put_cnt >= xp->base.attr.put_depth) {
		xp->puts_full = true;
		return -FI_EAGAIN;
	}
	return 0;
}

int tagrv_shm_put(struct tagrv_link *base, const void *addr,
		  struct tagrv_mem *mem, uint64_t raddr, const void *key,
		  size_t key_len, size_t len, struct tagrv_done *done)
{
	struct shm_link *link = shm_link_of(base);
	struct shm_xport *xp = shm_xport_of_link(link);
	struct shm_put put = {
		.done = done, .addr = addr, .raddr = raddr, .len = len,
	};
	int ret;

	if (link->closing || link->status)
		return -FI_ENOTCONN;
	if (!tagrv_shm_key_unpack(key, key_len, &put.index, &put.secret) ||
	    len > base->put_max ||
	    !tagrv_range_within((uintptr_t) addr, len, (uintptr_t) mem->addr,
				mem->len))
		return -FI_EINVAL;
	ret = check_put(link);
	if (ret)
		return ret;
	link->puts[(link->put_head + link->put_cnt) % SHM_GETS] = put;
	if (!link->put_cnt++)
		tagrv_list_push_tail(&xp->putting, &link->put_node);
	xp->put_cnt++;
	tagrv_shm_set_slow(xp);
	tagrv_shm_wake_if_armed(xp);
	return 0;
}

/* Ends the first put of a link and runs its callback, which may close the link. */
static void finish(struct shm_link *link, int status)
{
	struct shm_xport *xp = shm_xport_of_link(link);
	struct tagrv_done *done = first(link)->done;

	link->put_head++;
	xp->put_cnt--;
	if (!--link->put_cnt) {
		tagrv_list_remove(&link->put_node);
		tagrv_shm_unstarve(link, SHM_WAIT_PUT);
	}
	if (xp->puts_full) {
		xp->puts_full = false;
		xp->room_due = true;
	}
	if (done)
		done->fn(done, status);
}

unsigned tagrv_shm_puts_end(struct shm_link *link, int status)
{
	unsigned events = 0;

	for (; link->put_cnt; events++)
		finish(link, status);
	return events;
}

/* Bytes of the next piece of the first put. */
static size_t next_piece(struct shm_link *link)
{
	size_t quarter = link->tx.arena_size / 4;
	struct shm_put *put = first(link);

	return TAGRV_MIN(TAGRV_MIN(quarter, (size_t) SHM_GET_PIECE),
			 put->len - put->copied);
}

static uint32_t body_bytes(struct shm_link *link)
{
	return (uint32_t) (sizeof(struct shm_put_piece) + next_piece(link));
}

static bool has_room(struct shm_link *link)
{
	return tagrv_shm_tx_room(link, body_bytes(link), SHM_LEAVE_QUARTER);
}

bool tagrv_shm_can_put(struct shm_link *link)
{
	/* Mapped, but not open yet: the next pass opens it. */
	if (!link->tx_open)
		return atomic_load(&link->tx_ready);
	if (has_room(link))
		return true;
	/* prod.starved may not be set: has_room() was true in the last pass. */
	tagrv_shm_starve(link, SHM_WAIT_PUT);
	return has_room(link);
}

static void write_piece(struct shm_link *link, size_t len)
{
	struct shm_put *put = first(link);
	struct shm_put_piece piece = {
		.raddr = put->raddr + put->copied, .secret = put->secret,
		.index = put->index,
	};
	uint32_t bytes = (uint32_t) (sizeof(piece) + len);
	char *body = shm_tx_body(&link->tx, bytes);

	memcpy(body, &piece, sizeof(piece));
	memcpy(body + sizeof(piece), put->addr + put->copied, len);
	put->copied += len;
	tagrv_shm_tx_finish(link, SHM_PUT, bytes);
}

/* Sends the next piece. False: no room. */
static bool put_piece(struct shm_link *link)
{
	if (!has_room(link)) {
		tagrv_shm_starve(link, SHM_WAIT_PUT);
		return false;
	}
	tagrv_shm_unstarve(link, SHM_WAIT_PUT);
	write_piece(link, next_piece(link));
	if (first(link)->copied == first(link)->len && !link->status)
		finish(link, 0);
	return true;
}

static bool can_continue(struct shm_link *link)
{
	return link->put_cnt && !link->closing && !link->status &&
	       (link->tx_open || tagrv_shm_tx_open(link));
}

unsigned tagrv_shm_put_pass(struct shm_xport *xp)
{
	struct tagrv_list turn, *pos;
	unsigned events = 0;

	/* A callback may issue another put or close any link. */
	tagrv_list_init(&turn);
	tagrv_list_splice_tail(&turn, &xp->putting);
	while ((pos = tagrv_list_pop(&turn))) {
		struct shm_link *link =
			tagrv_container_of(pos, struct shm_link, put_node);

		tagrv_list_push_tail(&xp->putting, pos);
		tagrv_shm_check_peer(link);
		for (int i = 0; i < PIECES && can_continue(link) &&
		     put_piece(link); i++)
			events++;
	}
	return events;
}

/* ---- the owner of the memory ---- */

bool tagrv_shm_on_put(struct shm_link *link, const char *body, size_t len)
{
	struct shm_device *dev = shm_device_of(link->base.xport->dev);
	struct shm_put_piece piece;

	if (len < sizeof(piece))
		return false;
	memcpy(&piece, body, sizeof(piece));
	return !tagrv_shm_mem_write(dev, piece.index, piece.secret, piece.raddr,
				    body + sizeof(piece), len - sizeof(piece));
}
