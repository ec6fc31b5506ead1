/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Choice of the protocol of a send by the message's length. Pure functions of a
 * transport's attributes and the parameters; no state, no lock.
 *
 * When the first link of a transport comes up, a table of ranges of sizes is
 * built. The send path compares the length with one number, up to which all
 * messages are eager, and searches the table only above it. If the peer has given
 * no credit for an eager message, the second table ('no_credit') names the
 * rendezvous that replaces eager.
 *
 * Estimated time of one message of s bytes, until it is in the receive's buffer
 * (UCX's model of rendezvous thresholds, github.com/openucx/ucx/wiki/
 * Rendezvous-Protocol, with our eager, which copies and never registers):
 *
 *   eager   latency + overhead + max(s / bandwidth, s / copy_bandwidth)
 *   get     2 (reg_overhead + s reg_growth) + 4 latency + 3 overhead
 *           + get_overhead + s / bandwidth
 *   put     get + latency + put_more: the receiver answers first
 *   copy    4 latency + 4 overhead + s (overhead + frag_overhead) / max_packet
 *           + max(s / bandwidth, s / copy_bandwidth)
 *   pipeline
 *           2 (reg_overhead + p reg_growth) + 6 latency + 4 overhead
 *           + get_overhead + max(s / bandwidth,
 *             s reg_growth + s / p (reg_overhead + 2 overhead + get_overhead))
 *
 * copy: RTS, CTS, fragments and FIN; each packet costs its overhead, and a fragment
 * frag_overhead, which is 0 for most transports.
 *
 * pipeline (rndv/pipe.c): both sides register a first piece of p = reg_piece
 * bytes. After that, moving one piece overlaps with registering the next one, so
 * the slower of the two counts instead of their sum. It is the fastest protocol
 * where reg_growth is a large part of the time per byte, for messages somewhat
 * longer than a piece. If reg_piece is 0 it is estimated as a get with more packets.
 * If a profile has pipe_from, the size from which on it was measured to be faster than
 * a get of memory that was not registered before, the estimate is instead the line
 * that begins 2 latency + overhead above that of a get and meets it there.
 *
 * Both registrations are counted in full, as for buffers that are used for the
 * first time. A buffer that is found in the cache of registrations
 * (reg/regcache.h) costs some 0.2 us instead, so that in truth rendezvous
 * overtakes eager at a smaller size. Whether buffers are used again is not known
 * here: an estimate that is too high costs a copy, one that is too low costs a
 * registration. A profile measured with the cache has the cost of cached buffers.
 * The send path does not use a pipeline for a buffer that is registered, or that
 * is in the cache: that buffer is registered as a whole and kept.
 *
 * All estimates are straight lines over s, so that the size at which one overtakes
 * another is computed, not searched. The threshold of rendezvous is the first size
 * at which
 *
 *   time of the best rendezvous <= time of eager * (1 + perf_diff / 100)
 *
 * perf_diff lets a rendezvous be slower, because it needs no memory of a receiver
 * that has not posted its receive yet. The threshold is never below
 * TAGRV_INJECT_MAX + 1: an injected message would be copied for a rendezvous, too,
 * and rates that were measured on a busy host may be far too low.
 *
 * prepared: if the memory of an eager message is registered, the device may gather
 * it, which saves one of eager's two copies but needs a completion to wait for:
 *
 *   prepared  latency + overhead + prep_overhead
 *             + (s / bandwidth + max(s / bandwidth, s / copy_bandwidth)) / 2
 *
 * Whether memory is registered is not known here: tagrv_select::prepared is the
 * first size at which this is not slower than eager, and the send path finds out
 * whether the memory is registered.
 *
 * To add a rendezvous, add a member to the enum before TAGRV_PROTO_RNDV_END and a
 * row to protos[] in select.c. The sender proposes the rendezvous with the least
 * time, or the one that FI_TAGRV_RNDV names; the receiver decides (rndv/begin.c).
 */
#ifndef TAGRV_SELECT_SELECT_H
#define TAGRV_SELECT_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xport/xport.h"

/*
 * Members between EAGER and RNDV_END are kinds of rendezvous; their numbers are on
 * the wire, in an RTS.
 */
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
	TAGRV_SELECT_FASTER,	/* the least estimated time */
	TAGRV_SELECT_NEAR,	/* slower than eager, by perf_diff at most */
	TAGRV_SELECT_SHORT,	/* rendezvous is faster, but it can be injected */
	TAGRV_SELECT_LIMIT,	/* longer than an eager message can be */
	TAGRV_SELECT_THRESH,	/* FI_TAGRV_RNDV_THRESH */
	TAGRV_SELECT_FALLBACK,	/* rendezvous never overtakes eager */
	TAGRV_SELECT_UNKNOWN,	/* no estimates: invalid attributes */
	TAGRV_SELECT_FORCED,	/* FI_TAGRV_PROTO */
	TAGRV_SELECT_UNABLE,	/* the transport lacks what FI_TAGRV_PROTO names */
};

