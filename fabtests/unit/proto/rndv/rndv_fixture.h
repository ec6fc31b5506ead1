/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the tests of all rendezvous protocols share: memory to send from and to receive
 * into, and a look at the last packet.
 */
#ifndef FABTESTS_UNIT_PROTO_RNDV_RNDV_FIXTURE_H
#define FABTESTS_UNIT_PROTO_RNDV_RNDV_FIXTURE_H

#include "common/engine_fixture.h"

extern char ctx[64];		/* contexts of operations */
extern char *src;		/* no two pages are alike */
extern char *dst;		/* zeros, and one more byte than src */

/* An engine with a connected peer, and len bytes in src and dst. */
void rndv_setup(size_t len);
void rndv_teardown(void);

/* The header of the last packet sent, which must have this opcode. */
struct tagrv_hdr last(uint8_t opcode);
/* One packet more was refused than before, and the connection goes on. */
void expect_ignored(void);
/* One packet more was refused than before, and the connection was closed. */
void expect_refused(void);

#endif
