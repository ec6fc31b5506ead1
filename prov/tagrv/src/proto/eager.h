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
