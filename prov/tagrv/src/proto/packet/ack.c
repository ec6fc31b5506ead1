/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Acks: the queue of FINs and DONEs of a peer, and control packets.
 *
 *   packets received in one pass of progress       one FIN packet at its end
 *   EAGER(17, ack) EAGER(18, ack) RTS(19, read) --> FIN(17), 18, 19
 *
 * During a pass FINs are queued, so that FINs to one peer share a packet; the pass
 * serves its peers before it ends, so none waits for another call. Outside of a
 * pass (a receive that found its message) a FIN leaves at once. FINs that find no
 * room stay queued and share a packet later. A DONE has a packet of its own, in
 * its turn.
 *
 * Where messages wait for the same peer, FINs travel in front of these in a BATCH
 * (batch.c) and cost no packet. No FIN is held back for that: the answer that an
 * application may send next could carry it, but if the application computes
 * instead, its peer would wait as long for a completion that is due.
 *
 * Layouts: docs/wire_protocol.md sections 1.6 and 1.7.
 */
#include "proto/packet/ack.h"

#include <rdma/fi_errno.h>

#include "core/log.h"
#include "object/lane.h"
#include "proto/packet/packet_send.h"

struct fin_packet {
	struct tagrv_fin_more more[TAGRV_FIN_MORE_MAX];
};

/*
 * Decides about the answer to a control packet's send. 0 or -FI_EAGAIN; on any
 * other error the lane fails, because the peer would wait for the packet for ever.
 */
static int check_control(struct tagrv_peer *peer, int ret)
{
	if (TAGRV_LIKELY(!ret || ret == -FI_EAGAIN))
		return ret;
	if (ret == -FI_ENOTCONN)
		return -FI_EAGAIN;	/* the link error says why */
	tagrv_lane_fail(peer->lane, ret, true);
	return ret;
}

int tagrv_control_send(struct tagrv_peer *peer, struct tagrv_hdr *hdr,
		       const void *body, size_t len)
{
	uint64_t words[TAGRV_SHORT_WORDS];
	const struct iovec iov[2] = {
		{ words, sizeof(words) }, { (void *) (uintptr_t) body, len },
	};

	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_LIKELY(!tagrv_packet_send_short(peer, hdr, body, len)))
		return 0;
	return check_control(peer, tagrv_packet_send(peer, hdr, iov,
						     len ? 2 : 1, len,
						     TAGRV_SEND_CTRL, NULL));
}

/* ---- sending what is queued ---- */

static const struct tagrv_ack *ack_of(const struct tagrv_list *node)
{
	return tagrv_container_of(node, struct tagrv_ack, link);
}

/* Fills a packet with the first acks that may share one. Returns how many. */
static size_t fill(struct tagrv_peer *peer, struct tagrv_hdr *hdr,
		   struct fin_packet *pkt)
{
	struct tagrv_list *node;
	size_t cnt = 0;

	tagrv_list_for_each(&peer->acks, node) {
		const struct tagrv_ack *ack = ack_of(node);

		if (cnt && ack->opcode != TAGRV_PKT_FIN)
			break;
		if (!cnt)
			*hdr = (struct tagrv_hdr) {
				.opcode = ack->opcode, .op = ack->op,
				.flags = ack->flags, .data = ack->status,
			};
		else
			pkt->more[cnt - 1] = (struct tagrv_fin_more) {
				htole32(ack->op), htole32(ack->status),
			};
		if (++cnt > TAGRV_FIN_MORE_MAX || ack->opcode != TAGRV_PKT_FIN)
			break;
	}
	return cnt;
}

size_t tagrv_ack_pack_items(const struct tagrv_peer *peer, char *to)
{
	struct tagrv_list *node;
	size_t cnt = 0;

	tagrv_assert_locked(peer->engine->dom);
	tagrv_list_for_each(&peer->acks, node) {
		const struct tagrv_ack *ack = ack_of(node);

		if (ack->opcode != TAGRV_PKT_FIN || cnt == TAGRV_BATCH_FIN_MAX)
			break;
		tagrv_item_pack_fin(to + cnt * TAGRV_ITEM_WORD, ack->op,
				    ack->status);
		cnt++;
	}
	return cnt;
}

/* A RECALL is caused by us, FIN and DONE by the peer. */
static bool is_counted(const struct tagrv_ack *ack)
{
	return ack->opcode != TAGRV_PKT_RECALL;
}

static void drop_sent(struct tagrv_peer *peer, size_t cnt)
{
	while (cnt--) {
		struct tagrv_ack *ack = tagrv_container_of(
			tagrv_list_pop(&peer->acks), struct tagrv_ack, link);

		peer->ack_cnt -= is_counted(ack);
		tagrv_trace_fin_out(peer, ack->opcode, ack->op, ack->status);
		tagrv_pool_put(&peer->engine->pools.acks, ack);
	}
}

