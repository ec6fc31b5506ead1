/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests that wait while the device of the wireup thread is slow.
 */
#include "unit/wireup/wireup_slow.h"
#include "wireup/wireup_priv.h"

TestSuite(wireup_admit, .timeout = 60);

enum { PEERS = 6 };

static struct raw raws[PEERS];
static struct ep a;

/* A raw peer that understands WAIT, except the last one. */
static void open_new(struct raw *raw, uint8_t who)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	size_t len;

	raw_dial(raw, &a, who);
	cr_assert_eq(tagrv_hello_init(&raw->hello, NULL, true), 0);
	if (who < PEERS)
		tagrv_hello_tell(&raw->hello, TAGRV_HELLO_WAIT);
	len = tagrv_hello_first(&raw->hello, buf);
	cr_assert_eq(send(raw->fd, buf, len, MSG_NOSIGNAL), (ssize_t) len);
	len = raw_read(raw, buf);
	cr_assert_eq(tagrv_hello_answered(&raw->hello, buf, len, &a.name), 0);
}

/*
 * Requests of all peers have come. The device works for the third one, so that those
 * behind it wait in the queue: the second was handled in the round that read them.
 */
static struct tagrv_wireup *begin(void)
{
	struct tagrv_wireup *wireup = create();

	open_slow(&a, wireup, 30);
	for (int i = 0; i < PEERS; i++)
		open_new(&raws[i], (uint8_t) (i + 1));
	atomic_store(&slow_binds, PEERS);
	ask(&raws[0], 1);
	await_begin();
	for (int i = 1; i < PEERS; i++)
		ask(&raws[i], (uint16_t) (i + 1));
	end_bind(100);
	await_begin();
	end_bind(100);
	await_begin();
	await_rep(&raws[0]);
	await_rep(&raws[1]);
	return wireup;
}

/* The command ends after so many ms, and the next one begins. */
static void go_on(unsigned ms)
{
	end_bind(ms);
	await_begin();
}

static void end(struct tagrv_wireup *wireup)
{
	for (int i = 0; i < PEERS; i++)
		close(raws[i].fd);
	close_slow(&a, wireup);
}

Test(wireup_admit, peers_are_told_that_their_requests_wait)
{
	struct tagrv_wireup *wireup = begin();
	struct tagrv_wireup_rec rec;

	go_on(3000);
	for (int i = 3; i < PEERS - 1; i++) {
		cr_assert_eq(raw_recv(&raws[i], &rec), 1);
		cr_assert_eq(rec.type, TAGRV_WIREUP_WAIT, "peer %d", i);
		cr_assert_eq(rec.dst_epoch, raws[i].mine.src_epoch);
		cr_assert_eq(memcmp(rec.dst_nonce, raws[i].mine.src_nonce,
				    TAGRV_NONCE_LEN), 0);
	}
	go_on(100);
	go_on(100);
	end_bind(100);
	/* The last one is of a release that does not know WAIT. */
	for (int i = 2; i < PEERS; i++)
		await_rep(&raws[i]);
	end(wireup);
}

