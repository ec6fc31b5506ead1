/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by the files of tagrv_liar.
 *
 *   tagrv_liar.c   the two honest processes, and the report
 *   liar_life.c    rank 2: one process after the other, each of which connects to both
 *                  honest ones and lies until its life is over
 *   liar_lies.c    the lies: what such a process writes into what it shares
 *   liar_forge.c   forged packets of one-sided operations
 *   liar_hook.c    where it gets rings, bells and descriptors from, and lies that are
 *                  part of the handover
 *   liar_windows.c windows of the honest ones, and their one-sided operations
 *
 *   rank 0 <== numbered messages, writes, reads and atomics ==> rank 1
 *      ^                                                          ^
 *      '--- any messages and one-sided operations, lies --- rank 2: the liar
 */
#ifndef STRESS_LIAR_H
#define STRESS_LIAR_H

#include <rdma/fabric.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "xport/shm/shm_layout.h"

enum { LEFT, RIGHT, LIAR, RANKS };
enum { LIAR_NAME_MAX = 128 };

enum lie {
	LIE_WORD,	/* any word of a ring */
	LIE_HEAD,	/* the head word of an entry */
	LIE_COUNTER,	/* what is consumed, polled, starved, claimed, copied */
	LIE_BELL,	/* the words of a bell */
	LIE_CONSTANT,	/* the constants of a ring */
	LIE_REPLAY,	/* an entry that was sent before */
	LIE_BODY,	/* words that change again and again while they are read */
	LIE_TRUNCATE,	/* another size of a memory file */
	LIE_WAKE,	/* what wakes a sleeper: made to block, filled, emptied, shut */
	LIE_HAND,	/* a handover's message or descriptors */
	LIE_PID,	/* a handover that comes from another process id */
	LIE_FORGE,	/* a packet of a one-sided operation */
	LIES
};

/*
 * Windows of an honest one: for the liar to read and write, or only to read, and for the
 * other honest one alone, of which the liar does not know the key.
 */
enum liar_window { WINDOW_OPEN, WINDOW_READ, WINDOW_SECRET, LIAR_WINDOWS };
enum { OPEN_LEN = 65536 };	/* bytes of the first two */
enum { LIAR_KEY = 5, LIAR_WINDOW_LEN = 300000 };	/* the liar's own window */

/* Memory that all processes of the program share. */
struct scene {
	_Atomic int opened;		/* honest endpoints */
	uint8_t	name[2][LIAR_NAME_MAX];
	uint64_t key[2][LIAR_WINDOWS];
	_Atomic int life;		/* lives so far whose addresses are known */
	uint8_t	liar[2][LIAR_NAME_MAX];	/* for each of the honest ones */
	_Atomic bool begin, over;	/* the lies */
	_Atomic uint64_t posted[2];	/* messages sent, once the lies are over */
	_Atomic bool ended[2];		/* posted[] is final */
	_Atomic int arrived;		/* of both, at all meetings so far */
	_Atomic uint64_t lies[LIES], told;	/* told: all of them */
	_Atomic uint64_t links;		/* handovers that were sent or taken by liars */
	_Atomic uint64_t stuck;		/* lives that hung themselves */
	_Atomic uint64_t done[2], failed[2];	/* operations of the honest ones with liars */
	_Atomic uint64_t rounds[2];	/* of write, read and atomic among the honest ones */
	_Atomic long grown[2];		/* KiB, of the honest ones */
	_Atomic bool truncated;		/* a memory file could be made smaller */
};

extern struct scene *scene;

/* Rank 2: tells so many lies, then returns. Each life tells per_life of them. */
void liar_live(uint64_t lies, uint64_t per_life, uint64_t seed);

/* ---- liar_hook.c ---- */

/* One direction of a connection. */
struct catch {
	bool	own;			/* this process receives by this ring */
	uint32_t slots;
	size_t	size;			/* bytes of the ring */
	struct shm_header *ring;
	struct shm_bell *bell;		/* of the receiver */
	int	fds[SHM_HAND_FDS];	/* own descriptors of all three */
};

enum { CATCHES = 4 };		/* two connections */

/* From here on handovers of this process are caught. */
void hook_begin(uint64_t seed);
/* The last handovers: returns how many there are. */
int hook_catches(struct catch catches[CATCHES]);
/* The next handover is such a lie: LIE_HAND or LIE_PID. */
void hook_lie(enum lie lie);

/* ---- liar_lies.c ---- */

/* Tells one lie about one of the catches. */
void lie_tell(enum lie lie, const struct catch *c, uint64_t *random);

void lie_count(enum lie lie);

/* ---- liar_forge.c ---- */

/* Looks in a ring by which the liar receives for operations of the honest ones. */
void forge_learn(const struct catch *c);
/* Puts a forged packet into a ring by which it sends. */
void forge_send(const struct catch *c, uint64_t *random);

/* ---- liar_windows.c ---- */

struct comp;
struct fx;

/* Registers the windows, and says in the scene which keys they have. */
void windows_open(struct fx *fx);
/* Begins what can be begun: with the other honest one, and with the liar if there is one. */
void windows_post(struct fx *fx, int other, fi_addr_t liar, uint64_t *random);
/* False: the completion is that of a message. */
bool windows_complete(const struct comp *c, int rank);
bool windows_busy(bool liar);
/* Nothing outside of what the liar may write to has changed. */
void windows_check(void);
void windows_close(void);

#endif
