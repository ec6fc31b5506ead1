/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Text about the table of protocols, for tagrv_info and the log. Each range is a
 * line:
 *
 *   sizes, protocol, estimated time of the first and the last size, reason
 */
#include <stdio.h>

#include "core/limits.h"
#include "select/select.h"

static const char *const reasons[] = {
	[TAGRV_SELECT_EMPTY] = "there is nothing to fetch",
	[TAGRV_SELECT_FASTER] = "the faster one",
	[TAGRV_SELECT_NEAR] = "hardly slower, and spares the receiver memory",
	[TAGRV_SELECT_SHORT] = "short enough to be injected",
	[TAGRV_SELECT_LIMIT] = "longer than one packet",
	[TAGRV_SELECT_THRESH] = "by FI_TAGRV_RNDV_THRESH",
	[TAGRV_SELECT_FALLBACK] = "rendezvous never catches up: by "
		"FI_TAGRV_RNDV_THRESH_FALLBACK",
	[TAGRV_SELECT_UNKNOWN] = "no estimates: by "
		"FI_TAGRV_RNDV_THRESH_FALLBACK",
	[TAGRV_SELECT_FORCED] = "by FI_TAGRV_PROTO",
	[TAGRV_SELECT_UNABLE] = "what FI_TAGRV_PROTO wants is not possible here",
};

const char *tagrv_select_reason_text(enum tagrv_select_reason reason)
{
	return reasons[reason];
}

static const char *format_time(char *text, size_t size, double seconds)
{
	if (seconds < 0)
		snprintf(text, size, "?");
	else
		snprintf(text, size, "%.3g us", seconds * 1e6);
	return text;
}

static size_t first_size(const struct tagrv_select_range *list, size_t i)
{
	return i ? list[i - 1].last + 1 : 0;
}

struct line {
	const char *sizes;
	enum tagrv_proto proto;
	size_t	first, last;	/* sizes whose times are printed */
	const char *note;	/* about 'last', at most eight columns */
	const char *remark;
};

static const char *format_line(const struct line *line,
			       const struct tagrv_xport_attr *attr, char *text,
			       size_t size)
{
	char from[24], to[24];

	format_time(from, sizeof(from),
		    tagrv_select_estimate(line->proto, attr, line->first));
	format_time(to, sizeof(to),
		    tagrv_select_estimate(line->proto, attr, line->last));
	snprintf(text, size, "%-18s %-8s %10s %10s%-8s  %s", line->sizes,
		 tagrv_proto_name(line->proto), from, to, line->note,
		 line->remark);
	return text;
}

const char *tagrv_select_describe(const struct tagrv_select *table, size_t i,
				  const struct tagrv_xport_attr *attr,
				  char *text, size_t size)
{
	const struct tagrv_select_range *range = &table->range[i];
	size_t first = first_size(table->range, i);
	/* The last range has no end of interest: print the time of 1 MiB. */
	bool open = range->last >= TAGRV_MAX_MSG;
	char sizes[48];
	struct line line = {
		.sizes = sizes,
		.proto = range->proto,
		.first = first,
		.last = open ? (size_t) 1 << 20 : range->last,
		.note = open ? " (1 MiB)" : "",
		.remark = reasons[range->reason],
	};

	if (open)
		snprintf(sizes, sizeof(sizes), "%zu and more", first);
	else
		snprintf(sizes, sizeof(sizes), "%zu to %zu", first,
			 range->last);
	return format_line(&line, attr, text, size);
}

const char *tagrv_select_describe_prepared(const struct tagrv_select *table,
					   const struct tagrv_xport_attr *attr,
					   char *text, size_t size)
{
	char sizes[48];
	struct line line = {
		.sizes = sizes,
		.proto = TAGRV_PROTO_EAGER_PREP,
		.first = table->prepared,
		.note = "",
		.remark = "instead of eager, where the memory is registered",
	};

	for (size_t i = 0; i < table->cnt; i++)
		if (table->range[i].proto == TAGRV_PROTO_EAGER &&
		    table->range[i].reason != TAGRV_SELECT_FORCED)
			line.last = table->range[i].last;
	if (line.first > line.last)
		return NULL;
	snprintf(sizes, sizeof(sizes), "%zu to %zu", line.first, line.last);
	return format_line(&line, attr, text, size);
}

const char *tagrv_select_describe_credit(const struct tagrv_select *table,
					 size_t i,
					 const struct tagrv_xport_attr *attr,
					 char *text, size_t size)
{
	char remark[96];
	struct line line = {
		.sizes = "without credit",
		.proto = table->no_credit[i].proto,
		.first = first_size(table->no_credit, i),
		.last = table->no_credit[i].last,
		.note = "",
		.remark = remark,
	};

	snprintf(remark, sizeof(remark), "for %zu to %zu, where the receiver "
		 "has no room for eager", line.first, line.last);
	return format_line(&line, attr, text, size);
}
