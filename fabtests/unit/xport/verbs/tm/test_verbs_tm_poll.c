/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What comes to a list of posted receives: messages that entries take, and all others.
 */
#include <criterion/criterion.h>
#include <infiniband/tm_types.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "unit/xport/verbs/tm/tm_fixture.h"

TestSuite(verbs_tm_poll, .init = tm_prepare, .timeout = 10);

static void add(unsigned n, uint64_t tag)
{
	cr_assert_eq(tm_add(n, tag, 0), 0);
	tm_expect(TM_ADDED, n);
}

static void assert_filled(const char *mem, char fill, size_t len)
{
	for (size_t i = 0; i < len; i++)
		cr_assert_eq(mem[i], fill, "byte %zu is %d", i, mem[i]);
}

Test(verbs_tm_poll, a_message_fills_the_entry)
{
	struct tm_note note;

	tm_open();
	add(0, 5);
	list_peer_eager(&tm.peer, 5, 0x12345678, 'm', 300);
	note = tm_expect(TM_CONSUMED, 0);
	cr_assert(note.tag == 5 && note.app == 0x12345678);
	note = tm_expect(TM_DATA, 0);
	cr_assert(note.len == 300 && !note.status && !tm.entries[0].due);
	assert_filled(tm.mem[0], 'm', 300);
	tm_expect_none();
	tm_close();
}

static int end_others(void *owner, uint32_t qpn, uint64_t tag, struct tagrv_link **link)
{
	struct tagrv_link other = { .ctx = owner };

	(void) qpn;
	(void) tag;
	tagrv_verbs_tm_end(tm.list, &other);
	cr_assert_eq(tm.list->ops->del(tm.list, &tm.entries[0]), -FI_EALREADY);
	cr_assert_eq(tm.cnt, tm.read, "the match is told first");
	*link = &tm.link;
	return 0;
}

/* The owner may handle packets before it says by which link a message came. */
Test(verbs_tm_poll, other_links_may_end_while_the_link_of_a_match_is_looked_up)
{
	tm.config.tm_mtu = 256;
	tm.attr.match = end_others;
	tm_open();
	add(0, 5);
	tm_delay(0, 0, 20);
	list_peer_eager(&tm.peer, 5, 0, 'm', 300);
	tm_expect(TM_CONSUMED, 0);
	cr_assert_eq(tm_expect(TM_DATA, 0).status, 0);
	assert_filled(tm.mem[0], 'm', 300);
	tm_close();
}

Test(verbs_tm_poll, the_oldest_entry_that_matches_takes_a_message)
{
	tm_open();
	add(0, 6);
	add(1, 5);
	add(2, 5);
	for (int i = 0; i < 2; i++)
		list_peer_eager(&tm.peer, 5, 0, (char) ('a' + i), 10);
	tm_expect(TM_CONSUMED, 1);
	tm_expect(TM_DATA, 1);
	tm_expect(TM_CONSUMED, 2);
	tm_expect(TM_DATA, 2);
	assert_filled(tm.mem[2], 'b', 10);
	tm_close();
}

Test(verbs_tm_poll, other_packets_come_whole_and_in_order)
{
	tm_open();
	list_peer_no_tag(&tm.peer, 'n', 20, 0xabcd);
	list_peer_eager(&tm.peer, 5, 0, 'u', 30);
	cr_assert_eq(tm_expect(TM_UNTAGGED, 0).len, 20 + sizeof(struct ibv_tmh));
	cr_assert_eq(tm.imm, 0xabcd);
	cr_assert_eq(tm_expect(TM_TAGGED, 0).len, 30 + sizeof(struct ibv_tmh));
	cr_assert_eq(tm.last[0], IBV_TMH_EAGER);
	assert_filled(tm.last + sizeof(struct ibv_tmh), 'u', 30);
	tm_close();
}

/* More packets than there are receive buffers, and more commands than one progress handles. */
Test(verbs_tm_poll, buffers_and_entries_are_used_again)
{
	tm_open();
	tm.readd = UINT32_MAX;
	add(0, 5);
	for (int i = 0; i < 500; i++) {
		list_peer_eager(&tm.peer, 5, 0, 'm', 10);
		tm_expect(TM_CONSUMED, 0);
		tm_expect(TM_DATA, 0);
		tm_expect(TM_ADDED, 0);
		list_peer_no_tag(&tm.peer, 'n', 10, 0);
		tm_expect(TM_UNTAGGED, 0);
		cr_assert_null(list_peer_fin(&tm.peer));
	}
	cr_assert_eq(fake_verbs_count().rnr, 0);
	cr_assert_eq(tm.tm->stale, 0);
	tm_close();
}

