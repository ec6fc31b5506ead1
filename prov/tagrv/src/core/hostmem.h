/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How much memory this process may use, and the part of it that one endpoint may fill
 * with messages that nobody waits for.
 */
#ifndef TAGRV_CORE_HOSTMEM_H
#define TAGRV_CORE_HOSTMEM_H

#include <stddef.h>

/*
 * Returns the bytes of memory that this process may use: those of the host, or the
 * lowest limit of the control groups that the process is in (version 1 or 2). root: ""
 * but in tests, which have files of their own below it.
 */
size_t tagrv_hostmem_limit(const char *root);

/*
 * The default of FI_TAGRV_EAGER_BUDGET: of so many bytes, a sixteenth, divided by the
 * processors, because a host usually has an endpoint for each of them. At least 72 MiB,
 * which are enough for 500000 short messages of one sender (proto/hold.h), but not more
 * than an eighth of the memory; at most 512 MiB.
 */
size_t tagrv_hostmem_share(size_t bytes, size_t processors);

#endif
