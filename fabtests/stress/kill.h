/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the processes of tagrv_kill have in common.
 *
 *   partner <== numbered messages, both ways, without end ==> survivor
 *      |                                                         |
 *      '------------ kill -9 at some moment ------> victim <=====' one way
 *
 * They meet on a board in shared memory and in no exchange of the runner's: that
 * would have them wait for each other. Each victim is a new process, a new life
 * of its rank; its number is that of the round.
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
	_Atomic int opened[KILL_RANKS];	/* lives whose endpoint is open; its name: */
	uint8_t name[KILL_RANKS][FX_NAME_MAX];
	uint8_t sock[SOCK_NAME_MAX];	/* the victim's abstract socket */
	size_t sock_len;
	_Atomic int begun;		/* rounds */
	_Atomic int flowing;		/* rounds whose victim may be killed */
	_Atomic int64_t killed_at;	/* us; 0: not yet in this round */
	_Atomic int killed;		/* rounds whose victim was */
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
	bool busy;		/* taken by the provider, not completed */
	bool filled;		/* refused once, to be tried again */
	bool withdrawn;		/* by fi_cancel */
	bool wide;		/* received with every number masked */
	uint64_t tag;
	int64_t posted;		/* us */
	struct guard g;
};

struct flow {
	struct fx *fx;
	enum flow_what what;
	bool sends;
	bool mortal;		/* the other side will be killed */
	bool stopped;		/* nothing more is posted */
	fi_addr_t addr;
	uint64_t next;		/* number of the next message */
	uint64_t posted, done, failed, refused, cancelled;
	unsigned busy;
	int64_t worst;		/* us from the kill to the last of its errors */
	struct flow_op op[FLOW_WINDOW];
};

/* Largest message of a kind of flow. */
size_t flow_len_max(enum flow_what what);
void flow_open(struct flow *f, struct fx *fx, enum flow_what what, int round, bool sends,
	       fi_addr_t addr);
void flow_close(struct flow *f);
/* Posts what there is room for. */
void flow_post(struct flow *f);
/* Takes one completion per side, if there is one, to the flow whose it is. */
bool flow_poll(struct flow *flow, size_t n);
/* Withdraws receives that no message came for. */
void flow_cancel(struct flow *f);

/* ---- processes ---- */

/* Opens the endpoint and tells its name on the board. */
void kill_open(struct test *t, struct fx *fx);
/* Inserts the address of another rank once its life of this number is open. */
bool kill_meet(struct fx *fx, int rank, int life);

void kill_be_victim(struct test *t);
void kill_be_partner(struct test *t);

/* ---- what a process holds ---- */

struct left {
	unsigned fds;
	unsigned rings;		/* mappings of shared memory of tagrv's */
	unsigned maps;		/* mappings in all: depends on malloc, too */
	unsigned sockets;	/* with the name of ours: queued connections */
	size_t rss;		/* KiB */
};

void left_look(struct left *left);
bool left_same(const struct left *a, const struct left *b);
/* Writes the descriptors to standard output. */
void left_list(void);
/* Abstract name of tagrv's socket in this process; false: none. */
bool left_sock_name(uint8_t *name, size_t *len);
/* Entries of /proc/net/unix with that name. */
unsigned left_sockets(const uint8_t *name, size_t len);

#endif
