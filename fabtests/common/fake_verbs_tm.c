/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake RDMA devices: lists of tagged receives (shared receive queues of type IBV_SRQT_TM), and
 * the extended completion queues that tell of them. What a list does is in tag_list.c; here it
 * gets its messages and buffers, and a queue pair to read a rendezvous with.
 *
 * As with mlx5 (providers/mlx5 of rdma-core: verbs.c, qp.c, cq.c):
 *   - Receives complete in the CQ of the list, which is extended and polled as such.
 *   - The device owns the send queue of the queue pairs: READ and FIN of a rendezvous.
 *   - Completions of a queue pair that is destroyed stay in that CQ: __mlx5_cq_clean() removes
 *     those with the number of the queue pair, but what tells of a list has the list's.
 *   - What the device itself reports, without a packet, names no queue pair.
 *   - Less than config.tm_least posted buffers, and nothing is received.
 */
#include "common/fake_verbs_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/tag_list.h"

/* Of a queue pair that the device sends by. */
#define DEVICE_WRS	16u
#define DEVICE_INLINE	64u

#define MASK	(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | \
		 IBV_SRQ_INIT_ATTR_TM)

static struct fake_srq *srq_of(struct ibv_srq *srq)
{
	return tagrv_container_of(srq, struct fake_srq, base);
}

struct tag_list *fake_verbs_list(struct ibv_srq *srq)
{
	return srq_of(srq)->list;
}

int fv_query_device_ex(struct ibv_context *ctx, struct ibv_device_attr_ex *attr)
{
	*attr = (struct ibv_device_attr_ex) { .tm_caps = fv.config.tm };
	return fv_query_device(ctx, &attr->orig_attr);
}

/* ---- lists ---- */

static int check_list(const struct ibv_srq_init_attr_ex *attr)
{
	const struct ibv_tm_caps *caps = &fv.config.tm;
	const struct fake_cq *cq;

	if (!(caps->flags & IBV_TM_CAP_RC))
		return EOPNOTSUPP;
	if (attr->comp_mask != MASK || attr->srq_type != IBV_SRQT_TM || !attr->cq)
		return EINVAL;
	cq = tagrv_container_of(attr->cq, struct fake_cq, base);
	if (!cq->has_tm || !attr->tm_cap.max_num_tags || !attr->tm_cap.max_ops ||
	    attr->tm_cap.max_num_tags > caps->max_num_tags ||
	    attr->tm_cap.max_ops > caps->max_ops)
		return EINVAL;
	return 0;
}

struct ibv_srq *fv_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr plain = {
		.srq_context = attr->srq_context, .attr = attr->attr,
	};
	const struct tag_list_config config = {
		.max_tags = attr->tm_cap.max_num_tags, .max_ops = attr->tm_cap.max_ops,
		.mtu = fv.config.tm_mtu, .no_read = fv.config.tm_no_read,
	};
	struct ibv_srq *base;
	struct fake_srq *srq;
	int err = check_list(attr);

	(void) ctx;
	base = err ? NULL : fv_create_srq(attr->pd, &plain);
	if (!base) {
		errno = err ? err : errno;
		return NULL;
	}
	srq = srq_of(base);
	srq->cq = attr->cq;
	LOCK();
	tagrv_container_of(srq->cq, struct fake_cq, base)->users++;
	UNLOCK();
	srq->list = tag_list_create(&config);
	srq->lkeys = calloc(config.max_tags, sizeof(*srq->lkeys));
	if (srq->list && srq->lkeys)
		return base;
	fv_destroy_srq(base);
	errno = ENOMEM;
	return NULL;
}

void fv_tm_close(struct fake_srq *srq)
{
	if (!srq->cq)
		return;
	tagrv_container_of(srq->cq, struct fake_cq, base)->users--;
	tag_list_destroy(srq->list);
	free(srq->lkeys);
}

