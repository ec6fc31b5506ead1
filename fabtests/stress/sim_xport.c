/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The random transport: see sim.h.
 *
 *   send, fenced put --> out --(in order)--.
 *   get, other puts  --> rdma --(in any)---+--> peer's memory, peer's 'in'
 *                                          '--> dones --> done callbacks
 *
 * What is posted waits there until sim_move.c moves it.
 */
#include "sim_xport.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 40, CTRL_ROOM = 80, KEY_LEN = 4, RDMA_MAX = 1 << 20 };

struct sim_mem {
	struct tagrv_mem base;
	uint32_t key;
	struct sim_mem *next;
};

static struct sim_mem *mems;
static uint32_t last_key;

/* --- queues --- */

static void queue_init(struct queue *q)
{
	*q = (struct queue){ .tail = &q->head };
}

void sim_queue_push(struct queue *q, struct item *item)
{
	item->next = NULL;
	*q->tail = item;
	q->tail = &item->next;
	q->cnt++;
}

struct item *sim_queue_take(struct queue *q, size_t place)
{
	struct item **pos = &q->head, *item;

	if (!q->cnt)
		return NULL;
	while (place--)
		pos = &(*pos)->next;
	item = *pos;
	*pos = item->next;
	if (!*pos)
		q->tail = pos;
	q->cnt--;
	return item;
}

void sim_item_free(struct item *item)
{
	free(item->data);
	free(item);
}

/* --- device and memory --- */

static void dev_close(struct tagrv_device *dev)
{
	(void)dev;
}

struct tagrv_mem *sim_mem_own(struct tagrv_device *dev, void *addr, size_t len, unsigned access)
{
	struct sim_mem *mem = sim_alloc(sizeof(*mem));

	SIM_CHECK(len, "a registration of no bytes");
	mem->base = (struct tagrv_mem){ .dev = dev, .addr = addr, .len = len, .access = access };
	mem->key = ++last_key;
	mem->next = mems;
	mems = mem;
	sim.regs++;
	return &mem->base;
}

static int mem_reg(struct tagrv_device *dev, void *addr, size_t len, unsigned access,
		   struct tagrv_mem **mem)
{
	if (sim_chance(sim.mix.no_reg))
		return -FI_ENOMEM;
	*mem = sim_mem_own(dev, addr, len, access);
	return 0;
}

static void mem_dereg(struct tagrv_mem *base)
{
	struct sim_mem **pos = &mems, *mem;

	while (*pos && &(*pos)->base != base)
		pos = &(*pos)->next;
	mem = *pos;
	SIM_CHECK(mem, "deregisters what is not registered");
	*pos = mem->next;
	free(mem);
	sim.regs--;
}

static size_t mem_key(const struct tagrv_mem *base, void *key)
{
	memcpy(key, &((const struct sim_mem *)base)->key, KEY_LEN);
	return KEY_LEN;
}

/* Whether a peer may reach that. */
bool sim_mem_allows(const struct item *item)
{
	unsigned access = item->kind == ITEM_GET ? TAGRV_MEM_READ : TAGRV_MEM_WRITE;

	for (struct sim_mem *mem = mems; mem; mem = mem->next)
		if (mem->key == item->key)
			return mem->base.access & access &&
			       tagrv_range_within(item->raddr, item->len,
						  (uintptr_t)mem->base.addr, mem->base.len);
	return false;
}

static void mem_check_local(const void *addr, size_t len, const struct tagrv_mem *mem)
{
	SIM_CHECK(tagrv_range_within((uintptr_t)addr, len, (uintptr_t)mem->addr, mem->len),
		  "%zu bytes are not within the memory given with them", len);
}

/* --- endpoints and links --- */

static int xport_open(struct tagrv_device *dev, const struct tagrv_params *params,
		      struct tagrv_sink *sink, struct tagrv_xport **xport)
{
	struct sim_xport *x = sim_alloc(sizeof(*x));

	x->base = (struct tagrv_xport){ .ops = dev->ops, .dev = dev, .sink = sink };
	x->base.attr = (struct tagrv_xport_attr){
		.caps = sim.mix.caps,
		.max_inline = 64, .max_packet = params->eager_max + TAGRV_HDR_ROOM,
		.get_max = RDMA_MAX, .get_depth = sim.mix.depth,
		.put_max = RDMA_MAX, .put_depth = sim.mix.depth,
		.latency = 1e-6, .bandwidth = 1e9, .copy_bandwidth = 1e9, .overhead = 1e-7,
		.reg_overhead = 5e-7, .reg_growth = 1e-12, .reg_piece = params->read_segment,
		.source = "declared",
	};
	*xport = &x->base;
	return 0;
}

