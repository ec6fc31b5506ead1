/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Engines that share a receive context: see rx_fixture.h.
 */
#include "unit/engine/rx_fixture.h"

#include <arpa/inet.h>
#include <string.h>

struct user users[ENGINES];
struct tagrv_rx *rx;
struct tagrv_compq own;
struct tagrv_counter own_cntr;
char ctx[8];
char src[LONG], dst[LONG];

struct tagrv_addr local(uint16_t port)
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

void use(int i)
{
	for (int k = 0; k < ENGINES; k++)
		if (fx.link == users[k].link)
			users[k].seq = fx.rx_seq;
	fx.link = users[i].link;
	fx.rx_seq = users[i].seq;
}

/* The results of a closed user stay for the test to look at, until then. */
static void forget_user(struct user *user)
{
	if (!user->opened)
		return;
	tagrv_compq_fini(&user->rx);
	tagrv_counter_fini(&user->cntr);
	user->opened = false;
}

void open_user(struct user *user)
{
	const struct tagrv_engine_attr attr = {
		.src = local(0), .rx = rx, .source = true,
	};
	const struct tagrv_engine_sinks sinks = {
		.tx_cq = &fx.tx, .rx_cq = &user->rx, .rx_cntr = &user->cntr,
		.rx_all = true,
	};

	forget_user(user);
	memset(user, 0, sizeof(*user));
	user->opened = true;
	cr_assert_eq(tagrv_engine_open(fx.dom, &attr, &user->engine), 0);
	cr_assert_eq(tagrv_compq_init(&user->rx, 16, false), 0);
	cr_assert_eq(tagrv_counter_init(&user->cntr, false), 0);
	tagrv_engine_set_sinks(user->engine, &sinks);
	cr_assert_eq(tagrv_engine_set_av(user->engine, &fx.av), 0);
	cr_assert_eq(tagrv_engine_enable(user->engine), 0);
}

void connect_user(struct user *user, const struct tagrv_addr *addr)
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

void close_user(struct user *user)
{
	if (user->engine)
		tagrv_engine_close(user->engine);
	user->engine = NULL;
}

void rx_setup(void)
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

void rx_teardown(void)
{
	for (int i = 0; i < ENGINES; i++) {
		close_user(&users[i]);
		forget_user(&users[i]);
	}
	tagrv_rx_close(rx);
	tagrv_compq_fini(&own);
	tagrv_counter_fini(&own_cntr);
	engine_teardown();
}

ssize_t post_flags(void *buf, size_t len, uint64_t tag, void *context,
		   fi_addr_t from, uint64_t flags)
{
	struct tagrv_recv_req req = recv_req(buf, len, tag, context);

	/* The application does not know the flags of the queue that the message completes in. */
	req.flags = flags;
	req.src = from;
	return tagrv_rx_recv(rx, &req);
}

void post(void *buf, size_t len, uint64_t tag, void *context)
{
	cr_assert_eq(post_flags(buf, len, tag, context, FI_ADDR_UNSPEC, 0), 0);
}

void expect(struct tagrv_compq *q, void *context, uint64_t tag)
{
	struct tagrv_comp comp = take(q);

	cr_assert_eq(comp.err, 0);
	cr_assert_eq(comp.context, context);
	cr_assert_eq(comp.tag, tag);
	cr_assert_eq(comp.src, fx.peer_addr);
}

void expect_all_empty(void)
{
	for (int i = 0; i < ENGINES; i++)
		expect_empty(&users[i].rx);
	expect_empty(&own);
	expect_empty(&fx.rx);
}

int peek(uint64_t tag, void *context, uint64_t flags)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, tag, context);

	req.iov_cnt = 0;
	req.flags = flags;
	return (int) tagrv_rx_recv(rx, &req);
}
