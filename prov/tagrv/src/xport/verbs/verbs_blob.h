/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The address blob that both sides of a link exchange.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_BLOB_H
#define TAGRV_XPORT_VERBS_VERBS_BLOB_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

#define VERBS_NUMBER_MAX	0x3fffu		/* greatest number of a sender in tags */

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
	/* InfiniBand: partition key, 0: not known. RoCE: VLAN id, 0: none */
	uint16_t part;
	uint8_t	prefix;		/* bits of the subnet in the address; 0: not known */
	bool	thin;		/* the sender has no buffers for these packets yet */
	bool	two;		/* the sender receives by a second queue pair, if both do */
	bool	list;		/* which is of a list: packets begin with a header for it */
	uint16_t number;	/* list: of the blob's receiver in its tagged messages; 0: none */
	uint32_t in_qpn, in_psn; /* two: the second queue pair */
	uint64_t model;		/* of the sender's device: xport/model.h; 0: it does not tell */
};

/* Writes a blob to 'to' (TAGRV_BLOB_MAX bytes); returns its length. */
size_t tagrv_verbs_blob_pack(const struct verbs_blob *blob, void *to);
/* 0, or -FI_EINVAL: malformed, or a value that no peer would send. */
int tagrv_verbs_blob_unpack(struct verbs_blob *blob, const void *from,
			    size_t len) TAGRV_WARN_UNUSED;

/*
 * ---- verbs_near.c ----
 *
 * How well the ports of two blobs reach each other, the same from both sides:
 *
 *   3  within a subnet
 *   2  within a subnet, but only one of them says that it is in a VLAN
 *   1  from one subnet to another, if there is a router; or nothing is known
 *   0  not at all: *why says the reason
 */
unsigned tagrv_verbs_near(const struct verbs_blob *a, const struct verbs_blob *b,
			  const char **why);
/* Of packed blobs, as in xport.h; 0: one of them is malformed. */
unsigned tagrv_verbs_blobs_near(const void *a, size_t a_len, const void *b,
				size_t b_len);

#endif
