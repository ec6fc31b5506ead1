/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The limit of sockets that endpoints keep, with real sockets: how many descriptors are
 * left, and what goes on without.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <sys/resource.h>

#include "unit/wireup/wireup_fixture.h"

enum { PEERS = 200, MOST = 8 };

static struct ep hub, peers[PEERS];
static struct tagrv_wireup *left, *right;

/* Descriptors of this process. */
static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int cnt = 0;

	cr_assert(dir);
	while (readdir(dir))
		cnt++;
	closedir(dir);
	return cnt;
}

/* Frees the links of the hub, of which there are many. */
static void collect_hub(void)
{
	struct tagrv_wireup_event event;

	while (tagrv_wireup_poll(hub.wep, &event)) {
		switch (event.type) {
		case TAGRV_WIREUP_UP:
			hub.ups += event.resumes != 0;
			hub.sendables += event.sendable && !event.resumes;
			fake_free(event.link);
			break;
		case TAGRV_WIREUP_SENDABLE:
			hub.sendables++;
			break;
		case TAGRV_WIREUP_GONE:
			hub.gones++;
			hub.gone = event;
			break;
		default:
			cr_assert_fail("event %d", event.type);
		}
	}
}

static void await_hub(const int *what, int least)
{
	uint64_t end = now_ms() + PATIENCE;

	while (collect_hub(), *what < least) {
		cr_assert_lt(now_ms(), end, "%d of %d", *what, least);
		sched_yield();
	}
}

static void await_fds(int most)
{
	uint64_t end = now_ms() + PATIENCE;

	while (count_fds() > most) {
		cr_assert_lt(now_ms(), end, "%d descriptors", count_fds() - most);
		sched_yield();
	}
}

static struct tagrv_wireup_stats stats_of(const struct ep *ep)
{
	struct tagrv_wireup_stats stats;

	tagrv_wireup_get_stats(ep->wep, &stats);
	return stats;
}

/* Many descriptors are needed for the listeners of all the peers. */
static void raise_limit(void)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* at_hub, at_peers: the limits; 0: none. */
static void open_all(unsigned at_hub, unsigned at_peers)
{
	raise_limit();
	left = create();
	right = create();
	open_sockets = at_hub;
	open_ep(&hub, left, 30);
	open_sockets = at_peers;
	for (int i = 0; i < PEERS; i++)
		open_ep(&peers[i], right, 30);
}

static void connect_one(int i)
{
	int before;

	collect_hub();
	before = hub.sendables;
	connect_ep(&peers[i], &hub);
	await(&peers[i], &peers[i].sendables, peers[i].sendables + 1);
	await_hub(&hub.sendables, before + 1);
}

static void close_one(int i)
{
	fake_free(peers[i].up.link);
	close_ep(&peers[i]);
	peers[i].wep = NULL;
}

static void close_all(void)
{
	for (int i = 0; i < PEERS; i++)
		if (peers[i].wep)
			close_one(i);
	collect_hub();
	close_ep(&hub);
	cr_assert_eq(hub.fake.alive, 0);
	tagrv_wireup_destroy(left);
	tagrv_wireup_destroy(right);
}

static void expect_no_end(void)
{
	collect_hub();
	cr_assert_eq(hub.gones, 0);
	for (int i = 0; i < PEERS; i++) {
		collect(&peers[i]);
		cr_assert_eq(peers[i].gones + peers[i].faileds, 0);
	}
}

/* The peer's connection gets a new link, and a socket for that. */
static void renew(int i)
{
	int ups = peers[i].ups, before;
	struct tagrv_link *old = peers[i].up.link;

	collect_hub();
	before = hub.ups;
	tagrv_wireup_renew(peers[i].wep, &hub.name, peers[i].up.epoch, true, 20000);
	await(&peers[i], &peers[i].ups, ups + 1);
	await_hub(&hub.ups, before + 1);
	cr_assert(peers[i].up.resumes);
	fake_free(old);
}

/* Each connection has one end at the hub and one at a peer. */
static void expect_few(int idle)
{
	await_fds(idle + 2 * MOST);
	expect_no_end();
}

static void play(unsigned at_hub, unsigned at_peers)
{
	int idle;

	open_all(at_hub, at_peers);
	idle = count_fds();
	for (int i = 0; i < PEERS; i++) {
		connect_one(i);
		expect_few(idle);
	}
	cr_assert_eq(stats_of(&hub).closed_sockets, PEERS - MOST);
	cr_assert_eq(stats_of(&peers[0]).closed_sockets, 1);
	for (int i = 0; i < 3 * MOST; i++)
		renew(i);
	cr_assert_eq(stats_of(&peers[0]).reopened_sockets, 1);
	expect_few(idle);
	/* The latest use counts: the end of this one is seen, but not of a first one. */
	close_one(0);
	close_one(3 * MOST - 1);
	await_hub(&hub.gones, 1);
	cr_assert(tagrv_addr_equal(&hub.gone.addr, &peers[3 * MOST - 1].name));
	close_all();
}

Test(wireup_kept, few_sockets_stay_of_many, .timeout = 120)
{
	play(MOST, 1);
}

/* The end that has more connections is not always the one that dials. */
Test(wireup_kept, few_sockets_stay_of_many_that_the_hub_dialed, .timeout = 120)
{
	int idle;

	open_all(MOST, 1);
	idle = count_fds();
	for (int i = 0; i < PEERS; i++) {
		connect_ep(&hub, &peers[i]);
		await_hub(&hub.sendables, i + 1);
		await(&peers[i], &peers[i].sendables, 1);
		expect_few(idle);
	}
	close_all();
}

/* Peers that need a socket as a sign of life keep it, whatever the limit here. */
Test(wireup_kept, peers_without_a_limit_keep_theirs, .timeout = 120)
{
	int idle;

	open_all(MOST, 0);
	idle = count_fds();
	for (int i = 0; i < PEERS; i++)
		connect_one(i);
	expect_no_end();
	cr_assert_eq(count_fds(), idle + 2 * PEERS);
	cr_assert_eq(stats_of(&hub).closed_sockets, 0);
	close_one(0);
	await_hub(&hub.gones, 1);
	close_all();
}

/* All at once, in both directions: sockets cross, and so do their ends. */
Test(wireup_kept, crossing_ends_are_no_deaths, .timeout = 120)
{
	int idle;

	open_all(MOST, 1);
	idle = count_fds();
	for (int i = 0; i < PEERS; i++) {
		connect_ep(&peers[i], &hub);
		if (i % 2)
			connect_ep(&hub, &peers[i]);
	}
	for (int i = 0; i < PEERS; i++)
		await(&peers[i], &peers[i].sendables, 1);
	await_hub(&hub.sendables, PEERS);
	await_fds(idle + 2 * MOST);
	expect_no_end();
	close_all();
}

/* A peer that was killed without a socket comes back: its REQ tells. */
Test(wireup_kept, restarted_peer_is_noticed_without_a_socket, .timeout = 120)
{
	struct tagrv_addr name;

	open_all(MOST, 1);
	for (int i = 0; i < PEERS; i++)
		connect_one(i);
	name = peers[3].name;
	cr_assert_eq(stats_of(&peers[3]).closed_sockets, 1);
	close_one(3);
	open_sockets = 1;
	cr_assert_eq(try_open(&peers[3], right, name, 30), 0);
	collect_hub();
	cr_assert_eq(hub.gones, 0);
	connect_one(3);
	cr_assert_eq(hub.gones, 1);
	cr_assert_eq(hub.gone.status, -FI_ECONNRESET);
	cr_assert(tagrv_addr_equal(&hub.gone.addr, &name));
	close_all();
}
