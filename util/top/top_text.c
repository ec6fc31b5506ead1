/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The lines of the table: see top_text.h. top_details.c has those of one endpoint.
 */
#include "util/top/top_text.h"

#include <stdlib.h>
#include <string.h>

#include "util/top/top_print.h"

/* ---- text ---- */

void top_text_free(struct top_text *text)
{
	free(text->text);
	*text = (struct top_text) { 0 };
}

void top_print(struct top_text *text, const char *format, ...)
{
	char *line = NULL, *more;
	va_list args;
	int len;

	va_start(args, format);
	len = vasprintf(&line, format, args);
	va_end(args);
	if (len < 0)
		return;
	more = realloc(text->text, text->len + (size_t) len + 1);
	if (more) {
		memcpy(more + text->len, line, (size_t) len + 1);
		text->text = more;
		text->len += (size_t) len;
	}
	free(line);
}

const char *top_short(double value, char short_text[TOP_SHORT])
{
	static const char units[] = " kMGTPE";
	size_t unit = 0;

	while (value >= 999.5 && unit < sizeof(units) - 2) {
		value /= 1000;
		unit++;
	}
	if (!unit)
		snprintf(short_text, TOP_SHORT, "%.0f", value);
	else
		snprintf(short_text, TOP_SHORT, value < 9.95 ? "%.1f%c" : "%.0f%c", value,
			 units[unit]);
	return short_text;
}

/* ---- the table ---- */

struct column {
	const char *name;
	int	width;		/* negative: to the left */
	enum top_key key;	/* TOP_KEYS: it cannot be sorted by */
	int	order;		/* 1: the last one to be left out */
};

enum {
	COL_PID, COL_COMMAND, COL_ENDPOINT, COL_DEVICE, COL_OUT, COL_IN, COL_BYTES_OUT,
	COL_BYTES_IN, COL_POSTED, COL_UNEXPECTED, COL_MEMORY, COL_QUEUED, COL_CREDIT, COL_UP,
	COL_WAITING, COL_PARTING, COL_RETRANSMITS, COL_AGE, COLUMNS
};

/* Those up to 9 take 78 columns. */
static const struct column columns[COLUMNS] = {
	[COL_PID] = { "PID", 8, TOP_BY_PID, 1 },
	[COL_COMMAND] = { "COMMAND", -16, TOP_BY_COMMAND, 2 },
	[COL_ENDPOINT] = { "ENDPOINT", -21, TOP_KEYS, 13 },
	[COL_DEVICE] = { "DEVICE", -10, TOP_KEYS, 12 },
	[COL_OUT] = { "OUT/s", 6, TOP_BY_OUT, 3 },
	[COL_IN] = { "IN/s", 6, TOP_BY_IN, 4 },
	[COL_BYTES_OUT] = { "B/s OUT", 8, TOP_BY_BYTES, 5 },
	[COL_BYTES_IN] = { "B/s IN", 8, TOP_BY_BYTES, 6 },
	[COL_POSTED] = { "POSTED", 7, TOP_BY_POSTED, 11 },
	[COL_UNEXPECTED] = { "UNEXP", 6, TOP_BY_UNEXPECTED, 8 },
	[COL_MEMORY] = { "MEM", 6, TOP_BY_MEMORY, 10 },
	[COL_QUEUED] = { "SENDS", 6, TOP_BY_QUEUED, 9 },
	[COL_CREDIT] = { "CREDIT", 7, TOP_KEYS, 15 },
	[COL_UP] = { "UP", 5, TOP_KEYS, 14 },
	[COL_WAITING] = { "WAIT", 5, TOP_KEYS, 17 },
	[COL_PARTING] = { "PART", 5, TOP_KEYS, 18 },
	[COL_RETRANSMITS] = { "RETR", 6, TOP_KEYS, 16 },
	[COL_AGE] = { "AGE", 6, TOP_KEYS, 7 },
};

/* The key's columns come before all others. */
static int order_of(const struct top_table *table, int column)
{
	return columns[column].key == table->key && table->key != TOP_KEYS ?
	       0 : columns[column].order;
}

/* Whether there is room for the column and all that are more useful. */
static bool is_shown(const struct top_table *table, int column)
{
	int most = order_of(table, column), width = -1;

	for (int i = 0; i < COLUMNS; i++)
		if (order_of(table, i) <= most)
			width += abs(columns[i].width) + 1;
	return !most || !table->width || width <= table->width;
}

