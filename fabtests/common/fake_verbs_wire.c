/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake RDMA devices: how packets move between queue pairs.
 *
 *   post_send --> qp->sq --> fv_move() --> peer's receive queue --> its CQ
 *                                 \------> own CQ, if signaled or failed
 *
 * fv_move() carries out all work requests that can be carried out, of all queue
 * pairs. A send whose peer has no receive buffer is counted; it waits for a
 * buffer without limit, or fails if config.rnr_fails is set.
 */
#include "common/fake_verbs_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool reaches(const struct fake_qp *from, const struct fake_qp *to)
{
	union ibv_gid gid;

	if (to->attr.dest_qp_num != from->base.qp_num ||
	    to->attr.rq_psn != from->attr.sq_psn)
		return false;
	if (fv.config.infiniband && !fv.config.grh_required)
		return from->attr.ah_attr.dlid ==
		       100 + to->dev * 10 + to->attr.port_num;
	gid = fv_make_gid(to->dev, to->attr.port_num, !fv.config.infiniband);
	return from->attr.ah_attr.is_global &&
	       !memcmp(&gid, &from->attr.ah_attr.grh.dgid, sizeof(gid));
}

static struct fake_qp *peer_of(const struct fake_qp *qp)
{
	struct fake_qp *peer = fv_find_qp(qp->attr.dest_qp_num);

	if (!peer || (peer->base.state != IBV_QPS_RTR &&
		      peer->base.state != IBV_QPS_RTS) || !reaches(qp, peer))
		return NULL;
	return peer;
}

static bool local_ok(const struct fake_qp *qp, const struct send_wr *wr,
		     int access)
{
	if (wr->inlined)
		return true;
	for (int i = 0; i < wr->wr.num_sge; i++)
		if (!fv_covered(qp->base.pd, wr->sge[i].lkey, false,
			     wr->sge[i].addr, wr->sge[i].length, access))
			return false;
	return true;
}

/* By the pages of the regions 'to' and 'from', if regions keep their pages. */
static void copy(int to, char *dst, int from, const char *src, size_t len)
{
	if (fv.config.pinned)
		fv_pins_copy(to, dst, from, src, len);
	else
		memcpy(dst, src, len);
}

/*
 * Copies from the local segments to buf (gather) or from buf to the segments. buf is in
 * the region whose pages are 'pin'.
 */
static void copy_data(const struct fake_qp *qp, const struct send_wr *wr, int pin, char *buf,
		      bool gather)
{
	if (wr->inlined) {
		copy(pin, buf, -1, (const char *) wr->inlined, wr->len);
		return;
	}
	for (int i = 0; i < wr->wr.num_sge; i++) {
		char *seg = (char *) (uintptr_t) wr->sge[i].addr;
		int own = fv_pin_of(qp->base.pd, wr->sge[i].lkey, false);

		if (gather)
			copy(pin, buf, own, seg, wr->sge[i].length);
		else
			copy(own, seg, pin, buf, wr->sge[i].length);
		buf += wr->sge[i].length;
	}
}

#define BLOCKED	((enum ibv_wc_status) -1)

/* The packet does not fit the receive buffer, whose completion is wc. */
static enum ibv_wc_status too_long(struct fake_qp *peer, struct ibv_wc *wc)
{
	wc->status = IBV_WC_LOC_LEN_ERR;
	fv_push_wc(peer->base.recv_cq, wc, 0);
	fv_to_error(peer, true);
	return IBV_WC_REM_INV_REQ_ERR;
}

/* To a list of tagged receives, which may need no receive buffer. */
static enum ibv_wc_status do_send_tagged(const struct fake_qp *qp, struct fake_qp *peer,
					 struct recv_queue *rq, const struct send_wr *wr,
					 struct ibv_wc *wc)
{
	const struct recv_wr *to = &rq->ring[rq->head];
	char *bytes = malloc(wr->len + 1);
	size_t len = wr->len;

