/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posts packets, remote reads and remote writes, and decides which of these work
 * requests are signaled (give a completion).
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
 * On a software device each packet costs processor time that the application needs,
 * too. So only attr.burst packets of a link are in flight at a time: messages sent
 * in a burst wait and are combined into fewer packets, while a single packet never
 * waits. Hardware devices have no such bound.
 *
 * 'inflight' counts unsignaled requests, too, because after an error each gives a
 * completion, and the completion queue must not overflow.
 *
 * Unsignaled requests behind the last signaled one are confirmed by an empty remote
 * write, which needs neither a buffer nor a key of the peer. flush posts one, and so
 * does close behind all other requests: a queue pair in ERR completes the requests
 * in flight, but gives no completion for unsignaled ones that completed before. For
 * the one of close the send queue has a slot beyond 'depth'.
 */
#include <endian.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/iov.h"
#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

/* Returns -FI_EAGAIN; sink->room is called once something is freed. */
static int try_again(struct verbs_xport *xp)
{
	xp->starved = true;
	return -FI_EAGAIN;
}

/* Whether the peer has not permitted another packet of this kind. */
static bool lacks_permit(struct verbs_xport *xp, const struct verbs_link *link,
			 bool ctrl)
{
	if (TAGRV_LIKELY(link->tx_permits > (ctrl ? VERBS_PERMIT_LAST :
						 VERBS_PERMIT_CTRL)))
		return false;
	xp->stats.sends_refused++;
	xp->lacks_permit = true;
	return true;
}

static bool has_room(const struct verbs_xport *xp,
		     const struct verbs_link *link, bool ctrl)
{
	uint32_t used = link->head - link->tail;

	if (ctrl)
		return used < link->depth && xp->inflight < xp->tx_cap;
	return used + link->reserve < link->depth &&
	       xp->inflight + xp->tx_reserve < xp->tx_cap;
}

/* Whether the next message should wait, to share a packet with later ones. */
static bool is_burst(const struct verbs_xport *xp,
		     const struct verbs_link *link)
{
	return link->head - link->tail - link->gets - link->puts >=
	       xp->base.attr.burst;
}

static bool must_signal(const struct verbs_xport *xp,
			const struct verbs_link *link,
			const struct verbs_tx *tx)
{
	const struct verbs_bufs *bufs = &xp->tx_bufs;

	return tx->signaled || tx->done ||
	       link->unsignaled + 1 >= xp->signal_every ||
	       (link->head - link->tail + 1) * 2 >
	       link->depth - link->reserve ||
	       (xp->inflight + 1) * 2 > xp->tx_cap - xp->tx_reserve ||
	       (tx->buf != VERBS_NO_BUF && bufs->idle_cnt * 2 < bufs->total);
}

/*
 * Returns the result of a post that failed. A full queue, although has_room() said
 * otherwise, is no error; everything else is. queued: the device has the request
 * in its queue although it was not notified (rxe: by a system call that may fail);
 * the request counts as posted (0) and completes late or when the link is closed.
 */
static TAGRV_COLD int post_failed(struct verbs_link *link, int err, bool queued)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	err = abs(err);		/* some drivers return it negative */
	if (!queued && (err == ENOMEM || err == EAGAIN)) {
		verbs_alarm_set(xp, VERBS_ALARM_ROOM);
		return try_again(xp);
	}
	tagrv_info("verbs: %s: qp 0x%x cannot post: %s\n", xp->dev->base.name,
		   link->qpn, strerror(err));
	tagrv_verbs_link_fail(link, -FI_EIO, true);
	return queued ? 0 : -FI_ENOTCONN;
}

/*
 * Posts one work request, for which there is room. tx->signaled: signal it in any
 * case. 0, -FI_EAGAIN or -FI_ENOTCONN.
 */
static int post(struct verbs_xport *xp, struct verbs_link *link,
		struct ibv_send_wr *wr, struct verbs_tx *tx)
{
	struct ibv_send_wr *bad = NULL;
	int err, ret;

