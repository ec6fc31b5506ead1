/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The queue of posted receives. Included by match.c and posted*.c only.
 *
 *   queue -- lists[space]   blocks of 64 in post order, compared slot by slot
 *         -- classes[64]    hashed classes; one key table for all of them
 *         -- names          index by context, while the application cancels
 *
 *   classes[c]  seq 3 <-> seq 5 <-> seq 8 <-> seq 9     (older, newer)
 *   cell of key x --> seq 3 --> seq 8 --> (seq 3)       (next, prev: rings)
 *   cell of key y --> seq 5 --> seq 9 --> (seq 5)
 *
 * A class is all receives with the same space and the same care mask (~ignore),
 * either all with a peer or all without. Receives of one class with the same key
 * (peer and masked tag) match the same messages, so a FIFO per key is exact: only
 * its head can match first, however many identical receives follow.
 *
 * A group is one or more classes that share keys: a class may be filed under the
 * keys of another whose care mask is a subset of its own, and which has no peer
 * if it has none itself. Under one key there are then receives of several classes
 * in post order; the first that matches is the group's match. A message takes the
 * earliest of the list's first match and the match of each group, so an arrival
 * costs one probe of the key table per group. Groups keep their keys in the same
 * lines of the table where possible (posted_place.c).
 *
 * A new receive goes to its class if that is hashed, else to the list of its
 * space. Classes become hashed when the list is longer than 32, arrivals have
 * compared many of its slots in vain, and it has enough receives for a group
 * (posted_list.c counts from time to time); they return to the list when few
 * receives are left. So few receives cost one short loop, many of the same class
 * cost one probe, and thousands of different masks cost the loop, but never
 * thousands of probes.
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
#define TAGRV_LIST_SHORT	32	/* receives up to which no class is hashed */
#define TAGRV_LIST_LONG		256	/* hash classes before any search was slow */
#define TAGRV_CLASSES		64	/* bits of a word */
#define TAGRV_NO_CLASS		UINT8_MAX
#define TAGRV_HINT_SHIFT	56	/* of a 64-bit product: 256 hints */
#define TAGRV_NO_RECV		UINT32_MAX
/* Values of tagrv_hash()'s 'space' that are not numbers of groups. */
#define TAGRV_HASH_NAME		TAGRV_CLASSES
#define TAGRV_HASH_PLACE	(TAGRV_CLASSES + 1)
/* Low bits of a hash, which select the bucket (line) of the key table. */
#define TAGRV_PLACE_MASK	((1u << 20) - 1)

static_assert(TAGRV_POOL_MAX / TAGRV_KEYTAB_FILL < TAGRV_PLACE_MASK,
	      "the largest table has no more lines than the mask has values");

struct tagrv_posted_block;

/*
 * One posted receive, in a list or in a class until matched or cancelled.
 * owner: the queue; callers hold an id, and a pointer to 'pub' for a moment only.
 * order: 'seq', the number of its post, counted over all spaces; never reused.
 * size:  a cache line of its own, and one of the caller's, asserted below. Links
 *        are pool indexes.
 */
struct tagrv_posted {
	struct tagrv_pool_node node;
	uint64_t seq;
	/* in a class only; the list has tag and peer in the slot */
	uint64_t tag;		/* bits that are not compared are 0 */
	uint32_t peer;		/* or TAGRV_MATCH_ANY */
	uint32_t hash;		/* of the key */
	uint8_t	space;
	uint8_t	class;		/* or TAGRV_NO_CLASS: in the list */
	uint8_t	slot;		/* in its block, in the list only */
	bool	keep;
	bool	head;		/* in a class: first of its key, in the table */
	union {
		struct tagrv_posted_block *block;
		struct {
			uint32_t next, prev;	/* ring of the same key */
			uint32_t older, newer;	/* list of the same class */
		};
	};
	struct tagrv_match_recv pub;
};

static_assert(offsetof(struct tagrv_posted, pub.room) == TAGRV_CACHE_LINE,
	      "a match touches one line of a posted receive, and the caller's");

