/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: the domain of this host's processes, alone and beside devices.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info_priv.h"
#ifdef HAVE_VERBS
#include "common/fake_verbs.h"
#endif
#include "unit/api/api_fixture.h"

static void only_shm(void)
{
	api_init();
	setenv("FI_TAGRV_DEVICES", "shm", 1);
}

TestSuite(info_shm, .init = only_shm, .timeout = 30);

static const char *source(const struct fi_info *info)
{
	static char buf[TAGRV_ADDR_STRLEN];
	struct tagrv_addr addr;

	cr_assert_eq(tagrv_addr_from(&addr, info->src_addr, info->src_addrlen),
		     0);
	return tagrv_addr_str(&addr, buf, sizeof(buf));
}

Test(info_shm, reaches_this_host_only)
{
	struct fi_info *info = api_must_getinfo(NULL);

	cr_expect_str_eq(info->domain_attr->name, "shm");
	cr_expect_null(info->next);
	cr_expect_null(info->nic);
	cr_expect(info->caps & FI_LOCAL_COMM);
	cr_expect_not(info->caps & FI_REMOTE_COMM);
	cr_expect_eq(info->domain_attr->caps, FI_LOCAL_COMM);
	cr_expect_eq(info->addr_format, FI_SOCKADDR_IN);
	fi_freeinfo(info);
}

static int cnt_of_shm(const struct fi_info *hints)
{
	struct fi_info *info;
	int cnt = 0;

	if (api_getinfo(hints, &info))
		return 0;
	for (const struct fi_info *one = info; one; one = one->next)
		cnt += !strcmp(one->domain_attr->name, "shm");
	fi_freeinfo(info);
	return cnt;
}

Test(info_shm, is_offered_for_other_hosts_only_when_named)
{
	struct fi_info *hints = api_hints(), *info;

	hints->caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM;
	info = api_must_getinfo(hints);
	cr_expect(info->caps & FI_REMOTE_COMM, "as asked for");
	fi_freeinfo(info);
	unsetenv("FI_TAGRV_DEVICES");
	cr_expect_eq(cnt_of_shm(hints), 0);
	hints->caps = FI_TAGGED | FI_LOCAL_COMM;
	cr_expect_eq(cnt_of_shm(hints), 1);
	fi_freeinfo(hints);
}

static void expect_source(const char *node, const char *service, uint64_t flags,
			  const char *want)
{
	struct fi_info *info;

	cr_assert_eq(tagrv_getinfo(API_VERSION, node, service, flags, NULL,
				   &info), 0);
	cr_expect_str_eq(source(info), want);
	fi_freeinfo(info);
}

Test(info_shm, listens_on_loopback_or_where_asked)
{
	expect_source(NULL, NULL, 0, "127.0.0.1:0");
	expect_source(NULL, "5000", FI_SOURCE, "127.0.0.1:5000");
	expect_source("127.0.0.7", "5000", FI_SOURCE, "127.0.0.7:5000");
	expect_source("10.1.2.3", "5000", 0, "127.0.0.1:0");
	setenv("FI_TAGRV_IFACE", "127.0.0.9", 1);
	expect_source(NULL, NULL, 0, "127.0.0.9:0");
}

Test(info_shm, transports_exclude_it)
{
	struct fi_info *info;

	setenv("FI_TAGRV_TRANSPORTS", "verbs", 1);
	cr_expect_eq(api_getinfo(NULL, &info), -FI_ENODATA);
}

Test(info_shm, words_can_be_combined)
{
	struct fi_info *info;

	setenv("FI_TAGRV_DEVICES", "loop,shm", 1);
	info = api_must_getinfo(NULL);
	cr_assert_not_null(info->next);
	cr_expect_null(info->next->next);
	fi_freeinfo(info);
}

#ifdef HAVE_VERBS
static char names[256];

/* The names of the domains offered with these capabilities, in order. */
static const char *offered_with(const struct fi_info *hints, uint64_t caps)
{
	struct fi_info *info;

	names[0] = '\0';
	if (api_getinfo(hints, &info))
		return names;
	for (const struct fi_info *one = info; one; one = one->next) {
		if ((one->caps & caps) != caps)
			continue;
		cr_expect_eq(one->tx_attr->caps & caps, caps);
		strcat(names, one->domain_attr->name);
		strcat(names, " ");
	}
	fi_freeinfo(info);
	return names;
}

static const char *offered(const char *devices)
{
	if (devices)
		setenv("FI_TAGRV_DEVICES", devices, 1);
	else
		unsetenv("FI_TAGRV_DEVICES");
	return offered_with(NULL, 0);
}

