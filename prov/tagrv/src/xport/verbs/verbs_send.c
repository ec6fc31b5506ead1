/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends packets: inline, copied, or gathered by the device from registered memory.
 *
 * On a software device each packet costs processor time that the application needs,
 * too. So only attr.burst packets of a link are in flight at a time: messages sent
 * in a burst wait and are combined into fewer packets, while a single packet never
 * waits. Hardware devices have no such bound.
 */
#include <rdma/fi_errno.h>

#include "xport/verbs/verbs_post.h"

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

/* Whether the next message should wait, to share a packet with later ones. */
static bool is_burst(const struct verbs_xport *xp,
		     const struct verbs_link *link)
{
	return link->head - link->tail - link->gets - link->puts >=
	       xp->base.attr.burst;
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
	ret = tagrv_verbs_post(xp, link, wr, tx);
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
	if (TAGRV_UNLIKELY(!verbs_has_room(xp, link, ctrl) ||
			   (!ctrl && is_burst(xp, link)) ||
			   lacks_permit(xp, link, ctrl)))
		return verbs_try_again(xp);
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
			return verbs_try_again(xp);
		wr.num_sge = len != 0;
	}
	ret = post_packet(xp, link, &wr, &tx,
			  tagrv_verbs_permit_offer(xp, link));
	if (TAGRV_UNLIKELY(ret))
		free_tx_buf(xp, &tx);
	return ret;
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
		if (!m || !verbs_is_within(xp, iov[i].iov_base, iov[i].iov_len, m))
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
		return verbs_try_again(xp);
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

	if (!link->tx_permits || !verbs_has_room(xp, link, true))
		return -FI_EAGAIN;
	ret = tagrv_verbs_post(xp, link, &wr, &tx);
	if (ret)
		return ret;
	link->tx_permits--;
	xp->stats.packets_sent++;
	xp->stats.permit_only_sent++;
	tagrv_verbs_permit_sent(xp, link, cnt);
	return 0;
}
