/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a look says, as lines of text: for the terminal, a file, or the live view.
 */
#ifndef UTIL_TOP_TEXT_H
#define UTIL_TOP_TEXT_H

#include "core/compiler.h"
#include "util/top/top_row.h"

struct top_text {
	char	*text;		/* lines, each with its end; NULL: no memory, or none so far */
	size_t	len;
};

/*
 * How the table is shown. Where there is no room for all columns, the least useful ones are
 * left out; those of the key never are.
 */
struct top_table {
	enum top_key key;	/* a star marks its column */
	int	width;		/* columns of the terminal; 0: as many as it takes */
};

void top_text_free(struct top_text *text);
/* The table's heading, without rows. */
void top_text_heading(struct top_text *text, const struct top_table *table);
/* One line for the row. */
void top_text_row(struct top_text *text, const struct top_table *table,
		  const struct top_row *row);
/* All of the row's endpoint, in several lines. */
void top_text_details(struct top_text *text, const struct top_row *row);
/* What to do when no process can be seen. */
void top_text_nothing(struct top_text *text, pid_t pid);

#endif
