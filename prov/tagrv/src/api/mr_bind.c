/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_mr: endpoints and counters of a region, and when peers may access it.
 *
 *   domain's mr_mode                peers may access the region
 *   FI_MR_ENDPOINT                  after fi_mr_enable, through the endpoint bound before
 *   FI_MR_RMA_EVENT, and it was     after fi_mr_enable, with the counters bound before
 *   registered with FI_RMA_EVENT
 *   others                          at once; objects may be bound at any time
 *
 * Through an endpoint that is bound but not enabled, nobody can access it yet.
 *
 * The raw key of a region is its key as bytes, which domain.c takes back.
 */
#include <endian.h>
#include <string.h>

#include "api/objects_priv.h"
#include "core/log.h"

static struct tagrv_mr *mr_of(struct fid *fid)
{
	return tagrv_container_of(fid, struct tagrv_mr, mr.fid);
}

/* Whether the region is closed to peers until fi_mr_enable. */
static bool awaits_enable(const struct tagrv_mr *mr)
{
	return mr->must_enable && !mr->enabled;
}

void tagrv_mr_update_window(struct tagrv_mr *mr)
{
	struct tagrv_window *window = &mr->window;

	window->engine = mr->ep ? mr->ep->engine : NULL;
	window->enabled = !awaits_enable(mr) && (!mr->ep || mr->ep->engine);
	window->read_cntr = mr->read_cntr ? &mr->read_cntr->counter : NULL;
	window->write_cntr = mr->write_cntr ? &mr->write_cntr->counter : NULL;
}

void tagrv_mr_ep_enabled(struct tagrv_ep *ep)
{
	struct tagrv_list *node = ep->regions.next;

	tagrv_dom_lock(ep->dom);
	for (; node != &ep->regions; node = node->next)
		tagrv_mr_update_window(tagrv_container_of(node, struct tagrv_mr,
							  ep_node));
	tagrv_lock_release(&ep->dom->lock);
}

static int bind_cntr(struct tagrv_mr *mr, struct tagrv_cntr *cntr, uint64_t flags)
{
	if (!(flags & TAGRV_MR_REMOTE_ACCESS) || flags & ~TAGRV_MR_REMOTE_ACCESS)
		return tagrv_refuse(-FI_EBADFLAGS, "fi_mr_bind: a counter is bound "
				    "with FI_REMOTE_READ or FI_REMOTE_WRITE, not "
				    "with flags 0x%llx", (unsigned long long) flags);
	if (cntr->domain != mr->domain)
		return tagrv_refuse(-FI_EINVAL, "fi_mr_bind: the counter belongs to "
				    "another domain");
	if ((flags & FI_REMOTE_READ && mr->read_cntr) ||
	    (flags & FI_REMOTE_WRITE && mr->write_cntr))
		return tagrv_refuse(-FI_EINVAL, "fi_mr_bind: the region has its "
				    "counter already");
	if (flags & FI_REMOTE_READ) {
		mr->read_cntr = cntr;
		tagrv_ref_get(&cntr->refs);
	}
	if (flags & FI_REMOTE_WRITE) {
		mr->write_cntr = cntr;
		tagrv_ref_get(&cntr->refs);
	}
	return 0;
}

/* The flags say what the endpoint's counter counts, and some programs repeat them. */
static int bind_ep(struct tagrv_mr *mr, struct tagrv_ep *ep, uint64_t flags)
{
	if (flags & ~TAGRV_MR_REMOTE_ACCESS)
		return tagrv_refuse(-FI_EBADFLAGS, "fi_mr_bind: flags 0x%llx do not "
				    "apply to an endpoint",
				    (unsigned long long) flags);
	if (ep->domain != mr->domain)
		return tagrv_refuse(-FI_EINVAL, "fi_mr_bind: the endpoint belongs "
				    "to another domain");
	if (mr->ep)
		return tagrv_refuse(-FI_EINVAL, "fi_mr_bind: the region has its "
				    "endpoint already");
	mr->ep = ep;
	tagrv_list_push_tail(&ep->regions, &mr->ep_node);
	tagrv_ref_get(&ep->refs);
	return 0;
}

static int bind_object(struct tagrv_mr *mr, struct fid *bfid, uint64_t flags)
{
	switch (bfid->fclass) {
	case FI_CLASS_CNTR:
		return bind_cntr(mr, tagrv_container_of(bfid, struct tagrv_cntr,
							cntr.fid), flags);
	case FI_CLASS_EP:
		return bind_ep(mr, tagrv_container_of(bfid, struct tagrv_ep,
						      ep.fid)->base, flags);
	default:
		return tagrv_refuse(-FI_EINVAL, "fi_mr_bind: only an endpoint or a "
				    "counter can be bound");
	}
}

int tagrv_mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct tagrv_mr *mr = mr_of(fid);
	struct tagrv_dom *dom = mr->domain->dom;
	int ret;

	if (mr->must_enable && mr->enabled)
		return tagrv_refuse(-FI_EOPBADSTATE, "fi_mr_bind: the region is "
				    "enabled already");
	tagrv_dom_lock(dom);
	ret = bind_object(mr, bfid, flags);
	if (!ret) {
		tagrv_mr_update_window(mr);
		if (mr->window.access)
			tagrv_dom_recall_window(dom, &mr->window);
	}
	tagrv_lock_release(&dom->lock);
	return ret;
}

static int enable(struct tagrv_mr *mr)
{
	struct tagrv_dom *dom = mr->domain->dom;

	if (mr->domain->mr_mode & FI_MR_ENDPOINT && !mr->ep)
		return tagrv_refuse(-FI_EINVAL, "fi_mr_enable: no endpoint was bound "
				    "to the region, though the domain has "
				    "FI_MR_ENDPOINT");
	tagrv_dom_lock(dom);
	mr->enabled = true;
	tagrv_mr_update_window(mr);
	tagrv_lock_release(&dom->lock);
	return 0;
}

/* Devices by which peers access the region have its pages; all else looks them up anew. */
static int refresh(struct tagrv_mr *mr)
{
	struct tagrv_dom *dom = mr->domain->dom;

	if (!mr->window.access)
		return 0;
	tagrv_dom_lock(dom);
	tagrv_dom_refresh_window(dom, &mr->window);
	tagrv_lock_release(&dom->lock);
	return 0;
}

/* No domain asks for it (FI_MR_RAW), but some programs do so anyway. */
static int get_raw(struct tagrv_mr *mr, const struct fi_mr_raw_attr *attr)
{
	const uint64_t key = htole64(mr->mr.key);
	size_t room = *attr->key_size;

	*attr->key_size = sizeof(key);
	if (room < sizeof(key))
		return -FI_ETOOSMALL;
	memcpy(attr->raw_key, &key, sizeof(key));
	*attr->base_addr = mr->window.base;
	return 0;
}

int tagrv_mr_control(struct fid *fid, int command, void *arg)
{
	switch (command) {
	case FI_ENABLE:
		return enable(mr_of(fid));
	case FI_REFRESH:
		return refresh(mr_of(fid));
	case FI_GET_RAW_MR:
		return get_raw(mr_of(fid), arg);
	default:
		return -FI_ENOSYS;
	}
}

void tagrv_mr_put_bindings(struct tagrv_mr *mr)
{
	if (mr->ep) {
		tagrv_list_remove(&mr->ep_node);
		tagrv_ref_put(&mr->ep->refs);
	}
	if (mr->read_cntr)
		tagrv_ref_put(&mr->read_cntr->refs);
	if (mr->write_cntr)
		tagrv_ref_put(&mr->write_cntr->refs);
}
