/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake RDMA devices: their state, opening, queries, asynchronous events, memory.
 */
#include "common/fake_verbs_priv.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct fake_verbs_state fv = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* ---- event queues ---- */

bool fv_queue_open(struct event_queue *queue)
{
	queue->fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	return queue->fd >= 0;
}

/* Returns the slot for the next event. */
unsigned fv_queue_push(struct event_queue *queue)
{
	assert(queue->tail - queue->head < MAX_EVENTS);
	eventfd_write(queue->fd, 1);
	return queue->tail++ % MAX_EVENTS;
}

/* Returns the slot of the oldest event, or -1 with EAGAIN if there is none. */
int fv_queue_pop(struct event_queue *queue)
{
	eventfd_t one;

	if (queue->head == queue->tail) {
		errno = EAGAIN;
		return -1;
	}
	eventfd_read(queue->fd, &one);
	return (int) (queue->head++ % MAX_EVENTS);
}

bool fv_is_gone(struct ibv_context *ctx)
{
	return tagrv_container_of(ctx, struct fake_ctx, base)->gone;
}

/* ---- devices ---- */

enum ibv_fork_status fv_is_fork_initialized(void)
{
	return fv.counts.fork_inits && !fv.config.fork_errno ? IBV_FORK_ENABLED : fv.config.fork;
}

int fv_fork_init(void)
{
	LOCK();
	fv.counts.fork_inits++;
	fv.counts.late_fork_inits += fv.counts.device_lists != 0;
	UNLOCK();
	return fv.config.fork_errno;
}

struct ibv_device **fv_get_device_list(int *cnt)
{
	struct ibv_device **list;

	if (fv.config.list_errno) {
		errno = fv.config.list_errno;
		return NULL;
	}
	list = calloc(MAX_DEVICES + 1, sizeof(*list));
	if (!list)
		return NULL;
	LOCK();
	fv.counts.device_lists++;
	for (unsigned i = 0; i < fv.config.devices; i++)
		list[i] = &fv.devs[i];
	*cnt = (int) fv.config.devices;
	UNLOCK();
	return list;
}

void fv_free_device_list(struct ibv_device **list)
{
	free(list);
}

struct ibv_context *fv_open_device(struct ibv_device *dev)
{
	struct fake_ctx *ctx;

	if (fv.config.open_errno) {
		errno = fv.config.open_errno;
		return NULL;
	}
	if (fv.config.open_fails)
		return NULL;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return NULL;
	if (!fv_queue_open(&ctx->queue)) {
		free(ctx);
		return NULL;
	}
	ctx->base.device = dev;
	ctx->base.async_fd = ctx->queue.fd;
	ctx->base.num_comp_vectors = FAKE_VERBS_VECTORS;
	ctx->dev = (unsigned) (dev - fv.devs);
	LOCK();
	tagrv_list_push_tail(&fv.ctxs, &ctx->node);
	fv.counts.objects++;
	UNLOCK();
	return &ctx->base;
}

int fv_close_device(struct ibv_context *base)
{
	struct fake_ctx *ctx = tagrv_container_of(base, struct fake_ctx, base);

	LOCK();
	tagrv_list_remove(&ctx->node);
	fv.counts.objects--;
	UNLOCK();
	close(ctx->queue.fd);
	free(ctx);
	return 0;
}

int fv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	const struct fake_verbs_config *c = &fv.config;

	(void) ctx;
	if (c->query_errno)
		return c->query_errno;
	*attr = (struct ibv_device_attr) {
		.fw_ver = "1.2.3", .vendor_id = c->vendor_id, .vendor_part_id = 7,
		.max_qp = c->max_qp ? (int) c->max_qp : 1000, .max_qp_wr = c->max_qp_wr,
		.max_sge = c->max_sge, .max_cqe = c->max_cqe,
		.max_srq = c->max_srq, .max_srq_wr = c->max_srq_wr,
		.atomic_cap = c->no_atomics ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA,
		.max_qp_rd_atom = c->rd_atom,
		.max_qp_init_rd_atom = c->rd_atom,
		.phys_port_cnt = (uint8_t) c->ports,
	};
	return 0;
}

int fv_query_port(struct ibv_context *ctx, uint8_t port,
		  struct ibv_port_attr *attr)
{
	unsigned dev = tagrv_container_of(ctx, struct fake_ctx, base)->dev;

	if (!port || port > fv.config.ports)
		return EINVAL;
	if (fv.config.port_errno)
		return fv.config.port_errno;
	*attr = (struct ibv_port_attr) {
		.state = fv.config.port_state,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = dev ? IBV_MTU_1024 : IBV_MTU_4096,
		.gid_tbl_len = 16, .pkey_tbl_len = 2,
		.max_msg_sz = fv.config.max_msg,
		.active_speed = 32, .active_width = 2,
		.flags = fv.config.grh_required ? IBV_QPF_GRH_REQUIRED : 0,
		.lid = fv.config.infiniband && !fv.config.grh_required ?
		       (uint16_t) (100 + dev * 10 + port) : 0,
		.link_layer = fv.config.infiniband ?
			      IBV_LINK_LAYER_INFINIBAND :
			      IBV_LINK_LAYER_ETHERNET,
	};
	return 0;
}

