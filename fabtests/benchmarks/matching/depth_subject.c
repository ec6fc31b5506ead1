/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The structures that match_depth measures: the engine, and three others for
 * comparison, built like those of other libraries.
 *
 *   list     one list, oldest entry first
 *   hash     the tag is hashed when a receive ignores nothing; all others are
 *            on a list. Unexpected messages are in the hash and on a list
 *   source   a list for each sender and one for any; unexpected messages are
 *            on the list of their sender and on one of all
 *
 * The three have every advantage: entries of one cache line in one array, no
 * statistics, no limits, tables as large as the queue, one side only.
 */
#include <stdlib.h>

#include "depth.h"
#include "core/compiler.h"
#include "core/list.h"

/* ---- the engine ---- */

static void *engine_open(size_t capacity)
{
	struct tagrv_match *match;

	return tagrv_match_create(capacity, capacity, &match) ? NULL : match;
}

static bool drop_msg(struct tagrv_match_msg *msg, void *arg)
{
	(void) msg;
	(void) arg;
	return true;
}

static void drop_recv(struct tagrv_match_recv *recv, void *arg)
{
	(void) recv;
	(void) arg;
}

static void engine_close(void *self)
{
	tagrv_match_drain_posted(self, drop_recv, NULL);
	tagrv_match_drain_unexpected(self, TAGRV_MATCH_ANY, drop_msg, NULL);
	tagrv_match_destroy(self);
}

static void engine_post(void *self, const struct tagrv_match_want *want,
			uint32_t number)
{
	struct tagrv_match_recv *recv;
	struct tagrv_match_msg *msg;
	tagrv_match_id id;

	if (tagrv_match_post(self, want, &recv, &id, &msg))
		depth_die("the engine does not queue a receive");
	recv->room[0] = number;
}

static uint32_t engine_match(void *self, uint32_t peer, uint64_t tag)
{
	struct tagrv_match_recv *recv = NULL;
	struct tagrv_match_msg *msg;
	int ret = tagrv_match_arrive(self, peer, TAGRV_SPACE_TAGGED, tag,
				     &recv, &msg);

	if (TAGRV_LIKELY(ret == 1))
		return (uint32_t) recv->room[0];
	if (ret)
		depth_die("the engine does not queue a message");
	tagrv_match_take(self, msg);
	tagrv_match_release(self, msg);
	return 0;
}

static void engine_arrive(void *self, uint32_t peer, uint64_t tag,
			  uint32_t number)
{
	struct tagrv_match_recv *recv;
	struct tagrv_match_msg *msg;

	if (tagrv_match_arrive(self, peer, TAGRV_SPACE_TAGGED, tag, &recv,
			       &msg))
		depth_die("the engine does not queue a message");
	msg->user = (void *) (uintptr_t) number;
}

static uint32_t engine_claim(void *self, const struct tagrv_match_want *want)
{
	struct tagrv_match_msg *msg = tagrv_match_claim(self, want);
	uint32_t number;

	if (!msg)
		return 0;
	number = (uint32_t) (uintptr_t) msg->user;
	tagrv_match_release(self, msg);
	return number;
}

static const struct depth_subject engine = {
	"engine", "the matching engine", true, engine_open, engine_close,
	engine_post, engine_match, engine_arrive, engine_claim,
};

/* ---- shared by the three others ---- */

/* A receive or a message; messages do not use care. */
struct node {
	struct tagrv_list link;		/* in the list of all entries */
	struct tagrv_list side;		/* in the list of a bucket or a sender */
	uint64_t tag, care, seq;
	uint32_t peer, number;
};

static_assert(sizeof(struct node) == TAGRV_CACHE_LINE, "one line each");

struct store {
	struct node *nodes;
	struct tagrv_list unused, all;
	struct tagrv_list *sides;	/* buckets or senders */
	uint64_t seq;
	unsigned shift;			/* of the hash */
};

static void store_close(void *self)
{
	struct store *store = self;

	free(store->nodes);
	free(store->sides);
	free(store);
}

