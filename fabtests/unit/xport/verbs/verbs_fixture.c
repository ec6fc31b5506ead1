/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pairs over fake devices with other limits: see verbs_fixture.h.
 */
#include "unit/xport/verbs/verbs_fixture.h"

#include <criterion/criterion.h>

struct pair pair;
struct fake_verbs_config config;
struct tagrv_params params;

void verbs_prepare(void)
{
	config = fake_verbs_defaults();
	params = pair_params();
}

void verbs_need_srq(void)
{
	if (config.max_srq)
		return;
	config.max_srq = 100;
	config.max_srq_wr = 16384;
	config.imm_as_write = false;	/* no library with SRQs has done that */
}

void verbs_open(void)
{
	pair_open_with(&pair, PAIR_SRQ, &params, &config);
}

void verbs_connect(void)
{
	verbs_open();
	pair_connect(&pair);
	pair_permit(&pair, pair.a->link, pair.b->link);
}

struct verbs_xport *verbs_start_sender(void)
{
	verbs_connect();
	pair.b->forget = true;
	return verbs_xport_of(pair.a->xport);
}

struct verbs_rxq *verbs_queue_of(const struct end *end)
{
	struct verbs_rxq *own = verbs_link_of(end->link)->rxq;

	return own ? own : &verbs_xport_of(end->xport)->pool.rxq;
}

void verbs_send_many(unsigned cnt, size_t len)
{
	for (unsigned i = 0; i < cnt; i++)
		cr_assert_eq(end_send(pair.a, i, len, 0, NULL), 0);
}

unsigned verbs_send_some(struct tagrv_link *link, unsigned cnt)
{
	struct end end = *pair.a;
	unsigned sent = 0;

	end.link = link;
	while (sent < cnt && !end_send(&end, sent, 8, 0, NULL))
		sent++;
	return sent;
}
