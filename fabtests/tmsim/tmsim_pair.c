/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opens and closes the two devices; tmsim_traffic.c moves messages between them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tmsim/tmsim_pair.h"

#define PORT	1
#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

const char *pair_devices[2];

/* ---- one side ---- */

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **all = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	int i;

	for (i = 0; all && all[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(all[i]), name))
			ctx = ibv_open_device(all[i]);
	if (all)
		ibv_free_device_list(all);
	return ctx;
}

/* The GID of an IPv4 address, for RoCE version 2. */
static bool find_gid(struct side *side)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry entry;
	int i;

	for (i = 0; i < 16; i++)
		if (!ibv_query_gid_ex(side->ctx, PORT, (uint32_t) i, &entry, 0) &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(entry.gid.raw, mapped, sizeof(mapped))) {
			side->gid = entry.gid;
			side->gid_index = i;
			return true;
		}
	return false;
}

static struct ibv_mr *map(struct side *side, uint8_t **at, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	*at = p;
	return ibv_reg_mr(side->pd, p, len, ACCESS);
}

static bool open_side(struct side *side, const char *name, size_t bufs)
{
	struct ibv_port_attr port;

	side->ctx = open_named(name);
	CHECK(side->ctx);
	CHECK(find_gid(side));
	CHECK(!ibv_query_port(side->ctx, PORT, &port));
	side->mtu = port.active_mtu;
	side->pd = ibv_alloc_pd(side->ctx);
	CHECK(side->pd);
	side->area_mr = map(side, &side->area, AREA);
	side->bufs_mr = map(side, &side->bufs, bufs);
	CHECK(side->area_mr && side->bufs_mr);
	return true;
}

static void unmap(struct ibv_mr *mr)
{
	void *p;
	size_t len;

	if (!mr)
		return;
	p = mr->addr;
	len = mr->length;
	ibv_dereg_mr(mr);
	munmap(p, len);
}

static void close_side(struct side *side)
{
	unmap(side->area_mr);
	unmap(side->bufs_mr);
	if (side->pd)
		ibv_dealloc_pd(side->pd);
	if (side->ctx)
		ibv_close_device(side->ctx);
}

/* ---- queues ---- */

/* The queue pairs of a get FINs besides their sends, each in a buffer of its own. */
static bool open_a(struct pair *pair)
{
	struct side *a = &pair->a;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = SEND_BUFS, .max_send_sge = 1, .max_recv_wr = FIN_BUFS, .max_recv_sge = 1 },
	};
	unsigned i;

	CHECK(open_side(a, pair_devices[0], SEND_BUFS * RX_SIZE + FIN_BUFS * HEADERS * LINKS));
	pair->cq = ibv_create_cq(a->ctx, LINKS * (SEND_BUFS + FIN_BUFS), NULL, NULL, 0);
	CHECK(pair->cq);
	attr.send_cq = attr.recv_cq = pair->cq;
	for (i = 0; i < LINKS; i++) {
		a->qp[i] = ibv_create_qp(a->pd, &attr);
		CHECK(a->qp[i]);
	}
	return true;
}

static bool open_list(struct pair *pair)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = RX_BUFS + 3 * TAGS,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_TM_INFO,
	};
	struct ibv_srq_init_attr_ex srq = {
		.attr = { .max_wr = RX_BUFS, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = pair->b.pd,
		.tm_cap = { .max_num_tags = TAGS, .max_ops = OPS },
	};

	pair->channel = ibv_create_comp_channel(pair->b.ctx);
	CHECK(pair->channel);
	cq.channel = pair->channel;
	pair->cq_ex = ibv_create_cq_ex(pair->b.ctx, &cq);
	CHECK(pair->cq_ex);
	srq.cq = ibv_cq_ex_to_cq(pair->cq_ex);
	pair->srq = ibv_create_srq_ex(pair->b.ctx, &srq);
	CHECK(pair->srq);
	return true;
}

static bool open_b(struct pair *pair)
{
	struct side *b = &pair->b;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	uint64_t i;

	CHECK(open_side(b, pair_devices[1], RX_BUFS * RX_SIZE));
	CHECK(open_list(pair));
	attr.srq = pair->srq;
	attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(pair->cq_ex);
	for (i = 0; i < LINKS; i++) {
		b->qp[i] = ibv_create_qp(b->pd, &attr);
		CHECK(b->qp[i]);
	}
	for (i = 0; i < RX_BUFS; i++)
		CHECK(pair_repost(pair, i));
	return true;
}

/* ---- connections ---- */

static bool to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};

	return !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static bool to_rtr(struct ibv_qp *qp, const struct side *own, const struct side *peer, uint32_t peer_qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = own->mtu < peer->mtu ? own->mtu : peer->mtu,
		.dest_qp_num = peer_qp,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.port_num = PORT,
			.grh = { .dgid = peer->gid, .sgid_index = (uint8_t) own->gid_index, .hop_limit = 64 },
		},
	};

	return !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static bool to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 17,
		.retry_cnt = 6,
		.rnr_retry = 7,
		.max_rd_atomic = 16,
	};

	return !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static bool post_fin_bufs(struct pair *pair, unsigned link)
{
	uint64_t i;

	for (i = 0; i < FIN_BUFS; i++) {
		uint64_t n = link * FIN_BUFS + i;
		struct ibv_sge sge = {
			.addr = (uintptr_t) pair->a.bufs + SEND_BUFS * RX_SIZE + n * HEADERS,
			.length = HEADERS,
			.lkey = pair->a.bufs_mr->lkey,
		};
		struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };

		CHECK(!ibv_post_recv(pair->a.qp[link], &wr, &bad));
	}
	return true;
}

static bool join(struct pair *pair, unsigned link)
{
	struct ibv_qp *a = pair->a.qp[link], *b = pair->b.qp[link];

	CHECK(to_init(a) && to_init(b));
	CHECK(post_fin_bufs(pair, link));
	CHECK(to_rtr(a, &pair->a, &pair->b, b->qp_num) && to_rtr(b, &pair->b, &pair->a, a->qp_num));
	CHECK(to_rts(a) && to_rts(b));
	return true;
}

bool pair_open(struct pair *pair)
{
	unsigned i;

	memset(pair, 0, sizeof(*pair));
	CHECK(open_a(pair));
	CHECK(open_b(pair));
	for (i = 0; i < LINKS; i++)
		CHECK(join(pair, i));
	return true;
}

void pair_close(struct pair *pair)
{
	unsigned i;

	for (i = 0; i < LINKS; i++) {
		if (pair->a.qp[i])
			ibv_destroy_qp(pair->a.qp[i]);
		if (pair->b.qp[i])
			ibv_destroy_qp(pair->b.qp[i]);
	}
	if (pair->srq)
		ibv_destroy_srq(pair->srq);
	if (pair->cq_ex)
		ibv_destroy_cq(ibv_cq_ex_to_cq(pair->cq_ex));
	if (pair->cq)
		ibv_destroy_cq(pair->cq);
	if (pair->channel)
		ibv_destroy_comp_channel(pair->channel);
	close_side(&pair->a);
	close_side(&pair->b);
}
