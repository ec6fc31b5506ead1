/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What comes by the list of an xport: packets of links, and messages that entries took.
 *
 *   without a tag          16 bytes for the device, which are taken off     sink->packet
 *   unexpected, tagged     whole                                            sink->listed
 *   taken by an entry      the link by the number in its tag                taglist.h
 *
 * Each uses a permit. Immediate data are permits, but not those of tagged packets, which
 * have none.
 */
#include <string.h>

#include "core/log.h"
#include "xport/verbs/verbs_in.h"
#include "xport/verbs/verbs_list_rx.h"

/* The link whose second queue pair it is, also one that is not in the map yet. */
static struct verbs_link *find_qpn(struct verbs_xport *xp, uint32_t qpn)
{
	struct verbs_link *link = verbs_map_find_in(&xp->in_map, qpn);

	if (TAGRV_UNLIKELY(!link) && tagrv_verbs_links_adopt(xp))
		link = verbs_map_find_in(&xp->in_map, qpn);
	return link;
}

static struct verbs_link *find_number(struct verbs_xport *xp, uint64_t tag)
{
	uint32_t number = (uint32_t) (tag >> VERBS_LIST_NUMBER_AT) & VERBS_NUMBER_MAX;

	if (TAGRV_UNLIKELY(!xp->list.links[number]))
		tagrv_verbs_links_adopt(xp);
	return xp->list.links[number];
}

/* ---- packets ---- */

/* As with the other queue, a request of ours may have broken the queue pair: verbs_poll.c. */
static TAGRV_COLD void packet_failed(struct verbs_xport *xp, struct verbs_link *link, int status)
{
	if (link->error)
		return;
	if (status == -FI_ECONNRESET) {
		atomic_store(&link->async_error, -FI_ECONNRESET);
		verbs_alarm_set(xp, VERBS_ALARM_LINK);
		xp->must_poll_tx = true;
		return;
	}
	tagrv_info("verbs: %s: qp 0x%x: receive failed: %s\n", xp->dev->base.name,
		   link->in.qpn, strerror(-status));
	tagrv_verbs_link_fail(link, status, false);
}

static const char too_many[] = "the peer sent more packets than it was permitted";

static TAGRV_COLD void refuse(struct verbs_xport *xp, struct verbs_link *link, const char *why)
{
	tagrv_info("verbs: %s: qp 0x%x: %s\n", xp->dev->base.name, link->in.qpn, why);
	tagrv_verbs_link_fail(link, -FI_EREMOTEIO, false);
}

/*
 * The same of a message that an entry took, which the owner must hear of first: its answer to the
 * end of a link deletes entries. What the peer sent behind the message counts no more.
 */
static TAGRV_COLD int refuse_match(struct verbs_xport *xp, struct verbs_link *link,
				   const char *why)
{
	tagrv_info("verbs: %s: qp 0x%x: %s\n", xp->dev->base.name, link->in.qpn, why);
	link->lost_stray = true;
	verbs_link_set_direct(link);
	tagrv_verbs_link_fail(link, -FI_EREMOTEIO, true);
	return -FI_EREMOTEIO;
}

static void hand_over(struct verbs_xport *xp, struct verbs_link *link, bool tagged,
		      const void *data, size_t len)
{
	struct tagrv_sink *sink = xp->base.sink;

	if (tagged)
		sink->listed(sink, link->base.ctx, data, len);
	else
		sink->packet(sink, link->base.ctx, data, len);
}

/* False: it is kept. */
static bool deliver(struct verbs_xport *xp, struct verbs_link *link, bool tagged,
		    const void *data, size_t len)
{
	bool closing = link->state == VERBS_LINK_CLOSING;

	if (TAGRV_UNLIKELY(!link->direct)) {
		if (closing && !link->base.delivers_last)
			return true;
		if (!closing || link->stray_cnt)
			return !tagrv_verbs_stray_keep(link, tagged ? VERBS_STRAY_LISTED :
						       VERBS_STRAY_PACKET, data, len);
	}
	hand_over(xp, link, tagged, data, len);
	return true;
}

