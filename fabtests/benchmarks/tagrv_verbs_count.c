/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of known kinds over RDMA devices in memory (common/fake_verbs.h), for a tool that
 * counts their instructions: benchmarks/verbs-instructions.
 *
 *   a                                  b
 *   send_one()              -->        post_one(), read_message(), read_again()
 *   send_one() x BURST      -->        post_one() x BURST, read_burst(), read_again()
 *   send_with_completion()  -->        the same as one
 *   read_sent(): the device has sent them
 *   and the same with a and b exchanged, so that permits travel with messages
 *   read_remote() and others, of b's memory, each with read_moved()
 *
 * Both endpoints are in one process and one thread. Each kind of call is made by one
 * function only, by whose name the tool finds it.
 */
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/fake_verbs.h"

#define KEY UINT64_C(7)

enum { BURST = 16, WARM = 200, ENTRIES = 20, ROUNDS = 500, LARGEST = 1024, PATIENCE_S = 60,
       IDLE_MAX = 256 };

/* The provider's own, in this program. */
struct fi_provider *fi_prov_ini(void);

struct end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;		/* memory: 'from' and 'to' */
	fi_addr_t peer;
	uint64_t sent, received;	/* messages so far, which are the tags */
	volatile ssize_t ret;		/* so that no call of a kind is a jump, */
	volatile int kind;		/* and no kind the same function as another */
	struct fi_context2 context[2 * BURST];
	struct fi_cq_tagged_entry entries[ENTRIES];	/* more than there can be */
	_Alignas(8) char from[LARGEST], to[LARGEST];
};

#define KIND	static __attribute__((noinline))

static void check(ssize_t ret, ssize_t wanted, const char *what)
{
	if (ret == wanted)
		return;
	fprintf(stderr, "tagrv_verbs_count: %s returns %zd, not %zd\n", what, ret, wanted);
	exit(1);
}

/* --- kinds ---------------------------------------------------------------- */

KIND ssize_t read_message(struct end *e)
{
	e->kind = __LINE__;
	e->ret = fi_cq_read(e->cq, e->entries, ENTRIES);
	return e->ret;
}

KIND ssize_t read_burst(struct end *e)
{
	e->kind = __LINE__;
	e->ret = fi_cq_read(e->cq, e->entries, ENTRIES);
	return e->ret;
}

KIND ssize_t read_again(struct end *e)
{
	e->kind = __LINE__;
	e->ret = fi_cq_read(e->cq, e->entries, ENTRIES);
	return e->ret;
}

KIND ssize_t read_nothing(struct end *e)
{
	e->kind = __LINE__;
	e->ret = fi_cq_read(e->cq, e->entries, ENTRIES);
	return e->ret;
}

KIND ssize_t read_sent(struct end *e)
{
	e->kind = __LINE__;
	e->ret = fi_cq_read(e->cq, e->entries, ENTRIES);
	return e->ret;
}

KIND ssize_t post_one(struct end *e, size_t size, size_t at)
{
	e->ret = fi_trecv(e->ep, e->to, size, NULL, FI_ADDR_UNSPEC,
			  e->received + at, 0, &e->context[at]);
	return e->ret;
}

KIND ssize_t send_one(struct end *e, size_t size)
{
	e->ret = fi_tinject(e->ep, e->from, size, e->peer, e->sent);
	return e->ret;
}

KIND ssize_t send_with_completion(struct end *e, size_t size)
{
	e->ret = fi_tsend(e->ep, e->from, size, NULL, e->peer, e->sent,
			  &e->context[BURST]);
	return e->ret;
}

KIND ssize_t read_remote(struct end *e)
{
	e->ret = fi_read(e->ep, e->to, 8, fi_mr_desc(e->mr), e->peer, 0, KEY, &e->context[0]);
	return e->ret;
}

KIND ssize_t write_remote(struct end *e)
{
	e->ret = fi_write(e->ep, e->from, 8, fi_mr_desc(e->mr), e->peer, 0, KEY,
			  &e->context[1]);
	return e->ret;
}

KIND ssize_t inject_remote(struct end *e)
{
	e->ret = fi_inject_write(e->ep, e->from, 8, e->peer, 0, KEY);
	return e->ret;
}

KIND ssize_t add_remote(struct end *e)
{
	e->ret = fi_fetch_atomic(e->ep, e->from, 1, NULL, e->to, NULL, e->peer, 8, KEY,
				 FI_UINT64, FI_SUM, &e->context[2]);
	return e->ret;
}

