/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Message sizes that every transport and every protocol supports, as fi_getinfo
 * reports them.
 */
#ifndef TAGRV_CORE_LIMITS_H
#define TAGRV_CORE_LIMITS_H

#include <stddef.h>

/* max_msg_size: bytes of the longest message. */
#define TAGRV_MAX_MSG		((size_t) 1 << 40)
/* inject_size: bytes of the longest message whose buffer is free on return. */
#define TAGRV_INJECT_MAX	((size_t) 1024)

#endif
