/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Naive matcher: the rules of match/match.h in their plainest form, to check
 * the real one against.
 *
 * Two arrays, oldest entry first; every search starts at the front and looks at
 * one entry after the other; removal moves the rest up. Receives and messages
 * are named by numbers that the caller chooses and never uses twice.
 *
 * It shares the words of match.h (want, space, any peer) and no code.
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
	uint64_t number, seq;	/* seq: the model's */
	uint64_t tag;
	uint32_t peer;
	uint8_t	space;
};

/* The arrays have room for the limits; fields may be read by the caller. */
struct match_model {
	struct match_model_recv *recvs;
	struct match_model_msg *msgs;
	size_t recv_cnt, recv_limit;
	size_t msg_cnt, msg_limit;
	uint64_t posts, arrivals;	/* calls */
};

/* Limits are not 0 here. False when memory is out. */
bool match_model_init(struct match_model *model, size_t recv_limit,
		      size_t msg_limit);
void match_model_fini(struct match_model *model);

/* As tagrv_match_post: 1 and *msg, 0, or -FI_EAGAIN. */
int match_model_post(struct match_model *model,
		     const struct tagrv_match_want *want, uint64_t number,
		     struct match_model_msg *msg);

/* As tagrv_match_arrive: 1 and *recv_number, 0, or -FI_EAGAIN. */
int match_model_arrive(struct match_model *model,
		       const struct match_model_msg *msg,
		       uint64_t *recv_number);

/* Takes a receive out; false when it is not queued. */
bool match_model_cancel(struct match_model *model, uint64_t recv_number);

/* Number of the earliest receive with this name, or 0. */
uint64_t match_model_find(const struct match_model *model,
			  uint64_t (*name_of)(uint64_t number), uint64_t name);

/* Earliest matching message; false when there is none. */
bool match_model_peek(const struct match_model *model,
		      const struct tagrv_match_want *want,
		      struct match_model_msg *msg);

/* Takes a message out; false when it is not queued. */
bool match_model_take(struct match_model *model, uint64_t msg_number);

#endif