	tx->signaled = must_signal(xp, link, tx);
	if (tx->signaled)
		wr->send_flags |= IBV_SEND_SIGNALED;
	wr->wr_id = (uint64_t) link->serial << 32 | link->head;
	err = xp->calls->post_send(link->qp, wr, &bad);
	if (TAGRV_UNLIKELY(err)) {
		ret = post_failed(link, err, bad != wr);
		if (ret)
			return ret;
	}
	link->ring[link->head++ & link->ring_mask] = *tx;
	link->gets += tx->get;
	link->puts += tx->put;
	link->unsignaled = tx->signaled ? 0 : link->unsignaled + 1;
	xp->signaled += tx->signaled;
	xp->inflight++;
	return 0;
}

/* Posts a packet, which uses one permit of the peer and permits 'permit' packets. */
static int post_packet(struct verbs_xport *xp, struct verbs_link *link,
		       struct ibv_send_wr *wr, struct verbs_tx *tx,
		       uint32_t permit)
{
	int ret;

	if (permit) {
		wr->opcode = IBV_WR_SEND_WITH_IMM;
		wr->imm_data = tagrv_verbs_permit_imm(permit, false);
	}
	ret = post(xp, link, wr, tx);
	if (TAGRV_UNLIKELY(ret))
		return ret;
	link->tx_permits--;
	xp->stats.packets_sent++;
	if (permit)
		tagrv_verbs_permit_sent(xp, link, permit);
	return 0;
}

/* Skips empty segments: to some devices a length of 0 means 2 GiB. */
static int fill_sges(struct ibv_sge *sge, const struct iovec *iov, size_t cnt)
{
	int used = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (!iov[i].iov_len)
			continue;
		sge[used++] = (struct ibv_sge) {
			.addr = (uintptr_t) iov[i].iov_base,
			.length = (uint32_t) iov[i].iov_len,
		};
	}
	return used;
}

/* Copies the packet into a copy buffer. False: no buffer is idle. */
static bool fill_copy(struct verbs_xport *xp, struct ibv_sge *sge,
		      const struct iovec *iov, size_t cnt, bool ctrl,
		      struct verbs_tx *tx)
{
	struct verbs_bufs *bufs = &xp->tx_bufs;
	uint32_t reserve = ctrl ? 0 : xp->tx_buf_reserve;

	if (TAGRV_UNLIKELY(bufs->idle_cnt <= reserve)) {
		xp->want_tx_bufs = bufs->total < bufs->max;
		return false;
	}
	tx->buf = bufs->idle[--bufs->idle_cnt];
	sge->addr = (uintptr_t) verbs_buf_addr(bufs, tx->buf);
	sge->lkey = verbs_buf_lkey(bufs, tx->buf);
	sge->length = (uint32_t) tagrv_iov_gather((void *) (uintptr_t)
						  sge->addr, iov, cnt);
	return true;
}

/* Returns 0 if a packet of len bytes can be posted now, else send's error. */
static int check_packet(struct verbs_xport *xp, struct verbs_link *link,
			size_t len, bool ctrl)
{
	if (TAGRV_UNLIKELY(link->error || link->state != VERBS_LINK_OPEN))
		return -FI_ENOTCONN;
	if (TAGRV_UNLIKELY(len > link->max_packet))
		return -FI_EMSGSIZE;
	if (TAGRV_UNLIKELY(!has_room(xp, link, ctrl) ||
			   (!ctrl && is_burst(xp, link)) ||
			   lacks_permit(xp, link, ctrl)))
		return try_again(xp);
	return 0;
}

/* Frees the copy buffer of a packet that could not be posted. */
static void free_tx_buf(struct verbs_xport *xp, const struct verbs_tx *tx)
{
	if (tx->buf != VERBS_NO_BUF)
		xp->tx_bufs.idle[xp->tx_bufs.idle_cnt++] = tx->buf;
}

