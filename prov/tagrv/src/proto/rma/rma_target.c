/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes and atomics of a peer: each packet is carried out when it comes, and the last one
 * of an operation is answered. The first error of an operation is that of its FIN, and
 * packets behind it change nothing. See rma.h.
 */
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "atomic/atomic.h"
#include "core/iov.h"
#include "core/log.h"
#include "proto/packet/ack.h"
#include "proto/rma/rma_priv.h"

void tagrv_rma_served(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	peer->rma.serving--;
}

bool tagrv_rma_serve(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	if (peer->rma.serving >= TAGRV_RMA_ASKED_MAX) {
		tagrv_peer_bad_packet(peer, "too many one-sided operations");
		return false;
	}
	peer->rma.serving++;
	return true;
}

struct tagrv_window *tagrv_rma_window(const struct tagrv_peer *peer, uint64_t key,
				      uint64_t addr, uint64_t len, uint64_t access,
				      size_t *offset)
{
	const struct tagrv_engine *engine = peer->engine;

	tagrv_assert_locked(engine->dom);
	if (access & ~engine->attr.serves)
		return NULL;
	return tagrv_window_find(engine->dom, engine, key, addr, len, access, offset);
}

void tagrv_rma_refuse(struct tagrv_peer *peer, uint32_t op)
{
	tagrv_assert_locked(peer->engine->dom);
	peer->engine->stats.rma_refused++;
	tagrv_ack_fin(peer, op, -FI_EACCES);
}

/* ---- what the application sees of it ---- */

static void count(struct tagrv_counter *of_endpoint, struct tagrv_counter *of_window)
{
	if (of_endpoint)
		tagrv_counter_add(of_endpoint, 1);
	if (of_window)
		tagrv_counter_add(of_window, 1);
}

static void report_read(const struct tagrv_engine *engine, const struct tagrv_window *window)
{
	count(engine->sinks.remote_read_cntr, window ? window->read_cntr : NULL);
}

void tagrv_rma_was_read(struct tagrv_peer *peer, const struct tagrv_window *window,
			size_t len)
{
	struct tagrv_engine *engine = peer->engine;

	tagrv_assert_locked(engine->dom);
	tagrv_rma_sum_add(&engine->stats.rma_rx, TAGRV_RMA_READ, len);
	report_read(engine, window);
}

static inline void report_write(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
				const struct tagrv_window *window, size_t len)
{
	struct tagrv_engine *engine = peer->engine;
	bool atomic = hdr->opcode == TAGRV_PKT_ATOMIC;

	count(engine->sinks.remote_write_cntr, window ? window->write_cntr : NULL);
	if (!(hdr->flags & TAGRV_RMA_DATA) || !engine->sinks.rx_cq)
		return;
	tagrv_compq_report(engine->sinks.rx_cq, &(struct tagrv_comp) {
		.flags = (atomic ? FI_ATOMIC : FI_RMA) | FI_REMOTE_WRITE |
			 FI_REMOTE_CQ_DATA,
		.len = len,
		.data = hdr->data,
		.src = engine->attr.source ? peer->fi_addr : FI_ADDR_NOTAVAIL,
	});
}

void tagrv_rma_written(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		       const struct tagrv_window *window, size_t len)
{
	tagrv_assert_locked(peer->engine->dom);
	tagrv_rma_sum_add(&peer->engine->stats.rma_rx, TAGRV_RMA_WRITE, len);
	report_write(peer, hdr, window, len);
}

/* ---- packets of one operation ---- */

#define CHANGE_FLAGS	(TAGRV_RMA_MORE | TAGRV_RMA_DATA)

/* The region of the first packets may have been closed, and another one have its key. */
static void go_on(struct tagrv_peer *peer, uint64_t key, uint64_t addr)
{
	const uint64_t newest = peer->engine->dom->windows.newest;
	const struct tagrv_window *window;
	size_t offset;

	window = tagrv_rma_window(peer, key, addr, 0, 0, &offset);
	if (window && !peer->rma.status &&
	    window->serial > newest - ((uint32_t) newest - peer->rma.newest))
		peer->rma.status = -FI_EACCES;
}

/* A packet of an operation; it is the first one if another was open, or none. */
static void open_op(struct tagrv_peer *peer, const struct tagrv_hdr *hdr, uint64_t addr)
{
	peer->rma.changes++;
	if (TAGRV_UNLIKELY(peer->rma.op == hdr->op)) {
		go_on(peer, hdr->tag, addr);
		return;
	}
	peer->rma.op = hdr->op;
	peer->rma.status = 0;
	peer->rma.len = 0;
}

/* Another packet of the operation will come. The first one says what it may go on in. */
static void keep_open(struct tagrv_peer *peer, uint64_t len)
{
	if (peer->rma.len == len)
		peer->rma.newest = (uint32_t) peer->engine->dom->windows.newest;
}

