/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection state machine, scripted event by event: REQs that may be sent in
 * the name of somebody else. "Claimer" is the socket on which such a REQ comes.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/wireup/conn_calls.h"

#define OTHER	30		/* the uuid of a stranger, or of the restarted peer */

/* A REQ comes on a new socket. Returns the socket. */
static struct driver_chan *claim(struct driver *d, uint8_t who, uint32_t epoch)
{
	struct driver_chan *chan = driver_open(d, false);
	struct tagrv_wireup_rec rec = driver_rec(d, TAGRV_WIREUP_REQ, who, epoch);

	driver_record(d, chan, &rec);
	return chan;
}

static bool is_refused(const struct driver_chan *chan,
		       enum tagrv_wireup_reason reason)
{
	const struct tagrv_wireup_rec *rec = driver_last(chan);

	return chan->hung_up && rec->type == TAGRV_WIREUP_REJ &&
	       rec->reason == reason;
}

static unsigned count_asks(const struct driver_chan *chan)
{
	unsigned cnt = 0;

	for (size_t n = 0; n < chan->sent_cnt; n++)
		cnt += chan->sent[n].type == TAGRV_WIREUP_ASK;
	return cnt;
}

/* Nothing of the connection that was READY has changed. */
static void check_unharmed(struct driver *d)
{
	cr_assert_eq(d->conn.state, TAGRV_CONN_READY);
	cr_assert_eq(d->ups, 1);
	cr_assert_eq(d->gones + d->agains + d->faileds, 0);
	cr_assert_not(d->conn.claim);
	cr_assert_not(d->dial);
}

/* -- a connection exists --------------------------------------------------- */

Test(conn_ask, stranger_does_not_end_a_connection, .timeout = 10)
{
	struct driver_chan *chan, *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	chan = connect_to(&d, PEER, 7);
	for (unsigned i = 1; i <= 3; i++) {
		claimer = claim(&d, OTHER, i);
		cr_assert_eq(claimer->sent_cnt, 0);
		cr_assert_eq(count_asks(chan), i, "on the socket that we dialed");
		driver_answer(&d, false);
		cr_assert(is_refused(claimer, TAGRV_WIREUP_STALE));
		check_unharmed(&d);
	}
	driver_fini(&d);
}

Test(conn_ask, stranger_that_knows_the_uuid_does_not_either, .timeout = 10)
{
	struct driver_chan *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	connect_to(&d, PEER, 7);
	/* A later link of the peer: only its listener can confirm it. */
	claimer = claim(&d, PEER, 8);
	driver_answer(&d, false);
	cr_assert(is_refused(claimer, TAGRV_WIREUP_STALE));
	check_unharmed(&d);
	driver_fini(&d);
}

Test(conn_ask, restarted_peer_is_believed, .timeout = 10)
{
	struct driver_chan *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	connect_to(&d, PEER, 7);
	claimer = claim(&d, OTHER, 1);
	cr_assert_eq(d.gones, 0);
	driver_answer(&d, true);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.ups, 2);
	cr_assert_eq(driver_last(claimer)->type, TAGRV_WIREUP_REP);
	cr_assert_eq(d.event.uuid[0], OTHER);
	driver_fini(&d);
}

Test(conn_ask, listener_is_dialed_if_the_peer_had_dialed, .timeout = 10)
{
	struct driver_chan *claimer, *asked;
	struct driver d;

	driver_init(&d, US, LESS);
	give(&d, be_asked(&d, LESS, 7), TAGRV_WIREUP_RTU, LESS, 7);
	for (int yes = 0; yes < 2; yes++) {
		claimer = claim(&d, OTHER, 1);
		cr_assert(d.dial);
		asked = driver_answer_dial(&d);
		cr_assert_eq(count_asks(asked), 1);
		cr_assert_eq(asked->sent_cnt, 1, "no REQ");
		driver_answer(&d, yes);
		cr_assert(asked->hung_up);
		if (!yes)
			check_unharmed(&d);
	}
	cr_assert_eq(driver_last(claimer)->type, TAGRV_WIREUP_REP);
	cr_assert_eq(d.gones, 1);
	driver_fini(&d);
}

