/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The list of posted receives of the scripted transport keeps the contract of
 * xport/taglist.h, on which tests of objects, protocols and engines rely.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "common/fake_xport.h"

#define ENTRIES	4u
#define LEN	64u
#define ANY	0

enum what {
	ADDED, DELETED, GONE, CONSUMED, DATA, SYNCED, UNEXPECTED, LISTED, HANDLED, ROOM, FATAL,
	CLOSED, BROKEN, PACKET,
};

/* What was told; n: number of the entry, or of bytes. */
struct note {
	enum what what;
	size_t	n;
	int	status;
	uint64_t tag;
	uint32_t app;
};

static struct rig {
	struct tagrv_params params;
	struct tagrv_device *dev;
	struct tagrv_sink sink;
	struct tagrv_taglist_sink list_sink;
	struct tagrv_xport *xport;
	struct tagrv_taglist *list;
	struct tagrv_link *link;
	struct tagrv_taglist_entry entries[ENTRIES + 1];
	char	mem[ENTRIES + 1][LEN];
	struct tagrv_mem *reg;
	struct note notes[64];
	unsigned cnt, read;
} rig;

static void note(enum what what, size_t n, int status, uint64_t tag, uint32_t app)
{
	cr_assert_lt(rig.cnt, TAGRV_ARRAY_SIZE(rig.notes));
	rig.notes[rig.cnt++] = (struct note) { what, n, status, tag, app };
}

static size_t number_of(const struct tagrv_taglist_entry *entry)
{
	return (size_t) (entry - rig.entries);
}

static void on_added(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		     bool sync_req)
{
	(void) sink;
	note(ADDED, number_of(entry), sync_req, 0, 0);
}

static void on_deleted(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		       bool gone)
{
	(void) sink;
	note(gone ? GONE : DELETED, number_of(entry), 0, 0, 0);
}

static void on_consumed(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
			struct tagrv_link *link, uint64_t tag, uint32_t app, int status)
{
	(void) sink;
	cr_assert(!link || link == rig.link);
	note(CONSUMED, number_of(entry), status, tag, app);
}

static void on_data(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry, size_t len,
		    int status)
{
	(void) sink;
	note(DATA, number_of(entry), status, len, 0);
}

static void on_synced(struct tagrv_taglist_sink *sink)
{
	(void) sink;
	note(SYNCED, ANY, 0, 0, 0);
}

static void on_unexpected(struct tagrv_taglist_sink *sink)
{
	(void) sink;
	note(UNEXPECTED, ANY, 0, 0, 0);
}

static void on_handled(struct tagrv_taglist_sink *sink)
{
	(void) sink;
	note(HANDLED, ANY, 0, 0, 0);
}

static void on_room(struct tagrv_taglist_sink *sink)
{
	(void) sink;
	note(ROOM, ANY, 0, 0, 0);
}

static void on_fatal(struct tagrv_taglist_sink *sink, int status)
{
	(void) sink;
	note(FATAL, ANY, status, 0, 0);
}

static void on_listed(struct tagrv_sink *sink, void *ctx, const void *data, size_t len)
{
	(void) sink;
	cr_assert_eq(ctx, &rig);
	cr_assert_eq(*(const uint8_t *) data, TAGRV_TAGLIST_EAGER);
	note(LISTED, len, 0, 0, 0);
}

static void on_packet(struct tagrv_sink *sink, void *ctx, const void *data, size_t len)
{
	(void) sink;
	cr_assert_eq(ctx, &rig);
	note(PACKET, len, 0, 0, 0);
	(void) data;
}

static void on_closed(struct tagrv_sink *sink, void *ctx)
{
	(void) sink;
	(void) ctx;
	note(CLOSED, ANY, 0, 0, 0);
}

static void on_error(struct tagrv_sink *sink, void *ctx, int status)
{
	(void) sink;
	(void) ctx;
	note(BROKEN, ANY, status, 0, 0);
}

/* The next thing that is told, with progress if need be. */
static struct note expect(enum what what, size_t n)
{
	for (int i = 0; i < 10 && rig.read == rig.cnt; i++)
		rig.xport->ops->progress(rig.xport);
	cr_assert_lt(rig.read, rig.cnt, "%d is not told", what);
	cr_assert_eq(rig.notes[rig.read].what, what, "%d is told, not %d",
		     rig.notes[rig.read].what, what);
	cr_assert_eq(rig.notes[rig.read].n, n);
	return rig.notes[rig.read++];
}

