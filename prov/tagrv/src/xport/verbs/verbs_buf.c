/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Registers buffers in slabs, and posts them to receive queues.
 *
 *   slabs[0]  [ 0 | 1 | ... | 511 ]     buffer i is in slab i >> slab_shift, at
 *   slabs[1]  [ 512 | ...         ]     the index of i's lower bits
 *
 * A receive buffer is always in one of three places: posted to the device, in a
 * completion that is being handled, or on the idle stack. One whose completion never
 * comes is taken back by verbs_lost.c.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/page.h"
#include "xport/verbs/verbs_priv.h"

int tagrv_verbs_bufs_init(struct verbs_bufs *bufs, struct verbs_dev *dev,
			  size_t size, uint32_t max, uint32_t slab)
{
	*bufs = (struct verbs_bufs) {
		.dev = dev, .size = size, .max = max,
	};
	while ((1u << bufs->slab_shift) < slab)
		bufs->slab_shift++;
	bufs->slab_mask = (1u << bufs->slab_shift) - 1;
	bufs->slabs = calloc((max >> bufs->slab_shift) + 1,
			     sizeof(*bufs->slabs));
	bufs->idle = calloc(max, sizeof(*bufs->idle));
	return bufs->slabs && bufs->idle ? 0 : -FI_ENOMEM;
}

void tagrv_verbs_bufs_fini(struct verbs_bufs *bufs)
{
	uint32_t slab = 1u << bufs->slab_shift;

	for (uint32_t i = 0; i < bufs->total; i += slab) {
		struct tagrv_mem *mem = bufs->slabs[i >> bufs->slab_shift];
		void *addr = mem->addr;

		tagrv_verbs_mem_dereg(mem);
		free(addr);
	}
	free(bufs->slabs);
	free(bufs->idle);
	*bufs = (struct verbs_bufs) { 0 };
}

int tagrv_verbs_bufs_grow(struct verbs_bufs *bufs)
{
	uint32_t cnt = TAGRV_MIN(bufs->max - bufs->total,
				 1u << bufs->slab_shift);
	/* A device pins whole pages: no other memory shares them. */
	const size_t page = tagrv_page_size();
	size_t len = tagrv_page_end(cnt * bufs->size, page);
	struct tagrv_mem **slab = &bufs->slabs[bufs->total >> bufs->slab_shift];
	void *addr;
	int ret = -FI_ENOMEM;

	if (!cnt)
		return -FI_ENOMEM;
	addr = aligned_alloc(page, len);
	if (addr)
		ret = tagrv_verbs_mem_reg_packets(bufs->dev, addr, len, slab);
	if (ret) {
		free(addr);
		bufs->max = bufs->total;
		return ret;
	}
	/* The lowest number is on top of the stack. */
	for (uint32_t i = cnt; i-- > 0;)
		bufs->idle[bufs->idle_cnt++] = bufs->total + i;
	bufs->total += cnt;
	return 0;
}

int tagrv_verbs_rxq_init(struct verbs_rxq *rxq, struct verbs_dev *dev, size_t size,
			 uint32_t max, uint32_t slab)
{
	int ret = tagrv_verbs_bufs_init(&rxq->bufs, dev, size, max, slab);
	uint32_t slots = 1;

	while (slots < max)
		slots *= 2;
	rxq->slot_mask = slots - 1;
	rxq->next = slots;
	rxq->wr_ids = malloc(slots * sizeof(*rxq->wr_ids));
	if (ret || !rxq->wr_ids)
		return -FI_ENOMEM;
	for (uint32_t i = 0; i < slots; i++)
		rxq->wr_ids[i] = verbs_not_posted(i);
	return 0;
}

void tagrv_verbs_rxq_fini(struct verbs_rxq *rxq)
{
	tagrv_verbs_bufs_fini(&rxq->bufs);
	free(rxq->wr_ids);
	rxq->wr_ids = NULL;
}

/*
 * A peer that writes with immediate data is taken for one that sent a packet, where the
 * library confuses both. Then a buffer is read that no packet has filled: it must not have
 * what the process or other peers have left in this memory.
 */
int tagrv_verbs_rxq_grow(struct verbs_rxq *rxq)
{
	struct verbs_bufs *bufs = &rxq->bufs;
	uint32_t first = bufs->total;
	int ret = tagrv_verbs_bufs_grow(bufs);

	if (ret)
		return ret;
	if (verbs_misnames(&bufs->dev->attr))
		memset(verbs_buf_addr(bufs, first), 0, (bufs->total - first) * bufs->size);
	rxq->refill_at = TAGRV_MAX(TAGRV_MIN(bufs->total / 4, VERBS_BATCH), 1);
	return 0;
}

/* The first cnt of the requests were accepted. */
static void note_posted(struct verbs_rxq *rxq, const struct ibv_recv_wr *wr, uint32_t cnt)
{
	for (uint32_t k = 0; k < cnt; k++)
		rxq->wr_ids[wr[k].wr_id & rxq->slot_mask] = wr[k].wr_id;
	rxq->next += cnt * (rxq->slot_mask + 1);
	rxq->bufs.idle_cnt -= cnt;
	rxq->posted += cnt;
}

/* Posts up to a batch from the top of the stack; returns the number posted. */
static uint32_t post_batch(const struct tagrv_verbs_calls *calls,
			   struct verbs_rxq *rxq)
{
	struct verbs_bufs *bufs = &rxq->bufs;
	struct ibv_recv_wr wr[VERBS_POST_BATCH], *bad = NULL;
	struct ibv_sge sge[VERBS_POST_BATCH];
	uint32_t cnt = TAGRV_MIN(bufs->idle_cnt, (uint32_t) VERBS_POST_BATCH);
	int err;

	for (uint32_t k = 0; k < cnt; k++) {
		uint32_t i = bufs->idle[bufs->idle_cnt - 1 - k];

		sge[k] = (struct ibv_sge) {
			.addr = (uintptr_t) verbs_buf_addr(bufs, i),
			.length = (uint32_t) bufs->size,
			.lkey = verbs_buf_lkey(bufs, i),
		};
		wr[k] = (struct ibv_recv_wr) {
			.wr_id = (rxq->next + k * (rxq->slot_mask + 1)) | i,
			.next = &wr[k + 1],
			.sg_list = &sge[k], .num_sge = 1,
		};
	}
	wr[cnt - 1].next = NULL;
	err = rxq->srq ? calls->post_srq_recv(rxq->srq, wr, &bad) :
			 calls->post_recv(rxq->qp, wr, &bad);
	if (err)
		cnt = bad ? (uint32_t) (bad - wr) : 0;
	note_posted(rxq, wr, cnt);
	return cnt;
}

void tagrv_verbs_rxq_refill(const struct tagrv_verbs_calls *calls,
			    struct verbs_rxq *rxq)
{
	while (rxq->bufs.idle_cnt)
		if (!post_batch(calls, rxq))
			break;
}
