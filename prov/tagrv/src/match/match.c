/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The calls of match.h.
 *
 *   post:    searches the unexpected messages, else adds to the posted receives
 *   arrive:  searches the posted receives, else adds to the unexpected messages
 *
 * Search and addition are one call under the caller's lock. So a queued message
 * and a queued receive never match each other: the later one would have taken the
 * earlier one. Limits are checked only when an entry must be queued.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "core/random.h"
#include "match/quick.h"

int tagrv_match_create(size_t max_posted, size_t max_unexpected,
		       struct tagrv_match **match)
{
	uint64_t seed;
	int ret = tagrv_random_fill(&seed, sizeof(seed));

	if (ret)
		return ret;
	return tagrv_match_create_seeded(max_posted, max_unexpected, seed,
					 match);
}

int tagrv_match_create_seeded(size_t max_posted, size_t max_unexpected,
			      uint64_t seed, struct tagrv_match **match)
{
	struct tagrv_match *new = calloc(1, sizeof(*new));

	if (!new)
		return -FI_ENOMEM;
	if (tagrv_posted_init(&new->posted, max_posted, seed) ||
	    tagrv_unexpected_init(&new->unexpected, max_unexpected, ~seed)) {
		tagrv_match_destroy(new);
		return -FI_ENOMEM;
	}
	*match = new;
	return 0;
}

void tagrv_match_destroy(struct tagrv_match *match)
{
	if (!match)
		return;
	tagrv_unexpected_fini(&match->unexpected);
	tagrv_posted_fini(&match->posted);
	free(match);
}

int tagrv_match_post(struct tagrv_match *match,
		     const struct tagrv_match_want *want,
		     struct tagrv_match_recv **recv, tagrv_match_id *id,
		     struct tagrv_match_msg **msg)
{
	struct tagrv_match_msg *found;

	assert(want->space < TAGRV_SPACE_CNT);
	match->posted.last_seq++;
	found = tagrv_unexpected_find(&match->unexpected, want);
	if (!found)
		return tagrv_posted_add(&match->posted, want, recv, id);
	tagrv_unexpected_take(&match->unexpected, found);
	*msg = found;
	return 1;
}

int tagrv_match_arrive(struct tagrv_match *match, uint32_t peer, uint8_t space,
		       uint64_t tag, struct tagrv_match_recv **recv,
		       struct tagrv_match_msg **msg)
{
	struct tagrv_match_recv *found;

	assert(peer != TAGRV_MATCH_ANY && space < TAGRV_SPACE_CNT);
	match->unexpected.last_seq++;
	found = tagrv_posted_match(&match->posted, peer, space, tag);
	if (found) {
		*recv = found;
		return 1;
	}
	return tagrv_unexpected_add(&match->unexpected, peer, space, tag, msg);
}

int tagrv_match_keep(struct tagrv_match *match, uint32_t peer, uint8_t space,
		     uint64_t tag, struct tagrv_match_msg **msg)
{
	match->unexpected.last_seq++;
	return tagrv_unexpected_add(&match->unexpected, peer, space, tag, msg);
}

bool tagrv_match_uses_hash(const struct tagrv_match *match)
{
	uint64_t live_groups = 0;

	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++)
		live_groups |= match->posted.live_groups[space];
	return live_groups;
}

void tagrv_match_prefetch(const struct tagrv_match *match, uint32_t peer,
			  uint8_t space, uint64_t tag)
{
	tagrv_posted_prefetch(&match->posted, peer, space, tag);
}

int tagrv_match_cancel(struct tagrv_match *match, tagrv_match_id id,
		       struct tagrv_match_recv **recv)
{
	return tagrv_posted_cancel(&match->posted, id, recv);
}

tagrv_match_id tagrv_match_find(const struct tagrv_match *match,
				tagrv_match_recv_fn fn, void *arg)
{
	return tagrv_posted_find(&match->posted, fn, arg);
}

tagrv_match_id tagrv_match_find_name(struct tagrv_match *match, void *name)
{
	return tagrv_posted_find_name(&match->posted, name);
}

bool tagrv_match_awaits(const struct tagrv_match *match, uint32_t peer,
			uint64_t *seen)
{
	uint64_t since = *seen;

	*seen = match->posted.last_seq;
	return since != *seen &&
	       tagrv_posted_awaits(&match->posted, peer, since);
}

struct tagrv_match_msg *tagrv_match_peek(struct tagrv_match *match,
					 const struct tagrv_match_want *want)
{
	assert(want->space < TAGRV_SPACE_CNT);
	match->peeks++;
	return tagrv_unexpected_find(&match->unexpected, want);
}

struct tagrv_match_msg *tagrv_match_claim(struct tagrv_match *match,
					  const struct tagrv_match_want *want)
{
	struct tagrv_match_msg *msg = tagrv_match_peek(match, want);

	if (msg)
		tagrv_unexpected_take(&match->unexpected, msg);
	return msg;
}

void tagrv_match_take(struct tagrv_match *match, struct tagrv_match_msg *msg)
{
	tagrv_unexpected_take(&match->unexpected, msg);
}

void tagrv_match_release(struct tagrv_match *match, struct tagrv_match_msg *msg)
{
	tagrv_unexpected_put(&match->unexpected, msg);
}

void tagrv_match_drain_unexpected(struct tagrv_match *match, uint32_t peer,
				  bool (*fn)(struct tagrv_match_msg *msg,
					     void *arg), void *arg)
{
	tagrv_unexpected_drain(&match->unexpected, peer, fn, arg);
}

void tagrv_match_drain_posted(struct tagrv_match *match,
			      void (*fn)(struct tagrv_match_recv *recv, void *arg),
			      void *arg)
{
	tagrv_posted_drain(&match->posted, fn, arg);
}

void tagrv_match_drain_source(struct tagrv_match *match, uint32_t peer,
			      void (*fn)(struct tagrv_match_recv *recv, void *arg),
			      void *arg)
{
	assert(peer != TAGRV_MATCH_ANY);
	tagrv_posted_drain_source(&match->posted, peer, fn, arg);
}

uint32_t tagrv_match_source(const struct tagrv_match_recv *recv)
{
	return tagrv_posted_source(tagrv_container_of(recv, struct tagrv_posted,
						      pub));
}

void tagrv_match_grow_ahead(struct tagrv_match *match)
{
	tagrv_posted_grow_ahead(&match->posted);
	tagrv_unexpected_grow_ahead(&match->unexpected);
}

void tagrv_match_get_stats(const struct tagrv_match *match,
			   struct tagrv_match_stats *stats)
{
	const struct tagrv_match_level *posted = &match->posted.level;
	const struct tagrv_match_level *unexpected = &match->unexpected.level;

	*stats = (struct tagrv_match_stats) {
		.posted = posted->cnt,
		.posted_peak = posted->peak,
		.unexpected = unexpected->cnt,
		.unexpected_peak = unexpected->peak,
		.posted_classes = tagrv_posted_classes(&match->posted),
		.unexpected_indexes = (size_t)
			__builtin_popcount(match->unexpected.live),
		.posted_oldest = tagrv_posted_oldest(&match->posted),
		.unexpected_oldest =
			tagrv_unexpected_oldest(&match->unexpected),
		.probes = posted->probes + unexpected->probes,
		.searches = match->posted.last_seq +
			    match->unexpected.last_seq + match->peeks,
		.promotions = match->posted.promotions,
		.demotions = match->posted.demotions,
		.builds = match->unexpected.builds,
		.evictions = match->unexpected.evictions,
	};
}