static struct store *store_open(size_t capacity, size_t side_cnt)
{
	struct store *store = calloc(1, sizeof(*store));

	if (!store)
		return NULL;
	store->nodes = aligned_alloc(TAGRV_CACHE_LINE,
				     capacity * sizeof(struct node));
	store->sides = malloc(side_cnt * sizeof(*store->sides));
	if (!store->nodes || !store->sides) {
		store_close(store);
		return NULL;
	}
	tagrv_list_init(&store->unused);
	tagrv_list_init(&store->all);
	for (size_t i = 0; i < capacity; i++)
		tagrv_list_push_tail(&store->unused, &store->nodes[i].link);
	for (size_t i = 0; i < side_cnt; i++)
		tagrv_list_init(&store->sides[i]);
	return store;
}

static struct node *node_get(struct store *store, uint32_t peer, uint64_t tag,
			     uint64_t care, uint32_t number)
{
	struct node *node = tagrv_container_of(tagrv_list_pop(&store->unused),
					       struct node, link);

	node->tag = tag;
	node->care = care;
	node->seq = ++store->seq;
	node->peer = peer;
	node->number = number;
	return node;
}

/* Frees a node. The last one freed is used next: it is still in the cache. */
static uint32_t node_put(struct store *store, struct node *node)
{
	uint32_t number = node->number;

	tagrv_list_insert_after(&store->unused, &node->link);
	return number;
}

static bool takes(const struct node *recv, uint32_t peer, uint64_t tag)
{
	return !((recv->tag ^ tag) & recv->care) &&
	       (recv->peer == peer || recv->peer == TAGRV_MATCH_ANY);
}

static bool wants(const struct tagrv_match_want *want, const struct node *msg)
{
	return !((want->tag ^ msg->tag) & ~want->ignore) &&
	       (want->peer == msg->peer || want->peer == TAGRV_MATCH_ANY);
}

/* The first node of a list, linked by 'member', that fits; or NULL. */
#define FIRST_THAT(head, member, fits) ({				\
	struct tagrv_list *pos_;					\
	struct node *node = NULL, *found_ = NULL;			\
									\
	tagrv_list_for_each(head, pos_) {				\
		node = tagrv_container_of(pos_, struct node, member);	\
		if (fits) {						\
			found_ = node;					\
			break;						\
		}							\
	}								\
	found_; })

static struct node *earlier(struct node *a, struct node *b)
{
	return !b || (a && a->seq < b->seq) ? a : b;
}

/* ---- list ---- */

static void *list_open(size_t capacity)
{
	return store_open(capacity, 1);
}

static void list_post(void *self, const struct tagrv_match_want *want,
		      uint32_t number)
{
	struct store *store = self;

	tagrv_list_push_tail(&store->all,
			     &node_get(store, want->peer, want->tag,
				       ~want->ignore, number)->link);
}

static uint32_t list_take(struct store *store, struct node *node)
{
	if (!node)
		return 0;
	tagrv_list_remove(&node->link);
	return node_put(store, node);
}

static uint32_t list_match(void *self, uint32_t peer, uint64_t tag)
{
	struct store *store = self;

	return list_take(store, FIRST_THAT(&store->all, link,
					   takes(node, peer, tag)));
}

static void list_arrive(void *self, uint32_t peer, uint64_t tag,
			uint32_t number)
{
	struct store *store = self;

	tagrv_list_push_tail(&store->all,
			     &node_get(store, peer, tag, 0, number)->link);
}

static uint32_t list_claim(void *self, const struct tagrv_match_want *want)
{
	struct store *store = self;

	return list_take(store, FIRST_THAT(&store->all, link,
					   wants(want, node)));
}

static const struct depth_subject list = {
	"list", "one list, oldest first", false, list_open, store_close,
	list_post, list_match, list_arrive, list_claim,
};

/* ---- hash ---- */

