/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Compiler attributes, and the few macros that every layer needs.
 */
#ifndef TAGRV_CORE_COMPILER_H
#define TAGRV_CORE_COMPILER_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define TAGRV_LIKELY(x)		__builtin_expect(!!(x), 1)
#define TAGRV_UNLIKELY(x)	__builtin_expect(!!(x), 0)
#define TAGRV_WARN_UNUSED	__attribute__((warn_unused_result))
#define TAGRV_PRINTF(f, a)	__attribute__((format(printf, f, a)))
#define TAGRV_COLD		__attribute__((cold, noinline))

#define TAGRV_CACHE_LINE	64

#define TAGRV_ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define TAGRV_MIN(a, b)		((a) < (b) ? (a) : (b))
#define TAGRV_MAX(a, b)		((a) > (b) ? (a) : (b))

#define tagrv_container_of(ptr, type, member) \
	((type *) ((char *) (ptr) - offsetof(type, member)))

#endif
