/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opens and closes a list of posted receives in a device.
 *
 * The completion queue has an entry for every receive buffer, for both completions of a
 * message of each entry, and for every command in flight: it never overflows. It is read
 * by ibv_start_poll() only, never by ibv_poll_cq(), which with mlx5 misreads what tells of
 * a list.
 */
#include "xport/verbs/tm/verbs_tm.h"

#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

static int status_of_errno(void)
{
	return errno ? -errno : -FI_EIO;
}

static const struct tagrv_taglist_ops ops = {
	.add = tagrv_verbs_tm_add,
	.del = tagrv_verbs_tm_del,
	.sync = tagrv_verbs_tm_sync,
	.progress = tagrv_verbs_tm_progress,
	.close = tagrv_verbs_tm_close,
};

/* Sets the sizes, within the device's limits. */
static int choose_sizes(struct verbs_tm *tm, const struct verbs_list_attr *attr)
{
	struct ibv_device_attr_ex device;
	const struct ibv_tm_caps *caps = &device.tm_caps;
	int err = tm->calls->query_device_ex(tm->dev->ctx, &device);

	if (err)
		return -err;
	if (!(caps->flags & IBV_TM_CAP_RC) || !caps->max_sge || !caps->max_num_tags ||
	    !caps->max_ops || !verbs_has_srq(&tm->dev->attr))
		return -FI_EOPNOTSUPP;
	tm->max_ops = TAGRV_MIN(caps->max_ops, VERBS_LIST_OPS);
	tm->base.max_entries = TAGRV_MIN(caps->max_num_tags, attr->max_entries);
	return 0;
}

/* Entries that the completion queue has no room for are not in the list. */
static int open_cq(struct verbs_tm *tm, const struct verbs_list_attr *wanted, uint32_t bufs)
{
	uint32_t most = (uint32_t) tm->dev->attr.max_cqe, others = bufs + tm->max_ops;
	struct ibv_cq_init_attr_ex attr = {
		.cq_context = wanted->owner,
		.channel = wanted->channel,
		.comp_vector = (uint32_t) wanted->vector,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO,
	};

	if (most < others + 2)
		return -FI_ENOSPC;
	tm->base.max_entries = TAGRV_MIN(tm->base.max_entries, (most - others) / 2);
	attr.cqe = others + 2 * tm->base.max_entries;
	errno = 0;
	tm->cq = tm->calls->create_cq_ex(tm->dev->ctx, &attr);
	return tm->cq ? 0 : status_of_errno();
}

