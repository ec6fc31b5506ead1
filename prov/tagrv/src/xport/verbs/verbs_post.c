/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posts work requests, decides which of them are signaled (give a completion), and
 * retires them.
 *
 *              tail                    head
 *   ring  ------+-----------------------+------
 *               | u  u  u  S  u  u  S  u|           u unsignaled, S signaled
 *
 * A completion shows that all older work requests of the queue pair are complete,
 * too. So only some are signaled: every signal_every-th, those with a done callback,
 * and all while a resource is scarce. The last rule guarantees progress: unsignaled
 * requests hold at most half of the send queue, of the completion queue and of the
 * copy buffers; the other half is freed by completions.
 *
 * 'inflight' counts unsignaled requests, too, because after an error each gives a
 * completion, and the completion queue must not overflow.
 *
 * Unsignaled requests behind the last signaled one are confirmed by an empty one that
 * is signaled: a remote write, which needs neither a buffer nor a key of the peer, or,
 * where the peer's queue pair admits no writes, a permit-only packet, even if it
 * permits nothing. flush posts one. close posts a write behind all other requests, which
 * never leaves: a queue pair in ERR completes the requests in flight, but gives no
 * completion for unsignaled ones that completed before. For the one of close the send
 * queue has a slot beyond 'depth'.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "xport/verbs/verbs_post.h"

/*
 * Some libraries (bnxt_re) refuse requests to a queue pair that has broken. Why it broke
 * is in the send CQ, which the next progress polls before it reports this error.
 */
static void refused(struct verbs_xport *xp, struct verbs_link *link)
{
	if (link->error)
		return;
	link->open_max = 0;
	atomic_store(&link->async_error, -FI_EIO);
	verbs_alarm_set(xp, VERBS_ALARM_LINK);
	xp->must_poll_tx = true;
}

/*
 * A full queue, although verbs_has_room() said otherwise, is no error; everything
 * else is. If the device refused none of the requests, it has them in its queue
 * although it was not notified (rxe: by a system call that may fail): they count as
 * posted (0) and complete late or when the link is closed.
 */
int tagrv_verbs_post_failed(struct verbs_link *link, int err,
			    const struct ibv_send_wr *wr,
			    const struct ibv_send_wr *bad)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	bool queued = bad != wr;

	err = abs(err);		/* some drivers return it negative */
	if (!queued && (err == ENOMEM || err == EAGAIN)) {
		verbs_alarm_set(xp, VERBS_ALARM_ROOM);
		return verbs_try_again(xp);
	}
	tagrv_info("verbs: %s: qp 0x%x cannot post: %s\n", xp->dev->base.name,
		   link->qpn, strerror(err));
	if (!queued) {
		refused(xp, link);
		return -FI_ENOTCONN;
	}
	tagrv_verbs_link_fail(link, -FI_EIO, true);
	return 0;
}

int tagrv_verbs_post(struct verbs_xport *xp, struct verbs_link *link,
		     struct ibv_send_wr *wr, struct verbs_tx *tx)
{
	return verbs_post(xp, link, wr, tx);
}

/* ---- the ring ---- */

/*
 * A short ring has few slots for control packets. The last of them are signaled, so that a
 * ring which cannot grow has room again.
 */
static void set_ring(struct verbs_link *link, struct verbs_tx *ring, uint32_t slots,
		     uint32_t cnt)
{
	const struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	if (link->ring != link->first)
		free(link->ring);
	link->ring = ring;
	link->ring_mask = slots - 1;
	link->depth = cnt - 1;
	link->reserve = xp->sq_reserve;
	if (cnt < xp->sq_depth)
		link->reserve = TAGRV_MIN(link->reserve, link->depth / 3);
	link->signal_from = link->depth - link->reserve;
	if (cnt >= xp->sq_depth)
		link->signal_from /= 2;
}

void tagrv_verbs_ring_shorten(struct verbs_link *link)
{
	const struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	set_ring(link, link->first, VERBS_RING_FIRST, TAGRV_MIN(xp->sq_depth, VERBS_RING_FIRST));
}

bool tagrv_verbs_ring_fit(struct verbs_link *link, uint32_t cnt)
{
	struct verbs_tx *ring;
	uint32_t slots = 1;

	while (slots < cnt)
		slots *= 2;
	ring = calloc(slots, sizeof(*ring));
	if (!ring)
		return false;
	for (uint32_t seq = link->tail; seq != link->head; seq++)
		ring[seq & (slots - 1)] = link->ring[seq & link->ring_mask];
	set_ring(link, ring, slots, cnt);
	return true;
}

/*
 * Most peers never have many requests in flight, so the ring is short until more of them
 * are. Without memory it stays so; but then all that are in flight may be unsignaled.
 */