union ibv_gid fv_make_gid(unsigned dev, unsigned port, int kind)
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

ssize_t fv_query_gid_table(struct ibv_context *ctx,
			   struct ibv_gid_entry *entries, size_t max)
{
	unsigned dev = tagrv_container_of(ctx, struct fake_ctx, base)->dev;
	size_t cnt = 0;

	if (fv.config.gids) {
		cnt = TAGRV_MIN(max, fv.config.gid_cnt);
		memcpy(entries, fv.config.gids, cnt * sizeof(*entries));
		return (ssize_t) cnt;
	}
	for (unsigned port = 1; port <= fv.config.ports; port++)
		for (int i = 0; i < (fv.config.infiniband ? 1 : 2); i++)
			entries[cnt++] = (struct ibv_gid_entry) {
				.gid = fv_make_gid(dev, port, i),
				.gid_index = (uint32_t) i, .port_num = port,
				.gid_type = fv.config.infiniband ?
					    IBV_GID_TYPE_IB :
					    IBV_GID_TYPE_ROCE_V2,
			};
	return (ssize_t) cnt;
}

/* Entry 0 of the table is a limited member of its partition, entry 1 a full one. */
int fv_query_pkey(struct ibv_context *ctx, uint8_t port, int index,
		  __be16 *pkey)
{
	struct fake_ctx *fake = tagrv_container_of(ctx, struct fake_ctx, base);
	unsigned full = fv.config.pkey[fake->dev];

	(void) port;
	if (!full)
		full = 0xffff;
	*pkey = htons((uint16_t) (index ? full : full & 0x7fff));
	return 0;
}

void fv_ipoib_get(const union ibv_gid *gid, char iface[IF_NAMESIZE])
{
	(void) gid;
	snprintf(iface, IF_NAMESIZE, "%s", fv.config.ipoib ? fv.config.ipoib : "");
}

/* Of the GIDs that fv_make_gid() makes. */
static void subnet_get(const union ibv_gid *gid, struct verbs_subnet *subnet)
{
	bool is_ours = gid->raw[12] == 10 && gid->raw[13] == 9;

	if (fv.config.subnet_get) {
		fv.config.subnet_get(gid, subnet);
		return;
	}
	*subnet = (struct verbs_subnet) { .prefix = 0 };
	if (!is_ours || !fv.config.prefix || gid->raw[14] >= MAX_DEVICES)
		return;
	subnet->prefix = (uint8_t) fv.config.prefix;
	subnet->vlan = (uint16_t) fv.config.vlan[gid->raw[14]];
}

void fv_subnets_get(const struct ibv_gid_entry *gids, size_t cnt,
		    struct verbs_subnet *subnets)
{
	for (size_t i = 0; i < cnt; i++)
		subnet_get(&gids[i].gid, &subnets[i]);
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

void fv_raise_event(unsigned dev, const struct ibv_async_event *event)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&fv.ctxs, pos) {
		struct fake_ctx *ctx =
			tagrv_container_of(pos, struct fake_ctx, node);

		if (ctx->dev == dev)
			ctx->events[fv_queue_push(&ctx->queue)] = *event;
	}
}

int fv_get_async_event(struct ibv_context *base,
		       struct ibv_async_event *event)
{
	struct fake_ctx *ctx = tagrv_container_of(base, struct fake_ctx, base);
	unsigned *unacked;
	int i;

	LOCK();
	i = fv_queue_pop(&ctx->queue);
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

void fv_ack_async_event(struct ibv_async_event *event)
{
	unsigned *unacked;

	LOCK();
	unacked = unacked_of(event);
	if (unacked)
		--*unacked;
	UNLOCK();
}

/* ---- memory ---- */

static struct fake_pd *pd_of(struct ibv_pd *pd)
{
	return tagrv_container_of(pd, struct fake_pd, base);
}

static struct ibv_pd *new_pd(struct ibv_context *ctx, struct ibv_pd *under,
			     struct ibv_td *td)
{
	struct fake_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->base.context = ctx;
	pd->under = under;
	pd->td = td ? tagrv_container_of(td, struct fake_td, base) : NULL;
	LOCK();
	fv.counts.objects++;
	if (td) {
		pd->td->users++;
		pd_of(under)->users++;
	}
	UNLOCK();
	return &pd->base;
}

struct ibv_pd *fv_alloc_pd(struct ibv_context *ctx)
{
	return new_pd(ctx, NULL, NULL);
}

struct ibv_pd *fv_alloc_parent_domain(struct ibv_pd *pd, struct ibv_td *td)
{
	if (fv.config.parent_errno) {
		errno = fv.config.parent_errno;
		return NULL;
	}
	return new_pd(pd->context, pd, td);
}

int fv_dealloc_pd(struct ibv_pd *pd)
{
	struct tagrv_list *pos;
	int ret = 0;

	LOCK();
	tagrv_list_for_each(&fv.mrs, pos)
		if (tagrv_container_of(pos, struct fake_mr, node)->base.pd == pd)
			ret = EBUSY;
	if (pd_of(pd)->users)
		ret = EBUSY;
	if (!ret && pd_of(pd)->td) {
		pd_of(pd)->td->users--;
		pd_of(pd_of(pd)->under)->users--;
	}
	fv.counts.objects -= !ret;
	UNLOCK();
	if (!ret)
		free(pd_of(pd));
	return ret;
}

struct ibv_td *fv_alloc_td(struct ibv_context *ctx)
{
	struct fake_td *td;

