/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of connections that are up and idle: what is needed for the handshake only is freed.
 */
#include <malloc.h>
#include <sys/resource.h>

#include "common/alloc_fail.h"
#include "unit/wireup/wireup_fixture.h"
#include "wireup/wireup_priv.h"

/* Each of these endpoints connects to each of the others. */
#define SIDE	16
#define PEERS	(2 * SIDE * SIDE)

/* Of a peer: its state machine, the records and messages that it keeps, its place in tables. */
#define PEER_MAX	570

static struct ep eps[2 * SIDE];
static struct tagrv_link *links[PEERS];
static int ups, sendables;

static void collect_links(struct ep *ep)
{
	struct tagrv_wireup_event event;

	while (tagrv_wireup_poll(ep->wep, &event)) {
		if (event.type == TAGRV_WIREUP_UP)
			links[ups++] = event.link;
		sendables += event.type == TAGRV_WIREUP_SENDABLE ||
			     (event.type == TAGRV_WIREUP_UP && event.sendable);
	}
}

static void pause_ms(long ms)
{
	struct timespec ts = { .tv_nsec = ms * 1000000 };

	nanosleep(&ts, NULL);
}

/* With few descriptors: the sockets of connected peers are closed, mostly. */
static struct tagrv_wireup *create_with_few(void)
{
	struct tagrv_wireup *wireup;
	struct rlimit limit, old;

	getrlimit(RLIMIT_NOFILE, &old);
	limit = old;
	limit.rlim_cur = 64;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	wireup = create();
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	return wireup;
}

static ptrdiff_t block_bytes(void *block)
{
	return (ptrdiff_t) (malloc_usable_size(block) + sizeof(size_t));
}

/* What a peer takes now, without its link, and without sockets that are open still. */
static ptrdiff_t peer_bytes(const struct tagrv_wireup *wireup, ptrdiff_t without_peers)
{
	const volatile size_t *socks = &wireup->socks;
	ptrdiff_t sock = (ptrdiff_t) sizeof(struct tagrv_wireup_sock);

	return (alloc_bytes() - without_peers - (ptrdiff_t) *socks * sock) / PEERS -
	       block_bytes(links[0]);
}

static void connect_all(void)
{
	uint64_t end = now_ms() + PATIENCE;

	for (int i = 0; i < SIDE; i++)
		for (int j = 0; j < SIDE; j++)
			connect_ep(&eps[i], &eps[SIDE + j]);
	while (sendables < PEERS) {
		cr_assert_lt(now_ms(), end, "%d of %d are up", sendables, PEERS);
		for (int i = 0; i < 2 * SIDE; i++)
			collect_links(&eps[i]);
		pause_ms(1);
	}
	cr_assert_eq(ups, PEERS);
}

Test(wireup_footprint, an_idle_peer_keeps_little_of_the_handshake, .timeout = 30)
{
	struct tagrv_wireup *wireup;
	ptrdiff_t before;
	uint64_t end;

	if (!alloc_fail_works())
		cr_skip_test("the allocator is not ours");
	alloc_bytes_begin();
	wireup = create_with_few();
	for (int i = 0; i < 2 * SIDE; i++)
		open_ep(&eps[i], wireup, 30);
	before = alloc_bytes();
	connect_all();
	end = now_ms() + PATIENCE;
	/* Closed sockets linger. */
	while (peer_bytes(wireup, before) > PEER_MAX) {
		cr_assert_lt(now_ms(), end, "%td bytes per peer", peer_bytes(wireup, before));
		pause_ms(10);
	}
	for (int i = 0; i < PEERS; i++)
		fake_free(links[i]);
	for (int i = 0; i < 2 * SIDE; i++)
		close_ep(&eps[i]);
	tagrv_wireup_destroy(wireup);
	cr_assert_eq(alloc_bytes_end(), 0);
}
