/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A scripted transport: see fake_xport.h.
 */
#include "common/fake_xport.h"

#include <endian.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "match/offload/offload.h"
#include "xport/stubs.h"

/* Commands of a list that wait at most. */
#define LIST_OPS	16

struct fake_xport fake;
double fake_reg_overhead;
uint32_t fake_list_max;

struct fake_link {
	struct tagrv_link base;
	bool attached, broken, closing;
};

static int fake_dev_event_fd(struct tagrv_device *dev)
{
	(void) dev;
	return -1;
}

static void fake_dev_close(struct tagrv_device *dev)
{
	(void) dev;
}

static int fake_mem_reg(struct tagrv_device *dev, void *addr, size_t len,
			unsigned access, struct tagrv_mem **mem)
{
	int error = fake.reg_error_once;

	fake.reg_error_once = 0;
	if (error || fake.reg_error)
		return error ? error : fake.reg_error;
	if ((fake.regs_max && fake.regs >= fake.regs_max) ||
	    (fake.reg_longest && len > fake.reg_longest))
		return -FI_ENOMEM;
	*mem = malloc(sizeof(**mem));
	**mem = (struct tagrv_mem) {
		.dev = dev, .addr = addr, .len = len, .access = access,
	};
	fake.regs++;
	fake.regs_made++;
	return 0;
}

static void fake_mem_dereg(struct tagrv_mem *mem)
{
	fake.regs--;
	free(mem);
}

static size_t fake_mem_key(const struct tagrv_mem *mem, void *key)
{
	uint32_t value = (uint32_t) mem->len;

	memcpy(key, &value, sizeof(value));
	return sizeof(value);
}

static struct fake_link *fake_link_of(const struct tagrv_link *link)
{
	return tagrv_container_of(link, struct fake_link, base);
}

static enum fake_list_way way_of(const struct tagrv_link *link)
{
	if (!fake_link_of(link)->attached)
		return FAKE_LIST_KEEP;
	return fake_link_of(link)->closing && !link->delivers_last ? FAKE_LIST_DROP :
	       FAKE_LIST_DELIVER;
}

static void forged(struct tagrv_link *link)
{
	bool was_broken = fake_link_of(link)->broken;

	fake_link_of(link)->broken = true;
	if (!was_broken && fake_link_of(link)->attached)
		link->xport->sink->link_error(link->xport->sink, link->ctx, -FI_EREMOTEIO);
}

static void open_list(struct tagrv_xport *xport)
{
	static const struct fake_list_owner owner = { .way = way_of, .forged = forged };

	fake.list = fake_list_create(fake_list_max, LIST_OPS, &owner);
	xport->list = &fake.list->base;
}

static int fake_xport_open(struct tagrv_device *dev,
			   const struct tagrv_params *params,
			   struct tagrv_sink *sink, struct tagrv_xport **xport)
{
	struct tagrv_xport *base = dev == &fake.dev ? &fake.base : &fake.local;

	if (base->sink)
		base = calloc(1, sizeof(*base));
	base->ops = dev->ops;
	base->dev = dev;
	base->sink = sink;
	base->attr = (struct tagrv_xport_attr) {
		.caps = TAGRV_XPORT_GET | TAGRV_XPORT_PUT,
		.admits = TAGRV_MEM_REMOTE,
		.max_inline = 128,
		.max_packet = params->eager_max + 192,
		.get_max = 1 << 20,
		.get_depth = 4,
		.get_least = SIZE_MAX,
		.put_max = 1 << 20,
		.put_depth = 4,
		.reg_overhead = fake_reg_overhead,
	};
	base->list = NULL;
	if (base == &fake.base && fake_list_max && sink->wants_list)
		open_list(base);
	*xport = base;
	return 0;
}

static void fake_xport_close(struct tagrv_xport *xport)
{
	/* Its owner may have set xport->list to NULL. */
	if (xport == &fake.base && fake.list) {
		fake.list->base.ops->close(&fake.list->base);
		fake.list = NULL;
	}
	xport->list = NULL;
	if (xport == &fake.base || xport == &fake.local)
		xport->sink = NULL;
	else
		free(xport);
}