static void *hash_open(size_t capacity)
{
	struct store *store;
	unsigned bits = 4;

	while ((size_t) 1 << bits < capacity)
		bits++;
	store = store_open(capacity, (size_t) 1 << bits);
	if (store)
		store->shift = 64 - bits;
	return store;
}

static struct tagrv_list *bucket(struct store *store, uint64_t tag)
{
	return &store->sides[tag * 0x9e3779b97f4a7c15u >> store->shift];
}

static void hash_post(void *self, const struct tagrv_match_want *want,
		      uint32_t number)
{
	struct store *store = self;
	struct node *node = node_get(store, want->peer, want->tag,
				     ~want->ignore, number);

	tagrv_list_push_tail(want->ignore ? &store->all :
					    bucket(store, want->tag),
			     &node->link);
}

static uint32_t hash_match(void *self, uint32_t peer, uint64_t tag)
{
	struct store *store = self;
	struct node *exact = FIRST_THAT(bucket(store, tag), link,
					takes(node, peer, tag));
	struct node *other = FIRST_THAT(&store->all, link,
					takes(node, peer, tag));

	return list_take(store, earlier(exact, other));
}

static void hash_arrive(void *self, uint32_t peer, uint64_t tag,
			uint32_t number)
{
	struct store *store = self;
	struct node *node = node_get(store, peer, tag, 0, number);

	tagrv_list_push_tail(&store->all, &node->link);
	tagrv_list_push_tail(bucket(store, tag), &node->side);
}

static uint32_t both_take(struct store *store, struct node *node)
{
	if (node)
		tagrv_list_remove(&node->side);
	return list_take(store, node);
}

static uint32_t hash_claim(void *self, const struct tagrv_match_want *want)
{
	struct store *store = self;

	if (want->ignore)
		return both_take(store, FIRST_THAT(&store->all, link,
						   wants(want, node)));
	return both_take(store, FIRST_THAT(bucket(store, want->tag), side,
					   wants(want, node)));
}

static const struct depth_subject hash = {
	"hash", "hash of whole tags, a list for masked receives", false, hash_open,
	store_close, hash_post, hash_match, hash_arrive, hash_claim,
};

/* ---- source ---- */

static void *source_open(size_t capacity)
{
	return store_open(capacity, DEPTH_PEERS);
}

static void source_post(void *self, const struct tagrv_match_want *want,
			uint32_t number)
{
	struct store *store = self;
	struct node *node = node_get(store, want->peer, want->tag,
				     ~want->ignore, number);

	tagrv_list_push_tail(want->peer == TAGRV_MATCH_ANY ?
			     &store->all : &store->sides[want->peer],
			     &node->link);
}

static uint32_t source_match(void *self, uint32_t peer, uint64_t tag)
{
	struct store *store = self;
	struct node *from_it = FIRST_THAT(&store->sides[peer], link,
					  takes(node, peer, tag));
	struct node *from_any = FIRST_THAT(&store->all, link,
					   takes(node, peer, tag));

	return list_take(store, earlier(from_it, from_any));
}

static void source_arrive(void *self, uint32_t peer, uint64_t tag,
			  uint32_t number)
{
	struct store *store = self;
	struct node *node = node_get(store, peer, tag, 0, number);

	tagrv_list_push_tail(&store->all, &node->link);
	tagrv_list_push_tail(&store->sides[peer], &node->side);
}

static uint32_t source_claim(void *self, const struct tagrv_match_want *want)
{
	struct store *store = self;

	if (want->peer == TAGRV_MATCH_ANY)
		return both_take(store, FIRST_THAT(&store->all, link,
						   wants(want, node)));
	return both_take(store, FIRST_THAT(&store->sides[want->peer], side,
					   wants(want, node)));
}

static const struct depth_subject source = {
	"source", "a list for each sender and one for any", false, source_open,
	store_close, source_post, source_match, source_arrive, source_claim,
};

const struct depth_subject *const depth_subjects[] = {
	&engine, &list, &hash, &source, NULL,
};
