/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Commands of devices in workers: the wireup thread serves all others meanwhile, and keeps
 * what comes for the peer of the command.
 */
#include "common/alloc_fail.h"
#include "unit/wireup/wireup_slow.h"

TestSuite(wireup_run, .timeout = 60);

enum { WORKERS = 2 };

static struct ep a;

/* Links that UP has handed over are the engine's, which is not there: they are no leaks. */
static struct tagrv_link *made[128];
static atomic_uint made_cnt;

static int create_kept(struct tagrv_xport *xport, void *blob, size_t *len,
		       struct tagrv_link **link)
{
	int ret = fake_create(xport, blob, len, link);

	if (!ret)
		made[atomic_fetch_add(&made_cnt, 1) % 128] = *link;
	return ret;
}

static struct tagrv_wireup *begin(int binds)
{
	struct tagrv_wireup *wireup = create();

	open_slow_with(&a, wireup, 30, WORKERS);
	a.fake.ops.link_create = create_kept;
	atomic_store(&slow_binds, binds);
	return wireup;
}

/* A raw peer that understands WAIT. */
static void open_patient(struct raw *raw, uint8_t who)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	size_t len;

	raw_dial(raw, &a, who);
	cr_assert_eq(tagrv_hello_init(&raw->hello, NULL, true), 0);
	tagrv_hello_tell(&raw->hello, TAGRV_HELLO_WAIT);
	len = tagrv_hello_first(&raw->hello, buf);
	cr_assert_eq(send(raw->fd, buf, len, MSG_NOSIGNAL), (ssize_t) len);
	len = raw_read(raw, buf);
	cr_assert_eq(tagrv_hello_answered(&raw->hello, buf, len, &a.name), 0);
	raw->mine.addr = loopback(who);
}

static void await_type(struct raw *raw, enum tagrv_wireup_rec_type type)
{
	struct tagrv_wireup_rec rec;

	cr_assert_eq(raw_recv(raw, &rec), 1, "the socket has ended");
	cr_assert_eq(rec.type, type, "got %d", rec.type);
}

/* The machine may be so slow that WAITs come before. */
static void await_last(struct raw *raw, enum tagrv_wireup_rec_type type)
{
	struct tagrv_wireup_rec rec;

	do
		cr_assert_eq(raw_recv(raw, &rec), 1, "the socket has ended");
	while (rec.type == TAGRV_WIREUP_WAIT);
	cr_assert_eq(rec.type, type, "got %d", rec.type);
}

static void await_answer(struct raw *raw)
{
	await_last(raw, TAGRV_WIREUP_REP);
}

static bool has_input(const struct raw *raw)
{
	struct pollfd pfd = { .fd = raw->fd, .events = POLLIN };

	return poll(&pfd, 1, 0) > 0;
}

/* WAITs, which a slow machine brings, are read and forgotten. */
static bool has_answer(struct raw *raw)
{
	struct tagrv_wireup_rec rec;

	while (has_input(raw))
		if (raw_recv(raw, &rec) != 1 || rec.type != TAGRV_WIREUP_WAIT)
			return true;
	return false;
}

/* When another peer is answered, the thread has seen all that came before. */
static void come_by(struct raw *other)
{
	open_patient(other, 2);
	deliver(other);
	await_answer(other);
}

/* Returns whether the peer was told to wait before it had its answer. */
static bool ask_question(struct raw *raw)
{
	enum tagrv_wireup_rec_type type = raw->mine.type;
	struct tagrv_wireup_rec rec;
	bool told = false;

	raw->mine.type = TAGRV_WIREUP_ASK;
	deliver(raw);
	raw->mine.type = type;
	for (;;) {
		cr_assert_eq(raw_recv(raw, &rec), 1, "the socket has ended");
		if (rec.type != TAGRV_WIREUP_WAIT)
			break;
		told = true;
	}
	cr_assert_eq(rec.type, TAGRV_WIREUP_ANSWER, "got %d", rec.type);
	return told;
}

Test(wireup_run, thread_answers_others_while_a_command_blocks)
{
	struct tagrv_wireup *wireup = begin(1);
	struct raw slow, other;

	open_patient(&slow, 1);
	deliver(&slow);
	await_begin();
	come_by(&other);
	(void) ask_question(&slow);
	end_bind(0);
	await_answer(&slow);
	close(slow.fd);
	close(other.fd);
	close_slow(&a, wireup);
}

