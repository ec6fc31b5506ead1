/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An idle connection is closed by agreement, and made again when it is needed.
 */
#include "common/engine_fixture.h"
#include "engine/part.h"
#include "wireup/wireup.h"

static struct tagrv_quota quota;

static void setup(void)
{
	engine_setup();
	memset(&quota, 0, sizeof(quota));
	tagrv_quota_init(&quota, 1000, 100);
	fake.base.quota = &quota;
}

TestSuite(part, .init = setup, .fini = engine_teardown, .timeout = 30);

static char message[8] = "message";
static uint32_t epoch;

/* A connection to the peer, by a link that is 'link' from then on. */
static void up_with(const struct tagrv_addr *addr, uint64_t features)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.addr = *addr,
		.epoch = ++epoch,
		.sendable = true,
		.max_packet = fx.max_packet,
		.features = features,
	};

	fx.link = event.link = fake_link();
	fx.rx_seq = 0;
	tagrv_engine_wireup_event(fx.engine, &event);
	fake_end_closed();
}

static void up(void)
{
	up_with(&fx.addr, TAGRV_WIRE_PART);
}

static void gone(int status)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_GONE,
		.addr = fx.addr,
		.epoch = epoch,
		.status = status,
	};

	tagrv_engine_wireup_event(fx.engine, &event);
}

static void crowded(void)
{
	struct tagrv_wireup_event event = { .type = TAGRV_WIREUP_CROWDED };

	tagrv_engine_wireup_event(fx.engine, &event);
	fake_end_closed();
}

static void pass(int cnt)
{
	for (int i = 0; i < cnt; i++)
		tagrv_engine_progress(fx.engine);
}

static const struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

static unsigned closed(void)
{
	fake_end_closed();
	return peer()->lane ? 0 : (unsigned) fx.engine->stats.parted;
}

static int send_one(int *ctx)
{
	return submit_send(message, sizeof(message), 1, ctx, 0);
}

/* The number of our question, which is the last packet. */
static uint64_t asked(void)
{
	struct tagrv_hdr hdr;

	cr_assert_gt(fake.log_cnt, 0);
	hdr = packet_header(fake.log_cnt - 1);
	cr_assert_eq(hdr.opcode, TAGRV_PKT_PART);
	cr_assert_eq(hdr.op, TAGRV_PKT_PART_ASK);
	cr_assert_eq(peer()->state, TAGRV_PEER_PARTING);
	return hdr.data;
}

/* A connection that was used once, and that the peer is asked to close. */
static uint64_t ask(void)
{
	int ctx;

	up();
	cr_assert_eq(send_one(&ctx), 0);
	cr_assert_eq(take(&fx.tx).context, &ctx);
	crowded();
	return asked();
}

static void expect_answer(uint32_t want, uint64_t nr)
{
	struct tagrv_hdr hdr = packet_header(fake.log_cnt - 1);

	cr_assert_eq(hdr.opcode, TAGRV_PKT_PART);
	cr_assert_eq(hdr.op, want);
	cr_assert_eq(hdr.data, nr);
}

static void expect_lost(int *ctx, int err)
{
	struct tagrv_comp comp = take(&fx.tx);

	cr_assert_eq(comp.context, ctx);
	cr_assert_eq(comp.err, (uint64_t) err);
}

/* ---- the asker ---- */

Test(part, idle_connection_is_closed_until_it_is_needed)
{
	uint64_t nr = ask();
	size_t packets = fake.log_cnt;
	int ctx[2];

	cr_assert_eq(send_one(&ctx[0]), 0);
	cr_assert_eq(send_one(&ctx[1]), 0);
	pass(10);
	cr_assert_eq(fake.log_cnt, packets, "nothing may be behind the question");
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(peer()->state, TAGRV_PEER_CONNECTING);
	expect_empty(&fx.tx);
	up();
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(take(&fx.tx).context, &ctx[1]);
	cr_assert_eq(packet_header(packets).seq, 0, "another connection");
	cr_assert_eq(fx.engine->stats.rejoined, 1);
}

Test(part, without_a_send_nothing_connects)
{
	uint64_t nr = ask();

	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	cr_assert_eq(peer()->state, TAGRV_PEER_IDLE);
	gone(0);
	pass(100);
	expect_empty(&fx.tx);
}

