/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FINs: an operation of the peer is finished. And DONEs, which wait with them.
 *
 *   packets taken in by one pass of progress       one FIN packet at its end
 *   EAGER(17, ack) EAGER(18, ack) RTS(19, read) --> FIN(17), 18, 19
 *
 * During a pass FINs are queued, so that those to one peer share a packet; the
 * pass serves its peers before it ends, so none waits for another call. Outside
 * of a pass (a receive that found its message) a FIN leaves at once. Where there
 * is no room they stay queued, and gather all the same. A DONE has a packet of
 * its own, in its turn.
 *
 * Where messages wait for the peer, too, FINs ride in front of these (batch.c)
 * and cost no packet. None is held back for that: the answer that an application
 * may send next could carry it, but if it computes instead, its peer would wait
 * as long for a completion that is due.
 *
 * Layouts: docs/wire_protocol.md sections 1.6 and 1.7.
 */
#include <rdma/fi_errno.h>

#include "proto/engine_priv.h"

struct fin_packet {
	uint64_t words[TAGRV_SHORT_WORDS];
	struct tagrv_fin_more more[TAGRV_FIN_MORE_MAX];
};

static const struct tagrv_ctl *ctl_of(const struct tagrv_list *node)
{
	return tagrv_container_of(node, struct tagrv_ctl, link);
}

/* The first ones of the queue that share a packet. Returns how many. */
static size_t fill(struct tagrv_peer *peer, struct fin_packet *pkt,
		   uint16_t credit)
{
	struct tagrv_list *node;
	size_t cnt = 0;

	tagrv_list_for_each(&peer->ctl, node) {
		const struct tagrv_ctl *ctl = ctl_of(node);
		const struct tagrv_hdr hdr = {
			.opcode = ctl->opcode, .op = ctl->op,
			.flags = ctl->flags, .credit = credit,
			.data = ctl->status,
		};

		if (cnt && ctl->opcode != TAGRV_PKT_FIN)
			break;
		if (!cnt)
			tagrv_hdr_pack(pkt->words, &hdr);
		else
			pkt->more[cnt - 1] = (struct tagrv_fin_more) {
				htole32(ctl->op), htole32(ctl->status),
			};
		if (++cnt > TAGRV_FIN_MORE_MAX || ctl->opcode != TAGRV_PKT_FIN)
			break;
	}
	return cnt;
}

size_t tagrv_fin_ride(const struct tagrv_peer *peer, char *to)
{
	struct tagrv_list *node;
	size_t cnt = 0;

	tagrv_list_for_each(&peer->ctl, node) {
		const struct tagrv_ctl *ctl = ctl_of(node);

		if (ctl->opcode != TAGRV_PKT_FIN || cnt == TAGRV_FIN_RIDE_MAX)
			break;
		tagrv_item_pack_fin(to + cnt * TAGRV_ITEM_WORD, ctl->op,
				    ctl->status);
		cnt++;
	}
	return cnt;
}

static void drop_sent(struct tagrv_peer *peer, size_t cnt)
{
	while (cnt--)
		tagrv_pool_put(&peer->engine->ctls, tagrv_container_of(
			tagrv_list_pop(&peer->ctl), struct tagrv_ctl, link));
}

void tagrv_fin_ridden(struct tagrv_peer *peer, size_t cnt)
{
	peer->engine->stats.fin_tx += cnt;
	drop_sent(peer, cnt);
}

int tagrv_fin_send(struct tagrv_peer *peer)
{
	uint16_t credit = tagrv_credit_offer(&peer->credit);
	struct tagrv_link *link = peer->lane->link;
	struct fin_packet pkt;
	struct iovec iov = { &pkt, 0 };
	size_t cnt = fill(peer, &pkt, credit);
	int ret;

	iov.iov_len = offsetof(struct fin_packet, more[cnt - 1]);
	ret = link->xport->ops->send(link, &iov, 1, TAGRV_SEND_CTRL, NULL);
	if (ret)
		return ret;
	tagrv_credit_gave(&peer->credit, credit);
	if (ctl_of(tagrv_list_first(&peer->ctl))->opcode == TAGRV_PKT_FIN) {
		peer->engine->stats.fin_tx += cnt;
		peer->engine->stats.fin_packets++;
	}
	drop_sent(peer, cnt);
	return 0;
}

/* What is checked is a copy: the peer may write to the packet meanwhile. */
void tagrv_fin_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		      const void *body, size_t len)
{
	struct tagrv_hdr one = *hdr;
	struct tagrv_fin_more more;

	if (len % sizeof(more)) {
		tagrv_engine_bad_packet(peer, "malformed FIN");
		return;
	}
	tagrv_rndv_fin_packet(peer, hdr);
	for (size_t i = 0; i < len; i += sizeof(more)) {
		tagrv_copy_once(&more, (const char *) body + i, sizeof(more));
		one.op = le32toh(more.op);
		one.data = le32toh(more.status);
		tagrv_rndv_fin_packet(peer, &one);
	}
}
