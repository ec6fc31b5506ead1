/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided operations of fuzz_packet: ours, with forged answers, and forged requests of the
 * peer.
 */
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "atomic/atomic.h"
#include "engine/endpoint.h"
#include "fuzz/packet.h"
#include "object/op.h"
#include "object/order.h"
#include "proto/rma/rma.h"

enum { ASKED = 16, UNANSWERED_MAX = 64 };

static char mine[BUF_LEN], read_to[BUF_LEN];
static struct tagrv_counter reads, writes;
static uint64_t begun;		/* operations that were accepted */

/* What the engine has asked the peer for, or has lent to it: the last ones. */
static struct asked {
	uint8_t	opcode;
	uint32_t op;
	uint64_t len;
	uint32_t view;		/* id of the view that a GET asks for; 0: none */
} asked[ASKED];
static unsigned asked_cnt;

static uint64_t ended(void)
{
	return reads.value + reads.err + writes.value + writes.err;
}

static uint16_t two(struct input *in)
{
	uint16_t low = next(in);

	return (uint16_t) (low | next(in) << 8);
}

void onesided_check(void)
{
	windows_check();
	require(ended() <= begun);
	require(peer()->rma.asked <= UNANSWERED_MAX);
	require(peer()->rma.serving <= UNANSWERED_MAX);
}

/* ---- what the engine asks for ---- */

static bool is_within(const void *addr, size_t len, const void *base, size_t size)
{
	return tagrv_range_within((uintptr_t) addr, len, (uintptr_t) base, size);
}

static void note(uint8_t opcode, uint32_t op, uint64_t len)
{
	asked[asked_cnt++ % ASKED] = (struct asked) { opcode, le32toh(op), len, 0 };
}

static void hear_get(const struct tagrv_hdr *hdr, const uint8_t *body, size_t len)
{
	struct tagrv_rma_range range;
	uint64_t sum = 0;

	for (size_t at = 0; at < len; at += sizeof(range)) {
		memcpy(&range, body + at, sizeof(range));
		sum += le64toh(range.len);
	}
	note(hdr->opcode, hdr->op, sum);
	if (le16toh(hdr->flags) & TAGRV_RMA_VIEW)
		asked[(asked_cnt - 1) % ASKED].view = le32toh(hdr->seq);
}

/* Only what peers may read is lent. */
static void hear_keys(const struct tagrv_hdr *hdr, const uint8_t *body)
{
	struct tagrv_cts cts;

	memcpy(&cts, body, sizeof(cts));
	require_readable(body + sizeof(cts), cts.seg_cnt);
	note(hdr->opcode, cts.op, le64toh(cts.want));
}

static void hear_packet(const struct tagrv_hdr *hdr, const uint8_t *body, size_t len)
{
	struct tagrv_rma_atomic atomic;
	struct tagrv_rma_source pull;

	switch (hdr->opcode) {
	case TAGRV_PKT_STORE:
		if (!hdr->op)
			return;		/* counted */
		/* fallthrough */
	case TAGRV_PKT_PUT:
		note(hdr->opcode, hdr->op, 0);
		return;
	case TAGRV_PKT_GET:
		hear_get(hdr, body, len);
		return;
	case TAGRV_PKT_ATOMIC:
		memcpy(&atomic, body, sizeof(atomic));
		note(hdr->opcode, hdr->op, le64toh(atomic.len));
		return;
	case TAGRV_PKT_PULL:
		memcpy(&pull, body, sizeof(pull));
		note(hdr->opcode, hdr->op, le64toh(pull.len));
		return;
	case TAGRV_PKT_KEYS:
		hear_keys(hdr, body);
		return;
	case TAGRV_PKT_VIEW:
		hear_view(le32toh(hdr->seq), body);
		return;
	case TAGRV_PKT_SHOW:
		note(hdr->opcode, 0, 0);
		asked[(asked_cnt - 1) % ASKED].view = le32toh(hdr->op);
		return;
	default:
		return;
	}
}

