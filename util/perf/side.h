/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One process of a pair, the lead or the follower, and what it does in a round.
 */
#ifndef PERF_SIDE_H
#define PERF_SIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "endpoint.h"
#include "hist.h"
#include "talk.h"

enum { SIDE_SAMPLES = 1024 };

/* Where the peer's memory is, for remote operations. */
struct side_target {
	uint64_t addr, key, bytes;
};

struct side {
	struct endpoint e;
	const struct perf_hello *hello;
	bool	leads;
	int	oob;			/* to the other process of the pair */
	int	up;			/* of a lead: to the coordinator */
	bool	measuring;		/* the peer says nothing now, unless it fails */
	double	seconds_per_tick;
	bool	verify;
	uint64_t taken;			/* messages that were verified */

	uint64_t to_post;		/* receives that this round still needs */
	struct hist hist;		/* of the round, in 0.1 ns */
	double	part;			/* of a sample that is reported: half of a round trip */
	uint64_t samples[SIDE_SAMPLES];
	unsigned sample_cnt;
	double	blocks[PERF_BLOCKS_MAX];	/* s of one operation */
	unsigned block_cnt;
	uint64_t pause;			/* ticks, the longest between two sends of a stream */

	/* test reg */
	char	*region;

	/* test depth: receives that nothing matches */
	uint64_t fillers;
	struct filler_chunk *filler_chunks;

	/* remote memory: what the peer accesses, then what this side writes from and reads to */
	char	*window, *local;
	struct fid_mr *mr;
	void	*desc;
	struct side_target peer;
	struct endpoint_op *ops;
};

/* A test's part of a round. The lead fills in seconds, count, unit, shares and pause. */
struct side_ops {
	void (*prepare)(struct side *s, const struct perf_order *order);
	void (*run)(struct side *s, const struct perf_order *order, struct perf_reply *result);
};

extern const struct side_ops side_latency, side_depth, side_stream, side_both_ways, side_overlap;
extern const struct side_ops side_remote_each, side_remote_stream, side_register;

static inline double side_seconds(const struct side *s, uint64_t since)
{
	return (double)(clock_ticks() - since) * s->seconds_per_tick;
}

/* Ticks of one sample; kept aside until many are counted together, outside of any sample. */
void side_count_samples(struct side *s);
static inline bool side_sample(struct side *s, uint64_t ticks)
{
	s->samples[s->sample_cnt++] = ticks;
	if (s->sample_cnt < SIDE_SAMPLES)
		return false;
	side_count_samples(s);
	return true;
}

/*
 * What ends a round that began at this tick: time and rate of its operations. part: of an
 * operation that is reported, half of a round trip.
 */
void side_finish(struct side *s, struct perf_reply *result, uint64_t begin, double part);

/* The end of a block of so many operations that began at this tick. Returns its ticks. */
uint64_t side_end_block(struct side *s, uint64_t begin, uint64_t count, double part);

/* verify.c: fills the next message; checks the one that was taken last. */
void side_fill(struct side *s, size_t size);
void side_verify(struct side *s, size_t size);

static inline void side_send(struct side *s, size_t size)
{
	if (s->verify)
		side_fill(s, size);
	endpoint_post_send(&s->e, size);
}

static inline void side_take(struct side *s, size_t size)
{
	endpoint_take_recv(&s->e);
	if (s->verify)
		side_verify(s, size);
}

/* remote.c: exchange where the memory is; free it. */
void side_share_memory(struct side *s);
void side_unshare_memory(struct side *s);

/* messages.c: frees what test depth has posted from, after the endpoint was closed. */
void side_free_fillers(struct side *s);

/* From now on bench_die() tells this socket's other end, instead of the user. */
void side_report_to(int fd);

/*
 * The whole life of a process of a pair. They return after the other side has closed its
 * socket. Failures end the process after they were reported.
 */
void side_lead(const struct perf_hello *mine, const struct perf_hello *theirs, int oob, int up);
void side_follow(const struct perf_hello *hello, int oob);

#endif
