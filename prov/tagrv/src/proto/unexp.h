/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unexpected messages: keeping, delivering, dropping.
 */
#ifndef TAGRV_PROTO_UNEXP_H
#define TAGRV_PROTO_UNEXP_H

#include "object/op.h"
#include "object/peer.h"
#include "object/recv.h"
#include "wire/packet.h"

/* Logs why the matching engine does not keep a message. Returns the connection's error. */
int tagrv_unexp_refused(int why) TAGRV_COLD;

/* The queue in which an envelope is matched. */
static inline uint8_t tagrv_hdr_space(const struct tagrv_hdr *hdr)
{
	return hdr->flags & TAGRV_PKT_TAGGED ? TAGRV_SPACE_TAGGED :
					       TAGRV_SPACE_MSG;
}

/* Finds the receive of a message, as tagrv_match_arrive() does; -FI_ENOBUFS when
 * no more messages can be kept, -FI_ENOMEM without memory, both logged. */
static inline int tagrv_unexp_arrive(struct tagrv_peer *peer,
				     const struct tagrv_hdr *hdr,
				     struct tagrv_recv **recv,
				     struct tagrv_match_msg **msg)
{
	struct tagrv_match_recv *record;
	int ret = tagrv_match_arrive(peer->engine->match, peer->match_id,
				     tagrv_hdr_space(hdr), hdr->tag, &record,
				     msg);

	if (TAGRV_LIKELY(ret == 1))
		*recv = tagrv_recv_of(record);
	return TAGRV_LIKELY(ret >= 0) ? ret : tagrv_unexp_refused(ret);
}

/* Bytes of payload of an eager message, of the whole message of an RTS. */
size_t tagrv_unexp_len(const struct tagrv_umsg *umsg);
/* The immediate data that came with it; 0: none did. */
uint64_t tagrv_unexp_data(const struct tagrv_umsg *umsg);

/*
 * Keeps a message that tagrv_unexp_arrive() queued as msg: an eager one with its
 * payload, or (remote is not NULL) an RTS. -FI_ENOMEM: the message is lost.
 */
int tagrv_unexp_keep(struct tagrv_peer *peer, struct tagrv_match_msg *msg,
		     const struct tagrv_hdr *hdr, const void *payload,
		     size_t len, const struct tagrv_remote *remote)
	TAGRV_WARN_UNUSED;
/* Gives a kept message, which is on no queue, to a receive and frees it. */
void tagrv_unexp_deliver(struct tagrv_umsg *umsg, const struct tagrv_recv *recv);
/* Frees one; the sender is told that it was received. */
void tagrv_unexp_discard(struct tagrv_umsg *umsg);
/* Frees one without a word to the sender. */
void tagrv_unexp_free(struct tagrv_umsg *umsg);

/*
 * The connection of a peer is gone. Eager messages, which have come whole, stay. Those
 * that were only announced can never be had: their memory is free, and a receive that
 * meets one fails with -FI_ECONNRESET, in its turn. There are at most 1024 such of a
 * peer and 16384 of an endpoint, the earliest ones; others are dropped.
 */
void tagrv_unexp_lose_rndv(struct tagrv_peer *peer);
/* The same of one message, which is on no queue; it is not dropped. */
void tagrv_unexp_lose(struct tagrv_umsg *umsg);
/* Frees all messages that came by this engine, but claimed ones. */
void tagrv_unexp_drop(struct tagrv_engine *engine);

#endif
