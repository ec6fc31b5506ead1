/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What peers send to the list of an xport, and should not, or too late: end a has a list, and
 * end b sends to it.
 */
#include <criterion/criterion.h>
#include <endian.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "common/tag_list.h"
#include "unit/xport/verbs/tm/list_peer.h"
#include "unit/xport/verbs/verbs_fixture.h"
#include "xport/verbs/verbs_list_rx.h"

#define ENTRIES	2u
#define LEN	1024u

static const struct tagrv_xport_ops *const ops = &tagrv_verbs_ops;

/* What the list told of each entry, and how many errors of links were told before. */
static struct {
	unsigned consumed, data;
	int	consumed_status, data_status;
	unsigned errors_before;
	struct tagrv_link *link;
} told[ENTRIES];

static struct tagrv_taglist_entry entries[ENTRIES];
static char memory[ENTRIES][LEN];
static struct tagrv_mem *reg;
static unsigned listed;		/* unexpected messages that were handed over */
static unsigned handled;

static void on_added(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		     bool sync_req)
{
	(void) sink, (void) entry, (void) sync_req;
}

static void on_deleted(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		       bool gone)
{
	(void) sink, (void) entry, (void) gone;
	cr_assert_fail("nothing may be deleted");
}

static void on_consumed(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
			struct tagrv_link *link, uint64_t tag, uint32_t app, int status)
{
	size_t n = (size_t) (entry - entries);

	(void) sink, (void) tag, (void) app;
	told[n].consumed++;
	told[n].consumed_status = status;
	told[n].errors_before = pair.a->errors;
	told[n].link = link;
}

static void on_data(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		    size_t len, int status)
{
	(void) sink, (void) len;
	told[entry - entries].data++;
	told[entry - entries].data_status = status;
}

static void on_count(struct tagrv_taglist_sink *sink)
{
	(void) sink;
}

static void on_handled(struct tagrv_taglist_sink *sink)
{
	(void) sink;
	handled++;
}

static void on_list_fatal(struct tagrv_taglist_sink *sink, int status)
{
	(void) sink;
	cr_assert_fail("the list is lost: %d", status);
}

static void on_listed(struct tagrv_sink *sink, void *ctx, const void *data, size_t len)
{
	(void) sink, (void) ctx, (void) data, (void) len;
	listed++;
}

static struct tagrv_taglist_sink list_sink = {
	.added = on_added, .deleted = on_deleted, .consumed = on_consumed, .data = on_data,
	.unexpected = on_count, .handled = on_handled, .room = on_count,
	.fatal = on_list_fatal,
};

static void prepare(void)
{
	verbs_prepare();
	verbs_need_srq();
	config.tm = list_devices().tm;
	params.hw_tags = true;
}

TestSuite(verbs_list_rx, .init = prepare, .timeout = 20);

/* A receive of any tag of any peer. */
static void add(unsigned n)
{
	struct tagrv_taglist *list = pair.a->xport->list;

	entries[n] = (struct tagrv_taglist_entry) {
		.addr = memory[n], .len = LEN, .mem = reg,
	};
	cr_assert_eq(list->ops->add(list, &entries[n], 0), 0);
}

/* End a has a list with all entries; b has none. */
static struct verbs_xport *open_both(void)
{
	verbs_open();
	ops->xport_close(pair.a->xport);
	pair.a->sink.wants_list = true;
	pair.a->sink.listed = on_listed;
	cr_assert_eq(ops->xport_open(pair.a->dev, &params, &pair.a->sink, &pair.a->xport), 0);
	cr_assert_not_null(pair.a->xport->list);
	pair.a->xport->list->sink = &list_sink;
	cr_assert_eq(ops->mem_reg(pair.a->dev, memory, sizeof(memory), TAGRV_MEM_STORE, &reg), 0);
	for (unsigned i = 0; i < ENTRIES; i++)
		add(i);
	return verbs_xport_of(pair.a->xport);
}

