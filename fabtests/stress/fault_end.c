/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An endpoint as the plan of a round wants it, and how far its connection is.
 */
#include "fault.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* As a dump names them; STATE_NONE: the survivor knows no such peer yet. */
const char *const state_names[STATES] = {
	[STATE_NONE] = "(none)", [STATE_IDLE] = "IDLE", [STATE_CONNECTING] = "CONNECTING",
	[STATE_BOUND] = "BOUND", [STATE_READY] = "READY", [STATE_LEAVING] = "LEAVING",
};

static void set_parameters(const struct plan *plan)
{
	setenv("FI_TAGRV_PEER_ERRORS", plan->errors ? "yes" : "no", 1);
	setenv("FI_TAGRV_RNDV", plan->rndv, 1);
	setenv("FI_TAGRV_SHM_CMA", plan->cma, 1);
}

void fault_open(struct end *e, const struct plan *plan, uint8_t *name, size_t *len)
{
	const struct end_attr attr = {
		.domain = "shm",
		.progress = plan->automatic ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL,
		.wait_obj = plan->sleeps ? FI_WAIT_FD : FI_WAIT_NONE,
		.caps = plan->onesided ? FI_RMA | FI_ATOMIC : 0,
	};

	set_parameters(plan);
	end_open(e, &attr, name, len);
}

/* ---- the state of a connection ---- */

static void read_dump(const struct end *e, char *text, size_t size)
{
	int fd = memfd_create("dump", MFD_CLOEXEC);
	ssize_t len;

	MUST(fd >= 0, "memfd_create");
	MUST(end_dump(e, fd) >= 0, "no dump");
	len = pread(fd, text, size - 1, 0);
	close(fd);
	text[len < 0 ? 0 : len] = '\0';
}

enum state fault_state(const struct end *e, const uint8_t *name)
{
	const struct sockaddr_in *in = (const void *)name;
	char text[16384], ip[INET_ADDRSTRLEN], what[64];
	const char *line, *end;

	read_dump(e, text, sizeof(text));
	inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
	snprintf(what, sizeof(what), "  peer %s:%u,", ip, ntohs(in->sin_port));
	line = strstr(text, what);
	if (!line)
		return STATE_NONE;
	end = strchr(line, '\n');
	for (int i = 1; i < STATES; i++) {
		const char *at;

		snprintf(what, sizeof(what), ": %s", state_names[i]);
		at = strstr(line, what);
		if (at && (!end || at < end))
			return (enum state)i;
	}
	return STATE_NONE;
}
