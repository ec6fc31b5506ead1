/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * common/tag_list.c: an adapter's list of tags does what is documented of it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/tag_list.h"

#define TAGS	4
#define OPS	3
#define BUF	100	/* wr_id of receive buffers */
#define ALL	UINT64_MAX

static struct tag_list *make(size_t mtu)
{
	struct tag_list *list = tag_list_create(&(struct tag_list_config) {
		.max_tags = TAGS, .max_ops = OPS, .mtu = mtu });

	cr_assert_not_null(list);
	return list;
}

static void delay(struct tag_list *list, uint32_t apply, uint32_t report, uint32_t data)
{
	tag_list_set_delays(list, &(struct tag_list_delays) { apply, report, data });
}

static struct tag_list_record poll_one(struct tag_list *list)
{
	struct tag_list_record rec;

	cr_assert(tag_list_poll(list, &rec));
	return rec;
}

static bool poll_none(struct tag_list *list)
{
	struct tag_list_record rec;

	return !tag_list_poll(list, &rec);
}

/* An entry with wr_id and recv_wr_id 'id'. Returns its handle. */
static uint32_t add(struct tag_list *list, uint64_t id, uint64_t tag, uint64_t mask,
		    uint32_t count, void *buf, size_t len)
{
	struct tag_list_cmd cmd = {
		.code = TAG_LIST_ADD, .signaled = true, .sync = true, .wr_id = id, .count = count,
		.recv_wr_id = id, .tag = tag, .mask = mask, .buf = buf, .len = len,
	};

	cr_assert_eq(tag_list_post(list, &cmd), 0);
	return cmd.handle;
}

/* As add(), and takes its completion. */
static uint32_t added(struct tag_list *list, uint64_t id, uint64_t tag, uint64_t mask,
		      uint32_t count)
{
	uint32_t handle = add(list, id, tag, mask, count, NULL, 64);
	struct tag_list_record rec = poll_one(list);

	cr_assert_eq(rec.code, TAG_LIST_ADD);
	cr_assert_eq(rec.wr_id, id);
	return handle;
}

static int del(struct tag_list *list, uint64_t id, uint32_t handle)
{
	return tag_list_post(list, &(struct tag_list_cmd) {
		.code = TAG_LIST_DEL, .signaled = true, .wr_id = id, .handle = handle });
}

static int sync_to(struct tag_list *list, uint32_t count)
{
	return tag_list_post(list, &(struct tag_list_cmd) {
		.code = TAG_LIST_SYNC, .sync = true, .signaled = true, .count = count });
}

static size_t header(uint8_t *bytes, uint8_t opcode, uint64_t tag)
{
	memset(bytes, 0, TAG_LIST_TMH);
	bytes[0] = opcode;
	bytes[7] = 0x5a;	/* app_ctx */
	for (unsigned i = 0; i < 8; i++)
		bytes[8 + i] = (uint8_t) (tag >> (56 - 8 * i));
	return TAG_LIST_TMH;
}

static enum tag_list_fate eager(struct tag_list *list, uint64_t tag, size_t len)
{
	uint8_t bytes[256];
	size_t at = header(bytes, TAG_LIST_OP_EAGER, tag);

	memset(bytes + at, 'e', len);
	return tag_list_arrive(list, bytes, at + len, BUF, NULL);
}

static enum tag_list_fate rndv(struct tag_list *list, uint64_t tag, uint32_t len,
			       struct tag_list_read *read)
{
	uint8_t bytes[64];
	size_t at = header(bytes, TAG_LIST_OP_RNDV, tag);

	memset(bytes + at, 0, sizeof(bytes) - at);
	bytes[at + 7] = 0x77;	/* va */
	bytes[at + 11] = 0x33;	/* rkey */
	bytes[at + 14] = (uint8_t) (len >> 8);
	bytes[at + 15] = (uint8_t) len;
	return tag_list_arrive(list, bytes, sizeof(bytes), BUF, read);
}

/* A message takes an entry: its only completion, or its first. */
static void takes(struct tag_list *list, uint64_t tag, uint64_t id)
{
	struct tag_list_record rec;

	cr_assert_eq(eager(list, tag, 8), TAG_LIST_MATCHED);
	rec = poll_one(list);
	cr_assert_eq(rec.code, TAG_LIST_RECV);
	cr_assert_eq(rec.flags, TAG_LIST_MATCH | TAG_LIST_DATA);
	cr_assert_eq(rec.wr_id, id);
	cr_assert_eq(rec.tag, tag);
	cr_assert_eq(rec.app_ctx, 0x5a);
	cr_assert_eq(rec.length, 8);
}

