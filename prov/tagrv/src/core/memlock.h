/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How much memory may be locked, which is what registering it does.
 */
#ifndef TAGRV_CORE_MEMLOCK_H
#define TAGRV_CORE_MEMLOCK_H

#include <stddef.h>

/*
 * Bytes that this process may lock, RLIMIT_MEMLOCK of setrlimit(2); SIZE_MAX:
 * without limit, or this process has the capability CAP_IPC_LOCK. The kernel
 * asks for that in the first user namespace: who has it in another one only
 * learns of the limit by -FI_ENOMEM.
 */
size_t tagrv_memlock_limit(void);

#endif
