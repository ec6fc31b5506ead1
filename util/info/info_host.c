/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What there is on this host: as fi_getinfo finds it, and what it leaves out.
 */
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info.h"
#include "util/info/info_host.h"

static bool is_offered(const struct info_host *host, const char *name)
{
	for (size_t i = 0; i < host->cnt; i++)
		if (!strcmp(host->descs[i].name, name))
			return true;
	return false;
}

static void add_other(struct info_host *host, const char *name, const char *prefix, const char *why)
{
	struct info_other *other = &host->others[host->other_cnt];

	if (host->other_cnt == INFO_OTHERS)
		return;
	snprintf(other->name, sizeof(other->name), "%s", name);
	snprintf(other->why, sizeof(other->why), "%s: %s", prefix, why);
	host->other_cnt++;
}

/* Devices that are not offered, with the reason. */
static void find_others(struct info_host *host)
{
	struct tagrv_params any = host->params;
	struct tagrv_device_desc *descs;
	char why[160] = "";
	size_t cnt;

	any.devices[0] = '\0';
	for (size_t x = 0; tagrv_xports[x]; x++) {
		if (tagrv_xports[x]->discover(&any, &descs, &cnt, why, sizeof(why))) {
			add_other(host, tagrv_xports[x]->name, "not there", why);
			continue;
		}
		for (size_t i = 0; i < cnt; i++)
			if (!is_offered(host, descs[i].name))
				add_other(host, descs[i].name, "not offered",
					  descs[i].usable ? "left out by the parameters" :
							    descs[i].why_not);
		free(descs);
	}
}

void info_clean(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

static void clean(struct info_host *host)
{
	for (size_t i = 0; i < host->cnt; i++) {
		info_clean(host->descs[i].iface);
		info_clean(host->descs[i].link_type);
		info_clean(host->descs[i].driver);
		info_clean(host->descs[i].firmware);
	}
	for (size_t i = 0; i < host->other_cnt; i++) {
		info_clean(host->others[i].name);
		info_clean(host->others[i].why);
	}
}

static void start_libfabric(struct info_host *host)
{
	struct fi_param *list;
	int cnt;

	host->set_level = !getenv("FI_LOG_LEVEL");
	host->set_prov = !getenv("FI_LOG_PROV");
	setenv("FI_LOG_LEVEL", "warn", 0);
	setenv("FI_LOG_PROV", "tagrv", 0);
	if (!fi_getparams(&list, &cnt))
		fi_freeparams(list);
	tagrv_param_define();
}

static int sort(struct info_host *host)
{
	host->alike = calloc(host->cnt + 1, sizeof(*host->alike));
	host->descs = calloc(host->cnt + 1, sizeof(*host->descs));
	if (!host->alike || !host->descs)
		return -FI_ENOMEM;
	if (!host->cnt)
		return 0;
	memcpy(host->descs, host->found, host->cnt * sizeof(*host->descs));
	return tagrv_info_sort(&host->params, host->descs, host->cnt, host->alike);
}

int info_host_read(struct info_host *host)
{
	int lack;

	memset(host, 0, sizeof(*host));
	start_libfabric(host);
	tagrv_param_read(&host->params);
	host->procs = tagrv_dom_rails_procs(getenv, &host->launcher);
	if (tagrv_info_devices(&host->params, false, &host->found, &host->cnt, &lack))
		host->cnt = 0;
	if (sort(host)) {
		info_host_free(host);
		return -FI_ENOMEM;
	}
	find_others(host);
	clean(host);
	return 0;
}

void info_host_free(struct info_host *host)
{
	free(host->found);
	free(host->descs);
	free(host->alike);
	tagrv_info_cleanup();
	memset(host, 0, sizeof(*host));
}

void info_host_rails(const struct info_host *host, size_t i, struct tagrv_dom_rails *rails)
{
	tagrv_dom_rails_choose(host->params.rails, host->procs, host->found, host->cnt,
			       host->descs[i].name, rails);
}

const char *info_param_text(const struct info_host *host, size_t i, char *text, size_t size)
{
	const char *def = strstr(tagrv_param_help(i), "(default: ");

	tagrv_param_value(i, &host->params, text, size);
	if (!*text && def)
		snprintf(text, size, "%.*s", (int) strcspn(def + 10, ")"), def + 10);
	info_clean(text);
	return text;
}
