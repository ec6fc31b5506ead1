/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The cost of the shared-memory transport beside the machine's own limit.
 *
 *   cache line   two processes take turns writing to one line of a shared page
 *   two lines    the same with one line per direction, as queues have: writing
 *                to a line that the other process polls costs one more transfer
 *   packet       40-byte packets through send and progress
 *   rate         packets of 40 bytes one way, as fast as they go
 *   get          remote reads of 1 MiB, through rings and with one copy
 *
 * Times are half round trips: the median over many short blocks, because other
 * programs may use the processors, and the best block. The program calls functions
 * of the provider's xport/, not libfabric's; util/check_layers allows this program
 * to do so.
 */
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "benchmarks/clock.h"
#include "benchmarks/measure.h"
#include "xport/backends.h"

enum { BLOCKS = 1001, ITERS = 200, GET_LEN = 1 << 20, GETS = 20 };

struct side {
	struct tagrv_sink sink;
	struct tagrv_device *dev;
	struct tagrv_xport *xport;
	struct tagrv_link *link;
	int	sock;		/* to the other process */
	bool	leader;
	uint64_t got;		/* packets */
	unsigned done;
	int	status;
};

struct page {
	struct measure_line one, two[2];
};

static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;

static void require(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "tagrv_shm_ring: %s failed\n", what);
	exit(1);
}

/* ---- sink ---- */

static void on_packet(struct tagrv_sink *sink, void *ctx, const void *data,
		      size_t len)
{
	(void) ctx;
	(void) data;
	(void) len;
	tagrv_container_of(sink, struct side, sink)->got++;
}

static void on_tagged(void *ctx, uint64_t meta, uint64_t tag, uint64_t data,
		      const void *payload)
{
	(void) ctx;
	(void) meta;
	(void) tag;
	(void) data;
	(void) payload;
}

static void on_room(struct tagrv_sink *sink)
{
	(void) sink;
}

static void on_error(struct tagrv_sink *sink, void *ctx, int status)
{
	(void) ctx;
	tagrv_container_of(sink, struct side, sink)->status = status;
}

static void on_closed(struct tagrv_sink *sink, void *ctx)
{
	(void) ctx;
	tagrv_container_of(sink, struct side, sink)->link = NULL;
}

static void on_fatal(struct tagrv_sink *sink, int status)
{
	(void) sink;
	require(!status, "device");
}

/* ---- both sides ---- */

static void swap(struct side *s, const void *out, void *in, size_t len)
{
	require(write(s->sock, out, len) == (ssize_t) len &&
		read(s->sock, in, len) == (ssize_t) len, "exchange");
}

static void open_side(struct side *s, const char *cma)
{
	struct tagrv_params params = {
		.eager_max = 8192, .read_depth = 4, .shm_ring = 32768,
	};
	char own[TAGRV_BLOB_MAX], peer[TAGRV_BLOB_MAX];
	size_t len;

	snprintf(params.shm_cma, sizeof(params.shm_cma), "%s", cma);
	s->sink = (struct tagrv_sink) {
		.packet = on_packet, .tagged = on_tagged, .room = on_room, .link_error = on_error,
		.link_closed = on_closed, .fatal = on_fatal,
	};
	require(!ops->dev_open("shm", &params, &s->dev), "dev_open");
	require(!ops->xport_open(s->dev, &params, &s->sink, &s->xport),
		"xport_open");
	require(!ops->link_create(s->xport, own, &len, &s->link),
		"link_create");
	swap(s, own, peer, len);
	require(!ops->link_bind(s->link, peer, len), "link_bind");
	require(!ops->link_attach(s->link, s), "link_attach");
	swap(s, own, peer, 1);
	s->got = 0;
}

static void close_side(struct side *s)
{
	char c = 0, d;

	swap(s, &c, &d, 1);
	ops->link_close(s->link);
	while (s->link)
		ops->progress(s->xport);
	ops->xport_close(s->xport);
	ops->dev_close(s->dev);
}

struct result {
	double	median, least;
};

static struct result result_of(double *values, size_t cnt)
{
	double median = measure_median(values, cnt);

	return (struct result) { median, values[0] };
}

/* ---- measurements: ns ---- */

static struct result take_turns(struct measure_line *in,
				struct measure_line *out, bool leader,
				double tick)
{
	uint64_t turn = leader ? 0 : 1;
	double ns[BLOCKS];

	for (int b = 0; b < BLOCKS; b++, turn += 2 * ITERS) {
		uint64_t start = clock_ticks();

		measure_take_turns(in, out, turn, ITERS);
		ns[b] = (double) (clock_ticks() - start) * tick * 1e9 /
			(2.0 * ITERS);
	}
	return result_of(ns, BLOCKS);
}

static void send_one(struct side *s)
{
	static char header[32], payload[8];
	struct iovec iov[] = {
		{ header, sizeof(header) }, { payload, sizeof(payload) },
	};
	int ret;

	while ((ret = ops->send(s->link, iov, 2, 0, NULL)) == -FI_EAGAIN)
		ops->progress(s->xport);
	require(!ret, "send");
}

