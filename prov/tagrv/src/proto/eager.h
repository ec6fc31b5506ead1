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

/* A message was sent, or cannot fail to be: credit is what it returns. */
static inline void tagrv_eager_count(struct tagrv_peer *peer, uint16_t credit,
				     uint32_t units)
{
	tagrv_credit_returned(&peer->credit, credit);
	peer->credit.left -= units;
	peer->tx_seq++;
	peer->engine->stats.eager_tx++;
}

/* Whether a tagged message for which nothing is awaited can go at once. */
static inline bool tagrv_eager_is_plain(const struct tagrv_peer *peer, size_t len)
{
	return TAGRV_LIKELY(len < peer->plain_end) &&
	       TAGRV_LIKELY(tagrv_credit_units(len) <= peer->credit.left) &&
	       TAGRV_LIKELY(peer->gate->cnt < peer->gate->end);
}

/*
 * Whether a tagged message of one segment, for which nothing is awaited, lacks nothing but
 * room or credit.
 */
static inline bool tagrv_eager_is_held_up(const struct tagrv_peer *peer, size_t len)
{
	return peer->plain_end && peer->gate->end && len <= peer->eager_limit &&
	       len < peer->plain_link->xport->attr.tagged_end;
}

/*
 * Sends such a message of len bytes. flags: 0 or TAGRV_META_DATA. It cannot fail, so
 * it is counted before: then nothing is left to do behind the call. Returns 0.
 */
static inline ssize_t tagrv_eager_send_plain(struct tagrv_peer *peer, size_t len,
					     uint64_t flags, uint64_t tag,
					     uint64_t data, const void *buf)
{
	uint16_t credit = tagrv_credit_to_return(&peer->credit);
	uint64_t meta = TAGRV_META(len, credit) | flags;

	assert(peer->state == TAGRV_PEER_READY &&
	       tagrv_list_empty(&peer->pending));
	tagrv_trace_tagged_out(peer, peer->tx_seq, meta, tag, data);
	tagrv_eager_count(peer, credit, tagrv_credit_units(len));
	return peer->send_tagged(peer->plain_link, meta, tag, data, buf);
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
 * The same for a tagged message that tagrv_eager_is_held_up(), whose caller repeats it: 0,
 * or -FI_EAGAIN, and no room is announced. -FI_ENOSPC: credit has not come for so many
 * repetitions that the message should be announced instead.
 */
int tagrv_eager_repeat(struct tagrv_peer *peer, const struct tagrv_send_req *req,
		       size_t len) TAGRV_WARN_UNUSED;
/*
 * The same from registered memory (req->mem), which the device gathers itself:
 * the memory is busy until done, which is not NULL, has run.
 */
int tagrv_eager_send_prepared(struct tagrv_peer *peer,
			      const struct tagrv_send_req *req, size_t len,
			      uint32_t handle, struct tagrv_done *done)
	TAGRV_WARN_UNUSED;

#endif
