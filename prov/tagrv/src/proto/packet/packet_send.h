/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The one way a packet leaves, but for eager messages (eager.c), which have a
 * faster call of the transport.
 */
#ifndef TAGRV_PROTO_PACKET_PACKET_SEND_H
#define TAGRV_PROTO_PACKET_PACKET_SEND_H

#include <rdma/fi_errno.h>

#include "core/trace.h"
#include "object/lane.h"
#include "wire/packet.h"

/*
 * Sends a packet to a connected peer. hdr: host byte order; its credit is set
 * here. iov[0] begins with sizeof(*hdr) bytes for the header, which is written
 * there. body: bytes behind the header; only the trace point reads it. flags,
 * done and the answer: as tagrv_xport_ops::send.
 */
TAGRV_WARN_UNUSED
static inline int tagrv_packet_send(struct tagrv_peer *peer,
				    struct tagrv_hdr *hdr,
				    const struct iovec *iov, size_t cnt,
				    size_t body, unsigned flags,
				    struct tagrv_done *done)
{
	struct tagrv_link *link = peer->lane->link;
	int ret;

	hdr->credit = tagrv_credit_to_return(&peer->credit);
	tagrv_hdr_pack(iov[0].iov_base, hdr);
	ret = link->xport->ops->send(link, iov, cnt, flags, done);
	if (ret)
		return ret;
	tagrv_trace_packet_out(peer, iov[0].iov_base, body);
	tagrv_credit_returned(&peer->credit, hdr->credit);
	return 0;
}

/*
 * The same for an RTS of the tagged space to a peer whose device matches it (peer->number).
 * Its usual header and this one have the same length.
 */
TAGRV_WARN_UNUSED
static inline int tagrv_packet_send_listed(struct tagrv_peer *peer, struct tagrv_hdr *hdr,
					   const struct iovec *iov, size_t cnt, size_t body)
{
	struct tagrv_link *link = peer->lane->link;
	uint64_t usual[TAGRV_SHORT_WORDS];
	int ret;

	hdr->credit = tagrv_credit_to_return(&peer->credit);
	tagrv_hdr_pack_listed(iov[0].iov_base, hdr, peer->number);
	ret = link->xport->ops->send(link, iov, cnt, TAGRV_SEND_TAGGED, NULL);
	if (ret)
		return ret;
	tagrv_hdr_pack(usual, hdr);
	tagrv_trace_packet_out(peer, usual, body);
	tagrv_credit_returned(&peer->credit, hdr->credit);
	return 0;
}

/*
 * The same for a packet whose body is in one place, by the transport's faster call, which
 * may refuse what a closer look would allow. 0; -FI_EAGAIN: nothing has happened, use
 * tagrv_packet_send().
 */
TAGRV_WARN_UNUSED
static inline int tagrv_packet_send_short(struct tagrv_peer *peer, struct tagrv_hdr *hdr,
					  const void *body, size_t len)
{
	struct tagrv_link *link = peer->lane->link;
	uint64_t words[TAGRV_SHORT_WORDS];

	if (TAGRV_UNLIKELY(len > link->xport->attr.max_short))
		return -FI_EAGAIN;
	hdr->credit = tagrv_credit_to_return(&peer->credit);
	tagrv_hdr_pack(words, hdr);
	/* Transports copy no byte of a body at NULL, but memcpy() must not be given it. */
	if (TAGRV_UNLIKELY(link->xport->ops->send_short(link, words, len ? body : words,
							len)))
		return -FI_EAGAIN;
	tagrv_trace_packet_out(peer, words, len);
	tagrv_credit_returned(&peer->credit, hdr->credit);
	return 0;
}

#endif
