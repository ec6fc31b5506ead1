/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The default table of verbs calls, libibverbs. Verbs that the header defines as
 * macros or inline functions are wrapped, because the table needs their address.
 */
#include "core/memlock.h"
#include "xport/verbs/verbs_dev.h"
#include "xport/verbs/verbs_ops.h"

static int query_device_ex(struct ibv_context *ctx, struct ibv_device_attr_ex *attr)
{
	return ibv_query_device_ex(ctx, NULL, attr);
}

static int query_port(struct ibv_context *ctx, uint8_t port,
		      struct ibv_port_attr *attr)
{
	return ibv_query_port(ctx, port, attr);
}

static ssize_t query_gid_table(struct ibv_context *ctx,
			       struct ibv_gid_entry *entries, size_t max)
{
	return ibv_query_gid_table(ctx, entries, max, 0);
}

static struct ibv_td *alloc_td(struct ibv_context *ctx)
{
	struct ibv_td_init_attr attr = { .comp_mask = 0 };

	return ibv_alloc_td(ctx, &attr);
}

static int dealloc_td(struct ibv_td *td)
{
	return ibv_dealloc_td(td);
}

static struct ibv_pd *alloc_parent_domain(struct ibv_pd *pd, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td };

	return ibv_alloc_parent_domain(pd->context, &attr);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	return ibv_reg_mr(pd, addr, len, access);
}

static struct ibv_cq *create_cq(struct ibv_context *ctx, int cqe,
				void *cq_context,
				struct ibv_comp_channel *channel, int vector)
{
	return ibv_create_cq(ctx, cqe, cq_context, channel, vector);
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *ctx,
				      struct ibv_cq_init_attr_ex *attr)
{
	return ibv_create_cq_ex(ctx, attr);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return ibv_req_notify_cq(cq, solicited_only);
}

static int poll_cq(struct ibv_cq *cq, int cnt, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, cnt, wc);
}

static struct ibv_qp *create_qp_ex(struct ibv_context *ctx,
				   struct ibv_qp_init_attr_ex *attr)
{
	return ibv_create_qp_ex(ctx, attr);
}

static struct ibv_srq *create_srq_ex(struct ibv_context *ctx,
				     struct ibv_srq_init_attr_ex *attr)
{
	return ibv_create_srq_ex(ctx, attr);
}

static int post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	return ibv_post_srq_ops(srq, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	return ibv_post_srq_recv(srq, wr, bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	return ibv_post_recv(qp, wr, bad);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	return ibv_post_send(qp, wr, bad);
}

static const struct tagrv_verbs_calls libibverbs = {
	.class_dir = "/sys/class/infiniband",
	.uverbs_dir = "/dev/infiniband",
	.memlock_limit = tagrv_memlock_limit,
	.clock_ns = tagrv_verbs_cost_clock,
	.is_fork_initialized = ibv_is_fork_initialized,
	.fork_init = ibv_fork_init,
	.get_device_list = ibv_get_device_list,
	.free_device_list = ibv_free_device_list,
	.open_device = ibv_open_device,
	.close_device = ibv_close_device,
	.query_device = ibv_query_device,
	.query_device_ex = query_device_ex,
	.query_port = query_port,
	.query_gid_table = query_gid_table,
	.query_pkey = ibv_query_pkey,
	.subnets_get = tagrv_verbs_subnets_get,
	.ipoib_get = tagrv_verbs_ipoib_get,
	.get_async_event = ibv_get_async_event,
	.ack_async_event = ibv_ack_async_event,
	.alloc_pd = ibv_alloc_pd,
	.dealloc_pd = ibv_dealloc_pd,
	.alloc_td = alloc_td,
	.dealloc_td = dealloc_td,
	.alloc_parent_domain = alloc_parent_domain,
	.create_ah = ibv_create_ah,
	.destroy_ah = ibv_destroy_ah,
	.reg_mr = reg_mr,
	.dereg_mr = ibv_dereg_mr,
	.create_comp_channel = ibv_create_comp_channel,
	.destroy_comp_channel = ibv_destroy_comp_channel,
	.create_cq = create_cq,
	.create_cq_ex = create_cq_ex,
	.resize_cq = ibv_resize_cq,
	.destroy_cq = ibv_destroy_cq,
	.req_notify_cq = req_notify_cq,
	.get_cq_event = ibv_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.poll_cq = poll_cq,
	.create_srq = ibv_create_srq,
	.create_srq_ex = create_srq_ex,
	.post_srq_ops = post_srq_ops,
	.destroy_srq = ibv_destroy_srq,
	.post_srq_recv = post_srq_recv,
	.create_qp = ibv_create_qp,
	.create_qp_ex = create_qp_ex,
	.modify_qp = ibv_modify_qp,
	.destroy_qp = ibv_destroy_qp,
	.post_recv = post_recv,
	.post_send = post_send,
};

/* Written by tests only. The data path uses the pointer in its device. */
static const struct tagrv_verbs_calls *current = &libibverbs;

const struct tagrv_verbs_calls *tagrv_verbs_calls_get(void)
{
	return current;
}

void tagrv_verbs_calls_set(const struct tagrv_verbs_calls *calls)
{
	current = calls ? calls : &libibverbs;
}
