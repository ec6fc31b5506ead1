/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Checks of completions: see sim.h.
 */
#include "sim.h"

#include <inttypes.h>
#include <string.h>

enum { TAKEN = 0xdd };	/* overwrites checked parts of multi-receive buffers */

/* Finds the operation; fails if it does not exist or has ended. */
static struct sim_op *op_of(const struct tagrv_comp *comp)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&sim.live, pos) {
		struct sim_op *op = tagrv_container_of(pos, struct sim_op, node);

		if (op == comp->context)
			return op;
	}
	sim_fail("a completion of no operation: flags %#" PRIx64 ", error %d", comp->flags,
		 comp->err);
}

static unsigned id_of(const struct tagrv_comp *comp)
{
	return (unsigned)(comp->flags & FI_REMOTE_CQ_DATA ? comp->data : comp->tag >> 4);
}

/* Marks a message as received, discarded or lost; only once. */
static void get_msg(unsigned id)
{
	SIM_CHECK(id < sim.msg_cnt, "message %u was never sent", id);
	SIM_CHECK(!sim.msgs[id].got, "message %u is received twice", id);
	sim.msgs[id].got = true;
	sim.got_cnt++;
}

static uint64_t flags_of(const struct sim_msg *msg, uint64_t what)
{
	return what | (msg->space == TAGRV_SPACE_TAGGED ? FI_TAGGED : FI_MSG);
}

/* Checks flags, tag and source of a receive or peek; returns the message. */
static const struct sim_msg *check_envelope(const struct tagrv_comp *comp)
{
	unsigned id = id_of(comp);
	const struct sim_msg *msg = &sim.msgs[id];
	uint64_t flags;
	fi_addr_t src;

	SIM_CHECK(id < sim.msg_cnt, "message %u was never sent", id);
	flags = flags_of(msg, FI_RECV) | (msg->data ? FI_REMOTE_CQ_DATA : 0);
	src = msg->src == msg->dst ? sim.side[msg->src].self : (fi_addr_t)msg->src;
	SIM_CHECK(comp->flags == flags, "message %u: flags %#" PRIx64 ", not %#" PRIx64, id,
		  comp->flags, flags);
	SIM_CHECK(msg->space != TAGRV_SPACE_TAGGED || comp->tag == msg->tag,
		  "message %u: tag %#" PRIx64 ", not %#" PRIx64, id, comp->tag, msg->tag);
	SIM_CHECK(comp->src == src, "message %u: source %" PRIu64 ", not %" PRIu64, id, comp->src,
		  src);
	return msg;
}

static void check_bytes(const void *buf, size_t len, unsigned id)
{
	const unsigned char *byte = buf;

	for (size_t i = 0; i < len; i++)
		SIM_CHECK(byte[i] == sim_pattern(id, i), "message %u of %zu bytes: byte %zu is %#x",
			  id, sim.msgs[id].len, i, byte[i]);
}

static void check_untouched(const struct sim_op *op, size_t from)
{
	for (size_t i = from; i < op->len; i++)
		SIM_CHECK((unsigned char)op->buf[i] == SIM_FILL,
			  "receive %u of %zu bytes: byte %zu was written", op->number, from, i);
}

/* --- receives --- */

static void end_recv(struct sim_op *op)
{
	sim.recvs--;
	sim_op_free(op);
}

/* Whether the receive failed for an allowed reason: cancelled, or a broken connection. */
static bool has_failed(const struct sim_op *op, const struct tagrv_comp *comp)
{
	if (!comp->err || comp->err == FI_ETRUNC)
		return false;
	if (comp->err == FI_ECANCELED && op->cancelled)
		return true;
	SIM_CHECK(sim.broken, "receive %u fails: %d", op->number, comp->err);
	if (op->kind == SIM_CLAIM)
		get_msg(op->id);
	else if (comp->flags & (op->kind == SIM_MULTI ? FI_REMOTE_CQ_DATA :
				FI_REMOTE_CQ_DATA | FI_TAGGED))
		get_msg(id_of(comp));
	return true;
}

/* A peek does not end the message unless it discards it. */
static void take_peek(struct sim_op *op, const struct tagrv_comp *comp)
{
	const struct sim_msg *msg;

	if (comp->err) {
		SIM_CHECK(comp->err == FI_ENOMSG, "peek %u fails: %d", op->number, comp->err);
		end_recv(op);
		return;
	}
	msg = check_envelope(comp);
	op->id = id_of(comp);
	SIM_CHECK(comp->len == msg->len, "peek %u: %zu bytes, not %zu", op->number, comp->len,
		  msg->len);
	SIM_CHECK(!msg->got, "peek %u finds message %u, which was received", op->number, op->id);
	if (op->flags & FI_CLAIM) {
		op->kind = SIM_CLAIM;
		sim.recvs--;
		return;
	}
	if (op->flags & FI_DISCARD)
		get_msg(op->id);
	end_recv(op);
}

static void take_part(const struct sim_op *op, const struct tagrv_comp *comp)
{
	const struct sim_msg *msg = check_envelope(comp);
	unsigned id = id_of(comp);
	char *buf = comp->buf;

	get_msg(id);
	sim.msgs[id].recv = op->number;
	SIM_CHECK(comp->len + comp->olen == msg->len, "message %u: %zu bytes and %zu too many",
		  id, comp->len, (size_t) comp->olen);
	SIM_CHECK(tagrv_range_within((uintptr_t)buf, comp->len, (uintptr_t)op->buf, op->len),
		  "message %u is not within the buffer of receive %u", id, op->number);
	check_bytes(buf, comp->len, id);
	memset(buf, TAKEN, comp->len);
}

