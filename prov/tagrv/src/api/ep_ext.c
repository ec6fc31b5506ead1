/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_open_ops of an endpoint: the calls of rdma/fi_ext_tagrv.h, for applications
 * that know this provider.
 */
#include <rdma/fi_ext_tagrv.h>
#include <string.h>

#include "api/objects_priv.h"
#include "engine/dump.h"

/* Bytes of the structs' first version: the least that a caller must provide. */
#define MATCH_LEN_MIN	80
#define PROTO_LEN_MIN	152

static_assert(sizeof(struct fi_tagrv_match_stats) == MATCH_LEN_MIN &&
	      sizeof(struct fi_tagrv_proto_stats) == PROTO_LEN_MIN + 32,
	      "a struct has grown: keep *_LEN_MIN, and document the new members");

/* The queues where its messages are matched; NULL: it is not enabled. */
static const struct tagrv_rx *rx_of(struct fid_ep *fid)
{
	const struct tagrv_ep *ep = tagrv_container_of(fid, struct tagrv_ep,
						       ep);

	return ep->engine ? tagrv_engine_rx(ep->engine) : ep->rx;
}

/* 0: the endpoint has queues, and stats has room for 'min' bytes. */
static int check(struct fid_ep *fid, const void *stats, size_t *len, size_t min)
{
	if (!fid || !stats || !len)
		return -FI_EINVAL;
	if (!rx_of(fid))
		return -FI_EOPBADSTATE;
	if (*len < min) {
		*len = min;
		return -FI_ETOOSMALL;
	}
	return 0;
}

/*
 * Copies 'now', a struct of 'size' bytes, or its first *len bytes: an older
 * application has room for fewer members. Puts the number of bytes into *len.
 */
static void fill(void *stats, size_t *len, const void *now, size_t size)
{
	*len = TAGRV_MIN(*len, size);
	memcpy(stats, now, *len);
}

static int get_match_stats(struct fid_ep *fid,
			   struct fi_tagrv_match_stats *stats, size_t *len)
{
	int ret = check(fid, stats, len, MATCH_LEN_MIN);
	struct fi_tagrv_match_stats out;
	struct tagrv_match_stats now;
	const struct tagrv_ep *ep;

	if (ret)
		return ret;
	ep = tagrv_container_of(fid, struct tagrv_ep, ep);
	tagrv_dom_lock(ep->dom);
	tagrv_rx_match_stats(rx_of(fid), &now);
	tagrv_lock_release(&ep->dom->lock);
	out = (struct fi_tagrv_match_stats) {
		.posted = now.posted,
		.posted_peak = now.posted_peak,
		.posted_classes = now.posted_classes,
		.posted_oldest = now.posted_oldest,
		.unexpected = now.unexpected,
		.unexpected_peak = now.unexpected_peak,
		.unexpected_indexes = now.unexpected_indexes,
		.unexpected_oldest = now.unexpected_oldest,
		.searches = now.searches,
		.probes = now.probes,
	};
	fill(stats, len, &out, sizeof(out));
	return 0;
}

static int get_proto_stats(struct fid_ep *fid,
			   struct fi_tagrv_proto_stats *stats, size_t *len)
{
	int ret = check(fid, stats, len, PROTO_LEN_MIN);
	struct fi_tagrv_proto_stats out;
	struct tagrv_proto_stats now;
	const struct tagrv_ep *ep;

	if (ret)
		return ret;
	ep = tagrv_container_of(fid, struct tagrv_ep, ep);
	/* A shared context, passed to the ops that were opened on an endpoint. */
	if (!ep->engine)
		return -FI_EOPBADSTATE;
	tagrv_dom_lock(ep->dom);
	tagrv_engine_proto_stats(ep->engine, &now);
	tagrv_lock_release(&ep->dom->lock);
	out = (struct fi_tagrv_proto_stats) {
		.eager_tx = now.eager_tx,
		.eager_rx = now.eager_rx,
		.batched_tx = now.batched_tx,
		.batched_rx = now.batched_rx,
		.announced_tx = now.rndv_tx,
		.announced_rx = now.rndv_rx,
		.no_credit_tx = now.no_credit,
		.buffered_tx = now.buffered,
		.get_tx = now.read_tx,
		.get_rx = now.read_rx,
		.put_tx = now.write_tx,
		.put_rx = now.write_rx,
		.copy_tx = now.copy_tx,
		.copy_rx = now.copy_rx,
		.pipeline_tx = now.pipeline_tx,
		.pipeline_rx = now.pipeline_rx,
		.acks_tx = now.acks,
		.ack_packets_tx = now.ack_packets,
		.prepared_tx = now.prepared_tx,
		.closed_idle = now.parted,
		.connected_again = now.rejoined,
		.sockets_closed = now.sockets_closed,
		.sockets_reopened = now.sockets_reopened,
	};
	fill(stats, len, &out, sizeof(out));
	return 0;
}

static int dump(struct fid_ep *fid, int fd)
{
	const struct tagrv_ep *ep;

	if (!fid)
		return -FI_EINVAL;
	ep = tagrv_container_of(fid, struct tagrv_ep, ep);
	if (!ep->engine)
		return -FI_EOPBADSTATE;
	return tagrv_engine_dump_fd(ep->engine, fd);
}

static struct fi_tagrv_ops_match match_ops = {
	.size = sizeof(match_ops),
	.get_stats = get_match_stats,
};

static struct fi_tagrv_ops_proto proto_ops = {
	.size = sizeof(proto_ops),
	.get_stats = get_proto_stats,
};

static struct fi_tagrv_ops_dump dump_ops = {
	.size = sizeof(dump_ops),
	.dump = dump,
};

int tagrv_ep_ops_open(struct fid *fid, const char *name, uint64_t flags,
		      void **ops, void *context)
{
	void *found = NULL;

	if (!name || !ops)
		return -FI_EINVAL;
	if (!strcmp(name, TAGRV_EP_MATCH_OPS))
		found = &match_ops;
	/* A shared context has no engine, which counts protocols. */
	if (!strcmp(name, TAGRV_EP_PROTO_OPS) &&
	    fid->fclass != FI_CLASS_SRX_CTX)
		found = &proto_ops;
	if (!strcmp(name, TAGRV_EP_DUMP_OPS) &&
	    fid->fclass != FI_CLASS_SRX_CTX)
		found = &dump_ops;
	if (!found)
		return tagrv_nosys_ops_open(fid, name, flags, ops, context);
	if (flags)
		return -FI_EBADFLAGS;
	*ops = found;
	return 0;
}
