/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake RDMA devices: see fake_verbs.h.
 *
 *   post_send --> qp->sq --> move() --> peer's receive queue --> its CQ
 *                              \------> own CQ, if signaled or failed
 *
 * move() carries out what can be carried out, for all queue pairs; a send
 * without receive buffer at the peer waits for one (RNR for ever).
 */
#include "common/fake_verbs.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/compiler.h"
#include "core/list.h"
#include "xport/verbs/verbs_ops.h"

#define MAX_DEVICES	8
#define MAX_SGE		32
#define MAX_EVENTS	64

struct event_queue {
	int	fd;		/* eventfd, readable while not empty */
	unsigned head, tail;
};

struct fake_ctx {
	struct ibv_context base;
	struct tagrv_list node;
	unsigned dev;
	bool	gone;		/* unplugged: every read fails */
	struct event_queue queue;
	struct ibv_async_event events[MAX_EVENTS];
};

struct fake_channel {
	struct ibv_comp_channel base;
	struct tagrv_list node;
	struct event_queue queue;
	struct ibv_cq *cqs[MAX_EVENTS];
};

struct fake_mr {
	struct ibv_mr base;
	struct tagrv_list node;
	int	access;
};

struct fake_cq {
	struct ibv_cq base;
	struct tagrv_list node;
	unsigned dev;
	struct ibv_wc *ring;
	uint32_t *slot_of;	/* send queue slots to free when polled */
	unsigned cap, head, cnt;
	unsigned users;
	unsigned unacked;
	bool	armed;
};

struct recv_wr {
	uint64_t wr_id;
	struct ibv_sge sge;
};

struct recv_queue {
	struct recv_wr *ring;
	unsigned cap, head, cnt;
};

struct fake_srq {
	struct ibv_srq base;
	struct tagrv_list node;
	unsigned dev;
	struct recv_queue rq;
	unsigned unacked;
};

struct send_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge[MAX_SGE];
	uint8_t	*inlined;	/* copy of inline data */
	size_t	len;
};

struct fake_qp {
	struct ibv_qp base;
	struct tagrv_list node;
	unsigned dev;
	struct ibv_qp_attr attr;
	struct ibv_qp_cap cap;
	struct send_wr *sq;
	uint32_t posted, executed, freed;	/* sequence numbers */
	struct recv_queue rq;
	unsigned unacked;
};

struct fault {
	unsigned nth;
	int	value;
};

static struct {
	pthread_mutex_t mutex;
	struct fake_verbs_config config;
	struct ibv_device devs[MAX_DEVICES];
	struct tagrv_list ctxs, mrs, channels, cqs, srqs, qps;
	struct fake_verbs_counts counts;
	uint32_t next_qpn, next_key;
	bool	held;
	struct fault wr, post, doorbell, reg, create_qp, modify_qp;
} fake = { .mutex = PTHREAD_MUTEX_INITIALIZER };

#define LOCK()		pthread_mutex_lock(&fake.mutex)
#define UNLOCK()	pthread_mutex_unlock(&fake.mutex)

static int fires(struct fault *fault)
{
	return fault->nth && !--fault->nth ? fault->value : 0;
}

/* ---- event queues ---- */

static bool queue_open(struct event_queue *queue)
{
	queue->fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	return queue->fd >= 0;
}

/* Slot for the next event. */
static unsigned queue_push(struct event_queue *queue)
{
	assert(queue->tail - queue->head < MAX_EVENTS);
	eventfd_write(queue->fd, 1);
	return queue->tail++ % MAX_EVENTS;
}

/* Slot of the oldest event, -1 and EAGAIN if there is none. */
static int queue_pop(struct event_queue *queue)
{
	eventfd_t one;

	if (queue->head == queue->tail) {
		errno = EAGAIN;
		return -1;
	}
	eventfd_read(queue->fd, &one);
	return (int) (queue->head++ % MAX_EVENTS);
}

static bool is_gone(struct ibv_context *ctx)
{
	return tagrv_container_of(ctx, struct fake_ctx, base)->gone;
}

/* ---- devices ---- */

static struct ibv_device **get_device_list(int *cnt)
{
	struct ibv_device **list;

	if (fake.config.list_errno) {
		errno = fake.config.list_errno;
		return NULL;
	}
	list = calloc(MAX_DEVICES + 1, sizeof(*list));
	LOCK();
	fake.counts.device_lists++;
	for (unsigned i = 0; i < fake.config.devices; i++)
		list[i] = &fake.devs[i];
	*cnt = (int) fake.config.devices;
	UNLOCK();
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	free(list);
}

static struct ibv_context *open_device(struct ibv_device *dev)
{
	struct fake_ctx *ctx;

	if (fake.config.open_errno) {
		errno = fake.config.open_errno;
		return NULL;
	}
	if (fake.config.open_fails)
		return NULL;
	ctx = calloc(1, sizeof(*ctx));
	if (!queue_open(&ctx->queue)) {
		free(ctx);
		return NULL;
	}
	ctx->base.device = dev;
	ctx->base.async_fd = ctx->queue.fd;
	ctx->dev = (unsigned) (dev - fake.devs);
	LOCK();
	tagrv_list_push_tail(&fake.ctxs, &ctx->node);
	fake.counts.objects++;
	UNLOCK();
	return &ctx->base;
}

