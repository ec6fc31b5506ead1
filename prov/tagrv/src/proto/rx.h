/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where receives are posted: the queues of one endpoint, or a shared receive
 * context, which several endpoints have in common.
 *
 *   engine --.   arrive    .-- receives       <-- tagrv_rx_recv
 *   engine ---> tagrv_rx --+-- unexpected messages
 *   engine --'             '-- claimed ones
 *
 * A receive belongs to no endpoint until a message of one matches it. From then
 * on it is that endpoint's, and ends in its queues. What is about the context
 * alone goes to the queue and the counter it was given, or to those of the
 * endpoint that uses it longest: cancelled receives, released multi-receive
 * buffers, what a peek or claim found, and receives that a closed endpoint
 * leaves behind unfinished.
 *
 * Endpoints of one context share an address table: a source means the same
 * peer, by whichever of them its messages come. Credit and memory of unexpected
 * messages stay each endpoint's own.
 *
 * Every function is called with the domain lock held unless it says otherwise.
 */
#ifndef TAGRV_PROTO_RX_H
#define TAGRV_PROTO_RX_H

#include <rdma/fi_domain.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "core/compiler.h"
#include "match/match.h"
#include "proto/comp.h"
#include "proto/dom.h"

#define TAGRV_MIN_MULTI_RECV	64	/* bytes, unless told otherwise */

struct tagrv_mem;
struct tagrv_rx;

struct tagrv_recv_req {
	const struct iovec *iov;
	size_t	iov_cnt;
	struct tagrv_mem **mem;
	fi_addr_t src;		/* or FI_ADDR_UNSPEC */
	uint64_t tag;
	uint64_t ignore;
	void	*context;
	/* FI_PEEK, FI_CLAIM, FI_DISCARD, FI_MULTI_RECV, FI_COMPLETION */
	uint64_t flags;
	uint8_t	space;
};

/*
 * dom lock not needed. A context to share; an endpoint opened without one has
 * its own. directed: honour the source of receives. -FI_ENOMEM.
 */
int tagrv_rx_open(struct tagrv_dom *dom, bool directed, struct tagrv_rx **rx)
	TAGRV_WARN_UNUSED;
/*
 * dom lock not needed. No endpoint uses it any more; posted receives vanish
 * without completion.
 */
void tagrv_rx_close(struct tagrv_rx *rx);

/* For what is about a shared context alone; NULL: the endpoints' own. */
void tagrv_rx_set_cq(struct tagrv_rx *rx, struct tagrv_compq *cq);
void tagrv_rx_set_cntr(struct tagrv_rx *rx, struct tagrv_counter *cntr);
void tagrv_rx_set_min_multi_recv(struct tagrv_rx *rx, size_t bytes);

/*
 * As tagrv_engine_send(): accepted with 0, then exactly one completion.
 * -FI_EINVAL: no such source; -FI_EAGAIN; -FI_ENOMEM. FI_PEEK and friends
 * answer through the queue; -FI_EBUSY: a second claim by one context.
 */
ssize_t tagrv_rx_recv(struct tagrv_rx *rx, const struct tagrv_recv_req *req)
	TAGRV_WARN_UNUSED;
/*
 * Takes back the earliest posted receive with this context: 0 and an
 * FI_ECANCELED completion, or -FI_ENOENT when none is (or no longer) posted.
 */
int tagrv_rx_cancel(struct tagrv_rx *rx, void *context);

/* What the queues hold and what searches have cost: see match/match.h. */
void tagrv_rx_match_stats(const struct tagrv_rx *rx,
			  struct tagrv_match_stats *stats);

#endif