Test(part, peer_that_refuses_is_sent_what_waits)
{
	uint64_t nr = ask();
	size_t packets;
	int ctx;

	cr_assert_eq(send_one(&ctx), 0);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_REFUSE, nr);
	pass(1);
	cr_assert_eq(take(&fx.tx).context, &ctx);
	cr_assert_eq(packet_header(fake.log_cnt - 1).seq, 1, "the same connection");
	packets = fake.log_cnt;
	crowded();
	cr_assert_eq(fake.log_cnt, packets, "it is not asked again at once");
	for (int i = 0; i < 4; i++)
		crowded();
	asked();
}

/* What comes after the question is received, and answered if the peer refuses. */
Test(part, messages_cross_the_question)
{
	uint64_t nr = ask();
	size_t packets = fake.log_cnt;
	char in[8];
	int ctx;

	cr_assert_eq(submit_recv(in, sizeof(in), 1, &ctx), 0);
	arrive_eager(message, sizeof(message), 1, TAGRV_PKT_ACK_DELIVERY, 5);
	cr_assert_eq(take(&fx.rx).context, &ctx);
	pass(2);
	cr_assert_eq(fake.log_cnt, packets);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_REFUSE, nr);
	pass(1);
	cr_assert_eq(packet_header(packets).opcode, TAGRV_PKT_FIN);
}

Test(part, whoever_has_work_is_not_asked)
{
	static char large[100000];
	int ctx;

	up();
	cr_assert_eq(submit_send(message, 8, 1, &ctx, FI_DELIVERY_COMPLETE), 0);
	crowded();
	cr_assert_eq(peer()->state, TAGRV_PEER_READY);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(submit_send(message, 8, 1, &ctx, FI_TRANSMIT_COMPLETE), 0);
	crowded();
	cr_assert_eq(peer()->state, TAGRV_PEER_READY);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(submit_send(large, sizeof(large), 1, &ctx, 0), 0);
	crowded();
	cr_assert_eq(peer()->state, TAGRV_PEER_READY);
	arrive_fin(packet_header(fake.log_cnt - 1).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	crowded();
	asked();
}

Test(part, old_peer_is_not_asked)
{
	up_with(&fx.addr, 0);
	crowded();
	cr_assert_eq(fake.log_cnt, 0);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 1);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
}

/* Of two the one that was used less lately; nobody is asked while there is room. */
Test(part, the_oldest_use_decides)
{
	struct tagrv_addr other = fx.addr;
	struct tagrv_link *first, *second;
	int ctx;

	up();
	first = fx.link;
	tagrv_addr_set_port(&other, 10);
	up_with(&other, TAGRV_WIRE_PART);
	second = fx.link;
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(send_one(&ctx), 0);	/* by the first */
	crowded();
	cr_assert_eq(fake.log[fake.log_cnt - 1].link, second);
	cr_assert_eq(fx.engine->table.peers[1]->state, TAGRV_PEER_PARTING);
	cr_assert_eq(peer()->state, TAGRV_PEER_READY);
	take(&fx.tx);
	/* It makes no progress: after a while the other one is asked as well. */
	for (int i = 0; i < 10; i++)
		crowded();
	cr_assert_eq(fake.log[fake.log_cnt - 1].link, first);
}

Test(part, excess_is_closed_when_connections_come_up)
{
	struct tagrv_addr other = fx.addr;

	atomic_store(&quota.used, 88);
	up();
	cr_assert_eq(fake.log_cnt, 0);
	atomic_store(&quota.used, 89);
	tagrv_addr_set_port(&other, 10);
	up_with(&other, TAGRV_WIRE_PART);
	cr_assert_eq(fake.log_cnt, 1);
	asked();
}

/* ---- many peers ---- */

#define PEERS	10000u
#define ACTIVE	64u
#define CAP	512u

static struct tagrv_addr addr_of(unsigned nr)
{
	struct tagrv_addr addr = fx.addr;

	tagrv_addr_set_port(&addr, (uint16_t) (100 + nr));
	return addr;
}

