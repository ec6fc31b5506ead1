/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One endpoint of tagrv_fault.
 */
#include "fault.h"

#include <arpa/inet.h>
#include <rdma/fi_ext_tagrv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* As a dump names them; STATE_NONE: the survivor knows no such peer yet. */
const char *const state_names[STATES] = {
	"(none)", "IDLE", "CONNECTING", "BOUND", "READY", "LEAVING",
};

static void must(ssize_t ret, const char *call)
{
	MUST(ret >= 0, "%s: %s", call, fi_strerror((int)-ret));
}

static void get_info(struct end *e, const struct plan *plan)
{
	struct fi_info *hints = fi_allocinfo();

	MUST(hints, "no memory");
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->name = strdup("shm");
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->data_progress = plan->automatic ? FI_PROGRESS_AUTO :
							      FI_PROGRESS_MANUAL;
	hints->fabric_attr->prov_name = strdup("tagrv");
	must(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &e->info), "fi_getinfo");
	fi_freeinfo(hints);
}

static void set_parameters(const struct plan *plan)
{
	setenv("FI_TAGRV_PEER_ERRORS", plan->errors ? "yes" : "no", 1);
	setenv("FI_TAGRV_RNDV", plan->rndv, 1);
	setenv("FI_TAGRV_SHM_CMA", plan->cma, 1);
}

void end_open(struct end *e, const struct plan *plan, uint8_t *name, size_t *len)
{
	struct fi_cq_attr cq = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = plan->sleeps ? FI_WAIT_FD : FI_WAIT_NONE,
	};
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	memset(e, 0, sizeof(*e));
	set_parameters(plan);
	e->sleeps = plan->sleeps;
	get_info(e, plan);
	must(fi_fabric(e->info->fabric_attr, &e->fabric, NULL), "fi_fabric");
	must(fi_domain(e->fabric, e->info, &e->domain, NULL), "fi_domain");
	must(fi_av_open(e->domain, &av, &e->av, NULL), "fi_av_open");
	must(fi_cq_open(e->domain, &cq, &e->cq, NULL), "fi_cq_open");
	must(fi_endpoint(e->domain, e->info, &e->ep, NULL), "fi_endpoint");
	must(fi_ep_bind(e->ep, &e->av->fid, 0), "fi_ep_bind");
	must(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	must(fi_enable(e->ep), "fi_enable");
	*len = NAME_MAX_LEN;
	must(fi_getname(&e->ep->fid, name, len), "fi_getname");
}

void end_insert(struct end *e, const uint8_t *name)
{
	MUST(fi_av_insert(e->av, name, 1, &e->peer, 0, NULL) == 1, "fi_av_insert");
}

void end_close_ep(struct end *e)
{
	must(fi_close(&e->ep->fid), "fi_close of the endpoint");
	e->ep = NULL;
}

void end_close(struct end *e)
{
	if (e->ep)
		end_close_ep(e);
	must(fi_close(&e->cq->fid), "fi_close of the queue");
	must(fi_close(&e->av->fid), "fi_close of the address vector");
	must(fi_close(&e->domain->fid), "fi_close of the domain");
	must(fi_close(&e->fabric->fid), "fi_close of the fabric");
	fi_freeinfo(e->info);
}

/* ---- the state of a connection ---- */

static void read_dump(const struct end *e, char *text, size_t size)
{
	int fd = memfd_create("dump", MFD_CLOEXEC);
	struct fi_tagrv_ops_dump *ops;
	ssize_t len;

	MUST(fd >= 0, "memfd_create");
	must(fi_open_ops(&e->ep->fid, TAGRV_EP_DUMP_OPS, 0, (void **)&ops, NULL), "fi_open_ops");
	must(ops->dump(e->ep, fd), "dump");
	len = pread(fd, text, size - 1, 0);
	close(fd);
	text[len < 0 ? 0 : len] = '\0';
}

int end_state(const struct end *e, const uint8_t *name)
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
			return i;
	}
	return STATE_NONE;
}
