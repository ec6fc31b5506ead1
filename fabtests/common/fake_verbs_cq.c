/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake RDMA devices: completion channels and queues, receive queues.
 */
#include "common/fake_verbs_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- completion queues ---- */

struct ibv_comp_channel *fv_create_comp_channel(struct ibv_context *ctx)
{
	struct fake_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->base.context = ctx;
	if (!fv_queue_open(&channel->queue)) {
		free(channel);
		return NULL;
	}
	channel->base.fd = channel->queue.fd;
	LOCK();
	tagrv_list_push_tail(&fv.channels, &channel->node);
	fv.counts.objects++;
	UNLOCK();
	return &channel->base;
}

int fv_destroy_comp_channel(struct ibv_comp_channel *base)
{
	struct fake_channel *channel =
		tagrv_container_of(base, struct fake_channel, base);

	LOCK();
	tagrv_list_remove(&channel->node);
	fv.counts.objects--;
	UNLOCK();
	close(channel->queue.fd);
	free(channel);
	return 0;
}

struct ibv_cq *fv_create_cq(struct ibv_context *ctx, int cqe,
			    void *cq_context,
			    struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq;

	if (cqe < 1 || cqe > fv.config.max_cqe || vector < 0 || vector >= FAKE_VERBS_VECTORS) {
		errno = EINVAL;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	cq->base = (struct ibv_cq) {
		.context = ctx, .channel = channel, .cq_context = cq_context,
		.cqe = cqe,
	};
	cq->dev = tagrv_container_of(ctx, struct fake_ctx, base)->dev;
	cq->cap = (unsigned) cqe;
	cq->ring = calloc(cq->cap, sizeof(*cq->ring));
	if (!cq->ring) {
		free(cq);
		errno = ENOMEM;
		return NULL;
	}
	LOCK();
	tagrv_list_push_tail(&fv.cqs, &cq->node);
	fv.counts.objects++;
	fv.counts.cqs_by_vector[vector]++;
	UNLOCK();
	return &cq->base;
}

int fv_resize_cq(struct ibv_cq *base, int cqe)
{
	struct fake_cq *cq = tagrv_container_of(base, struct fake_cq, base);
	struct cq_entry *ring;

	if (fv.config.no_resize)
		return EOPNOTSUPP;
	if (cqe > fv.config.max_cqe || cqe < (int) cq->cnt)
		return EINVAL;
	ring = calloc((size_t) cqe, sizeof(*ring));
	if (!ring)
		return ENOMEM;
	LOCK();
	for (unsigned i = 0; i < cq->cnt; i++)
		ring[i] = cq->ring[(cq->head + i) % cq->cap];
	free(cq->ring);
	cq->ring = ring;
	cq->head = 0;
	cq->cap = (unsigned) cqe;
	UNLOCK();
	return 0;
}

int fv_destroy_cq(struct ibv_cq *base)
{
	struct fake_cq *cq = tagrv_container_of(base, struct fake_cq, base);

	LOCK();
	if (cq->users) {
		UNLOCK();
		return EBUSY;
	}
	fv.counts.lost_events += cq->unacked;
	tagrv_list_remove(&cq->node);
	fv.counts.objects--;
	UNLOCK();
	free(cq->ring);
	free(cq);
	return 0;
}

int fv_req_notify_cq(struct ibv_cq *base, int solicited_only)
{
	(void) solicited_only;
	if (fv_is_gone(base->context))
		return EIO;
	LOCK();
	tagrv_container_of(base, struct fake_cq, base)->armed = true;
	UNLOCK();
	return 0;
}

int fv_get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **cq,
		    void **cq_context)
{
	struct fake_channel *channel =
		tagrv_container_of(base, struct fake_channel, base);
	int i;

	LOCK();
	i = fv_queue_pop(&channel->queue);
	if (i >= 0) {
		*cq = channel->cqs[i];
		*cq_context = (*cq)->cq_context;
		tagrv_container_of(*cq, struct fake_cq, base)->unacked++;
	}
	UNLOCK();
	return i < 0 ? -1 : 0;
}

void fv_ack_cq_events(struct ibv_cq *base, unsigned cnt)
{
	LOCK();
	tagrv_container_of(base, struct fake_cq, base)->unacked -= cnt;
	UNLOCK();
}

