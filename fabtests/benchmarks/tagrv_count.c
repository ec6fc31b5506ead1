/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of known kinds, for a tool that counts their instructions: benchmarks/instructions.
 *
 *   leader                                  follower
 *   reads an empty queue
 *   post_one()  x N      <-- N messages --  order: N messages
 *                        <--oob-- sent
 *   read_message() or read_burst(): they are all there
 *   send_one() and others  ---------------> receives
 *   read_completion() or read_completions(): they are all there
 *
 * Each kind of call is made by one function only, by whose name the tool finds it.
 * What a kind costs does not depend on when the processes run.
 */
#include "endpoint.h"
#include "oob.h"
#include "pair.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BURST = 16, ENTRIES = 20, ROUNDS = 500, IDLE_READS = 64 * 200 };

/* Orders: messages to send, and in the upper half messages to receive. */
#define WITH_DATA	(UINT64_C(1) << 31)	/* send one that has data */

struct count {
	struct endpoint e;
	size_t	size;
	int	oob;
	volatile ssize_t ret;	/* so that no call of a kind is a jump, */
	volatile int kind;	/* and no kind the same function as another */
	struct fi_context2 context[2 * BURST];
	struct fi_cq_tagged_entry entries[ENTRIES];	/* more than there can be */
	/* Messages so far, which are the tags, as those of endpoint.h. */
	uint64_t sent, received;
};

#define KIND	static __attribute__((noinline))

static void check(ssize_t ret, ssize_t wanted, const char *what)
{
	if (ret != wanted)
		bench_die("%s returns %zd, not %zd", what, ret, wanted);
}

/* --- kinds ---------------------------------------------------------------- */

KIND ssize_t read_nothing(struct count *c)
{
	c->kind = __LINE__;
	c->ret = fi_cq_read(c->e.cq, c->entries, ENTRIES);
	return c->ret;
}

KIND ssize_t read_message(struct count *c)
{
	c->kind = __LINE__;
	c->ret = fi_cq_read(c->e.cq, c->entries, ENTRIES);
	return c->ret;
}

KIND ssize_t read_burst(struct count *c)
{
	c->kind = __LINE__;
	c->ret = fi_cq_read(c->e.cq, c->entries, ENTRIES);
	return c->ret;
}

KIND ssize_t read_message_with_data(struct count *c)
{
	c->kind = __LINE__;
	c->ret = fi_cq_read(c->e.cq, c->entries, ENTRIES);
	return c->ret;
}

KIND ssize_t read_completion(struct count *c)
{
	c->kind = __LINE__;
	c->ret = fi_cq_read(c->e.cq, c->entries, ENTRIES);
	return c->ret;
}

KIND ssize_t read_completions(struct count *c)
{
	c->kind = __LINE__;
	c->ret = fi_cq_read(c->e.cq, c->entries, ENTRIES);
	return c->ret;
}

KIND ssize_t post_one(struct count *c, uint64_t tag, size_t at)
{
	c->ret = fi_trecv(c->e.ep, endpoint_recv_slot(&c->e, at), c->size, NULL,
			  FI_ADDR_UNSPEC, tag, 0, &c->context[at]);
	return c->ret;
}

/* at: which of the calls; so that all kinds of sends have the same arguments. */
KIND ssize_t send_one(struct count *c, uint64_t tag, size_t at)
{
	(void)at;
	c->ret = fi_tinject(c->e.ep, endpoint_send_slot(&c->e, 0), c->size,
			    c->e.peer, tag);
	return c->ret;
}

KIND ssize_t send_with_data(struct count *c, uint64_t tag, size_t at)
{
	(void)at;
	c->ret = fi_tinjectdata(c->e.ep, endpoint_send_slot(&c->e, 0), c->size,
				1, c->e.peer, tag);
	return c->ret;
}

KIND ssize_t send_with_completion(struct count *c, uint64_t tag, size_t at)
{
	c->ret = fi_tsend(c->e.ep, endpoint_send_slot(&c->e, 0), c->size, NULL,
			  c->e.peer, tag, &c->context[BURST + at]);
	return c->ret;
}

/* --- leader --------------------------------------------------------------- */

