/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls that the provider tagrv offers besides libfabric's own.
 *
 * There is no library to link: an endpoint gives out the calls at run time.
 *
 *	struct fi_tagrv_ops_match *ops;
 *	struct fi_tagrv_match_stats stats;
 *	size_t len = sizeof(stats);
 *
 *	ret = fi_open_ops(&ep->fid, TAGRV_EP_MATCH_OPS, 0, (void **) &ops, NULL);
 *	if (!ret)
 *		ret = ops->get_stats(ep, &stats, &len);
 *
 * fi_open_ops returns -FI_ENOSYS for a name that this version does not have,
 * -FI_EBADFLAGS for flags other than 0, -FI_EINVAL if name or ops is NULL. The
 * table is constant and stays valid as long as the provider is loaded.
 *
 * Members keep their place for ever. New members are added at the end, where the
 * size shows them. A member whose meaning changes gets another name.
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
 * The two queues of one endpoint: posted receives and unexpected messages, tagged
 * and untagged together. A receive that finds its message when it is posted, and
 * a message that finds its receive when it arrives, are never queued. A shared
 * receive context, and any endpoint that uses it, shows the context's queues.
 *
 * Ages are counts, not times: the number of receives posted (of messages that
 * arrived) after the oldest one in the queue; 0 when the queue is empty.
 */
struct fi_tagrv_match_stats {
	uint64_t posted;		/* receives queued now */
	uint64_t posted_peak;		/* most receives queued at a time */
	uint64_t posted_classes;	/* kinds of receives searched separately */
	uint64_t posted_oldest;		/* age of the oldest receive, in posts */
	uint64_t unexpected;		/* messages queued now */
	uint64_t unexpected_peak;	/* most messages queued at a time */
	uint64_t unexpected_indexes;	/* kinds of receives that have an index
					   of these messages */
	uint64_t unexpected_oldest;	/* age of the oldest message, in
					   arrivals */
	uint64_t searches;		/* of either queue, so far */
	uint64_t probes;		/* entries compared by all searches */
};

struct fi_tagrv_ops_match {
	size_t	size;			/* bytes of this table */
	/*
	 * Fills *stats with the current values. *len: in, the bytes that stats
	 * has room for, usually sizeof(*stats); out, the bytes filled: as many
	 * as there is room for, but not more than this version's struct has.
	 * No byte behind them is written. Takes the domain's lock, if it has
	 * one; may be called whenever fi_cq_read may. probes / searches is the
	 * mean cost of a search.
	 *
	 * Returns 0; -FI_EOPBADSTATE: the endpoint is not enabled; -FI_EINVAL:
	 * an argument is NULL; -FI_ETOOSMALL: there is no room for the members
	 * of the first version (up to probes), whose bytes are put into *len.
	 * Nothing else is written on error.
	 */
	int	(*get_stats)(struct fid_ep *ep,
			     struct fi_tagrv_match_stats *stats, size_t *len);
};

#define TAGRV_EP_PROTO_OPS	"tagrv_ep_proto"

/*
 * The messages of one endpoint by protocol, tagged and untagged together, since
 * it was enabled. Members in _tx count messages sent, those in _rx messages that
 * arrived.
 *
 * An eager message counts when its packet is sent or arrives. Any other message
 * (rendezvous) counts as announced at that time, and later once more for the
 * protocol that moves its payload: at the side that moves the payload when it
 * begins, at a sender whose memory is read when the read has ended. A message
 * whose payload need not be moved (it is empty, or its receive is) counts as
 * announced only; a sender cannot tell an empty receive from a read.
 */
struct fi_tagrv_proto_stats {
	/* eager: payload together with the envelope */
	uint64_t eager_tx, eager_rx;
	uint64_t batched_tx, batched_rx;	/* of eager: shared a packet */
	uint64_t prepared_tx;	/* of eager: the device read the application's
				   buffer, no copy */
	/* rendezvous: the envelope alone */
	uint64_t announced_tx, announced_rx;
	uint64_t no_credit_tx;	/* of announced: small, but the peer had no room
				   to keep them */
	uint64_t buffered_tx;	/* of announced: injected, sent from a copy */
	uint64_t get_tx, get_rx;	/* of announced: read by the receiver */
	uint64_t put_tx, put_rx;	/* of announced: written by the sender */
	uint64_t copy_tx, copy_rx;	/* of announced: copied in fragments */
	uint64_t pipeline_tx, pipeline_rx;	/* of announced: read in pieces */
	uint64_t acks_tx;	/* acknowledgements of messages */
	uint64_t ack_packets_tx;	/* packets with acknowledgements only */
	/* connections, from the second version on */
	uint64_t closed_idle;	/* idle ones, closed to make room for others */
	uint64_t connected_again;	/* to peers that had had one before */
	/* sockets of connections, from the third version on */
	uint64_t sockets_closed;	/* by either side, as there were too many */
	uint64_t sockets_reopened;	/* of connections that had none */
};

struct fi_tagrv_ops_proto {
	size_t	size;			/* bytes of this table */
	/*
	 * The same as get_stats of struct fi_tagrv_ops_match; the first version
	 * ends with ack_packets_tx.
	 */
	int	(*get_stats)(struct fid_ep *ep,
			     struct fi_tagrv_proto_stats *stats, size_t *len);
};

#define TAGRV_EP_DUMP_OPS	"tagrv_ep_dump"

/*
 * The state of one endpoint as text, for a person who wants to know why a program
 * hangs: its peers, and each operation that has not ended with its age, tag, size,
 * protocol, and what it waits for. The text may change with each release. A shared
 * receive context does not have this table; endpoints that use one show it.
 */
struct fi_tagrv_ops_dump {
	size_t	size;			/* bytes of this table */
	/*
	 * Writes the text to a file descriptor. Takes the domain's lock, if it
	 * has one, while the text is made; may be called whenever fi_cq_read may.
	 *
	 * Returns 0; -FI_EINVAL: ep is NULL; -FI_EOPBADSTATE: the endpoint is not
	 * enabled; -FI_ENOMEM; or -errno of write(2), when part of the text may
	 * have been written.
	 */
	int	(*dump)(struct fid_ep *ep, int fd);
};

#ifdef __cplusplus
}
#endif

#endif