void onesided_hear(const struct fake_record *r)
{
	struct tagrv_hdr hdr;

	if (r->kind == FAKE_GET)
		require(is_within(r->addr, r->len, read_to, sizeof(read_to)) ||
			is_within(r->addr, r->len, fz.in, sizeof(fz.in)) ||
			is_within(r->addr, r->len, &fz.engine->rails.all[0].dump, 8) ||
			windows_admit(r->addr, r->len, FI_REMOTE_WRITE));
	if (r->kind != FAKE_SEND || r->len < sizeof(hdr))
		return;
	memcpy(&hdr, r->data, sizeof(hdr));
	hear_packet(&hdr, r->data + sizeof(hdr), r->len - sizeof(hdr));
}

/* ---- operations of ours ---- */

struct lists {
	struct iovec iov, result, compare;
	struct fi_rma_iov remote[2];
};

static void fill_atomic(struct tagrv_rma_req *req, struct lists *l, uint8_t how)
{
	static const uint8_t types[] = {
		FI_UINT8, FI_UINT64, FI_INT32, FI_DOUBLE_COMPLEX,
	};
	bool compares = req->kind == TAGRV_RMA_COMPARE, reads_only = how & 4;

	req->datatype = types[how & 3];
	req->op = compares ? FI_CSWAP : reads_only ? FI_ATOMIC_READ : FI_SUM;
	if (!tagrv_atomic_is_valid(req->kind - TAGRV_RMA_ATOMIC, req->op,
				   req->datatype))
		req->op = FI_SUM;
	req->iov_cnt = req->op != FI_ATOMIC_READ;
	req->result = &l->result;
	req->result_cnt = req->kind != TAGRV_RMA_ATOMIC;
	req->compare = &l->compare;
	req->compare_cnt = compares;
}

/* As the API makes sure of. */
static void fit_device(struct tagrv_rma_req *req)
{
	req->datatype = FI_UINT64;
	if (!tagrv_atomic_is_valid_by_device(req->kind - TAGRV_RMA_ATOMIC, req->op,
					     req->datatype))
		req->op = FI_SUM;
}

static size_t len_of(const struct tagrv_rma_req *req, uint8_t what)
{
	static const size_t lens[] = { 0, 1, 8, 64, 208, 300, 592, BUF_LEN };
	size_t len = lens[what & 7];

	if (req->kind < TAGRV_RMA_ATOMIC)
		return len;
	if (fz.dom->by_device)
		return sizeof(uint64_t);
	return len - len % tagrv_atomic_size(req->datatype);
}

static void fill_lists(struct tagrv_rma_req *req, struct lists *l, size_t len, bool two_ranges)
{
	size_t size = req->kind < TAGRV_RMA_ATOMIC ? 1 :
		tagrv_atomic_size(req->datatype);
	size_t first = two_ranges ? len / size / 3 * size : len;

	l->iov = (struct iovec) { req->kind == TAGRV_RMA_READ ? read_to : mine, len };
	l->result = (struct iovec) { read_to, len };
	l->compare = (struct iovec) { mine, len };
	l->remote[0] = (struct fi_rma_iov) { 100, first, WINDOW_KEY };
	l->remote[1] = (struct fi_rma_iov) { 5000, len - first, WINDOW_KEY + 1 };
	req->remote_cnt = two_ranges ? 2 : 1;
}

/* What is injected is gone when the call has returned. */
static void submit(struct tagrv_rma_req *req, struct lists *l, bool short_way)
{
	char *copy = NULL;
	bool taken;

	if (req->flags & FI_INJECT) {
		copy = malloc(BUF_LEN);
		require(copy);
		memcpy(copy, mine, BUF_LEN);
		l->iov.iov_base = l->compare.iov_base = copy;
	}
	taken = (short_way &&
		 tagrv_engine_store(fz.engine, req->dest, l->iov.iov_base, l->iov.iov_len,
				    l->remote[0].addr, l->remote[0].key)) ||
		!tagrv_engine_rma(fz.engine, req);
	free(copy);
	begun += taken;
	fz.sends += taken && !req->no_context;
}

