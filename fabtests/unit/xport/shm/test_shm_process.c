/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two processes, one of which is killed: its published packets arrive, its end is
 * noticed without traffic, and no resource of it is left.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/xport/shm/shm_child.h"
#include "xport/shm/shm_priv.h"

static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;

/* Counts entries whose name contains 'what'. */
static unsigned count_in(const char *path, const char *what)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned cnt = 0;

	while (dir && (entry = readdir(dir)))
		cnt += strstr(entry->d_name, what) != NULL;
	if (dir)
		closedir(dir);
	return cnt;
}

static void send_for_ever(void)
{
	unsigned sent = 0;

	for (;;) {
		if (!end_send(&end, sent, sent % 1500, 0, NULL))
			atomic_store(&told->sent, ++sent);
		else
			ops->progress(end.xport);
	}
}

static void check_packets(void)
{
	for (size_t i = 0; i < end.packet_cnt; i++) {
		cr_assert_eq(end.packets[i].len, i % 1500);
		cr_assert(is_pattern(end.packets[i].data, (unsigned) i,
				     i % 1500));
	}
}

static void kill_sender(unsigned after)
{
	unsigned fds = count_fds();

	child_start(send_for_ever, "no");
	while (end.packet_cnt < after)
		ops->progress(end.xport);
	child_kill();
	child_wait_for_error();
	/* It may have been killed after publishing a packet and before counting it. */
	cr_assert(end.packet_cnt == told->sent ||
		  end.packet_cnt == told->sent + 1, "%zu of %u",
		  end.packet_cnt, told->sent);
	check_packets();
	child_stop();
	cr_assert_eq(count_fds(), fds);
	cr_assert_eq(count_in("/dev/shm", "tagrv"), 0);
}

Test(shm_process, published_packets_of_a_killed_sender_arrive, .timeout = 120)
{
	for (unsigned i = 0; i < 50; i++)
		kill_sender(i * 37);
}

static void only_progress(void)
{
	for (;;)
		ops->progress(end.xport);
}

static void sleep_for_ever(void)
{
	for (;;)
		pause();
}

/* The sender survives. */
Test(shm_process, killed_receiver_is_noticed, .timeout = 120)
{
	unsigned fds = count_fds(), sent;
	struct op op;

	for (int i = 0; i < 20; i++) {
		child_start(i & 1 ? only_progress : sleep_for_ever, "no");
		op_init(&op);
		for (sent = 0; sent < 1000; sent++)
			if (end_send(&end, sent, 700, 0, NULL))
				break;
		child_kill();
		child_wait_for_error();
		cr_assert_eq(end_send(&end, 1, 8, 0, &op), -FI_ENOTCONN);
		child_stop();
	}
	cr_assert_eq(count_fds(), fds);
}

/* The peer is killed before its handover was read. */
Test(shm_process, end_before_the_handover_is_noticed, .timeout = 60)
{
	unsigned fds = count_fds();

	for (int i = 0; i < 10; i++) {
		child_start(sleep_for_ever, "yes");
		child_kill();
		child_wait_for_error();
		child_stop();
	}
	cr_assert_eq(count_fds(), fds);
}

static bool has_event(void)
{
	struct pollfd pfd = { .fd = ops->dev_event_fd(end.dev),
			      .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

/* Descriptors inherited by a forked child must not keep the wireup thread busy. */
Test(shm_process, end_after_close_is_no_event, .timeout = 20)
{
	pid_t heir;

	child_start(sleep_for_ever, "no");
	ops->dev_event(end.dev);
	heir = fork();
	if (!heir)
		sleep_for_ever();
	end_close_link(&end);
	child_kill();
	cr_assert(!has_event());
	kill(heir, SIGKILL);
	cr_assert_eq(waitpid(heir, NULL, 0), heir);
	child_stop();
}

/* ---- reads ---- */

enum { LEN = 64 << 20 };

static void offer(void)
{
	struct tagrv_mem *mem;
	char *buf = malloc(LEN);

	memset(buf, 1, LEN);
	if (ops->mem_reg(end.dev, buf, LEN, true, &mem))
		_exit(1);
	told->of_child.addr = (uintptr_t) buf;
	ops->mem_key(mem, told->of_child.key);
	atomic_store(&told->sent, 1);
	only_progress();
}

static void kill_owner(const char *cma)
{
	char *buf = malloc(LEN);
	struct tagrv_mem *mem;
	struct op op;

	child_start(offer, cma);
	while (!atomic_load(&told->sent))
		ops->progress(end.xport);
	cr_assert_eq(ops->mem_reg(end.dev, buf, LEN, false, &mem), 0);
	op_init(&op);
	cr_assert_eq(ops->get(end.link, buf, mem, told->of_child.addr, told->of_child.key, 16,
			      LEN, &op.done), 0);
	for (int i = 0; i < 20; i++)
		ops->progress(end.xport);
	cr_assert_eq(op.calls, 0);
	child_kill();
	child_wait_for_error();
	cr_assert_eq(op.calls, 1);
	cr_assert_eq(op.status, -FI_ECONNRESET);
	ops->mem_dereg(mem);
	free(buf);
	child_stop();
}

Test(shm_process, killed_owner_fails_reads_through_the_rings, .timeout = 60)
{
	for (int i = 0; i < 10; i++)
		kill_owner("no");
}

Test(shm_process, killed_owner_fails_reads_with_one_copy, .timeout = 60)
{
	for (int i = 0; i < 10; i++)
		kill_owner("yes");
}
