/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A random one-sided program: the parts of tagrv_onesided.
 *
 * Each rank has a window. It consists of an area for each rank that writes there, itself
 * included, and of cells that all ranks change by atomic operations at the same time:
 *
 *   | area of rank 0 | area of rank 1 | ... | shared cells |
 *   | bytes ......................... | cells of FLOAT | cells of DOUBLE | ... |
 *
 * The writer of an area keeps a model of it. An operation changes the model when it is
 * posted; what a read or a fetching atomic returns must be what the model contained
 * then. So two operations on the same bytes may be under way at the same time only if
 * libfabric promises their order: by an order that was asked for or by a fence. Where
 * there is none, an operation waits until nothing else can touch its bytes (onesided_order.c).
 * At the end the owner of a window compares all of it with the models.
 *
 * Some writes tell the owner where to look: by remote CQ data, or by a message behind them.
 * The owner looks at once, and until it has, nothing else is written there.
 */
#ifndef STRESS_ONESIDED_RUN_H
#define STRESS_ONESIDED_RUN_H

#include "framework/arithmetic.h"
#include "framework/completion.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/window.h"

enum {
	RANKS_MAX = 4,
	BYTES = 2 << 20,	/* of an area, without the cells */
	CELLS = 64,		/* for each type that is no integer */
	CELLS_SIZE = CELLS * ARITHMETIC_SIZE_MAX,
	AREA = BYTES + ARITHMETIC_TYPES * CELLS_SIZE,
	SHARED = 64,		/* cells of 64 bits */
	SHARED_SUM = 40,	/* of these, the first are summed up, the others xored, ... */
	TICKET = SHARED - 1,	/* and the last is a ticket: each fetching rank gets its own */
	WINDOW_MAX = 48,	/* operations of a rank under way ... */
	SLOTS = WINDOW_MAX + 2 * RANKS_MAX,	/* ... besides fences */
	PARTS_MAX = 4,		/* pieces of memory that one operation touches */
	NOTES = 64,		/* looks of the owner under way, for each writer */
	TICKETS = 1 << 16,
	HISTORY = 1024,		/* operations that are remembered for the report of a failure */
};

struct range {
	size_t at, len;		/* within the area, or from the first shared cell on */
};

/* What the owner of a window is to look at. */
struct note {
	struct range range[PARTS_MAX];
	size_t parts, len;
	uint64_t seed;		/* of the pattern that was written */
	_Atomic bool taken;	/* the owner has looked */
};

/* Memory that all ranks of a case share. */
struct onesided_shared {
	_Atomic unsigned finished;	/* ranks whose operations have all ended */
	_Atomic uint64_t cells[RANKS_MAX][SHARED];	/* what must be in them at the end */
	_Atomic uint8_t ticket[RANKS_MAX][TICKETS];
	struct note note[RANKS_MAX][RANKS_MAX][NOTES];	/* of owner and writer */
	uint8_t model[RANKS_MAX][RANKS_MAX][AREA];	/* likewise */
};

enum state {
	FREE,
	READY,			/* drawn, not yet accepted by the provider */
	FLYING,			/* no completion so far */
	UNKNOWN,		/* complete, but the target may not have it yet */
	TOLD,			/* the owner has not looked at it yet */
};

/* One operation, from the draw to the moment when it can have no effect any more. */
struct slot {
	struct fi_context2 ctx;
	enum state state;
	uint64_t number;	/* in the order of posting, from 1 on */
	int peer;
	bool shared;		/* changes shared cells; there is no model */
	bool modifies;
	bool wants_fence;
	struct onesided o;
	struct range range[PARTS_MAX];
	size_t parts, len;
	uint64_t seed;
	/* As one piece: operand or bytes to write, what is compared, what must be returned. */
	uint8_t *data, *compared, *expect;
	struct guard buf, result, compare;	/* local memory */
	struct iovec iov[PARTS_MAX], result_iov[PARTS_MAX], compare_iov[PARTS_MAX];
	struct fi_rma_iov remote[PARTS_MAX];
	struct note *note;	/* or NULL */
	bool by_message;	/* a message tells the note; else remote CQ data do */
	bool said;		/* the message has left */
};

/* What was posted. */
struct past {
	uint64_t number, flags;
	int peer;
	enum onesided_kind kind;
	enum msg_call call;
	struct range range[PARTS_MAX];
	size_t parts;
	bool ended;
};

struct side {
	struct fx fx;
	struct window w;
	struct onesided_shared *all;
	uint64_t order;		/* that is promised */
	bool fences;
	uint64_t random;
	uint64_t ops, posted, done;	/* numbers of this rank */
	uint64_t fenced[RANKS_MAX];	/* number of the last fenced operation to this rank */
	uint64_t notes[RANKS_MAX];	/* so many so far, to this rank */
	struct slot slot[SLOTS];
	struct slot *ready;
	struct past past[HISTORY];	/* by number */
	struct fi_context2 rx_ctx[NOTES];
	uint64_t rx_buf[NOTES];
	size_t inject, iov_limit, remote_limit;
};

/* Options: flags and lengths of entries are compared; local segments may be empty. */
extern uint64_t onesided_strict, onesided_empty;

/* Between memory in pieces and in one piece. */
void onesided_scatter(uint8_t *area, const struct range *range, size_t parts, const void *from);
void onesided_gather(const uint8_t *area, const struct range *range, size_t parts, void *to);

static inline uint8_t *onesided_model(struct side *r, int owner, int writer)
{
	return r->all->model[owner][writer];
}

/* The type of the cell that this byte of an area belongs to; -1: of none. */
static inline int onesided_cell_type(size_t at)
{
	return at < BYTES ? -1 : (int)((at - BYTES) / CELLS_SIZE);
}

/* Whether len bytes are those expected, which are of these ranges of an area. */
bool onesided_same(const struct range *range, size_t parts, const uint8_t *got,
		   const uint8_t *expect, size_t *wrong);

/* ---- onesided_draw.c ---- */

/* Fills in a new operation; false: it may not be posted now. */
bool onesided_draw(struct side *r, struct slot *s);
/* Likewise, a read that is fenced. */
void onesided_draw_fence(struct side *r, struct slot *s, int peer);

/* ---- onesided_order.c ---- */

/* Whether nothing that is under way keeps this operation from being posted. */
bool onesided_may_post(const struct side *r, const struct slot *s);
/* The provider has accepted it: the model changes. */
void onesided_posted(struct side *r, struct slot *s);
/* Its completion has come. */
void onesided_completed(struct side *r, struct slot *s);
/* Prints the operations that touched this byte of the peer's area, the last ones. */
void onesided_print_past(const struct side *r, int peer, size_t at);
/* A fence settles all earlier operations; the owners have looked at others. */
void onesided_settle(struct side *r);
void onesided_free(struct slot *s);

/* ---- onesided_owner.c ---- */

void onesided_receive(struct side *r, size_t i);
/* Takes what has come for this rank's window. Whether anything had. */
bool onesided_look(struct side *r);
/* Compares this rank's window with the models of all its writers. */
void onesided_check_window(struct side *r);

#endif