/*
 * 64 receives, oldest first; slot i matches a message when
 * ((tag[i] ^ message.tag) & care[i]) |
 * ((mask_peer[i] ^ message.peer) & mask_peer[i] >> 32) is 0.
 */
struct tagrv_posted_block {
	struct tagrv_pool_node node;
	struct tagrv_list link;
	uint64_t live;		/* bit i: slot i is in use */
	uint64_t tag[TAGRV_BLOCK_SLOTS];
	uint64_t care[TAGRV_BLOCK_SLOTS];
	uint64_t mask_peer[TAGRV_BLOCK_SLOTS];	/* ~0 << 32 | peer; 0: any */
	struct tagrv_posted *recv[TAGRV_BLOCK_SLOTS];
};

/* In a list: a block that has neighbours is at least a quarter full. */
static_assert(sizeof(struct tagrv_posted) +
	      sizeof(struct tagrv_posted_block) / TAGRV_BLOCK_SLOTS <=
	      3 * TAGRV_CACHE_LINE, "memory of a posted receive in a list");
/* In a class: tables are between a quarter and half full. */
static_assert(sizeof(struct tagrv_posted) + 4 * sizeof(uint64_t) <=
	      3 * TAGRV_CACHE_LINE, "memory of a posted receive in a class");

struct tagrv_posted_list {
	/* The only block, if the space has no hashed class and there is no index
	 * by name; else NULL. */
	struct tagrv_posted_block *only_block;
	struct tagrv_list blocks;
	size_t	cnt;
	uint32_t census_in;	/* additions until the next census */
	uint64_t census_at;	/* see is_worth_census() in posted_list.c */
};

struct tagrv_posted_class {
	uint64_t care;		/* tag bits compared: ~ignore */
	uint64_t oldest;	/* seq of 'first' */
	uint32_t first, last;	/* oldest and newest receive */
	uint32_t cnt;
	bool	any;		/* its receives have no peer */
	uint8_t	space;
	uint8_t	group;		/* index of its group */
};

/* One or more classes that share keys. */
struct tagrv_posted_group {
	uint64_t care;		/* tag bits in the key */
	uint64_t oldest;	/* at most the seq of its oldest receive */
	uint64_t walked;	/* receives under a key passed without a match */
	uint32_t cnt;		/* receives */
	bool	any;		/* the key has no peer */
	bool	apart;		/* never shares lines of the table with others */
	uint8_t	space;
	uint8_t	classes;	/* number of its classes; 0: unused */
};

/* The parts of their keys that all groups which share lines compare. */
struct tagrv_posted_common {
	uint64_t care;
	bool	any;		/* at least one of them compares no peer */
};

struct tagrv_posted_name {
	uint32_t next, prev;	/* ring of the receives with the same name */
	bool	head;		/* earliest of its name, in the table */
};

/* Index by name. Built by finds, dropped when it is no longer used. */
struct tagrv_posted_names {
	struct tagrv_keytab tab;
	struct tagrv_posted_name *links;	/* by pool index */
	size_t	cap;		/* entries of 'links' */
	bool	on;		/* there is an index */
	size_t	walked;		/* receives compared by finds without an index */
	size_t	unused_posts;	/* posts since the last find */
};

