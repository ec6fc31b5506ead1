/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pairs of connected transport ends: see pair.h.
 */
#include "unit/xport/pair.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "examples/file_xport.h"
#include "xport/multi/multi_priv.h"
#include "xport/shm/shm_priv.h"
#include "xport/verbs/verbs_priv.h"

const char *const pair_kind_names[PAIR_KINDS] = {
	[PAIR_LOOP] = "loop",
	[PAIR_SHM] = "shm",
	[PAIR_SHM_CMA] = "shm, one copy",
	[PAIR_SHM_TINY] = "shm, tiny",
	[PAIR_FILE] = "file",
	[PAIR_SRQ] = "srq",
	[PAIR_RQ] = "rq",
	[PAIR_TINY] = "tiny",
	[PAIR_TINY_RQ] = "tiny rq",
	[PAIR_IB] = "infiniband",
	[PAIR_MLX5] = "as mlx5",
	[PAIR_BNXT_RE] = "as bnxt_re",
	[PAIR_IRDMA] = "as irdma",
	[PAIR_TWO] = "two queue pairs",
	[PAIR_TWO_MLX5] = "two queue pairs, as mlx5",
	[PAIR_TWO_BNXT_RE] = "two queue pairs, as bnxt_re",
	[PAIR_TWO_ONE] = "two queue pairs offered by one end",
	[PAIR_LIST] = "lists of receives",
	[PAIR_LIST_ONE] = "a list of receives at one end",
	[PAIR_MULTI] = "joined",
	[PAIR_MULTI_RQ] = "joined rq",
	[PAIR_DEVICE] = "device",
	[PAIR_DEVICE_RQ] = "device rq",
	[PAIR_DEVICE_TWO] = "device, two queue pairs",
	[PAIR_DEVICE_TWO_ONE] = "device, two queue pairs offered by one end",
};

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

double pair_now(void)
{
	return seconds(CLOCK_MONOTONIC);
}

double pair_work(void)
{
	return seconds(CLOCK_PROCESS_CPUTIME_ID);
}

struct tagrv_params pair_params(void)
{
	return (struct tagrv_params) {
		.srq = true, .eager_max = 8192,
		.max_ops = 4096, .read_segment = 524288, .read_depth = 4,
		.rx_bufs = 4096, .tx_bufs = 1024, .sq_depth = 127,
		.inline_max = 192, .signal_every = 16, .burst = 8192,
		.gid_index = -1,
		.qp_timeout = 14, .qp_retry = 2, .peer_timeout = 30,
		.shm_ring = 65536,
	};
}

size_t pair_kinds(enum pair_kind kinds[PAIR_KINDS])
{
	bool devices = getenv("TAGRV_TEST_DEVICES") != NULL;
	size_t cnt = 0;

	for (int kind = 0; kind < PAIR_KINDS; kind++)
		if ((kind >= PAIR_DEVICE) == devices)
			kinds[cnt++] = (enum pair_kind) kind;
	return cnt;
}

/* ---- sink ---- */

static struct end *end_of(struct tagrv_sink *sink)
{
	return tagrv_container_of(sink, struct end, sink);
}

static void on_next_packet(struct tagrv_sink *sink, void *ctx, const void *data,
			   size_t len)
{
	struct end *end = end_of(sink);

	end->next_packet = (struct next_packet) { .ctx = ctx, .len = len, .due = 2 };
	memcpy(end->next_packet.head, data, sizeof(end->next_packet.head));
	end->next_packets++;
}

static void check_next_packet(struct next_packet *next, const void *ctx,
			      const void *data, size_t len)
{
	if (!next->due || next->ctx != ctx || --next->due)
		return;
	cr_assert_eq(next->len, len);
	cr_assert_arr_eq(next->head, data,
			 TAGRV_MIN(len, sizeof(next->head)));
}

static void on_packet(struct tagrv_sink *sink, void *ctx, const void *data,
		      size_t len)
{
	struct end *end = end_of(sink);
	struct packet_record *record;

	check_next_packet(&end->next_packet, ctx, data, len);
	if (end->packet_cnt == end->packet_cap && !end->forget) {
		end->packet_cap = end->packet_cap ? end->packet_cap * 2 : 64;
		end->packets = realloc(end->packets, end->packet_cap *
				       sizeof(*end->packets));
	}
	end->packet_cnt++;
	if (!end->forget) {
		record = &end->packets[end->packet_cnt - 1];
		record->ctx = ctx;
		record->len = len;
		record->data = malloc(len + 1);
		memcpy(record->data, data, len);
	}
	if (end->on_packet)
		end->on_packet(end, data, len);
}

