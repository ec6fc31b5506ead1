/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers that connect, end and come back: restarts, refusals, lost handshakes.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "unit/wireup/wireup_fixture.h"

Test(wireup_peer, drop_then_connect_has_a_new_epoch, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct ep a, b;
	uint32_t epoch;

	open_ep(&a, wireup, 10);
	open_ep(&b, wireup, 10);
	for (int i = 1; i <= 5; i++) {
		connect_ep(&a, &b);
		await(&a, &a.sendables, i);
		await(&b, &b.sendables, i);
		check_pair(&a, &b);
		if (i > 1)
			cr_assert_neq(a.up.epoch, epoch);
		epoch = a.up.epoch;
		fake_free(a.up.link);
		fake_free(b.up.link);
		tagrv_wireup_drop(a.wep, &b.name, epoch);
		/* At once, before b has noticed. */
	}
	await(&b, &b.gones, 5);
	cr_assert_eq(a.gones, 0);
	/* Dropping a connection that is gone has no effect. */
	connect_ep(&a, &b);
	await(&a, &a.sendables, 6);
	tagrv_wireup_drop(a.wep, &b.name, epoch);
	await(&b, &b.sendables, 6);
	cr_assert_eq(b.gones, 5);
	free_pair(&a, &b);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_peer, peer_without_memory_is_asked_again, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct timespec some = { .tv_nsec = 50000000 };
	struct ep a, b;

	open_ep(&b, wireup, 10);
	b.fake.bind_status = -FI_ENOMEM;
	open_ep(&a, wireup, 10);
	connect_ep(&a, &b);
	while (!b.fake.discarded)
		nanosleep(&some, NULL);
	cr_assert_eq(a.faileds, 0);
	/* The thread reads it: change it while b is closed. */
	close_ep(&b);
	cr_assert_eq(b.fake.alive, 0);
	cr_assert_eq(try_open(&b, wireup, b.name, 10), 0);
	await(&a, &a.sendables, 1);
	await(&b, &b.sendables, 1);
	free_pair(&a, &b);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_peer, no_transport_is_a_clear_answer, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct ep a, b;

	open_ep(&a, wireup, 10);
	open_ep(&b, wireup, 10);
	/* Set before any peer can have connected. */
	b.fake.ops.wire_id = FAKE_WIRE_ID + 1;
	connect_ep(&a, &b);
	await(&a, &a.faileds, 1);
	cr_assert_eq(a.failed.status, -FI_EHOSTUNREACH);
	close_ep(&a);
	close_ep(&b);
	cr_assert_eq(a.fake.alive + b.fake.alive, 0);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_peer, own_address_is_refused, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct ep a;

	open_ep(&a, wireup, 10);
	connect_ep(&a, &a);
	await(&a, &a.faileds, 1);
	cr_assert_eq(a.failed.status, -FI_EINVAL);
	close_ep(&a);
	cr_assert_eq(a.fake.alive, 0);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_peer, without_transport_all_peers_are_refused, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_attr attr = {
		.addr = loopback(0),
		.connect_timeout = 10,
	};
	struct tagrv_wireup_event event;
	struct tagrv_wireup_ep *wep;
	struct ep a;

	open_ep(&a, wireup, 10);
	cr_assert_eq(tagrv_wireup_listen(wireup, &attr, &wep), 0);
	cr_assert_eq(tagrv_wireup_connect(wep, &a.name), 0);
	while (!tagrv_wireup_poll(wep, &event))
		sched_yield();
	cr_assert_eq(event.type, TAGRV_WIREUP_FAILED);
	cr_assert_eq(event.status, -FI_EHOSTUNREACH);
	struct tagrv_addr name;
	tagrv_wireup_name(wep, &name);
	cr_assert_eq(tagrv_wireup_connect(a.wep, &name), 0);
	await(&a, &a.faileds, 1);
	cr_assert_eq(a.failed.status, -FI_EHOSTUNREACH);
	tagrv_wireup_unlisten(wep);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_peer, closed_socket_ends_the_connection, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct raw raw;
	struct ep a;

	open_ep(&a, wireup, 10);
	raw_connect(&raw, &a, 1, 1);
	close(raw.fd);
	await(&a, &a.gones, 1);
	cr_assert_eq(a.gone.status, -FI_ECONNRESET);
	cr_assert_eq(a.gone.epoch, a.up.epoch);
	fake_free(a.up.link);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_peer, new_incarnation_replaces_the_old_one, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	struct tagrv_addr addr;
	struct raw old, again, new;
	int home = home_open(&addr);
	struct ep a;

	open_ep(&a, wireup, 10);
	raw_connect_from(&old, &a, 1, 5, home, &addr);
	fake_free(a.up.link);
	/* Same uuid, later epoch. */
	raw_connect_from(&again, &a, 1, 6, home, &addr);
	cr_assert_eq(a.gones, 1);
	cr_assert_eq(a.gone.status, -FI_ECONNRESET);
	cr_assert_eq(raw_recv(&old, &rec), 0);
	fake_free(a.up.link);
	/* Earlier epoch: the connection is closed without an answer, the current one stays. */
	close(old.fd);
	raw_open(&old, &a, 1);
	old.mine.addr = addr;
	old.mine.src_epoch = 5;
	raw_send(&old);
	cr_assert_eq(raw_recv(&old, &rec), 0);
	/* Another uuid at the same address. */
	raw_connect_from(&new, &a, 2, 1, home, &addr);
	cr_assert_eq(a.gones, 2);
	cr_assert_eq(a.gone.status, -FI_ECONNRESET);
	cr_assert_eq(raw_recv(&again, &rec), 0);
	cr_assert_eq(a.up.uuid[0], 2);
	fake_free(a.up.link);
	close(old.fd);
	close(again.fd);
	close(new.fd);
	close(home);
	close_ep(&a);
	cr_assert_eq(a.fake.alive, 0);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_peer, request_for_another_endpoint_is_stale, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	struct raw raw;
	struct ep a;

	open_ep(&a, wireup, 10);
	raw_open(&raw, &a, 1);
	memset(raw.mine.dst_uuid, 0x77, TAGRV_UUID_LEN);
	raw_send(&raw);
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REJ);
	cr_assert_eq(rec.reason, TAGRV_WIREUP_STALE);
	close(raw.fd);
	/* The right uuid, but an unknown connection. */
	raw_open(&raw, &a, 1);
	memcpy(raw.mine.dst_uuid, rec.src_uuid, TAGRV_UUID_LEN);
	raw.mine.dst_epoch = 99;
	raw_send(&raw);
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	cr_assert_eq(rec.reason, TAGRV_WIREUP_STALE);
	close(raw.fd);
	cr_assert_eq(a.fake.created, 0);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_peer, wildcard_address_in_a_record_means_the_source, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	struct tagrv_addr want = loopback(4711);
	struct raw raw;
	struct ep a;

	open_ep(&a, wireup, 10);
	raw_open(&raw, &a, 1);
	raw.mine.addr = loopback(4711);
	raw.mine.addr.in.sin_addr.s_addr = htonl(INADDR_ANY);
	raw_send(&raw);
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	await(&a, &a.ups, 1);
	cr_assert(tagrv_addr_equal(&a.up.addr, &want));
	fake_free(a.up.link);
	close_ep(&a);
	close(raw.fd);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_peer, lost_handshake_is_resumed_by_the_passive_side, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec, again;
	struct tagrv_addr addr;
	struct raw raw;
	struct ep a;
	int fd = home_open(&addr);

	open_ep(&a, wireup, 10);
	raw_open(&raw, &a, 1);
	raw.mine.addr = addr;
	raw_send(&raw);
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	close(raw.fd);		/* before RTU */
	home_accept(fd, &raw);
	cr_assert_eq(raw_recv(&raw, &again), 1);
	cr_assert_eq(again.type, TAGRV_WIREUP_REQ);
	cr_assert_eq(again.src_epoch, rec.src_epoch);
	cr_assert_eq(again.dst_epoch, raw.mine.src_epoch);
	cr_assert_arr_eq(again.dst_nonce, raw.mine.src_nonce, TAGRV_NONCE_LEN);
	cr_assert_arr_eq(again.links[0].data, rec.links[0].data, 8);
	raw.mine.type = TAGRV_WIREUP_REP;
	raw_name_link(&raw, &rec);
	raw_send(&raw);
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_RTU);
	await(&a, &a.sendables, 1);
	cr_assert_eq(a.ups, 1);
	cr_assert_eq(a.gones, 0);
	/* Closing sends a CLOSE. */
	fake_free(a.up.link);
	close_ep(&a);
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_CLOSE);
	cr_assert_eq(rec.reason, TAGRV_WIREUP_OK);
	cr_assert_eq(raw_recv(&raw, &rec), 0);
	close(raw.fd);
	close(fd);
	tagrv_wireup_destroy(wireup);
}

