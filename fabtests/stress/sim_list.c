/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The list of posted receives of a side's device: see sim.h and fake_list.h.
 *
 * Numbers of links are given again as soon as a link is gone, at random, but a peer keeps its part.
 */
#include "sim_xport.h"

#include <endian.h>
#include <string.h>

enum { LIVES = TAGRV_OFFLOAD_LIFE + 1 };	/* most links to a peer */

static enum fake_list_way way_of(const struct tagrv_link *base)
{
	const struct sim_link *link = (const struct sim_link *)base;

	if (!link->attached)
		return FAKE_LIST_KEEP;
	return link->closing ? FAKE_LIST_DROP : FAKE_LIST_DELIVER;
}

static void forged(struct tagrv_link *base)
{
	const struct sim_link *link = sim_link_of(base);

	sim_fail("side %d is sent a number of another one by side %d", link->side, link->other);
}

void sim_list_open(struct sim_xport *x)
{
	static const struct fake_list_owner owner = { .way = way_of, .forged = forged };

	if (!x->base.sink->wants_list || sim_chance(20))
		return;
	x->list = fake_list_create(1 + (uint32_t)sim_below(sim_chance(50) ? 8 : 200),
				   2 + (uint32_t)sim_below(20), &owner);
	x->base.list = &x->list->base;
	SIM_TRACE("  a list of %u", x->list->base.max_entries);
}

void sim_list_close(struct sim_xport *x)
{
	if (x->list)
		fake_list_destroy(x->list);
}

/* --- links --- */

/* 0: the peer has too many links that are not gone. */
static uint16_t take_number(struct sim_xport *x, int peer)
{
	size_t first = (size_t)(peer + 1) * LIVES, life = sim_below(LIVES);

	for (size_t i = 0; i < LIVES; i++, life = (life + 1) % LIVES) {
		if (x->numbers >> (first + life) & 1)
			continue;
		x->numbers |= UINT64_C(1) << (first + life);
		return (uint16_t)(first + life);
	}
	return 0;
}

static void bind_end(struct sim_link *link, struct sim_link *peer)
{
	struct sim_xport *x = sim_xport_of(link->base.xport);

	if (!x->base.list || !sim.side[peer->side].hw_tags)
		return;
	link->base.given = peer->base.number = take_number(x, peer->side);
	if (!link->base.given)
		return;
	/* At both ends, which must agree about the size of fragments. */
	link->base.max_packet = peer->base.max_packet =
		TAGRV_MIN(x->base.attr.max_packet, peer->base.xport->attr.max_packet) -
		TAG_LIST_TMH;
}

void sim_list_bind(struct sim_link *link[2])
{
	bind_end(link[0], link[1]);
	bind_end(link[1], link[0]);
}

void sim_list_end_link(struct sim_link *link)
{
	if (link->base.given)
		fake_list_end_link(sim_xport_of(link->base.xport)->list, &link->base);
}

void sim_list_discard_link(struct sim_link *link)
{
	struct sim_xport *x = sim_xport_of(link->base.xport);

	if (!link->base.given)
		return;
	fake_list_forget_link(x->list, &link->base);
	x->numbers &= ~(UINT64_C(1) << link->base.given);
}

/* --- packets --- */

static void check_listed(const struct sim_link *link, const struct item *item)
{
	uint64_t tag;

	SIM_CHECK(item->len >= TAG_LIST_TMH && item->data[0] == TAG_LIST_OP_EAGER,
		  "a tagged message without its words");
	memcpy(&tag, item->data + 8, sizeof(tag));
	tag = be64toh(tag) >> TAGRV_OFFLOAD_TAG_BITS & TAGRV_OFFLOAD_SOURCES;
	SIM_CHECK(tag == link->base.number, "a tagged message has number %u, not %u",
		  (unsigned)tag, link->base.number);
}

void sim_list_check(const struct sim_link *link, const struct item *item)
{
	struct tagrv_hdr hdr;
	size_t len = item->len + tagrv_iov_len(item->iov, item->iov_cnt);

	SIM_CHECK(!item->listed || link->base.number, "a tagged message for no list");
	if (!link->base.number)
		return;
	SIM_CHECK(len <= link->base.max_packet + (item->listed ? TAG_LIST_TMH : 0),
		  "a packet of %zu bytes", len);
	if (item->listed) {
		check_listed(link, item);
		return;
	}
	SIM_CHECK(item->len >= sizeof(hdr), "a packet of %zu bytes", len);
	memcpy(&hdr, item->data, sizeof(hdr));
	SIM_CHECK(!((hdr.opcode == TAGRV_PKT_EAGER || hdr.opcode == TAGRV_PKT_RTS) &&
		    le16toh(hdr.flags) & TAGRV_PKT_TAGGED), "a tagged message passes the list");
}

void sim_list_arrive(struct sim_link *link, const struct item *packet)
{
	struct fake_list *list = sim_xport_of(link->base.xport)->list;

	if (packet->listed)
		fake_list_arrive(list, &link->base, packet->data, packet->len);
	else
		fake_list_packet(list, &link->base, packet->data, packet->len);
}

int sim_list_progress(struct sim_xport *x)
{
	struct fake_list *list = x->list;

	if (!list)
		return 0;
	fake_list_delay(list, (uint32_t)sim_below(sim.mix.late + 1),
			(uint32_t)sim_below(sim.mix.late + 1));
	list->data_delay = (unsigned)sim_below(sim.mix.late + 1);
	list->reports = (unsigned)sim_below(30);
	list->refuse = sim_chance(sim.mix.full) ? 1 : 0;
	if (sim.mix.breaks && !sim_below(5000)) {
		SIM_TRACE("a list is lost");
		sim.broken = true;
		fake_list_fail(list, -FI_EIO);
	}
	return list->base.ops->progress(&list->base);
}
