/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which idle connection is closed when a device has no room for more links.
 */
#include "unit/engine/part_calls.h"

TestSuite(part_choice, .init = part_setup, .fini = engine_teardown, .timeout = 30);

/* Of two the one that was used less lately; nobody is asked while there is room. */
Test(part_choice, the_oldest_use_decides)
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

/* An operation of ours that has ended is a use, too. */
static void write_one(void)
{
	const struct iovec iov = { message, sizeof(message) };
	const struct fi_rma_iov remote = { 0, sizeof(message), 1 };
	const struct tagrv_rma_req req = {
		.kind = TAGRV_RMA_WRITE, .iov = &iov, .iov_cnt = 1,
		.remote = &remote, .remote_cnt = 1, .dest = fx.peer_addr,
		.flags = FI_COMPLETION,
	};

	cr_assert_eq(tagrv_engine_rma(fx.engine, &req), 0);
	cr_assert_eq(packet_header(fake.log_cnt - 1).opcode, TAGRV_PKT_PUT);
	arrive_fin(packet_header(fake.log_cnt - 1).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(part_choice, one_sided_operations_are_uses)
{
	struct tagrv_addr other = fx.addr;
	struct tagrv_link *first, *second;

	up();
	first = fx.link;
	tagrv_addr_set_port(&other, 10);
	up_with(&other, TAGRV_WIRE_PART);
	second = fx.link;
	fx.link = first;
	write_one();
	crowded();
	cr_assert_eq(fake.log[fake.log_cnt - 1].link, second);
	cr_assert_eq(fx.engine->table.peers[1]->state, TAGRV_PEER_PARTING);
}

/* Joined adapters: the one with the least room decides. */
Test(part_choice, each_adapter_of_a_link_counts)
{
	static struct tagrv_quota other_quota;
	struct tagrv_addr other = fx.addr;

	tagrv_quota_init(&other_quota, 1000, 100);
	fake.base.quotas[1] = &other_quota;
	atomic_store(&other_quota.used, 88);
	up();
	cr_assert_eq(fake.log_cnt, 0);
	atomic_store(&other_quota.used, 89);
	tagrv_addr_set_port(&other, 10);
	up_with(&other, TAGRV_WIRE_PART);
	cr_assert_eq(fake.log_cnt, 1);
	asked();
}

Test(part_choice, excess_is_closed_when_connections_come_up)
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

/* The active ones stay, and there is always room for the next of the others. */
Test(part_choice, few_of_many_peers_are_active)
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
	engine_end_lanes();
}
