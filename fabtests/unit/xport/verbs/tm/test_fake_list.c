/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The fake devices' lists of tagged receives, by plain verbs calls: that they do what the
 * documentation of libibverbs says, and what mlx5's library does where that is silent.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <endian.h>
#include <infiniband/tm_types.h>
#include <stdlib.h>
#include <string.h>

#include "common/tag_list.h"
#include "unit/xport/verbs/tm/list_peer.h"

#define BUF	1024u		/* bytes of a receive buffer, or of an entry's */
#define BUFS	8
#define SLOTS	16

/* The side with the list: device 0. */
static struct {
	const struct tagrv_verbs_calls *calls;
	struct ibv_context *ctx;
	struct ibv_pd	*pd;
	struct ibv_cq_ex *cq;
	struct ibv_srq	*srq;
	struct ibv_qp	*qp;
	struct ibv_mr	*mr;
	char	mem[(BUFS + SLOTS) * BUF];
} own;

static struct list_peer peer;
static struct fake_verbs_config config;

static void prepare(void)
{
	config = list_devices();
}

TestSuite(fake_list, .init = prepare, .timeout = 10);

static char *buf_at(unsigned i)
{
	return own.mem + i * BUF;
}

static char *slot_at(unsigned i)
{
	return own.mem + (BUFS + i) * BUF;
}

static void post_buf(unsigned i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t) buf_at(i), .length = BUF, .lkey = own.mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	cr_assert_eq(own.calls->post_srq_recv(own.srq, &wr, &bad), 0);
}

static struct ibv_srq *create_list(struct ibv_cq *cq, uint32_t tags, uint32_t ops)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 64, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM, .pd = own.pd, .cq = cq,
		.tm_cap = { .max_num_tags = tags, .max_ops = ops },
	};

	return own.calls->create_srq_ex(own.ctx, &attr);
}

static struct ibv_qp *create_qp(uint32_t send_wr)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .srq = own.srq,
		.send_cq = (struct ibv_cq *) own.cq, .recv_cq = (struct ibv_cq *) own.cq,
		.cap = { .max_send_wr = send_wr, .max_send_sge = 1 },
	};

	return own.calls->create_qp(own.pd, &attr);
}

static void start(unsigned bufs)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 256, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO,
	};

	fake_verbs_start(&config);
	own.calls = tagrv_verbs_calls_get();
	own.ctx = list_open_device(0);
	own.pd = own.calls->alloc_pd(own.ctx);
	own.mr = own.calls->reg_mr(own.pd, own.mem, sizeof(own.mem), IBV_ACCESS_LOCAL_WRITE);
	own.cq = own.calls->create_cq_ex(own.ctx, &attr);
	cr_assert_not_null(own.cq);
	own.srq = create_list((struct ibv_cq *) own.cq, 8, 4);
	cr_assert_not_null(own.srq);
	own.qp = create_qp(0);
	cr_assert_not_null(own.qp);
	for (unsigned i = 0; i < bufs; i++)
		post_buf(i);
	list_peer_open(&peer);
	list_peer_connect(&peer, own.qp);
}

static void stop(void)
{
	if (own.qp)
		cr_assert_eq(own.calls->destroy_qp(own.qp), 0);
	cr_assert_eq(own.calls->destroy_srq(own.srq), 0);
	cr_assert_eq(own.calls->destroy_cq((struct ibv_cq *) own.cq), 0);
	own.calls->dereg_mr(own.mr);
	own.calls->dealloc_pd(own.pd);
	own.calls->close_device(own.ctx);
	list_peer_close(&peer);
	cr_assert_eq(fake_verbs_count().objects, 0);
	cr_assert_eq(fake_verbs_count().cq_overflows, 0);
	fake_verbs_stop();
}

struct seen {
	enum ibv_wc_opcode opcode;
	enum ibv_wc_status status;
	unsigned flags;
	uint64_t wr_id;
	uint32_t len, imm, qpn;
	struct ibv_wc_tm_info tm;
};