void tagrv_ack_items_sent(struct tagrv_peer *peer, size_t cnt)
{
	tagrv_assert_locked(peer->engine->dom);
	peer->engine->stats.fin_tx += cnt;
	drop_sent(peer, cnt);
}

int tagrv_ack_send(struct tagrv_peer *peer)
{
	struct fin_packet pkt;
	struct tagrv_hdr hdr = { 0 };
	size_t cnt = fill(peer, &hdr, &pkt);
	int ret = tagrv_control_send(peer, &hdr, pkt.more, (cnt - 1) * sizeof(*pkt.more));

	tagrv_assert_locked(peer->engine->dom);
	if (ret)
		return ret;
	if (hdr.opcode == TAGRV_PKT_FIN) {
		peer->engine->stats.fin_tx += cnt;
		peer->engine->stats.fin_packets++;
	}
	drop_sent(peer, cnt);
	return 0;
}

/* ---- queueing ---- */

/*
 * FINs and DONEs that wait for one peer at most; there are RECALLs for no more than
 * TAGRV_SHOWINGS_MAX windows. All peers share the memory for acks; one that goes on
 * with operations and never makes room for their FINs, as a write can be that nothing was
 * prepared for here, must not use it up. Others receive when they make progress, and only
 * then send more messages than there is room for; of one-sided operations they wait for the
 * answers when these are many (rma/rma_ask.c).
 */
#define WAITING_MAX	65536u

/* NULL: there is no connection any more. */
static struct tagrv_ack *ack_get(struct tagrv_peer *peer, uint8_t opcode,
				 uint16_t flags, uint32_t op, int status)
{
	struct tagrv_ack *ack;

	if (!peer->lane)
		return NULL;	/* the operation ended with the connection */
	ack = tagrv_pool_get(&peer->engine->pools.acks);
	if (!ack) {
		/* Without its FIN the peer would wait for ever. */
		tagrv_warn("no memory for a FIN: the connection is given up\n");
		tagrv_lane_fail(peer->lane, -FI_ENOMEM, true);
		return NULL;
	}
	ack->opcode = opcode;
	ack->flags = flags;
	ack->op = op;
	ack->status = (uint32_t) -status;
	tagrv_trace_fin_queued(peer, opcode, op, ack->status);
	return ack;
}

static void queue_ack(struct tagrv_peer *peer, uint8_t opcode, uint16_t flags,
		      uint32_t op, int status)
{
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_ack *ack = ack_get(peer, opcode, flags, op, status);

	if (!ack)
		return;
	tagrv_list_push_tail(&peer->acks, &ack->link);
	peer->ack_cnt += is_counted(ack);
	if (peer->state != TAGRV_PEER_READY)
		return;
	/* Others may follow in this pass: they share a packet. */
	if (engine->dom->in_pass || tagrv_ack_send(peer) == -FI_EAGAIN)
		tagrv_peer_set_busy(peer);
}

/* Queues what the peer has caused, or gives the peer up. */
static void queue_caused(struct tagrv_peer *peer, uint8_t opcode, uint16_t flags,
			 uint32_t op, int status)
{
	if (TAGRV_UNLIKELY(peer->ack_cnt >= WAITING_MAX))
		tagrv_peer_bad_packet(peer, "operations, but no FINs are taken");
	else
		queue_ack(peer, opcode, flags, op, status);
}

void tagrv_ack_fin(struct tagrv_peer *peer, uint32_t op, int status)
{
	tagrv_assert_locked(peer->engine->dom);
	queue_caused(peer, TAGRV_PKT_FIN, 0, op, status);
}

void tagrv_ack_hold(struct tagrv_peer *peer, uint32_t op)
{
	struct tagrv_ack *ack = ack_get(peer, TAGRV_PKT_FIN, 0, op, 0);

	tagrv_assert_locked(peer->engine->dom);
	if (!ack)
		return;
	tagrv_list_push_tail(&peer->rma.held, &ack->link);
	peer->rma.held_cnt++;
}

void tagrv_ack_release(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	tagrv_list_splice_tail(&peer->acks, &peer->rma.held);
	peer->ack_cnt += peer->rma.held_cnt;
	peer->rma.held_cnt = 0;
}

void tagrv_ack_done(struct tagrv_peer *peer, uint32_t op, uint16_t flags,
		    int status)
{
	tagrv_assert_locked(peer->engine->dom);
	queue_caused(peer, TAGRV_PKT_DONE, flags, op, status);
}

void tagrv_ack_recall(struct tagrv_peer *peer, uint32_t id)
{
	tagrv_assert_locked(peer->engine->dom);
	queue_ack(peer, TAGRV_PKT_RECALL, 0, id, 0);
}
