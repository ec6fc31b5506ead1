/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Both processes send and read as fast as they can, and one of them is killed
 * (SIGKILL) at a random moment. All operations of the survivor end once, within a
 * second; its other link is not affected; no descriptor, mapping or process is left.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "unit/xport/shm/shm_child.h"
#include "xport/backends.h"

enum { ROUNDS = 100, SENDS = 32, GETS = 4, LEN = 1 << 20, OTHER_LEN = 4000 };

static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;

/* The outstanding operations of one process. */
static struct {
	struct op sends[SENDS], gets[GETS];
	bool	sending[SENDS], getting[GETS];
	unsigned sent, received, other;
	unsigned got;		/* reads that succeeded */
	char	*buf;		/* read into the first half, read from the rest */
	struct tagrv_mem *mem;
	struct offer peer;
	struct tagrv_link *others[2];
} my;

static size_t length_of(unsigned nr)
{
	return nr * 2654435761u % 1500;
}

static void check_packet(struct end *e, const void *data, size_t len)
{
	(void) e;
	if (len == OTHER_LEN) {
		my.other++;
		return;
	}
	cr_assert_eq(len, length_of(my.received));
	cr_assert(is_pattern(data, my.received, len));
	my.received++;
}

/* ---- traffic ---- */

static void settle(struct op *op, bool *busy)
{
	if (!*busy || !op->calls)
		return;
	cr_assert_eq(op->calls, 1);
	cr_assert(!op->status || op->status == -FI_ECONNRESET, "%d",
		  op->status);
	*busy = false;
}

static unsigned settle_all(void)
{
	unsigned busy = 0;

	for (int i = 0; i < SENDS; i++) {
		settle(&my.sends[i], &my.sending[i]);
		busy += my.sending[i];
	}
	for (int i = 0; i < GETS; i++) {
		my.got += my.getting[i] && my.gets[i].calls &&
			  !my.gets[i].status;
		settle(&my.gets[i], &my.getting[i]);
		busy += my.getting[i];
	}
	return busy;
}

static void begin_send(int i)
{
	op_init(&my.sends[i]);
	my.sending[i] = !end_send(&end, my.sent, length_of(my.sent), 0,
				  &my.sends[i]);
	my.sent += my.sending[i];
}

static void begin_get(int i)
{
	op_init(&my.gets[i]);
	my.getting[i] = !ops->get(end.link, my.buf + i * (LEN / GETS), my.mem,
				  my.peer.addr, my.peer.key, 16, LEN / GETS,
				  &my.gets[i].done);
}

static void move(bool gets)
{
	for (int i = 0; i < SENDS; i++)
		if (!my.sending[i])
			begin_send(i);
	for (int i = 0; gets && i < GETS; i++)
		if (!my.getting[i])
			begin_get(i);
	ops->progress(end.xport);
	settle_all();
}

static void prepare(struct offer *own, const struct offer *peer)
{
	memset(&my, 0, sizeof(my));
	end.forget = true;
	end.on_packet = check_packet;
	my.buf = calloc(2, LEN);
	cr_assert_eq(ops->mem_reg(end.dev, my.buf, 2 * LEN, true, &my.mem), 0);
	own->addr = (uintptr_t) my.buf + LEN;
	ops->mem_key(my.mem, own->key);
	child_meet();
	my.peer = *peer;
}

static void live(bool gets)
{
	prepare(&told->of_child, &told->of_parent);
	for (;;)
		move(gets);
}

static void only_send(void)
{
	live(false);
}

static void send_and_get(void)
{
	live(true);
}

/* ---- a second link of the same endpoint, from it to itself ---- */

