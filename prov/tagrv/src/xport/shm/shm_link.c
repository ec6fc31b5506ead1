/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Life of a link.
 *
 *   create --> bind --> attach --> [fail -> link_error] --> close --> freed
 *     |          |                                            |
 *     |          own ring exists, handover was sent           SHM_CLOSED is set
 *     id, nonce and bit of the bell are assigned              in the own ring
 *
 * The peer of a closed link finds SHM_CLOSED with its next send, or at once if
 * something of it waits for us. A close need not drain anything: packets sent are
 * in the peer's memory already and remain there.
 *
 * If a link failed because its peer is gone, link_error is reported after all
 * entries of the peer are delivered.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/random.h"
#include "xport/shm/shm_priv.h"

/* ---- create ---- */

/* Allocates a bit of the bell; -1: there are too many links. */
static int alloc_bit_locked(struct shm_xport *xp)
{
	for (unsigned i = 0; i < SHM_BELL_WORDS; i++) {
		unsigned bit;

		if (!~xp->used[i])
			continue;
		bit = (unsigned) __builtin_ctzll(~xp->used[i]);
		xp->used[i] |= 1ull << bit;
		return (int) (i * 64 + bit);
	}
	return -1;
}

/* 0 or -FI_E*. */
static int init(struct shm_link *link, struct shm_xport *xp)
{
	*link = (struct shm_link) {
		.base.xport = &xp->base, .base.gate = &link->tx.gate,
		.base.intake = &link->rx.in,
		.hot_at = -1, .ring_fd = -1,
		.base.watch_at = TAGRV_WATCH_OFF,
		.peer_wake_fd = -1, .peer_pidfd = -1,
	};
	tagrv_list_init(&link->dev_node);
	tagrv_list_init(&link->push_node);
	tagrv_list_init(&link->starved_node);
	tagrv_list_init(&link->refused_node);
	tagrv_list_init(&link->failed_node);
	tagrv_list_init(&link->closing_node);
	tagrv_list_init(&link->serve_node);
	tagrv_list_init(&link->put_node);
	tagrv_list_init(&link->wait_node);
	tagrv_list_init(&link->help_node);
	for (unsigned i = 0; i < SHM_GETS; i++)
		tagrv_list_init(&link->gets[i].node);
	return tagrv_random_fill(&link->nonce, sizeof(link->nonce));
}

/* Assigns bit and id, and adds the link to dev->links. 0 or -FI_ENOSPC. */
static int register_link(struct shm_device *dev, struct shm_xport *xp,
			 struct shm_link *link)
{
	int bit;

	pthread_mutex_lock(&dev->mutex);
	bit = alloc_bit_locked(xp);
	if (bit >= 0) {
		link->own_bit = (uint32_t) bit;
		link->id = ++dev->next_id;
		tagrv_list_push_tail(&dev->links, &link->dev_node);
	}
	pthread_mutex_unlock(&dev->mutex);
	return bit < 0 ? -FI_ENOSPC : 0;
}

static void fill_blob(const struct shm_device *dev, const struct shm_link *link,
		      struct shm_blob *blob)
{
	*blob = (struct shm_blob) {
		.uid = geteuid(), .id = link->id, .nonce = link->nonce,
	};
	memcpy(blob->name, dev->name, sizeof(blob->name));
	tagrv_shm_host_id(blob->host);
}

int tagrv_shm_link_create(struct tagrv_xport *xport, void *to, size_t *len,
			  struct tagrv_link **link)
{
	struct shm_device *dev = shm_device_of(xport->dev);
	struct shm_link *l = aligned_alloc(TAGRV_CACHE_LINE, sizeof(*l));
	struct shm_blob blob;
	int ret;

	if (!l)
		return -FI_ENOMEM;
	ret = init(l, shm_xport_of(xport));
	if (!ret)
		ret = register_link(dev, shm_xport_of(xport), l);
	if (ret) {
		free(l);
		return ret;
	}
	fill_blob(dev, l, &blob);
	*len = tagrv_shm_blob_pack(&blob, to);
	*link = &l->base;
	return 0;
}

/* ---- bind ---- */