#define TAGRV_SELECT_FORCED_MAX	8	/* ranges in FI_TAGRV_PROTO */
/*
 * Most sizes at which the protocol or its reason may change: 0; 1; the threshold;
 * the threshold without the limit for short messages; the eager limit; the size at
 * which one protocol overtakes another, for each pair; the ends of forced ranges.
 */
#define TAGRV_SELECT_RANGES	(5 + TAGRV_PROTO_CNT * (TAGRV_PROTO_CNT - 1) + \
				 2 * TAGRV_SELECT_FORCED_MAX)

/* The user's parameters; all zero: auto, no fallback, nothing forced. */
struct tagrv_select_conf {
	size_t	thresh;		/* first size of rendezvous; 0: auto */
	size_t	fallback;	/* thresh if none can be computed; 0: none */
	enum tagrv_proto rndv;	/* the only rendezvous; EAGER: the best one */
	double	perf_diff;	/* percent */
	struct {
		size_t	from, to;	/* bytes, 'to' excluded */
		enum tagrv_proto proto;
	} force[TAGRV_SELECT_FORCED_MAX];
	size_t	force_cnt;
};

/* Begins behind the range before it, the first one at 0. */
struct tagrv_select_range {
	size_t	last;			/* bytes, included */
	enum tagrv_proto proto;
	enum tagrv_select_reason reason;
};

/*
 * Reads FI_TAGRV_RNDV, RNDV_THRESH, RNDV_THRESH_FALLBACK, RNDV_PERF_DIFF and
 * PROTO. An invalid value is logged, once per process, and ignored.
 */
void tagrv_select_conf_read(struct tagrv_select_conf *conf,
			    const struct tagrv_params *params);

struct tagrv_select {
	size_t	cnt, no_credit_cnt;
	/*
	 * Eager messages of this many bytes or more are sent prepared if their
	 * memory is registered; SIZE_MAX: none is.
	 */
	size_t	prepared;
	/* From 0 to TAGRV_MAX_MSG; the first range is eager, the last is not. */
	struct tagrv_select_range range[TAGRV_SELECT_RANGES];
	/* Without credit: from 0 to the longest eager message, all rendezvous. */
	struct tagrv_select_range no_credit[TAGRV_SELECT_RANGES];
};

/*
 * Fills the table. eager_limit: most bytes of payload in one packet. Invalid
 * attributes (negative, not a number, no bandwidth) are no error: then there are no
 * estimates, and limits and parameters decide alone.
 */
void tagrv_select_build(struct tagrv_select *table,
			const struct tagrv_select_conf *conf,
			const struct tagrv_xport_attr *attr,
			size_t eager_limit);

/*
 * Most bytes of payload in one eager packet: FI_TAGRV_EAGER_MAX, or less if packets
 * of max_packet bytes hold less.
 */
size_t tagrv_select_eager_limit(const struct tagrv_params *params,
				size_t max_packet);

/*
 * What peers have to be allowed to do (TAGRV_MEM_READ, TAGRV_MEM_WRITE) so that this
 * endpoint can send by the table for these arguments, and receive by the same table or
 * as FI_TAGRV_RNDV wants.
 */
unsigned tagrv_select_rights(const struct tagrv_select_conf *conf,
			     const struct tagrv_xport_attr *attr,
			     size_t eager_limit);

/* The range of a length; len <= TAGRV_MAX_MSG. */
const struct tagrv_select_range *
tagrv_select_find(const struct tagrv_select *table, size_t len);

/* The rendezvous that replaces eager for this length if there is no credit. */
enum tagrv_proto tagrv_select_no_credit(const struct tagrv_select *table,
					size_t len);

/* Bytes up to which every message is eager and never prepared. */
size_t tagrv_select_all_eager(const struct tagrv_select *table);

/* Estimated seconds for one message; < 0: invalid attributes. */
double tagrv_select_estimate(enum tagrv_proto proto,
			     const struct tagrv_xport_attr *attr, size_t len);

/* Why a range has its protocol, in a few words. */
const char *tagrv_select_reason_text(enum tagrv_select_reason reason);

/* The names of FI_TAGRV_PROTO and FI_TAGRV_RNDV: "eager", "get", ... */
const char *tagrv_proto_name(enum tagrv_proto proto);

/*
 * Writes one line about range i < table->cnt to text (size bytes): sizes, protocol,
 * estimated times of its first and last size, reason. Returns text.
 */
const char *tagrv_select_describe(const struct tagrv_select *table, size_t i,
				  const struct tagrv_xport_attr *attr,
				  char *text, size_t size);

/*
 * The same for the eager messages that are sent prepared if their memory is
 * registered. Returns text, or NULL: there are none.
 */
const char *tagrv_select_describe_prepared(const struct tagrv_select *table,
					   const struct tagrv_xport_attr *attr,
					   char *text, size_t size);

/* The same for range i < table->no_credit_cnt of eager messages without credit. */
const char *tagrv_select_describe_credit(const struct tagrv_select *table,
					 size_t i,
					 const struct tagrv_xport_attr *attr,
					 char *text, size_t size);

#endif