bool tagrv_verbs_ring_grow(struct verbs_xport *xp, struct verbs_link *link, bool ctrl)
{
	uint32_t cnt = link->depth + 1 < VERBS_RING_USED ?
		       TAGRV_MIN(xp->sq_depth, VERBS_RING_USED) : xp->sq_depth;

	if (link->depth + 1 >= xp->sq_depth || link->head - link->tail + link->reserve < link->depth)
		return false;
	if (tagrv_verbs_ring_fit(link, cnt))
		return verbs_fits(xp, link, ctrl);
	verbs_alarm_set(xp, VERBS_ALARM_ROOM);
	if (!ctrl)
		tagrv_verbs_confirm(link);
	return false;
}

/* Posts an empty remote write, which is signaled: a put of no packets. */
static int post_empty_write(struct verbs_xport *xp, struct verbs_link *link)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct verbs_tx tx = { .put = true, .packets = 0, .signaled = true };

	return tagrv_verbs_post(xp, link, &wr, &tx);
}

/*
 * Posts an empty request to a living queue pair. A write takes no buffer of the peer;
 * but one that the peer's queue pair does not admit would break the link.
 */
static int post_empty(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	if (!link->may_write)
		return tagrv_verbs_send_flush(link);
	return verbs_has_room(xp, link, true) ? post_empty_write(xp, link) :
						-FI_EAGAIN;
}

static int flush_link(struct verbs_link *link)
{
	if (!link->unsignaled || link->error || link->state != VERBS_LINK_OPEN)
		return 0;
	return post_empty(link);
}

/* Without room others are signaled. */
void tagrv_verbs_confirm(struct verbs_link *link)
{
	(void) flush_link(link);
}

/* Without room other links have requests in flight, and a later call finds some. */
void tagrv_verbs_probe(struct verbs_link *link)
{
	(void) post_empty(link);
}

/* If the device refuses the request, it is not posted again in every pass. */
void tagrv_verbs_drain(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	if (!link->draining && link->head != link->tail &&
	    xp->inflight < xp->tx_cap)
		link->draining = post_empty_write(xp, link) != -FI_EAGAIN;
}

/* Links without room or permit are flushed by a later progress: VERBS_ALARM_FLUSH. */
void tagrv_verbs_flush(struct tagrv_xport *xport)
{
	struct verbs_xport *xp = verbs_xport_of(xport);

	for (uint32_t i = 0; xp->map.slots && i <= xp->map.mask; i++)
		if (xp->map.slots[i] &&
		    flush_link(xp->map.slots[i]) == -FI_EAGAIN)
			verbs_alarm_set(xp, VERBS_ALARM_FLUSH);
}

size_t tagrv_verbs_outstanding(struct tagrv_xport *xport)
{
	return verbs_xport_of(xport)->inflight;
}

static void moves_sub(struct verbs_moves *moves, uint32_t packets)
{
	moves->cnt--;
	moves->packets -= packets;
}

/* The device has written former bytes to the request's copy buffer, or not. */
static void take_former(struct verbs_xport *xp, const struct verbs_tx *tx, int status)
{
	const struct verbs_former *at;

	if (tx->todo != VERBS_TODO_FORMER)
		return;
	at = verbs_buf_addr(&xp->tx_bufs, tx->buf);
	if (!status)
		*at->to = at->value;
	verbs_free_buf(xp, tx->buf);
}

/* Takes the oldest request off the ring. Its done callback may send. */
static void retire_one(struct verbs_xport *xp, struct verbs_link *link, int status)
{
	struct verbs_tx tx = link->ring[link->tail++ & link->ring_mask];

	xp->inflight--;
	xp->signaled -= tx.signaled;
	take_former(xp, &tx, status);
	if (tx.get)
		moves_sub(&link->gets, verbs_tx_packets(&tx));
	else if (tx.put)
		moves_sub(&link->puts, tx.packets);
	else if (tx.buf != VERBS_NO_BUF)
		verbs_free_buf(xp, tx.buf);
	if (tx.done)
		tx.done->fn(tx.done, status);
}

/* Takes the oldest requests off the ring, up to one with more to do than to free. */
static void retire_packets(struct verbs_xport *xp, struct verbs_link *link,
			   uint32_t end)
{
	uint32_t seq, signaled = 0;

	for (seq = link->tail; seq != end; seq++) {
		const struct verbs_tx *tx = &link->ring[seq & link->ring_mask];

		if (tx->todo == VERBS_TODO_NOTHING)
			continue;
		if (tx->todo >= VERBS_TODO_ALL)
			break;
		signaled += tx->signaled;
		if (tx->buf != VERBS_NO_BUF)
			verbs_free_buf(xp, tx->buf);
	}
	xp->signaled -= signaled;
	xp->inflight -= seq - link->tail;
	link->tail = seq;
}

void tagrv_verbs_retire(struct verbs_link *link, uint32_t end, int status)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	if (link->tail != end)
		xp->freed = true;
	while (link->tail != end) {
		retire_packets(xp, link, end);
		if (link->tail != end)
			retire_one(xp, link, status);
	}
}
