/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The options of tagrv_perf.
 */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include "perf.h"

/* Ends the program with a message for a wrong option, and for --help and --version. */
void options_parse(struct perf_options *opt, int argc, char **argv);

/* lists.c: 8,64,1K or 8:1M or 8:1M:4, without order; name: of the option, for the message. */
void list_parse(struct perf_list *list, const char *text, const char *name, size_t min, size_t max);

#endif
