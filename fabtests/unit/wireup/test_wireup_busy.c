/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A wireup thread that is busy: time that it has lost is not held against its peers. The
 * links take as long to be bound as a test says, by a clock that jumps meanwhile.
 */
#define SLOW_CLOCK
#include "unit/wireup/wireup_slow.h"
#include "wireup/wireup_priv.h"

TestSuite(wireup_busy, .timeout = 60);

/* -- the clocks ------------------------------------------------------------------ */

Test(wireup_busy, patient_clock_hardly_counts_work)
{
	struct tagrv_wireup wireup = { .now = 0 };
	uint64_t begin;

	tagrv_wireup_clock_init(&wireup);
	cr_assert_eq(wireup.now, wireup.patient);
	begin = wireup.now;
	jump(16000);
	tagrv_wireup_clock_worked(&wireup);
	cr_assert_geq(wireup.now, begin + 16000);
	cr_assert_geq(wireup.patient, begin + 1000, "it does not stand still");
	cr_assert_lt(wireup.patient, begin + 2000);
	begin = wireup.patient;
	jump(3000);
	tagrv_wireup_clock_waited(&wireup, -1);
	cr_assert_geq(wireup.patient, begin + 3000);
}

/* The process was stopped, or other processes had the processors. */
Test(wireup_busy, patient_clock_does_not_count_what_was_slept_over)
{
	struct tagrv_wireup wireup = { .now = 0 };
	uint64_t begin;

	tagrv_wireup_clock_init(&wireup);
	begin = wireup.patient;
	jump(60000);
	tagrv_wireup_clock_waited(&wireup, 100);
	cr_assert_geq(wireup.now, begin + 60000);
	cr_assert_geq(wireup.patient, begin + 100);
	cr_assert_leq(wireup.patient, begin + 1000);
}

/* -- the thread -------------------------------------------------------------------- */

/* More peers than the thread handles at once have sent their REQ in time. */
Test(wireup_busy, requests_that_wait_for_us_are_read_before_their_time_is_over)
{
	enum { PEERS = 150 };
	struct tagrv_wireup *wireup = create();
	static struct raw raws[PEERS];
	struct ep a;

	open_slow(&a, wireup, 30);
	for (int i = 0; i < PEERS; i++)
		raw_open(&raws[i], &a, (uint8_t) (i + 1));
	atomic_store(&slow_binds, 1);
	ask(&raws[0], 1);
	await_begin();
	for (int i = 1; i < PEERS; i++)
		ask(&raws[i], (uint16_t) (i + 1));
	end_bind(120000);
	for (int i = 0; i < PEERS; i++)
		await_rep(&raws[i]);
	cr_assert_eq(log_count("not a peer of ours"), 0);
	for (int i = 0; i < PEERS; i++)
		close(raws[i].fd);
	close_slow(&a, wireup);
}

/* The socket was accepted after the thread had worked for long. */
Test(wireup_busy, accepted_socket_has_its_whole_time)
{
	struct tagrv_wireup *wireup = create();
	struct raw first, second, late;
	struct pollfd pfd;
	struct ep a;

	open_slow(&a, wireup, 30);
	raw_open(&first, &a, 1);
	raw_open(&second, &a, 2);
	atomic_store(&slow_binds, 2);
	ask(&first, 1);
	await_begin();
	ask(&second, 2);
	raw_dial(&late, &a, 3);
	end_bind(100);
	await_begin();		/* of the second; the listener is next in the batch */
	end_bind(60000);
	await_rep(&first);
	await_rep(&second);
	pfd = (struct pollfd) { .fd = late.fd, .events = POLLIN };
	cr_assert_eq(poll(&pfd, 1, 300), 0, "it was reset");
	cr_assert_eq(raw_hello(&late, &a, NULL), 0);
	ask(&late, 3);
	await_rep(&late);
	close(first.fd);
	close(second.fd);
	close(late.fd);
	close_slow(&a, wireup);
}

/*
 * The endpoint asks the peer, which listens at home, and works for 60 s for another one before
 * the peer has answered. Returns what the peer was asked.
 */
static struct tagrv_wireup_rec work_while_one_is_asked(struct ep *a, int home,
						       const struct tagrv_addr *addr,
						       struct raw *peer, struct raw *other)
{
	struct tagrv_wireup_rec rec;

	cr_assert_eq(tagrv_wireup_connect(a->wep, addr), 0);
	home_accept(home, peer);
	cr_assert_eq(raw_recv(peer, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REQ);
	raw_open(other, a, 2);
	atomic_store(&slow_binds, 1);
	ask(other, 2);
	await_begin();
	end_bind(60000);
	return rec;
}

/* The peer has no fault in it that we were busy, so it is not given up. */
Test(wireup_busy, deadlines_are_not_used_up_by_our_work)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	struct raw peer = { .home = -1 }, other;
	struct tagrv_addr addr;
	int home = home_open(&addr);
	struct ep a;

	open_slow(&a, wireup, 20);
	rec = work_while_one_is_asked(&a, home, &addr, &peer, &other);
	await_rep(&other);
	/* The thread has looked at its timers when it answers this one. */
	close(other.fd);
	raw_open(&other, &a, 4);
	close(other.fd);
	collect(&a);
	cr_assert_eq(a.faileds, 0);
	fake_free(a.up.link);
	peer.mine = rec;
	peer.mine.type = TAGRV_WIREUP_REP;
	memset(peer.mine.src_uuid, 9, TAGRV_UUID_LEN);
	peer.mine.src_epoch = 1;
	raw_name_link(&peer, &rec);
	peer.mine.addr = addr;
	raw_send(&peer);
	await(&a, &a.ups, 2);
	cr_assert_eq(a.faileds, 0);
	fake_free(a.up.link);
	close(peer.fd);
	close(home);
	close_slow(&a, wireup);
}

/* The end of the wait comes nevertheless, by the time that we have really waited. */
Test(wireup_busy, silent_peer_is_given_up_although_we_work)
{
	struct tagrv_wireup *wireup = create();
	struct raw peer = { .home = -1 }, other;
	struct tagrv_addr addr;
	int home = home_open(&addr);
	struct ep a;

	open_slow(&a, wireup, 2);
	/* A sixteenth of our work is more than its time. */
	work_while_one_is_asked(&a, home, &addr, &peer, &other);
	await(&a, &a.faileds, 1);
	cr_assert_eq(a.failed.status, -FI_ETIMEDOUT);
	if (a.ups)
		fake_free(a.up.link);
	close(other.fd);
	close(peer.fd);
	close(home);
	close_slow(&a, wireup);
}
