/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Arrivals: see arrive.h.
 *
 *   EAGER, item of a BATCH, RTS --> match --> receive found: deliver.c
 *                                        '--> none: kept by unexp.c
 */
#include "proto/arrive.h"

#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "core/limits.h"
#include "core/trace.h"
#include "object/lane.h"
#include "object/op.h"
#include "proto/deliver.h"
#include "proto/hold.h"
#include "proto/rndv/rndv.h"
#include "proto/unexp.h"

static inline bool use_credit(struct tagrv_peer *peer, uint32_t units)
{
	if (TAGRV_LIKELY(tagrv_credit_use(&peer->credit, units))) {
		peer->engine->stats.eager_rx++;
		return true;
	}
	tagrv_peer_bad_packet(peer, "sent without credit");
	return false;
}

/* No receive is posted for the message, which was queued as msg (ret: 0). */
static void keep(struct tagrv_peer *peer, struct tagrv_match_msg *msg,
		 const struct tagrv_hdr *hdr, const void *payload, size_t len,
		 int ret)
{
	if (!ret)
		ret = tagrv_unexp_keep(peer, msg, hdr, payload, len, NULL);
	/* The message is lost with the memory: the sender must learn of it. */
	if (ret)
		tagrv_lane_fail(peer->lane, ret, true);
}

static inline void arrive(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			  const void *payload, size_t len)
{
	uint32_t units = tagrv_credit_units(len);
	struct tagrv_recv *recv = NULL;
	struct tagrv_match_msg *msg;
	int ret;

	if (!use_credit(peer, units))
		return;
	ret = tagrv_unexp_arrive(peer, hdr, &recv, &msg);
	if (TAGRV_LIKELY(ret == 1)) {
		tagrv_trace_match(recv, peer, NULL, hdr->op, hdr->tag, len);
		/* Before the delivery, whose FIN takes the credit along. */
		tagrv_peer_release_credit(peer, units);
		tagrv_deliver_eager(recv, peer, hdr, payload, len);
		return;
	}
	keep(peer, msg, hdr, payload, len, ret);
}

/* Separate wrappers, so that the compiler inlines arrive() for each caller. */
void tagrv_arrive_eager(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			const void *payload, size_t len)
{
	tagrv_assert_locked(peer->engine->dom);
	arrive(peer, hdr, payload, len);
}

void tagrv_arrive_item(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		       const void *payload, size_t len)
{
	tagrv_assert_locked(peer->engine->dom);
	arrive(peer, hdr, payload, len);
}

void tagrv_arrive_tagged(struct tagrv_peer *peer, uint64_t tag, uint64_t data,
			 bool has_data, const void *payload, size_t len)
{
	/* What the header of such a message would be. */
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_EAGER, .tag = tag, .data = data,
		.flags = TAGRV_PKT_TAGGED | (has_data ? TAGRV_PKT_DATA : 0),
	};

	tagrv_assert_locked(peer->engine->dom);
	arrive(peer, &hdr, payload, len);
}

/* ---- announcements ---- */

static bool parse_rts(struct tagrv_remote *remote, const struct tagrv_hdr *hdr,
		      const void *body, size_t len)
{
	struct tagrv_rts rts;

	if (len < sizeof(rts) || !hdr->op)
		return false;
	tagrv_copy_once(&rts, body, sizeof(rts));
	remote->len = le64toh(rts.len);
	remote->op = hdr->op;
	/* A protocol that we do not know counts as none proposed. */
	remote->proto = rts.proto < TAGRV_PROTO_RNDV_END ? rts.proto : 0;
	remote->seg_cnt = rts.seg_cnt;
	remote->key_len = rts.key_len;
	remote->head = (const char *) body + sizeof(rts);
	remote->head_len = 0;
	len -= sizeof(rts);
	if (remote->proto == TAGRV_PROTO_RNDV_PIPE && !remote->seg_cnt) {
		remote->head_len = (uint32_t) len;
		len = 0;
	}
	return remote->len <= TAGRV_MAX_MSG &&
	       remote->head_len <= remote->len &&
	       tagrv_rndv_parse_segments(remote, remote->head, len,
					 remote->len);
}

/* Credit of its head. */
static uint32_t units_of(const struct tagrv_remote *remote)
{
	return remote->head_len ? tagrv_credit_units(remote->head_len) : 0;
}

/* Parses an RTS, which uses credit and a place. False: it was refused. */
static bool take_rts(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		     const void *body, size_t len, struct tagrv_remote *remote)
{
	if (!parse_rts(remote, hdr, body, len)) {
		tagrv_peer_bad_packet(peer, "malformed RTS");
		return false;
	}
	if (!tagrv_credit_use(&peer->credit, units_of(remote))) {
		tagrv_peer_bad_packet(peer, "sent without credit");
		return false;
	}
	if (!tagrv_hold_use_place(peer)) {
		tagrv_peer_bad_packet(peer, "announced without a place");
		return false;
	}
	peer->engine->stats.rndv_rx++;
	return true;
}

/* It has matched: what it used is free again. */
static void release_rts(struct tagrv_peer *peer, const struct tagrv_remote *remote)
{
	uint32_t units = units_of(remote);

	tagrv_hold_release_place(peer);
	if (units)
		tagrv_peer_release_credit(peer, units);
}

/*
 * Cold, so that the compiler inlines matching into the path of eager messages
 * rather than here: that path takes 24 instructions less then.
 */
TAGRV_COLD void tagrv_arrive_rts(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		      const void *body, size_t len)
{
	struct tagrv_match_msg *msg;
	struct tagrv_remote remote;
	struct tagrv_recv *recv = NULL;
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	if (!take_rts(peer, hdr, body, len, &remote))
		return;
	ret = tagrv_unexp_arrive(peer, hdr, &recv, &msg);
	if (ret == 1) {
		tagrv_trace_match(recv, peer, NULL, hdr->op, hdr->tag,
				  remote.len);
		release_rts(peer, &remote);
		tagrv_deliver_rndv(recv, peer, hdr, &remote);
		return;
	}
	if (!ret)
		ret = tagrv_unexp_keep(peer, msg, hdr, NULL, 0, &remote);
	if (ret)
		tagrv_lane_fail(peer->lane, ret, true);
}

/* ---- messages that a device has matched ---- */

void tagrv_arrive_matched(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			  const void *payload, size_t len, struct tagrv_op *op)
{
	uint32_t units = tagrv_credit_units(len);
	struct tagrv_hdr without_fin = *hdr;

	tagrv_assert_locked(peer->engine->dom);
	tagrv_trace_match(op, peer, NULL, hdr->op, hdr->tag, len);
	if (use_credit(peer, units)) {
		tagrv_peer_release_credit(peer, units);
	} else {
		/* It is complete all the same; the connection has ended. */
		without_fin.op = 0;
		hdr = &without_fin;
	}
	tagrv_deliver_matched(op, peer, hdr, payload, len);
}

bool tagrv_arrive_matched_rts(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			      const void *body, size_t len, struct tagrv_op *op)
{
	struct tagrv_remote remote;

	tagrv_assert_locked(peer->engine->dom);
	if (!take_rts(peer, hdr, body, len, &remote))
		return false;
	tagrv_trace_match(op, peer, NULL, hdr->op, hdr->tag, remote.len);
	release_rts(peer, &remote);
	tagrv_deliver_matched_rndv(op, peer, hdr, &remote);
	return true;
}