Test(verbs_tm_poll, data_of_a_long_message_comes_later)
{
	tm.config.tm_mtu = 256;
	tm_open();
	add(0, 5);
	add(1, 6);
	tm_delay(0, 0, 20);
	list_peer_eager(&tm.peer, 5, 7, 'm', 257);
	cr_assert_eq(tm_expect(TM_CONSUMED, 0).app, 7);
	cr_assert_eq(tm.entries[0].due, TAGRV_TAGLIST_DATA);
	cr_assert_eq(tm.list->ops->del(tm.list, &tm.entries[0]), -FI_EALREADY);
	list_peer_eager(&tm.peer, 6, 0, 's', 10);
	tm_expect(TM_CONSUMED, 1);
	tm_expect(TM_DATA, 1);
	cr_assert_eq(tm_expect(TM_DATA, 0).len, 257);
	tm_close();
}

/* The queue pair of the message is gone, says the caller; its completion comes all the same. */
Test(verbs_tm_poll, data_behind_its_link_is_ignored)
{
	tm.config.tm_mtu = 256;
	tm_open();
	add(0, 5);
	tm_delay(0, 0, 20);
	list_peer_eager(&tm.peer, 5, 7, 'm', 257);
	tm_expect(TM_CONSUMED, 0);
	tagrv_verbs_tm_end(tm.list, &tm.link);
	tm_expect(TM_DATA, 0);
	for (unsigned i = 0; i < TM_ENTRIES; i++) {
		cr_assert_eq(tm_add(1, 6, 0), 0);
		tm_expect(TM_ADDED, 1);
		cr_assert_eq(tm.list->ops->del(tm.list, &tm.entries[1]), 0);
		tm_expect(TM_DELETED, 1);
	}
	for (unsigned i = 0; i < 30 && !tm.tm->stale; i++)
		tm_expect_none();
	cr_assert_eq(tm.tm->stale, 1);
	tm_close();
}

/* An entry has matched a message, whose data comes much later. */
static void stop_amid(unsigned n, uint64_t tag)
{
	tm_delay(0, 0, 40);
	list_peer_eager(&tm.peer, tag, 0, 'm', 300);
	tm_expect(TM_CONSUMED, n);
	cr_assert_eq(tm.entries[n].due, TAGRV_TAGLIST_DATA);
}

/* mlx5 keeps the entry, and has no room for another one in its place. */
Test(verbs_tm_poll, an_entry_whose_data_never_came_is_not_used_again)
{
	tm.config.tm_mtu = 256;
	tm_open();
	add(0, 5);
	stop_amid(0, 5);
	tagrv_verbs_tm_end(tm.list, &tm.link);
	cr_assert_eq(tm_expect(TM_DATA, 0).status, -FI_ECONNRESET);
	cr_assert_eq(tm.entries[0].due, TAGRV_TAGLIST_DATA, "it is the device's until close");
	for (unsigned i = 1; i < TM_ENTRIES; i++)
		add(i, 10 + i);
	cr_assert_eq(tm_add(TM_ENTRIES, 100, 0), -FI_EAGAIN);
	cr_assert_eq(tm.tm->fatal, 0);
	tagrv_verbs_tm_end(tm.list, &tm.link);
	for (int i = 0; i < 10 && !tm.tm->stale; i++)
		tm_expect_none();
	cr_assert_eq(tm.tm->stale, 1, "late data is not told");
	cr_assert_eq(tm_add(TM_ENTRIES, 100, 0), -FI_EAGAIN);
	tm_close();
}

/* The sender may be alive, and goes on: its bytes must not come into another entry. */
Test(verbs_tm_poll, memory_of_an_unknown_sender_is_not_used_again)
{
	struct tagrv_link other = { .ctx = &other };

	tm.config.tm_mtu = 256;
	tm.unknown = true;
	tm.match_status = -FI_EREMOTEIO;
	tm_open();
	add(0, 5);
	stop_amid(0, 5);
	tagrv_verbs_tm_end(tm.list, &other);
	cr_assert_eq(tm_expect(TM_DATA, 0).status, -FI_EREMOTEIO);
	cr_assert_eq(tm.entries[0].due, TAGRV_TAGLIST_DATA);
	add(1, 6);
	cr_assert_neq(tm.entries[1].slot, tm.entries[0].slot);
	tm_close();
}

/* The device has done with this one. */
Test(verbs_tm_poll, a_message_that_waits_for_its_link_ends_with_it)
{
	tm_open();
	tm.link.ctx = NULL;
	for (unsigned i = 0; i < 2 * TM_ENTRIES; i++) {
		tm.kept = 0;
		add(0, 5);
		list_peer_eager(&tm.peer, 5, 0, 'm', 10);
		tm_expect(TM_CONSUMED, 0);
		cr_assert_eq(tm.kept, 1);
		tm_expect_none();
		tagrv_verbs_tm_end(tm.list, &tm.link);
		cr_assert_eq(tm_expect(TM_DATA, 0).status, -FI_ECONNRESET);
		cr_assert_eq(tm.entries[0].due, 0);
		cr_assert_null(list_peer_fin(&tm.peer));
	}
	tm_close();
}