static int close_device(struct ibv_context *base)
{
	struct fake_ctx *ctx = tagrv_container_of(base, struct fake_ctx, base);

	LOCK();
	tagrv_list_remove(&ctx->node);
	fake.counts.objects--;
	UNLOCK();
	close(ctx->queue.fd);
	free(ctx);
	return 0;
}

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	const struct fake_verbs_config *c = &fake.config;

	(void) ctx;
	if (c->query_errno)
		return c->query_errno;
	*attr = (struct ibv_device_attr) {
		.fw_ver = "1.2.3", .vendor_id = 0x1234, .vendor_part_id = 7,
		.max_qp = 1000, .max_qp_wr = c->max_qp_wr,
		.max_sge = c->max_sge, .max_cqe = c->max_cqe,
		.max_srq = c->max_srq, .max_srq_wr = c->max_srq_wr,
		.max_qp_rd_atom = c->rd_atom,
		.max_qp_init_rd_atom = c->rd_atom,
		.phys_port_cnt = (uint8_t) c->ports,
	};
	return 0;
}

static int query_port(struct ibv_context *ctx, uint8_t port,
		      struct ibv_port_attr *attr)
{
	unsigned dev = tagrv_container_of(ctx, struct fake_ctx, base)->dev;

	if (!port || port > fake.config.ports)
		return EINVAL;
	if (fake.config.port_errno)
		return fake.config.port_errno;
	*attr = (struct ibv_port_attr) {
		.state = fake.config.port_state,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = dev ? IBV_MTU_1024 : IBV_MTU_4096,
		.gid_tbl_len = 16, .pkey_tbl_len = 2,
		.max_msg_sz = fake.config.max_msg,
		.active_speed = 32, .active_width = 2,
		.flags = fake.config.grh_required ? IBV_QPF_GRH_REQUIRED : 0,
		.lid = fake.config.infiniband && !fake.config.grh_required ?
		       (uint16_t) (100 + dev * 10 + port) : 0,
		.link_layer = fake.config.infiniband ?
			      IBV_LINK_LAYER_INFINIBAND :
			      IBV_LINK_LAYER_ETHERNET,
	};
	return 0;
}

static union ibv_gid make_gid(unsigned dev, unsigned port, int kind)
{
	union ibv_gid gid = { .raw = { 0 } };

	if (kind) {	/* ::ffff:10.9.dev.port */
		gid.raw[10] = gid.raw[11] = 0xff;
		gid.raw[12] = 10;
		gid.raw[13] = 9;
		gid.raw[14] = (uint8_t) dev;
	} else {
		gid.raw[0] = 0xfe;
		gid.raw[1] = 0x80;
		gid.raw[14] = (uint8_t) dev;
	}
	gid.raw[15] = (uint8_t) port;
	return gid;
}

static ssize_t query_gid_table(struct ibv_context *ctx,
			       struct ibv_gid_entry *entries, size_t max)
{
	unsigned dev = tagrv_container_of(ctx, struct fake_ctx, base)->dev;
	size_t cnt = 0;

	if (fake.config.gids) {
		cnt = TAGRV_MIN(max, fake.config.gid_cnt);
		memcpy(entries, fake.config.gids, cnt * sizeof(*entries));
		return (ssize_t) cnt;
	}
	for (unsigned port = 1; port <= fake.config.ports; port++)
		for (int i = 0; i < (fake.config.infiniband ? 1 : 2); i++)
			entries[cnt++] = (struct ibv_gid_entry) {
				.gid = make_gid(dev, port, i),
				.gid_index = (uint32_t) i, .port_num = port,
				.gid_type = fake.config.infiniband ?
					    IBV_GID_TYPE_IB :
					    IBV_GID_TYPE_ROCE_V2,
			};
	return (ssize_t) cnt;
}

/* Entry 0 is a limited member, entry 1 a full one. */
static int query_pkey(struct ibv_context *ctx, uint8_t port, int index,
		      __be16 *pkey)
{
	(void) ctx;
	(void) port;
	*pkey = htons(index ? 0xffff : 0x7fff);
	return 0;
}

static unsigned *unacked_of(struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return &tagrv_container_of(event->element.cq, struct fake_cq,
					   base)->unacked;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_COMM_EST:
		return &tagrv_container_of(event->element.qp, struct fake_qp,
					   base)->unacked;
	case IBV_EVENT_SRQ_ERR:
		return &tagrv_container_of(event->element.srq, struct fake_srq,
					   base)->unacked;
	default:
		return NULL;
	}
}

static void raise_event(unsigned dev, const struct ibv_async_event *event)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&fake.ctxs, pos) {
		struct fake_ctx *ctx =
			tagrv_container_of(pos, struct fake_ctx, node);

		if (ctx->dev == dev)
			ctx->events[queue_push(&ctx->queue)] = *event;
	}
}

