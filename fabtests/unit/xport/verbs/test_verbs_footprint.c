/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of peers and endpoints, with the queues that the libraries of each vendor allocate
 * (common/fake_verbs_size.c) and the parameters' defaults. The table in
 * prov/tagrv/docs/verbs.md is compared with what is computed here.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/param.h"
#include "unit/xport/verbs/verbs_fixture.h"

/* What there may be for a peer that is connected and idle. */
#define PEER_MAX	(16u << 10)	/* with mlx5's queue pairs */
#define OURS_MAX	472u

/* In bytes. */
struct footprint {
	size_t	pinned, library;	/* a queue pair's */
	size_t	ours;			/* structs of its link */
	size_t	bufs;			/* receive buffers of its own */
	size_t	ep_queues, ep_bufs;	/* an endpoint's, without peers */
};

static size_t peer_bytes(const struct footprint *f)
{
	return f->pinned + f->library + f->ours + f->bufs;
}

static void start(const char *profile)
{
	unsetenv("FAKE_VERBS");
	config = fake_verbs_defaults();
	fake_verbs_be(&config, profile);
	tagrv_param_read(&params);
	verbs_open();
}

static size_t ours_of(const struct verbs_link *link)
{
	size_t bytes = sizeof(*link);
	const struct verbs_rxq *rxq = link->rxq;

	cr_assert_eq(link->ring, link->first);
	cr_assert_null(link->port);
	if (rxq)
		bytes += sizeof(*rxq) + (rxq->slot_mask + 1) * sizeof(*rxq->wr_ids) +
			 rxq->bufs.max * sizeof(*rxq->bufs.idle) + sizeof(struct verbs_mem);
	return bytes;
}

/* Entries of a completion or shared receive queue: a power of two, and one is never used. */
static size_t queue_bytes(size_t cnt, size_t bytes)
{
	size_t entries = 1;

	while (entries < cnt + 1)
		entries *= 2;
	return entries * bytes;
}

/* The two ends of the pair are alike. */
static void measure(const char *profile, struct footprint *f)
{
	struct fake_verbs_counts before, after;
	const struct verbs_xport *xp;

	start(profile);
	before = fake_verbs_count();
	pair_connect(&pair);
	after = fake_verbs_count();
	xp = verbs_xport_of(pair.a->xport);
	cr_assert_eq(before.qps.pinned, 0);
	*f = (struct footprint) {
		.pinned = after.qps.pinned / 2, .library = after.qps.library / 2,
		.ours = ours_of(verbs_link_of(pair.a->link)),
		.bufs = (after.registered - before.registered) / 2,
		.ep_queues = queue_bytes(xp->inbox.rx_cq_depth, config.cqe_bytes) +
			     queue_bytes(xp->tx_cap, config.cqe_bytes) +
			     (xp->use_srq ? queue_bytes(xp->pool.rxq.bufs.max, config.srqe_bytes) : 0),
		.ep_bufs = before.registered / 2,
	};
	pair_close(&pair);
}

TestSuite(verbs_footprint, .timeout = 60);

Test(verbs_footprint, an_idle_peer_takes_little)
{
	struct footprint f;

	measure("mlx5", &f);
	cr_assert_leq(f.ours, OURS_MAX, "%zu bytes of structs", f.ours);
	cr_assert_eq(f.bufs, 0);
	cr_assert_leq(peer_bytes(&f), PEER_MAX, "%zu of a queue pair, %zu of its library", f.pinned,
		      f.library);
}

/* Queue pairs for all operations would take this much. */
Test(verbs_footprint, operations_that_nobody_uses_would_take_more)
{
	struct footprint f;
	struct ibv_qp_cap cap = { .max_send_wr = 63, .max_send_sge = 5, .max_inline_data = 92 };

	measure("mlx5", &f);
	cr_assert_eq(config.qp_bytes(&cap, UINT64_MAX, true).pinned, (32 << 10) + 64);
	cr_assert_eq(f.pinned, (8 << 10) + 64);
}

/* ---- the table of the document ---- */

#define HEAD	"| adapters | queue pair | its library | link, bytes | receive buffers | sum | " \
		"endpoint: queues | packet buffers |\n|---|---|---|---|---|---|---|---|\n"

/* KiB, rounded up, which is what limits are compared with. */
static size_t kib(size_t bytes)
{
	return (bytes + 1023) / 1024;
}

static void print_table(char *text, size_t size)
{
	size_t len = (size_t) snprintf(text, size, HEAD);
	const char *name;

	for (unsigned i = 0; (name = fake_verbs_profile(i)); i++) {
		struct footprint f;

		measure(name, &f);
		len += (size_t) snprintf(text + len, size - len, "| %s | %zu | %zu | %zu | %zu | "
					 "%zu | %zu | %zu |\n", name, kib(f.pinned), kib(f.library),
					 f.ours, kib(f.bufs), kib(peer_bytes(&f)),
					 kib(f.ep_queues), kib(f.ep_bufs));
	}
	cr_assert_lt(len, size);
}

Test(verbs_footprint, the_document_has_this_table)
{
	static char wanted[4096], doc[65536];
	FILE *file = fopen(TOP_SRCDIR "/prov/tagrv/docs/verbs.md", "r");

	cr_assert_not_null(file);
	doc[fread(doc, 1, sizeof(doc) - 1, file)] = '\0';
	fclose(file);
	print_table(wanted, sizeof(wanted));
	cr_assert(strstr(doc, wanted), "prov/tagrv/docs/verbs.md should have this table:\n\n%s", wanted);
}
