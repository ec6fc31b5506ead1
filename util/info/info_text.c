/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Devices, parameters and tables of protocols as text.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "api/info/info.h"
#include "select/profile.h"
#include "util/info/info_host.h"

/* -- devices ---------------------------------------------------------------------------- */

static void print_device(FILE *out, const struct tagrv_device_desc *desc)
{
	char addr[TAGRV_ADDR_STRLEN];

	fprintf(out, "  %-16s", desc->name);
	if (desc->link_type[0])
		fprintf(out, " %s", desc->link_type);
	if (desc->speed)
		fprintf(out, " %.3g Gbit/s", (double) desc->speed * 1e-9);
	if (desc->mtu)
		fprintf(out, " mtu %zu", desc->mtu);
	if (tagrv_info_is_local(desc->name))
		fprintf(out, " processes of this host");
	else
		fprintf(out, " %s", tagrv_addr_str(&desc->addr, addr, sizeof(addr)));
	fputc('\n', out);
}

/* Why fi_getinfo lists the RDMA devices in the order in which they are printed. */
static void print_order(FILE *out, const struct info_host *host)
{
	bool any = false;
	char why[256];

	for (size_t i = 0; i < host->cnt; i++) {
		if (tagrv_info_is_local(host->descs[i].name))
			continue;
		if (!any)
			fputs("order\n", out);
		any = true;
		fprintf(out, "  %-16s %s\n", host->descs[i].name,
			tagrv_info_why(&host->params, &host->descs[i], host->alike[i], why,
				       sizeof(why)));
	}
}

static void print_devices(FILE *out, const struct info_host *host)
{
	fputs("devices\n", out);
	for (size_t i = 0; i < host->cnt; i++)
		print_device(out, &host->descs[i]);
	for (size_t i = 0; i < host->other_cnt; i++)
		fprintf(out, "  %-16s %s\n", host->others[i].name, host->others[i].why);
	print_order(out, host);
}

/* What a domain of each RDMA device would join, and why. */
static void print_rails(FILE *out, const struct info_host *host)
{
	bool any = false;

	for (size_t i = 0; i < host->cnt; i++) {
		struct tagrv_dom_rails rails;

		if (tagrv_info_is_local(host->descs[i].name))
			continue;
		if (!any)
			fputs("rails\n", out);
		any = true;
		info_host_rails(host, i, &rails);
		fprintf(out, "  %-16s", host->descs[i].name);
		for (unsigned k = 0; k < rails.cnt; k++)
			fprintf(out, "%s%s", k ? ", " : " ", rails.names[k]);
		fprintf(out, " (%s)\n", rails.why);
	}
	if (any && host->launcher)
		fprintf(out, "  processes on this host: %u (%s)\n", host->procs, host->launcher);
}

/* -- parameters ------------------------------------------------------------------------- */

static void print_params(FILE *out, const struct info_host *host)
{
	char text[1024];

	fputs("parameters\n", out);
	for (size_t i = 0; tagrv_param_name(i); i++)
		fprintf(out, "  FI_TAGRV_%-22s %s (%s)\n", tagrv_param_name(i),
			info_param_text(host, i, text, sizeof(text)), tagrv_param_source(i));
	if (tagrv_profile_path(&host->params, text, sizeof(text)))
		fputs("profile: none is looked for\n", out);
	else
		fprintf(out, "profile: %s\n", text);
}

void info_text_host(FILE *out, const struct info_host *host)
{
	print_devices(out, host);
	print_rails(out, host);
	print_params(out, host);
}

/* -- protocols -------------------------------------------------------------------------- */

/* What only a profile has. */
static void print_measured(FILE *out, const struct info_table *info)
{
	const struct tagrv_xport_attr *attr = &info->attr;

	if (*info->section)
		fprintf(out, "  from the profile's section '%s'\n", info->section);
	if (attr->put_more)
		fprintf(out, "  a put takes %.3g us more than its answer\n",
			attr->put_more * 1e6);
	if (attr->pipe_from)
		fprintf(out, "  a pipeline is faster from %.3g bytes on\n", attr->pipe_from);
}

static void print_table(FILE *out, const char *name, const struct info_table *info)
{
	const struct tagrv_xport_attr *attr = &info->attr;
	const struct tagrv_select *table = &info->table;
	char line[160], model[TAGRV_MODEL_STRLEN];

	fprintf(out, "%s %s", info->transport, name);
	if (info->peer_model)
		fprintf(out, " to peers with %s",
			tagrv_model_text(info->peer_model, model, sizeof(model)));
	fputc('\n', out);
	fprintf(out, "  %s: latency %.3g us, overhead %.3g us, get %.3g us more;\n"
		"  %.3g GB/s, copied packets %.3g GB/s; registration %.3g us and %.3g us per MiB\n",
		attr->source ? attr->source : "unknown", attr->latency * 1e6, attr->overhead * 1e6,
		attr->get_overhead * 1e6, attr->bandwidth * 1e-9, attr->copy_bandwidth * 1e-9,
		attr->reg_overhead * 1e6, attr->reg_growth * 1e6 * (1 << 20));
	print_measured(out, info);
	for (size_t i = 0; i < table->cnt; i++)
		fprintf(out, "  %s\n", tagrv_select_describe(table, i, attr, line, sizeof(line)));
	if (tagrv_select_describe_prepared(table, attr, line, sizeof(line)))
		fprintf(out, "  %s\n", line);
	for (size_t i = 0; i < table->no_credit_cnt; i++)
		fprintf(out, "  %s\n",
			tagrv_select_describe_credit(table, i, attr, line, sizeof(line)));
}

int info_text_protocols(FILE *out, const struct info_host *host)
{
	int failed = 0;

	for (size_t i = 0; i < host->cnt; i++) {
		struct info_table *tables;
		size_t cnt;
		int ret = info_tables_read(host->descs[i].name, &tables, &cnt);

		if (ret)
			fprintf(out, "%s\n  cannot be opened: %s\n", host->descs[i].name,
				fi_strerror(-ret));
		for (size_t k = 0; k < cnt; k++)
			print_table(out, host->descs[i].name, &tables[k]);
		free(tables);
		failed = ret ? ret : failed;
	}
	return failed;
}
