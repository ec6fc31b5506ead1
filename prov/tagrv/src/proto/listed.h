/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tagged messages whose sender numbers its tags, because a list of our device may match
 * them (object/tags.h): packets that begin with the two words of xport/taglist.h.
 *
 *   an entry took it -----> tagrv_listed_arrived() --> copied out, or rendezvous begins
 *   none did: unexpected -> tagrv_listed_packet() ---> matched in software: arrive.h
 *
 * Layouts: docs/wire_protocol.md section 1.12. lock: the domain's.
 */
#ifndef TAGRV_PROTO_LISTED_H
#define TAGRV_PROTO_LISTED_H

#include <stddef.h>

struct tagrv_listed;
struct tagrv_op;
struct tagrv_peer;
struct tagrv_tags;

/* tagrv_tags_ops.arrived: the op ends, or its rendezvous begins. */
void tagrv_listed_arrived(struct tagrv_tags *tags, const struct tagrv_listed *listed,
			  struct tagrv_op *op, const void *bytes, size_t len, int status);
/* A packet of the peer's connection that is up; data begins with the two words. */
void tagrv_listed_packet(struct tagrv_peer *peer, const void *data, size_t len);

#endif
