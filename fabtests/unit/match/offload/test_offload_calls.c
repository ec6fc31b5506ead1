/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * match/offload/offload.c, offload_list.c: which commands an adapter is given, and when there is
 * nothing to do; without an adapter, so that it can fail, refuse and break the rules.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "match/offload/offload.h"

struct calls {
	struct tagrv_offload *off;
	struct tagrv_offload_source source;
	struct tagrv_offload_entry entry;
	int	ret;	/* of all commands */
	unsigned adds, dels, syncs, gone;
};

static int call_add(void *arg, struct tagrv_offload_recv *recv,
		    const struct tagrv_offload_entry *entry)
{
	struct calls *calls = arg;

	(void) recv;
	calls->adds++;
	calls->entry = *entry;
	return calls->ret;
}

static int call_del(void *arg, uint32_t slot)
{
	struct calls *calls = arg;

	calls->dels++;
	cr_expect_eq(slot, calls->entry.slot);
	return calls->ret;
}

static int call_sync(void *arg, uint32_t count)
{
	struct calls *calls = arg;

	(void) count;
	calls->syncs++;
	return calls->ret;
}

static void call_gone(void *arg, uint32_t slot)
{
	struct calls *calls = arg;

	(void) slot;
	calls->gone++;
}

static const struct tagrv_offload_ops call_ops = { call_add, call_del, call_sync, call_gone };

static void open_calls(struct calls *calls)
{
	memset(calls, 0, sizeof(*calls));
	cr_assert_eq(tagrv_offload_create(2, &call_ops, calls, &calls->off), 0);
	tagrv_offload_enter(calls->off, &calls->source, TAGRV_OFFLOAD_SOURCES);
	tagrv_offload_seen(calls->off);
	tagrv_offload_unexpected(calls->off);
}

/* As a_kept_message_is_counted_by_the_adapter_only, by an add; the adapter's own hint is not
 * relied upon. */
Test(offload, an_add_is_not_sure_while_a_message_is_kept, .timeout = 20)
{
	struct tagrv_offload_recv recv = { .able = true };
	struct calls calls;

	open_calls(&calls);
	tagrv_offload_seen(calls.off);
	tagrv_offload_post(calls.off, &recv);
	cr_expect_eq(tagrv_offload_added(calls.off, 0, false), 0);
	tagrv_offload_unexpected(calls.off);
	cr_expect_eq(tagrv_offload_flush(calls.off), 0);
	cr_expect_eq(calls.syncs, 1);
	tagrv_offload_destroy(calls.off);
}

Test(offload, tag_of_an_entry_has_the_source, .timeout = 20)
{
	struct tagrv_offload_recv recv = { .tag = 0x123456, .ignore = 0xff, .able = true };
	struct tagrv_offload_recv any = { .tag = UINT64_MAX, .ignore = 0xf, .able = true };
	struct calls calls;

	open_calls(&calls);
	recv.source = &calls.source;
	tagrv_offload_post(calls.off, &recv);
	cr_expect_eq(calls.entry.tag, 0x3ffc000000123400);
	cr_expect_eq(calls.entry.mask, 0x3ffcffffffffff00);
	cr_expect_eq(calls.entry.count, 1);
	tagrv_offload_post(calls.off, &any);
	cr_expect_eq(calls.entry.tag, 0x0000fffffffffff0);
	cr_expect_eq(calls.entry.mask, 0x0000fffffffffff0);
	tagrv_offload_destroy(calls.off);
}

