/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the processes of tagrv_perf say to each other. Both ends are the same program on hosts
 * of the same byte order; hello has a magic number and a version. The server checks what it
 * is given, because anybody may connect to its port.
 */
#ifndef PERF_TALK_H
#define PERF_TALK_H

#include <stdbool.h>
#include <stdint.h>

#include "hist.h"
#include "perf.h"

#define PERF_MAGIC	0x6672657072676174ull	/* "tagrperf" */
enum { PERF_VERSION = 2, PERF_PORT = 47921 };
#define PERF_COUNT_MAX	((uint64_t)1 << 40)	/* operations of a round or block */

enum perf_hello_kind { PERF_HELLO_SESSION = 1, PERF_HELLO_FOLLOW };

/* First message of a connection to the server, and of a lead to its follower. */
struct perf_hello {
	uint64_t magic;
	uint32_t version, kind;
	uint64_t session;
	/* of the follower; empty: its own choice */
	char	provider[PERF_NAME_LEN], domain[PERF_NAME_LEN], address[PERF_NAME_LEN];
	char	devices[PERF_DEVICES_LEN];	/* FI_TAGRV_DEVICES, likewise */
	uint64_t memory, slots, size, recvs;	/* most that orders will ask for */
	uint64_t flags;				/* enum perf_flags */
	uint32_t need, timeout, yield, pin;
	uint32_t member, pairs;
};

/*
 * The next round; count 0: the end. It has count operations; or, if blocks is not 0, that many
 * blocks of count operations each, which are timed as a whole and follow each other at once.
 */
struct perf_order {
	uint64_t test, size, window, depth, count, blocks;
};

static inline uint64_t order_operations(const struct perf_order *order)
{
	return order->blocks ? order->blocks * order->count : order->count;
}

/* Whether the order keeps to what hello has announced. A follower's lead may be anybody. */
bool order_is_possible(const struct perf_hello *hello, const struct perf_order *order);

enum perf_reply_kind { PERF_OPENED = 1, PERF_READY, PERF_RESULT, PERF_FAILED };

/* From a follower to its lead, from a lead to the coordinator, and from the server to a session. */
struct perf_reply {
	uint32_t kind, entries;		/* of a histogram, which follow */
	double	seconds;		/* of the round */
	uint64_t count;			/* operations */
	double	unit;			/* s of one operation; of blocks the median */
	double	shares[2];
	double	pause;			/* s, the longest between two sends */
	uint64_t sum, min, max;		/* of the histogram */
	struct perf_about about;
	char	text[400];
};

#endif
