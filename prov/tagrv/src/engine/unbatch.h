/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * BATCH packets that come: FINs and small messages in one packet.
 */
#ifndef TAGRV_ENGINE_UNBATCH_H
#define TAGRV_ENGINE_UNBATCH_H

#include "object/peer.h"
#include "wire/packet.h"

/* Handles each item; a malformed one fails the lane. */
void tagrv_unbatch(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		   const void *body, size_t len);
/* Whether the packet, which may be malformed, has a tagged message. */
bool tagrv_unbatch_finds_tagged(const void *body, size_t len);

#endif
