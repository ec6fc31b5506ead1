/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A transport for wireup tests: its links have numbers, which its blobs contain, so
 * that a test can tell which link was bound to which.
 */
#ifndef FABTESTS_UNIT_WIREUP_FAKE_H
#define FABTESTS_UNIT_WIREUP_FAKE_H

#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "xport/xport.h"

#define FAKE_WIRE_ID	7	/* of the transport that every peer has, like a device */
#define FAKE_LOCAL_ID	8	/* of the preferred transport, like shared memory */

struct fake_xport {
	struct tagrv_xport base;
	struct tagrv_xport_ops ops;
	atomic_int created;
	atomic_int bound;
	atomic_int refused;	/* by bind_status */
	atomic_int discarded;
	atomic_int alive;
	int	create_status;	/* returned by the next calls */
	int	bind_status;
};

struct fake_link {
	struct tagrv_link base;
	uint64_t id;
	uint64_t peer_id;	/* 0: not bound */
};

static atomic_ullong fake_next_id = 1;

/* Remembers what the latest links were bound to, also after they are freed. */
#define FAKE_MEMORY	4096
static atomic_ullong fake_bound_to[FAKE_MEMORY];

static inline struct fake_xport *fake_of(struct tagrv_xport *xport)
{
	return (struct fake_xport *) xport;
}

static inline struct fake_link *fake_link_of(struct tagrv_link *link)
{
	return (struct fake_link *) link;
}

static inline int fake_create(struct tagrv_xport *xport, void *blob,
			      size_t *len, struct tagrv_link **link)
{
	struct fake_xport *fake = fake_of(xport);
	struct fake_link *out;

	if (fake->create_status)
		return fake->create_status;
	out = calloc(1, sizeof(*out));
	if (!out)
		return -FI_ENOMEM;
	out->base.xport = xport;
	out->id = atomic_fetch_add(&fake_next_id, 1);
	memcpy(blob, &out->id, sizeof(out->id));
	*len = sizeof(out->id);
	*link = &out->base;
	atomic_fetch_add(&fake->created, 1);
	atomic_fetch_add(&fake->alive, 1);
	return 0;
}

static inline int fake_bind(struct tagrv_link *link, const void *blob,
			    size_t len)
{
	struct fake_link *out = fake_link_of(link);
	struct fake_xport *fake = fake_of(link->xport);

	if (len != sizeof(out->peer_id))
		return -FI_EINVAL;
	if (fake->bind_status) {
		atomic_fetch_add(&fake->refused, 1);
		return fake->bind_status;
	}
	if (out->peer_id)
		abort();	/* a queue pair can be bound once */
	memcpy(&out->peer_id, blob, len);
	atomic_store(&fake_bound_to[out->id % FAKE_MEMORY], out->peer_id);
	atomic_fetch_add(&fake->bound, 1);
	return 0;
}

/* Frees a link, also one that the test got by UP. */
static inline void fake_free(struct tagrv_link *link)
{
	atomic_fetch_sub(&fake_of(link->xport)->alive, 1);
	free(link);
}

static inline void fake_discard(struct tagrv_link *link)
{
	atomic_fetch_add(&fake_of(link->xport)->discarded, 1);
	fake_free(link);
}

static inline void fake_init(struct fake_xport *fake)
{
	memset(fake, 0, sizeof(*fake));
	fake->ops.name = "fake";
	fake->ops.wire_id = FAKE_WIRE_ID;
	fake->ops.link_create = fake_create;
	fake->ops.link_bind = fake_bind;
	fake->ops.link_discard = fake_discard;
	fake->base.ops = &fake->ops;
	fake->base.attr.max_packet = 4096;
}

#endif