/* The next completion must be there. */
static struct seen next(void)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct seen seen;

	cr_assert_eq(ibv_start_poll(own.cq, &attr), 0);
	seen = (struct seen) {
		.opcode = ibv_wc_read_opcode(own.cq), .status = own.cq->status,
		.flags = ibv_wc_read_wc_flags(own.cq), .wr_id = own.cq->wr_id,
		.len = ibv_wc_read_byte_len(own.cq), .qpn = ibv_wc_read_qp_num(own.cq),
		.imm = be32toh(ibv_wc_read_imm_data(own.cq)),
	};
	ibv_wc_read_tm_info(own.cq, &seen.tm);
	ibv_end_poll(own.cq);
	return seen;
}

static bool is_empty(void)
{
	struct ibv_poll_cq_attr attr = { 0 };

	return ibv_start_poll(own.cq, &attr) == ENOENT;
}

static int post_op(enum ibv_ops_wr_opcode opcode, uint64_t wr_id, uint32_t *handle,
		   uint64_t tag, uint32_t len, int count)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t) slot_at((unsigned) wr_id), .length = len,
		.lkey = own.mr->lkey,
	};
	struct ibv_ops_wr wr = {
		.wr_id = wr_id, .opcode = opcode,
		.flags = IBV_OPS_SIGNALED | (count >= 0 ? IBV_OPS_TM_SYNC : 0),
		.tm = { .unexpected_cnt = (uint32_t) count, .handle = *handle,
			.add = { .recv_wr_id = 100 + wr_id, .sg_list = &sge, .num_sge = 1,
				 .tag = tag, .mask = UINT64_MAX } },
	}, *bad;
	int err = own.calls->post_srq_ops(own.srq, &wr, &bad);

	*handle = wr.tm.handle;
	return err;
}

/* Adds entry i, which is complete; count: software's, -1: it tells none. */
static uint32_t add(unsigned i, uint64_t tag, uint32_t len, int count)
{
	uint32_t handle = 0;
	struct seen seen;

	cr_assert_eq(post_op(IBV_WR_TAG_ADD, i, &handle, tag, len, count), 0);
	seen = next();
	cr_assert(seen.opcode == IBV_WC_TM_ADD && seen.wr_id == i && !seen.status);
	return handle;
}

static void assert_filled(const char *mem, char fill, size_t len)
{
	for (size_t i = 0; i < len; i++)
		cr_assert_eq(mem[i], fill, "byte %zu is %d", i, mem[i]);
}

Test(fake_list, a_match_has_no_header_and_needs_no_buffer)
{
	struct seen seen;

	start(1);
	add(0, 5, BUF, -1);
	list_peer_eager(&peer, 5, 0x12345678, 'm', 300);
	seen = next();
	cr_assert(seen.opcode == IBV_WC_TM_RECV && !seen.status && seen.wr_id == 100 &&
		  seen.flags == (IBV_WC_GRH | IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID) &&
		  seen.len == 300 && seen.qpn == own.qp->qp_num &&
		  seen.tm.tag == 5 && seen.tm.priv == 0x12345678);
	assert_filled(slot_at(0), 'm', 300);
	list_peer_no_tag(&peer, 'n', 10, 0);	/* the buffer is still there */
	cr_assert_eq(next().opcode, IBV_WC_TM_NO_TAG);
	cr_assert(is_empty());
	stop();
}

Test(fake_list, what_does_not_match_comes_whole)
{
	const struct ibv_tmh *tmh = (const void *) buf_at(0);
	struct seen seen;

	start(2);
	add(0, 5, BUF, -1);
	list_peer_eager(&peer, 6, 7, 'u', 300);
	seen = next();
	cr_assert(seen.opcode == IBV_WC_TM_RECV && !seen.status && seen.wr_id == 0 &&
		  seen.flags == IBV_WC_GRH && seen.len == sizeof(*tmh) + 300 &&
		  seen.tm.tag == 6 && seen.tm.priv == 7);
	cr_assert(tmh->opcode == IBV_TMH_EAGER && be64toh(tmh->tag) == 6);
	assert_filled(buf_at(0) + sizeof(*tmh), 'u', 300);
	stop();
}

