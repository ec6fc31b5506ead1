/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One process of a pair: opens its endpoint, takes orders, reports (perf.h has the drawing).
 */
#include "side.h"

#include <errno.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure.h"
#include "oob.h"
#include "pair.h"

/* ms between two calls of a sleeping process to its provider */
enum { PARK_MS = 20 };

static const struct side_ops *const tests[PERF_TESTS] = {
	[PERF_LAT] = &side_latency, [PERF_BW] = &side_stream, [PERF_RATE] = &side_stream,
	[PERF_BIDIR] = &side_both_ways, [PERF_DEPTH] = &side_depth, [PERF_OVERLAP] = &side_overlap,
	[PERF_REG] = &side_register,
	[PERF_PUT] = &side_remote_each, [PERF_GET] = &side_remote_each,
	[PERF_ADD] = &side_remote_each, [PERF_PUT_BW] = &side_remote_stream,
	[PERF_GET_BW] = &side_remote_stream, [PERF_ADD_RATE] = &side_remote_stream,
};

/* --- failures --------------------------------------------------------------- */

/* bench_die() knows no argument. */
static int report_to = -1;

static _Noreturn void report_failure(const char *text)
{
	struct perf_reply reply = { .kind = PERF_FAILED };

	snprintf(reply.text, sizeof(reply.text), "%s", text);
	/* If the other side is gone, it has said why. */
	exit(send(report_to, &reply, sizeof(reply), MSG_NOSIGNAL) < 0 ? EXIT_FAILURE + 1 : EXIT_FAILURE);
}

void side_report_to(int fd)
{
	report_to = fd;
	bench_on_die(report_failure);
}

static bool read_whole(int fd, void *buf, size_t len)
{
	ssize_t n = recv(fd, buf, len, MSG_WAITALL);

	return n == (ssize_t)len;
}

/* The follower says why it ended, if it could. */
static _Noreturn void peer_ended(struct side *s)
{
	struct perf_reply reply;

	if (s->leads)
		while (read_whole(s->oob, &reply, sizeof(reply)))
			if (reply.kind == PERF_FAILED)
				bench_die("peer: %.*s", (int)sizeof(reply.text), reply.text);
	bench_die("the peer's process has ended without a word (killed? its host's log may tell)");
}

static bool hung_up(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLRDHUP };

	return poll(&pfd, 1, 0) > 0;
}

/* Called now and then while nothing completes. */
static void watch(void *arg)
{
	struct side *s = arg;

	if (s->measuring && hung_up(s->oob))
		peer_ended(s);
	if (s->up >= 0 && hung_up(s->up))
		exit(EXIT_FAILURE);
}

/* --- samples ------------------------------------------------------------------ */

void side_count_samples(struct side *s)
{
	const double scale = s->seconds_per_tick * 1e10 * s->part;

	for (unsigned i = 0; i < s->sample_cnt; i++)
		hist_add(&s->hist, (uint64_t)((double)s->samples[i] * scale + 0.5));
	s->sample_cnt = 0;
}

/* --- blocks and rounds ------------------------------------------------------------- */

uint64_t side_end_block(struct side *s, uint64_t begin, uint64_t count, double part)
{
	const uint64_t ticks = clock_ticks() - begin;

	s->blocks[s->block_cnt++] = (double)ticks * s->seconds_per_tick / (double)count * part;
	return ticks;
}

void side_finish(struct side *s, struct perf_reply *result, uint64_t begin, double part)
{
	result->seconds = side_seconds(s, begin);
	result->unit = s->block_cnt ? measure_median(s->blocks, s->block_cnt) :
				      result->seconds / (double)result->count * part;
}

/* --- open and close ------------------------------------------------------------- */

static uint64_t caps_of(uint32_t need)
{
	switch (need) {
	case PERF_REMOTE: return FI_RMA;
	case PERF_ATOMIC: return FI_RMA | FI_ATOMIC;
	default: return 0;
	}
}

static const char *text_or_null(const char *text)
{
	return *text ? text : NULL;
}

/*
 * Libfabric shows no other providers than FI_PROVIDER, which may name another one than --provider,
 * --compare or the client does.
 */
