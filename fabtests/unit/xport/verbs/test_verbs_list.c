/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A list of posted receives as a part of an xport: when there is one, and that it is driven,
 * slept for and closed with the xport.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/tm/list_peer.h"
#include "unit/xport/verbs/verbs_fixture.h"
#include "xport/verbs/verbs_list_rx.h"

/* What the xport and its list told. */
static struct {
	int	fatal, list_fatal;
	unsigned added, unexpected, handled;
} told;

static struct tagrv_device *dev;
static struct verbs_xport *xp;
static struct tagrv_xport *xport;

static void on_fatal(struct tagrv_sink *sink, int status)
{
	(void) sink;
	told.fatal = status;
}

static void on_room(struct tagrv_sink *sink)
{
	(void) sink;
}

static void on_list_fatal(struct tagrv_taglist_sink *sink, int status)
{
	(void) sink;
	told.list_fatal = status;
}

static void on_added(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		     bool sync_req)
{
	(void) sink;
	(void) entry;
	(void) sync_req;
	told.added++;
}

static void on_unexpected(struct tagrv_taglist_sink *sink)
{
	(void) sink;
	told.unexpected++;
}

static void on_handled(struct tagrv_taglist_sink *sink)
{
	(void) sink;
	told.handled++;
}

static void on_closed(struct tagrv_sink *sink, void *ctx)
{
	(void) sink;
	(void) ctx;
}

static struct tagrv_sink sink;
static struct tagrv_taglist_sink list_sink;

static void prepare(void)
{
	verbs_prepare();
	config = list_devices();
	verbs_need_srq();
	params.hw_tags = true;
	sink = (struct tagrv_sink) {
		.wants_list = true, .fatal = on_fatal, .room = on_room,
		.link_closed = on_closed,
	};
	list_sink = (struct tagrv_taglist_sink) {
		.added = on_added, .fatal = on_list_fatal, .unexpected = on_unexpected,
		.handled = on_handled,
	};
}

static void open_one(void)
{
	fake_verbs_start(&config);
	cr_assert_eq(tagrv_verbs_ops.dev_open("fake0", &params, &dev), 0);
	cr_assert_eq(tagrv_verbs_ops.xport_open(dev, &params, &sink, &xport), 0);
	xp = verbs_xport_of(xport);
	if (xport->list)
		xport->list->sink = &list_sink;
}

static void close_one(void)
{
	xport->ops->xport_close(xport);
	tagrv_verbs_ops.dev_close(dev);
	cr_assert_eq(fake_verbs_count().objects, 0);
	cr_assert_eq(fake_verbs_count().registered, 0);
	cr_assert_eq(fake_verbs_count().lost_events, 0);
	fake_verbs_stop();
}

static void progress(void)
{
	for (int i = 0; i < 10; i++)
		xport->ops->progress(xport);
}

static struct tagrv_taglist_entry entry;

static void add(void)
{
	entry = (struct tagrv_taglist_entry) { .tag = 5, .mask = UINT64_MAX };
	cr_assert_eq(xport->list->ops->add(xport->list, &entry, 0), 0);
}

TestSuite(verbs_list, .init = prepare, .timeout = 20);

Test(verbs_list, is_a_part_of_an_xport_that_wants_one)
{
	open_one();
	cr_assert_not_null(xport->list);
	cr_assert_eq(xport->list->max_entries, 8);
	cr_assert_eq(xp->list.pool.rxq.bufs.size, xp->pool.rxq.bufs.size);
	cr_assert_eq(xp->list.pool.rxq.bufs.max, tagrv_verbs_rx_max(xp) / 2);
	cr_assert_leq(xp->list.pool.rxq.bufs.total, VERBS_RX_SLAB);
	close_one();
}

static void expect_none(void)
{
	open_one();
	cr_assert_null(xport->list);
	cr_assert_eq(xport->ops, &tagrv_verbs_ops, "it costs nothing");
	progress();
	close_one();
	prepare();
}

Test(verbs_list, is_not_there_unless_all_want_it)
{
	params.hw_tags = false;
	expect_none();
	sink.wants_list = false;
	expect_none();
	params.srq = false;
	expect_none();
	config.tm.flags = 0;
	expect_none();
}