/* A message is unexpected; the device has counted so many. */
static void misses(struct tag_list *list, uint64_t tag, uint32_t count)
{
	struct tag_list_record rec;

	cr_assert_eq(eager(list, tag, 8), TAG_LIST_UNMATCHED);
	rec = poll_one(list);
	cr_assert_eq(rec.code, TAG_LIST_RECV);
	cr_assert_eq(rec.flags & (TAG_LIST_MATCH | TAG_LIST_DATA), 0);
	cr_assert_eq(rec.wr_id, BUF);
	cr_assert_eq(rec.length, TAG_LIST_TMH + 8);
	cr_assert_eq(rec.count, count);
	cr_assert_eq(tag_list_unexpected(list), count);
}

Test(tag_list, oldest_entry_that_matches_takes_the_message, .timeout = 20)
{
	struct tag_list *list = make(0);
	char buf[64] = "";

	added(list, 1, 0x10, 0xf0, 0);
	added(list, 2, 0x11, ALL, 0);
	add(list, 3, 0x11, ALL, 0, buf, sizeof(buf));
	poll_one(list);
	takes(list, 0x11, 1);
	takes(list, 0x11, 2);
	takes(list, 0x11, 3);
	cr_expect_eq(memcmp(buf, "eeeeeeee", 9), 0);
	misses(list, 0x11, 1);
	tag_list_destroy(list);
}

Test(tag_list, new_entries_wait_for_the_count_and_old_ones_do_not, .timeout = 20)
{
	struct tag_list *list = make(0);

	added(list, 1, 1, ALL, 0);
	misses(list, 2, 1);
	added(list, 2, 2, ALL, 0);
	cr_expect_eq(tag_list_active(list), 1);
	cr_expect_eq(tag_list_inactive(list), 1);
	misses(list, 2, 2);
	takes(list, 1, 1);
	cr_assert_eq(sync_to(list, 1), 0);
	poll_one(list);
	misses(list, 2, 3);
	cr_assert_eq(sync_to(list, 3), 0);
	poll_one(list);
	cr_expect_eq(tag_list_active(list), 1);
	takes(list, 2, 2);
	tag_list_destroy(list);
}

Test(tag_list, any_command_with_the_count_makes_all_active, .timeout = 20)
{
	struct tag_list *list = make(0);
	struct tag_list_cmd quiet = { .code = TAG_LIST_ADD, .tag = 4, .mask = ALL };
	uint32_t handle;

	misses(list, 2, 1);
	handle = added(list, 2, 2, ALL, 0);
	added(list, 3, 3, ALL, 1);
	cr_expect_eq(tag_list_active(list), 2);
	misses(list, 9, 2);
	cr_assert_eq(tag_list_post(list, &quiet), 0);
	cr_expect_eq(tag_list_active(list), 2);
	cr_assert_eq(tag_list_post(list, &(struct tag_list_cmd) { .code = TAG_LIST_DEL,
		.handle = handle, .signaled = true, .sync = true, .count = 2 + 0x10000 }), 0);
	cr_expect_eq(tag_list_active(list), 2);
	cr_expect_eq(tag_list_inactive(list), 0);
	tag_list_destroy(list);
}

/* 16 bits of the device's count: a message between them is not noticed after 2^16. */
Test(tag_list, counts_are_compared_in_16_bits, .timeout = 20)
{
	struct tag_list *list = make(0);

	for (uint32_t i = 1; i <= 0x10000; i++)
		misses(list, 9, i);
	added(list, 1, 1, ALL, 1);
	cr_expect_eq(tag_list_active(list), 0);
	cr_assert_eq(sync_to(list, 0), 0);
	cr_expect_eq(tag_list_active(list), 1);
	tag_list_destroy(list);
}

Test(tag_list, commands_wait_and_keep_their_order, .timeout = 20)
{
	struct tag_list *list = make(0);
	uint32_t handle;

	delay(list, 3, 0, 0);
	handle = add(list, 1, 1, ALL, 0, NULL, 64);
	delay(list, 0, 2, 0);
	cr_assert_eq(del(list, 2, handle), 0);
	cr_expect_eq(tag_list_waiting(list), 2);
	tag_list_tick(list);
	tag_list_tick(list);
	cr_expect_eq(tag_list_waiting(list), 2);
	cr_expect(poll_none(list));
	tag_list_tick(list);
	cr_expect_eq(tag_list_waiting(list), 0);
	cr_expect(poll_none(list));
	tag_list_tick(list);
	cr_expect(poll_none(list));
	tag_list_tick(list);
	cr_expect_eq(poll_one(list).code, TAG_LIST_ADD);
	cr_expect_eq(poll_one(list).status, TAG_LIST_OK);
	cr_expect_eq(tag_list_used(list), 0);
	delay(list, TAG_LIST_HOLD, 0, 0);
	add(list, 3, 1, ALL, 0, NULL, 64);
	tag_list_tick(list);
	cr_expect_eq(tag_list_waiting(list), 1);
	cr_expect(tag_list_apply(list));
	cr_expect_not(tag_list_apply(list));
	cr_expect_eq(poll_one(list).code, TAG_LIST_ADD);
	takes(list, 1, 3);
	tag_list_destroy(list);
}

