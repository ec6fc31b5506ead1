/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posted receives, shared by the files posted*.c only.
 *
 *   queue -- lists[space]   blocks of 64 in post order, compared one by one
 *         -- classes[64]    those that earned a hash; one table for all
 *         -- names          by context, while fi_cancel is in use
 *
 *   classes[c]  seq 3 <-> seq 5 <-> seq 8 <-> seq 9     (older, newer)
 *   cell of key x --> seq 3 --> seq 8 --> (seq 3)       (next, prev: rings)
 *   cell of key y --> seq 5 --> seq 9 --> (seq 5)
 *
 * A class is all receives with the same space, the same tag bits that count,
 * and a peer or none. Within a class receives with the same key (peer, masked
 * tag) match the same messages, so their FIFO is exact: only its head can be
 * the answer, and identical receives lengthen nothing.
 *
 * A class whose key says all that another one's says, and more, may share its
 * keys: that is a group, and costs an arrival one probe instead of two. Under
 * one key are then receives of several classes by age, and the first that
 * matches is the group's answer. The answer to an arrival is the earliest of the
 * list's first hit and one of each group. Groups have their keys in the same
 * lines of the table where that can be (posted_place.c).
 *
 * Every receive starts in the list of its space unless its class is hashed.
 * Classes are hashed when the list is longer than 32, arrivals have walked along
 * it, and it has enough for a group (posted_list.c counts now and then), and go
 * back when few are left. So few
 * receives cost one short loop; many of a kind cost one probe; and thousands of
 * masks cost the loop, never thousands of probes.
 */
#ifndef TAGRV_MATCH_POSTED_H
#define TAGRV_MATCH_POSTED_H

#include "core/list.h"
#include "core/pool.h"
#include "match/hash.h"
#include "match/keytab.h"
#include "match/match.h"
#include "match/match_priv.h"

#define TAGRV_BLOCK_SLOTS	64	/* bits of a word */
#define TAGRV_LIST_SHORT	32	/* receives; no class is worth a hash */
#define TAGRV_LIST_LONG		256	/* is hashed even if nobody walked yet */
#define TAGRV_CLASSES		64	/* bits of a word */
#define TAGRV_NO_CLASS		UINT8_MAX
#define TAGRV_HINT_SHIFT	56	/* of a 64-bit product: 256 hints */
#define TAGRV_NO_RECV		UINT32_MAX
/* What posted receives' hashes are told apart by, besides the groups. */
#define TAGRV_HASH_NAME		TAGRV_CLASSES
#define TAGRV_HASH_PLACE	(TAGRV_CLASSES + 1)
/* Low bits of a hash that say the line; no table has more of them. */
#define TAGRV_PLACE_MASK	((1u << 20) - 1)

static_assert(TAGRV_POOL_MAX / TAGRV_KEYTAB_FILL < TAGRV_PLACE_MASK,
	      "bits for every line");

struct tagrv_posted_block;

/*
 * One posted receive, in a list or in a class until matched or cancelled.
 * owner: the queue; callers hold an id, never a pointer.
 * order: 'seq', the place in the endpoint's sequence of posts; never reused.
 * size:  one cache line, asserted below. Links are pool indexes.
 */
struct tagrv_posted {
	struct tagrv_pool_node node;
	uint64_t seq;
	void	*cookie;
	uint64_t tag;		/* bits that do not count are 0 */
	uint32_t peer;		/* or TAGRV_MATCH_ANY */
	uint32_t hash;		/* of the key, in a class only */
	uint8_t	space;
	uint8_t	class;		/* or TAGRV_NO_CLASS: in the list */
	uint8_t	slot;		/* of its block */
	bool	keep;
	bool	head;		/* first of its key: the table knows it */
	union {
		struct tagrv_posted_block *block;
		struct {
			uint32_t next, prev;	/* same key */
			uint32_t older, newer;	/* same class */
		};
	};
};

static_assert(sizeof(struct tagrv_posted) <= TAGRV_CACHE_LINE,
	      "a match touches one line of a posted receive");

/*
 * 64 receives side by side, oldest first; a slot matches when
 * ((tag ^ message.tag) & care) | ((who ^ message.peer) & (who >> 32)) is 0.
 */