Test(fake_list, after_an_unexpected_message_additions_wait_for_the_count)
{
	uint32_t none = 0;

	start(3);
	list_peer_eager(&peer, 5, 0, 'u', 10);
	cr_assert_eq(next().flags, IBV_WC_GRH);
	add(0, 5, BUF, 0);
	list_peer_eager(&peer, 5, 0, 'v', 10);
	cr_assert_eq(next().flags, IBV_WC_GRH);		/* the second passes the entry */
	cr_assert_eq(post_op(IBV_WR_TAG_SYNC, 1, &none, 0, 0, 2), 0);
	cr_assert_eq(next().opcode, IBV_WC_TM_SYNC);
	list_peer_eager(&peer, 5, 0, 'w', 10);
	cr_assert(next().flags & IBV_WC_TM_MATCH);
	assert_filled(slot_at(0), 'w', 10);
	stop();
}

Test(fake_list, untagged_packets_keep_their_immediate_data)
{
	struct seen seen;

	start(1);
	list_peer_no_tag(&peer, 'n', 10, 0xabcd);
	seen = next();
	cr_assert(seen.opcode == IBV_WC_TM_NO_TAG && seen.imm == 0xabcd &&
		  seen.flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) && seen.len == 26);
	stop();
}

Test(fake_list, the_device_reads_a_rendezvous_and_tells_the_sender)
{
	const uint8_t *fin;
	struct seen seen;

	start(1);
	add(0, 5, BUF, -1);
	list_peer_rndv(&peer, 5, 'r', BUF, 0);
	seen = next();
	cr_assert(seen.wr_id == 100 && seen.flags == IBV_WC_TM_MATCH && !seen.status &&
		  !seen.qpn && seen.tm.tag == 5);
	seen = next();
	cr_assert(seen.wr_id == 100 && seen.flags == IBV_WC_TM_DATA_VALID && !seen.status &&
		  seen.len == BUF);
	assert_filled(slot_at(0), 'r', BUF);
	fin = list_peer_fin(&peer);
	cr_assert_not_null(fin);
	cr_assert_eq(fin[0], IBV_TMH_FIN);
	cr_assert_arr_eq(fin + 1, peer.mem + 1, PEER_HEADERS - 1);
	stop();
}

Test(fake_list, a_rendezvous_that_does_not_fit_leaves_its_headers)
{
	struct seen seen;

	start(1);
	add(0, 5, 100, -1);
	list_peer_rndv(&peer, 5, 'r', 101, 0);
	seen = next();
	cr_assert(seen.status == IBV_WC_TM_RNDV_INCOMPLETE && seen.wr_id == 100);
	cr_assert_arr_eq(slot_at(0), peer.mem, PEER_HEADERS + sizeof("private"));
	cr_assert_null(list_peer_fin(&peer));
	cr_assert(is_empty());
	stop();
}

Test(fake_list, a_read_that_fails_is_told)
{
	enum ibv_wc_status status;
	struct seen seen;

	start(1);
	add(0, 5, BUF, -1);
	list_peer_rndv(&peer, 5, 'r', BUF, 0x7777);
	cr_assert_eq(next().flags, IBV_WC_TM_MATCH);
	seen = next();
	cr_assert(seen.status == IBV_WC_TM_RNDV_INCOMPLETE && seen.wr_id == 100 &&
		  seen.flags == (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID));
	cr_assert_eq(own.qp->state, IBV_QPS_ERR);
	cr_assert_gt(list_peer_poll(&peer, &status), 0);
	stop();
}

Test(fake_list, a_deletion_that_is_late_is_refused)
{
	uint32_t first, second;
	struct seen seen;

	start(1);
	first = add(0, 5, BUF, -1);
	second = add(1, 6, BUF, -1);
	cr_assert_eq(post_op(IBV_WR_TAG_DEL, 2, &first, 0, 0, -1), 0);
	seen = next();
	cr_assert(seen.opcode == IBV_WC_TM_DEL && !seen.status && seen.wr_id == 2);
	list_peer_eager(&peer, 6, 0, 'm', 10);
	cr_assert_eq(post_op(IBV_WR_TAG_DEL, 3, &second, 0, 0, -1), 0);
	cr_assert_eq(next().wr_id, 101);
	seen = next();
	cr_assert(seen.opcode == IBV_WC_TM_DEL && seen.status == IBV_WC_TM_ERR && seen.wr_id == 3);
	stop();
}

