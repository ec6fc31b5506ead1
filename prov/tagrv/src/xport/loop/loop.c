/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages of an endpoint to itself: the smallest transport of the plug-in. Read
 * it beside xport.h. The device and its memory are in loop_dev.c.
 *
 * A send copies its packet into a ring of fixed slots. Progress delivers it, so
 * a receiver never runs inside its own sender:
 *
 *        head              sent               tail
 *   ------+------------------+------------------+------
 *    free | sent, the packet | done callback    | free
 *         | waits for        | not run yet      |
 *         | progress         |                  |
 *
 *   send      fills the slot at 'tail'
 *   reap      runs done callbacks from 'sent' on: the ring is the peer's device
 *   progress  reaps, then hands packets from 'head' on to the sink
 *
 * Gets and puts are memcpys. Progress makes them in pieces, so that a large one
 * does not hold up packets. The remote memory must be registered: its key is
 * looked up for every piece, as an adapter does for every packet.
 *
 * A link is bound to its own blob, and an xport may have several links.
 */
#include "xport/loop/loop_priv.h"

#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/iov.h"
#include "xport/stubs.h"

#define MAX_SLOTS	256u		/* packets queued */
#define MAX_BYTES	(4u << 20)	/* bytes of all slots together */
#define CTRL_SLOTS	16u		/* slots kept back for control packets */
#define GET_SLOTS	64u		/* gets and puts queued, of all links */
#define GET_PIECE	(256u << 10)	/* bytes of a get or put per progress */
#define BLOB_LEN	16u

struct loop_link {
	struct tagrv_link base;
	struct tagrv_list node;		/* in xport->closing */
	uint64_t id;
	unsigned queued;		/* slots, gets and puts of this link */
	unsigned gets;			/* gets and puts of this link */
	bool	bound;
	bool	closing;
};

/* One queued packet; its bytes are in xport->data at the same index. */
struct slot {
	struct loop_link *link;
	struct tagrv_done *done;
	size_t	len;
};

struct get {
	struct loop_link *link;
	struct tagrv_done *done;
	bool	put;
	void	*addr;
	uint64_t raddr;
	uint64_t key;
	size_t	len;
	size_t	copied;
};

/* Indices run freely and are masked on use. */
struct loop_xport {
	struct tagrv_xport base;
	struct slot *slots;
	char	*data;			/* slot_cnt packets of max_packet */
	uint32_t slot_cnt;		/* a power of two */
	uint32_t head, sent, tail;
	struct get gets[GET_SLOTS];
	uint32_t get_head, get_tail;
	struct tagrv_list closing;
	struct loop_bell bell;
	pthread_mutex_t mutex;		/* guards next_id */
	uint64_t next_id;
	bool	starved;		/* returned -FI_EAGAIN: room is due */
	bool	reaping;		/* a done callback is running */
};

/* ---- endpoint ---- */

static struct loop_xport *to_xport(struct tagrv_xport *xport)
{
	return tagrv_container_of(xport, struct loop_xport, base);
}

static struct loop_link *to_link(struct tagrv_link *link)
{
	return tagrv_container_of(link, struct loop_link, base);
}

static struct tagrv_xport_attr attr_of(const struct tagrv_params *params)
{
	size_t max_packet = params->eager_max + TAGRV_HDR_ROOM;

	return (struct tagrv_xport_attr) {
		.caps = TAGRV_XPORT_GET | TAGRV_XPORT_PUT,
		.admits = TAGRV_MEM_REMOTE,
		.max_inline = max_packet,
		.max_packet = max_packet,
		.get_max = 1 << 30,
		.get_depth = TAGRV_MIN(params->read_depth, (size_t) GET_SLOTS),
		.get_least = SIZE_MAX,
		.put_max = 1 << 30,
		.put_depth = TAGRV_MIN(params->read_depth, (size_t) GET_SLOTS),
		.latency = 0.1e-6,
		.bandwidth = 8e9,
		.copy_bandwidth = 8e9,
		.overhead = 0.05e-6,
		.reg_overhead = 0.05e-6,
		.reg_growth = 0,
		.reg_piece = params->read_segment,
		.source = "declared",
	};
}