KIND ssize_t read_moved(struct end *e)
{
	e->kind = 6;
	e->ret = fi_cq_read(e->cq, e->entries, ENTRIES);
	return e->ret;
}

/* --- messages ------------------------------------------------------------- */

static void send_next(struct end *e, size_t size, ssize_t (*kind)(struct end *, size_t))
{
	check(kind(e, size), 0, "a send");
	e->sent++;
}

/* The peer receives n messages, which have arrived, by one read. */
static void receive(struct end *e, ssize_t n, ssize_t (*read)(struct end *))
{
	check(read(e), n, "fi_cq_read after messages");
	e->received += (uint64_t) n;
	check(read_again(e), -FI_EAGAIN, "fi_cq_read");
	check(read_nothing(e), -FI_EAGAIN, "fi_cq_read");
}

static void post(struct end *e, size_t size, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check(post_one(e, size, i), 0, "fi_trecv");
}

static void round_of(struct end *a, struct end *b, size_t size)
{
	post(b, size, 1);
	send_next(a, size, send_one);
	receive(b, 1, read_message);
	post(b, size, 1);
	send_next(a, size, send_with_completion);
	receive(b, 1, read_message);
	check(fi_cq_read(a->cq, a->entries, ENTRIES), 1, "fi_cq_read after a send");
	post(b, size, BURST);
	for (int i = 0; i < BURST; i++)
		send_next(a, size, send_one);
	receive(b, BURST, read_burst);
	check(read_sent(a), -FI_EAGAIN, "fi_cq_read");
}

/* Bursts until the receiver permits a whole one at a time. */
static void widen(struct end *a, struct end *b, size_t size)
{
	for (int i = 0; i < WARM; i++) {
		ssize_t got = 0;

		post(b, size, BURST);
		for (int k = 0; k < BURST; k++)
			send_next(a, size, send_one);
		while (got < BURST) {
			ssize_t ret = read_burst(b);

			(void) read_again(a);
			got += ret > 0 ? ret : 0;
		}
		b->received += BURST;
	}
}

/* --- one-sided operations ------------------------------------------------- */

/* One alone. Its target is read until it has ended, as long as it needs the target. */
static void move(struct end *a, struct end *b, ssize_t (*kind)(struct end *))
{
	ssize_t ret = kind(a);

	while (ret == -FI_EAGAIN || ret == 0) {
		ret = ret ? kind(a) : read_moved(a);
		if (ret == 1)
			break;
		(void) fi_cq_read(b->cq, b->entries, ENTRIES);
		ret = ret == -FI_EAGAIN ? 0 : ret;
	}
	check(ret, 1, "fi_cq_read after a one-sided operation");
}

static void inject(struct end *a, struct end *b)
{
	ssize_t ret = inject_remote(a);

	check(ret, 0, "fi_inject_write");
	(void) read_moved(a);
	(void) fi_cq_read(b->cq, b->entries, ENTRIES);
}

static void onesided(struct end *a, struct end *b)
{
	move(a, b, read_remote);
	move(a, b, write_remote);
	move(a, b, add_remote);
	inject(a, b);
}

/* Until the peer's memory is accessed without the peer. */
static void warm_up(struct end *a, struct end *b)
{
	for (int i = 0; i < WARM; i++)
		onesided(a, b);
}

/* --- open and close ------------------------------------------------------- */

static void open_end(struct end *e, const struct fi_provider *provider, const char *device)
{
	struct fi_cq_attr cq_attr = { .size = 64, .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = 2 };
	struct fi_info *hints = fi_allocinfo();

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_RMA | FI_ATOMIC;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	/* Devices access no other regions, and atomics by the device need that. */
	hints->domain_attr->mr_mode = FI_MR_ALLOCATED;
	hints->domain_attr->name = strdup(device);
	check(provider->getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &e->info),
	      0, "fi_getinfo");
	fi_freeinfo(hints);
	check(provider->fabric(e->info->fabric_attr, &e->fabric, NULL), 0, "fi_fabric");
	check(fi_domain(e->fabric, e->info, &e->domain, NULL), 0, "fi_domain");
	check(fi_av_open(e->domain, &av_attr, &e->av, NULL), 0, "fi_av_open");
	check(fi_cq_open(e->domain, &cq_attr, &e->cq, NULL), 0, "fi_cq_open");
	check(fi_endpoint(e->domain, e->info, &e->ep, NULL), 0, "fi_endpoint");
	check(fi_ep_bind(e->ep, &e->av->fid, 0), 0, "fi_ep_bind");
	check(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV), 0, "fi_ep_bind");
	check(fi_enable(e->ep), 0, "fi_enable");
	check(fi_mr_reg(e->domain, e->from, sizeof(e->from) + sizeof(e->to),
			FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0,
			&e->mr, NULL), 0, "fi_mr_reg");
}

