/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A look: the state of all endpoints that can be seen at one time. Two looks give rates.
 */
#ifndef UTIL_TOP_LOOK_H
#define UTIL_TOP_LOOK_H

#include "util/top/top_find.h"

struct top_endpoint {
	struct tagrv_board_record record;
	bool	answered;		/* the record was written for this look */
	bool	has_retransmits;
	uint64_t retransmits;		/* of its devices' ports, by all processes */
};

struct top_process {
	pid_t	pid;
	char	command[32];
	enum top_state state;
	uint32_t version;		/* of its layout */
	char	release[16];
	uint32_t open;			/* endpoints */
	struct top_endpoint *endpoints;
	size_t	cnt;			/* those that it has shown */
	/* Of a look that is being taken: it has ended; all have answered. */
	bool	gone, complete;
};

struct top_look {
	uint64_t ns;			/* CLOCK_MONOTONIC */
	struct top_process *processes;	/* by pid */
	size_t	cnt;
};

struct top_source {
	const char *proc, *sys;		/* "/proc", "/sys" */
	uid_t	user;
	pid_t	pid;			/* 0: all */
	unsigned wait_ms;		/* for answers, at most */
};

/* 0 or -errno. */
int top_look_take(const struct top_source *source, struct top_look *look);
void top_look_free(struct top_look *look);

/* The same endpoint in another look; NULL: it is not there. */
const struct top_endpoint *top_look_find(const struct top_look *look, pid_t pid,
					 const struct top_endpoint *endpoint);

/*
 * Packets that the ports of devices sent again, or were asked to: "rxa0", "mlx5_0:1+mlx5_1:1".
 * False: the kernel does not count them, or there is no such device.
 */
bool top_retransmits(const char *sys, const char *devices, uint64_t *sum);

#endif
