/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Engines that share a receive context: who is given what, where it is told,
 * and what is left when one of them goes.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "common/engine_fixture.h"

#define ENGINES	3
#define LONG	100000

/* One that shares, connected to the peer of the fixture. */
struct user {
	struct tagrv_engine *engine;
	struct tagrv_compq rx;
	struct tagrv_counter cntr;
	struct tagrv_link *link;
	uint32_t seq;
};

static struct user users[ENGINES];
static struct tagrv_rx *rx;
static struct tagrv_compq own;
static struct tagrv_counter own_cntr;
static char ctx[8];
static char src[LONG], dst[LONG];

static struct tagrv_addr local(uint16_t port)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct tagrv_addr addr;

	cr_assert_eq(tagrv_addr_from(&addr, &sin, sizeof(sin)), 0);
	return addr;
}

/* Packets of the fixture are this one's from now on. */
static void use(int i)
{
	for (int k = 0; k < ENGINES; k++)
		if (fx.link == users[k].link)
			users[k].seq = fx.rx_seq;
	fx.link = users[i].link;
	fx.rx_seq = users[i].seq;
}

static void open_user(struct user *user)
{
	const struct tagrv_engine_attr attr = {
		.src = local(0), .rx = rx, .source = true,
	};
	const struct tagrv_engine_sinks sinks = {
		.tx_cq = &fx.tx, .rx_cq = &user->rx, .rx_cntr = &user->cntr,
		.rx_all = true,
	};

	memset(user, 0, sizeof(*user));
	cr_assert_eq(tagrv_engine_open(fx.dom, &attr, &user->engine), 0);
	cr_assert_eq(tagrv_compq_init(&user->rx, 16, false), 0);
	cr_assert_eq(tagrv_counter_init(&user->cntr, false), 0);
	tagrv_engine_set_sinks(user->engine, &sinks);
	cr_assert_eq(tagrv_engine_set_av(user->engine, &fx.av), 0);
	cr_assert_eq(tagrv_engine_enable(user->engine), 0);
}

/* Its connection to the peer at this address. */
static void connect_user(struct user *user, const struct tagrv_addr *addr)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.addr = *addr,
		.epoch = 1,
		.sendable = true,
		.max_packet = FAKE_PACKET_MAX,
		.link = fake_link_on(user->engine->rails.all[1].xport),
	};

	user->link = event.link;
	user->seq = 0;
	tagrv_engine_wireup_event(user->engine, &event);
}

static void close_user(struct user *user)
{
	if (user->engine)
		tagrv_engine_close(user->engine);
	user->engine = NULL;
}

static void setup(void)
{
	engine_setup();
	cr_assert_eq(tagrv_compq_init(&own, 16, false), 0);
	cr_assert_eq(tagrv_counter_init(&own_cntr, false), 0);
	cr_assert_eq(tagrv_rx_open(fx.dom, true, &rx), 0);
	for (int i = 0; i < ENGINES; i++) {
		open_user(&users[i]);
		connect_user(&users[i], &fx.addr);
	}
	use(0);
	for (size_t i = 0; i < LONG; i++)
		src[i] = (char) (i * 7);
}

static void teardown(void)
{
	for (int i = 0; i < ENGINES; i++) {
		close_user(&users[i]);
		tagrv_compq_fini(&users[i].rx);
		tagrv_counter_fini(&users[i].cntr);
	}
	tagrv_rx_close(rx);
	tagrv_compq_fini(&own);
	tagrv_counter_fini(&own_cntr);
	engine_teardown();
}

TestSuite(rx, .init = setup, .fini = teardown, .timeout = 20);

static ssize_t post_flags(void *buf, size_t len, uint64_t tag, void *context,
			  fi_addr_t from, uint64_t flags)
{
	struct tagrv_recv_req req = recv_req(buf, len, tag, context);

	/* As an application posts that cannot know of any queue's flags. */
	req.flags = flags;
	req.src = from;
	return tagrv_rx_recv(rx, &req);
}

static void post(void *buf, size_t len, uint64_t tag, void *context)
{
	cr_assert_eq(post_flags(buf, len, tag, context, FI_ADDR_UNSPEC, 0), 0);
}