/* A tagged message that no entry took, whole. */
static void on_listed(struct tagrv_sink *sink, void *ctx, const void *data, size_t len)
{
	end_of(sink)->listed_cnt++;
	on_packet(sink, ctx, data, len);
}

static void on_tagged(void *ctx, uint64_t meta, uint64_t tag, uint64_t data,
		      const void *payload)
{
	struct end *end = ctx;

	if (end->next_packet.ctx == ctx && end->next_packet.due)
		end->next_packet.due--;
	end->tagged = (struct tagged_record) {
		.meta = meta, .tag = tag, .data = data,
		.packets_before = end->packet_cnt,
	};
	memcpy(end->tagged.payload, payload,
	       TAGRV_MIN(TAGRV_META_LEN(meta), sizeof(end->tagged.payload)));
	end->tagged_cnt++;
	if (end->tags_ahead && end->tags_ahead == end->tagged_cnt)
		cr_assert_eq(end->tag_ahead, tag);
}

static void on_next_tagged(void *ctx, uint64_t tag)
{
	struct end *end = ctx;

	end->tag_ahead = tag;
	end->tags_ahead = end->tagged_cnt + 2;
}

static void on_room(struct tagrv_sink *sink)
{
	struct end *end = end_of(sink);

	end->rooms++;
	if (end->on_room)
		end->on_room(end);
}

static void on_error(struct tagrv_sink *sink, void *ctx, int status)
{
	struct end *end = end_of(sink);

	cr_assert_lt(status, 0);
	end->errors++;
	end->error_status = status;
	end->error_ctx = ctx;
	if (end->on_error)
		end->on_error(end);
}

static void on_closed(struct tagrv_sink *sink, void *ctx)
{
	if (end_of(sink)->next_packet.ctx == ctx)
		end_of(sink)->next_packet.due = 0;
	end_of(sink)->closed++;
}

static void on_fatal(struct tagrv_sink *sink, int status)
{
	end_of(sink)->fatals++;
	end_of(sink)->fatal_status = status;
}

/* ---- sink of a list that nobody adds to ---- */

static struct end *end_of_list(struct tagrv_taglist_sink *sink)
{
	return tagrv_container_of(sink, struct end, list_sink);
}

static void on_unexpected(struct tagrv_taglist_sink *sink)
{
	end_of_list(sink)->unexpected++;
}

static void on_handled(struct tagrv_taglist_sink *sink)
{
	end_of_list(sink)->handled++;
}

static void on_list_fatal(struct tagrv_taglist_sink *sink, int status)
{
	(void) sink;
	cr_assert_fail("the list failed: %d", status);
}

static void use_list(struct end *end)
{
	cr_assert_not_null(end->xport->list);
	end->list_sink = (struct tagrv_taglist_sink) {
		.unexpected = on_unexpected, .handled = on_handled, .fatal = on_list_fatal,
	};
	end->xport->list->sink = &end->list_sink;
}

/* ---- open and close ---- */

static void init_end(struct end *end, const struct tagrv_params *params)
{
	*end = (struct end) {
		.sink = {
			.packet = on_packet, .next_packet = on_next_packet,
			.tagged = on_tagged, .next_tagged = on_next_tagged,
			.listed = on_listed,
			.room = on_room,
			.link_error = on_error, .link_closed = on_closed,
			.fatal = on_fatal,
		},
		.params = *params,
	};
}

static void open_end(struct end *end, const struct tagrv_xport_ops *ops, const char *name,
		     const struct tagrv_params *params, bool wants_list)
{
	init_end(end, params);
	end->sink.wants_list = wants_list;
	cr_assert_eq(ops->dev_open(name, params, &end->dev), 0, "open %s",
		     name);
	cr_assert_eq(ops->xport_open(end->dev, params, &end->sink,
				     &end->xport), 0);
	if (wants_list)
		use_list(end);
}