static int xport_open(struct tagrv_device *dev,
		      const struct tagrv_params *params,
		      struct tagrv_sink *sink, struct tagrv_xport **xport)
{
	struct loop_xport *xp = calloc(1, sizeof(*xp));
	int ret;

	if (!xp)
		return -FI_ENOMEM;
	xp->base.ops = &tagrv_loop_ops;
	xp->base.dev = dev;
	xp->base.sink = sink;
	xp->base.attr = attr_of(params);
	xp->slot_cnt = MAX_SLOTS;
	while (xp->slot_cnt > 2 * CTRL_SLOTS &&
	       xp->slot_cnt * xp->base.attr.max_packet > MAX_BYTES)
		xp->slot_cnt /= 2;
	tagrv_list_init(&xp->closing);
	pthread_mutex_init(&xp->mutex, NULL);
	xp->slots = calloc(xp->slot_cnt, sizeof(*xp->slots));
	xp->data = malloc(xp->slot_cnt * xp->base.attr.max_packet);
	ret = tagrv_loop_bell_open(&xp->bell);
	if (ret || !xp->slots || !xp->data) {
		tagrv_loop_ops.xport_close(&xp->base);
		return ret ? ret : -FI_ENOMEM;
	}
	*xport = &xp->base;
	return 0;
}

static void xport_close(struct tagrv_xport *xport)
{
	struct loop_xport *xp = to_xport(xport);

	while (!tagrv_list_empty(&xp->closing))
		tagrv_loop_ops.progress(xport);
	pthread_mutex_destroy(&xp->mutex);
	tagrv_loop_bell_close(&xp->bell);
	free(xp->slots);
	free(xp->data);
	free(xp);
}

/* ---- links ---- */

/* A blob names the xport and the link: link_bind accepts no other blob. */
static void blob_of(const struct loop_link *link, uint8_t blob[BLOB_LEN])
{
	uint64_t xport = (uintptr_t) link->base.xport;

	memcpy(blob, &xport, sizeof(xport));
	memcpy(blob + 8, &link->id, sizeof(link->id));
}

static int link_create(struct tagrv_xport *xport, void *blob, size_t *len,
		       struct tagrv_link **link)
{
	struct loop_xport *xp = to_xport(xport);
	struct loop_link *l = calloc(1, sizeof(*l));

	if (!l)
		return -FI_ENOMEM;
	l->base.xport = xport;
	tagrv_list_init(&l->node);
	pthread_mutex_lock(&xp->mutex);
	l->id = ++xp->next_id;
	pthread_mutex_unlock(&xp->mutex);
	blob_of(l, blob);
	*len = BLOB_LEN;
	*link = &l->base;
	return 0;
}

static int link_bind(struct tagrv_link *link, const void *blob, size_t len)
{
	uint8_t own[BLOB_LEN];

	blob_of(to_link(link), own);
	if (len != sizeof(own) || memcmp(own, blob, sizeof(own)))
		return -FI_EINVAL;
	to_link(link)->bound = true;
	link->get_max = link->xport->attr.get_max;
	link->put_max = link->xport->attr.put_max;
	return 0;
}

static void link_discard(struct tagrv_link *link)
{
	free(to_link(link));
}

static int link_attach(struct tagrv_link *link, void *ctx)
{
	link->ctx = ctx;
	return to_link(link)->bound ? 0 : -FI_ENOTCONN;
}

/* Progress cancels what the link has queued, and frees the link after that. */
static void link_close(struct tagrv_link *link)
{
	struct loop_link *l = to_link(link);

	if (l->closing)
		return;
	l->closing = true;
	tagrv_list_push_tail(&to_xport(link->xport)->closing, &l->node);
	tagrv_loop_bell_ring(&to_xport(link->xport)->bell);
}

static unsigned bury(struct loop_xport *xp)
{
	struct tagrv_list *pos, *tmp;
	unsigned events = 0;

	tagrv_list_for_each_safe(&xp->closing, pos, tmp) {
		struct loop_link *link =
			tagrv_container_of(pos, struct loop_link, node);
		void *ctx = link->base.ctx;

		if (link->queued)
			continue;
		tagrv_list_remove(pos);
		free(link);
		xp->base.sink->link_closed(xp->base.sink, ctx);
		events++;
	}
	return events;
}

