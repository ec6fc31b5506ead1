/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Asynchronous events of fake devices.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "unit/xport/pair.h"
#include "xport/verbs/verbs_priv.h"

static struct pair pair;
static const struct tagrv_xport_ops *const ops = &tagrv_verbs_ops;

static void start(void)
{
	pair_open(&pair, PAIR_SRQ);
	pair_connect(&pair);
}

/* Raises an event on the device of end a and has it read. */
static void raise_on_a(enum ibv_event_type type, void *element)
{
	int fd = ops->dev_event_fd(pair.a->dev);

	cr_assert(!is_readable(fd, 0));
	fake_verbs_event(0, type, element);
	cr_assert(is_readable(fd, 0));
	ops->dev_event(pair.a->dev);
	cr_assert(!is_readable(fd, 0));
}

TestSuite(verbs_event, .init = start, .timeout = 10);

Test(verbs_event, nothing_to_read_is_fine)
{
	ops->dev_event(pair.a->dev);
	pair_close(&pair);
}

Test(verbs_event, ports_come_and_go)
{
	int one = 1, two = 2;

	raise_on_a(IBV_EVENT_PORT_ERR, &one);
	raise_on_a(IBV_EVENT_PORT_ACTIVE, &one);
	raise_on_a(IBV_EVENT_PORT_ERR, &two);
	raise_on_a(IBV_EVENT_GID_CHANGE, &two);
	pair_send(&pair, pair.a, 1, 8, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	cr_assert_eq(pair.a->errors + pair.a->fatals, 0);
	pair_close(&pair);
}

static unsigned backs;

static void count_back(struct tagrv_sink *sink)
{
	cr_assert_eq(sink, &pair.a->sink);
	backs++;
}

Test(verbs_event, owner_hears_that_its_port_is_back)
{
	int one = 1, two = 2;

	pair.a->sink.port_back = count_back;
	raise_on_a(IBV_EVENT_PORT_ERR, &one);
	raise_on_a(IBV_EVENT_PORT_ACTIVE, &two);
	pair_progress(&pair);
	cr_assert_eq(backs, 0);
	raise_on_a(IBV_EVENT_PORT_ACTIVE, &one);
	cr_assert_eq(backs, 0, "not in the event's thread");
	cr_assert_eq(ops->arm(pair.a->xport), -FI_EAGAIN, "nobody sleeps meanwhile");
	pair_progress(&pair);
	cr_assert_eq(backs, 1);
	/* An address may come later than the port. */
	raise_on_a(IBV_EVENT_GID_CHANGE, &one);
	pair_progress(&pair);
	cr_assert_eq(backs, 2);
	pair_progress(&pair);
	cr_assert_eq(backs, 2);
	pair_close(&pair);
}

Test(verbs_event, broken_queue_pair_breaks_its_link)
{
	raise_on_a(IBV_EVENT_QP_FATAL, fake_verbs_last_qp(0));
	cr_assert_eq(pair.a->errors, 0, "not in the event's thread");
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EIO);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), -FI_ENOTCONN);
	raise_on_a(IBV_EVENT_QP_ACCESS_ERR, fake_verbs_last_qp(0));
	for (int i = 0; i < 10; i++)
		pair_progress(&pair);
	cr_assert_eq(pair.a->errors, 1);
	pair_close(&pair);
}

Test(verbs_event, harmless_ones_are_ignored)
{
	raise_on_a(IBV_EVENT_COMM_EST, fake_verbs_last_qp(0));
	raise_on_a(IBV_EVENT_QP_LAST_WQE_REACHED, fake_verbs_last_qp(0));
	for (int i = 0; i < 10; i++)
		pair_progress(&pair);
	cr_assert_eq(pair.a->errors, 0);
	pair_close(&pair);
}

static union ibv_gid gid_of_new_link(void)
{
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *link;
	struct verbs_blob own;
	size_t len;

	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &link), 0);
	cr_assert_eq(tagrv_verbs_blob_unpack(&own, blob, len), 0);
	ops->link_discard(link);
	return own.gid;
}

/* Blobs of later links have the new address of the interface. */
static void address_changes(enum ibv_event_type type)
{
	const struct ibv_gid_entry gids[] = { {
		.gid = { .raw = { [10] = 0xff, [11] = 0xff, [15] = type + 1 } },
		.gid_index = 3, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2,
	} };
	union ibv_gid before = gid_of_new_link(), after;
	int one = 1, two = 2;

	fake_verbs_set_gids(gids, 1);
	raise_on_a(type, &two);
	after = gid_of_new_link();
	cr_assert_arr_eq(&after, &before, sizeof(after), "not our port");
	raise_on_a(type, &one);
	after = gid_of_new_link();
	cr_assert_arr_eq(&after, &gids[0].gid, sizeof(after));
	fake_verbs_set_gids(gids, 0);
	raise_on_a(type, &one);
	after = gid_of_new_link();
	cr_assert_arr_eq(&after, &gids[0].gid, sizeof(after), "nothing better");
}

Test(verbs_event, new_addresses_of_the_port_are_told)
{
	address_changes(IBV_EVENT_GID_CHANGE);
	address_changes(IBV_EVENT_LID_CHANGE);
	address_changes(IBV_EVENT_PKEY_CHANGE);
	address_changes(IBV_EVENT_CLIENT_REREGISTER);
	address_changes(IBV_EVENT_PORT_ACTIVE);
	pair_close(&pair);
}

