/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One endpoint with one peer, by libfabric's public calls only.
 */
#include "endpoint.h"
#include "oob.h"

#include <poll.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CQ_BATCH = 16, POLLS_PER_CLOCK = 1 << 14, NAME_MAX_LEN = 256 };

struct name {
	uint64_t len;
	char	bytes[NAME_MAX_LEN];
};

static void check(long ret, const char *what)
{
	if (ret < 0)
		bench_die("%s: %s", what, fi_strerror((int)-ret));
}

/* --- open and close ------------------------------------------------------- */

static struct fi_info *make_hints(const struct endpoint_conf *conf)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		bench_die("out of memory");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | conf->caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->threading = conf->auto_progress || conf->thread_safe ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
	if (conf->auto_progress)
		hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->size = conf->recvs;
	hints->tx_attr->op_flags = conf->op_flags;
	if (conf->use_mr)
		hints->domain_attr->mr_mode =
			FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(conf->provider);
	if (conf->domain)
		hints->domain_attr->name = strdup(conf->domain);
	return hints;
}

static void find_provider(struct endpoint *e)
{
	struct fi_info *hints = make_hints(&e->conf);
	int ret = fi_getinfo(FI_VERSION(1, 17), e->conf.address, NULL,
			     e->conf.address ? FI_SOURCE : 0, hints, &e->info);

	if (ret)
		bench_die("provider %s%s%s: %s (FI_LOG_LEVEL=warn tells more)", e->conf.provider,
			  e->conf.domain ? ", domain " : "", e->conf.domain ? e->conf.domain : "",
			  fi_strerror(-ret));
	fi_freeinfo(hints);
	if (e->info->ep_attr->max_msg_size < e->conf.slot_size)
		bench_die("messages of provider %s hold at most %zu bytes", e->conf.provider,
			  e->info->ep_attr->max_msg_size);
}

static void open_endpoint(struct endpoint *e)
{
	struct fi_av_attr av_attr = { .type = e->info->domain_attr->av_type, .count = 2 };
	struct fi_cq_attr cq_attr = {
		.size = 2 * e->conf.slots + e->conf.recvs + 8,
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = e->conf.wait,
	};

	if (av_attr.type == FI_AV_UNSPEC)
		av_attr.type = FI_AV_TABLE;
	check(fi_fabric(e->info->fabric_attr, &e->fabric, NULL), "fi_fabric");
	check(fi_domain(e->fabric, e->info, &e->domain, NULL), "fi_domain");
	check(fi_av_open(e->domain, &av_attr, &e->av, NULL), "fi_av_open");
	check(fi_cq_open(e->domain, &cq_attr, &e->cq, NULL), "fi_cq_open");
	if (e->conf.wait == FI_WAIT_FD)
		check(fi_control(&e->cq->fid, FI_GETWAIT, &e->wait_fd), "fi_control");
	check(fi_endpoint(e->domain, e->info, &e->ep, NULL), "fi_endpoint");
	check(fi_ep_bind(e->ep, &e->av->fid, 0), "fi_ep_bind of the address vector");
	check(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV),
	      "fi_ep_bind of the completion queue");
	check(fi_enable(e->ep), "fi_enable");
	e->inject_size = e->info->tx_attr->inject_size;
}

static void allocate(struct endpoint *e)
{
	size_t bytes = e->conf.memory ? e->conf.memory : 2 * e->conf.slots * e->conf.slot_size;

	e->memory_bytes = bytes;
	e->op_cnt = 2 * e->conf.slots;
	e->ops = calloc(e->op_cnt, sizeof(*e->ops));
	if (!e->ops || posix_memalign((void **)&e->memory, 4096, bytes))
		bench_die("out of memory: %zu bytes of buffers", bytes);
	memset(e->memory, 0, bytes);
	if (!e->conf.use_mr)
		return;
	check(fi_mr_reg(e->domain, e->memory, bytes, FI_SEND | FI_RECV, 0, 0, 0, &e->mr, NULL),
	      "fi_mr_reg");
	e->desc = fi_mr_desc(e->mr);
}

fi_addr_t endpoint_meet(struct endpoint *e, int oob)
{
	struct name mine = { .len = sizeof(mine.bytes) }, theirs;
	size_t len = sizeof(mine.bytes);
	fi_addr_t addr;

	check(fi_getname(&e->ep->fid, mine.bytes, &len), "fi_getname");
	mine.len = len;
	oob_send(oob, &mine, sizeof(mine));
	oob_recv(oob, &theirs, sizeof(theirs), endpoint_progress, e);
	if (fi_av_insert(e->av, theirs.bytes, 1, &addr, 0, NULL) != 1)
		bench_die("fi_av_insert: the peer's address is refused");
	return addr;
}

