/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Results as one JSON object, printed at the end:
 *
 *   { "program", "version", "libfabric", "host", "peer_host",
 *     "providers": [{ "name", "version", "domain", "peer_domain", "protocol" }],
 *     "results":   [{ "provider", "test", and those of columns.c that the test has }],
 *     "left_out":  [{ "provider", "test", "pairs", "why" }] }
 */
#include "results.h"

#include <jansson.h>
#include <math.h>
#include <rdma/fabric.h>
#include <stdio.h>

#include "config.h"
#include "oob.h"

static void set(json_t *object, const char *key, json_t *value)
{
	/* Takes the value, and fails for want of memory, or for text that is no UTF-8. */
	if (json_object_set_new(object, key, value))
		json_object_set_new(object, key, json_null());
}

static json_t *providers(const struct perf_results *res)
{
	json_t *array = json_array();

	for (size_t i = 0; i < res->opt->provider_cnt; i++) {
		const struct perf_about *about = &res->about[i];
		json_t *one = json_object();

		set(one, "name", json_string(res->opt->providers[i]));
		if (about->provider[0]) {
			set(one, "version", json_string(about->version));
			set(one, "domain", json_string(about->domain));
			set(one, "peer_domain", json_string(about->peer_domain));
			set(one, "protocol", json_string(about->protocol));
		}
		json_array_append_new(array, one);
	}
	return array;
}

static json_t *number(const struct perf_column *column, double value)
{
	return column->precision ? json_real(value) : json_integer((json_int_t)llround(value));
}

static json_t *rows(const struct perf_results *res)
{
	json_t *array = json_array();

	for (size_t i = 0; i < res->row_cnt; i++) {
		const struct perf_row *row = &res->rows[i];
		json_t *one = json_object();

		set(one, "provider", json_string(res->opt->providers[row->provider]));
		set(one, "test", json_string(perf_tests[row->test].name));
		for (size_t j = 0; j < perf_column_cnt; j++) {
			const double value = perf_columns[j].value(row);

			if (!isnan(value))
				set(one, perf_columns[j].key, number(&perf_columns[j], value));
		}
		json_array_append_new(array, one);
	}
	return array;
}

static json_t *left_out(const struct perf_results *res)
{
	json_t *array = json_array();

	for (size_t i = 0; i < res->left_out_cnt; i++) {
		const struct perf_left_out *left = &res->left_out[i];
		json_t *one = json_object();

		set(one, "provider", json_string(res->opt->providers[left->provider]));
		set(one, "test", json_string(perf_tests[left->test].name));
		set(one, "pairs", json_integer((json_int_t)left->pairs));
		set(one, "why", json_string(left->why));
		json_array_append_new(array, one);
	}
	return array;
}

void json_print(const struct perf_results *res)
{
	json_t *all = json_object();
	char version[16];

	snprintf(version, sizeof(version), "%u.%u", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
	set(all, "program", json_string("tagrv_perf"));
	set(all, "version", json_string(PACKAGE_VERSION));
	set(all, "libfabric", json_string(version));
	set(all, "host", json_string(res->here));
	set(all, "peer_host", json_string(res->there));
	set(all, "providers", providers(res));
	set(all, "results", rows(res));
	set(all, "left_out", left_out(res));
	if (json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)))
		bench_die("cannot write the results");
	putchar('\n');
	json_decref(all);
}
