/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FINs that come: they end our sends.
 */
#ifndef TAGRV_PROTO_ACKED_H
#define TAGRV_PROTO_ACKED_H

#include "object/peer.h"
#include "wire/packet.h"

/* A FIN packet, with any number of further FINs in its body. */
void tagrv_acked_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			const void *body, size_t len);
/*
 * One FIN: for our send 'handle', with the status from the packet: FI_E* or 0.
 * A FIN that hits no send of this peer is counted and ignored: it may be late.
 */
void tagrv_acked_fin(struct tagrv_peer *peer, uint32_t handle, uint64_t status);

#endif