struct tagrv_posted_block {
	struct tagrv_pool_node node;
	struct tagrv_list link;
	uint64_t live;		/* bit i: slot i is in use */
	uint32_t cnt;		/* of them */
	uint64_t tag[TAGRV_BLOCK_SLOTS];
	uint64_t care[TAGRV_BLOCK_SLOTS];
	uint64_t who[TAGRV_BLOCK_SLOTS];	/* ~0 << 32 | peer; 0: any */
	struct tagrv_posted *recv[TAGRV_BLOCK_SLOTS];
};

/* In a list: a block that has neighbours is at least a quarter full. */
static_assert(sizeof(struct tagrv_posted) +
	      sizeof(struct tagrv_posted_block) / TAGRV_BLOCK_SLOTS <=
	      2 * TAGRV_CACHE_LINE, "memory of a posted receive in a list");
/* In a class: tables are between a quarter and half full. */
static_assert(sizeof(struct tagrv_posted) + 4 * sizeof(uint64_t) <=
	      2 * TAGRV_CACHE_LINE, "memory of a posted receive in a class");

struct tagrv_posted_list {
	/* The block, where there is one and no class has a hash; or NULL. */
	struct tagrv_posted_block *only;
	struct tagrv_list blocks;
	size_t	cnt;
	uint32_t census_in;	/* receives until kinds are counted again */
	uint64_t census_at;	/* see is_walked() in posted_list.c */
};

struct tagrv_posted_class {
	uint64_t care;
	uint64_t oldest;	/* seq of 'first' */
	uint32_t first, last;	/* by age */
	uint32_t cnt;
	bool	any;		/* no peer given */
	uint8_t	space;
	uint8_t	group;		/* whose keys its receives are under */
};

/* The classes that share their keys, one at least. */
struct tagrv_posted_group {
	uint64_t care;		/* of the key */
	uint64_t oldest;	/* no receive in it has a lower seq */
	uint64_t walked;	/* receives passed since there is more than one class */
	uint32_t cnt;		/* receives */
	bool	any;
	bool	apart;		/* its keys never lie with other groups' */
	uint8_t	space;
	uint8_t	classes;	/* 0: there is no such group */
};

/* What the groups that lie together all compare. */
struct tagrv_posted_common {
	uint64_t care;
	bool	any;
};

struct tagrv_posted_name {
	uint32_t next, prev;	/* a ring: same context */
	bool	head;
};

/* Built by find, dropped when posts have outnumbered what building it cost. */
struct tagrv_posted_names {
	struct tagrv_keytab tab;
	struct tagrv_posted_name *links;	/* by pool index */
	size_t	cap;
	tagrv_match_name_fn name_of;	/* NULL: there is no index */
	size_t	walked;		/* by finds, since there is none */
	size_t	unused_posts;	/* since the last find */
};

struct tagrv_posted_queue {
	struct tagrv_posted_list lists[TAGRV_SPACE_CNT];
	uint64_t live[TAGRV_SPACE_CNT];	/* bit c: classes[c] is hashed, maybe empty */
	struct tagrv_posted_class classes[TAGRV_CLASSES];
	uint64_t fresh;		/* bit c: about to get receives */
	uint64_t hint_factor;	/* parts the classes */
	uint8_t	hints[1 << (64 - TAGRV_HINT_SHIFT)];	/* class of such receives */
	uint64_t probed[TAGRV_SPACE_CNT];	/* bit g: groups[g] holds receives */
	struct tagrv_posted_group groups[TAGRV_CLASSES];
	uint64_t shared;	/* bit g: groups[g] lies with others */
	struct tagrv_posted_common common;	/* of those */
	uint64_t placed;	/* 'last_seq' when 'common' became what it is */
	struct tagrv_keytab tab;
	struct tagrv_hash_seed seed;
	struct tagrv_match_level level;
	uint64_t last_seq;	/* counts posts, those not queued as well */
	uint64_t promotions;	/* classes that got a hash */
	uint64_t demotions;	/* classes that went back to the list */
	struct tagrv_pool pool;
	struct tagrv_pool blocks;
	struct tagrv_posted_names names;
};

