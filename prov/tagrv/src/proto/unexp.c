/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unexpected messages: keeping, delivering, dropping.
 *
 * The transport's buffer goes back at once: a payload is copied into the record
 * itself or into a buffer of the smallest class that holds it, so a flood of small
 * messages costs what the messages weigh and never starves the receive queue.
 */
#include "proto/unexp.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "core/log.h"
#include "object/lane.h"
#include "proto/deliver.h"
#include "proto/hold.h"
#include "proto/packet/ack.h"

/* The connection ends with the message, so each logs this once. */
static TAGRV_COLD int say_no_memory(void)
{
	tagrv_warn("no memory to keep an unexpected message: the connection "
		   "that brought it ends; post receives earlier or lower the "
		   "number of senders\n");
	return -FI_ENOMEM;
}

int tagrv_unexp_refused(int why)
{
	if (why == -FI_ENOMEM)
		return say_no_memory();
	/* -FI_EAGAIN, the matching engine's answer, would not end the connection. */
	tagrv_warn("too many unexpected messages, at most %u are kept: post "
		   "receives earlier or lower the number of senders\n",
		   TAGRV_POOL_LARGE_MAX);
	return -FI_ENOBUFS;
}

/* ---- where the parts of a message lie ---- */

/* Bytes of the message's data in front of everything else. */
static size_t data_size(uint16_t pkt_flags)
{
	return pkt_flags & TAGRV_PKT_DATA ? sizeof(uint64_t) : 0;
}

static bool lies_here(const struct tagrv_umsg *umsg)
{
	return umsg->place >= TAGRV_UMSG_HERE;
}

static bool has_buf(const struct tagrv_umsg *umsg)
{
	return umsg->place < TAGRV_UMSG_BARE;
}

static char *body_of(struct tagrv_umsg *umsg)
{
	return (lies_here(umsg) ? umsg->here : umsg->buf) +
	       data_size(umsg->pkt_flags);
}

size_t tagrv_unexp_len(const struct tagrv_umsg *umsg)
{
	return lies_here(umsg) ? umsg->place - TAGRV_UMSG_HERE : umsg->len;
}

uint64_t tagrv_unexp_data(const struct tagrv_umsg *umsg)
{
	uint64_t data = 0;

	memcpy(&data, has_buf(umsg) ? umsg->buf : umsg->here,
	       data_size(umsg->pkt_flags));
	return data;
}

/* ---- what an RTS says about the sender's memory ---- */

/* Bytes of the segments, or of the head and its length: an RTS never has both. */
static size_t remote_size(const struct tagrv_remote *remote)
{
	if (remote->head_len)
		return sizeof(remote->head_len) + remote->head_len;
	return remote->seg_cnt == 1 ? sizeof(struct tagrv_only_seg) :
	       remote->seg_cnt * sizeof(remote->seg[0]);
}

static void pack_remote(char *to, const struct tagrv_remote *remote)
{
	struct tagrv_only_seg only;

	if (remote->head_len) {
		memcpy(to, &remote->head_len, sizeof(remote->head_len));
		memcpy(to + sizeof(remote->head_len), remote->head,
		       remote->head_len);
	} else if (remote->seg_cnt == 1) {
		only.addr = remote->seg[0].addr;
		memcpy(only.key, remote->seg[0].key, sizeof(only.key));
		memcpy(to, &only, sizeof(only));
	} else if (remote->seg_cnt) {
		memcpy(to, remote->seg, remote_size(remote));
	}
}

static void unpack_remote(struct tagrv_umsg *umsg, struct tagrv_remote *remote)
{
	const char *from = has_buf(umsg) ? body_of(umsg) : NULL;
	struct tagrv_only_seg only;

	remote->len = umsg->len;
	remote->op = umsg->op;
	remote->proto = umsg->rndv - 1;
	remote->seg_cnt = umsg->seg_cnt;
	remote->key_len = umsg->key_len;
	remote->head_len = 0;
	/* Of an RTS, only a head costs credit. */
	if (umsg->units) {
		memcpy(&remote->head_len, from, sizeof(remote->head_len));
		remote->head = from + sizeof(remote->head_len);
	} else if (umsg->seg_cnt == 1) {
		memcpy(&only, from, sizeof(only));
		remote->seg[0].addr = only.addr;
		remote->seg[0].len = umsg->len;
		memcpy(remote->seg[0].key, only.key, sizeof(only.key));
	} else if (umsg->seg_cnt) {
		memcpy(remote->seg, from, remote_size(remote));
	}
}

/* ---- keeping and delivering ---- */

/*
 * A record with room for what comes with the message, behind the message's data: bytes
 * of payload, or of what the RTS brings. NULL: out of memory.
 */