static void expect_none(void)
{
	for (int i = 0; i < 10; i++)
		rig.xport->ops->progress(rig.xport);
	cr_assert_eq(rig.read, rig.cnt, "%d is told", rig.notes[rig.read].what);
}

static int add(unsigned n, uint64_t tag, uint32_t count)
{
	rig.entries[n].tag = tag;
	return rig.list->ops->add(rig.list, &rig.entries[n], count);
}

static void make_link(void)
{
	uint8_t blob[TAGRV_BLOB_MAX];
	size_t len;

	fake.given = 7;
	cr_assert_eq(rig.xport->ops->link_create(rig.xport, blob, &len, &rig.link), 0);
}

static void setup(void)
{
	memset(&rig, 0, sizeof(rig));
	fake_list_max = ENTRIES;
	rig.dev = fake_device();
	rig.sink = (struct tagrv_sink) {
		.wants_list = true, .listed = on_listed, .packet = on_packet,
		.link_closed = on_closed,
		.link_error = on_error,
	};
	rig.list_sink = (struct tagrv_taglist_sink) {
		.added = on_added, .deleted = on_deleted, .consumed = on_consumed,
		.data = on_data, .synced = on_synced, .unexpected = on_unexpected,
		.handled = on_handled, .room = on_room, .fatal = on_fatal,
	};
	cr_assert_eq(rig.dev->ops->xport_open(rig.dev, &rig.params, &rig.sink, &rig.xport), 0);
	rig.list = rig.xport->list;
	cr_assert(rig.list && rig.list == &fake.list->base);
	rig.list->sink = &rig.list_sink;
	cr_assert_eq(rig.dev->ops->mem_reg(rig.dev, rig.mem, sizeof(rig.mem), TAGRV_MEM_STORE,
					   &rig.reg), 0);
	for (unsigned i = 0; i <= ENTRIES; i++)
		rig.entries[i] = (struct tagrv_taglist_entry) {
			.mask = UINT64_C(0xffffffffffff), .addr = rig.mem[i], .len = LEN,
			.mem = rig.reg,
		};
	make_link();
	rig.xport->ops->link_attach(rig.link, &rig);
}

static void teardown(void)
{
	expect_none();
	rig.xport->ops->xport_close(rig.xport);
	rig.dev->ops->mem_dereg(rig.reg);
	cr_assert_eq(fake.list, NULL);
	fake_list_max = 0;
}

/* Ends the link of the fixture before the teardown. */
static void close_link(void)
{
	rig.xport->ops->link_close(rig.link);
	fake_end_closed();
}

static void end(void)
{
	close_link();
	expect(CLOSED, ANY);
}

TestSuite(fake_xport_list, .init = setup, .fini = teardown, .timeout = 10);

Test(fake_xport_list, matched_bytes_are_there_with_the_data)
{
	struct note told;

	cr_assert_eq(add(0, 5, 0), 0);
	expect(ADDED, 0);
	fake.list->hold_data = true;
	fake_listed(rig.link, 5, 9, "hello", 6);
	told = expect(CONSUMED, 0);
	cr_assert_eq(told.tag, UINT64_C(7) << 48 | 5);
	cr_assert_eq(told.app, 9);
	expect_none();
	cr_assert_eq(rig.entries[0].due, TAGRV_TAGLIST_DATA);
	cr_assert_eq(rig.mem[0][0], 0, "the device has not written yet");
	cr_assert_eq(fake_list_pending(fake.list, rig.link), 1);
	cr_assert(fake_list_data(fake.list));
	cr_assert_eq(expect(DATA, 0).tag, 6, "bytes");
	cr_assert_str_eq(rig.mem[0], "hello");
	cr_assert_eq(rig.entries[0].due, 0);
	cr_assert(!fake_list_data(fake.list), "none waits");
	end();
}