static int create_ring(struct shm_link *link)
{
	struct shm_xport *xp = shm_xport_of_link(link);
	uint32_t slots = shm_slots_of(xp->ring_size);
	void *ring;
	int ret;

	ret = tagrv_shm_region_create("tagrv-ring", xp->ring_size,
				      &link->ring_fd, &ring);
	if (ret) {
		tagrv_warn("shm: no memory for a ring of %zu bytes: %s\n",
			   xp->ring_size, strerror(-ret));
		return ret;
	}
	link->rx.hdr = ring;
	link->rx.in.slots = (char *) ring + sizeof(struct shm_header);
	link->rx.in.mask = slots - 1;
	link->rx.in.shift = (uint32_t) __builtin_ctz(slots);
	link->rx.in.due = slots / 4;
	link->rx.in.end = link->rx.in.slots + (size_t) slots * SHM_STRIDE;
	link->rx.in.arena = link->rx.in.end;
	link->rx.in.arena_size = shm_arena_of(xp->ring_size);
	link->rx.in.pass_due = link->rx.in.arena_size / 4;
	link->rx.in.longest = TAGRV_MIN((uint32_t) xp->base.attr.max_packet -
					TAGRV_SHORT_HDR,
					link->rx.in.arena_size / 2);
	link->rx.hdr->constants = (struct shm_constants) {
		.magic = SHM_MAGIC, .version = SHM_VERSION, .slots = slots,
		.arena = link->rx.in.arena_size,
		.max_packet = (uint32_t) xp->base.attr.max_packet,
	};
	return 0;
}

static int check_blob(const struct shm_device *dev, const struct shm_link *link,
		      const struct shm_blob *peer)
{
	struct shm_blob own;

	fill_blob(dev, link, &own);
	if (memcmp(own.host, peer->host, sizeof(own.host)) ||
	    own.uid != peer->uid)
		return -FI_EHOSTUNREACH;
	return 0;
}

int tagrv_shm_link_bind(struct tagrv_link *base, const void *from, size_t len)
{
	struct shm_link *link = shm_link_of(base);
	struct shm_device *dev = shm_device_of(base->xport->dev);
	int ret = tagrv_shm_blob_unpack(&link->peer, from, len);

	if (!ret)
		ret = check_blob(dev, link, &link->peer);
	if (!ret)
		ret = create_ring(link);
	if (ret)
		return ret;
	pthread_mutex_lock(&dev->mutex);
	ret = tagrv_shm_push_locked(dev, link);
	pthread_mutex_unlock(&dev->mutex);
	link->bound = !ret;
	base->get_max = base->xport->attr.get_max;
	base->put_max = base->xport->attr.put_max;
	return ret;
}

/* ---- attach ---- */

static void watch_bell(struct shm_xport *xp)
{
	tagrv_watch_add(xp->base.sink->watch, NULL, xp, &xp->watch_at);
	tagrv_watch_move(xp->base.sink->watch, xp->watch_at,
			 &xp->bell->summary, 0);
}

int tagrv_shm_link_attach(struct tagrv_link *base, void *ctx)
{
	struct shm_link *link = shm_link_of(base);
	struct shm_xport *xp = shm_xport_of_link(link);

	base->ctx = ctx;
	if (!link->bound)
		return -FI_ENOTCONN;
	link->attached = true;
	link->rx_open = true;
	xp->links[link->own_bit] = link;
	/* Here, because opening does not hold the domain lock. */
	if (xp->watch_at == TAGRV_WATCH_OFF)
		watch_bell(xp);
	/* The bit that earlier entries set was handled without a link. */
	tagrv_shm_ring_own_bell(link);
	return 0;
}

/* ---- fail ---- */

void tagrv_shm_link_fail(struct shm_link *link, int status)
{
	struct shm_xport *xp = shm_xport_of_link(link);

	if (link->status)
		return;
	link->status = status;
	tagrv_shm_tx_shut(link);
	tagrv_list_push_tail(&xp->failed, &link->failed_node);
	tagrv_shm_set_slow(xp);
	tagrv_shm_wake_if_armed(xp);
}

/* No entry is taken from here on, neither here nor by the owner of the intake. */
static void shut_rx(struct shm_link *link)
{
	link->rx_open = false;
	tagrv_watch_remove(link->base.xport->sink->watch, &link->base.watch_at);
}

void tagrv_shm_link_corrupt(struct shm_link *link, const char *what)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	shm_xport_of_link(link)->errors++;
	if (!atomic_flag_test_and_set(&warned))
		tagrv_warn("shm: process %d wrote an invalid %s into a ring: "
			   "connection closed\n", link->peer_pid, what);
	link->corrupt = true;
	shut_rx(link);
	tagrv_shm_link_fail(link, -FI_EREMOTEIO);
}

/* Closes both ends and removes the link from all lists of work. */
static void stop(struct shm_link *link)
{
	shut_rx(link);
	tagrv_shm_tx_shut(link);
	tagrv_shm_cool(link);
	tagrv_list_remove(&link->starved_node);
	tagrv_list_remove(&link->refused_node);
	tagrv_list_remove(&link->serve_node);
	tagrv_list_remove(&link->put_node);
	tagrv_list_remove(&link->wait_node);
	tagrv_list_remove(&link->help_node);
}