Test(offload, receive_that_cannot_be_added_stays_in_software, .timeout = 20)
{
	struct tagrv_offload_recv recv = { .able = true }, other = { .able = true };
	struct calls calls;

	open_calls(&calls);
	recv.source = other.source = &calls.source;
	calls.ret = -FI_EAGAIN;
	tagrv_offload_post(calls.off, &recv);
	cr_expect_eq(tagrv_offload_flush(calls.off), 0);
	cr_expect_eq(calls.adds, 2);
	cr_expect(recv.able);
	calls.ret = -FI_ENOMEM;
	cr_expect_eq(tagrv_offload_flush(calls.off), 0);
	cr_expect_eq(calls.adds, 3);
	cr_expect_not(recv.able);
	calls.ret = 0;
	tagrv_offload_post(calls.off, &other);
	cr_expect_eq(tagrv_offload_flush(calls.off), 0);
	cr_expect_eq(calls.adds, 3);
	cr_expect_eq(tagrv_offload_cancel(calls.off, &recv), 0);
	cr_expect_eq(tagrv_offload_flush(calls.off), 0);
	cr_expect_eq(calls.adds, 4);
	tagrv_offload_destroy(calls.off);
}

Test(offload, error_of_a_del_is_returned, .timeout = 20)
{
	struct tagrv_offload_recv recv = { .able = true };
	struct calls calls;

	open_calls(&calls);
	tagrv_offload_post(calls.off, &recv);
	calls.ret = -FI_EINVAL;
	tagrv_offload_take(calls.off, &recv);
	cr_expect_eq(tagrv_offload_flush(calls.off), -FI_EINVAL);
	calls.ret = 0;
	cr_expect_eq(tagrv_offload_flush(calls.off), 0);
	cr_expect_eq(calls.dels, 3);
	tagrv_offload_destroy(calls.off);
}

Test(offload, adapter_that_breaks_the_rules_is_noticed, .timeout = 20)
{
	struct tagrv_offload_recv recv = { .able = true }, *out;
	struct calls calls;

	open_calls(&calls);
	cr_expect_eq(tagrv_offload_synced(calls.off), -FI_EIO);
	cr_expect_eq(tagrv_offload_added(calls.off, 0, false), -FI_EIO);
	cr_expect_eq(tagrv_offload_consumed(calls.off, 2, &out), -FI_EIO);
	cr_expect_eq(tagrv_offload_consumed(calls.off, 0, &out), -FI_EIO);
	tagrv_offload_post(calls.off, &recv);
	cr_expect_eq(tagrv_offload_data(calls.off, 0, &out), -FI_EIO);
	cr_expect_eq(tagrv_offload_deleted(calls.off, 0, true, &out), -FI_EIO);
	cr_expect_eq(tagrv_offload_added(calls.off, 0, false), 0);
	cr_expect_eq(tagrv_offload_added(calls.off, 0, false), -FI_EIO);
	tagrv_offload_take(calls.off, &recv);
	cr_expect_eq(tagrv_offload_consumed(calls.off, 0, &out), -FI_EIO, "software had it");
	cr_expect_eq(tagrv_offload_deleted(calls.off, 0, false, &out), -FI_EIO);
	tagrv_offload_destroy(calls.off);

	open_calls(&calls);
	tagrv_offload_post(calls.off, &recv);
	cr_expect_eq(tagrv_offload_consumed(calls.off, 0, &out), 0);
	cr_expect_eq(tagrv_offload_consumed(calls.off, 0, &out), -FI_EIO);
	cr_expect_eq(tagrv_offload_data(calls.off, 0, &out), 0);
	cr_expect_eq(out, &recv);
	cr_expect_eq(tagrv_offload_data(calls.off, 0, &out), -FI_EIO);
	cr_expect_null(out);
	cr_expect_eq(calls.gone, 0);
	cr_expect_eq(tagrv_offload_added(calls.off, 0, false), 0);
	cr_expect_eq(calls.gone, 1);
	tagrv_offload_destroy(calls.off);
}

/* ---- whether a flush has something to do ---- */

static bool is_idle_behind_a_flush(struct calls *calls)
{
	cr_expect_eq(tagrv_offload_flush(calls->off), 0);
	return tagrv_offload_is_idle(calls->off);
}

