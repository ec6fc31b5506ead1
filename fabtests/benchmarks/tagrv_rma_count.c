/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided calls of known kinds, for a tool that counts their instructions:
 * benchmarks/instructions --rma.
 *
 *   leader                                   follower
 *   read_nothing()
 *   put_one() x N, get_one(), add_one()
 *                          --- order --->    serves them
 *                          <--oob-- done
 *   read_done() or read_dones(): the answers are all there
 *                          --- order --->    puts, gets or adds, N times
 *                          <--oob-- sent
 *   serve_put() and others: they are all there
 *                          --- order --->    waits for the answers
 *
 * Each kind of call is made by one function only, by whose name the tool finds it.
 */
#include "endpoint.h"
#include "oob.h"
#include "pair.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BURST = 16, ENTRIES = 20, ROUNDS = 500, PASSES = 4, BYTES = 8192 };

enum what { END, SERVE, PUT, GET, ADD, AWAIT };

struct order {
	uint64_t what, count;
};

struct remote {
	uint64_t addr, key;
};

struct count {
	struct endpoint e;
	size_t	size;
	int	oob;
	volatile ssize_t ret;	/* so that no call of a kind is a jump, */
	volatile int kind;	/* and no kind the same function as another */
	struct fid_mr *mr;
	char	*memory;	/* what the peer accesses, and our side of it */
	void	*desc;
	struct remote peer;
	struct endpoint_op ops[BURST];
	struct fi_cq_tagged_entry entries[ENTRIES];	/* more than there can be */
};

#define KIND	static __attribute__((noinline))

static void check(ssize_t ret, ssize_t wanted, const char *what)
{
	if (ret != wanted)
		bench_die("%s returns %zd, not %zd", what, ret, wanted);
}

/* --- kinds ---------------------------------------------------------------- */

KIND ssize_t inject_one(struct count *c, size_t at)
{
	(void)at;
	c->ret = fi_inject_write(c->e.ep, c->memory + BYTES, c->size, c->e.peer, c->peer.addr,
				 c->peer.key);
	return c->ret;
}

KIND ssize_t put_one(struct count *c, size_t at)
{
	c->ret = fi_write(c->e.ep, c->memory + BYTES, c->size, c->desc, c->e.peer, c->peer.addr,
			  c->peer.key, &c->ops[at].context);
	return c->ret;
}

KIND ssize_t get_one(struct count *c, size_t at)
{
	c->ret = fi_read(c->e.ep, c->memory + BYTES, c->size, c->desc, c->e.peer, c->peer.addr,
			 c->peer.key, &c->ops[at].context);
	return c->ret;
}

KIND ssize_t add_one(struct count *c, size_t at)
{
	c->ret = fi_fetch_atomic(c->e.ep, c->memory + BYTES, 1, c->desc, c->memory + BYTES + 64,
				 c->desc, c->e.peer, c->peer.addr, c->peer.key, FI_UINT64, FI_SUM,
				 &c->ops[at].context);
	return c->ret;
}

#define READS(name)						\
KIND ssize_t name(struct count *c)				\
{								\
	c->kind = __LINE__ + __COUNTER__;					\
	c->ret = fi_cq_read(c->e.cq, c->entries, ENTRIES);	\
	return c->ret;						\
}

READS(read_nothing)
READS(read_injected)
READS(read_put)
READS(read_puts)
READS(read_got)
READS(read_gots)
READS(read_added)
READS(read_addeds)
READS(serve_put)
READS(serve_puts)
READS(serve_get)
READS(serve_gets)
READS(serve_add)
READS(serve_adds)

/* --- leader --------------------------------------------------------------- */

/* Orders, and waits until that is done. */
static void order(struct count *c, enum what what, uint64_t count)
{
	const struct order order = { what, count };
	char done;

	oob_send(c->oob, &order, sizeof(order));
	oob_recv(c->oob, &done, 1, NULL, NULL);
}

/* As initiator: n calls, served by the other, whose ends are read with one read. */
static void ask(struct count *c, size_t n, ssize_t (*call)(struct count *c, size_t at),
		ssize_t (*read)(struct count *c), ssize_t ends)
{
	for (size_t i = 0; i < n; i++)
		check(call(c, i), 0, "a one-sided call");
	order(c, SERVE, 0);
	check(read(c), ends, "fi_cq_read of answers");
}

/* As target: n operations of the other, which arrive with one read. */
static void serve(struct count *c, enum what what, uint64_t n, ssize_t (*read)(struct count *c))
{
	order(c, what, n);
	check(read(c), -FI_EAGAIN, "fi_cq_read of a target");
	order(c, AWAIT, 0);
}