static int get_async_event(struct ibv_context *base,
			   struct ibv_async_event *event)
{
	struct fake_ctx *ctx = tagrv_container_of(base, struct fake_ctx, base);
	unsigned *unacked;
	int i;

	LOCK();
	i = queue_pop(&ctx->queue);
	if (i < 0 && ctx->gone)
		errno = EIO;
	if (i >= 0) {
		*event = ctx->events[i];
		unacked = unacked_of(event);
		if (unacked)
			++*unacked;
	}
	UNLOCK();
	return i < 0 ? -1 : 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
	unsigned *unacked;

	LOCK();
	unacked = unacked_of(event);
	if (unacked)
		--*unacked;
	UNLOCK();
}

/* ---- memory ---- */

static struct ibv_pd *alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = ctx;
	LOCK();
	fake.counts.objects++;
	UNLOCK();
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	struct tagrv_list *pos;
	int ret = 0;

	LOCK();
	tagrv_list_for_each(&fake.mrs, pos)
		if (tagrv_container_of(pos, struct fake_mr, node)->base.pd == pd)
			ret = EBUSY;
	fake.counts.objects -= !ret;
	UNLOCK();
	if (!ret)
		free(pd);
	return ret;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	struct fake_mr *mr = NULL;
	int err;

	LOCK();
	err = fires(&fake.reg);
	if (err) {
		errno = err;
	} else {
		mr = calloc(1, sizeof(*mr));
		mr->base = (struct ibv_mr) {
			.context = pd->context, .pd = pd, .addr = addr,
			.length = len, .lkey = ++fake.next_key,
			.rkey = fake.next_key | 0x80000000u,
		};
		mr->access = access;
		tagrv_list_push_tail(&fake.mrs, &mr->node);
		fake.counts.objects++;
		fake.counts.registered += len;
	}
	UNLOCK();
	return mr ? &mr->base : NULL;
}

static int dereg_mr(struct ibv_mr *base)
{
	struct fake_mr *mr = tagrv_container_of(base, struct fake_mr, base);

	LOCK();
	tagrv_list_remove(&mr->node);
	fake.counts.objects--;
	fake.counts.registered -= base->length;
	UNLOCK();
	free(mr);
	return 0;
}

/* Is the range registered with the key and the rights? Access 0: any. */
static bool covered(const struct ibv_pd *pd, uint32_t key, bool remote,
		    uint64_t addr, uint64_t len, int access)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&fake.mrs, pos) {
		struct fake_mr *mr =
			tagrv_container_of(pos, struct fake_mr, node);
		uint64_t start = (uintptr_t) mr->base.addr;

		if (key != (remote ? mr->base.rkey : mr->base.lkey) ||
		    pd != mr->base.pd)
			continue;
		return (mr->access & access) == access && addr >= start &&
		       addr + len <= start + mr->base.length;
	}
	return false;
}

/* ---- completion queues ---- */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *ctx)
{
	struct fake_channel *channel = calloc(1, sizeof(*channel));

	channel->base.context = ctx;
	if (!queue_open(&channel->queue)) {
		free(channel);
		return NULL;
	}
	channel->base.fd = channel->queue.fd;
	LOCK();
	tagrv_list_push_tail(&fake.channels, &channel->node);
	fake.counts.objects++;
	UNLOCK();
	return &channel->base;
}

static int destroy_comp_channel(struct ibv_comp_channel *base)
{
	struct fake_channel *channel =
		tagrv_container_of(base, struct fake_channel, base);

	LOCK();
	tagrv_list_remove(&channel->node);
	fake.counts.objects--;
	UNLOCK();
	close(channel->queue.fd);
	free(channel);
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *ctx, int cqe,
				void *cq_context,
				struct ibv_comp_channel *channel)
{
	struct fake_cq *cq;

