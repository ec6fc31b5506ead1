/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads a secret from a file that nobody else can read.
 */
#ifndef TAGRV_AUTH_AUTH_FILE_H
#define TAGRV_AUTH_AUTH_FILE_H

#include <stddef.h>

#include "core/compiler.h"

/*
 * Reads the whole file, which is a regular file of this user or of root without any
 * permission for others, of at most 'size' bytes. The end of line at its end, if there is one,
 * does not count. Returns 0 and *len, or -FI_E* after a log line that says what to
 * do; the caller wipes 'secret' in both cases.
 */
int tagrv_auth_file_read(const char *path, void *secret, size_t size,
			 size_t *len) TAGRV_WARN_UNUSED;

#endif
