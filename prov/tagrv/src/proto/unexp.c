/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unexpected messages: keeping, delivering, peek, claim, discard.
 *
 * The transport's buffer goes back at once: a payload is copied into a buffer
 * of the smallest class that holds it, so a flood of small messages costs what
 * the messages weigh and never starves the receive queue.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "proto/engine_priv.h"

/* A message that FI_PEEK | FI_CLAIM set aside for the owner of a context. */
struct tagrv_claim {
	void	*context;
	struct tagrv_umsg *umsg;
	UT_hash_handle hh;
};

int tagrv_unexp_full(void)
{
	/* To a sender, "again" would be no reason to fail. */
	tagrv_warn("too many unexpected messages, at most %u are kept: post "
		   "receives earlier or lower the number of senders\n",
		   TAGRV_POOL_MAX);
	return -FI_ENOBUFS;
}

/* ---- what an RTS says about the sender's memory ---- */

/* Keys, or the length of the head and the head: never both. */
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

/* A record with room for so many bytes, or NULL. */
static struct tagrv_umsg *umsg_get(struct tagrv_engine *engine, size_t bytes)
{
	struct tagrv_umsg *umsg = tagrv_pool_get(&engine->umsgs);
	struct tagrv_buf *buf = NULL;

	if (umsg && bytes)
		buf = tagrv_engine_buf_get(engine, bytes, &umsg->payload_class);
	if (umsg && bytes && !buf) {
		tagrv_pool_put(&engine->umsgs, umsg);
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
	tagrv_pool_put(&engine->umsgs, umsg);
}

/*
 * Who pays for what an eager message takes here: the endpoint while its budget
 * lasts, so that the peer's credit is back at once, else the peer.
 */
static void charge(struct tagrv_umsg *umsg, uint32_t units)
{
	struct tagrv_peer *peer = umsg->peer;
	uint32_t *budget = &peer->engine->budget;

	umsg->units = (uint16_t) units;
	umsg->life = peer->credit.life;
	if (units > *budget)
		return;
	umsg->life = 0;
	*budget -= units;
	tagrv_peer_credit(peer, units);
}

static void discharge(const struct tagrv_umsg *umsg)
{
	if (!umsg->units)
		return;
	if (!umsg->life)
		umsg->peer->engine->budget += umsg->units;
	else if (umsg->life == umsg->peer->credit.life)
		tagrv_peer_credit(umsg->peer, umsg->units);
}

int tagrv_unexp_keep(struct tagrv_peer *peer, struct tagrv_match_msg *msg,
		     const struct tagrv_hdr *hdr, const void *payload,
		     size_t len, const struct tagrv_remote *remote)
{
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_umsg *umsg;

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
		memcpy(umsg->payload, payload, len);
	msg->user = umsg;
	if (!remote || remote->head_len)
		charge(umsg, tagrv_credit_units(remote ? remote->head_len :
							 len));
	if (!remote && hdr->op && (hdr->flags & TAGRV_PKT_ACK_DELIVERY)) {
		tagrv_peer_fin(peer, hdr->op, 0);
		umsg->op = 0;
	}
	return 0;
}

static void umsg_free(struct tagrv_umsg *umsg)
{
	struct tagrv_engine *engine = umsg->peer->engine;

	discharge(umsg);
	tagrv_match_release(engine->match, umsg->msg);
	umsg_put(engine, umsg);
}

/* An RTS always has a handle, until the one that it names is gone. */
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

void tagrv_unexp_deliver(struct tagrv_umsg *umsg, struct tagrv_op *op)
{
	struct tagrv_remote remote;
	struct tagrv_hdr hdr;

	make_header(umsg, &hdr);
	if (TAGRV_UNLIKELY(is_lost(umsg))) {
		tagrv_recv_lost(op, umsg->peer, &hdr);
	} else if (umsg->rndv) {
		unpack_remote(umsg, &remote);
		tagrv_recv_rndv(op, umsg->peer, &hdr, &remote);
	} else {
		tagrv_recv_eager(op, umsg->peer, &hdr, umsg->payload,
				 umsg->len);
	}
	umsg_free(umsg);
}

/* Drops it; the sender is told that it was taken. */
static void discard(struct tagrv_umsg *umsg)
{
	if (umsg->rndv ? umsg->op != 0 :
			 tagrv_hdr_wants_fin(umsg->pkt_flags, umsg->op))
		tagrv_peer_fin(umsg->peer, umsg->op, 0);
	umsg_free(umsg);
}

/* Nobody waits for an ack any more, and what was only announced is lost. */
static bool mark_lost(struct tagrv_match_msg *msg, void *arg)
{
	struct tagrv_umsg *umsg = msg->user;

	/* Of a shared context's queue others may know the same peer. */
	if (umsg->peer == arg)
		umsg->op = 0;
	return false;
}

void tagrv_unexp_lose_rndv(struct tagrv_peer *peer)
{
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_claim *claim;

	tagrv_match_drain_unexpected(engine->match, peer->match_id, mark_lost,
				     peer);
	for (claim = engine->rx->claims; claim; claim = claim->hh.next)
		if (claim->umsg->peer == peer)
			claim->umsg->op = 0;
}

/* The answer to a peek, claim or discard: what message it is about. */
static void report(struct tagrv_rx *rx, const struct tagrv_recv_req *req,
		   const struct tagrv_umsg *umsg, int err)
{
	struct tagrv_comp comp = {
		.context = req->context,
		.flags = tagrv_op_comp_flags(req->space, false),
		.tag = req->tag,
		.src = FI_ADDR_NOTAVAIL,
		.err = err,
	};

	if (umsg) {
		comp.len = umsg->len;
		comp.tag = umsg->msg->tag;
		if (umsg->pkt_flags & TAGRV_PKT_DATA) {
			comp.flags |= FI_REMOTE_CQ_DATA;
			comp.data = umsg->data;
		}
		if (umsg->peer->engine->attr.source)
			comp.src = umsg->peer->fi_addr;
	}
	tagrv_rx_report(rx, &comp);
}

static int set_aside(struct tagrv_rx *rx, void *context,
		     struct tagrv_umsg *umsg)
{
	struct tagrv_claim *claim, *old;

