/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The live view on a terminal.
 */
#ifndef UTIL_TOP_UI_H
#define UTIL_TOP_UI_H

#include "util/top/top_row.h"

struct top_ui_options {
	struct top_source source;
	enum top_key key;
	double	interval;	/* seconds */
};

/*
 * Runs until the user ends it, or the terminal is gone. 0 or -errno; -ENOTTY: TERM names no
 * terminal that is known.
 */
int top_ui_run(const struct top_ui_options *options);

#endif
