/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How many links a device takes.
 */
#include <criterion/criterion.h>

#include "xport/quota.h"

static struct tagrv_quota take_all(unsigned of_device, size_t most, unsigned cnt)
{
	struct tagrv_quota quota = { 0 };

	tagrv_quota_init(&quota, of_device, most);
	for (unsigned i = 0; i < cnt; i++)
		cr_assert(tagrv_quota_take(&quota));
	return quota;
}

Test(quota, no_more_than_the_user_wants)
{
	struct tagrv_quota quota = take_all(1000, 3, 3);

	cr_assert_not(tagrv_quota_take(&quota));
	cr_assert_eq(quota.used, 3, "a link without room is not counted");
	cr_assert_not(tagrv_quota_has_room(&quota, 0));
	tagrv_quota_give(&quota);
	cr_assert(tagrv_quota_has_room(&quota, 0));
	cr_assert_not(tagrv_quota_has_room(&quota, 1));
	cr_assert(tagrv_quota_take(&quota));
}

Test(quota, two_is_the_least)
{
	struct tagrv_quota quota = take_all(1000, 1, 2);

	cr_assert_not(tagrv_quota_take(&quota));
}

Test(quota, without_a_limit_the_device_decides)
{
	struct tagrv_quota quota = take_all(1000, 0, 5000);

	cr_assert(tagrv_quota_has_room(&quota, 1000));
	cr_assert_eq(tagrv_quota_excess(&quota), 0);
	cr_assert(tagrv_quota_take(&quota));
	cr_assert(tagrv_quota_refused(&quota), "others of ours may make room");
	tagrv_quota_give(&quota);
	cr_assert_not(tagrv_quota_has_room(&quota, 0));
	cr_assert_geq(tagrv_quota_excess(&quota), 1);
	cr_assert(tagrv_quota_take(&quota), "the device is asked again nevertheless");
	atomic_store(&quota.lack_until, 1);
	cr_assert(tagrv_quota_has_room(&quota, 0), "it may have others by now");
}

/* None of ours can make room for the first, but other processes may. */
Test(quota, the_first_waits_for_other_processes)
{
	struct tagrv_quota quota = take_all(1000, 0, 1);

	cr_assert_not(tagrv_quota_refused(&quota));
	tagrv_quota_give(&quota);
	cr_assert_not(tagrv_quota_has_room(&quota, 0));
	atomic_store(&quota.lack_until, 1);
	cr_assert(tagrv_quota_has_room(&quota, 0));
}

Test(quota, idle_links_make_room_ahead)
{
	struct tagrv_quota quota = take_all(100000, 512, 496);

	cr_assert_eq(tagrv_quota_excess(&quota), 0);
	cr_assert(tagrv_quota_take(&quota));
	cr_assert_eq(tagrv_quota_excess(&quota), 1);
	quota = take_all(100000, 2, 1);
	cr_assert_eq(tagrv_quota_excess(&quota), 0);
}

/* A launcher that says nothing, or one process, changes nothing. */
Test(quota, share_of_a_process)
{
	struct tagrv_quota quota = take_all(8000, 0, 94);

	tagrv_quota_share(&quota, 0);
	tagrv_quota_share(&quota, 1);
	cr_assert_eq(quota.aim, 0);
	tagrv_quota_share(&quota, 64);
	cr_assert_eq(quota.aim, 93);
	cr_assert_gt(tagrv_quota_excess(&quota), 0);
	cr_assert(tagrv_quota_take(&quota), "links that are needed are made");
	tagrv_quota_share(&quota, 100000);
	cr_assert_eq(quota.aim, 16);
	quota = take_all(8000, 500, 1);
	tagrv_quota_share(&quota, 64);
	cr_assert_eq(quota.aim, 500, "the user has said it");
}

/* Of a transport whose links take two each. */
Test(quota, links_that_take_two)
{
	struct tagrv_quota quota = take_all(1000, 2, 0);

	cr_assert_eq(tagrv_quota_most(&quota), 2);
	tagrv_quota_double(&quota);
	cr_assert_eq(tagrv_quota_most(&quota), 4);
	cr_assert(tagrv_quota_has_room(&quota, 1), "two links have room in any case");
	cr_assert(tagrv_quota_take_some(&quota, 2));
	cr_assert(tagrv_quota_take(&quota), "a side link");
	cr_assert_not(tagrv_quota_has_room(&quota, 0));
	cr_assert_not(tagrv_quota_take_some(&quota, 2));
	cr_assert_eq(quota.used, 3, "both or none");
	cr_assert_eq(tagrv_quota_excess(&quota), 1, "links, not what they take");
	tagrv_quota_give_some(&quota, 2);
	cr_assert(tagrv_quota_has_room(&quota, 0));
	cr_assert(tagrv_quota_take_some(&quota, 2));
	cr_assert(tagrv_quota_refused_some(&quota, 2));
	quota = take_all(1000, 0, 2);
	cr_assert_not(tagrv_quota_refused_some(&quota, 2), "there are no others");
}