/* One message to the peer, which is connected. */
static void use(fi_addr_t dest)
{
	struct tagrv_send_req req = send_req(message, sizeof(message), 1, NULL);

	req.dest = dest;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

/* The peers that were asked agree. */
static void agree_all(void)
{
	for (size_t i = 0; i < fake.log_cnt; i++) {
		struct tagrv_hdr hdr = packet_header(i);

		if (hdr.opcode != TAGRV_PKT_PART)
			continue;
		fx.link = fake.log[i].link;
		arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, hdr.data);
	}
	fake_forget();
	fake_end_closed();
	atomic_store(&quota.used, (unsigned) fake.links);
}

/* The transport of the fixture cannot close so many at once. */
static void end_all(void)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_first(&fx.engine->conn.lanes))) {
		tagrv_lane_fail(tagrv_container_of(node, struct tagrv_lane, node),
				-FI_ECONNRESET, false);
		fake_end_closed();
	}
}

/* The active ones stay, and there is always room for the next of the others. */
Test(part, few_of_many_peers_are_active)
{
	static fi_addr_t names[PEERS];
	unsigned turn = 0;

	tagrv_quota_init(&quota, 100000, CAP);
	for (unsigned i = 0; i < PEERS; i++) {
		struct tagrv_addr addr = addr_of(i);

		cr_assert_eq(tagrv_avtab_insert(&fx.av, &addr, &names[i]), 0);
		atomic_store(&quota.used, (unsigned) fake.links + 1);
		cr_assert_lt(fake.links, CAP - 1, "no room for peer %u", i);
		up_with(&addr, TAGRV_WIRE_PART);
		use(names[i]);
		agree_all();
		for (unsigned k = 0; k < 4 && i >= ACTIVE; k++)
			use(names[turn++ % ACTIVE]);
	}
	for (unsigned i = 0; i < ACTIVE; i++) {
		struct tagrv_addr addr = addr_of(i);

		cr_assert_not_null(tagrv_peer_find(fx.engine, &addr)->lane, "%u", i);
	}
	cr_assert_eq(fx.engine->stats.parted, PEERS - fake.links);
	cr_assert_eq(fx.engine->stats.rejoined, 0);
	end_all();
}

/* ---- the peer goes away meanwhile ---- */

Test(part, agreement_is_among_the_last_packets)
{
	uint64_t nr = ask();
	int ctx;

	cr_assert_eq(send_one(&ctx), 0);
	gone(0);
	cr_assert_eq(peer()->state, TAGRV_PEER_LEAVING);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	pass(100);
	expect_empty(&fx.tx);
	up();
	cr_assert_eq(take(&fx.tx).context, &ctx);
}

Test(part, peer_that_dies_instead_of_answering_is_lost)
{
	int ctx;

	ask();
	cr_assert_eq(send_one(&ctx), 0);
	gone(-FI_ECONNRESET);
	pass(100);
	expect_lost(&ctx, FI_ECONNRESET);
	cr_assert_eq(fake.links, 0);
}

/* The answerer has closed its end, and a packet of the transport found nobody. */
Test(part, failed_link_may_have_brought_the_agreement)
{
	uint64_t nr = ask();
	int ctx;

	cr_assert_eq(send_one(&ctx), 0);
	fake_break_link(fx.link, -FI_ETIMEDOUT);
	expect_empty(&fx.tx);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	up();
	cr_assert_eq(take(&fx.tx).context, &ctx);
	/* Or it has not. */
	crowded();
	cr_assert_eq(send_one(&ctx), 0);
	fake_break_link(fx.link, -FI_ETIMEDOUT);
	pass(100);
	expect_lost(&ctx, FI_ETIMEDOUT);
}

/* ---- the other side ---- */

Test(part, agreement_is_confirmed_before_the_link_closes)
{
	int ctx;

	up();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 77);
	expect_answer(TAGRV_PKT_PART_AGREE, 77);
	cr_assert_eq(peer()->state, TAGRV_PEER_PARTING);
	cr_assert_eq(send_one(&ctx), 0);
	pass(100);
	cr_assert_eq(fake.links, 1);
	fake_complete_all(0);
	cr_assert_eq(closed(), 1);
	cr_assert_eq(fake.links, 0);
	expect_empty(&fx.tx);
	up();
	cr_assert_eq(take(&fx.tx).context, &ctx);
}

