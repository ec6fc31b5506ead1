/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Wakes threads that sleep: no device brings work to this transport, but
 * another thread of the process may.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "xport/loop/loop_priv.h"

int tagrv_loop_bell_open(struct loop_bell *bell)
{
	*bell = (struct loop_bell) {
		.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
	};
	return bell->fd < 0 ? -errno : 0;
}

void tagrv_loop_bell_close(struct loop_bell *bell)
{
	if (bell->fd >= 0)
		close(bell->fd);
	bell->fd = -1;
}

void tagrv_loop_bell_wake(struct loop_bell *bell)
{
	const uint64_t one = 1;

	bell->armed = false;
	bell->rung = true;
	/* Fails only when the eventfd is readable already. */
	if (write(bell->fd, &one, sizeof(one)) < 0)
		return;
}

void tagrv_loop_bell_arm(struct loop_bell *bell)
{
	uint64_t count;

	bell->armed = true;
	if (!bell->rung)
		return;
	bell->rung = false;
	/* Fails only when the eventfd is not readable. */
	if (read(bell->fd, &count, sizeof(count)) < 0)
		return;
}
