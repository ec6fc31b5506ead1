/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by the files of tagrv_strangers: tagrv_strangers.c has the two honest
 * processes, strangers_talk.c is the third one, which has no business with them.
 *
 *   rank 0 <== numbered messages ==> rank 1
 *      ^                               ^
 *      '---- records, silence ---- rank 2: the stranger
 *
 * They coordinate through a board in shared memory.
 */
#ifndef STRESS_STRANGERS_H
#define STRESS_STRANGERS_H

#include "framework/fixture.h"

#include <netinet/in.h>
#include <stdatomic.h>

enum { LEFT, RIGHT, STRANGER, RANKS };

struct board {
	_Atomic int opened[2];		/* endpoints opened so far, by rank */
	struct sockaddr_in name[2];	/* of the latest one */
	_Atomic bool ready;		/* the stranger knows both */
	_Atomic int arrived;		/* of both, at all meetings so far */
	_Atomic int asked;		/* rounds so far that the stranger shall attack */
	_Atomic int attacked;		/* rounds so far that it has attacked */
	_Atomic int sending;		/* rounds so far in which rank 1 has begun to send */
	_Atomic bool over;
	_Atomic uint64_t posted[2];	/* messages sent, once the attacks are over */
	_Atomic bool ended[2];		/* posted[] is final */
	/* what the stranger was told */
	_Atomic uint64_t records, refused, busy, resets, accepted;
};

extern struct board *board;

/* The stranger's parts of the cases; each runs until board->over. */
void stranger_hijack(struct test *t, uint64_t records);
void stranger_rounds(struct test *t);
void stranger_flood(struct test *t, uint64_t records);
void stranger_idle(struct test *t, uint64_t sockets);

#endif