static struct result packet(struct side *s, double tick)
{
	double ns[BLOCKS];

	for (int b = 0; b < BLOCKS; b++) {
		uint64_t start = clock_ticks();

		for (int i = 0; i < ITERS; i++) {
			uint64_t want = s->got + 1;

			if (s->leader)
				send_one(s);
			while (s->got < want)
				ops->progress(s->xport);
			if (!s->leader)
				send_one(s);
		}
		ns[b] = (double) (clock_ticks() - start) * tick * 1e9 /
			(2.0 * ITERS);
	}
	return result_of(ns, BLOCKS);
}

/* Time per packet; the receiver answers once per block. */
static struct result rate(struct side *s, double tick)
{
	double ns[BLOCKS];

	for (int b = 0; b < BLOCKS; b++) {
		uint64_t start = clock_ticks();
		uint64_t want = s->got + (s->leader ? 1 : ITERS);

		for (int i = 0; s->leader && i < ITERS; i++)
			send_one(s);
		while (s->got < want)
			ops->progress(s->xport);
		if (!s->leader)
			send_one(s);
		ns[b] = (double) (clock_ticks() - start) * tick * 1e9 / ITERS;
	}
	return result_of(ns, BLOCKS);
}

struct get {
	struct tagrv_done done;
	struct side *side;
};

static void on_got(struct tagrv_done *done, int status)
{
	struct get *get = tagrv_container_of(done, struct get, done);

	require(!status, "get");
	get->side->done++;
}

struct offer {
	uint64_t addr;
	char	key[TAGRV_KEY_MAX];
	size_t	key_len;
};

static void read_all(struct side *s, struct tagrv_mem *mem, char *buf,
		     const struct offer *from, double *gbs, double tick)
{
	struct get get = { .done.fn = on_got, .side = s };

	for (int i = 0; i < GETS; i++) {
		uint64_t start = clock_ticks();
		unsigned want = s->done + 2;

		for (int half = 0; half < 2; half++)
			require(!ops->get(s->link, buf + half * GET_LEN / 2,
					  mem, from->addr +
					  (uint64_t) half * GET_LEN / 2,
					  from->key, from->key_len,
					  GET_LEN / 2, &get.done), "get");
		while (s->done < want)
			ops->progress(s->xport);
		gbs[i] = GET_LEN * 1e-9 /
			((double) (clock_ticks() - start) * tick);
	}
}

/* GB/s; the other side makes progress until it is told to stop. */
static double gets(struct side *s, double tick)
{
	char *buf = malloc(GET_LEN);
	double gbs[GETS] = { 0 };
	struct offer own, peer;
	struct tagrv_mem *mem;

	memset(buf, 1, GET_LEN);
	require(!ops->mem_reg(s->dev, buf, GET_LEN, true, &mem), "mem_reg");
	memset(&own, 0, sizeof(own));
	own.addr = (uintptr_t) buf;
	own.key_len = ops->mem_key(mem, own.key);
	swap(s, &own, &peer, sizeof(own));
	if (s->leader) {
		read_all(s, mem, buf, &peer, gbs, tick);
		send_one(s);
	} else {
		uint64_t want = s->got + 1;

		while (s->got < want)
			ops->progress(s->xport);
	}
	ops->mem_dereg(mem);
	free(buf);
	return result_of(gbs, GETS).median;
}

static void run(struct side *s, struct page *page)
{
	double tick = clock_seconds_per_tick(), ring, cma;
	struct result line, two, half, each;

	measure_pin(!s->leader);
	line = take_turns(&page->one, &page->one, s->leader, tick);
	two = take_turns(&page->two[s->leader], &page->two[!s->leader],
			 s->leader, tick);
	open_side(s, "no");
	half = packet(s, tick);
	each = rate(s, tick);
	ring = gets(s, tick);
	close_side(s);
	open_side(s, "yes");
	cma = gets(s, tick);
	close_side(s);
	if (!s->leader)
		return;
	printf("median (best) ns: cache line %.1f (%.1f)  two lines %.1f (%.1f)"
	       "  packet %.1f (%.1f)  rate %.1f (%.1f)\n", line.median,
	       line.least, two.median, two.least, half.median, half.least,
	       each.median, each.least);
	printf("median GB/s: get through rings %.2f  with one copy %.2f\n",
	       ring, cma);
}

int main(void)
{
	struct page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct side side = { .leader = true };
	int socks[2], status = 0;
	pid_t child;

	require(page != MAP_FAILED, "mmap");
	require(!socketpair(AF_UNIX, SOCK_STREAM, 0, socks), "socketpair");
	child = fork();
	require(child >= 0, "fork");
	side.leader = child != 0;
	side.sock = socks[side.leader];
	if (!side.leader)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(&side, page);
	if (side.leader)
		waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
