/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An engine whose device has a list of receives: see tags_fixture.h.
 */
#include "unit/engine/tags/tags_fixture.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

void tags_setup(void)
{
	setenv("FI_TAGRV_HW_TAGS", "yes", 1);
	fake_list_max = TAGS_ENTRIES;
	engine_setup();
	cr_assert_not_null(fx.engine->tags);
}

void tags_teardown(void)
{
	engine_teardown();
	fake_list_max = 0;
	unsetenv("FI_TAGRV_HW_TAGS");
}

void tags_peer_up(uint16_t given)
{
	fake.given = given;
	peer_up(true);
}

void tags_begin(void)
{
	tags_peer_up(TAGS_NUMBER);
	tags_message(0x77, "first", 5);
	tags_pass(2);
	cr_assert_eq(tags_counts().unexpected, 1);
}

struct tagrv_lane *tags_other_up(struct tagrv_link *link, uint32_t host, fi_addr_t *row)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP, .addr = fx.addr, .epoch = 100 + host,
		.sendable = true, .max_packet = fx.max_packet, .link = link,
	};
	struct tagrv_peer *other;

	event.addr.in.sin_addr.s_addr = htonl(0x0a000000 + host);
	cr_assert_eq(tagrv_avtab_insert(&fx.av, &event.addr, row), 0);
	tagrv_engine_wireup_event(fx.engine, &event);
	other = tagrv_peer_find(fx.engine, &event.addr);
	cr_assert_not_null(other);
	return other->lane;
}

void tags_pass(int cnt)
{
	for (int i = 0; i < cnt; i++)
		tagrv_engine_progress(fx.engine);
}

void tags_message(uint64_t tag, const void *bytes, size_t len)
{
	fake_listed(fx.link, tag, 0, bytes, len);
}

void tags_post(void *buf, size_t len, uint64_t tag, void *context, fi_addr_t src)
{
	struct tagrv_recv_req req = recv_req(buf, len, tag, context);

	req.src = src;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
}

struct tagrv_tags_counts tags_counts(void)
{
	struct tagrv_tags_counts counts;

	tagrv_tags_get_counts(fx.engine->tags, &counts);
	return counts;
}

void tags_expect_handled(unsigned cnt)
{
	cr_assert_eq(fake.list->unexpected, cnt);
	cr_assert_eq(fake.list->handled, cnt);
	cr_assert_eq(tags_counts().unexpected, cnt);
	cr_assert_eq(tags_counts().handled, cnt);
}

void tags_expect(void *context, uint64_t tag, size_t len)
{
	struct tagrv_comp comp = take(&fx.rx);

	cr_assert_eq(comp.err, 0, "error %d", (int) comp.err);
	cr_assert_eq(comp.context, context);
	cr_assert_eq(comp.tag, tag);
	cr_assert_eq(comp.len, len);
	cr_assert_eq(comp.src, fx.peer_addr);
}