struct tagrv_link *fake_link_on(struct tagrv_xport *xport)
{
	struct fake_link *link = calloc(1, sizeof(*link));

	link->base.xport = xport;
	link->base.get_max = xport->attr.get_max;
	link->base.put_max = xport->attr.put_max;
	if (xport == &fake.base) {
		link->base.number = fake.number;
		link->base.given = fake.given;
	}
	fake.links++;
	return &link->base;
}

struct tagrv_link *fake_link(void)
{
	return fake_link_on(&fake.base);
}

struct tagrv_link *fake_local_link(void)
{
	return fake_link_on(&fake.local);
}

static int fake_link_create(struct tagrv_xport *xport, void *blob, size_t *len,
			    struct tagrv_link **link)
{
	*link = fake_link_on(xport);
	memset(blob, 0, 4);
	*len = 4;
	return 0;
}

static int fake_side_create(struct tagrv_xport *xport, void *blob, size_t *len,
			    struct tagrv_link **link)
{
	if (fake.side_error)
		return fake.side_error;
	fake_link_create(xport, blob, len, link);
	fake.side = *link;
	return 0;
}

static int fake_link_bind(struct tagrv_link *link, const void *blob, size_t len)
{
	(void) link;
	(void) blob;
	return len == 4 ? 0 : -FI_EINVAL;
}

static void fake_link_discard(struct tagrv_link *link)
{
	if (link->xport->list)
		fake_list_forget_link(fake.list, link);
	fake.links--;
	free(fake_link_of(link));
}

static int fake_link_attach(struct tagrv_link *link, void *ctx)
{
	fake_link_of(link)->attached = true;
	link->ctx = ctx;
	return 0;
}

/* As the peer's device would do. With fake.still, nobody has such memory. */
static void change(const struct fake_record *r)
{
	uint64_t *at = (uint64_t *) (uintptr_t) r->raddr, former = fake.still ? 0 : *at;

	if (!fake.still && (!r->change.swaps || former == r->change.compare))
		*at = r->change.swaps ? r->change.operand : former + r->change.operand;
	*(uint64_t *) r->addr = former;
}

static void complete(struct fake_record *r, int status)
{
	if (r->ended)
		return;
	r->ended = true;
	if (r->kind == FAKE_GET && !status && fake.still)
		memset(r->addr, '?', r->len);
	else if (r->kind == FAKE_GET && !status)
		memcpy(r->addr, (void *) (uintptr_t) r->raddr, r->len);
	if (r->kind == FAKE_PUT && !status && !fake.still)
		memcpy((void *) (uintptr_t) r->raddr, r->data ? (void *) r->data : r->addr,
		       r->len);
	if (r->kind == FAKE_ATOMIC && !status)
		change(r);
	if (r->done)
		r->done->fn(r->done, status);
}

static int fake_link_resume(struct tagrv_link *link, struct tagrv_link *fresh)
{
	(void) link;
	if (fake.resume_error)
		return fake.resume_error;
	fake.resumes++;
	fake_link_discard(fresh);
	return 0;
}

static void fake_link_unrenewed(struct tagrv_link *link)
{
	(void) link;
	fake.unrenewed++;
}

static void end_link(struct tagrv_link *link)
{
	struct tagrv_sink *sink = link->xport->sink;
	void *ctx = link->ctx;

	for (size_t i = 0; i < fake.log_cnt; i++)
		if (fake.log[i].link == link)
			complete(&fake.log[i], -FI_ECANCELED);
	if (link->xport->list)
		fake_list_end_link(fake.list, link);
	fake_link_discard(link);
	sink->link_closed(sink, ctx);
}

/* As the contract says, what is outstanding ends later, and so does the link. */
static void fake_link_close(struct tagrv_link *link)
{
	fake_link_of(link)->broken = true;
	fake_link_of(link)->closing = true;
	fake.regs_at_close = fake.regs;
	if (fake.closing_cnt == FAKE_CLOSING_MAX)
		abort();
	fake.closing[fake.closing_cnt++] = link;
}