static void meet(struct end *e, const struct end *other)
{
	char name[256];
	size_t len = sizeof(name);

	check(fi_getname(&other->ep->fid, name, &len), 0, "fi_getname");
	check(fi_av_insert(e->av, name, 1, &e->peer, 0, NULL), 1, "fi_av_insert");
}

/* The first message of each direction, which makes the connection. */
static void send_first(struct end *a, struct end *b)
{
	time_t limit = time(NULL) + PATIENCE_S;
	ssize_t ret;

	post(b, 1, 1);
	send_next(a, 1, send_one);
	do {
		(void) fi_cq_read(a->cq, a->entries, ENTRIES);
		ret = fi_cq_read(b->cq, b->entries, ENTRIES);
		check(time(NULL) > limit, 0, "the clock at the first message");
	} while (ret == -FI_EAGAIN);
	check(ret, 1, "fi_cq_read of the first message");
	b->received++;
}

/* An endpoint that is connected to e in both directions, and sends nothing from then on. */
static void open_idle(struct end *idle, const struct fi_provider *provider, struct end *e)
{
	open_end(idle, provider, "fake1");
	meet(idle, e);
	meet(e, idle);
	idle->sent = e->received;
	idle->received = e->sent;
	send_first(idle, e);
	send_first(e, idle);
}

static void close_end(struct end *e)
{
	check(fi_close(&e->mr->fid), 0, "fi_close of the region");
	check(fi_close(&e->ep->fid), 0, "fi_close of the endpoint");
	check(fi_close(&e->cq->fid), 0, "fi_close of the completion queue");
	check(fi_close(&e->av->fid), 0, "fi_close of the address vector");
	check(fi_close(&e->domain->fid), 0, "fi_close of the domain");
	check(fi_close(&e->fabric->fid), 0, "fi_close of the fabric");
	fi_freeinfo(e->info);
}

static void run(size_t size, size_t idle)
{
	struct fake_verbs_config config = fake_verbs_defaults();
	struct fi_provider *provider = fi_prov_ini();
	static struct end a, b, others[IDLE_MAX];

	fake_verbs_start(&config);
	open_end(&a, provider, "fake0");
	open_end(&b, provider, "fake1");
	for (size_t i = 0; i < idle; i++)
		open_idle(&others[i], provider, &a);
	b.received = a.sent;
	b.sent = a.received;
	meet(&a, &b);
	meet(&b, &a);
	send_first(&a, &b);
	send_first(&b, &a);
	widen(&a, &b, size);
	widen(&b, &a, size);
	for (int i = 0; i < ROUNDS; i++) {
		round_of(&a, &b, size);
		round_of(&b, &a, size);
	}
	warm_up(&a, &b);
	for (int i = 0; i < ROUNDS; i++)
		onesided(&a, &b);
	close_end(&a);
	close_end(&b);
	for (size_t i = 0; i < idle; i++)
		close_end(&others[i]);
	provider->cleanup();
	fake_verbs_stop();
}

int main(int argc, char **argv)
{
	size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	size_t idle = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

	if (!size || size > LARGEST || idle > IDLE_MAX || argc > 3) {
		fprintf(stderr, "usage: tagrv_verbs_count SIZE [IDLE]\n\n"
			"Make calls that send and receive messages of SIZE (1 to %d) bytes over RDMA devices in\n"
			"memory, while IDLE (0 to %d) more endpoints are connected, for a tool that counts\n"
			"instructions: see fabtests/benchmarks/verbs-instructions.\n", LARGEST, IDLE_MAX);
		return 2;
	}
	/* As over hardware: no bound on a burst, by which fewer requests would be unsignaled. */
	setenv("FI_TAGRV_BURST", "8192", 1);
	setenv("FI_TAGRV_TRANSPORTS", "verbs", 1);
	setenv("FI_TAGRV_PROFILE", "none", 1);
	setenv("FI_TAGRV_ATOMICS", "device", 1);
	run(size, idle);
	return 0;
}