/* Whether a queue pair may have its receives from this queue. */
bool fv_tm_fits(const struct ibv_qp_init_attr *attr)
{
	const struct fake_srq *srq = attr->srq ? srq_of(attr->srq) : NULL;

	return !srq || !srq->list || (!attr->cap.max_send_wr && attr->recv_cq == srq->cq);
}

void fv_tm_own(struct fake_qp *qp, struct ibv_srq *srq)
{
	if (!srq || !srq_of(srq)->list)
		return;
	qp->device_sends = true;
	qp->cap.max_send_wr = DEVICE_WRS;
	qp->cap.max_inline_data = DEVICE_INLINE;
}

/* ---- commands ---- */

static const struct ibv_wc no_packet;

/* An entry in the CQ for each completion that the list has and the CQ does not. */
static void announce(struct fake_srq *srq, const struct ibv_wc *wc)
{
	const struct cq_entry entry = { .wc = *wc, .srq = srq };

	for (; srq->announced < tag_list_ready(srq->list); srq->announced++)
		fv_push_entry(srq->cq, &entry);
}

static int check_command(const struct fake_srq *srq, const struct ibv_ops_wr *wr)
{
	const struct ibv_sge *sge = wr->tm.add.sg_list;

	if (wr->opcode != IBV_WR_TAG_ADD)
		return wr->opcode > IBV_WR_TAG_SYNC ? EINVAL : 0;
	if (wr->tm.add.num_sge < 0 || wr->tm.add.num_sge > (int) fv.config.tm.max_sge)
		return EINVAL;
	if (!wr->tm.add.num_sge || !sge->length)
		return 0;
	return fv_covered(srq->base.pd, sge->lkey, false, sge->addr, sge->length,
			  IBV_ACCESS_LOCAL_WRITE) ? 0 : EINVAL;
}

static int post_command(struct fake_srq *srq, struct ibv_ops_wr *wr)
{
	static const enum tag_list_code codes[] = {
		[IBV_WR_TAG_ADD] = TAG_LIST_ADD,
		[IBV_WR_TAG_DEL] = TAG_LIST_DEL,
		[IBV_WR_TAG_SYNC] = TAG_LIST_SYNC,
	};
	bool has_buf = wr->opcode == IBV_WR_TAG_ADD && wr->tm.add.num_sge;
	struct tag_list_cmd cmd;
	int err = check_command(srq, wr);

	if (err)
		return err;
	cmd = (struct tag_list_cmd) {
		.code = codes[wr->opcode],
		.signaled = wr->flags & IBV_OPS_SIGNALED,
		.sync = wr->flags & IBV_OPS_TM_SYNC,
		.wr_id = wr->wr_id,
		.count = wr->tm.unexpected_cnt,
		.handle = wr->tm.handle,
		.recv_wr_id = wr->tm.add.recv_wr_id,
		.tag = wr->tm.add.tag, .mask = wr->tm.add.mask,
		.buf = has_buf ? (void *) (uintptr_t) wr->tm.add.sg_list->addr : NULL,
		.len = has_buf ? wr->tm.add.sg_list->length : 0,
	};
	err = -tag_list_post(srq->list, &cmd);
	if (!err && wr->opcode == IBV_WR_TAG_ADD) {
		wr->tm.handle = cmd.handle;
		srq->lkeys[cmd.handle] = has_buf ? wr->tm.add.sg_list->lkey : 0;
	}
	return err;
}

int fv_post_srq_ops(struct ibv_srq *base, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	struct fake_srq *srq = srq_of(base);
	int err;

	LOCK();
	err = srq->list ? fires(&fv.srq_ops) : EINVAL;
	for (; wr && !err; wr = err ? wr : wr->next)
		err = post_command(srq, wr);
	if (err)
		*bad = wr;
	else
		announce(srq, &no_packet);
	UNLOCK();
	return err;
}

/* ---- messages ---- */

static struct send_wr *new_wr(struct fake_qp *qp, enum ibv_wr_opcode opcode, size_t len)
{
	struct send_wr *wr = fv_sq_at(qp, qp->posted++);

	*wr = (struct send_wr) { .wr = { .opcode = opcode }, .len = len };
	return wr;
}

