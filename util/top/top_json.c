/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes looks as JSON: see top_json.h. All texts are ASCII by now (top_page_clean()).
 */
#include "util/top/top_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

/* JSON's integers have a sign here; no counter gets so far. */
static json_t *number(uint64_t value)
{
	return json_integer((json_int_t) TAGRV_MIN(value, (uint64_t) INT64_MAX));
}

static void set(json_t *object, const char *name, json_t *value)
{
	(void) json_object_set_new(object, name, value);
}

static json_t *counters_of(const struct tagrv_board_counters *c)
{
	json_t *object = json_object();

#define SET(name, meaning)	set(object, #name, number(c->name));
	TAGRV_BOARD_COUNTERS(SET)
#undef SET
	return object;
}

static json_t *levels_of(const struct tagrv_board_levels *l)
{
	json_t *object = json_object();

#define SET(name, meaning)	set(object, #name, number(l->name));
	TAGRV_BOARD_LEVELS(SET)
#undef SET
	return object;
}

/* Each counter's growth per second. */
static json_t *rates_of(const struct top_row *row)
{
	const struct tagrv_board_counters *now = &row->endpoint->record.counters;
	const struct tagrv_board_counters *before;
	json_t *object = json_object();

	if (!row->before || row->seconds <= 0) {
		json_decref(object);
		return json_null();
	}
	before = &row->before->record.counters;
#define SET(name, meaning) \
	set(object, #name, json_real(top_rate(now->name, before->name, row->seconds)));
	TAGRV_BOARD_COUNTERS(SET)
#undef SET
	return object;
}

static json_t *rails_of(const struct tagrv_board_record *record)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < record->rail_cnt; i++) {
		const struct tagrv_board_rail *rail = &record->rails[i];
		json_t *object = json_object();

		set(object, "transport", json_string(rail->xport));
		set(object, "device", json_string(rail->device));
		set(object, "links", number(rail->links));
		set(object, "connections", number(rail->connections));
		set(object, "lost", number(rail->lost));
		(void) json_array_append_new(array, object);
	}
	return array;
}

static json_t *endpoint_of(const struct top_row *row)
{
	const struct tagrv_board_record *record = &row->endpoint->record;
	json_t *object = json_object();

	set(object, "number", number(record->number));
	set(object, "address", json_string(record->name));
	set(object, "device", json_string(record->device));
	set(object, "answered", json_boolean(row->endpoint->answered));
	set(object, "age", json_real(row->age));
	set(object, "enabled", json_boolean(record->flags & TAGRV_BOARD_ENABLED));
	set(object, "shares_receives", json_boolean(record->flags & TAGRV_BOARD_SHARED_RX));
	set(object, "adapter_matches", json_boolean(record->flags & TAGRV_BOARD_LISTED));
	set(object, "queues_cut", json_boolean(record->flags & TAGRV_BOARD_CUT));
	set(object, "retransmits", row->endpoint->has_retransmits ?
				   number(row->endpoint->retransmits) : json_null());
	set(object, "rails", rails_of(record));
	set(object, "counters", counters_of(&record->counters));
	set(object, "levels", levels_of(&record->levels));
	set(object, "per_second", rates_of(row));
	return object;
}

static const char *state_name(enum top_state state)
{
	switch (state) {
	case TOP_FINE:
		return "shown";
	case TOP_OTHER_VERSION:
		return "other layout";
	default:
		return "unreadable";
	}
}

static json_t *process_of(const struct top_process *process, const struct top_rows *rows)
{
	json_t *object = json_object(), *endpoints = json_array();

	set(object, "pid", number((uint64_t) process->pid));
	set(object, "command", json_string(process->command));
	set(object, "state", json_string(state_name(process->state)));
	set(object, "layout", number(process->version));
	set(object, "release", json_string(process->release));
	set(object, "endpoints_open", number(process->open));
	for (size_t i = 0; i < rows->cnt; i++)
		if (rows->rows[i].process == process && rows->rows[i].endpoint)
			(void) json_array_append_new(endpoints, endpoint_of(&rows->rows[i]));
	set(object, "endpoints", endpoints);
	return object;
}

int top_json_write(const struct top_look *look, const struct top_rows *rows, double seconds,
		   FILE *out)
{
	json_t *object = json_object(), *processes = json_array();
	char *text;

	set(object, "time", json_real(seconds));
	for (size_t i = 0; i < look->cnt; i++)
		(void) json_array_append_new(processes, process_of(&look->processes[i], rows));
	set(object, "processes", processes);
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	if (!text)
		return -ENOMEM;
	fprintf(out, "%s\n", text);
	free(text);
	return fflush(out) ? -errno : 0;
}
