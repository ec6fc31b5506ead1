/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What top_text.c and top_details.c share.
 */
#ifndef UTIL_TOP_PRINT_H
#define UTIL_TOP_PRINT_H

#include <stdarg.h>
#include <stdio.h>

#include "util/top/top_text.h"

/* Without memory, nothing is added. */
void top_print(struct top_text *text, const char *format, ...) TAGRV_PRINTF(2, 3);

#define TOP_SHORT	32
/* "7", "1.2k", "34M". */
const char *top_short(double value, char short_text[TOP_SHORT]);

#endif
