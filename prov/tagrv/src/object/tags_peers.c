/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tags: peers that come through the list, and those that do not. See tags.h.
 */
#include "object/tags_priv.h"

#include <rdma/fi_errno.h>

#include "core/clock.h"
#include "object/lane.h"
#include "xport/numbers.h"

#define SETTLE_MS	1000u

static_assert(TAGRV_OFFLOAD_SOURCES == TAGRV_NUMBERS_MAX &&
	      TAGRV_OFFLOAD_LIFE == TAGRV_NUMBERS_LIFE,
	      "entries compare what the links to a peer have in common");

/* ---- peers of the list ---- */

void tagrv_tags_enter_waiting(struct tagrv_tags *tags)
{
	struct tagrv_list *node, *tmp;

	tagrv_list_for_each_safe(&tags->waiting, node, tmp) {
		struct tagrv_lane *lane = tagrv_container_of(node, struct tagrv_lane, wait_node);
		struct tagrv_peer *peer = lane->entered;

		if (peer->listed_lanes > 1 || !tagrv_offload_settled(tags->offload))
			continue;
		tagrv_list_remove(node);
		if (tags->list->numbers)
			tagrv_numbers_hold(tags->list->numbers, lane->link->given);
		tagrv_offload_enter(tags->offload, &peer->listed, lane->link->given);
	}
}

/* Entries with the peer's number come back: until then nobody else may have it. */
static void leave(struct tagrv_tags *tags, struct tagrv_lane *lane)
{
	tagrv_offload_leave(tags->offload, &lane->entered->listed);
	if (!tags->list->numbers)
		return;
	tagrv_numbers_leave(tags->list->numbers, lane->link->given);
	tags->leaving = true;
}

void tagrv_tags_let_go(struct tagrv_tags *tags)
{
	if (!tags->leaving || !tagrv_offload_settled(tags->offload))
		return;
	tags->leaving = false;
	tagrv_numbers_settled(tags->list->numbers);
}

void tagrv_tags_enter(struct tagrv_tags *tags, struct tagrv_lane *lane)
{
	tagrv_assert_locked(tags->engine->dom);
	assert(!lane->entered);
	lane->entered = lane->peer;
	lane->life = lane->peer->life;
	lane->peer->listed_lanes++;
	if (tagrv_tags_is_deaf(tags))
		return;
	tagrv_list_push_tail(&tags->waiting, &lane->wait_node);
	tags->due = true;
	tagrv_tags_enter_waiting(tags);
}

void tagrv_tags_leave(struct tagrv_tags *tags, struct tagrv_lane *lane)
{
	struct tagrv_peer *peer = lane->entered;

	tagrv_assert_locked(tags->engine->dom);
	if (tagrv_list_linked(&lane->wait_node))
		tagrv_list_remove(&lane->wait_node);
	else if (tags->list && peer->listed.number)
		leave(tags, lane);
	tags->due = true;
}

void tagrv_tags_link_gone(struct tagrv_tags *tags, struct tagrv_lane *lane)
{
	tagrv_assert_locked(tags->engine->dom);
	assert(!tagrv_list_linked(&lane->wait_node) && lane->entered->listed_lanes);
	lane->entered->listed_lanes--;
	lane->entered = NULL;
	tags->due = true;
}

/* ---- other peers ---- */

void tagrv_tags_outside(struct tagrv_tags *tags, bool more)
{
	tagrv_assert_locked(tags->engine->dom);
	tags->outside += more ? 1 : UINT32_MAX;
	tags->due = true;
	if (tags->list)
		tagrv_offload_outside(tags->offload, more);
}

static bool is_settling(const struct tagrv_tags *tags)
{
	return tags->list && (tags->error || !tagrv_offload_settled(tags->offload));
}

void tagrv_tags_settle(struct tagrv_tags *tags)
{
	uint32_t answers = tags->answers;
	uint64_t since = 0;

	tagrv_assert_locked(tags->engine->dom);
	while (is_settling(tags)) {
		uint64_t now = tagrv_clock_ms();

		/* It has its second from its last answer on, and a look behind that. */
		if (!since || answers != tags->answers)
			since = now;
		answers = tags->answers;
		tags->due = true;
		tagrv_tags_flush(tags);
		if (!is_settling(tags))
			return;
		tags->list->ops->progress(tags->list);
		if (is_settling(tags) && answers == tags->answers && now - since > SETTLE_MS)
			tagrv_tags_note(tags, -FI_EIO);
	}
}