Test(verbs_tm_poll, the_device_reads_a_rendezvous)
{
	const uint8_t *fin;

	tm_open();
	add(0, 5);
	list_peer_rndv(&tm.peer, 5, 'r', TM_LEN, 0);
	tm_expect(TM_CONSUMED, 0);
	cr_assert_eq(tm_expect(TM_DATA, 0).len, TM_LEN);
	assert_filled(tm.mem[0], 'r', TM_LEN);
	fin = list_peer_fin(&tm.peer);
	cr_assert(fin && fin[0] == IBV_TMH_FIN);
	cr_assert_arr_eq(fin + 1, tm.peer.mem + 1, PEER_HEADERS - 1);
	tm_close();
}

Test(verbs_tm_poll, a_rendezvous_that_is_left_to_software_leaves_its_headers)
{
	struct tm_note note;

	tm_open();
	add(0, 5);
	list_peer_rndv(&tm.peer, 5, 'r', TM_LEN + 1, 0);
	tm_expect(TM_CONSUMED, 0);
	note = tm_expect(TM_DATA, 0);
	cr_assert_eq(note.status, TAGRV_TAGLIST_HEADERS);
	cr_assert_geq(note.len, PEER_HEADERS);
	cr_assert_arr_eq(tm.mem[0], tm.peer.mem, note.len);
	cr_assert_null(list_peer_fin(&tm.peer));
	tm_close();
}

Test(verbs_tm_poll, a_device_that_reads_nothing_leaves_all_to_software)
{
	tm.config.tm_no_read = true;
	tm_open();
	add(0, 5);
	list_peer_rndv(&tm.peer, 5, 'r', 10, 0);
	tm_expect(TM_CONSUMED, 0);
	cr_assert_eq(tm_expect(TM_DATA, 0).status, TAGRV_TAGLIST_HEADERS);
	tm_close();
}

Test(verbs_tm_poll, a_read_that_fails_ends_the_entry)
{
	tm_open();
	add(0, 5);
	list_peer_rndv(&tm.peer, 5, 'r', 10, 0x7777);
	tm_expect(TM_CONSUMED, 0);
	cr_assert_eq(tm_expect(TM_DATA, 0).status, -FI_ECONNRESET, "nobody has cancelled it");
	cr_assert_eq(tm.entries[0].due, 0);
	tm_close();
}

Test(verbs_tm_poll, a_message_that_is_too_long_ends_the_entry)
{
	tm_open();
	add(0, 5);
	list_peer_eager(&tm.peer, 5, 0, 'm', TM_LEN + 1);
	tm_expect(TM_CONSUMED, 0);
	cr_assert_eq(tm_expect(TM_DATA, 0).status, -FI_ETRUNC);
	tm_close();
}

Test(verbs_tm_poll, a_packet_that_is_too_long_is_an_error)
{
	tm_open();
	list_peer_no_tag(&tm.peer, 'n', 2048, 0);
	cr_assert_eq(tm_expect(TM_BAD_PACKET, 0).status, -FI_ETRUNC);
	tm_close();
}

/* The device's count and the software's: a kept message is in the first one only. */
Test(verbs_tm_poll, an_unexpected_message_is_counted_before_it_is_handled)
{
	struct tm_note note;

	tm_open();
	list_peer_eager(&tm.peer, 5, 0, 'u', 10);
	note = tm_expect(TM_TAGGED, 0);
	cr_assert(note.unexpected == 1 && note.handled == 0);
	tm_expect_none();
	cr_assert(tm.unexpected == 1 && tm.handled == 1);
	tm.keep = true;
	list_peer_eager(&tm.peer, 5, 0, 'k', 10);
	tm_expect(TM_TAGGED, 0);
	tm_expect_none();
	cr_assert(tm.unexpected == 2 && tm.handled == 1);
	tm.sink.handled(&tm.sink);
	cr_assert_eq(tm.handled, 2);
	tm_close();
}