/* The TCP sockets of this process that are connected. */
static int find_socks(int fds[8])
{
	struct sockaddr_storage sa;
	int cnt = 0;

	for (int fd = 3; fd < 200 && cnt < 8; fd++) {
		socklen_t len = sizeof(sa);

		if (!getpeername(fd, (struct sockaddr *) &sa, &len) &&
		    sa.ss_family == AF_INET)
			fds[cnt++] = fd;
	}
	return cnt;
}

/* The kept socket breaks, but both processes live. */
Test(wireup_peer, cut_socket_is_replaced, .timeout = 60)
{
	enum { CUTS = 50 };
	struct tagrv_wireup *left = create(), *right = create();
	struct ep a, b;
	int fds[8];

	open_ep(&a, left, 30);
	open_ep(&b, right, 30);
	connect_ep(&a, &b);
	await(&a, &a.sendables, 1);
	await(&b, &b.sendables, 1);
	for (int i = 0; i < CUTS; i++) {
		while (find_socks(fds) != 2)
			sched_yield();
		shutdown(fds[i % 2], SHUT_RDWR);
	}
	while (find_socks(fds) != 2)
		sched_yield();
	collect(&a);
	collect(&b);
	cr_assert_eq(a.gones + b.gones, 0);
	cr_assert_eq(a.ups + b.ups, 2);
	/*
	 * The new socket is a sign of life as the first one was. It may be too new
	 * for a CLOSE.
	 */
	fake_free(b.up.link);
	close_ep(&b);
	await(&a, &a.gones, 1);
	cr_assert(!a.gone.status || a.gone.status == -FI_ECONNRESET);
	fake_free(a.up.link);
	close_ep(&a);
	tagrv_wireup_destroy(left);
	tagrv_wireup_destroy(right);
}