static void expect(struct tagrv_compq *q, void *context, uint64_t tag)
{
	struct tagrv_comp comp = take(q);

	cr_assert_eq(comp.err, 0);
	cr_assert_eq(comp.context, context);
	cr_assert_eq(comp.tag, tag);
	cr_assert_eq(comp.src, fx.peer_addr);
}

static void expect_all_empty(void)
{
	for (int i = 0; i < ENGINES; i++)
		expect_empty(&users[i].rx);
	expect_empty(&own);
	expect_empty(&fx.rx);
}

/* ---- who is given what ---- */

Test(rx, the_earliest_receive_takes_a_message_of_any_endpoint)
{
	char buf[4][4] = { "" };

	for (int i = 0; i < 3; i++)
		post(buf[i], 4, 1, &ctx[i]);
	use(2);
	arrive_eager("c", 1, 1, 0, 0);
	use(0);
	arrive_eager("a", 1, 1, 0, 0);
	use(1);
	arrive_eager("b", 1, 1, 0, 0);
	cr_assert(buf[0][0] == 'c' && buf[1][0] == 'a' && buf[2][0] == 'b');
	expect(&users[2].rx, &ctx[0], 1);
	expect(&users[0].rx, &ctx[1], 1);
	expect(&users[1].rx, &ctx[2], 1);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(atomic_load(&users[i].cntr.value), 1);
	expect_all_empty();
}

Test(rx, the_earliest_message_of_any_endpoint_is_found)
{
	char buf[4] = "";

	use(1);
	arrive_eager("b", 1, 1, 0, 0);
	use(0);
	arrive_eager("a", 1, 1, 0, 0);
	post(buf, 4, 1, &ctx[0]);
	cr_assert_eq(buf[0], 'b');
	expect(&users[1].rx, &ctx[0], 1);
	post(buf, 4, 1, &ctx[1]);
	cr_assert_eq(buf[0], 'a');
	expect(&users[0].rx, &ctx[1], 1);
	expect_all_empty();
}

Test(rx, an_endpoint_of_its_own_is_left_alone)
{
	char buf[2][4] = { "" };

	post(buf[0], 4, 1, &ctx[0]);
	cr_assert_eq(submit_recv(buf[1], 4, 1, &ctx[1]), 0);
	fx.link = NULL;
	peer_up(true);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(take(&fx.rx).context, &ctx[1]);
	expect_all_empty();
}

/* The last one meets another peer first; returns that one's number. */
static fi_addr_t meet_other(void)
{
	struct tagrv_addr other = local(10);
	fi_addr_t other_addr;

	cr_assert_eq(tagrv_avtab_insert(&fx.av, &other, &other_addr), 0);
	close_user(&users[2]);
	open_user(&users[2]);
	connect_user(&users[2], &other);
	return other_addr;
}

Test(rx, a_source_is_the_same_peer_by_every_endpoint)
{
	fi_addr_t other = meet_other();
	char buf[4][4] = { "" };

	cr_assert_eq(post_flags(buf[0], 4, 1, &ctx[0], fx.peer_addr, 0), 0);
	cr_assert_eq(post_flags(buf[1], 4, 1, &ctx[1], other, 0), 0);
	cr_assert_eq(post_flags(buf[2], 4, 1, &ctx[2], fx.peer_addr, 0), 0);
	cr_assert_eq(post_flags(buf[3], 4, 1, &ctx[3], fx.peer_addr, 0), 0);
	use(2);
	arrive_eager("o", 1, 1, 0, 0);
	cr_assert_eq(take(&users[2].rx).context, &ctx[1]);
	cr_assert_eq(buf[1][0], 'o');
	connect_user(&users[2], &fx.addr);
	fx.link = NULL;
	for (int i = 0; i < ENGINES; i++) {
		use(i);
		arrive_eager("p", 1, 1, 0, 0);
		expect(&users[i].rx, &ctx[i ? i + 1 : 0], 1);
	}
	cr_assert_eq(post_flags(buf[0], 4, 1, ctx, 99, 0), -FI_EINVAL);
	expect_all_empty();
}

