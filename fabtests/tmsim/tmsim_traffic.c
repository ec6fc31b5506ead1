/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages of side a, commands and completions of side b.
 */
#include <dlfcn.h>
#include <endian.h>
#include <string.h>

#include "tmsim/tmsim_control.h"
#include "tmsim/tmsim_pair.h"

#define FIN_WR		0	/* wr_id of receives: below FIN_BUFS * LINKS */
#define SEND_WR		(1ull << 32)
#define HANG_SECONDS	60	/* nothing should take so long; then the case has failed */

bool pair_hangs(const struct timespec *begin)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - begin->tv_sec > HANG_SECONDS;
}

struct timespec pair_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now;
}

/* ---- side a ---- */

static void take_a(struct pair *pair, const struct ibv_wc *wc)
{
	const uint8_t *fin = pair->a.bufs + SEND_BUFS * RX_SIZE + (wc->wr_id % (FIN_BUFS * LINKS)) * HEADERS;
	struct ibv_sge sge = { .addr = (uintptr_t) fin, .length = HEADERS, .lkey = pair->a.bufs_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wc->wr_id, .sg_list = &sge, .num_sge = 1 };

	if (wc->status)
		pair->failed = true;
	if (wc->wr_id & SEND_WR) {
		pair->sending--;
	} else if (!wc->status) {
		memcpy(pair->last_fin, fin, HEADERS);
		pair->fins++;
		ibv_post_recv(pair->a.qp[wc->wr_id / FIN_BUFS], &wr, &bad);
	}
}

void pair_poll_a(struct pair *pair)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(pair->cq, 1, &wc) == 1)
		take_a(pair, &wc);
}

/* The sends of both queue pairs use the buffers in turn, and together no more than there are. */
static bool post(struct pair *pair, unsigned link, uint32_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t) pair->a.bufs + (pair->sent % SEND_BUFS) * RX_SIZE,
		.length = len,
		.lkey = pair->a.bufs_mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = SEND_WR,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	CHECK(!ibv_post_send(pair->a.qp[link], &wr, &bad));
	pair->sent++;
	pair->sending++;
	return true;
}

/* The headers of the next message, in its buffer. Each time the buffers begin anew, all messages have left them. */
static uint8_t *begin_send(struct pair *pair, uint8_t opcode, uint64_t tag, uint32_t app_ctx)
{
	uint8_t *at = pair->a.bufs + (pair->sent % SEND_BUFS) * RX_SIZE;
	struct ibv_tmh tmh = { .opcode = opcode, .app_ctx = htobe32(app_ctx), .tag = htobe64(tag) };

	if (pair->sent % SEND_BUFS == 0 && !pair_sent(pair))
		return NULL;
	memcpy(at, &tmh, sizeof(tmh));
	return at + sizeof(tmh);
}

bool pair_send(struct pair *pair, unsigned link, uint8_t opcode, uint64_t tag, uint32_t app_ctx,
	       const void *bytes, uint32_t len)
{
	uint8_t *at = begin_send(pair, opcode, tag, app_ctx);

	CHECK(at);
	memcpy(at, bytes, len);
	return post(pair, link, (uint32_t) sizeof(struct ibv_tmh) + len);
}

bool pair_send_rndv(struct pair *pair, unsigned link, uint64_t tag, uint32_t offset, uint32_t len)
{
	uint8_t *at = begin_send(pair, IBV_TMH_RNDV, tag, 0);
	struct ibv_rvh rvh = {
		.va = htobe64((uintptr_t) pair->a.area + offset),
		.rkey = htobe32(pair->a.area_mr->rkey),
		.len = htobe32(len),
	};

	CHECK(at);
	memcpy(at, &rvh, sizeof(rvh));
	return post(pair, link, HEADERS);
}

bool pair_sent(struct pair *pair)
{
	struct timespec begin = pair_clock();

	while (pair->sending) {
		pair_poll_a(pair);
		CHECK(!pair_hangs(&begin));
	}
	return true;
}

bool pair_fins(struct pair *pair, unsigned fins)
{
	struct timespec begin = pair_clock();

	while (pair->fins < fins) {
		pair_poll_a(pair);
		CHECK(!pair_hangs(&begin));
	}
	CHECK(pair->fins == fins);
	return true;
}

/* ---- side b: commands ---- */

static int command(struct pair *pair, struct ibv_ops_wr *wr)
{
	struct ibv_ops_wr *bad = NULL;
	int ret;

	wr->wr_id += COMMAND;
	ret = ibv_post_srq_ops(pair->srq, wr, &bad);
	return ret && bad != wr ? -1 : ret;
}

