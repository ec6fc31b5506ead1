/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random operations. A message has its id in its tag and in its remote CQ data, if
 * any, so that the receiver can identify it. Receives select by the lowest bits of
 * the tag.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

enum { ID_SHIFT = 4 };

/* Lengths around the limits of protocols, packets and pieces. */
static const size_t lens[] = { 0, 1, 8, 60, 64, 100, 500, 1000, 1024, 1025, 2000, 5000, 8192,
			       8193, 12000, 30000, 66000, 150000 };
enum { SHORT_LENS = 13 };

static const uint64_t levels[] = { FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE, FI_TRANSMIT_COMPLETE,
				   FI_INJECT, FI_INJECT_COMPLETE, 0, 0, 0, 0, 0 };

unsigned char sim_pattern(unsigned id, size_t i)
{
	return (unsigned char)(id * 31 + i * 7 + (i >> 8) * 3);
}

/* --- operations --- */

static struct sim_op *op_new(enum sim_kind kind, int side)
{
	struct sim_op *op = sim_alloc(sizeof(*op));

	op->kind = kind;
	op->side = side;
	op->number = ++sim.op_cnt;
	tagrv_list_push_tail(&sim.live, &op->node);
	return op;
}

void sim_op_free(struct sim_op *op)
{
	tagrv_list_remove(&op->node);
	if (op->mem)
		op->mem->dev->ops->mem_dereg(op->mem);
	free(op->buf);
	free(op);
}

static struct sim_op *op_of(struct tagrv_list *node)
{
	return tagrv_container_of(node, struct sim_op, node);
}

static size_t some_len(void)
{
	size_t len = lens[sim_below(sim_chance(70) ? SHORT_LENS : TAGRV_ARRAY_SIZE(lens))];

	if (sim_chance(30))
		len -= sim_below(TAGRV_MIN(len, (size_t)50));
	return TAGRV_MIN(len, sim.mix.max_len);
}

static void split(struct sim_op *op)
{
	size_t parts = sim_chance(70) ? 1 : 1 + sim_below(TAGRV_IOV_MAX), left = op->len;
	char *pos = op->buf;

	op->iov_cnt = parts;
	for (size_t i = 0; i < parts; i++) {
		size_t len = i + 1 == parts ? left : sim_chance(20) ? 0 : sim_below(left + 1);

		op->iov[i] = (struct iovec){ pos, len };
		pos += len;
		left -= len;
	}
}

/* Allocates op->len bytes, in random segments unless the buffer is for several messages. */
static void get_buffer(struct sim_op *op)
{
	op->buf = sim_alloc(op->len);
	memset(op->buf, SIM_FILL, op->len);
	if (op->kind != SIM_MULTI) {
		split(op);
		return;
	}
	op->iov[0] = (struct iovec){ op->buf, op->len };
	op->iov_cnt = 1;
}

/* Registers the buffer, at random; returns the request's mem, or NULL. */
static struct tagrv_mem **register_own(struct sim_op *op, struct tagrv_mem *mem[TAGRV_IOV_MAX])
{
	unsigned access = sim_chance(50) ? TAGRV_MEM_READ | TAGRV_MEM_WRITE : TAGRV_MEM_READ;

	if (!op->len || !sim_chance(sim.mix.own_mem))
		return NULL;
	op->mem = sim_mem_own(sim.side[op->side].dom->dev, op->buf, op->len, access);
	for (size_t i = 0; i < TAGRV_IOV_MAX; i++)
		mem[i] = op->mem;
	return mem;
}

/* --- sends --- */

/* Sides with a shared context do not send to each other. */
static bool may_talk(int src, int dst)
{
	return src == dst ? sim_chance(40) : !sim.shared || !src || !dst;
}

static uint64_t some_send_flags(bool no_context)
{
	uint64_t flags = no_context ? FI_INJECT :
			 FI_COMPLETION | levels[sim_below(TAGRV_ARRAY_SIZE(levels))];

	if (sim_chance(5))
		flags |= FI_FENCE;
	if (sim_chance(10))
		flags |= FI_MORE;
	return flags;
}

static struct sim_msg some_msg(unsigned id, int src, int dst, uint64_t flags)
{
	struct sim_msg msg = { .src = src, .dst = dst, .flags = flags, .data = true };