static void take_multi(struct sim_op *op, const struct tagrv_comp *comp)
{
	bool released = comp->flags & FI_MULTI_RECV;

	sim.rx_err += comp->err != 0;
	sim.rx_ok += !comp->err && !released;
	if (released) {
		SIM_CHECK(!comp->err || (comp->err == FI_ECANCELED && op->cancelled),
			  "buffer %u is released with %d", op->number, comp->err);
		end_recv(op);
	} else if (!has_failed(op, comp)) {
		take_part(op, comp);
	}
}

static void check_message(const struct sim_op *op, const struct tagrv_comp *comp,
			  const struct sim_msg *msg)
{
	size_t len = TAGRV_MIN(msg->len, op->len), beyond = msg->len - len;

	SIM_CHECK(comp->len == len && comp->olen == beyond,
		  "receive %u: %zu bytes and %zu too many, not %zu and %zu", op->number, comp->len,
		  (size_t) comp->olen, len, beyond);
	SIM_CHECK(comp->err == (beyond ? FI_ETRUNC : 0), "receive %u: error %d", op->number,
		  comp->err);
	check_bytes(op->buf, len, id_of(comp));
	check_untouched(op, len);
}

static void take_recv(struct sim_op *op, const struct tagrv_comp *comp)
{
	bool discard = op->kind == SIM_CLAIM && op->flags & FI_DISCARD;
	const struct sim_msg *msg;

	if (!discard) {
		sim.rx_err += comp->err != 0;
		sim.rx_ok += !comp->err;
	}
	if (has_failed(op, comp)) {
		end_recv(op);
		return;
	}
	msg = check_envelope(comp);
	if (op->kind == SIM_CLAIM)
		SIM_CHECK(op->claiming && id_of(comp) == op->id,
			  "message %u, claimed with %u, comes with %u", op->id, op->number,
			  id_of(comp));
	get_msg(id_of(comp));
	if (op->kind == SIM_RECV)
		sim.msgs[id_of(comp)].recv = op->number;
	if (!discard)
		check_message(op, comp, msg);
	else
		SIM_CHECK(comp->len == msg->len, "message %u is discarded with %zu bytes", op->id,
			  comp->len);
	end_recv(op);
}

static void take_rx(const struct tagrv_comp *comp)
{
	struct sim_op *op = op_of(comp);

	SIM_TRACE("  %u ends: error %d, flags %#llx, %zu bytes", op->number, comp->err,
		  (unsigned long long)comp->flags, comp->len);
	SIM_CHECK(op->kind != SIM_SEND, "send %u ends as a receive", op->number);
	if (op->kind == SIM_PEEK)
		take_peek(op, comp);
	else if (op->kind == SIM_MULTI)
		take_multi(op, comp);
	else
		take_recv(op, comp);
}

void sim_expect_rx(int side)
{
	struct tagrv_compq *cq = &sim.side[side].rx_cq;
	const struct tagrv_comp *first;

	while ((first = tagrv_compq_peek(cq))) {
		struct tagrv_comp comp = *first;

		tagrv_compq_pop(cq, 1);
		take_rx(&comp);
	}
}

/* --- order --- */

/* Two messages of one kind can be matched by the same receives. */
static size_t kind_of(const struct sim_msg *msg)
{
	size_t pair = (size_t)(msg->src * SIM_SIDES + msg->dst);

	return pair * (SIM_TAGS + 1) +
	       (msg->space == TAGRV_SPACE_TAGGED ? msg->tag % SIM_TAGS : SIM_TAGS);
}

void sim_expect_order(void)
{
	unsigned last[SIM_SIDES * SIM_SIDES * (SIM_TAGS + 1)] = { 0 };

	for (unsigned id = 0; id < sim.msg_cnt; id++) {
		unsigned *before = &last[kind_of(&sim.msgs[id])];

		if (!sim.msgs[id].recv)
			continue;
		SIM_CHECK(sim.msgs[id].recv >= *before,
			  "message %u has matched receive %u; an earlier one receive %u", id,
			  sim.msgs[id].recv, *before);
		*before = sim.msgs[id].recv;
	}
}

/* --- sends --- */

static void take_tx(int side, const struct tagrv_comp *comp)
{
	struct sim_op *op = op_of(comp);

	SIM_TRACE("  %u ends: error %d", op->number, comp->err);
	SIM_CHECK(op->kind == SIM_SEND && op->side == side, "%u ends as a send of side %d",
		  op->number, side);
	SIM_CHECK(!comp->err || sim.broken, "send %u fails: %d", op->number, comp->err);
	SIM_CHECK(comp->flags == flags_of(&sim.msgs[op->id], FI_SEND), "send %u: flags %#" PRIx64,
		  op->number, comp->flags);
	sim.sends--;
	sim_op_free(op);
}

void sim_expect_tx(int side)
{
	struct tagrv_compq *cq = &sim.side[side].tx_cq;
	const struct tagrv_comp *first;

	while ((first = tagrv_compq_peek(cq))) {
		struct tagrv_comp comp = *first;

		tagrv_compq_pop(cq, 1);
		take_tx(side, &comp);
	}
}
