/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Looks for permits in the receive CQ without delivering packets: for reap.
 */
#include <stdlib.h>
#include <string.h>

#include "xport/verbs/verbs_poll.h"

/*
 * Adds a packet's permit before the packet is handled, which then has no immediate data
 * any more: it is not added again, and takes back nothing that it has said of buffers.
 * True: the packet is permit-only; nothing was added, and it may be handled before packets
 * that came earlier. Links that are not in the map yet cannot have sends waiting, so their
 * permits need not be read.
 */
static bool read_permit(struct verbs_xport *xp, struct ibv_wc *wc)
{
	struct verbs_link *link = verbs_map_find(&xp->map, wc->qp_num);

	if (!link)
		link = verbs_map_find_in(&xp->in_map, wc->qp_num);
	if (!link || wc->status || !verbs_is_packet(link, wc) ||
	    !(wc->wc_flags & IBV_WC_WITH_IMM))
		return false;
	if (tagrv_verbs_permit_read(xp, link, wc->imm_data))
		return true;
	wc->wc_flags &= ~(unsigned) IBV_WC_WITH_IMM;
	return false;
}

void *tagrv_verbs_held_fit(void *held, size_t size, uint32_t pos, uint32_t cnt, uint32_t more,
			   uint32_t *cap)
{
	uint32_t wanted = TAGRV_MAX(2 * *cap, cnt + more);
	void *larger;

	if (pos)
		memmove(held, (char *) held + pos * size, cnt * size);
	if (cnt + more <= *cap)
		return held;
	larger = realloc(held, wanted * size);
	if (larger)
		*cap = wanted;
	return larger;
}

/* Makes room for another batch behind the completions held. False: no memory. */
static bool reserve_held(struct verbs_cq *cq)
{
	struct ibv_wc *held = tagrv_verbs_held_fit(cq->held, sizeof(*held), cq->held_pos,
						   cq->held_cnt, VERBS_BATCH, &cq->held_cap);

	cq->held_pos = 0;
	cq->held = held ? held : cq->held;
	return held;
}

/*
 * An application that repeats a send without reading a queue must not miss the
 * permit that lets the send succeed. Packets wait in order for the next progress;
 * permit-only packets are handled here, so that their buffers are posted again.
 */
TAGRV_COLD void tagrv_verbs_permit_poll(struct verbs_xport *xp)
{
	struct verbs_cq *cq = &xp->rx;
	int cnt = VERBS_BATCH;

	while (cnt == VERBS_BATCH && reserve_held(cq)) {
		struct ibv_wc wc[VERBS_BATCH];

		cnt = xp->calls->poll_cq(cq->cq, VERBS_BATCH, wc);
		if (cnt < 0) {
			tagrv_verbs_queue_failed(xp);
			return;
		}
		for (int i = 0; i < cnt; i++) {
			if (read_permit(xp, &wc[i]))
				tagrv_verbs_on_rx(xp, &wc[i], 1);
			else
				cq->held[cq->held_cnt++] = wc[i];
		}
	}
	if (xp->pool.rxq.bufs.idle_cnt)
		tagrv_verbs_rxq_refill(xp->calls, &xp->pool.rxq);
	if (xp->list.taglist)
		tagrv_verbs_list_reap(xp);
}