/* Neither those in the queue, nor those whose command runs, think that nobody is there. */
Test(wireup_run, peers_are_told_to_wait_while_all_workers_are_at_work)
{
	struct tagrv_wireup *wireup = begin(WORKERS + 1);
	struct raw raws[WORKERS + 1];
	bool told;

	for (int i = 0; i <= WORKERS; i++) {
		open_patient(&raws[i], (uint8_t) (i + 1));
		deliver(&raws[i]);
		if (i < WORKERS)
			await_begin();
	}
	(void) ask_question(&raws[WORKERS]);	/* its request has been read */
	jump(2500);
	told = ask_question(&raws[WORKERS]);	/* the thread looks at its clock */
	for (int i = 0; i < WORKERS + !told; i++)
		await_type(&raws[i], TAGRV_WIREUP_WAIT);
	cr_assert_eq(sem_trywait(&begun), -1, "more commands than workers");
	for (int i = 0; i <= WORKERS; i++)
		end_bind(0);
	for (int i = 0; i <= WORKERS; i++)
		await_answer(&raws[i]);
	for (int i = 0; i <= WORKERS; i++)
		close(raws[i].fd);
	close_slow(&a, wireup);
}

/* The engine wants the peer whose request is being answered. */
Test(wireup_run, commands_of_the_engine_wait_for_the_connection_s)
{
	struct tagrv_wireup *wireup = begin(1);
	struct tagrv_addr addr;
	int home = home_open(&addr);
	struct raw peer, other;

	open_patient(&peer, 1);
	peer.mine.addr = addr;
	deliver(&peer);
	await_begin();
	cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	open_patient(&other, 2);	/* the command has been looked at when it is answered */
	deliver(&other);
	await_answer(&other);
	end_bind(0);
	await_answer(&peer);
	open_patient(&other, 3);
	deliver(&other);
	await_answer(&other);
	cr_assert_eq(atomic_load(&a.fake.created), 3, "one for each peer");
	close(peer.fd);
	close(other.fd);
	close(home);
	close_slow(&a, wireup);
}

/* It has asked, and has gone before it was answered. */
Test(wireup_run, peer_that_leaves_during_its_command_is_gone_after_it)
{
	struct tagrv_wireup *wireup = begin(1);
	struct tagrv_addr addr;
	int home = home_open(&addr);
	struct raw peer, other;

	open_patient(&peer, 1);
	peer.mine.addr = addr;
	deliver(&peer);
	await_begin();
	close(home);
	close(peer.fd);
	come_by(&other);
	cr_assert_eq(atomic_load(&a.fake.discarded), 0);
	end_bind(0);
	await(&a, &a.gones, 1);
	cr_assert_eq(a.gone.status, -FI_ECONNRESET);
	cr_assert_eq(a.faileds, 0);
	fake_free(a.up.link);
	close(other.fd);
	close_slow(&a, wireup);
}

/* The records behind the one that is being answered come after it. */
Test(wireup_run, records_behind_keep_their_order)
{
	struct tagrv_wireup *wireup = begin(1);
	struct raw peer;

	open_patient(&peer, 1);
	deliver(&peer);
	await_begin();
	deliver(&peer);			/* a repetition */
	peer.mine.src_epoch = 2;	/* the peer has begun again, */
	peer.mine.src_nonce[0]++;
	deliver(&peer);
	peer.mine.type = TAGRV_WIREUP_CLOSE;	/* and given up */
	deliver(&peer);
	end_bind(0);
	await_answer(&peer);
	await_answer(&peer);
	await(&a, &a.gones, 2);
	cr_assert_eq(a.gone.status, 0);
	cr_assert_eq(a.ups, 2);
	cr_assert_eq(atomic_load(&a.fake.created), 2);
	cr_assert_eq(log_count("not a peer of ours"), 0);
	close(peer.fd);
	close_slow(&a, wireup);
}

/* The device works for a renewal that the connected peer wants. */
static void begin_renewal(struct raw *peer, int home, const struct tagrv_addr *addr)
{
	raw_connect_from(peer, &a, 1, 1, home, addr);
	atomic_store(&slow_binds, 1);
	peer->mine.type = TAGRV_WIREUP_REQ;
	peer->mine.reason = TAGRV_WIREUP_RENEWAL;
	peer->mine.src_epoch = 2;
	peer->mine.src_nonce[0] = 2;
	deliver(peer);
	await_begin();
}