Test(conn_ask, no_answer_means_no, .timeout = 10)
{
	static const struct {
		int	status;		/* of the dial; 0: it goes on */
		enum tagrv_wireup_reason reason;
	} cases[] = {
		{ -FI_ECONNREFUSED, TAGRV_WIREUP_STALE },
		{ -FI_EMFILE, TAGRV_WIREUP_BUSY },
		{ 0, TAGRV_WIREUP_BUSY },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct driver_chan *claimer;
		struct driver d;

		driver_init(&d, US, LESS);
		give(&d, be_asked(&d, LESS, 7), TAGRV_WIREUP_RTU, LESS, 7);
		claimer = claim(&d, OTHER, 1);
		if (cases[i].status)
			driver_fail_dial(&d, cases[i].status);
		else
			driver_run_timer(&d);
		cr_assert(is_refused(claimer, cases[i].reason), "case %zu", i);
		check_unharmed(&d);
		cr_assert_eq(d.timer_at, 0);
		driver_fini(&d);
	}
}

Test(conn_ask, broken_question_means_no, .timeout = 10)
{
	struct driver_chan *claimer;
	struct driver d;

	driver_init(&d, US, LESS);
	give(&d, be_asked(&d, LESS, 7), TAGRV_WIREUP_RTU, LESS, 7);
	claimer = claim(&d, OTHER, 1);
	driver_close(&d, driver_answer_dial(&d));
	cr_assert(is_refused(claimer, TAGRV_WIREUP_BUSY));
	check_unharmed(&d);
	driver_fini(&d);
}

Test(conn_ask, claimer_that_leaves_is_forgotten, .timeout = 10)
{
	struct driver_chan *asked = NULL;
	struct driver d;

	driver_init(&d, US, LESS);
	give(&d, be_asked(&d, LESS, 7), TAGRV_WIREUP_RTU, LESS, 7);
	for (int dialed = 0; dialed < 2; dialed++) {
		struct driver_chan *claimer = claim(&d, OTHER, 1);

		if (dialed)
			asked = driver_answer_dial(&d);
		driver_close(&d, claimer);
		check_unharmed(&d);
		cr_assert_eq(d.timer_at, 0);
	}
	cr_assert(asked->hung_up);
	driver_fini(&d);
}

Test(conn_ask, one_claim_waits_at_a_time, .timeout = 10)
{
	struct driver_chan *first, *second;
	struct driver d;

	driver_init(&d, US, PEER);
	connect_to(&d, PEER, 7);
	first = claim(&d, OTHER, 1);
	second = claim(&d, OTHER + 1, 1);
	cr_assert(is_refused(second, TAGRV_WIREUP_BUSY));
	driver_answer(&d, false);
	cr_assert(is_refused(first, TAGRV_WIREUP_STALE));
	check_unharmed(&d);
	driver_fini(&d);
}

/* A stopped peer does not answer; questions must not fill its socket. */
Test(conn_ask, silent_peer_is_not_asked_without_end, .timeout = 10)
{
	for (int same = 0; same < 2; same++) {
		struct driver_chan *chan, *claimer = NULL;
		struct driver d;

		driver_init(&d, US, PEER);
		chan = connect_to(&d, PEER, 7);
		for (uint32_t i = 1; i <= 20; i++) {
			struct tagrv_wireup_rec rec = driver_rec(
				&d, TAGRV_WIREUP_REQ, OTHER, i);

			if (!same && claimer && claimer->open)
				driver_close(&d, claimer);
			if (!same || !claimer || !claimer->open)
				claimer = claim(&d, OTHER, i);
			else
				driver_record(&d, claimer, &rec);
		}
		cr_assert(is_refused(claimer, TAGRV_WIREUP_BUSY));
		cr_assert_leq(count_asks(chan), 4);
		check_unharmed(&d);
		/* It goes on and answers all of them: claims are heard again. */
		while (chan->chan.asks) {
			struct tagrv_wireup_rec rec = driver_rec(
				&d, TAGRV_WIREUP_ANSWER, OTHER, 1);

			rec.reason = TAGRV_WIREUP_STALE;
			driver_record(&d, chan, &rec);
		}
		claimer = claim(&d, OTHER, 21);
		driver_answer(&d, true);
		cr_assert_eq(driver_last(claimer)->type, TAGRV_WIREUP_REP);
		driver_fini(&d);
	}
}

