/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints of one rank with a shared receive context.
 */
#ifndef FUNCTIONAL_TEAM_H
#define FUNCTIONAL_TEAM_H

#include "fixture.h"

enum { TEAM_EPS = 3 };

/* Endpoint i of one rank is the peer of endpoint i of the other rank. */
struct team {
	struct test *t;
	struct fx fx[TEAM_EPS];
	struct fx about;	/* for entries of the shared context itself */
};

/* Collective, as fx_open_or_skip() is. The first endpoint opens the context. */
void team_open(struct test *t, struct team *team, const struct fx_attr *attr);

/* Opens endpoint i again after it was closed; i must not be 0. */
void team_open_member(struct team *team, int i, struct fx_attr attr);

/* Collective: fails the case if a completion is left. */
void team_close(struct team *team);

/* The endpoint that sends or gets message i: never the same twice in a row. */
static inline int team_way(int i)
{
	return (i * 5 + 1) % TEAM_EPS;
}

#endif
