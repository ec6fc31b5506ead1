/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The shortest way of a message to its receive: taken out of the link's intake
 * (xport.h) in one loop, without a call.
 *
 *   read of a completion queue --> tagrv_intake_drain(link)
 *     each message:  expected, fits, is all that its receive waits for, and the reader
 *                    has room        --> receive buffer, reader's entry
 *                    anything else   --> left where it is: ops->drain, sink->tagged
 *
 * Nothing is changed for a message before all is known, so that the general way begins
 * with it anew. lock: the domain's.
 */
#ifndef TAGRV_PROTO_INTAKE_H
#define TAGRV_PROTO_INTAKE_H

/* sink->drain: takes what has come by the link. Returns the number of events. */
int tagrv_intake_drain(void *link);

#endif
