/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lists of numbers with ranges, as values of options.
 */
#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "oob.h"

/* Returns what follows the number. */
static char *parse_number(const char *text, size_t *value)
{
	char *end;
	unsigned long long number = strtoull(text, &end, 10);
	int shift = 0;

	if (end == text || *text == '-')
		return NULL;
	switch (*end) {
	case 'K': case 'k': shift = 10; break;
	case 'M': case 'm': shift = 20; break;
	case 'G': case 'g': shift = 30; break;
	}
	if (number > (~0ull >> 1) >> shift)
		return NULL;
	*value = (size_t)(number << shift);
	return end + (shift > 0);
}

static void insert(struct perf_list *list, size_t value, const char *name, bool as_given)
{
	size_t at = as_given ? list->count : 0;

	while (at < list->count && list->values[at] < value)
		at++;
	if (at < list->count && list->values[at] == value)
		return;
	if (list->count == PERF_LIST_MAX)
		bench_die("%s: more than %d values", name, PERF_LIST_MAX);
	memmove(&list->values[at + 1], &list->values[at], (list->count - at) * sizeof(value));
	list->values[at] = value;
	list->count++;
}

struct range {
	size_t	first, last, factor;
};

/* N, N:M or N:M:F. Returns false for anything else. */
static bool parse_range(const char *text, struct range *range)
{
	char *at = parse_number(text, &range->first);

	range->last = range->first;
	range->factor = 2;
	if (at && *at == ':')
		at = parse_number(at + 1, &range->last);
	if (at && *at == ':')
		at = parse_number(at + 1, &range->factor);
	return at && !*at && range->first <= range->last && range->factor >= 2;
}

static void parse(struct perf_list *list, const char *text, const char *name, size_t min, size_t max, bool as_given)
{
	char *copy = strdup(text), *state = NULL;

	list->count = 0;
	for (char *s = strtok_r(copy, ",", &state); s; s = strtok_r(NULL, ",", &state)) {
		struct range range;

		if (!parse_range(s, &range))
			bench_die("%s: '%s' is no number and no range like 8:1M or 8:1M:4", name, s);
		if (range.first < min || range.last > max)
			bench_die("%s: '%s' is not from %zu to %zu", name, s, min, max);
		/* A range from 0 goes on with 1. */
		for (size_t v = range.first; v <= range.last; v = v ? v * range.factor : 1)
			insert(list, v, name, as_given);
	}
	free(copy);
	if (!list->count)
		bench_die("%s: the list is empty", name);
}

void list_parse(struct perf_list *list, const char *text, const char *name, size_t min, size_t max)
{
	parse(list, text, name, min, max, false);
}

void list_parse_as_given(struct perf_list *list, const char *text, const char *name, size_t min, size_t max)
{
	parse(list, text, name, min, max, true);
}