static void lead(struct count *c)
{
	const struct order end = { END, 0 };

	for (int i = 0; i < ROUNDS; i++) {
		check(read_nothing(c), -FI_EAGAIN, "fi_cq_read");
		ask(c, 1, inject_one, read_injected, -FI_EAGAIN);
		ask(c, 1, put_one, read_put, 1);
		ask(c, BURST, put_one, read_puts, BURST);
		ask(c, 1, get_one, read_got, 1);
		ask(c, BURST, get_one, read_gots, BURST);
		ask(c, 1, add_one, read_added, 1);
		ask(c, BURST, add_one, read_addeds, BURST);
		serve(c, PUT, 1, serve_put);
		serve(c, PUT, BURST, serve_puts);
		serve(c, GET, 1, serve_get);
		serve(c, GET, BURST, serve_gets);
		serve(c, ADD, 1, serve_add);
		serve(c, ADD, BURST, serve_adds);
	}
	oob_send(c->oob, &end, sizeof(end));
}

/* --- follower ------------------------------------------------------------- */

static void begin(struct count *c, const struct order *order)
{
	for (uint64_t i = 0; i < order->count; i++) {
		if (order->what == PUT) {
			/* Nothing is awaited, as most programs that put few bytes do it. */
			check(inject_one(c, i), 0, "fi_inject_write");
			continue;
		}
		check(order->what == GET ? get_one(c, i) : add_one(c, i), 0, "a one-sided call");
		c->ops[i].busy = true;
		c->e.sent++;
	}
}

static void follow(struct count *c)
{
	struct order order;

	for (;;) {
		oob_recv(c->oob, &order, sizeof(order), endpoint_progress, &c->e);
		if (order.what == END)
			return;
		if (order.what != SERVE && order.what != AWAIT)
			begin(c, &order);
		else
			for (int i = 0; i < PASSES; i++)
				endpoint_progress(&c->e);
		if (order.what == AWAIT)
			endpoint_wait_sends(&c->e, c->e.sent);
		oob_send(c->oob, "", 1);
	}
}

/* --- both ----------------------------------------------------------------- */

static void share_memory(struct count *c)
{
	const uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	struct remote mine;

	c->memory = aligned_alloc(4096, 2 * (size_t)BYTES);
	if (!c->memory)
		bench_die("out of memory");
	memset(c->memory, 0, 2 * (size_t)BYTES);
	check(fi_mr_reg(c->e.domain, c->memory, 2 * (size_t)BYTES, access, 0, 7, 0, &c->mr, NULL), 0,
	      "fi_mr_reg");
	c->desc = fi_mr_desc(c->mr);
	mine = (struct remote){
		.addr = c->e.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)c->memory : 0,
		.key = fi_mr_key(c->mr),
	};
	oob_send(c->oob, &mine, sizeof(mine));
	oob_recv(c->oob, &c->peer, sizeof(c->peer), NULL, NULL);
}

/* The connection is made before anything is counted. */
static void connect_first(struct count *c)
{
	endpoint_post_recv(&c->e, 8);
	endpoint_post_send(&c->e, 8);
	endpoint_wait_recvs(&c->e, 1);
	endpoint_wait_sends(&c->e, 1);
}

static void be(const void *arg, int who, int oob)
{
	const struct endpoint_conf conf = {
		.provider = getenv("FI_PROVIDER") ? getenv("FI_PROVIDER") : "tagrv",
		.slots = 2, .slot_size = 64, .caps = FI_RMA | FI_ATOMIC, .timeout = 300,
		.use_inject = true, .yield = true,
	};
	struct count *c = calloc(1, sizeof(*c));

	if (!c)
		bench_die("out of memory");
	c->oob = oob;
	c->size = *(const size_t *)arg;
	endpoint_open(&c->e, &conf, oob);
	share_memory(c);
	connect_first(c);
	if (who == 0)
		lead(c);
	else
		follow(c);
	check(fi_close(&c->mr->fid), 0, "fi_close of the memory region");
	endpoint_close(&c->e);
	free(c->memory);
	free(c);
}

int main(int argc, char **argv)
{
	size_t size;

	if (argc != 2) {
		fputs("usage: tagrv_rma_count SIZE\n\n"
		      "Make one-sided calls that move SIZE bytes, for a tool that counts instructions: see\n"
		      "fabtests/benchmarks/instructions.\n", stderr);
		return 2;
	}
	size = (size_t)bench_number(argv[1], "SIZE", 1, 4096);
	return pair_run(be, &size);
}
