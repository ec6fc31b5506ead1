/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by the files of tagrv_faults.
 *
 *   tagrv_faults.c   options, the controller: sessions, faults, the end
 *   faults_kinds.c   the faults: how each is drawn, done and undone, who must survive it
 *   faults_judge.c   what was sent and received in a session, and the report
 *   faults_side.c    one of the two processes: it posts, and records what completes
 *
 * The controller opens no provider; it forks the two sides, and forks one again after it
 * has killed it. All records are in memory that the three share, so they outlive a side.
 *
 * The messages of a session are numbered by direction and class. Three classes are tags,
 * the last is untagged. A message names its session, class and number in its first bytes,
 * or in its remote CQ data if it is short.
 */
#ifndef STRESS_FAULTS_H
#define STRESS_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "end.h"

enum { SIDES = 2, CLASSES = 4, UNTAGGED = CLASSES - 1 };
enum { STREAM_MAX = 1 << 15, SESSIONS_KEPT = 4, LEN_MAX = 2 << 20 };
enum { WHY_MAX = 300, CODES = 8 };

/* ---- faults ---- */

enum kind {
	LOSS, DELAY, REORDER, DUPLICATE, CORRUPT, RATE,	/* of a rail, by tc */
	CUT,		/* nothing passes, shorter than the retries of a queue pair */
	DOWN, DOWN_ALL,	/* a port, or one of each rail, by ip */
	STOP,		/* SIGSTOP, SIGCONT */
	KILL,		/* SIGKILL, and another process in its place */
	KINDS
};

/* What traffic owes to its user while a fault lasts and after it. */
enum bound { SURVIVED, BROKEN, RESTARTED };

struct fault {
	enum kind kind;
	int rail;
	int side;
	char amount[32];	/* for the command, in the units of tc */
	int64_t us;		/* how long it lasts */
};

struct settings {
	uint64_t seed, faults, messages, seconds;
	const char *inject;	/* command, or NULL: only faults of processes */
	const char *device[SIDES], *address[SIDES];
	unsigned rails;
	bool down;		/* take ports down too */
};

extern struct settings settings;
extern const char *const kind_names[KINDS];

void fault_draw(struct fault *f, uint64_t number);
enum bound fault_bound(const struct fault *f);
/* The command that does faults of rails, if there is one, is started once; fork()s of the controller leave it. */
void fault_injector_start(void);
void fault_injector_leave(void);
/* Does or undoes a fault of a rail. Faults of processes are the controller's own. */
void fault_inject(const struct fault *f, bool on);

/* ---- records ---- */

/* What became of a message, for its sender. */
enum sent { SENT_NOT, SENT_POSTED, SENT_OK, SENT_DELIVERED, SENT_FAILED };

struct stream {
	_Atomic uint32_t sent;		/* accepted */
	_Atomic uint32_t received;
	_Atomic uint8_t state[STREAM_MAX];	/* enum sent */
	_Atomic uint32_t got[STREAM_MAX];	/* number of the receive, from 1; 0: none */
};

struct session {
	_Atomic uint32_t number;
	enum bound bound;		/* the worst of its faults */
	int dead;			/* side that was killed, or -1 */
	struct stream stream[SIDES][CLASSES];	/* by sender */
};

struct side {
	_Atomic uint32_t opened;	/* the life whose address is in name */
	uint8_t name[NAME_MAX_LEN];
	size_t len;
	_Atomic uint32_t quiet;		/* session whose sends have all ended */
	_Atomic bool full;		/* has used up a stream of the session */
	_Atomic uint64_t moved;		/* completions */
	_Atomic uint64_t received;	/* messages */
	_Atomic uint64_t bytes;
	_Atomic uint64_t doubled, stale, wrong;
	_Atomic uint64_t failed_out[CODES + 1], failed_in[CODES + 1];
};

struct board {
	_Atomic uint32_t current;	/* session */
	_Atomic uint32_t drain;		/* session in which nothing more is sent */
	_Atomic uint32_t life[SIDES];
	_Atomic int dump;		/* sides write their state */
	_Atomic bool failed, over;
	char why[WHY_MAX];
	struct side side[SIDES];
	struct session session[SESSIONS_KEPT];
};

extern struct board *board;
extern const int fault_codes[CODES];

static inline struct session *session_at(uint32_t number)
{
	return &board->session[number % SESSIONS_KEPT];
}

/* Monotonic microseconds. */
int64_t faults_now(void);

/* ---- faults_judge.c ---- */

struct verdict {
	uint64_t checked, lost, doubled, disordered, wrong, failed, failed_unduly;
	uint64_t sessions[RESTARTED + 1];
};

void session_begin(uint32_t number);
/* Whether all that was sent in the session has been received. */
bool session_complete(const struct session *s);
void session_judge(const struct session *s, struct verdict *v);
/* Adds what the sides have seen themselves; returns whether all is well. */
bool verdict_report(struct verdict *v);

/* ---- faults_side.c ---- */

_Noreturn void side_run(int rank, uint32_t life);

#endif
