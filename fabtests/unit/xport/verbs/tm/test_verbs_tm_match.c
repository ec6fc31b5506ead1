/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages that entries of a list took, whose link is not attached, or ends.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/tm/tm_fixture.h"

static void prepare(void)
{
	tm_prepare();
	tm.config.tm_mtu = 256;
}

TestSuite(verbs_tm_match, .init = prepare, .timeout = 10);

/* Entry n has taken a message; 'late': its data have not come. */
static void take(unsigned n, bool late)
{
	struct tm_note note;

	cr_assert_eq(tm_add(n, 5 + n, 0), 0);
	tm_expect(TM_ADDED, n);
	tm_delay(0, 0, late ? 20 : 0);
	list_peer_eager(&tm.peer, 5 + n, 70 + n, 'm', late ? 257 : 10);
	note = tm_expect(TM_CONSUMED, n);
	cr_assert(note.tag == 5 + n && note.app == 70 + n && note.status == tm.match_status);
}

static void deliver(unsigned nth)
{
	tagrv_verbs_tm_deliver(tm.list, tm.keys[nth]);
}

/* Data of entry n, and nothing more of it. */
static void expect_data(unsigned n, size_t len, int status)
{
	struct tm_note note = tm_expect(TM_DATA, n);

	cr_assert(note.len == len && note.status == status && !tm.entries[n].due);
}

/* Entry n ends without them. They may come yet. */
static void expect_lost(unsigned n, int status)
{
	struct tm_note note = tm_expect(TM_DATA, n);

	cr_assert(!note.len && note.status == status);
	cr_assert_eq(tm.entries[n].due, TAGRV_TAGLIST_DATA);
}

static void detach(void)
{
	tm.link.ctx = NULL;
}

static void attach(void)
{
	tm.link.ctx = &tm;
}

/* That the slot of an entry which has ended is free: it is used for another message. */
static void expect_free(unsigned n)
{
	uint32_t slot = tm.entries[n].slot;

	attach();
	tm.match_status = 0;
	tm.unknown = false;
	take(n, false);
	cr_assert_eq(tm.entries[n].slot, slot);
	expect_data(n, 10, 0);
}

/* That the slot of an entry whose data were lost is not used for another message. */
static void expect_kept(unsigned n, unsigned other)
{
	attach();
	tm.match_status = 0;
	tm.unknown = false;
	take(other, false);
	cr_assert_neq(tm.entries[other].slot, tm.entries[n].slot);
	expect_data(other, 10, 0);
}

Test(verbs_tm_match, a_message_waits_for_its_link)
{
	struct tm_note note;

	tm_open();
	detach();
	take(0, false);
	tm_expect_none();
	cr_assert_eq(tm.kept, 1);
	cr_assert_eq(tm.entries[0].due, TAGRV_TAGLIST_DATA);
	attach();
	deliver(0);
	note = tm_expect(TM_CONSUMED, 0);
	cr_assert(note.tag == 5 && note.app == 70 && !note.status);
	expect_data(0, 10, 0);
	tm_expect_none();
	tm_close();
}

Test(verbs_tm_match, its_data_may_be_later)
{
	tm_open();
	detach();
	take(0, true);
	attach();
	deliver(0);
	tm_expect(TM_CONSUMED, 0);
	cr_assert_eq(tm.entries[0].due, TAGRV_TAGLIST_DATA);
	deliver(0);	/* it is not kept any more */
	expect_data(0, 257, 0);
	tm_expect_none();
	tm_close();
}

/* The mark among the link's early packets may be older than the entry that has the slot now. */
Test(verbs_tm_match, a_mark_of_a_former_message_says_nothing)
{
	tm_open();
	detach();
	take(0, false);
	tagrv_verbs_tm_end(tm.list, &tm.link);
	expect_data(0, 0, -FI_ECONNRESET);
	deliver(0);
	take(0, false);
	cr_assert_eq(tm.kept, 2);
	deliver(0);
	tm_expect_none();
	attach();
	deliver(1);
	tm_expect(TM_CONSUMED, 0);
	expect_data(0, 10, 0);
	deliver(1);
	tm_expect_none();
	tm_close();
}

Test(verbs_tm_match, data_that_never_come_end_with_the_link)
{
	struct tagrv_link other = { .ctx = &tm };

	tm_open();
	take(0, true);
	cr_assert_eq(tm_add(1, 99, 0), 0);	/* of no message yet */
	tm_expect(TM_ADDED, 1);
	tagrv_verbs_tm_end(tm.list, &other);
	cr_assert_eq(tm.entries[0].due, TAGRV_TAGLIST_DATA);
	tagrv_verbs_tm_end(tm.list, &tm.link);
	expect_lost(0, -FI_ECONNRESET);
	tm_expect_none();
	cr_assert_neq(tm.entries[1].due, 0);
	expect_kept(0, 2);
	tm_close();
}

/* It is told once that the receive is taken: nobody has seen the link. */
Test(verbs_tm_match, a_message_that_waits_ends_with_the_link)
{
	tm_open();
	detach();
	take(0, false);		/* with its data */
	take(1, true);
	tagrv_verbs_tm_end(tm.list, &tm.link);
	expect_data(0, 0, -FI_ECONNRESET);
	expect_lost(1, -FI_ECONNRESET);
	tm_expect_none();
	expect_free(0);
	tm_close();
}

/* Until its data have come, or no queue pair can bring them, the device writes to the entry. */
Test(verbs_tm_match, a_message_of_nobody_ends_with_its_data)
{
	tm_open();
	tm.unknown = true;
	tm.match_status = -FI_EREMOTEIO;
	take(0, false);
	expect_data(0, 0, -FI_EREMOTEIO);
	take(1, true);
	cr_assert_eq(tm.entries[1].due, TAGRV_TAGLIST_DATA);
	expect_data(1, 0, -FI_EREMOTEIO);
	take(2, true);
	tagrv_verbs_tm_end(tm.list, &tm.link);
	expect_lost(2, -FI_EREMOTEIO);	/* its queue pair may be that of the link */
	expect_kept(2, 3);
	tm_close();
}

/* The owner of a list that has failed may have freed the entries. */
Test(verbs_tm_match, a_list_that_has_failed_touches_no_entry)
{
	tm_open();
	detach();
	take(0, false);
	attach();
	tagrv_verbs_tm_fail(tm.tm, -FI_EIO);
	deliver(0);
	tagrv_verbs_tm_end(tm.list, &tm.link);
	cr_assert_eq(tm.entries[0].due, TAGRV_TAGLIST_DATA);
	cr_assert_eq(tm_expect(TM_FATAL, 0).status, -FI_EIO);
	tm_expect_none();
	tm_close();
}