/* A packet without a tag. */
static void on_plain(struct verbs_xport *xp, struct verbs_link *link,
		     const struct verbs_list_packet *packet)
{
	const char *data = packet->data;

	if (TAGRV_UNLIKELY(packet->has_imm) &&
	    tagrv_verbs_permit_received(xp, link, packet->imm))
		return;
	if (TAGRV_UNLIKELY(packet->len < VERBS_LIST_WORDS))
		refuse(xp, link, "a packet has no header for the list");
	else
		(void) deliver(xp, link, false, data + VERBS_LIST_WORDS,
			       packet->len - VERBS_LIST_WORDS);
}

static TAGRV_COLD void on_lost(struct verbs_xport *xp, const struct verbs_list_packet *packet)
{
	const struct ibv_wc wc = {
		.wr_id = packet->wr_id,
		.status = packet->status ? IBV_WC_GENERAL_ERR : IBV_WC_SUCCESS,
	};

	tagrv_verbs_lost_came(&xp->list.pool, find_qpn(xp, packet->qpn), &wc);
}

bool tagrv_verbs_list_packet(void *owner, const struct verbs_list_packet *packet)
{
	struct verbs_xport *xp = owner;
	struct verbs_link *link;

	if (TAGRV_UNLIKELY(packet->lost)) {
		on_lost(xp, packet);
		return true;
	}
	link = find_qpn(xp, packet->qpn);
	if (TAGRV_UNLIKELY(!link)) {
		xp->list.stray++;
		return true;
	}
	link->rx_last = packet->wr_id;
	if (TAGRV_UNLIKELY(packet->status != 0))
		packet_failed(xp, link, packet->status);
	else if (TAGRV_UNLIKELY(!tagrv_verbs_permit_used(link)))
		refuse(xp, link, too_many);
	else if (packet->tagged)
		return deliver(xp, link, true, packet->data, packet->len);
	else
		on_plain(xp, link, packet);
	return true;
}

bool tagrv_verbs_list_permit(void *owner, const struct verbs_list_packet *packet)
{
	struct verbs_xport *xp = owner;
	struct verbs_link *link = find_qpn(xp, packet->qpn);

	return link && tagrv_verbs_permit_read(xp, link, packet->imm);
}

/* ---- messages that entries took ---- */

/*
 * Early packets of a link that was attached since the pass began are due before this message.
 * Behind one that was lost nothing is delivered.
 */
int tagrv_verbs_list_match(void *owner, uint32_t qpn, uint64_t tag, struct tagrv_link **out)
{
	struct verbs_xport *xp = owner;
	struct verbs_link *link = find_number(xp, tag);
	struct verbs_link *by_qpn = qpn ? find_qpn(xp, qpn) : link;

	if (TAGRV_UNLIKELY(!link || by_qpn != link)) {
		if (by_qpn)
			return refuse_match(xp, by_qpn,
					    "a tagged message has the number of another peer");
		return -FI_EREMOTEIO;
	}
	*out = &link->base;
	if (TAGRV_UNLIKELY(link->state == VERBS_LINK_CLOSING && !link->base.ctx))
		return -FI_ECONNRESET;	/* discarded: nobody waits for it */
	link->rx_seen = (uint32_t) link->rx_last - 1;	/* verbs_check.c: something has come */
	if (TAGRV_LIKELY(link->direct))
		link->rx_matched = link->pool->rxq.next;	/* verbs_recall.c: the same */
	if (TAGRV_UNLIKELY(!tagrv_verbs_permit_used(link)))
		return refuse_match(xp, link, too_many);
	if (TAGRV_UNLIKELY(link->stray_cnt && link->base.ctx))
		tagrv_verbs_strays_deliver(xp);
	return TAGRV_UNLIKELY(link->lost_stray) ? -FI_ECONNRESET : 0;
}

/* If there is no room for it the link has failed, and the message ends with it. */
void tagrv_verbs_list_keep(void *owner, struct tagrv_link *link, uint64_t key)
{
	(void) owner;
	(void) tagrv_verbs_stray_keep(verbs_link_of(link), VERBS_STRAY_ENTRY, &key, sizeof(key));
}