static void close_both(void)
{
	struct verbs_xport *xp = verbs_xport_of(pair.a->xport);

	if (pair.a->link)
		end_close_link(pair.a);
	cr_assert_eq(xp->stray_cnt, 0);
	ops->mem_dereg(reg);
	pair_close(&pair);
}

/* End b sends a message to the list of a, as the peer with this number. */
static void send_tagged(struct tagrv_link *link, uint16_t number, size_t len)
{
	unsigned char bytes[VERBS_LIST_WORDS + LEN] = { TAGRV_TAGLIST_EAGER };
	uint64_t tag = htobe64((uint64_t) number << VERBS_LIST_NUMBER_AT | 5);
	struct iovec iov = { bytes, VERBS_LIST_WORDS + len };

	memcpy(bytes + 8, &tag, sizeof(tag));
	cr_assert_eq(ops->send(link, &iov, 1, TAGRV_SEND_TAGGED, NULL), 0);
}

Test(verbs_list_rx, a_message_is_of_the_peer_whose_number_it_has)
{
	open_both();
	pair_connect(&pair);
	send_tagged(pair.b->link, pair.b->link->number, 10);
	PAIR_UNTIL(&pair, told[0].data == 1);
	cr_assert(!told[0].consumed_status && !told[0].data_status);
	cr_assert_eq(told[0].link, pair.a->link);
	close_both();
}

/* Its owner answers the end of the link by commands to the list. */
static void assert_told_of_the_match_first(void)
{
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EREMOTEIO);
	cr_assert(told[0].consumed == 1 && told[0].data == 1);
	cr_assert_eq(told[0].errors_before, 0);
	cr_assert(told[0].consumed_status == -FI_EREMOTEIO && told[0].data_status);
}

Test(verbs_list_rx, a_forged_number_ends_the_link_behind_its_message)
{
	open_both();
	pair_connect(&pair);
	send_tagged(pair.b->link, (uint16_t) (pair.b->link->number ^ 0x100), 10);
	assert_told_of_the_match_first();
	close_both();
}

Test(verbs_list_rx, a_message_that_was_not_permitted_ends_the_link_behind_it)
{
	open_both();
	pair_connect(&pair);
	verbs_link_of(pair.a->link)->rx_permits = 0;
	send_tagged(pair.b->link, pair.b->link->number, 10);
	assert_told_of_the_match_first();
	close_both();
}

/* Neither a match nor a packet: the message before them is missing. */
Test(verbs_list_rx, nothing_counts_behind_a_message_that_was_refused)
{
	uint16_t number;

	open_both();
	pair_connect(&pair);
	number = pair.b->link->number;
	send_tagged(pair.b->link, (uint16_t) (number ^ 0x100), 10);
	send_tagged(pair.b->link, number, 10);
	send_tagged(pair.b->link, number, 10);	/* no entry is left */
	cr_assert_eq(end_send(pair.b, 1, 10, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert(told[1].consumed == 1 && told[1].consumed_status == -FI_ECONNRESET);
	cr_assert(told[1].data == 1 && told[1].data_status);
	cr_assert_eq(listed, 0);
	cr_assert_eq(handled, 1, "but it is counted");
	cr_assert_eq(pair.a->packet_cnt, 0);
	close_both();
}

/* It was discarded while the message was on its way: keeping it would delay the end of the link. */
Test(verbs_list_rx, a_message_of_a_discarded_link_is_dropped_at_once)
{
	struct verbs_xport *xp = open_both();
	struct verbs_link *link;
	unsigned left;

	pair_link(&pair, &pair.a->link, &pair.b->link);
	cr_assert_eq(ops->link_attach(pair.b->link, pair.b), 0);
	link = verbs_link_of(pair.a->link);
	send_tagged(pair.b->link, pair.b->link->number, 10);
	tagrv_verbs_list_reap(xp);	/* the message has come */
	left = atomic_load(&pair.a->xport->quotas[0]->used) - link->counted;
	ops->link_discard(pair.a->link);
	tagrv_verbs_links_close_discarded(xp);
	pair.a->link = NULL;
	cr_assert_eq(told[0].consumed, 0);
	pair.a->xport->ops->progress(pair.a->xport);
	cr_assert(told[0].consumed == 1 && told[0].consumed_status == -FI_ECONNRESET);
	cr_assert(told[0].data == 1 && told[0].data_status == -FI_ECONNRESET);
	cr_assert_eq(xp->stray_cnt, 0);
	PAIR_UNTIL(&pair, atomic_load(&pair.a->xport->quotas[0]->used) == left);
	cr_assert_eq(told[0].consumed, 1);
	close_both();
}

/* A flushed receive shows only that the queue pair broke: the failed send says why. */
Test(verbs_list_rx, a_send_that_failed_explains_a_flushed_receive)
{
	struct ibv_wc flushed = { .opcode = IBV_WC_TM_NO_TAG, .status = IBV_WC_WR_FLUSH_ERR };
	struct verbs_xport *xp = open_both();
	struct verbs_link *link;

	pair_connect(&pair);
	link = verbs_link_of(pair.a->link);
	flushed.qp_num = link->in.qpn;
	flushed.wr_id = xp->list.pool.rxq.wr_ids[5];
	fake_verbs_fail_wr(1, IBV_WC_RETRY_EXC_ERR);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), 0);
	fake_verbs_inject_rx(link->in.qp, &flushed);
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EHOSTUNREACH);
	close_both();
}