static int open_srq(struct verbs_tm *tm, void *owner, uint32_t bufs)
{
	struct ibv_srq_init_attr_ex attr = {
		.srq_context = owner,
		.attr = { .max_wr = bufs, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = tm->dev->pd,
		.cq = ibv_cq_ex_to_cq(tm->cq),
		.tm_cap = { .max_num_tags = tm->base.max_entries, .max_ops = tm->max_ops },
	};

	errno = 0;
	tm->rxq->srq = tm->calls->create_srq_ex(tm->dev->ctx, &attr);
	return tm->rxq->srq ? 0 : status_of_errno();
}

static int open_bufs(struct verbs_tm *tm, uint32_t bufs, uint32_t first, size_t size)
{
	uint32_t slab = first ? TAGRV_MIN(TAGRV_MAX(first, VERBS_LIST_BUFS_LEAST), bufs) : bufs;
	int ret = tagrv_verbs_rxq_init(tm->rxq, tm->dev, size, bufs, slab);

	if (!ret)
		ret = tagrv_verbs_bufs_grow(&tm->rxq->bufs);
	if (ret)
		return ret;
	/* So many stay posted as the least number wants. */
	tm->rxq->refill_at = VERBS_TM_BATCH;
	tagrv_verbs_rxq_refill(tm->calls, tm->rxq);
	return tm->rxq->posted >= VERBS_LIST_BUFS_LEAST ? 0 : -FI_ENOMEM;
}

static int open_slots(struct verbs_tm *tm)
{
	tm->slots = calloc(tm->base.max_entries, sizeof(*tm->slots));
	if (!tm->slots)
		return -FI_ENOMEM;
	for (uint32_t i = 0; i < tm->base.max_entries; i++)
		tm->slots[i].next = i + 1;
	return 0;
}

static int open_all(struct verbs_tm *tm, const struct verbs_list_attr *attr)
{
	uint32_t bufs = TAGRV_MIN(TAGRV_MAX(attr->bufs, VERBS_LIST_BUFS_LEAST), VERBS_TM_BUFS_MOST);
	int ret = choose_sizes(tm, attr);

	if (!ret)
		ret = open_cq(tm, attr, bufs);
	if (!ret)
		ret = open_slots(tm);
	if (!ret)
		ret = open_srq(tm, attr->owner, bufs);
	if (!ret)
		ret = open_bufs(tm, bufs, attr->first_bufs, attr->buf_size);
	return ret;
}

int tagrv_verbs_tm_open(struct verbs_dev *dev, const struct verbs_list_attr *attr,
			struct tagrv_taglist **out)
{
	struct verbs_tm *tm = calloc(1, sizeof(*tm));
	int ret;

	if (!tm)
		return -FI_ENOMEM;
	tm->base.ops = &ops;
	tm->calls = dev->calls;
	tm->dev = dev;
	tm->rxq = attr->rxq;
	tm->receive = attr->receive;
	tm->permit = attr->permit;
	tm->match = attr->match;
	tm->keep = attr->keep;
	tm->owner = attr->owner;
	ret = open_all(tm, attr);
	if (ret) {
		tagrv_info("verbs: %s: no list of receives in the device: %s\n",
			   dev->base.name, strerror(-ret));
		tagrv_verbs_tm_close(&tm->base);
		return ret;
	}
	*out = &tm->base;
	return 0;
}

/* Closes a half-opened list, too. */
void tagrv_verbs_tm_close(struct tagrv_taglist *list)
{
	struct verbs_tm *tm = verbs_tm_of(list);

	if (tm->rxq->srq && tm->calls->destroy_srq(tm->rxq->srq))
		tagrv_warn("verbs: %s: cannot destroy the list of receives\n",
			   tm->dev->base.name);
	tm->rxq->srq = NULL;
	if (tm->unacked)
		tm->calls->ack_cq_events(ibv_cq_ex_to_cq(tm->cq), tm->unacked);
	if (tm->cq && tm->calls->destroy_cq(ibv_cq_ex_to_cq(tm->cq)))
		tagrv_warn("verbs: %s: cannot destroy the completion queue of a list\n",
			   tm->dev->base.name);
	for (uint32_t i = 0; tm->slots && i < list->max_entries; i++)
		if (tm->slots[i].entry)
			tm->slots[i].entry->due = 0;
	if (tm->stale)
		tagrv_info("verbs: %s: %llu stale completions of a list\n",
			   tm->dev->base.name, (unsigned long long) tm->stale);
	if (tm->lost)
		tagrv_info("verbs: %s: %u messages to a list stopped amid their bytes\n",
			   tm->dev->base.name, tm->lost);
	tagrv_verbs_rxq_fini(tm->rxq);
	free(tm->held);
	free(tm->slots);
	free(tm);
}

/* The device sends by the queue pair: it has no room for requests of ours. */
int tagrv_verbs_tm_qp_create(struct tagrv_taglist *list, void *ctx, struct ibv_qp **qp)
{
	struct verbs_tm *tm = verbs_tm_of(list);
	struct ibv_qp_init_attr attr = {
		.qp_context = ctx,
		.send_cq = ibv_cq_ex_to_cq(tm->cq),
		.recv_cq = ibv_cq_ex_to_cq(tm->cq),
		.srq = tm->rxq->srq,
		.qp_type = IBV_QPT_RC,
	};

	errno = 0;
	*qp = tm->calls->create_qp(tm->dev->pd, &attr);
	return *qp ? 0 : status_of_errno();
}

void tagrv_verbs_tm_fail(struct verbs_tm *tm, int status)
{
	if (!tm->fatal)
		tm->fatal = status;
}

static void fail(struct tagrv_taglist *list, int status)
{
	tagrv_verbs_tm_fail(verbs_tm_of(list), status);
}

static bool holds(struct tagrv_taglist *list)
{
	return verbs_tm_of(list)->held_cnt != 0;
}

const struct verbs_list_ops tagrv_verbs_tm_ops = {
	.open = tagrv_verbs_tm_open,
	.qp_create = tagrv_verbs_tm_qp_create,
	.deliver = tagrv_verbs_tm_deliver,
	.end = tagrv_verbs_tm_end,
	.holds = holds,
	.fail = fail,
	.reap = tagrv_verbs_tm_reap,
	.event = tagrv_verbs_tm_event,
	.arm = tagrv_verbs_tm_arm,
};
