/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The two queues behind match.h, shared by the files of this folder only.
 *
 * match.c decides which queue is asked first; posted.c and unexpected.c each
 * know one queue and nothing of the other.
 *
 * Both keep one list per space, oldest entry first, so the first entry that
 * matches is the answer. Whatever a comparison reads shares a cache line with
 * the link to the next entry: a visited entry costs one line.
 */
#ifndef TAGRV_MATCH_PRIV_H
#define TAGRV_MATCH_PRIV_H

#include "core/list.h"
#include "core/pool.h"
#include "match/match.h"

/* Unexpected messages are also kept by peer modulo this power of two. */
#define TAGRV_PEER_LISTS	64

/* What both queues count, and the bound on 'cnt'. */
struct tagrv_match_level {
	size_t	cnt, peak, limit;
	uint64_t probes;
};

/*
 * One posted receive, on the list of its space until matched or cancelled.
 * owner: the queue; callers hold an id, never a pointer.
 * order: 'seq', the place in the endpoint's sequence of posts; never reused.
 * size:  one cache line, asserted below.
 */
struct tagrv_posted {
	struct tagrv_pool_node node;
	struct tagrv_list link;
	uint64_t tag;
	uint64_t care;		/* tag bits that count; none in FI_MSG */
	uint32_t peer;		/* or TAGRV_MATCH_ANY */
	uint8_t	space;
	bool	keep;
	uint64_t seq;
	void	*cookie;
};

static_assert(sizeof(struct tagrv_posted) == TAGRV_CACHE_LINE,
	      "a search touches one line per posted receive");

struct tagrv_posted_queue {
	struct tagrv_list lists[TAGRV_SPACE_CNT];
	struct tagrv_match_level level;
	uint64_t last_seq;	/* counts posts, those not queued as well */
	struct tagrv_pool pool;
};

/*
 * One unexpected message. On two lists while queued, on none once handed out.
 * owner: the queue, then the caller from take to put.
 * order: 'msg.seq', the place in the endpoint's sequence of arrivals.
 * size:  what a search reads is in the first line, asserted below.
 */
struct tagrv_unexpected {
	struct tagrv_pool_node node;
	struct tagrv_list link;			/* list of its space */
	struct tagrv_match_msg msg;
	struct tagrv_list peer_link;		/* list of its peer's remainder */
};

static_assert(offsetof(struct tagrv_unexpected, peer_link.next) +
	      sizeof(void *) <= TAGRV_CACHE_LINE,
	      "a search touches one line per unexpected message");
static_assert(sizeof(struct tagrv_unexpected) <= 2 * TAGRV_CACHE_LINE,
	      "an unexpected message costs two lines of memory");

struct tagrv_unexpected_queue {
	struct tagrv_list lists[TAGRV_SPACE_CNT];
	struct tagrv_list peers[TAGRV_SPACE_CNT][TAGRV_PEER_LISTS];
	struct tagrv_match_level level;
	uint64_t last_seq;	/* counts arrivals, those not queued as well */
	struct tagrv_pool pool;
};

/* The tag bits that decide whether a receive matches. */
static inline uint64_t tagrv_want_care(const struct tagrv_match_want *want)
{
	return want->space == TAGRV_SPACE_TAGGED ? ~want->ignore : 0;
}

static inline void tagrv_level_up(struct tagrv_match_level *level)
{
	level->cnt++;
	if (level->cnt > level->peak)
		level->peak = level->cnt;
}

/* posted.c */

/* 0 or -FI_ENOMEM; fini is fine on a queue whose init failed. */
int tagrv_posted_init(struct tagrv_posted_queue *queue, size_t limit)
	TAGRV_WARN_UNUSED;
void tagrv_posted_fini(struct tagrv_posted_queue *queue);

/* Queues behind all others. 0, -FI_EAGAIN at the limit, -FI_ENOMEM. */
int tagrv_posted_add(struct tagrv_posted_queue *queue,
		     const struct tagrv_match_want *want, void *cookie,
		     tagrv_match_id *id) TAGRV_WARN_UNUSED;

/* Earliest posted match; taken out unless posted with 'keep'. */
bool tagrv_posted_match(struct tagrv_posted_queue *queue, uint32_t peer,
			uint8_t space, uint64_t tag, void **cookie);

int tagrv_posted_cancel(struct tagrv_posted_queue *queue, tagrv_match_id id,
			void **cookie) TAGRV_WARN_UNUSED;
tagrv_match_id tagrv_posted_find(struct tagrv_posted_queue *queue,
				 bool (*is)(void *cookie, void *arg),
				 void *arg);
void tagrv_posted_drain(struct tagrv_posted_queue *queue,
			void (*fn)(void *cookie, void *arg), void *arg);

/* Posts since the oldest receive that is still queued; 0 when there is none. */
uint64_t tagrv_posted_oldest(const struct tagrv_posted_queue *queue);

/* unexpected.c */

int tagrv_unexpected_init(struct tagrv_unexpected_queue *queue, size_t limit)
	TAGRV_WARN_UNUSED;
void tagrv_unexpected_fini(struct tagrv_unexpected_queue *queue);

/* Queues behind all others, 'user' NULL. 0, -FI_EAGAIN or -FI_ENOMEM. */
int tagrv_unexpected_add(struct tagrv_unexpected_queue *queue, uint32_t peer,
			 uint8_t space, uint64_t tag,
			 struct tagrv_match_msg **msg) TAGRV_WARN_UNUSED;

/* Earliest arrived match, still queued, or NULL. */
struct tagrv_match_msg *
tagrv_unexpected_find(struct tagrv_unexpected_queue *queue,
		      const struct tagrv_match_want *want);

/* From queued to the caller's; from the caller's to free. */
void tagrv_unexpected_take(struct tagrv_unexpected_queue *queue,
			   struct tagrv_match_msg *msg);
void tagrv_unexpected_put(struct tagrv_unexpected_queue *queue,
			  struct tagrv_match_msg *msg);

void tagrv_unexpected_drain(struct tagrv_unexpected_queue *queue, uint32_t peer,
			    bool (*fn)(struct tagrv_match_msg *msg, void *arg),
			    void *arg);

/* Arrivals since the oldest message still queued; 0 when there is none. */
uint64_t tagrv_unexpected_oldest(const struct tagrv_unexpected_queue *queue);

#endif