/* Bytes: kind and length, flags, datatype and operation. */
void give_op(struct input *in)
{
	uint8_t what = next(in), how = next(in), type = next(in);
	struct lists l;
	struct tagrv_rma_req req = {
		.kind = what % TAGRV_RMA_KINDS,
		.iov = &l.iov, .iov_cnt = 1, .remote = l.remote, .dest = fz.dest,
		.flags = FI_COMPLETION | (how & 8 ? FI_FENCE : 0),
	};
	bool injects = how & 3 && req.kind != TAGRV_RMA_READ &&
		       req.kind != TAGRV_RMA_FETCH;

	if (!is_up())
		return;
	if (injects)
		req.flags |= FI_INJECT;
	req.no_context = injects && how & 2;
	if (req.kind == TAGRV_RMA_WRITE && how & 16)
		req.flags |= FI_REMOTE_CQ_DATA;
	if (req.kind == TAGRV_RMA_WRITE && type & 1)
		req.flags |= FI_DELIVERY_COMPLETE;
	if (req.kind >= TAGRV_RMA_ATOMIC)
		fill_atomic(&req, &l, type);
	if (req.kind >= TAGRV_RMA_ATOMIC && fz.dom->by_device) {
		fit_device(&req);
		req.flags |= type & 8 ? FI_DELIVERY_COMPLETE : 0;
		how &= ~32;
	}
	fill_lists(&req, &l, len_of(&req, what >> 3), how & 32);
	submit(&req, &l, how & 64 && req.no_context && req.kind == TAGRV_RMA_WRITE &&
			 req.remote_cnt == 1 &&
			 !(req.flags & (FI_FENCE | FI_REMOTE_CQ_DATA)));
}

/* ---- requests of the peer ---- */

struct forged {
	struct tagrv_hdr hdr;
	char	body[FAKE_PACKET_MAX - sizeof(struct tagrv_hdr)];
};

/* A range that is often within the window, or ends beyond it. */
static struct tagrv_rma_range range_of(struct input *in)
{
	uint8_t which = next(in);
	uint16_t at = two(in), len = two(in);
	unsigned i = which % (WINDOWS + 1);
	uint64_t base = windows_base(i);

	if (which & 128)
		return (struct tagrv_rma_range) {
			base - at, UINT64_MAX - len, WINDOW_KEY + i,
		};
	return (struct tagrv_rma_range) {
		base + (which & 64 ? 0 : at % 620),
		which & 32 ? len % 32 * 8 : len % 620, WINDOW_KEY + i,
	};
}

static size_t forge_put(struct forged *pkt, const struct tagrv_rma_range *range, uint8_t fill)
{
	struct tagrv_rma_put put = { htole64(range->addr) };
	size_t len = range->len % 300;

	memcpy(pkt->body, &put, sizeof(put));
	memset(pkt->body + sizeof(put), fill, len);
	return sizeof(put) + len;
}

static size_t forge_store(struct forged *pkt, const struct tagrv_rma_range *range,
			  uint8_t flags)
{
	size_t len = range->len % 300;

	pkt->hdr.data = htole64(range->addr);
	if (flags >> 4)
		pkt->hdr.flags = 0;
	memset(pkt->body, flags, len);
	return len;
}

static size_t forge_get(struct forged *pkt, const struct tagrv_rma_range *range,
			struct input *in, uint8_t more)
{
	struct tagrv_rma_range all[5] = { *range };
	size_t cnt = 1 + (more & 3) + (more == 255);

	for (size_t i = 1; i < cnt; i++)
		all[i] = range_of(in);
	for (size_t i = 0; i < cnt; i++)
		all[i] = (struct tagrv_rma_range) {
			htole64(all[i].addr), htole64(all[i].len), htole64(all[i].key),
		};
	memcpy(pkt->body, all, cnt * sizeof(all[0]));
	return cnt * sizeof(all[0]) - (more == 254);
}

/* Bytes: kind, operation, datatype, contents. The length is mostly right. */
static size_t forge_atomic(struct forged *pkt, const struct tagrv_rma_range *range,
			   struct input *in)
{
	uint8_t kind = next(in), op = next(in), type = next(in), fill = next(in);
	size_t size = tagrv_atomic_size(type), len = (size_t) range->len % 2100, lists;
	struct tagrv_rma_atomic atomic;

