/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * eventfd.h: readable after a signal, not after clear, never blocking.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>

#include "core/eventfd.h"

static bool is_readable(int fd)
{
	struct pollfd entry = { .fd = fd, .events = POLLIN };

	return poll(&entry, 1, 0) == 1 && entry.revents == POLLIN;
}

TestSuite(eventfd, .timeout = 20);

Test(eventfd, signals_make_it_readable_until_cleared)
{
	int fd = tagrv_eventfd_open();

	cr_assert_geq(fd, 0);
	cr_assert(!is_readable(fd));
	for (int i = 0; i < 3; i++)
		cr_assert_eq(tagrv_eventfd_signal(fd), 0);
	cr_assert(is_readable(fd));
	tagrv_eventfd_clear(fd);
	cr_assert(!is_readable(fd));
	tagrv_eventfd_clear(fd);
	cr_assert_eq(tagrv_eventfd_signal(fd), 0);
	cr_assert(is_readable(fd));
	close(fd);
}

Test(eventfd, signal_succeeds_when_the_counter_is_full)
{
	const uint64_t most = UINT64_MAX - 1;
	int fd = tagrv_eventfd_open();

	cr_assert_eq(write(fd, &most, sizeof(most)), sizeof(most));
	cr_assert_eq(tagrv_eventfd_signal(fd), 0);
	cr_assert(is_readable(fd));
	close(fd);
}

Test(eventfd, signal_reports_a_descriptor_that_is_closed)
{
	int fd = tagrv_eventfd_open();

	close(fd);
	cr_assert_eq(tagrv_eventfd_signal(fd), -EBADF);
}

Test(eventfd, exec_closes_it)
{
	int fd = tagrv_eventfd_open();

	cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
}
