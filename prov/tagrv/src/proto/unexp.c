/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unexpected messages: keeping, delivering, dropping.
 *
 * The transport's buffer goes back at once: a payload is copied into a buffer
 * of the smallest class that holds it, so a flood of small messages costs what
 * the messages weigh and never starves the receive queue.
 */
#include "proto/unexp.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "core/log.h"
#include "object/lane.h"
#include "proto/deliver.h"
#include "proto/packet/ack.h"

int tagrv_unexp_full(void)
{
	/* -FI_EAGAIN, the matching engine's answer, would not end the connection. */
	tagrv_warn("too many unexpected messages, at most %u are kept: post "
		   "receives earlier or lower the number of senders\n",
		   TAGRV_POOL_MAX);
	return -FI_ENOBUFS;
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

static void pack_remote(struct tagrv_umsg *umsg,
			const struct tagrv_remote *remote)
{
	struct tagrv_only_seg only;

	umsg->seg_cnt = remote->seg_cnt;
	umsg->key_len = remote->key_len;
	umsg->len = remote->len;
	if (remote->head_len) {
		memcpy(umsg->payload, &remote->head_len,
		       sizeof(remote->head_len));
		memcpy((char *) umsg->payload + sizeof(remote->head_len),
		       remote->head, remote->head_len);
	} else if (remote->seg_cnt == 1) {
		only.addr = remote->seg[0].addr;
		memcpy(only.key, remote->seg[0].key, sizeof(only.key));
		memcpy(umsg->payload, &only, sizeof(only));
	} else if (remote->seg_cnt) {
		memcpy(umsg->payload, remote->seg, remote_size(remote));
	}
}

static void unpack_remote(const struct tagrv_umsg *umsg,
			  struct tagrv_remote *remote)
{
	struct tagrv_only_seg only;

	remote->len = umsg->len;
	remote->op = umsg->op;
	remote->proto = umsg->rndv - 1;
	remote->seg_cnt = umsg->seg_cnt;
	remote->key_len = umsg->key_len;
	remote->head_len = 0;
	if (umsg->payload && !umsg->seg_cnt) {
		memcpy(&remote->head_len, umsg->payload,
		       sizeof(remote->head_len));
		remote->head = (const char *) umsg->payload +
			       sizeof(remote->head_len);
	} else if (umsg->seg_cnt == 1) {
		memcpy(&only, umsg->payload, sizeof(only));
		remote->seg[0].addr = only.addr;
		remote->seg[0].len = umsg->len;
		memcpy(remote->seg[0].key, only.key, sizeof(only.key));
	} else if (umsg->seg_cnt) {
		memcpy(remote->seg, umsg->payload, remote_size(remote));
	}
}

/* ---- keeping and delivering ---- */

/* A record with a buffer of at least so many bytes. NULL: out of memory. */
static struct tagrv_umsg *umsg_get(struct tagrv_engine *engine, size_t bytes)
{
	struct tagrv_umsg *umsg = tagrv_pool_get(&engine->pools.umsgs);
	struct tagrv_buf *buf = NULL;

	if (umsg && bytes)
		buf = tagrv_engine_buf_get(engine, bytes, &umsg->payload_class);
	if (umsg && bytes && !buf) {
		tagrv_pool_put(&engine->pools.umsgs, umsg);
		return NULL;
	}
	if (umsg)
		umsg->payload = buf ? buf->bytes : NULL;
	return umsg;
}

static void umsg_put(struct tagrv_engine *engine, struct tagrv_umsg *umsg)
{
	if (umsg->payload)
		tagrv_engine_buf_put(engine, umsg->payload,
				     umsg->payload_class);
	tagrv_pool_put(&engine->pools.umsgs, umsg);
}

/*
 * Charges the endpoint's budget for a kept message while it lasts, so that the
 * peer has its credit back at once; after that the message holds the peer's credit.
 */
static void charge(struct tagrv_umsg *umsg, uint32_t units)
{
	struct tagrv_peer *peer = umsg->peer;
	uint32_t *budget = &peer->engine->credit.budget;

	umsg->units = (uint16_t) units;
	umsg->life = peer->credit.life;
	if (units > *budget)
		return;
	umsg->life = 0;
	*budget -= units;
	tagrv_peer_release_credit(peer, units);
}

static void discharge(const struct tagrv_umsg *umsg)
{
	if (!umsg->units)
		return;
	if (!umsg->life)
		umsg->peer->engine->credit.budget += umsg->units;
	else if (umsg->life == umsg->peer->credit.life)
		tagrv_peer_release_credit(umsg->peer, umsg->units);
}

int tagrv_unexp_keep(struct tagrv_peer *peer, struct tagrv_match_msg *msg,
		     const struct tagrv_hdr *hdr, const void *payload,
		     size_t len, const struct tagrv_remote *remote)
{
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_umsg *umsg;

	tagrv_assert_locked(peer->engine->dom);
	umsg = umsg_get(engine, remote ? remote_size(remote) : len);
	if (!umsg) {
		tagrv_match_take(engine->match, msg);
		tagrv_match_release(engine->match, msg);
		tagrv_warn("no memory to keep an unexpected message: post "
			   "receives earlier or lower the number of senders\n");
		return -FI_ENOMEM;
	}
	umsg->msg = msg;
	umsg->peer = peer;
	umsg->rndv = remote ? (uint8_t) (1 + remote->proto) : 0;
	umsg->units = 0;
	umsg->pkt_flags = hdr->flags;
	umsg->op = hdr->op;
	umsg->data = hdr->data;
	umsg->len = len;
	if (remote)
		pack_remote(umsg, remote);
	else if (len)
		tagrv_copy(umsg->payload, payload, len);
	msg->user = umsg;
	if (TAGRV_LIKELY(peer->lane != NULL))
		tagrv_peer_xport(peer)->sink->kept++;
	tagrv_trace_unexpected(umsg, peer, hdr->op, hdr->tag, umsg->len);
	if (!remote || remote->head_len)
		charge(umsg, tagrv_credit_units(remote ? remote->head_len :
							 len));
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

/* An RTS has a handle until the connection is gone, and with it the sender's op. */
static bool is_lost(const struct tagrv_umsg *umsg)
{
	return umsg->rndv && !umsg->op;
}

static void make_header(const struct tagrv_umsg *umsg, struct tagrv_hdr *hdr)
{
	*hdr = (struct tagrv_hdr) {
		.op = umsg->op,
		.tag = umsg->msg->tag,
		.flags = umsg->pkt_flags,
		.data = umsg->data,
	};
}

void tagrv_unexp_deliver(struct tagrv_umsg *umsg, const struct tagrv_recv *recv)
{
	struct tagrv_remote remote;
	struct tagrv_hdr hdr;

	tagrv_assert_locked(umsg->peer->engine->dom);
	make_header(umsg, &hdr);
	tagrv_trace_match(recv, umsg->peer, umsg, umsg->op, hdr.tag, umsg->len);
	if (TAGRV_UNLIKELY(is_lost(umsg))) {
		tagrv_deliver_lost(recv, umsg->peer, &hdr);
	} else if (umsg->rndv) {
		unpack_remote(umsg, &remote);
		tagrv_deliver_rndv(recv, umsg->peer, &hdr, &remote);
	} else {
		tagrv_deliver_eager(recv, umsg->peer, &hdr, umsg->payload,
				    umsg->len);
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

/* After the end of the connection no sender waits for an ack, and a message that
 * was only announced cannot be had. */
static bool mark_lost(struct tagrv_match_msg *msg, void *arg)
{
	struct tagrv_umsg *umsg = msg->user;

	/* In a shared context, match_id also stands for peers of other engines. */
	if (umsg->peer == arg)
		umsg->op = 0;
	return false;
}

void tagrv_unexp_lose_rndv(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	tagrv_match_drain_unexpected(peer->engine->match, peer->match_id,
				     mark_lost, peer);
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
