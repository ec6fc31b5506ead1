/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The entries of match_depth's queues. Entry 'number' is computed, not stored, so
 * that the benchmark itself touches no memory that grows with the queue.
 *
 * The low half of a tag is the entry's number, which every class compares; the high
 * half is noise. Odd classes are directed; class c ignores c / 2 bits of the noise.
 * So exactly one entry matches each request, and a structure that compared ignored
 * bits would find none.
 */
#include "depth.h"

#define NOISE_SHIFT	32

const char *const depth_side_names[] = { "posted", "unexpected" };
const char *const depth_cache_names[] = { "warm", "disturbed" };

/* SplitMix64: works with any seed; neighbouring values give very different results. */
static uint64_t scramble(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint64_t depth_random(uint64_t *state)
{
	return scramble(*state += 0x9e3779b97f4a7c15u);
}

struct tagrv_match_want depth_class(unsigned nr)
{
	return (struct tagrv_match_want) {
		.ignore = ((1ull << nr / 2) - 1) << NOISE_SHIFT,
		.peer = nr % 2 ? 0 : TAGRV_MATCH_ANY,
		.space = TAGRV_SPACE_TAGGED,
	};
}

/*
 * A posted receive has a class, and its message differs from it in ignored bits. An
 * unexpected message has no class: its receive is of a random class.
 */
void depth_request_make(struct depth_request *req, enum depth_side side,
			unsigned classes, uint32_t number, uint64_t random)
{
	uint64_t own = scramble(number);
	unsigned nr = side == DEPTH_POSTED ? number % classes :
					     (unsigned) (random >> 8) % classes;
	struct tagrv_match_want want = depth_class(nr);
	uint64_t tag = (own & ~(uint64_t) UINT32_MAX) | number;
	uint32_t peer = (uint32_t) own % DEPTH_PEERS;
	uint64_t noise = random & want.ignore;

	if (want.peer != TAGRV_MATCH_ANY)
		want.peer = peer;
	else if (side == DEPTH_POSTED)
		peer = (uint32_t) random % DEPTH_PEERS;
	want.tag = side == DEPTH_POSTED ? tag : tag ^ noise;
	*req = (struct depth_request) {
		.want = want,
		.tag = side == DEPTH_POSTED ? tag ^ noise : tag,
		.peer = peer,
		.number = number,
	};
}
