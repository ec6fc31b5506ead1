/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The address blob that both sides of a link exchange.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_BLOB_H
#define TAGRV_XPORT_VERBS_VERBS_BLOB_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

/* Contents of a link's address blob, in host byte order. */
struct verbs_blob {
	uint32_t qpn, psn;
	uint32_t max_packet;	/* bytes of the sender's receive buffers */
	uint16_t lid;
	uint8_t	mtu;		/* enum ibv_mtu */
	uint8_t	rd_in, rd_out;	/* reads served, reads issued at a time */
	uint8_t	net;		/* enum verbs_net */
	uint8_t	admits;		/* rights of the blob's receiver: enum tagrv_mem_access */
	uint16_t permits;	/* packets that the blob's receiver may send */
	union ibv_gid gid;
};

/* Writes a blob to 'to' (TAGRV_BLOB_MAX bytes); returns its length. */
size_t tagrv_verbs_blob_pack(const struct verbs_blob *blob, void *to);
/* 0, or -FI_EINVAL: malformed, or a value that no peer would send. */
int tagrv_verbs_blob_unpack(struct verbs_blob *blob, const void *from,
			    size_t len) TAGRV_WARN_UNUSED;

#endif
