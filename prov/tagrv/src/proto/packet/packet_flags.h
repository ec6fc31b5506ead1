/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * enum tagrv_pkt_flags of a message, from the flags of its request.
 */
#ifndef TAGRV_PROTO_PACKET_PACKET_FLAGS_H
#define TAGRV_PROTO_PACKET_PACKET_FLAGS_H

#include <rdma/fi_tagged.h>

#include "object/op.h"
#include "wire/packet.h"

/* Which receives the message may match, and whether it has remote CQ data. */
static inline uint16_t tagrv_packet_space_flags(uint8_t space, uint64_t op_flags)
{
	uint16_t flags = 0;

	if (space == TAGRV_SPACE_TAGGED)
		flags |= TAGRV_PKT_TAGGED;
	if (op_flags & FI_REMOTE_CQ_DATA)
		flags |= TAGRV_PKT_DATA;
	return flags;
}

/* The FIN that the sender's completion level needs. */
static inline uint16_t tagrv_packet_ack_flags(uint64_t op_flags)
{
	if (op_flags & FI_MATCH_COMPLETE)
		return TAGRV_PKT_ACK_MATCH;
	return op_flags & FI_DELIVERY_COMPLETE ? TAGRV_PKT_ACK_DELIVERY : 0;
}

/* Both. */
static inline uint16_t tagrv_packet_flags(uint8_t space, uint64_t op_flags)
{
	return tagrv_packet_space_flags(space, op_flags) |
	       tagrv_packet_ack_flags(op_flags);
}

#endif
