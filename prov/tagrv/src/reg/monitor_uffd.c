/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The monitor over userfaultfd(2).
 *
 *   munmap, mremap, madvise      monitor thread             caches
 *   memory changed (or will)
 *   caller blocks - event ---->  lock, generation++
 *                                read, invalidate ------->  regions removed
 *   caller goes on <-----------  unlock
 *
 * Ranges are registered for write protection, which is never applied: no memory
 * access faults, and only the calls above wait for this thread. So faults of the
 * kernel need not be handled, and UFFD_USER_MODE_ONLY is enough.
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
#include <sys/utsname.h>
#include <unistd.h>

#include "core/thread.h"
#include "reg/monitor.h"
#include "reg/monitor_vma.h"

/* Older kernel headers lack these. */
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
	int	fd;		/* userfaultfd */
	int	maps_fd;	/* /proc/self/maps */
	int	stop_fd;	/* eventfd: the thread ends */
	unsigned users;		/* the_mutex held */
	pthread_t thread;
};

/* The one monitor of the process, or NULL: see tagrv_monitor_uffd_get(). */
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

	/*
	 * Fails for unmapped memory, which is not registered any more, and for parts
	 * of huge pages, which stay watched until they are unmapped: fine.
	 */
	ioctl(uffd_of(base)->fd, UFFDIO_UNREGISTER, &range);
}

static int register_range(struct uffd_monitor *uffd, struct uffdio_register *reg,
			  const struct tagrv_vma_range *range)
{
	*reg = (struct uffdio_register) {
		.range = { .start = range->from, .len = range->to - range->from },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	return ioctl(uffd->fd, UFFDIO_REGISTER, reg) ? -errno : 0;
}

/*
 * Only the kernel can tell what has the name of huge pages from a file that someone
 * called so: it offers no zero page for them.
 */
static bool is_watched(struct uffd_monitor *uffd, const struct uffdio_register *reg,
		       struct tagrv_vma_range range)
{
	switch (tagrv_vma_kind(uffd->maps_fd, &range, false)) {
	case TAGRV_VMA_PLAIN:
		return true;
	case TAGRV_VMA_HUGE:
		return !(reg->ioctls & (uint64_t) 1 << _UFFDIO_ZEROPAGE);
	default:
		return false;
	}
}

static int uffd_watch(struct tagrv_monitor *base, uintptr_t from, uintptr_t to)
{
	struct uffd_monitor *uffd = uffd_of(base);
	struct tagrv_vma_range range = { from, to };
	struct uffdio_register reg;
	int ret = register_range(uffd, &reg, &range);

	/* The kernel watches no part of a huge page. */
	if (ret == -EINVAL &&
	    tagrv_vma_kind(uffd->maps_fd, &range, false) == TAGRV_VMA_HUGE)
		ret = register_range(uffd, &reg, &range);
	/* ENOMEM: too many mappings; some of the range may be watched. */
	if (ret && ret != -ENOMEM)
		return -FI_EOPNOTSUPP;
	/* Check after UFFDIO_REGISTER: a later change of the range gives an event. */
	if (!ret && is_watched(uffd, &reg, range))
		return 0;
	tagrv_monitor_unwatch_unused(base, range.from, range.to);
	return ret ? -FI_ENOMEM : -FI_EOPNOTSUPP;
}

/*
 * The kernel counts a change from the time when it locks the address space until
 * the event is read. As long as the count is not 0, UFFDIO_WRITEPROTECT fails with
 * EAGAIN, before the range is checked. The range given here is empty, so that the
 * call fails with EINVAL otherwise. Returns the errno, or 0.
 */
static int probe_changes(const struct uffd_monitor *uffd)
{
	struct uffdio_writeprotect nothing = { .mode = 0 };

	return ioctl(uffd->fd, UFFDIO_WRITEPROTECT, &nothing) ? errno : 0;
}

static bool uffd_changing(struct tagrv_monitor *base)
{
	return probe_changes(uffd_of(base)) != EINVAL;
}

static const struct tagrv_monitor_ops uffd_ops = {
	.name = "userfaultfd",
	.watch = uffd_watch,
	.unwatch = uffd_unwatch,
	.changing = uffd_changing,
	.put = tagrv_monitor_uffd_put,
};

/* ---- events ---- */

static void handle_event(struct uffd_monitor *uffd, const struct uffd_msg *msg)
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
		/* The kernel goes on watching at the new address: end that. */
		tagrv_monitor_invalidate(&uffd->base, to,
					 to + msg->arg.remap.len);
		tagrv_monitor_unwatch_unused(&uffd->base, to, to + msg->arg.remap.len);
		break;
	default:	/* page faults: never asked for */
		break;
	}
}

