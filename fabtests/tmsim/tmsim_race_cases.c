/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Commands and messages that cross each other. Commands are held, so that each
 * case says which comes first.
 */
#include <string.h>

#include "tmsim/tmsim_control.h"
#include "tmsim/tmsim_pair.h"

#define ALL		UINT64_MAX
#define DONE		(IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID)

static bool hold(struct pair *pair)
{
	return pair_delays(pair, TMSIM_HOLD, 0, 0);
}

/* Sends a message and sees that no entry takes it. */
static bool send_unexpected(struct pair *pair, uint64_t tag)
{
	struct got got;

	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, tag, 0, "", 0));
	CHECK(pair_next(pair, &got));
	CHECK(got.opcode == IBV_WC_TM_RECV && !got.status && !got.flags && got.tag == tag);
	return pair_repost(pair, got.wr_id);
}

static bool send_expected(struct pair *pair, uint64_t tag, uint64_t wr_id)
{
	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, tag, 0, "", 0));
	return pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, DONE, wr_id);
}

static bool add_done(struct pair *pair, uint64_t wr_id, unsigned flags)
{
	return pair_expect(pair, IBV_WC_TM_ADD, IBV_WC_SUCCESS, flags, wr_id + COMMAND);
}

/*
 * The device gets the entry after the message that it was meant for. It may not take
 * a later one, until software has told that it has seen the first.
 */
static bool post_crosses_unexpected(struct pair *pair)
{
	CHECK(hold(pair));
	CHECK(!pair_add(pair, 1, 7, ALL, 0, 8, 0, NULL));
	CHECK(send_unexpected(pair, 7));
	CHECK(pair_apply(pair));
	CHECK(add_done(pair, 1, IBV_WC_TM_SYNC_REQ));
	CHECK(send_unexpected(pair, 7));
	/* One of two is not enough. */
	CHECK(!pair_sync(pair, 2, 1) && pair_apply(pair));
	CHECK(pair_expect(pair, IBV_WC_TM_SYNC, IBV_WC_SUCCESS, 0, 2 + COMMAND));
	CHECK(send_unexpected(pair, 7));
	CHECK(!pair_sync(pair, 3, 3) && pair_apply(pair));
	CHECK(pair_expect(pair, IBV_WC_TM_SYNC, IBV_WC_SUCCESS, 0, 3 + COMMAND));
	return send_expected(pair, 7, 1);
}

/* The next entry tells the count as well. */
static bool next_add_syncs(struct pair *pair)
{
	CHECK(send_unexpected(pair, 7));
	CHECK(!pair_add(pair, 1, 7, ALL, 0, 8, 0, NULL));
	CHECK(add_done(pair, 1, IBV_WC_TM_SYNC_REQ));
	CHECK(!pair_add(pair, 2, 8, ALL, 0, 8, 1, NULL));
	CHECK(add_done(pair, 2, 0));
	CHECK(send_expected(pair, 7, 1));
	return send_expected(pair, 8, 2);
}

/* A count that is not told changes nothing. */
static bool add_tells_nothing(struct pair *pair)
{
	CHECK(send_unexpected(pair, 7));
	CHECK(!pair_add(pair, 1, 7, ALL, 0, 8, 1 | UNTOLD, NULL));
	CHECK(add_done(pair, 1, IBV_WC_TM_SYNC_REQ));
	CHECK(send_unexpected(pair, 7));
	CHECK(!pair_sync(pair, 2, 2));
	CHECK(pair_expect(pair, IBV_WC_TM_SYNC, IBV_WC_SUCCESS, 0, 2 + COMMAND));
	return send_expected(pair, 7, 1);
}

static bool silent_add(struct pair *pair)
{
	CHECK(!pair_add(pair, 1, 7, ALL, 0, 8, 0 | SILENT, NULL));
	CHECK(send_expected(pair, 7, 1));
	return pair_quiet(pair);
}

