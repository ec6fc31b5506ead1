/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The end of match_depth with a message: every file may call it.
 */
#include "depth.h"

#include <stdarg.h>
#include <stdlib.h>

void depth_die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("match_depth: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}