	if (cqe < 1 || cqe > fake.config.max_cqe) {
		errno = EINVAL;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	cq->base = (struct ibv_cq) {
		.context = ctx, .channel = channel, .cq_context = cq_context,
		.cqe = cqe,
	};
	cq->dev = tagrv_container_of(ctx, struct fake_ctx, base)->dev;
	cq->cap = (unsigned) cqe;
	cq->ring = calloc(cq->cap, sizeof(*cq->ring));
	cq->slot_of = calloc(cq->cap, sizeof(*cq->slot_of));
	LOCK();
	tagrv_list_push_tail(&fake.cqs, &cq->node);
	fake.counts.objects++;
	UNLOCK();
	return &cq->base;
}

static int resize_cq(struct ibv_cq *base, int cqe)
{
	struct fake_cq *cq = tagrv_container_of(base, struct fake_cq, base);
	struct ibv_wc *ring;
	uint32_t *slots;

	if (fake.config.no_resize)
		return EOPNOTSUPP;
	if (cqe > fake.config.max_cqe || cqe < (int) cq->cnt)
		return EINVAL;
	LOCK();
	ring = calloc((size_t) cqe, sizeof(*ring));
	slots = calloc((size_t) cqe, sizeof(*slots));
	for (unsigned i = 0; i < cq->cnt; i++) {
		ring[i] = cq->ring[(cq->head + i) % cq->cap];
		slots[i] = cq->slot_of[(cq->head + i) % cq->cap];
	}
	free(cq->ring);
	free(cq->slot_of);
	cq->ring = ring;
	cq->slot_of = slots;
	cq->head = 0;
	cq->cap = (unsigned) cqe;
	UNLOCK();
	return 0;
}

static int destroy_cq(struct ibv_cq *base)
{
	struct fake_cq *cq = tagrv_container_of(base, struct fake_cq, base);

	LOCK();
	if (cq->users) {
		UNLOCK();
		return EBUSY;
	}
	fake.counts.lost_events += cq->unacked;
	tagrv_list_remove(&cq->node);
	fake.counts.objects--;
	UNLOCK();
	free(cq->ring);
	free(cq->slot_of);
	free(cq);
	return 0;
}

static int req_notify_cq(struct ibv_cq *base, int solicited_only)
{
	(void) solicited_only;
	if (is_gone(base->context))
		return EIO;
	LOCK();
	tagrv_container_of(base, struct fake_cq, base)->armed = true;
	UNLOCK();
	return 0;
}

static int get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **cq,
			void **cq_context)
{
	struct fake_channel *channel =
		tagrv_container_of(base, struct fake_channel, base);
	int i;

	LOCK();
	i = queue_pop(&channel->queue);
	if (i >= 0) {
		*cq = channel->cqs[i];
		*cq_context = (*cq)->cq_context;
		tagrv_container_of(*cq, struct fake_cq, base)->unacked++;
	}
	UNLOCK();
	return i < 0 ? -1 : 0;
}

static void ack_cq_events(struct ibv_cq *base, unsigned cnt)
{
	LOCK();
	tagrv_container_of(base, struct fake_cq, base)->unacked -= cnt;
	UNLOCK();
}

static void push_wc(struct ibv_cq *base, const struct ibv_wc *wc, uint32_t slot)
{
	struct fake_cq *cq = tagrv_container_of(base, struct fake_cq, base);
	struct fake_channel *channel;

	if (cq->cnt == cq->cap) {
		struct ibv_async_event event = {
			.event_type = IBV_EVENT_CQ_ERR, .element.cq = base,
		};

		fake.counts.cq_overflows++;
		raise_event(cq->dev, &event);
		return;
	}
	cq->ring[(cq->head + cq->cnt) % cq->cap] = *wc;
	cq->slot_of[(cq->head + cq->cnt) % cq->cap] = slot;
	cq->cnt++;
	if (!cq->armed || !base->channel)
		return;
	cq->armed = false;
	channel = tagrv_container_of(base->channel, struct fake_channel, base);
	channel->cqs[queue_push(&channel->queue)] = base;
}

static struct fake_qp *find_qp(uint32_t qpn)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&fake.qps, pos) {
		struct fake_qp *qp =
			tagrv_container_of(pos, struct fake_qp, node);

		if (qp->base.qp_num == qpn)
			return qp;
	}
	return NULL;
}

static void move(void);

static int poll_cq(struct ibv_cq *base, int max, struct ibv_wc *wc)
{
	struct fake_cq *cq = tagrv_container_of(base, struct fake_cq, base);
	struct fake_qp *qp;
	int cnt = 0;

	LOCK();
	move();
	while (cnt < max && cq->cnt) {
		wc[cnt] = cq->ring[cq->head];
		qp = find_qp(wc[cnt].qp_num);
		if (qp && qp->base.send_cq == base)
			qp->freed = cq->slot_of[cq->head];
		cq->head = (cq->head + 1) % cq->cap;
		cq->cnt--;
		cnt++;
	}
	UNLOCK();
	return cnt;
}

/* ---- receive queues ---- */

static int rq_push(struct recv_queue *rq, const struct ibv_recv_wr *wr)
{
	if (rq->cnt == rq->cap)
		return ENOMEM;
	rq->ring[(rq->head + rq->cnt++) % rq->cap] = (struct recv_wr) {
		.wr_id = wr->wr_id, .sge = wr->sg_list[0],
	};
	return 0;
}

static struct recv_wr rq_pop(struct recv_queue *rq)
{
	struct recv_wr wr = rq->ring[rq->head];

	rq->head = (rq->head + 1) % rq->cap;
	rq->cnt--;
	return wr;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd,
				  struct ibv_srq_init_attr *attr)
{
	struct fake_srq *srq;

