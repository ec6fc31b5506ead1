/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations that may fail, but must complete: once each, in any order.
 */
#ifndef FUNCTIONAL_PENDING_H
#define FUNCTIONAL_PENDING_H

#include "completion.h"

/* Operation i is posted with &ctx[i] as its context. */
struct pending {
	struct fi_context2 *ctx;
	int *result;		/* -1 until completed, then 0 or the entry's err */
	size_t n;
	size_t done;
};

/* n 0: any completion is one too many. */
void pending_open(struct pending *p, size_t n);
void pending_close(struct pending *p);

/*
 * Takes completions of both sides until 'want' operations of 'until', which is
 * tx or rx, are done. 'what' names them when the case moves no more.
 */
void pending_await(struct fx *fx, struct pending *tx, struct pending *rx,
		   const struct pending *until, size_t want, const char *what);

/* Takes completions of both sides until all of rx are done, or ms milliseconds are over. */
void pending_settle(struct fx *fx, struct pending *tx, struct pending *rx, int ms);

#endif