/* ---- messages that stop ---- */

/* Of no peer that is known: the device names the queue pair of whole messages only. */
static void stop_amid(void)
{
	const struct tag_list_delays delays = { .data = TAG_LIST_HOLD };
	struct verbs_xport *xp = verbs_xport_of(pair.a->xport);

	tag_list_set_delays(fake_verbs_list(xp->list.pool.rxq.srq), &delays);
	send_tagged(pair.b->link, (uint16_t) (pair.b->link->number ^ 0x100), 300);
	PAIR_UNTIL(&pair, told[0].consumed == 1);
	cr_assert(told[0].consumed_status == -FI_EREMOTEIO && !told[0].link && !told[0].data);
}

/* A link of end a to a peer that does not want two queue pairs. */
static struct tagrv_link *connect_plain(void)
{
	char blob_a[TAGRV_BLOB_MAX], blob_b[TAGRV_BLOB_MAX];
	struct tagrv_link *link, *peer;
	struct verbs_blob plain;
	size_t len_a, len_b;

	cr_assert_eq(ops->link_create(pair.a->xport, blob_a, &len_a, &link), 0);
	cr_assert_eq(ops->link_create(pair.b->xport, blob_b, &len_b, &peer), 0);
	cr_assert_eq(tagrv_verbs_blob_unpack(&plain, blob_b, len_b), 0);
	plain.two = false;
	len_b = tagrv_verbs_blob_pack(&plain, blob_b);
	cr_assert_eq(ops->link_bind(link, blob_b, len_b), 0);
	ops->link_discard(peer);
	return link;
}

Test(verbs_list_rx, a_plain_peer_ends_no_message_of_others)
{
	struct tagrv_link *link;

	config.tm_mtu = 256;
	open_both();
	pair_connect(&pair);
	stop_amid();
	link = connect_plain();
	cr_assert_neq(verbs_link_of(link)->in_number, 0);
	cr_assert_eq(ops->link_attach(link, pair.a), 0);
	cr_assert_eq(told[0].data, 0);
	ops->link_close(link);
	PAIR_UNTIL(&pair, pair.a->closed == 1);
	cr_assert_eq(told[0].data, 0);
	close_both();
	cr_assert(told[0].data == 1 && told[0].data_status == -FI_EREMOTEIO);
}

Test(verbs_list_rx, a_message_that_stops_keeps_its_entry)
{
	config.tm_mtu = 256;
	open_both();
	pair_connect(&pair);
	stop_amid();
	end_close_link(pair.a);
	cr_assert(told[0].data == 1 && told[0].data_status == -FI_EREMOTEIO);
	cr_assert_eq(entries[0].due, TAGRV_TAGLIST_DATA);
	close_both();
}
