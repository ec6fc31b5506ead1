/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Contents of messages that depend on a seed, and buffers with guard bytes around.
 */
#ifndef FUNCTIONAL_PATTERN_H
#define FUNCTIONAL_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Returns the next random number; *state may start with any value. */
uint64_t pattern_next(uint64_t *state);

/* Fills buf; byte i depends on seed and i only. */
void pattern_fill(void *buf, size_t len, uint64_t seed);

/* Returns the index of the first byte that differs from the pattern, or len. */
size_t pattern_check(const void *buf, size_t len, uint64_t seed);

/* A buffer with guard bytes on both sides; data is 64-byte aligned. */
struct guard {
	uint8_t *data;
	size_t len;
	uint8_t *base;
};

/* Allocates len bytes and fills them with a constant; fails the case without memory. */
struct guard guard_alloc(size_t len);
void guard_free(struct guard *g);

/* Fills all data bytes with the constant again. */
void guard_wipe(struct guard *g);

/* Counts changed guard bytes, and changed data bytes from index 'used' on. */
size_t guard_damage(const struct guard *g, size_t used);

/* Counts bytes of the data that are not the constant any more. */
size_t guard_changed(const struct guard *g, size_t at, size_t len);

/* Fails the case unless the first 'len' bytes hold the pattern and no other byte changed. */
#define GUARD_HOLDS(g, len, seed) guard_holds(__FILE__, __LINE__, (g), (len), (seed))
void guard_holds(const char *file, int line, const struct guard *g, size_t len, uint64_t seed);

#endif
