/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of addresses and peers: what a domain with one endpoint allocates for each address
 * that is inserted, and what the protocol layers keep for a peer that is connected and idle.
 * The wireup's part is in unit/wireup/test_wireup_footprint.c, the transport's in
 * unit/xport/verbs/test_verbs_footprint.c.
 */
#include <string.h>

#include "common/alloc_fail.h"
#include "common/engine_fixture.h"

static void setup(void)
{
	if (!alloc_fail_works())
		cr_skip_test("the allocator is not ours");
	engine_setup();
}

TestSuite(footprint, .init = setup, .fini = engine_teardown, .timeout = 60);

static struct tagrv_addr address(uint32_t host)
{
	struct tagrv_addr addr = fx.addr;

	addr.in.sin_addr.s_addr = htonl(0x0a000000 + host);
	return addr;
}

static fi_addr_t insert(struct tagrv_avtab *av, uint32_t host)
{
	struct tagrv_addr addr = address(host);
	fi_addr_t row = FI_ADDR_NOTAVAIL;

	cr_assert_eq(tagrv_avtab_insert(av, &addr, &row), 0);
	return row;
}

/* Of an address that is inserted, and not connected yet. */
#define ADDRESS_MAX	64

/*
 * Of the rows one in a hundred names the peer, which is there already, and is used, so that the
 * endpoint has room for all of them.
 */
Test(footprint, an_address_without_a_connection_takes_few_bytes)
{
	struct tagrv_peer *peer;

	cr_assert_eq(tagrv_peer_of(fx.engine, fx.peer_addr, &peer), 0);
	alloc_bytes_begin();
	for (uint32_t i = 0; i < 30000; i++) {
		fi_addr_t row = insert(&fx.av, i);
		ptrdiff_t bytes;

		if (i % 100 == 0) {
			cr_assert_eq(tagrv_avtab_insert(&fx.av, &fx.addr, &row), 0);
			cr_assert_eq(tagrv_peer_of(fx.engine, row, &peer), 0);
		}
		bytes = alloc_bytes();
		cr_assert(i < 1000 || bytes <= (ptrdiff_t) row * ADDRESS_MAX,
			  "%td bytes for %u addresses", bytes, (unsigned) row);
	}
	alloc_bytes_end();
}

/* Of a peer and its lane, and their places in tables, without the transport's link. */
#define PEER_MAX	864
#define PEERS		2000

static struct tagrv_link *links[PEERS];

static void come_up(uint32_t host)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.addr = address(host),
		.epoch = 1 + host,
		.sendable = true,
		.max_packet = fx.max_packet,
		.link = links[host],
	};

	tagrv_engine_wireup_event(fx.engine, &event);
}

Test(footprint, an_idle_peer_takes_little_of_the_protocol_layers)
{
	struct tagrv_peer *peer;
	ptrdiff_t bytes;

	for (uint32_t i = 0; i < PEERS; i++)
		links[i] = fake_link();
	alloc_bytes_begin();
	for (uint32_t i = 0; i < PEERS; i++) {
		fi_addr_t row = insert(&fx.av, i);

		come_up(i);
		cr_assert_eq(tagrv_peer_of(fx.engine, row, &peer), 0);
		cr_assert_eq(peer->state, TAGRV_PEER_READY);
	}
	bytes = alloc_bytes_end() / PEERS;
	engine_end_lanes();
	cr_assert_leq(bytes, PEER_MAX, "%td bytes per peer", bytes);
}
