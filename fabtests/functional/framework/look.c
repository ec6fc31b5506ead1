/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Publishes an endpoint's statistics while a case waits: messages by protocol, if
 * the provider counts them. A change of any counter is a move.
 */
#include "fixture.h"

#include <inttypes.h>
#include <rdma/fi_ext_tagrv.h>
#include <stdio.h>
#include <string.h>

static bool read_stats(struct fx *fx, struct fi_tagrv_proto_stats *now)
{
	struct fi_tagrv_ops_proto *ops = NULL;
	size_t len = sizeof(*now);

	memset(now, 0, sizeof(*now));
	return fx->ep && !fi_open_ops(&fx->ep->fid, TAGRV_EP_PROTO_OPS, 0, (void **)&ops, NULL) &&
	       ops && !ops->get_stats(fx->ep, now, &len);
}

/* No counter ever shrinks, so the sum changes with each of them. */
static uint64_t sum(const struct fi_tagrv_proto_stats *now)
{
	uint64_t words[sizeof(*now) / sizeof(uint64_t)], all = 0;

	memcpy(words, now, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		all += words[i];
	return all;
}

static void tell(const struct fi_tagrv_proto_stats *now, bool moved)
{
	char text[RUN_TEXT_MAX];

	snprintf(text, sizeof(text),
		 "sent %" PRIu64 " eager, %" PRIu64 " announced (%" PRIu64 " read, %" PRIu64
		 " written, %" PRIu64 " copied, %" PRIu64 " in pieces), %" PRIu64
		 " acknowledgements; got %" PRIu64 " eager, %" PRIu64 " announced (%" PRIu64
		 " read, %" PRIu64 " written, %" PRIu64 " copied, %" PRIu64 " in pieces)",
		 now->eager_tx, now->announced_tx, now->get_tx, now->put_tx, now->copy_tx,
		 now->pipeline_tx, now->acks_tx, now->eager_rx, now->announced_rx, now->get_rx,
		 now->put_rx, now->copy_rx, now->pipeline_rx);
	run_tell(text, moved);
}

void fx_look(struct fx *fx)
{
	unsigned looks = atomic_load_explicit(&fx->t->shared->looks, memory_order_relaxed);
	struct fi_tagrv_proto_stats now;
	uint64_t all;

	if (atomic_load_explicit(&fx->looked, memory_order_relaxed) == looks)
		return;
	atomic_store_explicit(&fx->looked, looks, memory_order_relaxed);
	if (!read_stats(fx, &now))
		return;
	all = sum(&now);
	tell(&now, atomic_exchange(&fx->seen, all) != all);
}