static void run_victim(int fd)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_addr peer;
	struct ep a;

	open_ep(&a, wireup, 10);
	if (read(fd, &peer, sizeof(peer)) != sizeof(peer))
		_exit(1);
	if (tagrv_wireup_connect(a.wep, &peer))
		_exit(1);
	for (;;)
		pause();
}

Test(wireup_peer, killed_process_is_noticed, .timeout = 30)
{
	struct tagrv_wireup *wireup;
	uint64_t start;
	int fds[2];
	struct ep a;
	pid_t pid;

	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	if (!pid)
		run_victim(fds[0]);
	wireup = create();
	open_ep(&a, wireup, 10);
	cr_assert_eq(write(fds[1], &a.name, sizeof(a.name)), sizeof(a.name));
	await(&a, &a.sendables, 1);
	start = now_ms();
	kill(pid, SIGKILL);
	await(&a, &a.gones, 1);
	cr_assert_eq(a.gone.status, -FI_ECONNRESET);
	cr_assert_lt(now_ms() - start, slow_ms(5000));
	waitpid(pid, NULL, 0);
	/* Now no process listens at the address. */
	fake_free(a.up.link);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_peer, connect_and_drop_at_random, .timeout = 120)
{
	struct tagrv_wireup *left = create(), *right = create();
	unsigned seed = (unsigned) now_ms();
	struct ep eps[2];

	open_ep(&eps[0], left, 20);
	open_ep(&eps[1], right, 20);
	for (int i = 0; i < 300; i++) {
		struct ep *a = &eps[rand_r(&seed) % 2];
		struct ep *b = a == eps ? &eps[1] : &eps[0];
		struct tagrv_wireup_event event;

		switch (rand_r(&seed) % 4) {
		case 0:
		case 1:
			connect_ep(a, b);
			break;
		case 2:
			while (tagrv_wireup_poll(a->wep, &event)) {
				if (event.type != TAGRV_WIREUP_UP)
					continue;
				fake_free(event.link);
				if (rand_r(&seed) % 2)
					tagrv_wireup_drop(a->wep, &event.addr,
							  event.epoch);
			}
			break;
		default:
			sched_yield();
		}
	}
	for (int i = 0; i < 2; i++) {
		struct tagrv_wireup_event event;

		while (tagrv_wireup_poll(eps[i].wep, &event)) {
			if (event.type == TAGRV_WIREUP_UP)
				fake_free(event.link);
		}
		close_ep(&eps[i]);
		cr_assert_eq(eps[i].fake.alive, 0, "seed %u", seed);
		cr_assert_eq(eps[i].faileds, 0);
	}
	tagrv_wireup_destroy(left);
	tagrv_wireup_destroy(right);
}