static bool cancel_crosses_match(struct pair *pair)
{
	uint32_t handle;

	CHECK(!pair_add(pair, 1, 7, ALL, 0, 8, 0, &handle));
	CHECK(add_done(pair, 1, 0));
	CHECK(hold(pair));
	CHECK(!pair_del(pair, 1, handle));
	CHECK(send_expected(pair, 7, 1));
	CHECK(pair_apply(pair));
	CHECK(pair_expect(pair, IBV_WC_TM_DEL, IBV_WC_TM_ERR, 0, 1 + COMMAND));
	return pair_quiet(pair);
}

static bool cancel_comes_first(struct pair *pair)
{
	uint32_t handle;

	CHECK(!pair_add(pair, 1, 7, ALL, 0, 8, 0, &handle));
	CHECK(add_done(pair, 1, 0));
	CHECK(!pair_del(pair, 1, handle));
	CHECK(pair_expect(pair, IBV_WC_TM_DEL, IBV_WC_SUCCESS, 0, 1 + COMMAND));
	CHECK(send_unexpected(pair, 7));
	return pair_quiet(pair);
}

/* Even the command that adds it may not have taken effect yet. */
static bool cancel_follows_add(struct pair *pair)
{
	uint32_t handle;

	CHECK(hold(pair));
	CHECK(!pair_add(pair, 1, 7, ALL, 0, 8, 0, &handle));
	CHECK(!pair_del(pair, 2, handle));
	CHECK(pair_apply(pair) && pair_apply(pair));
	CHECK(add_done(pair, 1, 0));
	CHECK(pair_expect(pair, IBV_WC_TM_DEL, IBV_WC_SUCCESS, 0, 2 + COMMAND));
	return send_unexpected(pair, 7);
}

/* The read of a rendezvous has begun: the entry stays until its bytes are there. */
static bool cancel_crosses_rendezvous(struct pair *pair)
{
	uint32_t handle;
	unsigned i, data = 0;
	struct got got;

	CHECK(!pair_add(pair, 1, 7, ALL, 0, AREA, 0, &handle));
	CHECK(add_done(pair, 1, 0));
	memset(pair->a.area, 'r', AREA);
	CHECK(pair_send_rndv(pair, 0, 7, 0, AREA));
	CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_MATCH, 1));
	CHECK(!pair_del(pair, 1, handle));
	for (i = 0; i < 2; i++) {
		CHECK(pair_next(pair, &got));
		if (got.opcode == IBV_WC_TM_DEL)
			CHECK(got.status == IBV_WC_TM_ERR);
		else
			data += got.flags == IBV_WC_TM_DATA_VALID && !got.status;
	}
	CHECK(data == 1 && !memcmp(pair->a.area, pair->b.area, AREA));
	return pair_fins(pair, 1);
}

/* What was delayed comes in the order of the commands, after so many polls and not before. */
static bool delays_count_polls(struct pair *pair)
{
	struct got got;
	unsigned i;

	CHECK(pair_delays(pair, 3, 2, 0));
	CHECK(!pair_add(pair, 1, 7, ALL, 0, 8, 0, NULL));
	for (i = 0; i < 4; i++)
		CHECK(!pair_poll(pair, &got));
	CHECK(pair_poll(pair, &got));
	CHECK(got.opcode == IBV_WC_TM_ADD && got.wr_id == 1 + COMMAND);
	return send_expected(pair, 7, 1);
}

const struct tmsim_case race_cases[] = {
	{ "post_crosses_unexpected", post_crosses_unexpected },
	{ "next_add_syncs", next_add_syncs },
	{ "add_tells_nothing", add_tells_nothing },
	{ "silent_add", silent_add },
	{ "cancel_crosses_match", cancel_crosses_match },
	{ "cancel_comes_first", cancel_comes_first },
	{ "cancel_follows_add", cancel_follows_add },
	{ "cancel_crosses_rendezvous", cancel_crosses_rendezvous },
	{ "delays_count_polls", delays_count_polls },
	{ NULL, NULL },
};