static void print_cell(struct top_text *text, const struct top_table *table, int column,
		       const char *value)
{
	int width = columns[column].width;

	if (is_shown(table, column))
		top_print(text, "%s%*.*s", column ? " " : "", width, abs(width), value);
}

void top_text_heading(struct top_text *text, const struct top_table *table)
{
	char name[32];

	for (int i = 0; i < COLUMNS; i++) {
		bool marked = columns[i].key == table->key && table->key != TOP_KEYS;

		snprintf(name, sizeof(name), "%s%s", marked ? "*" : "", columns[i].name);
		print_cell(text, table, i, name);
	}
	top_print(text, "\n");
}

static void print_number(struct top_text *text, const struct top_table *table, int column,
			 double value)
{
	char short_text[TOP_SHORT];

	print_cell(text, table, column, top_short(value, short_text));
}

static void print_who(struct top_text *text, const struct top_table *table,
		      const struct top_process *process)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int) process->pid);
	print_cell(text, table, COL_PID, pid);
	print_cell(text, table, COL_COMMAND, process->command);
}

/* Rates that are not known, since there is one record only, are "-". */
static void print_rates(struct top_text *text, const struct top_table *table,
			const struct top_row *row)
{
	const double rates[] = { row->out, row->in, row->bytes_out, row->bytes_in };

	for (int i = 0; i < (int) TAGRV_ARRAY_SIZE(rates); i++)
		if (row->seconds > 0)
			print_number(text, table, COL_OUT + i, rates[i]);
		else
			print_cell(text, table, COL_OUT + i, "-");
}

static void print_levels(struct top_text *text, const struct top_table *table,
			 const struct tagrv_board_levels *levels)
{
	const uint64_t values[] = {
		levels->posted, levels->unexpected, levels->unexpected_bytes,
		levels->sends_queued + levels->sends_under_way, levels->credit_bytes,
		levels->up, levels->waiting, levels->parting,
	};

	for (int i = 0; i < (int) TAGRV_ARRAY_SIZE(values); i++)
		print_number(text, table, COL_POSTED + i, (double) values[i]);
}

/* A process that shows no endpoint: why. */
static void print_why(struct top_text *text, const struct top_process *process)
{
	switch (process->state) {
	case TOP_OTHER_VERSION:
		top_print(text, " tagrv %s has layout %u of its counters, this tagrv_top knows %u\n",
			  process->release, process->version, TAGRV_BOARD_VERSION);
		break;
	case TOP_BROKEN:
		top_print(text, " its counters make no sense\n");
		break;
	case TOP_FINE:
		top_print(text, " %u endpoint%s%s\n", process->open, process->open == 1 ? "" : "s",
			  process->open ?
			  "; it makes no progress, and has shown none so far" : "");
		break;
	}
}

void top_text_row(struct top_text *text, const struct top_table *table,
		  const struct top_row *row)
{
	const struct top_endpoint *endpoint = row->endpoint;
	char age[16];

	print_who(text, table, row->process);
	if (!endpoint) {
		print_why(text, row->process);
		return;
	}
	print_cell(text, table, COL_ENDPOINT, endpoint->record.name);
	print_cell(text, table, COL_DEVICE, endpoint->record.device);
	print_rates(text, table, row);
	print_levels(text, table, &endpoint->record.levels);
	if (endpoint->has_retransmits)
		print_number(text, table, COL_RETRANSMITS, (double) endpoint->retransmits);
	else
		print_cell(text, table, COL_RETRANSMITS, "-");
	snprintf(age, sizeof(age), row->age < 99.95 ? "%.1f" : "%.0f", row->age);
	print_cell(text, table, COL_AGE, endpoint->answered ? "now" : age);
	top_print(text, "\n");
}

void top_text_nothing(struct top_text *text, pid_t pid)
{
	if (pid)
		top_print(text, "Process %d shows no endpoint of tagrv to this user.\n", (int) pid);
	else
		top_print(text, "No process of this user shows an endpoint of tagrv.\n");
	top_print(text,
		  "\n"
		  "A process is shown while it has a domain of libfabric's provider tagrv open, unless\n"
		  "FI_TAGRV_TOP=no is in its environment. \"fi_info -p tagrv\" tells whether libfabric finds\n"
		  "the provider (FI_PROVIDER_PATH); FI_LOG_LEVEL=info logs whether a program uses it.\n"
		  "Processes of other users are never shown.\n");
}
