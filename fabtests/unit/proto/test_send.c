/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends take the protocol that the table of their link names.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "core/param.h"
#include "common/engine_fixture.h"

static char buf[16384];

static void start(const char *name, const char *value)
{
	setenv(name, value, 1);
	tagrv_param_define();
	engine_setup();
}

TestSuite(choice, .fini = engine_teardown, .timeout = 20);

/* Sends so many bytes: by which protocol? */
static bool goes_eager(size_t len)
{
	uint64_t eager = fx.engine->stats.eager_tx;
	uint64_t rndv = fx.engine->stats.rndv_tx;

	cr_assert_eq(submit_send(buf, len, 1, NULL, 0), 0);
	cr_assert_eq(fx.engine->stats.eager_tx + fx.engine->stats.rndv_tx,
		     eager + rndv + 1);
	return fx.engine->stats.eager_tx > eager;
}

Test(choice, threshold_of_the_parameter)
{
	start("FI_TAGRV_RNDV_THRESH", "1000");
	peer_up(true);
	cr_expect(goes_eager(0));
	cr_expect(goes_eager(999));
	cr_expect_not(goes_eager(1000));
}

Test(choice, a_mistake_leaves_everything_as_it_is)
{
	start("FI_TAGRV_PROTO", "get:0-1k,eager:1k-,");
	peer_up(true);
	cr_expect(goes_eager(10));
	cr_expect_not(goes_eager(8193));
}

Test(choice, eager_behind_rendezvous)
{
	start("FI_TAGRV_PROTO", "get:0-1k,eager:1k-");
	peer_up(true);
	cr_expect(goes_eager(0));
	cr_expect_not(goes_eager(1));
	cr_expect_not(goes_eager(1023));
	cr_expect(goes_eager(1024));
	cr_expect(goes_eager(8192));
	cr_expect_not(goes_eager(8193));
}

/* Two ranges with their reasons: neither of them is looked up. */
Test(choice, everything_eager_in_front_is_one_comparison)
{
	start("FI_TAGRV_PROTO", "eager:0-1k");
	peer_up(true);
	cr_expect_eq(fx.engine->table.peers[0]->eager_limit, 8192);
}

Test(choice, peers_with_smaller_packets)
{
	start("FI_TAGRV_PROTO", "get:0-1k,eager:1k-");
	fx.max_packet = 2048;
	peer_up(true);
	cr_expect(goes_eager(2048 - 32));
	cr_expect_not(goes_eager(2048 - 31));
	cr_expect_not(goes_eager(8192));
}

/* What the sender proposes in its last RTS. */
static uint8_t proposal(void)
{
	cr_assert_eq(packet_header(fake.log_cnt - 1).opcode, TAGRV_PKT_RTS);
	return (uint8_t) fake.log[fake.log_cnt - 1].data[32 + 10];
}

Test(choice, the_rndv_parameter_is_proposed_where_no_other_is_named)
{
	setenv("FI_TAGRV_RNDV", "put", 1);
	start("FI_TAGRV_PROTO", "get:0-1k,copy:2k-4k");
	peer_up(true);
	cr_expect_not(goes_eager(100));
	cr_expect_eq(proposal(), TAGRV_PROTO_RNDV_READ);
	cr_expect_not(goes_eager(3000));
	cr_expect_eq(proposal(), TAGRV_PROTO_RNDV_COPY);
	cr_expect_not(goes_eager(8193));
	cr_expect_eq(proposal(), TAGRV_PROTO_RNDV_WRITE);
}

/* ---- and by what is registered ---- */

static char big[1 << 20];

