/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Naive matcher: the rules of match/match.h in their simplest form, to compare
 * the matching engine with.
 *
 * Two arrays, oldest entry first; every search starts at the front and looks at
 * one entry after the other; removal moves the rest up. Receives and messages
 * are named by numbers that the caller chooses and never uses twice.
 *
 * It uses the types of match.h (want, space, any peer) and none of its code.
 */
#ifndef FABTESTS_COMMON_MATCH_MODEL_H
#define FABTESTS_COMMON_MATCH_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "match/match.h"

struct match_model_recv {
	struct tagrv_match_want want;
	uint64_t number, seq;
};

struct match_model_msg {
	uint64_t number;	/* given by the caller */
	uint64_t seq;		/* counts arrivals of the model */
	uint64_t tag;
	uint32_t peer;
	uint8_t	space;
};

/* Both arrays have room for the limits. Callers may read the fields. */
struct match_model {
	struct match_model_recv *recvs;
	struct match_model_msg *msgs;
	size_t recv_cnt, recv_limit;
	size_t msg_cnt, msg_limit;
	uint64_t posts, arrivals;	/* calls so far */
};

/* Limits must not be 0. Returns false when there is no memory. */
bool match_model_init(struct match_model *model, size_t recv_limit,
		      size_t msg_limit);
void match_model_fini(struct match_model *model);

/* As tagrv_match_post(): returns 1 and *msg, 0, or -FI_EAGAIN. */
int match_model_post(struct match_model *model,
		     const struct tagrv_match_want *want, uint64_t number,
		     struct match_model_msg *msg);

/* As tagrv_match_arrive(): returns 1 and *recv_number, 0, or -FI_EAGAIN. */
int match_model_arrive(struct match_model *model,
		       const struct match_model_msg *msg,
		       uint64_t *recv_number);

/* Removes a receive; false when it is not queued. */
bool match_model_cancel(struct match_model *model, uint64_t recv_number);

/* Returns the number of the earliest receive with this name, or 0. */
uint64_t match_model_find(const struct match_model *model,
			  uint64_t (*name_of)(uint64_t number), uint64_t name);

/* Finds the earliest matching message; false when there is none. */
bool match_model_peek(const struct match_model *model,
		      const struct tagrv_match_want *want,
		      struct match_model_msg *msg);

/* Removes a message; false when it is not queued. */
bool match_model_take(struct match_model *model, uint64_t msg_number);

#endif
