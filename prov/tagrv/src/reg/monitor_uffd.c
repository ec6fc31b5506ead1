/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The monitor over userfaultfd(2).
 *
 *   munmap, mremap, madvise      thread                     caches
 *   mm changed, or about to be
 *   blocks  ------ event ----->  lock, generation++
 *                                read, invalidate ------->  entries dropped
 *   goes on <------------------  unlock
 *
 * Ranges are registered for write protection that is never applied: no access
 * faults, nothing waits for us but the calls above. Permission for faults in
 * the kernel is not needed for that reason, so UFFD_USER_MODE_ONLY will do.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/thread.h"
#include "reg/monitor.h"
#include "reg/monitor_vma.h"

/* What older headers lack. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY	1
#endif
#ifndef UFFD_FEATURE_EXACT_ADDRESS
#define UFFD_FEATURE_EXACT_ADDRESS	(1 << 11)
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW	_IO(0xAA, 0x00)
#endif

#define FEATURES	(UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | \
			 UFFD_FEATURE_EVENT_REMOVE | \
			 UFFD_FEATURE_PAGEFAULT_FLAG_WP)

#define EVENTS_AT_ONCE	16

struct uffd_monitor {
	struct tagrv_monitor base;
	int	fd;
	int	maps_fd;
	int	stop_fd;
	unsigned users;		/* under the_mutex */
	pthread_t thread;
};

/* One in a process: see monitor.h. */
static pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct uffd_monitor *the_monitor;

static struct uffd_monitor *uffd_of(struct tagrv_monitor *base)
{
	return tagrv_container_of(base, struct uffd_monitor, base);
}

/* ---- ranges ---- */

static void uffd_unwatch(struct tagrv_monitor *base, uintptr_t from,
			 uintptr_t to)
{
	struct uffdio_range range = { .start = from, .len = to - from };

	/* What was unmapped is not registered any more: no error for us. */
	ioctl(uffd_of(base)->fd, UFFDIO_UNREGISTER, &range);
}