	if (!fake.config.max_srq ||
	    attr->attr.max_wr > (uint32_t) fake.config.max_srq_wr) {
		errno = fake.config.max_srq ? EINVAL : EOPNOTSUPP;
		return NULL;
	}
	srq = calloc(1, sizeof(*srq));
	srq->base = (struct ibv_srq) {
		.context = pd->context, .pd = pd,
		.srq_context = attr->srq_context,
	};
	srq->dev = tagrv_container_of(pd->context, struct fake_ctx, base)->dev;
	srq->rq.cap = attr->attr.max_wr;
	srq->rq.ring = calloc(srq->rq.cap, sizeof(*srq->rq.ring));
	LOCK();
	tagrv_list_push_tail(&fake.srqs, &srq->node);
	fake.counts.objects++;
	UNLOCK();
	return &srq->base;
}

static int destroy_srq(struct ibv_srq *base)
{
	struct fake_srq *srq = tagrv_container_of(base, struct fake_srq, base);
	struct tagrv_list *pos;
	int ret = 0;

	LOCK();
	tagrv_list_for_each(&fake.qps, pos)
		if (tagrv_container_of(pos, struct fake_qp, node)->base.srq ==
		    base)
			ret = EBUSY;
	if (!ret) {
		fake.counts.lost_events += srq->unacked;
		tagrv_list_remove(&srq->node);
		fake.counts.objects--;
	}
	UNLOCK();
	if (!ret) {
		free(srq->rq.ring);
		free(srq);
	}
	return ret;
}

static int post_recvs(struct recv_queue *rq, bool dead, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad)
{
	int err = 0;

	fake.counts.post_calls++;
	for (; wr; wr = wr->next) {
		err = dead ? 0 : rq_push(rq, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	move();
	return err;
}

static int post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	struct fake_srq *srq = tagrv_container_of(base, struct fake_srq, base);
	int err;

	LOCK();
	err = post_recvs(&srq->rq, false, wr, bad);
	UNLOCK();
	return err;
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = tagrv_container_of(base, struct fake_qp, base);
	int err;

	LOCK();
	err = post_recvs(&qp->rq, qp->base.state == IBV_QPS_ERR, wr, bad);
	UNLOCK();
	return err;
}

/* ---- queue pairs ---- */

static bool caps_fit(const struct ibv_qp_init_attr *attr)
{
	const struct fake_verbs_config *c = &fake.config;

	return attr->cap.max_send_wr <= (uint32_t) c->max_qp_wr &&
	       attr->cap.max_recv_wr <= (uint32_t) c->max_qp_wr &&
	       attr->cap.max_send_sge <= (uint32_t) c->max_sge &&
	       attr->cap.max_inline_data <= c->max_inline;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp = NULL;
	int err;

	LOCK();
	err = fires(&fake.create_qp);
	if (!err && !caps_fit(attr))
		err = EINVAL;
	if (!err) {
		qp = calloc(1, sizeof(*qp));
		qp->base = (struct ibv_qp) {
			.context = pd->context, .pd = pd,
			.qp_context = attr->qp_context,
			.send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
			.srq = attr->srq, .qp_num = ++fake.next_qpn,
			.state = IBV_QPS_RESET, .qp_type = attr->qp_type,
		};
		qp->dev = tagrv_container_of(pd->context, struct fake_ctx,
					     base)->dev;
		qp->cap = attr->cap;
		qp->sq = calloc(attr->cap.max_send_wr, sizeof(*qp->sq));
		qp->rq.cap = attr->srq ? 0 : attr->cap.max_recv_wr;
		qp->rq.ring = calloc(qp->rq.cap + 1, sizeof(*qp->rq.ring));
		tagrv_container_of(attr->send_cq, struct fake_cq, base)->users++;
		tagrv_container_of(attr->recv_cq, struct fake_cq, base)->users++;
		tagrv_list_push_tail(&fake.qps, &qp->node);
		fake.counts.objects++;
	}
	UNLOCK();
	errno = err;
	return qp ? &qp->base : NULL;
}

static struct send_wr *sq_at(struct fake_qp *qp, uint32_t seq)
{
	return &qp->sq[seq % qp->cap.max_send_wr];
}

static void complete(struct fake_qp *qp, enum ibv_wc_status status)
{
	struct send_wr *wr = sq_at(qp, qp->executed++);
	struct ibv_wc wc = {
		.wr_id = wr->wr.wr_id, .status = status,
		.qp_num = qp->base.qp_num,
	};

	free(wr->inlined);
	wr->inlined = NULL;
	if (!status && !(wr->wr.send_flags & IBV_SEND_SIGNALED))
		return;
	fake.counts.completions++;
	push_wc(qp->base.send_cq, &wc, qp->executed);
}

/* Everything outstanding is flushed, except what a shared queue holds. */
static void to_error(struct fake_qp *qp)
{
	struct ibv_wc wc = {
		.status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->base.qp_num,
		.opcode = IBV_WC_RECV,
	};

	qp->base.state = IBV_QPS_ERR;
	while (qp->executed != qp->posted)
		complete(qp, IBV_WC_WR_FLUSH_ERR);
	while (qp->rq.cnt) {
		wc.wr_id = rq_pop(&qp->rq).wr_id;
		push_wc(qp->base.recv_cq, &wc, 0);
	}
}

static bool may_become(enum ibv_qp_state from, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_INIT:
		return from == IBV_QPS_RESET;
	case IBV_QPS_RTR:
		return from == IBV_QPS_INIT;
	case IBV_QPS_RTS:
		return from == IBV_QPS_RTR;
	default:
		return to == IBV_QPS_ERR;
	}
}