	if (!bytes)
		abort();
	copy_data(qp, wr, -1, bytes, true);
	if (fv.on_tagged)
		len = fv.on_tagged(qp->dev, peer->dev, bytes, len);
	wc->wr_id = to->wr_id;
	wc->byte_len = (uint32_t) len;
	if (len > to->sge.length && !fv_tm_matches(peer, bytes, len)) {
		fv_rq_pop(rq);
		free(bytes);
		return too_long(peer, wc);
	}
	if (!fv_tm_arrive(peer, bytes, len, wc)) {
		copy(fv_pin_of(peer->base.pd, to->sge.lkey, false),
		     (char *) (uintptr_t) to->sge.addr, -1, bytes, len);
		fv_rq_pop(rq);
	}
	free(bytes);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status do_send(struct fake_qp *qp, struct fake_qp *peer,
				  const struct send_wr *wr)
{
	struct recv_queue *rq = peer->base.srq ?
		&tagrv_container_of(peer->base.srq, struct fake_srq, base)->rq :
		&peer->rq;
	struct ibv_wc wc = {
		.opcode = IBV_WC_RECV, .qp_num = peer->base.qp_num,
		.byte_len = (uint32_t) wr->len, .wc_flags = IBV_WC_GRH,
		.src_qp = qp->base.qp_num,
	};
	struct recv_wr to;

	if (wr->wr.opcode == IBV_WR_SEND_WITH_IMM) {
		if (fv.config.imm_as_write)
			wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = wr->wr.imm_data;
	}

	if (!rq->cnt || (peer->device_sends && fv_tm_blocks(peer))) {
		fv.counts.rnr += !wr->blocked;
		return BLOCKED;
	}
	if (peer->device_sends)
		return do_send_tagged(qp, peer, rq, wr, &wc);
	to = fv_rq_pop(rq);
	wc.wr_id = to.wr_id;
	if (wr->len > to.sge.length)
		return too_long(peer, &wc);
	assert(fv_covered(peer->base.pd, to.sge.lkey, false, to.sge.addr, wr->len,
		       IBV_ACCESS_LOCAL_WRITE));
	copy_data(qp, wr, fv_pin_of(peer->base.pd, to.sge.lkey, false),
		  (char *) (uintptr_t) to.sge.addr, true);
	fv_push_wc(peer->base.recv_cq, &wc, 0);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status do_rdma(const struct fake_qp *qp, struct fake_qp *peer,
				  const struct send_wr *wr, bool is_read)
{
	int access = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	char *remote = (char *) (uintptr_t) wr->wr.wr.rdma.remote_addr;

	if (!(peer->attr.qp_access_flags & access) ||
	    (!is_read && fv.config.no_write) ||
	    (wr->len && !fv_covered(peer->base.pd, wr->wr.wr.rdma.rkey, true,
				 (uintptr_t) remote, wr->len, access))) {
		fv_to_error(peer, true);
		return IBV_WC_REM_ACCESS_ERR;
	}
	if (wr->len)
		copy_data(qp, wr, fv_pin_of(peer->base.pd, wr->wr.wr.rdma.rkey, true),
			  remote, !is_read);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status do_atomic(const struct fake_qp *qp, struct fake_qp *peer,
				    const struct send_wr *wr)
{
	uint64_t *remote = (uint64_t *) (uintptr_t) wr->wr.wr.atomic.remote_addr, former;

	if (!(peer->attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) || fv.config.no_atomics ||
	    (uintptr_t) remote % sizeof(*remote) || wr->len != sizeof(*remote) ||
	    !fv_covered(peer->base.pd, wr->wr.wr.atomic.rkey, true, (uintptr_t) remote,
			sizeof(*remote), IBV_ACCESS_REMOTE_ATOMIC)) {
		fv_to_error(peer, true);
		return IBV_WC_REM_ACCESS_ERR;
	}
	former = *remote;
	if (wr->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		*remote += wr->wr.wr.atomic.compare_add;
	else if (former == wr->wr.wr.atomic.compare_add)
		*remote = wr->wr.wr.atomic.swap;
	copy_data(qp, wr, -1, (char *) &former, false);
	fv.counts.atomics++;
	return IBV_WC_SUCCESS;
}

static bool is_atomic(const struct send_wr *wr)
{
	return wr->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       wr->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static enum ibv_wc_status execute(struct fake_qp *qp, const struct send_wr *wr)
{
	bool is_read = wr->wr.opcode == IBV_WR_RDMA_READ;
	struct fake_qp *peer = peer_of(qp);
	bool stores = is_read || is_atomic(wr);

	if (!peer)
		return IBV_WC_RETRY_EXC_ERR;
	if (!local_ok(qp, wr, stores ? IBV_ACCESS_LOCAL_WRITE : 0))
		return IBV_WC_LOC_PROT_ERR;
	if (wr->len > fv.config.max_msg)
		return IBV_WC_LOC_LEN_ERR;
	if (is_atomic(wr))
		return do_atomic(qp, peer, wr);
	return wr->wr.opcode == IBV_WR_SEND ||
	       wr->wr.opcode == IBV_WR_SEND_WITH_IMM ?
	       do_send(qp, peer, wr) : do_rdma(qp, peer, wr, is_read);
}

static bool step(struct fake_qp *qp)
{
	enum ibv_wc_status status;

	if (qp->base.state != IBV_QPS_RTS || qp->executed == qp->posted)
		return false;
	status = execute(qp, fv_sq_at(qp, qp->executed));
	if (status == BLOCKED) {
		fv_sq_at(qp, qp->executed)->blocked = true;
		if (!fv.config.rnr_fails)
			return false;
		status = IBV_WC_RNR_RETRY_EXC_ERR;
	}
	fv.counts.executed++;
	if (!status)
		status = (enum ibv_wc_status) fires(&fv.wr);
	fv_complete(qp, status);
	if (status)
		fv_to_error(qp, true);
	return true;
}

void fv_move(void)
{
	struct tagrv_list *pos;
	bool moved = !fv.held;

	while (moved) {
		moved = false;
		tagrv_list_for_each(&fv.qps, pos)
			moved |= step(tagrv_container_of(pos, struct fake_qp,
							 node));
	}
}