	kind = kind & 128 ? kind : TAGRV_RMA_ATOMIC + kind % 3;
	lists = (op != FI_ATOMIC_READ) + (kind == TAGRV_RMA_COMPARE);
	if (size && !(fill & 1))
		len -= len % size;
	atomic = (struct tagrv_rma_atomic) { htole64(range->addr), htole64(len) };
	pkt->hdr.seq = htole32(kind | (uint32_t) type << 8 | (uint32_t) op << 16);
	memcpy(pkt->body, &atomic, sizeof(atomic));
	memset(pkt->body + sizeof(atomic), fill, lists * len);
	return sizeof(atomic) + lists * len + (fill == 255);
}

static size_t forge_pull(struct forged *pkt, const struct tagrv_rma_range *range, uint8_t how)
{
	uint8_t segs = how & 7;
	struct tagrv_rma_source pull = {
		.addr = htole64(range->addr), .len = htole64(range->len),
		.seg_cnt = segs, .key_len = how & 128 ? 99 : 4,
	};
	struct tagrv_rts_seg seg[8] = { 0 };
	uint64_t left = range->len;

	for (unsigned i = 0; i < segs; i++) {
		uint64_t len = i + 1 < segs ? left / 2 : left;

		seg[i].len = htole64(len - (how == 64));
		left -= len;
	}
	memcpy(pkt->body, &pull, sizeof(pull));
	memcpy(pkt->body + sizeof(pull), seg, segs * sizeof(seg[0]));
	return sizeof(pull) + segs * sizeof(seg[0]);
}

/*
 * Bytes: opcode and handle, of which there are few so that packets follow each other that
 * belong to one operation; flags; a byte for the body; a range; more of the body.
 */
void give_request(struct input *in)
{
	static struct forged pkt;
	uint8_t what = next(in), flags = next(in), how = next(in);
	struct tagrv_rma_range range = range_of(in);
	size_t len;

	pkt.hdr = (struct tagrv_hdr) {
		.op = htole32(what >> 4), .tag = htobe64(range.key),
		.flags = htole16(flags & 7), .data = htole64(flags),
	};
	switch (what % 4) {
	case 0:
		pkt.hdr.opcode = flags & 8 ? TAGRV_PKT_STORE : TAGRV_PKT_PUT;
		len = flags & 8 ? forge_store(&pkt, &range, flags) :
				  forge_put(&pkt, &range, how);
		break;
	case 1:
		pkt.hdr.opcode = TAGRV_PKT_GET;
		pkt.hdr.flags = htole16(flags & 15);
		pkt.hdr.seq = htole32(flags >> 4);
		len = forge_get(&pkt, &range, in, how);
		break;
	case 2:
		pkt.hdr.opcode = TAGRV_PKT_ATOMIC;
		len = forge_atomic(&pkt, &range, in);
		break;
	default:
		pkt.hdr.opcode = TAGRV_PKT_PULL;
		len = forge_pull(&pkt, &range, how);
	}
	give(&pkt, sizeof(pkt.hdr) + (what & 8 ? len / 2 : len));
}

/* ---- answers of the peer ---- */

static void send_fin(uint32_t op, uint32_t status, uint8_t how)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_fin_more more[1];
	} pkt = {
		.hdr = { .opcode = TAGRV_PKT_FIN, .op = htole32(op),
			 .data = htole64(status) },
		.more = { { htole32(asked[how % ASKED].op), 0 } },
	};

	give(&pkt, how & 128 ? sizeof(pkt) : sizeof(pkt.hdr));
}

static void send_answer(uint32_t op, size_t len)
{
	static struct forged pkt;

	pkt.hdr = (struct tagrv_hdr) {
		.opcode = TAGRV_PKT_ANSWER, .op = htole32(op),
	};
	memset(pkt.body, 'A', len);
	give(&pkt, sizeof(pkt.hdr) + len);
}

