/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Wireup over real loopback sockets: endpoints of one process connect, or get the
 * reason of a failure.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "unit/wireup/wireup_fixture.h"

Test(wireup, two_endpoints_connect, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct ep a, b;

	open_ep(&a, wireup, 10);
	open_ep(&b, wireup, 10);
	connect_ep(&a, &b);
	connect_ep(&a, &b);
	await(&a, &a.sendables, 1);
	await(&b, &b.sendables, 1);
	check_pair(&a, &b);
	cr_assert_eq(a.ups, 1);
	cr_assert_eq(b.ups, 1);
	cr_assert(tagrv_addr_equal(&a.up.addr, &b.name));
	cr_assert(tagrv_addr_equal(&b.up.addr, &a.name));
	cr_assert_eq(a.up.max_packet, 4096);
	fake_free(a.up.link);
	fake_free(b.up.link);
	close_ep(&a);
	await(&b, &b.gones, 1);
	cr_assert_eq(b.gone.status, 0);
	cr_assert_eq(b.gone.epoch, b.up.epoch);
	close_ep(&b);
	tagrv_wireup_destroy(wireup);
}

/* A tick is emitted only when the previous one has been polled. */
Test(wireup, ticks_as_asked, .timeout = 60)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_attr attr = {
		.addr = loopback(0), .connect_timeout = 10, .tick = 1,
		.kick = kick,
	};
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };
	struct ep ep = { .wireup = wireup };

	ep.kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	attr.kick_arg = &ep;
	cr_assert_eq(tagrv_wireup_listen(wireup, &attr, &ep.wep), 0);
	await(&ep, &ep.ticks, 3);
	nanosleep(&pause, NULL);
	cr_assert_leq(atomic_load(tagrv_wireup_event_cnt(ep.wep)), 1);
	await(&ep, &ep.ticks, ep.ticks + 2);
	close_ep(&ep);
	tagrv_wireup_destroy(wireup);
}

Test(wireup, crossing_connects_make_one_link_each, .timeout = 60)
{
	struct tagrv_wireup *left = create(), *right = create();

	for (int i = 0; i < 50; i++) {
		struct ep a, b;

		open_ep(&a, left, 10);
		open_ep(&b, right, 10);
		connect_ep(&a, &b);
		connect_ep(&b, &a);
		await(&a, &a.sendables, 1);
		await(&b, &b.sendables, 1);
		check_pair(&a, &b);
		cr_assert_eq(a.fake.created, 1);
		cr_assert_eq(b.fake.created, 1);
		cr_assert_eq(a.gones + b.gones + a.faileds + b.faileds, 0);
		free_pair(&a, &b);
	}
	tagrv_wireup_destroy(left);
	tagrv_wireup_destroy(right);
}

Test(wireup, many_to_one, .timeout = 60)
{
	enum { PEERS = 200 };
	struct tagrv_wireup *left = create(), *right = create();
	static struct ep peers[PEERS];
	struct tagrv_wireup_event event;
	struct ep hub;
	int ups = 0, sendables = 0;
	uint64_t end = now_ms() + PATIENCE;

	open_ep(&hub, left, 20);
	for (int i = 0; i < PEERS; i++) {
		open_ep(&peers[i], right, 20);
		connect_ep(&peers[i], &hub);
	}
	for (int i = 0; i < PEERS; i++)
		await(&peers[i], &peers[i].sendables, 1);
	while (sendables < PEERS) {
		cr_assert_lt(now_ms(), end);
		if (!tagrv_wireup_poll(hub.wep, &event)) {
			sched_yield();
			continue;
		}
		if (event.type == TAGRV_WIREUP_UP) {
			fake_free(event.link);
			ups++;
		} else {
			cr_assert_eq(event.type, TAGRV_WIREUP_SENDABLE);
			sendables++;
		}
	}
	cr_assert_eq(ups, PEERS);
	for (int i = 0; i < PEERS; i++) {
		fake_free(peers[i].up.link);
		close_ep(&peers[i]);
	}
	await(&hub, &hub.gones, PEERS);
	cr_assert_eq(hub.gone.status, 0);
	close_ep(&hub);
	cr_assert_eq(hub.fake.alive, 0);
	tagrv_wireup_destroy(left);
	tagrv_wireup_destroy(right);
}

