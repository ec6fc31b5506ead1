/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Contents of messages from a counter-based generator; guards of a constant byte.
 */
#include "pattern.h"
#include "runner.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 64, GUARD_VALUE = 0xa5 };

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

uint64_t pattern_next(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ULL;
	return mix(*state);
}

static uint64_t word(uint64_t seed, size_t i)
{
	return mix(seed * 0x9e3779b97f4a7c15ULL + i + 1);
}

void pattern_fill(void *buf, size_t len, uint64_t seed)
{
	uint8_t *p = buf;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		uint64_t w = word(seed, i / 8);

		memcpy(p + i, &w, 8);
	}
	if (i < len) {
		uint64_t w = word(seed, i / 8);

		memcpy(p + i, &w, len - i);
	}
}

static size_t first_difference(const uint8_t *p, const void *want, size_t len)
{
	const uint8_t *w = want;
	size_t i = 0;

	while (i < len && p[i] == w[i])
		i++;
	return i;
}

size_t pattern_check(const void *buf, size_t len, uint64_t seed)
{
	const uint8_t *p = buf;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = word(seed, i / 8);
		size_t part = len - i < 8 ? len - i : 8;

		if (memcmp(p + i, &w, part))
			return i + first_difference(p + i, &w, part);
	}
	return len;
}

struct guard guard_alloc(size_t len)
{
	size_t total = (len + 2 * GUARD_BYTES + 63) / 64 * 64;
	struct guard g = { .len = len };

	g.base = aligned_alloc(64, total);
	CHECK(g.base, "no memory for a buffer of %zu bytes", len);
	g.data = g.base + GUARD_BYTES;
	memset(g.base, GUARD_VALUE, total);
	return g;
}

void guard_free(struct guard *g)
{
	free(g->base);
	memset(g, 0, sizeof(*g));
}

void guard_wipe(struct guard *g)
{
	memset(g->data, GUARD_VALUE, g->len);
}

static size_t changed(const uint8_t *p, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += p[i] != GUARD_VALUE;
	return n;
}

size_t guard_damage(const struct guard *g, size_t used)
{
	return changed(g->base, GUARD_BYTES) +
	       changed(g->data + used, g->len - used + GUARD_BYTES);
}

size_t guard_changed(const struct guard *g, size_t at, size_t len)
{
	return changed(g->data + at, len);
}

void guard_holds(const char *file, int line, const struct guard *g, size_t len, uint64_t seed)
{
	size_t at = pattern_check(g->data, len, seed);

	if (at != len)
		run_fail(file, line, "wrong content at byte %zu of %zu", at, len);
	if (guard_damage(g, len))
		run_fail(file, line, "%zu bytes written outside the %zu received",
			 guard_damage(g, len), len);
}
