/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The options of tagrv_pingpong.
 */
#ifndef BENCH_PINGPONG_H
#define BENCH_PINGPONG_H

#include <stdbool.h>
#include <stddef.h>

#include "endpoint.h"

enum { SIZES_MAX = 64, BLOCKS_MAX = 1000 };

struct options {
	struct endpoint_conf conf;
	const char *dev[2];		/* FI_TAGRV_DEVICES of leader, follower */
	const char *domain[2];
	const char *address[2];
	const char *port;
	const char *host;		/* run as client of the server on this host */
	bool	server;
	bool	latency, bandwidth, registration, verify, header;
	size_t	sizes[SIZES_MAX];
	size_t	size_cnt;
	unsigned blocks;
	unsigned long iterations;	/* in a block; 0: chosen by time */
	double	budget;			/* seconds for one measurement */
	bool	pause;			/* print the longest pause of a stream */
	bool	pin;			/* each process to a processor of its own */
};

/* Ends the program with a message for a wrong option, and for --help. */
void options_parse(struct options *opt, int argc, char **argv);

#endif