/* The xport is as good without it. */
Test(verbs_list, may_fail_to_open)
{
	config.max_cqe = VERBS_LIST_BUFS_LEAST;
	expect_none();
}

Test(verbs_list, is_driven_by_the_xport)
{
	open_one();
	add();
	cr_assert_eq(told.added, 0);
	cr_assert_geq(xport->ops->progress(xport), 1);
	cr_assert_eq(told.added, 1);
	close_one();
}

Test(verbs_list, wakes_those_who_sleep_for_the_xport)
{
	open_one();
	progress();
	cr_assert_eq(xport->ops->arm(xport), 0);
	cr_assert_not(is_readable(xport->ops->wait_fd(xport), 0));
	add();
	cr_assert(is_readable(xport->ops->wait_fd(xport), 1000));
	cr_assert_eq(xport->ops->arm(xport), -FI_EAGAIN);
	cr_assert_eq(told.added, 0);
	progress();
	cr_assert_eq(told.added, 1);
	cr_assert_eq(xport->ops->arm(xport), 0);
	cr_assert_not(is_readable(xport->ops->wait_fd(xport), 0));
	close_one();
}

/* Its owner may not have been there yet. */
Test(verbs_list, fails_with_the_device)
{
	for (int used = 0; used < 2; used++) {
		open_one();
		if (!used)
			xport->list->sink = NULL;
		atomic_store(&xp->async_fatal, -FI_ENODEV);
		verbs_alarm_set(xp, VERBS_ALARM_DEVICE);
		progress();
		cr_assert_eq(told.fatal, -FI_ENODEV);
		cr_assert_eq(told.list_fatal, used ? -FI_ENODEV : 0);
		close_one();
	}
}

Test(verbs_list, drops_what_comes_from_nobody)
{
	struct list_peer peer;
	struct ibv_qp *qp;

	open_one();
	cr_assert_eq(tagrv_verbs_list_qp_create(xp, NULL, &qp), 0);
	list_peer_open(&peer);
	list_peer_connect(&peer, qp);
	list_peer_eager(&peer, 5, 0, 'u', 10);
	list_peer_no_tag(&peer, 'n', 10, 1);
	progress();
	cr_assert(told.unexpected == 1 && told.handled == 1);
	cr_assert_eq(xp->list.stray, 2);
	cr_assert_eq(peer.calls->destroy_qp(qp), 0);
	list_peer_close(&peer);
	close_one();
}

static struct tagrv_link *links[2];

/* The xport is linked to itself. */
static struct verbs_link *link_to_itself(void)
{
	char blobs[2][TAGRV_BLOB_MAX];
	size_t len[2];

	for (int i = 0; i < 2; i++)
		cr_assert_eq(xport->ops->link_create(xport, blobs[i], &len[i], &links[i]), 0);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(xport->ops->link_bind(links[i], blobs[!i], len[!i]), 0);
		cr_assert_eq(xport->ops->link_attach(links[i], NULL), 0);
	}
	cr_assert(verbs_link_of(links[0])->in_number);
	return verbs_link_of(links[0]);
}

/* Its messages take no buffers if entries have taken them. */
Test(verbs_list, a_peer_whose_messages_are_expected_is_not_idle)
{
	struct tagrv_link *found;
	struct verbs_pool *pool;
	struct verbs_link *link;

	open_one();
	link = link_to_itself();
	pool = &xp->list.pool;
	for (int matches = 1; matches >= 0; matches--) {
		tagrv_verbs_window_set(link, 16);
		pool->rxq.next += 3ull * pool->rxq.bufs.total * (pool->rxq.slot_mask + 1);
		if (matches)
			cr_assert_eq(tagrv_verbs_list_match(xp, 0, (uint64_t) link->in_number <<
							    VERBS_LIST_NUMBER_AT, &found), 0);
		tagrv_verbs_recall_surplus(pool, true);
		cr_expect_eq(link->rx_window, matches ? 16 : VERBS_PERMIT_MIN);
	}
	xport->ops->link_close(links[0]);
	xport->ops->link_close(links[1]);
	while (!tagrv_list_empty(&xp->closing))
		xport->ops->progress(xport);
	close_one();
}