Test(conn_ask, claim_is_replaced_by_a_later_one_of_its_socket, .timeout = 10)
{
	struct tagrv_wireup_rec rec;
	struct driver_chan *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	connect_to(&d, PEER, 7);
	claimer = claim(&d, OTHER, 1);
	/* The peer began again before it knew of the answer. */
	rec = driver_rec(&d, TAGRV_WIREUP_REQ, OTHER, 2);
	driver_record(&d, claimer, &rec);
	driver_answer(&d, true);
	cr_assert_eq(d.ups, 2);
	cr_assert_eq(d.conn.peer_epoch, 2);
	driver_fini(&d);
}

Test(conn_ask, nothing_is_left_to_harm_when_the_connection_ends, .timeout = 10)
{
	struct driver_chan *chan, *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	chan = connect_to(&d, PEER, 7);
	claimer = claim(&d, OTHER, 1);
	/* The peer did die: another process answers at its address. */
	driver_close(&d, chan);
	give_reason(&d, driver_answer_dial(&d), TAGRV_WIREUP_REJ, OTHER, 0,
		    TAGRV_WIREUP_STALE);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(driver_last(claimer)->type, TAGRV_WIREUP_REP);
	cr_assert_eq(d.ups, 2);
	driver_fini(&d);
}

/* The peer ends, and its successor seems to be on another host. */
Test(conn_ask, claim_that_outlives_the_connection_is_dialed_for_at_once, .timeout = 10)
{
	struct driver_chan *chan, *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	d.far = true;
	chan = connect_to(&d, PEER, 7);
	claimer = claim(&d, OTHER, 1);
	give_reason(&d, chan, TAGRV_WIREUP_CLOSE, PEER, 7, TAGRV_WIREUP_OK);
	cr_assert_eq(d.gones, 1);
	cr_assert(d.dial);
	cr_assert_eq(d.hastened, 1, "claims do not wait for other handshakes");
	/* The question that the peer got on its socket counts no more. */
	driver_answer_dial(&d);
	driver_answer(&d, true);
	cr_assert_eq(driver_last(claimer)->type, TAGRV_WIREUP_REP);
	driver_fini(&d);
}

/* The dial was to ask; now it is to find out whether the peer lives. */
Test(conn_ask, lost_sign_of_life_does_not_depend_on_a_claim, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	driver_init(&d, US, LESS);
	chan = be_asked(&d, LESS, 7);
	give(&d, chan, TAGRV_WIREUP_RTU, LESS, 7);
	claim(&d, OTHER, 1);
	tagrv_conn_dialing(&d.conn);
	driver_close(&d, chan);
	driver_run_timer(&d);
	cr_assert_not(d.conn.claim);
	for (int i = 0; i < 100 && !d.gones; i++) {
		driver_begin_dial(&d);
		cr_assert(d.timer_at, "nothing would ever happen");
		driver_run_timer(&d);
	}
	cr_assert_eq(d.gones, 1);
	driver_fini(&d);
}

/* -- records that do not have the nonce ------------------------------------- */