/* Whatever is heard first: the asker has its agreement, or is dead. */
Test(part, after_the_agreement_every_end_is_a_good_one)
{
	int ctx;

	for (int way = 0; way < 3; way++) {
		size_t packets;

		up();
		arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 77);
		cr_assert_eq(send_one(&ctx), 0);
		packets = fake.log_cnt;
		if (way == 0)
			gone(0);
		else if (way == 1)
			fake_break_link(fx.link, -FI_ETIMEDOUT);
		if (way < 2)
			cr_assert_eq(closed(), (unsigned) way + 1);
		expect_empty(&fx.tx);
		up();	/* the asker was the first to connect again */
		cr_assert_eq(fx.engine->stats.parted, (uint64_t) way + 1);
		cr_assert_eq(take(&fx.tx).context, &ctx);
		cr_assert_eq(packet_header(packets).seq, 0);
		cr_assert_eq(fake.log[packets].link, fx.link);
		gone(0);
		pass(100);
		fake_end_closed();
	}
}

Test(part, side_with_work_refuses)
{
	int ctx;

	up();
	cr_assert_eq(submit_send(message, 8, 1, &ctx, FI_DELIVERY_COMPLETE), 0);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 77);
	expect_answer(TAGRV_PKT_PART_REFUSE, 77);
	cr_assert_eq(peer()->state, TAGRV_PEER_READY);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 78);
	expect_answer(TAGRV_PKT_PART_AGREE, 78);
}

/* It is decided when the answer leaves. */
Test(part, answer_waits_for_room)
{
	int ctx;

	for (int busy = 0; busy < 2; busy++) {
		size_t packets = fake.log_cnt;

		up();
		fake.refuse_all = true;
		arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 5);
		pass(3);
		cr_assert_eq(fake.log_cnt, packets);
		cr_assert_eq(peer()->state, TAGRV_PEER_READY);
		if (busy)
			cr_assert_eq(submit_send(message, 8, 1, &ctx,
						 FI_DELIVERY_COMPLETE), 0);
		fake.refuse_all = false;
		pass(1);
		expect_answer(busy ? TAGRV_PKT_PART_REFUSE : TAGRV_PKT_PART_AGREE, 5);
		if (!busy)
			fake_complete_all(0);
	}
}

/* ---- both ask ---- */

Test(part, smaller_of_two_questions_counts)
{
	uint64_t nr = ask();
	size_t packets = fake.log_cnt;

	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, nr + 1);
	cr_assert_eq(fake.log_cnt, packets);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	nr = ask();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, nr - 1);
	expect_answer(TAGRV_PKT_PART_AGREE, nr - 1);
	fake_complete_all(0);
	cr_assert_eq(closed(), 2);
	nr = ask();
	packets = fake.log_cnt;
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, nr);
	cr_assert_eq(fake.log_cnt, packets);
	cr_assert_eq(peer()->state, TAGRV_PEER_READY, "of equal ones neither does");
}

/* ---- what a peer may not do ---- */

static void expect_bad(uint64_t cnt)
{
	cr_assert_eq(fx.engine->stats.bad_packets, cnt);
	cr_assert_null(peer()->lane);
	fake_end_closed();
}

Test(part, malformed_packets_end_the_connection)
{
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_PART };
	char packet[sizeof(hdr) + 1] = { 0 };
	uint64_t nr;

	up();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_REFUSE + 1, 1);
	expect_bad(1);
	up();
	memcpy(packet, &hdr, sizeof(hdr));
	fake_deliver(fx.link, packet, sizeof(packet));
	expect_bad(2);
	up();
	packet[16] = TAGRV_PKT_TAGGED;
	fake_deliver(fx.link, packet, sizeof(hdr));
	expect_bad(3);
	up();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, 0);
	expect_bad(4);
	nr = ask();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr + 1);
	expect_bad(5);
	up();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 1);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 1);
	expect_bad(6);
}

/* It would be read from the next connection, whose keys are others. */
Test(part, announcement_of_a_peer_that_parts_is_lost)
{
	static char in[100000];
	uint64_t nr = ask();
	int ctx[2];

	cr_assert_eq(submit_recv(in, sizeof(in), 1, &ctx[0]), 0);
	arrive_rts_bare(sizeof(in), 1, 9);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	expect_bad(1);
	cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
	nr = ask();
	arrive_rts(in, sizeof(in), 1, 9);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	cr_assert_eq(submit_recv(in, sizeof(in), 1, &ctx[1]), 0);
	cr_assert_eq(take(&fx.rx).context, &ctx[1]);
}