/* Sends the REQ on a socket of its own; returns the reason of the refusal. */
static uint8_t refusal(struct raw *raw)
{
	struct tagrv_wireup_rec rec;

	raw_send(raw);
	cr_assert_eq(raw_recv(raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REJ);
	close(raw->fd);
	return rec.reason;
}

Test(wireup_peer, foreign_peer_with_the_own_address_is_refused, .timeout = 60)
{
	struct tagrv_wireup *wireup = create();
	struct raw raw;
	struct ep a;

	open_ep(&a, wireup, 10);
	raw_open(&raw, &a, 1);
	raw.mine.addr = a.name;
	cr_assert_eq(refusal(&raw), TAGRV_WIREUP_SELF);
	cr_assert_eq(a.ups, 0);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_peer, foreign_connections_cannot_be_resumed, .timeout = 60)
{
	struct tagrv_wireup *wireup = create();
	struct raw good, bad;
	struct ep a;

	open_ep(&a, wireup, 10);
	raw_connect(&good, &a, 1, 1);
	raw_open(&bad, &a, 1);
	bad.mine.dst_epoch = a.up.epoch;
	cr_assert_eq(refusal(&bad), TAGRV_WIREUP_STALE, "it does not name us");
	raw_open(&bad, &a, 2);
	bad.mine.dst_epoch = a.up.epoch;
	memcpy(bad.mine.dst_uuid, good.mine.dst_uuid, TAGRV_UUID_LEN);
	cr_assert_eq(refusal(&bad), TAGRV_WIREUP_STALE, "another's link");
	collect(&a);
	cr_assert_eq(a.gones, 0);
	cr_assert_eq(a.ups, 1);
	fake_free(a.up.link);
	close(good.fd);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

/* Renews its link; the endpoint goes over to the new one before it reads what follows. */
static void raw_renew(struct raw *raw)
{
	struct tagrv_wireup_rec rec;

	raw->mine.type = TAGRV_WIREUP_REQ;
	raw->mine.reason = TAGRV_WIREUP_RENEWAL;
	raw->mine.src_epoch++;
	raw->mine.src_nonce[0]++;
	raw_send(raw);
	cr_assert_eq(raw_recv(raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REP);
	cr_assert_eq(rec.reason, TAGRV_WIREUP_RENEWAL);
	raw->mine.type = TAGRV_WIREUP_RTU;
	raw->mine.reason = TAGRV_WIREUP_OK;
	raw_name_link(raw, &rec);
	raw_send(raw);
}

/* An engine that does not run while its peer renews has one new link, the latest. */
Test(wireup_peer, unpolled_renewals_are_one, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_event first;
	uint32_t last = 0;
	struct raw raw;
	struct ep a;

	open_ep(&a, wireup, 10);
	raw_connect(&raw, &a, 1, 1);
	first = a.up;
	for (int i = 0; i < 5; i++) {
		last = raw.mine.dst_epoch;
		raw_renew(&raw);
	}
	/* The answer to the last one shows that the others before it were handled. */
	cr_assert_leq(a.fake.alive, 3, "%d links", a.fake.alive);
	await(&a, &a.ups, 2);
	cr_assert_eq(a.up.resumes, first.epoch);
	/* The last one may have followed. */
	while (a.up.epoch != raw.mine.dst_epoch) {
		cr_assert_eq(a.up.epoch, last);
		fake_free(a.up.link);
		await(&a, &a.ups, a.ups + 1);
		cr_assert_eq(a.up.resumes, last);
	}
	cr_assert_eq(a.gones, 0);
	fake_free(first.link);
	fake_free(a.up.link);
	close(raw.fd);
	close_ep(&a);
	cr_assert_eq(a.fake.alive, 0);
	tagrv_wireup_destroy(wireup);
}
