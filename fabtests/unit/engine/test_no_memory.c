/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends and receives without memory: -FI_ENOMEM, nothing has happened, and the call
 * works when there is memory again. A limit that is reached is -FI_EAGAIN.
 */
#include <string.h>

#include "common/alloc_fail.h"
#include "common/caught_log.h"
#include "common/engine_fixture.h"
#include "match/quick.h"

static char ctx[8], big[20000], buf[64];

static void setup(void)
{
	if (!alloc_fail_works())
		cr_skip_test("the allocator is not ours");
	engine_setup();
	peer_up(true);
}

static void tear_down(void)
{
	alloc_fail_disarm();
	engine_teardown();
}

TestSuite(no_memory, .init = setup, .fini = tear_down, .timeout = 20);

/* No free object is left, so that the next get has to allocate. */
static void use_up(struct tagrv_pool *pool)
{
	while (pool->free_head)
		pool->free_head = pool->free_head->next;
}

static int send_big(void)
{
	return submit_send(big, sizeof(big), 1, ctx, 0);
}

static int receive_two(void)
{
	const struct iovec iov[2] = { { buf, 8 }, { buf + 8, 8 } };
	struct tagrv_recv_req req = recv_req(buf, 8, 1, ctx);

	req.iov = iov;
	req.iov_cnt = 2;
	return (int) tagrv_rx_recv(fx.engine->rx, &req);
}

static int without_memory(int (*call)(void))
{
	int ret;

	alloc_fail_arm(1, true);
	ret = call();
	alloc_fail_disarm();
	return ret;
}

