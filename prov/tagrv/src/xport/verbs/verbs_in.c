/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The second queue pair of a link: see verbs_in.h.
 */
#include "xport/verbs/verbs_in.h"

#include <stdlib.h>

#include "core/log.h"
#include "core/random.h"
#include "xport/quota.h"

/* ---- numbers ---- */

#define WORDS	((VERBS_NUMBER_MAX + 1) / 64)

/* A free one from 'from' on, 0: none. Needs inbox.mutex. */
static uint16_t find_free(const uint64_t *taken, uint32_t from)
{
	for (uint32_t i = 0; i <= VERBS_NUMBER_MAX; i++) {
		uint32_t nr = (from + i) & VERBS_NUMBER_MAX;

		if (nr && !(taken[nr / 64] >> nr % 64 & 1))
			return (uint16_t) nr;
	}
	return 0;
}

/* It begins anywhere, so that a number that was given back is not given again at once. */
bool tagrv_verbs_number_take(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct verbs_inbox *inbox = &xp->inbox;
	uint32_t from;

	if (!__atomic_load_n(&xp->base.list, __ATOMIC_ACQUIRE))
		return true;
	if (tagrv_random_fill(&from, sizeof(from)))
		return false;
	pthread_mutex_lock(&inbox->mutex);
	if (!inbox->numbers)
		inbox->numbers = calloc(WORDS, sizeof(*inbox->numbers));
	if (inbox->numbers)
		link->in_number = find_free(inbox->numbers, from);
	if (link->in_number)
		inbox->numbers[link->in_number / 64] |= UINT64_C(1) << link->in_number % 64;
	pthread_mutex_unlock(&inbox->mutex);
	return link->in_number;
}

void tagrv_verbs_number_give(struct verbs_link *link)
{
	struct verbs_inbox *inbox = &verbs_xport_of(link->base.xport)->inbox;

	if (!link->in_number)
		return;
	pthread_mutex_lock(&inbox->mutex);
	inbox->numbers[link->in_number / 64] &= ~(UINT64_C(1) << link->in_number % 64);
	pthread_mutex_unlock(&inbox->mutex);
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

	if (!ok)
		tagrv_warn("verbs: %s: cannot destroy qp 0x%x\n",
			   xp->dev->base.name, link->in.qpn);
	link->in.qp = NULL;
	return ok;
}