int pair_add(struct pair *pair, uint64_t wr_id, uint64_t tag, uint64_t mask, uint32_t buf, uint32_t len,
	     uint32_t count, uint32_t *handle)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t) pair->b.area + buf,
		.length = len,
		.lkey = pair->b.area_mr->lkey,
	};
	struct ibv_ops_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_TAG_ADD,
		.flags = (count & UNTOLD ? 0 : IBV_OPS_TM_SYNC) | (count & SILENT ? 0 : IBV_OPS_SIGNALED),
		.tm = {
			.unexpected_cnt = count & ~(UNTOLD | SILENT),
			.add = { .recv_wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .tag = tag, .mask = mask },
		},
	};
	int ret = command(pair, &wr);

	if (!ret && handle)
		*handle = wr.tm.handle;
	return ret;
}

int pair_del(struct pair *pair, uint64_t wr_id, uint32_t handle)
{
	struct ibv_ops_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_TAG_DEL,
		.flags = IBV_OPS_SIGNALED,
		.tm = { .handle = handle },
	};

	return command(pair, &wr);
}

int pair_sync(struct pair *pair, uint64_t wr_id, uint32_t count)
{
	struct ibv_ops_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_TAG_SYNC,
		.flags = IBV_OPS_TM_SYNC | IBV_OPS_SIGNALED,
		.tm = { .unexpected_cnt = count },
	};

	return command(pair, &wr);
}

bool pair_delays(struct pair *pair, uint32_t apply, uint32_t report, uint32_t data)
{
	__typeof__(&tmsim_control_delays) change =
		(__typeof__(&tmsim_control_delays)) (uintptr_t) dlsym(RTLD_DEFAULT, "tmsim_control_delays");

	CHECK(change);
	return change(pair->srq, apply, report, data);
}

bool pair_apply(struct pair *pair)
{
	__typeof__(&tmsim_control_apply) apply =
		(__typeof__(&tmsim_control_apply)) (uintptr_t) dlsym(RTLD_DEFAULT, "tmsim_control_apply");

	CHECK(apply);
	return apply(pair->srq);
}

/* ---- side b: messages and completions ---- */

const uint8_t *pair_buf(const struct pair *pair, uint64_t wr_id)
{
	return pair->b.bufs + wr_id * RX_SIZE;
}

bool pair_repost(struct pair *pair, uint64_t wr_id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t) pair_buf(pair, wr_id),
		.length = RX_SIZE,
		.lkey = pair->b.bufs_mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	CHECK(wr_id < RX_BUFS);
	CHECK(!ibv_post_srq_recv(pair->srq, &wr, &bad));
	return true;
}

bool pair_poll(struct pair *pair, struct got *got)
{
	struct ibv_poll_cq_attr attr = { .comp_mask = 0 };
	struct ibv_wc_tm_info info;

	if (ibv_start_poll(pair->cq_ex, &attr))
		return false;
	*got = (struct got) { .status = pair->cq_ex->status, .wr_id = pair->cq_ex->wr_id };
	got->opcode = ibv_wc_read_opcode(pair->cq_ex);
	got->flags = ibv_wc_read_wc_flags(pair->cq_ex) & TM_FLAGS;
	got->len = ibv_wc_read_byte_len(pair->cq_ex);
	got->qp_num = ibv_wc_read_qp_num(pair->cq_ex);
	ibv_wc_read_tm_info(pair->cq_ex, &info);
	got->tag = info.tag;
	got->priv = info.priv;
	ibv_end_poll(pair->cq_ex);
	return true;
}

bool pair_next(struct pair *pair, struct got *got)
{
	struct timespec begin = pair_clock();

	while (!pair_poll(pair, got)) {
		pair_poll_a(pair);
		CHECK(!pair_hangs(&begin));
	}
	return true;
}

bool pair_expect(struct pair *pair, enum ibv_wc_opcode opcode, enum ibv_wc_status status, unsigned flags,
		 uint64_t wr_id)
{
	struct got got;

	CHECK(pair_next(pair, &got));
	if (got.opcode == opcode && got.status == status && got.flags == flags && got.wr_id == wr_id)
		return true;
	printf("completion: opcode %d status %d flags %#x wr_id %#llx; should be %d %d %#x %#llx\n",
	       (int) got.opcode, (int) got.status, got.flags, (unsigned long long) got.wr_id, (int) opcode,
	       (int) status, flags, (unsigned long long) wr_id);
	return false;
}

bool pair_quiet(struct pair *pair)
{
	struct got got;

	CHECK(pair_send(pair, 0, IBV_TMH_NO_TAG, 0, 0, "quiet", 5));
	CHECK(pair_sent(pair));
	CHECK(pair_next(pair, &got));
	CHECK(got.opcode == IBV_WC_TM_NO_TAG && !got.status && got.len == 16 + 5);
	CHECK(!memcmp(pair_buf(pair, got.wr_id) + 16, "quiet", 5));
	return pair_repost(pair, got.wr_id);
}
