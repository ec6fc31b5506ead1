/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of an RDMA device that fail on purpose, see scarce.h: the linker turns the calls
 * of the devices in memory, which fake_verbs.c lists, to these. A device whose objects are
 * used up, or that may lock no more memory, says ENOMEM; one that is broken, EIO.
 */
#include "common/fake_verbs_priv.h"
#include "scarce.h"

#define LACKS(kind)	scarce_fails(kind, __func__ + sizeof("__wrap_fv_") - 1, ENOMEM)
#define REFUSES()	scarce_fails(SCARCE_REQUEST, __func__ + sizeof("__wrap_fv_") - 1, EIO)

/* WRAP(result, name, (parameters), (arguments), kind, result when it fails) */
#define WRAP(type, name, params, args, kind, none)				\
	type __real_fv_##name params;						\
	type __wrap_fv_##name params;						\
	type __wrap_fv_##name params						\
	{									\
		return LACKS(kind) ? (none) : __real_fv_##name args;		\
	}

WRAP(struct ibv_mr *, reg_mr, (struct ibv_pd *pd, void *addr, size_t len, int access),
     (pd, addr, len, access), SCARCE_LOCKED, NULL)
WRAP(struct ibv_pd *, alloc_pd, (struct ibv_context *ctx), (ctx), SCARCE_DEVICE, NULL)
WRAP(struct ibv_comp_channel *, create_comp_channel, (struct ibv_context *ctx), (ctx), SCARCE_DEVICE, NULL)
WRAP(struct ibv_cq *, create_cq,
     (struct ibv_context *ctx, int cqe, void *context, struct ibv_comp_channel *channel, int vector),
     (ctx, cqe, context, channel, vector), SCARCE_DEVICE, NULL)
WRAP(int, resize_cq, (struct ibv_cq *cq, int cqe), (cq, cqe), SCARCE_DEVICE, ENOMEM)
WRAP(struct ibv_srq *, create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (pd, attr),
     SCARCE_DEVICE, NULL)
WRAP(struct ibv_qp *, create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (pd, attr),
     SCARCE_DEVICE, NULL)
WRAP(int, modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask),
     SCARCE_DEVICE, ENOMEM)
WRAP(int, query_device, (struct ibv_context *ctx, struct ibv_device_attr *attr), (ctx, attr),
     SCARCE_DEVICE, ENOMEM)
WRAP(int, query_port, (struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr),
     (ctx, port, attr), SCARCE_DEVICE, ENOMEM)
/* ---- requests ---- */

int __real_fv_req_notify_cq(struct ibv_cq *cq, int solicited);
int __wrap_fv_req_notify_cq(struct ibv_cq *cq, int solicited);
int __wrap_fv_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	return REFUSES() ? EIO : __real_fv_req_notify_cq(cq, solicited);
}

int __real_fv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int __wrap_fv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int __wrap_fv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	*bad = wr;
	return REFUSES() ? EIO : __real_fv_post_srq_recv(srq, wr, bad);
}

int __real_fv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int __wrap_fv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int __wrap_fv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	*bad = wr;
	return REFUSES() ? EIO : __real_fv_post_send(qp, wr, bad);
}
