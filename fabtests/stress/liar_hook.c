/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The liar's handovers. The provider of this process calls sendmsg(), recvmsg() and
 * connect() here: the program's own functions come before those of the C library. What
 * is handed over is kept and mapped once more; some handovers are changed.
 */
#include "framework/pattern.h"
#include "liar.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

/* The plug-in finds them before those of the C library. */
#define VISIBLE __attribute__((visibility("default")))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct catch caught[CATCHES];
static unsigned caught_cnt;
static struct catch old[32];	/* replaced, and perhaps in use by the thread that lies */
static unsigned old_cnt;
static uint64_t hook_random;
static bool hooked;
static bool wanted[LIES];	/* of LIE_HAND and LIE_PID */

void hook_begin(uint64_t seed)
{
	hook_random = seed;
	hooked = true;
}

static void forget(const struct catch *c)
{
	munmap(c->ring, c->size);
	munmap(c->bell, SHM_BELL_SIZE);
	for (int i = 0; i < SHM_HAND_FDS; i++)
		close(c->fds[i]);
}

int hook_catches(struct catch catches[CATCHES])
{
	int cnt;

	pthread_mutex_lock(&mutex);
	while (old_cnt)
		forget(&old[--old_cnt]);
	cnt = (int)(caught_cnt < CATCHES ? caught_cnt : CATCHES);
	memcpy(catches, caught, sizeof(caught));
	pthread_mutex_unlock(&mutex);
	return cnt;
}

void hook_lie(enum lie lie)
{
	pthread_mutex_lock(&mutex);
	wanted[lie] = true;
	pthread_mutex_unlock(&mutex);
}

/* Whether the handover that is made now shall be such a lie. */
static bool is_wanted(enum lie lie)
{
	bool is;

	pthread_mutex_lock(&mutex);
	is = hooked && wanted[lie];
	wanted[lie] = false;
	pthread_mutex_unlock(&mutex);
	return is;
}

/* ---- what is caught ---- */

static void keep(const struct shm_hand *hand, const int fds[SHM_HAND_FDS], bool own)
{
	struct catch c = {
		.own = own, .slots = hand->slots, .size = (size_t)hand->slots * SHM_STRIDE * 2,
	};
	const int prot = PROT_READ | PROT_WRITE;
	void *ring = mmap(NULL, c.size, prot, MAP_SHARED, fds[0], 0);
	void *bell = mmap(NULL, SHM_BELL_SIZE, prot, MAP_SHARED, fds[1], 0);

	if (ring == MAP_FAILED || bell == MAP_FAILED)
		return;
	c.ring = ring;
	c.bell = bell;
	for (int i = 0; i < SHM_HAND_FDS; i++)
		c.fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
	pthread_mutex_lock(&mutex);
	if (caught_cnt >= CATCHES && old_cnt < sizeof(old) / sizeof(old[0]))
		old[old_cnt++] = caught[caught_cnt % CATCHES];
	caught[caught_cnt++ % CATCHES] = c;
	pthread_mutex_unlock(&mutex);
	atomic_fetch_add(&scene->links, 1);
}

/* The descriptors of a handover; false: the message is something else. */
static bool is_handover(const struct msghdr *msg, struct shm_hand *hand, int fds[SHM_HAND_FDS])
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(msg);

	if (!hooked || msg->msg_iovlen != 1 || msg->msg_iov->iov_len != sizeof(*hand) || !c ||
	    c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int) * SHM_HAND_FDS))
		return false;
	memcpy(hand, msg->msg_iov->iov_base, sizeof(*hand));
	memcpy(fds, CMSG_DATA(c), sizeof(int) * SHM_HAND_FDS);
	return hand->magic == SHM_MAGIC;
}

/* ---- lies in a handover ---- */

/* A memory file of that size that nothing keeps from shrinking. */
static int unsealed(size_t size)
{
	int fd = memfd_create("liar", MFD_CLOEXEC);

	return fd >= 0 && !ftruncate(fd, (off_t)size) ? fd : -1;
}

static int one_of_other_kind(uint64_t random)
{
	int ends[2];

	switch (random % 4) {
	case 0:
		return eventfd(0, EFD_CLOEXEC);
	case 1:
		if (pipe2(ends, O_CLOEXEC))
			return -1;
		close(ends[0]);
		return ends[1];
	case 2:
		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends))
			return -1;
		close(ends[0]);
		return ends[1];
	default:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	}
}

