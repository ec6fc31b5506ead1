/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whole endpoints over a (fake) RDMA device and shared memory, and what tests do with
 * them.
 */
#ifndef TAGRV_ENDS_CALLS_H
#define TAGRV_ENDS_CALLS_H

#include <arpa/inet.h>
#include <stdlib.h>
#include <time.h>

#include "common/slowness.h"
#include "common/fake_verbs.h"
#include "common/engine_fixture.h"

#define PATIENCE_S	(slow_ms(20000) / 1000)

struct end {
	struct tagrv_dom *dom;
	struct tagrv_engine *engine;
	struct tagrv_avtab av;
	struct tagrv_compq cq;
};

static inline struct tagrv_addr any_port(void)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct tagrv_addr addr;

	cr_assert_eq(tagrv_addr_from(&addr, &in, sizeof(in)), 0);
	return addr;
}

static inline void open_end_on(struct end *end, const char *transports,
			       const char *device)
{
	const struct tagrv_dom_attr attr = { .name = device };
	const struct tagrv_engine_attr engine_attr = {
		.src = any_port(), .source = true,
	};
	const struct tagrv_engine_sinks sinks = {
		.tx_cq = &end->cq, .rx_cq = &end->cq,
	};

	setenv("FI_TAGRV_TRANSPORTS", transports, 1);
	cr_assert_eq(tagrv_dom_open(&attr, &end->dom), 0);
	cr_assert_eq(tagrv_engine_open(end->dom, &engine_attr, &end->engine),
		     0);
	cr_assert_eq(tagrv_avtab_init(&end->av, 1), 0);
	cr_assert_eq(tagrv_compq_init(&end->cq, 16, false), 0);
	tagrv_lock_acquire(&end->dom->lock);
	cr_assert_eq(tagrv_engine_set_av(end->engine, &end->av), 0);
	tagrv_engine_set_sinks(end->engine, &sinks);
	tagrv_lock_release(&end->dom->lock);
	cr_assert_eq(tagrv_engine_enable(end->engine), 0);
}

static inline void open_end(struct end *end, const char *transports)
{
	open_end_on(end, transports, "fake0");
}

static inline void close_end(struct end *end)
{
	tagrv_engine_close(end->engine);
	tagrv_avtab_fini(&end->av);
	tagrv_compq_fini(&end->cq);
	tagrv_dom_close(end->dom);
}

static inline fi_addr_t know(struct end *end, const struct end *other)
{
	struct tagrv_addr name;
	fi_addr_t addr;

	tagrv_lock_acquire(&other->dom->lock);
	tagrv_engine_name(other->engine, &name);
	tagrv_lock_release(&other->dom->lock);
	tagrv_lock_acquire(&end->dom->lock);
	cr_assert_eq(tagrv_avtab_insert(&end->av, &name, &addr), 0);
	tagrv_lock_release(&end->dom->lock);
	return addr;
}

static inline void progress(struct end *end)
{
	tagrv_lock_acquire(&end->dom->lock);
	tagrv_dom_progress(end->dom);
	tagrv_lock_release(&end->dom->lock);
}

/* The next completion of 'end', while the others go on, too. */
static inline struct tagrv_comp await(struct end *end, struct end *others, int cnt)
{
	time_t limit = time(NULL) + PATIENCE_S;
	struct tagrv_comp comp;

	while (tagrv_compq_empty(&end->cq)) {
		cr_assert_lt(time(NULL), limit, "no completion comes");
		for (int i = 0; i < cnt; i++)
			progress(&others[i]);
	}
	comp = *tagrv_compq_peek(&end->cq);
	tagrv_compq_pop(&end->cq, 1);
	cr_assert_eq(comp.err, 0, "%s", fi_strerror(comp.err));
	return comp;
}

static inline void post(struct end *end, void *buf, size_t len, uint64_t tag)
{
	struct tagrv_recv_req req = recv_req(buf, len, tag, buf);

	tagrv_lock_acquire(&end->dom->lock);
	cr_assert_eq(tagrv_rx_recv(end->engine->rx, &req), 0);
	tagrv_lock_release(&end->dom->lock);
}

static inline void submit(struct end *end, fi_addr_t dest, void *buf, size_t len,
		   uint64_t tag)
{
	struct tagrv_send_req req = send_req(buf, len, tag, buf);

	req.dest = dest;
	tagrv_lock_acquire(&end->dom->lock);
	cr_assert_eq(tagrv_engine_send(end->engine, &req), 0);
	tagrv_lock_release(&end->dom->lock);
}

/* By what the connection to the first peer goes. */
static inline const char *way(const struct end *end)
{
	const struct tagrv_peer *peer = end->engine->table.peers[0];

	return peer->lane ? peer->lane->link->xport->ops->name : "nothing";
}

#endif
