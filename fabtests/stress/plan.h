/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The messages of one direction of a soak run, and the receive that each must match.
 *
 * Both ranks derive the same plan from the seed. Messages come in blocks; for
 * each block there are as many receives, with random tags and masks, such that
 * every message of the block matches one. There is one sender, and both sides post
 * in order. So the earliest matching receive gets the earliest message, whether it
 * is posted before the arrival or after it: the outcome does not depend on timing.
 *
 * A receive window of one block or more cannot deadlock: all receives of the
 * oldest unfinished block can be posted, and its messages match no later receives.
 */
#ifndef STRESS_PLAN_H
#define STRESS_PLAN_H

#include "framework/message.h"

enum { PLAN_BLOCK = 32, PLAN_LEN_MAX = 8 << 20 };

struct plan {
	uint64_t seed;
	uint64_t count;		/* messages, a multiple of PLAN_BLOCK */
	uint64_t bytes;		/* approximate sum of all lengths */
	size_t inject_size;
	bool deny_match;	/* the provider has no FI_MATCH_COMPLETE */
};

struct plan_message {
	uint64_t id;
	size_t len;
	uint64_t tag;
	uint64_t data;
	uint64_t flags;		/* for CALL_MSG */
	enum msg_call call;
	bool tagged;
};

struct plan_receive {
	uint64_t tag;
	uint64_t ignore;
	enum msg_call call;
	bool tagged;
	struct plan_message message;	/* that it must match */
};

void plan_message(const struct plan *plan, uint64_t id, struct plan_message *m);

/* The receives of a block in the order of posting. */
void plan_receives(const struct plan *plan, uint64_t block, struct plan_receive *receive);

/* Returns the seed of the message's content. */
uint64_t plan_content(const struct plan *plan, uint64_t id);

/* Whether the message has remote CQ data. */
bool plan_has_data(const struct plan_message *m);

#endif