void fake_end_closed(void)
{
	while (fake.closing_cnt && !fake.hold_closed)
		end_link(fake.closing[--fake.closing_cnt]);
}

void fake_close_held(void)
{
	fake.hold_closed = false;
	fake_end_closed();
}

static struct fake_record *record(struct tagrv_link *link, enum fake_kind kind,
				  struct tagrv_done *done)
{
	struct fake_record *r = &fake.log[fake.log_cnt++];

	if (fake.log_cnt > FAKE_LOG_MAX)
		abort();
	*r = (struct fake_record) {
		.kind = kind, .link = link, .done = done,
		.watched = fake.watch ? *fake.watch : 0,
	};
	return r;
}

static int refused(struct tagrv_link *link)
{
	if (fake.dies) {
		fake.dies = false;
		link->xport->sink->link_error(link->xport->sink, link->ctx,
					      -FI_ECONNRESET);
	}
	if (fake_link_of(link)->broken)
		return -FI_ENOTCONN;
	if (fake.refuse_all || (fake.log_max && fake.log_cnt >= fake.log_max))
		return -FI_EAGAIN;
	if (!fake.refuse)
		return 0;
	fake.refuse--;
	return -FI_EAGAIN;
}

/* What the peer's list would look at must be a tagged message. */
static void check_words(const struct tagrv_link *link, const struct fake_record *r)
{
	uint64_t tag;

	if (r->len < TAG_LIST_TMH || r->data[0] != TAG_LIST_OP_EAGER)
		abort();
	memcpy(&tag, r->data + 8, sizeof(tag));
	if (!link->number ||
	    (be64toh(tag) >> TAGRV_OFFLOAD_TAG_BITS & TAGRV_OFFLOAD_SOURCES) != link->number)
		abort();
}

static int fake_send(struct tagrv_link *link, const struct iovec *iov,
		     size_t cnt, unsigned flags, struct tagrv_done *done)
{
	struct fake_record *r;
	int ret = refused(link);

	if (!ret && flags & TAGRV_SEND_CTRL)
		ret = fake.ctrl_error;
	if (ret)
		return ret;
	r = record(link, FAKE_SEND, done);
	r->flags = flags;
	r->data = malloc(FAKE_PACKET_MAX);
	for (size_t i = 0; i < cnt; i++) {
		if (r->len + iov[i].iov_len > FAKE_PACKET_MAX)
			abort();
		if (iov[i].iov_len)
			memcpy(r->data + r->len, iov[i].iov_base,
			       iov[i].iov_len);
		r->len += iov[i].iov_len;
	}
	if (flags & TAGRV_SEND_TAGGED)
		check_words(link, r);
	return 0;
}

/* With attr.max_short only, which is 0 unless a test sets it. */
static int fake_send_short(struct tagrv_link *link, const uint64_t hdr[TAGRV_SHORT_WORDS],
			   const void *payload, size_t len)
{
	const struct iovec iov[2] = {
		{ (void *) (uintptr_t) hdr, TAGRV_SHORT_HDR },
		{ (void *) (uintptr_t) payload, len },
	};

	if (!link->xport->attr.max_short || link->number)
		return -FI_EAGAIN;
	return fake_send(link, iov, 2, 0, NULL);
}

/* Keeps references: the payload is read at completion, as a device may do. */
static int fake_send_prepared(struct tagrv_link *link, const void *hdr,
			      size_t hdr_len, const struct iovec *iov,
			      struct tagrv_mem *const *mem, size_t cnt,
			      struct tagrv_done *done)
{
	struct iovec all[TAGRV_IOV_MAX + 1] = {
		{ (void *) (uintptr_t) hdr, hdr_len },
	};
	int ret;

