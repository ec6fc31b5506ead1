/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rows: one for each endpoint of a look, with rates since the look before, sorted.
 */
#ifndef UTIL_TOP_ROW_H
#define UTIL_TOP_ROW_H

#include "util/top/top_look.h"

enum top_key {
	TOP_BY_PID, TOP_BY_COMMAND, TOP_BY_OUT, TOP_BY_IN, TOP_BY_BYTES,
	TOP_BY_POSTED, TOP_BY_UNEXPECTED, TOP_BY_MEMORY, TOP_BY_QUEUED,
	TOP_KEYS
};

struct top_row {
	const struct top_process *process;
	const struct top_endpoint *endpoint;	/* NULL: it has shown none */
	const struct top_endpoint *before;	/* NULL: there are no rates */
	double	seconds;	/* between both; 0: nothing was written since */
	double	age;		/* seconds since the record was written */
	/* per second */
	double	out, in, bytes_out, bytes_in, retransmits;
};

struct top_rows {
	struct top_row *rows;
	size_t	cnt;
};

/* "pid", "out" and the like; the letter that chooses it. key: below TOP_KEYS. */
const char *top_key_name(enum top_key key);
char top_key_letter(enum top_key key);
/* TOP_KEYS: there is none of this name. */
enum top_key top_key_find(const char *name);

/* Rows of 'now'; before: NULL: none. 0 or -ENOMEM. The looks stay the caller's. */
int top_rows_make(const struct top_look *now, const struct top_look *before,
		  struct top_rows *rows);
/* Largest first, but for names and numbers; reverse: the other way. */
void top_rows_sort(struct top_rows *rows, enum top_key key, bool reverse);
void top_rows_free(struct top_rows *rows);

/* How much a counter has grown per second. */
double top_rate(uint64_t now, uint64_t before, double seconds);

#endif
