/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An endpoint: see end.h.
 */
#include "end.h"

#include <rdma/fi_ext_tagrv.h>
#include <string.h>
#include <sys/types.h>

static void must(ssize_t ret, const char *call)
{
	MUST(ret >= 0, "%s: %s", call, fi_strerror((int)-ret));
}

static void get_info(struct end *e, const struct end_attr *attr)
{
	struct fi_info *hints = fi_allocinfo();

	MUST(hints, "no memory");
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE | attr->caps;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->name = attr->domain ? strdup(attr->domain) : NULL;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->data_progress = attr->progress;
	hints->domain_attr->cq_data_size = attr->cq_data_size;
	hints->fabric_attr->prov_name = strdup("tagrv");
	must(fi_getinfo(FI_VERSION(1, 17), attr->address, NULL, attr->address ? FI_SOURCE : 0, hints,
			&e->info), "fi_getinfo");
	fi_freeinfo(hints);
}

void end_open(struct end *e, const struct end_attr *attr, uint8_t *name, size_t *len)
{
	struct fi_cq_attr cq = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = attr->wait_obj ? attr->wait_obj : FI_WAIT_NONE,
	};
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	memset(e, 0, sizeof(*e));
	e->peer = FI_ADDR_NOTAVAIL;
	e->sleeps = cq.wait_obj != FI_WAIT_NONE;
	get_info(e, attr);
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

void end_set_peer(struct end *e, const uint8_t *name)
{
	if (e->peer != FI_ADDR_NOTAVAIL)
		must(fi_av_remove(e->av, &e->peer, 1, 0), "fi_av_remove");
	MUST(fi_av_insert(e->av, name, 1, &e->peer, 0, NULL) == 1, "fi_av_insert");
}

int end_dump(const struct end *e, int fd)
{
	struct fi_tagrv_ops_dump *ops;
	int ret = fi_open_ops(&e->ep->fid, TAGRV_EP_DUMP_OPS, 0, (void **)&ops, NULL);

	return ret ? ret : ops->dump(e->ep, fd);
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
