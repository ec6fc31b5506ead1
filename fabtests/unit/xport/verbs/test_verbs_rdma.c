/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How many gets and puts may be in flight, over fake devices that carry out nothing
 * for a while. The path's MTU is 1024 bytes, that of fake1.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "unit/xport/conformance.h"
#include "unit/xport/verbs/verbs_fixture.h"

#define SIZE	(4u << 20)

static struct region to, from;
static struct op op;

TestSuite(verbs_rdma, .init = verbs_prepare, .timeout = 20);

/* Fake devices count as software, unless the test says otherwise. */
static struct verbs_link *start(bool software)
{
	verbs_open();
	pair.a->dev->software = pair.b->dev->software = software;
	pair_connect(&pair);
	region_open(&to, pair.a, SIZE, 0);
	region_open(&from, pair.b, SIZE, TAGRV_MEM_READ | TAGRV_MEM_WRITE);
	op_init(&op);
	fake_verbs_hold(true);
	return verbs_link_of(pair.a->link);
}

static void end(void)
{
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, !pair.a->xport->ops->outstanding(pair.a->xport));
	cr_assert_eq(op.status, 0);
	cr_assert_eq(verbs_link_of(pair.a->link)->gets.cnt, 0);
	cr_assert_eq(verbs_link_of(pair.a->link)->gets.packets, 0);
	cr_assert_eq(verbs_link_of(pair.a->link)->puts.cnt, 0);
	cr_assert_eq(verbs_link_of(pair.a->link)->puts.packets, 0);
	region_close(&to);
	region_close(&from);
	pair_close(&pair);
}

/* As many gets of len bytes as are possible now. */
static unsigned get_all(size_t len)
{
	unsigned cnt = 0;

	while (!get(pair.a, &to, &from, 0, len, &op))
		cnt++;
	return cnt;
}

static unsigned put_all(size_t len)
{
	unsigned cnt = 0;

	while (!put(pair.a, &from, &to, 0, len, &op))
		cnt++;
	return cnt;
}

Test(verbs_rdma, many_short_reads_are_in_flight)
{
	start(false);
	cr_assert_eq(pair.a->xport->attr.get_depth, VERBS_MOVES_MAX);
	cr_assert_eq(get_all(65536), VERBS_MOVES_MAX);
	end();
}

Test(verbs_rdma, few_long_reads_are_in_flight)
{
	start(false);
	cr_assert_eq(pair.a->link->get_max, pair.a->xport->attr.get_max);
	cr_assert_eq(get_all(params.read_segment), params.read_depth);
	cr_assert_eq(get(pair.a, &to, &from, 0, 1, &op), -FI_EAGAIN);
	end();
}

/* The bound is one of all bytes in flight, in whole packets. */
Test(verbs_rdma, long_reads_leave_room_for_few_short_ones)
{
	params.read_segment = 8 * 1024;
	start(false);
	cr_assert_eq(get(pair.a, &to, &from, 0, 31 * 1024, &op), 0);
	cr_assert_eq(get(pair.a, &to, &from, 0, 1025, &op), -FI_EAGAIN);
	cr_assert_eq(get(pair.a, &to, &from, 0, 1024, &op), 0);
	cr_assert_eq(get(pair.a, &to, &from, 0, 1, &op), -FI_EAGAIN);
	cr_assert_eq(get(pair.a, &to, &from, 0, 0, &op), -FI_EAGAIN);
	end();
}

/* Segments that are no whole packets are in flight as often as the parameter says. */
Test(verbs_rdma, odd_segments_are_in_flight_as_often_as_even_ones)
{
	params.read_segment = 5000;
	params.read_depth = 3;
	start(false);
	cr_assert_eq(get_all(5000), 3);
	end();
}

Test(verbs_rdma, a_single_read_may_have_any_length)
{
	params.read_segment = 4096;
	params.read_depth = 1;
	start(false);
	cr_assert_eq(get_all(SIZE), 1);
	cr_assert_eq(get(pair.a, &to, &from, 0, 8, &op), -FI_EAGAIN);
	end();
}

Test(verbs_rdma, devices_limit_the_reads_in_flight)
{
	config.rd_atom = 3;
	start(false);
	cr_assert_eq(pair.a->xport->attr.get_depth, 3);
	cr_assert_eq(get_all(64), 3);
	end();
}

Test(verbs_rdma, deeper_queues_are_a_matter_of_the_parameter)
{
	params.read_depth = 40;
	start(false);
	cr_assert_eq(pair.a->xport->attr.put_depth, 40);
	cr_assert_eq(put_all(64), 40);
	cr_assert_eq(get_all(64), 16, "the devices have no more");
	end();
}

/*
 * Software devices fail with more than 127 packets of reads in flight. The size of
 * packets is that of the path, not of the own port (fake0: 4096 bytes).
 */
Test(verbs_rdma, software_has_few_packets_of_reads_in_flight)
{
	struct verbs_link *link;

	params.read_depth = 8;
	link = start(true);
	cr_assert_eq(link->gets.cnt_max, 16);
	cr_assert_eq(pair.a->link->get_max, 15 * 1024);
	cr_assert_eq(pair.b->link->get_max, 15 * 1024);
	cr_assert_eq(get_all(15 * 1024), 8, "120 packets");
	cr_assert_eq(get_all(1024), 7, "127 packets");
	cr_assert_eq(link->gets.packets, 127);
	end();
}

Test(verbs_rdma, software_has_many_short_reads_in_flight_too)
{
	start(true);
	cr_assert_eq(pair.a->link->get_max, 31 * 1024);
	cr_assert_eq(get_all(0), VERBS_MOVES_MAX);
	end();
}

Test(verbs_rdma, writes_in_flight_are_bounded_by_bytes_too)
{
	start(false);
	cr_assert_eq(put_all(params.read_segment), params.read_depth);
	cr_assert_eq(get_all(params.read_segment), params.read_depth,
		     "they do not share the bound");
	end();
	start(false);
	cr_assert_eq(put_all(8192), VERBS_MOVES_MAX);
	end();
}

/* Whoever was refused is told of room when some are done. */
Test(verbs_rdma, room_comes_with_the_next_completion)
{
	start(false);
	cr_assert_eq(get_all(params.read_segment), params.read_depth);
	cr_assert_eq(pair.a->rooms, 0);
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, pair.a->rooms == 1);
	cr_assert_eq(get(pair.a, &to, &from, 0, 1, &op), 0);
	end();
}

/* A refused request takes no place. */
Test(verbs_rdma, refused_requests_do_not_count)
{
	struct verbs_link *link = start(false);

	fake_verbs_fail_post(1, ENOMEM);
	cr_assert_eq(get(pair.a, &to, &from, 0, 64, &op), -FI_EAGAIN);
	cr_assert_eq(link->gets.cnt + link->gets.packets, 0);
	cr_assert_eq(get_all(64), VERBS_MOVES_MAX);
	end();
}

/* Copy buffers are not touched by what is no packet. */
Test(verbs_rdma, gets_and_puts_hold_no_copy_buffer)
{
	struct verbs_xport *xp;

	start(false);
	xp = verbs_xport_of(pair.a->xport);
	cr_assert_eq(put_all(5 * 1024), VERBS_MOVES_MAX);
	cr_assert_eq(get_all(7 * 1024), VERBS_MOVES_MAX);
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, !xp->inflight);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	end();
}