/* Nor does its socket end, on which the command's answer is due. */
Test(wireup_run, record_without_memory_waits_for_the_command)
{
	struct tagrv_wireup *wireup = begin(0);
	struct raw peer, other;

	if (!alloc_fail_works())
		cr_skip_test("the allocator is not ours");
	come_by(&other);
	begin_renewal(&peer, -1, NULL);
	peer.mine.src_epoch = 3;
	peer.mine.src_nonce[0] = 3;
	alloc_fail_arm(1, false);
	deliver(&peer);
	(void) ask_question(&other);	/* what came before has been looked at */
	cr_assert_geq(alloc_fail_disarm(), 1);
	cr_assert_not(has_input(&peer), "it is refused, or closed");
	end_bind(0);
	await_answer(&peer);
	await_answer(&peer);
	close(peer.fd);
	close(other.fd);
	close_slow(&a, wireup);
}

/* Else the link that is being bound would end under the command. */
Test(wireup_run, connection_that_is_dropped_ends_after_its_command)
{
	struct tagrv_wireup *wireup = begin(0);
	struct raw peer, other;

	begin_renewal(&peer, -1, NULL);
	cr_assert_eq(tagrv_wireup_has_event(tagrv_wireup_event_cnt(a.wep)), false);
	tagrv_wireup_drop(a.wep, &a.up.addr, a.up.epoch);
	fake_free(a.up.link);
	come_by(&other);
	cr_assert_eq(atomic_load(&a.fake.discarded), 0);
	end_bind(0);
	await_answer(&peer);
	await_type(&peer, TAGRV_WIREUP_CLOSE);
	while (!atomic_load(&a.fake.discarded))
		sched_yield();
	cr_assert_eq(atomic_load(&a.fake.discarded), 1);
	close(peer.fd);
	close(other.fd);
	close_slow(&a, wireup);
}

/* Somebody asks in the name of the peer, whose listener accepts, but does not answer. */
Test(wireup_run, dial_that_fails_meanwhile_is_told_after_the_command)
{
	struct tagrv_wireup *wireup = begin(0);
	struct raw peer, stranger, other;
	struct tagrv_addr addr;
	int home = home_open(&addr), fd;

	begin_renewal(&peer, home, &addr);
	end_bind(0);
	await_answer(&peer);
	open_patient(&stranger, 3);
	stranger.mine.addr = addr;
	deliver(&stranger);
	fd = accept(home, NULL, NULL);	/* and no HELLO comes back */
	cr_assert_geq(fd, 0);
	atomic_store(&slow_binds, 1);
	peer.mine.src_epoch = 3;
	peer.mine.src_nonce[0] = 3;
	deliver(&peer);
	await_begin();
	close(fd);
	come_by(&other);	/* and stays: if it left, it would be gone, too */
	cr_assert_not(has_answer(&stranger), "its claim was looked at");
	end_bind(0);
	await_answer(&peer);
	await_last(&stranger, TAGRV_WIREUP_REJ);
	collect(&a);
	cr_assert_eq(a.faileds + a.gones, 0);
	close(peer.fd);
	close(stranger.fd);
	close(other.fd);
	close(home);
	close_slow(&a, wireup);
}

/* A restarted peer, whose request its listener has confirmed, is not refused for our slowness. */
Test(wireup_run, claim_has_patience_while_its_answer_waits_for_devices)
{
	struct tagrv_wireup *wireup = begin(0);
	struct raw peer, again, raws[WORKERS];
	struct tagrv_addr addr;
	int home = home_open(&addr);

	raw_connect_from(&peer, &a, 1, 1, home, &addr);
	fake_free(a.up.link);
	atomic_store(&slow_binds, WORKERS);
	for (int i = 0; i < WORKERS; i++) {
		open_patient(&raws[i], (uint8_t) (i + 2));
		deliver(&raws[i]);
		await_begin();
	}
	open_patient(&again, 9);
	again.mine.addr = addr;
	deliver(&again);
	cr_assert(home_answer(home, again.mine.src_nonce));
	await_type(&again, TAGRV_WIREUP_WAIT);
	jump(4000);
	(void) ask_question(&raws[0]);
	await_type(&again, TAGRV_WIREUP_WAIT);
	for (int i = 0; i < WORKERS; i++)
		end_bind(0);
	await_answer(&again);
	await(&a, &a.gones, 1);
	cr_assert_eq(a.gone.status, -FI_ECONNRESET, "of the peer before its restart");
	for (int i = 0; i < WORKERS; i++)
		close(raws[i].fd);
	close(peer.fd);
	close(again.fd);
	close(home);
	fake_free(a.up.link);
	close_slow(&a, wireup);
}

