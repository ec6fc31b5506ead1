/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reading the completions of a fixture one by one, and comparing each exactly.
 */
#ifndef FUNCTIONAL_COMPLETION_H
#define FUNCTIONAL_COMPLETION_H

#include "fixture.h"

/* One CQ entry of any format, successful (err 0) or not; or the entry that is expected. */
struct comp {
	void *ctx;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	uint64_t tag;
	int err;
	size_t olen;
	fi_addr_t src;		/* compared if the endpoint has FI_SOURCE */
};

#define SENT_TAGGED (FI_SEND | FI_TAGGED)
#define SENT_MSG    (FI_SEND | FI_MSG)
#define GOT_TAGGED  (FI_RECV | FI_TAGGED)
#define GOT_MSG	    (FI_RECV | FI_MSG)
#define DID_PUT	    (FI_RMA | FI_WRITE)
#define DID_GET	    (FI_RMA | FI_READ)
#define DID_ATOMIC  (FI_ATOMIC | FI_WRITE)
#define DID_FETCH   (FI_ATOMIC | FI_READ)	/* fi_compare_atomic, too */
/* A peer has written here with remote CQ data; the entry has no context. */
#define GOT_DATA    (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)

/* One non-blocking read; returns false when there was no entry. */
bool comp_poll(struct fx *fx, enum fx_side side, struct comp *c);

/* Reads until there is an entry; fails when the case moves no more. */
#define COMP_WAIT(fx, side, c) comp_wait(__FILE__, __LINE__, (fx), (side), (c))
void comp_wait(const char *file, int line, struct fx *fx, enum fx_side side, struct comp *c);

/*
 * Waits for one entry and compares every field its CQ format has and its flags
 * make valid: COMP_EXPECT(fx, FX_RX, .ctx = &x, .flags = GOT_TAGGED, .tag = 7).
 * Error entries compare ctx and err, and len, olen and tag for FI_ETRUNC.
 */
#define COMP_EXPECT(fx, side, ...)                                                                 \
	comp_expect(__FILE__, __LINE__, (fx), (side), &(struct comp){ __VA_ARGS__ })
void comp_expect(const char *file, int line, struct fx *fx, enum fx_side side,
		 const struct comp *want);

/* Compares an entry that was read before. */
#define COMP_SAME(fx, got, ...)                                                                    \
	comp_compare(__FILE__, __LINE__, (fx), (got), &(struct comp){ __VA_ARGS__ })
void comp_compare(const char *file, int line, const struct fx *fx, const struct comp *got,
		  const struct comp *want);

/* Waits for n successful entries with the contexts ctx[0] .. ctx[n-1], in this or any order. */
#define COMP_IN_ORDER(fx, side, ctx, n) comp_many(__FILE__, __LINE__, (fx), (side), (ctx), (n), true)
#define COMP_ANY_ORDER(fx, side, ctx, n) comp_many(__FILE__, __LINE__, (fx), (side), (ctx), (n), false)
void comp_many(const char *file, int line, struct fx *fx, enum fx_side side,
	       struct fi_context2 *ctx, size_t n, bool ordered);

/* Reads both CQs for ms milliseconds; any entry fails the case. */
#define COMP_NONE(fx, ms) comp_none(__FILE__, __LINE__, (fx), (ms))
void comp_none(const char *file, int line, struct fx *fx, int ms);

#endif