	msg.len = some_len();
	msg.space = sim_chance(70) ? TAGRV_SPACE_TAGGED : TAGRV_SPACE_MSG;
	if (flags & FI_INJECT && msg.len > TAGRV_INJECT_MAX)
		msg.len = sim_below(TAGRV_INJECT_MAX + 1);
	if (msg.space == TAGRV_SPACE_TAGGED) {
		msg.tag = (uint64_t)id << ID_SHIFT | sim_below(SIM_TAGS);
		msg.data = sim_chance(85);
	}
	if (msg.data)
		msg.flags |= FI_REMOTE_CQ_DATA;
	return msg;
}

static struct sim_op *op_of_msg(const struct sim_msg *msg, unsigned id)
{
	struct sim_op *op = op_new(SIM_SEND, msg->src);

	op->id = id;
	op->len = msg->len;
	op->flags = msg->flags;
	get_buffer(op);
	for (size_t i = 0; i < op->len; i++)
		op->buf[i] = (char)sim_pattern(id, i);
	return op;
}

/* After an inject the buffer may be overwritten; without context the operation is over. */
static void sent(struct sim_op *op, const struct sim_msg *msg, bool no_context)
{
	SIM_TRACE("send %u: %d->%d message %u, %zu bytes, tag %#llx, flags %#llx", op->number,
		  msg->src, msg->dst, op->id, msg->len, (unsigned long long)msg->tag,
		  (unsigned long long)msg->flags);
	sim.msgs[sim.msg_cnt++] = *msg;
	sim.side[msg->src].accepted++;
	if (no_context) {
		sim_op_free(op);
		return;
	}
	sim.sends++;
	if (op->flags & FI_INJECT) {
		free(op->buf);
		op->buf = NULL;
	}
}

static void send_from_to(int src, int dst)
{
	struct tagrv_mem *mem[TAGRV_IOV_MAX];
	bool no_context = sim_chance(8);
	struct sim_msg msg = some_msg(sim.msg_cnt, src, dst, some_send_flags(no_context));
	struct sim_op *op = op_of_msg(&msg, sim.msg_cnt);
	struct tagrv_send_req req = {
		.iov = op->iov, .iov_cnt = op->iov_cnt,
		.dest = src == dst ? sim.side[src].self : (fi_addr_t)dst,
		.tag = msg.tag, .data = op->id, .context = op, .flags = msg.flags,
		.space = msg.space, .no_context = no_context,
	};
	ssize_t ret;

	if (!(msg.flags & FI_INJECT))
		req.mem = register_own(op, mem);
	ret = tagrv_engine_send(sim.side[src].engine, &req);
	SIM_CHECK(!ret || ret == -FI_EAGAIN, "a send is refused: %zd", ret);
	if (ret)
		sim_op_free(op);
	else
		sent(op, &msg, no_context);
}

void sim_traffic_send(void)
{
	int src = (int)sim_below((size_t)sim.side_cnt), dst = (int)sim_below((size_t)sim.side_cnt);

	if (sim.sends < sim.mix.sends && may_talk(src, dst))
		send_from_to(src, dst);
}

/* --- receives --- */

static void choose(struct tagrv_recv_req *req, int side)
{
	size_t other;

	req->src = FI_ADDR_UNSPEC;
	if (req->space == TAGRV_SPACE_TAGGED) {
		req->ignore = ~UINT64_C(0);
		if (sim_chance(60)) {
			req->ignore = ~(uint64_t)(SIM_TAGS - 1);
			req->tag = sim_below(SIM_TAGS);
		}
	}
	if (!sim_chance(sim.mix.directed))
		return;
	do
		other = sim_below((size_t)sim.side_cnt);
	while ((int)other == side);
	req->src = other;
}

static bool posted(struct sim_op *op, const struct tagrv_recv_req *req)
{
	ssize_t ret;

	sim.recvs++;
	ret = tagrv_rx_recv(sim.side[op->side].rx, req);
	SIM_CHECK(!ret || ret == -FI_EAGAIN, "a receive is refused: %zd", ret);
	if (ret)
		sim.recvs--;
	else
		SIM_TRACE("receive %u: side %d, kind %d, %zu bytes, tag %#llx/%#llx, flags %#llx",
			  op->number, op->side, (int)op->kind, op->len,
			  (unsigned long long)req->tag, (unsigned long long)req->ignore,
			  (unsigned long long)req->flags);
	return !ret;
}

