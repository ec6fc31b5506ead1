/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the plug-in and libtagrv-hooks.so (prov/tagrv/hooks/hooks.c) share. The library is
 * put in front of libc by LD_PRELOAD. It knows which memory can go away only by calls that
 * it sees, and tells of these calls.
 */
#ifndef TAGRV_REG_HOOKS_H
#define TAGRV_REG_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tagrv_hooks {
	/* Calls under way whose change has not been told yet. */
	atomic_uint changing;
	/*
	 * Called when memory of [from, to) has changed; NULL: nobody is told. Any thread,
	 * with no lock of the library held. It must neither allocate nor free.
	 */
	void (*_Atomic changed)(uintptr_t from, uintptr_t to);
	/*
	 * Whether all of [from, to) is private memory without a file that only calls which
	 * the library sees can take away. Must not be called by 'changed'.
	 */
	bool (*is_known)(uintptr_t from, uintptr_t to);
};

/* The plug-in looks for this name. It changes with the struct. */
#define TAGRV_HOOKS_NAME	"tagrv_hooks_1"
extern struct tagrv_hooks tagrv_hooks_1;

#endif
