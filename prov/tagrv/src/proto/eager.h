/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Eager messages, sender's half: envelope and payload in one packet.
 */
#ifndef TAGRV_PROTO_EAGER_H
#define TAGRV_PROTO_EAGER_H

#include "object/op.h"
#include "object/peer.h"

/*
 * Whether a message of len bytes goes eager for its size alone, without a look at
 * the table of protocols, and these units of credit are enough for it.
 */
static inline bool tagrv_eager_fits(const struct tagrv_peer *peer, size_t len,
				    uint32_t credit)
{
	return len <= peer->eager_limit && tagrv_credit_units(len) <= credit;
}

/* The packet was sent: credit is what it returned. */
static inline void tagrv_eager_count(struct tagrv_peer *peer, uint16_t credit,
				     uint32_t units)
{
	tagrv_credit_returned(&peer->credit, credit);
	peer->credit.left -= units;
	peer->tx_seq++;
	peer->engine->stats.eager_tx++;
}

/*
 * Sends a tagged message for which nothing is awaited in the transport's short form.
 * meta: bytes, and TAGRV_META_DATA. False: it cannot go like that now.
 */
static inline bool tagrv_eager_send_plain(struct tagrv_peer *peer, uint64_t meta,
					  uint64_t tag, uint64_t data,
					  const void *buf)
{
	uint32_t units = tagrv_credit_units(TAGRV_META_LEN(meta));
	uint16_t credit = tagrv_credit_to_return(&peer->credit);

	if (TAGRV_UNLIKELY(TAGRV_META_LEN(meta) >= peer->plain_end ||
			   units > peer->credit.left))
		return false;
	assert(peer->state == TAGRV_PEER_READY &&
	       tagrv_list_empty(&peer->pending));
	meta |= TAGRV_META(0, credit);
	if (TAGRV_UNLIKELY(peer->send_tagged(peer->plain_link, meta, tag, data,
					     buf)))
		return false;
	tagrv_trace_tagged_out(peer, peer->tx_seq, meta, tag, data);
	tagrv_eager_count(peer, credit, units);
	return true;
}

/*
 * Sends the message as one packet. len: bytes of all iov, for which the peer has
 * given credit. handle: named by the FIN; 0: none is wanted. done: as
 * tagrv_xport_ops::send, or NULL. 0; -FI_EAGAIN: no room; other -FI_E*.
 */
int tagrv_eager_send(struct tagrv_peer *peer, const struct tagrv_send_req *req,
		     size_t len, uint32_t handle, struct tagrv_done *done)
	TAGRV_WARN_UNUSED;
/*
 * The same from registered memory (req->mem), which the device gathers itself:
 * the memory is busy until done, which is not NULL, has run.
 */
int tagrv_eager_send_prepared(struct tagrv_peer *peer,
			      const struct tagrv_send_req *req, size_t len,
			      uint32_t handle, struct tagrv_done *done)
	TAGRV_WARN_UNUSED;

#endif
