/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A child process at the other end: see shm_child.h.
 */
#include "unit/xport/shm/shm_child.h"
#include "xport/backends.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct end end;
struct told *told;

static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;
static int sock;
static pid_t child;

unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned cnt = 0;

	while (readdir(dir))
		cnt++;
	closedir(dir);
	return cnt;
}

unsigned count_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned cnt = 0;
	char line[512];

	while (fgets(line, sizeof(line), maps))
		cnt += strstr(line, "memfd:tagrv") != NULL;
	fclose(maps);
	return cnt;
}

void child_meet(void)
{
	char c = 0;

	cr_assert_eq(write(sock, &c, 1), 1);
	cr_assert_eq(read(sock, &c, 1), 1);
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
	child_meet();
	cr_assert_eq(ops->link_attach(end.link, &end), 0);
}

void child_start(void (*life)(void), const char *cma)
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

void child_kill(void)
{
	cr_assert_eq(kill(child, SIGKILL), 0);
	cr_assert_eq(waitpid(child, NULL, 0), child);
}

void child_events(void)
{
	struct pollfd pfd = { .fd = ops->dev_event_fd(end.dev),
			      .events = POLLIN };

	if (poll(&pfd, 1, 0) == 1)
		ops->dev_event(end.dev);
}

void child_wait_for_error(void)
{
	double until = pair_work() + 1;

	while (!end.errors) {
		child_events();
		ops->progress(end.xport);
		cr_assert_lt(pair_work(), until, "its end was not noticed");
	}
	cr_assert_eq(end.errors, 1);
	cr_assert_eq(end.error_status, -FI_ECONNRESET);
}

void child_stop(void)
{
	end_close_link(&end);
	end_close(&end);
	munmap(told, sizeof(*told));
	close(sock);
}