static size_t some_room(enum sim_kind kind)
{
	if (kind == SIM_MULTI)
		return 1000 + sim_below(60000);
	return sim_chance(75) ? sim.mix.max_len : some_len();
}

void sim_traffic_recv(void)
{
	uint8_t space = sim_chance(70) ? TAGRV_SPACE_TAGGED : TAGRV_SPACE_MSG;
	bool multi = space == TAGRV_SPACE_MSG && sim_chance(sim.mix.multi);
	struct tagrv_recv_req req = {
		.flags = FI_COMPLETION | (multi ? FI_MULTI_RECV : 0), .space = space };
	struct tagrv_mem *mem[TAGRV_IOV_MAX];
	struct sim_op *op;

	if (sim.recvs >= sim.mix.recvs)
		return;
	op = op_new(multi ? SIM_MULTI : SIM_RECV, (int)sim_below((size_t)sim.side_cnt));
	op->len = some_room(op->kind);
	get_buffer(op);
	choose(&req, op->side);
	req.iov = op->iov;
	req.iov_cnt = op->iov_cnt;
	req.context = op;
	req.mem = register_own(op, mem);
	if (!posted(op, &req))
		sim_op_free(op);
}

void sim_traffic_peek(void)
{
	static const uint64_t also[] = { 0, FI_CLAIM, FI_DISCARD };
	struct sim_op *op = op_new(SIM_PEEK, (int)sim_below((size_t)sim.side_cnt));
	struct tagrv_recv_req req = { .context = op, .space = TAGRV_SPACE_TAGGED };

	op->flags = FI_PEEK | also[sim_below(TAGRV_ARRAY_SIZE(also))];
	req.flags = FI_COMPLETION | op->flags;
	choose(&req, op->side);
	SIM_CHECK(posted(op, &req), "a peek is refused");
}

static void post_claim(struct sim_op *op)
{
	struct tagrv_recv_req req = { .src = FI_ADDR_UNSPEC, .context = op,
				      .space = TAGRV_SPACE_TAGGED,
				      .tag = sim.msgs[op->id].tag };

	op->flags = sim_chance(20) ? FI_DISCARD : 0;
	op->len = some_room(op->kind);
	get_buffer(op);
	req.iov = op->iov;
	req.iov_cnt = op->iov_cnt;
	req.flags = FI_COMPLETION | FI_CLAIM | op->flags;
	op->claiming = true;
	if (posted(op, &req))
		return;
	op->claiming = false;
	free(op->buf);
	op->buf = NULL;
}

void sim_traffic_claim(bool sure)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&sim.live, pos) {
		struct sim_op *op = op_of(pos);

		if (op->kind != SIM_CLAIM || op->claiming || !(sure || sim_chance(20)))
			continue;
		post_claim(op);
		return;
	}
}

/* --- cancelling --- */

static bool may_cancel(const struct sim_op *op)
{
	return (op->kind == SIM_RECV || op->kind == SIM_MULTI) && !op->cancelled;
}

size_t sim_traffic_posted(void)
{
	struct tagrv_list *pos;
	size_t cnt = 0;

	tagrv_list_for_each(&sim.live, pos)
		cnt += may_cancel(op_of(pos));
	return cnt;
}

static void cancel(struct sim_op *op)
{
	int ret = tagrv_rx_cancel(sim.side[op->side].rx, op);

	SIM_CHECK(!ret || ret == -FI_ENOENT, "cancelling: %d", ret);
	op->cancelled = !ret;
	SIM_TRACE("cancel %u: %d", op->number, ret);
}

void sim_traffic_cancel(void)
{
	size_t cnt = sim_traffic_posted(), place = sim_below(cnt);
	struct tagrv_list *pos;

	tagrv_list_for_each(&sim.live, pos) {
		if (!may_cancel(op_of(pos)) || place--)
			continue;
		cancel(op_of(pos));
		return;
	}
}

void sim_traffic_drop_all(void)
{
	while (!tagrv_list_empty(&sim.live))
		sim_op_free(op_of(tagrv_list_first(&sim.live)));
}