/* ---- data path ---- */

static struct slot *slot_at(struct loop_xport *xp, uint32_t i)
{
	return &xp->slots[i & (xp->slot_cnt - 1)];
}

static char *data_at(struct loop_xport *xp, uint32_t i)
{
	return xp->data + (i & (xp->slot_cnt - 1)) * xp->base.attr.max_packet;
}

static int send_packet(struct tagrv_link *link, const struct iovec *iov,
		       size_t cnt, unsigned flags, struct tagrv_done *done)
{
	struct loop_xport *xp = to_xport(link->xport);
	struct loop_link *l = to_link(link);
	size_t len = tagrv_iov_len(iov, cnt);
	uint32_t room = xp->slot_cnt;

	if (l->closing || !l->bound)
		return -FI_ENOTCONN;
	if (len > xp->base.attr.max_packet)
		return -FI_EMSGSIZE;
	if (!(flags & TAGRV_SEND_CTRL))
		room -= CTRL_SLOTS;
	if (xp->tail - xp->head >= room) {
		xp->starved = true;
		return -FI_EAGAIN;
	}
	*slot_at(xp, xp->tail) = (struct slot) {
		.link = l, .done = done, .len = len,
	};
	tagrv_iov_gather(data_at(xp, xp->tail), iov, cnt);
	l->queued++;
	xp->tail++;
	tagrv_loop_bell_ring(&xp->bell);
	return 0;
}

static int queue_copy(struct tagrv_link *link, bool put, void *addr,
		      struct tagrv_mem *mem, uint64_t raddr, const void *key,
		      size_t key_len, size_t len, struct tagrv_done *done)
{
	struct loop_xport *xp = to_xport(link->xport);
	struct loop_link *l = to_link(link);
	struct get *g = &xp->gets[xp->get_tail % GET_SLOTS];

	if (l->closing || !l->bound)
		return -FI_ENOTCONN;
	if (key_len != sizeof(g->key) || len > xp->base.attr.get_max ||
	    !tagrv_range_within((uintptr_t) addr, len, (uintptr_t) mem->addr,
				mem->len))
		return -FI_EINVAL;
	if (l->gets >= xp->base.attr.get_depth ||
	    xp->get_tail - xp->get_head >= GET_SLOTS) {
		xp->starved = true;
		return -FI_EAGAIN;
	}
	*g = (struct get) {
		.link = l, .done = done, .put = put, .addr = addr,
		.raddr = raddr, .len = len,
	};
	memcpy(&g->key, key, sizeof(g->key));
	l->queued++;
	l->gets++;
	xp->get_tail++;
	tagrv_loop_bell_ring(&xp->bell);
	return 0;
}

static int get(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
	       uint64_t raddr, const void *key, size_t key_len, size_t len,
	       struct tagrv_done *done)
{
	return queue_copy(link, false, addr, mem, raddr, key, key_len, len,
			  done);
}

static int put(struct tagrv_link *link, const void *addr, struct tagrv_mem *mem,
	       uint64_t raddr, const void *key, size_t key_len, size_t len,
	       struct tagrv_done *done)
{
	return queue_copy(link, true, (void *) (uintptr_t) addr, mem, raddr,
			  key, key_len, len, done);
}

/* Runs the done callbacks of every packet that was sent before this call. */
static int reap(struct tagrv_xport *xport)
{
	struct loop_xport *xp = to_xport(xport);
	uint32_t end = xp->tail;
	int events = 0;

	if (xp->reaping)
		return 0;
	xp->reaping = true;
	while (xp->sent != end) {
		struct slot *slot = slot_at(xp, xp->sent++);
		struct tagrv_done *done = slot->done;

		slot->done = NULL;
		if (done) {
			done->fn(done, slot->link->closing ? -FI_ECANCELED : 0);
			events++;
		}
	}
	xp->reaping = false;
	return events;
}

/*
 * Delivers the packets that were queued when the pass began: a receiver that
 * answers every packet must not keep us here.
 */
