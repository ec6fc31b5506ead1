/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A wireup thread that is busy: time that it has lost is not held against its peers. The
 * links take as long to be bound as a test says, by a clock that jumps meanwhile.
 */
#include <semaphore.h>
#include <sys/syscall.h>

#include "unit/wireup/wireup_fixture.h"
#include "wireup/wireup_priv.h"

TestSuite(wireup_busy, .timeout = 60);

/* -- a clock that can jump, for all of this program --------------------------- */

static atomic_ullong jumped_ms;

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = (int) syscall(SYS_clock_gettime, clock, ts);

	if (clock == CLOCK_MONOTONIC) {
		unsigned long long ms = atomic_load(&jumped_ms);

		ts->tv_sec += (time_t) (ms / 1000);
		ts->tv_nsec += (long) (ms % 1000) * 1000000;
		ts->tv_sec += ts->tv_nsec / 1000000000;
		ts->tv_nsec %= 1000000000;
	}
	return ret;
}

static void jump(unsigned ms)
{
	atomic_fetch_add(&jumped_ms, ms);
}

/* -- a device that is slow ----------------------------------------------------- */

static sem_t begun, may_end;
static atomic_int slow_binds;	/* so many of the next ones wait for the test */

static int bind_slowly(struct tagrv_link *link, const void *blob, size_t len)
{
	if (atomic_load(&slow_binds) > 0) {
		atomic_fetch_sub(&slow_binds, 1);
		sem_post(&begun);
		sem_wait(&may_end);
	}
	return fake_bind(link, blob, len);
}

static void open_slow(struct ep *ep, struct tagrv_wireup *wireup, int timeout)
{
	sem_init(&begun, 0, 0);
	sem_init(&may_end, 0, 0);
	open_ep(ep, wireup, timeout);
	ep->fake.ops.link_bind = bind_slowly;
}

static void await_begin(void)
{
	while (sem_wait(&begun))
		;
}

/* The command has taken so long. */
static void end_bind(unsigned ms)
{
	jump(ms);
	sem_post(&may_end);
}

static void ask(struct raw *raw, uint16_t port)
{
	raw->mine.addr = loopback(port);
	raw_send(raw);
}

static void await_rep(struct raw *raw)
{
	struct tagrv_wireup_rec rec;

	cr_assert_eq(raw_recv(raw, &rec), 1, "the socket was reset");
	cr_assert_eq(rec.type, TAGRV_WIREUP_REP);
}

static void close_slow(struct ep *ep, struct tagrv_wireup *wireup)
{
	struct tagrv_wireup_event event;

	while (tagrv_wireup_poll(ep->wep, &event))
		if (event.type == TAGRV_WIREUP_UP)
			fake_free(event.link);
	close_ep(ep);
	tagrv_wireup_destroy(wireup);
}

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
	end_bind(60000);
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
	cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	home_accept(home, &peer);
	cr_assert_eq(raw_recv(&peer, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REQ);
	raw_open(&other, &a, 2);
	atomic_store(&slow_binds, 1);
	ask(&other, 2);
	await_begin();
	end_bind(60000);
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
	close(peer.fd);
	close(home);
	close_slow(&a, wireup);
}

/* The end of the wait comes nevertheless, by the time that we have really waited. */
Test(wireup_busy, silent_peer_is_given_up_although_we_work)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	struct raw peer = { .home = -1 }, other;
	struct tagrv_addr addr;
	int home = home_open(&addr);
	struct ep a;

	open_slow(&a, wireup, 2);
	cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	home_accept(home, &peer);
	cr_assert_eq(raw_recv(&peer, &rec), 1);
	raw_open(&other, &a, 2);
	atomic_store(&slow_binds, 1);
	ask(&other, 2);
	await_begin();
	end_bind(60000);	/* a sixteenth of that is more than its time */
	await(&a, &a.faileds, 1);
	cr_assert_eq(a.failed.status, -FI_ETIMEDOUT);
	close(other.fd);
	close(peer.fd);
	close(home);
	close_slow(&a, wireup);
}