static void allow_provider(const char *name)
{
	const char *chosen = getenv("FI_PROVIDER");

	if (chosen && strcmp(chosen, name))
		unsetenv("FI_PROVIDER");
}

static void start(struct side *s)
{
	const struct perf_hello *hello = s->hello;
	const bool remote = hello->need >= PERF_REMOTE;
	const struct endpoint_conf conf = {
		.provider = hello->provider, .domain = text_or_null(hello->domain),
		.address = text_or_null(hello->address), .memory = hello->memory,
		.slots = hello->slots, .slot_size = hello->size, .recvs = hello->recvs,
		.caps = caps_of(hello->need), .use_mr = remote || hello->flags & PERF_REGISTER,
		.use_inject = !(hello->flags & PERF_NO_INJECT),
		.one_buffer = hello->flags & PERF_ONE_BUFFER,
		.thread_safe = hello->flags & PERF_THREAD_SAFE,
		.op_flags = remote ? FI_DELIVERY_COMPLETE : 0,
		.timeout = hello->timeout, .yield = hello->yield, .watch = watch, .watch_arg = s,
	};

	if (hello->pin)
		pair_pin((int)(2 * hello->member) + !s->leads);
	if (*hello->devices)
		setenv("FI_TAGRV_DEVICES", hello->devices, 1);
	allow_provider(hello->provider);
	s->verify = hello->flags & PERF_VERIFY;
	s->seconds_per_tick = clock_seconds_per_tick();
	endpoint_start(&s->e, &conf);
}

/* Both sides have opened their endpoints. */
static void meet(struct side *s)
{
	s->e.peer = endpoint_meet(&s->e, s->oob);
	if (s->hello->need >= PERF_REMOTE)
		side_share_memory(s);
}

static void stop(struct side *s)
{
	if (s->mr)
		side_unshare_memory(s);
	endpoint_close(&s->e);
	side_free_fillers(s);
	close(s->oob);
}

/* Protocols with this bit are a provider's own: FI_PROV_SPECIFIC, until libfabric 2. */
#define OWN_PROTOCOL	(1u << 31)

/* Of a protocol that libfabric has no name for, the version says what can talk to each other. */
static void tell_protocol(const struct fi_ep_attr *attr, struct perf_about *about)
{
	if (attr->protocol & OWN_PROTOCOL)
		snprintf(about->protocol, sizeof(about->protocol), "%.32s version %u",
			 about->provider, attr->protocol_version);
	else
		snprintf(about->protocol, sizeof(about->protocol), "%s",
			 fi_tostr(&attr->protocol, FI_TYPE_PROTOCOL));
	for (char *at = about->protocol; *at; at++)
		if (*at == '\n')
			*at = ' ';
}

static void tell_about(const struct side *s, struct perf_about *about)
{
	const struct fi_info *info = s->e.info;
	const uint32_t version = info->fabric_attr->prov_version;

	snprintf(about->provider, sizeof(about->provider), "%s", info->fabric_attr->prov_name);
	snprintf(about->version, sizeof(about->version), "%u.%u", FI_MAJOR(version), FI_MINOR(version));
	snprintf(about->domain, sizeof(about->domain), "%s", info->domain_attr->name);
	tell_protocol(info->ep_attr, about);
}

/* --- orders ------------------------------------------------------------------------ */

/* Sleeps until one of the sockets has something, and serves the provider now and then. */
static void park(struct side *s, int fd)
{
	struct pollfd pfd[2] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = s->oob == fd ? -1 : s->oob, .events = POLLRDHUP },
	};

	for (;;) {
		int n = poll(pfd, 2, PARK_MS);

		if (n > 0 && pfd[1].revents)
			peer_ended(s);
		if (n > 0)
			return;
		if (n < 0 && errno != EINTR)
			bench_die("poll: %s", strerror(errno));
		endpoint_progress(&s->e);
	}
}

/* Returns false at the end. */
static bool take_order(struct side *s, int fd, struct perf_order *order)
{
	char first;

	park(s, fd);
	if (recv(fd, &first, 1, MSG_PEEK) <= 0)
		return false;
	oob_recv(fd, order, sizeof(*order), NULL, NULL);
	if (!order->count)
		return false;
	if (!order_is_possible(s->hello, order))
		bench_die("an order that cannot be");
	return true;
}

