/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What verbs_send.c and verbs_rdma.c need to post a work request: room, the posting
 * itself (verbs_post.c), and the check of registered memory.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_POST_H
#define TAGRV_XPORT_VERBS_VERBS_POST_H

#include "core/iov.h"
#include "xport/verbs/verbs_priv.h"

/* Returns -FI_EAGAIN; sink->room is called once something is freed. */
static inline int verbs_try_again(struct verbs_xport *xp)
{
	xp->starved = true;
	return -FI_EAGAIN;
}

/* Whether the queues have room as they are; verbs_has_room() makes more where it can. */
static inline bool verbs_fits(const struct verbs_xport *xp,
			      const struct verbs_link *link, bool ctrl)
{
	uint32_t used = link->head - link->tail;

	if (ctrl)
		return used < link->depth && xp->inflight < xp->tx_cap;
	return used + link->reserve < link->depth &&
	       xp->inflight + xp->tx_reserve < xp->tx_cap;
}

/* A link has no room: its ring may grow. Returns as verbs_has_room(). */
bool tagrv_verbs_ring_grow(struct verbs_xport *xp, struct verbs_link *link, bool ctrl)
	TAGRV_COLD;

/* Whether the queues have room. ctrl: the slots kept for control packets count, too. */
static inline bool verbs_has_room(struct verbs_xport *xp, struct verbs_link *link,
				  bool ctrl)
{
	return TAGRV_LIKELY(verbs_fits(xp, link, ctrl)) ||
	       tagrv_verbs_ring_grow(xp, link, ctrl);
}

static inline bool verbs_is_within(const struct verbs_xport *xp,
				   const void *addr, size_t len,
				   const struct tagrv_mem *mem)
{
	return mem->dev == &xp->dev->base &&
	       tagrv_range_within((uintptr_t) addr, len, (uintptr_t) mem->addr,
				  mem->len);
}

/*
 * Whether the next request must be signaled: verbs_post.c says why. tx->signaled: it
 * must in any case.
 */
static inline bool verbs_must_signal(const struct verbs_xport *xp,
				     const struct verbs_link *link,
				     const struct verbs_tx *tx)
{
	const struct verbs_bufs *bufs = &xp->tx_bufs;

	return tx->signaled || tx->done ||
	       link->unsignaled + 1 >= xp->signal_every ||
	       link->head - link->tail >= link->signal_from ||
	       xp->inflight >= xp->signal_from ||
	       (!tx->get && !tx->put && tx->buf != VERBS_NO_BUF &&
		bufs->idle_cnt * 2 < bufs->total);
}

/* Returns the result of a post that failed, as verbs_post(). bad: set by the device. */
int tagrv_verbs_post_failed(struct verbs_link *link, int err,
			    const struct ibv_send_wr *wr,
			    const struct ibv_send_wr *bad) TAGRV_COLD;

/*
 * Takes a copy buffer for a request; returns its memory, or NULL: no buffer is
 * idle. sge: set but for the length.
 */
static inline void *verbs_take_buf(struct verbs_xport *xp, struct ibv_sge *sge, bool ctrl,
				   struct verbs_tx *tx)
{
	struct verbs_bufs *bufs = &xp->tx_bufs;
	uint32_t reserve = ctrl ? 0 : xp->tx_buf_reserve;
	void *to;

	if (TAGRV_UNLIKELY(bufs->idle_cnt <= reserve)) {
		xp->want_tx_bufs = bufs->total < bufs->max;
		return NULL;
	}
	tx->buf = bufs->idle[--bufs->idle_cnt];
	to = verbs_buf_addr(bufs, tx->buf);
	sge->addr = (uintptr_t) to;
	sge->lkey = verbs_buf_lkey(bufs, tx->buf);
	return to;
}

/* A copy buffer is idle again. */
static inline void verbs_free_buf(struct verbs_xport *xp, uint32_t buf)
{
	xp->tx_bufs.idle[xp->tx_bufs.idle_cnt++] = buf;
}

static inline void verbs_moves_add(struct verbs_moves *moves, uint32_t packets)
{
	moves->cnt++;
	moves->packets += packets;
}

/* Packets of a get or put; an atomic is a get of one. */
static inline uint32_t verbs_tx_packets(const struct verbs_tx *tx)
{
	return tx->todo == VERBS_TODO_FORMER ? 1 : tx->packets;
}

/* Accounts for a request that was posted. */
static inline void verbs_posted(struct verbs_xport *xp, struct verbs_link *link,
				const struct verbs_tx *tx)
{
	struct verbs_tx *slot = &link->ring[link->head++ & link->ring_mask];

	*slot = *tx;
	slot->todo = tx->todo == VERBS_TODO_FORMER ? VERBS_TODO_FORMER :
		     tx->done || tx->get || tx->put ? VERBS_TODO_ALL :
		     tx->signaled || tx->buf != VERBS_NO_BUF ?
		     VERBS_TODO_FREE : VERBS_TODO_NOTHING;
	if (tx->get)
		verbs_moves_add(&link->gets, verbs_tx_packets(tx));
	if (tx->put)
		verbs_moves_add(&link->puts, tx->packets);
	link->unsignaled = tx->signaled ? 0 : link->unsignaled + 1;
	xp->signaled += tx->signaled;
	xp->inflight++;
}

/*
 * Posts one work request, for which there is room. wr_id and the signal are set here.
 * 0, -FI_EAGAIN or -FI_ENOTCONN. Inlined: what the caller knows of tx costs nothing.
 */
static inline __attribute__((always_inline))
int verbs_post(struct verbs_xport *xp, struct verbs_link *link,
	       struct ibv_send_wr *wr, struct verbs_tx *tx)
{
	struct ibv_send_wr *bad = NULL;
	int err;

	tx->signaled = verbs_must_signal(xp, link, tx);
	if (tx->signaled)
		wr->send_flags |= IBV_SEND_SIGNALED;
	wr->wr_id = (uint64_t) link->serial << 32 | link->head;
	err = xp->calls->post_send(link->qp, wr, &bad);
	if (TAGRV_UNLIKELY(err)) {
		err = tagrv_verbs_post_failed(link, err, wr, bad);
		if (err)
			return err;
	}
	verbs_posted(xp, link, tx);
	return 0;
}

/* The same by a call, for requests that are not so many. */
int tagrv_verbs_post(struct verbs_xport *xp, struct verbs_link *link,
		     struct ibv_send_wr *wr, struct verbs_tx *tx)
	TAGRV_WARN_UNUSED;

#endif
