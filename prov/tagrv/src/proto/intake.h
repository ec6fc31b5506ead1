/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The shortest way of a message to its receive: taken out of the link's intake
 * (xport.h) in one loop, without a call.
 *
 *   read of a completion queue --> tagrv_intake_read(link), tagrv_intake_drain(link)
 *     each message:  expected, fits, is all that its receive waits for, and the reader
 *                    has room        --> receive buffer, reader's entry
 *                    anything else   --> left where it is: ops->drain, sink->tagged
 *
 * Nothing is changed for a message before all is known, so that the general way begins
 * with it anew. lock: the domain's.
 */
#ifndef TAGRV_PROTO_INTAKE_H
#define TAGRV_PROTO_INTAKE_H

#include <rdma/fi_eq.h>
#include <stddef.h>
#include <stdint.h>

struct tagrv_compq;
struct tagrv_watch;

/*
 * Messages after which what they add up to is accounted for. A peer with credit for
 * fewer goes the general way.
 */
#define TAGRV_INTAKE_BATCH	16u

/* sink->drain: takes what has come by the link. Returns the number of events. */
int tagrv_intake_drain(void *link);

/*
 * The same for a read of q, which is empty, in the longest format, of the link whose word
 * has this index in 'watch': takes only messages that go this way, at most 'count' and a
 * batch behind the first, and writes their entries to 'out'. Returns their number.
 */
size_t tagrv_intake_read(struct tagrv_watch *watch, uint32_t index,
			 const struct tagrv_compq *q,
			 struct fi_cq_tagged_entry *out, size_t count);

#endif