static unsigned deliver(struct loop_xport *xp)
{
	struct tagrv_sink *sink = xp->base.sink;
	uint32_t end = xp->sent;
	unsigned events = 0;

	while (xp->head != end) {
		struct slot *slot = slot_at(xp, xp->head);
		struct loop_link *link = slot->link;

		if (!link->closing)
			sink->packet(sink, link->base.ctx,
				     data_at(xp, xp->head), slot->len);
		link->queued--;
		xp->head++;	/* the slot is free only after its callback */
		events++;
	}
	return events;
}

/* Copies one piece. 1: more to do; 0: complete; negative: failed. */
static int copy_piece(struct loop_xport *xp, struct get *g)
{
	size_t len = TAGRV_MIN(g->len - g->copied, (size_t) GET_PIECE);
	int ret;

	if (g->link->closing)
		return -FI_ECANCELED;
	ret = tagrv_loop_copy(xp->base.dev, g->put,
			      (char *) g->addr + g->copied, g->key,
			      g->raddr + g->copied, len);
	if (ret)
		return ret;
	g->copied += len;
	return g->copied < g->len;
}

static unsigned copy_gets(struct loop_xport *xp)
{
	uint32_t end = xp->get_tail;
	unsigned events = 0;

	while (xp->get_head != end) {
		struct get *g = &xp->gets[xp->get_head % GET_SLOTS];
		struct tagrv_done *done = g->done;
		int ret = copy_piece(xp, g);

		events++;
		if (ret > 0)
			break;
		g->link->queued--;
		g->link->gets--;
		xp->get_head++;
		if (done)
			done->fn(done, ret);
	}
	return events;
}

static int progress(struct tagrv_xport *xport)
{
	struct loop_xport *xp = to_xport(xport);
	unsigned events = (unsigned) reap(xport);

	events += deliver(xp);
	events += copy_gets(xp);
	if (xp->starved && events) {
		xp->starved = false;
		xport->sink->room(xport->sink);
	}
	if (TAGRV_UNLIKELY(!tagrv_list_empty(&xp->closing)))
		events += bury(xp);
	return (int) events;
}

static size_t outstanding(struct tagrv_xport *xport)
{
	struct loop_xport *xp = to_xport(xport);

	return (xp->tail - xp->sent) + (xp->get_tail - xp->get_head);
}

static int wait_fd(struct tagrv_xport *xport)
{
	return to_xport(xport)->bell.fd;
}

/* Work comes only from our own calls, but these may be another thread's. */
static int arm(struct tagrv_xport *xport)
{
	struct loop_xport *xp = to_xport(xport);

	if (xp->tail != xp->head || xp->get_tail != xp->get_head ||
	    !tagrv_list_empty(&xp->closing))
		return -FI_EAGAIN;
	tagrv_loop_bell_arm(&xp->bell);
	return 0;
}

const struct tagrv_xport_ops tagrv_loop_ops = {
	.name = TAGRV_LOOP_NAME,
	.wire_id = 2,
	.discover = tagrv_loop_discover,
	.dev_open = tagrv_loop_dev_open,
	.dev_close = tagrv_loop_dev_close,
	.dev_event_fd = tagrv_stub_dev_event_fd,
	.dev_event = tagrv_stub_dev_event,
	.mem_reg = tagrv_loop_mem_reg,
	.mem_dereg = tagrv_loop_mem_dereg,
	.mem_key = tagrv_loop_mem_key,
	.xport_open = xport_open,
	.xport_close = xport_close,
	.link_create = link_create,
	.link_bind = link_bind,
	.link_discard = link_discard,
	.side_create = tagrv_stub_side_create,
	.link_attach = link_attach,
	.link_close = link_close,
	.link_resume = tagrv_stub_link_resume,
	.link_unrenewed = tagrv_stub_link_unrenewed,
	.blobs_near = tagrv_stub_blobs_near,
	.send = send_packet,
	.send_short = tagrv_stub_send_short,
	.send_tagged = tagrv_stub_send_tagged,
	.drain = tagrv_stub_drain,
	.publish = tagrv_stub_publish,
	.send_prepared = tagrv_stub_send_prepared,
	.get = get,
	.put = put,
	.atomic = tagrv_stub_atomic,
	.progress = progress,
	.reap = reap,
	.flush = tagrv_stub_flush,
	.check = tagrv_stub_check,
	.outstanding = outstanding,
	.wait_fd = wait_fd,
	.arm = arm,
};
