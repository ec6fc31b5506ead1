/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Carries out a random part of each queue in each pass. A broken link only delivers
 * packets that have already arrived; some time later its end is reported, by the
 * sink or by the wireup.
 */
#include "sim_xport.h"

#include <string.h>

static int rdma_lost(struct sim_link *link, const struct item *item)
{
	if (item->kind == ITEM_PUT && sim.mix.caps & TAGRV_XPORT_PUT_FENCED)
		sim_link_break(link);
	return -FI_EIO;
}

/* Copies the bytes of a get or put; returns its status. */
static int rdma_move(struct sim_link *link, const struct item *item)
{
	struct sim_link *peer = link->peer;
	void *remote = (void *)(uintptr_t)item->raddr;

	if (sim_chance(sim.mix.lossy))
		return rdma_lost(link, item);
	if (!peer || peer->closing) {
		link->broken = true;
		return -FI_ECONNRESET;
	}
	if (!sim_mem_allows(item)) {
		SIM_CHECK(link->broken || link->closing || peer->broken,
			  "a %s of memory that is not registered for it",
			  item->kind == ITEM_GET ? "get" : "put");
		link->broken = true;
		return -FI_EIO;
	}
	if (item->kind == ITEM_GET)
		memcpy(item->addr, remote, item->len);
	else
		memcpy(remote, item->addr, item->len);
	return 0;
}

static void move_rdma(struct sim_link *link, struct item *item)
{
	item->status = rdma_move(link, item);
	sim_queue_push(&link->dones, item);
}

static void move_packet(struct sim_link *link, struct item *item)
{
	size_t rest = tagrv_iov_len(item->iov, item->iov_cnt);
	struct item *packet;

	if (!link->peer || link->peer->closing) {
		link->broken = true;
	} else {
		packet = sim_item_new(item->kind, NULL, item->len + rest);
		packet->meta = item->meta;
		packet->tag = item->tag;
		packet->tag_data = item->tag_data;
		packet->data = sim_alloc(packet->len);
		memcpy(packet->data, item->data, item->len);
		tagrv_iov_gather(packet->data + item->len, item->iov, item->iov_cnt);
		packet->listed = item->listed;
		if (link->peer->base.given) {
			sim_list_arrive(link->peer, packet);
			sim_item_free(packet);
		} else {
			sim_queue_push(&link->peer->in, packet);
		}
	}
	item->status = link->broken ? -FI_ECONNRESET : 0;
	sim_queue_push(&link->dones, item);
}

static void move_out(struct sim_link *link)
{
	struct item *item = sim_queue_take(&link->out, 0);

	if (item->kind == ITEM_PUT)
		move_rdma(link, item);
	else
		move_packet(link, item);
}

static void end_item(struct sim_link *link, struct item *item, int status)
{
	struct tagrv_done *done = item->done;

	link->gets -= item->kind == ITEM_GET;
	link->puts -= item->kind == ITEM_PUT;
	sim_item_free(item);
	if (done)
		done->fn(done, status);
}

static int end_some(struct sim_link *link)
{
	int events = 0;

	for (size_t n = sim_below(8); n && link->dones.cnt && !link->broken; n--, events++) {
		struct item *item = sim_queue_take(&link->dones, 0);

		end_item(link, item, item->status);
	}
	return events;
}

/* Ends all outstanding operations. */
static void flush_link(struct sim_link *link, int status)
{
	struct item *item;

	while ((item = sim_queue_take(&link->dones, 0)))
		end_item(link, item, item->status);
	while ((item = sim_queue_take(&link->out, 0)))
		end_item(link, item, status);
	while ((item = sim_queue_take(&link->rdma, 0)))
		end_item(link, item, status);
}

static int move_some(struct sim_link *link)
{
	int events = end_some(link);

	for (size_t n = sim_below(12); n && link->out.cnt && !link->closing && !link->broken; n--) {
		move_out(link);
		events++;
	}
	for (size_t n = sim_below(6); n && link->rdma.cnt && !link->closing; n--) {
		move_rdma(link, sim_queue_take(&link->rdma, sim_below(link->rdma.cnt)));
		events++;
	}
	return events;
}

/* Each packet is in memory of exactly its size, so that sanitizers find reads beyond its end. */
static int hand_over_some(struct sim_link *link)
{
	struct tagrv_sink *sink = link->base.xport->sink;
	int events = 0;

	for (size_t n = sim_below(12); n && link->in.cnt && !link->closing; n--, events++) {
		struct item *item = sim_queue_take(&link->in, 0);

		if (item->kind == ITEM_TAGGED)
			sink->tagged(link->base.ctx, item->meta, item->tag, item->tag_data, item->data);
		else
			sink->packet(sink, link->base.ctx, item->data, item->len);
		sim_item_free(item);
	}
	return events;
}

static int tell_break(struct sim_link *link)
{
	struct tagrv_sink *sink = link->base.xport->sink;

	if (link->reported || link->closing || !sim_chance(30))
		return 0;
	link->reported = true;
	link->gone = sim_chance(30);
	if (!link->gone)
		sink->link_error(sink, link->base.ctx, -FI_ECONNRESET);
	return 1;
}

static int step_link(struct sim_link *link)
{
	int events = link->broken ? 0 : move_some(link);

	events += hand_over_some(link);
	if (link->broken)
		events += tell_break(link);
	if (link->broken && link->reported)
		flush_link(link, -FI_ECONNRESET);
	return events;
}

static void link_end(struct sim_link *link)
{
	struct tagrv_sink *sink = link->base.xport->sink;
	struct item *item;
	void *ctx = link->base.ctx;

	while ((item = sim_queue_take(&link->in, 0)))
		sim_item_free(item);
	if (link->peer) {
		link->peer->broken = true;
		link->peer->peer = NULL;
	}
	sim_list_end_link(link);
	sim_link_discard(&link->base);
	sink->link_closed(sink, ctx);
}

static int end_closed(struct sim_xport *x)
{
	int events = 0;

	for (struct sim_link **pos = &x->links; *pos;) {
		struct sim_link *link = *pos;

		if (!link->closing || sim_chance(50)) {
			pos = &link->next;
			continue;
		}
		flush_link(link, -FI_ECANCELED);
		*pos = link->next;
		link_end(link);
		events++;
	}
	return events;
}

int sim_move_progress(struct tagrv_xport *xport)
{
	struct sim_xport *x = sim_xport_of(xport);
	int events = 0;

	SIM_CHECK(!x->in_progress, "progress is called in progress");
	x->in_progress = true;
	for (struct sim_link *link = x->links; link; link = link->next)
		events += step_link(link);
	events += sim_list_progress(x);
	events += end_closed(x);
	x->in_progress = false;
	return events;
}

int sim_move_reap(struct tagrv_xport *xport)
{
	struct sim_xport *x = sim_xport_of(xport);
	int events = 0;

	if (x->in_progress)
		return 0;
	x->in_progress = true;
	for (struct sim_link *link = x->links; link; link = link->next)
		events += end_some(link);
	x->in_progress = false;
	return events;
}