static void prepare(struct side *s, const struct perf_order *order)
{
	const struct side_ops *ops = tests[order->test];

	hist_clear(&s->hist);
	s->sample_cnt = 0;
	s->block_cnt = 0;
	s->pause = 0;
	s->part = 1;
	s->to_post = 0;
	/* Remote operations have their own memory. */
	if (!s->mr)
		endpoint_reshape(&s->e, order->window, order->size);
	ops->prepare(s, order);
}

static void run(struct side *s, const struct perf_order *order, struct perf_reply *result)
{
	s->measuring = true;
	tests[order->test]->run(s, order, result);
	s->measuring = false;
	side_count_samples(s);
}

static void expect(struct side *s, enum perf_reply_kind kind)
{
	struct perf_reply reply;

	oob_recv(s->oob, &reply, sizeof(reply), endpoint_progress, &s->e);
	if (reply.kind == PERF_FAILED)
		bench_die("peer: %.*s", (int)sizeof(reply.text), reply.text);
	if (reply.kind != kind)
		bench_die("the peer says what it should not (another version?)");
}

static void report(struct side *s, struct perf_reply *result)
{
	static struct hist_entry entries[HIST_BUCKETS];

	result->kind = PERF_RESULT;
	result->entries = (uint32_t)hist_entries(&s->hist, entries);
	result->sum = s->hist.sum;
	result->min = s->hist.min;
	result->max = s->hist.max;
	oob_send(s->up, result, sizeof(*result));
	if (result->entries)
		oob_send(s->up, entries, result->entries * sizeof(*entries));
}

static void lead_round(struct side *s, const struct perf_order *order)
{
	struct perf_reply ready = { .kind = PERF_READY }, result = { .count = order_operations(order) };
	char go;

	oob_send(s->oob, order, sizeof(*order));
	prepare(s, order);
	expect(s, PERF_READY);
	oob_send(s->up, &ready, sizeof(ready));
	oob_recv(s->up, &go, 1, endpoint_progress, &s->e);
	run(s, order, &result);
	report(s, &result);
}

/* --- both ends ----------------------------------------------------------------------- */

void side_lead(const struct perf_hello *mine, const struct perf_hello *theirs, int oob, int up)
{
	const struct perf_order end = { 0 };
	struct perf_reply opened = { .kind = PERF_OPENED }, answer;
	struct perf_order order;
	struct side *s = calloc(1, sizeof(*s));

	if (!s)
		bench_die("out of memory");
	*s = (struct side){ .hello = mine, .leads = true, .oob = oob, .up = up };
	oob_send(oob, theirs, sizeof(*theirs));
	start(s);
	oob_recv(oob, &answer, sizeof(answer), NULL, NULL);
	if (answer.kind != PERF_OPENED)
		bench_die("peer: %.*s", (int)sizeof(answer.text), answer.text);
	meet(s);
	tell_about(s, &opened.about);
	snprintf(opened.about.peer_domain, sizeof(opened.about.peer_domain), "%.63s",
		 answer.about.domain);
	oob_send(up, &opened, sizeof(opened));
	while (take_order(s, up, &order))
		lead_round(s, &order);
	oob_send(oob, &end, sizeof(end));
	stop(s);
	free(s);
}

void side_follow(const struct perf_hello *hello, int oob)
{
	struct perf_reply reply = { .kind = PERF_OPENED };
	struct perf_order order;
	struct side *s = calloc(1, sizeof(*s));

	if (!s)
		bench_die("out of memory");
	*s = (struct side){ .hello = hello, .oob = oob, .up = -1 };
	start(s);
	tell_about(s, &reply.about);
	oob_send(oob, &reply, sizeof(reply));
	meet(s);
	reply = (struct perf_reply){ .kind = PERF_READY };
	while (take_order(s, oob, &order)) {
		struct perf_reply ignored = { .count = order_operations(&order) };

		prepare(s, &order);
		oob_send(oob, &reply, sizeof(reply));
		run(s, &order, &ignored);
	}
	stop(s);
	free(s);
}
