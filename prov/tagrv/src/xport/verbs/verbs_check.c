/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Looks, every few seconds, whether a link is still of use.
 *
 *   nothing in flight, and something is awaited,  an empty write is posted: a peer that
 *   or packets have come since the last look      has died without a word does not
 *                                                 acknowledge it, so the link fails
 *   requests in flight, none ended since the      they are confirmed by an empty write;
 *   last look                                     after twice the time that the queue
 *                                                 pair has for all retries they are
 *                                                 overdue
 *   they were overdue at the last look, too       the link fails: the device has lost
 *                                                 them
 *   nothing in flight, nor sent since the last    the ring of requests is the short one
 *   look                                          again
 *
 * Two looks, because the application may have made no progress for long, or may have
 * been stopped: then the first one finds requests whose completions nobody has polled.
 * The second case must not happen with a sound device. It was seen where a filter drops
 * the packets of a software device on their way out: it repeats them without end.
 *
 * A peer whose process is stopped acknowledges, because its device does: it is alive.
 * But its receive queue may run empty, and then a sender waits however long that takes
 * (rnr_retry 7). Permits exclude that, except where a peer has permitted more packets
 * than it can register buffers: it says so (thin), until there are enough again. As long
 * packets to it may take any time, but not reads and writes before them, nor probes.
 *
 * A side that only receives has nothing in flight, and nothing that tells it of a broken
 * path. So it probes once behind the packets that have come, whether it awaits more or not.
 */
#include <rdma/fi_errno.h>

#include "core/clock.h"
#include "core/log.h"
#include "xport/verbs/verbs_post.h"

#define ACK_NS		4096u	/* unit of QP_TIMEOUT */
#define BYTES_PER_MS	10000u	/* of a long read or write over a slow path */

/* ms after which a request cannot be in flight any more; 0: it may be for ever. */
static uint64_t most_ms(const struct tagrv_params *params)
{
	uint64_t ns = ((uint64_t) ACK_NS << params->qp_timeout) *
		      ((uint64_t) params->qp_retry + 1);

	if (params->request_timeout)
		return params->request_timeout < 0 ? 0 :
		       (uint64_t) params->request_timeout * 1000;
	return 2 * ns / 1000000 + params->read_segment / BYTES_PER_MS + 1;
}

static void give_up(struct verbs_link *link, uint64_t ms)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	tagrv_warn("verbs: %s: qp 0x%x: no request has ended for %llu ms: the "
		   "connection is given up; see FI_TAGRV_REQUEST_TIMEOUT\n",
		   xp->dev->base.name, link->qpn, (unsigned long long) ms);
	tagrv_verbs_link_fail(link, -FI_ETIMEDOUT, true);
}

/* Whether the oldest request takes a buffer of a peer that may have none. */
static bool may_wait(const struct verbs_link *link)
{
	const struct verbs_tx *tx = &link->ring[link->tail & link->ring_mask];

	return link->thin && !tx->get && !tx->put;
}

/* Some requests are in flight. */
static void check_requests(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	uint64_t now = tagrv_clock_ms(), most = most_ms(&xp->params);

	if (!link->check.since || link->check.tail != link->tail) {
		link->check.tail = link->tail;
		link->check.since = now;
		link->check.overdue = false;
	} else if (link->check.overdue && !may_wait(link)) {
		give_up(link, now - link->check.since);
		return;
	} else if (most && now - link->check.since > most) {
		link->check.overdue = true;
		xp->must_poll_tx = true;
	}
	tagrv_verbs_confirm(link);
}

/* Nothing is in flight. If nothing was at the last look either, nor since, memory is freed. */
static void check_idle(struct verbs_link *link)
{
	if (!link->check.since && link->check.tail == link->tail)
		tagrv_verbs_ring_shorten(link);
	link->check.tail = link->tail;
	link->check.since = 0;
}

void tagrv_verbs_check(struct tagrv_link *base, bool awaited)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);
	bool came = (uint32_t) link->rx_last != link->rx_seen;

	if (link->error || link->state != VERBS_LINK_OPEN)
		return;
	link->rx_seen = (uint32_t) link->rx_last;
	if (link->head != link->tail) {
		check_requests(link);
		return;
	}
	check_idle(link);
	/* A probe that is a packet would be answered by another one, and so on. */
	if (!awaited && !(came && link->may_write))
		return;
	xp->stats.probes++;
	tagrv_verbs_probe(link);
}
