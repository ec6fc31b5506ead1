/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The seeded hash of the key tables of this folder.
 *
 * The 128-bit product of two seeded factors is folded to 64 bits and multiplied
 * once more: every bit of tag and peer influences every bit of the result. Which
 * keys collide depends on the seed, and not linearly as with a CRC, so a peer that
 * knows this file but not the seed cannot choose tags that collide.
 */
#ifndef TAGRV_MATCH_HASH_H
#define TAGRV_MATCH_HASH_H

#include <stdint.h>

struct tagrv_hash_seed {
	uint64_t tag, peer, fold;	/* fold is odd */
};

__extension__ typedef unsigned __int128 tagrv_u128;

/* Returns the next word of a pseudo-random sequence (splitmix64). */
static inline uint64_t tagrv_hash_word(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static inline struct tagrv_hash_seed tagrv_hash_make_seed(uint64_t from)
{
	struct tagrv_hash_seed seed;

	seed.tag = tagrv_hash_word(&from);
	seed.peer = tagrv_hash_word(&from);
	seed.fold = tagrv_hash_word(&from) | 1;
	return seed;
}

/*
 * Hash of tag and peer. 'space' makes equal keys of different uses hash
 * differently: the group of a receive, the space of a message, TAGRV_HASH_*.
 */
static inline uint32_t tagrv_hash(const struct tagrv_hash_seed *seed,
				  uint64_t tag, uint32_t peer, uint32_t space)
{
	uint64_t mixed = ((uint64_t) space << 32 | peer) * 0x9e3779b97f4a7c15;
	tagrv_u128 m = (tagrv_u128) (tag ^ seed->tag) * (mixed ^ seed->peer);
	uint64_t x = (uint64_t) (m >> 64) ^ (uint64_t) m;

	return (uint32_t) (x * seed->fold >> 32);
}

#endif
