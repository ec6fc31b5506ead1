/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The second queue pair of a link, 'in': the peer's packets come by it, so that they may come
 * through a list of receives in the device, while ours go by the first one as ever.
 *
 *   A.qp ---- packets, gets, puts ----> B.in
 *   A.in <--- packets, gets, puts ----- B.qp
 *
 * A side offers one in its blob if params.hw_tags is set and it has an SRQ, whether it has a
 * list or not. Both use them if both have offered one, which each sees from the two blobs, in
 * whatever order these come. Otherwise the first queue pairs are connected with each other, and
 * 'in' stays unused in INIT until the link is attached or destroyed.
 *
 * Side links have none.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_IN_H
#define TAGRV_XPORT_VERBS_VERBS_IN_H

#include "xport/verbs/verbs_priv.h"

/* Whether links of the transport shall have two queue pairs. */
static inline bool verbs_in_wanted(const struct verbs_xport *xp, bool side)
{
	return xp->params.hw_tags && xp->use_srq && !side;
}

/*
 * Gives the link to this peer (NULL: nobody knows) a number for our list, if there is a list that
 * is not lost. *single: there is none left. Then the link must not have a second queue pair: the
 * list would take its packets for tagged messages. -FI_ENOSPC: one will be free when a former link to
 * the peer has ended.
 */
int tagrv_verbs_number_take(struct verbs_link *link, const struct tagrv_addr *peer, bool *single)
	TAGRV_WARN_UNUSED;
/* No message with it can come any more. Does nothing without a number. */
void tagrv_verbs_number_give(struct verbs_link *link);
/* Wireup thread: makes the second queue pair, in INIT. 0 or -errno. */
int tagrv_verbs_in_create(struct verbs_link *link) TAGRV_WARN_UNUSED;
/* Wireup thread: connects the queue pairs of the link, one or both. 0 or -errno. */
int tagrv_verbs_in_bind(struct verbs_link *link, const struct verbs_blob *peer)
	TAGRV_WARN_UNUSED;
/* Endpoint's thread: the link enters the map; destroys a queue pair that is not used. */
int tagrv_verbs_in_adopt(struct verbs_link *link) TAGRV_WARN_UNUSED;
void tagrv_verbs_in_attach(struct verbs_link *link);
/* The link is in no map any more. Destroys the queue pair; its place in the quota is the
 * link's. False: the device has refused. */
bool tagrv_verbs_in_destroy(struct verbs_link *link);

#endif