static inline struct tagrv_posted *
tagrv_posted_at(const struct tagrv_posted_queue *queue, uint32_t index)
{
	return tagrv_pool_at(&queue->pool, index);
}

static inline uint32_t tagrv_posted_index(const struct tagrv_posted *recv)
{
	return tagrv_pool_index(&recv->node);
}

static inline tagrv_match_id tagrv_posted_id(const struct tagrv_posted *recv)
{
	return recv->seq << 32 | recv->node.handle;
}

/* Where the keys of a message, or of a receive, lie in groups that share lines. */
static inline uint32_t
tagrv_posted_place(const struct tagrv_posted_queue *queue, uint32_t peer,
		   uint64_t tag)
{
	return tagrv_hash(&queue->seed, tag & queue->common.care,
			  queue->common.any ? TAGRV_MATCH_ANY : peer,
			  TAGRV_HASH_PLACE);
}

/* The hash of a key in such a group. */
static inline uint32_t tagrv_posted_at_place(uint32_t hash, uint32_t place)
{
	return (hash & ~TAGRV_PLACE_MASK) | (place & TAGRV_PLACE_MASK);
}

/* What one branch tells; 'who' of a slot, see above. */
static inline bool tagrv_slot_matches(const struct tagrv_posted_block *block,
				      unsigned slot, uint64_t tag, uint32_t peer)
{
	uint64_t who = block->who[slot];

	return !(((block->tag[slot] ^ tag) & block->care[slot]) |
		 ((who ^ peer) & who >> 32));
}

/* The first receive of a block that matches, or NULL. */
static inline struct tagrv_posted *
tagrv_block_match(const struct tagrv_posted_block *block, uint32_t peer,
		  uint64_t tag, uint64_t *probes)
{
	uint64_t cnt = 0;

	for (uint64_t todo = block->live; todo; todo &= todo - 1) {
		unsigned slot = (unsigned) __builtin_ctzll(todo);

		cnt++;
		if (tagrv_slot_matches(block, slot, tag, peer)) {
			*probes += cnt;
			return block->recv[slot];
		}
	}
	*probes += cnt;
	return NULL;
}

/* Slots from here on are free. */
static inline unsigned tagrv_block_end(const struct tagrv_posted_block *block)
{
	return block->live ? 64 - (unsigned) __builtin_clzll(block->live) : 0;
}

static inline void tagrv_block_fill(struct tagrv_posted_block *block,
				    unsigned slot, struct tagrv_posted *recv,
				    uint64_t care)
{
	block->tag[slot] = recv->tag;
	block->care[slot] = care;
	block->who[slot] = recv->peer == TAGRV_MATCH_ANY ? 0 :
			   (uint64_t) UINT32_MAX << 32 | recv->peer;
	block->recv[slot] = recv;
	block->live |= 1ull << slot;
	block->cnt++;
	recv->class = TAGRV_NO_CLASS;
	recv->slot = (uint8_t) slot;
	recv->block = block;
}

static inline void tagrv_block_clear(struct tagrv_posted_block *block,
				     unsigned slot)
{
	block->live &= ~(1ull << slot);
	block->cnt--;
}

/* posted.c */

/* 0 or -FI_ENOMEM; fini is fine on a queue whose init failed. */
int tagrv_posted_init(struct tagrv_posted_queue *queue, size_t limit,
		      uint64_t seed) TAGRV_WARN_UNUSED;
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
tagrv_match_id tagrv_posted_find_name(struct tagrv_posted_queue *queue,
				      tagrv_match_name_fn name_of, void *name);
void tagrv_posted_drain(struct tagrv_posted_queue *queue,
			void (*fn)(void *cookie, void *arg), void *arg);

/* All in post order until fn returns true; returns that one, or NULL. */
struct tagrv_posted *
tagrv_posted_each(const struct tagrv_posted_queue *queue,
		  bool (*fn)(struct tagrv_posted *recv, void *arg), void *arg);

/* Posts since the oldest receive that is still queued; 0 when there is none. */
uint64_t tagrv_posted_oldest(const struct tagrv_posted_queue *queue);

/* How many kinds of receives an arrival looks up apart. */
size_t tagrv_posted_classes(const struct tagrv_posted_queue *queue);

