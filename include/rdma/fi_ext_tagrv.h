/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the provider tagrv offers besides libfabric's own calls.
 *
 * Nothing here is linked: the calls are had from the endpoint at run time.
 *
 *	struct fi_tagrv_ops_match *ops;
 *	struct fi_tagrv_match_stats stats;
 *	size_t len = sizeof(stats);
 *
 *	ret = fi_open_ops(&ep->fid, TAGRV_EP_MATCH_OPS, 0, (void **) &ops, NULL);
 *	if (!ret)
 *		ret = ops->get_stats(ep, &stats, &len);
 *
 * fi_open_ops answers -FI_ENOSYS to a name that this version does not have,
 * -FI_EBADFLAGS to flags other than 0, -FI_EINVAL to NULL for name or ops. The
 * table is constant and stays valid as long as the provider is loaded.
 *
 * Members keep their place for ever; what is added comes last and is announced
 * by the size. What changes its meaning gets another name.
 */
#ifndef FI_EXT_TAGRV_H
#define FI_EXT_TAGRV_H

#include <rdma/fi_endpoint.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAGRV_EP_MATCH_OPS	"tagrv_ep_match"

/*
 * The queues of one endpoint, tagged and untagged together. A receive that found
 * its message when it was posted, and a message that found its receive when it
 * arrived, were never queued. Of a shared receive context, or of an endpoint that
 * has one: its queues, for all its endpoints.
 *
 * Ages are counts, not times: how many receives were posted (messages arrived)
 * after the oldest one that is still queued, queued or not; 0: nothing is queued.
 */
struct fi_tagrv_match_stats {
	uint64_t posted;		/* receives queued now */
	uint64_t posted_peak;		/* most at a time so far */
	uint64_t posted_classes;	/* kinds of them looked up apart */
	uint64_t posted_oldest;		/* age of the oldest, in posts */
	uint64_t unexpected;		/* messages queued now */
	uint64_t unexpected_peak;	/* most at a time so far */
	uint64_t unexpected_indexes;	/* kinds of receives with an index of them */
	uint64_t unexpected_oldest;	/* age of the oldest, in arrivals */
	uint64_t searches;		/* for a receive or a message, so far */
	uint64_t probes;		/* entries compared by them, so far */
};

struct fi_tagrv_ops_match {
	size_t	size;			/* of this table, in bytes */
	/*
	 * Fills *stats as of now. *len: in, the bytes there is room for, as a
	 * rule sizeof(*stats); out, the bytes filled, at most those. Takes the
	 * lock of the domain, if it has one; may be called whenever fi_cq_read
	 * may. probes / searches is the mean cost of a search.
	 *
	 * 0; -FI_EOPBADSTATE: the endpoint is not enabled; -FI_EINVAL: an
	 * argument is NULL; -FI_ETOOSMALL: less than the members of the first
	 * version (up to probes), *len says how many bytes those are. Nothing
	 * else is written on error.
	 */
	int	(*get_stats)(struct fid_ep *ep,
			     struct fi_tagrv_match_stats *stats, size_t *len);
};

#define TAGRV_EP_PROTO_OPS	"tagrv_ep_proto"

/*
 * The messages of one endpoint by protocol, tagged and untagged together, since
 * it was enabled. What ends in _tx was sent, what ends in _rx has come.
 *
 * A message counts where its protocol is known: an eager one when its packet is
 * sent or has come; another one as announced then, and as read, written or copied
 * by those who move its bytes when they begin, a sender that is read from when it
 * hears of the end. Where nothing has to be moved (no payload, or a receive of 0
 * bytes) it counts as announced only; a sender cannot tell the latter from a read.
 */
struct fi_tagrv_proto_stats {
	uint64_t eager_tx, eager_rx;	/* payload together with the envelope */
	uint64_t batched_tx, batched_rx;	/* of those, several to a packet */
	uint64_t prepared_tx;	/* of those, taken by the device from where they
				   lay */
	uint64_t announced_tx, announced_rx;	/* envelope alone */
	uint64_t no_credit_tx;	/* of those, small ones that the peer had no
				   room to keep */
	uint64_t buffered_tx;	/* of those, injected, sent from a copy */
	uint64_t get_tx, get_rx;	/* of those announced, read by the receiver */
	uint64_t put_tx, put_rx;	/* ... written by the sender */
	uint64_t copy_tx, copy_rx;	/* ... copied in fragments */
	uint64_t pipeline_tx, pipeline_rx;	/* ... read in pieces */
	uint64_t acks_tx;	/* acknowledgements of messages */
	uint64_t ack_packets_tx;	/* packets that held nothing else */
};

struct fi_tagrv_ops_proto {
	size_t	size;			/* of this table, in bytes */
	/*
	 * As get_stats of struct fi_tagrv_ops_match; the first version has the
	 * members up to ack_packets_tx.
	 */
	int	(*get_stats)(struct fid_ep *ep,
			     struct fi_tagrv_proto_stats *stats, size_t *len);
};

#ifdef __cplusplus
}
#endif

#endif