void fv_push_wc(struct ibv_cq *base, const struct ibv_wc *wc, uint32_t slot)
{
	const struct cq_entry entry = { .wc = *wc, .slot = slot };

	fv_push_entry(base, &entry);
}

void fv_push_entry(struct ibv_cq *base, const struct cq_entry *entry)
{
	struct fake_cq *cq = tagrv_container_of(base, struct fake_cq, base);
	struct fake_channel *channel;

	if (cq->cnt == cq->cap) {
		struct ibv_async_event event = {
			.event_type = IBV_EVENT_CQ_ERR, .element.cq = base,
		};

		fv.counts.cq_overflows++;
		fv_raise_event(cq->dev, &event);
		return;
	}
	cq->ring[(cq->head + cq->cnt) % cq->cap] = *entry;
	cq->cnt++;
	if (!cq->armed || !base->channel)
		return;
	cq->armed = false;
	channel = tagrv_container_of(base->channel, struct fake_channel, base);
	channel->cqs[fv_queue_push(&channel->queue)] = base;
}

void fv_cq_purge(struct ibv_cq *base, uint32_t qpn)
{
	struct fake_cq *cq = tagrv_container_of(base, struct fake_cq, base);
	unsigned kept = 0;

	if (cq->has_tm)		/* see fake_verbs_tm.c */
		return;
	for (unsigned i = 0; i < cq->cnt; i++) {
		unsigned from = (cq->head + i) % cq->cap, to = (cq->head + kept) % cq->cap;

		if (cq->ring[from].wc.qp_num == qpn) {
			fv.counts.lost_buffers +=
				cq->ring[from].wc.opcode & IBV_WC_RECV ? 1 : 0;
			continue;
		}
		cq->ring[to] = cq->ring[from];
		kept++;
	}
	cq->cnt = kept;
}

/* ---- receive queues ---- */

int fv_rq_push(struct recv_queue *rq, const struct ibv_recv_wr *wr)
{
	if (rq->cnt == rq->cap)
		return ENOMEM;
	rq->ring[(rq->head + rq->cnt++) % rq->cap] = (struct recv_wr) {
		.wr_id = wr->wr_id, .sge = wr->sg_list[0],
	};
	return 0;
}

struct recv_wr fv_rq_pop(struct recv_queue *rq)
{
	struct recv_wr wr = rq->ring[rq->head];

	rq->head = (rq->head + 1) % rq->cap;
	rq->cnt--;
	return wr;
}

struct ibv_srq *fv_create_srq(struct ibv_pd *pd,
			      struct ibv_srq_init_attr *attr)
{
	struct fake_srq *srq;

	if (!fv.config.max_srq ||
	    attr->attr.max_wr > (uint32_t) fv.config.max_srq_wr) {
		errno = fv.config.max_srq ? EINVAL : EOPNOTSUPP;
		return NULL;
	}
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	srq->base = (struct ibv_srq) {
		.context = pd->context, .pd = pd,
		.srq_context = attr->srq_context,
	};
	srq->dev = tagrv_container_of(pd->context, struct fake_ctx, base)->dev;
	srq->rq.cap = attr->attr.max_wr;
	srq->rq.ring = calloc(srq->rq.cap, sizeof(*srq->rq.ring));
	if (!srq->rq.ring) {
		free(srq);
		errno = ENOMEM;
		return NULL;
	}
	LOCK();
	tagrv_list_push_tail(&fv.srqs, &srq->node);
	fv.counts.objects++;
	UNLOCK();
	return &srq->base;
}

int fv_destroy_srq(struct ibv_srq *base)
{
	struct fake_srq *srq = tagrv_container_of(base, struct fake_srq, base);
	struct tagrv_list *pos;
	int ret = 0;

	LOCK();
	tagrv_list_for_each(&fv.qps, pos)
		if (tagrv_container_of(pos, struct fake_qp, node)->base.srq ==
		    base)
			ret = EBUSY;
	if (!ret) {
		fv.counts.lost_events += srq->unacked;
		fv_tm_close(srq);
		tagrv_list_remove(&srq->node);
		fv.counts.objects--;
	}
	UNLOCK();
	if (!ret) {
		free(srq->rq.ring);
		free(srq);
	}
	return ret;
}