Test(tag_list, delete_comes_too_late, .timeout = 20)
{
	struct tag_list *list = make(0);
	uint32_t handle = added(list, 1, 1, ALL, 0);

	delay(list, 2, 0, 0);
	cr_assert_eq(del(list, 2, handle), 0);
	tag_list_tick(list);
	cr_assert_eq(eager(list, 1, 8), TAG_LIST_MATCHED);
	tag_list_tick(list);
	cr_expect_eq(poll_one(list).wr_id, 1);
	cr_expect_eq(tag_list_used(list), 1);
	cr_expect_eq(poll_one(list).status, TAG_LIST_GONE);
	cr_expect_eq(tag_list_used(list), 0);
	cr_expect_eq(del(list, 2, handle), -EINVAL);
	tag_list_destroy(list);
}

/* A command's completion may be later than that of the message. */
Test(tag_list, match_is_reported_before_the_entry, .timeout = 20)
{
	struct tag_list *list = make(0);
	uint32_t handle;

	delay(list, 0, 5, 0);
	handle = add(list, 1, 1, ALL, 0, NULL, 64);
	cr_assert_eq(eager(list, 1, 8), TAG_LIST_MATCHED);
	cr_expect_eq(poll_one(list).code, TAG_LIST_RECV);
	cr_expect_eq(tag_list_used(list), 1);
	cr_assert_eq(del(list, 2, handle), 0);
	for (unsigned i = 0; i < 5; i++)
		tag_list_tick(list);
	cr_expect_eq(poll_one(list).code, TAG_LIST_ADD);
	cr_expect_eq(poll_one(list).status, TAG_LIST_GONE);
	cr_expect_eq(tag_list_used(list), 0);
	tag_list_destroy(list);
}

Test(tag_list, handles_and_commands_are_limited, .timeout = 20)
{
	struct tag_list *list = make(0);
	struct tag_list_cmd quiet = { .code = TAG_LIST_ADD, .tag = 7, .mask = ALL };

	for (uint64_t i = 0; i < OPS; i++)
		cr_assert_eq(tag_list_post(list, &quiet), 0);
	cr_expect_eq(sync_to(list, 0), -ENOMEM);
	tag_list_destroy(list);

	list = make(0);
	for (uint64_t i = 0; i < TAGS; i++)
		cr_expect_eq(added(list, i, i, ALL, 0), i);
	cr_expect_eq(tag_list_post(list, &quiet), -ENOMEM);
	cr_assert_eq(eager(list, 2, 8), TAG_LIST_MATCHED);
	cr_expect_eq(tag_list_post(list, &quiet), -ENOMEM);
	poll_one(list);
	cr_expect_eq(added(list, 9, 9, ALL, 0), 2);
	cr_expect_eq(del(list, 1, TAGS), -EINVAL);
	cr_expect_eq(tag_list_post(list, &(struct tag_list_cmd) { .code = TAG_LIST_DEL }), -EINVAL);
	tag_list_destroy(list);
}

Test(tag_list, long_messages_complete_twice, .timeout = 20)
{
	struct tag_list *list = make(32);
	struct tag_list_record rec;

	delay(list, 0, 0, 2);
	added(list, 1, 1, ALL, 0);
	added(list, 2, 1, ALL, 0);
	cr_assert_eq(eager(list, 1, 33), TAG_LIST_MATCHED);
	rec = poll_one(list);
	cr_expect_eq(rec.flags, TAG_LIST_MATCH);
	cr_expect_eq(rec.tag, 1);
	takes(list, 1, 2);
	cr_expect_eq(tag_list_used(list), 1);
	tag_list_tick(list);
	cr_expect(poll_none(list));
	tag_list_tick(list);
	rec = poll_one(list);
	cr_expect_eq(rec.flags, TAG_LIST_DATA);
	cr_expect_eq(rec.wr_id, 1);
	cr_expect_eq(rec.length, 33);
	cr_expect_eq(tag_list_used(list), 0);
	added(list, 3, 1, ALL, 0);
	cr_assert_eq(eager(list, 1, 65), TAG_LIST_MATCHED);
	cr_expect_eq(poll_one(list).status, TAG_LIST_TOO_LONG);
	tag_list_destroy(list);
}