static void open_other(void)
{
	char blobs[2][TAGRV_BLOB_MAX];
	size_t len;

	for (int i = 0; i < 2; i++)
		cr_assert_eq(ops->link_create(end.xport, blobs[i], &len,
					      &my.others[i]), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(ops->link_bind(my.others[i], blobs[!i], len), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(ops->link_attach(my.others[i], &my.others[i]), 0);
}

static void use_other(void)
{
	static char data[OTHER_LEN];
	struct iovec iov = { data, sizeof(data) };
	unsigned had = my.other;
	double until = pair_work() + 1;

	cr_assert_eq(ops->send(my.others[0], &iov, 1, 0, NULL), 0);
	while (my.other == had) {
		ops->progress(end.xport);
		cr_assert_lt(pair_work(), until);
	}
}

static void close_other(void)
{
	unsigned closed = end.closed;

	for (int i = 0; i < 2; i++)
		ops->link_close(my.others[i]);
	while (end.closed < closed + 2)
		ops->progress(end.xport);
}

/* ---- rounds ---- */

/* Sends until the error is reported, then waits for outstanding operations. */
static void outlive(bool gets)
{
	double killed = pair_work();

	while (settle_all() || !end.errors) {
		child_events();
		if (end.errors)
			ops->progress(end.xport);
		else
			move(gets);
		cr_assert_lt(pair_work(), killed + 1, "%u still under way",
			     settle_all());
	}
	cr_assert_eq(end.errors, 1);
	cr_assert_eq(end.error_status, -FI_ECONNRESET);
	cr_assert_eq(ops->outstanding(end.xport), 0);
	use_other();
	for (int i = 0; i < 20; i++)
		ops->progress(end.xport);
	for (int i = 0; i < SENDS; i++)
		cr_assert_leq(my.sends[i].calls, 1);
	for (int i = 0; i < GETS; i++)
		cr_assert_leq(my.gets[i].calls, 1);
}

static void begin_round(void (*life)(void), const char *cma)
{
	child_start(life, cma);
	prepare(&told->of_parent, &told->of_child);
	open_other();
	use_other();
}

static void end_round(void)
{
	close_other();
	ops->mem_dereg(my.mem);
	free(my.buf);
	child_stop();
}

/* finish: kill only after a get was finished, however slow the machine is. */
static unsigned one_round(bool gets, const char *cma, unsigned passes,
			  bool finish)
{
	double until = pair_work() + 10;

	begin_round(gets ? send_and_get : only_send, cma);
	for (unsigned i = 0; i < passes; i++)
		move(gets);
	while (finish && !my.got && pair_work() < until)
		move(gets);
	child_kill();
	outlive(gets);
	end_round();
	return my.got;
}

static void kill_many(bool gets, const char *cma)
{
	unsigned fds = count_fds(), maps = count_maps(), random = 1, got = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		random = random * 1103515245 + 12345;
		got += one_round(gets, cma, (random >> 16) % 400,
				 gets && !got && i == ROUNDS - 1);
		cr_assert_eq(count_fds(), fds, "round %u", i);
		cr_assert_eq(count_maps(), maps, "round %u", i);
	}
	cr_assert(!gets || got, "no read was ever finished");
	cr_assert(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

/* ---- both sleep whenever they can ---- */

/* Sleeps until woken by the peer or by its end. */
static void nap(void)
{
	struct pollfd fds[] = {
		{ .fd = ops->wait_fd(end.xport), .events = POLLIN },
		{ .fd = ops->dev_event_fd(end.dev), .events = POLLIN },
	};
	bool idle = !ops->arm(end.xport);

	if (ops->progress(end.xport) || !idle)
		return;
	cr_assert_gt(poll(fds, 2, 1000), 0, "wake-up lost");
	if (fds[1].revents)
		ops->dev_event(end.dev);
}

static void take_turn(bool first)
{
	settle_all();
	if (!my.sending[0] && my.sent + !first <= my.received)
		begin_send(0);
	nap();
}

static void take_turns(void)
{
	prepare(&told->of_child, &told->of_parent);
	for (;;)
		take_turn(false);
}

Test(shm_kill, while_both_sleep, .timeout = 120)
{
	unsigned fds = count_fds(), random = 1;

	for (unsigned i = 0; i < ROUNDS; i++) {
		random = random * 1103515245 + 12345;
		begin_round(take_turns, "no");
		for (unsigned n = (random >> 16) % 300; n; n--)
			take_turn(true);
		child_kill();
		while (!end.errors)
			take_turn(true);
		outlive(false);
		end_round();
		cr_assert_eq(count_fds(), fds, "round %u", i);
	}
}

/* ---- both spin ---- */

Test(shm_kill, in_the_middle_of_packets, .timeout = 120)
{
	kill_many(false, "no");
}

Test(shm_kill, in_the_middle_of_reads_through_the_rings, .timeout = 120)
{
	kill_many(true, "no");
}

Test(shm_kill, in_the_middle_of_reads_with_one_copy, .timeout = 120)
{
	kill_many(true, "yes");
}
