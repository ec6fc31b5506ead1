/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous that the list has matched, on the send queue of their queue pair:
 *
 *   READ of a segment --> the next one ... --> all bytes are there, FIN --> over
 *
 * Each has one work request in the queue at a time; while the queue is full, it
 * waits for the next completion of any. Segments are short, because the device
 * below sends every byte of a read again when one packet of it was lost.
 */
#include <stdlib.h>
#include <string.h>

#include "tmsim/tmsim.h"

#define SEGMENT		(512u << 10)
#define HEADERS		(TAG_LIST_TMH + TAG_LIST_RVH)
#define OWN		(1ull << 63)	/* in wr_id; those of receive buffers are small */

struct tmsim_rndv {
	struct tmsim_rndv *next;
	struct tag_list_read what;
	uint32_t lkey, at;	/* 'at' bytes are there */
	bool	read;		/* all bytes are there; the FIN is left */
	bool	posted;		/* a work request is in the queue */
	uint8_t	fin[HEADERS];
};

bool tmsim_rndv_owns(uint64_t wr_id)
{
	return wr_id & OWN;
}

static void end(struct tmsim_qp *qp, struct tmsim_rndv *rndv)
{
	struct tmsim_rndv **at = &qp->first;

	while (*at != rndv)
		at = &(*at)->next;
	*at = rndv->next;
	if (!rndv->read)
		tmsim_list_data(qp, rndv->what.handle, false);
	free(rndv);
}

static uint32_t segment(const struct tmsim_rndv *rndv)
{
	uint32_t left = rndv->what.len - rndv->at;

	return left < SEGMENT ? left : SEGMENT;
}

static int post(struct tmsim_qp *qp, struct tmsim_rndv *rndv)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t) rndv->fin,
		.length = HEADERS,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = OWN | (uintptr_t) rndv,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	};

	if (!rndv->read) {
		sge.addr = (uintptr_t) rndv->what.buf + rndv->at;
		sge.length = segment(rndv);
		sge.lkey = rndv->lkey;
		wr.opcode = IBV_WR_RDMA_READ;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr.rdma.remote_addr = rndv->what.va + rndv->at;
		wr.wr.rdma.rkey = rndv->what.rkey;
	}
	return qp->srq->ctx->ops.post_send(qp->qp, &wr, &bad);
}

/* Returns false if the rendezvous cannot go on. */
static bool go_on(struct tmsim_qp *qp, struct tmsim_rndv *rndv)
{
	if (!rndv->read && rndv->at == rndv->what.len) {
		rndv->read = true;
		tmsim_list_data(qp, rndv->what.handle, true);
	}
	if (qp->gone)
		return false;
	if (qp->posted == TMSIM_SEND_DEPTH)
		return true;
	if (post(qp, rndv))
		return false;
	rndv->posted = true;
	qp->posted++;
	return true;
}

static void go_on_all(struct tmsim_qp *qp)
{
	struct tmsim_rndv *rndv, *next;

	for (rndv = qp->first; rndv; rndv = next) {
		next = rndv->next;
		if (!rndv->posted && !go_on(qp, rndv))
			end(qp, rndv);
	}
}

void tmsim_rndv_start(struct tmsim_qp *qp, const struct tag_list_read *what, uint32_t lkey, const void *headers)
{
	struct tmsim_rndv *rndv = calloc(1, sizeof(*rndv)), **at = &qp->first;

	if (!rndv) {
		tmsim_list_data(qp, what->handle, false);
		return;
	}
	rndv->what = *what;
	rndv->lkey = lkey;
	memcpy(rndv->fin, headers, HEADERS);
	rndv->fin[0] = TAG_LIST_OP_FIN;
	while (*at)
		at = &(*at)->next;
	*at = rndv;
	go_on_all(qp);
}

void tmsim_rndv_done(struct tmsim_qp *qp, const struct ibv_wc *wc)
{
	struct tmsim_rndv *rndv = (struct tmsim_rndv *) (uintptr_t) (wc->wr_id & ~OWN);

	qp->posted--;
	rndv->posted = false;
	if (wc->status || rndv->read)
		end(qp, rndv);
	else
		rndv->at += segment(rndv);
	go_on_all(qp);
}

void tmsim_rndv_end(struct tmsim_qp *qp)
{
	while (qp->first)
		end(qp, qp->first);
}