/* The device reads the bytes of a rendezvous, then tells the sender by a copy of the headers. */
static void read_rndv(struct fake_qp *qp, const struct tag_list_read *read, const void *headers)
{
	const struct fake_srq *srq = srq_of(qp->base.srq);
	struct send_wr *wr = new_wr(qp, IBV_WR_RDMA_READ, read->len);

	wr->wr.num_sge = 1;
	wr->wr.wr.rdma.remote_addr = read->va;
	wr->wr.wr.rdma.rkey = read->rkey;
	wr->sge[0] = (struct ibv_sge) {
		.addr = (uintptr_t) read->buf, .length = read->len,
		.lkey = srq->lkeys[read->handle],
	};
	wr->handle = read->handle;
	wr = new_wr(qp, IBV_WR_SEND, TAG_LIST_TMH + TAG_LIST_RVH);
	wr->inlined = qp->inline_mem + (size_t) (wr - qp->sq) * (qp->cap.max_inline_data + 1);
	memcpy(wr->inlined, headers, wr->len);
	wr->inlined[0] = TAG_LIST_OP_FIN;
}

void fv_tm_sent(struct fake_qp *qp, uint32_t seq, enum ibv_wc_status status)
{
	const struct send_wr *wr = fv_sq_at(qp, seq);
	struct fake_srq *srq = srq_of(qp->base.srq);

	qp->freed = seq + 1;
	if (wr->wr.opcode != IBV_WR_RDMA_READ)
		return;
	tag_list_read_done(srq->list, wr->handle, !status);
	announce(srq, &no_packet);
}

bool fv_tm_blocks(const struct fake_qp *qp)
{
	const struct fake_srq *srq = srq_of(qp->base.srq);

	return srq->rq.cnt < TAGRV_MAX(fv.config.tm_least, 1u) ||
	       qp->posted - qp->freed + 2 > qp->cap.max_send_wr;
}

bool fv_tm_matches(const struct fake_qp *qp, const void *bytes, size_t len)
{
	return tag_list_would_match(srq_of(qp->base.srq)->list, bytes, len);
}

bool fv_tm_arrive(struct fake_qp *qp, const void *bytes, size_t len, const struct ibv_wc *wc)
{
	struct fake_srq *srq = srq_of(qp->base.srq);
	struct tag_list_read read;
	enum tag_list_fate fate = tag_list_arrive(srq->list, bytes, len, wc->wr_id, &read);

	announce(srq, wc);
	if (fate == TAG_LIST_READ)
		read_rndv(qp, &read, bytes);
	return fate != TAG_LIST_UNMATCHED;
}

/* ---- completions ---- */

static enum ibv_wc_opcode opcode_of(enum tag_list_code code)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[TAG_LIST_ADD] = IBV_WC_TM_ADD, [TAG_LIST_DEL] = IBV_WC_TM_DEL,
		[TAG_LIST_SYNC] = IBV_WC_TM_SYNC, [TAG_LIST_RECV] = IBV_WC_TM_RECV,
		[TAG_LIST_NO_TAG] = IBV_WC_TM_NO_TAG,
	};

	return opcodes[code];
}

static enum ibv_wc_status status_of(enum tag_list_status status)
{
	static const enum ibv_wc_status statuses[] = {
		[TAG_LIST_OK] = IBV_WC_SUCCESS, [TAG_LIST_GONE] = IBV_WC_TM_ERR,
		[TAG_LIST_INCOMPLETE] = IBV_WC_TM_RNDV_INCOMPLETE,
		[TAG_LIST_TOO_LONG] = IBV_WC_LOC_LEN_ERR,
		[TAG_LIST_LOST] = IBV_WC_TM_RNDV_INCOMPLETE,
	};

	return statuses[status];
}

