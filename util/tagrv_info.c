/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * tagrv_info: prints the devices, parameters and protocol tables of this host.
 *
 * It is linked with the provider's own objects, so that it prints what the plug-in
 * of the same release would use.
 */
#include <getopt.h>
#include <inttypes.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info.h"
#include "core/log.h"
#include "core/param.h"
#include "object/dom.h"
#include "object/dom_rails.h"
#include "select/profile.h"
#include "select/select.h"

static void print_help(void)
{
	puts("usage: tagrv_info [options]\n"
	     "\n"
	     "Print the devices that the provider tagrv offers, and its parameters with their\n"
	     "values and where these come from.\n"
	     "\n"
	     "  -p, --protocols    instead: for each device its times and rates, and the table of\n"
	     "                     protocols that follows from them: sizes, protocol, estimated\n"
	     "                     time of the shortest and of the longest message, reason\n"
	     "  -h, --help         this text\n"
	     "\n"
	     "Uses the FI_TAGRV_ variables of the environment as the provider does: see\n"
	     "fi_tagrv(7).");
}

/* ---- devices ---- */

static bool is_offered(const struct tagrv_device_desc *descs, size_t cnt,
		       const char *name)
{
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(descs[i].name, name))
			return true;
	return false;
}

/* Devices that are not offered, with the reason. */
static void print_others(const struct tagrv_params *params,
			 const struct tagrv_device_desc *offered, size_t offered_cnt)
{
	struct tagrv_params any = *params;
	struct tagrv_device_desc *descs;
	char why[192] = "";
	size_t cnt;

	any.devices[0] = '\0';
	for (size_t x = 0; tagrv_xports[x]; x++) {
		if (tagrv_xports[x]->discover(&any, &descs, &cnt, why, sizeof(why))) {
			printf("  %-16s not there: %s\n", tagrv_xports[x]->name, why);
			continue;
		}
		for (size_t i = 0; i < cnt; i++)
			if (!is_offered(offered, offered_cnt, descs[i].name))
				printf("  %-16s not offered: %s\n", descs[i].name,
				       descs[i].usable ? "left out by the parameters" :
							 descs[i].why_not);
		free(descs);
	}
}

static void print_device(const struct tagrv_device_desc *desc)
{
	char addr[TAGRV_ADDR_STRLEN];

	printf("  %-16s", desc->name);
	if (desc->link_type[0])
		printf(" %s", desc->link_type);
	if (desc->speed)
		printf(" %.3g Gbit/s", (double) desc->speed * 1e-9);
	if (desc->mtu)
		printf(" mtu %zu", desc->mtu);
	if (tagrv_info_is_local(desc->name))
		printf(" processes of this host");
	else
		printf(" %s", tagrv_addr_str(&desc->addr, addr, sizeof(addr)));
	putchar('\n');
}

/* Why fi_getinfo lists the RDMA devices in the order in which they are printed. */
static void print_order(const struct tagrv_params *params,
			const struct tagrv_device_desc *descs, size_t cnt,
			const unsigned *alike)
{
	bool any = false;
	char why[256];

	for (size_t i = 0; i < cnt; i++) {
		if (tagrv_info_is_local(descs[i].name))
			continue;
		if (!any)
			puts("order");
		any = true;
		printf("  %-16s %s\n", descs[i].name,
		       tagrv_info_why(params, &descs[i], alike[i], why, sizeof(why)));
	}
}

/* Prints devices in the order of fi_getinfo; 'descs' are in that of discovery. */
static void print_devices(const struct tagrv_params *params,
			  const struct tagrv_device_desc *descs, size_t cnt)
{
	struct tagrv_device_desc *sorted = malloc((cnt + 1) * sizeof(*sorted));
	unsigned *alike = malloc((cnt + 1) * sizeof(*alike));

	puts("devices");
	if (sorted && alike) {
		if (cnt)
			memcpy(sorted, descs, cnt * sizeof(*sorted));
		if (!cnt || !tagrv_info_sort(params, sorted, cnt, alike)) {
			for (size_t i = 0; i < cnt; i++)
				print_device(&sorted[i]);
			print_others(params, descs, cnt);
			print_order(params, sorted, cnt, alike);
		}
	}
	free(sorted);
	free(alike);
}

/* What a domain of each RDMA device would join, and why. */
static void print_rails(const struct tagrv_params *params,
			const struct tagrv_device_desc *descs, size_t cnt)
{
	const char *launcher = NULL;
	unsigned procs = tagrv_dom_rails_procs(getenv, &launcher);
	bool any = false;

	for (size_t i = 0; i < cnt; i++) {
		struct tagrv_dom_rails rails;

		if (tagrv_info_is_local(descs[i].name))
			continue;
		if (!any)
			puts("rails");
		any = true;
		tagrv_dom_rails_choose(params->rails, procs, descs, cnt, descs[i].name,
				       &rails);
		printf("  %-16s", descs[i].name);
		for (unsigned k = 0; k < rails.cnt; k++)
			printf("%s%s", k ? ", " : " ", rails.names[k]);
		printf(" (%s)\n", rails.why);
	}
	if (any && launcher)
		printf("  processes on this host: %u (%s)\n", procs, launcher);
}

/* ---- parameters ---- */

/* A text parameter is empty by default: print the default named in its help. */
static void print_default(size_t i)
{
	const char *def = strstr(tagrv_param_help(i), "(default: ");
	int len = def ? (int) strcspn(def + 10, ")") : 0;

	printf("  FI_TAGRV_%-22s %.*s (default)\n", tagrv_param_name(i), len, def ? def + 10 : "");
}