Test(wireup_admit, questions_are_answered_while_the_request_waits)
{
	struct tagrv_wireup *wireup = begin();
	struct raw *last = &raws[PEERS - 1];
	struct tagrv_wireup_rec rec;

	last->mine.type = TAGRV_WIREUP_ASK;
	deliver(last);
	go_on(100);
	cr_assert_eq(raw_recv(last, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_ANSWER);
	go_on(100);
	go_on(100);
	end_bind(100);
	await_rep(last);
	end(wireup);
}

Test(wireup_admit, requests_that_are_taken_back_cost_nothing)
{
	struct tagrv_wireup *wireup = begin();
	struct tagrv_wireup_rec rec;

	raws[PEERS - 1].mine.type = TAGRV_WIREUP_CLOSE;
	deliver(&raws[PEERS - 1]);
	go_on(100);
	cr_assert_eq(raw_recv(&raws[PEERS - 1], &rec), 0);
	go_on(100);
	end_bind(100);
	for (int i = 2; i < PEERS - 1; i++)
		await_rep(&raws[i]);
	cr_assert_eq(atomic_load(&a.fake.created), PEERS - 1);
	cr_assert_eq(log_count("not a peer of ours"), 0);
	end(wireup);
}

static bool has_input(const struct raw *raw)
{
	struct pollfd pfd = { .fd = raw->fd, .events = POLLIN };

	return poll(&pfd, 1, 0) > 0;
}

/* Each request on a socket has the one before it run, at once. */
Test(wireup_admit, socket_that_asks_without_end_does_not_starve_the_others)
{
	struct tagrv_wireup *wireup = begin();
	struct raw *last = &raws[PEERS - 1];

	atomic_store(&slow_binds, 1000);
	for (int turn = 0; !has_input(&raws[3]); turn++) {
		cr_assert_lt(turn, 20, "no other has its turn");
		last->mine.src_epoch++;
		last->mine.src_nonce[0]++;
		deliver(last);
		go_on(50);
	}
	atomic_store(&slow_binds, 0);
	end_bind(50);
	for (int i = 2; i < PEERS; i++)
		await_rep(&raws[i]);
	end(wireup);
}

Test(wireup_admit, request_that_is_repeated_keeps_its_turn)
{
	struct tagrv_wireup *wireup = begin();

	deliver(&raws[PEERS - 1]);
	go_on(100);
	go_on(100);
	await_rep(&raws[3]);
	cr_assert_not(has_input(&raws[PEERS - 1]), "before its turn");
	go_on(100);
	end_bind(100);
	for (int i = 4; i < PEERS; i++)
		await_rep(&raws[i]);
	cr_assert_eq(atomic_load(&a.fake.created), PEERS);
	end(wireup);
}

/* Our own offer waits behind the answers, and its socket breaks. */
Test(wireup_admit, peer_whose_socket_breaks_while_we_are_busy_is_dialed_again)
{
	struct tagrv_wireup *wireup = begin();
	struct tagrv_wireup_rec rec;
	struct tagrv_addr addr;
	int home = home_open(&addr);
	struct raw peer;

	cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	go_on(100);		/* dials */
	end_bind(100);		/* greets */
	home_accept(home, &peer);
	await_begin();
	go_on(100);		/* the offer waits from now on */
	close(peer.fd);
	end_bind(100);
	home_accept(home, &peer);
	cr_assert_eq(raw_recv(&peer, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REQ);
	for (int i = 2; i < PEERS; i++)
		await_rep(&raws[i]);
	close(peer.fd);
	close(home);
	end(wireup);
}

/* One dial at a time, and the first peer says WAIT for ever. */
Test(wireup_admit, peer_that_has_us_wait_does_not_keep_others_from_being_dialed)
{
	struct tagrv_wireup *wireup = create();
	struct timeval limit = { .tv_sec = PATIENCE / 1000 };
	struct tagrv_wireup_rec rec;
	struct tagrv_addr addr[2];
	struct raw peer[2] = { 0 };
	int home[2];

	wireup->caps.dials = 1;
	open_ep(&a, wireup, 30);
	for (int i = 0; i < 2; i++) {
		home[i] = home_open(&addr[i]);
		setsockopt(home[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		cr_assert_eq(tagrv_wireup_connect(a.wep, &addr[i]), 0);
	}
	home_accept(home[0], &peer[0]);
	cr_assert_eq(raw_recv(&peer[0], &rec), 1);
	peer[0].mine = (struct tagrv_wireup_rec) {
		.type = TAGRV_WIREUP_WAIT, .version_min = TAGRV_WIRE_VERSION_MIN,
		.version_max = TAGRV_WIRE_VERSION, .src_epoch = 1, .addr = addr[0],
		.max_packet = 1000,
	};
	raw_name_link(&peer[0], &rec);
	raw_send(&peer[0]);
	home_accept(home[1], &peer[1]);
	cr_assert_eq(raw_recv(&peer[1], &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REQ);
	cr_assert_not(has_input(&peer[0]), "the socket was closed");
	for (int i = 0; i < 2; i++) {
		close(peer[i].fd);
		close(home[i]);
	}
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

enum { DEAF = 3, CROWD = 4 };

/* A listener whose queue is full: the kernel drops what dials it. */
static int deaf_open(struct tagrv_addr *addr, int *crowd)
{
	int home = home_open(addr);

	cr_assert_eq(listen(home, 0), 0);
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void) !connect(crowd[i], &addr->sa, sizeof(addr->in));
	}
	return home;
}

/*
 * Work for the device is expected to take so long that sockets are opened one by one. A host
 * that is deaf is given up after a time, too, but not so soon.
 */
Test(wireup_admit, hosts_that_do_not_answer_do_not_keep_others_from_being_dialed)
{
	struct tagrv_wireup *wireup = create();
	struct timeval limit = { .tv_sec = 4 * DEAF };	/* half of their time */
	struct tagrv_wireup_rec rec;
	struct tagrv_addr addr;
	int crowd[DEAF][CROWD], deaf[DEAF], home;
	struct raw peer = { 0 };

	wireup->queue.cost = UINT64_C(2000000000);
	open_ep(&a, wireup, 30);
	for (int i = 0; i < DEAF; i++) {
		deaf[i] = deaf_open(&addr, crowd[i]);
		cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	}
	home = home_open(&addr);
	setsockopt(home, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	home_accept(home, &peer);
	cr_assert_eq(raw_recv(&peer, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REQ);
	for (int i = 0; i < DEAF; i++) {
		for (int n = 0; n < CROWD; n++)
			close(crowd[i][n]);
		close(deaf[i]);
	}
	close(peer.fd);
	close(home);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}