static unsigned flags_of(const struct tag_list_record *rec)
{
	unsigned flags = rec->flags & TAG_LIST_SYNC_REQ ? IBV_WC_TM_SYNC_REQ : 0;

	/* mlx5: MLX5_CQE_APP_OP_TM_MSG_COMPLETION_CANCELED */
	if (rec->status == TAG_LIST_LOST)
		return flags | IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID;
	return flags | (rec->flags & TAG_LIST_MATCH ? IBV_WC_TM_MATCH : 0) |
	       (rec->flags & TAG_LIST_DATA ? IBV_WC_TM_DATA_VALID : 0);
}

static void fill(struct cq_entry *entry, const struct tag_list_record *rec)
{
	bool has_packet = rec->code == TAG_LIST_NO_TAG ||
			  (rec->code == TAG_LIST_RECV && rec->flags != TAG_LIST_MATCH &&
			   rec->flags != TAG_LIST_DATA);

	entry->wc.wr_id = rec->wr_id;
	entry->wc.opcode = rec->status == TAG_LIST_LOST ? IBV_WC_RECV : opcode_of(rec->code);
	entry->wc.status = status_of(rec->status);
	entry->wc.wc_flags = flags_of(rec) | (has_packet ? entry->wc.wc_flags : 0);
	entry->wc.byte_len = rec->length;
	if (!has_packet)
		entry->wc.qp_num = 0;
	entry->tm = (struct ibv_wc_tm_info) { .tag = rec->tag, .priv = rec->app_ctx };
}

/* The next completion as a caller sees it. */
static bool take(struct fake_cq *cq)
{
	struct tag_list_record rec;

	if (!fv_take_entry(cq, &cq->now))
		return false;
	if (cq->now.srq) {
		tag_list_poll(cq->now.srq->list, &rec);
		cq->now.srq->announced--;
		fill(&cq->now, &rec);
	}
	cq->ex.wr_id = cq->now.wc.wr_id;
	cq->ex.status = cq->now.wc.status;
	return true;
}

/* The lists' clock goes by polls. */
static void tick(struct fake_cq *cq)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&fv.srqs, pos) {
		struct fake_srq *srq = tagrv_container_of(pos, struct fake_srq, node);

		if (!srq->list || srq->cq != &cq->base)
			continue;
		tag_list_tick(srq->list);
		announce(srq, &no_packet);
	}
}

static struct fake_cq *ex_of(struct ibv_cq_ex *ex)
{
	return tagrv_container_of(ex, struct fake_cq, ex);
}

/* As with mlx5, a queue that start_poll finds empty is not to be ended. */
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct fake_cq *cq = ex_of(ex);

	if (attr->comp_mask || cq->polling)
		abort();
	LOCK();
	fv_before_poll(cq);
	tick(cq);
	cq->polling = take(cq);
	UNLOCK();
	return cq->polling ? 0 : ENOENT;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct fake_cq *cq = ex_of(ex);
	bool took;

	if (!cq->polling)
		abort();
	LOCK();
	took = take(cq);
	UNLOCK();
	return took ? 0 : ENOENT;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	if (!ex_of(ex)->polling)
		abort();
	ex_of(ex)->polling = false;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->now.wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->now.wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->now.wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->now.wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->now.wc.qp_num;
}

static unsigned read_wc_flags(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->now.wc.wc_flags;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	*info = ex_of(ex)->now.tm;
}

struct ibv_cq_ex *fv_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t known = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO;
	struct ibv_cq *base = NULL;
	struct fake_cq *cq;

	errno = EOPNOTSUPP;
	if (!(attr->wc_flags & ~known) && !attr->comp_mask)
		base = fv_create_cq(ctx, (int) attr->cqe, attr->cq_context, attr->channel,
				    (int) attr->comp_vector);
	if (!base)
		return NULL;
	cq = tagrv_container_of(base, struct fake_cq, base);
	cq->extended = true;
	cq->has_tm = attr->wc_flags & IBV_WC_EX_WITH_TM_INFO;
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_imm_data = read_imm_data;
	cq->ex.read_qp_num = read_qp_num;
	cq->ex.read_wc_flags = read_wc_flags;
	if (cq->has_tm)
		cq->ex.read_tm_info = read_tm_info;
	return &cq->ex;
}