Test(fake_list, a_long_message_completes_twice)
{
	config.tm_mtu = 256;
	start(1);
	add(0, 5, BUF, -1);
	list_peer_eager(&peer, 5, 0, 'm', 257);
	cr_assert_eq(next().flags, IBV_WC_TM_MATCH);
	cr_assert_eq(next().flags, IBV_WC_TM_DATA_VALID);
	assert_filled(slot_at(0), 'm', 257);
	stop();
}

Test(fake_list, nothing_is_received_with_too_few_buffers)
{
	config.tm_least = 3;
	start(2);
	add(0, 5, BUF, -1);
	list_peer_eager(&peer, 5, 0, 'm', 10);
	cr_assert(is_empty());
	cr_assert_eq(fake_verbs_count().rnr, 1);
	post_buf(2);
	cr_assert(next().flags & IBV_WC_TM_MATCH);
	stop();
}

Test(fake_list, entries_and_commands_are_limited)
{
	struct tag_list_delays hold = { .apply = TAG_LIST_HOLD };
	uint32_t handle = 0;

	start(1);
	tag_list_set_delays(fake_verbs_list(own.srq), &hold);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(post_op(IBV_WR_TAG_ADD, i, &handle, i, BUF, -1), 0);
	cr_assert_eq(post_op(IBV_WR_TAG_ADD, 4, &handle, 4, BUF, -1), ENOMEM);
	while (tag_list_apply(fake_verbs_list(own.srq)))
		;
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(next().wr_id, i);
	tag_list_set_delays(fake_verbs_list(own.srq), &(struct tag_list_delays) { 0 });
	for (unsigned i = 4; i < 8; i++)
		add(i, i, BUF, -1);
	cr_assert_eq(post_op(IBV_WR_TAG_ADD, 8, &handle, 8, BUF, -1), ENOMEM);
	stop();
}

Test(fake_list, wrong_calls_are_refused)
{
	struct ibv_sge sge = { .addr = (uintptr_t) slot_at(0), .length = 8 };
	struct ibv_ops_wr wr = {
		.opcode = IBV_WR_TAG_ADD,
		.tm = { .add = { .sg_list = &sge, .num_sge = 1 } },
	}, *bad = NULL;
	struct ibv_cq *plain;

	start(1);
	cr_assert_null(create_qp(1));
	cr_assert_null(create_list((struct ibv_cq *) own.cq, 9, 4));
	cr_assert_null(create_list((struct ibv_cq *) own.cq, 8, 5));
	plain = own.calls->create_cq(own.ctx, 16, NULL, NULL, 0);
	cr_assert_null(create_list(plain, 8, 4));
	own.calls->destroy_cq(plain);
	cr_assert_eq(own.calls->post_srq_ops(own.srq, &wr, &bad), EINVAL);	/* no lkey */
	cr_assert_eq(bad, &wr);
	stop();
}

Test(fake_list, a_device_without_lists_says_so)
{
	struct ibv_device_attr_ex attr;

	start(1);
	cr_assert_eq(own.calls->query_device_ex(own.ctx, &attr), 0);
	cr_assert(attr.tm_caps.max_num_tags == 8 && attr.tm_caps.flags == IBV_TM_CAP_RC);
	stop();
	config.tm.flags = 0;
	fake_verbs_start(&config);
	own.ctx = list_open_device(0);
	cr_assert_null(create_list((struct ibv_cq *) own.cq, 8, 4));
	cr_assert_eq(errno, EOPNOTSUPP);
	own.calls->close_device(own.ctx);
	fake_verbs_stop();
}

Test(fake_list, completions_outlive_the_queue_pair)
{
	config.purges_cq = true;
	start(2);
	add(0, 5, BUF, -1);
	list_peer_eager(&peer, 5, 0, 'm', 10);
	list_peer_no_tag(&peer, 'n', 10, 0);
	cr_assert_eq(own.calls->destroy_qp(own.qp), 0);
	own.qp = NULL;
	cr_assert_eq(next().wr_id, 100);
	cr_assert_eq(next().opcode, IBV_WC_TM_NO_TAG);
	stop();
}