/* The last packet of an operation was handled; returns the operation's status. */
static int close_op(struct tagrv_peer *peer)
{
	peer->rma.op = 0;
	if (peer->rma.status)
		peer->engine->stats.rma_refused++;
	return peer->rma.status;
}

static const struct tagrv_window *find(struct tagrv_peer *peer,
				       const struct tagrv_hdr *hdr, uint64_t addr,
				       uint64_t len, uint64_t access, size_t *offset)
{
	const struct tagrv_window *window =
		tagrv_rma_window(peer, hdr->tag, addr, len, access, offset);

	if (!window && !peer->rma.status)
		peer->rma.status = -FI_EACCES;
	peer->rma.len += len;
	return window;
}

/* ---- writes ---- */

void tagrv_rma_put_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			  const void *body, size_t len)
{
	const size_t head = sizeof(struct tagrv_rma_put);
	const struct tagrv_window *window;
	struct iovec iov[TAGRV_IOV_MAX];
	uint64_t addr;
	size_t offset;
	int status;

	tagrv_assert_locked(peer->engine->dom);
	if (len < head || !hdr->op || hdr->flags & ~CHANGE_FLAGS) {
		tagrv_peer_bad_packet(peer, "malformed PUT");
		return;
	}
	addr = le64toh(tagrv_word_load(body));
	open_op(peer, hdr, addr);
	window = find(peer, hdr, addr, len - head, FI_REMOTE_WRITE, &offset);
	if (!peer->rma.status)
		tagrv_iov_scatter(iov, tagrv_window_slice(window, offset, len - head,
							  iov, TAGRV_IOV_MAX),
				  (const char *) body + head, len - head);
	if (hdr->flags & TAGRV_RMA_MORE) {
		keep_open(peer, len - head);
		return;
	}
	status = close_op(peer);
	if (!status)
		tagrv_rma_written(peer, hdr, window, peer->rma.len);
	tagrv_rma_ack_write(peer, hdr->flags, hdr->op, status);
}

/* ---- atomics ---- */

/* What the packet asks for, checked. */
struct change {
	uint8_t	kind, op, datatype;	/* kind: enum tagrv_atomic_kind */
	uint64_t addr;
	size_t	len, size;		/* bytes; of an element */
	const char *operand, *compare;
};

static const uint8_t kinds[TAGRV_RMA_KINDS] = {
	[TAGRV_RMA_ATOMIC]	= TAGRV_ATOMIC_BASE,
	[TAGRV_RMA_FETCH]	= TAGRV_ATOMIC_FETCH,
	[TAGRV_RMA_COMPARE]	= TAGRV_ATOMIC_COMPARE,
};

static bool parse_change(struct change *change, const struct tagrv_hdr *hdr,
			 const void *body, size_t len)
{
	uint8_t kind = (uint8_t) hdr->seq;
	struct tagrv_rma_atomic atomic;
	size_t operands;

	if (len < sizeof(atomic) || !hdr->op || hdr->flags & ~CHANGE_FLAGS ||
	    kind < TAGRV_RMA_ATOMIC || kind >= TAGRV_RMA_KINDS)
		return false;
	tagrv_copy_once(&atomic, body, sizeof(atomic));
	*change = (struct change) {
		.kind = kinds[kind],
		.datatype = (uint8_t) (hdr->seq >> 8),
		.op = (uint8_t) (hdr->seq >> 16),
		.addr = le64toh(atomic.addr),
		.len = le64toh(atomic.len),
	};
	len -= sizeof(atomic);
	if (!tagrv_atomic_is_valid(change->kind, change->op, change->datatype))
		return false;
	change->size = tagrv_atomic_size(change->datatype);
	operands = (change->op != FI_ATOMIC_READ) +
		   (change->kind == TAGRV_ATOMIC_COMPARE);
	if (change->len > TAGRV_RMA_VALUES_MAX || tagrv_atomic_rest(change->len, change->size) ||
	    len != operands * change->len)
		return false;
	if (change->op != FI_ATOMIC_READ)
		change->operand = (const char *) body + sizeof(atomic);
	if (change->kind == TAGRV_ATOMIC_COMPARE)
		change->compare = change->operand + change->len;
	return true;
}

/* Changes 'cnt' elements at 'target', beginning with byte 'at' of the packet's. */
static void apply_at(const struct change *change, void *target, size_t at, char *values,
		     size_t cnt)
{
	tagrv_atomic_apply(change->kind, change->op, change->datatype, target,
			   change->operand ? change->operand + at : NULL,
			   change->compare ? change->compare + at : NULL,
			   values ? values + at : NULL, cnt);
}

