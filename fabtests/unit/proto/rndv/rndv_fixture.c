/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fixture of the tests of rendezvous protocols: see rndv_fixture.h.
 */
#include "unit/proto/rndv/rndv_fixture.h"

#include <stdlib.h>

char ctx[64];
char *src, *dst;
static uint32_t refused;	/* packets, as far as they were expected */

void rndv_setup(size_t len)
{
	engine_setup();
	peer_up(true);
	refused = 0;
	src = malloc(len);
	dst = calloc(1, len + 1);
	for (size_t i = 0; i < len; i++)
		src[i] = (char) (i * 7 + (i >> 9) + 1);
}

void rndv_teardown(void)
{
	engine_teardown();
	free(src);
	free(dst);
}

struct tagrv_hdr last(uint8_t opcode)
{
	struct tagrv_hdr hdr;

	cr_assert_gt(fake.log_cnt, 0);
	hdr = packet_header(fake.log_cnt - 1);
	cr_assert_eq(hdr.opcode, opcode, "last packet is %u", hdr.opcode);
	return hdr;
}

void expect_ignored(void)
{
	cr_assert_eq(fx.engine->stats.bad_packets, ++refused);
	cr_assert_neq(fake.links, 0, "the connection goes on");
}

void expect_refused(void)
{
	cr_assert_eq(fx.engine->stats.bad_packets, ++refused);
	cr_assert_eq(fake.links, 0, "the connection is given up");
}