static void print_params(const struct tagrv_params *params)
{
	char text[1024];

	puts("parameters");
	for (size_t i = 0; tagrv_param_name(i); i++) {
		tagrv_param_value(i, params, text, sizeof(text));
		if (!*text)
			print_default(i);
		else
			printf("  FI_TAGRV_%-22s %s (%s)\n", tagrv_param_name(i),
			       text, tagrv_param_source(i));
	}
	if (tagrv_profile_path(params, text, sizeof(text)))
		puts("profile: none is looked for");
	else
		printf("profile: %s\n", text);
}

/* ---- protocols ---- */

/* print_table() opens a transport but sends nothing: no callback is called. */
static void on_packet(struct tagrv_sink *sink, void *link_ctx, const void *data, size_t len)
{
	(void) sink;
	(void) link_ctx;
	(void) data;
	(void) len;
}

static void on_room(struct tagrv_sink *sink)
{
	(void) sink;
}

static void on_link_error(struct tagrv_sink *sink, void *link_ctx, int status)
{
	(void) sink;
	(void) link_ctx;
	(void) status;
}

static void on_link_closed(struct tagrv_sink *sink, void *link_ctx)
{
	(void) sink;
	(void) link_ctx;
}

static void on_fatal(struct tagrv_sink *sink, int status)
{
	(void) sink;
	(void) status;
}

static void print_table(const struct tagrv_dom *dom, const struct tagrv_xport *xport)
{
	struct tagrv_xport_attr attr = xport->attr;
	struct tagrv_select table;
	char line[160];

	tagrv_profile_apply(dom->profile, xport->dev, &attr);
	tagrv_select_build(&table, &dom->select, &attr,
			   tagrv_select_eager_limit(&dom->params, attr.max_packet));
	printf("%s %s\n", xport->ops->name, xport->dev->name);
	printf("  %s: latency %.3g us, overhead %.3g us, get %.3g us more;\n"
	       "  %.3g GB/s, copied packets %.3g GB/s; registration %.3g us and %.3g us per MiB\n",
	       attr.source ? attr.source : "unknown", attr.latency * 1e6, attr.overhead * 1e6,
	       attr.get_overhead * 1e6, attr.bandwidth * 1e-9, attr.copy_bandwidth * 1e-9,
	       attr.reg_overhead * 1e6, attr.reg_growth * 1e6 * (1 << 20));
	for (size_t i = 0; i < table.cnt; i++)
		printf("  %s\n", tagrv_select_describe(&table, i, &attr, line, sizeof(line)));
	if (tagrv_select_describe_prepared(&table, &attr, line, sizeof(line)))
		printf("  %s\n", line);
	for (size_t i = 0; i < table.no_credit_cnt; i++)
		printf("  %s\n", tagrv_select_describe_credit(&table, i, &attr, line, sizeof(line)));
}

static int print_protocols(const char *name)
{
	struct tagrv_dom_attr attr = { .name = name, .serialized = true };
	struct tagrv_sink sink = {
		.packet = on_packet, .room = on_room, .link_error = on_link_error,
		.link_closed = on_link_closed, .fatal = on_fatal,
	};
	struct tagrv_xport *xport;
	struct tagrv_device *dev;
	struct tagrv_dom *dom;
	int ret = tagrv_dom_open(&attr, &dom);

	if (!ret) {
		dev = dom->dev ? dom->dev : dom->loop;
		ret = dev->ops->xport_open(dev, &dom->params, &sink, &xport);
		if (!ret) {
			print_table(dom, xport);
			dev->ops->xport_close(xport);
		}
		tagrv_dom_close(dom);
	}
	if (ret)
		printf("%s\n  cannot be opened: %s\n", name, fi_strerror(-ret));
	return ret;
}

/* ---- main ---- */

static bool parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "protocols", no_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	bool protocols = false;
	int key;

	while ((key = getopt_long(argc, argv, "ph", options, NULL)) != -1) {
		if (key == 'h') {
			print_help();
			exit(EXIT_SUCCESS);
		}
		if (key != 'p')
			exit(2);
		protocols = true;
	}
	if (optind < argc) {
		fprintf(stderr, "tagrv_info: unexpected argument '%s'\n", argv[optind]);
		exit(2);
	}
	return protocols;
}

/* Initialises libfabric, without which its log and parameters do not work. */
static void start_libfabric(void)
{
	struct fi_param *list;
	int cnt;

	setenv("FI_LOG_LEVEL", "warn", 0);
	setenv("FI_LOG_PROV", "tagrv", 0);
	if (!fi_getparams(&list, &cnt))
		fi_freeparams(list);
	tagrv_param_define();
}

int main(int argc, char **argv)
{
	bool protocols = parse_options(argc, argv);
	struct tagrv_device_desc *descs = NULL;
	struct tagrv_params params;
	size_t cnt = 0;
	int failed = 0, lack;

	start_libfabric();
	tagrv_param_read(&params);
	if (tagrv_info_devices(&params, false, &descs, &cnt, &lack))
		cnt = 0;
	if (!protocols) {
		print_devices(&params, descs, cnt);
		print_rails(&params, descs, cnt);
		print_params(&params);
	}
	for (size_t i = 0; protocols && i < cnt; i++)
		failed |= print_protocols(descs[i].name) != 0;
	free(descs);
	tagrv_info_cleanup();
	return cnt && !failed ? EXIT_SUCCESS : EXIT_FAILURE;
}
