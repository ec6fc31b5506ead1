/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The options of tagrv_perf.
 */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include "perf.h"

/* Ends the program with a message for a wrong option, and for --help and --version. */
void options_parse(struct perf_options *opt, int argc, char **argv);

/* What holds without any option; and what follows from all of them, which ends the program if it cannot be. */
void options_begin(struct perf_options *opt);
void options_finish(struct perf_options *opt);

/* Returns the text, which with its end has no more bytes; name: of the option, for the message. */
const char *options_text(const char *text, const char *name, size_t most);

/* pingpong/pingpong.c: the options of tagrv_pingpong. */
void pingpong_parse(struct perf_options *opt, int argc, char **argv);

/* lists.c: 8,64,1K or 8:1M or 8:1M:4, without order; name: of the option, for the message. */
void list_parse(struct perf_list *list, const char *text, const char *name, size_t min, size_t max);
/* The same in the order of the text; a value may be there twice. */
void list_parse_as_given(struct perf_list *list, const char *text, const char *name, size_t min, size_t max);

#endif
