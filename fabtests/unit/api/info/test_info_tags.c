/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo with FI_TAGRV_HW_TAGS: tags of devices have 48 bits.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info_priv.h"
#ifdef HAVE_VERBS
#include "common/fake_verbs.h"
#endif
#include "unit/api/api_fixture.h"

#define ALL	0xaaaaaaaaaaaaaaaaULL
#define SHORT	0xaaaaaaaaaaaaULL

TestSuite(info_tags, .init = api_init, .timeout = 20);

/* The mem_tag_format that a domain of this name gets; 0: it is not offered. */
static uint64_t format_of(const char *name, uint64_t asked)
{
	struct fi_info *hints = api_hints(), *info;
	uint64_t format = 0;
	int ret;

	hints->ep_attr->mem_tag_format = asked;
	ret = api_getinfo(hints, &info);
	cr_assert(!ret || ret == -FI_ENODATA, "%d", ret);
	for (const struct fi_info *one = ret ? NULL : info; one; one = one->next)
		if (!strcmp(one->domain_attr->name, name))
			format = one->ep_attr->mem_tag_format;
	if (!ret)
		fi_freeinfo(info);
	fi_freeinfo(hints);
	return format;
}

Test(info_tags, tags_of_this_host_keep_all_bits)
{
	setenv("FI_TAGRV_DEVICES", "shm", 1);
	setenv("FI_TAGRV_HW_TAGS", "yes", 1);
	cr_expect_eq(format_of("shm", 0), ALL);
	cr_expect_eq(format_of("shm", ALL), ALL);
}

#ifdef HAVE_VERBS

static void start(const char *value)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	fake_verbs_start(&config);
	unsetenv("FI_TAGRV_DEVICES");
	setenv("FI_TAGRV_HW_TAGS", value, 1);
}

static void stop(void)
{
	tagrv_info_cleanup();
	fake_verbs_stop();
}

Test(info_tags, tags_of_devices_have_48_bits)
{
	start("yes");
	cr_expect_eq(format_of("fake0", 0), SHORT);
	cr_expect_eq(format_of("shm", 0), ALL);
	stop();
}

Test(info_tags, without_the_setting_they_have_64)
{
	start("no");
	cr_expect_eq(format_of("fake0", 0), ALL);
	cr_expect_eq(format_of("fake0", ALL), ALL);
	stop();
}

Test(info_tags, what_fits_into_48_bits_comes_back_as_asked)
{
	static const uint64_t formats[] = { 1, 0xff00ff00, SHORT, TAGRV_DEVICE_TAG_MASK };

	start("yes");
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(formats); i++)
		cr_expect_eq(format_of("fake0", formats[i]), formats[i], "%" PRIx64,
			     formats[i]);
	stop();
}

Test(info_tags, hints_with_more_bits_get_no_device_and_a_line_that_says_why)
{
	struct fi_info *hints = api_hints(), *info;
	const char *text;

	api_log_start("info");
	start("yes");
	cr_expect_eq(format_of("fake0", UINT64_C(1) << 48), 0);
	cr_expect_eq(format_of("shm", UINT64_C(1) << 48), UINT64_C(1) << 48);
	setenv("FI_TAGRV_TRANSPORTS", "verbs", 1);
	tagrv_info_rescan();
	hints->ep_attr->mem_tag_format = ALL;
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	api_log_lines(&text);
	cr_expect_not_null(strstr(text, "FI_TAGRV_HW_TAGS"), "%s", text);
	fi_freeinfo(hints);
	stop();
}

#endif
