/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Finds the earliest receive with a given name, which is fi_cancel's context.
 *
 *   cell of name --> seq 2 --> seq 7 --> (seq 2)     links[] by pool index
 *
 * Few applications cancel, and posts of the others should not pay for an index.
 * So the first finds compare receives one by one. When they have compared as many
 * as are queued, the index is built and updated by each post and match. It is
 * dropped when so many receives were posted without a find that building it again
 * would be cheap beside them. Without memory for the index, finds compare one by
 * one: slower, with the same result.
 */
#include <stdlib.h>
#include <string.h>

#include "match/posted.h"

/* Receives queued up to which comparing one by one is cheaper than an index. */
#define WALK_ALWAYS	32
/* The index is dropped after UNUSED_MIN + UNUSED_EACH * cnt posts unused. */
#define UNUSED_EACH	4
#define UNUSED_MIN	4096

struct name_key {
	const struct tagrv_posted_queue *queue;
	void	*name;
};

static bool has_name(const void *arg, uint32_t index)
{
	const struct name_key *key = arg;
	const struct tagrv_posted *recv = tagrv_posted_at(key->queue, index);

	return recv->pub.name == key->name;
}

static uint32_t hash_name(const struct tagrv_posted_queue *queue, void *name)
{
	return tagrv_hash(&queue->seed, (uintptr_t) name, 0, TAGRV_HASH_NAME);
}

static uint32_t *cell_of_name(const struct tagrv_posted_queue *queue,
			      void *name, uint32_t hash)
{
	struct name_key key = { queue, name };

	return tagrv_keytab_find(&queue->names.tab, hash, has_name, &key);
}

/* Posts and arrivals that go by the only block know no names. */
static void renew_only_blocks(struct tagrv_posted_queue *queue)
{
	for (uint8_t space = 0; space < TAGRV_SPACE_CNT; space++)
		tagrv_posted_list_set_only(queue, space);
}

void tagrv_posted_names_drop(struct tagrv_posted_queue *queue)
{
	struct tagrv_posted_names *names = &queue->names;

	tagrv_keytab_fini(&names->tab);
	free(names->links);
	*names = (struct tagrv_posted_names) { 0 };
	renew_only_blocks(queue);
}

/* Ensures that 'links' has an entry for a pool index. False: no memory. */
static bool reserve_links(struct tagrv_posted_queue *queue, uint32_t index)
{
	struct tagrv_posted_names *names = &queue->names;
	struct tagrv_posted_name *links;
	size_t cap;

	if (TAGRV_LIKELY(index < names->cap))
		return true;
	cap = TAGRV_MAX(tagrv_pool_capacity(&queue->pool), 2 * names->cap);
	links = realloc(names->links, cap * sizeof(*links));
	if (!links)
		return false;
	names->links = links;
	names->cap = cap;
	return true;
}

/* Adds a receive as the newest of its name. False: no memory. */
static bool add_name(struct tagrv_posted_queue *queue,
		     struct tagrv_posted *recv)
{
	struct tagrv_posted_names *names = &queue->names;
	void *name = recv->pub.name;
	uint32_t hash = hash_name(queue, name), head;
	uint32_t index = tagrv_posted_index(recv);
	struct tagrv_posted_name *links;
	uint32_t *cell;

	if (!reserve_links(queue, index))
		return false;
	links = names->links;
	cell = cell_of_name(queue, name, hash);
	links[index].head = !cell;
	if (!cell) {
		links[index].next = index;
		links[index].prev = index;
		return tagrv_keytab_insert(&names->tab, hash, index);
	}
	head = *cell;
	links[index].next = head;
	links[index].prev = links[head].prev;
	links[links[head].prev].next = index;
	links[head].prev = index;
	return true;
}

void tagrv_posted_names_add(struct tagrv_posted_queue *queue,
			    struct tagrv_posted *recv)
{
	struct tagrv_posted_names *names = &queue->names;

	if (names->unused_posts++ > UNUSED_EACH * queue->level.cnt + UNUSED_MIN ||
	    !add_name(queue, recv))
		tagrv_posted_names_drop(queue);
}

void tagrv_posted_names_remove(struct tagrv_posted_queue *queue,
			       struct tagrv_posted *recv)
{
	struct tagrv_posted_names *names = &queue->names;
	uint32_t index = tagrv_posted_index(recv);
	struct tagrv_posted_name *link = &names->links[index];
	uint32_t *cell = NULL;

	if (link->head)
		cell = tagrv_keytab_cell_of(&names->tab,
			hash_name(queue, recv->pub.name), index);
	if (link->next == index) {
		tagrv_keytab_erase(&names->tab, cell);
		return;
	}
	names->links[link->prev].next = link->next;
	names->links[link->next].prev = link->prev;
	if (cell) {
		names->links[link->next].head = true;
		*cell = link->next;
	}
}

/* For tagrv_posted_each(): true, which ends the walk, means no memory. */
static bool add_name_fails(struct tagrv_posted *recv, void *arg)
{
	return !add_name(arg, recv);
}

static bool build(struct tagrv_posted_queue *queue)
{
	struct tagrv_posted_names *names = &queue->names;

	if (tagrv_keytab_init(&names->tab, queue->level.cnt))
		return false;
	names->on = true;
	renew_only_blocks(queue);
	if (!tagrv_posted_each(queue, add_name_fails, queue))
		return true;
	tagrv_posted_names_drop(queue);
	return false;
}

struct search {
	void	*name;
	size_t	steps;
};

static bool is_named(struct tagrv_posted *recv, void *arg)
{
	struct search *search = arg;

	search->steps++;
	return recv->pub.name == search->name;
}

tagrv_match_id tagrv_posted_find_name(struct tagrv_posted_queue *queue,
				      void *name)
{
	struct search search = { name, 0 };
	struct tagrv_posted_names *names = &queue->names;
	struct tagrv_posted *recv = NULL;
	uint32_t *cell;

	if (names->on || (queue->level.cnt > WALK_ALWAYS &&
			  names->walked >= queue->level.cnt && build(queue))) {
		names->unused_posts = 0;
		queue->level.probes++;
		cell = cell_of_name(queue, name, hash_name(queue, name));
		if (cell)
			recv = tagrv_posted_at(queue, *cell);
	} else {
		recv = tagrv_posted_each(queue, is_named, &search);
		names->walked += search.steps;
		queue->level.probes += search.steps;
	}
	return recv ? tagrv_posted_id(recv) : 0;
}
