/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake RDMA devices: the table of calls, and how tests steer the devices.
 */
#include "common/fake_verbs_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "xport/verbs/verbs_ops.h"

static size_t memlock_limit(void)
{
	return fv.config.memlock ? fv.config.memlock : SIZE_MAX;
}

static uint64_t clock_ns(void)
{
	uint64_t now;

	LOCK();
	now = fv.clock;
	UNLOCK();
	return now;
}

static struct tagrv_verbs_calls calls = {
	.is_fork_initialized = fv_is_fork_initialized,
	.fork_init = fv_fork_init,
	.get_device_list = fv_get_device_list,
	.free_device_list = fv_free_device_list,
	.open_device = fv_open_device,
	.close_device = fv_close_device,
	.query_device = fv_query_device,
	.query_device_ex = fv_query_device_ex,
	.query_port = fv_query_port,
	.query_gid_table = fv_query_gid_table,
	.query_pkey = fv_query_pkey,
	.subnets_get = fv_subnets_get,
	.ipoib_get = fv_ipoib_get,
	.get_async_event = fv_get_async_event,
	.ack_async_event = fv_ack_async_event,
	.alloc_pd = fv_alloc_pd,
	.dealloc_pd = fv_dealloc_pd,
	.alloc_td = fv_alloc_td,
	.dealloc_td = fv_dealloc_td,
	.alloc_parent_domain = fv_alloc_parent_domain,
	.memlock_limit = memlock_limit,
	.create_ah = fv_create_ah,
	.destroy_ah = fv_destroy_ah,
	.reg_mr = fv_reg_mr,
	.dereg_mr = fv_dereg_mr,
	.create_comp_channel = fv_create_comp_channel,
	.destroy_comp_channel = fv_destroy_comp_channel,
	.create_cq = fv_create_cq,
	.create_cq_ex = fv_create_cq_ex,
	.resize_cq = fv_resize_cq,
	.destroy_cq = fv_destroy_cq,
	.req_notify_cq = fv_req_notify_cq,
	.get_cq_event = fv_get_cq_event,
	.ack_cq_events = fv_ack_cq_events,
	.poll_cq = fv_poll_cq,
	.create_srq = fv_create_srq,
	.create_srq_ex = fv_create_srq_ex,
	.post_srq_ops = fv_post_srq_ops,
	.destroy_srq = fv_destroy_srq,
	.post_srq_recv = fv_post_srq_recv,
	.create_qp = fv_create_qp,
	.create_qp_ex = fv_create_qp_ex,
	.modify_qp = fv_modify_qp,
	.destroy_qp = fv_destroy_qp,
	.post_recv = fv_post_recv,
	.post_send = fv_post_send,
};

struct fake_verbs_config fake_verbs_as(const char *profile)
{
	struct fake_verbs_config config = {
		.devices = 2, .ports = 1,
		.max_cqe = 65535, .max_qp_wr = 8192, .max_sge = 16,
		.max_srq = 100, .max_srq_wr = 16384,
		.max_inline = 512, .rd_atom = 16, .max_msg = 1u << 30,
		.vendor_id = 0x1234,
		.port_state = IBV_PORT_ACTIVE, .node_type = IBV_NODE_CA,
	};

	if (profile && *profile)
		fake_verbs_be(&config, profile);
	return config;
}

struct fake_verbs_config fake_verbs_defaults(void)
{
	return fake_verbs_as(getenv("FAKE_VERBS"));
}

void fake_verbs_start(const struct fake_verbs_config *config)
{
	fv.config = *config;
	fv.counts = (struct fake_verbs_counts) { 0 };
	fv.next_qpn = 16;
	fv.held = false;
	fv.wr = fv.post = fv.doorbell = (struct fault) { 0 };
	fv.reg = (struct fault) { 0 };
	fv.create_qp = fv.modify_qp = fv.srq_ops = (struct fault) { 0 };
	tagrv_list_init(&fv.ctxs);
	tagrv_list_init(&fv.mrs);
	tagrv_list_init(&fv.channels);
	tagrv_list_init(&fv.cqs);
	tagrv_list_init(&fv.srqs);
	tagrv_list_init(&fv.qps);
	for (unsigned i = 0; i < MAX_DEVICES; i++) {
		fv.devs[i] = (struct ibv_device) {
			.node_type = config->node_type,
			.transport_type = IBV_TRANSPORT_IB,
		};
		snprintf(fv.devs[i].name, sizeof(fv.devs[i].name),
			 "fake%u", i);
		snprintf(fv.devs[i].ibdev_path, sizeof(fv.devs[i].ibdev_path),
			 "%.250s", config->sysfs ? config->sysfs : "");
		snprintf(fv.devs[i].dev_name, sizeof(fv.devs[i].dev_name),
			 "uverbs%u", i);
		if (config->class_dir)
			snprintf(fv.devs[i].ibdev_path, sizeof(fv.devs[i].ibdev_path),
				 "%s/fake%u", config->class_dir, i);
	}
	if (config->pinned && !fv_pins_open())
		abort();
	fv.clock = 1;
	fv.registered = false;
	calls.clock_ns = config->reg_ns ? clock_ns : NULL;
	calls.class_dir = config->class_dir;
	calls.uverbs_dir = config->uverbs_dir;
	tagrv_verbs_calls_set(&calls);
}

void fake_verbs_stop(void)
{
	tagrv_verbs_calls_set(NULL);
	if (fv.config.pinned)
		fv_pins_close();
}

bool fake_verbs_can_pin(void)
{
	bool can = fv_pins_open();

	if (can)
		fv_pins_close();
	return can;
}

struct fake_verbs_counts fake_verbs_count(void)
{
	struct fake_verbs_counts counts;

