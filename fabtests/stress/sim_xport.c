/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The random transport: see sim.h.
 *
 *   send, fenced put --> out --(in order)-----.
 *   get, other puts  --> rdma --(any order)---+--> peer's memory, peer's 'in'
 *                                             '--> dones --> done callbacks
 *
 * Posted operations wait in 'out' and 'rdma' until sim_move.c carries them out.
 */
#include "sim_xport.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 40, CTRL_ROOM = 80, RDMA_MAX = 1 << 20 };

/* --- device and memory --- */

static void dev_close(struct tagrv_device *dev)
{
	(void)dev;
}

static int mem_reg(struct tagrv_device *dev, void *addr, size_t len, unsigned access,
		   struct tagrv_mem **mem)
{
	if (sim_chance(sim.mix.no_reg))
		return -FI_ENOMEM;
	*mem = sim_mem_own(dev, addr, len, access);
	return 0;
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
		.admits = TAGRV_MEM_REMOTE,
		.tagged_end = sim.mix.tagged_end, .max_inline = 64, .max_packet = params->eager_max + TAGRV_HDR_ROOM,
		.get_max = RDMA_MAX, .get_depth = sim.mix.depth,
		.put_max = RDMA_MAX, .put_depth = sim.mix.depth,
		.latency = 1e-6, .bandwidth = 1e9, .copy_bandwidth = 1e9, .overhead = 1e-7,
		.reg_overhead = 5e-7, .reg_growth = 1e-12, .reg_piece = params->read_segment,
		.source = "declared",
	};
	if (params->hw_tags)
		x->base.attr.tagged_end = 0;	/* as of transports to devices */
	sim_list_open(x);
	*xport = &x->base;
	return 0;
}

static void xport_close(struct tagrv_xport *xport)
{
	SIM_CHECK(!sim_xport_of(xport)->links, "an endpoint is closed that has connections");
	sim_list_close(sim_xport_of(xport));
	free(xport);
}

static int link_create(struct tagrv_xport *xport, void *blob, size_t *len, struct tagrv_link **link)
{
	(void)xport, (void)blob, (void)len, (void)link;
	return -FI_ENOMEM;	/* sim_conn.c makes the connections */
}

static int link_bind(struct tagrv_link *link, const void *blob, size_t len)
{
	(void)link, (void)blob, (void)len;
	return -FI_EINVAL;
}

static int link_attach(struct tagrv_link *base, void *ctx)
{
	struct sim_xport *x = sim_xport_of(base->xport);
	struct sim_link *link = sim_link_of(base);

	base->ctx = ctx;
	link->attached = true;
	link->next = x->links;
	x->links = link;
	return 0;
}

static void link_close(struct tagrv_link *base)
{
	SIM_CHECK(!sim_link_of(base)->closing, "a connection is closed twice");
	sim_link_of(base)->closing = true;
}

/* --- posting --- */

/* Returns 0 when the link accepts an operation. */
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
	item->listed = flags & TAGRV_SEND_TAGGED;
	sim_list_check(sim_link_of(base), item);
	sim_queue_push(&sim_link_of(base)->out, item);
	return 0;
}

static ssize_t post_tagged(struct tagrv_link *base, uint64_t meta, uint64_t tag, uint64_t data,
			   const void *payload)
{
	size_t len = TAGRV_META_LEN(meta);
	struct item *item;

	SIM_CHECK(len < base->xport->attr.tagged_end, "a tagged message of %zu bytes", len);
	SIM_CHECK(!(meta & ~(TAGRV_META_SHARED | TAGRV_META_DATA)), "unknown bits in %#" PRIx64, meta);
	if (link_busy(sim_link_of(base), 0))
		return -FI_EAGAIN;
	item = sim_item_new(ITEM_TAGGED, NULL, len);
	item->data = sim_alloc(len);
	tagrv_copy(item->data, payload, len);
	item->meta = meta;
	item->tag = tag;
	item->tag_data = data;
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
	item->listed = base->number;
	sim_list_check(sim_link_of(base), item);
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
	SIM_CHECK(key_len == SIM_KEY_LEN, "a key of %zu bytes", key_len);
	mem_check_local(want.addr, want.len, mem);
	item = sim_item_new(want.kind, want.done, want.len);
	item->addr = want.addr;
	item->raddr = want.raddr;
	memcpy(&item->key, key, SIM_KEY_LEN);
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

/* --- the rest --- */

static size_t outstanding(struct tagrv_xport *xport)
{
	size_t cnt = 0;

	for (struct sim_link *link = sim_xport_of(xport)->links; link; link = link->next)
		cnt += link->out.cnt + link->rdma.cnt + link->dones.cnt;
	return cnt;
}

/* The simulation never sleeps. */
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
	.mem_dereg = sim_mem_dereg,
	.mem_key = sim_mem_key,
	.xport_open = xport_open,
	.xport_close = xport_close,
	.link_create = link_create,
	.link_bind = link_bind,
	.link_discard = sim_link_discard,
	.side_create = tagrv_stub_side_create,
	.link_attach = link_attach,
	.link_close = link_close,
	.link_resume = tagrv_stub_link_resume,
	.link_unrenewed = tagrv_stub_link_unrenewed,
	.blobs_near = tagrv_stub_blobs_near,
	.send = post_send,
	.send_short = tagrv_stub_send_short,
	.send_tagged = post_tagged,
	.drain = tagrv_stub_drain,
	.publish = tagrv_stub_publish,
	.send_prepared = post_prepared,
	.get = post_get,
	.put = post_put,
	.atomic = tagrv_stub_atomic,
	.progress = sim_move_progress,
	.reap = sim_move_reap,
	.flush = tagrv_stub_flush,
	.check = tagrv_stub_check,
	.outstanding = outstanding,
	.wait_fd = wait_fd,
	.arm = arm,
};