static int uffd_watch(struct tagrv_monitor *base, uintptr_t from, uintptr_t to)
{
	struct uffd_monitor *uffd = uffd_of(base);
	struct uffdio_register range = {
		.range = { .start = from, .len = to - from },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	if (ioctl(uffd->fd, UFFDIO_REGISTER, &range)) {
		/* Out of mappings: those in front may be watched already. */
		if (errno != ENOMEM)
			return -FI_EOPNOTSUPP;
		tagrv_monitor_release(base, from, to);
		return -FI_ENOMEM;
	}
	/* Watched first, looked second: what is mapped instead is told of. */
	if (tagrv_vma_is_plain(uffd->maps_fd, from, to, false))
		return 0;
	tagrv_monitor_release(base, from, to);
	return -FI_EOPNOTSUPP;
}

/*
 * The kernel counts changes from the moment on when it holds its lock of the
 * address space until the event is read, and refuses to write-protect
 * meanwhile, before it looks at the range: an empty one, which is an error.
 * Returns the error, 0 if there is none.
 */
static int protect_nothing(const struct uffd_monitor *uffd)
{
	struct uffdio_writeprotect nothing = { .mode = 0 };

	return ioctl(uffd->fd, UFFDIO_WRITEPROTECT, &nothing) ? errno : 0;
}

static bool uffd_changing(struct tagrv_monitor *base)
{
	return protect_nothing(uffd_of(base)) != EINVAL;
}

static const struct tagrv_monitor_ops uffd_ops = {
	.name = "userfaultfd",
	.watch = uffd_watch,
	.unwatch = uffd_unwatch,
	.changing = uffd_changing,
};

/* ---- events ---- */

static void take_event(struct uffd_monitor *uffd, const struct uffd_msg *msg)
{
	uintptr_t to;

	switch (msg->event) {
	case UFFD_EVENT_UNMAP:
	case UFFD_EVENT_REMOVE:
		tagrv_monitor_invalidate(&uffd->base, msg->arg.remove.start,
					 msg->arg.remove.end);
		break;
	case UFFD_EVENT_REMAP:
		to = msg->arg.remap.to;
		tagrv_monitor_invalidate(&uffd->base, msg->arg.remap.from,
					 msg->arg.remap.from +
					 msg->arg.remap.len);
		/* What we watched is now watched there, where we need not. */
		tagrv_monitor_invalidate(&uffd->base, to,
					 to + msg->arg.remap.len);
		tagrv_monitor_release(&uffd->base, to, to + msg->arg.remap.len);
		break;
	default:	/* no faults are asked for */
		break;
	}
}

/*
 * Reading lets the caller of munmap go on, so nobody may use an entry between
 * that and its invalidation: the lock is taken before, and the generation tells
 * those who look without it.
 */
static void take_events(struct uffd_monitor *uffd)
{
	struct uffd_msg msg[EVENTS_AT_ONCE];
	ssize_t got;

	tagrv_monitor_lock(&uffd->base);
	atomic_fetch_add(&uffd->base.generation, 1);
	got = read(uffd->fd, msg, sizeof(msg));
	for (size_t i = 0; got > 0 && i < (size_t) got / sizeof(msg[0]); i++)
		take_event(uffd, &msg[i]);
	tagrv_monitor_unlock(&uffd->base);
}

/* Allocates nothing and logs nothing: see monitor.h. */
static void *event_thread(void *arg)
{
	struct uffd_monitor *uffd = arg;
	struct pollfd fds[2] = {
		{ .fd = uffd->fd, .events = POLLIN },
		{ .fd = uffd->stop_fd, .events = POLLIN },
	};

	while (!(fds[1].revents & POLLIN)) {
		if (poll(fds, 2, -1) > 0 && fds[0].revents & POLLIN)
			take_events(uffd);
	}
	return NULL;
}

/* ---- fork ---- */

/*
 * The child has the descriptors, but the memory behind them is the parent's. A
 * descriptor that it kept would make callers of munmap in the parent wait for
 * ever once the parent's thread has ended.
 */
static void after_fork_child(void)
{
	pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	if (the_monitor) {
		atomic_store(&the_monitor->base.foreign, true);
		close(the_monitor->fd);
		close(the_monitor->maps_fd);
		close(the_monitor->stop_fd);
	}
	the_monitor = NULL;
	the_mutex = fresh;
}

/* So that nobody starts or ends it meanwhile. */
static void before_fork(void)
{
	pthread_mutex_lock(&the_mutex);
}

/*
 * Pages of the parent may be copied when it writes to them next, before Linux
 * 5.12 also those that a device knows: what was registered is registered anew.
 */
static void after_fork_parent(void)
{
	if (the_monitor)
		atomic_fetch_add(&the_monitor->base.forks, 1);
	pthread_mutex_unlock(&the_mutex);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/* ---- start and end ---- */

static int open_fd(void)
{
	int flags = O_CLOEXEC | O_NONBLOCK;
	int fd = (int) syscall(SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY);
	int dev, err;

	if (fd < 0 && errno == EINVAL)
		fd = (int) syscall(SYS_userfaultfd, flags);
	if (fd >= 0)
		return fd;
	/* That the device is not there either is not the reason. */
	err = errno;
	dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (dev >= 0) {
		fd = ioctl(dev, USERFAULTFD_IOC_NEW, flags);
		close(dev);
	}
	errno = err;
	return fd;
}

/* -FI_ENOSYS with the reason: the kernel lacks something. */
static int check_kernel(struct uffd_monitor *uffd, char *why, size_t why_len)
{
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURES };

	if (ioctl(uffd->fd, UFFDIO_API, &api)) {
		snprintf(why, why_len, "the kernel's userfaultfd does not tell "
			 "of unmapped memory");
		return -FI_ENOSYS;
	}
	/* Came a little later than counting of changes under way. */
	if (!(api.features & UFFD_FEATURE_EXACT_ADDRESS)) {
		snprintf(why, why_len, "userfaultfd of this kernel is older "
			 "than that of Linux 5.18");
		return -FI_ENOSYS;
	}
	if (protect_nothing(uffd) != EINVAL) {
		snprintf(why, why_len, "userfaultfd does not tell whether "
			 "memory is changing");
		return -FI_ENOSYS;
	}
	return 0;
}

static void close_fds(struct uffd_monitor *uffd)
{
	if (uffd->fd >= 0)
		close(uffd->fd);
	if (uffd->maps_fd >= 0)
		close(uffd->maps_fd);
	if (uffd->stop_fd >= 0)
		close(uffd->stop_fd);
}

static int open_fds(struct uffd_monitor *uffd, char *why, size_t why_len)
{
	uffd->maps_fd = uffd->stop_fd = -1;
	uffd->fd = open_fd();
	if (uffd->fd < 0) {
		snprintf(why, why_len, "no permission for userfaultfd: %s",
			 strerror(errno));
		return -FI_EPERM;
	}
	uffd->maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	uffd->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (uffd->maps_fd < 0 || uffd->stop_fd < 0) {
		snprintf(why, why_len, "no descriptors: %s", strerror(errno));
		return -FI_ENOMEM;
	}
	return check_kernel(uffd, why, why_len);
}

static int start(struct uffd_monitor **out, char *why, size_t why_len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct uffd_monitor *uffd = calloc(1, sizeof(*uffd));
	int ret;

	if (!uffd)
		return -FI_ENOMEM;
	ret = open_fds(uffd, why, why_len);
	if (!ret)
		ret = tagrv_monitor_init(&uffd->base, &uffd_ops);
	if (ret)
		goto close_fds;
	ret = tagrv_thread_start(&uffd->thread, "tagrv-monitor", event_thread,
				 uffd);
	if (ret) {
		snprintf(why, why_len, "no thread: %s", strerror(-ret));
		tagrv_monitor_fini(&uffd->base);
		goto close_fds;
	}
	pthread_once(&once, watch_forks);
	*out = uffd;
	return 0;

close_fds:
	close_fds(uffd);
	free(uffd);
	return ret;
}

int tagrv_monitor_uffd_get(struct tagrv_monitor **monitor, char *why,
			   size_t why_len)
{
	int ret = 0;

	snprintf(why, why_len, "out of memory");
	pthread_mutex_lock(&the_mutex);
	if (!the_monitor)
		ret = start(&the_monitor, why, why_len);
	if (!ret) {
		the_monitor->users++;
		*monitor = &the_monitor->base;
	}
	pthread_mutex_unlock(&the_mutex);
	return ret;
}

static void stop(struct uffd_monitor *uffd)
{
	uint64_t one = 1;

	/* A full counter is readable as well. */
	if (write(uffd->stop_fd, &one, sizeof(one)) < 0)
		(void) one;
	pthread_join(uffd->thread, NULL);
	/* Who waits with an event that nobody reads goes on by this. */
	close_fds(uffd);
	tagrv_monitor_fini(&uffd->base);
	free(uffd);
}

void tagrv_monitor_uffd_put(struct tagrv_monitor *monitor)
{
	struct uffd_monitor *uffd = uffd_of(monitor);

	if (atomic_load(&monitor->foreign))
		return;
	/* Held to the end: a child must know of the descriptors. */
	pthread_mutex_lock(&the_mutex);
	if (!--uffd->users) {
		stop(uffd);
		the_monitor = NULL;
	}
	pthread_mutex_unlock(&the_mutex);
}