/* What is proposed for it; bit i of mems: iovec i is registered. */
static uint8_t proposal_for(unsigned mems)
{
	struct tagrv_mem mem = {
		.dev = &fake.dev, .addr = big, .len = sizeof(big),
		.access = TAGRV_MEM_READ,
	};
	struct tagrv_mem *desc[] = { mems & 1 ? &mem : NULL,
				     mems & 2 ? &mem : NULL };
	struct iovec iov[] = { { big, 100 }, { big + 100, sizeof(big) - 100 } };
	struct tagrv_send_req req = send_req(big, sizeof(big), 1, NULL);

	req.iov = iov;
	req.iov_cnt = 2;
	req.mem = desc;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	arrive_fin(packet_header(fake.log_cnt - 1).op, 0);
	take(&fx.tx);
	return proposal();
}

static void make_dear(void)
{
	struct tagrv_xport_attr *attr = &fake.base.attr;

	attr->latency = 1e-6;
	attr->bandwidth = 12e9;
	attr->copy_bandwidth = 2e9;
	attr->reg_growth = 0.1e-9;
	attr->reg_piece = 65536;
	engine_set_rndv(fx.dom->select.rndv);
	peer_up(true);
}

Test(choice, pipeline_is_for_buffers_that_are_not_registered)
{
	engine_setup();
	make_dear();
	cr_expect_eq(proposal_for(0), TAGRV_PROTO_RNDV_PIPE);
	cr_expect_eq(proposal_for(1), TAGRV_PROTO_RNDV_PIPE);
	cr_expect_eq(proposal_for(3), TAGRV_PROTO_RNDV_READ);
}

Test(choice, pipeline_that_is_asked_for_is_for_all)
{
	start("FI_TAGRV_PROTO", "pipeline:64k-");
	make_dear();
	cr_expect_eq(proposal_for(3), TAGRV_PROTO_RNDV_PIPE);
}

Test(choice, pipeline_of_the_rndv_parameter_is_for_all)
{
	start("FI_TAGRV_RNDV", "pipeline");
	make_dear();
	cr_expect_eq(proposal_for(3), TAGRV_PROTO_RNDV_PIPE);
}

/* Where less at a time may be what can be. */
Test(choice, long_buffer_that_cannot_be_registered_goes_by_pieces)
{
	start("FI_TAGRV_RNDV", "get");
	make_dear();
	fake.reg_longest = 65536;
	cr_expect_eq(proposal_for(0), TAGRV_PROTO_RNDV_PIPE);
	cr_expect_eq(fake.regs, 0);
	fx.dom->params.read_segment = sizeof(big);
	cr_expect_eq(proposal_for(0), TAGRV_PROTO_RNDV_READ);
	cr_expect_eq(fake.log[fake.log_cnt - 1].len, 32 + 16, "no keys");
}

/* ---- and by credit ---- */

static struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

Test(choice, what_finds_no_credit_is_announced)
{
	start("FI_TAGRV_PROTO", "get:0-1k,eager:1k-");
	peer_up(true);
	peer()->credit.left = tagrv_credit_units(2048);
	cr_expect_not(goes_eager(2049 + 64));
	cr_expect_eq(fx.engine->stats.no_credit, 1);
	cr_expect(goes_eager(2048));
	cr_expect_not(goes_eager(2048));
	cr_expect_not(goes_eager(0));
	cr_expect_eq(fx.engine->stats.no_credit, 3);
	/* These would have been announced anyway. */
	cr_expect_not(goes_eager(512));
	cr_expect_not(goes_eager(8193));
	cr_expect_eq(fx.engine->stats.no_credit, 3);
}

Test(choice, without_memory_to_register_what_fits_a_packet_is_copied)
{
	start("FI_TAGRV_PROTO", "get:0-");
	peer_up(true);
	fake.reg_error = -FI_ENOMEM;
	cr_expect(goes_eager(8192));
	cr_expect_eq(fx.engine->stats.no_credit, 0);
	peer()->credit.left = 0;
	cr_expect_not(goes_eager(100));
	cr_expect_eq(packet_header(1).opcode, TAGRV_PKT_RTS);
	cr_expect_eq(fake.log[1].len, 32 + 16, "no keys");
}