void end_open(struct end *end, const struct tagrv_xport_ops *ops,
	      const char *name, const struct tagrv_params *params)
{
	open_end(end, ops, name, params, false);
}

/* The end uses cnt devices, from fake<first> on. */
static void end_open_joined(struct end *end, unsigned first, unsigned cnt,
			    const struct tagrv_params *params)
{
	struct tagrv_device *devs[MULTI_RAILS];
	char name[TAGRV_DEVNAME_MAX];

	init_end(end, params);
	for (unsigned i = 0; i < cnt; i++) {
		snprintf(name, sizeof(name), "fake%u", first + i);
		cr_assert_eq(tagrv_verbs_ops.dev_open(name, params, &devs[i]), 0);
	}
	cr_assert_eq(tagrv_xport_join(devs, cnt, &end->dev), 0);
	cr_assert_eq(end->dev->ops->xport_open(end->dev, params, &end->sink,
					       &end->xport), 0);
}

void end_close(struct end *end)
{
	const struct tagrv_xport_ops *ops = end->dev->ops;

	ops->xport_close(end->xport);
	ops->dev_close(end->dev);
	for (size_t i = 0; i < end->packet_cnt && !end->forget; i++)
		free(end->packets[i].data);
	free(end->packets);
}

static struct fake_verbs_config config_of(enum pair_kind kind)
{
	static const char *const profiles[PAIR_KINDS] = {
		[PAIR_MLX5] = "mlx5", [PAIR_BNXT_RE] = "bnxt_re",
		[PAIR_IRDMA] = "irdma_old",
		[PAIR_TWO_MLX5] = "mlx5", [PAIR_TWO_BNXT_RE] = "bnxt_re",
		[PAIR_LIST] = "mlx5", [PAIR_LIST_ONE] = "mlx5",
	};
	struct fake_verbs_config config = profiles[kind] ? fake_verbs_as(profiles[kind]) :
							   fake_verbs_defaults();

	if (kind == PAIR_RQ || kind == PAIR_TINY_RQ || kind == PAIR_MULTI_RQ)
		config.max_srq = 0;
	if (pair_is_joined(kind))
		config.devices = 2 * PAIR_JOINED;
	if (kind == PAIR_TINY || kind == PAIR_TINY_RQ) {
		config.max_cqe = 16;
		config.max_qp_wr = 6;
		config.max_srq_wr = 8;
		config.max_inline = 0;
		config.max_sge = 1;
		config.rd_atom = 1;
		config.max_msg = 1 << 20;
		config.no_resize = true;
	}
	config.infiniband = kind == PAIR_IB;
	return config;
}

static void device_names(char names[2][TAGRV_DEVNAME_MAX])
{
	char copy[256], *save = NULL, *name;

	snprintf(copy, sizeof(copy), "%s", getenv("TAGRV_TEST_DEVICES"));
	name = strtok_r(copy, ",", &save);
	for (int i = 0; i < 2 && name; i++) {
		snprintf(names[i], TAGRV_DEVNAME_MAX, "%.60s", name);
		name = strtok_r(NULL, ",", &save);
	}
}

/* Whether end a offers links of two queue pairs. */
static bool offers_two(enum pair_kind kind)
{
	return (kind >= PAIR_TWO && kind <= PAIR_LIST_ONE) || kind >= PAIR_DEVICE_TWO;
}

static void open_shm(struct pair *pair, const struct tagrv_params *params)
{
	struct tagrv_params own = *params;

	snprintf(own.shm_cma, sizeof(own.shm_cma), "%s",
		 pair->kind == PAIR_SHM_CMA ? "yes" : "no");
	if (pair->kind == PAIR_SHM_TINY) {
		own.shm_ring = SHM_RING_MIN;
		own.eager_max = TAGRV_MIN(own.eager_max, (size_t) 3072);
	}
	for (int i = 0; i < 2; i++) {
		end_open(&pair->ends[i], &tagrv_shm_ops, "shm", &own);
		if (pair->kind == PAIR_SHM_TINY)
			shm_device_of(pair->ends[i].dev)->force_fence = true;
	}
}