/* An attempt to connect is not given up for the turn that our own devices do not give it. */
Test(wireup_run, dialed_socket_waits_for_its_turn)
{
	struct tagrv_wireup *wireup = begin(WORKERS);
	struct raw raws[WORKERS], peer;
	struct tagrv_wireup_rec rec;
	struct tagrv_addr addr;
	int home = home_open(&addr);

	for (int i = 0; i < WORKERS; i++) {
		open_patient(&raws[i], (uint8_t) (i + 1));
		deliver(&raws[i]);
		await_begin();
	}
	cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	home_accept(home, &peer);
	/* Longer than an attempt, and than the time to connect. */
	for (int i = 0; i < 20; i++) {
		(void) ask_question(&raws[0]);
		jump(2500);
	}
	(void) ask_question(&raws[0]);
	cr_assert_not(has_input(&peer), "it is closed");
	for (int i = 0; i < WORKERS; i++)
		end_bind(0);
	cr_assert_eq(raw_recv(&peer, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REQ);
	collect(&a);
	cr_assert_eq(a.faileds, 0);
	for (int i = 0; i < WORKERS; i++) {
		await_answer(&raws[i]);
		close(raws[i].fd);
	}
	close(peer.fd);
	close(home);
	close_slow(&a, wireup);
}

static void *close_it(void *arg)
{
	tagrv_wireup_unlisten(a.wep);
	atomic_store((atomic_bool *) arg, true);
	return NULL;
}

/* The link of a command that runs must have ended before the transport is closed. */
Test(wireup_run, endpoint_is_closed_when_its_commands_have_ended)
{
	struct tagrv_wireup *wireup = begin(WORKERS);
	struct raw raws[WORKERS + 1];
	atomic_bool closed = false;
	pthread_t thread;
	struct ep b;

	open_ep(&b, wireup, 30);
	for (int i = 0; i <= WORKERS; i++) {
		open_patient(&raws[i], (uint8_t) (i + 1));
		deliver(&raws[i]);
		if (i < WORKERS)
			await_begin();
	}
	(void) ask_question(&raws[WORKERS]);
	cr_assert_eq(pthread_create(&thread, NULL, close_it, &closed), 0);
	/* Another endpoint of the thread is served meanwhile. */
	connect_ep(&b, &a);
	poll(NULL, 0, 50);
	cr_assert_not(atomic_load(&closed));
	end_bind(0);
	poll(NULL, 0, 50);
	cr_assert_not(atomic_load(&closed));
	end_bind(0);
	pthread_join(thread, NULL);
	cr_assert_eq(atomic_load(&a.fake.alive), 0);
	cr_assert_eq(atomic_load(&a.fake.created), WORKERS, "nothing new has begun");
	close(a.kick_fd);
	close_ep(&b);
	cr_assert_eq(atomic_load(&b.fake.alive), 0);
	for (int i = 0; i <= WORKERS; i++)
		close(raws[i].fd);
	tagrv_wireup_destroy(wireup);
}

static atomic_uint at_once;	/* commands that run for one endpoint, at most */

static int bind_counted(struct tagrv_link *link, const void *blob, size_t len)
{
	static atomic_uint now;
	unsigned cnt = atomic_fetch_add(&now, 1) + 1, most = atomic_load(&at_once);

	while (cnt > most && !atomic_compare_exchange_weak(&at_once, &most, cnt))
		;
	sched_yield();
	atomic_fetch_sub(&now, 1);
	return fake_bind(link, blob, len);
}

/* Many connections at once, both ways, each of them wanted by both sides. */
Test(wireup_run, all_connections_come_up_whatever_crosses)
{
	enum { EPS = 8 };
	struct tagrv_wireup *wireup[2] = { create(), create() };
	static struct ep eps[EPS];

	for (int i = 0; i < EPS; i++) {
		tagrv_wireup_crew_limit(&wireup[i % 2]->crew, WORKERS);
		open_ep(&eps[i], wireup[i % 2], 30);
		eps[i].fake.ops.link_create = create_kept;
		eps[i].fake.ops.link_bind = bind_counted;
	}
	for (int i = 0; i < EPS; i++)
		for (int j = 0; j < EPS; j++)
			if (i != j)
				connect_ep(&eps[i], &eps[j]);
	for (int i = 0; i < EPS; i++)
		await(&eps[i], &eps[i].sendables, EPS - 1);
	cr_assert_leq(atomic_load(&at_once), 2u * WORKERS);
	for (int i = 0; i < EPS; i++) {
		cr_assert_eq(eps[i].faileds + eps[i].gones, 0);
		close_ep(&eps[i]);
		/* The engine has them, which is not there. */
		cr_assert_eq(atomic_load(&eps[i].fake.alive), eps[i].ups);
	}
	tagrv_wireup_destroy(wireup[0]);
	tagrv_wireup_destroy(wireup[1]);
}