/* Receives n messages with one read; order: how they are to be sent. */
static void receive(struct count *c, uint64_t n, uint64_t order,
		    ssize_t (*read)(struct count *c))
{
	char sent;

	for (uint64_t i = 0; i < n; i++)
		check(post_one(c, c->received + i, i), 0, "fi_trecv");
	order |= n;
	oob_send(c->oob, &order, sizeof(order));
	oob_recv(c->oob, &sent, 1, NULL, NULL);
	check(read(c), (ssize_t)n, "fi_cq_read after messages");
	c->received += n;
}

/* Sends n messages by such calls, whose completions it reads with one read; NULL: none. */
static void send(struct count *c, uint64_t n,
		 ssize_t (*call)(struct count *c, uint64_t tag, size_t at),
		 ssize_t (*read)(struct count *c))
{
	uint64_t order = n << 32;
	char received;

	oob_send(c->oob, &order, sizeof(order));
	for (uint64_t i = 0; i < n; i++)
		check(call(c, c->sent + i, i), 0, "a send");
	if (read)
		check(read(c), (ssize_t)n, "fi_cq_read after sends");
	oob_recv(c->oob, &received, 1, NULL, NULL);
	c->sent += n;
}

static void lead(struct count *c)
{
	uint64_t end = 0;

	endpoint_post_send(&c->e, c->size);
	endpoint_post_recv(&c->e, c->size);
	endpoint_wait_recvs(&c->e, 1);
	endpoint_wait_sends(&c->e, 1);
	c->sent = c->received = 1;
	for (int i = 0; i < ROUNDS; i++) {
		receive(c, 1, 0, read_message);
		receive(c, BURST, 0, read_burst);
		receive(c, 1, WITH_DATA, read_message_with_data);
		send(c, 1, send_one, NULL);
		send(c, 1, send_with_data, NULL);
		send(c, 1, send_with_completion, read_completion);
		send(c, BURST, send_with_completion, read_completions);
	}
	for (int i = 0; i < IDLE_READS; i++)
		check(read_nothing(c), -FI_EAGAIN, "fi_cq_read");
	oob_send(c->oob, &end, sizeof(end));
}

/* --- follower ------------------------------------------------------------- */

static void follow(struct count *c)
{
	uint64_t order;

	endpoint_post_recv(&c->e, c->size);
	endpoint_wait_recvs(&c->e, 1);
	endpoint_post_send(&c->e, c->size);
	endpoint_wait_sends(&c->e, 1);
	for (;;) {
		oob_recv(c->oob, &order, sizeof(order), endpoint_progress, &c->e);
		if (!order)
			return;
		if (order & WITH_DATA) {
			endpoint_inject_data(&c->e, c->size, 1);
			order = 0;
		}
		for (uint64_t i = 0; i < (uint32_t)order; i++)
			endpoint_post_send(&c->e, c->size);
		for (uint64_t i = 0; i < order >> 32; i++)
			endpoint_post_recv(&c->e, c->size);
		endpoint_wait_recvs(&c->e, c->e.received);
		endpoint_wait_sends(&c->e, c->e.sent);
		oob_send(c->oob, "", 1);
	}
}

static void be(const void *arg, int who, int oob)
{
	struct endpoint_conf conf = {
		.provider = getenv("FI_PROVIDER"), .slots = BURST, .timeout = 300,
		.use_inject = true, .yield = true,
	};
	struct count c = { .oob = oob };

	c.size = conf.slot_size = *(const size_t *)arg;
	if (!conf.provider)
		conf.provider = "tagrv";
	endpoint_open(&c.e, &conf, oob);
	if (who == 0)
		lead(&c);
	else
		follow(&c);
	endpoint_close(&c.e);
}

int main(int argc, char **argv)
{
	size_t size;

	if (argc != 2) {
		fputs("usage: tagrv_count SIZE\n\n"
		      "Make calls that send and receive messages of SIZE bytes, for a tool that counts\n"
		      "instructions: see fabtests/benchmarks/instructions.\n", stderr);
		return 2;
	}
	size = (size_t)bench_number(argv[1], "SIZE", 1, 4096);
	return pair_run(be, &size);
}