Test(tag_list, rendezvous_is_read_or_left_to_software, .timeout = 20)
{
	struct tag_list *list = make(0);
	struct tag_list_read read;
	struct tag_list_record rec;
	uint8_t buf[64];

	added(list, 1, 1, ALL, 0);
	cr_assert_eq(rndv(list, 1, 64, &read), TAG_LIST_READ);
	cr_expect_eq(read.va, 0x77);
	cr_expect_eq(read.rkey, 0x33);
	cr_expect_eq(read.len, 64);
	cr_expect_eq(poll_one(list).flags, TAG_LIST_MATCH);
	cr_expect(poll_none(list));
	tag_list_read_done(list, read.handle, true);
	rec = poll_one(list);
	cr_expect_eq(rec.flags, TAG_LIST_DATA);
	cr_expect_eq(rec.length, 64);
	cr_expect_eq(rec.wr_id, 1);
	cr_expect_eq(tag_list_used(list), 0);

	add(list, 2, 1, ALL, 0, buf, sizeof(buf));
	poll_one(list);
	cr_assert_eq(rndv(list, 1, 65, &read), TAG_LIST_MATCHED);
	rec = poll_one(list);
	cr_expect_eq(rec.status, TAG_LIST_INCOMPLETE);
	cr_expect_eq(rec.flags, TAG_LIST_MATCH | TAG_LIST_DATA);
	cr_expect_eq(rec.length, 64);
	cr_expect_eq(buf[0], TAG_LIST_OP_RNDV);
	cr_expect_eq(buf[TAG_LIST_TMH + 15], 65);

	cr_assert_eq(rndv(list, 1, 64, &read), TAG_LIST_UNMATCHED);
	rec = poll_one(list);
	cr_expect_eq(rec.flags, 0);
	cr_expect_eq(rec.length, 64);
	cr_expect_eq(tag_list_unexpected(list), 1);
	tag_list_destroy(list);
}

Test(tag_list, messages_without_tag_are_not_counted, .timeout = 20)
{
	struct tag_list *list = make(0);
	uint8_t bytes[40] = { TAG_LIST_OP_NO_TAG };

	added(list, 1, 0, 0, 0);
	cr_expect_not(tag_list_would_match(list, bytes, sizeof(bytes)));
	cr_assert_eq(tag_list_arrive(list, bytes, sizeof(bytes), BUF, NULL), TAG_LIST_UNMATCHED);
	bytes[0] = TAG_LIST_OP_FIN;
	cr_assert_eq(tag_list_arrive(list, bytes, sizeof(bytes), BUF, NULL), TAG_LIST_UNMATCHED);
	cr_assert_eq(tag_list_arrive(list, bytes, 3, BUF, NULL), TAG_LIST_UNMATCHED);
	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(poll_one(list).code, TAG_LIST_NO_TAG);
	cr_expect_eq(tag_list_unexpected(list), 0);
	bytes[0] = TAG_LIST_OP_EAGER;
	cr_expect(tag_list_would_match(list, bytes, sizeof(bytes)));
	takes(list, 5, 1);
	tag_list_destroy(list);
}

/* The hint is raised when it should be, and also when it need not be. */
Test(tag_list, sync_is_asked_for, .timeout = 20)
{
	struct tag_list *list = make(0);
	struct tag_list_record rec;

	misses(list, 9, 1);
	add(list, 1, 1, ALL, 0, NULL, 64);
	cr_expect_eq(poll_one(list).flags, TAG_LIST_SYNC_REQ);
	add(list, 2, 2, ALL, 1, NULL, 64);
	cr_expect_eq(poll_one(list).flags, 0);
	for (uint32_t i = 2; i <= 0x4000; i++)
		misses(list, 9, i);
	cr_assert_eq(sync_to(list, 0x4000), 0);
	cr_expect_eq(poll_one(list).flags, 0);
	cr_assert_eq(eager(list, 9, 8), TAG_LIST_UNMATCHED);
	rec = poll_one(list);
	cr_expect_eq(rec.flags, TAG_LIST_SYNC_REQ, "a sync does not still the library");
	add(list, 3, 3, ALL, 0x14001, NULL, 64);
	cr_expect_eq(poll_one(list).flags, TAG_LIST_SYNC_REQ, "16 bits are equal, 32 are not");
	cr_expect_eq(tag_list_inactive(list), 0);
	tag_list_destroy(list);
}