static void expect_fatal(int status)
{
	struct op op;

	op_init(&op);
	fake_verbs_hold(true);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, &op), 0);
	PAIR_UNTIL(&pair, pair.a->fatals == 1);
	cr_assert_eq(pair.a->fatal_status, status);
	cr_assert_eq(pair.a->errors, 1, "and every link with it");
	cr_assert_eq(pair.a->error_status, status);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), -FI_ENOTCONN);
	end_close_link(pair.a);
	cr_assert_eq(op.calls, 1);
	cr_assert_eq(op.status, status);
	cr_assert_eq(pair.a->fatals, 1);
	fake_verbs_hold(false);
}

Test(verbs_event, dead_completion_queue_is_fatal)
{
	raise_on_a(IBV_EVENT_CQ_ERR, fake_verbs_last_cq(0));
	expect_fatal(-FI_EIO);
	pair_close(&pair);
}

/* Peers that connect later are refused by the dead endpoint. */
Test(verbs_event, dead_queues_take_no_links)
{
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *link;
	size_t len;

	raise_on_a(IBV_EVENT_CQ_ERR, fake_verbs_last_cq(0));
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &link),
		     -FI_EIO);
	expect_fatal(-FI_EIO);
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &link),
		     -FI_EIO);
	pair_close(&pair);
}

Test(verbs_event, dead_receive_queue_is_fatal)
{
	struct ibv_srq *srq = fake_verbs_last_srq(0);

	if (srq)	/* a link's own queue ends with its queue pair */
		raise_on_a(IBV_EVENT_SRQ_ERR, srq);
	else
		raise_on_a(IBV_EVENT_CQ_ERR, verbs_xport_of(pair.a->xport)->rx.cq);
	expect_fatal(-FI_EIO);
	pair_close(&pair);
}

Test(verbs_event, dead_device_is_fatal_for_all)
{
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *link;
	struct end *other = calloc(1, sizeof(*other));
	size_t len;

	end_open(other, ops, "fake0", &pair.a->params);
	raise_on_a(IBV_EVENT_DEVICE_FATAL, NULL);
	ops->dev_event(other->dev);
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &link),
		     -FI_ENODEV);
	expect_fatal(-FI_ENODEV);
	ops->progress(other->xport);
	cr_assert_eq(other->fatals, 1);
	end_close(other);
	free(other);
	pair_close(&pair);
}

/* There is no event; only reading events fails. */
Test(verbs_event, unplugged_device_is_fatal)
{
	int fd = ops->wait_fd(pair.a->xport);

	fake_verbs_unplug(0);
	ops->dev_event(pair.a->dev);
	ops->dev_event(pair.a->dev);
	expect_fatal(-FI_ENODEV);
	for (int i = 0; i < 3; i++)
		ops->progress(pair.a->xport);
	cr_assert_eq(ops->arm(pair.a->xport), 0);
	cr_assert_eq(ops->arm(pair.a->xport), 0, "once and for all");
	cr_assert(!is_readable(fd, 0), "who waits must not spin");
	pair_close(&pair);
}

/* An endpoint opened after the device died is told at once. */
Test(verbs_event, late_xport_hears_of_the_death)
{
	struct tagrv_xport *xport;

	raise_on_a(IBV_EVENT_DEVICE_FATAL, NULL);
	PAIR_UNTIL(&pair, pair.a->fatals == 1);
	cr_assert_eq(ops->xport_open(pair.a->dev, &pair.a->params,
				     &pair.a->sink, &xport), 0);
	ops->progress(xport);
	cr_assert_eq(pair.a->fatals, 2);
	ops->xport_close(xport);
	pair_close(&pair);
}

/* An event that another thread reads wakes threads that sleep on the endpoint. */
Test(verbs_event, sleepers_are_woken)
{
	int fd = ops->wait_fd(pair.a->xport);

	while (ops->arm(pair.a->xport))
		ops->progress(pair.a->xport);
	cr_assert(!is_readable(fd, 0));
	raise_on_a(IBV_EVENT_DEVICE_FATAL, NULL);
	cr_assert(is_readable(fd, 0));
	cr_assert_eq(ops->arm(pair.a->xport), -FI_EAGAIN);
	ops->progress(pair.a->xport);
	cr_assert_eq(pair.a->fatals, 1);
	pair_close(&pair);
}

Test(verbs_event, many_wakeups_are_acknowledged)
{
	for (unsigned i = 0; i < 300; i++) {
		while (ops->arm(pair.b->xport))
			ops->progress(pair.b->xport);
		cr_assert_eq(end_send(pair.a, i, 8, 0, NULL), 0);
		pair.a->xport->ops->progress(pair.a->xport);
		PAIR_UNTIL(&pair, pair.b->packet_cnt == i + 1);
	}
	pair_close(&pair);	/* checks that all events were acknowledged */
}

static int keep_qp(struct ibv_qp *qp)
{
	(void) qp;
	return EBUSY;
}

/* The device goes on with a queue pair that it does not destroy, whose link is gone. */
Test(verbs_event, queue_pair_that_is_not_destroyed_has_events_of_no_link)
{
	struct verbs_xport *xp = verbs_xport_of(pair.a->xport);
	const struct tagrv_verbs_calls *real = xp->calls;
	struct ibv_qp *qp = verbs_link_of(pair.a->link)->qp;
	struct tagrv_verbs_calls calls = *real;

	calls.destroy_qp = keep_qp;
	xp->calls = &calls;
	end_close_link(pair.a);
	xp->calls = real;
	cr_assert_null(qp->qp_context);
	raise_on_a(IBV_EVENT_QP_FATAL, qp);
	cr_assert_eq(atomic_load(&xp->alarm) & VERBS_ALARM_LINK, 0);
	cr_assert_eq(real->destroy_qp(qp), 0);
	pair_close(&pair);
}
