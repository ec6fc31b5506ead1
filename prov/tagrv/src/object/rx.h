/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receive context: the queues that receives are posted to, those of one endpoint
 * or of several that share them.
 *
 *   engine --.   arrive    .-- posted receives   <-- tagrv_rx_recv
 *   engine ---> tagrv_rx --+-- unexpected messages
 *   engine --'             '-- claimed messages
 *
 * A receive belongs to no endpoint until a message of one matches it. From then
 * on it is that endpoint's and ends in that endpoint's queues. Some reports
 * concern the context alone: cancelled receives, released multi-receive buffers,
 * results of peek and claim, receives that a closed endpoint leaves unfinished.
 * They go to the queue and counter that the context was given, else to those of
 * the endpoint that has used the context longest.
 *
 * Endpoints of one context share an address table, so that a source means the
 * same peer whichever endpoint its messages come by. Credit and memory of
 * unexpected messages stay each endpoint's own.
 *
 * Every function is called with the domain lock held unless it says otherwise.
 */
#ifndef TAGRV_OBJECT_RX_H
#define TAGRV_OBJECT_RX_H

#include <stdbool.h>
#include <stddef.h>

#include "core/compiler.h"
#include "core/list.h"
#include "core/pool.h"
#include "match/match.h"
#include "object/comp.h"
#include "object/dom.h"

#define TAGRV_MIN_MULTI_RECV	64	/* bytes, unless the application says more */

struct tagrv_addr;
struct tagrv_claim;
struct tagrv_engine;
struct tagrv_rx_peer;
struct tagrv_tags;

struct tagrv_rx {
	struct tagrv_match *match;
	struct tagrv_engine *first;	/* of engines; NULL: there is none */
	struct tagrv_dom *dom;
	bool	directed;		/* honours the source of receives */
	bool	shared;			/* opened by itself, not by an engine */
	bool	was_full;		/* 'max_recvs' was reached, and logged */
	size_t	min_multi_recv;		/* bytes: less left retires a buffer */
	size_t	max_recvs;		/* of posted receives, and of ops */
	size_t	plain_recvs;		/* ops in use, up to which a receive may have none:
					   max_recvs, or 0, because of 'tags' */
	struct tagrv_pool ops;		/* receives that need an op */
	struct tagrv_pool slices;	/* receives into multi-receive buffers */
	struct tagrv_claim *claims;	/* by context: proto/peek.c */
	struct tagrv_tags *tags;	/* of its only engine: tags.h; NULL: none */
	struct tagrv_list engines;	/* that use it, in order of joining */
	struct tagrv_list stopped;	/* peers that have no place left */
	bool	roused;			/* a post has said so to all of them, and no
					   pass has looked since: proto/hold.h */
	struct tagrv_compq *cq;		/* for reports about it alone, or NULL */
	struct tagrv_counter *cntr;
	struct tagrv_rx_peer *peers;	/* shared: uthash by address */
};

/*
 * dom lock not needed. Opens a context to share; an endpoint opened without one
 * has its own. directed: honour the source of receives. -FI_ENOMEM.
 */
int tagrv_rx_open(struct tagrv_dom *dom, bool directed, struct tagrv_rx **rx)
	TAGRV_WARN_UNUSED;
/*
 * dom lock not needed. No endpoint uses it any more; posted receives vanish
 * without completion.
 */
void tagrv_rx_close(struct tagrv_rx *rx);

/* Where to report what concerns a shared context alone; NULL: the endpoints'. */
void tagrv_rx_set_cq(struct tagrv_rx *rx, struct tagrv_compq *cq);
void tagrv_rx_set_cntr(struct tagrv_rx *rx, struct tagrv_counter *cntr);
void tagrv_rx_set_min_multi_recv(struct tagrv_rx *rx, size_t bytes);

/* -FI_EINVAL: the engines that use it have another address table. */
int tagrv_rx_join(struct tagrv_rx *rx, struct tagrv_engine *engine)
	TAGRV_WARN_UNUSED;
void tagrv_rx_leave(struct tagrv_engine *engine);
/* Sets *id to the peer's number in the matching engine of a shared context. 0 or
 * -FI_ENOMEM. */
int tagrv_rx_id(struct tagrv_rx *rx, const struct tagrv_addr *addr,
		uint32_t *id) TAGRV_WARN_UNUSED;

/* Where to report what concerns the context alone; NULL: nowhere. */
struct tagrv_compq *tagrv_rx_cq(const struct tagrv_rx *rx);
struct tagrv_counter *tagrv_rx_cntr(const struct tagrv_rx *rx);
/* Writes an entry to tagrv_rx_cq(); an error counts in tagrv_rx_cntr(), too. */
void tagrv_rx_report(struct tagrv_rx *rx, const struct tagrv_comp *comp);
void tagrv_rx_report_error(struct tagrv_rx *rx, const struct tagrv_comp *comp);

/* What the queues hold and what searches have cost: see match/match.h. */
void tagrv_rx_match_stats(const struct tagrv_rx *rx,
			  struct tagrv_match_stats *stats);

#endif
