/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by the files of tagrv_kill. tagrv_kill.c is the survivor, kill_peer.c the
 * victim and the partner; both use kill_flow.c (messages, the board) and
 * kill_left.c (what a process holds).
 *
 *   partner <== numbered messages, both ways, without end ==> survivor
 *      |                                                         |
 *      '------------ kill -9 at some moment ------> victim <=====' one way
 *
 * The processes coordinate through a board in shared memory. The runner's exchanges
 * would make them wait for each other. Each victim is a new process of its rank, one
 * per round; test.life is the number of the round.
 */
#ifndef STRESS_KILL_H
#define STRESS_KILL_H

#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <stdatomic.h>

enum kill_kind { KILL_EAGER, KILL_RING, KILL_COPY };

enum { SURVIVOR, VICTIM, PARTNER, KILL_RANKS };

enum { FLOW_WINDOW = 8, SOCK_NAME_MAX = 108 };

struct kill_board {
	_Atomic int opened[KILL_RANKS];	/* endpoints opened so far, by rank */
	uint8_t name[KILL_RANKS][FX_NAME_MAX];
	uint8_t sock[SOCK_NAME_MAX];	/* the victim's abstract socket */
	size_t sock_len;
	_Atomic int begun;		/* rounds begun so far */
	_Atomic int flowing;		/* rounds so far whose victim may be killed */
	_Atomic int64_t killed_at;	/* us; 0: not yet in this round */
	_Atomic int killed;		/* rounds so far whose victim was killed */
	_Atomic bool over;
};

extern struct kill_board *board;
extern enum kill_kind kill_kind;

/* Monotonic microseconds. */
int64_t kill_now(void);

/* ---- flows: numbered messages one way ---- */

enum flow_what { FLOW_DATA = 1, FLOW_NEVER, FLOW_OUT, FLOW_BACK };

struct flow_op {
	struct fi_context2 ctx;
	bool busy;		/* accepted by the provider, not completed */
	bool filled;		/* refused once, to be posted again */
	bool withdrawn;		/* cancelled by fi_cancel */
	bool wide;		/* a receive that ignores the number */
	uint64_t tag;
	int64_t posted;		/* us */
	struct guard g;
};

struct flow {
	struct fx *fx;
	enum flow_what what;
	bool sends;
	bool mortal;		/* the peer will be killed */
	bool stopped;		/* nothing more is posted */
	fi_addr_t addr;
	uint64_t next;		/* number of the next message */
	uint64_t posted, done, failed, refused, cancelled;
	unsigned busy;
	int64_t worst;		/* us from the kill to the last error */
	struct flow_op op[FLOW_WINDOW];
};

/* Returns the length of the largest message of a kind of flow. */
size_t flow_len_max(enum flow_what what);
void flow_open(struct flow *f, struct fx *fx, enum flow_what what, int round, bool sends,
	       fi_addr_t addr);
void flow_close(struct flow *f);
/* Posts operations until the window is full or the provider refuses. */
void flow_post(struct flow *f);
/* Reads at most one completion from each CQ, for n flows; false if there was none. */
bool flow_poll(struct flow *flow, size_t n);
/* Cancels receives that no message has matched. */
void flow_cancel(struct flow *f);

/* ---- processes ---- */

/* Opens the endpoint and writes its name to the board. */
void kill_open(struct test *t, struct fx *fx);
/* Inserts the address of another rank once the endpoint of its life is open; false: not yet. */
bool kill_meet(struct fx *fx, int rank, int life);

void kill_be_victim(struct test *t);
void kill_be_partner(struct test *t);

/* ---- what a process holds ---- */

struct left {
	unsigned fds;
	unsigned rings;		/* mappings of tagrv's shared memory */
	unsigned maps;		/* all mappings; malloc changes their number, too */
	unsigned sockets;	/* sockets with this process's name: queued connections */
	size_t rss;		/* KiB */
};

void left_look(struct left *left);
bool left_same(const struct left *a, const struct left *b);
/* Writes the descriptors to standard output. */
void left_list(void);
/* Finds the abstract name of tagrv's socket in this process; false: none. */
bool left_sock_name(uint8_t *name, size_t *len);
/* Counts entries of /proc/net/unix with this name. */
unsigned left_sockets(const uint8_t *name, size_t len);

#endif