Test(fake_xport_list, data_comes_in_any_order)
{
	add(0, 5, 0);
	add(1, 6, 0);
	expect(ADDED, 0);
	expect(ADDED, 1);
	fake.list->hold_data = true;
	fake_listed(rig.link, 6, 0, "b", 1);
	fake_listed(rig.link, 5, 0, "a", 1);
	expect(CONSUMED, 1);
	expect(CONSUMED, 0);
	cr_assert(fake_list_data_of(fake.list, &rig.entries[0]));
	expect(DATA, 0);
	cr_assert(fake_list_data(fake.list));
	expect(DATA, 1);
	fake.list->hold_data = false;
	fake.list->data_delay = 2;
	add(2, 7, 0);
	expect(ADDED, 2);
	fake_listed(rig.link, 7, 0, "c", 1);
	rig.xport->ops->progress(rig.xport);
	expect(CONSUMED, 2);
	rig.xport->ops->progress(rig.xport);
	cr_assert_eq(rig.read, rig.cnt, "one more progress");
	expect(DATA, 2);
	end();
}

Test(fake_xport_list, an_unexpected_message_makes_later_entries_wait)
{
	fake_listed(rig.link, 5, 0, "u", 1);
	expect(UNEXPECTED, ANY);
	expect(LISTED, TAG_LIST_TMH + 1);
	expect(HANDLED, ANY);
	cr_assert_eq(add(0, 5, 0), 0);
	cr_assert(expect(ADDED, 0).status, "a sync is wished");
	cr_assert(!fake_list_would_match(fake.list, UINT64_C(7) << 48 | 5));
	cr_assert_eq(rig.list->ops->sync(rig.list, 1), 0);
	expect(SYNCED, ANY);
	cr_assert(fake_list_would_match(fake.list, UINT64_C(7) << 48 | 5));
	cr_assert_eq(fake.list->told, 1);
	end();
}

Test(fake_xport_list, a_del_is_forestalled_by_a_message)
{
	fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
	add(0, 5, 0);
	cr_assert(fake_list_apply(fake.list));
	expect(ADDED, 0);
	cr_assert_eq(rig.list->ops->del(rig.list, &rig.entries[0]), 0);
	cr_assert_eq(rig.list->ops->del(rig.list, &rig.entries[0]), -FI_EALREADY);
	fake_listed(rig.link, 5, 0, "x", 1);
	cr_assert(fake_list_apply(fake.list));
	expect(CONSUMED, 0);
	expect(DATA, 0);
	expect(GONE, 0);
	cr_assert(!fake_list_apply(fake.list), "no command is left");
	fake_list_delay(fake.list, 0, 0);
	add(0, 5, 0);
	cr_assert_eq(rig.list->ops->del(rig.list, &rig.entries[0]), 0);
	expect(ADDED, 0);
	expect(DELETED, 0);
	cr_assert_eq(rig.entries[0].due, 0);
	end();
}

Test(fake_xport_list, refusals_are_followed_by_room)
{
	fake.list->refuse = 1;
	cr_assert_eq(add(0, 5, 0), -FI_EAGAIN);
	cr_assert_eq(rig.entries[0].due, 0);
	expect(ROOM, ANY);
	for (unsigned i = 0; i < ENTRIES; i++)
		cr_assert_eq(add(i, i, 0), 0);
	cr_assert_eq(add(ENTRIES, 0, 0), -FI_EAGAIN, "all entries are in use");
	for (unsigned i = 0; i < ENTRIES; i++)
		expect(ADDED, i);
	expect(ROOM, ANY);
	rig.entries[ENTRIES].tag = UINT64_C(1) << 60;
	cr_assert_eq(rig.list->ops->add(rig.list, &rig.entries[ENTRIES], 0), -FI_EINVAL);
	end();
}

Test(fake_xport_list, an_error_loses_the_list)
{
	add(0, 5, 0);
	expect(ADDED, 0);
	fake.list->error = -FI_EIO;
	cr_assert_eq(add(1, 6, 0), -FI_EIO);
	fake_listed(rig.link, 5, 0, "x", 1);
	cr_assert_eq(expect(FATAL, ANY).status, -FI_EIO);
	cr_assert_eq(rig.list->ops->sync(rig.list, 0), -FI_EIO);
	expect_none();
	end();
}

Test(fake_xport_list, messages_wait_until_their_link_is_attached)
{
	struct tagrv_link *first = rig.link;

	end();
	cr_assert_neq(first, NULL);
	make_link();
	add(0, 5, 0);
	expect(ADDED, 0);
	fake_listed(rig.link, 5, 0, "m", 1);
	fake_listed(rig.link, 5, 0, "u", 1);
	expect(CONSUMED, 0);
	expect(UNEXPECTED, ANY);
	expect_none();
	rig.xport->ops->link_attach(rig.link, &rig);
	cr_assert_eq(expect(CONSUMED, 0).tag, UINT64_C(7) << 48 | 5, "told again, in its turn");
	expect(LISTED, TAG_LIST_TMH + 1);
	expect(HANDLED, ANY);
	expect(DATA, 0);
	end();
}

