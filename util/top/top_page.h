/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The board of another process (prov/tagrv/src/board/board_layout.h), as tagrv_top reads it.
 * No byte of it is taken on trust: it is read into memory of ours, never mapped, and lengths
 * and texts are checked there. Numbers may be any.
 */
#ifndef UTIL_TOP_PAGE_H
#define UTIL_TOP_PAGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "board/board_layout.h"

enum top_state {
	TOP_FINE,
	TOP_OTHER_VERSION,	/* written by a release with another layout */
	TOP_BROKEN,		/* no board, or one that makes no sense */
};

/*
 * Opens what a link of /proc/PID/fd points to. -errno; -ENOENT: no board. -EPERM: it is not
 * the user's, whoever may open it. *inode: tells it from other files.
 */
int top_page_open(const char *link, uid_t user, ino_t *inode);
/* Reads the head. release is text then. */
enum top_state top_page_head(int fd, struct tagrv_board_head *head);
/* Asks the process for records that answer 'value'. 0 or -errno. */
int top_page_ask(int fd, uint64_t value);
/* Reads the record of a slot. False: there is none, or it changes too often to be read. */
bool top_page_record(int fd, const struct tagrv_board_head *head, unsigned slot,
		     struct tagrv_board_record *record);
/* Makes text of bytes: ends it, and replaces what is not printable. */
void top_page_clean(char *text, size_t size);

#endif
