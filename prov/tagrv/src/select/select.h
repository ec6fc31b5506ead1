/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Choice of the protocol of one send, by its length: pure functions of facts.
 *
 * When the first link of a transport comes up, a table of ranges of sizes is
 * built from the transport's attributes and the parameters. The send path looks
 * at one number, up to which all ranges are eager, and at the table only beyond
 * it, or when the peer gives no credit for the message: then the rendezvous with
 * the least time at that size takes the place of eager.
 *
 * Estimated time of one message of s bytes, until it is in the receive's buffer
 * (UCX's model of rendezvous thresholds, github.com/openucx/ucx/wiki/
 * Rendezvous-Protocol, with our eager, which copies and never registers):
 *
 *   eager   latency + overhead + max(s / bandwidth, s / copy_bandwidth)
 *   get     2 (reg_overhead + s reg_growth) + 4 latency + 3 overhead
 *           + get_overhead + s / bandwidth
 *   put     get + latency: the receiver answers first
 *   copy    4 latency + 4 overhead + s overhead / max_packet
 *           + max(s / bandwidth, s / copy_bandwidth)
 *   pipeline
 *           2 (reg_overhead + p reg_growth) + 6 latency + 4 overhead
 *           + get_overhead + max(s / bandwidth,
 *             s reg_growth + s / p (reg_overhead + 2 overhead + get_overhead))
 *
 * Copies go by RTS, CTS, fragments and FIN; each packet has its overhead. In the
 * pipeline (rndv_pipe.c) both sides register a first piece of p = reg_piece bytes;
 * from then on the slower of moving and registering counts, instead of the sum. So
 * it wins where growth is no small part of the time of a byte, from somewhat more
 * than a piece on. Where reg_piece is 0 it is taken for a get with more packets.
 *
 * The two registrations are counted in full, as for buffers that are used for
 * the first time: with the cache of registrations (regcache.h) those that are
 * used again cost some 0.2 us instead, so that rendezvous overtakes eager at a
 * smaller size than computed. Which buffers come is not known here; to be wrong
 * in this direction costs a copy, in the other one a registration. A profile
 * measured with the cache has the costs of buffers found in it. Only a pipeline is
 * not used for a buffer that the sender knows to be registered, or to have been
 * used before: that one is registered at once, and kept (send.c).
 *
 * All are straight lines, so each pair meets at most once, and that size is
 * computed, not searched. The threshold is the first size at which
 *
 *   the best rendezvous <= eager (1 + perf_diff / 100)
 *
 * perf_diff is time given away on purpose: a rendezvous takes no memory of a
 * receiver that is not ready. But it is never below TAGRV_INJECT_MAX + 1, for
 * what is injected would be copied for a rendezvous, too, and rates that were
 * measured on a busy host may be far too low.
 *
 * An eager message whose memory is registered may be gathered by the device
 * instead of copied first; of the two copies of eager one is spared then, for a
 * completion that has to be waited for:
 *
 *   prepared  latency + overhead + prep_overhead
 *             + (s / bandwidth + max(s / bandwidth, s / copy_bandwidth)) / 2
 *
 * Whether memory is registered is not known here either: 'prepared' is the first
 * size at which that is no slower, and the send path asks (send.c).
 *
 * A new rendezvous is a member of the enum before TAGRV_PROTO_RNDV_END and a row
 * in select.c: the one with the least time is taken, or the one that
 * FI_TAGRV_RNDV names. It is what the sender proposes; the receiver decides
 * (rndv.c).
 */
#ifndef TAGRV_SELECT_SELECT_H
#define TAGRV_SELECT_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xport/xport.h"

/* From eager to RNDV_END are kinds of rendezvous; those numbers are on the wire. */
enum tagrv_proto {
	TAGRV_PROTO_EAGER,	/* envelope and payload in one packet */
	TAGRV_PROTO_RNDV_READ,	/* RTS, the receiver reads, FIN */
	TAGRV_PROTO_RNDV_WRITE,	/* RTS, CTS, the sender writes, DONE */
	TAGRV_PROTO_RNDV_COPY,	/* RTS, CTS, fragments, FIN */
	TAGRV_PROTO_RNDV_PIPE,	/* RTS, CTS, pieces that are read, FIN */
	TAGRV_PROTO_RNDV_END,
	TAGRV_PROTO_EAGER_PREP = TAGRV_PROTO_RNDV_END,	/* eager, gathered by
				   the device from registered memory */
	TAGRV_PROTO_CNT,
};

