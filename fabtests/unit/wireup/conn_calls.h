/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Short calls for tests of the connection state machine.
 */
#ifndef FABTESTS_UNIT_WIREUP_CONN_CALLS_H
#define FABTESTS_UNIT_WIREUP_CONN_CALLS_H

#include <criterion/criterion.h>

#include "unit/wireup/conn_driver.h"

#define US	10
#define PEER	20	/* larger uuid than US: the socket that US dials is kept */
#define LESS	5	/* smaller uuid: the socket that LESS dials is kept */

static inline void give(struct driver *d, struct driver_chan *chan,
			enum tagrv_wireup_rec_type type, uint8_t who,
			uint32_t epoch)
{
	struct tagrv_wireup_rec rec = driver_rec(d, type, who, epoch);

	driver_record(d, chan, &rec);
	/* Here all senders are true; test_conn_ask.c has others. */
	if (type == TAGRV_WIREUP_REQ && d->conn.claim)
		driver_answer(d, true);
}

static inline void give_reason(struct driver *d, struct driver_chan *chan,
			enum tagrv_wireup_rec_type type, uint8_t who,
			uint32_t epoch, uint8_t reason)
{
	struct tagrv_wireup_rec rec = driver_rec(d, type, who, epoch);

	rec.reason = reason;
	driver_record(d, chan, &rec);
}

static inline struct driver_chan *ask(struct driver *d)
{
	driver_want(d);
	return driver_answer_dial(d);
}

/* Becomes READY as the active side. */
static inline struct driver_chan *connect_to(struct driver *d, uint8_t who,
				      uint32_t epoch)
{
	struct driver_chan *chan = ask(d);

	give(d, chan, TAGRV_WIREUP_REP, who, epoch);
	cr_assert_eq(d->conn.state, TAGRV_CONN_READY);
	return chan;
}

/* Becomes BOUND as the passive side. */
static inline struct driver_chan *be_asked(struct driver *d, uint8_t who,
				    uint32_t epoch)
{
	struct driver_chan *chan = driver_open(d, false);

	give(d, chan, TAGRV_WIREUP_REQ, who, epoch);
	cr_assert_eq(d->conn.state, TAGRV_CONN_BOUND);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REP);
	return chan;
}

#endif