Test(rx, a_directed_receive_finds_what_came_early)
{
	fi_addr_t other = meet_other();
	char buf[4] = "";

	use(2);
	arrive_eager("o", 1, 1, 0, 0);
	use(0);
	arrive_eager("p", 1, 1, 0, 0);
	cr_assert_eq(post_flags(buf, 4, 1, ctx, fx.peer_addr, 0), 0);
	cr_assert_eq(buf[0], 'p');
	expect(&users[0].rx, ctx, 1);
	cr_assert_eq(post_flags(buf, 4, 1, ctx, other, 0), 0);
	cr_assert_eq(take(&users[2].rx).src, other);
	expect_all_empty();
}

Test(rx, without_endpoints_nobody_is_known)
{
	char buf[4];

	for (int i = 0; i < ENGINES; i++)
		close_user(&users[i]);
	cr_assert_eq(post_flags(buf, 4, 1, ctx, fx.peer_addr, 0), -FI_EINVAL);
	post(buf, 4, 1, ctx);
	open_user(&users[1]);
	connect_user(&users[1], &fx.addr);
	fx.link = NULL;
	use(1);
	arrive_eager("x", 1, 1, 0, 0);
	expect(&users[1].rx, ctx, 1);
}

Test(rx, its_endpoints_have_one_address_table)
{
	const struct tagrv_engine_attr attr = { .src = local(0), .rx = rx };
	struct tagrv_engine *engine;
	struct tagrv_avtab av;

	cr_assert_eq(tagrv_avtab_init(&av, 1), 0);
	cr_assert_eq(tagrv_engine_open(fx.dom, &attr, &engine), 0);
	cr_assert_eq(tagrv_engine_set_av(engine, &av), -FI_EINVAL);
	tagrv_engine_close(engine);
	for (int i = 0; i < ENGINES; i++)
		close_user(&users[i]);
	cr_assert_eq(tagrv_engine_open(fx.dom, &attr, &engine), 0);
	cr_assert_eq(tagrv_engine_set_av(engine, &av), 0);
	tagrv_engine_close(engine);
	tagrv_avtab_fini(&av);
}

Test(rx, rendezvous_goes_by_the_endpoint_of_its_message)
{
	post(dst, LONG, 1, &ctx[0]);
	use(1);
	arrive_rts(src, LONG, 1, 77);
	cr_assert_eq(fake.log[0].kind, FAKE_GET);
	cr_assert_eq(fake.log[0].link, users[1].link);
	expect_all_empty();
	fake_complete_all(0);
	expect(&users[1].rx, &ctx[0], 1);
	cr_assert_arr_eq(src, dst, LONG);
	expect_all_empty();
	cr_assert_eq(rx->ops.used, 0);
}

Test(rx, flags_of_the_receive_or_of_the_endpoint_ask_for_an_entry)
{
	struct tagrv_engine_sinks sinks = users[1].engine->sinks;
	char buf[4];

	sinks.rx_all = false;
	tagrv_engine_set_sinks(users[1].engine, &sinks);
	use(1);
	post(buf, 4, 1, &ctx[0]);
	arrive_eager("x", 1, 1, 0, 0);
	expect_all_empty();
	cr_assert_eq(atomic_load(&users[1].cntr.value), 1);
	cr_assert_eq(post_flags(buf, 4, 1, &ctx[1], FI_ADDR_UNSPEC,
				FI_COMPLETION), 0);
	arrive_eager("x", 1, 1, 0, 0);
	expect(&users[1].rx, &ctx[1], 1);
}

/* ---- what is about the context alone ---- */

static int peek(uint64_t tag, void *context, uint64_t flags)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, tag, context);

	req.iov_cnt = 0;
	req.flags = flags;
	return (int) tagrv_rx_recv(rx, &req);
}

static void cancel_and_look(struct tagrv_compq *q)
{
	struct tagrv_comp comp;
	char buf[4];

	post(buf, 4, 1, &ctx[0]);
	cr_assert_eq(tagrv_rx_cancel(rx, &ctx[1]), -FI_ENOENT);
	cr_assert_eq(tagrv_rx_cancel(rx, &ctx[0]), 0);
	comp = take(q);
	cr_assert_eq(comp.err, FI_ECANCELED);
	cr_assert_eq(comp.context, &ctx[0]);
	cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED);
	cr_assert_eq(peek(1, ctx, FI_PEEK), 0);
	cr_assert_eq(take(q).err, FI_ENOMSG);
	expect_all_empty();
}

