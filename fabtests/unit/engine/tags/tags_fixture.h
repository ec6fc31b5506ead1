/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An engine whose device has a list of receives, and messages that come by it.
 */
#ifndef TAGRV_ENGINE_TAGS_FIXTURE_H
#define TAGRV_ENGINE_TAGS_FIXTURE_H

#include "common/engine_fixture.h"
#include "object/tags.h"

#define TAGS_ENTRIES	8u
#define TAGS_NUMBER	9u	/* of the peer, in its tags */

/* .init and .fini of a suite. */
void tags_setup(void);
void tags_teardown(void);

/* The peer of the fixture is connected by the device; given: its number, or 0. */
void tags_peer_up(uint16_t given);
/* The same, and a message that no receive takes has come, which opens the list. */
void tags_begin(void);
void tags_pass(int cnt);
/* A message of the peer comes to the list: progress tells what becomes of it. */
void tags_message(uint64_t tag, const void *bytes, size_t len);
/* Another peer has come by this link; *row: its name in the address table. */
struct tagrv_lane *tags_other_up(struct tagrv_link *link, uint32_t host, fi_addr_t *row);
/* Posts a receive; src: FI_ADDR_UNSPEC: of any source. */
void tags_post(void *buf, size_t len, uint64_t tag, void *context, fi_addr_t src);
struct tagrv_tags_counts tags_counts(void);
/* So many messages were unexpected, and each of them was handled once. */
void tags_expect_handled(unsigned cnt);
/* The next completion of a receive is of this message. */
void tags_expect(void *context, uint64_t tag, size_t len);

#endif
