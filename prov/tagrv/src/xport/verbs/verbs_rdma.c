/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Gets, puts and atomics: reads, writes and changes of a peer's memory by the device. To
 * the bounds below an atomic is a get of one packet: both take a place of those that the two
 * devices have for answers.
 *
 * Those in flight over a link are bounded twice:
 *
 *   requests  VERBS_MOVES_MAX or read_depth; of gets no more than both devices can
 *             have at a time
 *   bytes     read_depth pieces of read_segment bytes, in packets of the path's MTU
 *
 * So a few long ones are in flight, which is enough for any network, and many short
 * ones: each takes a round trip, in which a fast network moves hundreds of KiB. One
 * alone may have any length.
 *
 * rxe keeps at most 128 packets unacknowledged. If the reads in flight have more
 * response packets than that, acks of later requests overtake responses, which rxe
 * then takes for lost and requests again; when it requests a read's rest a second
 * time, it asks for the wrong bytes. So on software devices all reads in flight of
 * a link together have at most SOFT_READ_PACKETS response packets.
 */
#include <endian.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "xport/verbs/verbs_post.h"

#define SOFT_READ_PACKETS	127u

/* ---- bounds ---- */

/* Packets of the path's MTU; even an empty read has one. */
static uint32_t packets_of(const struct verbs_link *link, size_t len)
{
	size_t mtu = (size_t) 1 << link->mtu_shift;

	return len ? (uint32_t) ((len + mtu - 1) >> link->mtu_shift) : 1;
}

/*
 * Bytes of one get. On software devices read_depth of them, or as many as both
 * devices can have, are in flight together.
 */
static size_t choose_get_max(const struct verbs_link *link)
{
	const struct verbs_xport *xp =
		(const struct verbs_xport *) link->base.xport;
	size_t max = xp->base.attr.get_max, depth;

	if (!xp->dev->base.software)
		return max;
	depth = TAGRV_MIN(xp->params.read_depth, (size_t) link->gets.cnt_max);
	return TAGRV_MIN(max, TAGRV_MAX(SOFT_READ_PACKETS / TAGRV_MAX(depth, 1u),
					1u) << link->mtu_shift);
}

void tagrv_verbs_rdma_bind(struct verbs_link *link, const struct verbs_blob *peer)
{
	const struct verbs_xport *xp =
		(const struct verbs_xport *) link->base.xport;
	const struct tagrv_params *params = &xp->params;
	size_t mtu = tagrv_verbs_mtu_bytes(TAGRV_MIN((enum ibv_mtu) peer->mtu,
						     link->port->attr.active_mtu));
	uint32_t packets;

	while ((size_t) 1 << link->mtu_shift < mtu)
		link->mtu_shift++;
	packets = packets_of(link, params->read_segment) *
		  (uint32_t) params->read_depth;
	link->puts.cnt_max = (uint32_t) xp->base.attr.put_depth;
	link->puts.packets_max = packets;
	link->gets.cnt_max = TAGRV_MIN((uint32_t) xp->base.attr.get_depth,
				       peer->rd_in);
	link->gets.packets_max = xp->dev->base.software ?
				 TAGRV_MIN(packets, SOFT_READ_PACKETS) : packets;
	link->base.get_max = choose_get_max(link);
	link->base.put_max = xp->base.attr.put_max;
}

/* Whether another request, of so many packets, may be in flight, too. */
static bool has_place(const struct verbs_moves *moves, uint32_t packets)
{
	return !moves->cnt ||
	       (moves->cnt < moves->cnt_max &&
		(uint64_t) moves->packets + packets <= moves->packets_max);
}

/* ---- posting ---- */

/* Posts a read (tx->get) or write (tx->put) of the peer's memory. */
static int post_rdma(struct verbs_link *link, struct verbs_tx *tx, void *addr,
		     struct tagrv_mem *mem, uint64_t raddr, const void *key,
		     size_t len)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct ibv_sge sge = {
		.addr = (uintptr_t) addr, .length = (uint32_t) len,
		.lkey = mem ? ((struct verbs_mem *) mem)->mr->lkey : 0,
	};
	struct ibv_send_wr wr = {
		.opcode = tx->get ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.send_flags = mem ? 0 : IBV_SEND_INLINE,
		.sg_list = &sge, .num_sge = len != 0,
	};
	uint32_t rkey;

	if (!verbs_has_room(xp, link, false))
		return verbs_try_again(xp);
	memcpy(&rkey, key, sizeof(rkey));
	wr.wr.rdma.remote_addr = raddr;
	wr.wr.rdma.rkey = be32toh(rkey);
	return tagrv_verbs_post(xp, link, &wr, tx);
}