void pair_open_with(struct pair *pair, enum pair_kind kind,
		    const struct tagrv_params *params,
		    const struct fake_verbs_config *config)
{
	char names[2][TAGRV_DEVNAME_MAX] = { "fake0", "fake1" };
	struct tagrv_params own = *params;

	*pair = (struct pair) { .kind = kind };
	pair->a = pair->b = &pair->ends[0];
	if (kind == PAIR_LOOP) {
		end_open(pair->a, &tagrv_loop_ops, "loop", params);
		return;
	}
	pair->b = &pair->ends[1];
	if (kind == PAIR_FILE) {
		end_open(pair->a, &tagrv_file_ops, FILE_NAME, params);
		end_open(pair->b, &tagrv_file_ops, FILE_NAME, params);
		return;
	}
	if (kind < PAIR_SRQ) {
		open_shm(pair, params);
		return;
	}
	if (kind == PAIR_DEVICE_RQ)
		own.srq = false;
	if (kind >= PAIR_DEVICE)
		device_names(names);
	else
		fake_verbs_start(config);
	if (pair_is_joined(kind)) {
		end_open_joined(pair->a, 0, PAIR_JOINED, &own);
		end_open_joined(pair->b, PAIR_JOINED, PAIR_JOINED, &own);
		return;
	}
	own.hw_tags = own.hw_tags || offers_two(kind);
	open_end(pair->a, &tagrv_verbs_ops, names[0], &own, pair_has_list(kind, 0));
	if (kind == PAIR_TWO_ONE || kind == PAIR_DEVICE_TWO_ONE)
		own.hw_tags = false;
	open_end(pair->b, &tagrv_verbs_ops, names[1], &own, pair_has_list(kind, 1));
}

void pair_open(struct pair *pair, enum pair_kind kind)
{
	struct tagrv_params params = pair_params();
	struct fake_verbs_config config = config_of(kind);

	pair_open_with(pair, kind, &params, &config);
}

void pair_link(struct pair *pair, struct tagrv_link **a, struct tagrv_link **b)
{
	const struct tagrv_xport_ops *ops = pair->a->xport->ops;
	char blob_a[TAGRV_BLOB_MAX], blob_b[TAGRV_BLOB_MAX];
	size_t len_a, len_b;

	cr_assert_eq(ops->link_create(pair->a->xport, blob_a, &len_a, a), 0);
	if (pair->a == pair->b) {
		cr_assert_eq(ops->link_bind(*a, blob_a, len_a), 0);
		*b = *a;
		return;
	}
	cr_assert_eq(ops->link_create(pair->b->xport, blob_b, &len_b, b), 0);
	cr_assert_eq(ops->link_bind(*a, blob_b, len_b), 0);
	cr_assert_eq(ops->link_bind(*b, blob_a, len_a), 0);
}

void pair_connect(struct pair *pair)
{
	const struct tagrv_xport_ops *ops = pair->a->xport->ops;

	pair_link(pair, &pair->a->link, &pair->b->link);
	cr_assert_eq(ops->link_attach(pair->a->link, pair->a), 0);
	if (pair->a != pair->b)
		cr_assert_eq(ops->link_attach(pair->b->link, pair->b), 0);
}

/* Without SRQ a link has all of its buffers from now on. */
static void grow_own(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct verbs_rxq *rxq = link->rxq;

	while (rxq->bufs.total < rxq->bufs.max)
		cr_assert_eq(tagrv_verbs_rxq_grow(rxq), 0);
	tagrv_verbs_window_set(link, rxq->bufs.max);
	tagrv_verbs_rxq_refill(xp->calls, rxq);
}

static void permit(struct tagrv_link *a, struct tagrv_link *b)
{
	const uint32_t many = 1u << 24;

	verbs_link_of(a)->tx_permits += many;
	verbs_link_of(b)->rx_permits += many;
	if (verbs_link_of(b)->rxq)
		grow_own(verbs_link_of(b));
	else
		atomic_fetch_add(&verbs_link_of(b)->pool->rx_permits, many);
}

void pair_permit(struct pair *pair, struct tagrv_link *a, struct tagrv_link *b)
{
	pair->permitted = true;
	if (!pair_is_joined(pair->kind)) {
		permit(a, b);
		return;
	}
	for (unsigned i = 0; i < PAIR_JOINED; i++) {
		struct multi_path *path = multi_link_of(a)->paths[i];

		permit(path->link, multi_link_of(b)->paths[path->peer_rail]->link);
	}
}

