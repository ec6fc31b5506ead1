/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Short forms of the calls of match.h for the tests of this folder: receives and
 * messages are small numbers, and an unexpected result fails the test.
 */
#ifndef FABTESTS_UNIT_MATCH_CALLS_H
#define FABTESTS_UNIT_MATCH_CALLS_H

#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "match/match.h"

#define ANY	TAGRV_MATCH_ANY
#define EXACT	((uint64_t) 0)
#define ALL	UINT64_MAX

static inline struct tagrv_match *engine(size_t max_posted, size_t max_unexp)
{
	struct tagrv_match *match = NULL;

	cr_assert_eq(tagrv_match_create(max_posted, max_unexp, &match), 0);
	return match;
}

static inline struct tagrv_match_want tagged(uint32_t peer, uint64_t tag,
					     uint64_t ignore)
{
	return (struct tagrv_match_want) {
		.tag = tag, .ignore = ignore, .peer = peer,
		.space = TAGRV_SPACE_TAGGED,
	};
}

static inline struct tagrv_match_want untagged(uint32_t peer)
{
	return (struct tagrv_match_want) {
		.peer = peer, .space = TAGRV_SPACE_MSG,
	};
}

/* The number of a receive, which is in the first word of its room. */
static inline uintptr_t number_of(const struct tagrv_match_recv *recv)
{
	return recv ? (uintptr_t) recv->room[0] : 0;
}

/* Posts receive 'number', which must be queued; its name is half of the number. */
static inline tagrv_match_id post(struct tagrv_match *match,
				  struct tagrv_match_want want,
				  uintptr_t number)
{
	struct tagrv_match_recv *recv = NULL;
	struct tagrv_match_msg *msg = NULL;
	tagrv_match_id id = 0;

	want.name = (void *) (number / 2);
	cr_assert_eq(tagrv_match_post(match, &want, &recv, &id, &msg), 0,
		     "receive %lu was not queued", (unsigned long) number);
	recv->room[0] = number;
	cr_assert_neq(id, 0);
	cr_assert_null(msg);
	return id;
}

/* Posts a receive, which must get a message; returns the message's number. */
static inline uintptr_t post_gets(struct tagrv_match *match,
				  struct tagrv_match_want want)
{
	struct tagrv_match_recv *recv = NULL;
	struct tagrv_match_msg *msg = NULL;
	tagrv_match_id id = 0;
	uintptr_t number;

	cr_assert_eq(tagrv_match_post(match, &want, &recv, &id, &msg), 1);
	cr_assert_eq(id, 0);
	number = (uintptr_t) msg->user;
	tagrv_match_release(match, msg);
	return number;
}

/* Message 'number' arrives and must be queued. */
static inline struct tagrv_match_msg *
arrive_in(struct tagrv_match *match, uint8_t space, uint32_t peer, uint64_t tag,
	  uintptr_t number)
{
	struct tagrv_match_msg *msg = NULL;
	struct tagrv_match_recv *recv = NULL;

	cr_assert_eq(tagrv_match_arrive(match, peer, space, tag, &recv, &msg),
		     0, "message %lu was not queued", (unsigned long) number);
	cr_assert_null(recv);
	msg->user = (void *) number;
	return msg;
}

static inline struct tagrv_match_msg *arrive(struct tagrv_match *match,
					     uint32_t peer, uint64_t tag,
					     uintptr_t number)
{
	return arrive_in(match, TAGRV_SPACE_TAGGED, peer, tag, number);
}

/* A message arrives and must find a receive; returns the receive's number. */
static inline uintptr_t arrival_in_gets(struct tagrv_match *match,
					uint8_t space, uint32_t peer,
					uint64_t tag)
{
	struct tagrv_match_msg *msg = NULL;
	struct tagrv_match_recv *recv = NULL;

	cr_assert_eq(tagrv_match_arrive(match, peer, space, tag, &recv, &msg),
		     1, "no receive found");
	cr_assert_null(msg);
	return number_of(recv);
}

static inline uintptr_t arrival_gets(struct tagrv_match *match, uint32_t peer,
				     uint64_t tag)
{
	return arrival_in_gets(match, TAGRV_SPACE_TAGGED, peer, tag);
}

/* Returns the number of the message that a peek finds, 0 for none. */
static inline uintptr_t peek(struct tagrv_match *match,
			     struct tagrv_match_want want)
{
	struct tagrv_match_msg *msg = tagrv_match_peek(match, &want);

	return msg ? (uintptr_t) msg->user : 0;
}

/* Returns the number of the cancelled receive, 0 for none. */
static inline uintptr_t cancel(struct tagrv_match *match, tagrv_match_id id)
{
	struct tagrv_match_recv *recv = NULL;
	int ret = tagrv_match_cancel(match, id, &recv);

	cr_assert(ret == 0 || (ret == -FI_ENOENT && !recv));
	return number_of(recv);
}

static inline struct tagrv_match_stats stats(const struct tagrv_match *match)
{
	struct tagrv_match_stats now;

	tagrv_match_get_stats(match, &now);
	return now;
}

#endif