static int required_mask(enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       IBV_QP_ACCESS_FLAGS;
	case IBV_QPS_RTR:
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
		       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
		       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	default:
		return IBV_QP_STATE;
	}
}

static void apply(struct fake_qp *qp, const struct ibv_qp_attr *attr)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		qp->attr.qp_access_flags = attr->qp_access_flags;
		qp->attr.port_num = attr->port_num;
		break;
	case IBV_QPS_RTR:
		qp->attr.ah_attr = attr->ah_attr;
		qp->attr.dest_qp_num = attr->dest_qp_num;
		qp->attr.rq_psn = attr->rq_psn;
		qp->attr.path_mtu = attr->path_mtu;
		break;
	case IBV_QPS_RTS:
		qp->attr.sq_psn = attr->sq_psn;
		qp->attr.retry_cnt = attr->retry_cnt;
		break;
	default:
		break;
	}
	qp->base.state = attr->qp_state;
}

static int modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = tagrv_container_of(base, struct fake_qp, base);
	int err;

	LOCK();
	err = fires(&fake.modify_qp);
	if (!err && (mask != required_mask(attr->qp_state) ||
		     !may_become(base->state, attr->qp_state)))
		err = EINVAL;
	if (!err && attr->qp_state == IBV_QPS_ERR)
		to_error(qp);
	else if (!err)
		apply(qp, attr);
	UNLOCK();
	return err;
}

static int destroy_qp(struct ibv_qp *base)
{
	struct fake_qp *qp = tagrv_container_of(base, struct fake_qp, base);

	LOCK();
	while (qp->executed != qp->posted)
		free(sq_at(qp, qp->executed++)->inlined);
	fake.counts.lost_events += qp->unacked;
	tagrv_container_of(base->send_cq, struct fake_cq, base)->users--;
	tagrv_container_of(base->recv_cq, struct fake_cq, base)->users--;
	tagrv_list_remove(&qp->node);
	fake.counts.objects--;
	UNLOCK();
	free(qp->sq);
	free(qp->rq.ring);
	free(qp);
	return 0;
}

static void copy_wr(struct send_wr *to, const struct ibv_send_wr *wr)
{
	size_t done = 0;

	*to = (struct send_wr) { .wr = *wr };
	for (int i = 0; i < wr->num_sge; i++) {
		to->sge[i] = wr->sg_list[i];
		to->len += wr->sg_list[i].length;
	}
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return;
	fake.counts.inlined++;
	to->inlined = malloc(to->len + 1);
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(to->inlined + done, (void *) (uintptr_t)
		       wr->sg_list[i].addr, wr->sg_list[i].length);
		done += wr->sg_list[i].length;
	}
}

static int check_post(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	size_t len = 0;
	int err = fires(&fake.post);

	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	if (err)
		return err;
	if (qp->base.state < IBV_QPS_RTS ||
	    wr->num_sge > (int) qp->cap.max_send_sge ||
	    ((wr->send_flags & IBV_SEND_INLINE) &&
	     len > qp->cap.max_inline_data))
		return EINVAL;
	if (qp->posted - qp->freed >= qp->cap.max_send_wr) {
		fake.counts.sq_overflows++;
		return ENOMEM;
	}
	return 0;
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	struct fake_qp *qp = tagrv_container_of(base, struct fake_qp, base);
	int err = 0;

	LOCK();
	*bad = NULL;
	for (; wr; wr = wr->next) {
		err = check_post(qp, wr);
		if (err) {
			*bad = wr;
			break;
		}
		copy_wr(sq_at(qp, qp->posted), wr);
		qp->posted++;
		if (base->state == IBV_QPS_ERR)
			complete(qp, IBV_WC_WR_FLUSH_ERR);
	}
	move();
	if (!err)
		err = fires(&fake.doorbell);
	UNLOCK();
	return err;
}

/* ---- the wire ---- */

static bool reaches(const struct fake_qp *from, const struct fake_qp *to)
{
	union ibv_gid gid;

	if (to->attr.dest_qp_num != from->base.qp_num ||
	    to->attr.rq_psn != from->attr.sq_psn)
		return false;
	if (fake.config.infiniband && !fake.config.grh_required)
		return from->attr.ah_attr.dlid ==
		       100 + to->dev * 10 + to->attr.port_num;
	gid = make_gid(to->dev, to->attr.port_num, !fake.config.infiniband);
	return from->attr.ah_attr.is_global &&
	       !memcmp(&gid, &from->attr.ah_attr.grh.dgid, sizeof(gid));
}

static struct fake_qp *peer_of(const struct fake_qp *qp)
{
	struct fake_qp *peer = find_qp(qp->attr.dest_qp_num);

	if (!peer || (peer->base.state != IBV_QPS_RTR &&
		      peer->base.state != IBV_QPS_RTS) || !reaches(qp, peer))
		return NULL;
	return peer;
}

