/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Command line shared by the test programs.
 */
#ifndef FUNCTIONAL_OPTIONS_H
#define FUNCTIONAL_OPTIONS_H

#include "runner.h"

struct options {
	struct run_options run;
	const char *pattern;
	bool list;
	bool timeout_given;
};

/* A program's own numeric option. */
struct option_number {
	const char *name;
	const char *help;
	uint64_t *value;	/* holds the default before parsing */
};

/* Exits with a message on bad usage and after --help. */
void options_parse(struct options *opt, int argc, char **argv, const struct option_number *own,
		   int own_count);

#endif
