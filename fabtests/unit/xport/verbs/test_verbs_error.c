/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets that arrive as remote writes with immediate data, over fake devices: of a library
 * that confuses both, and of all others. What statuses mean: test_verbs_poll.c.
 */
#include <criterion/criterion.h>
#include <malloc.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/verbs_fixture.h"

#define INTEL	0x8086

TestSuite(verbs_error, .init = verbs_prepare, .timeout = 20);

/* Every packet that permits others is misnamed. */
Test(verbs_error, misnamed_packets_arrive)
{
	enum { CNT = 1000 };

	config = fake_verbs_as("irdma_old");
	verbs_open();
	pair_connect(&pair);
	for (unsigned i = 0; i < CNT; i++) {
		pair_send(&pair, pair.a, i, 8, NULL);
		pair_send(&pair, pair.b, i, 300, NULL);
	}
	PAIR_UNTIL(&pair, pair.a->packet_cnt == CNT && pair.b->packet_cnt == CNT);
	for (unsigned i = 0; i < CNT; i++) {
		cr_assert(is_pattern(pair.a->packets[i].data, i, 300));
		cr_assert(is_pattern(pair.b->packets[i].data, i, 8));
	}
	cr_assert_gt(verbs_xport_of(pair.a->xport)->stats.permits_sent, 0);
	cr_assert_gt(verbs_xport_of(pair.b->xport)->stats.permits_sent, 0);
	pair_close(&pair);
}

/* A sender that only repeats its send reads the permit in a packet that it holds back. */
Test(verbs_error, misnamed_permits_are_read_by_reap)
{
	struct verbs_link *link;

	config = fake_verbs_as("irdma_old");
	verbs_open();
	pair_connect(&pair);
	link = verbs_link_of(pair.a->link);
	verbs_link_of(pair.b->link)->rx_permits -= 6;
	link->tx_permits = VERBS_PERMIT_CTRL;
	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), -FI_EAGAIN);
	cr_assert_eq(end_send(pair.b, 7, 8, 0, NULL), 0);
	pair.a->xport->ops->reap(pair.a->xport);
	cr_assert_eq(link->tx_permits, VERBS_PERMIT_CTRL + 6);
	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), 0);
	cr_assert_eq(pair.a->packet_cnt, 0, "not inside reap");
	PAIR_UNTIL(&pair, pair.a->packet_cnt == 1 && pair.b->packet_cnt == 1);
	pair_close(&pair);
}

/* Injects the completion of a write of 64 bytes with immediate data, for a posted buffer. */
static void write_with_imm(void)
{
	struct verbs_link *link = verbs_link_of(pair.b->link);
	struct ibv_wc wc = {
		.wr_id = verbs_queue_of(pair.b)->wr_ids[0], .qp_num = link->qpn, .byte_len = 64,
		.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .wc_flags = IBV_WC_WITH_IMM,
	};

	fake_verbs_inject_rx(link->qp, &wc);
	PAIR_UNTIL(&pair, pair.b->errors + pair.b->packet_cnt);
}

static void writes_are_refused(uint32_t vendor, bool srq)
{
	if (srq)
		verbs_need_srq();
	else
		config.max_srq = 0;
	config.vendor_id = vendor;
	verbs_connect();
	write_with_imm();
	cr_assert_eq(pair.b->error_status, -FI_EREMOTEIO);
	cr_assert_eq(pair.b->packet_cnt, 0);
	pair_close(&pair);
}

Test(verbs_error, writes_are_refused_on_devices_of_others)
{
	writes_are_refused(0x02c9, true);
}

Test(verbs_error, writes_are_refused_on_devices_of_others_without_srq)
{
	writes_are_refused(0x02c9, false);
}

/* There the buffer may have a packet of any peer. */
Test(verbs_error, writes_are_refused_with_shared_buffers)
{
	writes_are_refused(INTEL, true);
}

/* A packet that nobody sent has no byte of anybody. */
Test(verbs_error, writes_show_nothing_of_others)
{
	static const char zeros[64];

	config = fake_verbs_as("irdma_old");
	mallopt(M_PERTURB, 0x55);	/* AddressSanitizer ignores it, and fills memory itself */
	verbs_connect();
	write_with_imm();
	cr_assert_eq(pair.b->errors, 0);
	cr_assert_eq(pair.b->packets[0].len, sizeof(zeros));
	cr_assert_arr_eq(pair.b->packets[0].data, zeros, sizeof(zeros));
	pair_close(&pair);
}
