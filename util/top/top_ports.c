/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the kernel counts of RDMA ports: packets that were sent again, or that were missing.
 * Drivers have different names for them.
 */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/compiler.h"
#include "util/top/top_look.h"

static const char *const counters[] = {
	/* mlx5, irdma, bnxt_re and others */
	"packet_seq_err", "local_ack_timeout_err", "out_of_sequence", "rnr_nak_retry_err",
	"retransSegs", "to_retransmits", "seq_err_naks_rcvd", "rnr_naks_rcvd",
	/* rxe */
	"retry_exceeded_err", "completer_retry_err", "rcvd_seq_err", "send_rnr_err", "send_err",
};

static bool read_number(const char *path, uint64_t *value)
{
	FILE *file = fopen(path, "re");
	bool ok;

	if (!file)
		return false;
	ok = fscanf(file, "%" SCNu64, value) == 1;
	fclose(file);
	return ok;
}

static bool add_port(const char *ports, const char *port, uint64_t *sum)
{
	bool any = false;
	char path[512];
	uint64_t value;

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(counters); i++) {
		snprintf(path, sizeof(path), "%.300s/%.16s/hw_counters/%s", ports, port,
			 counters[i]);
		if (!read_number(path, &value))
			continue;
		*sum += value;
		any = true;
	}
	return any;
}

/* port: NULL: all of the device. */
static bool add_device(const char *sys, const char *device, const char *port, uint64_t *sum)
{
	struct dirent *entry;
	char ports[320];
	bool any = false;
	DIR *dir;

	snprintf(ports, sizeof(ports), "%.160s/class/infiniband/%.64s/ports", sys, device);
	dir = opendir(ports);
	if (!dir)
		return false;
	while ((entry = readdir(dir)))
		if (isdigit((unsigned char) entry->d_name[0]) &&
		    (!port || !strcmp(port, entry->d_name)))
			any |= add_port(ports, entry->d_name, sum);
	closedir(dir);
	return any;
}

/* Names come from another process: nothing but a name may get into a path. */
static bool is_name(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char) *text) && *text != '_' && *text != '-')
			return false;
	return true;
}

bool top_retransmits(const char *sys, const char *devices, uint64_t *sum)
{
	char text[TAGRV_BOARD_TEXT], *rest = text, *name;
	bool any = false;

	*sum = 0;
	snprintf(text, sizeof(text), "%.*s", (int) sizeof(text) - 1, devices);
	while ((name = strsep(&rest, "+,"))) {
		char *port = strchr(name, ':');

		if (port)
			*port++ = '\0';
		if (is_name(name) && (!port || is_name(port)))
			any |= add_device(sys, name, port, sum);
	}
	return any;
}