/* An element that lies in several segments: it is put together and taken apart again. */
static void apply_split(const struct change *change, const struct tagrv_window *window,
			size_t offset, size_t at, char *values)
{
	struct iovec iov[TAGRV_IOV_MAX];
	size_t cnt = tagrv_window_slice(window, offset + at, change->size, iov,
					TAGRV_IOV_MAX);
	char element[TAGRV_ATOMIC_SIZE_MAX];

	tagrv_iov_gather(element, iov, cnt);
	apply_at(change, element, at, values, 1);
	tagrv_iov_scatter(iov, cnt, element, change->size);
}

/* values: room for the former values, or NULL. */
static void apply(const struct change *change, const struct tagrv_window *window,
		  size_t offset, char *values)
{
	size_t at = 0, whole;
	struct iovec iov;

	/* Most change one element. */
	if (TAGRV_LIKELY(window->iov_cnt == 1 && change->len == change->size)) {
		apply_at(change, (char *) window->iov[0].iov_base + offset, 0, values, 1);
		return;
	}
	while (at < change->len) {
		/* The rest of the segment, or of what is to be changed. */
		tagrv_window_slice(window, offset + at, change->len - at, &iov, 1);
		whole = iov.iov_len - tagrv_atomic_rest(iov.iov_len, change->size);
		if (whole) {
			apply_at(change, iov.iov_base, at, values,
				 whole / change->size);
			at += whole;
		} else {
			apply_split(change, window, offset, at, values);
			at += change->size;
		}
	}
}

/*
 * Sends the former values. The initiator counts answers, and sends only so many packets
 * without one: so behind an error they are empty. The FIN answers the last packet then.
 */
static void answer_fetch(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			 const char *values, size_t len)
{
	if (!peer->rma.status) {
		peer->rma.status = tagrv_rma_answer_values(peer, hdr->op, values, len);
		if (!peer->rma.status)
			return;
	}
	if (!(hdr->flags & TAGRV_RMA_MORE) ||
	    !tagrv_rma_answer_values(peer, hdr->op, NULL, 0) || !peer->lane)
		return;
	tagrv_warn("no memory for an answer: the connection is given up\n");
	tagrv_lane_fail(peer->lane, -FI_ENOMEM, true);
}

/* Sends the former values, or what became of the operation; ends it for the peer. */
static void answer_change(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			  const struct change *change, const char *values)
{
	bool fetches = change->kind != TAGRV_ATOMIC_BASE;
	int ret;

	if (fetches)
		answer_fetch(peer, hdr, values, change->len);
	if (hdr->flags & TAGRV_RMA_MORE) {
		keep_open(peer, change->len);
		return;
	}
	ret = close_op(peer);
	/* The FIN would overtake them. */
	if (ret && fetches)
		tagrv_rma_drop_values(peer, hdr->op);
	if (ret || !fetches)
		tagrv_rma_ack_write(peer, hdr->flags, hdr->op, ret);
}

/*
 * To counters of an endpoint, what fetches is a read, even if it changes the target
 * (fi_endpoint(3)). A region's counter of writes also counts what fetches and changes the
 * region (fi_mr(3)): programs wait by it for any change of their memory.
 */
static void count_change(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			 const struct change *change,
			 const struct tagrv_window *window)
{
	tagrv_rma_sum_add(&peer->engine->stats.rma_rx, TAGRV_RMA_ATOMIC, peer->rma.len);
	if (change->kind == TAGRV_ATOMIC_BASE) {
		report_write(peer, hdr, window, peer->rma.len);
		return;
	}
	report_read(peer->engine, window);
	if (window && change->op != FI_ATOMIC_READ)
		count(NULL, window->write_cntr);
}

void tagrv_rma_atomic_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			     const void *body, size_t len)
{
	char values[TAGRV_RMA_VALUES_MAX];
	const struct tagrv_window *window;
	struct change change;
	uint64_t access;
	size_t offset;

	tagrv_assert_locked(peer->engine->dom);
	if (!parse_change(&change, hdr, body, len) ||
	    (change.kind != TAGRV_ATOMIC_BASE && change.len > peer->frag_max)) {
		tagrv_peer_bad_packet(peer, "malformed ATOMIC");
		return;
	}
	open_op(peer, hdr, change.addr);
	/* One actor: the device does not see what the processor changes. */
	if (TAGRV_UNLIKELY(peer->engine->dom->by_device) && !peer->rma.status)
		peer->rma.status = -FI_EOPNOTSUPP;
	access = change.op == FI_ATOMIC_READ ? FI_REMOTE_READ : FI_REMOTE_WRITE;
	if (change.kind != TAGRV_ATOMIC_BASE)
		access |= FI_REMOTE_READ;
	window = find(peer, hdr, change.addr, change.len, access, &offset);
	if (!peer->rma.status) {
		apply(&change, window, offset,
		      change.kind == TAGRV_ATOMIC_BASE ? NULL : values);
		if (!(hdr->flags & TAGRV_RMA_MORE))
			count_change(peer, hdr, &change, window);
	}
	answer_change(peer, hdr, &change, values);
}