/* Allocates what will be needed soon. */
void tagrv_posted_tend(struct tagrv_posted_queue *queue);

/* posted_list.c */

/* Behind all others of its space, or at its place by seq. 0 or -FI_ENOMEM. */
int tagrv_posted_list_add(struct tagrv_posted_queue *queue,
			  struct tagrv_posted *recv, uint64_t care)
	TAGRV_WARN_UNUSED;
int tagrv_posted_list_insert(struct tagrv_posted_queue *queue,
			     struct tagrv_posted *recv, uint64_t care)
	TAGRV_WARN_UNUSED;
void tagrv_posted_list_remove(struct tagrv_posted_queue *queue,
			      struct tagrv_posted *recv);

/* Sets 'only' anew: after a block or a class came or went. */
void tagrv_posted_list_renew(struct tagrv_posted_queue *queue, uint8_t space);

/* Earliest match in the list, or NULL. */
struct tagrv_posted *tagrv_posted_list_match(struct tagrv_posted_queue *queue,
					     uint32_t peer, uint8_t space,
					     uint64_t tag);

/* The receive of the list behind 'prev' (NULL: the first), or NULL. */
struct tagrv_posted *
tagrv_posted_list_next(const struct tagrv_posted_list *list,
		       const struct tagrv_posted *prev);

/* posted_hint.c */

/* The hashed class of such a receive, or TAGRV_NO_CLASS. */
uint8_t tagrv_posted_class_of(struct tagrv_posted_queue *queue, uint8_t space,
			      uint64_t care, bool any);

/* There is a new class. */
void tagrv_posted_hints_renew(struct tagrv_posted_queue *queue) TAGRV_COLD;

/* posted_hash.c */

/*
 * A class without receives, in a group; TAGRV_NO_CLASS when all are taken. Once
 * receives were added, or not, tagrv_posted_hash_settle() is due.
 */
uint8_t tagrv_posted_class_new(struct tagrv_posted_queue *queue, uint8_t space,
			       uint64_t care, bool any);

/* A group whose key such receives have, too, or TAGRV_NO_CLASS. */
uint8_t tagrv_posted_group_for(const struct tagrv_posted_queue *queue,
			       uint8_t space, uint64_t care, bool any);

/* Groups that have remained small go back to the list. */
void tagrv_posted_hash_settle(struct tagrv_posted_queue *queue, uint8_t space);

/*
 * Behind all others of its class. False: no memory, or others of its key are
 * younger; it is in no class then.
 */
bool tagrv_posted_hash_add(struct tagrv_posted_queue *queue,
			   struct tagrv_posted *recv, uint8_t class)
	TAGRV_WARN_UNUSED;

/*
 * Takes a receive out; a group with few left goes back to the list.
 * cell: as tagrv_posted_hash_match() gave it just now, or NULL.
 */
void tagrv_posted_hash_remove(struct tagrv_posted_queue *queue,
			      struct tagrv_posted *recv, uint32_t *cell);

/* Fetches what the classes will be asked for. */
void tagrv_posted_ahead(const struct tagrv_posted_queue *queue, uint32_t peer,
			uint8_t space, uint64_t tag);

/*
 * The earliest of 'best' (or NULL) and the classes' matches. Its cell in the key
 * table, if it is of a class and was met there; otherwise that is not changed.
 */
struct tagrv_posted *tagrv_posted_hash_match(struct tagrv_posted_queue *queue,
					     uint32_t peer, uint8_t space,
					     uint64_t tag,
					     struct tagrv_posted *best,
					     uint32_t **cell);

/* posted_place.c */

/* A new group, still empty, gets its keys where others are, if that can be. */
void tagrv_posted_place_join(struct tagrv_posted_queue *queue, uint8_t number);

/* Groups that lie together part: the table is crowded. */
void tagrv_posted_place_part(struct tagrv_posted_queue *queue);

/* posted_name.c */

void tagrv_posted_names_add(struct tagrv_posted_queue *queue,
			    struct tagrv_posted *recv);
void tagrv_posted_names_remove(struct tagrv_posted_queue *queue,
			       struct tagrv_posted *recv);
void tagrv_posted_names_drop(struct tagrv_posted_queue *queue);

#endif