struct tagrv_posted_queue {
	struct tagrv_posted_list lists[TAGRV_SPACE_CNT];
	uint64_t live[TAGRV_SPACE_CNT];	/* bit c: classes[c] is hashed, maybe empty */
	struct tagrv_posted_class classes[TAGRV_CLASSES];
	uint64_t fresh;		/* bit c: created by the census that is running */
	uint64_t hint_factor;	/* see posted_hint.c */
	uint8_t	hints[1 << (64 - TAGRV_HINT_SHIFT)];	/* likely class */
	uint64_t live_groups[TAGRV_SPACE_CNT];	/* bit g: groups[g] holds receives */
	struct tagrv_posted_group groups[TAGRV_CLASSES];
	uint64_t shared;	/* bit g: groups[g] shares lines with others */
	struct tagrv_posted_common common;	/* of the groups in 'shared' */
	uint64_t placed;	/* 'last_seq' when 'common' last changed */
	struct tagrv_keytab tab;	/* keys of all classes */
	struct tagrv_hash_seed seed;
	struct tagrv_match_level level;
	uint64_t last_seq;	/* number of posts, queued or not */
	uint64_t promotions;	/* classes that became hashed */
	uint64_t demotions;	/* classes that returned to the list */
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

/*
 * Hash of the common parts of peer and tag: selects the line of a message's or a
 * receive's key in all groups that share lines.
 */
static inline uint32_t
tagrv_posted_place(const struct tagrv_posted_queue *queue, uint32_t peer,
		   uint64_t tag)
{
	return tagrv_hash(&queue->seed, tag & queue->common.care,
			  queue->common.any ? TAGRV_MATCH_ANY : peer,
			  TAGRV_HASH_PLACE);
}

/* The hash of a key in such a group: line by 'place', the rest by 'hash'. */
static inline uint32_t tagrv_posted_at_place(uint32_t hash, uint32_t place)
{
	return (hash & ~TAGRV_PLACE_MASK) | (place & TAGRV_PLACE_MASK);
}

/* Computed so that the caller needs one branch for tag, peer and wildcard. */
static inline bool tagrv_slot_matches(const struct tagrv_posted_block *block,
				      unsigned slot, uint64_t tag, uint32_t peer)
{
	uint64_t mask_peer = block->mask_peer[slot];

	return !(((block->tag[slot] ^ tag) & block->care[slot]) |
		 ((mask_peer ^ peer) & mask_peer >> 32));
}

/* The first of some slots of a block that matches, or -1; adds to *probes. */
static inline int tagrv_block_find(const struct tagrv_posted_block *block,
				   uint64_t slots, uint32_t peer, uint64_t tag,
				   uint64_t *probes)
{
	uint64_t cnt = 0;
	int found = -1;

	for (uint64_t todo = slots; todo; todo &= todo - 1) {
		unsigned slot = (unsigned) __builtin_ctzll(todo);

		cnt++;
		if (tagrv_slot_matches(block, slot, tag, peer)) {
			found = (int) slot;
			break;
		}
	}
	*probes += cnt;
	return found;
}

/* The first receive of a block that matches, or NULL; adds to *probes. */
static inline struct tagrv_posted *
tagrv_block_match(const struct tagrv_posted_block *block, uint32_t peer,
		  uint64_t tag, uint64_t *probes)
{
	int slot = tagrv_block_find(block, block->live, peer, tag, probes);

	return slot < 0 ? NULL : block->recv[slot];
}

/* The slot behind the last one in use. */
static inline unsigned tagrv_block_end(const struct tagrv_posted_block *block)
{
	return block->live ? 64 - (unsigned) __builtin_clzll(block->live) : 0;
}

/* A peer, or TAGRV_MATCH_ANY, as a slot has it. */
static inline uint64_t tagrv_slot_peer(uint32_t peer)
{
	return peer == TAGRV_MATCH_ANY ? 0 : (uint64_t) UINT32_MAX << 32 | peer;
}

/* Puts a receive into a free slot. The caller adjusts the list's cnt. */
static inline void tagrv_block_fill(struct tagrv_posted_block *block,
				    unsigned slot, struct tagrv_posted *recv,
				    uint64_t tag, uint64_t care,
				    uint64_t mask_peer)
{
	block->tag[slot] = tag;
	block->care[slot] = care;
	block->mask_peer[slot] = mask_peer;
	block->recv[slot] = recv;
	block->live |= 1ull << slot;
	recv->class = TAGRV_NO_CLASS;
	recv->slot = (uint8_t) slot;
	recv->block = block;
}

/* The peer of a receive, or TAGRV_MATCH_ANY. */
static inline uint32_t tagrv_posted_source(const struct tagrv_posted *recv)
{
	uint64_t mask_peer;

	if (recv->class != TAGRV_NO_CLASS)
		return recv->peer;
	mask_peer = recv->block->mask_peer[recv->slot];
	return mask_peer ? (uint32_t) mask_peer : TAGRV_MATCH_ANY;
}

static inline void tagrv_block_clear(struct tagrv_posted_block *block,
				     unsigned slot)
{
	block->live &= ~(1ull << slot);
}

/* posted.c */

/* limit: 0: none. 0 or -FI_ENOMEM; then call fini all the same. */
int tagrv_posted_init(struct tagrv_posted_queue *queue, size_t limit,
		      uint64_t seed) TAGRV_WARN_UNUSED;
void tagrv_posted_fini(struct tagrv_posted_queue *queue);

/* Queues a receive as the newest. 0, -FI_EAGAIN (limit) or -FI_ENOMEM. */
int tagrv_posted_add(struct tagrv_posted_queue *queue,
		     const struct tagrv_match_want *want,
		     struct tagrv_match_recv **recv,
		     tagrv_match_id *id) TAGRV_WARN_UNUSED;

/*
 * Finds the earliest posted receive that matches; removes it unless it has 'keep'.
 * NULL: none matches.
 */
struct tagrv_match_recv *tagrv_posted_match(struct tagrv_posted_queue *queue,
					    uint32_t peer, uint8_t space,
					    uint64_t tag);

/* As the functions of match.h with the same names. */
int tagrv_posted_cancel(struct tagrv_posted_queue *queue, tagrv_match_id id,
			struct tagrv_match_recv **recv) TAGRV_WARN_UNUSED;
tagrv_match_id tagrv_posted_find(const struct tagrv_posted_queue *queue,
				 tagrv_match_recv_fn fn, void *arg);
tagrv_match_id tagrv_posted_find_name(struct tagrv_posted_queue *queue,
				      void *name);
bool tagrv_posted_awaits(const struct tagrv_posted_queue *queue, uint32_t peer,
			 uint64_t since);
void tagrv_posted_drain(struct tagrv_posted_queue *queue,
			void (*fn)(struct tagrv_match_recv *recv, void *arg),
			void *arg);

void tagrv_posted_drain_source(struct tagrv_posted_queue *queue, uint32_t peer,
			       void (*fn)(struct tagrv_match_recv *recv,
					  void *arg), void *arg);

/* Calls fn in post order until it returns true; returns that receive, or NULL. */
struct tagrv_posted *
tagrv_posted_each(const struct tagrv_posted_queue *queue,
		  bool (*fn)(struct tagrv_posted *recv, void *arg), void *arg);

/* Posts since the oldest queued receive was posted; 0: none is queued. */
uint64_t tagrv_posted_oldest(const struct tagrv_posted_queue *queue);

/* Number of hashed classes. */
size_t tagrv_posted_classes(const struct tagrv_posted_queue *queue);

/* Enlarges pools and the key table if they are nearly full. */
void tagrv_posted_grow_ahead(struct tagrv_posted_queue *queue);

/* posted_list.c */

/* Whether a list that grows by a receive stays as it is, without a census. */
bool tagrv_posted_list_stays(struct tagrv_posted_queue *queue,
			     struct tagrv_posted_list *list);

/*
 * Add a receive to the list of its space: add at the end, insert where its seq
 * belongs. care: its care mask. 0 or -FI_ENOMEM. add may run a census, which may
 * move receives, this one too, to classes.
 */
int tagrv_posted_list_add(struct tagrv_posted_queue *queue,
			  struct tagrv_posted *recv, uint64_t care)
	TAGRV_WARN_UNUSED;
int tagrv_posted_list_insert(struct tagrv_posted_queue *queue,
			     struct tagrv_posted *recv, uint64_t care)
	TAGRV_WARN_UNUSED;
void tagrv_posted_list_remove(struct tagrv_posted_queue *queue,
			      struct tagrv_posted *recv);

/* Recomputes 'only_block'; call it after adding or removing a block or class. */
void tagrv_posted_list_set_only(struct tagrv_posted_queue *queue, uint8_t space);

/* Earliest match in the list, which stays in it, or NULL. */
struct tagrv_posted *tagrv_posted_list_match(struct tagrv_posted_queue *queue,
					     uint32_t peer, uint8_t space,
					     uint64_t tag);

/* The receive that follows 'prev' in the list (NULL: the first one), or NULL. */
struct tagrv_posted *
tagrv_posted_list_next(const struct tagrv_posted_list *list,
		       const struct tagrv_posted *prev);

/* posted_hint.c */

/*
 * The hashed class of receives with this space, care mask and peer (any: none), or
 * TAGRV_NO_CLASS.
 */
uint8_t tagrv_posted_class_of(struct tagrv_posted_queue *queue, uint8_t space,
			      uint64_t care, bool any);

/* Chooses 'hint_factor' anew; call it after adding a class. */
void tagrv_posted_hints_renew(struct tagrv_posted_queue *queue) TAGRV_COLD;

/* posted_class.c */

/*
 * Creates an empty class and puts it into a group; TAGRV_NO_CLASS: all classes are
 * in use. When the census has moved its receives, it must call
 * tagrv_posted_hash_settle().
 */
uint8_t tagrv_posted_class_new(struct tagrv_posted_queue *queue, uint8_t space,
			       uint64_t care, bool any);

/* The finest group that a class could join, or TAGRV_NO_CLASS. */
uint8_t tagrv_posted_group_for(const struct tagrv_posted_queue *queue,
			       uint8_t space, uint64_t care, bool any);

/* Creates a group whose key is that of the class. Always succeeds. */
uint8_t tagrv_posted_group_new(struct tagrv_posted_queue *queue,
			       const struct tagrv_posted_class *class);
/* A class leaves its group, which is unused when no other class is in it. */
void tagrv_posted_group_leave(struct tagrv_posted_queue *queue, uint8_t number);

/* Frees a class without receives, and its group if no other class is in it. */
void tagrv_posted_class_free(struct tagrv_posted_queue *queue, uint8_t c);

/* posted_hash.c */

/* Ends a census: returns groups with few receives to the list. */
void tagrv_posted_hash_settle(struct tagrv_posted_queue *queue, uint8_t space);

/*
 * Adds a receive to a class as its newest. False: no memory, or a receive with the
 * same key is younger; the receive is then in no class.
 */
bool tagrv_posted_hash_add(struct tagrv_posted_queue *queue,
			   struct tagrv_posted *recv, uint8_t class)
	TAGRV_WARN_UNUSED;

/*
 * Removes a receive from its class; a group with few receives left returns to the
 * list. cell: as tagrv_posted_hash_match() just returned it, or NULL.
 */
void tagrv_posted_hash_remove(struct tagrv_posted_queue *queue,
			      struct tagrv_posted *recv, uint32_t *cell);

/* Prefetches the lines of the key table that a message's probes will read. */
void tagrv_posted_prefetch(const struct tagrv_posted_queue *queue,
			   uint32_t peer, uint8_t space, uint64_t tag);

/*
 * Returns the earliest of 'best' (the list's match, or NULL) and all groups'
 * matches; the receive stays queued. *cell becomes the receive's cell in the key
 * table if it is the head of its key and the cell is known, else NULL; if 'best'
 * is returned it is unchanged or NULL.
 */
struct tagrv_posted *tagrv_posted_hash_match(struct tagrv_posted_queue *queue,
					     uint32_t peer, uint8_t space,
					     uint64_t tag,
					     struct tagrv_posted *best,
					     uint32_t **cell);

/* posted_place.c */

/* Decides whether a new, still empty group shares lines with others. */
void tagrv_posted_place_join(struct tagrv_posted_queue *queue, uint8_t number);

/* The table is crowded: no group shares lines any more. Moves their keys. */
void tagrv_posted_place_part(struct tagrv_posted_queue *queue);

/* posted_name.c */

/* A receive was queued, or will be removed: to be called while name_of is set. */
void tagrv_posted_names_add(struct tagrv_posted_queue *queue,
			    struct tagrv_posted *recv);
void tagrv_posted_names_remove(struct tagrv_posted_queue *queue,
			       struct tagrv_posted *recv);
/* Frees the index by name. */
void tagrv_posted_names_drop(struct tagrv_posted_queue *queue);

#endif