Test(offload, is_idle_until_a_message_is_unexpected, .timeout = 20)
{
	struct tagrv_offload_recv recv = { .able = true };
	struct calls calls = { 0 };

	cr_assert_eq(tagrv_offload_create(2, &call_ops, &calls, &calls.off), 0);
	tagrv_offload_enter(calls.off, &calls.source, 4);
	tagrv_offload_post(calls.off, &recv);
	cr_expect(tagrv_offload_is_idle(calls.off), "nothing may be added");
	tagrv_offload_seen(calls.off);
	cr_expect(tagrv_offload_is_idle(calls.off), "it was not handled");
	tagrv_offload_unexpected(calls.off);
	cr_expect_not(tagrv_offload_is_idle(calls.off), "the receive may go now");
	cr_expect(is_idle_behind_a_flush(&calls));
	cr_expect_eq(calls.adds, 1);
	tagrv_offload_destroy(calls.off);
}

Test(offload, is_not_idle_while_a_command_finds_no_room, .timeout = 20)
{
	struct tagrv_offload_recv recv = { .able = true };
	struct calls calls;

	open_calls(&calls);
	cr_expect(is_idle_behind_a_flush(&calls));
	calls.ret = -FI_EAGAIN;
	tagrv_offload_post(calls.off, &recv);
	cr_expect_not(is_idle_behind_a_flush(&calls), "an add");
	calls.ret = 0;
	cr_expect(is_idle_behind_a_flush(&calls));
	calls.ret = -FI_EAGAIN;
	tagrv_offload_take(calls.off, &recv);
	cr_expect_not(is_idle_behind_a_flush(&calls), "a del");
	calls.ret = 0;
	cr_expect(is_idle_behind_a_flush(&calls));
	cr_expect_eq(calls.dels, 3);
	tagrv_offload_destroy(calls.off);
}

/* The entry may be inactive, so the count must be told; one sync is enough. */
Test(offload, is_not_idle_while_a_sync_is_due, .timeout = 20)
{
	struct tagrv_offload_recv recv = { .able = true };
	struct calls calls;

	open_calls(&calls);
	tagrv_offload_post(calls.off, &recv);
	cr_expect_eq(tagrv_offload_added(calls.off, 0, false), 0);
	tagrv_offload_seen(calls.off);
	tagrv_offload_unexpected(calls.off);
	cr_expect(is_idle_behind_a_flush(&calls), "the entry was active before");
	cr_expect_eq(calls.syncs, 0);
	tagrv_offload_destroy(calls.off);

	open_calls(&calls);
	tagrv_offload_seen(calls.off);
	tagrv_offload_post(calls.off, &recv);
	tagrv_offload_unexpected(calls.off);
	cr_expect_not(tagrv_offload_is_idle(calls.off));
	calls.ret = -FI_EAGAIN;
	cr_expect_not(is_idle_behind_a_flush(&calls), "no room for the sync");
	calls.ret = 0;
	cr_expect(is_idle_behind_a_flush(&calls), "one sync is outstanding");
	cr_expect_eq(calls.syncs, 2);
	tagrv_offload_destroy(calls.off);
}

/* A flush looks at so many receives only. */
Test(offload, is_not_idle_before_the_pass_has_ended, .timeout = 20)
{
	static struct tagrv_offload_recv recvs[100];
	struct tagrv_offload_source stranger = { 0 };
	struct calls calls;

	open_calls(&calls);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(recvs); i++) {
		recvs[i] = (struct tagrv_offload_recv) { .source = &stranger, .able = true };
		tagrv_offload_post(calls.off, &recvs[i]);
	}
	cr_expect_not(tagrv_offload_is_idle(calls.off), "the list is new");
	cr_expect_not(is_idle_behind_a_flush(&calls));
	cr_expect(is_idle_behind_a_flush(&calls));
	cr_expect_eq(calls.adds, 0);
	tagrv_offload_enter(calls.off, &stranger, 8);
	cr_expect_not(tagrv_offload_is_idle(calls.off));
	tagrv_offload_destroy(calls.off);
}
