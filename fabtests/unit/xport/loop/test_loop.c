/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Behaviour of the loop transport only; test_conformance*.c check the contract.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/xport/pair.h"
#include "xport/backends.h"

static struct pair pair;
static const struct tagrv_xport_ops *const ops = &tagrv_loop_ops;

static void start(void)
{
	pair_open(&pair, PAIR_LOOP);
	pair_connect(&pair);
}

static void stop(void)
{
	pair_close(&pair);
}

TestSuite(loop, .init = start, .fini = stop, .timeout = 10);

Test(loop, is_the_only_device)
{
	struct tagrv_device_desc *descs;
	struct tagrv_device *dev;
	struct tagrv_params params = pair_params();
	char why[64] = "";
	size_t cnt;

	cr_assert_eq(ops->discover(&params, &descs, &cnt, why, sizeof(why)), 0);
	cr_assert_eq(cnt, 1);
	cr_assert_str_eq(descs->name, "loop");
	cr_assert(descs->usable && descs->up);
	free(descs);
	cr_assert_eq(ops->dev_open("eth0", &params, &dev), -FI_ENODEV);
	cr_assert_eq(ops->dev_event_fd(pair.a->dev), -1);
	ops->dev_event(pair.a->dev);
}

Test(loop, queue_is_bounded)
{
	unsigned sent = 0;

	while (!end_send(pair.a, sent, 100, 0, NULL))
		sent++;
	cr_assert_eq(sent, 240, "256 without those for control");
	while (!end_send(pair.a, sent, 100, TAGRV_SEND_CTRL, NULL))
		sent++;
	cr_assert_eq(sent, 256);
	PAIR_UNTIL(&pair, pair.a->packet_cnt == sent);
}

static void settle(void)
{
	while (ops->arm(pair.a->xport) == -FI_EAGAIN)
		ops->progress(pair.a->xport);
}

/* A packet sent by another thread wakes the sleeping one. */
Test(loop, own_work_wakes)
{
	int fd = ops->wait_fd(pair.a->xport);
	struct tagrv_mem *mem;
	char buf[8] = "", key[TAGRV_KEY_MAX];
	struct op op;
	size_t len;

	cr_assert_eq(ops->mem_reg(pair.a->dev, buf, 8, TAGRV_MEM_READ, &mem),
		     0);
	len = ops->mem_key(mem, key);
	for (int what = 0; what < 3; what++) {
		settle();
		cr_assert(!is_readable(fd, 0));
		op_init(&op);
		if (what == 0)
			cr_assert_eq(end_send(pair.a, 1, 8, 0, &op), 0);
		else if (what == 1)
			cr_assert_eq(ops->get(pair.a->link, buf, mem,
					      (uintptr_t) buf, key, len, 8,
					      &op.done), 0);
		else
			ops->link_close(pair.a->link);
		cr_assert(is_readable(fd, 0), "case %d", what);
		cr_assert_eq(ops->arm(pair.a->xport), -FI_EAGAIN);
		cr_assert(is_readable(fd, 0), "it is for who slept");
		PAIR_UNTIL(&pair, op.calls || pair.a->closed);
	}
	pair.a->link = NULL;
	ops->mem_dereg(mem);
}

/* Each link allows as many gets as attr.get_depth. */
Test(loop, gets_are_counted_per_link)
{
	static char from[64], to[64];
	struct tagrv_mem *src, *dst;
	struct tagrv_link *links[2] = { pair.a->link }, *same;
	char key[TAGRV_KEY_MAX];
	struct op op;
	size_t len;

	op_init(&op);
	pair_link(&pair, &links[1], &same);
	cr_assert_eq(ops->link_attach(links[1], NULL), 0);
	cr_assert_eq(ops->mem_reg(pair.a->dev, from, 64, true, &src), 0);
	cr_assert_eq(ops->mem_reg(pair.a->dev, to, 64, false, &dst), 0);
	len = ops->mem_key(src, key);
	for (int i = 0; i < 2; i++) {
		for (size_t n = 0; n < pair.a->xport->attr.get_depth; n++)
			cr_assert_eq(ops->get(links[i], to, dst,
					      (uintptr_t) from, key, len, 8,
					      &op.done), 0);
		cr_assert_eq(ops->get(links[i], to, dst, (uintptr_t) from, key,
				      len, 8, &op.done), -FI_EAGAIN);
	}
	PAIR_UNTIL(&pair, op.calls == 2 * pair.a->xport->attr.get_depth);
	cr_assert_eq(op.status, 0);
	ops->link_close(links[1]);
	PAIR_UNTIL(&pair, pair.a->closed == 1);
	ops->mem_dereg(src);
	ops->mem_dereg(dst);
}

Test(loop, large_packets_have_fewer_slots)
{
	struct tagrv_params params = pair_params();
	struct pair *large = calloc(1, sizeof(*large));
	unsigned sent = 0;

	params.eager_max = 65536;
	pair_open_with(large, PAIR_LOOP, &params, NULL);
	pair_connect(large);
	while (!end_send(large->a, sent, 65536, TAGRV_SEND_CTRL, NULL))
		sent++;
	cr_assert_geq(sent, 32);
	cr_assert_leq(sent * 65536ul, 4ul << 20);
	PAIR_UNTIL(large, large->a->packet_cnt == sent);
	cr_assert(is_pattern(large->a->packets[sent - 1].data, sent - 1,
			     65536));
	pair_close(large);
	free(large);
}

