/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake devices whose limits a test may change, and a pair of ends over them.
 *
 *   verbs_prepare -> change config or params -> verbs_open, verbs_connect or
 *   verbs_start_sender -> ... -> pair_close
 */
#ifndef FABTESTS_UNIT_XPORT_VERBS_FIXTURE_H
#define FABTESTS_UNIT_XPORT_VERBS_FIXTURE_H

#include "unit/xport/pair.h"
#include "xport/verbs/verbs_priv.h"

extern struct pair pair;
extern struct fake_verbs_config config;
extern struct tagrv_params params;

/* .init of the suites: config and params have their defaults. */
void verbs_prepare(void);

/* Some profiles (FAKE_VERBS) have no shared receive queues. For tests of those: they have. */
void verbs_need_srq(void);
/* Receives that the first link permits at first with SRQ. */
#define VERBS_FIRST	VERBS_PERMIT_FIRST

/* Starts the devices and opens both ends. */
void verbs_open(void);
/* The same, then connects them; end a may send any number of packets. */
void verbs_connect(void);
/* The same; end b only counts what comes. Returns the transport of end a. */
struct verbs_xport *verbs_start_sender(void);

/* Where the packets of an end's link come: its own queue, or the shared one. */
struct verbs_rxq *verbs_queue_of(const struct end *end);

/* Sends cnt packets of len bytes from end a, all of which must find room. */
void verbs_send_many(unsigned cnt, size_t len);

/* Sends up to cnt short packets by a link of end a. Returns how many found room. */
unsigned verbs_send_some(struct tagrv_link *link, unsigned cnt);

#endif