	for (size_t i = 0; i < cnt; i++) {
		const char *addr = iov[i].iov_base;

		all[i + 1] = iov[i];
		if (iov[i].iov_len &&
		    (addr < (char *) mem[i]->addr ||
		     addr + iov[i].iov_len > (char *) mem[i]->addr +
					     mem[i]->len))
			abort();
	}
	ret = fake_send(link, all, cnt + 1, link->number ? TAGRV_SEND_TAGGED : 0, done);
	if (!ret)
		fake.log[fake.log_cnt - 1].kind = FAKE_PREPARED;
	return ret;
}

static int fake_rdma(struct tagrv_link *link, enum fake_kind kind, void *addr,
		     struct tagrv_mem *mem, uint64_t raddr, size_t len,
		     struct tagrv_done *done)
{
	struct fake_record *r;
	int ret = refused(link);

	if (ret)
		return ret;
	if (mem ? (char *) addr < (char *) mem->addr ||
		  (char *) addr + len > (char *) mem->addr + mem->len :
		  kind != FAKE_PUT || len > link->xport->attr.max_inline)
		abort();
	r = record(link, kind, done);
	if (!mem) {
		r->data = malloc(FAKE_PACKET_MAX);
		memcpy(r->data, addr, len);
	}
	r->addr = addr;
	r->raddr = raddr;
	r->len = len;
	return 0;
}

static int fake_get(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
		    uint64_t raddr, const void *key, size_t key_len, size_t len,
		    struct tagrv_done *done)
{
	(void) key;
	(void) key_len;
	return fake.get_error ? fake.get_error :
	       fake_rdma(link, FAKE_GET, addr, mem, raddr, len, done);
}

static int fake_put(struct tagrv_link *link, const void *addr,
		    struct tagrv_mem *mem, uint64_t raddr, const void *key,
		    size_t key_len, size_t len, struct tagrv_done *done)
{
	(void) key;
	(void) key_len;
	return fake_rdma(link, FAKE_PUT, (void *) (uintptr_t) addr, mem, raddr,
			 len, done);
}

static int fake_atomic(struct tagrv_link *link, const struct tagrv_xport_change *change,
		       uint64_t raddr, const void *key, size_t key_len,
		       uint64_t *former, struct tagrv_done *done)
{
	struct fake_record *r;
	int ret = refused(link);

	(void) key;
	(void) key_len;
	if (ret)
		return ret;
	r = record(link, FAKE_ATOMIC, done);
	r->change = *change;
	r->addr = former;
	r->raddr = raddr;
	r->len = sizeof(*former);
	return 0;
}

static int fake_nothing(struct tagrv_xport *xport)
{
	(void) xport;
	return 0;
}

static int fake_arm(struct tagrv_xport *xport)
{
	fake.local_arms += xport->dev == &fake.local_dev;
	return 0;
}

static void fake_flush(struct tagrv_xport *xport)
{
	(void) xport;
}

static size_t fake_outstanding(struct tagrv_xport *xport)
{
	(void) xport;
	return fake.outstanding;
}

static int fake_wait_fd(struct tagrv_xport *xport)
{
	(void) xport;
	return -1;
}

static int fake_progress(struct tagrv_xport *xport)
{
	struct fake_packet first = fake.queue[0];
	int events = fake.events;

	fake_end_closed();
	if (xport->dev == &fake.local_dev) {
		fake.local_polls++;
		return 0;
	}
	fake.polls++;
	for (size_t i = 0; fake.ends_gets && i < fake.log_cnt; i++)
		if (fake.log[i].kind == FAKE_GET && !fake.log[i].ended)
			complete(&fake.log[i], 0);
	if (xport->list && xport->list->sink)
		events += xport->list->ops->progress(xport->list);
	if (!fake.queue_cnt || first.link->xport != xport)
		return events;
	memmove(fake.queue, fake.queue + 1,
		--fake.queue_cnt * sizeof(fake.queue[0]));
	fake_deliver(first.link, first.data, first.len);
	return 1;
}

static int fake_drain(void *link)
{
	(void) link;
	fake.drains++;
	return 0;
}

static void fake_publish(struct tagrv_link *link)
{
	(void) link;
	fake.publishes++;
}