Test(conn_ask, records_without_our_nonce_are_ignored, .timeout = 10)
{
	static const enum tagrv_wireup_rec_type types[] = {
		TAGRV_WIREUP_REP, TAGRV_WIREUP_RTU, TAGRV_WIREUP_CLOSE,
	};
	struct tagrv_wireup_rec rec;
	struct driver_chan *chan;
	struct driver d;

	driver_init(&d, US, PEER);
	chan = be_asked(&d, PEER, 7);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		rec = driver_rec(&d, types[i], PEER, 7);
		rec.dst_nonce[3] ^= 1;
		driver_record(&d, chan, &rec);
		cr_assert_eq(d.conn.state, TAGRV_CONN_BOUND, "type %d", types[i]);
		cr_assert(chan->open);
	}
	/* A CLOSE of somebody who has got no record of ours needs the peer's nonce. */
	rec = driver_rec(&d, TAGRV_WIREUP_CLOSE, PEER, 7);
	rec.dst_epoch = 0;
	rec.src_nonce[3] ^= 1;
	driver_record(&d, chan, &rec);
	cr_assert_eq(d.conn.state, TAGRV_CONN_BOUND);
	driver_fini(&d);
}

Test(conn_ask, forged_copy_of_a_request_is_ignored, .timeout = 10)
{
	struct driver_chan *chan, *forger;
	struct tagrv_wireup_rec rec;
	struct driver d;

	driver_init(&d, US, PEER);
	chan = be_asked(&d, PEER, 7);
	forger = driver_open(&d, false);
	rec = driver_rec(&d, TAGRV_WIREUP_REQ, PEER, 7);
	rec.src_nonce[0] ^= 1;
	driver_record(&d, forger, &rec);
	cr_assert(forger->hung_up);
	cr_assert_eq(forger->sent_cnt, 0, "it learns nothing");
	cr_assert(chan->open);
	give(&d, chan, TAGRV_WIREUP_RTU, PEER, 7);
	check_unharmed(&d);
	driver_fini(&d);
}

/* -- a connection is wanted --------------------------------------------------- */

Test(conn_ask, stranger_does_not_disturb_an_attempt, .timeout = 10)
{
	struct driver_chan *chan, *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	claimer = claim(&d, OTHER, 1);
	chan = driver_answer_dial(&d);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REQ);
	cr_assert_eq(count_asks(chan), 1);
	driver_answer(&d, false);
	cr_assert(is_refused(claimer, TAGRV_WIREUP_STALE));
	cr_assert_eq(d.ups + d.faileds, 0);
	give(&d, chan, TAGRV_WIREUP_REP, PEER, 7);
	check_unharmed(&d);
	driver_fini(&d);
}