void endpoint_start(struct endpoint *e, const struct endpoint_conf *conf)
{
	memset(e, 0, sizeof(*e));
	e->conf = *conf;
	find_provider(e);
	open_endpoint(e);
	allocate(e);
}

void endpoint_open(struct endpoint *e, const struct endpoint_conf *conf, int oob)
{
	endpoint_start(e, conf);
	e->peer = endpoint_meet(e, oob);
}

void endpoint_reshape(struct endpoint *e, size_t slots, size_t slot_size)
{
	if (!slots || slots > e->op_cnt / 2 || slot_size > e->memory_bytes / slots / 2)
		bench_die("%zu slots of %zu bytes are more than was asked for", slots, slot_size);
	e->conf.slots = slots;
	e->conf.slot_size = slot_size;
	e->send_at = e->recv_at = e->take_at = 0;
	/* What was a receive may become a send. */
	memset(e->ops, 0, e->op_cnt * sizeof(*e->ops));
}

void endpoint_close(struct endpoint *e)
{
	check(fi_close(&e->ep->fid), "fi_close of the endpoint");
	if (e->mr)
		check(fi_close(&e->mr->fid), "fi_close of the memory region");
	check(fi_close(&e->cq->fid), "fi_close of the completion queue");
	check(fi_close(&e->av->fid), "fi_close of the address vector");
	check(fi_close(&e->domain->fid), "fi_close of the domain");
	check(fi_close(&e->fabric->fid), "fi_close of the fabric");
	fi_freeinfo(e->info);
	free(e->memory);
	free(e->ops);
}

/* --- completions ---------------------------------------------------------- */

static _Noreturn void report_error(struct endpoint *e)
{
	struct fi_cq_err_entry err = { 0 };

	check(fi_cq_readerr(e->cq, &err, 0), "fi_cq_readerr");
	bench_die("%s fails: %s", err.flags & FI_RECV ? "receive" : "send", fi_strerror(err.err));
}

static void count_one(struct endpoint *e, const struct fi_cq_tagged_entry *entry)
{
	struct endpoint_op *op = entry->op_context;

	op->busy = false;
	if (!op->is_recv) {
		e->sends_done++;
		return;
	}
	if (entry->len != e->expect)
		bench_die("a message of %zu bytes arrived, not of %zu", entry->len, e->expect);
	e->recvs_done++;
}

static bool take(struct endpoint *e, const struct fi_cq_tagged_entry *entries, ssize_t n)
{
	if (n == -FI_EAGAIN || n == -FI_EINTR)
		return false;
	if (n == -FI_EAVAIL)
		report_error(e);
	check(n, "reading the completion queue");
	for (ssize_t i = 0; i < n; i++)
		count_one(e, &entries[i]);
	return n > 0;
}

static bool poll_once(struct endpoint *e)
{
	struct fi_cq_tagged_entry entries[CQ_BATCH];

	return take(e, entries, fi_cq_read(e->cq, entries, CQ_BATCH));
}

void endpoint_sleep(struct endpoint *e)
{
	struct pollfd pfd = { .fd = e->wait_fd, .events = POLLIN };
	struct fid *cq = &e->cq->fid;
	struct fi_cq_tagged_entry entries[CQ_BATCH];
	int timeout = (int)e->conf.timeout * 1000;

	if (e->conf.wait != FI_WAIT_FD) {
		if (!take(e, entries, fi_cq_sread(e->cq, entries, CQ_BATCH, NULL, timeout)))
			bench_die("no completion for %u s", e->conf.timeout);
		return;
	}
	if (!fi_trywait(e->fabric, &cq, 1) && !poll(&pfd, 1, timeout))
		bench_die("nothing happens for %u s", e->conf.timeout);
	poll_once(e);
}

void endpoint_progress(void *endpoint)
{
	struct endpoint *e = endpoint;

	if (poll_once(e)) {
		e->idle = 0;
		return;
	}
	if (e->conf.yield)
		sched_yield();
	if (e->conf.watch && ++e->idle % POLLS_PER_CLOCK == 0)
		e->conf.watch(e->conf.watch_arg);
}

static time_t seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void wait_for(struct endpoint *e, const uint64_t *done, uint64_t count)
{
	unsigned polls = 0;
	time_t start = 0;

	while (*done < count) {
		if (poll_once(e)) {
			start = 0;
			polls = 0;
			continue;
		}
		if (e->conf.yield)
			sched_yield();
		if (++polls % POLLS_PER_CLOCK)
			continue;
		if (e->conf.watch)
			e->conf.watch(e->conf.watch_arg);
		if (!start)
			start = seconds();
		else if (seconds() - start > e->conf.timeout)
			bench_die("no completion for %u s", e->conf.timeout);
	}
}

