/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rows and their order: see top_row.h.
 */
#include "util/top/top_row.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

static const struct {
	const char *name;
	char letter;
} keys[TOP_KEYS] = {
	[TOP_BY_PID] = { "pid", 'p' },
	[TOP_BY_COMMAND] = { "command", 'c' },
	[TOP_BY_OUT] = { "out", 'o' },
	[TOP_BY_IN] = { "in", 'i' },
	[TOP_BY_BYTES] = { "bytes", 'b' },
	[TOP_BY_POSTED] = { "posted", 'd' },
	[TOP_BY_UNEXPECTED] = { "unexpected", 'u' },
	[TOP_BY_MEMORY] = { "memory", 'm' },
	[TOP_BY_QUEUED] = { "queued", 'w' },
};

const char *top_key_name(enum top_key key)
{
	return keys[key].name;
}

char top_key_letter(enum top_key key)
{
	return keys[key].letter;
}

enum top_key top_key_find(const char *name)
{
	int key = 0;

	while (key < TOP_KEYS && strcmp(keys[key].name, name))
		key++;
	return (enum top_key) key;
}

/* ---- rates ---- */

double top_rate(uint64_t now, uint64_t before, double seconds)
{
	return seconds > 0 && now > before ? (double) (now - before) / seconds : 0;
}

static uint64_t messages_out(const struct tagrv_board_counters *c)
{
	return c->eager_tx + c->announced_tx + c->onesided_tx;
}

static uint64_t messages_in(const struct tagrv_board_counters *c)
{
	return c->eager_rx + c->announced_rx + c->onesided_rx;
}

/* By the way they take. Atomics, most of which bring as many back, count as writes. */
static uint64_t bytes_out(const struct tagrv_board_counters *c)
{
	return c->long_bytes_tx + c->onesided_write_bytes_tx + c->onesided_atomic_bytes_tx +
	       c->onesided_read_bytes_rx;
}

static uint64_t bytes_in(const struct tagrv_board_counters *c)
{
	return c->long_bytes_rx + c->onesided_write_bytes_rx + c->onesided_atomic_bytes_rx +
	       c->onesided_read_bytes_tx;
}

/* looked: s between the two looks, at which the ports were read, whenever the process answered. */
static void add_rates(struct top_row *row, double looked)
{
	const struct tagrv_board_record *now = &row->endpoint->record;
	const struct tagrv_board_record *before = &row->before->record;
	const struct tagrv_board_counters *a = &now->counters, *b = &before->counters;

	row->seconds = now->ns > before->ns ? (double) (now->ns - before->ns) * 1e-9 : 0;
	row->out = top_rate(messages_out(a), messages_out(b), row->seconds);
	row->in = top_rate(messages_in(a), messages_in(b), row->seconds);
	row->bytes_out = top_rate(bytes_out(a), bytes_out(b), row->seconds);
	row->bytes_in = top_rate(bytes_in(a), bytes_in(b), row->seconds);
	row->retransmits = top_rate(row->endpoint->retransmits, row->before->retransmits,
				    looked);
}

static struct top_row make_row(const struct top_look *now, const struct top_look *before,
			       const struct top_process *process,
			       const struct top_endpoint *endpoint)
{
	struct top_row row = { .process = process, .endpoint = endpoint };

	if (!endpoint)
		return row;
	row.age = now->ns > endpoint->record.ns ?
		  (double) (now->ns - endpoint->record.ns) * 1e-9 : 0;
	if (before)
		row.before = top_look_find(before, process->pid, endpoint);
	if (row.before)
		add_rates(&row, now->ns > before->ns ? (double) (now->ns - before->ns) * 1e-9 : 0);
	return row;
}

/* ---- rows ---- */

static size_t row_cnt(const struct top_look *look)
{
	size_t cnt = 0;

	for (size_t i = 0; i < look->cnt; i++)
		cnt += look->processes[i].cnt ? look->processes[i].cnt : 1;
	return cnt;
}

int top_rows_make(const struct top_look *now, const struct top_look *before,
		  struct top_rows *rows)
{
	*rows = (struct top_rows) { 0 };
	rows->rows = calloc(row_cnt(now) + 1, sizeof(*rows->rows));
	if (!rows->rows)
		return -ENOMEM;
	for (size_t i = 0; i < now->cnt; i++) {
		const struct top_process *process = &now->processes[i];

		for (size_t k = 0; k < process->cnt; k++)
			rows->rows[rows->cnt++] = make_row(now, before, process,
							   &process->endpoints[k]);
		if (!process->cnt)
			rows->rows[rows->cnt++] = make_row(now, before, process, NULL);
	}
	return 0;
}

void top_rows_free(struct top_rows *rows)
{
	free(rows->rows);
	*rows = (struct top_rows) { 0 };
}

/* What a row is sorted by; rows that show nothing come last. */
static double value_of(const struct top_row *row, enum top_key key)
{
	const struct tagrv_board_levels *levels;

	if (!row->endpoint)
		return -1;
	levels = &row->endpoint->record.levels;
	switch (key) {
	case TOP_BY_OUT:
		return row->out;
	case TOP_BY_IN:
		return row->in;
	case TOP_BY_BYTES:
		return row->bytes_out + row->bytes_in;
	case TOP_BY_POSTED:
		return (double) levels->posted;
	case TOP_BY_UNEXPECTED:
		return (double) levels->unexpected;
	case TOP_BY_MEMORY:
		return (double) levels->unexpected_bytes;
	case TOP_BY_QUEUED:
		return (double) levels->sends_queued + (double) levels->sends_under_way;
	default:
		return 0;
	}
}

struct order {
	enum top_key key;
	bool	reverse;
};

static int compare_places(const struct top_row *x, const struct top_row *y)
{
	if (x->process->pid != y->process->pid)
		return x->process->pid < y->process->pid ? -1 : 1;
	if (!x->endpoint || !y->endpoint)
		return 0;
	return x->endpoint->record.number < y->endpoint->record.number ? -1 :
	       x->endpoint->record.number > y->endpoint->record.number;
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct top_row *x = a, *y = b;
	const struct order *order = arg;
	double u = value_of(x, order->key), v = value_of(y, order->key);
	int ret = u > v ? -1 : u < v;

	if (order->key == TOP_BY_COMMAND)
		ret = strcmp(x->process->command, y->process->command);
	if (order->key == TOP_BY_PID)
		ret = compare_places(x, y);
	if (order->reverse)
		ret = -ret;
	return ret ? ret : compare_places(x, y);
}

void top_rows_sort(struct top_rows *rows, enum top_key key, bool reverse)
{
	struct order order = { .key = key, .reverse = reverse };

	if (rows->cnt)
		qsort_r(rows->rows, rows->cnt, sizeof(*rows->rows), compare, &order);
}