static void send_keys(const struct asked *a, uint8_t how)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_cts cts;
		struct tagrv_rts_seg seg[2];
	} pkt = {
		.hdr = { .opcode = TAGRV_PKT_KEYS, .op = htole32(a->op) },
		.cts = { .want = htole64(a->len), .op = htole32(how & 4 ? 0 : 7),
			 .seg_cnt = how % 3, .key_len = 4 },
		.seg = { { .len = htole64(how % 3 == 2 ? a->len / 2 : a->len) },
			 { .len = htole64(a->len - a->len / 2) } },
	};

	if (how & 8)
		pkt.cts.want = htole64(a->len + how);
	give(&pkt, offsetof(typeof(pkt), seg[how % 3]));
}

static void send_count(uint32_t done, uint32_t refused, uint64_t status)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_COUNT, .op = htole32(done), .seq = htole32(refused),
		.data = htole64(status),
	};

	give(&hdr, sizeof(hdr));
}

/* All that is missing, in packets as long as the engine's own. */
static void send_answers(const struct asked *a)
{
	size_t len = 0;

	for (size_t at = 0; at < a->len || !at; at += len ? len : 1) {
		len = TAGRV_MIN(a->len - at, peer()->frag_max);
		send_answer(a->op, len);
	}
}

void give_answer(struct input *in)
{
	struct asked a = asked[next(in) % ASKED];
	uint8_t what = next(in), how = next(in);

	switch (what & 7) {
	case 0:
		if (what & 128)
			send_count(how & 15, what >> 3 & 3, what >> 5 & 3);
		else
			send_fin(a.op, 0, how);
		break;
	case 1:
		send_fin(a.op, what >> 3, how);
		break;
	case 2:
		send_fin(a.op, FI_EAGAIN, how);
		break;
	case 3:
		send_answer(a.op, TAGRV_MIN(a.len, (uint64_t) BUF_LEN));
		break;
	case 4:
		send_answer(a.op, how);
		break;
	case 5:
		if (what & 128)
			send_view(a.view, what & 64);
		else if (what & 64)
			change_side(what >> 3 & 7, how);
		else
			send_keys(&a, 1);
		break;
	case 6:
		if (what & 128)
			send_view(a.view, how);
		else if (what & 64)
			send_recall(how & 1 ? a.view : how);
		else
			send_keys(&a, how);
		break;
	default:
		send_answers(&a);
	}
}

/* ---- set-up and end ---- */

void onesided_set_up(struct tagrv_engine_sinks *sinks)
{
	require(!tagrv_counter_init(&reads, false));
	require(!tagrv_counter_init(&writes, false));
	sinks->read_cntr = &reads;
	sinks->write_cntr = &writes;
	fz.dom->params.close_timeout = 0;
}

void onesided_begin(uint8_t how)
{
	fz.engine->attr.order = (how & 1 ? TAGRV_ORDER_AFTER_WRITE : 0) |
				(how & 2 ? TAGRV_ORDER_AFTER_READ : 0);
	fake.base.attr.get_least = how & 4 ? 0 : SIZE_MAX;
	fake.base.attr.caps &= ~(uint32_t) TAGRV_XPORT_SIDE;
	fake.base.attr.caps |= how & 16 ? TAGRV_XPORT_SIDE | TAGRV_XPORT_ATOMIC : 0;
	fz.dom->by_device = how & 32;
	fake.base.attr.max_short = how & 8 ? FAKE_PACKET_MAX - TAGRV_SHORT_HDR : 0;
	windows_begin();
}

/* The connection has ended, and with it all that was under way. */
void onesided_end(void)
{
	const struct tagrv_engine *engine = fz.engine;

	require(ended() == begun);
	windows_end();
	require(!engine->pools.rmas.used && !engine->pools.uses.used &&
		!engine->pools.answers.used && !engine->lent && !peer()->rma.uses &&
		!engine->pools.showings.used && !peer()->rma.counted &&
		!tagrv_peer_owes_count(peer()));
	memset(asked, 0, sizeof(asked));
	asked_cnt = 0;
}