Test(verbs_tm_poll, other_packets_and_failures_are_not_counted)
{
	struct ibv_wc failed = { .opcode = IBV_WC_TM_RECV, .status = IBV_WC_WR_FLUSH_ERR };

	tm_open();
	list_peer_no_tag(&tm.peer, 'n', 20, 0);
	tm_expect(TM_UNTAGGED, 0);
	add(0, 5);
	list_peer_eager(&tm.peer, 5, 0, 'm', 10);
	tm_expect(TM_CONSUMED, 0);
	tm_expect(TM_DATA, 0);
	list_peer_eager(&tm.peer, 6, 0, 'l', 2048);	/* longer than the buffer */
	tm_expect(TM_BAD_PACKET, 0);
	failed.qp_num = tm.qp->qp_num;
	failed.wr_id = tm.rxq.wr_ids[9];
	fake_verbs_inject_rx(tm.qp, &failed);
	cr_assert_eq(tm_expect(TM_BAD_PACKET, 0).status, -FI_ECONNRESET);
	tm_expect_none();
	cr_assert(tm.unexpected == 0 && tm.handled == 0);
	tm_close();
}

/* The message that came before the one in the buffer may be lost with the list. */
Test(verbs_tm_poll, no_packet_follows_the_end)
{
	struct ibv_wc failed = {
		.opcode = IBV_WC_TM_SYNC, .status = IBV_WC_GENERAL_ERR,
		.wr_id = (uint64_t) VERBS_TM_SYNC << VERBS_TM_KIND_SHIFT,
	};
	uint32_t posted;

	tm_open();
	posted = tm.rxq.posted;
	tm.tm->ops++;
	fake_verbs_inject_rx(tm.qp, &failed);
	list_peer_eager(&tm.peer, 5, 0, 'u', 10);
	list_peer_no_tag(&tm.peer, 'n', 20, 0);
	tm_expect(TM_FATAL, 0);
	tm_expect_none();
	cr_assert(tm.unexpected == 0 && tm.handled == 0);
	cr_assert_eq(tm.rxq.posted, posted);
	tm_close();
}

/* A buffer of which nothing is known: the message is dropped, but the device has counted it. */
Test(verbs_tm_poll, a_message_in_an_unknown_buffer_is_counted)
{
	struct ibv_wc late = { .opcode = IBV_WC_TM_RECV, .wr_id = 3 };

	tm_open();
	fake_verbs_inject_rx(tm.qp, &late);
	tm_expect_none();
	cr_assert(tm.unexpected == 1 && tm.handled == 1 && tm.tm->stale == 1);
	tm_close();
}

/* A peer that writes with immediate data takes a buffer, in which nothing is. */
Test(verbs_tm_poll, a_write_with_immediate_data_is_no_packet)
{
	struct ibv_wc wc = {
		.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .wc_flags = IBV_WC_WITH_IMM, .byte_len = 10,
	};

	tm_open();
	wc.wr_id = tm.rxq.wr_ids[0];
	wc.qp_num = tm.qp->qp_num;
	fake_verbs_inject_rx(tm.qp, &wc);
	cr_assert_eq(tm_expect(TM_BAD_PACKET, 0).status, -FI_EIO);
	tm_close();
}

Test(verbs_tm_poll, a_packet_may_come_before_the_commands_end)
{
	tm_open();
	tm_delay(0, 5, 0);
	cr_assert_eq(tm_add(0, 5, 0), 0);
	list_peer_eager(&tm.peer, 5, 0, 'm', 10);
	tm_expect(TM_CONSUMED, 0);
	tm_expect(TM_DATA, 0);
	cr_assert_eq(tm.entries[0].due, TAGRV_TAGLIST_ADDED);
	tm_expect(TM_ADDED, 0);
	cr_assert_eq(tm.entries[0].due, 0);
	tm_close();
}

Test(verbs_tm_poll, completions_of_a_former_entry_are_ignored)
{
	struct ibv_wc late = { .opcode = IBV_WC_TM_RECV, .wc_flags = IBV_WC_TM_MATCH };
	uint32_t slot, turn;

	tm_open();
	add(0, 5);
	slot = tm.entries[0].slot;
	turn = tm.tm->slots[slot].turn;
	list_peer_eager(&tm.peer, 5, 0, 'm', 10);
	tm_expect(TM_CONSUMED, 0);
	tm_expect(TM_DATA, 0);
	add(1, 5);
	cr_assert_eq(tm.entries[1].slot, slot);
	late.wr_id = (uint64_t) VERBS_TM_ENTRY << VERBS_TM_KIND_SHIFT |
		     (uint64_t) turn << 32 | slot;
	fake_verbs_inject_rx(tm.qp, &late);
	late.wr_id |= UINT32_MAX;	/* no slot at all */
	fake_verbs_inject_rx(tm.qp, &late);
	late.wr_id = 3;			/* a buffer's, never posted under this number */
	fake_verbs_inject_rx(tm.qp, &late);
	tm_expect_none();
	cr_assert_eq(tm.tm->stale, 3);
	list_peer_eager(&tm.peer, 5, 0, 'n', 10);
	tm_expect(TM_CONSUMED, 1);
	tm_expect(TM_DATA, 1);
	tm_close();
}