int tagrv_verbs_send(struct tagrv_link *base, const struct iovec *iov,
		     size_t cnt, unsigned flags, struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);
	bool ctrl = flags & TAGRV_SEND_CTRL;
	struct ibv_sge sge[VERBS_SGE_MAX];
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = sge };
	struct verbs_tx tx = { .done = done, .buf = VERBS_NO_BUF };
	size_t len = tagrv_iov_len(iov, cnt);
	int ret = check_packet(xp, link, len, ctrl);

	if (TAGRV_UNLIKELY(ret))
		return ret;
	if (len <= xp->base.attr.max_inline && cnt <= xp->qp_sge) {
		wr.num_sge = fill_sges(sge, iov, cnt);
		wr.send_flags = len ? IBV_SEND_INLINE : 0;
	} else {
		if (len && !fill_copy(xp, sge, iov, cnt, ctrl, &tx))
			return try_again(xp);
		wr.num_sge = len != 0;
	}
	ret = post_packet(xp, link, &wr, &tx,
			  tagrv_verbs_permit_offer(xp, link));
	if (TAGRV_UNLIKELY(ret))
		free_tx_buf(xp, &tx);
	return ret;
}

static bool is_within(const struct verbs_xport *xp, const void *addr, size_t len,
		      const struct tagrv_mem *mem)
{
	return mem->dev == &xp->dev->base &&
	       tagrv_range_within((uintptr_t) addr, len, (uintptr_t) mem->addr,
				  mem->len);
}

/* Adds sges for the segments; -FI_EINVAL: one is not within its memory. */
static int fill_prepared(const struct verbs_xport *xp, struct ibv_sge *sge,
			 int *used, const struct iovec *iov,
			 struct tagrv_mem *const *mem, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		const struct tagrv_mem *m = mem[i];

		if (!iov[i].iov_len)
			continue;
		if (!m || !is_within(xp, iov[i].iov_base, iov[i].iov_len, m))
			return -FI_EINVAL;
		sge[(*used)++] = (struct ibv_sge) {
			.addr = (uintptr_t) iov[i].iov_base,
			.length = (uint32_t) iov[i].iov_len,
			.lkey = ((const struct verbs_mem *) m)->mr->lkey,
		};
	}
	return 0;
}

/* The header is copied, because the device reads it from registered memory. */
int tagrv_verbs_send_prepared(struct tagrv_link *base, const void *hdr,
			      size_t hdr_len, const struct iovec *iov,
			      struct tagrv_mem *const *mem, size_t cnt,
			      struct tagrv_done *done)
{
	const struct iovec head = { (void *) (uintptr_t) hdr, hdr_len };
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);
	struct ibv_sge sge[VERBS_SGE_MAX];
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 1,
	};
	struct verbs_tx tx = { .done = done, .buf = VERBS_NO_BUF };
	int ret;

	if (!(xp->base.attr.caps & TAGRV_XPORT_PREPARED))
		return -FI_EOPNOTSUPP;
	ret = check_packet(xp, link, hdr_len + tagrv_iov_len(iov, cnt), false);
	if (!ret)
		ret = fill_prepared(xp, sge, &wr.num_sge, iov, mem, cnt);
	if (TAGRV_UNLIKELY(ret))
		return ret;
	if (!fill_copy(xp, sge, &head, 1, false, &tx))
		return try_again(xp);
	ret = post_packet(xp, link, &wr, &tx,
			  tagrv_verbs_permit_offer(xp, link));
	if (TAGRV_UNLIKELY(ret))
		free_tx_buf(xp, &tx);
	return ret;
}

int tagrv_verbs_send_permit(struct verbs_link *link, uint32_t cnt)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = tagrv_verbs_permit_imm(cnt, true),
	};
	struct verbs_tx tx = { .buf = VERBS_NO_BUF };
	int ret;

	if (!link->tx_permits || !has_room(xp, link, true))
		return -FI_EAGAIN;
	ret = post(xp, link, &wr, &tx);
	if (ret)
		return ret;
	link->tx_permits--;
	xp->stats.packets_sent++;
	xp->stats.permit_only_sent++;
	tagrv_verbs_permit_sent(xp, link, cnt);
	return 0;
}

/* Posts a read (tx->get) or write (tx->put) of the peer's memory. */
static int post_rdma(struct verbs_link *link, struct verbs_tx *tx, void *addr,
		     struct tagrv_mem *mem, uint64_t raddr, const void *key,
		     size_t len)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct ibv_sge sge = {
		.addr = (uintptr_t) addr, .length = (uint32_t) len,
		.lkey = ((struct verbs_mem *) mem)->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = tx->get ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.sg_list = &sge, .num_sge = len != 0,
	};
	uint32_t rkey;

	if (!has_room(xp, link, false))
		return try_again(xp);
	memcpy(&rkey, key, sizeof(rkey));
	wr.wr.rdma.remote_addr = raddr;
	wr.wr.rdma.rkey = be32toh(rkey);
	return post(xp, link, &wr, tx);
}

