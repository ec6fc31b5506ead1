/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A look as one JSON object, in one line.
 */
#ifndef UTIL_TOP_JSON_H
#define UTIL_TOP_JSON_H

#include <stdio.h>

#include "core/compiler.h"
#include "util/top/top_row.h"

/* Writes the line. seconds: by the host's clock, since 1970. 0 or -errno. */
int top_json_write(const struct top_look *look, const struct top_rows *rows, double seconds,
		   FILE *out);

#endif
