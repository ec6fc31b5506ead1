/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Chooses the sizes of an endpoint's queues and buffers from the parameters, the
 * limits of the device and the limit of locked memory; and fills the transport's
 * attributes, among them the rates by which protocols are chosen.
 */
#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

#define RD_ATOMIC_MAX	16
#define TX_RESERVE_MAX	64u
#define SQ_RESERVE_MAX	16u

size_t tagrv_verbs_buf_size(const struct verbs_xport *xp)
{
	return (xp->params.eager_max + TAGRV_HDR_ROOM + 63) & ~(size_t) 63;
}

/*
 * Fits the packet buffers into half of the memory that may be locked: two thirds of
 * that half for receive buffers, one third for copy buffers. The other half is for
 * messages. Reduces the number of buffers first; if not even the least number fits,
 * their size. A message that cannot be registered is copied through these buffers.
 */
static void fit_locked(struct verbs_xport *xp)
{
	size_t limit = xp->calls->memlock_limit(), room = limit / 2;
	size_t fits = room / (VERBS_RX_LEAST + VERBS_TX_LEAST) & ~(size_t) 63;
	struct tagrv_params *params = &xp->params;
	size_t bufs;

	if (limit == SIZE_MAX)
		return;
	if (fits < tagrv_verbs_buf_size(xp)) {
		fits -= TAGRV_MIN(fits, (size_t) TAGRV_HDR_ROOM);
		params->eager_max = TAGRV_MIN(params->eager_max,
			TAGRV_MAX(fits, (size_t) VERBS_EAGER_LEAST));
	}
	bufs = room / tagrv_verbs_buf_size(xp);
	params->rx_bufs = TAGRV_MIN(params->rx_bufs,
		TAGRV_MAX(bufs / 3 * 2, (size_t) VERBS_RX_LEAST));
	params->tx_bufs = TAGRV_MIN(params->tx_bufs,
		TAGRV_MAX(bufs / 3, (size_t) VERBS_TX_LEAST));
	/* Without SRQ the buffers must suffice for a few links. */
	xp->rq_depth = TAGRV_MIN(xp->rq_depth,
		TAGRV_MAX((uint32_t) params->rx_bufs / 4, VERBS_RQ_LEAST));
	tagrv_info("verbs: %s: up to %zu receive and %zu send buffers of %zu "
		   "bytes: %zu bytes may be locked\n", xp->dev->base.name,
		   params->rx_bufs, params->tx_bufs, tagrv_verbs_buf_size(xp), limit);
}

void tagrv_verbs_sizes_warn(const struct verbs_xport *xp, size_t wanted)
{
	if (xp->params.eager_max == wanted ||
	    atomic_exchange(&xp->dev->memlock_warned, true))
		return;
	tagrv_warn("verbs: %s: packets have %zu bytes instead of %zu, and large "
		   "messages are copied: this process may lock only %zu bytes; "
		   "raise that with 'ulimit -l unlimited' or in limits.conf, "
		   "for a container with '--ulimit memlock=-1'\n",
		   xp->dev->base.name, xp->params.eager_max, wanted,
		   xp->calls->memlock_limit());
}

void tagrv_verbs_sizes_choose(struct verbs_xport *xp)
{
	const struct ibv_device_attr *dev = &xp->dev->attr;
	uint32_t max_cqe = (uint32_t) TAGRV_MAX(dev->max_cqe, 2);
	uint32_t max_wr = (uint32_t) TAGRV_MAX(dev->max_qp_wr, 3);

	xp->tx_cap = TAGRV_MIN(VERBS_TX_CQ_DEPTH, max_cqe);
	xp->tx_reserve = verbs_clamp(xp->tx_cap / 16, 1, TX_RESERVE_MAX);
	xp->signal_from = (xp->tx_cap - xp->tx_reserve) / 2;
	xp->sq_depth = verbs_ring_size(TAGRV_MIN((uint32_t)
						 xp->params.sq_depth, max_wr));
	xp->sq_reserve = verbs_clamp(xp->sq_depth / 8, 1, SQ_RESERVE_MAX);
	xp->rq_depth = TAGRV_MIN(VERBS_RQ_DEPTH, TAGRV_MIN(max_wr, max_cqe));
	xp->qp_sge = verbs_clamp((uint32_t) dev->max_sge, 1, VERBS_SGE_MAX);
	xp->rd_in = (uint8_t) TAGRV_MIN(dev->max_qp_rd_atom, RD_ATOMIC_MAX);
	xp->rd_out = (uint8_t) TAGRV_MIN(dev->max_qp_init_rd_atom,
					 RD_ATOMIC_MAX);
	xp->use_srq = xp->params.srq && verbs_has_srq(dev);
	fit_locked(xp);
}

