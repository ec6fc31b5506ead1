/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Errors that say that memory or descriptors are missing. They are passed on as they
 * are: "no such device" or "no such address" would be untrue, and would be believed.
 */
#ifndef TAGRV_CORE_LACK_H
#define TAGRV_CORE_LACK_H

#include <errno.h>
#include <stdbool.h>

/* err: a positive errno value. */
static inline bool tagrv_is_lack(int err)
{
	return err == ENOMEM || err == EMFILE || err == ENFILE;
}

/* The result for a call that failed with err: -err if that is a lack, else 'other'. */
static inline int tagrv_lack_or(int err, int other)
{
	return tagrv_is_lack(err) ? -err : other;
}

#endif