/* Returns 0 if a get or put may be posted, else its error. */
static int check_rdma(const struct verbs_link *link, const void *addr,
		      const struct tagrv_mem *mem, size_t key_len, size_t len,
		      size_t max)
{
	if (TAGRV_UNLIKELY(link->error || link->state != VERBS_LINK_OPEN))
		return -FI_ENOTCONN;
	if (key_len != sizeof(uint32_t) || len > max ||
	    !is_within(verbs_xport_of(link->base.xport), addr, len, mem))
		return -FI_EINVAL;
	return 0;
}

int tagrv_verbs_get(struct tagrv_link *base, void *addr, struct tagrv_mem *mem,
		    uint64_t raddr, const void *key, size_t key_len,
		    size_t len, struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_tx tx = {
		.done = done, .buf = VERBS_NO_BUF, .get = true,
		.signaled = true,
	};
	int ret = check_rdma(link, addr, mem, key_len, len, base->get_max);

	if (ret)
		return ret;
	if (link->gets >= link->max_gets)
		return try_again(verbs_xport_of(base->xport));
	return post_rdma(link, &tx, addr, mem, raddr, key, len);
}

int tagrv_verbs_put(struct tagrv_link *base, const void *addr,
		    struct tagrv_mem *mem, uint64_t raddr, const void *key,
		    size_t key_len, size_t len, struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_tx tx = {
		.done = done, .buf = VERBS_NO_BUF, .put = true,
		.signaled = true,
	};
	int ret = check_rdma(link, addr, mem, key_len, len, base->put_max);

	if (ret)
		return ret;
	if (link->puts >= base->xport->attr.put_depth)
		return try_again(verbs_xport_of(base->xport));
	return post_rdma(link, &tx, (void *) (uintptr_t) addr, mem, raddr, key,
			 len);
}

/* Posts an empty remote write, which is signaled. */
static int post_empty_write(struct verbs_xport *xp, struct verbs_link *link)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct verbs_tx tx = { .buf = VERBS_NO_BUF, .signaled = true };

	return post(xp, link, &wr, &tx);
}

static int flush_link(struct verbs_xport *xp, struct verbs_link *link)
{
	if (!link->unsignaled || link->error || link->state != VERBS_LINK_OPEN)
		return 0;
	return has_room(xp, link, true) ? post_empty_write(xp, link) :
					  -FI_EAGAIN;
}

/* If the device refuses the request, it is not posted again in every pass. */
void tagrv_verbs_drain(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	if (!link->draining && link->head != link->tail &&
	    xp->inflight < xp->tx_cap)
		link->draining = post_empty_write(xp, link) != -FI_EAGAIN;
}

/* Links without room are flushed by a later progress: VERBS_ALARM_FLUSH. */
void tagrv_verbs_flush(struct tagrv_xport *xport)
{
	struct verbs_xport *xp = verbs_xport_of(xport);

	for (uint32_t i = 0; xp->map.slots && i <= xp->map.mask; i++)
		if (xp->map.slots[i] &&
		    flush_link(xp, xp->map.slots[i]) == -FI_EAGAIN)
			verbs_alarm_set(xp, VERBS_ALARM_FLUSH);
}

size_t tagrv_verbs_outstanding(struct tagrv_xport *xport)
{
	return verbs_xport_of(xport)->inflight;
}

void tagrv_verbs_retire(struct verbs_link *link, uint32_t end, int status)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	while (link->tail != end) {
		struct verbs_tx tx = link->ring[link->tail++ & link->ring_mask];

		xp->inflight--;
		xp->signaled -= tx.signaled;
		link->gets -= tx.get;
		link->puts -= tx.put;
		if (tx.buf != VERBS_NO_BUF)
			xp->tx_bufs.idle[xp->tx_bufs.idle_cnt++] = tx.buf;
		xp->freed = true;
		if (tx.done)
			tx.done->fn(tx.done, status);
	}
}
