/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * tagrv_perf measures tagged messages and remote memory over any provider of libfabric.
 *
 * Three kinds of processes:
 *
 *   coordinator   the process that the user started. It never calls the provider: it reads the
 *                 options, starts teams, gives orders, and prints.
 *   team          one or more pairs of processes with one provider and one set of capabilities.
 *                 A pair is a lead, which measures, and a follower. Both are children of the
 *                 coordinator, or the follower is a child of the server on another host.
 *   server        tagrv_perf --server: accepts the session of one client and starts a follower
 *                 for each of its leads.
 *
 * What is printed comes from the leads. --compare has a team for each provider at the same time
 * and gives them their rounds in turn; the other teams sleep meanwhile.
 *
 *   coordinator              lead                          follower
 *      | fork                 |                               |
 *      |--------------------->| hello ----- oob ------------->| opens its endpoint
 *      |                      | opens its endpoint            |
 *      |                      |<------ opened, or why not ----|
 *      |                      |<------ names, memory keys --->|
 *      |<-- OPENED or FAILED -|                               |
 *      |                      |                               |     for each round:
 *      |--- order ----------->| order ----------------------->| posts its receives
 *      |                      |<------ ready -----------------|
 *      |<-- READY ------------|                               |
 *      |--- go -------------->|<====== measured traffic =====>|
 *      |<-- RESULT -----------|                               |
 *      |                      |                               |
 *      |--- closes ---------->| closes ---------------------->| ends
 *
 * A lead:    OPENING -> PARKED -> ORDERED -> MEASURING -> PARKED ...; the end of its socket to
 *            the coordinator ends it in each state.
 * A failure: the process that finds it sends one text, the follower to its lead and the lead to
 *            the coordinator, which prints it. A process that dies without a text closes its
 *            sockets, which the other ones notice: a lead or follower that measures looks at its
 *            out-of-band socket after every 16384 empty polls (struct endpoint_conf, watch). The
 *            coordinator waits for an answer no longer than twenty times what the round should
 *            take, and --timeout.
 */
#ifndef PERF_H
#define PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum perf_test {
	PERF_LAT, PERF_BW, PERF_RATE, PERF_BIDIR, PERF_OVERLAP, PERF_REG, PERF_DEPTH,
	PERF_PUT, PERF_GET, PERF_PUT_BW, PERF_GET_BW, PERF_ADD, PERF_ADD_RATE,
	PERF_TESTS
};

/* Decides which columns a test has, and what its rounds are compared by. */
enum perf_kind { PERF_TIMES, PERF_STREAM, PERF_SHARES };

/* Needs of a test beyond tagged messages; tests with equal needs share their teams. */
enum perf_need { PERF_MESSAGES, PERF_DEEP, PERF_REMOTE, PERF_ATOMIC };

struct perf_test_info {
	const char *name;
	const char *title;
	enum perf_kind kind;
	enum perf_need need;
	size_t	window;		/* operations in flight without --window */
	const char *sizes;	/* without --sizes */
	bool	one_size;	/* these sizes whatever --sizes says */
};

extern const struct perf_test_info perf_tests[PERF_TESTS];

enum {
	PERF_LIST_MAX = 64, PERF_ROUNDS_MAX = 1000, PERF_WINDOW_MAX = 4096,
	PERF_PAIRS_MAX = 64, PERF_PROVIDERS_MAX = 8, PERF_DEPTH_MAX = 1 << 20,
	PERF_BLOCKS_MAX = 1000, PERF_NAME_LEN = 64, PERF_DEVICES_LEN = 256,
};

#define PERF_SIZE_MAX	((size_t)1 << 32)

/* How messages are sent and received. Both sides of a pair have the same. */
enum perf_flags {
	PERF_VERIFY	= 1 << 0,	/* each byte is checked */
	PERF_ONE_BUFFER	= 1 << 1,	/* for all sends, and one for all receives */
	PERF_PAUSE	= 1 << 2,	/* the longest time between two sends of a stream is wanted */
	PERF_REGISTER	= 1 << 3,	/* buffers are registered beforehand */
	PERF_NO_INJECT	= 1 << 4,
	PERF_THREAD_SAFE = 1 << 5,	/* FI_THREAD_SAFE */
	PERF_FLAGS	= (1 << 6) - 1,
};

/* Ascending, unless list_parse_as_given() has filled it. */
struct perf_list {
	size_t	values[PERF_LIST_MAX];
	size_t	count;
};

/* PERF_LINES: one line per size, as tagrv_pingpong prints it. */
enum perf_format { PERF_TEXT, PERF_CSV, PERF_JSON, PERF_LINES };

struct perf_options {
	const char *providers[PERF_PROVIDERS_MAX];
	size_t	provider_cnt;
	const char *device[2];		/* domains of lead and follower, or NULL */
	const char *address[2];		/* source addresses, or NULL */
	const char *devices[2];		/* FI_TAGRV_DEVICES, or NULL */
	uint64_t flags;			/* enum perf_flags */
	bool	tests[PERF_TESTS];
	struct perf_list sizes, depths, pairs;
	bool	sizes_given;
	size_t	window;			/* 0: the test's own */
	unsigned rounds, timeout;
	unsigned blocks;		/* of a round; 0: each operation is timed */
	uint64_t iterations;		/* of a round or block; 0: by time */
	bool	windows;		/* iterations of a stream are windows */
	bool	by_size;		/* all tests of a size, then those of the next one */
	uint64_t warmup;
	double	seconds;		/* of all rounds of one line */
	const char *host;		/* the server's, or NULL */
	const char *port;
	bool	server, pin, yield, quiet;
	enum perf_format format;
	const char *plot;		/* name of a PNG file, or NULL */
};

/* What was measured, as the provider says. */
struct perf_about {
	char	provider[64], version[32], domain[64], protocol[64], peer_domain[64];
};

enum { PERF_MIN, PERF_P50, PERF_P90, PERF_P99, PERF_P999, PERF_MAX, PERF_MEAN, PERF_MOMENTS };

/* One line of the result. NAN: the test has no such value. */
struct perf_row {
	size_t	provider;		/* in struct perf_options */
	enum perf_test test;
	size_t	size, window, pairs, depth;
	uint64_t rounds, count;		/* rounds, and operations of each */
	double	times[PERF_MOMENTS];	/* s */
	double	per_second;		/* operations of all pairs, median of the rounds */
	double	shares[2];		/* overlap of sends and of receives, 0 to 1 */
	double	pause;			/* s, the longest between two sends of a stream */
	double	ratio;			/* to the first provider's median */
};

#endif
