/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The calls of rdma/fi_ext_tagrv.h: had by fi_open_ops, for those who know this
 * provider.
 */
#include <rdma/fi_ext_tagrv.h>
#include <string.h>

#include "api/nosys_priv.h"
#include "api/objects_priv.h"

/* Applications were compiled with it: it never grows, see the header. */
#define STATS_LEN_MIN	80

static_assert(sizeof(struct fi_tagrv_match_stats) == STATS_LEN_MIN,
	      "what is added to the first version has to be announced");

static int get_stats(struct fid_ep *fid, struct fi_tagrv_match_stats *stats,
		     size_t *len)
{
	const struct tagrv_ep *ep;
	struct tagrv_match_stats now;

	if (!fid || !stats || !len)
		return -FI_EINVAL;
	ep = tagrv_container_of(fid, struct tagrv_ep, ep);
	if (!ep->engine)
		return -FI_EOPBADSTATE;
	if (*len < STATS_LEN_MIN) {
		*len = STATS_LEN_MIN;
		return -FI_ETOOSMALL;
	}
	tagrv_lock_acquire(&ep->dom->lock);
	tagrv_engine_match_stats(ep->engine, &now);
	tagrv_lock_release(&ep->dom->lock);
	*stats = (struct fi_tagrv_match_stats) {
		.posted = now.posted,
		.posted_peak = now.posted_peak,
		.posted_classes = now.posted_classes,
		.posted_oldest = now.posted_oldest,
		.unexpected = now.unexpected,
		.unexpected_peak = now.unexpected_peak,
		.unexpected_indexes = now.unexpected_indexes,
		.unexpected_oldest = now.unexpected_oldest,
		.searches = now.searches,
		.probes = now.probes,
	};
	*len = sizeof(*stats);
	return 0;
}

static struct fi_tagrv_ops_match match_ops = {
	.size = sizeof(match_ops),
	.get_stats = get_stats,
};

int tagrv_ep_ops_open(struct fid *fid, const char *name, uint64_t flags,
		      void **ops, void *context)
{
	if (!name || !ops)
		return -FI_EINVAL;
	if (strcmp(name, TAGRV_EP_MATCH_OPS))
		return tagrv_nosys_ops_open(fid, name, flags, ops, context);
	if (flags)
		return -FI_EBADFLAGS;
	*ops = &match_ops;
	return 0;
}