static struct tagrv_umsg *umsg_get(struct tagrv_engine *engine, bool rndv,
				   size_t data, size_t bytes)
{
	struct tagrv_umsg *umsg = tagrv_engine_umsg_get(engine);
	struct tagrv_buf *buf;

	if (!umsg)
		return NULL;
	if (!rndv && data + bytes <= TAGRV_UMSG_ROOM) {
		umsg->place = (uint8_t) (TAGRV_UMSG_HERE + bytes);
		return umsg;
	}
	umsg->place = TAGRV_UMSG_BARE;
	if (!(data + bytes))
		return umsg;
	buf = tagrv_engine_buf_get(engine, data + bytes, &umsg->place);
	if (!buf) {
		tagrv_pool_put_large(&engine->pools.umsgs, umsg);
		return NULL;
	}
	umsg->buf = buf->bytes;
	return umsg;
}

static void umsg_put(struct tagrv_engine *engine, struct tagrv_umsg *umsg)
{
	if (has_buf(umsg))
		tagrv_engine_buf_put(engine, umsg->buf, umsg->place);
	tagrv_pool_put_large(&engine->pools.umsgs, umsg);
}

/* Units of memory that the message takes, its record in the matching engine included. */
static uint32_t memory_units(const struct tagrv_umsg *umsg)
{
	const struct tagrv_engine *engine = umsg->peer->engine;
	uint32_t record = 2 * TAGRV_CREDIT_UNIT;	/* asserted in engine.h */
	size_t buf = has_buf(umsg) ? engine->pools.bufs[umsg->place].obj_size : 0;

	return (uint32_t) ((record + buf + TAGRV_CREDIT_UNIT - 1) /
			   TAGRV_CREDIT_UNIT);
}

/* What the message has cost its sender is free again. */
static void release(const struct tagrv_umsg *umsg)
{
	if (umsg->units)
		tagrv_peer_release_credit(umsg->peer, umsg->units);
	if (umsg->rndv)
		tagrv_hold_release_place(umsg->peer);
}

/*
 * Charges the endpoint's budget for a kept message, so that the peer has back at once
 * what the message has cost; else the message holds that.
 */
static void charge(struct tagrv_umsg *umsg)
{
	struct tagrv_peer *peer = umsg->peer;

	umsg->life = peer->credit.life;
	if (tagrv_hold_pay(peer, memory_units(umsg))) {
		umsg->life = 0;
		release(umsg);
	} else if (umsg->rndv) {
		tagrv_hold_kept(peer);
	}
}

/* An RTS has a handle until the connection is gone, and with it the sender's op. */
static bool is_lost(const struct tagrv_umsg *umsg)
{
	return umsg->rndv && !umsg->op;
}

static void discharge(const struct tagrv_umsg *umsg)
{
	if (is_lost(umsg)) {
		umsg->peer->engine->credit.lost--;
		umsg->peer->hold.lost--;
	} else if (!umsg->life) {
		tagrv_hold_repay(umsg->peer, memory_units(umsg));
	} else if (umsg->life == umsg->peer->credit.life &&
		   umsg->peer->lane) {
		release(umsg);
	}
}

/* Copies what came with the message to where umsg_get() has made room. */
static void fill(struct tagrv_umsg *umsg, uint64_t data, const void *payload,
		 size_t len, const struct tagrv_remote *remote)
{
	if (!lies_here(umsg))
		umsg->len = remote ? remote->len : len;
	if (umsg->place == TAGRV_UMSG_BARE)
		return;
	memcpy(lies_here(umsg) ? umsg->here : umsg->buf, &data,
	       data_size(umsg->pkt_flags));
	if (remote)
		pack_remote(body_of(umsg), remote);
	else if (len)
		tagrv_copy(body_of(umsg), payload, len);
}

static TAGRV_COLD int no_memory(struct tagrv_engine *engine,
				struct tagrv_match_msg *msg)
{
	tagrv_match_take(engine->match, msg);
	tagrv_match_release(engine->match, msg);
	return say_no_memory();
}

int tagrv_unexp_keep(struct tagrv_peer *peer, struct tagrv_match_msg *msg,
		     const struct tagrv_hdr *hdr, const void *payload,
		     size_t len, const struct tagrv_remote *remote)
{
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_umsg *umsg = umsg_get(engine, remote, data_size(hdr->flags),
					   remote ? remote_size(remote) : len);
	size_t eager = remote ? remote->head_len : len;

	tagrv_assert_locked(peer->engine->dom);
	if (!umsg)
		return no_memory(engine, msg);
	umsg->msg = msg;
	umsg->peer = peer;
	umsg->op = hdr->op;
	umsg->units = remote && !eager ? 0 : (uint16_t) tagrv_credit_units(eager);
	umsg->pkt_flags = hdr->flags;
	umsg->seg_cnt = remote ? remote->seg_cnt : 0;
	umsg->key_len = remote ? remote->key_len : 0;
	umsg->rndv = remote ? (uint8_t) (1 + remote->proto) : 0;
	fill(umsg, hdr->data, payload, len, remote);
	msg->user = umsg;
	if (TAGRV_LIKELY(peer->lane != NULL))
		tagrv_peer_xport(peer)->sink->kept++;
	tagrv_trace_unexpected(umsg, peer, hdr->op, hdr->tag,
			       tagrv_unexp_len(umsg));
	charge(umsg);
	if (!remote && hdr->op && (hdr->flags & TAGRV_PKT_ACK_DELIVERY)) {
		tagrv_ack_fin(peer, hdr->op, 0);
		umsg->op = 0;
	}
	return 0;
}