/*
 * A free port of an address that other processes do not use: a port of 127.0.0.1
 * might be taken by a test that runs at the same time.
 */
static struct tagrv_addr free_port(void)
{
	struct tagrv_addr addr = loopback(0);
	socklen_t len = sizeof(addr.in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	addr.in.sin_addr.s_addr = htonl(0x7f000000 |
					((uint32_t) getpid() & 0xffff) << 8 |
					9);
	cr_assert_eq(bind(fd, &addr.sa, sizeof(addr.in)), 0);
	cr_assert_eq(getsockname(fd, &addr.sa, &len), 0);
	close(fd);
	return addr;
}

Test(wireup, refused_port_fails_in_time, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_addr nobody = free_port();
	char text[TAGRV_ADDR_STRLEN];
	uint64_t start = now_ms();
	struct ep a;

	open_ep(&a, wireup, 1);
	cr_assert_eq(tagrv_wireup_connect(a.wep, &nobody), 0);
	await(&a, &a.faileds, 1);
	cr_assert_geq(now_ms() - start, 900);
	cr_assert_lt(now_ms() - start, slow_ms(5000));
	cr_assert_eq(a.failed.status, -FI_ECONNREFUSED);
	cr_assert(tagrv_addr_equal(&a.failed.addr, &nobody));
	cr_assert_eq(log_count(tagrv_addr_str(&nobody, text, sizeof(text))),
		     1);
	cr_assert_eq(a.fake.created, 0);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

Test(wireup, late_listener_is_found, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_addr later = free_port();
	struct timespec half = { .tv_nsec = 500000000 };
	struct ep a, b;

	open_ep(&a, wireup, 20);
	cr_assert_eq(tagrv_wireup_connect(a.wep, &later), 0);
	nanosleep(&half, NULL);
	cr_assert_eq(try_open(&b, wireup, later, 20), 0);
	await(&a, &a.sendables, 1);
	await(&b, &b.sendables, 1);
	check_pair(&a, &b);
	free_pair(&a, &b);
	tagrv_wireup_destroy(wireup);
}

Test(wireup, port_in_use_is_told, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_addr name;
	struct ep a, b;

	open_ep(&a, wireup, 1);
	name = a.name;
	cr_assert_eq(try_open(&b, wireup, name, 1), -FI_EADDRINUSE);
	cr_assert_eq(log_count("choose another port"), 1);
	/* The port can be used again although a connection lingers on it. */
	open_ep(&b, wireup, 10);
	connect_ep(&b, &a);
	await(&a, &a.sendables, 1);
	await(&b, &b.sendables, 1);
	fake_free(a.up.link);
	close_ep(&a);
	cr_assert_eq(try_open(&a, wireup, name, 1), 0);
	fake_free(b.up.link);
	close_ep(&a);
	close_ep(&b);
	tagrv_wireup_destroy(wireup);
}

Test(wireup, unknown_local_address_is_told, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_addr addr = loopback(0);
	struct ep a;

	addr.in.sin_addr.s_addr = htonl(0xcb007105);	/* 203.0.113.5 */
	cr_assert_eq(try_open(&a, wireup, addr, 1), -FI_EADDRNOTAVAIL);
	cr_assert_eq(log_count("FI_TAGRV_IFACE"), 1);
	tagrv_wireup_destroy(wireup);
}

Test(wireup, events_never_polled_leave_nothing, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct ep a, b;

	open_ep(&a, wireup, 10);
	open_ep(&b, wireup, 10);
	connect_ep(&a, &b);
	await(&a, &a.sendables, 1);
	fake_free(a.up.link);
	close_ep(&b);		/* its UP was never polled */
	cr_assert_eq(b.fake.alive, 0);
	cr_assert_eq(b.fake.discarded, 1);
	close_ep(&a);
	/* Closed while dialing. */
	open_ep(&a, wireup, 10);
	connect_ep(&a, &b);
	close_ep(&a);
	cr_assert_eq(a.fake.alive, 0);
	tagrv_wireup_destroy(wireup);
}

Test(wireup, wildcard_has_a_routable_name, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_addr any = loopback(0);
	struct ep a, b;

	any.in.sin_addr.s_addr = htonl(INADDR_ANY);
	cr_assert_eq(try_open(&a, wireup, any, 10), 0);
	cr_assert(!tagrv_addr_is_any(&a.name));
	cr_assert_neq(tagrv_addr_port(&a.name), 0);
	open_ep(&b, wireup, 10);
	connect_ep(&b, &a);
	await(&a, &a.sendables, 1);
	await(&b, &b.sendables, 1);
	free_pair(&a, &b);
	tagrv_wireup_destroy(wireup);
}

Test(wireup, ipv6_works, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	struct tagrv_addr addr;
	struct ep a, b;

	cr_assert_eq(tagrv_addr_from(&addr, &in6, sizeof(in6)), 0);
	if (try_open(&a, wireup, addr, 10)) {
		tagrv_wireup_destroy(wireup);
		cr_skip_test("no IPv6 loopback here");
	}
	cr_assert_eq(try_open(&b, wireup, addr, 10), 0);
	connect_ep(&a, &b);
	await(&a, &a.sendables, 1);
	await(&b, &b.sendables, 1);
	cr_assert(tagrv_addr_equal(&b.up.addr, &a.name));
	free_pair(&a, &b);
	tagrv_wireup_destroy(wireup);
}

static void count_call(void *arg)
{
	int *fd = arg;
	uint64_t count;

	cr_assert_eq(read(fd[0], &count, sizeof(count)), sizeof(count));
	cr_assert_eq(write(fd[1], &count, sizeof(count)), sizeof(count));
}

Test(wireup, watched_descriptor_is_served, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	int fds[2] = { eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC) };
	uint64_t count = 3;

	cr_assert_eq(tagrv_wireup_watch(wireup, fds[0], count_call, fds), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(write(fds[0], &count, sizeof(count)),
			     sizeof(count));
		cr_assert_eq(read(fds[1], &count, sizeof(count)),
			     sizeof(count));
		cr_assert_eq(count, 3);
	}
	tagrv_wireup_unwatch(wireup, fds[0]);
	cr_assert_eq(write(fds[0], &count, sizeof(count)), sizeof(count));
	cr_assert_eq(tagrv_wireup_watch(wireup, 12345, count_call, fds),
		     -FI_EINVAL);
	tagrv_wireup_destroy(wireup);
	cr_assert_eq(read(fds[0], &count, sizeof(count)), sizeof(count));
	close(fds[0]);
	close(fds[1]);
}

static void add_call(void *arg)
{
	atomic_fetch_add((atomic_int *) arg, 1);
}

Test(wireup, broken_descriptor_is_told_once, .timeout = 60)
{
	struct tagrv_wireup *wireup = create();
	struct timespec pause = { .tv_nsec = 50000000 };
	atomic_int calls = 0;
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(tagrv_wireup_watch(wireup, fds[0], add_call, &calls), 0);
	close(fds[1]);
	while (!atomic_load(&calls))
		sched_yield();
	nanosleep(&pause, NULL);
	cr_assert_eq(atomic_load(&calls), 1);
	tagrv_wireup_unwatch(wireup, fds[0]);
	close(fds[0]);
	tagrv_wireup_destroy(wireup);
}