static void xport_close(struct tagrv_xport *xport)
{
	SIM_CHECK(!sim_xport_of(xport)->links, "an endpoint is closed that has connections");
	free(xport);
}

void sim_link_pair(struct sim_link *link[2], const int side[2], const uint32_t epoch[2])
{
	for (int i = 0; i < 2; i++) {
		struct sim_link *l = sim_alloc(sizeof(*l));

		l->base.xport = sim.side[side[i]].engine->rails.xports[0];
		l->base.get_max = (size_t)4096 << sim_below(9);
		l->base.put_max = (size_t)4096 << sim_below(9);
		l->side = side[i];
		l->other = side[!i];
		l->epoch = epoch[i];
		queue_init(&l->out);
		queue_init(&l->in);
		queue_init(&l->rdma);
		queue_init(&l->dones);
		link[i] = l;
		sim.links++;
	}
	link[0]->peer = link[1];
	link[1]->peer = link[0];
}

struct tagrv_link *sim_link_base(struct sim_link *link)
{
	return &link->base;
}

static int link_create(struct tagrv_xport *xport, void *blob, size_t *len, struct tagrv_link **link)
{
	(void)xport, (void)blob, (void)len, (void)link;
	return -FI_ENOMEM;	/* connections are sim_conn.c's */
}

static int link_bind(struct tagrv_link *link, const void *blob, size_t len)
{
	(void)link, (void)blob, (void)len;
	return -FI_EINVAL;
}

void sim_link_discard(struct tagrv_link *link)
{
	free(link);
	sim.links--;
}

void sim_link_bereave(struct sim_link *link)
{
	sim_link_discard(&link->peer->base);
	link->peer = NULL;
}

static int link_attach(struct tagrv_link *base, void *ctx)
{
	struct sim_xport *x = sim_xport_of(base->xport);
	struct sim_link *link = sim_link_of(base);

	base->ctx = ctx;
	link->next = x->links;
	x->links = link;
	return 0;
}

static void link_close(struct tagrv_link *base)
{
	SIM_CHECK(!sim_link_of(base)->closing, "a connection is closed twice");
	sim_link_of(base)->closing = true;
}

void sim_link_break(struct sim_link *link)
{
	link->broken = true;
	if (link->peer)
		link->peer->broken = true;
}

void sim_link_break_one(int side)
{
	struct sim_link *link = sim_xport_of(sim.side[side].engine->rails.xports[0])->links;

	for (size_t n = sim_below(3); n && link && link->next; n--)
		link = link->next;
	if (!link || link->broken || link->closing)
		return;
	SIM_TRACE("connection %d-%d breaks", side, link->other);
	sim.broken = true;
	sim_link_break(link);
}

uint32_t sim_link_take_gone(int side, int *other)
{
	struct sim_link *link = sim_xport_of(sim.side[side].engine->rails.xports[0])->links;

	while (link && (!link->gone || link->closing))
		link = link->next;
	if (!link)
		return 0;
	link->gone = false;
	*other = link->other;
	return link->epoch;
}

/* --- posting --- */

/* 0 when there is room. */
static int link_busy(struct sim_link *link, unsigned flags)
{
	bool ctrl = flags & TAGRV_SEND_CTRL;

	SIM_CHECK(!link->closing, "a connection is used that was closed");
	if (link->broken)
		return link->reported || sim_chance(50) ? -FI_ENOTCONN : -FI_EAGAIN;
	if (link->out.cnt >= (ctrl ? CTRL_ROOM : ROOM))
		return -FI_EAGAIN;
	return sim_chance(ctrl ? sim.mix.full / 2 : sim.mix.full) ? -FI_EAGAIN : 0;
}

struct item *sim_item_new(enum item_kind kind, struct tagrv_done *done, size_t len)
{
	struct item *item = sim_alloc(sizeof(*item));

	item->kind = kind;
	item->done = done;
	item->len = len;
	return item;
}

static int post_send(struct tagrv_link *base, const struct iovec *iov, size_t cnt, unsigned flags,
		     struct tagrv_done *done)
{
	size_t len = tagrv_iov_len(iov, cnt);
	int ret = link_busy(sim_link_of(base), flags);
	struct item *item;

