/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: node, service and hints to addresses.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/info/info_priv.h"
#include "common/fake_ifaces.h"
#include "unit/api/api_fixture.h"

static void prepare(void)
{
	fake_ifaces_start();
	api_init();
}

TestSuite(info_addr, .init = prepare, .timeout = 30);

static const char *text(const void *raw, size_t len)
{
	static char buf[4][TAGRV_ADDR_STRLEN];
	static int next;
	struct tagrv_addr addr;

	if (!raw)
		return "-";
	cr_assert_eq(tagrv_addr_from(&addr, raw, len), 0);
	next = (next + 1) % 4;
	return tagrv_addr_str(&addr, buf[next], sizeof(buf[next]));
}

static const struct {
	const char *node, *service;
	uint64_t flags;
	const char *src, *dest;		/* src NULL: -FI_ENODATA */
} calls[] = {
	{ NULL, NULL, 0, "127.0.0.1:0", "-" },
	{ NULL, NULL, FI_SOURCE, "127.0.0.1:0", "-" },
	{ "127.0.0.1", NULL, FI_SOURCE, "127.0.0.1:0", "-" },
	{ "127.0.0.3", "5000", FI_SOURCE, "127.0.0.3:5000", "-" },
	{ "localhost", "5000", FI_SOURCE, "127.0.0.1:5000", "-" },
	{ "0.0.0.0", "5000", FI_SOURCE, "0.0.0.0:5000", "-" },
	{ NULL, "5000", FI_SOURCE, "127.0.0.1:5000", "-" },
	{ "127.0.0.1", "5000", 0, "127.0.0.1:0", "127.0.0.1:5000" },
	{ "127.0.0.1", NULL, 0, "127.0.0.1:0", "127.0.0.1:0" },
	{ "203.0.113.7", "5000", FI_NUMERICHOST, "127.0.0.1:0",
	  "203.0.113.7:5000" },
	{ "203.0.113.7", "5000", FI_SOURCE, NULL, NULL },
	{ "300.1.2.3", "5000", 0, NULL, NULL },
	{ "localhost", NULL, FI_SOURCE | FI_NUMERICHOST, NULL, NULL },
	{ "not a name", NULL, FI_SOURCE | FI_NUMERICHOST, NULL, NULL },
	{ NULL, "no such service", FI_SOURCE, NULL, NULL },
};

static void check_call(size_t i, const struct fi_info *hints)
{
	struct fi_info *info = NULL;
	int ret;

	ret = tagrv_getinfo(API_VERSION, calls[i].node, calls[i].service,
			    calls[i].flags, hints, &info);
	cr_expect_eq(ret, calls[i].src ? 0 : -FI_ENODATA, "call %zu", i);
	if (ret)
		return;
	cr_expect_str_eq(text(info->src_addr, info->src_addrlen), calls[i].src,
			 "call %zu", i);
	cr_expect_str_eq(text(info->dest_addr, info->dest_addrlen),
			 calls[i].dest, "call %zu", i);
	cr_expect_eq(info->addr_format, FI_SOCKADDR_IN);
	fi_freeinfo(info);
}

Test(info_addr, node_and_service_become_addresses)
{
	struct fi_info *hints = api_hints();

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(calls); i++) {
		check_call(i, NULL);
		hints->addr_format = FI_SOCKADDR;
		check_call(i, hints);
		hints->addr_format = FI_SOCKADDR_IN;
		check_call(i, hints);
	}
	fi_freeinfo(hints);
}

static bool have_ipv6(void)
{
	struct tagrv_addr addr = { .in6.sin6_family = AF_INET6 };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool have;

	addr.in6.sin6_addr = in6addr_loopback;
	have = fd >= 0 && !bind(fd, &addr.sa, sizeof(addr.in6));
	if (fd >= 0)
		close(fd);
	return have;
}