/* Returns a descriptor to close afterwards, or -1. */
static int change_hand(struct shm_hand *hand, int fds[SHM_HAND_FDS])
{
	uint64_t random = pattern_next(&hook_random), value = pattern_next(&hook_random);
	size_t size = (size_t)hand->slots * SHM_STRIDE * 2;
	int fd, at = 2;

	switch (random % 10) {
	case 0: hand->slots = (uint32_t)(random & 1 << 8 ? hand->slots * 2 : value); return -1;
	case 1: hand->arena = (uint32_t)value; return -1;
	case 2: hand->max_packet = (uint32_t)value; return -1;
	case 3: hand->bell_index = (uint32_t)(value % (2 * SHM_BELL_LINKS)); return -1;
	case 4: hand->table = random & 1 << 8 ? value : hand->table + 8; return -1;
	case 5: hand->token = value; return -1;
	case 6: hand->fence = (uint32_t)value; return -1;
	case 7: fd = unsealed(random & 1 << 8 ? size : SHM_BELL_SIZE); at = random >> 8 & 1 ? 0 : 1; break;
	case 8: fd = one_of_other_kind(value); at = (int)(random >> 8) & 3; break;
	default: fd = fcntl(fds[(random >> 8) % 3], F_DUPFD_CLOEXEC, 0); at = (random >> 12) % 3;
	}
	if (fd >= 0)
		fds[at < SHM_HAND_FDS ? at : 2] = fd;
	return fd;
}

VISIBLE ssize_t sendmsg(int sock, const struct msghdr *msg, int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);
	int fds[SHM_HAND_FDS], extra = -1;
	struct shm_hand hand;
	struct iovec iov = { &hand, sizeof(hand) };
	struct msghdr changed = *msg;
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	ssize_t ret;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
	if (!is_handover(msg, &hand, fds))
		return real(sock, msg, flags);
	keep(&hand, fds, true);
	if (cmsg && is_wanted(LIE_HAND)) {
		extra = change_hand(&hand, fds);
		memcpy(CMSG_DATA(cmsg), fds, sizeof(fds));
		changed.msg_iov = &iov;
		lie_count(LIE_HAND);
	}
	ret = real(sock, &changed, flags);
	if (extra >= 0)
		close(extra);
	return ret;
}

VISIBLE ssize_t recvmsg(int sock, struct msghdr *msg, int flags)
{
	static ssize_t (*real)(int, struct msghdr *, int);
	int fds[SHM_HAND_FDS];
	struct shm_hand hand;
	ssize_t ret;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "recvmsg");
	ret = real(sock, msg, flags);
	if (ret == (ssize_t)sizeof(hand) && is_handover(msg, &hand, fds))
		keep(&hand, fds, false);
	return ret;
}

/* ---- another process id ---- */

/* A process that has nothing to do with all this, of that process id. It ends with this one. */
static void take_pid(pid_t pid)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
		uint64_t set_tid, set_tid_size, cgroup;
	} args = { .set_tid = (uintptr_t)&pid, .set_tid_size = 1 };
	pid_t parent = getpid();

	if (!syscall(SYS_clone3, &args, sizeof(args))) {
		/* It ends when it is a child of another: with its maker. */
		while (getppid() == parent)
			usleep(1000);
		_exit(0);
	}
}

/*
 * The kernel notes who connects. The process of that id ends at once, and another one
 * may have its id then; or it stays for a moment, with a copy of this one's memory.
 */
static int connect_as_other(int sock, const struct sockaddr *addr, socklen_t len,
			    int (*real)(int, const struct sockaddr *, socklen_t))
{
	uint64_t random = pattern_next(&hook_random);
	pid_t parent = getpid(), pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	int status;

	if (!pid) {
		int ret = real(sock, addr, len);

		while (!ret && random % 3 == 2 && getppid() == parent)
			usleep(1000);
		_exit(ret != 0);
	}
	if (pid < 0)
		return real(sock, addr, len);
	lie_count(LIE_PID);
	if (random % 3 == 2) {
		usleep(500);
		return 0;
	}
	if (waitpid(pid, &status, 0) == pid && random % 3 == 1)
		take_pid(pid);
	return 0;
}

VISIBLE int connect(int sock, const struct sockaddr *addr, socklen_t len)
{
	static int (*real)(int, const struct sockaddr *, socklen_t);
	const struct sockaddr_un *sun = (const void *)addr;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "connect");
	if (hooked && addr->sa_family == AF_UNIX && !memcmp(sun->sun_path, "\0tagrv-", 7) &&
	    is_wanted(LIE_PID))
		return connect_as_other(sock, addr, len, real);
	return real(sock, addr, len);
}
