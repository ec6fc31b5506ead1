/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * match_depth: the cost of matching by depth of the queue. Each file calls only
 * files below it:
 *
 *   match_depth.c    options and the points to measure
 *   depth_check.c    all structures give the answers of the model
 *   depth_result.c   CSV, targets
 *   depth_time.c     ns, instructions and cache lines of one point
 *   depth_subject.c  the engine and three structures to compare it with
 *   depth_load.c     which receives and messages a queue holds
 *   depth_die.c      the end with a message
 */
#ifndef FABTESTS_BENCHMARKS_MATCHING_DEPTH_H
#define FABTESTS_BENCHMARKS_MATCHING_DEPTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "match/match.h"

enum {
	DEPTH_PEERS	= 64,	/* senders that messages come from */
	DEPTH_LENGTHS	= 96,	/* most lengths, and most numbers of classes, in a run */
	DEPTH_CLASSES	= 64,	/* (directed or not) x 32 masks */
	/* The engine's pools hold one less than 2^20. */
	DEPTH_LENGTH_MAX = 1000000,
};

enum depth_side { DEPTH_POSTED, DEPTH_UNEXPECTED, DEPTH_SIDES };
enum depth_cache { DEPTH_WARM, DEPTH_COLD, DEPTH_CACHES };

extern const char *const depth_side_names[DEPTH_SIDES];
extern const char *const depth_cache_names[DEPTH_CACHES];

/*
 * A structure under test. Receives and messages have numbers from 1; up to
 * 'capacity' of each may be queued. Only one side is used at a time: post and match,
 * or arrive and claim.
 */
struct depth_subject {
	const char *name;
	const char *is;		/* one line for --help */
	bool	learns;		/* gets faster with use, so it needs warming up */
	void	*(*open)(size_t capacity);	/* NULL: no memory */
	void	(*close)(void *self);
	void	(*post)(void *self, const struct tagrv_match_want *want,
			uint32_t number);
	/* Removes the earliest matching receive, returns its number; 0: none. */
	uint32_t (*match)(void *self, uint32_t peer, uint64_t tag);
	void	(*arrive)(void *self, uint32_t peer, uint64_t tag,
			  uint32_t number);
	/* Removes the earliest matching message, returns its number; 0: none. */
	uint32_t (*claim)(void *self, const struct tagrv_match_want *want);
};

/* The engine first, the linear list second; ends with NULL. */
extern const struct depth_subject *const depth_subjects[];

/* One match: the request, and the number that must be the answer. */
struct depth_request {
	struct tagrv_match_want want;
	uint64_t tag;
	uint32_t peer;
	uint32_t number;
};

/* depth_die.c: prints "match_depth: message" and exits with status 1. */
_Noreturn void depth_die(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));

/* depth_load.c: numbers from a seed, and entry 'number' of a queue. */
uint64_t depth_random(uint64_t *state);
void depth_request_make(struct depth_request *req, enum depth_side side,
			unsigned classes, uint32_t number, uint64_t random);
/* Returns source and ignored bits of class 'nr'. */
struct tagrv_match_want depth_class(unsigned nr);

/* depth_check.c: prints the first difference and returns false if there is one. */
bool depth_check(uint64_t seed);

struct depth_point {
	const struct depth_subject *subject;
	enum depth_side side;
	unsigned classes;
	uint32_t length;
};

/* Negative: not measured. */
struct depth_cost {
	double ns;
	double instructions;
	double lines;		/* fetched into the first-level cache */
};

struct depth_conf {
	double seconds;		/* for each point */
	size_t evict;		/* bytes walked to disturb the caches */
	uint64_t seed;
};

/* depth_time.c. Exits with a message when an answer is wrong. */
void depth_time_init(const struct depth_conf *conf);
void depth_time_fini(void);
void depth_measure(const struct depth_point *point, bool wanted[DEPTH_CACHES],
		   struct depth_cost cost[DEPTH_CACHES]);
/* For valgrind, which is told to count inside match_depth_counted only. */
void depth_count_only(const struct depth_point *point, uint32_t ops, bool cold);
/* Whether the processor's counters may be read. */
bool depth_counters_work(void);

/* depth_result.c: of several results for a point the fastest one is kept. */
void depth_result_add(const struct depth_point *point, enum depth_cache cache,
		      const struct depth_cost *cost);
void depth_result_csv(FILE *out);
/* Prints the targets; false when one is missed or was not measured. */
bool depth_result_judge(FILE *out);

#endif
