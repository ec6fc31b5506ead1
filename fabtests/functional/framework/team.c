/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints with a shared receive context: see team.h.
 */
#include "team.h"
#include "completion.h"

void team_open_member(struct team *team, int i, struct fx_attr attr)
{
	attr.srx = true;
	attr.share = i ? &team->fx[0] : NULL;
	fx_open_or_skip(team->t, &team->fx[i], &attr, "shared receive context");
}

void team_open(struct test *t, struct team *team, const struct fx_attr *attr)
{
	team->t = t;
	for (int i = 0; i < TEAM_EPS; i++)
		team_open_member(team, i, *attr);
	team->about = team->fx[0];
	if (attr->srx_queue)
		team->about.cq[FX_RX] = team->about.cq[FX_TX] = team->fx[0].srx_cq;
}

void team_close(struct team *team)
{
	fx_barrier(&team->fx[0]);
	for (int i = 0; i < TEAM_EPS; i++)
		COMP_NONE(&team->fx[i], 0);
	COMP_NONE(&team->about, 0);
	for (int i = TEAM_EPS - 1; i >= 0; i--)
		fx_close_now(&team->fx[i]);
}
