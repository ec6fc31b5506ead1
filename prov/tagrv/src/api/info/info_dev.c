/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: the devices that the transports find.
 *
 * libfabric turns one fi_getinfo into several calls of the provider, and test
 * programs make hundreds of them. So the list of devices is kept for a second,
 * unless the parameters change or a call has FI_RESCAN.
 */
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info_priv.h"
#include "core/clock.h"
#include "core/lack.h"
#include "core/limits.h"
#include "core/log.h"

#define KEEP_MS		1000
#define WHY_LEN		192

static struct {
	pthread_mutex_t lock;
	bool	valid;
	uint64_t found_at;
	struct tagrv_params params;
	struct tagrv_device_desc *descs;	/* the usable devices */
	size_t	cnt;
	char	*why;		/* why others are unusable, a line each */
	int	lack;		/* there may be more: -FI_ENOMEM, -FI_EMFILE; or 0 */
	char	*warned;	/* the reasons given in the last warnings, and the names */
	bool	advised;	/* and what helps processes of one host */
} found = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Drops the reason when memory is out. */
static void add_reason(const char *name, const char *why)
{
	char *lines;
	int n;

	n = asprintf(&lines, "%s%s%s%s\n", found.why ? found.why : "",
		     name ? name : "", name ? ": " : "", why);
	if (n < 0)
		return;
	free(found.why);
	found.why = lines;
}

static int add_desc(const struct tagrv_device_desc *desc)
{
	struct tagrv_device_desc *descs;

	descs = realloc(found.descs, (found.cnt + 1) * sizeof(*descs));
	if (!descs)
		return -FI_ENOMEM;
	descs[found.cnt++] = *desc;
	found.descs = descs;
	return 0;
}

static int discover_loop(void)
{
	struct tagrv_device_desc desc = {
		.usable = true, .up = true, .numa_node = -1, .pci_domain = -1,
		.max_msg = TAGRV_MAX_MSG,
	};

	snprintf(desc.name, sizeof(desc.name), "%s", TAGRV_LOOP_NAME);
	return add_desc(&desc);
}

static int discover_xport(const struct tagrv_xport_ops *ops,
			  const struct tagrv_params *params)
{
	struct tagrv_device_desc *descs;
	char why[WHY_LEN] = "";
	size_t cnt;
	int ret;

	if (!tagrv_xport_is_wanted(params, ops)) {
		add_reason(ops->name, "left out by FI_TAGRV_TRANSPORTS");
		return 0;
	}
	ret = ops->discover(params, &descs, &cnt, why, sizeof(why));
	if (ret) {
		add_reason(NULL, why[0] ? why : fi_strerror(-ret));
		found.lack = tagrv_is_lack(-ret) ? ret : found.lack;
		return 0;
	}
	for (size_t i = 0; i < cnt && !ret; i++) {
		if (descs[i].usable)
			ret = add_desc(&descs[i]);
		else
			add_reason(descs[i].name, descs[i].why_not);
		if (!descs[i].usable && descs[i].lack)
			found.lack = descs[i].lack;
	}
	free(descs);
	return ret;
}

static void forget(void)
{
	free(found.descs);
	found.descs = NULL;
	found.cnt = 0;
	free(found.why);
	found.why = NULL;
	found.lack = 0;
	found.valid = false;
}

/* FI_TAGRV_DEVICES, split into the words loop and shm and names of NICs. */
struct wish {
	bool	all;		/* the parameter is not set */
	bool	loop, shm;
	struct tagrv_params nics;	/* devices[] lists NICs only */
};

static void read_wish(const struct tagrv_params *params, struct wish *wish)
{
	char copy[sizeof(params->devices)], *save = NULL;
	size_t used = 0;

	memset(wish, 0, sizeof(*wish));
	wish->nics = *params;
	wish->nics.devices[0] = '\0';
	wish->all = !params->devices[0];
	memcpy(copy, params->devices, sizeof(copy));
	for (char *name = strtok_r(copy, ",", &save); name;
	     name = strtok_r(NULL, ",", &save)) {
		if (!strcmp(name, TAGRV_LOOP_NAME))
			wish->loop = true;
		else if (!strcmp(name, TAGRV_SHM_NAME))
			wish->shm = true;
		else
			used += (size_t) snprintf(wish->nics.devices + used,
				sizeof(copy) - used, "%s%s", used ? "," : "",
				name);
	}
}