/*
 * read() lets the caller of munmap go on. A region must not be found between that
 * and its invalidation, so the lock is taken before, and the generation is
 * incremented for the cache's front slots, which are read without the lock.
 */
static void handle_events(struct uffd_monitor *uffd)
{
	struct uffd_msg msg[EVENTS_AT_ONCE];
	ssize_t got;

	tagrv_monitor_lock(&uffd->base);
	atomic_fetch_add(&uffd->base.generation, 1);
	got = read(uffd->fd, msg, sizeof(msg));
	for (size_t i = 0; got > 0 && i < (size_t) got / sizeof(msg[0]); i++)
		handle_event(uffd, &msg[i]);
	tagrv_monitor_unlock(&uffd->base);
}

/* Must not allocate or log: see monitor.h. */
static void *event_thread(void *arg)
{
	struct uffd_monitor *uffd = arg;
	struct pollfd fds[2] = {
		{ .fd = uffd->fd, .events = POLLIN },
		{ .fd = uffd->stop_fd, .events = POLLIN },
	};

	while (!(fds[1].revents & POLLIN)) {
		if (poll(fds, 2, -1) > 0 && fds[0].revents & POLLIN)
			handle_events(uffd);
	}
	return NULL;
}

/* ---- fork ---- */

/*
 * The child inherits the descriptors, but they watch the parent's memory. If the
 * child kept a copy of the userfaultfd, callers of munmap in the parent would wait
 * for ever once the parent has closed its own.
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

/* Keeps other threads from starting or ending the monitor during a fork. */
static void before_fork(void)
{
	pthread_mutex_lock(&the_mutex);
}

/*
 * After a fork the parent's pages may be copied when it writes to them, before
 * Linux 5.12 even pages that are registered with a device: caches drop all.
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
	err = errno;	/* of the system call; the device often does not exist */
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
	struct utsname kernel;

	if (ioctl(uffd->fd, UFFDIO_API, &api)) {
		snprintf(why, why_len, "the kernel's userfaultfd does not tell "
			 "of unmapped memory");
		return -FI_ENOSYS;
	}
	/*
	 * The counting of changes under way came with Linux 5.15, and has no feature
	 * bit of its own. Older kernels of distributions may have it: then they have
	 * this slightly newer feature, too.
	 */
	if (!(api.features & UFFD_FEATURE_EXACT_ADDRESS) &&
	    (uname(&kernel) || !tagrv_monitor_release_is(kernel.release, 5, 15))) {
		snprintf(why, why_len, "userfaultfd of this kernel is older "
			 "than that of Linux 5.15");
		return -FI_ENOSYS;
	}
	if (probe_changes(uffd) != EINVAL) {
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

	/* write() fails only when the counter is full, and then stop_fd is readable. */
	if (write(uffd->stop_fd, &one, sizeof(one)) < 0)
		(void) one;
	pthread_join(uffd->thread, NULL);
	/* Callers of munmap whose events were not read go on when fd is closed. */
	close_fds(uffd);
	tagrv_monitor_fini(&uffd->base);
	free(uffd);
}

void tagrv_monitor_uffd_put(struct tagrv_monitor *monitor)
{
	struct uffd_monitor *uffd = uffd_of(monitor);

	if (atomic_load(&monitor->foreign))
		return;
	/* Locked until the descriptors are closed, so that no fork copies them. */
	pthread_mutex_lock(&the_mutex);
	if (!--uffd->users) {
		stop(uffd);
		the_monitor = NULL;
	}
	pthread_mutex_unlock(&the_mutex);
}