static void send_one_more(struct end *end, const void *data, size_t len)
{
	(void) data;
	cr_assert_eq(end_send(end, 0, len, 0, NULL), 0);
}

/* Progress returns although each packet is answered by a new one. */
Test(loop, progress_ends)
{
	pair.a->on_packet = send_one_more;
	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), 0);
	ops->progress(pair.a->xport);
	cr_assert_eq(pair.a->packet_cnt, 1);
	ops->progress(pair.a->xport);
	cr_assert_eq(pair.a->packet_cnt, 2);
	pair.a->on_packet = NULL;
}

Test(loop, foreign_blobs_are_refused)
{
	struct tagrv_link *a, *b;
	char blob_a[TAGRV_BLOB_MAX], blob_b[TAGRV_BLOB_MAX];
	size_t len_a, len_b;

	cr_assert_eq(ops->link_create(pair.a->xport, blob_a, &len_a, &a), 0);
	cr_assert_eq(ops->link_create(pair.a->xport, blob_b, &len_b, &b), 0);
	cr_assert_eq(ops->link_bind(a, blob_b, len_b), -FI_EINVAL);
	cr_assert_eq(ops->link_bind(a, blob_a, len_a), 0);
	ops->link_discard(a);
	ops->link_discard(b);
}

/* Packets pass a large get, which still succeeds. */
Test(loop, packets_pass_a_large_get)
{
	size_t len = 2 << 20;
	char *from = malloc(len), *to = calloc(1, len);
	struct tagrv_mem *src, *dst;
	char key[TAGRV_KEY_MAX];
	struct op op;

	op_init(&op);
	fill_pattern(from, 1, len);
	cr_assert_eq(ops->mem_reg(pair.a->dev, from, len, true, &src), 0);
	cr_assert_eq(ops->mem_reg(pair.a->dev, to, len, false, &dst), 0);
	cr_assert_eq(ops->get(pair.a->link, to, dst, (uintptr_t) from, key,
			      ops->mem_key(src, key), len, &op.done), 0);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), 0);
	ops->progress(pair.a->xport);
	cr_assert_eq(pair.a->packet_cnt, 1);
	cr_assert_eq(op.calls, 0);
	PAIR_UNTIL(&pair, op.calls == 1);
	cr_assert_eq(op.status, 0);
	cr_assert(is_pattern(to, 1, len));
	ops->mem_dereg(src);
	ops->mem_dereg(dst);
	free(from);
	free(to);
}

/* The source is deregistered during the get: it fails and touches no more memory. */
Test(loop, source_may_go_away)
{
	size_t len = 1 << 20;
	char *from = malloc(len), *to = calloc(1, len);
	struct tagrv_mem *src, *dst;
	char key[TAGRV_KEY_MAX];
	struct op op;

	op_init(&op);
	cr_assert_eq(ops->mem_reg(pair.a->dev, from, len, true, &src), 0);
	cr_assert_eq(ops->mem_reg(pair.a->dev, to, len, false, &dst), 0);
	cr_assert_eq(ops->get(pair.a->link, to, dst, (uintptr_t) from, key,
			      ops->mem_key(src, key), len, &op.done), 0);
	ops->progress(pair.a->xport);
	ops->mem_dereg(src);
	free(from);
	PAIR_UNTIL(&pair, op.calls == 1);
	cr_assert_eq(op.status, -FI_EACCES);
	ops->mem_dereg(dst);
	free(to);
}

Test(loop, get_stays_within_the_key)
{
	char from[64] = "", to[64];
	struct tagrv_mem *src, *dst;
	char key[TAGRV_KEY_MAX];
	size_t key_len;
	struct op op;

	cr_assert_eq(ops->mem_reg(pair.a->dev, from, 32, true, &src), 0);
	cr_assert_eq(ops->mem_reg(pair.a->dev, to, 64, false, &dst), 0);
	key_len = ops->mem_key(src, key);
	for (int i = 0; i < 3; i++) {
		static const size_t offset[] = { 1, 32, (size_t) -1 };

		op_init(&op);
		cr_assert_eq(ops->get(pair.a->link, to, dst,
				      (uintptr_t) from + offset[i], key,
				      key_len, 32, &op.done), 0);
		PAIR_UNTIL(&pair, op.calls == 1);
		cr_assert_eq(op.status, -FI_EACCES);
	}
	ops->mem_dereg(src);
	ops->mem_dereg(dst);
}

Test(loop, wrapping_ranges_are_not_registered)
{
	struct tagrv_mem *mem;
	char c;

	cr_assert_eq(ops->mem_reg(pair.a->dev, &c, 0, true, &mem), -FI_EINVAL);
	cr_assert_eq(ops->mem_reg(pair.a->dev, &c, SIZE_MAX, true, &mem),
		     -FI_EINVAL);
}
