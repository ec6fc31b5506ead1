/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The hash behind the key tables of this folder.
 *
 * A full multiply of two seeded factors, folded, and a second multiply: every
 * bit of tag and peer reaches every bit of the result. Which keys collide
 * depends on the seed in a way that is not linear, as a CRC would be, so who
 * knows this file and not the seed cannot choose tags that collide.
 */
#ifndef TAGRV_MATCH_HASH_H
#define TAGRV_MATCH_HASH_H

#include <stdint.h>

struct tagrv_hash_seed {
	uint64_t tag, who, fold;
};

__extension__ typedef unsigned __int128 tagrv_u128;

/* One step of a well-mixed sequence: makes a seed's words from one. */
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
	seed.who = tagrv_hash_word(&from);
	seed.fold = tagrv_hash_word(&from) | 1;
	return seed;
}

/* 'space' keeps the tables of one key apart: class, context, ... */
static inline uint32_t tagrv_hash(const struct tagrv_hash_seed *seed,
				  uint64_t tag, uint32_t peer, uint32_t space)
{
	uint64_t who = ((uint64_t) space << 32 | peer) * 0x9e3779b97f4a7c15;
	tagrv_u128 m = (tagrv_u128) (tag ^ seed->tag) * (who ^ seed->who);
	uint64_t x = (uint64_t) (m >> 64) ^ (uint64_t) m;

	return (uint32_t) (x * seed->fold >> 32);
}

#endif