static bool local_ok(const struct fake_qp *qp, const struct send_wr *wr,
		     int access)
{
	if (wr->inlined)
		return true;
	for (int i = 0; i < wr->wr.num_sge; i++)
		if (!covered(qp->base.pd, wr->sge[i].lkey, false,
			     wr->sge[i].addr, wr->sge[i].length, access))
			return false;
	return true;
}

/* Copies between the local segments and contiguous memory. */
static void copy_data(const struct send_wr *wr, char *buf, bool gather)
{
	if (wr->inlined) {
		memcpy(buf, wr->inlined, wr->len);
		return;
	}
	for (int i = 0; i < wr->wr.num_sge; i++) {
		char *seg = (char *) (uintptr_t) wr->sge[i].addr;

		memcpy(gather ? buf : seg, gather ? seg : buf,
		       wr->sge[i].length);
		buf += wr->sge[i].length;
	}
}

#define BLOCKED	((enum ibv_wc_status) -1)

static enum ibv_wc_status do_send(struct fake_qp *qp, struct fake_qp *peer,
				  const struct send_wr *wr)
{
	struct recv_queue *rq = peer->base.srq ?
		&tagrv_container_of(peer->base.srq, struct fake_srq, base)->rq :
		&peer->rq;
	struct ibv_wc wc = {
		.opcode = IBV_WC_RECV, .qp_num = peer->base.qp_num,
		.byte_len = (uint32_t) wr->len, .wc_flags = IBV_WC_GRH,
		.src_qp = qp->base.qp_num,
	};
	struct recv_wr to;

	if (!rq->cnt)
		return BLOCKED;
	to = rq_pop(rq);
	wc.wr_id = to.wr_id;
	if (wr->len > to.sge.length) {
		wc.status = IBV_WC_LOC_LEN_ERR;
		push_wc(peer->base.recv_cq, &wc, 0);
		to_error(peer);
		return IBV_WC_REM_INV_REQ_ERR;
	}
	assert(covered(peer->base.pd, to.sge.lkey, false, to.sge.addr, wr->len,
		       IBV_ACCESS_LOCAL_WRITE));
	copy_data(wr, (char *) (uintptr_t) to.sge.addr, true);
	push_wc(peer->base.recv_cq, &wc, 0);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status do_rdma(struct fake_qp *peer,
				  const struct send_wr *wr, bool is_read)
{
	int access = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	char *remote = (char *) (uintptr_t) wr->wr.wr.rdma.remote_addr;

	if (!(peer->attr.qp_access_flags & access) ||
	    (!is_read && fake.config.no_write) ||
	    (wr->len && !covered(peer->base.pd, wr->wr.wr.rdma.rkey, true,
				 (uintptr_t) remote, wr->len, access))) {
		to_error(peer);
		return IBV_WC_REM_ACCESS_ERR;
	}
	if (wr->len)
		copy_data(wr, remote, !is_read);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status execute(struct fake_qp *qp, const struct send_wr *wr)
{
	bool is_read = wr->wr.opcode == IBV_WR_RDMA_READ;
	struct fake_qp *peer = peer_of(qp);

	if (!peer)
		return IBV_WC_RETRY_EXC_ERR;
	if (!local_ok(qp, wr, is_read ? IBV_ACCESS_LOCAL_WRITE : 0))
		return IBV_WC_LOC_PROT_ERR;
	if (wr->len > fake.config.max_msg)
		return IBV_WC_LOC_LEN_ERR;
	return wr->wr.opcode == IBV_WR_SEND ? do_send(qp, peer, wr) :
	       do_rdma(peer, wr, is_read);
}

static bool step(struct fake_qp *qp)
{
	enum ibv_wc_status status;

	if (qp->base.state != IBV_QPS_RTS || qp->executed == qp->posted)
		return false;
	status = execute(qp, sq_at(qp, qp->executed));
	if (status == BLOCKED)
		return false;
	fake.counts.executed++;
	if (!status)
		status = (enum ibv_wc_status) fires(&fake.wr);
	complete(qp, status);
	if (status)
		to_error(qp);
	return true;
}

static void move(void)
{
	struct tagrv_list *pos;
	bool moved = !fake.held;

	while (moved) {
		moved = false;
		tagrv_list_for_each(&fake.qps, pos)
			moved |= step(tagrv_container_of(pos, struct fake_qp,
							 node));
	}
}

/* ---- control ---- */

static struct tagrv_verbs_calls calls = {
	.get_device_list = get_device_list,
	.free_device_list = free_device_list,
	.open_device = open_device,
	.close_device = close_device,
	.query_device = query_device,
	.query_port = query_port,
	.query_gid_table = query_gid_table,
	.query_pkey = query_pkey,
	.get_async_event = get_async_event,
	.ack_async_event = ack_async_event,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.create_comp_channel = create_comp_channel,
	.destroy_comp_channel = destroy_comp_channel,
	.create_cq = create_cq,
	.resize_cq = resize_cq,
	.destroy_cq = destroy_cq,
	.req_notify_cq = req_notify_cq,
	.get_cq_event = get_cq_event,
	.ack_cq_events = ack_cq_events,
	.poll_cq = poll_cq,
	.create_srq = create_srq,
	.destroy_srq = destroy_srq,
	.post_srq_recv = post_srq_recv,
	.create_qp = create_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
	.post_recv = post_recv,
	.post_send = post_send,
};

struct fake_verbs_config fake_verbs_defaults(void)
{
	return (struct fake_verbs_config) {
		.devices = 2, .ports = 1,
		.max_cqe = 65535, .max_qp_wr = 8192, .max_sge = 16,
		.max_srq = 100, .max_srq_wr = 16384,
		.max_inline = 512, .rd_atom = 16, .max_msg = 1u << 30,
		.port_state = IBV_PORT_ACTIVE, .node_type = IBV_NODE_CA,
	};
}

void fake_verbs_start(const struct fake_verbs_config *config)
{
	fake.config = *config;
	fake.counts = (struct fake_verbs_counts) { 0 };
	fake.next_qpn = 16;
	fake.held = false;
	fake.wr = fake.post = fake.doorbell = (struct fault) { 0 };
	fake.reg = (struct fault) { 0 };
	fake.create_qp = fake.modify_qp = (struct fault) { 0 };
	tagrv_list_init(&fake.ctxs);
	tagrv_list_init(&fake.mrs);
	tagrv_list_init(&fake.channels);
	tagrv_list_init(&fake.cqs);
	tagrv_list_init(&fake.srqs);
	tagrv_list_init(&fake.qps);
	for (unsigned i = 0; i < MAX_DEVICES; i++) {
		fake.devs[i] = (struct ibv_device) {
			.node_type = config->node_type,
			.transport_type = IBV_TRANSPORT_IB,
		};
		snprintf(fake.devs[i].name, sizeof(fake.devs[i].name),
			 "fake%u", i);
		snprintf(fake.devs[i].dev_name, sizeof(fake.devs[i].dev_name),
			 "uverbs%u", i);
	}
	calls.class_dir = config->class_dir;
	calls.uverbs_dir = config->uverbs_dir;
	tagrv_verbs_calls_set(&calls);
}

void fake_verbs_stop(void)
{
	tagrv_verbs_calls_set(NULL);
}

struct fake_verbs_counts fake_verbs_count(void)
{
	struct fake_verbs_counts counts;

	LOCK();
	counts = fake.counts;
	UNLOCK();
	return counts;
}

void fake_verbs_hold(bool on)
{
	LOCK();
	fake.held = on;
	move();
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
	set_fault(&fake.wr, nth, (int) status);
}

void fake_verbs_fail_post(unsigned nth, int err)
{
	set_fault(&fake.post, nth, err);
}

void fake_verbs_fail_doorbell(unsigned nth, int err)
{
	set_fault(&fake.doorbell, nth, err);
}

void fake_verbs_fail_reg(unsigned nth, int err)
{
	set_fault(&fake.reg, nth, err);
}

void fake_verbs_fail_create_qp(unsigned nth, int err)
{
	set_fault(&fake.create_qp, nth, err);
}

void fake_verbs_fail_modify_qp(unsigned nth, int err)
{
	set_fault(&fake.modify_qp, nth, err);
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
	raise_event(dev, &event);
	UNLOCK();
}

void fake_verbs_set_gids(const struct ibv_gid_entry *gids, size_t cnt)
{
	LOCK();
	fake.config.gids = gids;
	fake.config.gid_cnt = cnt;
	UNLOCK();
}

/* Both kinds of descriptor are readable from now on, and reads fail. */
void fake_verbs_unplug(unsigned dev)
{
	struct tagrv_list *pos;

	LOCK();
	tagrv_list_for_each(&fake.ctxs, pos) {
		struct fake_ctx *ctx =
			tagrv_container_of(pos, struct fake_ctx, node);

		if (ctx->dev != dev)
			continue;
		ctx->gone = true;
		eventfd_write(ctx->queue.fd, 1);
	}
	tagrv_list_for_each(&fake.channels, pos) {
		struct fake_channel *channel =
			tagrv_container_of(pos, struct fake_channel, node);

		if (is_gone(channel->base.context))
			eventfd_write(channel->queue.fd, 1);
	}
	UNLOCK();
}

struct ibv_qp *fake_verbs_last_qp(unsigned dev)
{
	struct ibv_qp *last = NULL;
	struct tagrv_list *pos;

	LOCK();
	tagrv_list_for_each(&fake.qps, pos) {
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
	tagrv_list_for_each(&fake.cqs, pos) {
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
	tagrv_list_for_each(&fake.srqs, pos) {
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
	push_wc(qp->recv_cq, wc, 0);
	UNLOCK();
}

void fake_verbs_break_qp(struct ibv_qp *qp)
{
	LOCK();
	to_error(tagrv_container_of(qp, struct fake_qp, base));
	UNLOCK();
}
