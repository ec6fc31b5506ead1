/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The second queue pair of a link: see verbs_in.h.
 */
#include "xport/verbs/verbs_in.h"

#include "core/log.h"
#include "core/random.h"
#include "xport/numbers.h"
#include "xport/quota.h"

/* ---- numbers ---- */

int tagrv_verbs_number_take(struct verbs_link *link, const struct tagrv_addr *peer,
			    bool *single)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	int ret;

	*single = false;
	if (!__atomic_load_n(&xp->base.list, __ATOMIC_ACQUIRE))
		return 0;
	ret = tagrv_numbers_take(xp->list.numbers, peer, &link->in_number);
	*single = !link->in_number;
	return ret;
}

void tagrv_verbs_number_give(struct verbs_link *link)
{
	if (!link->in_number)
		return;
	tagrv_numbers_give(verbs_xport_of(link->base.xport)->list.numbers, link->in_number);
	link->in_number = 0;
}

/* ---- the queue pair ---- */

int tagrv_verbs_in_create(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	int ret;

	if (tagrv_random_fill(&link->in.psn, sizeof(link->in.psn)))
		return -FI_EIO;
	link->in.psn &= 0xffffff;
	ret = link->in_number ? tagrv_verbs_list_qp_create(xp, link, &link->in.qp) :
				tagrv_verbs_qp_create_in(xp, link, &link->in.qp);
	if (ret)
		return ret;
	link->in.qpn = link->in.qp->qp_num;
	return tagrv_verbs_qp_init(link, link->in.qp);
}

/* The one by which packets come is connected first: then nothing is sent to it too early. */
int tagrv_verbs_in_bind(struct verbs_link *link, const struct verbs_blob *peer)
{
	struct verbs_way in = { link->in.qp, link->in.psn, peer->qpn, peer->psn };
	struct verbs_way out = { link->qp, link->psn, peer->qpn, peer->psn };
	int ret;

	if (link->in.qp && peer->two) {
		ret = tagrv_verbs_qp_connect(link, &in, peer);
		if (ret)
			return ret;
		out.peer_qpn = peer->in_qpn;
		out.peer_psn = peer->in_psn;
		link->in_used = true;
	}
	return tagrv_verbs_qp_connect(link, &out, peer);
}

int tagrv_verbs_in_adopt(struct verbs_link *link)
{
	return link->in.qp ?
	       tagrv_verbs_map_add(&verbs_xport_of(link->base.xport)->in_map, link) : 0;
}

/* Its packets come by the first queue pair: what it took of the other pool is not known. */
static void leave_list(struct verbs_link *link)
{
	if (!link->in_number)
		return;
	tagrv_verbs_list_end(link);
	tagrv_verbs_permit_move(link, &verbs_xport_of(link->base.xport)->pool);
	link->rx_last = 0;
}

void tagrv_verbs_in_attach(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	if (!link->in.qp || link->in_used)
		return;
	tagrv_verbs_map_remove(&xp->in_map, link);
	(void) tagrv_verbs_in_destroy(link);
	leave_list(link);
	tagrv_verbs_number_give(link);
	link->counted--;
	tagrv_quota_give(&xp->dev->quota);
}

bool tagrv_verbs_in_destroy(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	bool ok = !link->in.qp || !xp->calls->destroy_qp(link->in.qp);

	if (!ok) {
		tagrv_warn("verbs: %s: cannot destroy qp 0x%x\n",
			   xp->dev->base.name, link->in.qpn);
		link->in.qp->qp_context = NULL;
	}
	link->in.qp = NULL;
	return ok;
}