Test(no_memory, send)
{
	struct tagrv_pool *pool = &fx.engine->pools.tx_ops;

	/* The first send to an address finds the peer, which needs memory, too. */
	cr_assert_eq(submit_send("x", 1, 1, ctx, 0), 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	use_up(pool);
	cr_assert_eq(without_memory(send_big), -FI_ENOMEM);
	cr_assert_eq(without_memory(send_big), -FI_ENOMEM);
	cr_assert_eq(log_count("no memory for another send"), 1);
	pool->max = pool->used;
	cr_assert_eq(send_big(), -FI_EAGAIN, "the limit, not the memory");
	pool->max = TAGRV_POOL_MAX;
	cr_assert_eq(send_big(), 0);
	arrive_fin(packet_header(1).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(no_memory, receive_with_an_op)
{
	use_up(&fx.engine->rx->ops);
	cr_assert_eq(without_memory(receive_two), -FI_ENOMEM);
	cr_assert_eq(receive_two(), 0);
	fx.engine->rx->max_recvs = 1;
	cr_assert_eq(receive_two(), -FI_EAGAIN);
	arrive_eager("0123456789", 10, 1, 0, 0);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_eq(memcmp(buf, "0123456789", 10), 0);
}

/* An injected message that is to be delivered needs an op and a copy. */
static int inject(void)
{
	return submit_send("inject", 6, 1, ctx,
			   FI_INJECT | FI_DELIVERY_COMPLETE);
}

Test(no_memory, copy_of_an_inject)
{
	struct tagrv_pool *copies =
		&fx.engine->pools.bufs[TAGRV_BUF_INJECT];

	cr_assert_eq(submit_send("x", 1, 1, ctx, 0), 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	/* The op is there: only the copy is not. */
	cr_assert_eq(tagrv_pool_reserve(&fx.engine->pools.tx_ops, 2), 0);
	use_up(copies);
	cr_assert_eq(without_memory(inject), -FI_ENOMEM);
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0, "the op is free again");
	copies->max = copies->used;
	cr_assert_eq(inject(), -FI_EAGAIN, "the limit, not the memory");
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0);
	expect_empty(&fx.tx);
	copies->max = TAGRV_POOL_MAX;
	cr_assert_eq(inject(), 0);
	cr_assert_eq(copies->used, 1);
	arrive_fin(packet_header(1).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(copies->used, 0);
}

/* More than the first chunk of records; the peer has credit for so many messages. */
#define RECEIVES	1000

static char contexts[RECEIVES];
static size_t posted;

static int receive_next(void)
{
	int ret = submit_recv(buf, 8, 1, &contexts[posted]);

	posted += !ret;
	return ret;
}

static size_t queued(void)
{
	struct tagrv_match_stats stats;

	tagrv_rx_match_stats(fx.engine->rx, &stats);
	return stats.posted;
}

/* The records are the matching engine's. Receives that were refused are not in the queue. */
Test(no_memory, receive)
{
	int ret = 0;

	alloc_fail_arm(1, true);
	while (posted < RECEIVES && !ret)
		ret = receive_next();
	for (int i = 0; i < 3; i++)
		cr_assert_eq(receive_next(), -FI_ENOMEM);
	alloc_fail_disarm();
	cr_assert_eq(ret, -FI_ENOMEM);
	cr_assert_eq(log_count("no memory for another receive"), 1);
	cr_assert(posted > 0 && queued() == posted);
	while (posted < RECEIVES)
		cr_assert_eq(receive_next(), 0);
	for (int i = 0; i < RECEIVES; i++) {
		arrive_eager("x", 1, 1, 0, 0);
		cr_assert_eq(take(&fx.rx).context, &contexts[i]);
	}
	cr_assert_eq(queued(), 0);
}

/* ---- unexpected messages ---- */

static uint32_t in_chunk(const struct tagrv_pool *pool)
{
	return (uint32_t) pool->chunk_objs;
}

/* Nothing that a message may be kept in is free, but for what is set aside. */
static void use_up_kept(void)
{
	use_up(&fx.engine->match->unexpected.pool);
	use_up(&fx.engine->pools.umsgs);
	for (size_t i = 0; i < TAGRV_BUF_INJECT; i++)
		use_up(&fx.engine->pools.bufs[i]);
}

/* Such messages come until one is refused; returns how many are kept. */
static uint32_t keep_all(size_t len)
{
	uint32_t cnt = 0;

	do {
		arrive_eager(big, len, cnt++, 0, 0);
		fake_forget();
	} while (fake.links && cnt < 100000);
	return cnt - 1;
}

static void expect_kept(uint32_t cnt, size_t len)
{
	struct tagrv_comp comp;

	for (uint32_t i = 0; i < cnt; i++) {
		cr_assert_eq(submit_recv(big, sizeof(big), i, ctx), 0);
		comp = take(&fx.rx);
		cr_assert_eq(comp.err, 0, "message %u", i);
		cr_assert_eq(comp.len, len);
	}
}

/* Their senders may have been told that they are done: one failure loses none. */
Test(no_memory, unexpected_messages_of_one_failure_are_kept)
{
	static const size_t lens[] = { 0, 16, 17, 100, 3000, 8000 };

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(lens); i++)
		/* The scripted transport allocates, too. */
		for (size_t nth = 1; nth <= 6; nth++) {
			use_up_kept();
			alloc_fail_arm(nth, false);
			arrive_eager(big, lens[i], 0, 0, 0);
			arrive_eager(big, lens[i], 1, 0, 0);
			alloc_fail_disarm();
			cr_assert_eq(fake.links, 1, "%zu bytes", lens[i]);
			expect_kept(2, lens[i]);
			tagrv_engine_progress(fx.engine);
		}
}

/* As many as are set aside, and again when an idle pass has found memory. */
static void lack_for_good(size_t len, uint32_t most)
{
	for (int i = 0; i < 2; i++) {
		uint32_t cnt;

		use_up_kept();
		alloc_fail_arm(1, true);
		cnt = keep_all(len);
		alloc_fail_disarm();
		cr_assert_eq(cnt, most);
		expect_kept(cnt, len);
		tagrv_engine_progress(fx.engine);
		peer_up(true);
	}
}

Test(no_memory, short_unexpected_messages_that_are_kept)
{
	lack_for_good(16, in_chunk(&fx.engine->pools.umsgs));
}

Test(no_memory, unexpected_messages_that_are_kept_in_buffers)
{
	lack_for_good(100, in_chunk(&fx.engine->pools.bufs[TAGRV_BUF_PACKET]));
}

/* The matching engine has no record for the message, or nothing keeps its bytes. */
Test(no_memory, loss_of_an_unexpected_message_is_said)
{
	struct tagrv_pool *records = &fx.engine->match->unexpected.pool;

	for (int lines = 1; lines <= 2; lines++) {
		if (lines == 1) {
			use_up(records);
			records->spare = NULL;
		} else {
			cr_assert_eq(tagrv_pool_reserve(records, 8), 0);
			use_up(&fx.engine->pools.umsgs);
			fx.engine->pools.umsgs.spare = NULL;
		}
		alloc_fail_arm(1, true);
		arrive_eager(big, 16, 0, 0, 0);
		alloc_fail_disarm();
		cr_assert_eq(fake.links, 0);
		cr_assert_eq(log_count("no memory to keep an unexpected message"), lines);
		fake_forget();
		peer_up(true);
	}
}

/* At the limit there is a place when a message comes, with memory or without. */
Test(no_memory, receive_at_the_limit)
{
	struct tagrv_rx *rx = fx.engine->rx;

	rx->match->posted.level.limit = 2;
	cr_assert_eq(receive_next(), 0);
	cr_assert_eq(receive_next(), 0);
	cr_assert_eq(without_memory(receive_next), -FI_EAGAIN);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_eq(without_memory(receive_next), 0);
}