Test(fake_xport_list, a_link_that_ends_leaves_no_data_due)
{
	add(0, 5, 0);
	add(1, 6, 0);
	expect(ADDED, 0);
	expect(ADDED, 1);
	fake.list->hold_data = true;
	fake_listed(rig.link, 5, 0, "x", 1);
	expect(CONSUMED, 0);
	fake_listed(rig.link, 6, 0, "y", 1);
	fake_listed(rig.link, 8, 0, "u", 1);
	close_link();
	expect(CONSUMED, 1);
	expect(UNEXPECTED, ANY);
	expect(HANDLED, ANY);
	cr_assert_eq(expect(DATA, 0).status, -FI_ECONNRESET);
	cr_assert_eq(expect(DATA, 1).status, -FI_ECONNRESET);
	expect(CLOSED, ANY);
}

Test(fake_xport_list, a_link_that_is_discarded_leaves_no_data_due)
{
	end();
	make_link();
	add(0, 5, 0);
	add(1, 6, 0);
	expect(ADDED, 0);
	expect(ADDED, 1);
	fake_listed(rig.link, 5, 0, "m", 1);
	fake_listed(rig.link, 9, 0, "u", 1);
	expect(CONSUMED, 0);
	expect(UNEXPECTED, ANY);
	fake_listed(rig.link, 6, 0, "m", 1);
	rig.xport->ops->link_discard(rig.link);
	expect(HANDLED, ANY);
	cr_assert_eq(expect(DATA, 0).status, -FI_ECONNRESET);
	cr_assert_neq(expect(CONSUMED, 1).status, 0);
	cr_assert_neq(expect(DATA, 1).status, 0);
}

Test(fake_xport_list, forged_numbers_and_long_messages_fail)
{
	char bytes[LEN + 1] = "";

	add(0, 5, 0);
	add(1, 6, 0);
	expect(ADDED, 0);
	expect(ADDED, 1);
	fake_listed(rig.link, 5, 0, bytes, sizeof(bytes));
	cr_assert_eq(expect(CONSUMED, 0).status, -FI_ETRUNC);
	cr_assert_eq(expect(DATA, 0).status, -FI_ETRUNC);
	fake_list_message(fake.list, rig.link, UINT64_C(8) << 48 | 6, 0, "x", 1);
	cr_assert_eq(expect(CONSUMED, 1).status, -FI_EREMOTEIO);
	/* Behind the first: whoever hears of it may delete entries that the device has. */
	expect(BROKEN, ANY);
	cr_assert_eq(expect(DATA, 1).status, -FI_EREMOTEIO);
	end();
}

Test(fake_xport_list, data_that_never_came_leaves_the_entry_to_the_list)
{
	add(0, 5, 0);
	expect(ADDED, 0);
	fake.list->hold_data = true;
	fake_listed(rig.link, 5, 0, "x", 1);
	expect(CONSUMED, 0);
	fake_list_forget_link(fake.list, rig.link);
	cr_assert_eq(expect(DATA, 0).status, -FI_ECONNRESET);
	cr_assert_eq(rig.entries[0].due, TAGRV_TAGLIST_DATA);
	add(1, 5, 0);
	expect(ADDED, 1);
	cr_assert_neq(rig.entries[1].slot, rig.entries[0].slot);
	end();
}

Test(fake_xport_list, packets_keep_their_order)
{
	add(0, 5, 0);
	expect(ADDED, 0);
	fake_list_packet(fake.list, rig.link, "ab", 2);
	fake_listed(rig.link, 5, 0, "m", 1);
	fake_list_packet(fake.list, rig.link, "abc", 3);
	fake_listed(rig.link, 5, 0, "u", 1);
	fake.list->reports = 1;
	expect(PACKET, 2);
	rig.xport->ops->progress(rig.xport);
	cr_assert_eq(rig.cnt, rig.read + 2, "one report: a message with its data");
	expect(CONSUMED, 0);
	expect(DATA, 0);
	expect(PACKET, 3);
	expect(UNEXPECTED, ANY);
	expect(LISTED, TAG_LIST_TMH + 1);
	expect(HANDLED, ANY);
	end();
}