Test(info_addr, ipv6_by_format_and_by_address)
{
	struct fi_info *hints = api_hints(), *info = NULL;

	if (!have_ipv6()) {
		fi_freeinfo(hints);
		cr_skip_test("no IPv6 on this host");
	}
	hints->addr_format = FI_SOCKADDR_IN6;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->addr_format, FI_SOCKADDR_IN6);
	cr_expect_eq(info->src_addrlen, sizeof(struct sockaddr_in6));
	cr_expect_str_eq(text(info->src_addr, info->src_addrlen), "[::1]:0");
	fi_freeinfo(info);
	cr_assert_eq(tagrv_getinfo(API_VERSION, "::1", "5000", FI_SOURCE, NULL,
				   &info), 0);
	cr_expect_str_eq(text(info->src_addr, info->src_addrlen),
			 "[::1]:5000");
	fi_freeinfo(info);
	cr_expect_eq(tagrv_getinfo(API_VERSION, "127.0.0.1", "5000", FI_SOURCE,
				   hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

Test(info_addr, other_formats_are_refused)
{
	struct fi_info *hints = api_hints(), *info;

	hints->addr_format = FI_ADDR_STR;
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	hints->addr_format = FI_SOCKADDR_IB;
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

static void hint_addr(void **addr, size_t *len, const char *ip, uint16_t port)
{
	struct sockaddr_in *in = calloc(1, sizeof(*in));

	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	inet_pton(AF_INET, ip, &in->sin_addr);
	*addr = in;
	*len = sizeof(*in);
}

Test(info_addr, addresses_of_the_hints_are_kept)
{
	struct fi_info *hints = api_hints(), *info;

	hint_addr(&hints->src_addr, &hints->src_addrlen, "127.0.0.5", 77);
	hint_addr(&hints->dest_addr, &hints->dest_addrlen, "127.0.0.6", 88);
	info = api_must_getinfo(hints);
	cr_expect_str_eq(text(info->src_addr, info->src_addrlen),
			 "127.0.0.5:77");
	cr_expect_str_eq(text(info->dest_addr, info->dest_addrlen),
			 "127.0.0.6:88");
	fi_freeinfo(info);
	cr_assert_eq(tagrv_getinfo(API_VERSION, "127.0.0.7", "99", FI_SOURCE,
				   hints, &info), 0);
	cr_expect_str_eq(text(info->src_addr, info->src_addrlen),
			 "127.0.0.7:99", "the call comes before the hints");
	cr_expect_str_eq(text(info->dest_addr, info->dest_addrlen),
			 "127.0.0.6:88");
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* ---- interfaces ---- */

/* Loopback, which every host has. */
static void add_loopback(void)
{
	fake_ifaces_add("lo", "127.0.0.1", IFF_UP | IFF_RUNNING | IFF_LOOPBACK);
	fake_ifaces_add("lo", "::1", IFF_UP | IFF_RUNNING | IFF_LOOPBACK);
}

/* The source that fi_getinfo gives a device without an address. */
static const char *default_source(const char *node)
{
	struct tagrv_device_desc desc = { .name = "dev0" };
	struct tagrv_ask ask = { 0 };
	struct tagrv_addr src;

	tagrv_param_read(&ask.params);
	if (tagrv_info_resolve(&ask, node, NULL))
		return "-";
	cr_assert_eq(tagrv_info_source(&ask, &desc, &src), 0);
	return text(&src, 0);
}

Test(info_addr, an_interface_with_carrier_comes_first)
{
	add_loopback();
	fake_ifaces_add("idle0", "172.17.0.1", IFF_UP);
	fake_ifaces_add("off0", "10.9.9.9", IFF_RUNNING);
	fake_ifaces_add("eth0", "10.0.0.1", IFF_UP | IFF_RUNNING);
	fake_ifaces_add("eth1", "10.0.0.2", IFF_UP | IFF_RUNNING);
	cr_expect_str_eq(default_source(NULL), "10.0.0.1:0");
	fake_ifaces_keep(3);
	cr_expect_str_eq(default_source(NULL), "172.17.0.1:0",
			 "better than loopback");
}

Test(info_addr, the_default_route_comes_first_and_a_bridge_never)
{
	add_loopback();
	fake_ifaces_add("docker0", "172.17.0.1", IFF_UP | IFF_RUNNING);
	fake_ifaces_be_bridge("docker0");
	cr_expect_str_eq(default_source(NULL), "127.0.0.1:0");
	fake_ifaces_add("usb0", "169.254.3.1", IFF_UP | IFF_RUNNING);
	cr_expect_str_eq(default_source(NULL), "127.0.0.1:0");
	fake_ifaces_add("eth0", "10.0.0.1", IFF_UP | IFF_RUNNING);
	fake_ifaces_add("eth1", "10.0.0.2", IFF_UP | IFF_RUNNING);
	cr_expect_str_eq(default_source(NULL), "10.0.0.1:0");
	fake_ifaces_routes("eth1\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n",
			   "");
	cr_expect_str_eq(default_source(NULL), "10.0.0.2:0");
	setenv("FI_TAGRV_IFACE", "docker0", 1);
	cr_expect_str_eq(default_source(NULL), "172.17.0.1:0", "the user named it");
}

Test(info_addr, a_host_with_ipv6_only_uses_it)
{
	add_loopback();
	cr_expect_str_eq(default_source(NULL), "127.0.0.1:0");
	fake_ifaces_add("eth0", "fe80::1", IFF_UP | IFF_RUNNING);
	cr_expect_str_eq(default_source(NULL), "127.0.0.1:0");
	fake_ifaces_add("eth0", "2001:db8::1", IFF_UP | IFF_RUNNING);
	cr_expect_str_eq(default_source(NULL), "[2001:db8::1]:0");
	cr_expect_str_eq(default_source("192.0.2.1"), "127.0.0.1:0",
			 "the destination decides");
	fake_ifaces_add("eth1", "10.0.0.1", IFF_UP | IFF_RUNNING);
	cr_expect_str_eq(default_source(NULL), "10.0.0.1:0");
	cr_expect_str_eq(default_source("2001:db8::7"), "[2001:db8::1]:0");
}

Test(info_addr, iface_says_which_family)
{
	struct tagrv_addr src;

	add_loopback();
	fake_ifaces_add("eth0", "10.0.0.1", IFF_UP | IFF_RUNNING);
	fake_ifaces_add("six0", "fe80::1", IFF_UP | IFF_RUNNING);
	fake_ifaces_add("six0", "2001:db8::1", IFF_UP | IFF_RUNNING);
	setenv("FI_TAGRV_IFACE", "six0", 1);
	cr_expect_str_eq(default_source(NULL), "[2001:db8::1]:0");
	cr_assert_eq(tagrv_info_default_source("loop", FI_SOCKADDR, &src), 0);
	cr_expect_str_eq(text(&src, 0), "[2001:db8::1]:0");
	setenv("FI_TAGRV_IFACE", "eth0", 1);
	cr_expect_str_eq(default_source(NULL), "10.0.0.1:0");
	if (!have_ipv6())
		cr_skip_test("no IPv6 on this host");
	setenv("FI_TAGRV_IFACE", "::1", 1);
	cr_expect_str_eq(default_source(NULL), "[::1]:0");
}

static int ask_for_nowhere(const struct fi_info *hints)
{
	struct fi_info *info = NULL;

	return tagrv_getinfo(API_VERSION, "300.1.2.3", "5000", FI_NUMERICHOST,
			     hints, &info);
}

/* A node may be a name that only another provider understands. */
Test(info_addr, an_unknown_node_is_a_warning_for_a_chosen_provider)
{
	struct fi_info *hints = api_hints();
	const char *log;

	api_log_start("warn");		/* with FI_PROVIDER=tcp */
	cr_expect_eq(ask_for_nowhere(hints), -FI_ENODATA);
	cr_expect_eq(api_log_lines(&log), 0, "%s", log);
	hints->fabric_attr->prov_name = strdup("tagrv");
	cr_expect_eq(ask_for_nowhere(hints), -FI_ENODATA);
	cr_expect_eq(api_log_lines(&log), 1, "%s", log);
	cr_expect_not_null(strstr(log, "node 300.1.2.3, service 5000"), "%s",
			   log);
	fi_freeinfo(hints);
}

Test(info_addr, a_wrong_iface_is_logged_once)
{
	const char *log;

	api_log_start("warn");
	setenv("FI_TAGRV_IFACE", "no-such-if", 1);
	for (int i = 0; i < 3; i++)
		cr_expect_str_eq(default_source(NULL), "-");
	cr_expect_eq(api_log_lines(&log), 1, "%s", log);
	cr_expect_not_null(strstr(log, "no-such-if"), "%s", log);
}

/* ---- sources of devices ---- */

static void device_ask(struct tagrv_ask *ask, struct tagrv_device_desc *desc,
		       const char *ip)
{
	*ask = (struct tagrv_ask) { .family = AF_INET };
	tagrv_param_read(&ask->params);
	*desc = (struct tagrv_device_desc) { .name = "dev0" };
	desc->addr.in.sin_family = AF_INET;
	inet_pton(AF_INET, ip, &desc->addr.in.sin_addr);
}

static const char *source_text(const struct tagrv_ask *ask,
			       const struct tagrv_device_desc *desc)
{
	struct tagrv_addr src;

	cr_assert_eq(tagrv_info_source(ask, desc, &src), 0);
	return text(&src, 0);
}

Test(info_addr, the_device_has_its_own_address)
{
	struct tagrv_device_desc desc;
	struct tagrv_ask ask;

	device_ask(&ask, &desc, "10.1.2.3");
	cr_expect_str_eq(source_text(&ask, &desc), "10.1.2.3:0");
	ask.src_port = 4711;
	cr_expect_str_eq(source_text(&ask, &desc), "10.1.2.3:4711");
	ask.dest.in.sin_family = AF_INET;
	ask.dest.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_expect_str_eq(source_text(&ask, &desc), "127.0.0.1:4711",
			 "a peer on loopback is reached from loopback");
}

/* As InfiniBand ports have them. */
Test(info_addr, a_device_without_address_has_that_of_its_interface)
{
	struct tagrv_device_desc desc = { .name = "dev0", .iface = "ib0" };
	struct tagrv_ask ask = { .family = AF_INET };

	tagrv_param_read(&ask.params);
	add_loopback();
	fake_ifaces_add("eth0", "10.0.0.1", IFF_UP | IFF_RUNNING);
	cr_expect_str_eq(source_text(&ask, &desc), "10.0.0.1:0", "not here");
	fake_ifaces_add("ib0", "169.254.7.7", IFF_UP | IFF_RUNNING);
	cr_expect_str_eq(source_text(&ask, &desc), "10.0.0.1:0", "of no use");
	fake_ifaces_add("ib0", "10.7.0.1", IFF_UP | IFF_RUNNING);
	fake_ifaces_add("ib0", "2001:db8:7::1", IFF_UP | IFF_RUNNING);
	cr_expect_str_eq(source_text(&ask, &desc), "10.7.0.1:0");
	ask.family = AF_INET6;
	cr_expect_str_eq(source_text(&ask, &desc), "[2001:db8:7::1]:0");
}

static const char *source_with_iface(const char *iface, const char *service)
{
	struct fi_info *info = NULL;
	const char *found;
	int ret;

	setenv("FI_TAGRV_IFACE", iface, 1);
	ret = tagrv_getinfo(API_VERSION, NULL, service, FI_SOURCE, NULL, &info);
	found = ret ? fi_strerror(-ret) : text(info->src_addr,
					       info->src_addrlen);
	fi_freeinfo(info);
	return found;
}

Test(info_addr, iface_names_an_address_or_an_interface)
{
	add_loopback();
	cr_expect_str_eq(source_with_iface("127.0.0.9", NULL), "127.0.0.9:0");
	cr_expect_str_eq(source_with_iface("lo", NULL), "127.0.0.1:0");
	cr_expect_str_eq(source_with_iface("lo", "5000"), "127.0.0.1:5000");
	cr_expect_str_eq(source_with_iface("no-such-if", NULL),
			 fi_strerror(FI_ENODATA));
	cr_expect_str_eq(source_with_iface("203.0.113.7", NULL),
			 fi_strerror(FI_ENODATA), "not of this host");
}

Test(info_addr, an_endpoint_without_source_follows_iface)
{
	struct tagrv_addr src;

	setenv("FI_TAGRV_IFACE", "127.0.0.9", 1);
	cr_assert_eq(tagrv_info_default_source("loop", FI_SOCKADDR_IN, &src),
		     0);
	cr_expect_str_eq(text(&src, 0), "127.0.0.9:0");
	setenv("FI_TAGRV_IFACE", "no-such-if", 1);
	cr_expect_eq(tagrv_info_default_source("loop", FI_SOCKADDR_IN, &src),
		     -FI_ENODATA);
}
