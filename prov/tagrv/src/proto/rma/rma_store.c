/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes of one packet, with the address in the header, and counted ones: of what
 * fi_inject_write has sent, nobody awaits the end of a certain one, so both sides only count.
 *
 *   initiator                              target
 *   peer->rma.counted++ -- STORE(op 0) -->  copies it; peer->rma.done++ or refused++
 *                       -- STORE(op 0) -->  likewise
 *                                           the pass ends, or there is room:
 *   counted -= n, the   <-- COUNT(n, m) --  done = refused = 0
 *   write counter += n
 *
 * A counted write has no op. It is in peer->sent, so that a fence waits for it; it fails with
 * its lane; at fi_close it has arrived if its packet has left, as one with an op (close.c).
 * What is not sent at once gets an op and goes as a STORE or PUT that a FIN answers: in
 * particular all writes with remote CQ data, whose FINs may be held.
 */
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "proto/packet/ack.h"
#include "proto/packet/packet_send.h"
#include "proto/rma/rma_priv.h"

/* ---- initiator ---- */

int tagrv_rma_store(struct tagrv_peer *peer, uint32_t op, const void *buf, size_t len,
		    uint64_t addr, uint64_t key)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_STORE, .op = op, .tag = key, .data = addr,
	};

	tagrv_assert_locked(peer->engine->dom);
	return tagrv_packet_send_short(peer, &hdr, buf, len);
}

int tagrv_rma_store_counted(struct tagrv_peer *peer, const void *buf, size_t len,
			    uint64_t addr, uint64_t key)
{
	int ret;

	if (TAGRV_UNLIKELY(peer->state != TAGRV_PEER_READY ||
			   !tagrv_list_empty(&peer->pending) ||
			   peer->rma.counted == UINT32_MAX))
		return -FI_EAGAIN;
	if (TAGRV_UNLIKELY(tagrv_peer_xport(peer)->attr.caps & TAGRV_XPORT_SIDE) &&
	    tagrv_rma_view_to_write(peer, addr, len, key))
		return -FI_EAGAIN;
	ret = tagrv_rma_store(peer, 0, buf, len, addr, key);
	if (TAGRV_UNLIKELY(ret))
		return ret;
	peer->rma.counted++;
	peer->sent++;
	tagrv_rma_sum_add(&peer->engine->stats.rma_tx, TAGRV_RMA_WRITE, len);
	return 0;
}

void tagrv_rma_count_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			    const void *body, size_t len)
{
	const uint32_t done = hdr->op, refused = hdr->seq;

	(void) body;
	tagrv_assert_locked(peer->engine->dom);
	if (len || hdr->flags || !refused != !hdr->data) {
		tagrv_peer_bad_packet(peer, "malformed COUNT");
		return;
	}
	if ((uint64_t) done + refused > peer->rma.counted) {
		tagrv_peer_bad_packet(peer, "COUNT of more operations than there are");
		return;
	}
	if (TAGRV_LIKELY(done))
		tagrv_peer_end_counted(peer, done, 0);
	if (TAGRV_UNLIKELY(refused))
		tagrv_peer_end_counted(peer, refused, tagrv_status_unpack(hdr->data));
}

/* ---- target ---- */

static bool copy_to_window(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *bytes, size_t len)
{
	struct iovec iov[TAGRV_IOV_MAX];
	struct tagrv_window *window;
	size_t offset;

	window = tagrv_rma_window(peer, hdr->tag, hdr->data, len, FI_REMOTE_WRITE, &offset);
	if (TAGRV_UNLIKELY(!window)) {
		peer->engine->stats.rma_refused++;
		return false;
	}
	if (TAGRV_LIKELY(window->iov_cnt == 1))
		tagrv_copy((char *) window->iov[0].iov_base + offset, bytes, len);
	else
		tagrv_iov_scatter(iov, tagrv_window_slice(window, offset, len, iov,
							  TAGRV_IOV_MAX), bytes, len);
	tagrv_rma_written(peer, hdr, window, len);
	return true;
}

static void count_served(struct tagrv_peer *peer, bool done)
{
	uint32_t *cnt = done ? &peer->rma.done : &peer->rma.refused;

	if (TAGRV_UNLIKELY(*cnt == UINT32_MAX)) {
		tagrv_peer_bad_packet(peer, "counted writes, but no COUNTs are taken");
		return;
	}
	++*cnt;
	if (TAGRV_LIKELY(peer->state == TAGRV_PEER_READY))
		tagrv_peer_set_busy(peer);
}

void tagrv_rma_store_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			    const void *bytes, size_t len)
{
	bool done;

	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_UNLIKELY(hdr->flags || hdr->seq)) {
		tagrv_peer_bad_packet(peer, "malformed STORE");
		return;
	}
	peer->rma.changes++;
	/* No operation of several packets goes on behind it. */
	peer->rma.op = 0;
	done = copy_to_window(peer, hdr, bytes, len);
	if (TAGRV_UNLIKELY(!peer->lane))
		return;		/* a counter has run its trigger, and that failed it */
	if (hdr->op)
		tagrv_ack_fin(peer, hdr->op, done ? 0 : -FI_EACCES);
	else
		count_served(peer, done);
}

int tagrv_rma_serve_count(struct tagrv_peer *peer)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_COUNT, .op = peer->rma.done, .seq = peer->rma.refused,
		.data = peer->rma.refused ? FI_EACCES : 0,
	};
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	ret = tagrv_control_send(peer, &hdr, NULL, 0);
	if (ret)
		return ret;
	peer->rma.done = 0;
	peer->rma.refused = 0;
	return 0;
}
