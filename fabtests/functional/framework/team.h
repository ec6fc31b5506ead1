/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints of one rank that share their receives.
 */
#ifndef FUNCTIONAL_TEAM_H
#define FUNCTIONAL_TEAM_H

#include "fixture.h"

enum { TEAM_EPS = 3 };

/* Each endpoint is the peer of the same one of the other rank. */
struct team {
	struct test *t;
	struct fx fx[TEAM_EPS];
	struct fx about;	/* to read what is about the context alone */
};

/* Collective, as fx_open_or_skip() is. The first one opens the context. */
void team_open(struct test *t, struct team *team, const struct fx_attr *attr);

/* Puts a new endpoint in the place of one that was closed; not the first. */
void team_open_member(struct team *team, int i, struct fx_attr attr);

/* Collective: fails on any completion nobody asked for. */
void team_close(struct team *team);

/* By which endpoint message i shall travel: never the same twice in a row. */
static inline int team_way(int i)
{
	return (i * 5 + 1) % TEAM_EPS;
}

#endif
