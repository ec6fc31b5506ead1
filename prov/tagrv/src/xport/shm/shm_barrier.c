/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The barrier between publishing an entry and reading whether the ring is polled.
 *
 *   sender, every packet            receiver, rarely
 *   publish the entry               clear SHM_POLLED
 *   [barrier]                       barrier
 *   SHM_POLLED clear: ring bell     read the ring once more
 *
 * One of the two sees the other's store if both have a full barrier in between.
 * The sender's barrier would cost time for every packet; so the receiver calls
 * membarrier(2), by which the kernel executes a barrier on all processors where a
 * registered process runs. If the receiver cannot call it (it says so in its
 * handover), or the sender could not register, the sender executes a fence per
 * packet (tx.fence).
 */
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
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
		tagrv_info("shm: membarrier is not available: each packet "
			   "costs a memory fence\n");
}

bool tagrv_shm_barrier_available(void)
{
	pthread_once(&once, register_process);
	return available;
}

/*
 * In a registered process the system call fails only for want of memory, or where a
 * filter of system calls was installed later. Stores of other processors become visible
 * by themselves, long before the end of the rest that follows then.
 */
void tagrv_shm_barrier(const struct shm_device *dev)
{
	const struct timespec rest = { .tv_nsec = 10000000 };

	shm_fence();
	if (!dev->force_fence && membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED))
		nanosleep(&rest, NULL);
}
