/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Side links for tests: see side_calls.h.
 */
#include "unit/proto/rma/side_calls.h"

#include "object/view.h"

void side_setup(uint32_t caps)
{
	struct tagrv_engine_sinks sinks;
	struct tagrv_peer *peer;

	window_setup();
	sinks = fx.engine->sinks;
	sinks.remote_read_cntr = sinks.remote_write_cntr = NULL;
	tagrv_engine_set_sinks(fx.engine, &sinks);
	window.read_cntr = window.write_cntr = NULL;
	fake.base.attr.get_least = 1;
	fake.base.attr.caps |= TAGRV_XPORT_SIDE | caps;
	/* As protocols of messages may need no such rights: side links have their own. */
	fake.base.attr.admits = 0;
	fake.base.attr.max_short = FRAG;
	cr_assert_eq(tagrv_peer_of(fx.engine, fx.peer_addr, &peer), 0);
}

void side_teardown(void)
{
	if (fx.engine)
		tagrv_rma_recall(fx.dom, &window);
	tagrv_window_deregister(fx.dom, &window);
	window_teardown();
	cr_expect_eq(fake.links, 0);
	cr_expect_eq(fake.regs, 0);
}

void arrive_side(uint16_t flags, bool blob)
{
	arrive_side_nr(0, flags, blob);
}

void arrive_side_nr(uint32_t nr, uint16_t flags, bool blob)
{
	const struct {
		struct tagrv_hdr hdr;
		uint8_t	blob[4];
	} pkt = {
		.hdr = {
			.opcode = TAGRV_PKT_SIDE, .flags = htole16(flags), .op = htole32(nr),
		},
	};

	fake_deliver(fx.link, &pkt, sizeof(pkt.hdr) + (blob ? sizeof(pkt.blob) : 0));
	serve_all();
}

void arrive_view(uint32_t id, unsigned rights, size_t len, int err)
{
	const struct {
		struct tagrv_hdr hdr;
		struct tagrv_rma_source source;
		struct tagrv_rts_seg seg;
	} pkt = {
		.hdr = { .opcode = TAGRV_PKT_VIEW, .op = htole32(id), .tag = htobe64(KEY),
			 .seq = htole32(rights), .data = htole64((uint64_t) err) },
		.source = { .addr = htole64(BASE), .len = htole64(len), .seg_cnt = 1,
			    .key_len = 4 },
		.seg = { .addr = htole64((uintptr_t) open_mem), .len = htole64(len) },
	};

	fake_deliver(fx.link, &pkt, rights ? sizeof(pkt) : sizeof(pkt.hdr));
	serve_all();
}

size_t count_kind(enum fake_kind kind)
{
	size_t cnt = 0;

	for (size_t i = 0; i < fake.log_cnt; i++)
		cnt += fake.log[i].kind == kind;
	return cnt;
}

static bool is_move(enum fake_kind kind)
{
	return kind == FAKE_GET || kind == FAKE_PUT || kind == FAKE_ATOMIC;
}

void end_moves(int status)
{
	size_t cnt = fake.log_cnt;

	for (size_t i = 0; i < cnt; i++)
		if (is_move(fake.log[i].kind) && !fake.log[i].ended)
			fake_complete(i, status);
	serve_all();
}
