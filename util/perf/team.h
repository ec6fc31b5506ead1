/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The coordinator's side of a team: pairs of processes that measure one provider together
 * (perf.h has the drawing).
 */
#ifndef PERF_TEAM_H
#define PERF_TEAM_H

#include <stdint.h>
#include <sys/types.h>

#include "hist.h"
#include "perf.h"
#include "talk.h"

struct team {
	struct perf_hello hello;
	size_t	pairs;
	struct perf_about about;
	bool	open;
	char	why[512];		/* what failed, for one line */
	unsigned timeout;
	struct {
		int	fd;		/* to the lead */
		pid_t	lead, follower;	/* follower 0: on the server's host */
	} members[PERF_PAIRS_MAX];
};

/* Sum of what the leads of a team measured in one round. */
struct team_result {
	double	seconds;		/* the slowest pair's */
	double	per_second;		/* of all pairs together */
	double	unit;			/* s of one operation: mean of the pairs */
	double	shares[2];
	double	pause;			/* s, the longest of all pairs */
};

/*
 * Each returns 0, or -1 with why set; then the team is closed. Times of the round are added
 * to hist.
 */
int team_open(struct team *team, const struct perf_options *opt, const struct perf_hello *hello,
	      size_t pairs);
int team_round(struct team *team, const struct perf_order *order, double expected,
	       struct team_result *result, struct hist *hist);

/* Ends the processes; harmless for a team that is not open. */
void team_close(struct team *team);

#endif