	LOCK();
	counts = fv.counts;
	UNLOCK();
	return counts;
}

void fake_verbs_hold(bool on)
{
	LOCK();
	fv.held = on;
	fv_move();
	UNLOCK();
}

static void set_fault(struct fault *fault, unsigned nth, int value)
{
	LOCK();
	*fault = (struct fault) { .nth = nth, .value = value };
	UNLOCK();
}

void fake_verbs_fail_wr(unsigned nth, enum ibv_wc_status status)
{
	set_fault(&fv.wr, nth, (int) status);
}

void fake_verbs_fail_post(unsigned nth, int err)
{
	set_fault(&fv.post, nth, err);
}

void fake_verbs_fail_doorbell(unsigned nth, int err)
{
	set_fault(&fv.doorbell, nth, err);
}

void fake_verbs_fail_reg(unsigned nth, int err)
{
	set_fault(&fv.reg, nth, err);
}

void fake_verbs_fail_create_qp(unsigned nth, int err)
{
	set_fault(&fv.create_qp, nth, err);
}

void fake_verbs_fail_modify_qp(unsigned nth, int err)
{
	set_fault(&fv.modify_qp, nth, err);
}

void fake_verbs_fail_srq_ops(unsigned nth, int err)
{
	set_fault(&fv.srq_ops, nth, err);
}

void fake_verbs_event(unsigned dev, enum ibv_event_type type, void *element)
{
	struct ibv_async_event event = { .event_type = type };

	if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE ||
	    type == IBV_EVENT_LID_CHANGE || type == IBV_EVENT_PKEY_CHANGE ||
	    type == IBV_EVENT_GID_CHANGE || type == IBV_EVENT_CLIENT_REREGISTER)
		event.element.port_num = *(int *) element;
	else
		event.element.qp = element;	/* a union of pointers */
	LOCK();
	fv_raise_event(dev, &event);
	UNLOCK();
}

void fake_verbs_set_gids(const struct ibv_gid_entry *gids, size_t cnt)
{
	LOCK();
	fv.config.gids = gids;
	fv.config.gid_cnt = cnt;
	UNLOCK();
}

/* From now on the descriptors of contexts and channels are readable and reads fail. */
void fake_verbs_unplug(unsigned dev)
{
	struct tagrv_list *pos;

	LOCK();
	tagrv_list_for_each(&fv.ctxs, pos) {
		struct fake_ctx *ctx =
			tagrv_container_of(pos, struct fake_ctx, node);

		if (ctx->dev != dev)
			continue;
		ctx->gone = true;
		eventfd_write(ctx->queue.fd, 1);
	}
	tagrv_list_for_each(&fv.channels, pos) {
		struct fake_channel *channel =
			tagrv_container_of(pos, struct fake_channel, node);

		if (fv_is_gone(channel->base.context))
			eventfd_write(channel->queue.fd, 1);
	}
	UNLOCK();
}

struct ibv_qp *fake_verbs_last_qp(unsigned dev)
{
	struct ibv_qp *last = NULL;
	struct tagrv_list *pos;

	LOCK();
	tagrv_list_for_each(&fv.qps, pos) {
		struct fake_qp *qp =
			tagrv_container_of(pos, struct fake_qp, node);

		if (qp->dev == dev)
			last = &qp->base;
	}
	UNLOCK();
	return last;
}

struct ibv_cq *fake_verbs_last_cq(unsigned dev)
{
	struct ibv_cq *last = NULL;
	struct tagrv_list *pos;

	LOCK();
	tagrv_list_for_each(&fv.cqs, pos) {
		struct fake_cq *cq =
			tagrv_container_of(pos, struct fake_cq, node);

		if (cq->dev == dev)
			last = &cq->base;
	}
	UNLOCK();
	return last;
}

struct ibv_srq *fake_verbs_last_srq(unsigned dev)
{
	struct ibv_srq *last = NULL;
	struct tagrv_list *pos;

	LOCK();
	tagrv_list_for_each(&fv.srqs, pos) {
		struct fake_srq *srq =
			tagrv_container_of(pos, struct fake_srq, node);

		if (srq->dev == dev)
			last = &srq->base;
	}
	UNLOCK();
	return last;
}

void fake_verbs_inject_rx(struct ibv_qp *qp, const struct ibv_wc *wc)
{
	LOCK();
	fv_push_wc(qp->recv_cq, wc, 0);
	UNLOCK();
}

void fake_verbs_lose_rx(struct ibv_qp *qp)
{
	LOCK();
	fv_cq_purge(qp->recv_cq, qp->qp_num);
	UNLOCK();
}

uint64_t fake_verbs_take_buffer(struct ibv_srq *base)
{
	struct fake_srq *srq = tagrv_container_of(base, struct fake_srq, base);
	uint64_t wr_id;

	LOCK();
	wr_id = fv_rq_pop(&srq->rq).wr_id;
	UNLOCK();
	return wr_id;
}

void fake_verbs_on_reg(void (*fn)(const void *addr, size_t len, int access))
{
	LOCK();
	fv.on_reg = fn;
	UNLOCK();
}

void fake_verbs_on_tagged(size_t (*fn)(unsigned from, unsigned to, void *bytes, size_t len))
{
	LOCK();
	fv.on_tagged = fn;
	UNLOCK();
}

int fake_verbs_access(const struct ibv_mr *mr)
{
	return tagrv_container_of(mr, struct fake_mr, base)->access;
}

void fake_verbs_break_qp(struct ibv_qp *qp)
{
	LOCK();
	fv_to_error(tagrv_container_of(qp, struct fake_qp, base), true);
	UNLOCK();
}
