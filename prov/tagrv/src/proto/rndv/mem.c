/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous: parts of ops, and the memory of both sides: segments of packets,
 * the next bytes to be moved, pieces.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "proto/rndv/rndv_priv.h"

/* ---- parts of ops ---- */

bool tagrv_rndv_attach(struct tagrv_op *op)
{
	const size_t first = sizeof(struct tagrv_pool_node);
	struct tagrv_rndv *r = tagrv_pool_get(&op->engine->pools.rndvs);

	if (!r)
		return false;
	/* Most of the remote's segments are never used. */
	memset((char *) r + first, 0,
	       offsetof(struct tagrv_rndv, remote) - first);
	r->missing = TAGRV_NO_PIECE;
	op->rndv = r;
	return true;
}

void tagrv_rndv_detach(struct tagrv_op *op)
{
	tagrv_pool_put(&op->engine->pools.rndvs, op->rndv);
	op->rndv = NULL;
}

/* ---- segments of packets ---- */

size_t tagrv_rndv_pack_segments(const struct tagrv_op *op, size_t len,
				struct tagrv_rts_seg *seg, uint8_t *key_len)
{
	size_t cnt = 0;

	for (unsigned i = 0; i < op->iov_cnt && len; i++) {
		size_t n = TAGRV_MIN(op->iov[i].iov_len, len);
		struct tagrv_mem *mem = op->mem[i];

		if (!n)
			continue;
		seg[cnt].addr = htole64((uintptr_t) op->iov[i].iov_base);
		seg[cnt].len = htole64(n);
		*key_len = (uint8_t) mem->dev->ops->mem_key(mem, seg[cnt].key);
		len -= n;
		cnt++;
	}
	return cnt;
}

/* A copy is checked: the peer may write to the packet meanwhile. */
bool tagrv_rndv_parse_segments(struct tagrv_remote *remote, const void *from,
			       size_t bytes, uint64_t len)
{
	uint64_t sum = 0;

	if (remote->seg_cnt > TAGRV_IOV_MAX ||
	    remote->key_len > TAGRV_KEY_MAX ||
	    bytes != remote->seg_cnt * sizeof(struct tagrv_rts_seg))
		return false;
	tagrv_copy_once(remote->seg, from, bytes);
	for (unsigned i = 0; i < remote->seg_cnt; i++) {
		remote->seg[i].addr = le64toh(remote->seg[i].addr);
		remote->seg[i].len = le64toh(remote->seg[i].len);
		if (!remote->seg[i].len || remote->seg[i].len > len)
			return false;
		sum += remote->seg[i].len;
	}
	return !remote->seg_cnt || sum == len;
}

/* ---- the next bytes ---- */

/* The iovec that has byte *pos; *pos becomes the offset in it. */
static unsigned find_local(const struct tagrv_op *op, size_t *pos)
{
	unsigned i = 0;

	while (i < op->iov_cnt - 1u && *pos >= op->iov[i].iov_len)
		*pos -= op->iov[i++].iov_len;
	return i;
}

static unsigned find_remote(const struct tagrv_remote *remote, size_t *pos)
{
	unsigned i = 0;

	while (i < remote->seg_cnt - 1u && *pos >= remote->seg[i].len)
		*pos -= remote->seg[i++].len;
	return i;
}

void tagrv_rndv_next_segment(const struct tagrv_op *op, size_t max,
			     struct tagrv_segment *segment)
{
	const struct tagrv_rndv *r = op->rndv;
	size_t loff = r->next, roff = r->next;
	unsigned l = find_local(op, &loff);
	const struct tagrv_rts_seg *seg =
		&r->remote.seg[find_remote(&r->remote, &roff)];
	size_t len = TAGRV_MIN(r->want - r->next, max);

	len = TAGRV_MIN(len, op->engine->dom->params.read_segment);
	len = TAGRV_MIN(len, op->iov[l].iov_len - loff);
	*segment = (struct tagrv_segment) {
		.addr = (char *) op->iov[l].iov_base + loff,
		.mem = op->mem[l],
		.raddr = seg->addr + roff,
		.key = seg->key,
		.len = TAGRV_MIN(len, seg->len - roff),
	};
}

bool tagrv_rndv_is_long(const struct tagrv_op *op, size_t len)
{
	return len > op->engine->dom->params.read_segment &&
	       tagrv_peer_xport(op->peer)->attr.caps & TAGRV_XPORT_GET;
}

/* ---- pieces ---- */

/* Whole fragments lie before the gap, because grants are counted in them. */
size_t tagrv_rndv_gap(const struct tagrv_op *op)
{
	size_t gap = TAGRV_MIN(op->rndv->missing, op->rndv->offered);

	return gap - gap % op->peer->frag_max;
}

/* The part of the op's buffer that a piece is, with what is registered of it. */
static void cut(struct tagrv_op *piece, const struct tagrv_op *op)
{
	size_t skip = piece->rndv->offered, len = piece->rndv->want;

	piece->iov_cnt = 0;
	for (unsigned i = 0; i < op->iov_cnt && len; i++) {
		size_t n = op->iov[i].iov_len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		n = TAGRV_MIN(n - skip, len);
		piece->mem[piece->iov_cnt] = op->mem[i];
		piece->iov[piece->iov_cnt++] = (struct iovec) {
			(char *) op->iov[i].iov_base + skip, n,
		};
		skip = 0;
		len -= n;
	}
}

struct tagrv_op *tagrv_rndv_piece_get(struct tagrv_pool *pool,
				      struct tagrv_op *op, size_t len)
{
	struct tagrv_op *piece = tagrv_pool_get(pool);

	if (!piece)
		return NULL;
	piece->engine = op->engine;
	if (!tagrv_rndv_attach(piece)) {
		tagrv_pool_put(pool, piece);
		return NULL;
	}
	piece->space = op->space;
	piece->own_mem = 0;
	piece->born = op->born;
	piece->ops = op->ops;
	piece->peer = op->peer;
	piece->lane = op->peer->lane;
	piece->tag = op->tag;
	piece->len = len;
	piece->status = 0;
	piece->rndv->offered = op->rndv->offered;
	piece->rndv->want = len;
	piece->rndv->piece_of = op;
	tagrv_list_init(&piece->link);
	cut(piece, op);
	return piece;
}

void tagrv_rndv_piece_put(struct tagrv_pool *pool, struct tagrv_op *piece)
{
	tagrv_op_deregister(piece);
	tagrv_rndv_detach(piece);
	tagrv_op_set_free(piece);
	tagrv_pool_put(pool, piece);
}
