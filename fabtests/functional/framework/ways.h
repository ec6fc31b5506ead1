/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The ways a message can take: protocols, batches, injects, with credit or without.
 * Parameters force each way, counters prove that messages took it.
 */
#ifndef FUNCTIONAL_WAYS_H
#define FUNCTIONAL_WAYS_H

#include "fixture.h"

#include <rdma/fi_ext_tagrv.h>

struct way {
	const char *name;
	const char *proto;	/* FI_TAGRV_PROTO of both sides */
	const char *rndv;	/* FI_TAGRV_RNDV, which the receiver uses */
	size_t len;		/* usual length of a message, at least 1000 bytes */
	size_t most;		/* longest message, bytes */
	uint64_t flags;		/* for the send */
	bool announced;		/* the payload stays at the sender until it matches */
	bool batched;		/* leaves with the next message: send one more */
	bool prepared;		/* only RDMA devices have it; others send eagerly */
	bool starved;		/* sent without credit: the peer has no room for it */
	size_t sent, got;	/* offset in struct fi_tagrv_proto_stats of the counter
				   at the sender (but see ways_sent()), the receiver */
};

enum { WAY_EAGER, WAY_BATCHED, WAY_PREPARED, WAY_STARVED, WAY_INJECTED, WAY_GET, WAY_PUT, WAY_COPY,
       WAY_PIPELINE, WAY_COUNT };

extern const struct way ways[WAY_COUNT];

enum { WAYS_FILL_TAG = 0x7777 };

/*
 * Collective: opens an endpoint whose messages take this way and connects it to
 * the peer. For starved ways it sends messages that fill the peer's room for
 * unexpected messages. Skips the case if the provider has no such counters.
 */
void ways_open(struct test *t, struct fx *fx, const struct way *way, const struct fx_attr *attr);

/* Offset of the sender's counter for this way, over the device of this case. */
size_t ways_sent(const struct fx *fx, const struct way *way);

/* Collective: receives the messages that filled the peer's room, and closes. */
void ways_close(struct fx *fx, const struct way *way);

struct fi_tagrv_proto_stats ways_stats(struct fx *fx);

/* Reads the counter at an offset ('sent' or 'got'). */
uint64_t ways_count(const struct fi_tagrv_proto_stats *stats, size_t member);

#endif
