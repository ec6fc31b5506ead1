/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Finds the boards of the user's processes.
 */
#ifndef UTIL_TOP_FIND_H
#define UTIL_TOP_FIND_H

#include "util/top/top_page.h"

/*
 * A board. It is not kept open: there may be more of them than a process may have
 * descriptors.
 */
struct top_found {
	pid_t	pid;			/* of the process that shows it, as this one sees it */
	unsigned number;		/* of its descriptor there */
	ino_t	inode;
	char	command[32];
	enum top_state state;
	struct tagrv_board_head head;
};

/*
 * Finds the boards of all processes of the user below 'proc' ("/proc"); pid: of one; 0: of
 * all. A board is its process's, even if others have inherited it; one whose process has
 * ended is left out. *found is to be freed. Returns how many, by pid; -errno.
 */
int top_find(const char *proc, uid_t user, pid_t pid, struct top_found **found);
/* Opens it again; the caller closes. -errno: it is gone. */
int top_find_open(const char *proc, uid_t user, const struct top_found *found);

#endif
