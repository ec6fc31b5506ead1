/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The ways a message can take, each forced by parameters and proven by counters.
 */
#ifndef FUNCTIONAL_WAYS_H
#define FUNCTIONAL_WAYS_H

#include "fixture.h"

#include <rdma/fi_ext_tagrv.h>

struct way {
	const char *name;
	const char *proto;	/* FI_TAGRV_PROTO of both sides */
	const char *rndv;	/* FI_TAGRV_RNDV of the receiver */
	size_t len;		/* of a usual message, at least 1000 bytes */
	size_t most;		/* bytes of the longest one */
	uint64_t flags;		/* of the call that sends it */
	bool announced;		/* the payload stays at the sender until it matches */
	bool batched;		/* it waits for another one: send that behind it */
	bool prepared;		/* only RDMA has it: eager elsewhere */
	bool starved;		/* the peer has no room for it: see ways_starve() */
	size_t sent, got;	/* offset in struct fi_tagrv_proto_stats of what counts
				   them on either side; but see ways_sent() */
};

enum { WAY_EAGER, WAY_BATCHED, WAY_PREPARED, WAY_STARVED, WAY_INJECTED, WAY_GET, WAY_PUT, WAY_COPY,
       WAY_PIPELINE, WAY_COUNT };

extern const struct way ways[WAY_COUNT];

enum { WAYS_FILL_TAG = 0x7777 };

/*
 * Collective: opens an endpoint whose messages take this way, connects it to the
 * peer and, for ways that are starved, sends what fills the room that the peer has
 * for messages nobody asked for. Skips the case where the provider has no counters
 * to tell.
 */
void ways_open(struct test *t, struct fx *fx, const struct way *way, const struct fx_attr *attr);

/* What counts them at the sender, over the device of this case. */
size_t ways_sent(const struct fx *fx, const struct way *way);

/* Collective: receives what filled that room, and closes. */
void ways_close(struct fx *fx, const struct way *way);

struct fi_tagrv_proto_stats ways_stats(struct fx *fx);

/* A member of the counters: of 'sent' or 'got'. */
uint64_t ways_count(const struct fi_tagrv_proto_stats *stats, size_t member);

#endif