	if (ret)
		return ret;
	SIM_CHECK(len <= base->xport->attr.max_packet, "a packet of %zu bytes", len);
	item = sim_item_new(ITEM_SEND, done, len);
	item->data = sim_alloc(len);
	tagrv_iov_gather(item->data, iov, cnt);
	sim_queue_push(&sim_link_of(base)->out, item);
	return 0;
}

static int post_prepared(struct tagrv_link *base, const void *hdr, size_t hdr_len,
			 const struct iovec *iov, struct tagrv_mem *const *mem, size_t cnt,
			 struct tagrv_done *done)
{
	int ret = link_busy(sim_link_of(base), 0);
	struct item *item;

	if (ret)
		return ret;
	item = sim_item_new(ITEM_PREPARED, done, hdr_len);
	item->data = sim_alloc(hdr_len);
	memcpy(item->data, hdr, hdr_len);
	item->iov_cnt = cnt;
	for (size_t i = 0; i < cnt; i++) {
		item->iov[i] = iov[i];
		if (iov[i].iov_len)
			mem_check_local(iov[i].iov_base, iov[i].iov_len, mem[i]);
	}
	sim_queue_push(&sim_link_of(base)->out, item);
	return 0;
}

static int post_rdma(struct sim_link *link, struct item want, const struct tagrv_mem *mem,
		     const void *key, size_t key_len)
{
	bool get = want.kind == ITEM_GET;
	size_t *in_flight = get ? &link->gets : &link->puts;
	int ret = link_busy(link, 0);
	struct item *item;

	if (ret)
		return ret;
	if (*in_flight >= sim.mix.depth)
		return -FI_EAGAIN;
	SIM_CHECK(want.len && want.len <= (get ? link->base.get_max : link->base.put_max),
		  "a %s of %zu bytes", get ? "get" : "put", want.len);
	SIM_CHECK(key_len == KEY_LEN, "a key of %zu bytes", key_len);
	mem_check_local(want.addr, want.len, mem);
	item = sim_item_new(want.kind, want.done, want.len);
	item->addr = want.addr;
	item->raddr = want.raddr;
	memcpy(&item->key, key, KEY_LEN);
	++*in_flight;
	sim_queue_push(!get && sim.mix.caps & TAGRV_XPORT_PUT_FENCED ? &link->out : &link->rdma, item);
	return 0;
}

static int post_get(struct tagrv_link *base, void *addr, struct tagrv_mem *mem, uint64_t raddr,
		    const void *key, size_t key_len, size_t len, struct tagrv_done *done)
{
	struct item want = { .kind = ITEM_GET, .done = done, .len = len,
			     .addr = addr, .raddr = raddr };

	return post_rdma(sim_link_of(base), want, mem, key, key_len);
}

static int post_put(struct tagrv_link *base, const void *addr, struct tagrv_mem *mem,
		    uint64_t raddr, const void *key, size_t key_len, size_t len,
		    struct tagrv_done *done)
{
	struct item want = { .kind = ITEM_PUT, .done = done, .len = len,
			     .addr = (void *)(uintptr_t)addr, .raddr = raddr };

	return post_rdma(sim_link_of(base), want, mem, key, key_len);
}

/* --- the whole --- */

static size_t outstanding(struct tagrv_xport *xport)
{
	size_t cnt = 0;

	for (struct sim_link *link = sim_xport_of(xport)->links; link; link = link->next)
		cnt += link->out.cnt + link->rdma.cnt + link->dones.cnt;
	return cnt;
}

/* Nobody sleeps here. */
static int wait_fd(struct tagrv_xport *xport)
{
	(void)xport;
	return -1;
}

static int arm(struct tagrv_xport *xport)
{
	(void)xport;
	return -FI_EAGAIN;
}

const struct tagrv_xport_ops sim_xport_ops = {
	.name = "sim",
	.wire_id = 250,
	.dev_close = dev_close,
	.dev_event_fd = tagrv_stub_dev_event_fd,
	.dev_event = tagrv_stub_dev_event,
	.mem_reg = mem_reg,
	.mem_dereg = mem_dereg,
	.mem_key = mem_key,
	.xport_open = xport_open,
	.xport_close = xport_close,
	.link_create = link_create,
	.link_bind = link_bind,
	.link_discard = sim_link_discard,
	.link_attach = link_attach,
	.link_close = link_close,
	.send = post_send,
	.send_short = tagrv_stub_send_short,
	.send_prepared = post_prepared,
	.get = post_get,
	.put = post_put,
	.progress = sim_move_progress,
	.reap = sim_move_reap,
	.flush = tagrv_stub_flush,
	.outstanding = outstanding,
	.wait_fd = wait_fd,
	.arm = arm,
};