void endpoint_wait_recvs(struct endpoint *e, uint64_t count)
{
	wait_for(e, &e->recvs_done, count);
}

void endpoint_wait_sends(struct endpoint *e, uint64_t count)
{
	wait_for(e, &e->sends_done, count);
}

void endpoint_wait_op(struct endpoint *e, const struct endpoint_op *op)
{
	while (op->busy)
		wait_for(e, op->is_recv ? &e->recvs_done : &e->sends_done,
			 (op->is_recv ? e->recvs_done : e->sends_done) + 1);
}

/* --- messages ------------------------------------------------------------- */

char *endpoint_send_slot(const struct endpoint *e, uint64_t message)
{
	size_t slot = e->conf.one_buffer ? 0 : message % e->conf.slots;

	return e->memory + slot * e->conf.slot_size;
}

char *endpoint_recv_slot(const struct endpoint *e, uint64_t message)
{
	size_t slot = e->conf.one_buffer ? 0 : message % e->conf.slots;

	return e->memory + (e->conf.slots + slot) * e->conf.slot_size;
}

/* A division would take longer than much of what is measured. */
static size_t next_slot(const struct endpoint *e, size_t at)
{
	return at + 1 < e->conf.slots ? at + 1 : 0;
}

static char *slot_at(const struct endpoint *e, size_t first, size_t at)
{
	return e->memory + (first + (e->conf.one_buffer ? 0 : at)) * e->conf.slot_size;
}

/* The tag is the message number, so that lost or reordered messages are found. */
bool endpoint_try_recv(struct endpoint *e, size_t len)
{
	struct endpoint_op *op = &e->ops[e->conf.slots + e->recv_at];
	char *buf = slot_at(e, e->conf.slots, e->recv_at);
	ssize_t ret;

	endpoint_wait_op(e, op);
	op->is_recv = true;
	e->expect = len;
	ret = fi_trecv(e->ep, buf, len, e->desc, FI_ADDR_UNSPEC, e->received, 0, &op->context);
	if (ret == -FI_EAGAIN)
		return false;
	check(ret, "fi_trecv");
	op->busy = true;
	e->received++;
	e->recv_at = next_slot(e, e->recv_at);
	return true;
}

void endpoint_post_recv(struct endpoint *e, size_t len)
{
	while (!endpoint_try_recv(e, len))
		endpoint_progress(e);
}

/* data: NULL, or to inject with. */
static inline ssize_t try_send(struct endpoint *e, size_t len, const uint64_t *data)
{
	struct endpoint_op *op = &e->ops[e->send_at];
	const char *buf = slot_at(e, 0, e->send_at);
	ssize_t ret;

	if (!data && (!e->conf.use_inject || len > e->inject_size)) {
		ret = fi_tsend(e->ep, buf, len, e->desc, e->peer, e->sent, &op->context);
		op->busy = !ret;
		return ret;
	}
	ret = data ? fi_tinjectdata(e->ep, buf, len, *data, e->peer, e->sent) :
		     fi_tinject(e->ep, buf, len, e->peer, e->sent);
	if (!ret)
		e->sends_done++;
	return ret;
}

char *endpoint_wait_slot(struct endpoint *e)
{
	endpoint_wait_op(e, &e->ops[e->send_at]);
	return slot_at(e, 0, e->send_at);
}

/* Inlined, so that a send without data does not look for any. */
static inline void send_next(struct endpoint *e, size_t len, const uint64_t *data)
{
	ssize_t ret;

	endpoint_wait_op(e, &e->ops[e->send_at]);
	while ((ret = try_send(e, len, data)) == -FI_EAGAIN)
		endpoint_progress(e);
	check(ret, "a send");
	e->sent++;
	e->send_at = next_slot(e, e->send_at);
}

void endpoint_post_send(struct endpoint *e, size_t len)
{
	send_next(e, len, NULL);
}

void endpoint_inject_data(struct endpoint *e, size_t len, uint64_t data)
{
	send_next(e, len, &data);
}

void endpoint_take_recv(struct endpoint *e)
{
	endpoint_wait_op(e, &e->ops[e->conf.slots + e->take_at]);
	e->take_at = next_slot(e, e->take_at);
}

char *endpoint_taken_slot(const struct endpoint *e)
{
	return slot_at(e, e->conf.slots, (e->take_at ? e->take_at : e->conf.slots) - 1);
}