static unsigned report_link(struct shm_link *link)
{
	struct shm_xport *xp = shm_xport_of_link(link);

	tagrv_list_remove(&link->failed_node);
	stop(link);
	link->reported = true;
	xp->base.sink->link_error(xp->base.sink, link->base.ctx, link->status);
	return 1 + tagrv_shm_gets_end(link, link->status) +
	       tagrv_shm_puts_end(link, link->status);
}

/* Whether the ring has no entry to deliver; delivers some if 'deliver'. */
static bool is_drained(struct shm_link *link, bool deliver, unsigned *events)
{
	if (!link->rx_open || !shm_rx_has(&link->rx))
		return true;
	if (deliver)
		*events += tagrv_shm_drain(link);
	return !link->rx_open || !shm_rx_has(&link->rx);
}

unsigned tagrv_shm_report(struct shm_xport *xp, bool deliver)
{
	struct tagrv_list *pos, *tmp;
	unsigned events = 0;

	if (xp->reporting)
		return 0;
	xp->reporting = true;
	tagrv_list_for_each_safe(&xp->failed, pos, tmp) {
		struct shm_link *link =
			tagrv_container_of(pos, struct shm_link, failed_node);

		if (!link->closing && is_drained(link, deliver, &events))
			events += report_link(link);
		else if (link->closing)
			tagrv_list_remove(&link->failed_node);
	}
	xp->reporting = false;
	return events;
}

/* ---- close ---- */

/* Tells the peer that this side reads its ring no more. */
static void mark_closed(struct shm_link *link)
{
	if (!link->rx.hdr)
		return;
	atomic_store(&link->rx.hdr->cons.state, SHM_CLOSED);
	tagrv_shm_notify(link);
}

void tagrv_shm_link_close(struct tagrv_link *base)
{
	struct shm_link *link = shm_link_of(base);
	struct shm_xport *xp = shm_xport_of_link(link);

	if (link->closing)
		return;
	link->closing = true;
	shut_rx(link);
	tagrv_shm_tx_shut(link);
	/* Before the peer can know: it does not wait for a part of a get then. */
	tagrv_list_remove(&link->help_node);
	if (!atomic_load(&link->tx_ready))
		tagrv_shm_pull(shm_device_of(base->xport->dev));
	mark_closed(link);
	tagrv_list_push_tail(&xp->closing, &link->closing_node);
	tagrv_shm_set_slow(xp);
	tagrv_shm_wake_if_armed(xp);
}

static void unregister_link(struct shm_device *dev, struct shm_link *link)
{
	struct shm_xport *xp = shm_xport_of_link(link);

	pthread_mutex_lock(&dev->mutex);
	tagrv_list_remove(&link->dev_node);
	if (tagrv_list_linked(&link->push_node)) {
		tagrv_list_remove(&link->push_node);
		atomic_fetch_sub(&dev->unpushed_cnt, 1);
	}
	xp->used[link->own_bit / 64] &= ~(1ull << link->own_bit % 64);
	pthread_mutex_unlock(&dev->mutex);
}

/* After unregister_link() the wireup thread cannot find the link any more. */
static void destroy(struct shm_link *link)
{
	unregister_link(shm_device_of(link->base.xport->dev), link);
	if (link->rx.hdr)
		tagrv_shm_region_unmap(link->rx.hdr,
				       shm_region_of(link->rx.in.mask + 1));
	if (link->tx.hdr)
		tagrv_shm_region_unmap(link->tx.hdr,
				       shm_region_of(link->tx.mask + 1));
	tagrv_shm_region_unmap(link->peer_bell, SHM_BELL_SIZE);
	if (link->ring_fd >= 0)
		close(link->ring_fd);
	if (link->peer_wake_fd >= 0)
		close(link->peer_wake_fd);
	if (link->peer_pidfd >= 0)
		tagrv_shm_unwatch(shm_device_of(link->base.xport->dev),
				  link->peer_pidfd);
	free(link);
}

void tagrv_shm_link_discard(struct tagrv_link *base)
{
	mark_closed(shm_link_of(base));
	destroy(shm_link_of(base));
}

unsigned tagrv_shm_links_finish(struct shm_xport *xp)
{
	struct tagrv_list *pos, *tmp;
	unsigned events = 0;

	tagrv_list_for_each_safe(&xp->closing, pos, tmp) {
		struct shm_link *link =
			tagrv_container_of(pos, struct shm_link, closing_node);
		void *ctx = link->base.ctx;

		events += tagrv_shm_gets_end(link, -FI_ECANCELED);
		events += tagrv_shm_puts_end(link, -FI_ECANCELED);
		if (link->queued)
			continue;
		stop(link);
		tagrv_list_remove(&link->failed_node);
		tagrv_list_remove(&link->closing_node);
		xp->links[link->own_bit] = NULL;
		destroy(link);
		xp->base.sink->link_closed(xp->base.sink, ctx);
		events++;
	}
	return events;
}