static void fake_check(struct tagrv_link *link, bool awaited)
{
	(void) link;
	fake.checks++;
	fake.awaited += awaited;
}

static const struct tagrv_xport_ops fake_ops = {
	.name = "fake",
	.wire_id = 250,
	.dev_close = fake_dev_close,
	.dev_event_fd = fake_dev_event_fd,
	.mem_reg = fake_mem_reg,
	.mem_dereg = fake_mem_dereg,
	.mem_key = fake_mem_key,
	.xport_open = fake_xport_open,
	.xport_close = fake_xport_close,
	.link_create = fake_link_create,
	.link_bind = fake_link_bind,
	.link_discard = fake_link_discard,
	.side_create = fake_side_create,
	.link_attach = fake_link_attach,
	.link_close = fake_link_close,
	.link_resume = fake_link_resume,
	.link_unrenewed = fake_link_unrenewed,
	.blobs_near = tagrv_stub_blobs_near,
	.send = fake_send,
	.send_short = fake_send_short,
	.send_tagged = tagrv_stub_send_tagged,
	.drain = fake_drain,
	.publish = fake_publish,
	.send_prepared = fake_send_prepared,
	.get = fake_get,
	.put = fake_put,
	.atomic = fake_atomic,
	.progress = fake_progress,
	.reap = fake_nothing,
	.flush = fake_flush,
	.check = fake_check,
	.outstanding = fake_outstanding,
	.wait_fd = fake_wait_fd,
	.arm = fake_arm,
};

struct tagrv_device *fake_device(void)
{
	fake_forget();
	memset(&fake, 0, sizeof(fake));
	fake.dev.ops = &fake_ops;
	strcpy(fake.dev.name, "fake");
	return &fake.dev;
}

struct tagrv_device *fake_local_device(void)
{
	fake.local_dev.ops = &fake_ops;
	strcpy(fake.local_dev.name, "fake-local");
	return &fake.local_dev;
}

void fake_deliver(struct tagrv_link *link, const void *data, size_t len)
{
	static char without_memory[FAKE_PACKET_MAX];
	/* A copy of exactly this size, so that sanitizers find reads beyond its end. */
	void *copy = malloc(len ? len : 1);
	void *packet = copy ? copy : without_memory;

	if (!copy && len > sizeof(without_memory))
		abort();
	memcpy(packet, data, len);
	link->xport->sink->packet(link->xport->sink, link->ctx, packet, len);
	free(copy);
	fake_end_closed();
}

void fake_queue(struct tagrv_link *link, const void *data, size_t len)
{
	struct fake_packet *packet = &fake.queue[fake.queue_cnt++];

	if (fake.queue_cnt > FAKE_QUEUE_MAX || len > sizeof(packet->data))
		abort();
	packet->link = link;
	packet->len = len;
	memcpy(packet->data, data, len);
}

void fake_listed(struct tagrv_link *link, uint64_t tag, uint32_t app, const void *bytes,
		 size_t len)
{
	fake_list_message(fake.list, link, tag | (uint64_t) link->given << TAGRV_OFFLOAD_TAG_BITS,
			  app, bytes, len);
}

void fake_complete(size_t i, int status)
{
	complete(&fake.log[i], status);
	fake_end_closed();
}

void fake_complete_all(int status)
{
	for (size_t i = 0; i < fake.log_cnt; i++)
		fake_complete(i, status);
}

void fake_break_link(struct tagrv_link *link, int status)
{
	fake_link_of(link)->broken = true;
	link->xport->sink->link_error(link->xport->sink, link->ctx, status);
	fake_end_closed();
}

void fake_ask_renewal(struct tagrv_link *link, bool down)
{
	struct tagrv_sink *sink = link->xport->sink;

	sink->link_renew(sink, link->ctx, down);
}

void fake_forget(void)
{
	for (size_t i = 0; i < fake.log_cnt && i < FAKE_LOG_MAX; i++)
		free(fake.log[i].data);
	fake.log_cnt = 0;
}
