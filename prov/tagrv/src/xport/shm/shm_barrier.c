/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The barrier between "entry published" and "is the ring polled?".
 *
 *   sender                          receiver, rarely
 *   publish the entry               polled = 0
 *   [barrier]                       barrier
 *   polled? no: ring the bell       look at the ring once more
 *
 * One of the two sees the other if both have a full barrier in between. The
 * sender's is on the path of every packet, so the receiver makes the kernel
 * execute it on whatever the sender runs, at its own expense. Senders fence by
 * themselves where that cannot be had: the receiver says so in its handover, or
 * the sender could not register.
 */
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/log.h"
#include "xport/shm/shm_priv.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool available;

static int membarrier(int command)
{
	return (int) syscall(SYS_membarrier, command, 0, 0);
}

static void register_process(void)
{
	int commands = membarrier(MEMBARRIER_CMD_QUERY);

	available = commands > 0 &&
		commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED &&
		commands & MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED &&
		!membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
	if (!available)
		tagrv_info("shm: no membarrier here: a fence per packet\n");
}

bool tagrv_shm_barrier_available(void)
{
	pthread_once(&once, register_process);
	return available;
}

/* Registered, the call cannot fail any more. */
void tagrv_shm_barrier(const struct shm_device *dev)
{
	shm_fence();
	if (!dev->force_fence)
		membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}
