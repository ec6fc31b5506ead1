/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A peer of a list of tagged receives: see list_peer.h.
 */
#include "unit/xport/verbs/tm/list_peer.h"

#include <criterion/criterion.h>
#include <endian.h>
#include <infiniband/tm_types.h>
#include <stdlib.h>
#include <string.h>

#define FIN_AT	(PEER_MEM - 64)
#define RNDV_AT	(PEER_MEM / 2)
#define PSN	7

static const char private_bytes[] = "private";

struct fake_verbs_config list_devices(void)
{
	struct fake_verbs_config config = fake_verbs_as(NULL);

	config.tm = (struct ibv_tm_caps) {
		.max_rndv_hdr_size = 64, .max_num_tags = 8, .flags = IBV_TM_CAP_RC,
		.max_ops = 4, .max_sge = 1,
	};
	return config;
}

struct ibv_context *list_open_device(unsigned dev)
{
	const struct tagrv_verbs_calls *calls = tagrv_verbs_calls_get();
	struct ibv_context *ctx;
	struct ibv_device **list;
	int cnt = 0;

	list = calls->get_device_list(&cnt);
	cr_assert(list && (unsigned) cnt > dev);
	ctx = calls->open_device(list[dev]);
	cr_assert_not_null(ctx);
	calls->free_device_list(list);
	return ctx;
}

void list_qp_connect(const struct tagrv_verbs_calls *calls, struct ibv_qp *qp, unsigned dev,
		     uint32_t other)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ,
	};

	cr_assert_eq(calls->modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS), 0);
	attr = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTR, .dest_qp_num = other, .rq_psn = PSN,
		.ah_attr = { .is_global = 1 },
	};
	/* The GID of the other device: ::ffff:10.9.dev.port */
	attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
	attr.ah_attr.grh.dgid.raw[12] = 10;
	attr.ah_attr.grh.dgid.raw[13] = 9;
	attr.ah_attr.grh.dgid.raw[14] = (uint8_t) !dev;
	attr.ah_attr.grh.dgid.raw[15] = 1;
	cr_assert_eq(calls->modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER), 0);
	attr = (struct ibv_qp_attr) { .qp_state = IBV_QPS_RTS, .sq_psn = PSN };
	cr_assert_eq(calls->modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

static void post_fin_buffer(struct list_peer *peer)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t) peer->mem + FIN_AT, .length = 64, .lkey = peer->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	cr_assert_eq(peer->calls->post_recv(peer->qp, &wr, &bad), 0);
}

void list_peer_open(struct list_peer *peer)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64, .max_recv_wr = 4, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	peer->calls = tagrv_verbs_calls_get();
	peer->ctx = list_open_device(1);
	peer->pd = peer->calls->alloc_pd(peer->ctx);
	peer->cq = peer->calls->create_cq(peer->ctx, 256, NULL, NULL, 0);
	peer->mem = calloc(1, PEER_MEM);
	cr_assert(peer->pd && peer->cq && peer->mem);
	peer->mr = peer->calls->reg_mr(peer->pd, peer->mem, PEER_MEM,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	attr.send_cq = attr.recv_cq = peer->cq;
	peer->qp = peer->calls->create_qp(peer->pd, &attr);
	cr_assert(peer->mr && peer->qp);
	post_fin_buffer(peer);
}

void list_peer_connect(struct list_peer *peer, struct ibv_qp *to)
{
	list_qp_connect(peer->calls, peer->qp, 1, to->qp_num);
	list_qp_connect(peer->calls, to, 0, peer->qp->qp_num);
}

void list_peer_close(struct list_peer *peer)
{
	cr_assert_eq(peer->calls->destroy_qp(peer->qp), 0);
	cr_assert_eq(peer->calls->destroy_cq(peer->cq), 0);
	cr_assert_eq(peer->calls->dereg_mr(peer->mr), 0);
	cr_assert_eq(peer->calls->dealloc_pd(peer->pd), 0);
	cr_assert_eq(peer->calls->close_device(peer->ctx), 0);
	free(peer->mem);
}

static void send_bytes(struct list_peer *peer, size_t len, uint32_t imm)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t) peer->mem, .length = (uint32_t) len, .lkey = peer->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, .imm_data = htobe32(imm),
		.send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1,
	}, *bad;

	cr_assert_eq(peer->calls->post_send(peer->qp, &wr, &bad), 0);
}

static size_t put_tmh(struct list_peer *peer, enum ibv_tmh_op op, uint64_t tag, uint32_t app)
{
	struct ibv_tmh tmh = {
		.opcode = (uint8_t) op, .app_ctx = htobe32(app), .tag = htobe64(tag),
	};

	memcpy(peer->mem, &tmh, sizeof(tmh));
	return sizeof(tmh);
}

void list_peer_eager(struct list_peer *peer, uint64_t tag, uint32_t app, char fill, size_t len)
{
	size_t at = put_tmh(peer, IBV_TMH_EAGER, tag, app);

	memset(peer->mem + at, fill, len);
	send_bytes(peer, at + len, 0);
}

void list_peer_no_tag(struct list_peer *peer, char fill, size_t len, uint32_t imm)
{
	size_t at = put_tmh(peer, IBV_TMH_NO_TAG, 0, 0);

	memset(peer->mem + at, fill, len);
	send_bytes(peer, at + len, imm);
}

void list_peer_rndv(struct list_peer *peer, uint64_t tag, char fill, uint32_t len, uint32_t rkey)
{
	size_t at = put_tmh(peer, IBV_TMH_RNDV, tag, 0);
	struct ibv_rvh rvh = {
		.va = htobe64((uintptr_t) peer->mem + RNDV_AT),
		.rkey = htobe32(rkey ? rkey : peer->mr->rkey), .len = htobe32(len),
	};

	memset(peer->mem + RNDV_AT, fill, len);
	memcpy(peer->mem + at, &rvh, sizeof(rvh));
	memcpy(peer->mem + at + sizeof(rvh), private_bytes, sizeof(private_bytes));
	send_bytes(peer, at + sizeof(rvh) + sizeof(private_bytes), 0);
}

const uint8_t *list_peer_fin(struct list_peer *peer)
{
	struct ibv_wc wc;

	while (peer->calls->poll_cq(peer->cq, 1, &wc)) {
		if (wc.opcode != IBV_WC_RECV)
			continue;
		cr_assert(wc.status == IBV_WC_SUCCESS && wc.byte_len == PEER_HEADERS);
		post_fin_buffer(peer);
		return (const uint8_t *) peer->mem + FIN_AT;
	}
	return NULL;
}

int list_peer_poll(struct list_peer *peer, enum ibv_wc_status *status)
{
	struct ibv_wc wc;
	int cnt = 0;

	for (; peer->calls->poll_cq(peer->cq, 1, &wc); cnt++)
		*status = wc.status;
	return cnt;
}