void end_close_link(struct end *end)
{
	unsigned closed = end->closed;
	/*
	 * The verbs transport gives up after 1 s, which no close should need: on a
	 * machine without other work that is 1 s of processor time, too.
	 */
	double until = pair_work() + 0.9;

	if (!end->link)
		return;
	end->xport->ops->link_close(end->link);
	end->link = NULL;
	while (end->closed == closed) {
		end->xport->ops->progress(end->xport);
		cr_assert(pair_work() < until, "link does not drain");
	}
	cr_assert_eq(end->closed, closed + 1);
}

void pair_close(struct pair *pair)
{
	struct fake_verbs_counts counts;

	end_close_link(pair->a);
	cr_assert_eq(pair->a->xport->ops->outstanding(pair->a->xport), 0);
	if (pair->b != pair->a) {
		end_close_link(pair->b);
		cr_assert_eq(pair->b->handled, pair->b->unexpected);
		end_close(pair->b);
	}
	cr_assert_eq(pair->a->handled, pair->a->unexpected);
	end_close(pair->a);
	if (pair->kind < PAIR_SRQ || pair->kind >= PAIR_DEVICE)
		return;
	counts = fake_verbs_count();
	cr_assert_eq(counts.objects, 0, "%u objects left", counts.objects);
	cr_assert_eq(counts.registered, 0);
	cr_assert_eq(counts.cq_overflows, 0);
	cr_assert_eq(counts.sq_overflows, 0);
	cr_assert_leq(counts.inline_pieces, 1, "some libraries send the first only");
	cr_assert_eq(counts.lost_events, 0);
	cr_assert(pair->permitted || !counts.rnr,
		  "%u packets found no receive buffer", counts.rnr);
	fake_verbs_stop();
}

/* ---- moving ---- */

int pair_progress(struct pair *pair)
{
	int events = pair->a->xport->ops->progress(pair->a->xport);

	if (pair->b != pair->a)
		events += pair->b->xport->ops->progress(pair->b->xport);
	return events;
}

static void count_done(struct tagrv_done *done, int status)
{
	struct op *op = tagrv_container_of(done, struct op, done);

	cr_assert(!op->in_call, "done ran inside the call");
	op->calls++;
	op->status = status;
}

void op_init(struct op *op)
{
	*op = (struct op) { .done = { .fn = count_done } };
}

void fill_pattern(void *buf, unsigned seed, size_t len)
{
	unsigned char *p = buf;

	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char) (seed * 31 + i * 7 + (i >> 8));
}

bool is_pattern(const void *buf, unsigned seed, size_t len)
{
	const unsigned char *p = buf;

	for (size_t i = 0; i < len; i++)
		if (p[i] != (unsigned char) (seed * 31 + i * 7 + (i >> 8)))
			return false;
	return true;
}

int end_send(struct end *end, unsigned seed, size_t len, unsigned flags,
	     struct op *op)
{
	unsigned char *buf = malloc(len + 1);
	struct iovec iov[2] = { { buf, len / 2 },
				{ buf + len / 2, len - len / 2 } };
	int ret;

	fill_pattern(buf, seed, len);
	if (op)
		op->in_call = true;
	ret = end->xport->ops->send(end->link, iov, 2, flags,
				    op ? &op->done : NULL);
	if (op)
		op->in_call = false;
	free(buf);	/* the buffers are free on return */
	return ret;
}

void pair_send(struct pair *pair, struct end *end, unsigned seed, size_t len,
	       struct op *op)
{
	double until = pair_work() + 10;
	int ret;

	while ((ret = end_send(end, seed, len, 0, op)) == -FI_EAGAIN) {
		pair_progress(pair);
		cr_assert(pair_work() < until, "no room for 10 s");
	}
	cr_assert_eq(ret, 0, "send: %d", ret);
}

void end_settle(struct end *end)
{
	while (end->xport->ops->arm(end->xport) == -FI_EAGAIN)
		end->xport->ops->progress(end->xport);
}

bool is_readable(int fd, int ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, ms) == 1;
}
