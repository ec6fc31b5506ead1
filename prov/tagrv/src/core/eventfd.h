/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An eventfd: a descriptor that one thread polls and another makes readable.
 *
 *   open --> not readable -- signal, any thread, any number of times --> readable
 *                ^                                                           |
 *                `------------------------- clear ---------------------------'
 *
 * The caller closes it with close(2).
 */
#ifndef TAGRV_CORE_EVENTFD_H
#define TAGRV_CORE_EVENTFD_H

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Returns a non-blocking descriptor that exec closes, or -errno. */
static inline int tagrv_eventfd_open(void)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Makes it readable. 0, also if it was readable before, or -errno. */
static inline int tagrv_eventfd_signal(int fd)
{
	const uint64_t one = 1;

	/* EAGAIN: the counter is at its maximum, so the descriptor is readable. */
	if (write(fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		return -errno;
	return 0;
}

/* Makes it not readable, whatever the number of signals. */
static inline void tagrv_eventfd_clear(int fd)
{
	uint64_t count;

	/* EAGAIN: it was not readable. */
	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

#endif