void tagrv_unexp_free(struct tagrv_umsg *umsg)
{
	struct tagrv_engine *engine = umsg->peer->engine;

	tagrv_assert_locked(umsg->peer->engine->dom);
	discharge(umsg);
	tagrv_match_release(engine->match, umsg->msg);
	umsg_put(engine, umsg);
}

static void make_header(const struct tagrv_umsg *umsg, struct tagrv_hdr *hdr)
{
	*hdr = (struct tagrv_hdr) {
		.op = umsg->op,
		.tag = umsg->msg->tag,
		.flags = umsg->pkt_flags,
		.data = tagrv_unexp_data(umsg),
	};
}

void tagrv_unexp_deliver(struct tagrv_umsg *umsg, const struct tagrv_recv *recv)
{
	struct tagrv_remote remote;
	struct tagrv_hdr hdr;

	tagrv_assert_locked(umsg->peer->engine->dom);
	make_header(umsg, &hdr);
	tagrv_trace_match(recv, umsg->peer, umsg, umsg->op, hdr.tag,
			  tagrv_unexp_len(umsg));
	if (TAGRV_UNLIKELY(is_lost(umsg))) {
		tagrv_deliver_lost(recv, umsg->peer, &hdr);
	} else if (umsg->rndv) {
		unpack_remote(umsg, &remote);
		tagrv_deliver_rndv(recv, umsg->peer, &hdr, &remote);
	} else {
		tagrv_deliver_eager(recv, umsg->peer, &hdr, body_of(umsg),
				    tagrv_unexp_len(umsg));
	}
	tagrv_unexp_free(umsg);
}

void tagrv_unexp_discard(struct tagrv_umsg *umsg)
{
	tagrv_assert_locked(umsg->peer->engine->dom);
	if (umsg->rndv ? umsg->op != 0 :
			 tagrv_hdr_wants_fin(umsg->pkt_flags, umsg->op))
		tagrv_ack_fin(umsg->peer, umsg->op, 0);
	tagrv_unexp_free(umsg);
}

/* ---- connections that have ended ---- */

/*
 * Announcements of connections that have ended, which stay so that a receive fails:
 * of one peer, and of an endpoint. What is beyond is dropped.
 */
#define LOST_OF_PEER	1024u
#define LOST_MOST	16384u

void tagrv_unexp_lose(struct tagrv_umsg *umsg)
{
	struct tagrv_peer *peer = umsg->peer;
	uint64_t data = tagrv_unexp_data(umsg);
	bool was_lost = is_lost(umsg);

	tagrv_assert_locked(peer->engine->dom);
	if (!umsg->rndv || was_lost) {
		umsg->op = 0;		/* no sender waits for an ack */
		return;
	}
	discharge(umsg);
	if (has_buf(umsg))
		tagrv_engine_buf_put(peer->engine, umsg->buf, umsg->place);
	umsg->op = 0;
	umsg->place = TAGRV_UMSG_BARE;
	/* The error has the data, if there is any. */
	memcpy(umsg->here, &data, data_size(umsg->pkt_flags));
	umsg->units = 0;
	umsg->seg_cnt = 0;
	peer->engine->credit.lost++;
	peer->hold.lost++;
}

/* Returns whether the message is dropped: one more that cannot be had. */
static bool lose_or_drop(struct tagrv_match_msg *msg, void *arg)
{
	struct tagrv_umsg *umsg = msg->user;
	struct tagrv_peer *peer = arg;
	struct tagrv_engine *engine = peer->engine;

	/* In a shared context, match_id also stands for peers of other engines. */
	if (umsg->peer != peer)
		return false;
	if (!umsg->rndv || is_lost(umsg) ||
	    (peer->hold.lost < LOST_OF_PEER && engine->credit.lost < LOST_MOST)) {
		tagrv_unexp_lose(umsg);
		return false;
	}
	discharge(umsg);
	umsg_put(engine, umsg);
	return true;
}

void tagrv_unexp_lose_rndv(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	tagrv_match_drain_unexpected(peer->engine->match, peer->match_id,
				     lose_or_drop, peer);
}

static bool drop(struct tagrv_match_msg *msg, void *arg)
{
	struct tagrv_umsg *umsg = msg->user;
	struct tagrv_engine *engine = arg;

	if (umsg->peer->engine != engine)
		return false;
	discharge(umsg);
	umsg_put(engine, umsg);
	return true;
}

void tagrv_unexp_drop(struct tagrv_engine *engine)
{
	tagrv_assert_locked(engine->dom);
	tagrv_match_drain_unexpected(engine->match, TAGRV_MATCH_ANY, drop,
				     engine);
}