/* Returns 0 if a get or put may be posted, else its error. */
static int check_rdma(const struct verbs_link *link, const void *addr,
		      const struct tagrv_mem *mem, size_t key_len, size_t len,
		      size_t max)
{
	if (TAGRV_UNLIKELY(link->error || link->state != VERBS_LINK_OPEN))
		return -FI_ENOTCONN;
	if (key_len != sizeof(uint32_t) || len > max ||
	    (mem && !verbs_is_within(verbs_xport_of(link->base.xport), addr, len, mem)))
		return -FI_EINVAL;
	return 0;
}

int tagrv_verbs_get(struct tagrv_link *base, void *addr, struct tagrv_mem *mem,
		    uint64_t raddr, const void *key, size_t key_len,
		    size_t len, struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_tx tx = {
		.done = done, .packets = packets_of(link, len),
		.get = true, .signaled = true,
	};
	int ret = check_rdma(link, addr, mem, key_len, len, base->get_max);

	if (ret)
		return ret;
	if (!has_place(&link->gets, tx.packets))
		return verbs_try_again(verbs_xport_of(base->xport));
	return post_rdma(link, &tx, addr, mem, raddr, key, len);
}

int tagrv_verbs_put(struct tagrv_link *base, const void *addr,
		    struct tagrv_mem *mem, uint64_t raddr, const void *key,
		    size_t key_len, size_t len, struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_tx tx = {
		.done = done, .packets = packets_of(link, len),
		.put = true, .signaled = true,
	};
	size_t max = mem ? base->put_max : base->xport->attr.max_inline;
	int ret = check_rdma(link, addr, mem, key_len, len, max);

	if (ret)
		return ret;
	if (!has_place(&link->puts, tx.packets))
		return verbs_try_again(verbs_xport_of(base->xport));
	return post_rdma(link, &tx, (void *) (uintptr_t) addr, mem, raddr, key,
			 len);
}

/* ---- atomics ---- */

static void fill_atomic(struct ibv_send_wr *wr, const struct tagrv_xport_change *change,
			uint64_t raddr, const void *key)
{
	uint32_t rkey;

	memcpy(&rkey, key, sizeof(rkey));
	wr->opcode = change->swaps ? IBV_WR_ATOMIC_CMP_AND_SWP :
				     IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr->wr.atomic.remote_addr = raddr;
	wr->wr.atomic.rkey = be32toh(rkey);
	wr->wr.atomic.compare_add = change->swaps ? change->compare : change->operand;
	wr->wr.atomic.swap = change->swaps ? change->operand : 0;
}

static int post_atomic(struct verbs_link *link, const struct tagrv_xport_change *change,
		       uint64_t raddr, const void *key, uint64_t *former,
		       struct verbs_tx *tx)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct ibv_sge sge = { .length = sizeof(uint64_t) };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 };
	struct verbs_former *at = verbs_take_buf(xp, &sge, false, tx);
	int ret;

	if (!at)
		return verbs_try_again(xp);
	at->to = former;
	fill_atomic(&wr, change, raddr, key);
	ret = tagrv_verbs_post(xp, link, &wr, tx);
	if (ret)
		verbs_free_buf(xp, tx->buf);
	return ret;
}

int tagrv_verbs_atomic(struct tagrv_link *base, const struct tagrv_xport_change *change,
		       uint64_t raddr, const void *key, size_t key_len,
		       uint64_t *former, struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);
	struct verbs_tx tx = {
		.done = done, .get = true, .signaled = true,
		.todo = VERBS_TODO_FORMER,
	};
	int ret = check_rdma(link, NULL, NULL, key_len, 0, 0);

	if (!(xp->base.attr.caps & TAGRV_XPORT_ATOMIC) || !link->side)
		return -FI_EOPNOTSUPP;
	if (ret || raddr % sizeof(uint64_t))
		return ret ? ret : -FI_EINVAL;
	if (!has_place(&link->gets, 1) || !verbs_has_room(xp, link, false))
		return verbs_try_again(xp);
	return post_atomic(link, change, raddr, key, former, &tx);
}
