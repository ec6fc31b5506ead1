/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random bytes of the kernel, good enough for secrets.
 */
#ifndef TAGRV_CORE_RANDOM_H
#define TAGRV_CORE_RANDOM_H

#include <stddef.h>

#include "core/compiler.h"

/*
 * Fills data with len random bytes; waits, early after boot, until the kernel has
 * any, and goes on when a signal interrupts it. Returns 0; -FI_ENOSYS: this kernel has
 * no getrandom(2); or what a sandbox that forbids the call returns, mostly -FI_EPERM.
 * Then data is undefined. There is no substitute, because what is drawn here must not
 * be guessed.
 */
int tagrv_random_fill(void *data, size_t len) TAGRV_WARN_UNUSED;

#endif