Test(info_shm, comes_after_the_devices)
{
	struct fake_verbs_config config = fake_verbs_defaults();
	const char *text;

	config.devices = 2;
	fake_verbs_start(&config);
	api_log_start("warn");
	cr_expect_str_eq(offered(NULL), "fake0 fake1 shm ");
	cr_expect_str_eq(offered("fake1"), "fake1 ");
	cr_expect_str_eq(offered("shm,fake1"), "fake1 shm ");
	cr_expect_str_eq(offered("shm"), "shm ");
	setenv("FI_TAGRV_TRANSPORTS", "shm", 1);
	cr_expect_str_eq(offered(NULL), "shm ");
	cr_expect_eq(api_log_lines(&text), 0, "%s", text);
	tagrv_info_cleanup();
	fake_verbs_stop();
}

Test(info_shm, atomics_by_the_device_need_a_device_that_has_them)
{
	struct fake_verbs_config config = fake_verbs_defaults();
	struct fi_info *hints = api_hints(), *info;

	hints->caps = FI_ATOMIC;
	hints->domain_attr->mr_mode = FI_MR_ALLOCATED;
	fake_verbs_start(&config);
	unsetenv("FI_TAGRV_DEVICES");
	cr_expect_str_eq(offered_with(NULL, FI_ATOMIC), "fake0 fake1 shm ");
	setenv("FI_TAGRV_ATOMICS", "device", 1);
	cr_expect_str_eq(offered_with(hints, FI_ATOMIC), "fake0 fake1 ");
	cr_expect_str_eq(offered(NULL), "fake0 fake1 shm ");
	hints->caps = 0;
	cr_expect_str_eq(offered_with(hints, FI_ATOMIC), "fake0 fake1 ");
	cr_expect_str_eq(offered_with(hints, 0), "fake0 fake1 shm ");
	hints->caps = FI_ATOMIC;
	setenv("FI_TAGRV_SRQ", "no", 1);
	tagrv_info_rescan();
	cr_expect_str_eq(offered_with(hints, FI_ATOMIC), "");
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	setenv("FI_TAGRV_ATOMICS", "cpu", 1);
	cr_expect_str_eq(offered_with(hints, FI_ATOMIC), "fake0 fake1 shm ");
	tagrv_info_cleanup();
	fake_verbs_stop();
	config.no_atomics = true;
	fake_verbs_start(&config);
	setenv("FI_TAGRV_ATOMICS", "device", 1);
	unsetenv("FI_TAGRV_SRQ");
	cr_expect_str_eq(offered_with(hints, FI_ATOMIC), "");
	tagrv_info_cleanup();
	fake_verbs_stop();
	fi_freeinfo(hints);
}

/* Pages of regions may change without FI_MR_ALLOCATED, and devices would not notice. */
Test(info_shm, atomics_by_the_device_need_memory_that_stays)
{
	static const struct { int mode; bool offered; } modes[] = {
		{ 0, false }, { FI_MR_VIRT_ADDR | FI_MR_PROV_KEY, false },
		{ TAGRV_MR_SCALABLE, false }, { TAGRV_MR_BASIC, true },
		{ FI_MR_ALLOCATED, true }, { FI_MR_ALLOCATED | FI_MR_LOCAL, true },
	};
	struct fake_verbs_config config = fake_verbs_defaults();
	struct fi_info *hints = api_hints();

	fake_verbs_start(&config);
	unsetenv("FI_TAGRV_DEVICES");
	hints->caps = FI_ATOMIC;
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(modes); i++) {
		hints->domain_attr->mr_mode = modes[i].mode;
		setenv("FI_TAGRV_ATOMICS", "device", 1);
		cr_expect_str_eq(offered_with(hints, FI_ATOMIC),
				 modes[i].offered ? "fake0 fake1 " : "", "mode %zu", i);
		setenv("FI_TAGRV_ATOMICS", "cpu", 1);
		cr_expect_str_eq(offered_with(hints, FI_ATOMIC), "fake0 fake1 shm ");
	}
	setenv("FI_TAGRV_ATOMICS", "device", 1);
	cr_expect_str_eq(offered_with(NULL, FI_ATOMIC), "");
	tagrv_info_cleanup();
	fake_verbs_stop();
	fi_freeinfo(hints);
}

/* FI_RESCAN must not be served from the list that is kept for a second. */
Test(info_shm, rescan_asks_the_transports_again)
{
	struct fake_verbs_config config = fake_verbs_defaults();
	struct fi_info *info = NULL;

	for (unsigned i = 1; i <= 2; i++) {
		config.devices = i;
		fake_verbs_start(&config);
		unsetenv("FI_TAGRV_DEVICES");
		cr_assert_eq(tagrv_getinfo(API_VERSION, NULL, NULL,
					   TAGRV_FLAG_RESCAN, NULL, &info), 0);
		cr_expect_str_eq(info->next->domain_attr->name,
				 i == 1 ? "shm" : "fake1");
		fi_freeinfo(info);
		fake_verbs_stop();
	}
	tagrv_info_cleanup();
}
#endif
