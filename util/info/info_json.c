/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Devices, parameters and tables of protocols as JSON. Times are in seconds, sizes in bytes,
 * rates in bytes per second, speeds of ports in bits per second. What is not known is null.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "api/info/info.h"
#include "core/limits.h"
#include "util/info/info_host.h"
#include "wireup/wireup.h"

static json_t *text_or_null(const char *text)
{
	return text && *text ? json_string(text) : json_null();
}

/* -- devices ---------------------------------------------------------------------------- */

static json_t *rails_of(const struct info_host *host, size_t i)
{
	json_t *names = json_array();
	struct tagrv_dom_rails rails;

	info_host_rails(host, i, &rails);
	for (unsigned k = 0; k < rails.cnt; k++)
		json_array_append_new(names, json_string(rails.names[k]));
	return json_pack("{s:o, s:s}", "devices", names, "why", rails.why);
}

static json_t *model_or_null(uint64_t model)
{
	char text[TAGRV_MODEL_STRLEN];

	return model ? json_string(tagrv_model_text(model, text, sizeof(text))) : json_null();
}

static json_t *device(const struct info_host *host, size_t i)
{
	const struct tagrv_device_desc *desc = &host->descs[i];
	bool local = tagrv_info_is_local(desc->name);
	char addr[TAGRV_ADDR_STRLEN], why[256];

	return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", desc->name,
			 "local", local, "address",
			 local ? json_null() :
			 json_string(tagrv_addr_str(&desc->addr, addr, sizeof(addr))),
			 "interface", text_or_null(desc->iface), "link", text_or_null(desc->link_type),
			 "driver", text_or_null(desc->driver), "firmware",
			 text_or_null(desc->firmware), "speed",
			 desc->speed ? json_integer((json_int_t) desc->speed) : json_null(),
			 "model", model_or_null(desc->model),
			 "order", local ? json_null() :
			 json_string(tagrv_info_why(&host->params, desc, host->alike[i], why,
						    sizeof(why))),
			 "rails", local ? json_null() : rails_of(host, i));
}

static json_t *params(const struct info_host *host)
{
	json_t *list = json_array();
	char text[1024], name[64];

	for (size_t i = 0; tagrv_param_name(i); i++) {
		snprintf(name, sizeof(name), "FI_TAGRV_%s", tagrv_param_name(i));
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name", name, "value",
			info_param_text(host, i, text, sizeof(text)), "source",
			tagrv_param_source(i), "help", tagrv_param_help(i)));
	}
	return list;
}

json_t *info_json_host(const struct info_host *host)
{
	json_t *devices = json_array(), *others = json_array();

	for (size_t i = 0; i < host->cnt; i++)
		json_array_append_new(devices, device(host, i));
	for (size_t i = 0; i < host->other_cnt; i++)
		json_array_append_new(others, json_pack("{s:s, s:s}", "name", host->others[i].name,
							"why", host->others[i].why));
	return json_pack("{s:s, s:i, s:o, s:o, s:o}", "version", PACKAGE_VERSION, "wire_version",
			 TAGRV_WIRE_VERSION, "devices", devices, "others", others, "parameters",
			 params(host));
}

/* -- protocols -------------------------------------------------------------------------- */

static json_t *estimate(enum tagrv_proto proto, const struct tagrv_xport_attr *attr, size_t len)
{
	double seconds = tagrv_select_estimate(proto, attr, len);

	return seconds < 0 ? json_null() : json_real(seconds);
}

static json_t *ranges(const struct tagrv_select_range *range, size_t cnt,
		      const struct tagrv_xport_attr *attr)
{
	json_t *list = json_array();

	for (size_t i = 0; i < cnt; i++) {
		size_t first = i ? range[i - 1].last + 1 : 0;
		bool open = range[i].last >= TAGRV_MAX_MSG;

		json_array_append_new(list, json_pack("{s:I, s:o, s:s, s:o, s:o, s:s}", "first",
			(json_int_t) first, "last",
			open ? json_null() : json_integer((json_int_t) range[i].last), "protocol",
			tagrv_proto_name(range[i].proto), "seconds_first",
			estimate(range[i].proto, attr, first), "seconds_last",
			open ? json_null() : estimate(range[i].proto, attr, range[i].last), "reason",
			tagrv_select_reason_text(range[i].reason)));
	}
	return list;
}

static json_t *table_of(const char *name, const struct info_table *info)
{
	const struct tagrv_xport_attr *attr = &info->attr;
	const struct tagrv_select *table = &info->table;

	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f,"
			 " s:f, s:f, s:f, s:I, s:o, s:o, s:o}",
			 "device", name, "transport", info->transport, "source",
			 text_or_null(attr->source), "section", text_or_null(info->section),
			 "peer", model_or_null(info->peer_model), "max_packet",
			 (json_int_t) attr->max_packet, "prep_overhead", attr->prep_overhead,
			 "frag_overhead", attr->frag_overhead, "put_more", attr->put_more,
			 "pipe_from", attr->pipe_from, "latency", attr->latency, "overhead",
			 attr->overhead, "get_overhead", attr->get_overhead, "bandwidth",
			 attr->bandwidth, "copy_bandwidth", attr->copy_bandwidth, "reg_overhead",
			 attr->reg_overhead, "reg_growth", attr->reg_growth, "eager_limit",
			 (json_int_t) info->eager_limit, "ranges",
			 ranges(table->range, table->cnt, attr), "prepared_from",
			 table->prepared > info->eager_limit ? json_null() :
			 json_integer((json_int_t) table->prepared), "without_credit",
			 ranges(table->no_credit, table->no_credit_cnt, attr));
}

json_t *info_json_protocols(const struct info_host *host, int *failed)
{
	json_t *list = json_array();

	*failed = 0;
	for (size_t i = 0; i < host->cnt; i++) {
		struct info_table *tables;
		size_t cnt;
		int ret = info_tables_read(host->descs[i].name, &tables, &cnt);

		if (ret)
			json_array_append_new(list, json_pack("{s:s, s:s}", "device",
				host->descs[i].name, "error", fi_strerror(-ret)));
		for (size_t k = 0; k < cnt; k++)
			json_array_append_new(list, table_of(host->descs[i].name, &tables[k]));
		free(tables);
		*failed = ret ? ret : *failed;
	}
	return json_pack("{s:s, s:o}", "version", PACKAGE_VERSION, "protocols", list);
}