	if (fv.config.td_errno) {
		errno = fv.config.td_errno;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->base.context = ctx;
	LOCK();
	fv.counts.objects++;
	UNLOCK();
	return &td->base;
}

int fv_dealloc_td(struct ibv_td *base)
{
	struct fake_td *td = tagrv_container_of(base, struct fake_td, base);
	int ret = 0;

	LOCK();
	if (td->users)
		ret = EBUSY;
	fv.counts.objects -= !ret;
	UNLOCK();
	if (!ret)
		free(td);
	return ret;
}

#define EXPOSES	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
		 IBV_ACCESS_REMOTE_ATOMIC)

static bool pin_pages(struct fake_mr *mr, void *addr, size_t len)
{
	mr->pin = fv.config.pinned ? fv_pin(addr, len) : -1;
	return !fv.config.pinned || mr->pin >= 0;
}

struct ibv_ah *fv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah;

	if (attr->grh.sgid_index < 64 &&
	    fv.config.dead_gids >> attr->grh.sgid_index & 1) {
		errno = EINVAL;
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ah->pd = pd;
	LOCK();
	fv.counts.objects++;
	UNLOCK();
	return ah;
}

int fv_destroy_ah(struct ibv_ah *ah)
{
	LOCK();
	fv.counts.objects--;
	UNLOCK();
	free(ah);
	return 0;
}

struct ibv_mr *fv_reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			 int access)
{
	struct fake_mr *mr = NULL;
	int err;

	LOCK();
	fv.clock += fv.config.reg_ns + len / 1024 * fv.config.reg_ns_per_kib +
		    (fv.registered ? 0 : fv.config.reg_first_ns);
	fv.registered = true;
	err = fires(&fv.reg);
	if (!err && fv.config.memlock &&
	    fv.counts.registered + len > fv.config.memlock)
		err = ENOMEM;
	if (err)
		errno = err;
	else
		mr = calloc(1, sizeof(*mr));
	if (mr && !pin_pages(mr, addr, len)) {
		free(mr);
		mr = NULL;
	}
	if (mr) {
		mr->base = (struct ibv_mr) {
			.context = pd->context, .pd = pd, .addr = addr,
			.length = len, .lkey = ++fv.next_key,
			.rkey = fv.next_key | 0x80000000u,
		};
		mr->access = access;
		tagrv_list_push_tail(&fv.mrs, &mr->node);
		fv.counts.objects++;
		fv.counts.registered += len;
		fv.counts.exposed += !!(access & EXPOSES);
		if (fv.on_reg)
			fv.on_reg(addr, len, access);
	}
	UNLOCK();
	return mr ? &mr->base : NULL;
}

int fv_dereg_mr(struct ibv_mr *base)
{
	struct fake_mr *mr = tagrv_container_of(base, struct fake_mr, base);

	LOCK();
	tagrv_list_remove(&mr->node);
	if (mr->pin >= 0)
		fv_unpin(mr->pin);
	fv.counts.objects--;
	fv.counts.registered -= base->length;
	fv.counts.exposed -= !!(mr->access & EXPOSES);
	UNLOCK();
	free(mr);
	return 0;
}

static const struct fake_mr *find_mr(const struct ibv_pd *pd, uint32_t key,
				     bool remote)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&fv.mrs, pos) {
		const struct fake_mr *mr =
			tagrv_container_of(pos, struct fake_mr, node);

		if (key == (remote ? mr->base.rkey : mr->base.lkey) &&
		    pd == mr->base.pd)
			return mr;
	}
	return NULL;
}

/* Whether the range is registered under the key with these access flags, all of them. */
bool fv_covered(const struct ibv_pd *pd, uint32_t key, bool remote,
		uint64_t addr, uint64_t len, int access)
{
	const struct fake_mr *mr = find_mr(pd, key, remote);
	uint64_t start = mr ? (uintptr_t) mr->base.addr : 0;

	return mr && (mr->access & access) == access && addr >= start &&
	       addr + len <= start + mr->base.length;
}

int fv_pin_of(const struct ibv_pd *pd, uint32_t key, bool remote)
{
	const struct fake_mr *mr = find_mr(pd, key, remote);

	return mr ? mr->pin : -1;
}