/* Why a range has its protocol. */
enum tagrv_select_reason {
	TAGRV_SELECT_EMPTY,	/* no payload: there is nothing to fetch */
	TAGRV_SELECT_FASTER,	/* by the estimates */
	TAGRV_SELECT_NEAR,	/* slower, by perf_diff percent at most */
	TAGRV_SELECT_SHORT,	/* auto does not announce what can be injected */
	TAGRV_SELECT_LIMIT,	/* longer than an eager message can be */
	TAGRV_SELECT_THRESH,	/* FI_TAGRV_RNDV_THRESH */
	TAGRV_SELECT_FALLBACK,	/* the curves never meet */
	TAGRV_SELECT_UNKNOWN,	/* no estimates: attributes make no sense */
	TAGRV_SELECT_FORCED,	/* FI_TAGRV_PROTO */
	TAGRV_SELECT_UNABLE,	/* FI_TAGRV_PROTO, which this link cannot do */
};

#define TAGRV_SELECT_FORCES	8
/*
 * Sizes at which the choice may change: 0, 1, the threshold, where it would be
 * if nothing was too short, the limit, where each protocol overtakes each other
 * one, and the ends of forced ranges.
 */
#define TAGRV_SELECT_RANGES	(5 + TAGRV_PROTO_CNT * (TAGRV_PROTO_CNT - 1) + \
				 2 * TAGRV_SELECT_FORCES)

/* What the user wants; all zero: auto, no fallback, nothing forced. */
struct tagrv_select_conf {
	size_t	thresh;		/* first size of rendezvous; 0: auto */
	size_t	fallback;	/* the same if the curves never meet; 0: none */
	enum tagrv_proto rndv;	/* rather than the best one; EAGER: the best */
	double	perf_diff;	/* percent */
	struct {
		size_t	from, to;	/* bytes, the last one excluded */
		enum tagrv_proto proto;
	} force[TAGRV_SELECT_FORCES];
	size_t	force_cnt;
};

struct tagrv_select_range {
	size_t	last;			/* bytes, included */
	enum tagrv_proto proto;
	enum tagrv_select_reason reason;
};

/*
 * Reads FI_TAGRV_RNDV, RNDV_THRESH, its FALLBACK and PERF_DIFF, and PROTO.
 * What makes no sense is said in one line, once a process, and not used.
 */
void tagrv_select_conf_read(struct tagrv_select_conf *conf,
			    const struct tagrv_params *params);

/*
 * Ranges from 0 to TAGRV_MAX_MSG without a gap; the first is eager, the last is
 * not. And what takes the place of eager: from 0 to the longest eager message.
 */
struct tagrv_select {
	size_t	cnt, instead_cnt;
	size_t	prepared;	/* eager messages of so many bytes and more go
				   prepared if they can; SIZE_MAX: none does */
	struct tagrv_select_range range[TAGRV_SELECT_RANGES];
	struct tagrv_select_range instead[TAGRV_SELECT_RANGES];
};

/*
 * Fills the table. eager_limit: most bytes of payload that one packet takes.
 * Attributes that make no sense (negative, no number, no bandwidth) are no
 * error: then there are no estimates, and only limits and parameters decide.
 */
void tagrv_select_build(struct tagrv_select *table,
			const struct tagrv_select_conf *conf,
			const struct tagrv_xport_attr *attr,
			size_t eager_limit);

/* Most bytes of payload in one packet, by the parameters and a packet's size. */
size_t tagrv_select_eager_limit(const struct tagrv_params *params,
				size_t max_packet);

/* The range of a length of at most TAGRV_MAX_MSG. */
const struct tagrv_select_range *
tagrv_select_find(const struct tagrv_select *table, size_t len);

/* The rendezvous that takes the place of eager for this length. */
enum tagrv_proto tagrv_select_instead(const struct tagrv_select *table,
				      size_t len);

/* Bytes up to which everything is eager and copied, for whatever reason. */
size_t tagrv_select_all_eager(const struct tagrv_select *table);

/* Seconds for one message; < 0: the attributes make no sense. */
double tagrv_select_estimate(enum tagrv_proto proto,
			     const struct tagrv_xport_attr *attr, size_t len);

/* The names of FI_TAGRV_PROTO and FI_TAGRV_RNDV: "eager", "get", ... */
const char *tagrv_proto_name(enum tagrv_proto proto);

/*
 * One line about range i < table->cnt: sizes, protocol, estimated times of its
 * first and last byte, reason. Returns text.
 */
const char *tagrv_select_describe(const struct tagrv_select *table, size_t i,
				  const struct tagrv_xport_attr *attr,
				  char *text, size_t size);

/*
 * One line about eager messages that go prepared where their memory is
 * registered, or NULL: none does.
 */
const char *tagrv_select_describe_prepared(const struct tagrv_select *table,
					   const struct tagrv_xport_attr *attr,
					   char *text, size_t size);

/*
 * The same about eager messages for which the peer gave no credit, so that only
 * their envelopes are sent: i < table->instead_cnt.
 */
const char *tagrv_select_describe_credit(const struct tagrv_select *table,
					 size_t i,
					 const struct tagrv_xport_attr *attr,
					 char *text, size_t size);

#endif