	HASH_FIND_PTR(rx->claims, &context, old);
	if (old)
		return -FI_EBUSY;
	claim = calloc(1, sizeof(*claim));
	if (!claim)
		return -FI_ENOMEM;
	claim->context = context;
	claim->umsg = umsg;
	HASH_ADD_PTR(rx->claims, context, claim);
	if (!claim->hh.tbl) {
		free(claim);
		return -FI_ENOMEM;
	}
	return 0;
}

ssize_t tagrv_unexp_peek(struct tagrv_rx *rx, const struct tagrv_recv_req *req,
			 uint32_t match_id)
{
	struct tagrv_match_want want = {
		.tag = req->tag,
		.ignore = req->ignore,
		.peer = match_id,
		.space = req->space,
	};
	struct tagrv_match_msg *msg;
	int ret;

	msg = tagrv_match_peek(rx->match, &want);
	if (!msg) {
		/* It may be in a queue of the device: look once. */
		tagrv_rx_progress(rx);
		msg = tagrv_match_peek(rx->match, &want);
	}
	if (!msg) {
		report(rx, req, NULL, FI_ENOMSG);
		return 0;
	}
	if (req->flags & FI_CLAIM) {
		ret = set_aside(rx, req->context, msg->user);
		if (ret)
			return ret;
		tagrv_match_take(rx->match, msg);
	}
	report(rx, req, msg->user, 0);
	if ((req->flags & (FI_DISCARD | FI_CLAIM)) == FI_DISCARD) {
		tagrv_match_take(rx->match, msg);
		discard(msg->user);
	}
	return 0;
}

/*
 * *umsg is NULL when the request is answered already: nothing was claimed with
 * this context, or it was to be discarded.
 */
ssize_t tagrv_unexp_claimed(struct tagrv_rx *rx,
			    const struct tagrv_recv_req *req,
			    struct tagrv_umsg **umsg)
{
	void *context = req->context;
	struct tagrv_claim *claim;
	struct tagrv_umsg *found;

	*umsg = NULL;
	HASH_FIND_PTR(rx->claims, &context, claim);
	if (!claim) {
		report(rx, req, NULL, FI_ENOMSG);
		return 0;
	}
	found = claim->umsg;
	HASH_DEL(rx->claims, claim);
	free(claim);
	if (req->flags & FI_DISCARD) {
		report(rx, req, found, 0);
		discard(found);
	} else {
		*umsg = found;
	}
	return 0;
}

void tagrv_unexp_drop_claims(struct tagrv_engine *engine)
{
	struct tagrv_rx *rx = engine->rx;
	struct tagrv_claim *claim, *tmp;

	HASH_ITER(hh, rx->claims, claim, tmp) {
		if (claim->umsg->peer->engine != engine)
			continue;
		HASH_DEL(rx->claims, claim);
		umsg_free(claim->umsg);
		free(claim);
	}
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
	tagrv_unexp_drop_claims(engine);
	tagrv_match_drain_unexpected(engine->match, TAGRV_MATCH_ANY, drop,
				     engine);
}
