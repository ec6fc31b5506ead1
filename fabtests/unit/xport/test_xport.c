/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_TAGRV_TRANSPORTS: the list of transports that may be used.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "xport/xport.h"

TestSuite(xport, .timeout = 10);

static struct tagrv_params with(const char *list)
{
	struct tagrv_params params = { 0 };

	snprintf(params.transports, sizeof(params.transports), "%s", list);
	return params;
}

static bool wanted(const char *list, const char *name)
{
	struct tagrv_xport_ops ops = { .name = name };
	struct tagrv_params params = with(list);

	return tagrv_xport_is_wanted(&params, &ops);
}

Test(xport, empty_list_wants_all)
{
	cr_assert(wanted("", "shm"));
	cr_assert(wanted("", "verbs"));
	cr_assert(wanted(" , ", "verbs"));
}

Test(xport, what_is_listed_is_wanted)
{
	cr_assert(wanted("shm,verbs", "shm"));
	cr_assert(wanted("shm,verbs", "verbs"));
	cr_assert(wanted(" verbs ,shm", "shm"));
	cr_assert(wanted("verbs", "verbs"));
	cr_assert_not(wanted("verbs", "shm"));
	cr_assert_not(wanted("verb,verbss", "verbs"));
}

static const char *unknown(const char *list)
{
	static struct tagrv_params params;
	static char text[64];
	const char *name;
	size_t len;

	params = with(list);
	if (!tagrv_xport_find_unknown(&params, &name, &len))
		return "";
	snprintf(text, sizeof(text), "%.*s", (int) len, name);
	return text;
}

Test(xport, unknown_names_are_found)
{
	cr_assert_str_empty(unknown(""));
	cr_assert_str_empty(unknown("shm, verbs,"));
	cr_assert_str_eq(unknown("shm,tcp,verbs"), "tcp");
	cr_assert_str_eq(unknown("SHM"), "SHM");
	cr_assert_str_eq(unknown("loop"), "loop");
}
