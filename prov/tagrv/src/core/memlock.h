/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How much memory this process may lock. Registration locks memory.
 */
#ifndef TAGRV_CORE_MEMLOCK_H
#define TAGRV_CORE_MEMLOCK_H

#include <stddef.h>

/*
 * Returns the bytes that this process may lock: RLIMIT_MEMLOCK of setrlimit(2),
 * or SIZE_MAX if there is no limit or the process has CAP_IPC_LOCK. The kernel
 * demands that capability in the initial user namespace: a process that has it
 * in another namespace gets SIZE_MAX here, and -FI_ENOMEM when it registers more
 * than its limit.
 */
size_t tagrv_memlock_limit(void);

#endif
