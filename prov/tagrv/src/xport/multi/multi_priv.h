/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects of the transport that joins several devices: each device is a rail.
 *
 *   device    the devices of all rails (multi_dev.c)
 *     xport     one instance of each rail's transport (multi_xport.c)
 *       link      up to one path per rail of ours (multi_link.c)
 *         path      a link of the rail's transport to one device of the peer
 *
 * Packets travel by one path at a time, which keeps their order; gets and puts go by
 * all. Everything that has no outcome yet is a record, so that it can go by another
 * path when its own fails (multi_fail.c draws that).
 *
 * A path needs no numbers in its packets: RC transports deliver in order, so both
 * sides count. A packet whose first byte is MULTI_MARK is from the other side's
 * transport, not from its owner, and is not counted.
 *
 * All fields of an attached link are protected by the domain lock.
 */
#ifndef TAGRV_XPORT_MULTI_MULTI_PRIV_H
#define TAGRV_XPORT_MULTI_MULTI_PRIV_H

#include <rdma/fi_errno.h>

#include "core/list.h"
#include "core/pool.h"
#include "xport/backends.h"

#define MULTI_WIRE_ID	4
#define MULTI_RAILS	4u	/* rails at most: the keys of all fill TAGRV_KEY_MAX */
#define MULTI_KEY_LEN	(TAGRV_KEY_MAX / MULTI_RAILS)	/* bytes of a rail's key */
#define MULTI_MARK	0xf1u	/* first byte of our own packets */

/* ---- device: multi_dev.c ---- */

struct multi_dev {
	struct tagrv_device base;
	struct tagrv_device *rails[MULTI_RAILS];
	unsigned cnt;
	int	event_fd;	/* epoll of the devices' event descriptors, or -1 */
};

/* mem[i] is registered with rail i. */
struct multi_mem {
	struct tagrv_mem base;
	struct tagrv_mem *mem[MULTI_RAILS];
};

static inline struct multi_dev *multi_dev_of(struct tagrv_device *dev)
{
	return tagrv_container_of(dev, struct multi_dev, base);
}

static inline const struct multi_mem *multi_mem_of(const struct tagrv_mem *mem)
{
	return (const struct multi_mem *) mem;
}

void tagrv_multi_dev_close(struct tagrv_device *dev);
int tagrv_multi_dev_event_fd(struct tagrv_device *dev);
void tagrv_multi_dev_event(struct tagrv_device *dev);
int tagrv_multi_mem_reg(struct tagrv_device *dev, void *addr, size_t len,
			unsigned access, struct tagrv_mem **mem);
void tagrv_multi_mem_dereg(struct tagrv_mem *mem);
/* The keys of all rails in their order, MULTI_KEY_LEN bytes each. */
size_t tagrv_multi_mem_key(const struct tagrv_mem *mem, void *key);

/* ---- blobs and pairs: multi_blob.c ---- */

/*
 * What a link's blob says: the blobs of the paths that could be made, by rail. It is
 * packed into at most TAGRV_BLOB_MAX bytes: version, number of rails, then the length
 * and the bytes of each rail's blob; length 0: this rail has no path.
 */
struct multi_blob {
	unsigned cnt;
	struct {
		uint8_t	len;
		uint8_t	data[TAGRV_BLOB_MAX];
	} rails[MULTI_RAILS];
};

size_t tagrv_multi_blob_pack(const struct multi_blob *blob, void *to);
/* Nothing of 'from' is believed. -FI_EINVAL: no peer would send this. */
int tagrv_multi_blob_unpack(struct multi_blob *blob, const void *from,
			    size_t len) TAGRV_WARN_UNUSED;

/*
 * Decides which rail of ours is joined to which rail of the peer: both sides compute
 * the same from the same two blobs. near(): how well two paths' blobs can reach each
 * other, 0: not at all; symmetric. peer_of[i] becomes the peer's rail for our rail i,
 * or -1. Returns the number of pairs.
 *
 * Each rail has one pair at most. The best pairs come first; among equals the pair of
 * lowest sum of ranks, counted from the side whose blob is lower in memory order, so
 * that both sides begin with the same one.
 */
unsigned tagrv_multi_pair(const struct multi_blob *own,
			  const struct multi_blob *peer,
			  unsigned (*near)(const void *a, size_t a_len,
					   const void *b, size_t b_len),
			  int peer_of[MULTI_RAILS]);

#endif