Test(conn_ask, request_of_the_true_peer_crosses_ours, .timeout = 10)
{
	struct driver_chan *chan, *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	claimer = claim(&d, PEER, 7);
	chan = driver_answer_dial(&d);
	/* Its answer to our REQ is first: that proves the REQ, too. */
	give(&d, chan, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_not(d.conn.claim);
	cr_assert_eq(driver_last(claimer)->type, TAGRV_WIREUP_REP);
	cr_assert_eq(d.ups, 1);
	cr_assert_eq(d.gones + d.agains, 0);
	driver_fini(&d);
}

/* Its socket must not stay open: the peer would hang up the one that we hold. */
Test(conn_ask, older_request_of_the_true_peer_is_hung_up, .timeout = 10)
{
	struct driver_chan *chan, *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	claimer = claim(&d, PEER, 6);
	chan = driver_answer_dial(&d);
	give(&d, chan, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_not(d.conn.claim);
	cr_assert_not(claimer->open);
	cr_assert(chan->open);
	cr_assert_eq(d.ups, 1);
	cr_assert_eq(d.gones + d.agains, 0);
	driver_fini(&d);
}

Test(conn_ask, claim_ends_a_pause, .timeout = 10)
{
	struct driver_chan *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	driver_fail_dial(&d, -FI_ECONNREFUSED);
	cr_assert_not(d.dial);
	claimer = claim(&d, PEER, 1);
	cr_assert(d.dial, "somebody may listen there now");
	driver_answer(&d, true);
	cr_assert_eq(driver_last(claimer)->type, TAGRV_WIREUP_REP);
	driver_fini(&d);
}

Test(conn_ask, attempt_survives_refused_claims, .timeout = 10)
{
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	for (int i = 0; i < 5; i++) {
		struct driver_chan *claimer = claim(&d, OTHER, 1);

		driver_fail_dial(&d, -FI_ETIMEDOUT);
		cr_assert(is_refused(claimer, TAGRV_WIREUP_BUSY));
		driver_run_timer(&d);
		cr_assert(d.dial);
	}
	/* The dial itself is silent: the claim does not keep it alive. */
	claim(&d, OTHER, 1);
	while (d.conn.state != TAGRV_CONN_IDLE) {
		driver_begin_dial(&d);
		cr_assert(d.timer_at);
		driver_run_timer(&d);
	}
	cr_assert_eq(d.faileds, 1);
	driver_fini(&d);
}

/* -- nothing exists --------------------------------------------------------- */

Test(conn_ask, other_host_is_asked_before_anything_exists, .timeout = 10)
{
	struct driver_chan *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	d.far = true;
	claimer = claim(&d, OTHER, 1);
	cr_assert_eq(d.ups, 0);
	cr_assert(d.dial);
	driver_fail_dial(&d, -FI_ECONNREFUSED);
	cr_assert(is_refused(claimer, TAGRV_WIREUP_STALE));
	cr_assert(tagrv_conn_is_idle(&d.conn), "nothing is kept of it");
	cr_assert_eq(d.asked_well, 0);
	claimer = claim(&d, OTHER, 1);
	driver_answer(&d, true);
	cr_assert_eq(d.asks, 2);
	cr_assert_eq(d.asked_well, 1);
	cr_assert_eq(d.ups, 1);
	cr_assert_eq(driver_last(claimer)->type, TAGRV_WIREUP_REP);
	driver_fini(&d);
}

Test(conn_ask, no_listener_is_asked_too_often, .timeout = 10)
{
	struct driver_chan *claimer;
	struct driver d;

	driver_init(&d, US, PEER);
	d.far = d.no_asks = true;
	claimer = claim(&d, OTHER, 1);
	cr_assert(is_refused(claimer, TAGRV_WIREUP_BUSY));
	cr_assert(tagrv_conn_is_idle(&d.conn));
	cr_assert_not(d.dial);
	driver_fini(&d);
}

Test(conn_ask, connection_is_wanted_while_a_listener_is_asked, .timeout = 10)
{
	for (int dialed = 0; dialed < 2; dialed++) {
		struct driver_chan *chan;
		struct driver d;

		driver_init(&d, US, PEER);
		d.far = true;
		claim(&d, OTHER, 1);
		if (dialed)
			driver_answer_dial(&d);
		driver_want(&d);
		cr_assert(d.dial);
		chan = driver_answer_dial(&d);
		cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REQ);
		driver_answer(&d, false);
		give(&d, chan, TAGRV_WIREUP_REP, PEER, 7);
		check_unharmed(&d);
		driver_fini(&d);
	}
}

/* -- answers ------------------------------------------------------------------ */

Test(conn_ask, only_the_own_request_is_confirmed, .timeout = 10)
{
	struct tagrv_wireup_rec rec;
	struct driver_chan *chan, *asker;
	struct driver d;

	driver_init(&d, US, PEER);
	chan = ask(&d);
	for (int what = 0; what < 4; what++) {
		rec = driver_rec(&d, TAGRV_WIREUP_ASK, PEER, 0);
		rec.dst_nonce[1] ^= what == 1;
		rec.dst_uuid[1] ^= what == 2;
		rec.dst_epoch ^= what == 3;
		asker = driver_open(&d, false);
		driver_record(&d, asker, &rec);
		cr_assert_eq(driver_last(asker)->type, TAGRV_WIREUP_ANSWER);
		cr_assert_eq(driver_last(asker)->reason, what ?
			     TAGRV_WIREUP_STALE : TAGRV_WIREUP_OK, "case %d", what);
		cr_assert(asker->hung_up);
	}
	give(&d, chan, TAGRV_WIREUP_REP, PEER, 7);
	driver_fini(&d);
}
