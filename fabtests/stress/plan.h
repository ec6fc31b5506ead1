/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What one direction of a soak run sends, and which receive must get which message.
 *
 * Both ranks derive the same plan from the seed. Messages come in blocks; for
 * each block there are as many receives, with random tags and masks, such that
 * every message of the block finds one. One sender, both sides in order: the
 * earliest receive that matches gets the earliest message that is left, whether
 * posted before or after it arrives, so the outcome does not depend on timing.
 *
 * A receive window of one block or more cannot deadlock: all receives of the
 * oldest unfinished block can be posted, and its messages fit no later ones.
 */
#ifndef STRESS_PLAN_H
#define STRESS_PLAN_H

#include "framework/message.h"

enum { PLAN_BLOCK = 32, PLAN_LEN_MAX = 8 << 20 };

struct plan {
	uint64_t seed;
	uint64_t count;		/* messages, a multiple of PLAN_BLOCK */
	uint64_t bytes;		/* about the sum of their lengths */
	size_t inject_size;
	bool deny_match;	/* the provider has no FI_MATCH_COMPLETE */
};

struct plan_message {
	uint64_t id;
	size_t len;
	uint64_t tag;
	uint64_t data;
	uint64_t flags;		/* of CALL_MSG */
	enum msg_call call;
	bool tagged;
};

struct plan_receive {
	uint64_t tag;
	uint64_t ignore;
	enum msg_call call;
	bool tagged;
	struct plan_message message;	/* the one it must get */
};

void plan_message(const struct plan *plan, uint64_t id, struct plan_message *m);

/* The receives of a block in the order of posting. */
void plan_receives(const struct plan *plan, uint64_t block, struct plan_receive *receive);

/* Seed of the message's content. */
uint64_t plan_content(const struct plan *plan, uint64_t id);

/* Completion data is sent with this message. */
bool plan_has_data(const struct plan_message *m);

#endif
