/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Numbers of links and peers: see numbers.h.
 */
#include "xport/numbers.h"

#define HASH_NONFATAL_OOM 1	/* HASH_ADD leaves hh.tbl NULL without memory */
#include <rdma/fi_errno.h>
#include <uthash.h>

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/compiler.h"
#include "core/list.h"
#include "core/random.h"

#define LIVES	(TAGRV_NUMBERS_LIFE + 1)
#define PEERS	((TAGRV_NUMBERS_MAX + 1) / LIVES)

struct peer {
	UT_hash_handle hh;		/* key: addr; not of one without */
	struct tagrv_addr addr;
	struct tagrv_list left;		/* numbers->left: held until settled() */
	uint16_t index;
	uint8_t	lives;			/* bit i: a link has this one */
	bool	named, held;
};

struct tagrv_numbers {
	pthread_mutex_t mutex;		/* of all fields */
	struct peer *index;		/* uthash by address */
	struct tagrv_list left;
	struct peer *peers[PEERS];	/* [0] stays NULL */
};

struct tagrv_numbers *tagrv_numbers_create(void)
{
	struct tagrv_numbers *numbers = calloc(1, sizeof(*numbers));

	if (!numbers)
		return NULL;
	pthread_mutex_init(&numbers->mutex, NULL);
	tagrv_list_init(&numbers->left);
	return numbers;
}

static void drop(struct tagrv_numbers *numbers, struct peer *peer)
{
	numbers->peers[peer->index] = NULL;
	if (peer->named)
		HASH_DEL(numbers->index, peer);
	free(peer);
}

void tagrv_numbers_destroy(struct tagrv_numbers *numbers)
{
	if (!numbers)
		return;
	for (unsigned i = 0; i < PEERS; i++)
		if (numbers->peers[i])
			drop(numbers, numbers->peers[i]);
	pthread_mutex_destroy(&numbers->mutex);
	free(numbers);
}

/* ---- the rest needs the mutex, but for the calls at the end ---- */

static void drop_unused(struct tagrv_numbers *numbers, struct peer *peer)
{
	if (!peer->lives && !peer->held)
		drop(numbers, peer);
}

/* It begins anywhere, so that what was given back is not given again at once. 0: none. */
static uint16_t find_index(const struct tagrv_numbers *numbers, uint32_t from)
{
	for (uint32_t i = 0; i < PEERS; i++) {
		uint32_t index = (from + i) % PEERS;

		if (index && !numbers->peers[index])
			return (uint16_t) index;
	}
	return 0;
}

static struct peer *add_peer(struct tagrv_numbers *numbers, const struct tagrv_addr *addr,
			     uint32_t from)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	tagrv_list_init(&peer->left);
	peer->index = find_index(numbers, from);
	if (addr && peer->index) {
		peer->addr = *addr;
		HASH_ADD(hh, numbers->index, addr, sizeof(peer->addr), peer);
		peer->named = peer->hh.tbl;
	}
	if (!peer->index || (addr && !peer->named)) {
		free(peer);
		return NULL;
	}
	numbers->peers[peer->index] = peer;
	return peer;
}

static struct peer *find_peer(struct tagrv_numbers *numbers, const struct tagrv_addr *addr)
{
	struct peer *peer = NULL;

	if (addr)
		HASH_FIND(hh, numbers->index, addr, sizeof(*addr), peer);
	return peer;
}

static struct peer *peer_of(const struct tagrv_numbers *numbers, uint16_t number)
{
	assert(number <= TAGRV_NUMBERS_MAX && numbers->peers[number / LIVES]);
	return numbers->peers[number / LIVES];
}

static uint16_t take_life(struct peer *peer, uint32_t from)
{
	for (uint32_t i = 0; i < LIVES; i++) {
		uint32_t life = (from + i) % LIVES;

		if (peer->lives & 1u << life)
			continue;
		peer->lives |= (uint8_t) (1u << life);
		return (uint16_t) (peer->index * LIVES + life);
	}
	return 0;
}

/* ---- calls ---- */

int tagrv_numbers_take(struct tagrv_numbers *numbers, const struct tagrv_addr *addr,
		       uint16_t *number)
{
	struct peer *peer;
	uint32_t from;

	*number = 0;
	if (tagrv_random_fill(&from, sizeof(from)))
		return 0;
	pthread_mutex_lock(&numbers->mutex);
	peer = find_peer(numbers, addr);
	if (!peer)
		peer = add_peer(numbers, addr, from / LIVES);
	if (peer)
		*number = take_life(peer, from);
	pthread_mutex_unlock(&numbers->mutex);
	return peer && !*number ? -FI_ENOSPC : 0;
}

void tagrv_numbers_give(struct tagrv_numbers *numbers, uint16_t number)
{
	struct peer *peer;

	pthread_mutex_lock(&numbers->mutex);
	peer = peer_of(numbers, number);
	peer->lives &= (uint8_t) ~(1u << number % LIVES);
	drop_unused(numbers, peer);
	pthread_mutex_unlock(&numbers->mutex);
}

void tagrv_numbers_hold(struct tagrv_numbers *numbers, uint16_t number)
{
	struct peer *peer;

	pthread_mutex_lock(&numbers->mutex);
	peer = peer_of(numbers, number);
	peer->held = true;
	tagrv_list_remove(&peer->left);
	pthread_mutex_unlock(&numbers->mutex);
}

void tagrv_numbers_leave(struct tagrv_numbers *numbers, uint16_t number)
{
	struct peer *peer;

	pthread_mutex_lock(&numbers->mutex);
	peer = peer_of(numbers, number);
	assert(peer->held && !tagrv_list_linked(&peer->left));
	tagrv_list_push_tail(&numbers->left, &peer->left);
	pthread_mutex_unlock(&numbers->mutex);
}

void tagrv_numbers_settled(struct tagrv_numbers *numbers)
{
	struct tagrv_list *node;

	pthread_mutex_lock(&numbers->mutex);
	while ((node = tagrv_list_pop(&numbers->left))) {
		struct peer *peer = tagrv_container_of(node, struct peer, left);

		peer->held = false;
		drop_unused(numbers, peer);
	}
	pthread_mutex_unlock(&numbers->mutex);
}

void tagrv_numbers_count(struct tagrv_numbers *numbers, unsigned *links, unsigned *peers)
{
	*links = *peers = 0;
	pthread_mutex_lock(&numbers->mutex);
	for (unsigned i = 0; i < PEERS; i++) {
		if (!numbers->peers[i])
			continue;
		++*peers;
		*links += (unsigned) __builtin_popcount(numbers->peers[i]->lives);
	}
	pthread_mutex_unlock(&numbers->mutex);
}
