/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The values of a row, for all formats.
 */
#include "results.h"

#include <math.h>
#include <stdint.h>

enum {
	TIMES = 1 << PERF_TIMES, STREAM = 1 << PERF_STREAM, SHARES = 1 << PERF_SHARES,
	EACH = TIMES | STREAM | SHARES,
};

static double bytes(const struct perf_row *row)
{
	return (double)row->size;
}

static double pairs(const struct perf_row *row)
{
	return (double)row->pairs;
}

static double window(const struct perf_row *row)
{
	return perf_tests[row->test].kind == PERF_STREAM ? (double)row->window : NAN;
}

static double depth(const struct perf_row *row)
{
	return row->test == PERF_DEPTH ? (double)row->depth : NAN;
}

static double rounds(const struct perf_row *row)
{
	return (double)row->rounds;
}

static double count(const struct perf_row *row)
{
	return (double)row->count;
}

#define MOMENT(name, index)					\
	static double name(const struct perf_row *row)		\
	{							\
		return row->times[index] * 1e6;			\
	}

MOMENT(min_us, PERF_MIN)
MOMENT(p50_us, PERF_P50)
MOMENT(p90_us, PERF_P90)
MOMENT(p99_us, PERF_P99)
MOMENT(p999_us, PERF_P999)
MOMENT(max_us, PERF_MAX)
MOMENT(mean_us, PERF_MEAN)

static double megabytes(const struct perf_row *row)
{
	return row->per_second * (double)row->size / 1e6;
}

static double operations(const struct perf_row *row)
{
	return row->per_second;
}

static double pause_us(const struct perf_row *row)
{
	return row->pause * 1e6;
}

static double send_share(const struct perf_row *row)
{
	return row->shares[0] * 100;
}

static double recv_share(const struct perf_row *row)
{
	return row->shares[1] * 100;
}

static double ratio(const struct perf_row *row)
{
	return row->ratio;
}

const struct perf_column perf_columns[] = {
	{ "bytes", "bytes", 9, 0, EACH, bytes },
	{ "pairs", "pairs", 5, 0, EACH, pairs },
	{ "depth", "depth", 8, 0, TIMES, depth },
	{ "window", "window", 6, 0, STREAM, window },
	{ "rounds", NULL, 0, 0, 0, rounds },
	{ "operations", NULL, 0, 0, 0, count },
	{ "min_us", "min us", 10, 3, TIMES, min_us },
	{ "p50_us", "50 %", 10, 3, TIMES, p50_us },
	{ "p90_us", "90 %", 10, 3, TIMES, p90_us },
	{ "p99_us", "99 %", 10, 3, TIMES, p99_us },
	{ "p999_us", "99.9 %", 10, 3, TIMES, p999_us },
	{ "max_us", "max us", 10, 3, TIMES, max_us },
	{ "mean_us", "mean us", 10, 3, TIMES, mean_us },
	{ "MBps", "MB/s", 12, 2, STREAM, megabytes },
	{ "per_second", "per second", 12, 0, STREAM, operations },
	{ "pause_us", "longest pause us", 16, 1, STREAM, pause_us },
	{ "send_overlap_pct", "sends overlap %", 15, 1, SHARES, send_share },
	{ "recv_overlap_pct", "receives overlap %", 18, 1, SHARES, recv_share },
	{ "ratio", "ratio", 8, 3, TIMES | STREAM, ratio },
};

const size_t perf_column_cnt = sizeof(perf_columns) / sizeof(perf_columns[0]);