Test(rx, it_is_told_to_the_first_endpoint_that_is_left)
{
	cancel_and_look(&users[0].rx);
	cr_assert_eq(atomic_load(&users[0].cntr.err), 1);
	close_user(&users[0]);
	cancel_and_look(&users[1].rx);
	open_user(&users[0]);
	cancel_and_look(&users[1].rx);
	cr_assert_eq(atomic_load(&users[1].cntr.err), 2);
}

Test(rx, it_is_told_to_the_queue_of_its_own)
{
	tagrv_rx_set_cq(rx, &own);
	tagrv_rx_set_cntr(rx, &own_cntr);
	cancel_and_look(&own);
	cr_assert_eq(atomic_load(&own_cntr.err), 1);
	cr_assert_eq(atomic_load(&users[0].cntr.err), 0);
}

Test(rx, without_any_queue_nothing_is_told)
{
	char buf[4];

	for (int i = 0; i < ENGINES; i++)
		close_user(&users[i]);
	post(buf, 4, 1, ctx);
	cr_assert_eq(tagrv_rx_cancel(rx, ctx), 0);
	cr_assert_eq(peek(1, ctx, FI_PEEK), 0);
	expect_all_empty();
	cr_assert_eq(rx->ops.used, 0);
}

Test(rx, a_multi_buffer_takes_messages_of_all_and_is_released_once)
{
	static const int order[] = { 1, 0, 2 };
	struct tagrv_comp comp;
	char buf[48];

	tagrv_rx_set_cq(rx, &own);
	tagrv_rx_set_min_multi_recv(rx, 16);
	use(1);
	arrive_eager("0123456789abcdef", 16, 1, 0, 0);
	cr_assert_eq(post_flags(buf, 48, 1, ctx, FI_ADDR_UNSPEC,
				FI_MULTI_RECV), 0);
	use(0);
	arrive_eager("ABCDEFGHIJKLMNOP", 16, 1, 0, 0);
	use(2);
	arrive_eager("QRSTUVWXYZ!?.,;:", 16, 1, 0, 0);
	for (int i = 0; i < 3; i++) {
		comp = take(&users[order[i]].rx);
		cr_assert_eq(comp.buf, buf + 16 * i);
		cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED);
	}
	comp = take(&own);
	cr_assert_eq(comp.flags, FI_MULTI_RECV);
	cr_assert_eq(comp.context, ctx);
	cr_assert(!memcmp(buf, "0123456789abcdefABCDEFGHIJKLMNOPQRSTUVWXYZ!?.,;:",
			  48));
	expect_all_empty();
	cr_assert_eq(rx->ops.used + rx->slices.used, 0);
}

Test(rx, a_claim_is_received_by_the_endpoint_it_came_by)
{
	struct tagrv_recv_req req;
	char buf[4] = "";

	use(2);
	arrive_eager("x", 1, 5, 0, 0);
	cr_assert_eq(peek(5, ctx, FI_PEEK | FI_CLAIM), 0);
	expect(&users[0].rx, ctx, 5);
	cr_assert_eq(peek(5, ctx, FI_PEEK), 0);
	cr_assert_eq(take(&users[0].rx).err, FI_ENOMSG);
	req = recv_req(buf, 4, 0, ctx);
	req.flags = FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(rx, &req), 0);
	cr_assert_eq(buf[0], 'x');
	expect(&users[2].rx, ctx, 5);
	expect_all_empty();
}

Test(rx, a_peek_looks_at_the_devices_of_all)
{
	use(2);
	fx.later = true;
	arrive_eager("x", 1, 5, 0, 0);
	cr_assert_eq(peek(5, ctx, FI_PEEK | FI_DISCARD), 0);
	expect(&users[0].rx, ctx, 5);
	cr_assert_eq(users[2].engine->pools.umsgs.used, 0);
}

/* ---- peers and endpoints that go ---- */

static void hang_up(struct user *user)
{
	fake_break_link(user->link, -FI_ECONNRESET);
}

