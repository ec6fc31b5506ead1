/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by the files of tagrv_fault.
 *
 *   tagrv_fault.c    options, the rounds, the report
 *   fault_survivor.c one round: traffic, the fault, what must hold after it
 *   fault_victim.c   the nursery, which forks the victims; a victim's life
 *   fault_ops.c      random operations of one process, and their ends
 *   fault_end.c      an endpoint for a plan; how far its connection is
 *
 * The nursery is forked before the survivor opens anything: a process that has used a
 * provider may not be forked. It reaps a victim only when the round is over, so that its
 * process id names nobody else meanwhile.
 */
#ifndef STRESS_FAULT_H
#define STRESS_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "end.h"

enum fault {
	FAULT_KILL,		/* SIGKILL */
	FAULT_STOP,		/* SIGSTOP, and SIGCONT a moment later: nothing is lost */
	FAULT_STOP_KILL,	/* SIGKILL while it is stopped */
	FAULT_EXIT,		/* _exit() in the middle of all */
	FAULT_CLOSE,		/* fi_close of the endpoint in the middle of all */
	FAULTS
};

/* When the delay begins after which the fault comes. */
enum phase {
	PHASE_OPEN,		/* the victim has an address: nothing is connected */
	PHASE_POSTED,		/* the survivor has posted something */
	PHASE_FLOW,		/* the victim has received something */
	PHASE_LEAVING,		/* the victim has closed its endpoint, and lives on until the fault */
	PHASES
};

/* How far the survivor's connection is when the fault comes, by its dump. */
enum state { STATE_NONE, STATE_IDLE, STATE_CONNECTING, STATE_BOUND, STATE_READY, STATE_LEAVING, STATES };
extern const char *const state_names[STATES];

struct plan {
	uint64_t seed;
	enum fault fault;
	enum phase phase;
	int64_t delay;		/* us */
	bool passive;		/* the survivor only receives before the fault */
	bool errors;		/* FI_TAGRV_PEER_ERRORS */
	bool sleeps;		/* the survivor sleeps in fi_cq_sread */
	bool automatic;		/* FI_PROGRESS_AUTO */
	bool onesided;		/* FI_RMA and FI_ATOMIC */
	const char *rndv, *cma;	/* FI_TAGRV_RNDV, FI_TAGRV_SHM_CMA */
	unsigned later;		/* operations posted after the fault */
};

enum { WHY_MAX = 256, LEAVE_STAY = FAULTS + 1 };

struct board {
	_Atomic int born;		/* rounds whose victim is wanted */
	_Atomic int opened;		/* rounds whose victim has an address */
	_Atomic int over;		/* rounds whose victim may be reaped */
	_Atomic int reaped;
	_Atomic pid_t pid;
	_Atomic bool flowing;		/* the victim has received a message */
	_Atomic int leave;		/* enum fault + 1 that the victim commits itself, or LEAVE_STAY */
	_Atomic bool closed;		/* the victim has closed its endpoint, and lives on */
	_Atomic bool finish;		/* no more sends: what was sent is received */
	_Atomic bool done;		/* the victim's sends have all ended */
	_Atomic bool failed;
	char	why[WHY_MAX];
	struct plan plan;
	uint8_t survivor[NAME_MAX_LEN], victim[NAME_MAX_LEN];
	size_t	len;
};

extern struct board *board;

/* Monotonic microseconds. */
int64_t fault_now(void);

/* ---- fault_end.c ---- */

/* Opens an endpoint as the plan wants it. */
void fault_open(struct end *e, const struct plan *plan, uint8_t *name, size_t *len);
/* How far the connection to the peer of this address is. */
enum state fault_state(const struct end *e, const uint8_t *name);

/* ---- fault_ops.c ---- */

enum op_kind { OP_SEND, OP_LEVEL, OP_UNTAGGED, OP_RECV, OP_RECV_FROM, OP_RECV_UNTAGGED, OP_KINDS };
enum { OPS_OUT = 12, OPS_IN = 12, OP_CODES = 8 };

struct op {
	struct fi_context2 ctx;
	enum op_kind kind;
	bool busy;		/* accepted, not completed */
	bool withdrawn;		/* fi_cancel has taken it back */
	uint64_t tag;
	size_t	len;
	uint8_t	*buf;
};

struct counts {
	uint64_t posted, ok, failed, cancelled, injected;
	uint64_t kinds[OP_KINDS];		/* that failed */
	uint64_t codes[OP_CODES];		/* of failures: op_codes[] */
};

extern const int op_codes[OP_CODES];

struct ops {
	struct end *end;
	struct op out[OPS_OUT], in[OPS_IN];
	uint64_t random;
	uint64_t seq;			/* of the next message that is sent */
	uint64_t received;		/* messages */
	bool	mortal;			/* errors are expected from here on */
	bool	errors;			/* receives that name the peer end by themselves */
	struct counts counts;
};

void ops_open(struct ops *o, struct end *end, uint64_t seed);
void ops_close(struct ops *o);
/* Tries to post one operation of each direction. */
void ops_post(struct ops *o, bool sends, bool receives);
/* A receive of any message, if there is room for one. */
void ops_receive_any(struct ops *o);
/* Takes what has completed; returns whether there was something. */
bool ops_poll(struct ops *o);
/* Sends that have not completed; receives that must end by themselves. */
unsigned ops_busy_out(const struct ops *o);
unsigned ops_busy_in(const struct ops *o, bool all);
/* Takes back the receives that nothing has matched. */
void ops_cancel(struct ops *o);
/* Writes the operations that have not ended to stderr. */
void ops_list(const struct ops *o);

/* ---- processes ---- */

/* Never returns: forks a victim for each round, until the survivor ends. */
_Noreturn void fault_nursery(pid_t survivor);

struct outcome {
	int	state;			/* at the fault */
	int64_t worst;			/* us from the fault to the last end */
	struct counts counts;
};

/* Plays round number 'round' with the plan on the board. */
void fault_round(int round, struct outcome *outcome);

#endif
