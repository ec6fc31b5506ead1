/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two processes, one of which is killed: what it published arrives, its end is
 * noticed without traffic, and nothing of it is left.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/xport/pair.h"
#include "xport/shm/shm_priv.h"

static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;

/* What the child tells through memory; outlives it. */
struct told {
	_Atomic unsigned sent;
	uint64_t addr;
	char	key[TAGRV_KEY_MAX];
};

static struct end end;
static struct told *told;
static int sock;
static pid_t child;

/* Entries whose name contains 'what'. */
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

static void join(const char *cma)
{
	char own[TAGRV_BLOB_MAX] = "", peer[TAGRV_BLOB_MAX];
	struct tagrv_params params = pair_params();
	size_t len;

	strcpy(params.shm_cma, cma);
	end_open(&end, &tagrv_shm_ops, "shm", &params);
	cr_assert_eq(ops->link_create(end.xport, own, &len, &end.link), 0);
	cr_assert_eq(write(sock, own, len), (ssize_t) len);
	cr_assert_eq(read(sock, peer, len), (ssize_t) len);
	cr_assert_eq(ops->link_bind(end.link, peer, len), 0);
	cr_assert_eq(write(sock, own, 1), 1);
	cr_assert_eq(read(sock, peer, 1), 1);
	cr_assert_eq(ops->link_attach(end.link, &end), 0);
}

static void start(void (*life)(void), const char *cma)
{
	int socks[2];

	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), 0);
	child = fork();
	sock = socks[!child];
	close(socks[child != 0]);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		join(cma);
		life();
		_exit(0);
	}
	join(cma);
}

static void kill_child(void)
{
	cr_assert_eq(kill(child, SIGKILL), 0);
	cr_assert_eq(waitpid(child, NULL, 0), child);
}

/* As the wireup thread does, until the link's end is reported. */
static void wait_for_error(void)
{
	struct pollfd pfd = { .fd = ops->dev_event_fd(end.dev),
			      .events = POLLIN };
	double until = pair_now() + 1;

	while (!end.errors) {
		if (poll(&pfd, 1, 0) == 1)
			ops->dev_event(end.dev);
		ops->progress(end.xport);
		cr_assert_lt(pair_now(), until, "its end was not noticed");
	}
	cr_assert_eq(end.errors, 1);
	cr_assert_eq(end.error_status, -FI_EHOSTUNREACH);
}

static void stop(void)
{
	end_close_link(&end);
	end_close(&end);
	munmap(told, sizeof(*told));
	close(sock);
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
	unsigned fds = count_in("/proc/self/fd", "");

	start(send_for_ever, "no");
	while (end.packet_cnt < after)
		ops->progress(end.xport);
	kill_child();
	wait_for_error();
	/* One more may have been published than it had time to count. */
	cr_assert(end.packet_cnt == told->sent ||
		  end.packet_cnt == told->sent + 1, "%zu of %u",
		  end.packet_cnt, told->sent);
	check_packets();
	stop();
	cr_assert_eq(count_in("/proc/self/fd", ""), fds);
	cr_assert_eq(count_in("/dev/shm", "tagrv"), 0);
}

Test(shm_process, what_a_killed_sender_published_arrives, .timeout = 120)
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

/* The one that sends is the one that survives. */
Test(shm_process, killed_receiver_is_noticed, .timeout = 120)
{
	unsigned fds = count_in("/proc/self/fd", ""), sent;
	struct op op;

	for (int i = 0; i < 20; i++) {
		start(i & 1 ? only_progress : sleep_for_ever, "no");
		op_init(&op);
		for (sent = 0; sent < 1000; sent++)
			if (end_send(&end, sent, 700, 0, NULL))
				break;
		kill_child();
		wait_for_error();
		cr_assert_eq(end_send(&end, 1, 8, 0, &op), -FI_ENOTCONN);
		stop();
	}
	cr_assert_eq(count_in("/proc/self/fd", ""), fds);
}

/* Its handover is there, but nobody has read it so far. */
Test(shm_process, end_before_the_handover_is_noticed, .timeout = 60)
{
	unsigned fds = count_in("/proc/self/fd", "");

	for (int i = 0; i < 10; i++) {
		start(sleep_for_ever, "yes");
		kill_child();
		wait_for_error();
		stop();
	}
	cr_assert_eq(count_in("/proc/self/fd", ""), fds);
}

static bool has_event(void)
{
	struct pollfd pfd = { .fd = ops->dev_event_fd(end.dev),
			      .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

/* What a child of ours inherited must not keep the wireup thread busy. */
Test(shm_process, end_after_close_is_no_event, .timeout = 20)
{
	pid_t heir;

	start(sleep_for_ever, "no");
	ops->dev_event(end.dev);
	heir = fork();
	if (!heir)
		sleep_for_ever();
	end_close_link(&end);
	kill_child();
	cr_assert(!has_event());
	kill(heir, SIGKILL);
	cr_assert_eq(waitpid(heir, NULL, 0), heir);
	stop();
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
	told->addr = (uintptr_t) buf;
	ops->mem_key(mem, told->key);
	atomic_store(&told->sent, 1);
	only_progress();
}

static void kill_owner(const char *cma)
{
	char *buf = malloc(LEN);
	struct tagrv_mem *mem;
	struct op op;

	start(offer, cma);
	while (!atomic_load(&told->sent))
		ops->progress(end.xport);
	cr_assert_eq(ops->mem_reg(end.dev, buf, LEN, false, &mem), 0);
	op_init(&op);
	cr_assert_eq(ops->get(end.link, buf, mem, told->addr, told->key, 16,
			      LEN, &op.done), 0);
	for (int i = 0; i < 20; i++)
		ops->progress(end.xport);
	cr_assert_eq(op.calls, 0);
	kill_child();
	wait_for_error();
	cr_assert_eq(op.calls, 1);
	cr_assert_eq(op.status, -FI_EHOSTUNREACH);
	ops->mem_dereg(mem);
	free(buf);
	stop();
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