static bool is_wished(const struct wish *wish, const struct tagrv_xport_ops *ops)
{
	if (!strcmp(ops->name, TAGRV_SHM_NAME))
		return wish->all || wish->shm;
	return wish->all || wish->nics.devices[0];
}

static int discover_all(const struct tagrv_params *params)
{
	struct wish wish;
	int ret = 0;

	read_wish(params, &wish);
	if (wish.loop)
		ret = discover_loop();
	for (int i = 0; tagrv_xports[i] && !ret; i++)
		if (is_wished(&wish, tagrv_xports[i]))
			ret = discover_xport(tagrv_xports[i], &wish.nics);
	return ret;
}

static int discover(const struct tagrv_params *params)
{
	int ret;

	forget();
	ret = discover_all(params);
	if (ret)
		return ret;
	if (!found.cnt && !found.why)
		add_reason(NULL, "FI_TAGRV_DEVICES names none");
	/* memcpy copies padding, too, which is_fresh() compares. */
	memcpy(&found.params, params, sizeof(*params));
	found.found_at = tagrv_clock_ms();
	found.valid = !found.lack;
	return 0;
}

static bool is_fresh(const struct tagrv_params *params)
{
	return found.valid && tagrv_clock_ms() - found.found_at < KEEP_MS &&
	       !memcmp(&found.params, params, sizeof(*params));
}

static void warn_line(const char *line, size_t len, const char *advice)
{
	const char *named = found.params.devices;

	tagrv_warn("no usable device%s%s%s: %.*s%s%s\n", *named ? " by FI_TAGRV_DEVICES='" : "",
		   named, *named ? "'" : "", (int) len, line,
		   !*advice ? "" : line[len - 1] == '?' ? " " : "; ", advice);
}

/*
 * Warns with a line for each device, unless the last warnings were the same. remote: the
 * hints ask for other hosts, as those of MPI libraries do wherever the processes are.
 */
static void warn_why(bool remote)
{
	const char *why = found.why ? found.why : "none that reaches other hosts\n";
	const char *advice = "MPI libraries ask for other hosts (FI_REMOTE_COMM): if all "
			     "processes are on this one, set FI_TAGRV_DEVICES=shm, or they "
			     "take another provider";
	const char *line, *end;

	char *warned;

	if (!found.why && !(remote && found.cnt))
		return;
	if (asprintf(&warned, "%s%s", why, found.params.devices) < 0)
		warned = NULL;
	if (warned && found.warned && !strcmp(found.warned, warned) &&
	    found.advised >= remote) {
		free(warned);
		return;
	}
	for (line = why; (end = strchr(line, '\n')); line = end + 1)
		warn_line(line, (size_t) (end - line), remote && !end[1] ? advice : "");
	free(found.warned);
	found.warned = warned;
	found.advised = remote;
}

static int copy_found(struct tagrv_device_desc **descs, size_t *cnt)
{
	*descs = malloc(found.cnt * sizeof(**descs));
	if (!*descs)
		return -FI_ENOMEM;
	memcpy(*descs, found.descs, found.cnt * sizeof(**descs));
	*cnt = found.cnt;
	return 0;
}

int tagrv_info_devices(const struct tagrv_params *params, bool quiet,
		       struct tagrv_device_desc **descs, size_t *cnt, int *lack)
{
	int ret = 0;

	pthread_mutex_lock(&found.lock);
	if (!is_fresh(params))
		ret = discover(params);
	if (!ret && !found.cnt) {
		ret = found.lack ? found.lack : -FI_ENODATA;
		if (!quiet)
			warn_why(false);
	}
	if (!ret)
		ret = copy_found(descs, cnt);
	*lack = found.lack;
	pthread_mutex_unlock(&found.lock);
	return ret;
}

void tagrv_info_rescan(void)
{
	pthread_mutex_lock(&found.lock);
	found.valid = false;
	pthread_mutex_unlock(&found.lock);
}

void tagrv_info_warn_why(bool remote)
{
	pthread_mutex_lock(&found.lock);
	warn_why(remote);
	pthread_mutex_unlock(&found.lock);
}

void tagrv_info_cleanup(void)
{
	pthread_mutex_lock(&found.lock);
	forget();
	free(found.warned);
	found.warned = NULL;
	pthread_mutex_unlock(&found.lock);
}
