/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Taking completions from a queue, for verbs_poll.c, verbs_permit.c and verbs_sleep.c.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_POLL_H
#define TAGRV_XPORT_VERBS_VERBS_POLL_H

#include "xport/verbs/verbs_priv.h"

/* A CQ cannot be polled or armed: the next progress reports the xport as dead. */
void tagrv_verbs_queue_failed(struct verbs_xport *xp) TAGRV_COLD;

/* Fills wc behind the first 'held' completions; returns the number of all. */
static inline int verbs_poll_device(struct verbs_xport *xp, struct verbs_cq *cq,
				    struct ibv_wc *wc, int held)
{
	int cnt = xp->calls->poll_cq(cq->cq, VERBS_BATCH - held, wc + held);

	if (TAGRV_LIKELY(cnt >= 0))
		return held + cnt;
	tagrv_verbs_queue_failed(xp);
	return held;
}

/*
 * Whether a receive's completion, which names a remote write with immediate data, may be that
 * of a packet: only on a device whose library confuses them, and where the bytes of the
 * link's buffers are nobody else's. A peer that does write can make nothing be read but
 * what it sent before, or zeros.
 */
bool tagrv_verbs_is_misnamed(const struct verbs_link *link, const struct ibv_wc *wc)
	TAGRV_COLD;

/* Whether it came by the queue pair of a link by which none may come: verbs_in.h. */
static inline bool verbs_is_astray(const struct verbs_link *link, const struct ibv_wc *wc)
{
	return TAGRV_UNLIKELY(link->in_used) && wc->qp_num == link->qpn;
}

/* Whether a receive that succeeded has a packet. */
static inline bool verbs_is_packet(const struct verbs_link *link, const struct ibv_wc *wc)
{
	return (TAGRV_LIKELY(wc->opcode == IBV_WC_RECV) ||
		tagrv_verbs_is_misnamed(link, wc)) && !verbs_is_astray(link, wc);
}

/* verbs_poll_cq() of a queue with completions held back. */
int tagrv_verbs_poll_held(struct verbs_xport *xp, struct verbs_cq *cq,
			  struct ibv_wc *wc) TAGRV_COLD;

/*
 * Takes up to VERBS_BATCH completions, first those held back by arm or reap, then
 * from the device. Returns their number; if that is less than VERBS_BATCH, the
 * queue was empty.
 */
static inline int verbs_poll_cq(struct verbs_xport *xp, struct verbs_cq *cq,
				struct ibv_wc *wc)
{
	return TAGRV_UNLIKELY(cq->held_cnt) ?
	       tagrv_verbs_poll_held(xp, cq, wc) :
	       verbs_poll_device(xp, cq, wc, 0);
}

#endif
