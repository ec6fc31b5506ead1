/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sizes that hold on every path to every peer; fi_getinfo reports them.
 */
#ifndef TAGRV_CORE_LIMITS_H
#define TAGRV_CORE_LIMITS_H

#include <stddef.h>

/* Bytes of the longest message. */
#define TAGRV_MAX_MSG		((size_t) 1 << 40)
/* Bytes of the longest message whose buffer is free when the call returns. */
#define TAGRV_INJECT_MAX	((size_t) 1024)

#endif