uint32_t tagrv_verbs_rx_max(const struct verbs_xport *xp)
{
	const struct ibv_device_attr *dev = &xp->dev->attr;
	uint32_t max = (uint32_t) TAGRV_MIN(dev->max_srq_wr, dev->max_cqe);

	return verbs_ring_size(TAGRV_MIN((uint32_t) xp->params.rx_bufs, max));
}

/* Bytes per second of memcpy from memory that is in a cache. */
#define COPY_RATE	8e9

/* Packets in flight per link; sq_depth means no bound. */
static uint32_t choose_burst(const struct verbs_xport *xp)
{
	uint32_t burst = (uint32_t) xp->params.burst;

	if (!burst)
		burst = xp->dev->base.software ? VERBS_SOFT_BURST : UINT32_MAX;
	return TAGRV_MIN(burst, xp->sq_depth);
}

/*
 * The times are not measured, but for those of registrations; they rank software and
 * hardware devices correctly.
 */
void tagrv_verbs_attr_fill(struct verbs_xport *xp, uint32_t max_inline)
{
	bool hw = !xp->dev->base.software;
	size_t max_packet = xp->params.eager_max + TAGRV_HDR_ROOM;
	size_t depth = TAGRV_MAX(xp->params.read_depth, (size_t) VERBS_MOVES_MAX);
	struct verbs_port port = tagrv_verbs_port_now(xp);
	double rate = (double) tagrv_verbs_port_speed(&port.attr) / 8;

	xp->base.attr = (struct tagrv_xport_attr) {
		.caps = TAGRV_XPORT_GET | TAGRV_XPORT_PUT |
			TAGRV_XPORT_CHECKED |
			TAGRV_XPORT_PUT_FENCED |
			(xp->use_srq ? TAGRV_XPORT_SIDE : 0) |
			(xp->use_srq && xp->dev->base.atomics ? TAGRV_XPORT_ATOMIC : 0) |
			(xp->qp_sge == VERBS_SGE_MAX ? TAGRV_XPORT_PREPARED : 0),
		.admits = TAGRV_MEM_REMOTE,
		.max_inline = TAGRV_MIN(TAGRV_MIN(max_inline, VERBS_INLINE_MAX),
					max_packet),
		.max_short = max_packet - TAGRV_SHORT_HDR,
		.max_packet = max_packet,
		.get_max = xp->dev->base.max_msg,
		.get_depth = TAGRV_MIN(depth, (size_t) xp->rd_out),
		/* The peer's processor has no part in it. Side links have to share receive
		 * buffers that they do not need. */
		.get_least = xp->use_srq ? 1 : SIZE_MAX,
		.put_max = xp->dev->base.max_msg,
		.put_depth = depth,
		.burst = choose_burst(xp),
		.latency = hw ? 1.0e-6 : 20e-6,
		.bandwidth = rate,
		/* The wire, and a copy at each end. */
		.copy_bandwidth = rate > 0 ? 1 / (1 / rate + 2 / COPY_RATE) : 0,
		.overhead = hw ? 0.1e-6 : 5e-6,
		/* A completion; on software devices also time of the peer. */
		.prep_overhead = hw ? 0.3e-6 : 10e-6,
		.reg_overhead = xp->dev->reg_overhead,
		.reg_growth = xp->dev->reg_growth,
		.reg_piece = xp->params.read_segment,
		.source = xp->dev->cost_source,
	};
	/* At least one packet of a burst must be signaled before its end. */
	xp->signal_every = verbs_clamp((uint32_t) xp->base.attr.burst / 2, 1,
				 (uint32_t) xp->params.signal_every);
}