Test(rx, a_connection_that_ends_loses_only_its_own_messages)
{
	for (int i = 0; i < 2; i++) {
		use(i);
		arrive_rts(src, LONG, 1, 77);
	}
	hang_up(&users[0]);
	post(dst, LONG, 1, &ctx[0]);
	cr_assert_eq(take(&users[0].rx).err, FI_ECONNRESET);
	post(dst, LONG, 1, &ctx[1]);
	fake_complete_all(0);
	expect(&users[1].rx, &ctx[1], 1);
	expect_all_empty();
}

Test(rx, a_closed_endpoint_takes_its_messages_along)
{
	char buf[4] = "";

	use(0);
	arrive_eager("a", 1, 1, 0, 0);
	arrive_eager("A", 1, 2, 0, 0);
	use(1);
	arrive_eager("b", 1, 1, 0, 0);
	arrive_eager("B", 1, 2, 0, 0);
	cr_assert_eq(peek(2, &ctx[0], FI_PEEK | FI_CLAIM), 0);
	cr_assert_eq(peek(2, &ctx[1], FI_PEEK | FI_CLAIM), 0);
	close_user(&users[0]);
	post(buf, 4, 1, &ctx[2]);
	cr_assert_eq(buf[0], 'b');
	expect(&users[1].rx, &ctx[2], 1);
	cr_assert_eq(peek(2, &ctx[0], FI_CLAIM), 0);
	cr_assert_eq(take(&users[1].rx).err, FI_ENOMSG);
	cr_assert_eq(peek(2, &ctx[1], FI_CLAIM | FI_DISCARD), 0);
	expect(&users[1].rx, &ctx[1], 2);
}

Test(rx, what_a_closed_endpoint_leaves_unfinished_is_told)
{
	struct tagrv_comp comp;

	post(dst, LONG, 1, &ctx[0]);
	use(0);
	arrive_rts(src, LONG, 1, 77);
	cr_assert_eq(fake.log[0].kind, FAKE_GET);
	close_user(&users[0]);
	comp = take(&users[1].rx);
	cr_assert_eq(comp.err, FI_ECANCELED);
	cr_assert_eq(comp.context, &ctx[0]);
	expect_all_empty();
	cr_assert_eq(rx->ops.used, 0);
}

Test(rx, a_multi_buffer_survives_an_endpoint)
{
	struct tagrv_comp comp;
	char buf[64];

	tagrv_rx_set_cq(rx, &own);
	tagrv_rx_set_min_multi_recv(rx, 16);
	cr_assert_eq(post_flags(buf, 64, 1, ctx, FI_ADDR_UNSPEC,
				FI_MULTI_RECV), 0);
	use(0);
	arrive_rts(src, 40, 1, 77);
	close_user(&users[0]);
	comp = take(&own);
	cr_assert_eq(comp.err, FI_ECANCELED);
	cr_assert_eq(comp.context, ctx);
	expect_all_empty();
	use(1);
	arrive_eager("0123456789abcdef", 16, 1, 0, 0);
	comp = take(&users[1].rx);
	cr_assert_eq(comp.buf, buf + 40);
	cr_assert_eq(take(&own).flags, FI_MULTI_RECV);
	cr_assert_eq(rx->ops.used + rx->slices.used, 0);
}

Test(rx, receives_stay_when_endpoints_come_and_go)
{
	char buf[4] = "";

	post(buf, 4, 1, ctx);
	for (int i = 0; i < ENGINES; i++)
		close_user(&users[i]);
	expect_all_empty();
	open_user(&users[0]);
	connect_user(&users[0], &fx.addr);
	fx.link = NULL;
	use(0);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(buf[0], 'x');
	expect(&users[0].rx, ctx, 1);
}

Test(rx, closed_with_receives_posted)
{
	char buf[48];

	post(buf, 4, 1, ctx);
	cr_assert_eq(post_flags(buf, 48, 2, ctx, FI_ADDR_UNSPEC,
				FI_MULTI_RECV), 0);
}

Test(rx, budgets_stay_with_the_endpoints)
{
	uint32_t before = users[0].engine->credit.budget;
	char buf[4];

	use(0);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_lt(users[0].engine->credit.budget, before);
	cr_assert_eq(users[1].engine->credit.budget, before);
	post(buf, 4, 1, ctx);
	cr_assert_eq(users[0].engine->credit.budget, before);
	expect(&users[0].rx, ctx, 1);
}
