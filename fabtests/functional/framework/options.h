/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The command line of the test programs.
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

/* A numeric option that one program has. */
struct option_number {
	const char *name;
	const char *help;
	uint64_t *value;	/* contains the default before parsing */
};

/* Exits with a message on wrong usage, and after --help. */
void options_parse(struct options *opt, int argc, char **argv, const struct option_number *own,
		   int own_count);

/* Sets the limit that --timeout did not; multiplied by slowness(). */
void options_default_timeout(struct options *opt, int seconds);

#endif
