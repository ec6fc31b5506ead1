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
};

enum {
	COL_PID, COL_COMMAND, COL_ENDPOINT, COL_DEVICE, COL_OUT, COL_IN, COL_BYTES_OUT,
	COL_BYTES_IN, COL_POSTED, COL_UNEXPECTED, COL_MEMORY, COL_QUEUED, COL_CREDIT, COL_UP,
	COL_WAITING, COL_PARTING, COL_RETRANSMITS, COL_AGE, COLUMNS
};

static const struct column columns[COLUMNS] = {
	[COL_PID] = { "PID", 8, TOP_BY_PID },
	[COL_COMMAND] = { "COMMAND", -16, TOP_BY_COMMAND },
	[COL_ENDPOINT] = { "ENDPOINT", -21, TOP_KEYS },
	[COL_DEVICE] = { "DEVICE", -10, TOP_KEYS },
	[COL_OUT] = { "OUT/s", 6, TOP_BY_OUT },
	[COL_IN] = { "IN/s", 6, TOP_BY_IN },
	[COL_BYTES_OUT] = { "B/s OUT", 8, TOP_BY_BYTES },
	[COL_BYTES_IN] = { "B/s IN", 8, TOP_BY_BYTES },
	[COL_POSTED] = { "POSTED", 7, TOP_BY_POSTED },
	[COL_UNEXPECTED] = { "UNEXP", 6, TOP_BY_UNEXPECTED },
	[COL_MEMORY] = { "MEM", 6, TOP_BY_MEMORY },
	[COL_QUEUED] = { "SENDS", 6, TOP_BY_QUEUED },
	[COL_CREDIT] = { "CREDIT", 7, TOP_KEYS },
	[COL_UP] = { "UP", 5, TOP_KEYS },
	[COL_WAITING] = { "WAIT", 5, TOP_KEYS },
	[COL_PARTING] = { "PART", 5, TOP_KEYS },
	[COL_RETRANSMITS] = { "RETR", 6, TOP_KEYS },
	[COL_AGE] = { "AGE", 6, TOP_KEYS },
};

static void print_cell(struct top_text *text, int column, const char *value)
{
	int width = columns[column].width;
	int most = width < 0 ? -width : width;

	top_print(text, "%s%*.*s", column ? " " : "", width, most, value);
	if (column == COLUMNS - 1)
		top_print(text, "\n");
}

void top_text_heading(struct top_text *text, enum top_key mark)
{
	char name[32];

	for (int i = 0; i < COLUMNS; i++) {
		bool marked = columns[i].key == mark && mark != TOP_KEYS;

		snprintf(name, sizeof(name), "%s%s", marked ? "*" : "", columns[i].name);
		print_cell(text, i, name);
	}
}

static void print_number(struct top_text *text, int column, double value)
{
	char short_text[TOP_SHORT];

	print_cell(text, column, top_short(value, short_text));
}

/* A rate that is not known, since there is one record only, is "-". */
static void print_rate(struct top_text *text, int column, const struct top_row *row, double rate)
{
	if (row->seconds > 0)
		print_number(text, column, rate);
	else
		print_cell(text, column, "-");
}

static void print_who(struct top_text *text, const struct top_process *process)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int) process->pid);
	print_cell(text, COL_PID, pid);
	print_cell(text, COL_COMMAND, process->command);
}

static void print_levels(struct top_text *text, const struct tagrv_board_levels *levels)
{
	print_number(text, COL_POSTED, (double) levels->posted);
	print_number(text, COL_UNEXPECTED, (double) levels->unexpected);
	print_number(text, COL_MEMORY, (double) levels->unexpected_bytes);
	print_number(text, COL_QUEUED,
		     (double) levels->sends_queued + (double) levels->sends_under_way);
	print_number(text, COL_CREDIT, (double) levels->credit_bytes);
	print_number(text, COL_UP, (double) levels->up);
	print_number(text, COL_WAITING, (double) levels->waiting);
	print_number(text, COL_PARTING, (double) levels->parting);
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

void top_text_row(struct top_text *text, const struct top_row *row)
{
	char age[16];

	print_who(text, row->process);
	if (!row->endpoint) {
		print_why(text, row->process);
		return;
	}
	print_cell(text, COL_ENDPOINT, row->endpoint->record.name);
	print_cell(text, COL_DEVICE, row->endpoint->record.device);
	print_rate(text, COL_OUT, row, row->out);
	print_rate(text, COL_IN, row, row->in);
	print_rate(text, COL_BYTES_OUT, row, row->bytes_out);
	print_rate(text, COL_BYTES_IN, row, row->bytes_in);
	print_levels(text, &row->endpoint->record.levels);
	if (row->endpoint->has_retransmits)
		print_number(text, COL_RETRANSMITS, (double) row->endpoint->retransmits);
	else
		print_cell(text, COL_RETRANSMITS, "-");
	snprintf(age, sizeof(age), row->age < 99.95 ? "%.1f" : "%.0f", row->age);
	print_cell(text, COL_AGE, row->endpoint->answered ? "now" : age);
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
